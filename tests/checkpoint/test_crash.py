"""Whatever happens while saving, what was saved before can be loaded; one live process at a time holds a folder."""

import signal
import subprocess
import sys

import numpy as np
import pytest

import accous
from accous.checkpoint.files import LOCK_NAME, exclusive_lock
from accous.exceptions import CheckpointError, LockedError
from tests.budgets import rest_slow
from tests.checkpoint.cases import assert_same_bits, make_cases, numbers_of
from tests.checkpoint.processes import Operations
from tests.checkpoint.test_resume import run_in_another_process


class Crash(BaseException):
    """Nothing that the package could catch by mistake."""


def crash():
    raise Crash


def crash_in_save(model, folder, number, when):
    """Whether the save ended in a crash at the operation of this number."""
    try:
        with Operations(number, when, crash):
            accous.save(model, folder)
    except Crash:
        return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", rest_slow(["single kl", "four classes"]))
def test_the_state_before_survives_a_crash_at_any_operation(name, when, tmp_path):
    case = make_cases()[name]
    model = case.run(case.fit(), 1, 4)
    accous.save(model, tmp_path)
    before = numbers_of(case, model)
    after = numbers_of(case, case.run(model, 5, 1))
    outcomes, number, checked = [], 0, set()
    while crash_in_save(model, tmp_path, number, when):
        loaded = accous.load(tmp_path)
        outcomes.append(int(loaded.n_rounds_))
        manifest = (tmp_path / "manifest.json").read_bytes()
        if manifest not in checked:  # it has the checksums of all that is loaded, and `load` checks them
            checked.add(manifest)
            assert_same_bits(numbers_of(case, loaded), after if loaded.n_rounds_ == 5 else before)
        number += 1
    assert len(checked) == 2
    assert outcomes.count(4) > 20
    assert outcomes == sorted(outcomes)
    assert outcomes[-1] == 5
    assert_same_bits(numbers_of(case, accous.load(tmp_path)), after)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_another_model_replaces_the_saved_one_whole_or_not_at_all(when, tmp_path):
    case, other = (make_cases()[name] for name in ["single kl", "no shift"])
    model, newcomer = case.run(case.fit(), 1, 3), other.run(other.fit(), 1, 2)
    number = 0
    accous.save(model, tmp_path)
    while crash_in_save(newcomer, tmp_path, number, when):
        loaded = accous.load(tmp_path)
        now, expected = (other, newcomer) if isinstance(loaded, accous.NoShift) else (case, model)
        assert_same_bits(numbers_of(now, loaded), numbers_of(now, expected))
        accous.save(model, tmp_path)
        assert len(list(tmp_path.iterdir())) == 3
        number += 1
    assert number > 20
    assert isinstance(accous.load(tmp_path), accous.NoShift)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_first_save_that_crashed_can_be_repeated(when, tmp_path):
    case = make_cases()["single kl"]
    model, number = case.fit(), 0
    while crash_in_save(model, tmp_path / f"{number}", number, when):
        folder = tmp_path / f"{number}"
        if not (folder / "manifest.json").exists():
            with pytest.raises(accous.exceptions.CheckpointError, match="no saved model"):
                accous.load(folder)
        accous.save(model, folder)
        assert_same_bits(numbers_of(case, accous.load(folder)), numbers_of(case, model))
        assert len(list(folder.iterdir())) == 3
        number += 1
    assert number > 20


def test_an_exception_leaves_no_temporary_file(tmp_path, monkeypatch):
    case = make_cases()["no shift"]
    model = case.fit()
    accous.save(model, tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.fsync", lambda _: crash())
    with pytest.raises(Crash):
        accous.save(case.run(model, 1, 1), tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_files_left_by_a_killed_process_are_removed_by_the_next_save(tmp_path):
    model = make_cases()["no shift"].fit()
    accous.save(model, tmp_path)
    (tmp_path / ".accous-0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / "state-7-0123456789abcdef.npz").write_bytes(b"never committed")
    (tmp_path / "predictions.csv").write_text("the user's own")
    accous.save(model, tmp_path)
    kinds = sorted(path.name.split("-")[0] for path in tmp_path.iterdir())
    assert kinds == ["manifest.json", "predictions.csv", "reference", "state"]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_processes_that_are_killed_at_any_operation_leave_a_whole_state(step, tmp_path, forks):
    run_in_another_process(forks, "kill_at_operations", tmp_path, step)


@pytest.mark.parametrize("n_kills", [5, pytest.param(15, marks=pytest.mark.slow)])
def test_processes_that_are_killed_at_any_time_leave_a_whole_state(n_kills, tmp_path, forks):
    run_in_another_process(forks, "kill_at_random_times", tmp_path, n_kills)


# --- locks: a dead process holds none -----------------------------------------------------------------------


HOLDER = """
import sys
from pathlib import Path
from accous.checkpoint.files import exclusive_lock
with exclusive_lock(Path(sys.argv[1]), "a test"):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(folder):
    command = [sys.executable, "-c", HOLDER, str(folder)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


def fitted():
    return accous.NoShift().fit(np.zeros((3, 2)))


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path):
    accous.save(fitted(), tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with start_holder(tmp_path) as holder:
        for use in (lambda: exclusive_lock(tmp_path, "the other").__enter__(), lambda: accous.save(fitted(), tmp_path)):
            with pytest.raises(LockedError, match=rf"process {holder.pid} \(a test\)") as refusal:
                use()
            assert str(tmp_path) in str(refusal.value)
        holder.communicate("")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, LOCK_NAME])
    with exclusive_lock(tmp_path, "the other"):
        pass
    accous.save(fitted().partial_fit(np.zeros((1, 2))), tmp_path)
    assert accous.load(tmp_path).n_rounds_ == 1


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
    with exclusive_lock(tmp_path, "second"):
        accous.save(fitted(), tmp_path)
        with pytest.raises(LockedError), exclusive_lock(tmp_path, "third"):
            pass
    accous.save(fitted(), tmp_path)
    with exclusive_lock(tmp_path, "fourth"), pytest.raises(FileNotFoundError), exclusive_lock(tmp_path / "none", "."):
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
