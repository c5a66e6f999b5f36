"""Fitting a table: what is read of a reference, which predictor is taken, and predictors by name."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier

import accous
from accous.exceptions import DataError, ParameterError
from accous.table.columns import Choices
from accous.table.fit import FitJob, ReferenceTable, losses_of_constant, read_reference
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
BY_HAND = np.mean([abs(number - np.median(range(number // 20 * 20))) for number in range(40, 100)])


@pytest.mark.parametrize(
    ("labels", "is_ordered", "expected"),
    [
        # The first forty have more of "a". From then on all rows are "b", which are the most frequent from row 60 on.
        (["a"] * 25 + ["b"] * 75, True, 20 / 60),
        (["a"] * 20 + ["b"] * 80, False, 0.2),
        (NUMBERS, True, BY_HAND),
        (NUMBERS, False, 25.0),
        ([0.5, 1.5, 2.5, 3.5], True, 1.0),  # too few to hold any out
    ],
)
def test_the_error_of_a_constant_is_that_of_the_rows_that_a_predictor_is_judged_on(labels, is_ordered, expected):
    x = np.random.default_rng(0).normal(size=len(labels))
    pl.DataFrame({"x": x, "y": labels}).write_csv("rows.csv")
    task = None if len(labels) > 4 else "regression"
    how = {"skips_bad": False, "is_ordered": is_ordered, "task": task}
    losses = losses_of_constant(read_reference(open_table("rows.csv"), "y", Choices(), **how))
    assert np.nanmean(losses) == pytest.approx(expected)


@pytest.mark.parametrize("is_ordered", [True, False])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_chance_does_not_beat_a_constant_even_where_its_error_is_a_little_smaller(is_ordered, task):
    found = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        x, labels = random.normal(size=300), random.integers(0, 3, 300)
        pl.DataFrame({"x": x, "chance": labels, "rule": (labels > 0) + 2 * (x > 0)}).write_csv("rows.csv")
        options = {"reference": "rows.csv", "ordered": is_ordered, "task": task, "refit_budget": None}
        for label, other in (("chance", "rule"), ("rule", "chance")):
            job = FitJob(FitOptions(label=label, drop=[other], estimator="linear", output=Path("m"), **options))
            job.hold_out()
            constant = np.nanmean(losses_of_constant(job.reference))
            found.append((label, job.beats_constant, job.error < constant))
    assert all(beats for label, beats, _ in found if label == "rule")
    by_chance = [(beats, is_smaller) for label, beats, is_smaller in found if label == "chance"]
    assert sum(beats for beats, _ in by_chance) <= 2
    assert sum(is_smaller for _, is_smaller in by_chance) > 2 or task == "regression"


# --- two predictors together ------------------------------------------------------------------------------------


def job_on(n_rows: int, *, is_ordered: bool, **options: object) -> FitJob:
    """A rule that no line has."""
    x = np.random.default_rng(0).normal(size=(n_rows, 2))
    pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": (x[:, 0] * x[:, 1] > 0).astype(int)}).write_csv("reference.csv")
    given = {"label": "y", "ordered": is_ordered, "refit_budget": None, "output": Path("m"), **options}
    return FitJob(FitOptions(reference="reference.csv", **given))


@pytest.mark.parametrize("is_ordered", [True, False])
def test_held_out_rows_decide_how_linear_and_boosting_are_combined(is_ordered):
    job = job_on(600, is_ordered=is_ordered)
    shares: list[float] = []
    model = job.fit_and_save(shares.append)
    assert shares == sorted(shares)
    assert shares[-1] <= 1.0
    found = model.settings["predictors"]
    assert found["boosting"]["weight"] == model.model.combination_.share > 0.5
    assert found["linear"]["error"] > 0.3
    assert found["boosting"]["error"] < 0.2
    held = model.model.held_out_
    assert held.is_in_time == is_ordered
    assert len(held.rows) == (360 if is_ordered else 600)
    assert found["together"]["error"] == pytest.approx(1.0 - model.settings["accuracy"])
    again = accous.load("m").model
    assert again.combination_ == model.model.combination_
    assert np.array_equal(again.held_out_.probabilities, held.probabilities)


def test_replays_and_the_choice_of_predictors_share_their_fits(monkeypatch):
    seen: list[bytes] = []

    def fit(trees: HistGradientBoostingClassifier, X: np.ndarray, y: np.ndarray, sample_weight=None) -> object:
        seen.append(b"".join(np.ascontiguousarray(each).tobytes() for each in (X, y, sample_weight)))
        return plain_fit(trees, X, y, sample_weight)

    plain_fit = HistGradientBoostingClassifier.fit
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", fit)
    job_on(600, is_ordered=True).fit_and_save()
    # Three blocks of time, the whole, and two folds of each for what a replay reads.
    assert len(seen) == len(set(seen)) <= 12


def test_few_rows_and_wide_tables_have_the_linear_predictor_alone(monkeypatch):
    job = job_on(499, is_ordered=True)
    assert (job.estimator, job.combination) == ("linear", None)
    assert "500 rows" in job.why_linear
    monkeypatch.setattr("accous.table.fit._MOST_FEATURES_OF_CLASSES", 3)
    assert "too many features" in job_on(500, is_ordered=True).why_linear
    assert job_on(500, is_ordered=True, estimator="boosting").estimator == "boosting"


@pytest.mark.parametrize(("n_rows", "options"), [(300, {}), (520, {"estimator": "linear"})])
def test_the_linear_predictor_alone_reads_clipped_numbers_too(n_rows, options):
    model = job_on(n_rows, is_ordered=False, **options).fit_and_save()
    at_bound = np.quantile(pl.read_csv("reference.csv")["a"], [0.5, 0.999]).tolist()
    far = [pl.DataFrame({"a": [at_bound[0], a], "b": [1.0, 1.0]}) for a in (at_bound[1], 1e9)]
    assert len({model.predict(each)["p_1"][1] for each in far}) == 1


def test_the_model_s_own_ratio_is_clipped_and_one_that_is_asked_for_is_not():
    own = job_on(520, is_ordered=False).fit_and_save().model
    assert np.isfinite(own.ratio_.bounds.high).all()
    asked = job_on(520, is_ordered=False, max_ratio=50.0, force=True).fit_and_save().model
    assert np.isinf(asked.ratio_.bounds.high).all()


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
    assert make_estimator("linear", kind="regressor", seed=0, blocks=()) == "linear"
    boosting = make_estimator("boosting", kind="classifier", seed=0, blocks=BLOCKS).steps[-1][1]
    assert boosting.categorical_features == [0]


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
