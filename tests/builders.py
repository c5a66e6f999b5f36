"""What several test files build: the losses, feature rows, and one set-up for both the ensemble and its oracle."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accous.core.ensemble import EnsembleSettings
from accous.core.losses import KullbackLeibler, LeastSquares, Logistic, Loss
from tests.oracles import PaperAccous

Array = NDArray[np.float64]

KL_FLOOR = 0.01
INTERCEPT = 0.5
LOSSES: dict[str, Loss] = {
    "logistic": Logistic(),
    "least_squares": LeastSquares(),
    "kl": KullbackLeibler(floor=KL_FLOOR),
}


def feature_rows(rng: np.random.Generator, n_rows: int, n_features: int, shift: float = 0.0) -> Array:
    """Rows of norm at most 1 whose last entry is the intercept; `shift` moves the first entry's mean."""
    rows = rng.normal(size=(n_rows, n_features))
    rows[:, 0] += shift
    return with_intercept(rows)


def with_intercept(rows: Array) -> Array:
    """Replace the last entry of each row by the intercept and bring the others down to norm at most 1."""
    others = rows[:, :-1]
    longest = np.sqrt(1.0 - INTERCEPT**2) * (1.0 - 1e-15)
    norms = np.linalg.norm(others, axis=1, keepdims=True)
    bounded = others * np.minimum(1.0, longest / np.maximum(norms, longest))
    return np.column_stack((bounded, np.full(len(rows), INTERCEPT)))


def neutral_coef(loss: str, n_features: int) -> Array:
    """The theta whose ratio is 1 on every row that ends in the intercept."""
    coef = np.zeros(n_features)
    coef[-1] = LOSSES[loss].neutral_score / INTERCEPT
    return coef


@dataclass(frozen=True)
class Setup:
    """The choices that an ensemble of learners is built from."""

    loss: str = "logistic"
    start: str = "zero"
    meta_range: str = "paper"
    horizon: int | None = None
    min_interval: int = 4
    radius: float = 2.5
    feature_bound: float = 1.0
    step_size: float = 2.0
    ridge: float = 1.0

    def settings(self, n_features: int) -> EnsembleSettings:
        """The set-up as the package takes it."""
        loss = LOSSES[self.loss]
        shared = {name: getattr(self, name) for name in ("radius", "ridge", "min_interval", "horizon", "start")}
        return EnsembleSettings(
            loss=loss,
            neutral=neutral_coef(self.loss, n_features),
            margin_bound=loss.margin_bound(self.radius, self.feature_bound),
            has_running_range=self.meta_range == "running",
            **shared,
        )

    def oracle(self, reference: Array) -> PaperAccous:
        """The set-up as the slow version takes it."""
        bound = LOSSES[self.loss].gradient_bound(self.radius, self.feature_bound)
        neutral = neutral_coef(self.loss, reference.shape[1])
        return PaperAccous(reference, **vars(self), neutral=neutral, kl_floor=KL_FLOOR, gradient_bound=bound)
