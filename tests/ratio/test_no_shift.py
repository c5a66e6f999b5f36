"""NoShift: the ratio that is 1 everywhere."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from accous import NoShift, OnlineDensityRatio


def test_the_ratio_is_1_whatever_arrives() -> None:
    estimator = NoShift().fit(np.zeros((5, 2)))
    for t in range(1, 8):
        estimator.partial_fit(np.full((t, 2), 1e300))
        assert estimator.predict_ratio(np.full((3, 2), -1e300)).tolist() == [1.0] * 3
        assert estimator.reference_ratio_.tolist() == [1.0] * 5
        assert estimator.n_rounds_ == t


def test_refit_forgets_the_rounds_and_the_reference() -> None:
    estimator = NoShift().fit(np.zeros((5, 2))).partial_fit(np.zeros((1, 2))).fit(np.zeros((3, 4)))
    assert estimator.n_rounds_ == 0
    assert estimator.n_features_in_ == 4
    assert estimator.reference_ratio_.shape == (3,)


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_may_hold_anything(make_frame: Any) -> None:
    """It serves beside any estimator, also one whose pipeline takes categories and missing values."""
    frame = make_frame({"city": ["Rome", None, "Oslo"], "age": [1.0, None, float("inf")]})
    estimator = NoShift().fit(frame).partial_fit(frame)
    assert estimator.n_rounds_ == 1
    assert estimator.predict_ratio(frame).tolist() == estimator.reference_ratio_.tolist() == [1.0] * 3
    assert list(estimator.feature_names_in_) == ["city", "age"]


@pytest.mark.parametrize(
    "X", [np.array([[np.nan, 0.0]]), np.array([["a", "b"]]), np.zeros((2, 3)), np.zeros(2)], ids=repr
)
def test_arrays_are_checked_as_by_the_others(X: Any) -> None:
    estimator = NoShift().fit(np.zeros((5, 2)))
    for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
        with pytest.raises(ValueError, match=r"NaN|numbers|features|one dimension"):
            method(X)
    assert estimator.n_rounds_ == 0


def test_it_has_no_parameters() -> None:
    assert NoShift().get_params() == {}


def test_its_loss_is_the_logistic_loss_of_the_ratio_1() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    estimator = NoShift().fit(X)
    assert estimator.score_loss(X[:3]) == math.log(2.0)
    assert estimator.score_loss(X[:3]) == pytest.approx(OnlineDensityRatio().fit(X).score_loss(X[:3]), rel=1e-12)


def test_changing_the_array_it_gives_changes_nothing() -> None:
    estimator = NoShift().fit(np.zeros((5, 2)))
    estimator.reference_ratio_[:] = 9.0
    assert estimator.reference_ratio_.tolist() == [1.0] * 5


@pytest.mark.parametrize("method", ["predict_ratio", "score_loss"])
def test_an_unfitted_estimator_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match="NoShift"):
        getattr(NoShift(), method)(np.zeros((2, 2)))
