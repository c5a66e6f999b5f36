"""Ratio models that are linear in features: what the ensemble and the single learner share."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from accous.arrays import FloatArray, IntArray, to_plain
from accous.core.ensemble import DIAGONAL, FULL, LOW_RANK, prepare_reference
from accous.core.losses import LOSSES, Loss
from accous.exceptions import ParameterError
from accous.ratio.base import RatioEstimator, default_metric, default_radius, default_step_size
from accous.ratio.features import LARGEST_NORM, RowMap, fit_features, fit_map, map_from_plain, map_to_plain
from accous.text import require_choice, require_integer, require_number, require_number_or
from accous.threads import one_blas_thread
from accous.validation import count_rows

__all__ = ["LinearRatio"]

PAPER_RADIUS = "paper"  # S = d/2, whatever the scale of the features
_THEORY_STEPS = {"theory": 3.0, "lemma": 6.0}  # gamma / (1 + beta): in the theorem, and in the lemmas of its proof


@dataclass(eq=False, repr=False, kw_only=True)
class LinearRatio(RatioEstimator):
    """A ratio rho(phi(x).theta) with theta in a ball, learned by Online Newton Steps.

    Subclasses keep a ``state_`` that every round replaces as a whole. A reader in another thread therefore sees one
    round or the next, never a mixture.
    """

    has_scores: ClassVar[bool] = True

    feature_map: Any = field(default="auto", kw_only=False)
    loss: str = "logistic"
    radius: float | str | None = None
    feature_bound: float | str | None = None
    scale_features: bool = True
    fit_intercept: bool = True
    step_size: float | str = "auto"
    ridge: float = 1.0
    metric: str = "auto"
    metric_rank: int = 32
    max_ratio: float = 100.0
    max_reference: int | None = None
    dtype: str = "float64"
    random_state: Any = None

    rounds_: Any = field(init=False)

    @property
    def coef_(self) -> FloatArray:
        """Current theta."""
        coef: FloatArray = self.state_.coef
        return coef.copy()

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        n_rounds: int = self.state_.n_rounds
        return n_rounds

    @abstractmethod
    def _start_learning(self, neutral: FloatArray) -> None:
        """Set ``rounds_``, which runs the rounds, and ``state_``, the state before the first round."""

    @abstractmethod
    def _take_state(self, plain: dict[str, Any]) -> None:
        """Set ``state_`` from its plain form."""

    @property
    def feature_bound_(self) -> float:
        """R: rows of mapped features longer than this are shortened to it."""
        return self.features_.bound

    @property
    def n_gradient_rows_(self) -> int:
        """Number of reference rows that the gradients of every round are summed over."""
        return len(self.gradient_reference_.features)

    @property
    def reference_features_(self) -> FloatArray:
        """Features phi of the reference rows."""
        return self.whole_reference_.features

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, cut at ``max_ratio``."""
        if self._is_free_of_blas:
            return self.whole_reference_.ratios(self.state_.coef, float(self.max_ratio))
        with one_blas_thread():
            return self._current_ratios()

    def _current_ratios(self) -> FloatArray:
        return self.ratios_at(self.state_.coef)

    @property
    def is_free_of_blas(self) -> bool:
        """Whether a round runs entirely in compiled loops."""
        return self._is_free_of_blas

    def ratios_at(self, coef: FloatArray) -> FloatArray:
        """Return the ratio of every reference row at a given theta, clipped at ``max_ratio``."""
        return self.whole_reference_.ratios(coef, float(self.max_ratio))

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """Return the covariance over the reference of each feature with the score phi.theta at a given theta."""
        return self.whole_reference_.score_covariances(coef)

    def score_loss(self, X_batch: Any) -> float:
        """Return the observed loss of the current theta on a batch; lower is better.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
            At least one row.
        """
        self._require_fitted("reference_")
        batch, _ = self.features_.transform(self._read(X_batch, reset=False, min_rows=1))
        with one_blas_thread():
            return float(self.loss_.value(self.coef_[None], self.reference_features_, batch)[0])

    def _start(self, X: Any) -> None:
        self._check_parameters()
        row_map = fit_map(self._resolve_feature_map(), X, self.random_state)
        self._start_with(row_map, self._choose_rows(count_rows(X)), X, self.feature_bound)

    def _choose_rows(self, n_reference: int) -> IntArray | None:
        """Return the reference rows that gradients are summed over, or None for all of them."""
        if self.max_reference is None or n_reference <= self.max_reference:
            return None
        chosen = check_random_state(self.random_state).choice(n_reference, int(self.max_reference), replace=False)
        return np.sort(chosen).astype(np.int64)

    def _start_with(
        self, row_map: RowMap, gradient_indices: IntArray | None, X: Any, feature_bound: float | str | None
    ) -> None:
        self.loss_ = LOSSES[self.loss].make(float(self.max_ratio))
        self.features_, features = fit_features(
            row_map,
            X,
            fit_intercept=bool(self.fit_intercept),
            is_intercept_bounded=self.loss_.neutral_score == 0.0,
            feature_bound=feature_bound,
            scale_features=bool(self.scale_features),
        )
        is_single = self.dtype == "float32"
        self.whole_reference_ = self.gradient_reference_ = prepare_reference(features, self.loss_, is_single=is_single)
        self.gradient_indices_ = gradient_indices
        if gradient_indices is not None:
            some = features[gradient_indices]
            self.gradient_reference_ = prepare_reference(some, self.loss_, is_single=is_single)
        n_coefs = features.shape[1]
        self.metric_ = self._resolve_metric(n_coefs - bool(self.fit_intercept))
        self._is_free_of_blas = (
            self.whole_reference_.is_free_of_blas and self.features_.is_free_of_blas and self.metric_ == FULL
        )
        self._keeps_no_mapped_rows = self.reads_numbers
        self.mapped_batch_: FloatArray | None = None
        self.radius_ = self._resolve_radius(n_coefs)
        self.step_size_ = self.step_size_for(1)
        self.n_out_of_bound_ = 0
        self.neutral_coef_ = self._make_neutral_coef(n_coefs)
        self._start_learning(self.neutral_coef_)

    def _make_neutral_coef(self, n_coefs: int) -> FloatArray:
        """Return the theta whose ratio is 1 everywhere."""
        neutral = np.zeros(n_coefs)
        # Departs from the paper: theta = 0 would mean ratio 0 for losses whose score is the ratio. The intercept column
        # is the last one and, for these losses, exactly 1.
        neutral[-1] = self.loss_.neutral_score
        neutral.setflags(write=False)
        return neutral

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return {
            "row_map": map_to_plain(self.features_.row_map),
            "feature_bound": self.features_.bound,
            "gradient_indices": self.gradient_indices_,
            "step_size": self.step_size_,
            "n_out_of_bound": self.n_out_of_bound_,
            "state": to_plain(self.state_),
        }

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        self._check_parameters()  # whoever wrote them: a loop over intervals of length 0 would never end
        row_map = map_from_plain(plain["row_map"], self.feature_map, X)
        self._start_with(row_map, plain["gradient_indices"], X, plain["feature_bound"])
        self.step_size_ = plain["step_size"]
        self.n_out_of_bound_ = plain["n_out_of_bound"]
        self._take_state(plain["state"])

    def run(self, X: Any) -> FloatArray:
        """Run one round on rows returned by ``read``, and return their ratios from before the round."""
        step_size = self.step_size_for(X.shape[0])
        if self._keeps_no_mapped_rows:
            batch, n_out_of_bound = self.features_.transform(X)
        else:
            mapped = self.mapped_batch_ = self.features_.map_rows(X)
            batch, n_out_of_bound = self.features_.finish(mapped)
        ratios = self._learn(X, batch, step_size)
        self.step_size_ = step_size
        self.n_out_of_bound_ += n_out_of_bound
        return ratios

    def _learn(self, X: Any, batch: FloatArray, step_size: float) -> FloatArray:
        """Run a round on a batch, given its rows and their features; return their ratios from before, if they count."""
        ratios = np.empty(0)
        if self.keeps_record:
            ratios = self.whole_reference_.batch_ratios(self.state_.coef, batch, float(self.max_ratio))
        self.state_: Any = self.rounds_.run(self.state_, batch, step_size)
        return ratios

    def batch_as_numbers(self, X: Any) -> FloatArray | None:
        """Return the rows of the round just run as numbers; a transformer does not map them a second time."""
        return self.as_numbers(X) if self._keeps_no_mapped_rows else self.mapped_batch_

    def _run_round(self, X: Any) -> None:
        self.run(X)

    def _ratio(self, X: Any) -> FloatArray:
        coef = self.coef_
        with one_blas_thread():
            features, _ = self.features_.transform(X)
            return self.loss_.ratio(features @ coef, float(self.max_ratio))

    def _check_parameters(self) -> None:
        require_choice("loss", self.loss, tuple(LOSSES))
        require_number("ridge", self.ridge)
        require_number("max_ratio", self.max_ratio, above=1.0)
        require_choice("metric", self.metric, ("auto", FULL, DIAGONAL, LOW_RANK))
        require_integer("metric_rank", self.metric_rank, at_least=1)
        require_choice("dtype", self.dtype, ("float64", "float32"))
        if self.max_reference is not None:
            require_integer("max_reference", self.max_reference, at_least=2, or_else=" or None")
        require_number_or("radius", self.radius, PAPER_RADIUS, None)
        require_number_or("feature_bound", self.feature_bound, LARGEST_NORM, None)
        require_number_or("step_size", self.step_size, "auto", *_THEORY_STEPS)
        if LOSSES[self.loss].neutral_score != 0.0 and not self.fit_intercept:
            raise ParameterError(
                f"loss={self.loss!r} needs fit_intercept=True: without an intercept no theta gives the ratio 1."
            )

    def _resolve_radius(self, n_coefs: int) -> float:
        if isinstance(self.radius, str):
            return max(n_coefs / 2.0, self.loss_.neutral_score)
        if self.radius is None:
            largest_score = self.loss_.largest_score(float(self.max_ratio))
            return default_radius(n_coefs, is_scaled=bool(self.scale_features), largest_score=largest_score)
        if self.radius < self.loss_.neutral_score:
            raise ParameterError(
                f"radius must be at least 1 for loss={self.loss!r}, whose neutral theta has norm 1, "
                f"got {self.radius!r}."
            )
        return float(self.radius)

    def _resolve_feature_map(self) -> Any:
        # Rows are shortened only if there is an intercept and the bound is computed from them. A bound that the user
        # passes applies to rows of their original length.
        is_shortened = self.fit_intercept and self.scale_features and self.feature_bound is None
        return self.feature_map if is_shortened or not _is_auto(self.feature_map) else "standardize"

    def _resolve_metric(self, n_features: int) -> str:
        return default_metric(n_features) if self.metric == "auto" else self.metric

    def step_size_for(self, n_batch: int) -> float:
        """Return gamma of a round with this many rows."""
        if self.step_size == "auto":
            return default_step_size(n_batch, is_log_linear=self.loss_.is_log_linear)
        if isinstance(self.step_size, str):
            return _theory_step_size(self.step_size, self.loss_, self.radius_, self.features_.norm_bound)
        return float(self.step_size)


def _is_auto(feature_map: Any) -> bool:
    return isinstance(feature_map, str) and feature_map == "auto"


def _theory_step_size(name: str, loss: Loss, radius: float, bound: float) -> float:
    """Return gamma = 3 (1 + beta) of the theorem or 6 (1 + beta) of the lemmas, with beta = exp(S R)."""
    if not loss.is_log_linear:
        raise ParameterError(f"step_size={name!r} is available for loss='logistic' only, not for {loss.name!r}.")
    factor = _THEORY_STEPS[name]
    with np.errstate(over="ignore"):
        step_size = float(factor * (1.0 + np.exp(radius * bound)))
    if not math.isfinite(step_size):
        raise ParameterError(
            f"step_size={name!r} is {factor:g} (1 + exp(S R)), which overflows at S R = {radius * bound:.4g}: give a "
            f"number, such as step_size=10, or a smaller radius, or divide the rows by R (scale=True of "
            f"OnlineDensityRatio.paper, scale_features=True elsewhere), which makes it exp({radius:.4g})."
        )
    return step_size
