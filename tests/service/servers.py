"""Real servers for the tests: started as processes on the loopback, stopped or killed, and started again."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import polars as pl

from accous.checkpoint.codecs import write_plain
from accous.checkpoint.folder import load_with
from accous.table.model import TableModel, load_table_model
from tests.forks import Forked, ForkServer
from tests.waiting import PATIENCE, wait_for

JSON = {"content-type": "application/json"}
STATE: dict[str, Any] = {
    "state": "degraded",
    "alarm": True,
    "metric": "error",
    "value": 0.3,
    "low": 0.2,
    "high": 0.4,
    "basis": "labels",
    "at_fit": 0.1,
    "n_labels": 60,
    "rounds": 9,
    "rows": 90,
    "drift": {"columns": [], "events": [], "outside": 0.25},
    "effective_rows": 10.0,
    "learning": {"labels": 40},
    "last_drift_round": 4,
}
"""What a model of ours may say, as far as metrics read it."""


class Server:
    """A server in a process of its own."""

    def __init__(self, forks: ForkServer, folder: Path, *options: Any, **how: Any) -> None:
        self.folder = folder
        self._log = folder.with_suffix(".stderr").open("ab")
        port = () if "--port" in options else ("--port", "0")
        arguments = ["serve", str(folder), *port, *map(str, options)]
        self.process: Forked = forks.start("accous", *arguments, stderr=self._log, **how)
        self.address = self.read_address()
        self.client = httpx.Client(base_url=self.address, timeout=PATIENCE, trust_env=False)

    def read_address(self) -> str:
        """Read the next line that it prints, which ends with an address."""
        line = b""
        while not line.endswith(b"\n"):
            piece = self.process.stdout.read(1)
            assert piece, self.stderr
            line += piece
        return line.decode().split()[-1]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def stderr(self) -> str:
        return self.folder.with_suffix(".stderr").read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait()
        self.close()

    def stop(self) -> int:
        """End it in an orderly way; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        self.close()
        return self.process.returncode

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        if self._log.closed:
            return
        self.client.close()
        with self.process:
            pass
        self._log.close()

    def post(self, path: str, content: Any, **headers: str) -> httpx.Response:
        """Send JSON; headers are named with _ for -."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(path, content=json.dumps(content), headers=JSON | named)

    def step(self, rows: list[dict[str, Any]], **headers: str) -> dict[str, Any]:
        answer = self.post("/v1/step", {"rows": rows}, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_for_rounds(self, n_rounds: int) -> dict[str, Any]:
        """Wait until the timer has read the model after so many rounds; return the state."""
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [self.client.get("/v1/state").json()]
            return found[0]["as_of_round"] >= n_rounds

        wait_for(is_there, f"reading after round {n_rounds}")
        return found[0]


@contextmanager
def serving(forks: ForkServer, folder: Path, *options: Any, **how: Any) -> Iterator[Server]:
    with Server(forks, folder, *options, **how) as server:
        yield server


@contextmanager
def held(forks: ForkServer, folder: Path, limits: str = "") -> Iterator[tuple[httpx.Client, Forked]]:
    """A server whose learner has to wait for its turn until you send SIGUSR1; with limits that have no option."""
    code = f"""
import signal, sys, threading
from accous.service.bodies import Limits
from accous.service.server import serve
from accous.table.options import ServeOptions
from pathlib import Path

signal.signal(signal.SIGUSR1, lambda *_: is_free.set())
is_free = threading.Event()

def hold(turn, is_held):
    with turn:
        is_held.set()
        is_free.wait()

def on_ready(owned, addresses):
    is_held = threading.Event()
    threading.Thread(target=hold, args=(owned.table_model.lock(), is_held), daemon=True).start()
    is_held.wait()
    print("Serving on", addresses[0], flush=True)

serve(ServeOptions(model=Path(sys.argv[1]), port=0), on_ready, Limits({limits}))
"""
    with forks.start(code, folder, kind="code") as process:
        address = process.stdout.readline().decode().split()[-1]
        with httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False) as client:
            yield client, process
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def metric(server: Server | httpx.Client, name: str) -> float:
    """Return a number from the metrics."""
    client = server if isinstance(server, httpx.Client) else server.client
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def content_of(folder: Path, *left_out: str) -> tuple[bytes, ...]:
    """Everything that a saved model knows, but for its place in the log and how it was saved, as bytes."""
    model, attached, progress = load_with(folder)
    return content_of_model(model, attached, {**progress, "log_position": None, **dict.fromkeys(left_out)})


def content_of_model(model: Any, attached: Any, progress: Any) -> tuple[bytes, ...]:
    from accous.checkpoint.folder import fixed_to_plain, state_to_plain

    class Bytes:
        def __init__(self) -> None:
            self.content = b""

        def write(self, piece: bytes) -> int:
            self.content += piece
            return len(piece)

        def flush(self) -> None: ...

    found = []
    for plain in (fixed_to_plain(model), state_to_plain(model), progress):
        stream = Bytes()
        write_plain(stream, plain)
        found.append(stream.content)
    return (*found, json.dumps(attached, sort_keys=True).encode())


def run_alone(model: Path, folder: Path, batches: list[list[dict[str, Any]]]) -> tuple[TableModel, tuple[bytes, ...]]:
    """The same batches, run one after the other in this process without any service."""
    from accous.table.model import save_table_model

    shutil.copytree(model, folder)
    alone = load_table_model(folder)
    for rows in batches:
        alone.step(pl.DataFrame(rows, infer_schema_length=None))
    save_table_model(alone, folder)
    return alone, content_of(folder, "stored")
