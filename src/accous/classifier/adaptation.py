"""AdaptiveClassifier: a classifier that follows drift by importance-weighted empirical risk minimisation (ERM)."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from accous.arrays import FloatArray
from accous.blas import one_blas_thread
from accous.classifier.auditing import Auditing
from accous.classifier.backtest import Backtest
from accous.classifier.covering import Covering, ReferenceCover
from accous.classifier.erm import LogisticErm, WeightedErm, deviations_of_columns
from accous.classifier.estimating import Estimating
from accous.classifier.extending import Extending
from accous.classifier.fallback import FixedModel
from accous.classifier.foreign_erm import ForeignErm
from accous.classifier.guard import CAUTIONS, FREE, choose_guard
from accous.classifier.labels import read_base_weights, read_labels
from accous.classifier.late_labels import LateLabelling
from accous.classifier.learning import Learning
from accous.classifier.monitoring import Monitoring
from accous.classifier.notebook import NotebookDisplay
from accous.classifier.predicting import Predicting
from accous.classifier.predicting_sets import PredictingSets
from accous.classifier.remembering import Remembering
from accous.classifier.round import RoundRules
from accous.classifier.round_log import rounds_frame
from accous.classifier.state import (
    AdaptationState,
    predictors_from_plain,
    start_state,
    state_from_plain,
    state_to_plain,
    under_guard,
)
from accous.classifier.text_values import naming_text
from accous.classifier.traps import warn_of_traps
from accous.classifier.verification import Verification
from accous.diagnostics.attribution import ReferenceColumns
from accous.diagnostics.weights import effective_sample_size
from accous.exceptions import ParameterError
from accous.parameters import require_choice, require_number
from accous.ratio.base import LearnedAttributes, RatioEstimator, unchanged_on_failure
from accous.ratio.online import OnlineDensityRatio
from accous.turns import TakesTurns
from accous.validation import count_rows, own_copy, read_frame, read_rows, require_finite

__all__ = ["AdaptiveClassifier"]

_LARGEST_C = 1e100  # beyond it, sums of squares of C times the weights could exceed the largest number


class AdaptiveClassifier(
    LearnedAttributes,
    TakesTurns,
    Learning,
    Verification,
    LateLabelling,
    Extending,
    Predicting,
    PredictingSets,
    Monitoring,
    Estimating,
    Auditing,
    Covering,
    Remembering,
    NotebookDisplay,
    ClassifierMixin,
    BaseEstimator,
):
    r"""A classifier that adapts to drifting inputs without labels.

    You fit it once on a labelled reference. Then you call ``adapt`` with each unlabelled batch. After every batch the
    predictor minimises the paper's importance-weighted empirical risk over the reference rows,

    .. math:: \sum_{i \in S_0} w_{t,i} \, \ell(f(x_i), y_i) + \text{penalty}, \qquad w_{t,i} \propto \hat r_t(x_i),

    where the weights come from an online estimate of the density ratio. The weights have mean 1, so C keeps its
    meaning.

    Parameters
    ----------
    estimator : classifier, optional
        Any scikit-learn classifier whose ``fit`` takes ``sample_weight``, or a pipeline that ends in one. It receives
        data frames unconverted. None uses a built-in, warm-started logistic regression (two classes) or softmax
        regression, with the same optimum as ``make_pipeline(StandardScaler(), LogisticRegression(C=C))``. With more
        than 100 coefficients, only ``fit`` goes all the way to the optimum. The refit of a round takes a few steps
        towards it, and more after a jump.
    ratio : ratio estimator, optional
        None uses ``OnlineDensityRatio()``.
    refit : {"auto", "always"} or int, default="auto"
        When to refit the predictor. ``"always"`` refits in every round, and an integer n every n rounds. ``"auto"``
        refits when the total variation between the current weights and those of the last fit exceeds
        ``0.16 (n_eff / n_reference)^(1/3)``, or a quarter of that for the built-in regression, which is cheap to refit.
        n_eff is the effective sample size: the fewer rows carry the weight, the more a fit depends on each of them.
    C : float, default=1.0
        Inverse penalty of the built-in regression, at most 1e100. Do not set it together with ``estimator``.
    standardize : bool, default=True
        Whether the penalty of the built-in regression acts on standardised columns: mean 0 and deviation 1 in the
        reference with its base weights, and constant columns unscaled. The coefficients of the fitted predictor are
        those of the raw columns either way. False gives the optimum of ``LogisticRegression(C=C)`` on the columns as
        they are. Ignored if you pass an ``estimator``.
    fallback : {"auto", "none"}, default="auto"
        How to keep the adaptation from doing harm. ``"auto"`` has three safeguards. The ratio counts only as far as it
        explained past batches better than ratio 1 did (docs/pool.md); while the weights hardly differ from the base
        weights, the fixed model predicts. Weights that leave few effective rows are shrunk towards the base weights for
        the fit. The adapted model is compared with the fixed model on the weighted, cross-fitted reference: in every
        32nd round and soon after a jump, or at every fifth refit if you pass an ``estimator``. The fixed model predicts
        while the adapted one is worse by more than 1.5 standard errors. If the backtest of an ordered reference gives
        reason to be stricter, it predicts unless the adapted one is clearly better, or always; see ``caution``.
        ``"none"`` is the paper's method unchanged, unless you pass a ``ratio`` with a pool. With ratio estimators that
        use a single batch, and with those that serve as baselines, ``"auto"`` is the same as ``"none"``.
    caution : {"high", "normal", "low"}, default="normal"
        How much evidence the adaptation needs. ``"low"`` adapts unless the adapted model is worse by more than 1.5
        standard errors. ``"normal"`` does the same if the reference has no order in time, or shows no drift. If the
        reference drifts, it adapts only while the adapted model is better by more than two standard errors, and not at
        all if label-free estimates failed in the backtest. ``"high"`` does not adapt without a backtest.
    random_state : int, RandomState or None, default=None
        Seed of the ratio estimator if ``ratio`` is None.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    ratio_ : fitted ratio estimator
    estimator_ : fitted predictor for the next round
        The adapted predictor, or the fixed one while the fallback is active.
    reference_weight_ : array of shape (n_reference,)
        Current importance weights. They have mean 1; with base weights b they are b r divided by the mean of r weighted
        by b.
    n_rounds_, n_refits_ : int
        Number of rounds so far, and number of fits after the first.
    effective_sample_size_ : float
        Effective number of reference rows under the current weights, at most ``n_reference``.
    risk_estimate_ : float
        Label-free estimate of the predictor's current error. NaN if some class has fewer than two rows (fewer than five
        if folds are used), because the estimate needs fits that leave rows out.
    risk_ : RiskEstimate
        The same estimate with an interval, and the estimated error of the fixed model, which never adapts.
    trust_ : Trust
        Three answers, about inputs, adaptation and predictions, each "yes", "no" or "not known", and a verdict.
    backtest_ : Backtest or None
        The replay of the reference, which ``extend`` repeats; None if ``fit`` or ``extend`` was given no order, if the
        reference has fewer than 100 rows, or if a replay failed, for example because ``estimator`` could not be fitted
        on a part of the reference.
    unverified_ : str
        Why there is no backtest although there was one, or might be; empty otherwise.
    measured_ : MeasuredError or None
        The error that labels passed to ``observe`` have measured, and whether it contradicts the estimate.
    drift_attribution_ : array of shape (n_features_in_,)
        Share of each input column in the log ratio of recent rounds; zeros while there is no shift.
    drift_events_ : tuple of DriftEvent
        The last hundred changes in the input distribution, and the last hundred onsets of new values in single columns.
    coverage_ : Coverage
        Whether the reference covers the last 500 rows: the share of rows outside it, how strong the drift is, and the
        columns with values that the reference does not have.
    regimes_ : tuple of Regime
        The regimes that the ratio remembers: states of the inputs, away from the reference, that the stream settled in.
        Each has the rounds in which it was in force and the columns that tell it apart.
    history_ : pandas.DataFrame
        One row for each of the last 10,000 rounds: ``rows`` of the batch, ``effective_rows`` of the reference,
        ``share`` of the ratio in use, whether the round made a ``refit``, whether it detected a ``drift``, and whether
        the ``adapted`` model predicts after it. ``estimated_error`` and the ends of its interval are known only for
        rounds after which you read ``risk_``: no round computes it by itself.
    history_in_use_ : float
        Mean interval length of the learners in use, in rounds.
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
        standardize: bool = True,
        fallback: str = "auto",
        caution: str = "normal",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.refit = refit
        self.C = C
        self.standardize = standardize
        self.fallback = fallback
        self.caution = caution
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, order: Any = None) -> Self:
        """Fit on a labelled reference and forget all earlier rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Base weights b, which the importance weights multiply.
        order : bool, array of shape (n_reference,) or Backtest, optional
            True says that the rows are in order of time; an array gives their times. With an order, ``fit`` replays the
            reference (`accous.backtest`). The outcome decides how far label-free estimates are believed and whether to
            adapt. Pass a `Backtest` if you have replayed the rows yourself; they are then in order of time. Without an
            order, nothing is verified. References of fewer than 100 rows are not replayed.

        Warns
        -----
        TrapWarning
            If one column alone determines the label, a class has fewer than ten rows, or a column counts rows that are
            in order of time. References of fewer than 200 rows are not checked.
        """
        self._check_parameters()
        with self.turn(), unchanged_on_failure(self), one_blas_thread(), naming_text(X):
            rows = self._read(X, reset=True, min_rows=2)
            self.classes_, self.labels_ = read_labels(y, count_rows(rows), reader=type(self).__name__)
            self.base_weight_ = read_base_weights(sample_weight, count_rows(rows))
            ratio = self._make_ratio()
            ratio.fit(X)
            self.reference_ = own_copy(rows, X)
            is_ordered = isinstance(order, Backtest) or (isinstance(order, (bool, np.bool_)) and bool(order))
            warn_of_traps(self.reference_, self.labels_, self.classes_, self._names, is_ordered=is_ordered)
            self.erm_ = self._make_erm(self.classes_[self.labels_])
            estimator = self.erm_.fit(self.base_weight_, None)
            self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.labels_, estimator)
            self._verify(X, y, order)
            self.rules_ = self._make_rules(ratio)
            self.state_ = start_state(ratio, self.base_weight_, estimator, self.n_features_in_, self.rules_.guard)
        return self

    @property
    def ratio_(self) -> Any:
        """The ratio estimator."""
        return self.state_.ratio

    @property
    def estimator_(self) -> Any:
        """The predictor in use."""
        return self._predictor(self.state_)

    @property
    def reference_weight_(self) -> FloatArray:
        """Current importance weights of the reference."""
        return self.state_.weights.copy()

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        return self.state_.n_rounds

    @property
    def n_refits_(self) -> int:
        """Number of fits of the predictor after the first."""
        return self.state_.n_refits

    @property
    def effective_sample_size_(self) -> float:
        """Effective number of reference rows under the current weights."""
        return effective_sample_size(self.state_.weights)

    @property
    def history_(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame."""
        state = self.state_
        return rounds_frame(state.rounds, state.cache, state.n_rounds)

    def _names(self) -> list[str]:
        """Names of the input columns."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{column}" for column in range(self.n_features_in_)] if names is None else list(map(str, names))

    def _check_parameters(self) -> None:
        is_count = isinstance(self.refit, Integral) and not isinstance(self.refit, bool) and self.refit >= 1
        if not is_count and not (isinstance(self.refit, str) and self.refit in ("auto", "always")):
            raise ParameterError(f"refit must be 'auto', 'always' or a positive integer, got {self.refit!r}.")
        require_number("C", self.C, at_most=_LARGEST_C)
        if not isinstance(self.standardize, (bool, np.bool_)):
            raise ParameterError(f"standardize must be True or False, got {self.standardize!r}.")
        require_choice("fallback", self.fallback, ("auto", "none"))
        require_choice("caution", self.caution, CAUTIONS)
        if self.estimator is not None and self.C != 1.0:
            raise ParameterError("C applies only to the built-in regression; set it on your estimator instead.")
        if self.ratio is not None and not isinstance(self.ratio, RatioEstimator):
            raise ParameterError(f"ratio must be a ratio estimator such as OnlineDensityRatio(), got {self.ratio!r}.")

    def _make_ratio(self) -> RatioEstimator:
        if self.ratio is not None:
            ratio: RatioEstimator = clone(self.ratio)
            return ratio
        # Without the fallback, the method is that of the paper.
        pool = "auto" if self.fallback == "auto" else "none"
        return OnlineDensityRatio(pool=pool, random_state=self.random_state)

    def _make_rules(self, ratio: RatioEstimator) -> RoundRules:
        has_fallback = self.fallback == "auto"
        return RoundRules(
            erm=self.erm_,
            fixed=self.fixed_,
            labels=self.labels_,
            base_weight=self.base_weight_,
            columns=ReferenceColumns(self.reference_),
            cover=ReferenceCover(self.reference_, ratio, self._names(), has_numbers=self.estimator is None),
            names=self._names(),
            refit=self.refit,
            has_fallback=has_fallback,
            caution=self.caution,
            guard=choose_guard(self._evidence, self.caution) if has_fallback and ratio.keeps_record else FREE,
            has_numbers=self.estimator is None,
            # These columns have already been read, unless they are for a transformer.
            shares_rows=self.estimator is None and ratio.reads_numbers,
            limits_blas=self.erm_.limits_blas and ratio.is_free_of_blas,
        )

    def _make_erm(self, labels: NDArray[Any]) -> WeightedErm:
        if self.estimator is None:
            scales = deviations_of_columns(self.reference_, self.base_weight_) if self.standardize else None
            return LogisticErm(self.reference_, self.labels_, self.classes_, float(self.C), scales)
        return ForeignErm(self.estimator, self.reference_, labels, self.labels_, self.classes_)

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without reference, labels and ratio, as nested dicts of arrays and numbers."""
        fixed = self.fixed_.estimator if self.estimator is None else None
        return state_to_plain(self.state_, fixed)

    def state_from_plain(self, plain: dict[str, Any], ratio: RatioEstimator) -> None:
        """Restore the state that ``state_to_plain`` returned; a user's estimator is refitted with its last weights."""
        self.erm_ = self._make_erm(self.classes_[self.labels_])
        estimator = fixed = None
        if self.estimator is None:
            estimator, fixed = predictors_from_plain(plain, self.classes_)
        else:
            with one_blas_thread():
                estimator = self.erm_.fit(plain["fitted_weights"], None)
        self.fixed_ = FixedModel(self.erm_, self.base_weight_, self.labels_, fixed)
        self.rules_ = self._make_rules(ratio)
        self.state_ = under_guard(state_from_plain(plain, ratio, estimator), self.rules_.guard)

    def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any:
        if self.estimator is None:
            return read_rows(self, X, reset=reset, min_rows=min_rows)
        rows = read_frame(self, X, reset=reset, min_rows=min_rows)
        # Rows that the ratio could not learn from are not predicted either.
        is_plain = isinstance(getattr(self.ratio, "feature_map", "standardize"), str)
        if is_plain and isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            require_finite(rows, X)
        return rows
