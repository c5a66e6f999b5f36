"""uvicorn with our limits, the events of new readings, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from accous.service.app import App
from accous.service.protocol import limited_protocol
from accous.service.readings import Reading
from accous.service.service import Service, Throughput
from accous.service.settings import Settings

__all__ = ["Server", "events_of"]

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
        app = App(service)
        config = uvicorn.Config(
            app,
            loop="uvloop" if sys.platform != "win32" else "asyncio",
            http=limited_protocol(settings.limits, app),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )
        self._server = _EndingServer(config, self._begin_to_end)

    def run_on(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        """Run until a signal comes and all requests are answered."""
        factory = self._server.config.get_loop_factory()
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(self._run(sock, on_ready))

    async def _run(self, sock: socket.socket, on_ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        if self._service.readings is not None:
            self._add_events(self._service.readings.latest, None)
        serving = asyncio.ensure_future(self._server.serve([sock]))
        telling = asyncio.ensure_future(self._tell_activity())
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if not serving.done():
            self._service.is_ready = True
            on_ready()
        try:
            await serving
        finally:
            telling.cancel()

    async def _tell_activity(self) -> None:
        """Tell those who watch what goes on, also while nothing does."""
        service = self._service
        throughput = Throughput(service.counts)
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_ACTIVITY)
            found = throughput()
            if service.events.has_followers and service.learner is not None:
                service.events.tell("activity", found | {"waiting": service.learner.n_waiting})

    def publish(self, reading: Reading, before: Reading | None) -> None:
        """Take a new reading; called in the thread that took it."""
        n_rows = reading.subject.history.totals()["n_rows"]
        self._service.metrics.take_state(reading.state, n_rows)
        if self._loop is not None and before is not None:
            try:
                self._loop.call_soon_threadsafe(self._add_events, reading, before)
            except RuntimeError:  # the event loop has ended
                return

    def _add_events(self, reading: Reading, before: Reading | None) -> None:
        self._service.events.add(reading.n_records, events_of(reading, before))

    def _begin_to_end(self) -> None:
        self._service.is_ready = False
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._service.events.close)


class _EndingServer(uvicorn.Server):
    """Says when it begins to end, so that streams without an end do not hold it up, and leaves the rest to us.

    uvicorn itself would raise the signal again when it is done, which ends the process before the learner has saved.
    """

    def __init__(self, config: uvicorn.Config, on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_end = on_end

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take Ctrl-C and SIGTERM as requests to end."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to end; a second Ctrl-C does not wait for open requests."""
        self._on_end()
        super().handle_exit(sig, frame)


def events_of(reading: Reading, before: Reading | None) -> list[tuple[str, Any]]:
    """Return what is new in a reading: changes of the inputs, another verdict, and the reading itself."""
    state = reading.state
    found: list[tuple[str, Any]] = []
    if before is not None:
        since = before.state["rounds"]
        found += [
            ("drift", {"round": event.round, "kind": event.kind, "columns": list(event.features), "size": event.size})
            for event in reading.subject.events
            if event.round > since
        ]
        if state["trust"] != before.state["trust"]:
            change = {"from": before.state["trust"], "to": state["trust"], "reason": state["trust_reason"]}
            found.append(("verdict", {"rounds": state["rounds"], **change}))
    return [*found, ("reading", {name: state.get(name) for name in _SHOWN})]
