"""Chooses between the plain and the compiled implementation of a round; no other module makes this choice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.ensemble import CompiledRounds
from accous.core.fast.kernels_rows import to_blocks
from accous.core.fast.learners import CompiledStack
from accous.core.fast.reference import NarrowReference
from accous.core.fast.width import is_narrow
from accous.core.paper.ensemble import EnsembleSettings, LearnerStack, PaperRounds
from accous.core.paper.losses import Logistic, Loss
from accous.core.paper.reference import MatrixReference, Reference
from accous.core.wide.diagonal import DiagonalStack
from accous.core.wide.metric import Metric
from accous.core.wide.newton import WideStack
from accous.core.wide.sketch import Sketch

__all__ = ["DIAGONAL", "FULL", "LOW_RANK", "choose_rounds", "prepare_reference", "stack_from_plain", "start_learners"]

FULL, DIAGONAL, LOW_RANK = "full", "diagonal", "low_rank"
"""What a learner keeps of its matrix: the whole matrix, its diagonal, or a ridge and a few directions."""


def choose_rounds(settings: EnsembleSettings, reference: Reference) -> PaperRounds:
    """Choose the implementation of an ensemble's rounds on this reference; ``fit`` calls this once."""
    start = partial(start_learners, ridge=settings.ridge, metric=settings.metric, rank=settings.rank)
    kind = CompiledRounds if settings.metric == FULL and is_narrow(len(settings.neutral)) else PaperRounds
    return kind(settings, reference, start)


def prepare_reference(features: FloatArray, loss: Loss, *, is_single: bool = False) -> Reference:
    """Choose the code that reads this reference; only matrix products can use single precision."""
    if is_narrow(features.shape[1]) and isinstance(loss, Logistic):
        return NarrowReference(features, to_blocks(features))
    return MatrixReference(features.astype(np.float32) if is_single else features, loss)


def start_learners(
    n_learners: int, coef: FloatArray, ridge: float, metric: str = FULL, rank: int | None = None
) -> LearnerStack:
    """Return ``n_learners`` fresh learners at theta = ``coef`` with A = ``ridge`` I; low rank needs a ``rank``."""
    # Departs from the paper: it always keeps the whole matrix, but d^2 numbers per learner are too many for wide rows.
    if metric == DIAGONAL:
        return DiagonalStack.start(n_learners, coef, ridge)
    if metric == LOW_RANK:
        assert rank is not None
        return WideStack.start_sketched(n_learners, coef, ridge, rank)
    kind: Any = CompiledStack if is_narrow(len(coef)) else WideStack
    stack: LearnerStack = kind.start(n_learners, coef, ridge)
    return stack


def stack_from_plain(plain: dict[str, Any]) -> LearnerStack:
    """Rebuild a stack from nested dicts and lists of arrays."""
    if "metrics" in plain:
        return WideStack(plain["coefs"], tuple(_metric_from_plain(metric) for metric in plain["metrics"]))
    if "diagonals" in plain:
        return DiagonalStack(**plain)
    return CompiledStack(**plain)


def _metric_from_plain(plain: dict[str, Any]) -> Metric | Sketch:
    return Sketch(**plain) if "rank" in plain else Metric(**plain)
