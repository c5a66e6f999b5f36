"""The server: settings and sockets, uvicorn, workers, and the start and end of it all."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from accous.checkpoint.files import MANIFEST_NAME, exclusive_lock
from accous.exceptions import AccousError, CheckpointError, DataError, ParameterError
from accous.service.app import Served, Service, make_app
from accous.service.auth import Gate, Tokens
from accous.service.bodies import BatchReader, Limits
from accous.service.learner import Learner, OwnedModel, SaveEvery, open_owned
from accous.service.live import Metrics, Reading, ReadingTimer
from accous.table.model import load_table_model
from accous.text import LOGGER

# --- How a model is served, and the sockets for that


_LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a model is served.

    Attributes
    ----------
    model : Path
    host : str
    port : int
        0 takes a free one.
    tokens : Tokens
    limits : Limits
    save_every : SaveEvery
    learns_first : bool
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    workers : int
        Further processes that only predict, on a port of their own.
    read_port : int
        Of the workers; 0 takes a free one.
    """

    model: Path
    host: str = "127.0.0.1"
    port: int = 8321
    tokens: Tokens = field(default_factory=Tokens)
    limits: Limits = field(default_factory=Limits)
    save_every: SaveEvery = field(default_factory=SaveEvery)
    learns_first: bool = False
    estimator: str | None = None
    workers: int = 0
    read_port: int = 8322

    @property
    def name(self) -> str:
        """The model's name in addresses."""
        return self.model.resolve().name or "model"


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach the address."""
    return host in _LOOPBACK_ADDRESSES


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, so that a port that is taken is noticed before the model is loaded."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise DataError(f"Cannot serve on {host} port {port}: {error.strerror or error}.") from None
    return sock


def address_of(sock: socket.socket) -> str:
    """Return the address for browsers and programs."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- Connections: how many there are, and that each sends a request in time, which uvicorn does not ask for


_KEEP_ALIVE_SECONDS = 75
_TOO_SLOW = b'{"error":{"code":"too_slow","message":"The request did not arrive in time."}}'
_TOO_SLOW_RESPONSE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_TOO_SLOW), _TOO_SLOW)
)


class Connections:
    """The connections of a server, by the address of the client.

    Parameters
    ----------
    app : ASGI application
    head_seconds : float
        Time in which the head of a request must arrive.
    """

    def __init__(self, app: Any, head_seconds: float) -> None:
        self._app, self.head_seconds = app, head_seconds
        self.by_client: dict[Any, _Connection] = {}

    def __len__(self) -> int:
        return len(self.by_client)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; its head has arrived."""
        connection = self.by_client.get(scope.get("client"))
        if connection is None:
            await self._app(scope, receive, send)
            return
        connection.begin()

        async def send_on(message: Any) -> None:
            connection.note_sending(has_more=message.get("more_body", False))
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            connection.end()

    def protocol(self, **arguments: Any) -> asyncio.Protocol:
        """Return uvicorn's protocol for a new connection, behind a clock of ours."""
        return _Connection(self, H11Protocol(**arguments))


