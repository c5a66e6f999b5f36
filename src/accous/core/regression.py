"""Weighted logistic and softmax regressions, by Newton's method, descent or compiled code."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import Workspaces, empty_aligned
from accous.core.ensemble import MAX_NEWTON_COEFS, is_narrow
from accous.core.kernels_classes import fit_softmax, fit_softmax_by_hessian, keep_within
from accous.core.kernels_rows import BLOCK, fit_logistic, to_blocks

# --- The weighted cross-entropy of labelled rows as a function of their scores: value, slope, curvature


@dataclass(frozen=True)
class Evaluation:
    """L at some scores.

    Attributes
    ----------
    value : float
    probabilities : array of shape (n_scores, n_rows)
        Probabilities of class 1 if two classes share one score.
    residuals : array of shape (n_scores, n_rows)
        The derivative of L in the scores.
    """

    value: float
    probabilities: FloatArray
    residuals: FloatArray


@dataclass(frozen=True)
class CrossEntropy(ABC):
    """Labels and weights of the rows.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Class numbers.
    weights : array of shape (n_rows,)
        s, non-negative.
    """

    labels: IntArray
    weights: FloatArray

    @abstractmethod
    def evaluate(self, scores: FloatArray) -> Evaluation:
        """Evaluate L with its probabilities and residuals."""

    @abstractmethod
    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """Return the second derivative of L when all scores move along ``change``."""

    @abstractmethod
    def spread(self, change: FloatArray) -> float:
        """Return r, so that the third derivative along ``change`` is at most r times the second."""

    @abstractmethod
    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return eigenvalues and eigenvectors of :math:`\sum_i s_i (\mathrm{diag}\, p_i - p_i p_i^\top)`."""


