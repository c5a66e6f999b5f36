"""The processes that tests start: one that hangs fails its test instead of the whole run, and all end as others do."""

import os
import signal
import subprocess
import sys

import pytest

HANGS = "import time; print('here', flush=True); time.sleep(1000)"
# Its child holds its streams open long after it has ended.
LEAVES_A_CHILD = """
import os, sys, time
if os.fork() == 0:
    time.sleep(1000)
print("left", os.getpid(), flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize("wait", [lambda process: process.wait(0.2), lambda process: process.communicate(timeout=0.2)])
def test_a_process_that_hangs_fails_the_test_and_is_killed(forks, wait):
    with forks.start(HANGS, kind="code") as process, pytest.raises(subprocess.TimeoutExpired):
        wait(process)
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_has_ended_is_waited_for_no_longer(forks):
    with forks.start(LEAVES_A_CHILD, kind="code", start_new_session=True) as process:
        output, errors = process.communicate()
        os.killpg(process.pid, signal.SIGKILL)
    assert (output, errors) == (f"left {process.pid}\n".encode(), b"")
    assert process.returncode == 3


@pytest.mark.parametrize(
    "code",
    [
        "raise KeyError('mine')",
        "import sys; sys.exit('no')",
        "import atexit; atexit.register(print, 'bye')",
        "import sys; text = 'a line\\n' * 50_000; sys.stderr.write(text); sys.stdout.write(text)",
    ],
)
def test_it_ends_as_an_interpreter_ends(forks, code):
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    forked = forks.run(code, kind="code", check=None)
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]
