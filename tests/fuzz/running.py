"""Runs a command of accous in this process, and takes down all that a user would see of it."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO, Any

import typer.main

from accous.cli import main
from tests.compile_kernels import compile_kernels

__all__ = ["Run", "run_command"]

# Of processor time: on a busy machine, a command may take much longer by the clock.
_MOST_SECONDS = 120
# Python shows these to developers only.
_HIDDEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)


class _TookTooLong(BaseException):
    """A command that does not end; no handler of errors may take it for one of its own."""


@dataclass(frozen=True)
class Run:
    """What became of a command.

    Attributes
    ----------
    arguments : list of str
    exit_code : int or None
        None where an exception escaped.
    out, err : str
        What went to the standard output and to the standard error, from whichever library.
    warned : list of str
        Warnings of libraries, which a user would see.
    escaped : str
        The traceback of an exception that was not handled.
    """

    arguments: list[str]
    exit_code: int | None
    out: str
    err: str
    warned: list[str]
    escaped: str


def run_command(arguments: list[str], stdin: Path | None = None) -> Run:
    """Run ``accous`` with these arguments."""
    compile_kernels()
    exit_code, escaped = None, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings(record=True) as seen, _alarm(), _built_once(), _redirected(out, err, stdin):
            warnings.simplefilter("always")
            try:
                exit_code = main(arguments)
            except BaseException:
                escaped = traceback.format_exc()
        shown = [_decoded(file) for file in (out, err)]
    if exit_code == 130:
        raise KeyboardInterrupt
    warned = [f"{each.category.__name__}: {each.message}" for each in seen if not issubclass(each.category, _HIDDEN)]
    return Run(arguments, exit_code, *shown, warned, escaped)


def _decoded(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "backslashreplace")


@contextmanager
def _built_once() -> Iterator[None]:
    """Let typer build its parser once in a process: building it takes a quarter of the time."""
    before = typer.main.get_command
    typer.main.get_command = _get_command
    try:
        yield
    finally:
        typer.main.get_command = before


_get_command = cache(typer.main.get_command)


@contextmanager
def _alarm() -> Iterator[None]:
    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise _TookTooLong(f"took more than {_MOST_SECONDS} seconds of processor time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, _MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def _redirected(out: IO[bytes], err: IO[bytes], stdin: Path | None) -> Iterator[None]:
    """Send both outputs to files, also what a library writes without Python; take the input from a file."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    saved = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    given: Any = Path(os.devnull if stdin is None else stdin).open("rb")  # noqa: SIM115
    sys.stdin = given
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.close()
        given.close()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(saved, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
