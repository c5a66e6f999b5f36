"""A model that was saved and loaded goes on with the same bits as one that was not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accous
from tests.budgets import rest_slow
from tests.checkpoint.cases import (
    N_BEFORE,
    N_REFERENCE,
    ONE_OF_EACH_KIND,
    Case,
    assert_same_bits,
    differing,
    history,
    make_cases,
    numbers_of,
)
from tests.forks import ForkServer

CASES = list(make_cases())
OTHER_CASES = [name for name in CASES if name not in ONE_OF_EACH_KIND]


def run_in_another_process(forks: ForkServer, task: str, *arguments: Any) -> None:
    forks.run("tests.checkpoint.processes", task, *arguments, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("names", [ONE_OF_EACH_KIND, pytest.param(OTHER_CASES, marks=pytest.mark.slow)], ids=len)
def test_another_process_goes_on_with_the_same_bits(names: list[str], tmp_path: Path, forks: ForkServer) -> None:
    uninterrupted = {}
    for name in names:
        case = make_cases()[name]
        model = case.run(case.fit(), 1, N_BEFORE)
        accous.save(model, tmp_path / name / "model")
        uninterrupted[name] = history(case, model)
    run_in_another_process(forks, "resume_all", tmp_path)
    different = {}
    for name, expected in uninterrupted.items():
        with np.load(tmp_path / name / "numbers.npz") as found:
            different[name] = differing(dict(found), expected)
    assert {name for name, names in different.items() if names} == set(), different


@pytest.mark.parametrize("name", rest_slow([*ONE_OF_EACH_KIND, *OTHER_CASES], len(ONE_OF_EACH_KIND)))
def test_a_loaded_model_has_the_parameters_and_attributes_of_the_saved_one(name: str, tmp_path: Path) -> None:
    case = make_cases()[name]
    model = case.run(case.fit(), 1, 5)
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path, **case.given)
    assert type(loaded) is type(model)
    assert loaded.__getstate__().keys() == model.__getstate__().keys()
    assert repr(loaded) == repr(model)
    assert_same_parameters(loaded, model, case.given)
    if hasattr(model, "ratio_"):
        assert loaded.ratio_.__getstate__().keys() == model.ratio_.__getstate__().keys()
        assert repr(loaded.ratio_) == repr(model.ratio_)
        assert loaded.task_.truths.dtype == model.task_.truths.dtype
        assert loaded.task_.truths.tolist() == model.task_.truths.tolist()
    assert list(getattr(loaded, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))


def assert_same_parameters(loaded: Any, model: Any, given: dict[str, Any]) -> None:
    for name, value in model.get_params(deep=False).items():
        found = loaded.get_params(deep=False)[name]
        if name in given:
            assert found is given[name]
        elif name == "ratio" and value is not None:
            assert_same_parameters(found, value, given)
        else:
            assert type(found) is type(value)
            assert found == value


@pytest.mark.parametrize("name", ["kl rbf", "paper", "single kl", "no shift", "two classes", "texts", "base weights"])
def test_saving_and_loading_in_every_round_changes_nothing(name: str, tmp_path: Path) -> None:
    case = make_cases()[name]
    stays = case.fit()
    travels = stays
    for number in range(1, 20):
        accous.save(travels, tmp_path)
        travels = case.run(accous.load(tmp_path), number, 1)
    assert_same_bits(numbers_of(case, travels), numbers_of(case, case.run(stays, 1, 19)))


def test_saving_leaves_the_model_alone(tmp_path: Path) -> None:
    case = make_cases()["four classes"]
    model = case.run(case.fit(), 1, 5)
    before, state = numbers_of(case, model), model.state_
    accous.save(model, tmp_path)
    assert model.state_ is state
    assert_same_bits(numbers_of(case, model), before)


@pytest.mark.parametrize(
    "name", rest_slow(["two classes", "named columns", "pandas", "base weights", "seed", "by row", "forest"], n_fast=4)
)
def test_writing_into_what_was_passed_to_fit_changes_nothing(name: str, tmp_path: Path) -> None:
    case, untouched = make_cases()[name], make_cases()[name]
    X = case.rows(0, N_REFERENCE)
    case.rows = lambda round_, n_rows: X if round_ == 0 else untouched.rows(round_, n_rows)
    model = case.fit()
    for passed in [case.labels, case.sample_weight]:
        if passed is not None:
            passed[:] = passed[::-1].copy()
    column = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    getattr(X, "iloc", X)[:, 0] = 2.0 * column
    accous.save(case.run(model, 1, N_BEFORE), tmp_path)
    expected = untouched.run(untouched.fit(), 1, N_BEFORE)
    assert_same_bits(history(untouched, accous.load(tmp_path, **case.given)), history(untouched, expected))


def test_a_loaded_model_can_be_fitted_anew(tmp_path: Path) -> None:
    case = make_cases()["two classes"]
    accous.save(case.fit(), tmp_path)
    loaded = accous.load(tmp_path)
    fresh = Case(loaded, case.rows, case.labels)
    assert_same_bits(numbers_of(fresh, fresh.run(fresh.fit(), 1, 3)), numbers_of(case, case.run(case.fit(), 1, 3)))


def test_rows_that_classifier_and_ratio_share_are_stored_once(tmp_path: Path) -> None:
    case = make_cases()["two classes"]
    accous.save(case.fit(), tmp_path)
    loaded = accous.load(tmp_path)
    assert loaded.reference_ is loaded.ratio_.reference_


def test_rows_that_the_ratio_reads_otherwise_are_stored_as_read(tmp_path: Path) -> None:
    case = make_cases()["single precision"]
    accous.save(case.fit(), tmp_path)
    loaded = accous.load(tmp_path, **case.given)
    assert loaded.reference_.dtype == np.float32
    assert loaded.ratio_.reference_.dtype == np.float64
