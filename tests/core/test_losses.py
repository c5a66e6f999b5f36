"""The three losses: values, gradients, extreme scores, links, bounds; one set of tests over all of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.core.losses import KullbackLeibler
from tests import oracles
from tests.builders import KL_FLOOR, LOSSES, feature_rows, neutral_coef

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
EXTREME_SIZES = np.array([0.0, SMALLEST, 1e-310, 1e-16, 37.0, 709.0, 746.0, 1e154, 1e308, LARGEST])
EXTREME_SCORES = np.concatenate((EXTREME_SIZES, -EXTREME_SIZES))
SCALAR_MAPS = ["reference_term", "batch_term", "reference_slope", "batch_slope"]
ORACLE_VALUES = {"logistic": oracles.logistic_loss, "least_squares": oracles.least_squares_loss, "kl": oracles.kl_loss}

every_loss = pytest.mark.parametrize("name", list(LOSSES))
scores = st.floats(-50.0, 50.0)
weights = st.floats(0.0, 1.0)
seeds = st.integers(0, 2**32 - 1)


def at(loss, method, score):
    """One scalar function of the loss at one score."""
    return float(getattr(loss, method)(np.array([score]))[0])


def points_in_ball(rng, n_points, n_features, radius):
    """Random points of the ball, some of them on its surface."""
    points = rng.normal(size=(n_points, n_features))
    sizes = radius * np.minimum(1.0, rng.uniform(0.0, 1.5, size=(n_points, 1)))
    return points * sizes / np.linalg.norm(points, axis=1, keepdims=True)


def draw_problem(seed, radius, n_features=4):
    """Thetas in the ball, reference rows and batch rows of norm at most 1."""
    rng = np.random.default_rng(seed)
    coefs = points_in_ball(rng, 6, n_features, radius)
    return coefs, feature_rows(rng, 23, n_features), feature_rows(rng, 5, n_features, shift=2.0)


# --- values and gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "score", "a", "b", "a_slope", "b_slope", "ratio"),
    [
        ("logistic", 0.0, 0.5 * math.log(2.0), 0.5 * math.log(2.0), -0.25, 0.25, 1.0),
        ("logistic", math.log(3.0), 0.5 * math.log(4.0 / 3.0), 0.5 * math.log(4.0), -0.125, 0.375, 1.0 / 3.0),
        ("logistic", -math.log(3.0), 0.5 * math.log(4.0), 0.5 * math.log(4.0 / 3.0), -0.375, 0.125, 3.0),
        ("least_squares", 1.0, 0.5, -1.0, 1.0, -1.0, 1.0),
        ("least_squares", 3.0, 4.5, -3.0, 3.0, -1.0, 3.0),
        ("least_squares", -2.0, 2.0, 2.0, -2.0, -1.0, 0.0),
        ("kl", 1.0, 1.0, 0.0, 1.0, -1.0, 1.0),
        ("kl", 2.0, 2.0, -math.log(2.0), 1.0, -0.5, 2.0),
        ("kl", 0.01, 0.01, math.log(100.0), 1.0, -100.0, 0.01),
        ("kl", -0.99, -0.99, math.log(100.0) + 100.0, 1.0, -100.0, 0.01),
    ],
)
def test_terms_slopes_and_ratio_by_hand(name, score, a, b, a_slope, b_slope, ratio):
    computed = [at(LOSSES[name], method, score) for method in SCALAR_MAPS]
    np.testing.assert_allclose(computed, [a, b, a_slope, b_slope], rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(LOSSES[name].ratio(np.array([score]), 100.0), [ratio], rtol=1e-14)


@every_loss
@pytest.mark.parametrize("radius", [0.5, 5.0, 40.0])
@pytest.mark.parametrize("n_batch", [1, 5])
def test_value_and_gradient_equal_the_sums_over_rows(name, radius, n_batch):
    coefs, reference, batch = draw_problem(1, radius)
    rows = reference, batch[:n_batch]
    values = [ORACLE_VALUES[name](coef, *rows) for coef in coefs]
    gradients = [oracles.gradient(name, coef, *rows, KL_FLOOR) for coef in coefs]
    np.testing.assert_allclose(LOSSES[name].value(coefs, *rows), values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(LOSSES[name].gradient(coefs, *rows), gradients, rtol=1e-12, atol=1e-12)


@every_loss
def test_reference_part_in_blocks_of_rows_is_that_of_all_rows(name):
    """Rows this wide are taken about a hundred at a time."""
    rng = np.random.default_rng(0)
    reference, coefs = feature_rows(rng, 301, 1200), points_in_ball(rng, 3, 1200, 5.0)
    gradient, last_scores = LOSSES[name].reference_gradient(coefs, reference)
    expected = LOSSES[name].reference_slope(coefs @ reference.T) @ reference / 301
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(last_scores, reference @ coefs[-1], rtol=1e-12, atol=1e-14)


@every_loss
def test_gradient_equals_central_differences_of_the_value(name):
    coefs, reference, batch = draw_problem(4, 3.0)
    width = 1e-6
    differences = np.empty_like(coefs)
    for j, step in enumerate(width * np.eye(coefs.shape[1])):
        above = LOSSES[name].value(coefs + step, reference, batch)
        differences[:, j] = (above - LOSSES[name].value(coefs - step, reference, batch)) / (2.0 * width)
    np.testing.assert_allclose(LOSSES[name].gradient(coefs, reference, batch), differences, rtol=1e-7, atol=1e-7)


@every_loss
@pytest.mark.parametrize("term", ["reference", "batch"])
def test_slope_equals_central_differences_of_the_term(name, term):
    points = np.array([-30.0, -3.0, -0.4, 0.005, 0.3, 1.0, 2.5, 30.0])
    width = 1e-5 * np.maximum(np.abs(points), 0.1)
    term_of, slope_of = getattr(LOSSES[name], f"{term}_term"), getattr(LOSSES[name], f"{term}_slope")
    differences = (term_of(points + width) - term_of(points - width)) / (2.0 * width)
    np.testing.assert_allclose(slope_of(points), differences, rtol=1e-7, atol=1e-9)


@every_loss
def test_gradient_is_zero_at_the_neutral_theta_when_the_batch_is_the_reference(name):
    reference = feature_rows(np.random.default_rng(5), 30, 4)
    gradient = LOSSES[name].gradient(neutral_coef(name, 4)[None], reference, reference)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-15)


# --- extreme scores -------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("method", SCALAR_MAPS)
def test_extreme_scores_give_a_number_or_plus_infinity_and_slopes_are_finite(name, method):
    values = getattr(LOSSES[name], method)(EXTREME_SCORES)
    assert not np.isnan(values).any()
    assert np.all(values > -math.inf)
    assert method.endswith("term") or np.isfinite(values).all()


@every_loss
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_large_products_give_a_value_and_large_thetas_a_finite_gradient(name, sign):
    rows = np.array([[1.0, 1.0], [1.0, -1.0]])
    value = LOSSES[name].value(np.array([[1e150, sign * 1e150]]), 1e150 * rows, -1e150 * rows)[0]
    assert value > -math.inf  # and not nan
    assert np.isfinite(LOSSES[name].gradient(np.array([[1e300, sign * 1e300]]), rows, -rows)).all()


# --- the link from score to ratio -----------------------------------------------------------------------------


@every_loss
def test_neutral_score_has_ratio_exactly_one_and_slopes_that_cancel_exactly(name):
    loss = LOSSES[name]
    assert loss.ratio(np.array([loss.neutral_score]), 100.0)[0] == 1.0
    assert at(loss, "reference_slope", loss.neutral_score) + at(loss, "batch_slope", loss.neutral_score) == 0.0


@every_loss
@given(
    score=st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(EXTREME_SCORES.tolist()),
    max_ratio=st.floats(1.0, 1e300),
)
def test_ratio_lies_between_zero_and_the_cut_and_reaches_it(name, score, max_ratio):
    assert 0.0 <= LOSSES[name].ratio(np.array([score]), max_ratio)[0] <= max_ratio
    ratios = LOSSES[name].ratio(np.array([-1e308, 1e308]), max_ratio)
    np.testing.assert_allclose(ratios.max(), max_ratio, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "scores", "expected"),
    [
        ("logistic", [-2.0, -4.6, -4.7], [math.exp(2.0), math.exp(4.6), 100.0]),
        ("least_squares", [99.0, 101.0], [99.0, 100.0]),
        ("kl", [99.0, 101.0, -3.0, 0.0, 0.02], [99.0, 100.0, KL_FLOOR, KL_FLOOR, 0.02]),
    ],
)
def test_ratio_is_cut_only_above_the_cut_and_that_of_kl_has_a_floor(name, scores, expected):
    np.testing.assert_allclose(LOSSES[name].ratio(np.array(scores), 100.0), expected, rtol=1e-14)


@pytest.mark.parametrize("floor", [1e-6, 0.01, 0.5])
def test_kl_goes_on_below_its_floor_as_a_straight_line_without_a_jump(floor):
    loss, around = KullbackLeibler(floor), floor + 1e-9 * floor * np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(loss.batch_term(around), -math.log(floor), rtol=0.0, atol=2e-9)
    np.testing.assert_allclose(loss.batch_slope(around), -1.0 / floor, rtol=2e-9)
    below = floor - np.array([0.0, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(np.diff(loss.batch_term(below)), 1.0 / floor, rtol=1e-9)
    np.testing.assert_array_equal(loss.batch_slope(below), -1.0 / floor)


# --- convexity ------------------------------------------------------------------------------------------------


@every_loss
@pytest.mark.parametrize("term", ["reference_term", "batch_term"])
@given(left=scores, right=scores, weight=weights)
def test_terms_lie_below_their_chords(name, term, left, right, weight):
    loss = LOSSES[name]
    middle = at(loss, term, weight * left + (1.0 - weight) * right)
    chord = weight * at(loss, term, left) + (1.0 - weight) * at(loss, term, right)
    assert middle <= chord + 1e-12 * (1.0 + abs(at(loss, term, left)) + abs(at(loss, term, right)))


@every_loss
@given(seed=seeds, weight=weights)
def test_value_is_convex_in_theta(name, seed, weight):
    coefs, reference, batch = draw_problem(seed, 10.0)
    values = LOSSES[name].value(coefs, reference, batch)
    middle = LOSSES[name].value(weight * coefs[:1] + (1.0 - weight) * coefs[1:], reference, batch)
    chords = weight * values[0] + (1.0 - weight) * values[1:]
    assert np.all(middle <= chords + 1e-11 * (1.0 + np.abs(values).max()))


# --- bounds ---------------------------------------------------------------------------------------------------


@every_loss
@given(
    seed=seeds,
    radius=st.floats(1e-3, 50.0),
    feature_bound=st.floats(1e-3, 20.0),
    n_features=st.integers(1, 6),
    n_reference=st.integers(1, 8),
    n_batch=st.integers(1, 8),
)
def test_gradient_bound_holds_in_the_ball(name, seed, radius, feature_bound, n_features, n_reference, n_batch):
    rng = np.random.default_rng(seed)
    coefs = points_in_ball(rng, 5, n_features, radius)
    reference = points_in_ball(rng, n_reference, n_features, feature_bound)
    batch = points_in_ball(rng, n_batch, n_features, feature_bound)
    norms = np.linalg.norm(LOSSES[name].gradient(coefs, reference, batch), axis=1)
    assert np.all(norms <= LOSSES[name].gradient_bound(radius, feature_bound) * (1.0 + 1e-12))


@pytest.mark.parametrize(
    ("name", "reference_sign", "batch_sign"), [("logistic", -1, 1), ("least_squares", 1, -1), ("kl", 1, -1)]
)
def test_gradient_bound_is_reached_by_the_worst_rows(name, reference_sign, batch_sign):
    radius, feature_bound = 20.0, 2.0
    direction = np.array([0.6, 0.0, -0.8])
    reference = reference_sign * feature_bound * direction[None]
    batch = batch_sign * feature_bound * direction[None]
    gradient = LOSSES[name].gradient(radius * direction[None], reference, batch)
    bound = LOSSES[name].gradient_bound(radius, feature_bound)
    np.testing.assert_allclose(np.linalg.norm(gradient), bound, rtol=1e-12)


@pytest.mark.parametrize(("name", "gradient_bound"), [("least_squares", 80.0), ("kl", 505.0)])
def test_margin_bound_covers_two_points_of_the_ball_and_is_the_papers_for_the_logistic_loss(name, gradient_bound):
    np.testing.assert_allclose(LOSSES[name].gradient_bound(3.0, 5.0), gradient_bound, rtol=1e-14)
    np.testing.assert_allclose(LOSSES[name].margin_bound(3.0, 5.0), 2.0 * 3.0 * gradient_bound, rtol=1e-14)
    assert LOSSES["logistic"].margin_bound(3.0, 5.0) == 15.0
