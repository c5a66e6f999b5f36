"""Streams with more than two regimes, and their exact answers.

Every part is a pair of Gaussians, one per class, with unit covariance. The centres of the parts lie far apart and their
class directions differ, so that one linear model cannot be right for all of them. The reference is a mixture of all
parts, and every round of the stream is another mixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from accous.arrays import FloatArray
from accous.streams import Batch

__all__ = ["KINDS", "RegimeStream"]

N_FEATURES, N_REFERENCE = 12, 1000
FIRST_SHARE = 0.5
STAY = 150
DAY = 24
KINDS = ("three", "six", "week")
N_PARTS = {"three": 3, "six": 6, "week": 3}


@dataclass(frozen=True)
class RegimeStream:
    """A stream of three or six regimes, or with a weekly cycle of day, night and weekend.

    In "three" and "six" each stretch of 150 rounds is one regime, and the next one is drawn at random. In "week" a
    round is an hour: day and night take twelve rounds each on five days, and the weekend takes 48. Half of the
    reference belongs to the first part, and the rest equally to the others.

    ``alpha`` of a batch is the number of its part.
    """

    kind: str
    n_rounds: int
    batch_size: int
    random_state: int

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The part of each round."""
        if self.kind == "week":
            hours = np.arange(self.n_rounds)
            of_day = (hours % DAY >= DAY // 2).astype(np.int64)
            return np.where(hours // DAY % 7 >= 5, 2, of_day)
        rng, n_parts = np.random.default_rng([self.random_state, 2]), N_PARTS[self.kind]
        stretches = [int(rng.integers(n_parts))]
        while len(stretches) * STAY < self.n_rounds:
            stretches.append(int((stretches[-1] + rng.integers(1, n_parts)) % n_parts))
        return np.repeat(stretches, STAY)[: self.n_rounds]

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of the parts in the reference."""
        n_parts = N_PARTS[self.kind]
        return np.array([FIRST_SHARE, *[(1.0 - FIRST_SHARE) / (n_parts - 1)] * (n_parts - 1)])

    @cached_property
    def means(self) -> FloatArray:
        """Means of the classes, (n_parts, 2, n_features): fixed geometry, the same for all seeds."""
        n_parts, rng = N_PARTS[self.kind], np.random.default_rng(0)
        frame = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]
        centres = np.sqrt(N_FEATURES) * frame[:n_parts]
        angles = np.deg2rad(75.0) * np.arange(n_parts)
        directions = np.cos(angles)[:, None] * frame[-1] + np.sin(angles)[:, None] * frame[-2]
        halves = 0.2 * np.sqrt(N_FEATURES) * directions
        return np.stack((centres - halves, centres + halves), axis=1)

    def reference(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the labelled reference."""
        rng = np.random.default_rng([self.random_state, 0])
        return self._rows(rng, rng.choice(len(self.shares), size=N_REFERENCE, p=self.shares))

    def __len__(self) -> int:
        return self.n_rounds

    def __iter__(self) -> Iterator[Batch]:
        rng = np.random.default_rng([self.random_state, 1])
        for number, part in enumerate(self.parts.tolist(), start=1):
            X, y = self._rows(rng, np.full(self.batch_size, part))
            yield Batch(X, y, float(part), number)

    def risk(self, model: Any, alpha: float) -> float:
        """Return the exact error of a linear model on a part."""
        coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        margins = (self.means[int(alpha)] @ coef + intercept) / np.linalg.norm(coef)
        return float(ndtr(margins * np.array([1.0, -1.0])).mean())

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every reference row in a round of a part."""
        logs = self._log_densities
        return np.asarray(np.exp(logs[:, int(alpha)] - logsumexp(logs, b=self.shares, axis=1)))

    @cached_property
    def _log_densities(self) -> FloatArray:
        X, _ = self.reference()
        squares = ((X[:, None, None, :] - self.means) ** 2).sum(axis=-1)
        return np.asarray(logsumexp(-0.5 * squares, axis=-1))

    def _rows(self, rng: np.random.Generator, parts: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
        y = rng.integers(2, size=len(parts))
        return self.means[parts, y] + rng.normal(size=(len(parts), N_FEATURES)), y
