"""Streams whose drift is known: how the mixture moves, and data drawn from it.

Every stream mixes two parts: ``D_t = (1 - alpha_t) D' + alpha_t D''``. A `Shift` says how ``alpha_t`` moves
over the rounds; a stream turns it into a labelled reference and labelled batches (labels to score with).
"""

from accous.streams.gaussian import Batch, GaussianStream
from accous.streams.shifts import (
    BernoulliShift,
    ConstantShift,
    LinearShift,
    Shift,
    SineShift,
    SquareShift,
)

__all__ = [
    "Batch",
    "BernoulliShift",
    "ConstantShift",
    "GaussianStream",
    "LinearShift",
    "Shift",
    "SineShift",
    "SquareShift",
]
