"""OnlineDensityRatio: the paper's online ensemble."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from accous.arrays import FloatArray, IntArray, from_plain
from accous.core import UNCUT
from accous.core.ensemble import AnyStack, EnsembleSettings, EnsembleState, MetaState, PaperRounds, choose_rounds
from accous.parameters import require_choice, require_integer, require_power_of_two
from accous.ratio.defaults import AUTO_META_RANGE, AUTO_START
from accous.ratio.pooled import PooledRatio

__all__ = ["OnlineDensityRatio"]


class OnlineDensityRatio(PooledRatio):
    r"""Time-varying density ratio of an unlabelled stream to a reference (Algorithms 1 and 2 of the paper).

    After round t the estimate is

    .. math:: \hat r_{t+1}(x) = \exp\big(-\phi(x)^\top \hat\theta_{t+1}\big), \qquad
        \hat\theta_{t+1} = \sum_i p_{t+1,i}\, \hat\theta_{t+1,i},

    where each learner i runs Online Newton Steps on one interval of a geometric cover of time, and the meta weights p
    come from Adapt-ML-Prod. About :math:`\log_2 t` learners are active in round t, so memory hardly grows with the
    number of rounds.

    Parameters
    ----------
    feature_map : {"auto", "identity", "standardize", "rbf"} or transformer, default="auto"
        Map before the linear model, fitted on the reference. ``"auto"`` is ``"standardize"`` up to 256 columns. Beyond
        that it also divides rows by sqrt(columns / 12), so that they are as long as rows of a dozen columns and the
        intercept of 1 keeps its weight. It does not divide without an intercept, for unscaled features, or with a
        ``feature_bound``. ``"rbf"`` uses up to 100 Nystroem features of a Gaussian kernel on standardised columns, with
        the width from the median rule. A transformer is cloned, and it receives frames unconverted.
    loss : {"logistic", "least_squares", "kl"}, default="logistic"
        Bregman divergence. The last two model the ratio itself as linear and need the intercept.
    radius : float, optional
        S, the largest norm of theta. None uses d/2 for unscaled features, as in the paper, and ``max(d/2, 10, z)`` for
        scaled ones. Here z is the score of ``max_ratio``: its logarithm for the logistic loss, ``max_ratio`` itself for
        the others. d counts the intercept.
    feature_bound : float or "largest", optional
        R; longer feature rows are shortened to it. None uses the 99 % quantile of the norms of the reference,
        ``"largest"`` their maximum, as in the paper.
    scale_features : bool, default=True
        Divide features by R, so that their norm is at most 1.
    fit_intercept : bool, default=True
        Append a constant 1 to the features.
    step_size : float or {"auto", "theory"}, default="auto"
        gamma. ``"auto"`` is ``10 min(n_batch^(1/4), 2)`` for the logistic loss and a fifth of it for the two others;
        ``"theory"`` is the theorem's ``3 (1 + exp(S R))``.
    ridge : float, default=1.0
        lambda; the matrix of every learner starts as lambda times the identity.
    min_interval : int, default=4
        Length of the shortest interval, a power of two. In earlier rounds the ratio is 1.
    horizon : int, optional
        Number of rounds, if known. None works for streams of any length. A number reproduces the paper; rounds beyond
        it continue with the same constant.
    start : {"auto", "zero", "ensemble"}, default="auto"
        Where a new learner starts: at the neutral theta (``"zero"``), or at the weighted mean of the learners of the
        previous round (``"ensemble"``). ``"auto"`` is ``"zero"``, except when all learners restart together, as in
        every round that is a power of two: then they start at the weighted mean.
    meta_range : {"auto", "paper", "running"}, default="auto"
        Divisor of the meta-learner's margins: S R (``"paper"``), or the largest margin seen (``"running"``). ``"auto"``
        is ``"running"``.
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.
    pool : {"auto", "none"}, default="auto"
        What ``reference_ratio_`` and ``predict_ratio`` are: a mixture, by Bayes' rule, of ratio 1, powers of the
        ensemble's ratio cut at several heights, and ratios of earlier regimes (docs/pool.md), or with ``"none"`` the
        ensemble's ratio, as in the paper. ``"auto"`` is the mixture, except for settings of the paper: a ``horizon``,
        ``meta_range="paper"``, or unscaled features. ``coef_`` and the learners are the same either way.
    memory : int, default=4
        How many regimes the pool remembers; 0 for none.
    candidates : list, optional
        Ratios of your own that join the pool: ratio estimators, which are cloned, fitted on the reference and learn
        from every batch, and functions that return a ratio for each row. Pass ``fitted.predict_ratio`` for an estimator
        that is to stay as it is. Ratios are cut at ``max_ratio`` and divided by their mean over the reference.
    max_reference : int, optional
        Number of reference rows that the gradients of every round are summed over. If the reference is larger, a
        uniform sample is drawn once. The cost of a round is linear in this number. None uses all rows. Ratios are
        always computed for all rows.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the products over the reference for wide features (more than 95 columns). Narrower features always
        use double precision. Single precision halves time and memory; docs/performance.md shows the error.
    metric : {"auto", "full", "diagonal", "low_rank"}, default="auto"
        What each learner keeps of its matrix A: the whole matrix, its diagonal, or the ridge and the ``metric_rank``
        strongest directions of the gradients. ``"auto"`` is ``"full"`` up to 1024 features, not counting the intercept,
        and ``"low_rank"`` beyond. docs/performance.md shows the memory, speed and error of each.
    metric_rank : int, default=32
        k of ``"low_rank"``. A learner holds up to 2k rows of d numbers. It is exact in its first 2k rounds, and for
        gradients that span at most k directions.
    random_state : int, RandomState or None, default=None
        Seed of the ``"rbf"`` map and of the sample of ``max_reference`` rows; nothing else is random.

    Attributes
    ----------
    coef_ : array of shape (d,)
        The ensemble's theta of the mapped, bounded and possibly scaled features, for the next round.
    reference_ratio_ : array of shape (n_reference,)
        Current ratio of the reference rows.
    learner_lengths_, learner_weights_, learner_coefs_ : arrays
        Interval length (ascending), meta weight p and theta of each learner active in the next round.
    candidate_shares_ : array of shape (n_candidates,)
        Share of the pool that each of your ``candidates`` has.
    n_rounds_ : int
        Number of rounds so far.
    feature_bound_, radius_, step_size_ : float
        Resolved values of the parameters; the step size is that of the last round.
    metric_ : str
        Resolved value of ``metric``.
    n_out_of_bound_ : int
        Number of batch rows so far that were longer than ``feature_bound_``.
    n_gradient_rows_ : int
        Number of reference rows that gradients are summed over: all of them, or ``max_reference``.
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
        feature_bound: float | str | None = None,
        scale_features: bool = True,
        fit_intercept: bool = True,
        step_size: float | str = "auto",
        ridge: float = 1.0,
        min_interval: int = 4,
        horizon: int | None = None,
        start: str = "auto",
        meta_range: str = "auto",
        max_ratio: float = 100.0,
        pool: str = "auto",
        memory: int = 4,
        candidates: list[Any] | None = None,
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
        self.pool = pool
        self.memory = memory
        self.candidates = candidates
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

    def _uncut_ratios(self) -> FloatArray:
        if self.gradient_reference_ is not self.whole_reference_:
            return super()._uncut_ratios()
        return self.rounds_.reference_ratios(self.state_, UNCUT)

    def _current_ratios(self) -> FloatArray:
        if self.gradient_reference_ is not self.whole_reference_:
            return super()._current_ratios()
        return self.rounds_.reference_ratios(self.state_, float(self.max_ratio))

    def history_in_use(self, n_rounds: int) -> float:
        """Return the mean interval length of the learners, weighted by their meta weights."""
        state = self.state_
        return float(state.weights @ state.lengths)

    def learner_ratios(self) -> tuple[FloatArray, FloatArray]:
        """Return ratios of the reference from each learner, pooled as the ensemble's is, and the meta weights."""
        state = self.state_
        ratios = [self.pooled_like(self.ratios_at(coef)) for coef in state.learners.coefs]
        return np.reshape(ratios, (len(ratios), len(self.reference_features_))), state.weights.copy()

    def _take_state(self, plain: dict[str, Any]) -> None:
        learners, meta = from_plain(AnyStack, plain["learners"]), from_plain(MetaState, plain["meta"])
        self.state_ = from_plain(EnsembleState, plain | {"learners": learners, "meta": meta})
