r"""Importance-weighted logistic and softmax regression on a fixed reference, warm-started from round to round.

.. math:: \min_{w, b} \; C \sum_i s_i \, \ell\big(y_i, w^\top x_i + b\big) + \tfrac12 \|w\|^2

with the logistic loss for two classes and the cross-entropy for more. The objective, and therefore the optimum, is that
of scikit-learn's ``LogisticRegression(C)`` with the weights s (the paper's eq. for importance-weighted ERM).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from accous.arrays import FloatArray, IntArray
from accous.core.fast.logistic import NarrowDesign, make_narrow_design
from accous.core.fast.width import MAX_NEWTON_COEFS, is_narrow
from accous.core.solvers.cross_entropy import make_cross_entropy
from accous.core.solvers.descent import FULL, Effort, Point, descend

__all__ = [
    "MAX_HESSIAN_COEFS",
    "LogisticProblem",
    "descend_from",
    "leave_one_out_scores",
    "make_problem",
    "principal_axes",
    "solve",
    "solve_compiled",
]

MAX_HESSIAN_COEFS = 1000
_MAX_NEWTON_STEPS = 100
_MAX_HALVINGS = 40
_MAX_ROW_HESSIANS = 50_000_000
_NEWTON_DECREMENT = 1e-12
_INTERCEPT_RIDGE = 1e-10
_JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


@dataclass(frozen=True)
class LogisticProblem:
    """The data that does not change between refits.

    Attributes
    ----------
    design : array of shape (n_rows, d + 1)
        The rows, centred, with a constant 1 appended. The intercept is not penalised, so centring only changes
        coordinates. Without it, columns far from zero would make the Hessian singular up to rounding. If there are too
        many coefficients for Newton's method, the rows are in their principal axes (at most ``n_rows`` of them).
    centre : array of shape (d,)
    labels : array of shape (n_rows,)
        Class numbers 0 .. n_classes - 1.
    n_classes : int
    C : float
        Inverse strength of the penalty.
    axes : array of shape (d, n_axes) or None
        The principal axes, if the design uses them.
    mean_squares : array of shape (n_axes + 1,) or None
        Mean square of every column of the design, if it uses its principal axes.
    narrow : NarrowDesign or None
        The design for the compiled loops, if they can handle the problem.
    """

    design: FloatArray
    centre: FloatArray
    labels: IntArray
    n_classes: int
    C: float
    axes: FloatArray | None = None
    mean_squares: FloatArray | None = None
    narrow: NarrowDesign | None = None

    @property
    def n_scores(self) -> int:
        """Number of rows of the coefficient matrix: one for two classes, otherwise one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def has_small_hessian(self) -> bool:
        """Whether the Hessians of the objective and of every row are small enough to compute occasionally."""
        n_rows, n_columns = self.design.shape
        return self.n_scores * n_columns <= MAX_HESSIAN_COEFS and n_rows * self.n_scores**2 <= _MAX_ROW_HESSIANS

    @property
    def is_for_newton(self) -> bool:
        """Whether the Hessians are small enough to compute several times per round."""
        return self.n_scores * self.design.shape[1] <= MAX_NEWTON_COEFS and self.has_small_hessian

    def scores(self, coefs: FloatArray) -> FloatArray:
        """Scores of every row, (n_rows, n_scores)."""
        return np.asarray(self.design @ self.to_design(coefs).T)

    def part(self, row_indices: IntArray) -> LogisticProblem:
        """Return the same problem on some of its rows."""
        part = replace(self, design=self.design[row_indices], labels=self.labels[row_indices])
        return replace(part, narrow=_narrow_design(part))

    def to_design(self, coefs: FloatArray) -> FloatArray:
        """Convert coefficients for the original rows to coefficients for the design."""
        if self.axes is None:
            moved = np.array(coefs)
            moved[:, -1] += coefs[:, :-1] @ self.centre
            return moved
        intercepts = coefs[:, -1:] + coefs[:, :-1] @ self.centre[:, None]
        return np.concatenate((coefs[:, :-1] @ self.axes, intercepts), axis=1)

    def from_design(self, coefs: FloatArray) -> FloatArray:
        """Convert coefficients for the design to coefficients for the original rows."""
        if self.axes is None:
            moved = np.array(coefs)
            moved[:, -1] -= coefs[:, :-1] @ self.centre
            return moved
        slopes = coefs[:, :-1] @ self.axes.T
        return np.concatenate((slopes, coefs[:, -1:] - slopes @ self.centre[:, None]), axis=1)


