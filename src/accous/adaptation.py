"""AdaptiveClassifier: a predictor that follows the drift by importance-weighted ERM over time."""

from __future__ import annotations

from copy import copy
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if

from accous.core.arrays import FloatArray
from accous.core.descent import Point
from accous.core.kernels_weights import normalise_weights
from accous.diagnostics.risk import weighted_error
from accous.diagnostics.weights import effective_sample_size, weight_distance
from accous.erm import ForeignErm, LinearPredictor, LogisticErm, WeightedErm
from accous.exceptions import ParameterError
from accous.labels import read_base_weights, read_labels
from accous.parameters import require_number
from accous.ratio.base import LearnedAttributes, RatioEstimator, unchanged_on_failure
from accous.ratio.blas import one_blas_thread
from accous.ratio.inputs import count_rows, own_copy, read_frame, read_rows, require_finite
from accous.ratio.online import OnlineDensityRatio

__all__ = ["AdaptiveClassifier"]

_REFIT_SENSITIVITY = 1.0 / 3.0


@dataclass(frozen=True)
class AdaptationState:
    """What a round leaves behind; replaced as a whole, so that every reader sees one consistent model.

    Attributes
    ----------
    n_rounds : int
    ratio : ratio estimator
    weights : array of shape (n_reference,)
        Importance weights of the reference now.
    estimator : object
        The current predictor.
    fitted_weights : array of shape (n_reference,)
        The weights it was fitted with.
    n_refits : int
        Fits after the first.
    last_refit : int
        Round of the last fit.
    cache : dict
        What was computed from this state when it was read.
    """

    n_rounds: int
    ratio: Any
    weights: FloatArray
    estimator: Any
    fitted_weights: FloatArray
    n_refits: int
    last_refit: int
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def _estimator_has(method: str) -> Any:
    def check(self: Any) -> bool:
        owner = self.state_.estimator if hasattr(self, "state_") else self.estimator
        if owner is not None:
            getattr(owner, method)
        return True

    return check


