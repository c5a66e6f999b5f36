"""Weighted regressions, logistic and ridge: the optimum of scikit-learn, hard data, descent, rows left out.

A solution of ridge's normal equations is exact up to the rounding of the Gram matrix divided by its smallest pivot. The
ordinary cases here have pivots above 1e-3, so 1e-10 leaves room; the hard ones say what they allow.
"""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression, Ridge

from accous.arrays import IntArray
from accous.core.ensemble import MAX_NARROW_COLUMNS, MAX_NEWTON_COEFS
from accous.core.kernels_rows import BLOCK
from accous.core.regression import (
    FULL,
    ONE_ROUND,
    Effort,
    Point,
    Sigmoid,
    Softmax,
    descend,
    leave_one_out_scores,
    make_cross_entropy,
    make_problem,
    solve,
)
from accous.core.ridge import descend_ridge, leave_one_out_predictions, make_ridge_problem, solve_ridge
from accous.threads import one_blas_thread
from tests.budgets import rest_slow

each_n_classes = pytest.mark.parametrize("n_classes", [2, 3, 5])
# More features than rows, and fewer; more coefficients than Newton's method takes.
each_large_problem = pytest.mark.parametrize(
    ("n_classes", "n_features"), [(2, MAX_NEWTON_COEFS), (2, 1000), (3, 90), (3, 340), (5, 60)]
)


@pytest.fixture(autouse=True)
def _as_in_a_round():
    with one_blas_thread():
        yield


# --- logistic: the optimum --------------------------------------------------------------------------------------


def labelled_rows(n_classes, n_rows=150, n_features=4, seed=0):
    """Rows whose classes overlap and are not equally frequent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=(n_features, n_classes)) / np.sqrt(n_features) + rng.gumbel(size=(n_rows, n_classes))
    scores[:, 0] += 0.7
    return X, scores.argmax(axis=1)


def wide_weights(n_rows, seed=0):
    """Weights over nine orders of magnitude."""
    return 10.0 ** np.random.default_rng(seed).uniform(-6.0, 3.0, size=n_rows)


each_weights = pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])


def centred(coefs):
    """The same softmax regression with intercepts of mean 0: a constant added to all of them changes nothing."""
    if len(coefs) == 1:
        return coefs
    return np.column_stack((coefs[:, :-1], coefs[:, -1] - coefs[:, -1].mean()))


def relative_error(found, wanted):
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def scikit_learn_optimum(X, labels, weights, C):
    model = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky", max_iter=10_000)
    model.fit(X, labels, sample_weight=weights)
    return centred(np.column_stack((model.coef_, model.intercept_)))


def scikit_learn_optimum_of_wide_rows(X, labels, weights, C):
    """The optimum's coefficients are combinations of the rows: solve for few instead of many."""
    axes, coordinates = np.linalg.qr(X.T)
    few = scikit_learn_optimum(coordinates.T, labels, weights, C)
    return np.column_stack((few[:, :-1] @ axes.T, few[:, -1]))


def log_probabilities(problem, coefs):
    scores = problem.scores(coefs)
    if problem.n_classes == 2:
        scores = np.column_stack((np.zeros(len(scores)), scores))
    return log_softmax(scores, axis=1)


def objective(problem, weights, coefs):
    """The documented objective, written out."""
    losses = -log_probabilities(problem, coefs)[np.arange(len(weights)), problem.labels]
    return float(problem.C * weights @ losses + 0.5 * np.sum(coefs[:, :-1] ** 2))


def difference_gradient(problem, weights, coefs):
    """Gradient of the objective by central differences."""
    steps = [1e-5 * axis.reshape(coefs.shape) for axis in np.eye(coefs.size)]
    above, below = ([objective(problem, weights, coefs + sign * step) for step in steps] for sign in (1.0, -1.0))
    return (np.array(above) - below) / 2e-5


def probabilities_of_fit(problem):
    """Class probabilities of the rows by an unweighted fit."""
    return np.exp(log_probabilities(problem, solve(problem, np.ones(len(problem.labels)))))


@pytest.mark.every_pair
@each_n_classes
@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0, 1e4])
@each_weights
def test_the_optimum_is_that_of_scikit_learn(n_classes, C, make_weights):
    X, labels = labelled_rows(n_classes)
    weights = make_weights(len(X))
    coefs = solve(make_problem(X, labels, n_classes, C), weights)
    wanted = scikit_learn_optimum(X, labels, weights, C)
    assert relative_error(centred(coefs)[:, :-1], wanted[:, :-1]) < 1e-6
    assert relative_error(centred(coefs)[:, -1], wanted[:, -1]) < 1e-6


