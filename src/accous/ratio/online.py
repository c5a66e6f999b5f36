"""OnlineDensityRatio: the paper's online ensemble."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from accous.arrays import FloatArray, IntArray, from_plain
from accous.core.paper.ensemble import EnsembleSettings, EnsembleState, PaperRounds
from accous.core.rounds import AnyStack, choose_rounds
from accous.parameters import require_choice, require_integer, require_power_of_two
from accous.ratio.defaults import AUTO_META_RANGE, AUTO_START
from accous.ratio.linear import LinearRatio

__all__ = ["OnlineDensityRatio"]


class OnlineDensityRatio(LinearRatio):
    r"""Time-varying density ratio of an unlabelled stream to a reference set (Algorithms 1 and 2 of the paper).

    After round t the estimate is

    .. math:: \hat r_{t+1}(x) = \exp\big(-\phi(x)^\top \hat\theta_{t+1}\big), \qquad
        \hat\theta_{t+1} = \sum_i p_{t+1,i}\, \hat\theta_{t+1,i},

    where each learner i runs Online Newton Steps on one interval of a geometric cover of time and the weights p
    come from Adapt-ML-Prod. About :math:`\log_2 t` learners are alive in round t, so memory stays flat for ever.

    Parameters
    ----------
    feature_map : {"auto", "identity", "standardize", "rbf"} or transformer, default="auto"
        Map before the linear model, fitted on the reference. ``"auto"`` is ``"standardize"``, except that beyond 256
        columns rows are divided by sqrt(columns / 12) besides: as long as rows of a dozen columns, beside an intercept
        of 1 (not without the intercept, for unscaled features or with a ``feature_bound``). ``"rbf"`` is up to 100
        Nystroem features of a Gaussian kernel on standardised columns, its width by the median rule. A transformer is
        cloned, and frames reach it unconverted.
    loss : {"logistic", "least_squares", "kl"}, default="logistic"
        Bregman divergence. The last two model the ratio itself as linear and need the intercept.
    radius : float, optional
        S, the largest norm of theta. None: d/2 as in the paper for unscaled features; for scaled ones
        ``max(d/2, 10, z)``, z the score of ``max_ratio`` (its logarithm for the logistic loss, itself for the others).
        d counts the intercept.
    feature_bound : float, optional
        R; longer feature rows are brought back to it. None: the 99 % quantile of the reference's norms.
    scale_features : bool, default=True
        Divide features by R, so that they have norm at most 1.
    fit_intercept : bool, default=True
        Append a constant 1 to the features.
    step_size : float or {"auto", "theory"}, default="auto"
        gamma. ``"auto"`` is ``10 min(n_batch^(1/4), 2)`` for the logistic loss and a fifth of it for the two others;
        ``"theory"`` is the theorem's ``3 (1 + exp(S R))``.
    ridge : float, default=1.0
        lambda; every learner's matrix starts at lambda times the identity.
    min_interval : int, default=4
        Length of the shortest interval, a power of two. In rounds before it the ratio is 1.
    horizon : int, optional
        Number of rounds, where known. None runs for ever; a number reproduces the paper, and rounds beyond it
        go on with its constant.
    start : {"auto", "zero", "ensemble"}, default="auto"
        Where a new learner starts: the neutral theta, or the weighted mean of the learners of the round before.
        ``"auto"`` is ``"zero"``, except that the weighted mean is handed over when all learners restart together, as
        they do in every round that is a power of two.
    meta_range : {"auto", "paper", "running"}, default="auto"
        What the meta-learner's margins are divided by: S R, or the largest margin seen. ``"auto"`` is
        ``"running"``.
    max_ratio : float, default=100.0
        Ratios are cut here.
    max_reference : int, optional
        Rows of the reference that every round's gradients are summed over: a uniform sample drawn once, where the
        reference is larger. A round's cost is linear in it. None: all rows. Ratios are given for all rows in any case.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the products over the reference where features are wide (more than 95 columns); narrower ones are
        always double. Single precision halves their time and memory; docs/performance.md has the error.
    metric : {"auto", "full", "diagonal", "low_rank"}, default="auto"
        What each learner keeps of its matrix A: all of it, its diagonal, or the ridge and the ``metric_rank`` strongest
        directions of the gradients. ``"auto"`` is ``"full"`` up to 1024 features, the intercept not counted, and
        ``"low_rank"`` beyond. docs/performance.md has memory, speed and error of each.
    metric_rank : int, default=32
        k of ``"low_rank"``: a learner holds up to 2k rows of d numbers, and nothing is lost on gradients of at most k
        directions, or in its first 2k rounds.
    random_state : int, RandomState or None, default=None
        Seed of the ``"rbf"`` map and of the sample of ``max_reference`` rows; nothing else is random.

    Attributes
    ----------
    coef_ : array of shape (d,)
        theta of the mapped, bounded and possibly scaled features, for the round to come.
    reference_ratio_ : array of shape (n_reference,)
        Current ratio of the reference rows.
    learner_lengths_, learner_weights_, learner_coefs_ : arrays
        Interval length (ascending), meta weight p and theta of each learner active in the round to come.
    n_rounds_ : int
        Rounds played.
    feature_bound_, radius_, step_size_ : float
        What the parameters resolved to; the step is that of the last round.
    metric_ : str
        What ``metric`` resolved to.
    n_out_of_bound_ : int
        Batch rows so far that were longer than ``feature_bound_``.
    n_gradient_rows_ : int
        Reference rows that gradients are summed over: all of them, or ``max_reference``.
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import OnlineDensityRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = OnlineDensityRatio().fit(rng.normal(size=(500, 2)))
    >>> for _ in range(200):
    ...     ratio = ratio.partial_fit(rng.normal(loc=(1.0, 0.0), size=(5, 2)))
    >>> left, right = ratio.predict_ratio([[-1.0, 0.0], [1.0, 0.0]])
    >>> bool(left < 1.0 < right)
    True
    """

    keeps_record: ClassVar[bool] = True

    state_: EnsembleState
    rounds_: PaperRounds

    def __init__(
        self,
        feature_map: Any = "auto",
        *,
        loss: str = "logistic",
        radius: float | None = None,
        feature_bound: float | None = None,
        scale_features: bool = True,
        fit_intercept: bool = True,
        step_size: float | str = "auto",
        ridge: float = 1.0,
        min_interval: int = 4,
        horizon: int | None = None,
        start: str = "auto",
        meta_range: str = "auto",
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
        self.min_interval = min_interval
        self.horizon = horizon
        self.start = start
        self.meta_range = meta_range
        self.max_ratio = max_ratio
        self.max_reference = max_reference
        self.dtype = dtype
        self.metric = metric
        self.metric_rank = metric_rank
        self.random_state = random_state

    @property
    def learner_lengths_(self) -> IntArray:
        """Interval lengths of the active learners, ascending."""
        return self.state_.lengths.copy()

    @property
    def learner_weights_(self) -> FloatArray:
        """Meta weights of the active learners."""
        return self.state_.weights.copy()

    @property
    def learner_coefs_(self) -> FloatArray:
        """Theta of each active learner."""
        return self.state_.learners.coefs.copy()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_power_of_two("min_interval", self.min_interval)
        require_choice("start", self.start, ("auto", "zero", "ensemble"))
        require_choice("meta_range", self.meta_range, ("auto", "paper", "running"))
        if self.horizon is not None:
            require_integer("horizon", self.horizon, at_least=1, or_else=" or None")

    def _start_learning(self, neutral: FloatArray) -> None:
        meta_range = AUTO_META_RANGE if self.meta_range == "auto" else self.meta_range
        settings = EnsembleSettings(
            loss=self.loss_,
            neutral=neutral,
            radius=self.radius_,
            margin_bound=self.loss_.margin_bound(self.radius_, self.features_.norm_bound),
            has_running_range=meta_range == "running",
            ridge=float(self.ridge),
            min_interval=int(self.min_interval),
            horizon=None if self.horizon is None else int(self.horizon),
            start=AUTO_START if self.start == "auto" else self.start,
            metric=self.metric_,
            rank=int(self.metric_rank),
        )
        self.rounds_ = choose_rounds(settings, self.gradient_reference_)
        self.state_ = self.rounds_.start()

    def _current_ratios(self) -> FloatArray:
        if self.gradient_reference_ is not self.whole_reference_:
            return super()._current_ratios()
        return self.rounds_.reference_ratios(self.state_, float(self.max_ratio))

    def history_in_use(self, n_rounds: int) -> float:
        """Return the mean interval length of the learners, by their weights."""
        return float(self.state_.weights @ self.state_.lengths)

    def learner_ratios(self) -> tuple[FloatArray, FloatArray]:
        """Return ratios of the reference by each active learner, and the meta weights."""
        ratios = [self.ratios_at(coef) for coef in self.state_.learners.coefs]
        return np.reshape(ratios, (len(ratios), len(self.reference_features_))), self.learner_weights_

    def _take_state(self, plain: dict[str, Any]) -> None:
        learners = from_plain(AnyStack, plain["learners"])
        self.state_ = from_plain(EnsembleState, plain | {"learners": learners})
