"""The processes that tests start: they talk, they end, and one that hangs fails the test instead of the whole run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forks import ForkServer

HANGS = "import time; print('here', flush=True); time.sleep(1000)"
# Its child holds its streams open long after it has ended.
LEAVES_A_CHILD = """
import os, sys, time
if os.fork() == 0:
    time.sleep(1000)
print("left", os.getpid(), flush=True)
sys.exit(3)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_process_that_hangs_fails_the_test_and_is_killed(forks: ForkServer) -> None:
    with forks.start(HANGS, kind="code") as process, pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    assert process.returncode == -signal.SIGKILL
    with forks.start(HANGS, kind="code") as process, pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=0.2)
    assert process.returncode == -signal.SIGKILL
    assert not is_alive(process.pid)


def test_a_process_that_has_ended_is_waited_for_no_longer(forks: ForkServer) -> None:
    with forks.start(LEAVES_A_CHILD, kind="code", start_new_session=True) as process:
        output, errors = process.communicate()
        os.killpg(process.pid, signal.SIGKILL)
    assert (output, errors) == (f"left {process.pid}\n".encode(), b"")
    assert process.returncode == 3


def test_much_goes_in_and_out_at_once(forks: ForkServer) -> None:
    code = "import sys; text = sys.stdin.read(); sys.stderr.write(text); sys.stdout.write(text.upper())"
    text = "line of a text\n" * 50_000
    ended = forks.run(code, kind="code", input=text)
    assert ended.stderr == text
    assert ended.stdout == text.upper()


def test_a_fork_has_the_folder_the_environment_and_the_arguments_it_is_given(forks: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os, sys; print(os.getcwd(), os.environ['HERE'], sys.argv[1:])")
    ended = forks.run("script.py", "a b", 1, kind="file", cwd=tmp_path, env={"HERE": "yes"})
    assert ended.stdout == f"{tmp_path.resolve()} yes ['a b', '1']\n"


def test_it_ends_as_an_interpreter_ends(forks: ForkServer) -> None:
    for code in (
        "raise KeyError('mine')",
        "import sys; sys.exit('no')",
        "import atexit; atexit.register(print, 'bye')",
    ):
        fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        forked = forks.run(code, kind="code", check=None)
        assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
        assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]