def make_problem(X: FloatArray, labels: IntArray, n_classes: int, C: float) -> LogisticProblem:
    """Set up a problem; the weights are passed later."""
    centre = X.mean(axis=0)
    rows, ones = X - centre, np.ones((X.shape[0], 1))
    problem = LogisticProblem(np.concatenate((rows, ones), axis=1), centre, labels, n_classes, C)
    if problem.is_for_newton:
        return replace(problem, narrow=_narrow_design(problem))
    axes = principal_axes(rows)
    design = np.concatenate((rows @ axes, ones), axis=1)
    return replace(problem, design=design, axes=axes, mean_squares=np.square(design).mean(axis=0))


def principal_axes(rows: FloatArray) -> FloatArray:
    """Return orthonormal axes in which the Gram matrix of the rows is diagonal; at most as many as rows."""
    if rows.shape[0] < rows.shape[1]:
        return np.linalg.svd(rows, full_matrices=False)[2].T
    return np.linalg.eigh(rows.T @ rows).eigenvectors


def solve(
    problem: LogisticProblem,
    weights: FloatArray,
    start: FloatArray | None = None,
    effort: Effort = FULL,
) -> FloatArray:
    """Minimise the weighted objective.

    Parameters
    ----------
    problem : LogisticProblem
    weights : array of shape (n_rows,)
        Non-negative s.
    start : array of shape (n_scores, d + 1), optional
        Coefficients to start from; zeros if not given.
    effort : Effort
        When to stop, for problems with many coefficients; Newton's method always runs to convergence.

    Returns
    -------
    array of shape (n_scores, d + 1)
        w with b in the last column.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.solvers.logistic import make_problem, solve
    >>> problem = make_problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0, 0, 1]), n_classes=2, C=1.0)
    >>> solve(problem, np.ones(3)).round(3)
    array([[ 0.702, -0.748]])
    """
    compiled = solve_compiled(problem, weights, start)
    if compiled is not None:
        return compiled
    if start is None:
        start = np.zeros((problem.n_scores, len(problem.centre) + 1))
    start = problem.to_design(start)
    if problem.axes is None:
        return problem.from_design(_solve_by_newton(problem, weights, start))
    return problem.from_design(descend_from(problem, weights, Point(start, start @ problem.design.T), effort).coefs)


def solve_compiled(problem: LogisticProblem, weights: FloatArray, start: FloatArray | None) -> FloatArray | None:
    """Do the same as ``solve`` without BLAS; None if there are too many columns or classes, or without convergence."""
    if problem.narrow is None:
        return None
    coefs = np.zeros((1, problem.design.shape[1])) if start is None else np.array(start)
    return coefs if problem.narrow.fit(coefs, weights, problem.C) else None


def descend_from(problem: LogisticProblem, weights: FloatArray, start: Point, effort: Effort = FULL) -> Point:
    """Minimise the weighted objective of a problem in principal axes, in the coordinates of its design."""
    assert problem.mean_squares is not None
    loss = make_cross_entropy(problem.labels, problem.C * weights, problem.n_scores)
    end, _ = descend(loss, problem.design, problem.mean_squares, _penalty(problem.design.shape[1]), start, effort)
    return end


