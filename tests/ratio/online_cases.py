"""Rows, settings and oracles that the tests of OnlineDensityRatio share."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from accous import OnlineDensityRatio
from accous.core.pool import N_SHAPES
from tests.oracles import PaperAccous, kl_loss, least_squares_loss, logistic_loss

Array = NDArray[np.float64]

LOSSES = ["logistic", "least_squares", "kl"]
ORACLE_LOSSES = {"logistic": logistic_loss, "least_squares": least_squares_loss, "kl": kl_loss}
MAX_RATIO = OnlineDensityRatio().max_ratio

each_loss = pytest.mark.parametrize("loss", LOSSES)


def normal_rows(n_rows: int, n_features: int = 3, seed: int = 0, loc: Any = 0.0) -> Array:
    return np.random.default_rng(seed).normal(loc, size=(n_rows, n_features))


def drifting_batches(sizes: Any, n_rounds: int, n_features: int = 3, seed: int = 1) -> Iterator[Array]:
    """Batches whose mean turns around the origin; sizes are repeated as often as needed."""
    rng = np.random.default_rng(seed)
    for t, size in enumerate(islice(cycle(sizes), n_rounds)):
        loc = np.zeros(n_features)
        loc[:2] = np.cos(t / 7), np.sin(t / 7)
        yield rng.normal(loc, size=(size, n_features))


def brought_back(rows: Array, bound: float) -> Array:
    """Rows longer than the bound, shortened to it."""
    return np.array([row * min(1.0, bound / np.linalg.norm(row)) for row in rows])


def with_one(rows: Array) -> Array:
    return np.array([[*row, 1.0] for row in rows])


def features_by_hand(loss: str, bound: float, is_scaled: bool = True) -> Callable[[Array], Array]:
    """Intercept, bound and scale, in the order documented for the loss."""
    unit = bound if is_scaled else 1.0
    if loss == "logistic":
        return lambda X: brought_back(with_one(X), bound) / unit
    # A constant that has to stay 1 is appended last.
    return lambda X: with_one(brought_back(X, bound) / unit)


def paper_settings(**changes: Any) -> dict[str, Any]:
    """The documented keywords that reproduce the paper."""
    names = {"feature_map": "identity", "start": "zero", "meta_range": "paper"}
    switches = {"scale_features": False, "fit_intercept": False}
    numbers = {"step_size": 1.0, "horizon": 100, "radius": 1.5, "feature_bound": 10.0, "ridge": 1.0}
    return names | switches | numbers | changes


def paper_oracle(reference: Array, settings: dict[str, Any], **more: Any) -> PaperAccous:
    shared = ("radius", "feature_bound", "step_size", "ridge", "horizon")
    return PaperAccous(reference, **{name: settings[name] for name in shared}, **more)


def assert_agrees(estimator: OnlineDensityRatio, oracle: PaperAccous) -> None:
    assert estimator.n_rounds_ == oracle.round
    assert estimator.learner_lengths_.tolist() == oracle.lengths.tolist()
    np.testing.assert_allclose(estimator.coef_, oracle.theta, rtol=0, atol=1e-9)
    np.testing.assert_allclose(estimator.learner_weights_, oracle.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(estimator.learner_coefs_, oracle.learner_thetas, rtol=0, atol=1e-9)


def shown_state(estimator: OnlineDensityRatio) -> dict[str, bytes]:
    """Every documented attribute, as bytes."""
    names = [
        *("coef_", "reference_ratio_", "learner_lengths_", "learner_weights_", "learner_coefs_", "n_rounds_"),
        *("feature_bound_", "radius_", "step_size_", "n_out_of_bound_", "n_features_in_"),
    ]
    return {name: np.asarray(getattr(estimator, name)).tobytes() for name in names if hasattr(estimator, name)}


# --- streams that visit regimes, each a Gaussian blob of the reference ------------------------------------------

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
