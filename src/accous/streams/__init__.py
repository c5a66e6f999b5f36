"""Streams whose drift is known: how the mixture moves, and data drawn from it.

A simulated stream mixes two parts: ``D_t = (1 - alpha_t) D' + alpha_t D''``. A `Shift` defines how ``alpha_t`` moves
over the rounds. A stream turns it into a labelled reference and labelled batches; the labels of the batches are for
scoring only. `GaussianStream` draws from four Gaussians, `MixtureStream` from any two pools of rows.
`GaussianRegressionStream` has numbers to predict in place of classes. In `MovingGaussianStream` one Gaussian moves.
`OrderedStream` reads a table in time order, with its natural drift.
"""

from accous.streams.batch import Batch
from accous.streams.gaussian import GaussianStream
from accous.streams.gaussian_regression import GaussianRegressionStream
from accous.streams.mixture import MixtureStream
from accous.streams.moving import MovingGaussianStream
from accous.streams.ordered import OrderedStream
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
    "GaussianRegressionStream",
    "GaussianStream",
    "LinearShift",
    "MixtureStream",
    "MovingGaussianStream",
    "OrderedStream",
    "Shift",
    "SineShift",
    "SquareShift",
]
