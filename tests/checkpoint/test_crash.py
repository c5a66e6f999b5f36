"""Whatever happens while saving, what was saved before can be loaded."""

from pathlib import Path
from typing import Any

import pytest

import accous
from tests.budgets import rest_slow
from tests.checkpoint.cases import assert_same_bits, make_cases, numbers_of
from tests.checkpoint.crashes import Operations
from tests.checkpoint.test_resume import run_in_another_process
from tests.forks import ForkServer


class Crash(BaseException):
    """Nothing that the package could catch by mistake."""


def crash() -> None:
    raise Crash


def crash_in_save(model: Any, folder: Path, number: int, when: str) -> bool:
    """Whether the save ended in a crash at the operation of this number."""
    try:
        with Operations(number, when, crash):
            accous.save(model, folder)
    except Crash:
        return True
    return False


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", rest_slow(["single kl", "four classes"]))
def test_the_state_before_survives_a_crash_at_any_operation(name: str, when: str, tmp_path: Path) -> None:
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
def test_another_model_replaces_the_saved_one_whole_or_not_at_all(when: str, tmp_path: Path) -> None:
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
def test_a_first_save_that_crashed_can_be_repeated(when: str, tmp_path: Path) -> None:
    case = make_cases()["single kl"]
    model, number = case.fit(), 0
    while crash_in_save(model, tmp_path / f"{number}", number, when):
        folder = tmp_path / f"{number}"
        if not (folder / "manifest.json").exists():
            with pytest.raises(accous.exceptions.CheckpointError, match="holds no saved model"):
                accous.load(folder)
        accous.save(model, folder)
        assert_same_bits(numbers_of(case, accous.load(folder)), numbers_of(case, model))
        assert len(list(folder.iterdir())) == 3
        number += 1
    assert number > 20


def test_an_exception_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_cases()["no shift"]
    model = case.fit()
    accous.save(model, tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("os.fsync", lambda _: crash())
    with pytest.raises(Crash):
        accous.save(case.run(model, 1, 1), tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_files_left_by_a_killed_process_are_removed_by_the_next_save(tmp_path: Path) -> None:
    model = make_cases()["no shift"].fit()
    accous.save(model, tmp_path)
    (tmp_path / ".accous-0123456789abcdef.tmp").write_bytes(b"half")
    (tmp_path / "state-7-0123456789abcdef.npz").write_bytes(b"never committed")
    (tmp_path / "predictions.csv").write_text("the user's own")
    accous.save(model, tmp_path)
    kinds = sorted(path.name.split("-")[0] for path in tmp_path.iterdir())
    assert kinds == ["manifest.json", "predictions.csv", "reference", "state"]


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_processes_that_are_killed_at_any_operation_leave_a_whole_state(
    step: int, tmp_path: Path, forks: ForkServer
) -> None:
    run_in_another_process(forks, "kill_at_operations", tmp_path, step)


@pytest.mark.parametrize("n_kills", [5, pytest.param(15, marks=pytest.mark.slow)])
def test_processes_that_are_killed_at_any_time_leave_a_whole_state(
    n_kills: int, tmp_path: Path, forks: ForkServer
) -> None:
    run_in_another_process(forks, "kill_at_random_times", tmp_path, n_kills)
