"""What a step refuses, in one sentence, with nothing lost."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from accous import ULSIF, AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.exceptions import DataError, ParameterError
from accous.keyed import KeyedAdapter
from tests.keyed.conftest import drifting, labelled


@pytest.mark.parametrize("null", [None, float("nan")])
def test_null_keys(adapter, null):
    with pytest.raises(DataError, match="in row 2: give every row a key"):
        adapter.step_many({}, ["a", "b", null], None, drifting(3, 0))


def test_pandas_null_keys(adapter):
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    keys = pandas.array([1, pandas.NA, 3], dtype="Int64")
    with pytest.raises(DataError, match="keys holds <NA> in row 1"):
        adapter.step_many({}, keys, None, drifting(3, 0))


def test_wrong_rows(adapter):
    with pytest.raises(ValueError, match="X has 3 features, but AdaptiveClassifier is expecting 4"):
        adapter.step(None, np.zeros((2, 3)))
    broken = drifting(3, 0)
    broken[1, 2] = np.nan
    with pytest.raises(DataError, match="row 1"):
        adapter.step(None, broken)
    with pytest.raises(DataError, match="X has 3 rows but keys has 2 values"):
        adapter.step_many({}, ["a", "b"], None, drifting(3, 0))
    with pytest.raises(DataError, match="X has 3 rows but times has 2 values"):
        adapter.step(None, drifting(3, 0), [1.0, 2.0])
    with pytest.raises(DataError, match="times holds nan in row 1"):
        adapter.step(None, drifting(2, 0), [1.0, np.nan])
    with pytest.raises(DataError, match="times holds values of type <U1: use numbers or datetimes"):
        adapter.step(None, drifting(1, 0), ["x"])
    with pytest.raises(DataError, match="numbers must be integers"):
        adapter.step(None, drifting(1, 0), numbers=[0.5])
    with pytest.raises(DataError, match="cannot name a state"):
        adapter.step_many({}, [["a"]], None, drifting(1, 0))


@pytest.mark.parametrize("states", [None, [b""]])
def test_states_that_are_no_dict(adapter, states):
    with pytest.raises(DataError, match=f"states must be a dict of key to bytes, got {type(states).__name__}: begin"):
        adapter.step_many(states, ["a"], None, drifting(1, 0))


def test_an_error_in_one_key_loses_no_other(adapter):
    """The caller's states are as they were, and the same call without the fault gives what it would have given."""
    states = adapter.step_many({}, ["a", "b"] * 20, None, drifting(40, 0))[0]
    before = dict(states)
    with pytest.raises(Exception, match="'b' is torn"):
        adapter.step_many(states | {"b": states["b"][:-1]}, ["a", "b"], None, drifting(2, 1))
    assert states == before
    again = adapter.step_many(states, ["a", "b"], None, drifting(2, 1))[0]
    assert again["a"] == adapter.step(states["a"], drifting(2, 1)[:1])[0]


def test_models_that_keys_cannot_share():
    X, y = labelled(120, 0)
    for model, message in (
        (AdaptiveClassifier(), "must be fitted"),
        (DecisionTreeClassifier(), "takes a fitted AdaptiveClassifier, got DecisionTreeClassifier.$"),
        (SimpleNamespace(model=AdaptiveClassifier()), "got SimpleNamespace: pass its attribute `model`, and the rows"),
        (AdaptiveRegressor(), "^Keys predict classes only: .* got an AdaptiveRegressor.$"),
        (AdaptiveClassifier(DecisionTreeClassifier()).fit(X, y), "fit a model with estimator=None"),
        (AdaptiveClassifier(ratio=ULSIF()).fit(X, y), "fit a model with ratio=None"),
        (
            AdaptiveClassifier(ratio=OnlineDensityRatio(pool="none")).fit(X, y),
            "needs an OnlineDensityRatio with a pool",
        ),
        (AdaptiveClassifier(ratio=OnlineDensityRatio("rbf", random_state=0)).fit(X, y), "fewer than 63 columns"),
        (AdaptiveClassifier(ratio=OnlineDensityRatio(metric="diagonal")).fit(X, y), "the full metric"),
    ):
        with pytest.raises(ParameterError, match=message):
            KeyedAdapter(model)