@each_n_classes
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_the_gradient_vanishes_at_the_optimum(n_classes, C):
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C), np.random.default_rng(1).exponential(size=len(X))
    coefs = solve(problem, weights)
    at_zero = difference_gradient(problem, weights, np.zeros_like(coefs))
    assert np.abs(difference_gradient(problem, weights, coefs)).max() < 1e-5 * np.abs(at_zero).max()


@pytest.mark.parametrize("C", [1e6, 1e20, 1e50, 1e100])
def test_classes_that_are_separated_without_a_penalty_are_told_apart(C):
    """The probability of a row's own class is then 1 up to rounding, and its curvature next to nothing."""
    X = np.random.default_rng(0).normal(size=(20, 8))
    labels = np.array([0, 1, *[2] * 18])
    problem = make_problem(X, labels, 3, C)
    probabilities = probabilities_of_fit(problem)
    assert probabilities[np.arange(20), labels].min() > 1.0 - 10.0 / np.sqrt(C) - 1e-9


@each_n_classes
@pytest.mark.parametrize("distance", [0.1, 3.0, 100.0])
@pytest.mark.parametrize("n_features", [4, 340])
def test_a_warm_start_ends_where_a_cold_start_ends(n_classes, distance, n_features):
    X, labels = labelled_rows(n_classes, n_features=n_features)
    problem, weights = make_problem(X, labels, n_classes, C=1.0), np.exp(X[:, 0])
    cold = solve(problem, weights)
    start = cold + distance * np.random.default_rng(2).normal(size=cold.shape)
    assert relative_error(centred(solve(problem, weights, start)), centred(cold)) < (1e-6 if n_features == 4 else 1e-5)


@pytest.mark.every_pair
@each_large_problem
@pytest.mark.parametrize("C", rest_slow([1e-4, 1.0, 1e-2, 100.0], n_fast=2))
@each_weights
def test_many_coefficients_reach_the_optimum(n_classes, n_features, C, make_weights):
    X, labels = labelled_rows(n_classes, n_rows=100, n_features=n_features)
    problem, weights = make_problem(X, labels, n_classes, C), make_weights(len(X))
    coefs = solve(problem, weights)
    assert coefs.size > MAX_NEWTON_COEFS
    wanted = scikit_learn_optimum_of_wide_rows(X, labels, weights, C)
    assert relative_error(centred(coefs), wanted) < 1e-5
    # Where every row is nearly certain, the optimum is flat and scikit-learn stops before it.
    assert objective(problem, weights, coefs) <= objective(problem, weights, wanted) * (1.0 + 1e-11)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("C", [1e4, 1e6])
@each_weights
def test_many_coefficients_are_exact_where_the_penalty_is_weak(n_classes, C, make_weights):
    X, labels = labelled_rows(n_classes, n_rows=100, n_features=300)
    problem, weights = make_problem(X, labels, n_classes, C), make_weights(len(X))
    coefs = solve(problem, weights)
    best = solve(problem, weights, 1.001 * coefs)
    assert objective(problem, weights, coefs) <= objective(problem, weights, best) * (1.0 + 1e-8)


# --- logistic: rows left out ------------------------------------------------------------------------------------


def exact_leave_one_out_scores(problem, weights, coefs):
    """The slow version: one fit per row."""
    scores = []
    for i in range(len(weights)):
        without = weights.copy()
        without[i] = 0.0
        scores.append(problem.part(np.array([i])).scores(centred(solve(problem, without, coefs)))[0])
    return np.array(scores)


@each_n_classes
@pytest.mark.parametrize("C", rest_slow([1.0, 0.1, 10.0]))
@pytest.mark.parametrize("make_weights", [np.ones, lambda n: np.random.default_rng(3).exponential(size=n)])
def test_leave_one_out_scores_are_nearly_those_of_refits(n_classes, C, make_weights):
    X, labels = labelled_rows(n_classes, n_rows=60)
    problem, weights = make_problem(X, labels, n_classes, C), make_weights(len(X))
    coefs = solve(problem, weights)
    exact = exact_leave_one_out_scores(problem, weights, coefs)
    full_error = np.abs(problem.scores(centred(coefs)) - exact).mean()
    found_error = np.abs(leave_one_out_scores(problem, weights, centred(coefs)) - exact).mean()
    assert found_error < 0.15 * full_error


