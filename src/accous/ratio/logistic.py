"""LogisticRatio: the ratio from a logistic regression of one batch against the reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray, from_plain, to_plain
from accous.core.ensemble import is_wide
from accous.core.losses import Logistic
from accous.core.ratio_problems import (
    WideReference,
    fit_ratio_regression,
    fit_wide_ratio_regression,
    make_wide_reference,
)
from accous.parameters import require_integer, require_number
from accous.ratio.base import RatioEstimator
from accous.ratio.features import FeatureMap, fit_features
from accous.ratio.maps import RowMap, fit_map, map_from_plain, map_to_plain
from accous.threads import one_blas_thread

__all__ = ["LogisticRatio"]


@dataclass(frozen=True, slots=True)
class RegressionState:
    """Theta of the last batch."""

    n_rounds: int
    coef: FloatArray


class LogisticRatio(RatioEstimator):
    r"""Density ratio from a penalised logistic regression of one batch against the reference ("LR" in the paper).

    .. math::
        r(x) = \exp(-\phi(x)^\top\theta), \qquad \theta = \arg\min \; L_t(\theta) + \frac{\lambda}{2 N_t}
        \|\theta_{1..d}\|^2

    where :math:`L_t` is the observed loss of the round. In it, reference and batch have equal weight, and the intercept
    has no penalty. Every round solves the regression to convergence. ``partial_fit`` replaces the batch, and the same
    batch always gives the same bits, regardless of earlier batches.

    Parameters
    ----------
    feature_map : {"standardize", "auto", "identity", "rbf"} or transformer, default="standardize"
        phi before the intercept; fitted on the reference.
    ridge : float, default=1.0
        lambda: a batch of N_t rows counts N_t times as much as the penalty.
    feature_bound : float, optional
        Rows of mapped features longer than this are shortened to it. None uses the 99 % quantile of the norms of the
        reference.
    max_steps : int, default=50
        Maximum number of Newton steps; five are usually enough.
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.
    random_state : int, RandomState or None, default=None
        Seed of the ``"rbf"`` map.

    Attributes
    ----------
    coef_ : array of shape (n_columns + 1,)
        theta, with the intercept last; zeros before the first batch.
    reference_ratio_ : array of shape (n_reference,)
        Ratio of the reference rows under the last batch; ones before the first.
    n_rounds_ : int
    feature_bound_ : float
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import LogisticRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = LogisticRatio().fit(rng.normal(size=(500, 1))).partial_fit(rng.normal(loc=1.0, size=(500, 1)))
    >>> bool(np.all(np.diff(ratio.predict_ratio([[-1.0], [0.0], [1.0]])) > 0.0))
    True
    """

    features_: FeatureMap
    reference_features_: FloatArray
    wide_reference_: WideReference | None
    state_: RegressionState

    def __init__(
        self,
        feature_map: Any = "standardize",
        *,
        ridge: float = 1.0,
        feature_bound: float | None = None,
        max_steps: int = 50,
        max_ratio: float = 100.0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.ridge = ridge
        self.feature_bound = feature_bound
        self.max_steps = max_steps
        self.max_ratio = max_ratio
        self.random_state = random_state

    @property
    def coef_(self) -> FloatArray:
        """Theta of the last batch."""
        return self.state_.coef.copy()

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        return self.state_.n_rounds

    @property
    def feature_bound_(self) -> float:
        """Rows of mapped features longer than this are shortened to it."""
        return self.features_.bound

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, clipped at ``max_ratio``."""
        with one_blas_thread():
            return self._ratio_of_features(self.reference_features_)

    def _start(self, X: Any) -> None:
        require_number("ridge", self.ridge)
        require_integer("max_steps", self.max_steps, at_least=1)
        require_number("max_ratio", self.max_ratio, above=1.0)
        if self.feature_bound is not None:
            require_number("feature_bound", self.feature_bound, or_else=" or None")
        self._start_with(fit_map(self.feature_map, X, self.random_state), X)

    def _start_with(self, row_map: RowMap, X: Any) -> None:
        self.features_, self.reference_features_ = fit_features(
            row_map,
            X,
            fit_intercept=True,
            is_intercept_bounded=False,
            feature_bound=self.feature_bound,
            scale_features=False,
        )
        n_columns = self.reference_features_.shape[1]
        self.wide_reference_ = make_wide_reference(self.reference_features_) if is_wide(n_columns) else None
        self.state_ = RegressionState(0, np.zeros(n_columns))

    def _play(self, X: Any) -> None:
        batch, _ = self.features_.transform(X)
        self.state_ = RegressionState(self.state_.n_rounds + 1, self._regress(batch))

    def _regress(self, batch: FloatArray) -> FloatArray:
        # Departs from the paper: it takes Newton steps on the current batch without saying how many.
        ridge, max_steps = float(self.ridge) / len(batch), int(self.max_steps)
        if self.wide_reference_ is not None:
            return fit_wide_ratio_regression(self.wide_reference_, batch, ridge, max_steps)
        # Start from zero, not from the last solution: a difference below the tolerance would remain in the ratio.
        return fit_ratio_regression(self.reference_features_, batch, ridge, np.zeros(batch.shape[1]), max_steps)

    def _ratio(self, X: Any) -> FloatArray:
        with one_blas_thread():
            return self._ratio_of_features(self.features_.transform(X)[0])

    def _ratio_of_features(self, features: FloatArray) -> FloatArray:
        return Logistic().ratio(features @ self.state_.coef, float(self.max_ratio))

    def comparison_features(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return features phi of ``X`` and of the reference."""
        features, _ = self.features_.transform(self.read(X, min_rows=1))
        return features, np.asarray(self.reference_features_, dtype=np.float64)

    def state_to_plain(self) -> dict[str, Any]:
        """Return everything learned besides the reference, as nested dicts of arrays and numbers."""
        return {"row_map": map_to_plain(self.features_.row_map), **to_plain(self.state_)}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Take over what ``state_to_plain`` gave, on the same validated reference."""
        state = {name: part for name, part in plain.items() if name != "row_map"}
        self._start_with(map_from_plain(plain["row_map"], self.feature_map, X), X)
        self.state_ = from_plain(RegressionState, state)
