"""SingleLearnerRatio: one Online Newton Step learner over all history, the paper's OLRE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accous.arrays import FloatArray, from_plain
from accous.core.ensemble import AnyStack, LearnerStack, Reference, start_learners
from accous.ratio.linear import LinearRatio

__all__ = ["SingleLearnerRatio"]


@dataclass(frozen=True, slots=True)
class SingleState:
    """The learner, and the number of rounds so far."""

    n_rounds: int
    learner: LearnerStack

    @property
    def coef(self) -> FloatArray:
        """Theta of the learner."""
        return self.learner.coefs[0]


@dataclass(frozen=True, slots=True)
class SingleRounds:
    """Runs the rounds of one learner (Algorithm 1)."""

    reference: Reference
    radius: float

    def play(self, state: SingleState, batch: FloatArray, step_size: float) -> SingleState:
        """Return the state after a round."""
        coefs = state.learner.coefs
        gradients = self.reference.gradients(coefs[:0], coefs[0], batch)
        return SingleState(state.n_rounds + 1, state.learner.step(gradients[:1], step_size, self.radius))


class SingleLearnerRatio(LinearRatio):
    """Density ratio from one Online Newton Step learner over all history (Algorithm 1; "OLRE" in the experiments).

    It forgets nothing. It is as good as the ensemble while the stream does not move, and falls behind when it does.
    This ablation shows what the ensemble adds.

    Parameters
    ----------
    feature_map, loss, radius, feature_bound, scale_features, fit_intercept, step_size, ridge, max_ratio, max_reference,
    dtype, metric, metric_rank, random_state
        As in :class:`accous.OnlineDensityRatio`.

    Attributes
    ----------
    coef_, reference_ratio_, n_rounds_, feature_bound_, radius_, step_size_, metric_, n_out_of_bound_, n_features_in_,
    feature_names_in_
        As in :class:`accous.OnlineDensityRatio`.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import SingleLearnerRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = SingleLearnerRatio().fit(rng.normal(size=(200, 2)))
    >>> ratio.partial_fit(rng.normal(loc=1.0, size=(5, 2))).n_rounds_
    1
    """

    state_: SingleState

    def __init__(
        self,
        feature_map: Any = "auto",
        *,
        loss: str = "logistic",
        radius: float | None = None,
        feature_bound: float | str | None = None,
        scale_features: bool = True,
        fit_intercept: bool = True,
        step_size: float | str = "auto",
        ridge: float = 1.0,
        max_ratio: float = 100.0,
        max_reference: int | None = None,
        dtype: str = "float64",
        metric: str = "auto",
        metric_rank: int = 32,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.loss = loss
        self.radius = radius
        self.feature_bound = feature_bound
        self.scale_features = scale_features
        self.fit_intercept = fit_intercept
        self.step_size = step_size
        self.ridge = ridge
        self.max_ratio = max_ratio
        self.max_reference = max_reference
        self.dtype = dtype
        self.metric = metric
        self.metric_rank = metric_rank
        self.random_state = random_state

    def history_in_use(self, n_rounds: int) -> float:
        """Return the number of rounds: the one learner uses all of them."""
        return float(n_rounds)

    def _start_learning(self, neutral: FloatArray) -> None:
        self.rounds_ = SingleRounds(self.gradient_reference_, self.radius_)
        learner = start_learners(1, neutral, float(self.ridge), self.metric_, int(self.metric_rank))
        self.state_ = SingleState(0, learner)

    def _take_state(self, plain: dict[str, Any]) -> None:
        self.state_ = SingleState(plain["n_rounds"], from_plain(AnyStack, plain["learner"]))