@each_n_classes
def test_leave_one_out_moves_scores_of_rows_with_weight_away_from_their_own_class(n_classes):
    X, labels = labelled_rows(n_classes)
    weights, problem = (np.arange(len(X)) % 2).astype(float), make_problem(X, labels, n_classes, C=1.0)
    coefs = solve(problem, weights)
    moves = leave_one_out_scores(problem, weights, coefs) - problem.scores(coefs)
    np.testing.assert_allclose(moves[::2], 0.0, atol=1e-12)
    own = np.where(labels == 1, moves[:, 0], -moves[:, 0]) if n_classes == 2 else moves[np.arange(len(X)), labels]
    assert np.all(own[1::2] < 0.0)


# --- logistic: hard data ----------------------------------------------------------------------------------------

HARD_DATA = {
    "separable": lambda X, labels: X + 50.0 * labels[:, None],
    "duplicates": lambda X, _: np.hstack((X, X)),
    "constant": lambda X, _: np.column_stack((X, np.full(len(X), 7.0))),
    "sum": lambda X, _: np.column_stack((X, X.sum(axis=1))),
    "zero": lambda X, _: np.zeros_like(X),
}


@pytest.mark.every_pair
@pytest.mark.parametrize("harden", list(HARD_DATA))
@each_n_classes
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_hard_data_have_a_finite_optimum(n_classes, C, harden):
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(HARD_DATA[harden](X, labels), labels, n_classes, C), np.exp(X[:, 0])
    coefs = solve(problem, weights)
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))
    least = np.abs(difference_gradient(problem, weights, np.zeros_like(coefs))).max()
    assert np.abs(difference_gradient(problem, weights, coefs)).max() < 1e-4 * least
    if harden == "duplicates" and C == 1.0:
        np.testing.assert_allclose(coefs[:, :4], coefs[:, 4:8], rtol=1e-6, atol=1e-9)


@each_n_classes
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("n_features", [4, 340])
def test_a_class_without_weight_becomes_improbable_and_comes_back(n_classes, C, n_features):
    X, labels = labelled_rows(n_classes, n_features=n_features)
    problem, weights = make_problem(X, labels, n_classes, C), (labels != 0).astype(float)
    coefs = solve(problem, weights)
    assert np.all(np.isfinite(coefs))
    if n_features == 4:
        assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))
        assert log_probabilities(problem, coefs)[:, 0].max() < np.log(1e-3)
    if C == 1.0:
        back, cold = solve(problem, np.ones(len(X)), coefs), solve(problem, np.ones(len(X)))
        assert relative_error(centred(back), centred(cold)) < (1e-6 if n_features == 4 else 1e-5)


@each_n_classes
def test_two_rows_or_one_row_per_class_are_enough(n_classes):
    X, labels = np.eye(n_classes), np.arange(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C=1.0), np.ones(n_classes)
    coefs = solve(problem, weights)
    assert log_probabilities(problem, coefs).argmax(axis=1).tolist() == labels.tolist()
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))


@each_n_classes
@pytest.mark.parametrize("scale", [1e-2, 1e3, 1e6, 1e8])
def test_multiplying_all_columns_is_a_change_of_C(n_classes, scale):
    """With u = w scale: C sum l(u x) + u^2 / (2 scale^2), the objective of C scale^2."""
    X, labels = labelled_rows(n_classes)
    # Beyond C = 1e6 the penalty no longer matters.
    same = probabilities_of_fit(make_problem(X, labels, n_classes, C=min(scale, 1e3) ** 2))
    scaled = probabilities_of_fit(make_problem(X * scale, labels, n_classes, C=1.0))
    np.testing.assert_allclose(scaled, same, atol=1e-5)


@each_n_classes
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6, 1e9, 1e12])
def test_adding_a_constant_to_a_column_changes_no_probability(n_classes, offset):
    """The intercept, which has no penalty, takes it up: think of a column of time stamps."""
    X, labels = labelled_rows(n_classes)
    moved = probabilities_of_fit(make_problem(X + offset * (np.arange(4) == 0), labels, n_classes, C=1.0))
    assert np.all(np.isfinite(moved))
    if offset <= 1e4:
        np.testing.assert_allclose(moved, probabilities_of_fit(make_problem(X, labels, n_classes, C=1.0)), atol=1e-6)


# --- the cross-entropy of scores, against a loop over rows ------------------------------------------------------
each_n_scores = pytest.mark.parametrize("n_scores", [1, 3, 6])


def make_case(n_scores, n_rows=25):
    rng = np.random.default_rng(n_scores)
    labels = rng.integers(0, max(n_scores, 2), n_rows)
    return make_cross_entropy(labels, rng.exponential(size=n_rows), n_scores), 2.0 * rng.normal(size=(n_scores, n_rows))


