"""The command line as a user has it: real processes, pipes, a terminal, signals, full disks, two at once."""

import array
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from contextlib import chdir
from functools import partial
from pathlib import Path

import pytest

from accous.cli import main
from accous.table.store import STORE_NAME
from tests.cli.processes import ENVIRONMENT, files_of, run_accous
from tests.forks import Forked
from tests.talking import read_terminal
from tests.waiting import PATIENCE, wait_for


@pytest.fixture
def folder(fitted_folder):
    return fitted_folder


@pytest.fixture
def start(folder, forks):
    """Starts a command in the folder: a process of its own, with pipes where nothing else is given."""
    return partial(forks.start, "accous", cwd=folder, env=ENVIRONMENT)


def run_here(folder: Path, *arguments: str) -> None:
    """Run a command in this process, where nothing of the test depends on its being another one."""
    with chdir(folder):
        assert main(list(arguments)) == 0


def n_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def stop(process: Forked, number: int = signal.SIGINT) -> tuple[int, str]:
    """Send a signal, with the input left open."""
    process.send_signal(number)
    return process.wait(), process.stderr.read().decode()


def n_unread(pipe) -> int:
    """Bytes that were written to a pipe and not yet read by the other side."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, count)
    return count[0]


def test_a_pipe_is_predicted_as_it_comes(folder, fitted, start):
    lines = fitted["stream"].write_csv().encode().splitlines(keepends=True)
    with start("adapt", "model", "-", "--batch-size", "5", "--keep", "id") as process:
        process.stdin.write(lines[0])
        process.stdin.flush()
        # A header alone is not the end: it is read before there is a row.
        wait_for(lambda: n_unread(process.stdin) == 0, "reader")
        process.stdin.write(b"".join(lines[1:13]))
        process.stdin.flush()
        # The input stays open: ten of the twelve rows make two rounds, and both must come out now.
        found = b""
        while found.count(b"\n") < 11:
            assert select.select([process.stdout], [], [], PATIENCE)[0]
            piece = os.read(process.stdout.fileno(), 1 << 16)
            assert piece, process.stderr.read().decode()
            found += piece
        rest, _ = process.communicate(b"".join(lines[13:]))
    assert process.returncode == 0
    assert [int(line.split(b",")[1]) for line in (found + rest).splitlines()[1:]] == list(range(300))


def test_a_pipe_that_was_interrupted_is_given_again_from_the_beginning(folder, fitted, start):
    content = fitted["stream"].write_csv().encode()
    run_here(folder, "adapt", "model", "stream.csv", "-o", "expected.csv")
    for name, saved in fitted["files"].items():
        (folder / "model" / name).write_bytes(saved)
    arguments = ["adapt", "model", "-", "-o", "predictions.csv", "--new"]
    with start(*arguments) as process:
        process.stdin.write(content[: len(content) // 2])
        process.stdin.flush()
        wait_for(lambda: n_lines(folder / "predictions.csv") > 100, "predictions")
        code, errors = stop(process)
    assert code == 130
    assert "Stopped and saved" in errors or errors == ""
    with start(*arguments[:-1]) as process:
        _, errors = process.communicate(content)
    assert process.returncode == 0, errors
    assert (folder / "predictions.csv").read_bytes() == (folder / "expected.csv").read_bytes()


def test_a_file_that_grows_is_followed(folder, fitted, start):
    lines = fitted["stream"].write_csv().encode().splitlines(keepends=True)
    run_here(folder, "adapt", "model", "stream.csv", "-o", "expected.csv")
    for name, saved in fitted["files"].items():
        (folder / "model" / name).write_bytes(saved)
    (folder / "stream.csv").write_bytes(b"".join(lines[:30]) + lines[30][:9])
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--follow", "--new"]
    with start(*arguments) as process:
        wait_for(lambda: n_lines(folder / "predictions.csv") == 21, "first rows")
        with (folder / "stream.csv").open("ab") as file:
            file.write(lines[30][9:] + b"".join(lines[31:]))
        wait_for(lambda: n_lines(folder / "predictions.csv") == 301, "other rows")
        assert stop(process, signal.SIGTERM)[0] == 143
    assert (folder / "predictions.csv").read_bytes() == (folder / "expected.csv").read_bytes()


def test_the_second_process_on_a_model_is_refused_and_a_killed_one_leaves_no_lock(folder, start):
    with start("adapt", "model", "-", "-o", "predictions.csv") as process:
        wait_for((folder / "model" / ".accous.lock").exists, "lock")
        wait_for(lambda: str(process.pid) in (folder / "model" / ".accous.lock").read_text(), "number in the lock")
        with start("adapt", "model", "stream.csv", "-o", "second.csv") as second:
            errors = second.communicate()[1].decode()
        assert second.returncode == 1
        assert f"by process {process.pid} (accous adapt)" in errors
        assert errors.count("\n") == 1
        assert not (folder / "second.csv").exists()
        process.kill()
    run_here(folder, "adapt", "model", "stream.csv", "-o", "second.csv")


# Files may not grow beyond this, as on a full disk.
WITH_SMALL_FILES = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
runpy.run_module("accous", run_name="__main__", alter_sys=True)
"""


