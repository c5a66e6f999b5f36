"""Weighted logistic regression: scikit-learn's optimum, warm starts, many coefficients, and scores of rows left out."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.core.ensemble import MAX_NEWTON_COEFS
from accous.core.regression import LogisticProblem, leave_one_out_scores, make_problem, solve
from accous.threads import one_blas_thread
from tests.budgets import rest_slow
from tests.core.solvers.logistic_cases import (
    centred,
    difference_gradient,
    each_large_problem,
    each_n_classes,
    labelled_rows,
    objective,
    probabilities_of_fit,
    relative_error,
    scikit_learn_optimum,
    scikit_learn_optimum_of_wide_rows,
    wide_weights,
)


@pytest.fixture(autouse=True)
def _as_in_a_round() -> Iterator[None]:
    with one_blas_thread():
        yield


# --- the optimum --------------------------------------------------------------------------------------------


@pytest.mark.every_pair
@each_n_classes
@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])
def test_the_optimum_is_that_of_scikit_learn(
    n_classes: int, C: float, make_weights: Callable[[int], FloatArray]
) -> None:
    X, labels = labelled_rows(n_classes)
    weights = make_weights(len(X))
    coefs = solve(make_problem(X, labels, n_classes, C), weights)
    wanted = scikit_learn_optimum(X, labels, weights, C)
    assert relative_error(centred(coefs)[:, :-1], wanted[:, :-1]) < 1e-6
    assert relative_error(centred(coefs)[:, -1], wanted[:, -1]) < 1e-6


@each_n_classes
@pytest.mark.parametrize("C", [1e-2, 1.0, 100.0])
def test_the_gradient_vanishes_at_the_optimum(n_classes: int, C: float) -> None:
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C), np.random.default_rng(1).exponential(size=len(X))
    coefs = solve(problem, weights)
    at_zero = difference_gradient(problem, weights, np.zeros_like(coefs))
    assert np.abs(difference_gradient(problem, weights, coefs)).max() < 1e-5 * np.abs(at_zero).max()


@each_n_classes
def test_the_weights_matter(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem = make_problem(X, labels, n_classes, C=1.0)
    assert relative_error(solve(problem, np.exp(X[:, 0])), solve(problem, np.ones(len(X)))) > 0.05


@each_n_classes
def test_a_weight_of_two_is_a_row_given_twice(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    weights = 1.0 + (np.arange(len(X)) % 3 == 0)
    twice = np.repeat(np.arange(len(X)), weights.astype(int))
    repeated = solve(make_problem(X[twice], labels[twice], n_classes, C=1.0), np.ones(len(twice)))
    assert relative_error(solve(make_problem(X, labels, n_classes, C=1.0), weights), repeated) < 1e-8


@each_n_classes
def test_a_row_of_weight_zero_is_a_row_left_out(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    is_kept = np.arange(len(X)) % 4 != 0
    left_out = solve(make_problem(X[is_kept], labels[is_kept], n_classes, C=1.0), np.ones(is_kept.sum()))
    weightless = solve(make_problem(X, labels, n_classes, C=1.0), is_kept.astype(float))
    assert relative_error(weightless, left_out) < 1e-8


@each_n_classes
def test_the_shape_is_one_row_of_coefficients_for_two_classes_and_one_per_class_for_more(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem = make_problem(X, labels, n_classes, C=1.0)
    assert problem.n_scores == (1 if n_classes == 2 else n_classes)
    assert solve(problem, np.ones(len(X))).shape == (problem.n_scores, X.shape[1] + 1)


@pytest.mark.parametrize("C", [1e6, 1e20, 1e50, 1e100])
def test_classes_that_are_separated_without_a_penalty_are_told_apart(C: float) -> None:
    """The probability of a row's own class is then 1 up to rounding, and its curvature next to nothing."""
    X = np.random.default_rng(0).normal(size=(20, 8))
    labels = np.array([0, 1, *[2] * 18])
    problem = make_problem(X, labels, 3, C)
    probabilities = probabilities_of_fit(problem)
    assert probabilities[np.arange(20), labels].min() > 1.0 - 10.0 / np.sqrt(C) - 1e-9


# --- warm starts --------------------------------------------------------------------------------------------


@each_n_classes
@pytest.mark.parametrize("distance", [0.1, 3.0, 100.0])
def test_a_warm_start_ends_where_a_cold_start_ends(n_classes: int, distance: float) -> None:
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C=1.0), wide_weights(len(X))
    cold = solve(problem, weights)
    start = cold + distance * np.random.default_rng(2).normal(size=cold.shape)
    assert relative_error(centred(solve(problem, weights, start)), centred(cold)) < 1e-6