def row_probabilities(scores):
    """Class probabilities of one row, two where it has one score."""
    all_scores = [0.0, float(scores[0])] if len(scores) == 1 else [float(score) for score in scores]
    powers = [math.exp(score) for score in all_scores]
    return [power / sum(powers) for power in powers]


def slow_value(loss, scores):
    return -sum(
        weight * math.log(row_probabilities(row)[label])
        for row, label, weight in zip(scores.T, loss.labels, loss.weights, strict=True)
    )


@each_n_scores
def test_value_and_probabilities_are_those_of_a_loop_over_rows(n_scores):
    loss, scores = make_case(n_scores)
    found = loss.evaluate(scores)
    np.testing.assert_allclose(found.value, slow_value(loss, scores), rtol=1e-13)
    expected = np.array([row_probabilities(row)[-n_scores:] for row in scores.T]).T
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-13)


@each_n_scores
def test_residuals_are_the_derivative(n_scores):
    loss, scores = make_case(n_scores)
    residuals, step = loss.evaluate(scores).residuals, 1e-6
    for place in np.ndindex(scores.shape):
        moved = np.zeros_like(scores)
        moved[place] = step
        difference = slow_value(loss, scores + moved) - slow_value(loss, scores - moved)
        np.testing.assert_allclose(residuals[place], difference / (2.0 * step), atol=1e-7)


@each_n_scores
def test_curvature_along_a_change_is_the_second_derivative(n_scores):
    loss, scores = make_case(n_scores)
    change, step = np.random.default_rng(9).normal(size=scores.shape), 1e-5
    slopes = [np.vdot(loss.evaluate(scores + sign * step * change).residuals, change) for sign in (-1.0, 1.0)]
    found = loss.curvature_along(loss.evaluate(scores).probabilities, change)
    np.testing.assert_allclose(found, (slopes[1] - slopes[0]) / (2.0 * step), rtol=1e-7)


