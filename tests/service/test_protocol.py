"""The protocol between a real socket and a small application: what it leaves to a task, and answers that come late."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from accous.service.http import Answer, Limits
from accous.service.learner import Waiting, resolve
from accous.service.server import limited_protocol

HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
LATER, NOW, TASK = (HEAD % path for path in (b"/later", b"/now", b"/task"))


class Application:
    """Answers /now at once, /later when somebody calls what is due, and everything else in a task."""

    def __init__(self) -> None:
        self.due: list[Callable[[Answer], None]] = []
        self.n_at_once = 0
        self.protocol: Any = None
        self.idle_timers: list[Any] = []

    def takes_at_once(self, path: bytes) -> bool:
        return path in (b"/now", b"/later")

    def answer_at_once(self, scope: Any, _body: bytes, reply: Callable[[Answer], None]) -> None:
        self.n_at_once += 1
        if scope["path"] == "/now":
            reply(Answer(b"now"))
        else:
            self.due.append(reply)

    async def __call__(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.idle_timers.append(self.protocol.timeout_keep_alive_task)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"task"})


def talk(talking: Callable[[Application, Any, Any], Any]) -> Application:
    """Run a conversation with an application that is served on the loopback."""
    app: Any = Application()

    def connect() -> Any:
        config = Config(app, lifespan="off", ws="none", log_config=None)
        app.protocol = limited_protocol(Limits(), app)(config, ServerState(), {})
        return app.protocol

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                await talking(app, reader, writer)
            finally:  # the server waits for its connections
                writer.close()
                app.protocol.transport.abort()

    # The loop of the service: asyncio's own forgives a write to a connection that is closed.
    with asyncio.Runner(loop_factory=Config(app, loop="auto").get_loop_factory()) as runner:
        runner.run(run())
    return app


def test_a_piece_with_many_requests_does_not_hold_up_other_clients() -> None:
    async def talking(_app: Any, reader: Any, writer: Any) -> None:
        writer.write(NOW * 40)
        for number in range(40):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(3 if number < 16 else 4) == (b"now" if number < 16 else b"task")
        writer.write(NOW)
        assert (await reader.readuntil(b"now")).startswith(b"HTTP/1.1 200")

    assert talk(talking).n_at_once == 17


def test_a_request_that_goes_on_is_not_idle_because_the_one_before_is_done() -> None:
    async def talking(_app: Any, reader: Any, writer: Any) -> None:
        writer.write(NOW + TASK)
        await reader.readuntil(b"task")

    assert talk(talking).idle_timers == [None]


def test_an_answer_to_a_connection_that_was_refused_meanwhile_is_dropped() -> None:
    async def talking(app: Any, reader: Any, writer: Any) -> None:
        writer.write(LATER + b"nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        app.due[0](Answer(b"late"))

    talk(talking)


def test_an_answer_to_a_client_that_has_gone_with_more_requests_in_line_is_dropped() -> None:
    async def talking(app: Any, _reader: Any, writer: Any) -> None:
        writer.write(LATER + TASK)
        while not app.protocol or not app.protocol.pipeline:
            await asyncio.sleep(0)
        app.protocol.transport.abort()
        await asyncio.sleep(0)
        app.due[0](Answer(b"late"))
        assert app.idle_timers == []

    talk(talking)


def test_an_answer_that_cannot_be_given_holds_up_no_other() -> None:
    given: list[Any] = []

    def fail(_answer: Any) -> None:
        raise RuntimeError("the handler is closed")

    none: Any = None
    first, second = (Waiting(none, none, none, reply) for reply in (fail, given.append))
    resolve([(first, Answer(b"a")), (second, Answer(b"b"))])
    assert given == [Answer(b"b")]


def test_a_deadline_of_the_next_head_waits_for_the_answer_before():
    """A refusal in between would be taken for that answer."""

    async def talking(app: Application, reader: Any, writer: Any) -> None:
        writer.write(LATER + NOW[:20])
        while not app.due:
            await asyncio.sleep(0)
        deadline = app.protocol._deadline
        assert deadline is not None  # the next head has begun
        app.protocol._give_up()
        app.due.pop()(Answer(b"later"))
        assert (await reader.readuntil(b"later")).startswith(b"HTTP/1.1 200")
        app.protocol._give_up()
        assert (await reader.read()).startswith(b"HTTP/1.1 408")

    talk(talking)
