"""Tempering: the compiled sums against plain ones, and the exponent that past losses choose."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.arrays import FloatArray
from accous.core.fast.kernels_weights import discount_losses, reference_terms
from accous.diagnostics.weights import EXPONENTS, HALF_LIFE, start_tempering, temper

ratios_of = arrays(np.float64, st.integers(1, 40), elements=st.floats(0.0, 1e6))


def plain_terms(ratios: FloatArray) -> FloatArray:
    return np.array([np.log1p(ratios**exponent).mean() for exponent in EXPONENTS])


@given(ratios_of)
def test_reference_terms_equal_their_plain_twin(ratios: FloatArray) -> None:
    terms = np.empty(len(EXPONENTS))
    reference_terms(ratios, 1e6, terms)
    np.testing.assert_allclose(terms, plain_terms(ratios), rtol=1e-12, atol=1e-14)


@given(ratios_of, st.floats(0.5, 1.0))
def test_discounted_losses_equal_their_plain_twin(batch: FloatArray, decay: float) -> None:
    losses, terms = np.array([3.0, 1.0, 2.0]), np.array([0.1, 0.2, 0.3])
    found = np.empty(len(EXPONENTS))
    best = discount_losses(losses, terms, batch, 0.01, decay, found)
    expected = decay * losses + terms + plain_terms(1.0 / np.maximum(batch, 0.01))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert best == int(np.argmin(found))


@pytest.mark.parametrize("ratio", [0.0, 1e-300, 1e30, 1e300])
def test_extreme_ratios_give_finite_losses(ratio: float) -> None:
    ratios = np.full(1000, ratio)
    for max_ratio in (1e5, 1e300):
        tempering = start_tempering().after_round(ratios, ratios, max_ratio).after_round(ratios, ratios, max_ratio)
        assert np.isfinite(tempering.losses).all()


def test_before_the_first_round_the_ratio_counts_as_one() -> None:
    assert start_tempering().exponent == 0.0


def after_rounds(reference: FloatArray, batch: FloatArray, n_rounds: int) -> float:
    tempering = start_tempering().after_round(np.ones(1), reference, 100.0)
    for _ in range(n_rounds):
        tempering = tempering.after_round(batch, reference, 100.0)
    return tempering.exponent


def test_a_ratio_that_fits_the_batches_is_believed() -> None:
    # The reference is half and half, the batches are all of the second kind.
    assert after_rounds(np.array([0.05, 1.95]), np.array([1.95]), 5) == 1.0


def test_a_ratio_that_the_batches_deny_counts_as_one() -> None:
    assert after_rounds(np.array([0.05, 1.95]), np.array([0.05, 1.95]), 5) == 0.0


def test_a_ratio_twice_too_steep_is_flattened() -> None:
    # In logarithms; the truth is 1/2 and 3/2.
    steep = np.array([0.5, 1.5]) ** 2
    assert after_rounds(steep, np.array([steep[0], *[steep[1]] * 3]), 5) == 0.5


def test_a_loss_is_worth_half_after_the_half_life() -> None:
    one = np.ones(1)
    quiet = start_tempering().after_round(one, 4.0 * one, 100.0).after_round(one, one, 100.0)
    first = quiet.losses
    for _ in range(HALF_LIFE):
        quiet = quiet.after_round(one, one, 100.0)
    np.testing.assert_allclose((quiet.losses - quiet.losses[0])[1:], 0.5 * (first - first[0])[1:], rtol=1e-9)


@pytest.mark.parametrize("n_reference", [2, 300, 777, 1001])
def test_while_the_ratio_is_one_the_exponent_stays_zero(n_reference: int) -> None:
    tempering = start_tempering()
    for _ in range(100):
        tempering = tempering.after_round(np.ones(3), np.ones(n_reference), 100.0)
        assert tempering.exponent == 0.0


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_tempered_ratios_are_powers(exponent: float) -> None:
    ratios = np.array([0.0, 0.25, 1.0, 9.0])
    np.testing.assert_allclose(temper(ratios, exponent), ratios**exponent, rtol=1e-15)