@each_n_scores
def test_total_curvature_is_the_sum_over_rows(n_scores):
    loss, scores = make_case(n_scores)
    values, vectors = loss.total_curvature(loss.evaluate(scores).probabilities)
    expected = np.zeros((n_scores, n_scores))
    for row, weight in zip(scores.T, loss.weights, strict=True):
        p = np.array(row_probabilities(row)[-n_scores:])
        expected += weight * (np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose((vectors * values) @ vectors.T, expected, atol=1e-12)
    assert np.all(values >= 0.0)


@pytest.mark.parametrize("kind", [Sigmoid, Softmax])
def test_enormous_scores_are_finite(kind):
    scores = np.array([[1e300, -1e300, 800.0, -800.0]])
    if kind is Softmax:
        scores = np.concatenate((np.zeros((1, 4)), scores))
    found = kind(np.array([1, 1, 0, 0]), np.ones(4)).evaluate(scores)
    np.testing.assert_allclose(found.value, 1e300)
    np.testing.assert_array_equal(found.probabilities[-1], [1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(found.residuals[-1], [0.0, -1.0, 1.0, 0.0])


# --- descent in principal axes ----------------------------------------------------------------------------------


class Descent:
    """Rows in their principal axes with an intercept column, and the objective written out."""

    def __init__(self, n_classes, n_rows=120, n_features=6, seed=0):
        X, self.labels = labelled_rows(n_classes, n_rows, n_features, seed)
        X = X * np.geomspace(1.0, 0.1, n_features) - X.mean(axis=0)
        X = (X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0))[2].T
        self.design = np.column_stack((X, np.ones(n_rows)))
        self.mean_squares = np.square(self.design).mean(axis=0)
        self.penalty = np.append(np.ones(n_features), 1e-10)
        self.n_scores = 1 if n_classes == 2 else n_classes

    def at(self, coefs):
        return Point(coefs, coefs @ self.design.T)

    def origin(self):
        return self.at(np.zeros((self.n_scores, self.design.shape[1])))

    def descend(self, weights, start, effort=FULL):
        loss = make_cross_entropy(self.labels, weights, self.n_scores)
        return descend(loss, self.design, self.mean_squares, self.penalty, start, effort)

    def value(self, weights, coefs):
        scores = self.design @ coefs.T
        if self.n_scores == 1:
            scores = np.column_stack((np.zeros(len(scores)), scores))
        losses = -log_softmax(scores, axis=1)[np.arange(len(scores)), self.labels]
        return float(weights @ losses + 0.5 * np.sum(self.penalty * coefs**2))

    def gradient(self, weights, coefs):
        residuals = make_cross_entropy(self.labels, weights, self.n_scores).evaluate(coefs @ self.design.T).residuals
        return np.asarray(residuals @ self.design + self.penalty * coefs)


@each_n_classes
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@each_weights
def test_at_the_end_the_gradient_is_gone(n_classes, scale, make_weights):
    problem, weights = Descent(n_classes), scale * make_weights(120)
    end, _ = problem.descend(weights, problem.origin())
    at_start = np.abs(problem.gradient(weights, problem.origin().coefs)).max()
    assert np.abs(problem.gradient(weights, end.coefs)).max() < 1e-5 * at_start
    np.testing.assert_allclose(end.scores, end.coefs @ problem.design.T, rtol=0.0, atol=1e-9 * np.abs(end.scores).max())
    again, n_steps = problem.descend(weights, end, ONE_ROUND)
    assert n_steps == 0
    assert again is end


@each_n_classes
def test_few_steps_are_needed(n_classes):
    """The preconditioner knows the columns' scales and the classes' curvatures."""
    problem = Descent(n_classes, n_rows=2000, n_features=40)
    assert problem.descend(np.ones(2000), problem.origin())[1] <= 20


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.sampled_from([2, 3, 5]),
    log_distance=st.floats(-3.0, 3.0),
    n_steps=st.integers(1, 4),
)
def test_no_descent_ends_above_its_start(seed, n_classes, log_distance, n_steps):
    rng = np.random.default_rng(seed)
    problem = Descent(n_classes, n_rows=30, seed=seed % 100)
    weights = wide_weights(30, seed % 1000)
    start = problem.at(10.0**log_distance * rng.normal(size=problem.origin().coefs.shape))
    end, _ = problem.descend(weights, start, Effort(tolerance=0.0, near=np.inf, n_steps=n_steps))
    before, after = problem.value(weights, start.coefs), problem.value(weights, end.coefs)
    assert after <= before * (1.0 + 1e-13)


@each_n_classes
def test_an_effort_of_few_steps_makes_them(n_classes):
    problem, values = Descent(n_classes), []
    for n_steps in (1, 2, 3):
        end, n_made = problem.descend(np.ones(120), problem.origin(), Effort(0.0, near=np.inf, n_steps=n_steps))
        assert n_made == n_steps
        values.append(problem.value(np.ones(120), end.coefs))
    assert values[0] > values[1] > values[2]


@each_n_classes
def test_a_round_goes_on_while_much_is_left(n_classes):
    problem = Descent(n_classes, n_rows=400, n_features=20)
    weights = 10.0 ** np.random.default_rng(0).uniform(-2.0, 2.0, size=400)
    end, n_steps = problem.descend(weights, problem.origin(), ONE_ROUND)
    best, _ = problem.descend(weights, end)
    least = problem.value(weights, best.coefs)
    assert n_steps > ONE_ROUND.n_steps
    assert problem.value(weights, end.coefs) <= least * (1.0 + ONE_ROUND.near)


def test_rounds_follow_moving_weights():
    """A stream of refits, each of a few steps from the one before, stays near the optimum."""
    problem = Descent(4, n_rows=600, n_features=30)
    point, _ = problem.descend(np.ones(600), problem.origin())
    for t in range(40):
        weights = np.exp(np.sin(t / 8.0) * problem.design[:, 0])
        point, n_steps = problem.descend(weights, point, ONE_ROUND)
        best, _ = problem.descend(weights, point)
        assert n_steps <= 4
        assert problem.value(weights, point.coefs) <= problem.value(weights, best.coefs) * (1.0 + 1e-3)


@each_n_classes
def test_the_last_step_of_a_round_is_not_looked_at_where_it_must_be_good(n_classes, monkeypatch):
    problem, seen = Descent(n_classes, n_rows=600), []
    point, _ = problem.descend(np.ones(600), problem.origin())
    weights = 1.0 + 0.1 * np.tanh(problem.design[:, 0])
    kind = Sigmoid if n_classes == 2 else Softmax
    evaluate = kind.evaluate
    monkeypatch.setattr(kind, "evaluate", lambda loss, scores: seen.append(scores) or evaluate(loss, scores))
    end, n_steps = problem.descend(weights, point, Effort(0.0, near=np.inf, n_steps=3))
    assert (n_steps, len(seen)) == (3, 3)
    assert problem.value(weights, end.coefs) < problem.value(weights, point.coefs)
    np.testing.assert_allclose(end.scores, end.coefs @ problem.design.T, rtol=0.0, atol=1e-12)


@each_n_classes
def test_classes_without_weight_stay_finite_and_no_weight_at_all_gives_zero(n_classes):
    problem = Descent(n_classes)
    end, _ = problem.descend((problem.labels != 0).astype(float), problem.origin())
    assert np.isfinite(end.coefs).all()
    assert np.isfinite(end.scores).all()
    end, _ = problem.descend(np.zeros(120), problem.at(np.ones_like(problem.origin().coefs)))
    np.testing.assert_allclose(end.coefs[:, :-1], 0.0, atol=1e-6)


def test_memory_does_not_grow_with_the_square_of_the_classes():
    n_rows, n_classes = 1500, 120
    rng = np.random.default_rng(0)
    design = rng.normal(size=(n_rows, 4))
    labels: IntArray = np.arange(n_rows) % n_classes
    start = Point(np.zeros((n_classes, 4)), np.zeros((n_classes, n_rows)))
    loss = make_cross_entropy(labels, np.ones(n_rows), n_classes)
    tracemalloc.start()
    descend(loss, design, np.ones(4), np.ones(4), start, Effort(0.0, near=np.inf, n_steps=3))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * 8 * n_rows * n_classes


# --- ridge ------------------------------------------------------------------------------------------------------
AROUND_BLOCKS = [2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1]
each_alpha = pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e4])