def test_a_full_disk_is_a_clear_error_and_costs_nothing(folder, fitted, forks):
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--keep", "id"]
    run_here(folder, "adapt", "model", "stream.csv", "-o", "expected.csv", "--keep", "id")
    for name, saved in fitted["files"].items():
        (folder / "model" / name).write_bytes(saved)
    (folder / "model" / STORE_NAME).unlink()
    before = files_of(folder / "model")
    how = {"kind": "code", "cwd": folder, "env": ENVIRONMENT}
    run = forks.run(WITH_SMALL_FILES, *arguments, "--new", check=1, **how)
    assert run.stderr.count("\n") == 1
    assert "model" in run.stderr or "predictions.csv" in run.stderr
    assert "File too large" in run.stderr or "disk I/O error" in run.stderr
    assert files_of(folder / "model").items() >= before.items() or "job" in run.stderr
    run_here(folder, *arguments, "--new")
    assert (folder / "predictions.csv").read_bytes() == (folder / "expected.csv").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full: run the tests on Linux")
def test_a_full_device_is_a_clear_error(start):
    with Path("/dev/full").open("wb") as full, start("adapt", "model", "stream.csv", stdout=full) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert b"standard output cannot be written to (No space left on device)" in errors
    assert errors.count(b"\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it runs a command as another user")
@pytest.mark.slow
def test_what_may_not_be_written_to_is_a_clear_error(folder):
    try:
        subprocess.run([sys.executable, "-c", "import accous"], check=True, user=65534, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs an interpreter that other users can run: move the environment out of your home folder")
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    cache = folder.parent / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(cache), "HOME": str(cache)}
    options = {"cwd": folder, "check": 1, "env": environment, "user": 65534}
    run = run_accous("adapt", "model", "stream.csv", "-o", "/dev/null", **options)
    assert "model (Permission denied)" in run.stderr
    (folder / "model").chmod(0o777)
    for path in (folder / "model").iterdir():
        path.chmod(0o666)
    run = run_accous("adapt", "model", "stream.csv", "-o", "predictions.csv", **options)
    assert "predictions.csv" in run.stderr
    run = run_accous("fit", "stream.csv", "--label", "label", "-o", "other", **options)
    assert "other (Permission denied)" in run.stderr


def test_a_reader_that_leaves_ends_it_quietly(fitted, start):
    with start("adapt", "model", "-", "--batch-size", "1") as process:
        process.stdout.close()
        _, errors = process.communicate(fitted["stream"].write_csv().encode())
    assert process.returncode == 141
    assert b"Traceback" not in errors


def shown_on_a_terminal(start, *arguments: str) -> str:
    """What a command that succeeds shows there."""
    ours, theirs = pty.openpty()
    with start(*arguments, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        process.communicate()
    assert process.returncode == 0
    return shown.decode()


def test_a_terminal_has_a_progress_bar_with_the_running_errors(start):
    arguments = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--label", "label", "--batch-size", "1"]
    text = shown_on_a_terminal(start, *arguments)
    assert all(part in text for part in ("rows per second", "━"))
