"""The servers, model and requests of ``benchmarks.service``, and what a round and a sync take without a server."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accous.cli import main as accous_main
from accous.service.http import Limits
from accous.service.learner import open_owned
from accous.service.log import Record
from accous.streams import GaussianStream, SquareShift

__all__ = [
    "ARROW",
    "DURABLE",
    "ECHO",
    "JSON",
    "NOT_DURABLE",
    "ON_CORE",
    "Server",
    "bodies",
    "fitted",
    "round_times",
    "started",
    "sync_times",
]

Times = np.ndarray[Any, np.dtype[np.float64]]
ECHO = """
import sys, uvicorn
from fastapi import FastAPI, Request, Response

app = FastAPI()

@app.post("/echo")
async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type="application/json")

uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="httptools", access_log=False, log_level="warning")
"""
# The same server with a disk that takes no time: what a round costs that is not durable.
NOT_DURABLE = "import os, sys; os.fdatasync = lambda _: None; from accous.cli import main; sys.exit(main(sys.argv[1:]))"
DURABLE = "import sys; from accous.cli import main; sys.exit(main(sys.argv[1:]))"
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"


# On one core, with everything that it starts.
ON_CORE = "import os; os.sched_setaffinity(0, {%d})\n"


@dataclass(frozen=True)
class Server:
    """A server's port and process."""

    port: int
    pid: int


@contextmanager
def started(code: str, *arguments: str, port: int) -> Iterator[Server]:
    """Start a server and wait until it answers."""
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + 300
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise SystemExit("a server did not start")
                time.sleep(0.2)
            yield Server(port, process.pid)
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def fitted(folder: Path) -> tuple[Path, list[dict[str, float]]]:
    """Fit a model with 12 columns and 1,000 reference rows; return it and rows of a stream."""
    stream = GaussianStream(SquareShift(period=200), n_rounds=4_000, random_state=0)
    X, y = stream.reference()
    names = [f"x{number}" for number in range(1, X.shape[1] + 1)]
    table = pl.DataFrame({name: X[:, place] for place, name in enumerate(names)})
    table.with_columns(pl.Series("label", np.where(y > 0, "yes", "no"))).write_csv(folder / "reference.csv")
    options = ["--label", "label", "-o", str(folder / "model"), "--quiet", "--json", "--estimator", "linear"]
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        stdout, sys.stdout = sys.stdout, nowhere
        try:
            assert accous_main(["fit", str(folder / "reference.csv"), *options]) == 0
        finally:
            sys.stdout = stdout
    rows = [dict(zip(names, batch.X[0].round(6).tolist(), strict=True)) for batch in stream]
    return folder / "model", rows


def bodies(rows: list[dict[str, float]], size: int, kind: str, count: int) -> list[bytes]:
    """Return bodies of so many rows each."""
    made = []
    for number in range(count):
        part = [rows[(number * size + place) % len(rows)] for place in range(size)]
        if kind == JSON:
            made.append(json.dumps({"rows": part}).encode())
        else:
            content = io.BytesIO()
            pl.DataFrame(part).write_ipc_stream(content)
            made.append(content.getvalue())
    return made


def sync_times(folder: Path, count: int = 200) -> Times:
    """Return how long the disk takes for a write of 400 bytes and its sync."""
    times = []
    with (folder / "probe").open("ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 400)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return np.array(times)


def round_times(model: Path, folder: Path, rows: list[dict[str, float]], count: int = 600) -> tuple[Times, float]:
    """Return how long rounds of one row take in one process without HTTP and disk, and the processor time of one."""
    shutil.copytree(model, folder)
    owned, cpu = open_owned(folder, Limits()), 0.0
    times: list[float] = []
    records = [Record("step", JSON, body) for body in bodies(rows, 1, JSON, count + count // 2)]
    for number, record in enumerate(records, start=1):
        if number == count // 2:  # the first ones compile
            times, cpu = [], time.process_time()
        began = time.perf_counter()
        owned.executor.carry_out(number, record, owned.executor.parse(record))
        times.append(time.perf_counter() - began)
    taken = time.process_time() - cpu
    owned.log.close()
    return np.array(times), taken / len(times)
