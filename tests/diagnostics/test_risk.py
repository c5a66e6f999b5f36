"""Risk by weights: weighted losses and their intervals, evidence of a backtest, prediction sets and intervals."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.core.ridge import leave_one_out_predictions, make_ridge_problem, solve_ridge
from accous.diagnostics.evidence import Look, measure_evidence
from accous.diagnostics.losses import (
    LossScale,
    conformal_limits,
    loss_difference,
    weighted_loss,
    with_feedback,
)
from accous.streams import ConstantShift, GaussianRegressionStream
from accous.threads import one_blas_thread

NAN = float("nan")
positive = arrays(np.float64, 6, elements=st.floats(1e-3, 1e3))
scores_of = arrays(np.float64, 8, elements=st.integers(0, 10).map(lambda tenth: tenth / 10.0))
weights_of = arrays(np.float64, 8, elements=st.floats(0.01, 10.0))
residuals_of = arrays(np.float64, 8, elements=st.integers(-10, 10).map(lambda tenth: tenth / 10.0))

# --- weighted losses --------------------------------------------------------------------------------------------


@given(arrays(np.bool_, 6), positive, st.floats(1e-3, 1e3))
def test_errors_and_hits_make_one_whatever_the_scale_of_the_weights(is_wrong, weights, scale):
    error, hits, scaled, plain = (
        weighted_loss(losses.astype(float), each)
        for losses, each in (
            (is_wrong, weights),
            (~is_wrong, weights),
            (is_wrong, scale * weights),
            (is_wrong, np.ones(6)),
        )
    )
    assert 0.0 <= error <= 1.0 + 1e-12
    assert error + hits == pytest.approx(1.0, abs=1e-12)
    assert error == pytest.approx(weights[is_wrong].sum() / weights.sum(), abs=1e-12)
    assert scaled == pytest.approx(error, abs=1e-12)
    assert plain == pytest.approx(is_wrong.mean(), abs=1e-12)


def test_the_true_ratio_turns_the_reference_error_into_the_batch_error():
    """Wrong above 0: half of a standard normal, 84 % of one moved by 1; the ratio of the two is exp(x - 1/2)."""
    x = np.random.default_rng(0).normal(size=200_000)
    assert weighted_loss((x > 0.0).astype(float), np.exp(x - 0.5)) == pytest.approx(0.8413, abs=0.01)


def test_losses_and_their_error_by_hand():
    losses, weights = np.array([4.0, 1.0, 1.0, 0.0]), np.array([1.0, 1.0, 2.0, 0.0])
    assert weighted_loss(losses, weights) == pytest.approx(1.75)
    standard_error = math.sqrt((2.25**2 + 0.75**2 + (2 * 0.75) ** 2) / 16.0)
    assert loss_difference(losses, np.ones(4), weights) == pytest.approx((0.75, standard_error))


# --- evidence of a backtest -------------------------------------------------------------------------------------


def one_look(**changes: Any):
    return replace(
        Look(n_reference=400, start=400, stop=500, drift=0.4, error_fixed=0.2, error_adapted=0.18), **changes
    )


def test_evidence_is_the_mean_over_looks_that_know_it():
    assert measure_evidence([]) is None
    assert measure_evidence([one_look(error_adapted=NAN)]) is None
    found = measure_evidence([one_look(drift=NAN), one_look(error_fixed=0.3), one_look(error_fixed=NAN, drift=0.2)])
    assert (found.n_looks, found.drift, found.gain) == (2, pytest.approx(0.3), pytest.approx(-0.07))
    assert measure_evidence([one_look(drift=NAN)]).drift == 0.0
    assert measure_evidence([one_look()], LossScale("absolute", one=4.0)).gain == pytest.approx(-0.005)


# --- prediction sets and intervals ------------------------------------------------------------------------------


def slow_limit(scores, weights, row_weight, alpha):
    for limit in sorted(scores):
        if weights[scores <= limit].sum() >= (1.0 - alpha) * (weights.sum() + row_weight) * (1.0 - 1e-12):
            return float(limit)
    return np.inf


def conformal_sets(scores, weights, row_scores, row_weights, alpha):
    """Every class whose score is at most the row's limit."""
    return row_scores <= conformal_limits(scores, weights, row_weights, alpha)[:, None]


def conformal_intervals(residuals, weights, predicted, row_weights, alpha):
    """Prediction plus and minus the limit."""
    half_widths = conformal_limits(np.abs(residuals), weights, row_weights, alpha)
    return predicted - half_widths, predicted + half_widths


@given(scores_of, weights_of, st.floats(0.0, 20.0), st.floats(0.01, 0.99))
def test_sets_equal_the_slow_version(scores, weights, row_weight, alpha):
    row_scores = np.linspace(0.0, 1.0, 11)[None]
    found = conformal_sets(scores, weights, row_scores, np.array([row_weight]), alpha)
    assert found.tolist() == (row_scores <= slow_limit(scores, weights, row_weight, alpha)).tolist()


