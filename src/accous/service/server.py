"""The server: sockets, uvicorn, workers, and the start and end of it all."""

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
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import polars as pl
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from accous.checkpoint.files import MANIFEST_NAME, exclusive_lock
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.service.app import Service, make_app
from accous.service.bodies import BatchReader, Limits
from accous.service.interface import Gate, Tokens, read_token_file
from accous.service.learner import Learner, OwnedModel, open_owned, prepare_to_predict
from accous.service.live import Metrics, Reading, ReadingTimer
from accous.table.model import load_table_model
from accous.table.options import ServeOptions
from accous.text import LOGGER

# --- Sockets


_LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")


def name_of(model: Path) -> str:
    """Return the name of a model in addresses."""
    return model.resolve().name or "model"


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


# What is still answered to who sends no more has so long to begin.
_HALF_CLOSED_SECONDS = 1.0


class Connections:
    """The connections of a server, by the address of the client.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    """

    def __init__(self, app: Any, limits: Limits) -> None:
        self._app, self.limits = app, limits
        self.by_client: dict[Any, _Connection] = {}

    def __len__(self) -> int:
        return len(self.by_client)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; its head has arrived."""
        connection = self.by_client.get(scope["client"])
        if connection is None:  # the client has gone
            return await self._app(scope, receive, send)
        connection.begin()
        try:
            await self._app(scope, receive, send)
        finally:
            connection.end()

    def protocol(self, **arguments: Any) -> asyncio.Protocol:
        """Return uvicorn's protocol for a new connection, with a deadline of ours."""
        return _Connection(self, H11Protocol(**arguments))

    async def close_late(self) -> None:
        """Close those whose next request is late, for as long as the server runs."""
        while True:
            await asyncio.sleep(min(1.0, self.limits.head_seconds))
            for each in list(self.by_client.values()):
                each.close_if_late()


class _Connection(asyncio.Protocol):
    """Leaves everything to uvicorn, but closes a connection whose next request is late."""

    def __init__(self, connections: Connections, inner: asyncio.Protocol) -> None:
        self._connections, self._inner = connections, inner
        for name in ("data_received", "pause_writing", "resume_writing"):
            setattr(self, name, getattr(inner, name))
        limits, self._loop = connections.limits, asyncio.get_running_loop()
        self._n_open, self._seconds_between = 0, limits.head_seconds + limits.idle_seconds
        self._deadline = self._loop.time() + limits.head_seconds

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        client = transport.get_extra_info("peername")  # None if it has gone already
        self._client = tuple(client[:2]) if client else id(self)
        self._connections.by_client[self._client] = self
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.by_client.pop(self._client, None)
        self._inner.connection_lost(exc)

    def eof_received(self) -> bool:
        """Stay if a response is due: whoever sends no more may still read it."""
        self._seconds_between = _HALF_CLOSED_SECONDS
        self._deadline = self._loop.time() + _HALF_CLOSED_SECONDS
        return True

    def begin(self) -> None:
        """Note that a request is being answered."""
        self._n_open += 1

    def end(self) -> None:
        """Note that it is; what comes next is the head of another."""
        self._n_open -= 1
        self._deadline = self._loop.time() + self._seconds_between

    def close_if_late(self) -> None:
        """Close unless a request is being answered, or there is still time for one."""
        if not self._n_open and self._deadline < self._loop.time():
            self._transport.close()


# --- uvicorn with our limits, the events of new readings, and an orderly end


_DRAIN_SECONDS = 30
_SHOWN = ("rounds", "rows", "state", "alarm", "metric", "value", "low", "high", "basis", "at_fit", "n_labels")


