"""Stacks of Online Newton Step learners, narrow or wide: the number of features decides."""

from __future__ import annotations

from typing import Any, Protocol, Self

from accous.core.arrays import FloatArray
from accous.core.metric import Metric
from accous.core.newton import NewtonStack
from accous.core.newton import newton_step as narrow_newton_step
from accous.core.newton import start_learners as start_narrow_learners
from accous.core.wide_newton import WideStack, start_wide_learners, wide_newton_step
from accous.core.width import is_wide

__all__ = ["LearnerStack", "newton_step", "stack_from_plain", "start_learners"]


class LearnerStack(Protocol):
    """What both kinds of stack offer."""

    @property
    def coefs(self) -> FloatArray:
        """Theta of each learner, (n_learners, d)."""

    def __len__(self) -> int:
        """Return the number of learners."""

    def since(self, first: int) -> Self:
        """Return the learners from position ``first`` on."""

    def after(self, younger: Any) -> Self:
        """Return a stack of ``younger`` followed by these learners."""


def start_learners(n_learners: int, coef: FloatArray, ridge: float) -> LearnerStack:
    """Return ``n_learners`` fresh learners at theta = ``coef`` with A = ``ridge`` I."""
    start = start_wide_learners if is_wide(len(coef)) else start_narrow_learners
    return start(n_learners, coef, ridge)


def newton_step(stack: LearnerStack, gradients: FloatArray, step_size: float, radius: float) -> LearnerStack:
    """Give every learner its gradient, a row each, and make one step; further rows are not read."""
    if isinstance(stack, WideStack):
        return wide_newton_step(stack, gradients[: len(stack)], step_size, radius)
    assert isinstance(stack, NewtonStack)
    return narrow_newton_step(stack, gradients, step_size, radius)


def stack_from_plain(plain: dict[str, Any]) -> LearnerStack:
    """Return the stack that was turned into nested dicts and lists of arrays."""
    if "metrics" in plain:
        return WideStack(plain["coefs"], tuple(Metric(**metric) for metric in plain["metrics"]))
    return NewtonStack(**plain)
