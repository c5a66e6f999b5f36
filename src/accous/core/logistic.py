r"""Importance-weighted logistic and softmax regression on a fixed reference, warm-started from round to round.

.. math:: \min_{w, b} \; C \sum_i s_i \, \ell\big(y_i, w^\top x_i + b\big) + \tfrac12 \|w\|^2

with the logistic loss for two classes and the cross-entropy for more: the objective, and so the optimum, of
scikit-learn's ``LogisticRegression(C)`` given the weights s (the paper's eq. for importance-weighted ERM).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from accous.core.arrays import FloatArray, IntArray
from accous.core.narrow_logistic import NarrowDesign, make_narrow_design
from accous.core.width import is_narrow

__all__ = ["MAX_NEWTON_COEFS", "LogisticProblem", "leave_one_out_scores", "make_problem", "solve", "solve_compiled"]

MAX_NEWTON_COEFS = 1000
_MAX_NEWTON_STEPS = 100
_MAX_HALVINGS = 40
_MAX_ROW_HESSIANS = 50_000_000
_NEWTON_DECREMENT = 1e-12
_LBFGS_GRADIENT = 1e-5
_INTERCEPT_RIDGE = 1e-10
_JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


@dataclass(frozen=True)
class LogisticProblem:
    """What does not change between refits.

    Attributes
    ----------
    design : array of shape (n_rows, d + 1)
        The rows, centred, with a constant 1 appended. The intercept is not penalised, so that centring only changes
        coordinates; without it, columns far from zero would make the Hessian singular up to rounding.
    centre : array of shape (d,)
    labels : array of shape (n_rows,)
        Class numbers 0 .. n_classes - 1.
    n_classes : int
    C : float
        Inverse strength of the penalty.
    whitener : array of shape (d + 1, d + 1) or None
        Where there are too many coefficients for Newton's method: L^{-T} of the Cholesky factor of a bound on the
        Hessian of one class. In the coordinates it defines, L-BFGS needs few steps.
    narrow : NarrowDesign or None
        Where the compiled loops take the problem.
    """

    design: FloatArray
    centre: FloatArray
    labels: IntArray
    n_classes: int
    C: float
    whitener: FloatArray | None = None
    narrow: NarrowDesign | None = None

    @property
    def n_scores(self) -> int:
        """Rows of the coefficient matrix: one for two classes, else one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    @property
    def is_small(self) -> bool:
        """Whether Hessians, of the whole and of every row, are small enough to be made."""
        n_rows, n_columns = self.design.shape
        return self.n_scores * n_columns <= MAX_NEWTON_COEFS and n_rows * self.n_scores**2 <= _MAX_ROW_HESSIANS

    def scores(self, coefs: FloatArray) -> FloatArray:
        """Scores of every row, (n_rows, n_scores)."""
        return np.asarray(self.design @ self.to_centred(coefs).T)

    def part(self, row_indices: IntArray) -> LogisticProblem:
        """Return the same problem on some of its rows."""
        part = replace(self, design=self.design[row_indices], labels=self.labels[row_indices])
        return replace(part, narrow=_narrow_design(part))

    def to_centred(self, coefs: FloatArray) -> FloatArray:
        """Coefficients for the centred design."""
        centred = np.array(coefs)
        centred[:, -1] += coefs[:, :-1] @ self.centre
        return centred

    def from_centred(self, coefs: FloatArray) -> FloatArray:
        """Coefficients for rows as they are."""
        moved = np.array(coefs)
        moved[:, -1] -= coefs[:, :-1] @ self.centre
        return moved


def make_problem(X: FloatArray, labels: IntArray, n_classes: int, C: float) -> LogisticProblem:
    """Set up a problem whose weights are still open."""
    centre = X.mean(axis=0)
    design = np.concatenate((X - centre, np.ones((X.shape[0], 1))), axis=1)
    problem = LogisticProblem(design, centre, labels, n_classes, C)
    if problem.is_small:
        return replace(problem, narrow=_narrow_design(problem))
    # Boehning's bound: the softmax Hessian is at most half the Gram matrix, per class.
    hessian_bound = 0.5 * C * (design.T @ design) + np.diag(_penalty(design.shape[1]))
    # Columns that depend on each other make it singular up to rounding; it need only be nearly right.
    hessian_bound += 1e-12 * np.diag(hessian_bound).max() * np.eye(len(hessian_bound))
    whitener = solve_triangular(cholesky(hessian_bound, lower=True), np.eye(design.shape[1]), lower=True).T
    return replace(problem, whitener=whitener)