def rows_and_targets(n_rows=150, n_features=4, seed=0):
    """Rows far from the origin with targets far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 1.0, size=(n_rows, n_features))
    return X, 50.0 + X @ rng.normal(size=n_features) + X[:, 0] ** 2 + rng.normal(size=n_rows)


def ridge_weights(n_rows, seed=0):
    """Weights over six orders of magnitude."""
    return 10.0 ** np.random.default_rng(seed).uniform(-4.0, 2.0, size=n_rows)


each_ridge_weighting = pytest.mark.parametrize("make_weights", [np.ones, ridge_weights], ids=["equal", "wide"])


def ridge_optimum(X, y, weights, alpha):
    model = Ridge(alpha=alpha, solver="svd").fit(X, y, sample_weight=weights)
    return np.append(model.coef_, model.intercept_)


def uncompiled(problem):
    return replace(problem, narrow=None)


def predict(X, coefs):
    return X @ coefs[:-1] + coefs[-1]


@pytest.mark.parametrize("weight", [1e6, np.inf], ids=["nearly all", "all"])
def test_a_row_that_has_the_weight_is_predicted_by_the_mean_of_the_others(weight):
    X, y = rows_and_targets(n_rows=30)
    weights = np.full(30, 1e-12 if weight < np.inf else 0.0)
    weights[7] = min(weight, 5e6)
    for each in (problem := make_ridge_problem(X, y, 1.0), uncompiled(problem)):
        found = leave_one_out_predictions(each, weights)
        assert found[7] == pytest.approx(np.delete(y, 7).mean(), rel=1e-6 if weight < np.inf else 1e-12)
        assert np.all(np.isfinite(found))
        if weight == np.inf:
            np.testing.assert_allclose(np.delete(found, 7), y[7], rtol=1e-9)


@pytest.mark.every_pair
@each_alpha
@each_ridge_weighting
@pytest.mark.parametrize("n_features", [1, 4, 13, 62, MAX_NARROW_COLUMNS, 149, 400])
def test_ridge_the_optimum_is_that_of_scikit_learn(n_features, alpha, make_weights):
    X, y = rows_and_targets(n_features=n_features)
    weights = make_weights(len(X))
    wanted = ridge_optimum(X, y, weights, alpha)
    problem = make_ridge_problem(X, y, alpha)
    assert (problem.narrow is not None) == (n_features < MAX_NARROW_COLUMNS)
    assert (problem.axes is not None) == (n_features >= MAX_NARROW_COLUMNS)
    assert problem.rows.shape[1] == min(n_features, len(X))
    # Weights over six orders of magnitude leave fewer rows than columns: a pivot is then about alpha over the weights.
    tolerance = 1e-10 if alpha > 1e-3 else 1e-6
    for each in (problem, uncompiled(problem)):
        assert relative_error(solve_ridge(each, weights), wanted) < tolerance


@given(
    n_rows=st.one_of(st.sampled_from(AROUND_BLOCKS), st.integers(2, 3 * BLOCK)),
    n_features=st.integers(1, 21),
    seed=st.integers(0, 2**32 - 1),
    alpha=st.floats(1e-2, 1e3),
)
@example(n_rows=BLOCK + 1, n_features=2, seed=0, alpha=1.0)  # no column of zeros is added
def test_the_compiled_loops_agree_with_the_plain_version(n_rows, n_features, seed, alpha):
    X, y = rows_and_targets(n_rows, n_features, seed)
    weights = np.random.default_rng(seed).exponential(size=n_rows)
    problem = make_ridge_problem(X, y, alpha)
    assert problem.narrow is not None
    assert problem.narrow.fit(weights, alpha) is not None
    for function in (solve_ridge, leave_one_out_predictions):
        assert relative_error(function(problem, weights), function(uncompiled(problem), weights)) < 1e-9


@pytest.mark.every_pair
@pytest.mark.parametrize("alpha", [1e-12, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-6, 1e-3])
def test_nearly_equal_columns_predict_what_one_of_them_predicts(noise, compiled, alpha):
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    X = np.column_stack((x, x + noise * rng.normal(size=300), rng.normal(size=300)))
    y = 2.0 * x + rng.normal(size=300)
    weights = ridge_weights(300)
    problem = make_ridge_problem(X, y, alpha)
    found = solve_ridge(problem if compiled else uncompiled(problem), weights)
    model = Ridge(alpha=alpha, solver="svd").fit(X, y, sample_weight=weights)
    # The fits agree where the data determine them. Both lose half of the digits in what is left of the difference.
    assert np.abs(predict(X, found) - model.predict(X)).max() < 1e-6
    if noise == 0.0:
        # A penalty of 1e-12 is lost beside the rounding of the sums: then any share of the slope of 2 is right.
        assert np.abs(found[:2] - 1.0).max() < 0.2
        assert alpha == 1e-12 or found[0] == pytest.approx(found[1], rel=1e-6)


def test_refinement_brings_back_the_digits_that_the_gram_matrix_loses():
    """A pivot of 1e-9: the first solution is off by about 1e-7, and a refined one is not."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    X = np.column_stack((x, x + 3e-5 * rng.normal(size=500)))
    y = rng.normal(size=500)
    problem = make_ridge_problem(X, y, 1e-12)
    wanted = ridge_optimum(X, y, np.ones(500), 1e-12)
    for each in (problem, uncompiled(problem)):
        assert relative_error(solve_ridge(each, np.ones(500)), wanted) < 1e-9


