"""Real processes that need no time to import anything: forks of a server that has done so once (`fork_server.py`)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NoReturn, Self

import accous
import accous_bench
from tests.talking import Talk, is_readable
from tests.waiting import PATIENCE

# Processes start in other folders: they shall find the package that is tested there too.
SOURCES = os.pathsep.join(str(Path(one.__file__).resolve().parents[1]) for one in (accous, accous_bench))
# What the commands import, with the inner loops loaded. Typer makes the parser, and imports what reads the arguments,
# when a command is called: more than half of the time of a short one. So one is called that does nothing.
COMMANDS = """
import accous.cli, accous.ratio.one_step, accous.service.server, accous.streams
import accous.table.adapt, accous.table.fit, accous_bench.grid, accous_bench.problems
import contextlib, io, pandas, polars, rich.progress
from accous.core.compiled import compile_all
compile_all()
with contextlib.redirect_stderr(io.StringIO()):
    accous.cli.main(["status", "no folder"])
"""
# What the library itself cannot do without, and nothing of it: each process then imports its own part of accous.
LIBRARIES = "import numpy, scipy.linalg, scipy.special, sklearn.base, numba, threadpoolctl"
KILLED = -signal.SIGPROF


class Forked:
    """A process: what `subprocess.Popen` has of it, with its exit code and its processor time in seconds.

    Whoever waits for it longer than the limit kills it, and the test fails.
    """

    def __init__(self, report: int, streams: list[Any]) -> None:
        self._report, self._reported = report, b""
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self.cpu_seconds = 0.0
        self.pid = int(self._next_report(time.monotonic() + PATIENCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()
        os.close(self._report)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = PATIENCE) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            try:
                code, cpu_seconds = self._next_report(time.monotonic() + timeout).split()
            except TimeoutError:
                self._give_up(timeout)
            self.returncode, self.cpu_seconds = int(code), float(cpu_seconds)
        return self.returncode

    def communicate(self, content: bytes = b"", timeout: float = PATIENCE) -> tuple[bytes, bytes]:
        """Write its input and read its output and its errors, all at once, until they or the process end."""
        end = time.monotonic() + timeout
        talk = Talk(self, content)
        while talk.is_going_on and not is_readable(self._report, 0.0):
            if time.monotonic() > end:
                self._give_up(timeout)
            talk.go_on(end - time.monotonic(), until=self._report)
        talk.finish()
        self.wait(max(end - time.monotonic(), 0.0))
        return talk.found(self.stdout), talk.found(self.stderr)

    def _give_up(self, timeout: float) -> NoReturn:
        self.kill()
        raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)

    def _next_report(self, end: float) -> bytes:
        """The next line of what the server tells of the process."""
        while b"\n" not in self._reported:
            if not is_readable(self._report, max(end - time.monotonic(), 0.0)):
                raise TimeoutError
            piece = os.read(self._report, 1 << 10)
            assert piece, "the fork server has ended"
            self._reported += piece
        line, _, self._reported = self._reported.partition(b"\n")
        return line


class ForkServer:
    """Starts processes in milliseconds; each is a fork of one that has carried out a preparation and nothing else."""

    def __init__(self, preparation: str = COMMANDS, *, environment: Mapping[str, str] = os.environ) -> None:
        self._command = [sys.executable, "-W", "error", str(Path(__file__).with_name("fork_server.py"))]
        self._preparation = preparation
        # Threads of torch that fight for a core are many times slower than one.
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._environment = {**environment, "PYTHONPATH": SOURCES, **threads}
        self._environment.pop("POLARS_MAX_THREADS", None)

    def __enter__(self) -> Self:
        self._channel, theirs = socket.socketpair()
        with theirs:
            command = [*self._command, str(theirs.fileno()), self._preparation]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=self._environment, pass_fds=[theirs.fileno()]
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._channel.close()
        assert self._process.wait(PATIENCE) == 0

    def start(self, target: str, *arguments: Any, kind: str = "module", **how: Any) -> Forked:
        """Start `python -m target`, or the file or the code `target`; streams not given are pipes.

        `cwd`, `env`, `stdin`, `stdout`, `stderr` and `start_new_session` are those of `subprocess.Popen`;
        `kill_after` kills it after so many seconds of processor time: a busy machine changes nothing.
        """
        order = {
            "kind": kind,
            "target": target,
            "arguments": [str(argument) for argument in arguments],
            "folder": str(how.get("cwd") or Path.cwd()),
            "environment": dict(how.get("env") or os.environ),
            "is_leader": how.get("start_new_session", False),
            "kill_after": how.get("kill_after"),
        }
        pipes = [Pipe(how.get(name), is_input=name == "stdin") for name in ("stdin", "stdout", "stderr")]
        report, theirs = os.pipe()
        files = [*(pipe.theirs for pipe in pipes), theirs]
        socket.send_fds(self._channel, [json.dumps(order).encode() + b"\n"], files)
        for pipe in pipes:
            pipe.hand_over()
        os.close(theirs)
        return Forked(report, [pipe.ours for pipe in pipes])

    def run(self, target: str, *arguments: Any, check: int | None = 0, **how: Any) -> subprocess.CompletedProcess[str]:
        """Run to the end, with an empty input or `input`; `check` is the exit code expected."""
        content = how.pop("input", "").encode()
        with self.start(target, *arguments, **how) as process:
            output, errors = (found.decode() for found in process.communicate(content))
        assert check is None or process.returncode == check, f"{target} {arguments}\n{output}\n{errors}"
        return subprocess.CompletedProcess([target, *arguments], process.wait(), output, errors)


class Pipe:
    """A standard stream of a process: a file that is given, or a pipe with our end of it."""

    def __init__(self, given: Any, *, is_input: bool) -> None:
        self.ours: IO[bytes] | None = None
        self._is_pipe = given is None
        if self._is_pipe:
            reader, writer = os.pipe()
            self.theirs = reader if is_input else writer
            self.ours = os.fdopen(writer, "wb") if is_input else os.fdopen(reader, "rb", buffering=0)
        else:
            self.theirs = given if isinstance(given, int) else given.fileno()

    def hand_over(self) -> None:
        """Keep our end alone."""
        if self._is_pipe:
            os.close(self.theirs)