@each_n_classes
def test_many_warm_starts_in_a_row_do_not_drift(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem = make_problem(X, labels, n_classes, C=1.0)
    coefs = solve(problem, np.ones(len(X)))
    for t in range(50):
        weights = np.exp(2.0 * np.sin(t / 5.0) * X[:, 0])
        coefs = solve(problem, weights, coefs)
    assert relative_error(centred(coefs), centred(solve(problem, weights))) < 1e-7


@each_n_classes
def test_the_start_is_not_written_into(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem = make_problem(X, labels, n_classes, C=1.0)
    start = np.full((problem.n_scores, X.shape[1] + 1), 0.5)
    solve(problem, np.ones(len(X)), start)
    assert np.all(start == 0.5)


# --- more coefficients than Newton's method takes -----------------------------------------------------------


@pytest.mark.every_pair
@each_large_problem
@pytest.mark.parametrize("C", rest_slow([1e-4, 1.0, 1e-2, 100.0], n_fast=2))
@pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])
def test_many_coefficients_reach_the_optimum(
    n_classes: int, n_features: int, C: float, make_weights: Callable[[int], FloatArray]
) -> None:
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
@pytest.mark.parametrize("make_weights", [np.ones, wide_weights], ids=["equal", "wide"])
def test_many_coefficients_are_exact_where_the_penalty_is_weak(
    n_classes: int, C: float, make_weights: Callable[[int], FloatArray]
) -> None:
    X, labels = labelled_rows(n_classes, n_rows=100, n_features=300)
    problem, weights = make_problem(X, labels, n_classes, C), make_weights(len(X))
    coefs = solve(problem, weights)
    best = solve(problem, weights, 1.001 * coefs)
    assert objective(problem, weights, coefs) <= objective(problem, weights, best) * (1.0 + 1e-8)


@each_large_problem
def test_a_warm_start_of_many_coefficients_ends_where_a_cold_start_ends(n_classes: int, n_features: int) -> None:
    X, labels = labelled_rows(n_classes, n_rows=100, n_features=n_features)
    problem = make_problem(X, labels, n_classes, C=1.0)
    weights = np.exp(X[:, 0])
    warm = solve(problem, weights, solve(problem, np.ones(len(X))))
    assert relative_error(centred(warm), centred(solve(problem, weights))) < 1e-5


@each_large_problem
def test_many_coefficients_with_a_class_that_has_no_weight_are_finite(n_classes: int, n_features: int) -> None:
    X, labels = labelled_rows(n_classes, n_rows=100, n_features=n_features)
    coefs = solve(make_problem(X, labels, n_classes, C=1.0), (labels != 0).astype(float))
    assert np.all(np.isfinite(coefs))


# --- leaving one row out ------------------------------------------------------------------------------------


def exact_leave_one_out_scores(problem: LogisticProblem, weights: FloatArray, coefs: FloatArray) -> FloatArray:
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
def test_leave_one_out_scores_are_nearly_those_of_refits(
    n_classes: int, C: float, make_weights: Callable[[int], FloatArray]
) -> None:
    X, labels = labelled_rows(n_classes, n_rows=60)
    problem, weights = make_problem(X, labels, n_classes, C), make_weights(len(X))
    coefs = solve(problem, weights)
    exact = exact_leave_one_out_scores(problem, weights, coefs)
    full_error = np.abs(problem.scores(centred(coefs)) - exact).mean()
    found_error = np.abs(leave_one_out_scores(problem, weights, centred(coefs)) - exact).mean()
    assert found_error < 0.15 * full_error


@each_n_classes
def test_leave_one_out_moves_every_score_away_from_the_rows_own_class(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C=1.0), np.ones(len(X))
    coefs = solve(problem, weights)
    moves = leave_one_out_scores(problem, weights, coefs) - problem.scores(coefs)
    own = np.where(labels == 1, moves[:, 0], -moves[:, 0]) if n_classes == 2 else moves[np.arange(len(X)), labels]
    assert np.all(own < 0.0)


@each_n_classes
def test_a_row_of_weight_zero_keeps_its_score(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    weights = (np.arange(len(X)) % 2).astype(float)
    problem = make_problem(X, labels, n_classes, C=1.0)
    coefs = solve(problem, weights)
    found = leave_one_out_scores(problem, weights, coefs)
    full = problem.scores(coefs)
    np.testing.assert_allclose(found[::2], full[::2], rtol=1e-12)
    assert np.all(found[1::2] != full[1::2])
