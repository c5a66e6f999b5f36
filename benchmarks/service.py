"""Load on ``accous serve`` beside a bare endpoint of Starlette that echoes the same body, in one run, with the aims.

    python -m benchmarks.service --seconds 2

Each case is measured in short turns with the echo, with as many requests open at a time as there are clients. Times are
those of the clients; processor time is that of the server's process. On a busy machine only ratios to the echo mean
something. The last table has the aims: what was wanted, what was found, and whether that is enough.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from accous.service.bodies import BatchReader, Limits
from accous.streams import GaussianStream, SquareShift
from accous.table.model import load_table_model
from accous.text import count
from benchmarks.data import FloatArray
from benchmarks.pages import markdown

# What the service should reach: processor time beyond the echo's and a round's, in us, and rounds a second.
PREDICT_MORE, ROUND_MORE, ROUNDS_A_SECOND = 150.0, 250.0, 1_000
CLIENTS_OF_AIM, TURNS, PORT = 32, 4, 9310
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
TICKS = os.sysconf("SC_CLK_TCK")


# --- servers ------------------------------------------------------------------------------------------------------

ECHO = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

async def echo(request):
    return Response(await request.body(), media_type="application/json")

app = Starlette(routes=[Route("/echo", echo, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), loop="uvloop", http="h11", access_log=False, log_level="warning")
"""
DURABLE = "import sys; from accous.cli import main; sys.exit(main(sys.argv[1:]))"
# On one core, with everything that it starts.
ON_CORE = f"import os; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n{DURABLE}"


@dataclass(frozen=True)
class Server:
    """A server's port and process, and where requests go."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Return the processor time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


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


def fit_model(folder: Path) -> list[dict[str, float]]:
    """Fit a model with 12 columns and 1,000 reference rows; return rows of a stream."""
    stream = GaussianStream(SquareShift(period=200), n_rounds=4_000, random_state=0)
    X, y = stream.reference()
    names = [f"x{number}" for number in range(1, X.shape[1] + 1)]
    table = pl.DataFrame(X, schema=names).with_columns(pl.Series("label", np.where(y > 0, "yes", "no")))
    table.write_csv(folder / "reference.csv")
    options = ["--label", "label", "-o", str(folder / "model"), "--quiet", "--json", "--estimator", "linear"]
    command = [sys.executable, "-c", DURABLE, "fit", str(folder / "reference.csv"), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [dict(zip(names, batch.X[0].round(6).tolist(), strict=True)) for batch in stream]


def measure_rounds(folder: Path, rows: list[dict[str, float]]) -> tuple[float, float]:
    """Return the processor time of a round of one row without a service, and of one behind a sync of the row, in us."""
    table_model = load_table_model(folder)
    reader = BatchReader(table_model, Limits())
    batches = [reader.read_rows([row]) for row in rows]
    for batch in batches[:500]:
        table_model.run_rounds(batch.X, batch.marks)
    began = time.process_time()
    for batch in batches[500:1_500]:
        table_model.run_rounds(batch.X, batch.marks)
    alone, began = time.process_time() - began, time.process_time()
    with (folder / "rows").open("wb", buffering=0) as file:
        for batch, row in zip(batches[1_500:2_500], rows[1_500:2_500], strict=True):
            file.write(json.dumps(row).encode())
            os.fdatasync(file.fileno())
            table_model.run_rounds(batch.X, batch.marks)
    return 1e3 * alone, 1e3 * (time.process_time() - began)


def bodies(rows: list[dict[str, float]], size: int, kind: str, n_bodies: int) -> list[bytes]:
    """Return bodies of so many rows each."""
    made = []
    for number in range(n_bodies):
        part = [rows[(number * size + place) % len(rows)] for place in range(size)]
        content = io.BytesIO()
        if kind == JSON:
            content.write(json.dumps({"rows": part}).encode())
        else:
            pl.DataFrame(part).write_ipc_stream(content)
        made.append(content.getvalue())
    return made


# --- load ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """What is sent, and how much of it at a time."""

    server: Server
    path: str
    contents: list[bytes]
    n_clients: int
    kind: str = JSON

    def requests(self) -> list[bytes]:
        """Return whole requests."""
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {self.kind}\r\nContent-Length: "
        return [f"{head}{len(each)}\r\n\r\n".encode() + each for each in self.contents]


@dataclass(frozen=True)
class Found:
    """Times of requests in seconds, how long all took, and processor time of the server."""

    times: FloatArray
    seconds: float
    cpu_seconds: float

    @property
    def cpu(self) -> float:
        """Processor time of one request."""
        return self.cpu_seconds / len(self.times)

    def quantile(self, share: float) -> float:
        """Return a quantile of the times."""
        return float(np.quantile(self.times, share))

    def __add__(self, other: Found) -> Found:
        times = np.concatenate((self.times, other.times))
        return Found(times, self.seconds + other.seconds, self.cpu_seconds + other.cpu_seconds)


class Connection:
    """One client on a plain socket."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began, self.content = 0.0, b""

    def send(self, request: bytes) -> None:
        self.content, self.began = b"", time.perf_counter()
        self.sock.sendall(request)

    def receive(self) -> bool:
        """Read what is there; return whether the answer is complete."""
        self.content += self.sock.recv(1 << 18)
        head, found, body = self.content.partition(b"\r\n\r\n")
        if not found:
            return False
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"refused: {self.content[:300]!r}")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return len(body) >= length


