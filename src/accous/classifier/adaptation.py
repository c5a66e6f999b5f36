"""AdaptiveClassifier: a classifier that follows drift by importance-weighted empirical risk minimisation (ERM)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from accous.arrays import FloatArray, IntArray
from accous.classifier.adaptive import AdaptiveModel
from accous.classifier.class_task import ClassTask, read_class_task
from accous.classifier.erm import LogisticRecipe
from accous.classifier.predicting_classes import PredictingClasses
from accous.classifier.predicting_sets import PredictingSets

__all__ = ["AdaptiveClassifier"]


class AdaptiveClassifier(AdaptiveModel, PredictingClasses, PredictingSets, ClassifierMixin, BaseEstimator):
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
        Boosted trees (scikit-learn's histogram gradient boosting) keep their splits with ``"auto"``: a refit finds new
        values for their leaves, in milliseconds. With the other rules they are fitted anew.
    refit_budget : float, optional
        Largest share of the time that refits of an ``estimator`` may take with ``refit="auto"``, above 0 and at most 1;
        None sets no limit. ``fit`` measures once how many rounds a refit takes, and from then on so many rounds
        lie between refits (``rounds_between_refits_``, a power of two), whatever the clock says. Boosted trees need no
        limit: their refits take milliseconds.
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
        Why there is no backtest although there is an order in time, or was one; empty otherwise.
    measured_ : MeasuredError or None
        The error that labels passed to ``observe`` have measured, and whether it contradicts the estimate.
    drift_attribution_ : array of shape (n_features_in_,)
        Share of each input column in the log ratio of recent rounds; zeros while there is no shift.
    drift_events_ : tuple of DriftEvent
        The last hundred changes in the input distribution, and the last hundred onsets of new values in single columns.
    coverage_ : Coverage
        Whether the reference covers the last 500 rows: the share of rows outside it, how strong the drift is, and the
        columns with values that the reference does not have.
    latest_coverage_ : Coverage
        The same of the last 64 rows alone, without findings about columns.
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

    penalty: ClassVar[str] = "C"
    _instead: ClassVar[dict[str, str]] = {"predict_interval": "predict_set, because classes have no intervals"}
    task_: ClassTask

    def __init__(
        self,
        estimator: Any = None,
        ratio: Any = None,
        *,
        refit: int | str = "auto",
        refit_budget: float | None = None,
        C: float = 1.0,
        standardize: bool = True,
        fallback: str = "auto",
        caution: str = "normal",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.refit = refit
        self.refit_budget = refit_budget
        self.C = C
        self.standardize = standardize
        self.fallback = fallback
        self.caution = caution
        self.random_state = random_state

    @property
    def classes_(self) -> NDArray[Any]:  # type: ignore[override]
        """The classes, sorted."""
        return self.task_.classes

    @property
    def labels_(self) -> IntArray:
        """Class number of each reference row."""
        return self.task_.labels

    @staticmethod
    def can_learn(y: NDArray[Any]) -> bool:
        """Whether there are two classes."""
        return len(np.unique(y)) >= 2

    def _read_task(self, y: Any, n_rows: int) -> ClassTask:
        return read_class_task(y, n_rows, reader=type(self).__name__)

    def restore_task(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take up classes and class numbers from a file."""
        self.task_ = ClassTask(stored["classes"], stored["labels"])

    def _own_recipe(self, scales: FloatArray | None) -> LogisticRecipe:
        return LogisticRecipe(float(self.C), scales)
