"""Fitting a table: what is read of a reference, which predictor is taken, and predictors by name."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import is_classifier, is_regressor

from accous.diagnostics.risk import Evidence, Residuals
from accous.exceptions import DataError, ParameterError
from accous.model.backtest import Backtest
from accous.table.columns import Choices
from accous.table.fit import (
    FitJob,
    ReferenceTable,
    Trial,
    choose,
    error_of_constant,
    is_worth_comparing,
    n_rows_to_compare,
    read_reference,
)
from accous.table.model import NAMES, make_estimator
from accous.table.options import FitOptions
from accous.table.readers import open_table, with_labels

SPREAD = ("embedding_0", "embedding_1", "embedding_2")
BLOCKS = (("category", 3), ("number with mark", 2))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


# --- the reference ----------------------------------------------------------------------------------------------


def read_rows(path: str, rows: np.ndarray, drop: tuple[str, ...]) -> ReferenceTable:
    """Write rows with labels, and read them without some columns."""
    labels = np.arange(len(rows)) % 2
    np.save("labels.npy", labels)
    if path.endswith(".npy"):
        np.save(path, rows)
    elif path.endswith(".parquet"):
        pl.DataFrame({"embedding": rows.tolist()}).write_parquet(path)
    else:
        pl.DataFrame(rows, schema=SPREAD).with_columns(label=labels).write_csv(path)
    table, label = with_labels(open_table(path), "label" if path.endswith(".csv") else "labels.npy")
    return read_reference(table, label, Choices(drop=drop), skips_bad=True)


@pytest.mark.parametrize(("path", "bad"), [("rows.npy", [5]), ("rows.parquet", [5]), ("rows.csv", [])])
def test_what_is_dropped_is_not_read_but_an_embedding_is_checked_as_a_whole_and_something_is_left(path, bad):
    rows = np.random.default_rng(0).normal(size=(12, 3))
    assert read_rows(path, rows, SPREAD[1:]).X.shape == (12, 1)
    with pytest.raises(DataError, match=f"^{path} "):
        read_rows(path, rows, SPREAD)
    rows[4, 1] = np.inf
    assert [row.line for row in read_rows(path, rows, SPREAD[1:2]).bad_rows] == bad


NUMBERS = [float(number) for number in range(100)]
BY_HAND = np.mean([abs(number - np.median(range(number // 20 * 20))) for number in range(20, 100)])


@pytest.mark.parametrize(
    ("labels", "is_ordered", "expected"),
    [
        # The first fifth knows "a" alone. From then on all rows are "b", which are the most frequent from row 40 on.
        (["a"] * 20 + ["b"] * 80, True, (20 + 20) / 80),
        (["a"] * 20 + ["b"] * 80, False, 0.2),
        (NUMBERS, True, BY_HAND),
        (NUMBERS, False, 25.0),
        ([0.5, 1.5, 2.5, 3.5], True, 1.0),
    ],
)
def test_the_error_of_a_constant_is_that_of_the_rows_that_a_predictor_is_judged_on(labels, is_ordered, expected):
    x = np.random.default_rng(0).normal(size=len(labels))
    pl.DataFrame({"x": x, "y": labels}).write_csv("rows.csv")
    task = None if len(labels) > 4 else "regression"
    how = {"skips_bad": False, "is_ordered": is_ordered, "task": task}
    assert error_of_constant(read_reference(open_table("rows.csv"), "y", Choices(), **how)) == pytest.approx(expected)


# --- which predictor is taken, given what both did on the reference ---------------------------------------------


def make_trial(name: str, errors: list[int], gain: float = 0.0, drift: float = 0.01) -> Trial:
    """A trial with so many errors in each of four blocks of a hundred rows, and with this gain of adaptation."""
    is_right = np.concatenate([np.arange(100) >= n_wrong for n_wrong in errors])
    residuals = Residuals(mean=0.0, shift=0.0, spread=0.01, spread_down=0.01, unexplained=0.0)
    evidence = Evidence(fixed=residuals, adapted=residuals, drift=drift, gain=gain, n_looks=9)
    return Trial(name, 1.0 - is_right, True, Backtest(n_reference=500, looks=(), evidence=evidence))


@pytest.mark.parametrize(
    ("linear", "boosting", "chosen"),
    [
        ([10, 11, 12, 13], [11, 12, 13, 14], "linear"),
        ([10, 11, 12, 13], [40, 40, 40, 12], "linear"),
        # As on the first 1,000 rows of elec2: ahead in two blocks by far, behind in one by little.
        ([23, 20, 25, 24], [22, 31, 25, 37], "linear"),
        # As on those of occupancy: one block alone is no evidence, however much it differs.
        ([5, 0, 0, 0], [91, 0, 0, 0], "boosting"),
        ([10, 11, 12, 13], [10, 11, 12, 14], "boosting"),
        ([10, 11, 12, 13], [10, 11, 12, 13], "boosting"),
        ([0, 0, 0, 0], [0, 0, 0, 0], "boosting"),
        ([10, 12, 10, 12], [12, 10, 12, 10], "boosting"),
        ([20, 20, 20, 20], [10, 10, 10, 10], "boosting"),
        ([10, 10, 10, 40], [12, 12, 12, 12], "boosting"),
    ],
)
def test_linear_has_to_be_ahead_by_more_than_the_noise_between_blocks(linear, boosting, chosen):
    choice = choose(make_trial("linear", linear), make_trial("boosting", boosting))
    assert choice.name == chosen
    assert choice.trials[0].errors[0] == pytest.approx(np.mean(linear) / 100)
    # What is said agrees with the numbers.
    is_ahead = np.mean(linear) < np.mean(boosting)
    assert is_ahead == ("inear is ahead" in choice.reason or choice.name == "linear")
    compared = choice.to_json()["compared"]["boosting"]
    assert compared == {"error": pytest.approx(np.mean(boosting) / 100), "adapted_minus_fixed": 0.0}


@pytest.mark.parametrize(
    ("gain", "drift", "chosen"), [(-0.05, 0.01, "linear"), (0.05, 0.01, "boosting"), (-0.05, 0.2, "boosting")]
)
def test_what_adaptation_saves_counts_unless_the_reference_drifts_much(gain, drift, chosen):
    linear, boosting = make_trial("linear", [20] * 4, gain, drift), make_trial("boosting", [18] * 4)
    assert choose(linear, boosting).name == chosen
    assert linear.errors == (pytest.approx(0.2), pytest.approx(0.2 + gain))
    assert ("does not count" in choose(linear, boosting).reason) == (drift == 0.2)


@pytest.mark.parametrize(("n_better", "chosen"), [(0, "linear"), (3, "linear"), (60, "boosting")])
def test_without_an_order_boosting_has_to_be_clearly_better(n_better, chosen):
    is_right = np.arange(1000) < 700
    others = is_right | (np.arange(1000) >= 1000 - n_better - 4)
    others[:4] = False
    trials = Trial("linear", 1.0 - is_right, False, None), Trial("boosting", 1.0 - others, False, None)
    assert choose(*trials).name == chosen
    assert trials[0].errors == (pytest.approx(0.3), None)


def test_too_few_rows_and_too_many_features_are_not_compared():
    assert choose(Trial("linear", None, True, None), Trial("boosting", None, True, None)).name == "linear"
    assert is_worth_comparing(499, 5, 2) != "" != is_worth_comparing(100_000, 5_000, 10)
    assert is_worth_comparing(5_000, 20, 2) == is_worth_comparing(5_000_000, 20, 2) == ""


@pytest.mark.parametrize(
    ("shape", "n_rows"),
    [((5_000, 20, 2), 5_000), ((50_000, 50, 2), 50_000), ((50_001, 50, 2), 10_000), ((600, 3_000, 3), 500)],
)
def test_of_a_large_reference_some_thousand_rows_are_compared(shape, n_rows):
    assert n_rows_to_compare(*shape) == n_rows


@pytest.mark.parametrize("is_ordered", [True, False])
def test_a_part_of_a_large_reference_decides_and_the_model_has_all_rows(is_ordered, monkeypatch):
    monkeypatch.setattr("accous.table.fit.MOST_NUMBERS", 2_300)
    monkeypatch.setattr("accous.table.fit.ENOUGH_NUMBERS", 2_000)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 2))
    # A rule that no line has, in the latest rows only.
    y = np.where(np.arange(600) < 100, generator.random(600) < 0.5, x[:, 0] * x[:, 1] > 0)
    pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y.astype(int)}).write_csv("reference.csv")
    options = {"label": "y", "estimator": "auto", "ordered": is_ordered, "refit_budget": None, "output": Path("m")}
    job = FitJob(FitOptions(reference="reference.csv", **options))
    part = job.reference.part(500, seed=0)
    assert len(part.y) == len(part.X) == part.frame.height == 500
    assert np.array_equal(part.frame["a"].cast(pl.Float64), x[100:, 0]) == is_ordered
    model = job.fit_and_save()
    assert job.choice.name == "boosting"
    assert "500 of 600 rows" in job.choice.reason
    assert len(model.model.reference_) == 600


# --- predictors by name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize(("kind", "is_kind"), [("classifier", is_classifier), ("regressor", is_regressor)])
def test_each_name_has_a_predictor_of_each_kind(name, kind, is_kind):
    estimator = make_estimator(name, kind=kind, seed=3, blocks=BLOCKS)
    assert is_kind(estimator)
    random = np.random.default_rng(0)
    X = np.column_stack((np.eye(3)[random.integers(0, 3, 90)], random.normal(size=90), random.random(90) < 0.1))
    assert estimator.fit(X, X[:, 0] + X[:, 3] > 0.4).predict(X).shape == (90,)


def test_linear_is_the_built_in_one_and_categories_reach_the_trees_as_categories():
    assert make_estimator("linear", kind="regressor", seed=0, blocks=()) is None
    boosting = make_estimator("boosting", kind="classifier", seed=0, blocks=BLOCKS).steps[-1][1]
    assert boosting.categorical_features == [True, False]


FUNCTIONS = """
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
def make():
    parts = [('a', RandomForestClassifier(3)), ('b', RandomForestClassifier(3, random_state=5))]
    return VotingClassifier(parts)
def fail():
    1 / 0
def number():
    return 5
"""


def test_what_your_function_leaves_unseeded_gets_the_seed():
    Path("unseeded_models.py").write_text(FUNCTIONS)
    found = make_estimator("unseeded_models:make", kind="classifier", seed=11, blocks=()).get_params()
    assert (found["a__random_state"], found["b__random_state"]) == (11, 5)


@pytest.mark.parametrize(
    ("name", "culprit"),
    [
        ("bosting", "'bosting' .*'boosting'"),
        ("no_such_module:make", "'no_such_module'"),
        ("my_models:mak", "'mak'"),
        ("my_models:fail", "my_models:fail .*ZeroDivisionError"),
        ("my_models:number", "int"),
    ],
)
def test_what_cannot_be_made_is_named(name, culprit):
    Path("my_models.py").write_text(FUNCTIONS)
    with pytest.raises(ParameterError, match=culprit):
        make_estimator(name, kind="classifier", seed=0, blocks=())
