"""One live process at a time holds a folder; a dead one's lock is none."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import accous
from accous.checkpoint.files import LOCK_NAME, exclusive_lock
from accous.exceptions import CheckpointError, LockedError

HOLDER = """
import sys
from pathlib import Path
from accous.checkpoint.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_second_process_is_refused_with_the_first_ones_number(tmp_path):
    with start_holder(tmp_path) as holder:
        with (
            pytest.raises(LockedError, match=rf"in use by process {holder.pid} \(a test\): wait") as refusal,
            exclusive_lock(tmp_path, "the other"),
        ):
            pass
        assert str(tmp_path) in str(refusal.value)
        holder.communicate("")
    with exclusive_lock(tmp_path, "the other"):
        pass


def test_a_killed_process_holds_no_lock(tmp_path):
    with start_holder(tmp_path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert str(holder.pid) in (tmp_path / LOCK_NAME).read_text()
    with exclusive_lock(tmp_path, "the next"):
        assert str(holder.pid) not in (tmp_path / LOCK_NAME).read_text()


def test_the_lock_is_free_after_an_error_and_not_while_it_is_held(tmp_path):
    with pytest.raises(ZeroDivisionError), exclusive_lock(tmp_path, "first"):
        raise ZeroDivisionError
    with exclusive_lock(tmp_path, "second"), pytest.raises(LockedError), exclusive_lock(tmp_path, "third"):
        pass


def test_a_missing_folder_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "none", "a test"):
        pass


# --- accous.save ------------------------------------------------------------------------------------------------


def fitted():
    return accous.NoShift().fit(np.zeros((3, 2)))


def test_save_is_refused_while_another_process_has_the_folder(tmp_path):
    accous.save(fitted(), tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with start_holder(tmp_path) as holder:
        with pytest.raises(
            LockedError, match=rf"in use by process {holder.pid} \(a test\): wait until it has finished"
        ):
            accous.save(fitted().partial_fit(np.zeros((1, 2))), tmp_path)
        holder.communicate("")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, LOCK_NAME])
    accous.save(fitted().partial_fit(np.zeros((1, 2))), tmp_path)
    assert accous.load(tmp_path).n_rounds_ == 1


def test_a_process_that_holds_the_lock_saves_and_still_holds_it(tmp_path):
    with exclusive_lock(tmp_path, "first"):
        accous.save(fitted(), tmp_path)
        with pytest.raises(LockedError), exclusive_lock(tmp_path, "second"):
            pass
    accous.save(fitted(), tmp_path)
    with exclusive_lock(tmp_path, "third"):
        pass


FORKS = """
import os, sys
from pathlib import Path
import numpy as np
import accous
from accous.checkpoint.files import exclusive_lock
model = accous.NoShift().fit(np.zeros((3, 2)))
with exclusive_lock(Path(sys.argv[1]), "the parent"):
    child = os.fork()
    if child == 0:
        try:
            accous.save(model, sys.argv[1])
        except accous.exceptions.LockedError:
            os._exit(7)
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork: run it on Linux or macOS")
def test_a_process_that_was_forked_does_not_hold_the_lock(tmp_path):
    assert subprocess.run([sys.executable, "-c", FORKS, str(tmp_path)], check=False).returncode == 7


def test_a_new_folder_and_one_that_no_command_has_used_get_no_lock(tmp_path):
    accous.save(fitted(), tmp_path / "new" / "model")
    accous.save(fitted(), tmp_path / "new" / "model")
    assert not (tmp_path / "new" / "model" / LOCK_NAME).exists()


def test_a_lock_that_cannot_be_opened_is_an_error_of_ours(tmp_path):
    (tmp_path / LOCK_NAME).mkdir()
    with pytest.raises(CheckpointError, match="Cannot write to"):
        accous.save(fitted(), tmp_path)
