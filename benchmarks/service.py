"""Load on ``accous serve`` beside a bare FastAPI endpoint that echoes the same body, in one run, with the aims.

    python -m benchmarks.service --seconds 4 --clients 1,8,64

Each case is measured in short turns with the echo, with as many requests open at a time as there are clients. Times are
those of the clients; processor time is that of the server's process. On a busy machine only ratios to the echo mean
something. The last table has the aims: what was wanted, what was found, and whether that is enough.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.service_load import Found, Load, measure
from benchmarks.service_servers import (
    ARROW,
    DURABLE,
    ECHO,
    JSON,
    NOT_DURABLE,
    ON_CORE,
    Server,
    bodies,
    fitted,
    round_times,
    started,
    sync_times,
)

# What the service should reach.
_PREDICT_P99, _ROUND_CPU, _ROUNDS_A_SECOND, _SYNCS = 1.3, 2.2, 1_500, 2
_CLIENTS_OF_AIM = 32
_TURNS = 4
PREDICT, BARE, STEP = "predict, 1 row", "step, 1 row, not durable", "step, 1 row"


@dataclass
class Aims:
    """What was wanted beside what was found."""

    lines: list[str] = field(default_factory=list)

    def add(self, name: str, found: float, limit: float, form: str = "{:.2f}", *, is_least: bool = False) -> None:
        """Note an aim: at most a limit, or at least it."""
        is_met = found >= limit if is_least else found <= limit
        wanted = f"at {'least' if is_least else 'most'} {form.format(limit)}"
        self.lines.append(f"| {name} | {wanted} | {form.format(found)} | {'yes' if is_met else 'no'} |")

    def print(self) -> None:
        """Print the table."""
        print("\n| aim | wanted | found | met |\n|---|---|---|---|", *self.lines, sep="\n")


@dataclass(frozen=True)
class Bench:
    """The servers, and what is sent to them."""

    seconds: float
    rows: list[dict[str, float]]
    echo: Server
    bare: Server
    durable: Server
    aims: Aims

    def compare(
        self, name: str, server: Server, path: str, contents: list[bytes], n_clients: int, kind: str = JSON
    ) -> tuple[Found, Found]:
        """Measure a case and the echo in turns, and print a line; return both."""
        load = Load(server.port, path, contents, kind, n_clients)
        base = Load(self.echo.port, "/echo", contents, kind, n_clients)
        measure(base, self.echo.pid, 0.2)
        measure(load, server.pid, 0.2)
        found, echoed = [], []
        for _ in range(_TURNS):
            echoed.append(measure(base, self.echo.pid, self.seconds / _TURNS))
            found.append(measure(load, server.pid, self.seconds / _TURNS))
        return self._shown(name, n_clients, Found.of_all(found), Found.of_all(echoed))

    @staticmethod
    def _shown(name: str, n_clients: int, found: Found, echoed: Found) -> tuple[Found, Found]:
        ratio = found.quantile(0.99) / echoed.quantile(0.99)
        print(
            f"| {name} | {n_clients} | {found.rate:,.0f} | {1e3 * found.quantile(0.5):.2f} | "
            f"{1e3 * found.quantile(0.99):.2f} | {1e6 * found.cpu:.0f} | {ratio:.2f} | {found.cpu / echoed.cpu:.2f} |",
            flush=True,
        )
        return found, echoed

    def small(self, n_clients: int, floor: float) -> None:
        """Measure one row; ``floor`` is what a durable round takes without HTTP, in seconds."""
        one, who = bodies(self.rows, 1, JSON, 512), f"{n_clients} client{'s' if n_clients > 1 else ''}"
        found, echoed = self.compare(PREDICT, self.durable, "/v1/predict", one, n_clients)
        ratio = found.quantile(0.99) / echoed.quantile(0.99)
        self.aims.add(f"p99 of predict, {who}, of the echo's", ratio, _PREDICT_P99)
        found, echoed = self.compare(BARE, self.bare, "/v1/step", one, n_clients)
        name = f"processor time of a round that is not durable, {who}, of the echo's"
        self.aims.add(name, found.cpu / echoed.cpu, _ROUND_CPU)
        found, echoed = self.compare(STEP, self.durable, "/v1/step", one, n_clients)
        most = 1e3 * (echoed.quantile(0.99) + floor)
        name = f"p99 of a durable round, {who}, ms: echo + round + {_SYNCS} syncs"
        self.aims.add(name, 1e3 * found.quantile(0.99), most)

    def large(self, n_clients: int) -> None:
        """Measure many rows."""
        hundred, thousand = bodies(self.rows, 100, JSON, 16), bodies(self.rows, 1000, ARROW, 4)
        self.compare("predict, 100 rows", self.durable, "/v1/predict", hundred, n_clients)
        self.compare("step, 100 rows", self.durable, "/v1/step", hundred, n_clients)
        self.compare("predict, 1,000 rows, Arrow", self.durable, "/v1/predict", thousand, n_clients, ARROW)

    def busy(self) -> None:
        """Predict, and echo, while four other clients keep the learner busy."""
        seconds = str(2 * self.seconds + 3)
        noise = subprocess.Popen([sys.executable, "-m", "benchmarks.service_load", str(self.durable.port), seconds])
        time.sleep(1.0)
        one = bodies(self.rows, 1, JSON, 64)
        found, echoed = self.compare(f"{PREDICT}, learner busy", self.durable, "/v1/predict", one, 8)
        noise.wait()
        ratio = found.quantile(0.99) / echoed.quantile(0.99)
        self.aims.add("p99 of predict, 8 clients, learner busy, of the echo's", ratio, _PREDICT_P99)

    def pinned(self, server: Server) -> None:
        """Measure durable rounds of a server that has one core."""
        one = bodies(self.rows, 1, JSON, 512)
        found, _ = self.compare(f"{STEP}, on one core", server, "/v1/step", one, _CLIENTS_OF_AIM)
        name = f"durable rounds a second on one core, {_CLIENTS_OF_AIM} clients"
        self.aims.add(name, found.rate, _ROUNDS_A_SECOND, "{:,.0f}", is_least=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    parser.add_argument("--clients", default="1,8,64")
    parser.add_argument("--port", type=int, default=9310)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder, port = Path(place), options.port
        model, rows = fitted(folder)
        rounds, cpu = round_times(model, folder / "alone", rows)
        syncs = sync_times(folder)
        floor = float(np.quantile(rounds, 0.99) + _SYNCS * np.quantile(syncs, 0.99))
        for name, times in (("fdatasync alone", syncs), ("a round alone", rounds)):
            print(f"{name}: p50 {1e3 * np.median(times):.2f} ms, p99 {1e3 * np.quantile(times, 0.99):.2f} ms")
        print(f"a round alone: {1e6 * cpu:.0f} us of processor time; load of the machine: {os.getloadavg()[0]:.1f}\n")
        core = min(os.sched_getaffinity(0))
        codes = {"bare": NOT_DURABLE, "durable": DURABLE, "pinned": ON_CORE % core + DURABLE}
        echo = stack.enter_context(started(ECHO, str(port), port=port))
        servers = {}
        for number, (name, code) in enumerate(codes.items(), start=1):
            shutil.copytree(model, folder / name)
            arguments = ("serve", str(folder / name), "--quiet", "--port", str(port + number))
            servers[name] = stack.enter_context(started(code, *arguments, port=port + number))
        bench = Bench(options.seconds, rows, echo, servers["bare"], servers["durable"], Aims())
        _run(bench, [int(each) for each in options.clients.split(",")], floor, servers["pinned"])


def _run(bench: Bench, clients: list[int], floor: float, pinned: Server) -> None:
    # The first rounds compile, and read the risk more often than later ones.
    one = bodies(bench.rows, 1, JSON, 512)
    for server in (bench.bare, bench.durable, pinned):
        measure(Load(server.port, "/v1/step", one, JSON, _CLIENTS_OF_AIM), server.pid, max(2.0, bench.seconds))
    print("| case | clients | a second | p50 ms | p99 ms | CPU us | of echo's p99 | of echo's CPU |")
    print("|---|---|---|---|---|---|---|---|")
    for n_clients in clients:
        bench.small(n_clients, floor)
        bench.large(n_clients)
    bench.busy()
    bench.pinned(pinned)
    bench.aims.print()


if __name__ == "__main__":
    main()
