"""Load on ``accous serve`` beside a bare FastAPI endpoint that echoes the same body, in one run.

    python -m benchmarks.service --seconds 4 --clients 1,8,64

Each case is measured in turns with the echo, with as many requests open at a time as there are clients. Times are
those of the clients; processor time is that of the server's process. On a busy machine only ratios to the echo mean
something.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accous.cli import main as accous_main
from accous.streams import GaussianStream, SquareShift
from benchmarks.service_load import Load, measure

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
    import socket

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


def sync_times(folder: Path, count: int = 200) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return how long the disk takes for a write of 400 bytes and its sync."""
    times = []
    with (folder / "probe").open("ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            file.write(b"x" * 400)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return np.array(times)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--port", type=int, default=9310)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        model, rows = fitted(folder)
        for name in ("bare", "durable"):
            shutil.copytree(model, folder / name)
        serve = ["--quiet", "--port"]
        echo = stack.enter_context(started(ECHO, str(options.port), port=options.port))
        servers = {
            name: stack.enter_context(started(code, "serve", str(folder / name), *serve, str(port), port=port))
            for name, code, port in (
                ("bare", NOT_DURABLE, options.port + 1),
                ("durable", DURABLE, options.port + 2),
            )
        }
        syncs = sync_times(folder)
        print(f"fdatasync alone: p50 {1e3 * np.median(syncs):.2f} ms, p99 {1e3 * np.quantile(syncs, 0.99):.2f} ms\n")
        _table(options, rows, echo, servers)


def _table(options: argparse.Namespace, rows: list[dict[str, float]], echo: Server, servers: dict[str, Server]) -> None:
    cases = [
        ("predict, 1 row", servers["durable"], "/v1/predict", bodies(rows, 1, JSON, 64), JSON),
        ("step, 1 row, not durable", servers["bare"], "/v1/step", bodies(rows, 1, JSON, 512), JSON),
        ("step, 1 row", servers["durable"], "/v1/step", bodies(rows, 1, JSON, 512), JSON),
        ("predict, 100 rows", servers["durable"], "/v1/predict", bodies(rows, 100, JSON, 16), JSON),
        ("step, 100 rows", servers["durable"], "/v1/step", bodies(rows, 100, JSON, 32), JSON),
        ("predict, 1,000 rows, Arrow", servers["durable"], "/v1/predict", bodies(rows, 1000, ARROW, 4), ARROW),
    ]
    print("| case | clients | a second | p50 ms | p99 ms | CPU us | of echo's p99 | of echo's CPU |")
    print("|---|---|---|---|---|---|---|---|")
    for n_clients in map(int, options.clients.split(",")):
        for name, server, path, contents, kind in cases:
            load = Load(server.port, path, contents, kind, n_clients)
            base = Load(echo.port, "/echo", contents, kind, n_clients)
            measure(base, echo.pid, 0.3)
            measure(load, server.pid, 0.3)
            first = measure(base, echo.pid, options.seconds / 2)
            found = measure(load, server.pid, options.seconds)
            echoed = first.joined(measure(base, echo.pid, options.seconds / 2))
            _print(name, n_clients, found, echoed)
    _busy(options, rows, echo, servers["durable"])


def _busy(options: argparse.Namespace, rows: list[dict[str, float]], echo: Server, server: Server) -> None:
    """Predict while four other clients keep the learner busy."""
    contents = bodies(rows, 1, JSON, 64)
    load = Load(server.port, "/v1/predict", contents, JSON, 8)
    base = Load(echo.port, "/echo", contents, JSON, 8)
    noise = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.service_load", str(server.port), str(2 * options.seconds + 2)]
    )
    time.sleep(1.0)
    found, echoed = measure(load, server.pid, options.seconds), measure(base, echo.pid, options.seconds)
    noise.wait()
    _print("predict, 1 row, learner busy", 8, found, echoed)


def _print(name: str, n_clients: int, found: Any, echoed: Any) -> None:
    ratio = found.quantile(0.99) / echoed.quantile(0.99)
    print(
        f"| {name} | {n_clients} | {found.rate:,.0f} | {1e3 * found.quantile(0.5):.2f} | "
        f"{1e3 * found.quantile(0.99):.2f} | {1e6 * found.cpu:.0f} | {ratio:.2f} | {found.cpu / echoed.cpu:.2f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