class _Connection(asyncio.Protocol):
    """Passes on everything between a socket and uvicorn, and closes a connection whose next request is late."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections, self._inner = connections, inner
        self._n_open, self._is_idle, self._is_half_closed = 0, False, False
        self._has_started = False
        self._deadline: asyncio.TimerHandle | None = None
        self._transport: Any = None
        self._client: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        client = transport.get_extra_info("peername")
        self._client = tuple(client[:2]) if client else id(self)
        self._connections.by_client[self._client] = self
        self._inner.connection_made(transport)
        self._set_deadline(self._connections.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.by_client.pop(self._client, None)
        self._clear_deadline()
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_idle:
            self._is_idle = False
            self._set_deadline(self._connections.head_seconds)
        self._inner.data_received(data)

    def eof_received(self) -> bool:
        """Go on while a response is due: whoever sends no more may still read it, but not a stream without end."""
        self._inner.eof_received()
        if self._has_started:
            return False
        self._is_half_closed = True
        asyncio.get_running_loop().call_soon(self._close_if_done)
        return True

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def begin(self) -> None:
        """Note that a request is being answered."""
        self._n_open += 1
        self._clear_deadline()

    def note_sending(self, *, has_more: bool) -> None:
        """Note that the response has begun."""
        self._has_started = True
        if has_more and self._is_half_closed:
            self._transport.close()

    def end(self) -> None:
        """Note that it is; what comes next is the head of another, which may have begun already."""
        self._n_open, self._has_started = self._n_open - 1, False
        if not self._n_open and not self._transport.is_closing():
            self._is_idle = True
            self._set_deadline(_KEEP_ALIVE_SECONDS + self._connections.head_seconds)
            if self._is_half_closed:  # after a request that came along, which begins before this is called
                asyncio.get_running_loop().call_soon(self._close_if_done)

    def _close_if_done(self) -> None:
        if not self._n_open:
            self._transport.close()

    def _set_deadline(self, seconds: float) -> None:
        self._clear_deadline()
        self._deadline = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_TOO_SLOW_RESPONSE)
            self._transport.close()


# --- uvicorn with our limits, the events of new readings, and an orderly end


_DRAIN_SECONDS = 30
_SECONDS_BETWEEN_ACTIVITY = 2.0
_SHOWN = (
    *("rounds", "trust", "estimated_error", "estimated_error_low", "estimated_error_high"),
    "estimated_error_known",
    *("effective_sample_size", "measured_error", "labelled_rows"),
)


class Server:
    """uvicorn with our limits and an end that waits for the learner.

    Parameters
    ----------
    service : Service
    settings : Settings
    """

    def __init__(self, service: Service, settings: Settings) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        connections = Connections(make_app(service), settings.limits.head_seconds)
        service.n_connections = connections.__len__
        config = uvicorn.Config(
            connections,
            loop="uvloop" if sys.platform != "win32" else "asyncio",
            # h11 bounds heads and trailers, and keeps both apart; httptools bounds neither.
            http=connections.protocol,  # type: ignore[arg-type]
            h11_max_incomplete_event_size=settings.limits.head_bytes,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        self._server = uvicorn.Server(config)

    def run_on(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        """Run until a signal comes and all requests are answered."""
        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(self._run(sock, on_ready))

    async def _run(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        loop = self._loop = asyncio.get_running_loop()
        if self._service.readings is not None:
            self._add_events(self._service.readings.latest, None)
        serving = asyncio.ensure_future(self._server.serve([sock]))
        telling = asyncio.ensure_future(self._tell_activity())
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        # In the place of uvicorn's own: it would raise the signal again at its end, before the learner has saved.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._begin_to_end)
        if not serving.done():
            self._service.is_ready = True
            on_ready()
        try:
            await serving
        finally:
            telling.cancel()

    def _begin_to_end(self) -> None:
        """Take no more requests, and end the streams; a second signal does not wait for open requests."""
        self._service.is_ready = False
        self._service.events.close()
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    async def _tell_activity(self) -> None:
        """Tell those who watch what goes on, also while nothing does."""
        service = self._service
        before, at = service.counts(), time.monotonic()
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_ACTIVITY)
            counts, now = service.counts(), time.monotonic()
            found = {name: round((value - before[name]) / (now - at), 1) for name, value in counts.items()}
            before, at = counts, now
            learner = service.learner
            if service.n_streams and learner is not None:
                more = {"waiting": learner.n_pending, "round": service.n_rounds, "rows": learner.n_rows}
                service.events.tell("activity", found | more)

    def publish(self, reading: Reading, before: Reading | None) -> None:
        """Take a new reading; called in the thread that took it."""
        self._service.metrics.take_state(reading.state, reading.view["rows"])
        if self._loop is not None and before is not None:
            try:
                self._loop.call_soon_threadsafe(self._add_events, reading, before)
            except RuntimeError:  # the event loop has ended
                return

    def _add_events(self, reading: Reading, before: Reading | None) -> None:
        self._service.events.add(reading.n_records, events_of(reading, before))


def events_of(reading: Reading, before: Reading | None) -> list[tuple[str, Any]]:
    """Return what is new in a reading: changes of the inputs, another verdict, and the reading itself."""
    state = reading.state
    found: list[tuple[str, Any]] = []
    if before is not None:
        since = before.state["rounds"]
        found += [
            ("drift", {"round": event.round, "kind": event.kind, "columns": list(event.features), "size": event.size})
            for event in reading.source.events
            if event.round > since
        ]
        if state["trust"] != before.state["trust"]:
            change = {"from": before.state["trust"], "to": state["trust"], "reason": state["trust_reason"]}
            found.append(("verdict", {"rounds": state["rounds"], **change}))
    return [*found, ("reading", {name: state.get(name) for name in _SHOWN})]


# --- Workers: processes that only predict, from the last save of the process that learns


_SECONDS_BETWEEN_LOOKS, _SECONDS_BEFORE_RESTART = 0.25, 1.0


class FollowedModel:
    """The last save of a folder that another process writes to; each answer comes from one save as a whole.

    Parameters
    ----------
    folder : Path
    limits : Limits
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """

    def __init__(self, folder: Path, limits: Limits, estimator: str | None = None) -> None:
        self._folder, self._limits, self._estimator = folder, limits, estimator
        self._seen = self._mark()
        self._served = self._load()
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)

    def served(self) -> Served:
        """Return the model to predict with."""
        return self._served

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._is_stopping.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._is_stopping.wait(_SECONDS_BETWEEN_LOOKS):
            try:
                mark = self._mark()
                if mark != self._seen:
                    self._served, self._seen = self._load(), mark
            except (AccousError, OSError):
                LOGGER.exception("The model cannot be loaded again: the one before stays")

    def _mark(self) -> tuple[int, int]:
        found = (self._folder / MANIFEST_NAME).stat()
        return found.st_mtime_ns, found.st_ino

    def _load(self) -> Served:
        table_model = load_table_model(self._folder, self._estimator)
        return Served(table_model, BatchReader(table_model, self._limits))


def run_worker(settings: Settings, sock: socket.socket) -> None:
    """Serve predictions until a signal comes or the process that learns is gone."""
    followed = FollowedModel(settings.model, settings.limits, settings.estimator)
    service = Service(
        name=settings.name,
        served=followed.served,
        limits=settings.limits,
        gate=Gate(settings.tokens, (settings.host,)),
        metrics=Metrics(),
        is_ready=False,
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    followed.start()
    try:
        Server(service, settings).run_on(sock, lambda: None)
    finally:
        followed.stop()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


class Workers:
    """Starts workers on one socket, and starts one again that ends by itself.

    Parameters
    ----------
    settings : Settings
    sock : socket
        Open, for all of them.
    """

    def __init__(self, settings: Settings, sock: socket.socket) -> None:
        self._settings, self._sock = settings, sock
        self._processes: list[SpawnProcess] = []
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)

    def start(self) -> None:
        """Start all."""
        self._processes = [self._spawn() for _ in range(self._settings.workers)]
        self._thread.start()

    def stop(self) -> None:
        """End all, after the requests that they have."""
        self._is_stopping.set()
        self._thread.join()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()

    def _spawn(self) -> SpawnProcess:
        process = multiprocessing.get_context("spawn").Process(
            target=run_worker, args=(self._settings, self._sock), name="accous worker"
        )
        process.start()
        return process

    def _watch(self) -> None:
        while not self._is_stopping.wait(_SECONDS_BEFORE_RESTART):
            for place, process in enumerate(self._processes):
                if not process.is_alive() and not self._is_stopping.is_set():
                    LOGGER.error("A worker ended with code %s: another one starts", process.exitcode)
                    self._processes[place] = self._spawn()


# --- Runs a service: lock, model, learner, readings, workers and server, and their orderly end


OnReady = Callable[[OwnedModel, list[str]], None]
# A thread that learns must not keep the event loop waiting for long.
_SWITCH_SECONDS = 0.0005


def serve(settings: Settings, on_ready: OnReady) -> None:
    """Serve a model until a signal ends it.

    Parameters
    ----------
    settings : Settings
    on_ready : callable
        Called with the model and the addresses when requests are welcome: the service's own, and that of the workers.

    Raises
    ------
    CheckpointError
        If the folder cannot be used, or the model could not be saved at the end.
    """
    if not is_loopback(settings.host) and settings.tokens.is_open:
        raise ParameterError(
            f"--host {settings.host} can be reached from other machines: give tokens with --token-file, or serve on "
            "127.0.0.1."
        )
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(settings.model, "accous serve"))
            sock = stack.enter_context(listen(settings.host, settings.port))
            read_sock = stack.enter_context(listen(settings.host, settings.read_port)) if settings.workers else None
            owned = open_owned(settings.model, settings.limits, settings.estimator)
        except OSError as error:
            text = f"{settings.model} cannot be served ({error.strerror or error})"
            raise CheckpointError(
                f"{text}: a service needs a folder to which it can write its log and the model."
            ) from None
        stack.callback(owned.log.close)
        sys.setswitchinterval(_SWITCH_SECONDS)
        run_owner(settings, owned, sock, read_sock, on_ready)


def run_owner(
    settings: Settings, owned: OwnedModel, sock: socket.socket, read_sock: socket.socket | None, on_ready: OnReady
) -> None:
    """Serve a model that is loaded, on sockets that are open."""
    metrics = Metrics()
    learner = Learner(
        owned, folder=settings.model, limits=settings.limits, save_every=settings.save_every, metrics=metrics
    )
    served = Served(owned.table_model, owned.reader)
    service = Service(
        name=settings.name,
        served=lambda: served,
        limits=settings.limits,
        gate=Gate(settings.tokens, (settings.host,)),
        metrics=metrics,
        learner=learner,
        learns_first=settings.learns_first,
        is_ready=False,
    )
    server = Server(service, settings)
    service.readings = ReadingTimer(
        table_model=owned.table_model,
        name=settings.name,
        n_records=lambda: learner.n_done,
        measured=owned.idempotency.measured,
        on_reading=server.publish,
    )
    gc.freeze()  # what is loaded stays: the collector need not look at it again
    addresses = [address_of(each) for each in (sock, read_sock) if each is not None]
    with ExitStack() as ending:  # in the opposite order
        ending.callback(learner.stop)
        learner.start()
        ending.callback(service.readings.stop)
        service.readings.start()
        if read_sock is not None:
            workers = Workers(settings, read_sock)
            ending.callback(workers.stop)
            workers.start()
        server.run_on(sock, lambda: on_ready(owned, addresses))
