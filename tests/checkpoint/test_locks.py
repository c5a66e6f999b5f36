"""One live process at a time holds a folder; a dead one's lock is none."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from accous.checkpoint.locks import LOCK_NAME, exclusive_lock
from accous.exceptions import LockedError

HOLDER = """
import sys
from pathlib import Path
from accous.checkpoint.locks import exclusive_lock
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