def test_with_the_true_ratio_the_coverage_is_that_asked_for():
    """Scores are |x| with x normal; the rows to come are three times as wide."""
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(60):
        x, fresh = rng.normal(size=2000), 1.5 * rng.normal(size=400)
        ratio = [np.exp(-(z**2) / 4.5 + z**2 / 2) / 1.5 for z in (x, fresh)]
        scores = np.abs(np.stack((fresh, fresh), axis=1))
        covered.append(conformal_sets(np.abs(x), ratio[0], scores, ratio[1], 0.2)[:, 0].mean())
    assert abs(np.mean(covered) - 0.8) < 0.02
    unweighted = conformal_sets(np.abs(x), np.ones(2000), scores, np.ones(400), 0.2)[:, 0].mean()
    assert unweighted < 0.7


@given(residuals_of, weights_of, st.floats(0.0, 20.0), st.floats(0.01, 0.99))
def test_a_number_is_in_the_interval_if_it_is_in_the_set(residuals, weights, row_weight, alpha):
    distances = np.linspace(0.05, 1.05, 11)  # between the residuals, so that rounding decides nothing
    is_in = conformal_sets(np.abs(residuals), weights, distances[None], np.array([row_weight]), alpha)[0]
    low, high = conformal_intervals(residuals, weights, np.array([3.0]), np.array([row_weight]), alpha)
    for side in (3.0 - distances, 3.0 + distances):
        assert ((low[0] <= side) & (side <= high[0])).tolist() == is_in.tolist()


def test_a_row_that_outweighs_the_reference_gets_every_class_and_every_number():
    rows = np.zeros(5), np.ones(5)
    assert conformal_sets(*rows, np.array([[0.9, 0.1]]), np.array([1000.0]), 0.1).tolist() == [[True, True]]
    low, high = conformal_intervals(*rows, np.zeros(2), np.array([1000.0, 0.1]), 0.1)
    assert low.tolist() == [-np.inf, 0.0]
    assert high.tolist() == [np.inf, 0.0]


def coverage(alpha, *, is_weighted=True, n_seeds=25):
    """Share of rows inside 90 % intervals around a weighted ridge regression."""
    shares = []
    for seed in range(n_seeds):
        stream = GaussianRegressionStream(ConstantShift(alpha), n_rounds=1, batch_size=400, random_state=seed)
        X, y = stream.reference()
        batch = next(iter(stream))
        ratio, row_ratio = stream.reference_ratio(alpha), stream.true_ratio(batch.X, alpha)
        if not is_weighted:
            ratio, row_ratio = np.ones(len(X)), np.ones(len(batch.X))
        weights = ratio / ratio.mean()
        with one_blas_thread():
            problem = make_ridge_problem(X, y, 1.0)
            coefs = solve_ridge(problem, weights)
            residuals = y - leave_one_out_predictions(problem, weights)
        predicted = batch.X @ coefs[:-1] + coefs[-1]
        low, high = conformal_intervals(residuals, weights, predicted, row_ratio / ratio.mean(), 0.1)
        shares.append(np.mean((low <= batch.y) & (batch.y <= high)))
    return float(np.mean(shares))


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_with_the_true_ratio_90_percent_intervals_cover_88_to_92_percent_and_without_it_they_do_not(alpha):
    assert 0.88 <= coverage(alpha) <= 0.92
    assert alpha > 0.0 or coverage(0.0, is_weighted=False) < 0.85


@pytest.mark.parametrize("size", [1, 30, 100])
def test_labels_bring_the_share_outside_to_the_target(size):
    rng = np.random.default_rng(3)
    reference, late, times, is_inside = np.abs(rng.normal(size=500)), np.zeros(0), np.zeros(0, dtype=np.int64), []
    for batch in range(3_000 // size):
        now = 10 * size * batch
        scores, weights, level = with_feedback(reference, np.ones(500), late, times, times + 10 * size, now, 0.1)
        limit = conformal_limits(scores, weights, np.zeros(1), level)[0]
        new = np.abs(rng.normal(size=size)) * (1.0 + now / 5_000)  # ever wider than the reference
        is_inside += (new <= limit).tolist()
        late, times = np.append(late, new), np.append(times, np.full(size, now))
    assert abs(np.mean(is_inside[500:]) - 0.9) < 0.02
    assert np.mean(new <= np.quantile(reference, 0.9)) < 0.7


@pytest.mark.parametrize("delay", [0, 2_000, 5_000])
def test_late_labels_correct_by_the_limits_that_were_in_force(delay):
    """Scores rise in waves: a step that does not mind the delay leaves 82 % inside with 2,000 rows."""
    rng, first = np.random.default_rng(4), 5_000 + delay
    reference, rows, n_inside = np.abs(rng.normal(size=500)), np.arange(60_000), 0
    scores = np.abs(rng.normal(size=60_000)) * (2.0 + np.sin(rows / 1_500))
    for now in range(first, 60_000, 500):
        known = rows[: now - delay : 10]
        came = (known // 500 + 1) * 500 + delay
        limits = with_feedback(reference, np.ones(500), scores[known], known, came, now, 0.1)
        n_inside += (scores[now : now + 500] <= conformal_limits(*limits[:2], np.zeros(1), limits[2])[0]).sum()
    assert abs(n_inside / (60_000 - first) - 0.9) < 0.02
