"""Weighted logistic regression on hard data: separable, constant or far from zero, and classes without weight."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from accous.arrays import FloatArray, IntArray
from accous.core.regression import leave_one_out_scores, make_problem, solve
from accous.threads import one_blas_thread
from tests.core.solvers.logistic_cases import (
    centred,
    class_probabilities,
    difference_gradient,
    each_n_classes,
    labelled_rows,
    probabilities_of_fit,
    relative_error,
)


@pytest.fixture(autouse=True)
def _as_in_a_round() -> Iterator[None]:
    with one_blas_thread():
        yield


def separable(X: FloatArray, labels: IntArray) -> FloatArray:
    return X + 50.0 * labels[:, None]


def with_duplicates(X: FloatArray, labels: IntArray) -> FloatArray:
    return np.hstack((X, X))


def with_constant(X: FloatArray, labels: IntArray) -> FloatArray:
    return np.column_stack((X, np.full(len(X), 7.0)))


def with_sum(X: FloatArray, labels: IntArray) -> FloatArray:
    return np.column_stack((X, X.sum(axis=1)))


def all_zero(X: FloatArray, labels: IntArray) -> FloatArray:
    return np.zeros_like(X)


each_hard_set = pytest.mark.parametrize(
    "harden", [separable, with_duplicates, with_constant, with_sum, all_zero], ids=lambda harden: harden.__name__
)


@pytest.mark.every_pair
@each_hard_set
@each_n_classes
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_hard_data_have_a_finite_optimum(
    n_classes: int, C: float, harden: Callable[[FloatArray, IntArray], FloatArray]
) -> None:
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(harden(X, labels), labels, n_classes, C), np.exp(X[:, 0])
    coefs = solve(problem, weights)
    assert np.all(np.isfinite(coefs))
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))
    zero = np.zeros_like(coefs)
    least = np.abs(difference_gradient(problem, weights, zero)).max()
    assert np.abs(difference_gradient(problem, weights, coefs)).max() < 1e-4 * least


@each_n_classes
def test_a_duplicated_column_shares_its_coefficient(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    coefs = solve(make_problem(np.hstack((X, X)), labels, n_classes, C=1.0), np.ones(len(X)))
    np.testing.assert_allclose(coefs[:, :4], coefs[:, 4:8], rtol=1e-6, atol=1e-9)


@each_n_classes
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_a_class_without_weight_becomes_improbable_and_stays_finite(n_classes: int, C: float) -> None:
    X, labels = labelled_rows(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C), (labels != 0).astype(float)
    coefs = solve(problem, weights)
    assert np.all(np.isfinite(coefs))
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))
    assert class_probabilities(problem, coefs)[:, 0].max() < 1e-3


@each_n_classes
def test_the_optimum_comes_back_after_a_class_had_no_weight(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes)
    problem = make_problem(X, labels, n_classes, C=1.0)
    without = solve(problem, (labels != 0).astype(float))
    back = solve(problem, np.ones(len(X)), without)
    assert relative_error(centred(back), centred(solve(problem, np.ones(len(X))))) < 1e-6


@each_n_classes
def test_two_rows_or_one_row_per_class_are_enough(n_classes: int) -> None:
    X, labels = np.eye(n_classes), np.arange(n_classes)
    problem, weights = make_problem(X, labels, n_classes, C=1.0), np.ones(n_classes)
    coefs = solve(problem, weights)
    assert class_probabilities(problem, coefs).argmax(axis=1).tolist() == labels.tolist()
    assert np.all(np.isfinite(leave_one_out_scores(problem, weights, coefs)))


@each_n_classes
@pytest.mark.parametrize("scale", [1e-2, 1e3, 1e6, 1e8])
def test_multiplying_all_columns_is_a_change_of_C(n_classes: int, scale: float) -> None:
    """With u = w scale: C sum l(u x) + u^2 / (2 scale^2), the objective of C scale^2."""
    X, labels = labelled_rows(n_classes)
    # Beyond C = 1e6 the penalty no longer matters.
    same = probabilities_of_fit(make_problem(X, labels, n_classes, C=min(scale, 1e3) ** 2))
    scaled = probabilities_of_fit(make_problem(X * scale, labels, n_classes, C=1.0))
    np.testing.assert_allclose(scaled, same, atol=1e-5)


@each_n_classes
@pytest.mark.parametrize("offset", [1e2, 1e4])
def test_adding_a_constant_to_a_column_changes_no_probability(n_classes: int, offset: float) -> None:
    """The intercept, which has no penalty, takes it up: think of a column of time stamps."""
    X, labels = labelled_rows(n_classes)
    moved = X + offset * (np.arange(4) == 0)
    plain = probabilities_of_fit(make_problem(X, labels, n_classes, C=1.0))
    np.testing.assert_allclose(probabilities_of_fit(make_problem(moved, labels, n_classes, C=1.0)), plain, atol=1e-6)


@each_n_classes
@pytest.mark.parametrize("offset", [1e6, 1e9, 1e12])
def test_columns_far_from_zero_are_fitted(n_classes: int, offset: float) -> None:
    X, labels = labelled_rows(n_classes)
    fitted = probabilities_of_fit(make_problem(X + offset, labels, n_classes, C=1.0))
    assert np.all(np.isfinite(fitted))