def leave_one_out_scores(problem: LogisticProblem, weights: FloatArray, coefs: FloatArray) -> FloatArray:
    r"""Return the score of each row from a fit without it, approximated by one Newton step from the full fit.

    With H the Hessian, :math:`J_i` the row's block of the design and :math:`g_i, K_i` the gradient and Hessian of
    its own weighted loss in its scores, and :math:`A_i = J_i H^{-1} J_i^\top`,

    .. math:: z_i^{(-i)} \approx z_i + A_i (I - K_i A_i)^{-1} g_i .

    The cost grows with the cube of the number of coefficients.

    Returns
    -------
    array of shape (n_rows, n_scores)
    """
    compiled = None if problem.narrow is None else problem.narrow.leave_one_out(coefs, weights, problem.C)
    if compiled is not None:
        return compiled[:, None]
    scaled = problem.C * weights
    scores = problem.scores(coefs)
    probabilities = _probabilities(scores)
    if problem.n_scores == 1:
        return _leave_one_out_of_two(problem, scaled, scores[:, 0], probabilities[:, 0])
    gradients = scaled[:, None] * (probabilities - _targets(problem))
    blocks = scaled[:, None, None] * _curvatures(probabilities)
    hessian = _hessian(problem.design, blocks)
    inverse_hessian = _solve_positive(hessian, np.eye(len(hessian)))
    leverages = _leverages(problem.design, inverse_hessian, problem.n_scores)
    corrections = np.linalg.solve(np.eye(problem.n_scores) - blocks @ leverages, gradients[..., None])
    return np.asarray(scores + (leverages @ corrections)[..., 0])


def _leave_one_out_of_two(
    problem: LogisticProblem, scaled: FloatArray, scores: FloatArray, probabilities: FloatArray
) -> FloatArray:
    """Do the same for one score per row: every matrix of a row is a number."""
    design = problem.design
    curvatures = scaled * probabilities * (1.0 - probabilities)
    hessian = design.T @ (design * curvatures[:, None])
    hessian.flat[:: len(hessian) + 1] += _penalty(len(hessian))
    leverages = np.einsum("nd,nd->n", design @ _solve_positive(hessian, np.eye(len(hessian))), design)
    corrections = leverages * scaled * (probabilities - problem.labels) / (1.0 - curvatures * leverages)
    return np.asarray(scores + corrections)[:, None]


def _narrow_design(problem: LogisticProblem) -> NarrowDesign | None:
    n_columns = problem.design.shape[1]
    if problem.axes is not None or problem.n_scores > 1 or not is_narrow(n_columns):
        return None
    return make_narrow_design(problem.design, problem.centre, _targets(problem), _penalty(n_columns))


def _solve_by_newton(problem: LogisticProblem, weights: FloatArray, start: FloatArray) -> FloatArray:
    """Run Newton's method with step halving; quadratic convergence makes the last step exact up to rounding."""
    design, scaled, targets = problem.design, problem.C * weights, _targets(problem)
    coefs, scores = start, design @ start.T
    value = _objective(problem, scaled, coefs, scores)
    for _ in range(_MAX_NEWTON_STEPS):
        probabilities = _probabilities(scores)
        gradient = (scaled[:, None] * (probabilities - targets)).T @ design + _penalty(design.shape[1]) * coefs
        hessian = _hessian(design, scaled[:, None, None] * _curvatures(probabilities))
        direction = _solve_positive(hessian, gradient.ravel()).reshape(coefs.shape)
        decrement = float(np.vdot(gradient, direction))
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = coefs - size * direction
            trial_scores = design @ trial.T
            trial_value = _objective(problem, scaled, trial, trial_scores)
            if trial_value <= value - 1e-4 * size * decrement:
                break
            size *= 0.5
        else:
            # No step lowers the objective in floating point: this is the optimum.
            return coefs
        coefs, scores, value = trial, trial_scores, trial_value
        if decrement <= _NEWTON_DECREMENT * scaled.sum():
            return coefs
    return coefs


