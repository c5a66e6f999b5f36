"""Real processes that need no time to import anything: forks of a server that has done so once (`fork_server.py`)."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Self

import accous
from tests.waiting import PATIENCE

# Processes start in other folders: they shall find the package that is tested there too.
SOURCES = str(Path(accous.__file__).resolve().parents[1])
# What the commands import, with the inner loops loaded.
COMMANDS = """
import accous.cli.adapt_progress, accous.cli.compiling, accous.cli.inspect
import accous.tabular.adapt_job, accous.tabular.fit_job, accous_bench.grid, accous_bench.problems
import pandas, polars, rich.progress
from accous.core.fast.compiled import compile_all
compile_all()
"""
KILLED = -signal.SIGPROF


class Forked:
    """A process: what `subprocess.Popen` has of it, with its exit code and its processor time in seconds."""

    def __init__(self, report: BinaryIO, streams: list[BinaryIO | None]) -> None:
        self._report = report
        self.stdin, self.stdout, self.stderr = streams
        self.pid = int(report.readline())
        self.returncode: int | None = None
        self.cpu_seconds = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self.wait()
        self._report.close()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, _patience: float = PATIENCE) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            code, cpu_seconds = self._report.readline().split()
            self.returncode, self.cpu_seconds = int(code), float(cpu_seconds)
        return self.returncode

    def communicate(self, content: bytes = b"", timeout: float = PATIENCE) -> tuple[bytes, bytes]:
        """Write its input and read its output and its errors, all at once and to their ends."""
        with ThreadPoolExecutor(3) as pool:
            writing = pool.submit(self._give, content)
            reading = [pool.submit(stream.read if stream else bytes) for stream in (self.stdout, self.stderr)]
            writing.result(timeout)
            output, errors = (read.result(timeout) for read in reading)
        self.wait()
        return output, errors

    def _give(self, content: bytes) -> None:
        if self.stdin is not None:
            try:
                self.stdin.write(content)
                self.stdin.close()
            except BrokenPipeError:
                pass


class ForkServer:
    """Starts processes in milliseconds; each is a fork of one that has carried out a preparation and nothing else."""

    def __init__(self, preparation: str = COMMANDS, *options: str, environment: Mapping[str, str] = os.environ) -> None:
        self._command = [sys.executable, *options, str(Path(__file__).with_name("fork_server.py"))]
        self._preparation = preparation
        self._environment = {**environment, "PYTHONPATH": SOURCES, "OPENBLAS_NUM_THREADS": "1"}

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
        return Forked(os.fdopen(report, "rb"), [pipe.ours for pipe in pipes])

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
        self.ours: BinaryIO | None = None
        self._is_pipe = given is None
        if self._is_pipe:
            reader, writer = os.pipe()
            self.theirs = reader if is_input else writer
            self.ours = os.fdopen(writer, "wb") if is_input else os.fdopen(reader, "rb")
        else:
            self.theirs = given if isinstance(given, int) else given.fileno()

    def hand_over(self) -> None:
        """Keep our end alone."""
        if self._is_pipe:
            os.close(self.theirs)