class Sigmoid(CrossEntropy):
    """Two classes, one score: that of class 1 over class 0."""

    def evaluate(self, scores: FloatArray) -> Evaluation:
        """As in the base class."""
        z = scores[0]
        # exp(-|z|) never overflows and gives both the probability and the loss.
        power = np.exp(-np.abs(z))
        losses = np.log1p(power) - np.minimum(np.where(self.labels == 1, z, -z), 0.0)
        probabilities = np.where(z >= 0.0, 1.0, power) / (1.0 + power)
        residuals = self.weights * (probabilities - self.labels)
        return Evaluation(float(self.weights @ losses), probabilities[None], residuals[None])

    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """As in the base class."""
        p, z = probabilities[0], change[0]
        return float(self.weights @ (p * (1.0 - p) * z * z))

    def spread(self, change: FloatArray) -> float:
        """As in the base class."""
        return float(np.abs(change).max())

    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in the base class, of the one score."""
        p = probabilities[0]
        return np.array([self.weights @ (p * (1.0 - p))]), np.ones((1, 1))


class Softmax(CrossEntropy):
    """One score per class."""

    def evaluate(self, scores: FloatArray) -> Evaluation:
        """As in the base class."""
        rows = np.arange(scores.shape[1])
        largest = scores.max(axis=0)
        probabilities = scores - largest
        np.exp(probabilities, out=probabilities)
        partition = probabilities.sum(axis=0)
        probabilities /= partition
        losses = np.log(partition) + largest - scores[self.labels, rows]
        residuals = probabilities * self.weights
        residuals[self.labels, rows] -= self.weights
        return Evaluation(float(self.weights @ losses), probabilities, residuals)

    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """As in the base class."""
        moved = probabilities * change
        mean = moved.sum(axis=0)
        moved *= change
        return float(self.weights @ (moved.sum(axis=0) - mean * mean))

    def spread(self, change: FloatArray) -> float:
        """As in the base class: how far the changes of a row's scores are apart."""
        return float((change.max(axis=0) - change.min(axis=0)).max())

    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in the base class."""
        weighted = probabilities * self.weights
        matrix = np.diag(weighted.sum(axis=1)) - weighted @ probabilities.T
        eigenvalues, eigenvectors = np.linalg.eigh(matrix)
        return np.maximum(eigenvalues, 0.0), eigenvectors


def make_cross_entropy(labels: IntArray, weights: FloatArray, n_scores: int) -> CrossEntropy:
    """Return the cross-entropy of two classes with one score, or of several classes with one score each."""
    return Sigmoid(labels, weights) if n_scores == 1 else Softmax(labels, weights)


# --- Weighted logistic and softmax regression with many coefficients: no Hessian, few products with the design


_MAX_DESCENT_STEPS = 1000
_MAX_PAIRS = 20
_MAX_TRIALS = 40
# Near the optimum it hardly changes, and with many classes it is expensive.
_NEW_PRECONDITIONER_AT = (0, 2, 4, 8, 16, 32, 64)
_SLOPE_LEFT = 0.3
_SURE_MOVE = 0.5
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
TO_THE_DIGITS = Effort(tolerance=1e-20, near=1e-16, n_steps=1)
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
    while n_steps < _MAX_DESCENT_STEPS:
        # With several classes, BLAS is quicker in this order.
        gradient = np.ascontiguousarray((design.T @ here.residuals.T).T) + penalty * point.coefs
        memory = memory.at(point.coefs, gradient)
        if n_steps in _NEW_PRECONDITIONER_AT:
            preconditioner = _make_preconditioner(loss, here.probabilities, mean_squares, penalty)
        direction = -memory.apply(gradient, preconditioner)
        slope = float(np.vdot(gradient, direction))
        left = -slope / max(here.value + _penalty_value(penalty, point.coefs), _TINY)
        if left <= effort.tolerance:
            break
        line = _Line(loss, penalty, point, here, Point(direction, direction @ design.T))
        is_last = n_steps + 1 >= effort.n_steps and left <= effort.near
        if is_last and (sure := line.sure_step(slope)) is not None:
            return sure, n_steps + 1
        found = line.search(slope)
        if found is None:
            # No step lowers the objective in floating point: this is the optimum.
            break
        point, here = found
        n_steps += 1
        if is_last:
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

    def sure_step(self, slope: float) -> Point | None:
        r"""Return where the first length that ``search`` tries leads if it needs no test; None if it needs one.

        Up to length t, the curvature stays within a factor :math:`e^{\pm r t}`, with r from ``CrossEntropy.spread``.
        Where :math:`r t \le 1/2`, at most 0.3 of the slope is left, and the objective is lower.
        """
        change, coefs = self.direction.scores, self.direction.coefs
        quadratic = float(np.vdot(self.penalty * coefs, coefs))
        length = -slope / (self.loss.curvature_along(self.at_start.probabilities, change) + quadratic)
        if not length * self.loss.spread(change) <= _SURE_MOVE:
            return None
        return Point(self.start.coefs + length * coefs, self.start.scores + length * change)

    def search(self, slope: float) -> tuple[Point, Evaluation] | None:
        """Find a point where the slope is nearly zero and the objective is not above that of the start.

        Uses Newton's method on the slope from length 0, within a bracket. Returns None if rounding hides the minimum.
        """
        change = self.direction.scores
        linear = float(np.vdot(self.penalty * self.start.coefs, self.direction.coefs))
        quadratic = float(np.vdot(self.penalty * self.direction.coefs, self.direction.coefs))
        low, high = 0.0, np.inf
        length = -slope / (self.loss.curvature_along(self.at_start.probabilities, change) + quadratic)
        for n_trials in range(1, _MAX_TRIALS + 1):
            scores = self.start.scores + length * change
            there = self.loss.evaluate(scores)
            slope_there = float(np.vdot(there.residuals, change)) + linear + length * quadratic
            gain = self.at_start.value - there.value - length * (linear + 0.5 * length * quadratic)
            # The objective is convex: while the slope is negative, it is below the start, even if rounding hides this.
            if abs(slope_there) <= -_SLOPE_LEFT * slope and (slope_there <= 0.0 or gain >= 0.0):
                return Point(self.start.coefs + length * self.direction.coefs, scores), there
            low, high = (length, high) if slope_there <= 0.0 else (low, length)
            curvature = self.loss.curvature_along(there.probabilities, change) + quadratic
            length = keep_within(length - slope_there / curvature, low, high, n_trials)
        return None


# --- Weighted logistic regression for two classes and few columns, in compiled loops


_MAX_COMPILED_STEPS = 20
_NEWTON_TOLERANCE = 1e-14


@dataclass(frozen=True)
class NarrowDesign:
    """The data that does not change between refits, in the form that the compiled loops read.

    Attributes
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        The design: columns minus their centre; the last column is the constant 1.
    centre : array of shape (d - 1,)
    targets : array of shape (n_blocks, BLOCK)
        1 for class 1, else 0.
    penalty : array of shape (d,)
        Diagonal of the penalty.
    """

    blocks: FloatArray
    centre: FloatArray
    targets: FloatArray
    penalty: FloatArray
    rooms: Workspaces = field(default_factory=Workspaces, compare=False, repr=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Put the blocks where the kernels read them fastest."""
        blocks = empty_aligned(*state["blocks"].shape)
        blocks[...] = state["blocks"]
        vars(self).update(state, blocks=blocks)

    def _make_room(self) -> tuple[FloatArray, ...]:
        n_blocks, n_columns, _ = self.blocks.shape
        of_rows = empty_aligned(6, n_blocks, BLOCK), empty_aligned(n_columns + 2, BLOCK)
        return *of_rows, np.empty((n_columns + 5, n_columns))

    def fit(self, coefs: FloatArray, weights: FloatArray, C: float) -> bool:
        """Minimise the objective over ``coefs``, (1, d), in place, to within 1e-14 of the summed C s.

        Returns False, and leaves ``coefs`` unchanged, if this takes too many steps or a Hessian is nearly singular.
        """
        return self._run(coefs, weights, C, np.empty((0, BLOCK)))

    def leave_one_out(self, coefs: FloatArray, weights: FloatArray, C: float) -> FloatArray | None:
        """Return each row's score from a fit without it, given the fit on all rows; None if H is nearly singular."""
        scores = np.empty((len(self.blocks), BLOCK))
        return scores.reshape(-1)[: len(weights)] if self._run(np.array(coefs), weights, C, scores) else None

    def _run(self, coefs: FloatArray, weights: FloatArray, C: float, left_out: FloatArray) -> bool:
        room = self.rooms.take(self._make_room)
        of_problem = self.blocks, self.centre, self.targets, np.ascontiguousarray(weights), C, self.penalty
        is_done = fit_logistic(*of_problem, _NEWTON_TOLERANCE, _MAX_COMPILED_STEPS, *room, left_out, coefs)
        self.rooms.append(room)
        return bool(is_done)


