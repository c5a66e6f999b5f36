"""Online ratios by name: `OnlineDensityRatio`, `SingleLearnerRatio`, and `NoShift`, whose ratio is 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from accous.arrays import FloatArray, IntArray, from_plain
from accous.core.ensemble import (
    AnyStack,
    EnsembleSettings,
    EnsembleState,
    LearnerStack,
    MetaState,
    Reference,
    choose_rounds,
    start_learners,
)
from accous.ratio.base import AUTO_META_RANGE, AUTO_START, RatioEstimator
from accous.ratio.features import LARGEST_NORM
from accous.ratio.linear import PAPER_RADIUS, LinearRatio
from accous.ratio.pool import PooledRatio
from accous.text import require_choice, require_integer, require_power_of_two
from accous.validation import count_rows, read_frame, read_rows

# --- OnlineDensityRatio: the paper's online ensemble


@dataclass(eq=False, repr=False, kw_only=True)
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
    radius : float or "paper", optional
        S, the largest norm of theta. ``"paper"`` is d/2. None is d/2 for unscaled features and ``max(d/2, 10, z)`` for
        scaled ones. Here z is the score of ``max_ratio``: its logarithm for the logistic loss, ``max_ratio`` itself for
        the others. d counts the intercept.
    feature_bound : float or "largest", optional
        R; longer feature rows are shortened to it. None uses the 99 % quantile of the norms of the reference,
        ``"largest"`` their maximum, as in the paper.
    scale_features : bool, default=True
        Divide features by R, so that their norm is at most 1.
    fit_intercept : bool, default=True
        Append a constant 1 to the features.
    step_size : float or {"auto", "theory", "lemma"}, default="auto"
        gamma. ``"auto"`` is ``10 min(n_batch^(1/4), 2)`` for the logistic loss and a fifth of it for the two others;
        ``"theory"`` is the theorem's ``3 (1 + exp(S R))``, ``"lemma"`` the ``6 (1 + exp(S R))`` of its proof.
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

    __module__ = "accous"

    keeps_record = True

    min_interval: int = 4
    start: str = "auto"

    @classmethod
    def paper(
        cls,
        *,
        horizon: int,
        radius: float | None = None,
        step_size: float | str = "theory",
        ridge: float = 1.0,
        scale: bool = False,
    ) -> Self:
        """Return the paper's Algorithms 1 and 2 to the letter: no intercept, no pool, every learner starts at zero.

        R is the largest norm of the reference's rows as they are.

        Parameters
        ----------
        horizon : int
            T, the number of rounds.
        radius : float, optional
            S. None is d/2, as in the experiments.
        step_size : float or {"theory", "lemma"}, default="theory"
            gamma: a number, ``3 (1 + exp(S R))`` of the theorem, or ``6 (1 + exp(S R))`` of its lemmas. ``fit`` raises
            a `ParameterError` where that overflows.
        ridge : float, default=1.0
            lambda.
        scale : bool, default=False
            Divide the rows by R, so that their norm is at most 1 and R = 1; S stays the same.

        Examples
        --------
        >>> import numpy as np
        >>> from accous import OnlineDensityRatio
        >>> rng = np.random.default_rng(0)
        >>> ratio = OnlineDensityRatio.paper(horizon=100, scale=True).fit(rng.normal(size=(500, 2)))
        >>> ratio.radius_, round(ratio.step_size_, 3)  # S = d/2 and 3 (1 + e)
        (1.0, 11.155)
        """
        return cls(
            "identity",
            radius=PAPER_RADIUS if radius is None else radius,
            feature_bound=LARGEST_NORM,
            scale_features=scale,
            fit_intercept=False,
            step_size=step_size,
            ridge=ridge,
            horizon=horizon,
            start="zero",
            meta_range="paper",
            pool="none",
            metric="full",
        )

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

    def _take_state(self, plain: dict[str, Any]) -> None:
        learners, meta = from_plain(AnyStack, plain["learners"]), from_plain(MetaState, plain["meta"])
        self.state_ = from_plain(EnsembleState, plain | {"learners": learners, "meta": meta})


# --- SingleLearnerRatio: one Online Newton Step learner over all history, the paper's OLRE


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

    def run(self, state: SingleState, batch: FloatArray, step_size: float) -> SingleState:
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

    __module__ = "accous"

    def _start_learning(self, neutral: FloatArray) -> None:
        self.rounds_ = SingleRounds(self.gradient_reference_, self.radius_)
        learner = start_learners(1, neutral, float(self.ridge), self.metric_, int(self.metric_rank))
        self.state_ = SingleState(0, learner)

    def _take_state(self, plain: dict[str, Any]) -> None:
        self.state_ = SingleState(plain["n_rounds"], from_plain(AnyStack, plain["learner"]))


# --- NoShift: the ratio that is 1 everywhere, the paper's FIX


class NoShift(RatioEstimator):
    """Ratio 1 for every row: the baseline that never adapts ("FIX" in the paper's experiments).

    It checks width and column names like the other estimators. It does not read the values of a frame, so you can use
    it with any estimator, whatever the columns contain.

    Attributes
    ----------
    reference_ratio_ : array of ones of shape (n_reference,)
    n_rounds_ : int
        Number of rounds so far.
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import NoShift
    >>> NoShift().fit(np.zeros((5, 2))).predict_ratio(np.ones((3, 2)))
    array([1., 1., 1.])
    """

    __module__ = "accous"

    n_reference_: int
    n_rounds_: int

    @property
    def reference_ratio_(self) -> FloatArray:
        """Ones."""
        return np.ones(self.n_reference_)

    def _read(self, X: Any, *, reset: bool, min_rows: int) -> Any:
        read = read_frame if hasattr(X, "columns") else read_rows
        return read(self, X, reset=reset, min_rows=min_rows)

    def _start(self, X: Any) -> None:
        self.n_reference_ = count_rows(X)
        self.n_rounds_ = 0

    def _run_round(self, X: Any) -> None:
        self.n_rounds_ += 1

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return {"n_rounds": self.n_rounds_}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        self._start(X)
        self.n_rounds_ = plain["n_rounds"]

    def _ratio(self, X: Any) -> FloatArray:
        return np.ones(count_rows(X))