def solve(problem: LogisticProblem, weights: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """Minimise the weighted objective.

    Parameters
    ----------
    problem : LogisticProblem
    weights : array of shape (n_rows,)
        Non-negative s.
    start : array of shape (n_scores, d + 1), optional
        Coefficients to start from; zeros if not given.

    Returns
    -------
    array of shape (n_scores, d + 1)
        w with b in the last column.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.logistic import make_problem, solve
    >>> problem = make_problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0, 0, 1]), n_classes=2, C=1.0)
    >>> solve(problem, np.ones(3)).round(3)
    array([[ 0.702, -0.748]])
    """
    compiled = solve_compiled(problem, weights, start)
    if compiled is not None:
        return compiled
    if start is None:
        start = np.zeros((problem.n_scores, problem.design.shape[1]))
    # The whitener, not the size, decides: a part of a large problem has the large one's.
    solve_centred = _solve_by_newton if problem.whitener is None else _solve_by_lbfgs
    return problem.from_centred(solve_centred(problem, weights, problem.to_centred(start)))


def solve_compiled(problem: LogisticProblem, weights: FloatArray, start: FloatArray | None) -> FloatArray | None:
    """Do what ``solve`` does, without BLAS; None where columns or classes are too many, or it does not converge."""
    if problem.narrow is None:
        return None
    coefs = np.zeros((1, problem.design.shape[1])) if start is None else np.array(start)
    return coefs if problem.narrow.fit(coefs, weights, problem.C) else None


def leave_one_out_scores(problem: LogisticProblem, weights: FloatArray, coefs: FloatArray) -> FloatArray:
    r"""Scores each row would get from a fit without it, approximated by one Newton step from the full fit.

    With H the Hessian, :math:`J_i` the row's block of the design and :math:`g_i, K_i` the gradient and Hessian of
    its own weighted loss in its scores, and :math:`A_i = J_i H^{-1} J_i^\top`,

    .. math:: z_i^{(-i)} \approx z_i + A_i (I - K_i A_i)^{-1} g_i .

    The cost grows with the cube of the number of coefficients.

    Returns
    -------
    array of shape (n_rows, n_scores)
    """
    scaled = problem.C * weights
    scores = problem.scores(coefs)
    probabilities = _probabilities(scores)
    gradients = scaled[:, None] * (probabilities - _targets(problem))
    blocks = scaled[:, None, None] * _curvatures(probabilities)
    hessian = _hessian(problem.design, blocks)
    inverse_hessian = _solve_positive(hessian, np.eye(len(hessian)))
    leverages = _leverages(problem.design, inverse_hessian, problem.n_scores)
    corrections = np.linalg.solve(np.eye(problem.n_scores) - blocks @ leverages, gradients[..., None])
    return np.asarray(scores + (leverages @ corrections)[..., 0])


def _narrow_design(problem: LogisticProblem) -> NarrowDesign | None:
    n_columns = problem.design.shape[1]
    if problem.n_scores > 1 or not is_narrow(n_columns):
        return None
    return make_narrow_design(problem.design, problem.centre, _targets(problem), _penalty(n_columns))


def _solve_by_newton(problem: LogisticProblem, weights: FloatArray, start: FloatArray) -> FloatArray:
    """Newton's method with step halving; quadratic convergence makes the last step exact to rounding."""
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


def _solve_by_lbfgs(problem: LogisticProblem, weights: FloatArray, start: FloatArray) -> FloatArray:
    """L-BFGS in the whitened coordinates V with coefs = V whitener^T."""
    whitener = problem.whitener
    assert whitener is not None
    whitened_design, targets = problem.design @ whitener, _targets(problem)
    scaled, penalty = problem.C * weights, _penalty(problem.design.shape[1])

    def value_and_gradient(flat: FloatArray) -> tuple[float, FloatArray]:
        whitened = flat.reshape(problem.n_scores, -1)
        coefs, scores = whitened @ whitener.T, whitened_design @ whitened.T
        residuals = (_probabilities(scores) - targets) * scaled[:, None]
        gradient = residuals.T @ whitened_design + (penalty * coefs) @ whitener
        return _objective(problem, scaled, coefs, scores), gradient.ravel()

    start_whitened = np.linalg.solve(whitener, start.T).T.ravel()
    options = {"maxiter": 1000, "gtol": _LBFGS_GRADIENT, "ftol": 0.0, "maxcor": 20}
    result = minimize(value_and_gradient, start_whitened, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x.reshape(problem.n_scores, -1) @ whitener.T)


def _objective(problem: LogisticProblem, scaled: FloatArray, coefs: FloatArray, scores: FloatArray) -> float:
    if problem.n_scores == 1:
        losses = np.logaddexp(0.0, np.where(problem.labels == 1, -scores[:, 0], scores[:, 0]))
    else:
        largest = scores.max(axis=1)
        log_partition = largest + np.log(np.exp(scores - largest[:, None]).sum(axis=1))
        losses = log_partition - scores[np.arange(len(scores)), problem.labels]
    return float(scaled @ losses + 0.5 * np.sum(_penalty(coefs.shape[1]) * coefs * coefs))


def _penalty(n_columns: int) -> FloatArray:
    """Diagonal of the penalty: 1 for weights; next to nothing for the intercept, so that matrices stay regular."""
    penalty = np.ones(n_columns)
    penalty[-1] = _INTERCEPT_RIDGE
    return penalty


def _probabilities(scores: FloatArray) -> FloatArray:
    """Probability of class 1 for one score a row, of every class for more."""
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
    diagonal = probabilities[:, :, None] * np.eye(probabilities.shape[1])
    return np.asarray(diagonal - probabilities[:, :, None] * probabilities[:, None, :])


def _hessian(design: FloatArray, blocks: FloatArray) -> FloatArray:
    """Hessian of the objective in the flattened coefficients, from the rows' weighted curvatures."""
    n_scores, n_columns = blocks.shape[1], design.shape[1]
    hessian = np.empty((n_scores, n_columns, n_scores, n_columns))
    for a in range(n_scores):
        for b in range(a + 1):
            hessian[a, :, b, :] = hessian[b, :, a, :] = design.T @ (design * blocks[:, a, b, None])
        hessian[a, range(n_columns), a, range(n_columns)] += _penalty(n_columns)
    if n_scores > 1:
        # The same constant added to every intercept changes nothing: fix that direction. The gradient has no part
        # in it, so the optimum stays where it is.
        hessian[:, -1, :, -1] += 1.0
    return hessian.reshape(n_scores * n_columns, -1)


def _solve_positive(matrix: FloatArray, right_side: FloatArray) -> FloatArray:
    """Solve with a positive definite matrix whose rows may be of very different scale, or nearly dependent."""
    scale = 1.0 / np.sqrt(np.diag(matrix))
    equilibrated = matrix * scale[:, None] * scale
    scaled_side = right_side * (scale if right_side.ndim == 1 else scale[:, None])
    # Where columns depend on each other up to rounding, any of the nearly equal solutions will do.
    for jitter in _JITTERS:
        try:
            factor = cho_factor(equilibrated + jitter * np.eye(len(matrix)), check_finite=False)
        except LinAlgError:
            continue
        solution = cho_solve(factor, scaled_side, check_finite=False)
        return np.asarray(solution * (scale if right_side.ndim == 1 else scale[:, None]))
    raise LinAlgError("The Hessian is not finite.")


def _leverages(design: FloatArray, inverse_hessian: FloatArray, n_scores: int) -> FloatArray:
    """A_i = J_i H^{-1} J_i^T of every row, (n_rows, n_scores, n_scores)."""
    inverse = inverse_hessian.reshape(n_scores, design.shape[1], n_scores, -1)
    leverages = np.empty((design.shape[0], n_scores, n_scores))
    for a in range(n_scores):
        for b in range(n_scores):
            leverages[:, a, b] = np.einsum("nd,nd->n", design @ inverse[a, :, b], design)
    return leverages
