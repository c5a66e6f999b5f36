"""AdaptiveClassifier keeps scikit-learn's promises: its own checks, cloning, parameters, pickling, frames as input."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from tests.budgets import rest_slow
from tests.classifiers import PROBE, Array, drifting_batches, labelled_rows, play, shown_state

MakeFrame = Callable[[dict[str, Array]], Any]

NAMES = ["age", "height", "weight"]
EVERY_KIND = [
    AdaptiveClassifier(),
    AdaptiveClassifier(refit="always", C=0.5),
    AdaptiveClassifier(LogisticRegression()),
    AdaptiveClassifier(DecisionTreeClassifier(random_state=0)),
    # Not a scaler: a weight of two is not a row given twice where a step before the last does not see the weights.
    AdaptiveClassifier(make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=1000))),
    AdaptiveClassifier(ratio=OnlineDensityRatio("rbf", loss="kl", random_state=0)),
    AdaptiveClassifier(ratio=OnlineDensityRatio(MinMaxScaler())),
    AdaptiveClassifier(ratio=SingleLearnerRatio()),
    AdaptiveClassifier(ratio=NoShift()),
]
# Our own regression and any other classifier; the checks of the other settings are slow tests.
ONE_OF_EACH = [AdaptiveClassifier(), AdaptiveClassifier(LogisticRegression())]
OTHER_SETTINGS = [model for model in EVERY_KIND if repr(model) not in set(map(repr, ONE_OF_EACH))]
FAR_FROM_DEFAULTS = AdaptiveClassifier(
    None,
    SingleLearnerRatio(),
    refit=3,
    refit_budget=0.5,
    C=0.2,
    standardize=False,
    fallback="none",
    caution="high",
    random_state=5,
)


def one_line(model: AdaptiveClassifier) -> str:
    return " ".join(repr(model).split())


each_model = pytest.mark.parametrize(
    "model",
    [
        *(pytest.param(model, id=one_line(model)) for model in ONE_OF_EACH),
        pytest.param(FAR_FROM_DEFAULTS, id="far from defaults"),
        *(pytest.param(model, id=one_line(model), marks=pytest.mark.slow) for model in OTHER_SETTINGS),
    ],
)
# Our own regression reads rows, any other classifier gets what the user gave.
each_reader = pytest.mark.parametrize(
    "model", [AdaptiveClassifier(), AdaptiveClassifier(LogisticRegression())], ids=["ours", "foreign"]
)
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def play_rounds(model: Any, n_rounds: int, seed: int = 1, to_input: Callable[[Array], Any] = np.asarray) -> Any:
    return play(model, map(to_input, drifting_batches(n_rounds, seed=seed)))


def framed(make_frame: MakeFrame) -> Callable[[Array], Any]:
    return lambda X: make_frame(dict(zip(NAMES, X.T, strict=True)))


# --- scikit-learn's own checks ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ONE_OF_EACH)
def test_scikit_learn_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", OTHER_SETTINGS, ids=one_line)
def test_scikit_learn_checks_of_other_settings(estimator: BaseEstimator) -> None:
    check_estimator(estimator)


# --- cloning, parameters, pickling --------------------------------------------------------------------------


@each_model
def test_clone_has_the_parameters_and_nothing_learned(model: Any) -> None:
    fitted = play_rounds(clone(model).fit(*labelled_rows()), 6)
    copy = clone(fitted)
    assert one_line(copy) == one_line(model)
    assert not hasattr(copy, "n_features_in_")
    assert not hasattr(copy, "n_rounds_")
    assert shown_state(play_rounds(copy.fit(*labelled_rows()), 6), PROBE) == shown_state(fitted, PROBE)


@each_model
def test_set_params_takes_what_get_params_gives(model: Any) -> None:
    parameters = model.get_params(deep=False)
    assert AdaptiveClassifier().set_params(**parameters).get_params(deep=False) == parameters


def test_every_parameter_of_the_far_model_differs_from_its_default() -> None:
    defaults, parameters = (model.get_params(deep=False) for model in (AdaptiveClassifier(), FAR_FROM_DEFAULTS))
    # A penalty beside an estimator is refused.
    assert {name for name in defaults if parameters[name] != defaults[name]} == set(defaults) - {"estimator"}


def test_parameters_of_the_parts_can_be_set_from_outside() -> None:
    model = AdaptiveClassifier(LogisticRegression(), OnlineDensityRatio())
    model.set_params(estimator__C=1e-6, ratio__max_ratio=2.0).fit(*labelled_rows())
    assert np.abs(model.estimator_.coef_).max() < 1e-3
    assert play_rounds(model, 10).ratio_.reference_ratio_.max() <= 2.0


@each_model
def test_fitting_leaves_the_parameters_alone(model: Any) -> None:
    model = clone(model)
    before = model.get_params(deep=False)
    play_rounds(model.fit(*labelled_rows()), 6)
    after = model.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


@each_model
def test_a_pickled_model_goes_on_with_the_same_bits(model: Any) -> None:
    stays = play_rounds(clone(model).fit(*labelled_rows()), 9)
    file = io.BytesIO()
    pickle.dump(stays, file)
    file.seek(0)
    travels = pickle.load(file)
    assert shown_state(travels, PROBE) == shown_state(stays, PROBE)
    assert shown_state(play_rounds(travels, 9, seed=2), PROBE) == shown_state(play_rounds(stays, 9, seed=2), PROBE)


@each_model
def test_fit_and_adapt_return_the_model(model: Any) -> None:
    model = clone(model)
    assert model.fit(*labelled_rows()) is model
    assert model.adapt(PROBE[:1]) is model


RANDOM_PARTS = AdaptiveClassifier(
    RandomForestClassifier(5, random_state=1), OnlineDensityRatio("rbf", random_state=2), refit="always"
)


@pytest.mark.parametrize("model", [AdaptiveClassifier(), RANDOM_PARTS], ids=["defaults", "random parts"])
def test_the_same_seeds_give_the_same_bits(model: Any) -> None:
    first, second = (play_rounds(clone(model).fit(*labelled_rows()), 12) for _ in range(2))
    assert shown_state(first, PROBE) == shown_state(second, PROBE)


def test_asking_changes_nothing() -> None:
    model = play_rounds(AdaptiveClassifier(refit="always").fit(*labelled_rows()), 6)
    assert model.risk_estimate_ > 0.0
    before = pickle.dumps(model)
    shown_state(model, 1e6 * PROBE)
    assert pickle.dumps(model) == before


def test_scikit_learns_tools_take_it() -> None:
    X, y = labelled_rows()
    assert cross_val_score(AdaptiveClassifier(), X, y).mean() > 0.6
    search = GridSearchCV(AdaptiveClassifier(), {"C": [1e-6, 1.0]}).fit(X, y)
    assert search.best_params_ == {"C": 1.0}
    assert search.best_estimator_.score(X, y) > 0.6


# --- frames, lists, other number types ----------------------------------------------------------------------


@each_frame
@pytest.mark.parametrize("model", rest_slow([*ONE_OF_EACH, *OTHER_SETTINGS, FAR_FROM_DEFAULTS], len(ONE_OF_EACH)))
def test_a_frame_gives_what_its_array_gives(model: Any, make_frame: MakeFrame) -> None:
    (X, y), to_frame = labelled_rows(), framed(make_frame)
    of_frame = play_rounds(clone(model).fit(to_frame(X), y), 8, to_input=to_frame)
    of_array = play_rounds(clone(model).fit(X, y), 8)
    np.testing.assert_allclose(of_frame.reference_weight_, of_array.reference_weight_, rtol=1e-8)
    np.testing.assert_allclose(of_frame.predict_proba(to_frame(PROBE)), of_array.predict_proba(PROBE), rtol=1e-4)
    assert list(of_frame.feature_names_in_) == NAMES


WRONG_COLUMNS = {
    "missing": (["age", "height"], "weight"),
    "missing beside an extra one": (["age", "height", "shoe"], "weight"),
    "renamed": (["age", "height", "mass"], "mass"),
}


@each_frame
@each_reader
def test_wrong_columns_are_named_and_change_nothing(model: Any, make_frame: MakeFrame) -> None:
    (X, y), to_frame = labelled_rows(), framed(make_frame)
    model = play_rounds(clone(model).fit(to_frame(X), y), 6, to_input=to_frame)
    before = shown_state(model, to_frame(PROBE))
    for names, named in WRONG_COLUMNS.values():
        batch = make_frame({name: np.ones(4) for name in names})
        for method in ("adapt", "step", "predict", "predict_proba", "decision_function"):
            with pytest.raises(ValueError, match=rf"\b{named}\b"):
                getattr(model, method)(batch)
    assert shown_state(model, to_frame(PROBE)) == before


@each_reader
def test_a_missing_value_is_named_by_column_and_row(model: Any) -> None:
    (X, y), to_frame = labelled_rows(), framed(pd.DataFrame)
    model = clone(model).fit(to_frame(X), y)
    batch = to_frame(PROBE)
    batch.loc[3, "height"] = np.nan
    with pytest.raises(ValueError, match=r"Column 'height' holds NaN in row 3"):
        model.adapt(batch)


@each_reader
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_number_types_are_read_as_double(model: Any, dtype: type) -> None:
    X, y = labelled_rows()
    X, batch, probe = (np.abs(3.0 * rows).astype(dtype) for rows in (X, *drifting_batches(1), PROBE))
    narrow = clone(model).fit(X, y)
    double = clone(model).fit(X.astype(np.float64), y)
    for _ in range(8):
        narrow.adapt(batch)
        double.adapt(batch.astype(np.float64))
    np.testing.assert_allclose(narrow.predict_proba(probe), double.predict_proba(probe.astype(np.float64)), atol=1e-3)


@each_reader
def test_lists_are_read_as_arrays(model: Any) -> None:
    X, y = labelled_rows()
    of_list = play_rounds(clone(model).fit(X.tolist(), y.tolist()), 6, to_input=np.ndarray.tolist)
    of_array = play_rounds(clone(model).fit(X, y), 6)
    assert shown_state(of_list, PROBE) == shown_state(of_array, PROBE)


@each_reader
@pytest.mark.parametrize("changed", ["X", "y", "sample_weight", "batch"])
def test_input_is_not_kept_by_reference(model: Any, changed: str) -> None:
    """Callers reuse their buffers; what was learned, and what later rounds learn, must not change with them."""
    X, y = labelled_rows()
    given = {"X": X.copy(), "y": y.copy(), "sample_weight": np.linspace(0.5, 1.5, len(X))}
    batch = drifting_batches(1)[0]
    models = [clone(model).set_params(refit="always").fit(**given).adapt(batch) for _ in range(2)]
    expected = shown_state(play_rounds(models[0], 9), PROBE)
    (given | {"batch": batch})[changed][::2] = 1
    assert shown_state(play_rounds(models[1], 9), PROBE) == expected
