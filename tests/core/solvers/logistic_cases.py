"""Rows, weights and reference answers for the tests of the logistic regression."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import MAX_NEWTON_COEFS
from accous.core.regression import LogisticProblem, solve

each_n_classes = pytest.mark.parametrize("n_classes", [2, 3, 5])
# More features than rows, and fewer; more coefficients than Newton's method takes.
each_large_problem = pytest.mark.parametrize(
    ("n_classes", "n_features"), [(2, MAX_NEWTON_COEFS), (2, 1000), (3, 90), (3, 340), (5, 60)]
)


def labelled_rows(n_classes: int, n_rows: int = 150, n_features: int = 4, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Rows whose classes overlap and are not equally frequent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=(n_features, n_classes)) / np.sqrt(n_features) + rng.gumbel(size=(n_rows, n_classes))
    scores[:, 0] += 0.7
    return X, scores.argmax(axis=1)


def wide_weights(n_rows: int, seed: int = 0) -> FloatArray:
    """Weights over nine orders of magnitude."""
    return 10.0 ** np.random.default_rng(seed).uniform(-6.0, 3.0, size=n_rows)


def scikit_learn_optimum(X: FloatArray, labels: IntArray, weights: FloatArray, C: float) -> FloatArray:
    model = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky", max_iter=10_000)
    model.fit(X, labels, sample_weight=weights)
    return centred(np.column_stack((model.coef_, model.intercept_)))


def scikit_learn_optimum_of_wide_rows(X: FloatArray, labels: IntArray, weights: FloatArray, C: float) -> FloatArray:
    """The optimum's coefficients are combinations of the rows: solve for few instead of many."""
    axes, coordinates = np.linalg.qr(X.T)
    few = scikit_learn_optimum(coordinates.T, labels, weights, C)
    return np.column_stack((few[:, :-1] @ axes.T, few[:, -1]))


def centred(coefs: FloatArray) -> FloatArray:
    """The same softmax regression with intercepts of mean 0: a constant added to all of them changes nothing."""
    if len(coefs) == 1:
        return coefs
    return np.column_stack((coefs[:, :-1], coefs[:, -1] - coefs[:, -1].mean()))


def objective(problem: LogisticProblem, weights: FloatArray, coefs: FloatArray) -> float:
    """The documented objective, written out."""
    scores = problem.scores(coefs)
    if problem.n_classes == 2:
        scores = np.column_stack((np.zeros(len(scores)), scores))
    losses = -log_softmax(scores, axis=1)[np.arange(len(scores)), problem.labels]
    return float(problem.C * weights @ losses + 0.5 * np.sum(coefs[:, :-1] ** 2))


def difference_gradient(problem: LogisticProblem, weights: FloatArray, coefs: FloatArray) -> FloatArray:
    """Gradient of the objective by central differences."""
    gradient, step = np.empty(coefs.size), 1e-5
    for i in range(coefs.size):
        shift = np.zeros(coefs.size)
        shift[i] = step
        shift = shift.reshape(coefs.shape)
        gradient[i] = objective(problem, weights, coefs + shift) - objective(problem, weights, coefs - shift)
    return gradient / (2.0 * step)


def relative_error(found: FloatArray, wanted: FloatArray) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def class_probabilities(problem: LogisticProblem, coefs: FloatArray) -> FloatArray:
    scores = problem.scores(coefs)
    if problem.n_classes == 2:
        scores = np.column_stack((np.zeros(len(scores)), scores))
    return np.exp(log_softmax(scores, axis=1))


def probabilities_of_fit(problem: LogisticProblem) -> FloatArray:
    """Class probabilities of the rows by an unweighted fit."""
    return class_probabilities(problem, solve(problem, np.ones(len(problem.labels))))
