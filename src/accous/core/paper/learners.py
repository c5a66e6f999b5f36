"""Stacks of Online Newton Step learners, narrow or wide, with the whole matrix or less: one door to all kinds."""

from __future__ import annotations

from typing import Any, Protocol, Self

from accous.arrays import FloatArray
from accous.core.wide.diagonal import DiagonalStack, diagonal_newton_step, start_diagonal_learners
from accous.core.wide.metric import Metric
from accous.core.paper.newton import NewtonStack
from accous.core.paper.newton import newton_step as narrow_newton_step
from accous.core.paper.newton import start_learners as start_narrow_learners
from accous.core.wide.sketch import Sketch
from accous.core.wide.newton import WideStack, start_sketched_learners, start_wide_learners, wide_newton_step
from accous.core.fast.width import is_wide

__all__ = ["DIAGONAL", "FULL", "LOW_RANK", "LearnerStack", "newton_step", "stack_from_plain", "start_learners"]

FULL, DIAGONAL, LOW_RANK = "full", "diagonal", "low_rank"
"""What a learner keeps of its matrix: all of it, its diagonal, or a ridge and a few directions."""


class LearnerStack(Protocol):
    """What every kind of stack offers."""

    @property
    def coefs(self) -> FloatArray:
        """Theta of each learner, (n_learners, d)."""

    def __len__(self) -> int:
        """Return the number of learners."""

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""

    def after(self, younger: Any) -> Self:
        """Return a stack of ``younger`` followed by these learners."""


def start_learners(
    n_learners: int, coef: FloatArray, ridge: float, metric: str = FULL, rank: int | None = None
) -> LearnerStack:
    """Return ``n_learners`` fresh learners at theta = ``coef`` with A = ``ridge`` I; low rank needs a ``rank``."""
    # Departs from the paper: it knows the whole matrix only, and d^2 numbers a learner are too many for very wide rows.
    if metric == DIAGONAL:
        return start_diagonal_learners(n_learners, coef, ridge)
    if metric == LOW_RANK:
        assert rank is not None
        return start_sketched_learners(n_learners, coef, ridge, rank)
    start = start_wide_learners if is_wide(len(coef)) else start_narrow_learners
    return start(n_learners, coef, ridge)


def newton_step(stack: LearnerStack, gradients: FloatArray, step_size: float, radius: float) -> LearnerStack:
    """Give every learner its gradient, a row each, and make one step; further rows are not read."""
    if isinstance(stack, WideStack):
        return wide_newton_step(stack, gradients[: len(stack)], step_size, radius)
    if isinstance(stack, DiagonalStack):
        return diagonal_newton_step(stack, gradients[: len(stack)], step_size, radius)
    assert isinstance(stack, NewtonStack)
    return narrow_newton_step(stack, gradients, step_size, radius)


def stack_from_plain(plain: dict[str, Any]) -> LearnerStack:
    """Return the stack that was turned into nested dicts and lists of arrays."""
    if "metrics" in plain:
        return WideStack(plain["coefs"], tuple(_metric_from_plain(metric) for metric in plain["metrics"]))
    if "diagonals" in plain:
        return DiagonalStack(**plain)
    return NewtonStack(**plain)


def _metric_from_plain(plain: dict[str, Any]) -> Metric | Sketch:
    return Sketch(**plain) if "rank" in plain else Metric(**plain)