def _objective(problem: LogisticProblem, scaled: FloatArray, coefs: FloatArray, scores: FloatArray) -> float:
    if problem.n_scores == 1:
        losses = np.logaddexp(0.0, np.where(problem.labels == 1, -scores[:, 0], scores[:, 0]))
    else:
        largest = scores.max(axis=1)
        log_partition = largest + np.log(np.exp(scores - largest[:, None]).sum(axis=1))
        losses = log_partition - scores[np.arange(len(scores)), problem.labels]
    return float(scaled @ losses + 0.5 * np.sum(_penalty(coefs.shape[1]) * coefs * coefs))


def _penalty(n_columns: int) -> FloatArray:
    """Return the diagonal of the penalty: 1 for weights; a tiny value for the intercept keeps matrices regular."""
    penalty = np.ones(n_columns)
    penalty[-1] = _INTERCEPT_RIDGE
    return penalty


def _probabilities(scores: FloatArray) -> FloatArray:
    """Return the probability of class 1 for one score per row, or of every class for several scores."""
    if scores.shape[1] > 1:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-scores)))


def _targets(problem: LogisticProblem) -> FloatArray:
    if problem.n_scores == 1:
        return problem.labels[:, None].astype(np.float64)
    return np.asarray(np.eye(problem.n_classes)[problem.labels])


def _curvatures(probabilities: FloatArray) -> FloatArray:
    """Hessian of each row's loss in its scores, (n_rows, n_scores, n_scores)."""
    if probabilities.shape[1] == 1:
        return (probabilities * (1.0 - probabilities))[:, :, None]
    curvatures = -probabilities[:, :, None] * probabilities[:, None, :]
    # p (1 - p) as the sum over the other classes: if p is nearly 1, the difference would be rounding error, and the
    # Hessian of well separated classes would not be positive.
    diagonal = np.arange(probabilities.shape[1])
    curvatures[:, diagonal, diagonal] = 0.0
    curvatures[:, diagonal, diagonal] = -curvatures.sum(axis=2)
    return np.asarray(curvatures)


def _hessian(design: FloatArray, blocks: FloatArray) -> FloatArray:
    """Hessian of the objective in the flattened coefficients, from the rows' weighted curvatures."""
    n_scores, n_columns = blocks.shape[1], design.shape[1]
    hessian = np.empty((n_scores, n_columns, n_scores, n_columns))
    for a in range(n_scores):
        for b in range(a + 1):
            hessian[a, :, b, :] = hessian[b, :, a, :] = design.T @ (design * blocks[:, a, b, None])
        hessian[a, range(n_columns), a, range(n_columns)] += _penalty(n_columns)
    if n_scores > 1:
        # Adding a constant to every intercept changes nothing, so fix that direction. The gradient has no component
        # along it, so the optimum does not move.
        hessian[:, -1, :, -1] += 1.0
    return hessian.reshape(n_scores * n_columns, -1)


def _solve_positive(matrix: FloatArray, right_side: FloatArray) -> FloatArray:
    """Solve with a positive definite matrix whose rows may have very different scales or be nearly dependent."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    equilibrated = matrix * scale[:, None] * scale
    scaled_side = right_side * (scale if right_side.ndim == 1 else scale[:, None])
    # If columns are linearly dependent up to rounding, any of the nearly equal solutions is fine.
    for jitter in _JITTERS:
        try:
            factor = cho_factor(equilibrated + jitter * np.eye(len(matrix)), check_finite=False)
        except LinAlgError:
            continue
        solution = cho_solve(factor, scaled_side, check_finite=False)
        return np.asarray(solution * (scale if right_side.ndim == 1 else scale[:, None]))
    raise LinAlgError("The Hessian is not finite, or not positive.")


def _leverages(design: FloatArray, inverse_hessian: FloatArray, n_scores: int) -> FloatArray:
    """A_i = J_i H^{-1} J_i^T of every row, (n_rows, n_scores, n_scores)."""
    inverse = inverse_hessian.reshape(n_scores, design.shape[1], n_scores, -1)
    leverages = np.empty((design.shape[0], n_scores, n_scores))
    for a in range(n_scores):
        for b in range(n_scores):
            leverages[:, a, b] = np.einsum("nd,nd->n", design @ inverse[a, :, b], design)
    return leverages