class AdaptiveClassifier(LearnedAttributes, ClassifierMixin, BaseEstimator):
    r"""A classifier that follows unlabelled drift: weighted ERM on the reference, with time-varying ratios.

    After every batch the predictor minimises

    .. math:: \sum_{i \in S_0} w_{t,i} \, \ell(f(x_i), y_i) + \text{penalty}, \qquad w_{t,i} \propto \hat r_t(x_i),

    the paper's importance-weighted ERM. The weights have mean 1, so that C keeps its meaning.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier, or pipeline ending in one, whose ``fit`` takes ``sample_weight``; frames reach it
        unconverted. None: our own warm-started logistic (two classes) or softmax regression, with the optimum of
        ``LogisticRegression(C=C)``. With more than 100 coefficients only ``fit`` goes all the way to the optimum; a
        round's refit makes a few steps towards it, and more after a jump.
    ratio : ratio estimator, optional
        None: ``OnlineDensityRatio()``.
    refit : {"auto", "always"} or int, default="auto"
        When to fit the predictor anew: in every round, every so many rounds, or (``"auto"``) when the total variation
        between the current weights and those of the last fit exceeds ``0.16 (n_eff / n_reference)^(1/3)``, a quarter
        of that for our own, cheap regression. n_eff is the effective sample size: the fewer rows carry the weight,
        the more a fit depends on each.
    C : float, default=1.0
        Inverse penalty of our own regression; not to be given beside an estimator.
    random_state : int, RandomState or None, default=None
        Seed of the ratio estimator made for ``ratio=None``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    ratio_ : fitted ratio estimator
    estimator_ : fitted predictor of the round to come
    reference_weight_ : array of shape (n_reference,)
        Current importance weights; mean 1, or with base weights b: b r over the mean of r weighted by b.
    n_rounds_, n_refits_ : int
        Rounds played, and fits after the first.
    effective_sample_size_ : float
        Rows that the weights leave, of ``n_reference``.
    risk_estimate_ : float
        Label-free estimate of the predictor's current error; NaN where some class has fewer than two rows (fewer than
        five where folds are used), so that no fit without a row can be had.
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> from accous import AdaptiveClassifier
    >>> from accous.streams import GaussianStream, SquareShift
    >>> stream = GaussianStream(SquareShift(period=50), n_rounds=100, batch_size=5)
    >>> model = AdaptiveClassifier().fit(*stream.reference())
    >>> for batch in stream:
    ...     y_hat = model.predict(batch.X)
    ...     model = model.adapt(batch.X)
    >>> bool(stream.risk(model, alpha=0.0) < 0.35)
    True
    """

    state_: AdaptationState

    def __init__(
        self,
        estimator: Any = None,
        ratio: Any = None,
        *,
        refit: int | str = "auto",
        C: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.refit = refit
        self.C = C
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take a labelled reference and forget all rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Base weights b; importance weights multiply them.
        """
        self._check_parameters()
        with unchanged_on_failure(self), one_blas_thread():
            rows = self._read(X, reset=True, min_rows=2)
            self.classes_, self.labels_ = read_labels(y, count_rows(rows), reader=type(self).__name__)
            self.base_weight_ = read_base_weights(sample_weight, count_rows(rows))
            ratio = OnlineDensityRatio(random_state=self.random_state) if self.ratio is None else clone(self.ratio)
            ratio.fit(X)
            self.reference_ = own_copy(rows, X)
            self.erm_ = self._make_erm(self.classes_[self.labels_])
            weights = self.base_weight_
            self.state_ = AdaptationState(0, ratio, weights, self.erm_.fit(weights, None), weights, 0, 0)
        return self

    def adapt(self, X_batch: Any) -> Self:
        """Play one round: learn from an unlabelled batch of any size.

        An empty batch changes nothing and is not counted. If anything fails, the model stays that of the round
        before.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
        """
        self._require_fitted("state_")
        rows = self._read(X_batch, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return self
        if self.erm_.limits_blas and getattr(self.state_.ratio, "_is_free_of_blas", False):
            self.state_ = self._play(rows, X_batch)
            return self
        with one_blas_thread():
            self.state_ = self._play(rows, X_batch)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class of each row, by the current predictor; no rows in, no classes out."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        return np.asarray(self.state_.estimator.predict(rows)) if count_rows(rows) else self.classes_[:0]

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities of each row, by the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)))
        return np.asarray(self.state_.estimator.predict_proba(rows))

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> FloatArray:
        """Scores of each row, by the current predictor."""
        self._require_fitted("state_")
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty(0 if len(self.classes_) == 2 else (0, len(self.classes_)))
        return np.asarray(self.state_.estimator.decision_function(rows))

    @property
    def ratio_(self) -> Any:
        """The ratio estimator."""
        return self.state_.ratio

    @property
    def estimator_(self) -> Any:
        """The current predictor."""
        return self.state_.estimator

    @property
    def reference_weight_(self) -> FloatArray:
        """Current importance weights of the reference."""
        return self.state_.weights.copy()

    @property
    def n_rounds_(self) -> int:
        """Rounds played."""
        return self.state_.n_rounds

    @property
    def n_refits_(self) -> int:
        """Fits of the predictor after the first."""
        return self.state_.n_refits

    @property
    def effective_sample_size_(self) -> float:
        """Rows that the current weights leave."""
        return effective_sample_size(self.state_.weights)

    @property
    def risk_estimate_(self) -> float:
        """Label-free estimate of the current error, computed when first read in a round."""
        state = self.state_
        if "risk" not in state.cache:
            state.cache["risk"] = self._estimate_risk(state)
        return float(state.cache["risk"])

    def _estimate_risk(self, state: AdaptationState) -> float:
        with one_blas_thread():
            predicted = self.erm_.cross_fitted(state.fitted_weights, state.estimator)
        return float("nan") if predicted is None else weighted_error(predicted != self.labels_, state.weights)

    def _play(self, rows: Any, X_batch: Any) -> AdaptationState:
        """State after a round with a batch, given as it was read and as it came."""
        # Ratio estimators replace what they have learned and never write into it: a shallow copy learns apart.
        ratio = copy(self.state_.ratio)
        if self.estimator is None and isinstance(ratio, RatioEstimator) and ratio._reads_numbers:
            ratio._play(rows)  # the same columns have been read already
        else:
            ratio.partial_fit(X_batch)
        return self._next_state(ratio)

    def _next_state(self, ratio: Any) -> AdaptationState:
        before = self.state_
        this_round = before.n_rounds + 1
        weights = self._importance_weights(ratio)
        if not self._is_refit_due(before, weights, this_round):
            return replace(before, n_rounds=this_round, ratio=ratio, weights=weights, cache={})
        estimator = self.erm_.fit(weights, before.estimator)
        return AdaptationState(this_round, ratio, weights, estimator, weights, before.n_refits + 1, this_round)

    def _importance_weights(self, ratio: Any) -> FloatArray:
        weights = np.empty(len(self.base_weight_))
        # A ratio that vanishes on the whole reference says nothing about its rows: keep the weights there are.
        ratios = np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64)
        has_mass = normalise_weights(self.base_weight_, ratios, weights)
        return weights if has_mass else self.state_.weights

    def _is_refit_due(self, before: AdaptationState, weights: FloatArray, this_round: int) -> bool:
        if self.refit == "always":
            return True
        if self.refit == "auto":
            # Departs from the paper: it refits in every round, which most predictors could not afford.
            # The fewer rows carry the weight, the more a fit depends on each of them.
            share = effective_sample_size(weights) / len(weights)
            return (
                weight_distance(weights, before.fitted_weights) > self.erm_.refit_distance * share**_REFIT_SENSITIVITY
            )
        return this_round - before.last_refit >= int(self.refit)

    def _check_parameters(self) -> None:
        is_count = isinstance(self.refit, Integral) and not isinstance(self.refit, bool) and self.refit >= 1
        if not is_count and not (isinstance(self.refit, str) and self.refit in ("auto", "always")):
            raise ParameterError(f"refit must be 'auto', 'always' or a positive integer, got {self.refit!r}.")
        require_number("C", self.C)
        if self.estimator is not None and self.C != 1.0:
            raise ParameterError("C belongs to our own regression; set it on the estimator given instead.")
        if self.ratio is not None and not hasattr(self.ratio, "predict_ratio"):
            raise ParameterError(f"ratio must be a ratio estimator such as OnlineDensityRatio(), got {self.ratio!r}.")

    def _make_erm(self, labels: NDArray[Any]) -> WeightedErm:
        if self.estimator is None:
            return LogisticErm(self.reference_, self.labels_, self.classes_, float(self.C))
        return ForeignErm(self.estimator, self.reference_, labels, self.labels_, self.classes_)

    def _to_plain(self) -> dict[str, Any]:
        """Everything learned besides reference and labels, as nested dicts of arrays, numbers and strings."""
        state = self.state_
        plain = {
            name: getattr(state, name) for name in ("n_rounds", "weights", "fitted_weights", "n_refits", "last_refit")
        }
        if self.estimator is None:
            point = state.estimator.point
            plain |= {"coef": state.estimator.coef_, "intercept": state.estimator.intercept_}
            plain["point"] = None if point is None else asdict(point)
        return plain

    def _from_plain(self, plain: dict[str, Any], ratio: Any) -> None:
        """Take over what ``_to_plain`` gave; a foreign estimator is fitted anew with the weights of its last fit."""
        self.erm_ = self._make_erm(self.classes_[self.labels_])
        parts = dict(plain)
        if self.estimator is None:
            estimator: Any = self._predictor_from_plain(
                parts.pop("coef"), parts.pop("intercept"), parts.pop("point", None)
            )
        else:
            with one_blas_thread():
                estimator = self.erm_.fit(parts["fitted_weights"], None)
        self.state_ = AdaptationState(ratio=ratio, estimator=estimator, **parts)

    def _predictor_from_plain(
        self, coef: FloatArray, intercept: FloatArray, point: dict[str, FloatArray] | None
    ) -> LinearPredictor:
        return LinearPredictor(coef, intercept, self.classes_, None if point is None else Point(**point))

    def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
        if self.estimator is None:
            return read_rows(self, X, reset=reset, min_rows=min_rows)
        rows = read_frame(self, X, reset=reset, min_rows=min_rows)
        # What the ratio could not learn from is not predicted either.
        is_plain = isinstance(getattr(self.ratio, "feature_map", "standardize"), str)
        if is_plain and isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            require_finite(rows, X)
        return rows
