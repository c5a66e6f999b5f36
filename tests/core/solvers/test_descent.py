"""Descent in principal axes: the optimum, never upwards, the effort asked for, and memory."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from accous.arrays import FloatArray, IntArray
from accous.core.regression import FULL, ONE_ROUND, Effort, Point, descend, make_cross_entropy
from tests.core.solvers.logistic_cases import labelled_rows, wide_weights

each_n_classes = pytest.mark.parametrize("n_classes", [2, 3, 5])


class Problem:
    """Rows in their principal axes with an intercept column, and the objective written out."""

    def __init__(self, n_classes: int, n_rows: int = 120, n_features: int = 6, seed: int = 0) -> None:
        X, self.labels = labelled_rows(n_classes, n_rows, n_features, seed)
        X = X * np.geomspace(1.0, 0.1, n_features) - X.mean(axis=0)
        X = (X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0))[2].T
        self.design = np.column_stack((X, np.ones(n_rows)))
        self.mean_squares = np.square(self.design).mean(axis=0)
        self.penalty = np.append(np.ones(n_features), 1e-10)
        self.n_scores = 1 if n_classes == 2 else n_classes

    def at(self, coefs: FloatArray) -> Point:
        return Point(coefs, coefs @ self.design.T)

    def origin(self) -> Point:
        return self.at(np.zeros((self.n_scores, self.design.shape[1])))

    def descend(self, weights: FloatArray, start: Point, effort: Effort = FULL) -> tuple[Point, int]:
        loss = make_cross_entropy(self.labels, weights, self.n_scores)
        return descend(loss, self.design, self.mean_squares, self.penalty, start, effort)

    def value(self, weights: FloatArray, coefs: FloatArray) -> float:
        scores = self.design @ coefs.T
        if self.n_scores == 1:
            scores = np.column_stack((np.zeros(len(scores)), scores))
        losses = -log_softmax(scores, axis=1)[np.arange(len(scores)), self.labels]
        return float(weights @ losses + 0.5 * np.sum(self.penalty * coefs**2))

    def gradient(self, weights: FloatArray, coefs: FloatArray) -> FloatArray:
        residuals = make_cross_entropy(self.labels, weights, self.n_scores).evaluate(coefs @ self.design.T).residuals
        return np.asarray(residuals @ self.design + self.penalty * coefs)


# --- the optimum ------------------------------------------------------------------------------------------------


@each_n_classes
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])
def test_at_the_end_the_gradient_is_gone(
    n_classes: int, scale: float, make_weights: Callable[[int], FloatArray]
) -> None:
    problem = Problem(n_classes)
    weights = scale * make_weights(120)
    end, _ = problem.descend(weights, problem.origin())
    at_start = np.abs(problem.gradient(weights, problem.origin().coefs)).max()
    assert np.abs(problem.gradient(weights, end.coefs)).max() < 1e-5 * at_start


@each_n_classes
def test_few_steps_are_needed(n_classes: int) -> None:
    """The preconditioner knows the columns' scales and the classes' curvatures."""
    problem = Problem(n_classes, n_rows=2000, n_features=40)
    assert problem.descend(np.ones(2000), problem.origin())[1] <= 20


@each_n_classes
def test_the_end_does_not_depend_on_the_start(n_classes: int) -> None:
    problem, weights = Problem(n_classes), np.random.default_rng(1).exponential(size=120)
    end, _ = problem.descend(weights, problem.origin())
    far = np.random.default_rng(2).normal(scale=20.0, size=end.coefs.shape)
    far -= far.mean(axis=0) if n_classes > 2 else 0.0
    other, _ = problem.descend(weights, problem.at(far))
    np.testing.assert_allclose(other.coefs, end.coefs, atol=1e-5)


# --- on the way -------------------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    n_classes=st.sampled_from([2, 3, 5]),
    log_distance=st.floats(-3.0, 3.0),
    n_steps=st.integers(1, 4),
)
def test_no_descent_ends_above_its_start(seed: int, n_classes: int, log_distance: float, n_steps: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(n_classes, n_rows=30, seed=seed % 100)
    weights = wide_weights(30, seed % 1000)
    start = problem.at(10.0**log_distance * rng.normal(size=problem.origin().coefs.shape))
    end, _ = problem.descend(weights, start, Effort(tolerance=0.0, near=np.inf, n_steps=n_steps))
    before, after = problem.value(weights, start.coefs), problem.value(weights, end.coefs)
    assert after <= before * (1.0 + 1e-13)


@each_n_classes
def test_scores_are_those_of_the_coefficients(n_classes: int) -> None:
    problem, weights = Problem(n_classes), wide_weights(120)
    end, _ = problem.descend(weights, problem.origin())
    np.testing.assert_allclose(end.scores, end.coefs @ problem.design.T, rtol=0.0, atol=1e-9 * np.abs(end.scores).max())


@each_n_classes
def test_the_start_is_not_written_into(n_classes: int) -> None:
    problem = Problem(n_classes)
    start = problem.origin()
    start.coefs.flags.writeable = start.scores.flags.writeable = False
    problem.descend(np.ones(120), start)


# --- effort -----------------------------------------------------------------------------------------------------


@each_n_classes
def test_an_effort_of_few_steps_makes_them(n_classes: int) -> None:
    problem = Problem(n_classes)
    values = []
    for n_steps in (1, 2, 3):
        end, n_made = problem.descend(np.ones(120), problem.origin(), Effort(0.0, near=np.inf, n_steps=n_steps))
        assert n_made == n_steps
        values.append(problem.value(np.ones(120), end.coefs))
    assert values[0] > values[1] > values[2]


@each_n_classes
def test_a_round_goes_on_while_much_is_left(n_classes: int) -> None:
    problem = Problem(n_classes, n_rows=400, n_features=20)
    weights = 10.0 ** np.random.default_rng(0).uniform(-2.0, 2.0, size=400)
    end, n_steps = problem.descend(weights, problem.origin(), ONE_ROUND)
    best, _ = problem.descend(weights, end)
    least = problem.value(weights, best.coefs)
    assert n_steps > ONE_ROUND.n_steps
    assert problem.value(weights, end.coefs) <= least * (1.0 + ONE_ROUND.near)


@each_n_classes
def test_at_the_optimum_nothing_is_done(n_classes: int) -> None:
    problem = Problem(n_classes)
    end, _ = problem.descend(np.ones(120), problem.origin())
    again, n_steps = problem.descend(np.ones(120), end, ONE_ROUND)
    assert n_steps == 0
    assert again is end


def test_rounds_follow_moving_weights() -> None:
    """A stream of refits, each of a few steps from the one before, stays near the optimum."""
    problem = Problem(4, n_rows=600, n_features=30)
    point, _ = problem.descend(np.ones(600), problem.origin())
    for t in range(40):
        weights = np.exp(np.sin(t / 8.0) * problem.design[:, 0])
        point, n_steps = problem.descend(weights, point, ONE_ROUND)
        best, _ = problem.descend(weights, point)
        assert n_steps <= 4
        assert problem.value(weights, point.coefs) <= problem.value(weights, best.coefs) * (1.0 + 1e-3)


# --- hard data --------------------------------------------------------------------------------------------------


@each_n_classes
def test_no_weight_at_all_gives_zero(n_classes: int) -> None:
    problem = Problem(n_classes)
    end, _ = problem.descend(np.zeros(120), problem.at(np.ones_like(problem.origin().coefs)))
    np.testing.assert_allclose(end.coefs[:, :-1], 0.0, atol=1e-6)


@each_n_classes
def test_a_class_without_weight_stays_finite(n_classes: int) -> None:
    problem = Problem(n_classes)
    end, _ = problem.descend((problem.labels != 0).astype(float), problem.origin())
    assert np.isfinite(end.coefs).all()
    assert np.isfinite(end.scores).all()


def test_memory_does_not_grow_with_the_square_of_the_classes() -> None:
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
