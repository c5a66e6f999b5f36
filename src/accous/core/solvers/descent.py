r"""Weighted logistic and softmax regression with many coefficients: no Hessian, few products with the design.

.. math:: f(B) = L(B X^\top) + \tfrac12 \sum_{kj} \rho_j B_{kj}^2

where L is the weighted cross-entropy. The rows X are given in their principal axes, so their Gram matrix is the
diagonal :math:`\Lambda`. With :math:`\sum_i s_i (\mathrm{diag}\, p_i - p_i p_i^\top) = V D V^\top`, a small matrix over
the classes, the Hessian is close to :math:`V D V^\top \otimes \Lambda / n + \rho`, which is very cheap to invert:

.. math:: G \;\mapsto\; V \Big[ (V^\top G)_{aj} \big/ (D_a \Lambda_j / n + \rho_j) \Big]_{aj} .

L-BFGS corrects it with the curvature seen along the way. A step needs two products with the design: the gradient, and
the scores of the direction. The best step length is then found from these scores, without another product.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.solvers.cross_entropy import CrossEntropy, Evaluation

__all__ = ["FULL", "ONE_FOLD", "ONE_ROUND", "Effort", "Point", "descend"]

_MAX_STEPS = 1000
_MAX_PAIRS = 20
_MAX_TRIALS = 40
# Near the optimum it hardly changes, and with many classes it is expensive.
_NEW_PRECONDITIONER_AT = (0, 2, 4, 8, 16, 32, 64)
_SLOPE_LEFT = 0.3
_SMALLEST_CURVATURE = 1e-6
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Effort:
    """When to stop. The remaining gain is twice the predicted gain of the step, divided by the objective's value.

    Attributes
    ----------
    tolerance : float
        Stop before the step if the remaining gain is at most this.
    near : float
        Stop after the step, without another gradient, if the remaining gain before it was at most this and at least
        ``n_steps`` steps were made.
    n_steps : int
    """

    tolerance: float
    near: float = 0.0
    n_steps: int = 0


FULL = Effort(tolerance=1e-13)
ONE_FOLD = Effort(tolerance=1e-6)
ONE_ROUND = Effort(tolerance=1e-8, near=1e-3, n_steps=2)


@dataclass(frozen=True)
class Point:
    """Coefficients and the scores of the rows under them, so that a later descent need not recompute the scores.

    Attributes
    ----------
    coefs : array of shape (n_scores, n_columns)
    scores : array of shape (n_scores, n_rows)
    """

    coefs: FloatArray
    scores: FloatArray


def descend(
    loss: CrossEntropy,
    design: FloatArray,
    mean_squares: FloatArray,
    penalty: FloatArray,
    start: Point,
    effort: Effort = FULL,
) -> tuple[Point, int]:
    """Minimise the objective; the result is never above the value at the start.

    Parameters
    ----------
    loss : CrossEntropy
    design : array of shape (n_rows, n_columns)
        Rows in their principal axes.
    mean_squares : array of shape (n_columns,)
        Mean square of every column, Lambda / n.
    penalty : array of shape (n_columns,)
        rho, positive.
    start : Point
    effort : Effort

    Returns
    -------
    end : Point
    n_steps : int
    """
    point, memory, n_steps = start, _Memory(), 0
    here = loss.evaluate(start.scores)
    while n_steps < _MAX_STEPS:
        gradient = here.residuals @ design + penalty * point.coefs
        memory = memory.at(point.coefs, gradient)
        if n_steps in _NEW_PRECONDITIONER_AT:
            preconditioner = _make_preconditioner(loss, here.probabilities, mean_squares, penalty)
        direction = -memory.apply(gradient, preconditioner)
        slope = float(np.vdot(gradient, direction))
        left = -slope / max(here.value + _penalty_value(penalty, point.coefs), _TINY)
        if left <= effort.tolerance:
            break
        line = _Line(loss, penalty, point, here, Point(direction, direction @ design.T))
        found = line.search(slope)
        if found is None:
            # No step lowers the objective in floating point: this is the optimum.
            break
        point, here = found
        n_steps += 1
        if n_steps >= effort.n_steps and left <= effort.near:
            break
    return point, n_steps


def _penalty_value(penalty: FloatArray, coefs: FloatArray) -> float:
    return 0.5 * float(np.square(coefs).sum(axis=0) @ penalty)


@dataclass(frozen=True)
class _Preconditioner:
    """V and the inverse of D Lambda / n + rho."""

    vectors: FloatArray
    inverses: FloatArray

    def apply(self, gradient: FloatArray) -> FloatArray:
        return np.asarray(self.vectors @ (self.inverses * (self.vectors.T @ gradient)))


def _make_preconditioner(
    loss: CrossEntropy, probabilities: FloatArray, mean_squares: FloatArray, penalty: FloatArray
) -> _Preconditioner:
    curvatures, vectors = loss.total_curvature(probabilities)
    # Adding a constant to all intercepts changes no probability, so D has a zero; that direction needs no large step.
    floor = _SMALLEST_CURVATURE * max(float(curvatures.max()), _TINY)
    return _Preconditioner(vectors, 1.0 / (np.maximum(curvatures, floor)[:, None] * mean_squares + penalty))


@dataclass(frozen=True)
class _Memory:
    """The memory of L-BFGS: the latest point and gradient, and the pairs of their changes."""

    coefs: FloatArray | None = None
    gradient: FloatArray | None = None
    pairs: tuple[tuple[FloatArray, FloatArray, float], ...] = ()

    def at(self, coefs: FloatArray, gradient: FloatArray) -> _Memory:
        """Return the memory with one more pair."""
        if self.coefs is None or self.gradient is None:
            return _Memory(coefs, gradient)
        move, change = coefs - self.coefs, gradient - self.gradient
        curvature = float(np.vdot(move, change))
        # If the curvature is lost to rounding, the pair carries no information.
        is_sound = curvature > 1e-14 * float(np.linalg.norm(move) * np.linalg.norm(change))
        pairs = (*self.pairs[-_MAX_PAIRS + 1 :], (move, change, curvature)) if is_sound else self.pairs
        return _Memory(coefs, gradient, pairs)

    def apply(self, gradient: FloatArray, preconditioner: _Preconditioner) -> FloatArray:
        """Run the two loops of L-BFGS around the preconditioner."""
        result = gradient.copy()
        factors = []
        for move, change, curvature in reversed(self.pairs):
            factors.append(float(np.vdot(move, result)) / curvature)
            result -= factors[-1] * change
        result = preconditioner.apply(result)
        for (move, change, curvature), factor in zip(self.pairs, reversed(factors), strict=True):
            result += (factor - float(np.vdot(change, result)) / curvature) * move
        return result


@dataclass(frozen=True)
class _Line:
    """The objective along a direction: it is convex and needs only the scores of the direction."""

    loss: CrossEntropy
    penalty: FloatArray
    start: Point
    at_start: Evaluation
    direction: Point

    def search(self, slope: float) -> tuple[Point, Evaluation] | None:
        """Find a point where the slope is nearly zero and the objective is not above that of the start.

        Uses Newton's method on the slope from length 0, within a bracket. Returns None if rounding hides the minimum.
        """
        change = self.direction.scores
        linear = float(np.vdot(self.penalty * self.start.coefs, self.direction.coefs))
        quadratic = float(np.vdot(self.penalty * self.direction.coefs, self.direction.coefs))
        low, high = 0.0, np.inf
        length = -slope / (self.loss.curvature_along(self.at_start.probabilities, change) + quadratic)
        for _ in range(_MAX_TRIALS):
            scores = self.start.scores + length * change
            there = self.loss.evaluate(scores)
            slope_there = float(np.vdot(there.residuals, change)) + linear + length * quadratic
            gain = self.at_start.value - there.value - length * (linear + 0.5 * length * quadratic)
            # The objective is convex: while the slope is negative, it is below the start, even if rounding hides this.
            if abs(slope_there) <= -_SLOPE_LEFT * slope and (slope_there <= 0.0 or gain >= 0.0):
                return Point(self.start.coefs + length * self.direction.coefs, scores), there
            low, high = (length, high) if slope_there <= 0.0 else (low, length)
            curvature = self.loss.curvature_along(there.probabilities, change) + quadratic
            length = _within(length - slope_there / curvature, low, high)
        return None


def _within(length: float, low: float, high: float) -> float:
    """Keep a trial length inside the bracket by bisection; without an upper end, let the length grow."""
    if np.isinf(high):
        return min(max(length, 1.5 * low), 10.0 * low)
    return length if low < length < high else 0.5 * (low + high)