def make_narrow_design(
    design: FloatArray, centre: FloatArray, targets: FloatArray, penalty: FloatArray
) -> NarrowDesign:
    """Arrange a centred design and its targets, (n_rows, 1), in blocks."""
    return NarrowDesign(to_blocks(design), centre, to_blocks(targets)[:, 0], penalty)


# --- Weighted softmax regression on few columns, in compiled loops


@dataclass(frozen=True)
class NarrowClasses:
    """The data of several classes that does not change between refits, in the form that the compiled loops read.

    Attributes
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        The design in its principal axes; the last column is the constant 1.
    axes : array of shape (n_columns, d - 1)
    centre : array of shape (n_columns,)
    labels : array of int of shape (n_blocks, BLOCK)
    penalty : array of shape (n_scores * d,)
        Diagonal of the penalty, for one class after the other.
    mean_squares : array of shape (d,)
    """

    blocks: FloatArray
    axes: FloatArray
    centre: FloatArray
    labels: IntArray
    penalty: FloatArray
    mean_squares: FloatArray

    def fit(
        self,
        coefs: FloatArray,
        weights: FloatArray,
        C: float,
        effort: Effort,
        max_steps: int,
        *,
        with_hessian: bool = False,
    ) -> bool:
        """Do what ``descend`` does, over ``coefs``, (n_scores, n_columns + 1), in place; with a Hessian in fewer steps.

        Returns False, and leaves ``coefs`` unchanged, if this takes too many steps or numbers overflow.
        """
        n_blocks, n_columns, _ = self.blocks.shape
        n_scores, n_coefs = len(coefs), len(self.penalty)
        minimise = fit_softmax_by_hessian if with_hessian else fit_softmax
        return bool(
            minimise(
                self.blocks,
                self.axes,
                self.centre,
                self.labels,
                np.ascontiguousarray(weights),
                C,
                self.penalty,
                self.mean_squares,
                effort.tolerance,
                effort.near,
                effort.n_steps,
                max_steps,
                np.empty((3, n_blocks, n_scores, BLOCK)),
                np.empty((n_blocks, BLOCK)),
                np.empty((n_scores + 4, BLOCK)),
                np.empty((2, _MAX_PAIRS + 1)),
                np.empty((5 + 2 * _MAX_PAIRS, n_coefs)),
                np.empty((1 + max(n_scores, n_columns), n_columns)),
                np.empty((n_coefs + 1, n_coefs)) if with_hessian else None,
                None if with_hessian else np.empty((n_scores, n_scores)),
                None if with_hessian else np.empty((4, n_scores)),
                coefs,
            )
        )


def make_narrow_classes(
    design: FloatArray, axes: FloatArray, centre: FloatArray, labels: IntArray, n_scores: int, penalty: FloatArray
) -> NarrowClasses:
    """Arrange a design in its principal axes, and the labels of its rows, in blocks."""
    blocks = to_blocks(design)
    padded = np.zeros((blocks.shape[0], BLOCK), dtype=np.int64)
    padded.flat[: len(labels)] = labels
    mean_squares = np.square(design).mean(axis=0)
    return NarrowClasses(blocks, np.ascontiguousarray(axes), centre, padded, np.tile(penalty, n_scores), mean_squares)


