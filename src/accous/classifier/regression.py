"""AdaptiveRegressor: a predictor of numbers that follows drift by importance-weighted empirical risk minimisation."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin

from accous.arrays import FloatArray
from accous.classifier.adaptive import AdaptiveModel
from accous.classifier.number_task import NumberTask
from accous.classifier.numbers import read_targets
from accous.classifier.predicting_intervals import PredictingIntervals
from accous.classifier.ridge_erm import RidgeRecipe
from accous.diagnostics.losses import read_loss

__all__ = ["AdaptiveRegressor"]


class AdaptiveRegressor(AdaptiveModel, PredictingIntervals, RegressorMixin, BaseEstimator):
    r"""A regressor that adapts to drifting inputs without labels.

    It has the life of `accous.AdaptiveClassifier`, with numbers in the place of classes: you fit it once on a labelled
    reference and call ``adapt`` with each unlabelled batch. After every batch the predictor minimises the
    importance-weighted risk over the reference rows,

    .. math:: \sum_{i \in S_0} w_{t,i} \, (y_i - f(x_i))^2 + \text{penalty}, \qquad w_{t,i} \propto \hat r_t(x_i),

    where the weights come from an online estimate of the density ratio. The weights have mean 1, so alpha keeps its
    meaning.

    Parameters
    ----------
    estimator : regressor, optional
        Any scikit-learn regressor whose ``fit`` takes ``sample_weight``, or a pipeline that ends in one. It receives
        data frames unconverted. None uses a built-in ridge regression, with the same optimum as
        ``make_pipeline(StandardScaler(), Ridge(alpha=alpha))``.
    ratio : ratio estimator, optional
        None uses ``OnlineDensityRatio()``.
    alpha : float, default=1.0
        Penalty of the built-in regression, at most 1e100. Do not set it together with ``estimator``.
    standardize : bool, default=True
        Whether the penalty of the built-in regression acts on standardised columns: mean 0 and deviation 1 in the
        reference with its base weights, and constant columns unscaled. Ignored if you pass an ``estimator``.
    loss : {"absolute", "squared", "pinball(q)"}, default="absolute"
        By which predictions are judged: the loss that ``risk_`` estimates, that ``measured_`` measures, and by which
        the adapted predictor is compared with the fixed one. The built-in regression minimises squares with any loss.
        The mean of absolute errors is estimated best, because single large errors count little. Use the pinball loss of
        a quantile q, such as ``"pinball(0.9)"``, if your ``estimator`` predicts that quantile.
    refit, refit_budget, fallback, caution, random_state
        As in `accous.AdaptiveClassifier`. What counts as points there are shares of four times the loss of the fixed
        model on the reference here, so that one point is 4 % of that loss; see docs/trust.md.

    Attributes
    ----------
    targets_ : array of shape (n_reference,)
        The numbers of the reference.
    risk_ : RiskEstimate
        Label-free estimate of the current mean loss, with an interval, and that of the fixed model, which never adapts.
    risk_estimate_ : float
        The estimate alone. NaN with fewer than two reference rows, or fewer than five if you pass an ``estimator``.
    trust_, measured_, backtest_, coverage_, regimes_, drift_events_, history_, reference_weight_, ratio_, estimator_
        As in `accous.AdaptiveClassifier`, with mean losses in the place of errors.

    Examples
    --------
    >>> from accous import AdaptiveRegressor
    >>> from accous.streams import GaussianRegressionStream, SquareShift
    >>> stream = GaussianRegressionStream(SquareShift(period=50), n_rounds=100, batch_size=5)
    >>> model = AdaptiveRegressor().fit(*stream.reference())
    >>> for batch in stream:
    ...     y_hat = model.predict(batch.X)
    ...     model = model.adapt(batch.X)
    >>> bool(stream.risk(model, alpha=0.0) < stream.risk(model.fixed_.estimator, alpha=0.0))
    True
    >>> model.predict_interval(batch.X).shape
    (5, 2)
    """

    penalty: ClassVar[str] = "alpha"
    _instead: ClassVar[dict[str, str]] = {"predict_set": "predict_interval, because numbers have no sets"}
    task_: NumberTask

    def __init__(
        self,
        estimator: Any = None,
        ratio: Any = None,
        *,
        alpha: float = 1.0,
        standardize: bool = True,
        loss: str = "absolute",
        refit: int | str = "auto",
        refit_budget: float | None = None,
        fallback: str = "auto",
        caution: str = "normal",
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.ratio = ratio
        self.alpha = alpha
        self.standardize = standardize
        self.loss = loss
        self.refit = refit
        self.refit_budget = refit_budget
        self.fallback = fallback
        self.caution = caution
        self.random_state = random_state

    @property
    def targets_(self) -> FloatArray:
        """The number of each reference row."""
        return self.task_.targets

    @staticmethod
    def can_learn(y: NDArray[Any]) -> bool:
        """Whether there are two rows."""
        return len(y) >= 2

    def _check_parameters(self) -> None:
        super()._check_parameters()
        read_loss(self.loss)

    def _read_task(self, y: Any, n_rows: int) -> NumberTask:
        return NumberTask(read_targets(y, n_rows, reader=type(self).__name__), read_loss(self.loss))

    def restore_task(self, stored: dict[str, NDArray[Any]]) -> None:
        """Take up the numbers from a file."""
        self.task_ = NumberTask(stored["targets"], read_loss(self.loss))

    def _own_recipe(self, scales: FloatArray | None) -> RidgeRecipe:
        return RidgeRecipe(float(self.alpha), scales)
