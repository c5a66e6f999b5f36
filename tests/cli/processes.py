"""Real processes for the tests of the command line: started afresh, or forked from one that has imported everything."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

import accous

# Processes start in other folders: they shall find the package that is tested there too.
SOURCES = str(Path(accous.__file__).resolve().parents[1])
ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": SOURCES}


def run_accous(*arguments: Any, check: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `check` is the exit code expected."""
    command = [sys.executable, "-m", "accous", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT, **options}
    run = subprocess.run(command, check=False, **options)
    assert check is None or run.returncode == check, f"{command}\n{run.stdout}\n{run.stderr}"
    return run


ZYGOTE = """
import json, os, signal, sys
import accous.cli.adapt_progress, accous.cli.compiling, accous.cli.inspect
import accous.tabular.adapt_job, accous.tabular.fit_job, polars, rich.progress
from accous.cli import main
from accous.core.fast.compiled import compile_all
compile_all()
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(order["folder"])
        for number, name in ((1, "stdout.txt"), (2, "stderr.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        if order["kill_after"] is not None:
            # The kernel ends a process that has no handler for this signal as it does after SIGKILL.
            signal.setitimer(signal.ITIMER_PROF, order["kill_after"])
        code = main(order["arguments"])
        sys.stdout.flush()
        os._exit(code)
    _, status, usage = os.wait4(child, 0)
    print(os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, flush=True)
"""


KILLED = -signal.SIGPROF


class Ended(NamedTuple):
    """How a command ended: its exit code, `KILLED` for a kill, and the processor time it took in seconds."""

    code: int
    cpu_seconds: float


class Zygote:
    """Starts commands in milliseconds: each is a fork of a process that has imported everything and used nothing."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-c", ZYGOTE]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        assert self._read() == "ready"
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def run(self, folder: Path, *arguments: Any, kill_after: float | None = None) -> Ended:
        """Run a command, or kill it after so many seconds of processor time: a busy machine changes nothing."""
        assert self._process.stdin is not None
        order = {
            "folder": str(folder),
            "arguments": [str(argument) for argument in arguments],
            "kill_after": kill_after,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code, cpu_seconds = self._read().split()
        return Ended(int(code), float(cpu_seconds))

    def run_well(self, folder: Path, *arguments: Any) -> float:
        """Run a command that must succeed; return the processor time it took in seconds."""
        ended = self.run(folder, *arguments)
        assert ended.code == 0, (folder / "stderr.txt").read_text()
        return ended.cpu_seconds

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of a folder's files, the lock left out."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".accous.lock"}