# --- Importance-weighted logistic and softmax regression on a fixed reference, warm-started from round to round


MAX_HESSIAN_COEFS = 1000
_MAX_NEWTON_STEPS = 100
# The compiled loops bring a matrix of this size to three diagonals; LAPACK does it more quickly if it is large.
_MOST_NARROW_CLASSES = 64
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
    narrow : NarrowDesign, NarrowClasses or None
        The design for the compiled loops, if they can handle the problem.
    """

    design: FloatArray
    centre: FloatArray
    labels: IntArray
    n_classes: int
    C: float
    axes: FloatArray | None = None
    mean_squares: FloatArray | None = None
    narrow: NarrowDesign | NarrowClasses | None = None

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
    if not problem.is_for_newton:
        axes = principal_axes(rows)
        design = np.concatenate((rows @ axes, ones), axis=1)
        problem = replace(problem, design=design, axes=axes, mean_squares=np.square(design).mean(axis=0))
    return replace(problem, narrow=_narrow_design(problem))


def principal_axes(rows: FloatArray) -> FloatArray:
    """Return orthonormal axes in which the Gram matrix of the rows is diagonal; at most as many as rows."""
    if rows.shape[0] < rows.shape[1]:
        return np.linalg.svd(rows, full_matrices=False)[2].T
    return np.linalg.eigh(rows.T @ rows).eigenvectors


def solve(
    problem: LogisticProblem, weights: FloatArray, start: FloatArray | None = None, effort: Effort = FULL
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
    >>> from accous.core.regression import make_problem, solve
    >>> problem = make_problem(np.array([[-1.0], [0.0], [1.0]]), np.array([0, 0, 1]), n_classes=2, C=1.0)
    >>> solve(problem, np.ones(3)).round(3)
    array([[ 0.702, -0.748]])
    """
    compiled = solve_compiled(problem, weights, start, effort)
    if compiled is not None:
        return compiled
    if start is None:
        start = np.zeros((problem.n_scores, len(problem.centre) + 1))
    start = problem.to_design(start)
    if problem.axes is None:
        return problem.from_design(_solve_by_newton(problem, weights, start))
    return problem.from_design(descend_from(problem, weights, Point(start, start @ problem.design.T), effort).coefs)


def solve_compiled(
    problem: LogisticProblem, weights: FloatArray, start: FloatArray | None, effort: Effort = FULL
) -> FloatArray | None:
    """Do the same as ``solve`` without BLAS; None if there are too many columns or classes, or without convergence."""
    narrow = problem.narrow
    if narrow is None:
        return None
    coefs = np.zeros((problem.n_scores, len(problem.centre) + 1)) if start is None else np.array(start, order="C")
    if isinstance(narrow, NarrowDesign):
        return coefs if narrow.fit(coefs, weights, problem.C) else None
    if problem.axes is not None:
        return coefs if narrow.fit(coefs, weights, problem.C, effort, _MAX_DESCENT_STEPS) else None
    # Few coefficients always reach the optimum; what takes too long is for Newton's method.
    is_done = narrow.fit(coefs, weights, problem.C, TO_THE_DIGITS, _MAX_NEWTON_STEPS, with_hessian=True)
    return coefs if is_done else None


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
    narrow = problem.narrow
    compiled = narrow.leave_one_out(coefs, weights, problem.C) if isinstance(narrow, NarrowDesign) else None
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


def _narrow_design(problem: LogisticProblem) -> NarrowDesign | NarrowClasses | None:
    """Arrange the rows for the compiled loops; None if there are too many columns or classes for them."""
    design, axes, penalty = problem.design, problem.axes, _penalty(problem.design.shape[1])
    if not is_narrow(design.shape[1]) or problem.n_scores > _MOST_NARROW_CLASSES:
        return None
    if problem.n_scores == 1:
        return make_narrow_design(design, problem.centre, _targets(problem), penalty) if axes is None else None
    if axes is None:
        rows, ones = design[:, :-1], design[:, -1:]
        axes = principal_axes(rows / max(float(np.abs(rows).max(initial=0.0)), _TINY))
        design = np.concatenate((rows @ axes, ones), axis=1)
    return make_narrow_classes(
        design, axes, problem.centre, problem.labels, problem.n_scores, _penalty(design.shape[1])
    )


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
