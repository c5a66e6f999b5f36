"""The paper's data sets, read in several ways: what its description leaves open becomes a parameter here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accous import datasets
from accous.arrays import FloatArray
from accous.streams import BernoulliShift, GaussianStream, LinearShift, MixtureStream, Shift, SineShift, SquareShift

__all__ = ["SHIFTS", "Gaussians", "Halves"]

SHIFTS: dict[str, Shift] = {
    "Lin": LinearShift(),
    "Squ": SquareShift(period=100),
    "Sin": SineShift(period=100),
    "Ber": BernoulliShift(flip=0.01),
}
"""Shifts that turn as often as in the paper's 10,000 rounds, on streams of any length."""


@dataclass(frozen=True)
class Gaussians:
    """The synthetic data (paper, appendix "Experiment Setup", Datasets).

    Attributes
    ----------
    angle : float or None
        Degrees between the class directions; None is the geometry that the paper publishes.
    lin_falls : bool
        Whether Lin goes from 1 to 0, as in the paper's section "Experiments", not from 0 to 1, as in its appendix.
    """

    angle: float | None = 75.0
    lin_falls: bool = False

    datasets: ClassVar[tuple[tuple[str, int], ...]] = (("gaussian", 1), ("gaussian", 5))

    def stream(self, dataset: str, shift: str, batch_size: int, n_rounds: int, seed: int) -> GaussianStream:
        """Return the stream of a cell."""
        geometry: dict[str, Any] = {"geometry": "published"} if self.angle is None else {"angle": self.angle}
        moves = LinearShift(reverse=True) if shift == "Lin" and self.lin_falls else SHIFTS[shift]
        return GaussianStream(moves, n_rounds=n_rounds, batch_size=batch_size, random_state=seed, **geometry)

    @staticmethod
    def chance_of_error(stream: GaussianStream, batch: Any, predicted: NDArray[Any]) -> FloatArray:
        """Return the probability that each prediction is wrong, given its row: labels then add no noise."""
        logs = batch.X @ stream.means.T - 0.5 * (stream.means**2).sum(axis=1)
        weights = np.array([1.0 - batch.alpha, 1.0 - batch.alpha, batch.alpha, batch.alpha])
        densities = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
        positive = densities[:, [1, 3]].sum(axis=1) / densities.sum(axis=1)
        return np.where(predicted == 1, 1.0 - positive, positive)


@dataclass(frozen=True)
class Halves:
    """Diabetes and Breast, each cut in two (the same place of the paper).

    Attributes
    ----------
    split : str
        "fixed": one cut for all seeds; "seed": a cut for each seed.
    alpha_0 : float
        Share of the second part in the reference.
    """

    split: str = "fixed"
    alpha_0: float = 0.9

    datasets: ClassVar[tuple[tuple[str, int], ...]] = (("diabetes", 5), ("breast", 5))

    def stream(self, dataset: str, shift: str, batch_size: int, n_rounds: int, seed: int) -> MixtureStream:
        """Return the stream of a cell; its columns are not scaled."""
        first, second = _halves(dataset, seed if self.split == "seed" else 0)
        return MixtureStream(
            first,
            second,
            SHIFTS[shift],
            n_rounds=n_rounds,
            batch_size=batch_size,
            alpha_0=self.alpha_0,
            random_state=seed,
        )

    @staticmethod
    def chance_of_error(_: MixtureStream, batch: Any, predicted: NDArray[Any]) -> FloatArray:
        """Return 1 for a wrong prediction and 0 for a right one."""
        return (predicted != batch.y).astype(np.float64)


@cache
def _halves(name: str, seed: int) -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    table = datasets.load(name)
    is_second = datasets.split_in_two(table.X, table.y, random_state=seed)
    return (table.X[~is_second], table.y[~is_second]), (table.X[is_second], table.y[is_second])
