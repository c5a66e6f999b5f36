"""DANN keeps scikit-learn's promises, and its errors are the package's own."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from accous.exceptions import DataError, ParameterError
from accous_bench.dann import DANN
from tests.classifiers import PROBE, Array, drifting_batches, labelled_rows

NAMES = ["age", "height", "weight"]
QUICK = DANN(n_hidden=8, n_fit_steps=20, n_adapt_steps=5)
FAR_FROM_DEFAULTS = DANN(
    n_hidden=7,
    n_fit_steps=19,
    n_adapt_steps=4,
    learning_rate=0.05,
    adapt_learning_rate=0.02,
    adversarial_weight=0.5,
    penalty=0.02,
    max_rows_per_step=30,
    random_state=5,
)

each_model = pytest.mark.parametrize("model", [QUICK, FAR_FROM_DEFAULTS], ids=["quick", "far from defaults"])
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def bits(model: DANN, probe: Any = PROBE) -> bytes:
    return model.predict_proba(probe).tobytes()


def framed(make_frame: Callable[[dict[str, Array]], Any], X: Array) -> Any:
    return make_frame(dict(zip(NAMES, X.T, strict=True)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([DANN(n_fit_steps=100)])
def test_scikit_learn_check(estimator: BaseEstimator, check: Callable[[BaseEstimator], None]) -> None:
    check(estimator)


# --- cloning, parameters, pickling --------------------------------------------------------------------------


def test_every_parameter_of_the_far_model_differs_from_its_default() -> None:
    defaults, parameters = DANN().get_params(), FAR_FROM_DEFAULTS.get_params()
    assert all(parameters[name] != defaults[name] for name in defaults)


@each_model
def test_clone_has_the_parameters_and_nothing_learned(model: DANN) -> None:
    fitted = clone(model).fit(*labelled_rows()).adapt(PROBE)
    copy = clone(fitted)
    assert copy.get_params() == model.get_params()
    assert vars(copy) == copy.get_params()
    assert bits(copy.fit(*labelled_rows()).adapt(PROBE)) == bits(fitted)


@each_model
def test_a_pickled_model_goes_on_with_the_same_bits(model: DANN) -> None:
    stays = clone(model).fit(*labelled_rows()).adapt(PROBE)
    travels = pickle.loads(pickle.dumps(stays))
    assert (travels.n_rounds_, bits(travels)) == (1, bits(stays))
    assert bits(travels.adapt(PROBE[:4])) == bits(stays.adapt(PROBE[:4]))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_hidden", 0),
        ("n_fit_steps", 1.5),
        ("n_adapt_steps", 0),
        ("max_rows_per_step", True),
        ("learning_rate", 0.0),
        ("adapt_learning_rate", float("nan")),
        ("adversarial_weight", -1.0),
        ("penalty", float("inf")),
    ],
)
def test_a_parameter_out_of_its_domain_is_named(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=rf"^{name} must be"):
        clone(QUICK).set_params(**{name: value}).fit(*labelled_rows())


def test_what_is_not_learned_yet_asks_for_fit() -> None:
    for name in ("n_rounds_", "network_", "classes_", "offline_network_"):
        with pytest.raises(NotFittedError, match="call fit"):
            getattr(DANN(), name)
    with pytest.raises(NotFittedError):
        DANN().adapt(PROBE)


# --- frames and errors --------------------------------------------------------------------------------------


@each_frame
def test_a_frame_gives_what_its_array_gives(make_frame: Any) -> None:
    X, y = labelled_rows()
    of_frame = clone(QUICK).fit(framed(make_frame, X), y)
    of_array = clone(QUICK).fit(X, y)
    for batch in drifting_batches(2):
        of_frame.adapt(framed(make_frame, batch))
        of_array.adapt(batch)
    assert bits(of_frame, framed(make_frame, PROBE)) == bits(of_array)
    assert of_frame.feature_names_in_.tolist() == NAMES


@each_frame
@pytest.mark.parametrize("method", ["adapt", "predict", "predict_proba"])
@pytest.mark.parametrize("names", [["age", "height", "mass"], ["height", "age", "weight"], ["age", "height"]])
def test_wrong_columns_are_refused_and_change_nothing(names: list[str], method: str, make_frame: Any) -> None:
    X, y = labelled_rows()
    model = clone(QUICK).fit(framed(make_frame, X), y).adapt(framed(make_frame, PROBE))
    before = bits(model, framed(make_frame, PROBE))
    with pytest.raises(DataError, match="feature names"):
        getattr(model, method)(make_frame({name: np.ones(4) for name in names}))
    assert (model.n_rounds_, bits(model, framed(make_frame, PROBE))) == (1, before)


def test_a_missing_value_is_named_by_column_and_row() -> None:
    X, y = labelled_rows()
    model = clone(QUICK).fit(framed(pd.DataFrame, X), y)
    batch = framed(pd.DataFrame, PROBE)
    batch.loc[3, "height"] = np.nan
    with pytest.raises(DataError, match="Column 'height' holds NaN in row 3"):
        model.adapt(batch)
    assert model.n_rounds_ == 0


BAD_REFERENCES = {
    "no labels": ({"y": None}, "DANN requires y"),
    "too few labels": ({"y": [0, 1]}, "120 rows but y has 2 labels"),
    "one class": ({"y": np.zeros(120, dtype=int)}, "one class 0"),
    "negative weight": ({"sample_weight": -np.ones(120)}, "sample_weight must be"),
}


@pytest.mark.parametrize(("changed", "message"), BAD_REFERENCES.values(), ids=BAD_REFERENCES)
def test_a_bad_reference_is_refused_and_leaves_the_model_as_it_was(changed: dict[str, Any], message: str) -> None:
    X, y = labelled_rows()
    model = clone(QUICK).fit(X, y).adapt(PROBE)
    before = bits(model)
    with pytest.raises(DataError, match=message):
        model.fit(**{"X": X[:, :2], "y": y} | changed)
    assert (model.n_rounds_, bits(model)) == (1, before)


def test_training_that_diverges_leaves_the_model_as_it_was() -> None:
    model = clone(QUICK).fit(*labelled_rows()).adapt(PROBE)
    before = bits(model)
    with pytest.raises(ParameterError, match="too large"):
        model.set_params(learning_rate=1e200).fit(*labelled_rows())
    with pytest.raises(ParameterError, match="too large"):
        model.set_params(adapt_learning_rate=1e200).adapt(PROBE)
    assert (model.n_rounds_, bits(model)) == (1, before)


@pytest.mark.parametrize("changed", ["X", "y", "sample_weight"])
def test_input_is_not_kept_by_reference(changed: str) -> None:
    X, y = labelled_rows()
    given = {"X": X.copy(), "y": y.copy(), "sample_weight": np.linspace(0.5, 1.5, len(X))}
    models = [clone(QUICK).fit(**given) for _ in range(2)]
    expected = bits(models[0].adapt(PROBE))
    given[changed][::2] = 1
    assert bits(models[1].adapt(PROBE)) == expected
