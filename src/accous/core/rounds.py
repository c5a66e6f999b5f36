"""Chooses between the plain and the compiled implementation of a round; no other module makes this choice."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.ensemble import CompiledRounds, CompiledStack, NarrowReference
from accous.core.fast.kernels_rows import to_blocks
from accous.core.fast.width import is_narrow
from accous.core.paper.ensemble import EnsembleSettings, LearnerStack, PaperRounds
from accous.core.paper.losses import Logistic, Loss
from accous.core.paper.meta import ADAPT_ML_PROD, AdaptMLProd, MetaLearner
from accous.core.paper.reference import MatrixReference, Reference
from accous.core.wide.diagonal import DiagonalStack
from accous.core.wide.newton import WideStack

__all__ = ["DIAGONAL", "FULL", "LOW_RANK", "AnyStack", "choose_rounds", "prepare_reference", "start_learners"]

FULL, DIAGONAL, LOW_RANK = "full", "diagonal", "low_rank"
"""What a learner keeps of its matrix: the whole matrix, its diagonal, or a ridge and a few directions."""

AnyStack = CompiledStack | DiagonalStack | WideStack
"""Every kind of stack that ``start_learners`` returns; `accous.arrays.from_plain` tells them apart."""


def choose_rounds(
    settings: EnsembleSettings, reference: Reference, meta_learner: MetaLearner = ADAPT_ML_PROD
) -> PaperRounds:
    """Choose how the rounds of an ensemble on this reference are played; done once, by ``fit``.

    Only the paper's meta-learner has a compiled twin; any other is played in plain numpy.
    """
    start = partial(start_learners, ridge=settings.ridge, metric=settings.metric, rank=settings.rank)
    if isinstance(meta_learner, AdaptMLProd) and settings.metric == FULL and is_narrow(len(settings.neutral)):
        return CompiledRounds(settings, reference, start)
    return PaperRounds(settings, reference, start, meta_learner)


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