def measure(load: Load, seconds: float) -> Found:
    """Keep as many requests open as there are clients, for so many seconds.

    The first request of a connection also waits until the event loop accepts it, so it is left out.
    """
    requests, times = load.requests(), []
    selector = selectors.DefaultSelector()
    connections = [Connection(load.server.port) for _ in range(load.n_clients)]
    for number, connection in enumerate(connections):
        connection.send(requests[-1 - number % len(requests)])
        while not connection.receive():
            pass
    cpu, began = load.server.cpu(), time.perf_counter()
    for number, connection in enumerate(connections):
        selector.register(connection.sock, selectors.EVENT_READ, connection)
        connection.send(requests[number % len(requests)])
    n_sent = n_open = len(connections)
    while n_open:
        for key, _ in selector.select():
            connection = key.data
            if not connection.receive():
                continue
            now = time.perf_counter()
            times.append(now - connection.began)
            if now - began > seconds:
                n_open -= 1
                selector.unregister(connection.sock)
                continue
            connection.send(requests[n_sent % len(requests)])
            n_sent += 1
    found = Found(np.array(times), time.perf_counter() - began, load.server.cpu() - cpu)
    for connection in connections:
        connection.sock.close()
    return found


# --- cases --------------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """The servers, what is sent to them, and the aims so far."""

    seconds: float
    rows: list[dict[str, float]]
    servers: dict[str, Server]
    round_us: float
    aims: list[tuple[str, ...]] = field(default_factory=list)

    def compare(self, name: str, load: Load) -> tuple[Found, Found]:
        """Measure a case and the echo in turns, and print a line; return both."""
        base = Load(self.servers["echo"], "/echo", load.contents, load.n_clients, load.kind)
        for each in (base, load):
            measure(each, 0.2)
        turns = [(measure(load, self.seconds / TURNS), measure(base, self.seconds / TURNS)) for _ in range(TURNS)]
        (found, echoed), *rest = turns
        for one, other in rest:
            found, echoed = found + one, echoed + other
        rate, p50, p99 = len(found.times) / found.seconds, found.quantile(0.5), found.quantile(0.99)
        print(
            f"| {name} | {load.n_clients} | {rate:,.0f} | {1e3 * p50:.2f} | {1e3 * p99:.2f} | {1e6 * found.cpu:.0f} "
            f"| {1e3 * echoed.quantile(0.5):.2f} | {1e3 * echoed.quantile(0.99):.2f} | {1e6 * echoed.cpu:.0f} |",
            flush=True,
        )
        return found, echoed

    def add_aim(self, name: str, found: float, limit: float, *, is_least: bool = False) -> None:
        """Note an aim: at most a limit, or at least it."""
        is_met = found >= limit if is_least else found <= limit
        wanted = f"at {'least' if is_least else 'most'} {limit:,.2f}"
        self.aims.append((name, wanted, f"{found:,.2f}", "yes" if is_met else "no"))

    def small(self, n_clients: int) -> None:
        """Measure one row."""
        one, durable = bodies(self.rows, 1, JSON, 512), self.servers["durable"]
        found, echoed = self.compare("predict, 1 row", Load(durable, "/v1/predict", one, n_clients))
        more = 1e6 * (found.cpu - echoed.cpu)
        self.add_aim(f"CPU of predict beyond the echo's, us, {count(n_clients, 'client')}", more, PREDICT_MORE)
        found, echoed = self.compare("step, 1 row", Load(durable, "/v1/step", one, n_clients))
        more = 1e6 * (found.cpu - echoed.cpu) - self.round_us
        name = f"CPU of a durable round beyond the echo's and the round's, us, {count(n_clients, 'client')}"
        self.add_aim(name, more, ROUND_MORE)

    def large(self, n_clients: int) -> None:
        """Measure many rows."""
        hundred, thousand = bodies(self.rows, 100, JSON, 16), bodies(self.rows, 1000, ARROW, 4)
        durable = self.servers["durable"]
        self.compare("predict, 100 rows", Load(durable, "/v1/predict", hundred, n_clients))
        self.compare("step, 100 rows", Load(durable, "/v1/step", hundred, n_clients))
        self.compare("predict, 1,000 rows, Arrow", Load(durable, "/v1/predict", thousand, n_clients, ARROW))

    def busy(self) -> None:
        """Predict, and echo, while four clients in another process keep the learner busy."""
        one, durable = bodies(self.rows, 1, JSON, 64), self.servers["durable"]
        noise = os.fork()
        if noise == 0:
            measure(Load(durable, "/v1/step", one, 4), 2 * self.seconds + 3)
            os._exit(0)
        time.sleep(1.0)
        self.compare("predict, 1 row, learner busy", Load(durable, "/v1/predict", one, 8))
        os.waitpid(noise, 0)

    def pinned(self) -> None:
        """Measure durable rounds of a server that has one core."""
        load = Load(self.servers["on one core"], "/v1/step", bodies(self.rows, 1, JSON, 512), CLIENTS_OF_AIM)
        found, _ = self.compare("step, 1 row, on one core", load)
        name = f"durable rounds a second on one core, {CLIENTS_OF_AIM} clients"
        self.add_aim(name, len(found.times) / found.seconds, ROUNDS_A_SECOND, is_least=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        rows = fit_model(folder)
        servers = {"echo": stack.enter_context(started(ECHO, str(PORT), port=PORT))}
        codes = {"durable": DURABLE, "on one core": ON_CORE}
        for number, (name, code) in enumerate(codes.items(), start=PORT + 1):
            shutil.copytree(folder / "model", folder / name)
            arguments = ("serve", str(folder / name), "--quiet", "--port", str(number))
            servers[name] = stack.enter_context(started(code, *arguments, port=number))
            # The first rounds compile, and read the risk more often than later ones.
            first = Load(servers[name], "/v1/step", bodies(rows, 1, JSON, 512), CLIENTS_OF_AIM)
            measure(first, max(2.0, options.seconds))
        round_us, synced_us = measure_rounds(folder / "model", rows)
        print(f"\nA round of one row in the library takes {round_us:.0f} us of processor time.")
        print(f"With a sync before each, as one client makes it, sync and round take {synced_us:.0f} us.")
        print("\n| case | clients | a second | p50 ms | p99 ms | CPU us | echo's p50 | echo's p99 | echo's CPU us |")
        print("|---|---|---|---|---|---|---|---|---|")
        bench = Bench(options.seconds, rows, servers, round_us)
        for n_clients in (1, 8, 64):
            bench.small(n_clients)
            bench.large(n_clients)
        bench.busy()
        bench.pinned()
        print("\n" + markdown(("aim", "wanted", "found", "met"), bench.aims))


if __name__ == "__main__":
    main()