@pytest.mark.parametrize("compiled", [True, False])
def test_weights_that_leave_one_place_predict_its_mean(compiled):
    """The rows with weight are equal, far from the centre of the reference: no slope can be learned from them."""
    X, y = rows_and_targets(n_rows=200)
    X[:20] = 1000.0
    weights = np.where(np.arange(200) < 20, 1.0, 0.0)
    problem = make_ridge_problem(X, y, 1.0)
    found = solve_ridge(problem if compiled else uncompiled(problem), weights)
    np.testing.assert_allclose(found[:-1], 0.0, atol=1e-6)
    assert predict(X, found)[0] == pytest.approx(y[:20].mean(), rel=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_columns_of_any_scale(scale):
    X, y = rows_and_targets()
    X[:, 1] *= scale
    problem, weights = make_ridge_problem(X, y, 1.0), ridge_weights(len(X))
    fitted = predict(X, solve_ridge(problem, weights))
    without = predict(X[:, [0, 2, 3]], solve_ridge(make_ridge_problem(X[:, [0, 2, 3]], y, 1.0), weights))
    free = X.copy()
    free[:, 1] *= 1e6 / scale  # so large that its penalty does not matter
    wanted = without if scale < 1.0 else predict(free, solve_ridge(make_ridge_problem(free, y, 1.0), weights))
    np.testing.assert_allclose(fitted, wanted, atol=1e-5 * np.abs(y).max())


def test_many_columns_of_a_huge_scale():
    X, y = rows_and_targets(n_rows=300, n_features=120)
    fits = []
    for scale in (1e6, 1e200):
        problem = make_ridge_problem(scale * X, y, 1.0)
        coefs = solve_ridge(problem, np.ones(300))
        fits.append(predict(scale * X, solve_ridge(problem, np.exp(0.1 * X[:, 0]), coefs)))
    np.testing.assert_allclose(fits[1], fits[0], atol=1e-5 * np.abs(y).max())


def test_without_any_weight_the_prediction_is_the_mean():
    X, y = rows_and_targets()
    problem = make_ridge_problem(X, y, 1.0)
    found = solve_ridge(problem, np.zeros(len(X)))
    assert found[:-1].tolist() == [0.0] * 4
    assert found[-1] == pytest.approx(y.mean(), rel=1e-12)
    np.testing.assert_allclose(leave_one_out_predictions(problem, np.zeros(len(X))), y.mean(), rtol=1e-12)


@pytest.mark.parametrize("n_features", [4, 120])
@pytest.mark.parametrize("place", ["row", "target", "weight"])
def test_what_is_not_finite_is_an_error_and_no_garbage(place, n_features):
    X, y = rows_and_targets(n_features=n_features)
    weights = np.ones(len(X))
    {"row": X, "target": y, "weight": weights}[place].flat[3] = np.nan
    with pytest.raises(LinAlgError, match="must be finite"):
        solve_ridge(make_ridge_problem(X, y, 1.0), weights)


def leave_out_slowly(X, y, weights, alpha):
    """One fit by scikit-learn for each row."""
    predictions = []
    for row in range(len(X)):
        rest = np.arange(len(X)) != row
        model = Ridge(alpha=alpha, solver="svd").fit(X[rest], y[rest], sample_weight=weights[rest])
        predictions.append(model.predict(X[[row]])[0])
    return np.array(predictions)


@pytest.mark.every_pair
@each_alpha
@each_ridge_weighting
@pytest.mark.parametrize("n_features", rest_slow([4, 70, 1, 100], n_fast=2))
def test_leave_one_out_is_exact(n_features, make_weights, alpha):
    X, y = rows_and_targets(n_rows=60, n_features=n_features)
    weights = make_weights(60)
    wanted = leave_out_slowly(X, y, weights, alpha)
    problem = make_ridge_problem(X, y, alpha)
    # With more columns than rows and hardly a penalty, a row left out has a residual of zero over zero.
    tolerance = 1e-8 if n_features < 60 or alpha >= 1.0 else 1e-3
    for each in (problem, uncompiled(problem)):
        assert relative_error(leave_one_out_predictions(each, weights), wanted) < tolerance


def test_leaving_a_row_of_weight_zero_out_changes_nothing():
    X, y = rows_and_targets()
    weights = (np.arange(len(X)) % 2).astype(float)
    problem = make_ridge_problem(X, y, 1.0)
    found, full = leave_one_out_predictions(problem, weights), predict(X, solve_ridge(problem, weights))
    np.testing.assert_allclose(found[::2], full[::2], rtol=1e-12)
    assert np.all(np.abs(found[1::2] - y[1::2]) > np.abs(full[1::2] - y[1::2]))


def test_one_row_is_its_own_mean():
    problem = make_ridge_problem(np.ones((1, 2)), np.array([3.0]), 1.0)
    assert solve_ridge(problem, np.ones(1)).tolist() == [0.0, 0.0, 3.0]
    assert leave_one_out_predictions(problem, np.ones(1)).tolist() == [3.0]


@pytest.mark.parametrize("n_features", [100, 400])
def test_from_a_start_the_optimum_is_reached_to_nine_digits(n_features):
    X, y = rows_and_targets(n_rows=300, n_features=n_features)
    problem = make_ridge_problem(X, y, 1.0)
    coefs = solve_ridge(problem, np.ones(300))
    for step in range(1, 6):
        weights = np.exp(0.1 * step * X[:, 0])
        first = problem.axes.T @ coefs[:-1]
        slopes = descend_ridge(problem.rows, problem.targets, problem.mean_squares, 1.0, weights, first)
        assert slopes is not None
        coefs = solve_ridge(problem, weights, coefs)
        assert relative_error(coefs, solve_ridge(problem, weights)) < 1e-7
        np.testing.assert_allclose(problem.axes @ slopes, coefs[:-1], rtol=1e-12)


def test_after_a_jump_that_is_too_far_the_closed_form_answers():
    X, y = rows_and_targets(n_rows=300, n_features=120)
    problem, weights = make_ridge_problem(X, y, 1e-6), ridge_weights(300)
    start = solve_ridge(problem, np.ones(300))
    first = problem.axes.T @ start[:-1]
    assert descend_ridge(problem.rows, problem.targets, problem.mean_squares, 1e-6, weights, first) is None
    np.testing.assert_array_equal(solve_ridge(problem, weights, start), solve_ridge(problem, weights))


@pytest.mark.parametrize("n_features", [4, 120])
def test_a_start_that_is_no_number_or_has_no_weights_does_no_harm(n_features):
    X, y = rows_and_targets(n_rows=300, n_features=n_features)
    problem = make_ridge_problem(X, y, 1.0)
    for weights in (np.ones(300), np.zeros(300)):
        found = solve_ridge(problem, weights, np.full(n_features + 1, np.nan))
        np.testing.assert_array_equal(found, solve_ridge(problem, weights))
