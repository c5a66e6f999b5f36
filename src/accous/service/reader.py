"""Workers: processes that only predict, from the last save of the process that learns."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from accous.checkpoint.folder import MANIFEST_NAME
from accous.exceptions import AccousError
from accous.service.batches import BatchReader
from accous.service.gate import Gate
from accous.service.limits import Limits
from accous.service.metrics import Metrics
from accous.service.server import Server
from accous.service.service import Served, Service
from accous.service.settings import Settings
from accous.table.model import load_table_model
from accous.text import LOGGER

__all__ = ["FollowedModel", "Workers"]

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
