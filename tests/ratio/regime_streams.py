"""Streams that visit regimes, each a Gaussian blob of the reference, and what the pool makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from accous import OnlineDensityRatio
from accous.core.pool import N_SHAPES

TWO = [[-2.0, 0.0], [2.0, 0.0]]
THREE = [*TWO, [0.0, 3.0]]
SIX = [[3.0 * np.cos(angle), 3.0 * np.sin(angle)] for angle in np.arange(6) * np.pi / 3.0]


@dataclass
class Visit:
    """One stay in a regime: the shares of the slots after each of its rounds."""

    regime: int
    first_round: int
    last_round: int
    shares: Any
    n_used: int

    def rounds_until(self, slot: int) -> int | None:
        """Rounds until the slot holds more than half of the pool; None if it never does."""
        is_recognised = np.flatnonzero(self.shares[:, slot] > 0.5)
        return int(is_recognised[0]) + 1 if len(is_recognised) else None


@dataclass
class RegimeStream:
    """Draws batches of regimes and passes them to an estimator.

    The reference holds all regimes in equal parts.
    """

    means: Sequence[Sequence[float]]
    n_reference: int = 400
    batch_size: int = 5
    drift_per_visit: float = 0.0
    seed: int = 0
    rng: Any = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def reference(self) -> Any:
        """The reference; call it once, before the batches."""
        centres = np.asarray(self.means)[np.arange(self.n_reference) % len(self.means)]
        return centres + self.rng.normal(size=centres.shape)

    def batch(self, regime: int, n_visits: int = 0) -> Any:
        """One batch of a regime, which has moved since the first visit."""
        x, y = self.means[regime]
        return self.rng.normal((x + self.drift_per_visit * n_visits, y), size=(self.batch_size, 2))

    def run(self, ratio: OnlineDensityRatio, schedule: Sequence[tuple[int, int]]) -> list[Visit]:
        """Visit regimes for so many rounds each."""
        visits = []
        for number, (regime, n_rounds) in enumerate(schedule):
            first, shares = ratio.n_rounds_ + 1, []
            for _ in range(n_rounds):
                ratio.partial_fit(self.batch(regime, number))
                shares.append(ratio.pool_.proportions[N_SHAPES:])
            n_used = int(ratio.pool_.slots.is_used.sum())
            visits.append(Visit(regime, first, ratio.n_rounds_, np.array(shares), n_used))
        return visits


def slot_of(ratio: OnlineDensityRatio, visit: Visit) -> int | None:
    """The slot that was in force at the end of a visit, or that its looks went to; None if there was none."""
    end = visit.last_round
    slots = [slot for slot, first, last in ratio.pool_.slots.visits.tolist() if first <= end - 16 <= last]
    return slots[-1] if slots else None