class Server:
    """uvicorn with our limits and an end that waits for the learner.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._loop: asyncio.AbstractEventLoop | None = None
        connections = self._connections = Connections(make_app(service), service.limits)
        service.n_connections = connections.__len__
        config = uvicorn.Config(
            connections,
            loop="uvloop" if sys.platform != "win32" else "asyncio",
            # h11 bounds heads and trailers, and keeps both apart; httptools bounds neither.
            http=connections.protocol,  # type: ignore[arg-type]
            h11_max_incomplete_event_size=service.limits.head_bytes,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="error",  # it warns of whatever strangers send
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=service.limits.idle_seconds,
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
        closing = asyncio.ensure_future(self._connections.close_late())
        serving = asyncio.ensure_future(self._server.serve([sock]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        # In the place of uvicorn's own: it would raise the signal again at its end, before the learner has saved.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._begin_to_end)
        if not serving.done():
            self._service.is_ready = True
            on_ready()
        await serving
        closing.cancel()

    def _begin_to_end(self) -> None:
        """Take no more requests, and end the streams; a second signal does not wait for open requests."""
        self._service.is_ready = False
        self._service.events.close()
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = True

    def publish(self, reading: Reading, before: Reading | None) -> None:
        """Take a new reading; called in the thread that took it."""
        self._service.metrics.take_state(reading.state)
        if self._loop is not None and before is not None:
            try:
                self._loop.call_soon_threadsafe(self._add_events, reading, before)
            except RuntimeError:  # the event loop has ended
                return

    def _add_events(self, reading: Reading, before: Reading | None) -> None:
        self._service.events.add(reading.n_records, events_of(reading, before))


def events_of(reading: Reading, before: Reading | None) -> list[tuple[str, Any]]:
    """Return what is new in a reading: changes of the inputs, state, alarm, what was learned, and the reading."""
    state = reading.state
    found: list[tuple[str, Any]] = []
    if before is not None:
        since = before.state["rounds"]
        found += [("drift", each) for each in state["drift"]["events"] if each["round"] > since]
        if before.state["state"] not in (None, state["state"]):
            change = {"from": before.state["state"], "to": state["state"], "reasons": state["reasons"]}
            found.append(("state", {"rounds": state["rounds"], **change}))
        if state["alarm"] and not before.state["alarm"]:
            found.append(("alarm", {"rounds": state["rounds"], "since": state["alarm_since"]}))
        n_learned, n_before = ((each["learning"] or {"labels": 0})["labels"] for each in (state, before.state))
        if n_learned not in (0, n_before):
            found.append(("learned", {"rounds": state["rounds"], **state["learning"]["events"][-1]}))
    return [*found, ("reading", {name: state[name] for name in _SHOWN})]


# --- Workers: processes that only predict, from the last save of the process that learns


_SECONDS_BETWEEN_LOOKS, _SECONDS_BEFORE_RESTART = 0.25, 1.0


class FollowedModel:
    """The last save of a folder that the parent process writes to; each answer comes from one save as a whole.

    If the parent ends, so does this process.

    Parameters
    ----------
    options : ServeOptions
    limits : Limits
    """

    def __init__(self, options: ServeOptions, limits: Limits) -> None:
        self._options, self._limits = options, limits
        self._seen, self._reader = self._mark(), self._load()
        threading.Thread(target=self._follow, name="follower", daemon=True).start()

    def reader(self) -> BatchReader:
        """Return the reader of the model to predict with."""
        return self._reader

    def _follow(self) -> None:
        parent = multiprocessing.parent_process()
        while parent is None or parent.is_alive():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            try:
                mark = self._mark()
                if mark != self._seen:
                    self._reader, self._seen = self._load(), mark
            except (Exception, pl.exceptions.PanicException):
                LOGGER.exception("The model cannot be loaded again: the one before stays")
        os.kill(os.getpid(), signal.SIGTERM)

    def _mark(self) -> tuple[int, int]:
        found = (self._options.model / MANIFEST_NAME).stat()
        return found.st_mtime_ns, found.st_ino

    def _load(self) -> BatchReader:
        table_model = load_table_model(self._options.model, self._options.estimator)
        prepare_to_predict(table_model)
        return BatchReader(table_model, self._limits)


def run_worker(options: ServeOptions, limits: Limits, gate: Gate, sock: socket.socket) -> None:
    """Serve predictions until a signal comes or the process that learns is gone."""
    followed = FollowedModel(options, limits)
    service = Service(name=name_of(options.model), reader=followed.reader, limits=limits, gate=gate, metrics=Metrics())
    Server(service).run_on(sock, lambda: None)


class Workers:
    """Processes with one target, each of which is started again if it ends by itself.

    Parameters
    ----------
    n_workers : int
    *arguments
        Of `run_worker`.
    """

    def __init__(self, n_workers: int, *arguments: Any) -> None:
        self._arguments = arguments
        self._processes = [self._spawn() for _ in range(n_workers)]
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="workers", daemon=True)
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
        spawning = multiprocessing.get_context("spawn")
        process = spawning.Process(target=run_worker, args=self._arguments, name="accous worker")
        process.start()
        return process

    def _watch(self) -> None:
        while not self._is_stopping.wait(_SECONDS_BEFORE_RESTART):
            for place, process in enumerate(self._processes):
                if not process.is_alive():
                    LOGGER.error("A worker ended with code %s: another one starts", process.exitcode)
                    self._processes[place] = self._spawn()


# --- Runs a service: lock, model, learner, readings, workers and server, and their orderly end


OnReady = Callable[[OwnedModel, list[str]], None]
# A thread that learns must not keep the event loop waiting for long.
_SWITCH_SECONDS = 0.0005


def serve(options: ServeOptions, on_ready: OnReady, limits: Limits | None = None) -> None:
    """Serve a model until a signal ends it.

    Parameters
    ----------
    options : ServeOptions
    on_ready : callable
        Called with the model and the addresses when requests are welcome: the service's own, and that of the workers.
    limits : Limits, optional
        Those of the options if not given.

    Raises
    ------
    CheckpointError
        If the folder cannot be used, or the model could not be saved at the end.
    """
    tokens = Tokens() if options.token_file is None else read_token_file(options.token_file)
    if options.host not in _LOOPBACK_ADDRESSES and tokens.is_open:
        raise ParameterError(
            f"--host {options.host} can be reached from other machines: give tokens with --token-file, or serve on "
            "127.0.0.1."
        )
    limits = limits or Limits(body_bytes=int(options.max_body * 2**20), rows=options.max_rows, queue=options.queue)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(options.model, "accous serve"))
            ports = (options.port, options.read_port) if options.workers else (options.port,)
            sockets = [stack.enter_context(listen(options.host, port)) for port in ports]
            owned = open_owned(options.model, limits, options.estimator)
        except OSError as error:
            text = f"{options.model} cannot be served ({error.strerror or error})"
            raise CheckpointError(
                f"{text}: a service needs a folder to which it can write its log and the model."
            ) from None
        stack.callback(owned.log.close)
        sys.setswitchinterval(_SWITCH_SECONDS)
        _run(options, limits, Gate(tokens, (options.host,)), owned, sockets, on_ready)


def _run(
    options: ServeOptions, limits: Limits, gate: Gate, owned: OwnedModel, sockets: list[socket.socket],
    on_ready: OnReady,
) -> None:  # fmt: skip
    """Serve a model that is loaded, on sockets that are open."""
    metrics, name = Metrics(), name_of(options.model)
    save_seconds = options.save_seconds or (2.0 if options.workers else 60.0)
    learner = Learner(owned, limits, metrics, save_batches=options.save_batches, save_seconds=save_seconds)
    service = Service(
        name=name,
        reader=lambda: owned.executor.reader,
        limits=limits,
        gate=gate,
        metrics=metrics,
        learner=learner,
        learns_first=options.learn_first,
    )
    server = Server(service)
    service.readings = ReadingTimer(owned.table_model, name, lambda: learner.n_done, server.publish)
    gc.freeze()  # what is loaded stays: the collector need not look at it again
    with ExitStack() as ending:  # in the opposite order
        ending.callback(learner.stop)
        learner.start()
        ending.callback(service.readings.stop)
        service.readings.start()
        if options.workers:
            ending.callback(Workers(options.workers, options, limits, gate, sockets[1]).stop)
        server.run_on(sockets[0], lambda: on_ready(owned, list(map(address_of, sockets))))
