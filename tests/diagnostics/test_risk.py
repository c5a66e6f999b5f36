"""The weighted error: by hand, its range, and what it estimates under known ratios."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.diagnostics.risk import RiskEstimate, weighted_loss

N_ROWS = 6
positive_weights = arrays(np.float64, N_ROWS, elements=st.floats(1e-6, 1e3))
masks = arrays(np.bool_, N_ROWS)


def weighted_error(is_wrong: np.ndarray, weights: FloatArray) -> float:
    return weighted_loss(is_wrong.astype(float), weights)


@pytest.mark.parametrize(
    ("is_wrong", "weights", "error"),
    [
        ([True, False], [1.0, 1.0], 0.5),
        ([True, False], [3.0, 1.0], 0.75),
        ([True, False, True], [0.0, 2.0, 0.0], 0.0),
        ([True, True], [0.2, 7.0], 1.0),
    ],
)
def test_by_hand(is_wrong: list[bool], weights: list[float], error: float) -> None:
    assert weighted_error(np.array(is_wrong), np.array(weights)) == pytest.approx(error, abs=1e-15)


@given(masks, positive_weights)
def test_errors_and_hits_make_one(is_wrong: np.ndarray, weights: FloatArray) -> None:
    error = weighted_error(is_wrong, weights)
    assert 0.0 <= error <= 1.0 + 1e-12
    assert error + weighted_error(~is_wrong, weights) == pytest.approx(1.0, abs=1e-12)


@given(masks, positive_weights, st.floats(1e-3, 1e3))
def test_the_scale_of_the_weights_does_not_matter(is_wrong: np.ndarray, weights: FloatArray, scale: float) -> None:
    assert weighted_error(is_wrong, weights * scale) == pytest.approx(weighted_error(is_wrong, weights), abs=1e-12)


@given(masks)
def test_equal_weights_give_the_plain_error_rate(is_wrong: np.ndarray) -> None:
    assert weighted_error(is_wrong, np.full(N_ROWS, 0.3)) == pytest.approx(is_wrong.mean(), abs=1e-12)


def test_the_true_ratio_turns_the_reference_error_into_the_batch_error() -> None:
    """Wrong above 0: half of a standard normal, 84 % of one moved by 1; the ratio of the two is exp(x - 1/2)."""
    x = np.random.default_rng(0).normal(size=200_000)
    assert weighted_error(x > 0.0, np.ones_like(x)) == pytest.approx(0.5, abs=0.01)
    assert weighted_error(x > 0.0, np.exp(x - 0.5)) == pytest.approx(0.8413, abs=0.01)


def test_an_estimate_prints_as_sentences_and_says_what_is_not_known() -> None:
    nan = float("nan")
    risk = RiskEstimate(adapted=0.1, adapted_low=0.05, adapted_high=0.2, fixed=nan, fixed_low=nan, fixed_high=nan)
    assert str(risk) == (
        "The estimated error of the predictor in use is 10.0% (between 5.0% and 20.0%). That of the fixed model is not "
        "known. Nominal coverage of the intervals: 90%."
    )
    wide = replace(risk, adapted=0.048, adapted_low=0.0, adapted_high=1.0, fixed=0.3, fixed_low=0.2, fixed_high=0.4)
    assert not wide.is_known
    assert str(wide) == (
        "The estimated error of the predictor in use is not known: anywhere between 0% and 100%. That of the fixed "
        "model is 30.0% (between 20.0% and 40.0%). Nominal coverage of the intervals: 90%."
    )
    assert repr(risk).startswith("RiskEstimate(adapted=0.1, ")
