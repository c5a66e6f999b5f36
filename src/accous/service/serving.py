"""Runs a service: lock, model, learner, readings, workers and server, and their orderly end."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from contextlib import ExitStack

from accous.checkpoint.files import exclusive_lock
from accous.exceptions import ParameterError
from accous.service.gate import Gate
from accous.service.learner import Learner
from accous.service.metrics import Metrics
from accous.service.owner import OwnedModel, open_owned
from accous.service.reader import Workers
from accous.service.readings import ReadingTimer
from accous.service.server import Server
from accous.service.service import Served, Service
from accous.service.settings import Settings, address_of, is_loopback, listen

__all__ = ["Settings", "serve"]

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
    """
    if not is_loopback(settings.host) and settings.tokens.is_open:
        raise ParameterError(
            f"--host {settings.host} can be reached from other machines: give tokens with --token-file, or serve on "
            "127.0.0.1."
        )
    with exclusive_lock(settings.model, "accous serve"), ExitStack() as stack:
        sock = stack.enter_context(listen(settings.host, settings.port))
        read_sock = stack.enter_context(listen(settings.host, settings.read_port)) if settings.workers else None
        owned = open_owned(settings.model, settings.limits, settings.estimator)
        sys.setswitchinterval(_SWITCH_SECONDS)
        run_owner(settings, owned, sock, read_sock, on_ready)


def run_owner(
    settings: Settings, owned: OwnedModel, sock: socket.socket, read_sock: socket.socket | None, on_ready: OnReady
) -> None:
    """Serve a model that is loaded, on sockets that are open."""
    metrics = Metrics()
    learner = Learner(
        table_model=owned.table_model,
        folder=settings.model,
        kept_path=owned.kept_path,
        log=owned.log,
        kept=owned.kept,
        executor=owned.executor,
        limits=settings.limits,
        save_every=settings.save_every,
        metrics=metrics,
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
        measured=owned.kept.measured,
        on_reading=server.publish,
    )
    gc.freeze()  # what is loaded stays: the collector need not look at it again
    workers = None if read_sock is None else Workers(settings, read_sock)
    addresses = [address_of(each) for each in (sock, read_sock) if each is not None]
    learner.start()
    service.readings.start()
    try:
        if workers is not None:
            workers.start()
        server.run_on(sock, lambda: on_ready(owned, addresses))
    finally:
        if workers is not None:
            workers.stop()
        service.readings.stop()
        learner.stop()
        owned.log.close()
