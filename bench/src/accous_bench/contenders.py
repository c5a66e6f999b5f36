"""The contenders by name: the paper's eight, variants of them, later methods, bounds, and those that users register.

A factory makes a contender. It learns from ``fit(X, y)`` and ``adapt(X_batch)``, and predicts with ``predict(X)``. The
protocol of a run, the same for every contender, says when it sees a batch and what it is scored on:

==================  ====================================================================================================
``predict_first``   predict the batch, then learn from it: what a deployed model does
``fresh_rows``      learn from the batch, then predict other rows of the same distribution, which nobody has seen
``batch_first``     learn from the batch, then predict that batch: for users who can wait for a whole batch
==================  ====================================================================================================

Examples
--------
>>> from accous import AdaptiveClassifier, RULSIF
>>> from accous_bench.contenders import Contender, contender_names, make_contender, register, unregister
>>> make_contender("uLSIF", random_state=0)
AdaptiveClassifier(adaptation='always', random_state=0, ratio=ULSIF(random_state=0),
                   standardize=False)
>>> def comparable(seed):  # the settings of the built-in contenders, but for the ratio
...     ratio = RULSIF(random_state=seed)
...     return AdaptiveClassifier(ratio=ratio, standardize=False, adaptation="always", random_state=seed)
>>> register(Contender("RuLSIF", comparable))
>>> "RuLSIF" in contender_names()
True
>>> unregister("RuLSIF")
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from accous.arrays import FloatArray
from accous.diagnostics.losses import effective_sample_size
from accous.exceptions import DataError, ParameterError
from accous.model.estimators import AdaptiveClassifier
from accous.model.predictors import LinearPredictor, LogisticErm
from accous.ratio.base import RatioEstimator
from accous.ratio.features import LARGEST_NORM
from accous.ratio.one_step import KLIEP, KMM, ULSIF, LogisticRatio
from accous.ratio.online import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.streams import GaussianStream
from accous.text import did_you_mean
from accous_bench.dann import DANN
from accous_bench.label_shift import ATLAS, FLHFTL, FTH, ROGD, UOGD, KnownShares
from accous_bench.literature import LAME, T3A, DoubleWeighting, WindowRatio

__all__ = [
    "BATCH_FIRST", "DECISION", "ENSEMBLE", "FRESH_ROWS", "LIMIT", "ORACLE", "OURS", "PAPER_CONTENDERS",
    "PREDICT_FIRST", "PROTOCOLS", "SHARES", "TOLD", "UNWEIGHTED", "WINDOW", "AlphaFilter", "Contender",
    "DecidingLimit", "Limit", "NewtonStepRatio", "Oracle", "contender_names", "fit_on", "get_contender", "in_order",
    "make_contender", "register", "rounds", "unregister",
]  # fmt: skip

# --- two bounds, and the paper's LR ---


class Oracle:
    """A lower bound on the error: weighted ERM with the true ratio, which is unknown in practice.

    The built-in regression on the reference is weighted with the ratios that ``adapt_to`` receives.

    It is fitted when somebody asks for it: rounds that are not scored cost no fit.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in `AdaptiveClassifier`.

    Examples
    --------
    >>> from accous_bench.contenders import Oracle
    >>> from accous.streams import GaussianStream, LinearShift
    >>> stream = GaussianStream(LinearShift(), n_rounds=10)
    >>> oracle = Oracle().fit(*stream.reference())
    >>> before = stream.risk(oracle.estimator_, alpha=0.1)
    >>> oracle.adapt_to(stream.reference_ratio(alpha=0.1))
    >>> stream.risk(oracle.estimator_, alpha=0.1) < before
    True
    """

    erm_: LogisticErm
    weights_: NDArray[np.float64]
    _fitted: LinearPredictor | None
    _is_fitted_to_weights: bool

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def __repr__(self) -> str:
        return f"Oracle(C={self.C!r})"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on the unweighted reference."""
        self.classes_, labels = np.unique(y, return_inverse=True)
        self.erm_ = LogisticErm(np.ascontiguousarray(X, dtype=np.float64), labels, self.classes_, self.C)
        self.weights_ = np.ones(len(labels))
        self._fitted, self._is_fitted_to_weights = None, False
        return self

    def adapt_to(self, ratio: NDArray[np.float64]) -> None:
        """Take these ratios of the reference rows as weights; all are equal if none of the rows can occur."""
        mean = ratio.mean()
        weights = ratio / mean if mean > 0.0 else np.ones(len(ratio))
        if not np.array_equal(weights, self.weights_):
            self.weights_, self._is_fitted_to_weights = weights, False

    @property
    def estimator_(self) -> LinearPredictor:
        """The regression with the current weights."""
        if self._fitted is None or not self._is_fitted_to_weights:
            self._fitted = self.erm_.fit(self.weights_, self._fitted)
            self._is_fitted_to_weights = True
        return self._fitted

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        return np.asarray(self.estimator_.predict(X))

    @property
    def effective_sample_size_(self) -> float:
        """Effective number of rows under the true ratio."""
        return effective_sample_size(self.weights_)


N_ALPHAS = 101
DIFFUSIONS = (0.002, 0.006, 0.02, 0.06)
JUMPS = (0.0, 0.001, 0.01, 0.03)
SHARE = 0.001
_LEAST_PROBABILITY = 1e-100  # keeps the evidence of a kernel positive when the rows contradict it


class AlphaFilter:
    r"""A Bayes filter for the weight ``alpha_t`` of ``D_t = (1 - alpha_t) D' + alpha_t D''``, given both densities.

    On a grid of 101 values of alpha, each kernel k says how alpha moves from one round to the next. It diffuses with
    standard deviation :math:`\sigma_k`, or jumps anywhere with probability :math:`h_k`:

    .. math:: K_k = (1 - h_k) \exp\big(\tfrac{\sigma_k^2}{2 \delta^2} L\big) + h_k \, U

    Here :math:`\delta` is the step of the grid, L the second difference with reflecting ends, and U the matrix whose
    entries are all 1 / 101. After the rows :math:`x_1, \dots, x_n` of a round, with
    :math:`\ell(\alpha) = \prod_i \big[(1 - \alpha) D'(x_i) + \alpha D''(x_i)\big]`,

    .. math::
        e_k = \sum_\alpha p_k(\alpha) \ell(\alpha), \qquad
        p_k \leftarrow \frac{p_k \ell}{e_k} K_k, \qquad
        w_k \leftarrow (1 - s) \frac{w_k e_k}{\sum_j w_j e_j} + \frac{s}{16}

    with the share s = 0.001: the kernels are averaged by evidence, and none is ever out of the race. All start equal,
    with every alpha equally likely.

    Attributes
    ----------
    alphas : ndarray of shape (101,)
    probabilities : ndarray of shape (4, 4, 101)
        :math:`p_k`, the distribution of the next round's alpha under each diffusion and jump probability.
    weights : ndarray of shape (4, 4)
        :math:`w_k`, the weight of each diffusion and jump probability.

    Examples
    --------
    >>> import numpy as np
    >>> from accous_bench.contenders import AlphaFilter
    >>> tracker = AlphaFilter()
    >>> round(tracker.mean, 12)
    0.5
    >>> for _ in range(100):
    ...     tracker.learn(np.array([0.0]), np.array([1.0]))  # a row that only D'' can have drawn
    >>> tracker.mean > 0.97
    True
    """

    def __init__(self) -> None:
        self.alphas = np.linspace(0.0, 1.0, N_ALPHAS)
        self.probabilities = np.full((len(DIFFUSIONS), len(JUMPS), N_ALPHAS), 1.0 / N_ALPHAS)
        self.weights = np.full((len(DIFFUSIONS), len(JUMPS)), 1.0 / (len(DIFFUSIONS) * len(JUMPS)))
        self._diffusions = _diffusion_matrices()
        self._jumps = np.array(JUMPS)[:, None]

    @property
    def mean(self) -> float:
        """The expected alpha of the next round, given all rows so far."""
        return float(np.sum(self.weights * (self.probabilities @ self.alphas)))

    def learn(self, first: FloatArray, second: FloatArray) -> None:
        """Learn from the rows of a round.

        Parameters
        ----------
        first, second : ndarray of shape (n_rows,)
            Densities of the rows under ``D'`` and ``D''``. A factor that a row has in both does not matter.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(first[:, None] * (1.0 - self.alphas) + second[:, None] * self.alphas).sum(axis=0)
        joint = self.probabilities * np.exp(logs - logs.max())
        evidence = joint.sum(axis=2)
        weights = self.weights * evidence
        self.weights = (1.0 - SHARE) * weights / weights.sum() + SHARE / weights.size
        moved = (joint / evidence[:, :, None]) @ self._diffusions
        self.probabilities = np.maximum((1.0 - self._jumps) * moved + self._jumps / N_ALPHAS, _LEAST_PROBABILITY)


def _diffusion_matrices() -> FloatArray:
    """Return the matrix exponential for each diffusion; rows and columns of each matrix sum to 1."""
    second_difference = np.diag(np.full(N_ALPHAS - 1, 1.0), 1) + np.diag(np.full(N_ALPHAS - 1, 1.0), -1)
    second_difference -= np.diag(second_difference.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(second_difference)
    times = 0.5 * (np.array(DIFFUSIONS) * (N_ALPHAS - 1)) ** 2
    matrices: FloatArray = (vectors * np.exp(times[:, None, None] * eigenvalues)) @ vectors.T
    return np.maximum(matrices, 0.0)


class Limit(Oracle):
    """The limit of what past rows can tell: the oracle's regression, weighted at the mean alpha of a Bayes filter.

    The oracle knows the weight ``alpha_t`` of every round, which no method can learn from rows before the round. The
    limit knows everything else, the densities of both parts, and infers ``alpha_t``. The distance between the two is
    out of reach; the distance between the limit and a method is what better estimation could still gain.

    The ratio is linear in alpha, so this ratio is also the filter's mean ratio. The model of a round depends on the
    rows before that round only.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in `AdaptiveClassifier`.

    Examples
    --------
    >>> from accous_bench.contenders import Limit
    >>> from accous.streams import GaussianStream, SquareShift
    >>> stream = GaussianStream(SquareShift(period=50), n_rounds=100)
    >>> limit = Limit()
    >>> limit.know_parts(stream)
    >>> limit = limit.fit(*stream.reference())
    >>> before = stream.risk(limit.estimator_, alpha=0.0)
    >>> for batch in stream:
    ...     limit.adapt(batch.X)
    >>> stream.risk(limit.estimator_, alpha=0.0) < before
    True
    """

    filter_: AlphaFilter
    _stream: GaussianStream | None = None

    def __repr__(self) -> str:
        return f"Limit(C={self.C!r})"

    def know_parts(self, stream: Any) -> None:
        """Take the densities of both parts from the stream; call this before ``fit``.

        Raises
        ------
        DataError
            If the stream is not a `GaussianStream` whose reference has rows of both parts.
        """
        if not (isinstance(stream, GaussianStream) and 0.0 < stream.alpha_0 < 1.0):
            raise DataError(
                "The limit needs the densities of the two parts that a stream mixes. Only the Gaussian problems "
                "(gaussian, gaussian_published) have them: leave the limit out."
            )
        self._stream = stream

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on the reference; the filter has seen no rows yet."""
        stream = self._known_stream()
        super().fit(X, y)
        self.filter_ = AlphaFilter()
        self.adapt_to(stream.reference_ratio(self.filter_.mean))
        return self

    def adapt(self, X: Any) -> None:
        """Learn from a batch; the weights are for the next round."""
        stream = self._known_stream()
        # Densities divided by that of the reference.
        self.filter_.learn(stream.true_ratio(X, alpha=0.0), stream.true_ratio(X, alpha=1.0))
        self.adapt_to(stream.reference_ratio(self.filter_.mean))

    def _known_stream(self) -> GaussianStream:
        if self._stream is None:
            raise DataError("The limit does not know the parts yet: call know_parts(stream) before fit.")
        return self._stream


class DecidingLimit(Limit):
    """The best decision under the limit's knowledge: of fits at 21 alphas, the one with the least expected risk.

    A risk is linear in alpha, so its expectation is that at the filter's mean alpha. The limit fits at that mean, which
    is right where a mixture of ratios is the ratio of a mixture that one linear model can serve. Where the two parts
    contradict each other, as in the published geometry, a fit to one side has the lower risk.
    """

    def __repr__(self) -> str:
        return f"DecidingLimit(C={self.C!r})"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit at every alpha of the grid, and take the exact risks of the fits under both parts."""
        super().fit(X, y)
        stream = self._known_stream()
        self._fits: list[LinearPredictor] = []
        for alpha in np.linspace(0.0, 1.0, 21):
            ratio = stream.reference_ratio(float(alpha))
            self._fits.append(self.erm_.fit(ratio / ratio.mean(), self._fits[-1] if self._fits else None))
        self._risks = np.array([stream.component_risks(fitted) for fitted in self._fits])
        return self

    @property
    def estimator_(self) -> LinearPredictor:
        """The fit with the least expected risk."""
        alpha = self.filter_.mean
        return self._fits[int(np.argmin(self._risks @ (1.0 - alpha, alpha)))]


class NewtonStepRatio(RatioEstimator):
    """One Online Newton Step from zero on one batch: a base learner that forgets after every round.

    The paper's ablation "LR" estimates the ratio of a round "by an ONS with a logistic regression model" and does not
    give the number of steps. `accous.LogisticRatio` goes to the optimum of the same loss with a penalty instead.

    Parameters
    ----------
    learner : SingleLearnerRatio, optional
        The learner that takes the step; None is one in its default configuration.

    Examples
    --------
    >>> import numpy as np
    >>> from accous_bench.contenders import NewtonStepRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = NewtonStepRatio().fit(rng.normal(size=(500, 1)))
    >>> first = ratio.partial_fit([[1.0]]).reference_ratio_
    >>> again = ratio.partial_fit([[-1.0]]).partial_fit([[1.0]]).reference_ratio_
    >>> bool((first == again).all())
    True
    """

    start_: SingleLearnerRatio
    learner_: SingleLearnerRatio
    n_rounds_: int

    def __init__(self, learner: SingleLearnerRatio | None = None) -> None:
        self.learner = learner

    @property
    def reference_ratio_(self) -> FloatArray:
        """Ratio of every reference row under the last batch; ones before the first."""
        return self.learner_.reference_ratio_

    def _start(self, X: Any) -> None:
        self.start_ = clone(self.learner or SingleLearnerRatio()).fit(X)
        self.learner_, self.n_rounds_ = self.start_, 0
        self.max_ratio = self.start_.max_ratio

    def _run_round(self, X: Any) -> None:
        # Learners replace what they know, so the one at the start stays as it is.
        self.learner_, self.n_rounds_ = copy(self.start_).partial_fit(X), self.n_rounds_ + 1

    def _ratio(self, X: Any) -> FloatArray:
        return self.learner_.predict_ratio(X)


# --- the registry ---


@dataclass(frozen=True)
class Contender:
    """A factory, with what a benchmark needs to know about it.

    Attributes
    ----------
    name : str
    make : callable
        Takes a seed, and the number of rounds if ``takes_horizon``, and returns a new classifier with ``fit``,
        ``adapt`` and ``predict``.
    is_told_ratio : bool, default=False
        Whether ``adapt_to`` passes it the true ratio of the reference rows instead of the batch. Such an entry is a
        bound, not a real contender.
    knows_parts : bool, default=False
        Whether ``know_parts`` passes it the stream before ``fit``, for the densities of the two parts. This is a bound
        too.
    forgets : bool, default=False
        Whether it keeps nothing from one round to the next. Such a contender may run a part of the rounds only.
    every : int, default=1
        Of the part of the rounds that contenders which forget run, it runs one round of so many, because it is slow.
    takes_horizon : bool, default=False
        Whether its settings depend on the number of rounds.
    has_risk : bool, default=True
        False if the prediction of a row depends on the rows beside it: such a contender has no risk on a distribution.
    """

    name: str
    make: Callable[..., Any]
    is_told_ratio: bool = False
    knows_parts: bool = False
    forgets: bool = False
    every: int = 1
    takes_horizon: bool = False
    has_risk: bool = True

    def __call__(self, random_state: Any = 0, horizon: int = 10_000) -> Any:
        """Return a new classifier, for a stream of so many rounds."""
        return self.make(random_state, horizon) if self.takes_horizon else self.make(random_state)


def _weighted_by(
    ratio: Callable[..., RatioEstimator], adaptation: str = "always", **parameters: Any
) -> Callable[[Any], AdaptiveClassifier]:
    """Return a factory for importance-weighted ERM with a ratio of this class; what is not given has its default.

    The methods from the literature run as published, without the safeguards of accous.
    """

    def make(random_state: Any) -> AdaptiveClassifier:
        takes_seed = "random_state" in ratio().get_params()
        fresh = ratio(random_state=random_state, **parameters) if takes_seed else ratio(**parameters)
        return AdaptiveClassifier(ratio=fresh, standardize=False, adaptation=adaptation, random_state=random_state)

    return make


PAPER_CONTENDERS = ("FIX", "DANN", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "Accous (paper)")
OURS, ENSEMBLE, UNWEIGHTED, WINDOW = "accous", "Accous (paper)", "FIX", "LR (window)"
LIMIT, DECISION, SHARES, ORACLE = TOLD = ("limit", "limit (decision)", "oracle (shares)", "oracle")
"""Bounds rather than contenders: they are told what no method can know."""
# A round without a ridge or with cross-validation takes 2 to 6 ms, several times as long as the others.
_SLOW = 5
# A base learner with the theorem's step, S = d/2, R the largest norm, no intercept and no scaling.
_LITERAL: dict[str, Any] = {
    "feature_map": "identity",
    "fit_intercept": False,
    "scale_features": False,
    "feature_bound": LARGEST_NORM,
    "step_size": "theory",
    "radius": "paper",
}


def _literal(_: Any, horizon: int, **parameters: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier.paper(horizon=horizon, **parameters)


def _for_label_shift(name: str, make: Callable[[int], Any]) -> Contender:
    return Contender(name, lambda _, horizon: make(horizon), takes_horizon=True)


# In the order of tables: the unweighted one first, each variant after its family, ours and the bounds last.
_BEFORE_OWN = (
    Contender(UNWEIGHTED, _weighted_by(NoShift)),
    Contender("DANN", lambda seed: DANN(random_state=seed), forgets=True),
    Contender("KMM", _weighted_by(KMM), forgets=True),
    Contender(
        "KMM (no ridge)",
        _weighted_by(KMM, ridge=0, mass_tolerance="literature", max_ratio=1000.0),
        forgets=True,
        every=_SLOW,
    ),
    # A guess at settings that the paper does not give: a width of 1 whatever the data, no ridge, a weak penalty.
    Contender("KMM (unit width)", _weighted_by(KMM, width=1.0, ridge=0, max_ratio=1000.0), forgets=True, every=_SLOW),
    Contender("KLIEP", _weighted_by(KLIEP), forgets=True),
    Contender("KLIEP (cv)", _weighted_by(KLIEP, width="cv"), forgets=True, every=_SLOW),
    Contender("KLIEP (unit width)", _weighted_by(KLIEP, width=1.0), forgets=True),
    Contender("uLSIF", _weighted_by(ULSIF), forgets=True),
    Contender("uLSIF (cv)", _weighted_by(ULSIF, width="cv", ridge="cv"), forgets=True, every=_SLOW),
    Contender("uLSIF (unit width)", _weighted_by(ULSIF, width=1.0), forgets=True),
    Contender("LR", _weighted_by(LogisticRatio), forgets=True),
    Contender("LR (Newton step)", _weighted_by(NewtonStepRatio), forgets=True),
    Contender("LR (literal)", _weighted_by(NewtonStepRatio, learner=SingleLearnerRatio(**_LITERAL)), forgets=True),
    Contender("LR (weak penalty)", _weighted_by(LogisticRatio, ridge=0.01), forgets=True),
    Contender(WINDOW, _weighted_by(WindowRatio)),
    Contender("double weighting", lambda _: DoubleWeighting(), forgets=True, every=_SLOW),
    Contender("T3A", lambda _: T3A()),
    Contender("LAME", lambda _: LAME(), forgets=True, has_risk=False),
    _for_label_shift("FTH", FTH),
    _for_label_shift("ROGD", ROGD),
    _for_label_shift("UOGD", UOGD),
    _for_label_shift("ATLAS", ATLAS),
    _for_label_shift("FLH-FTL", FLHFTL),
    Contender("OLRE (literal)", _weighted_by(SingleLearnerRatio, **_LITERAL)),
    Contender("OLRE", _weighted_by(SingleLearnerRatio)),
)
_AFTER_OWN = (
    Contender("Accous (literal)", _literal, takes_horizon=True),
    Contender("Accous (literal, scaled)", partial(_literal, scale=True), takes_horizon=True),
    # The paper's ensemble, with a step, radius and scaling that can be used (docs/paper_map.md).
    Contender(ENSEMBLE, _weighted_by(OnlineDensityRatio, pool="none")),
    Contender(OURS, _weighted_by(OnlineDensityRatio, "auto")),
    Contender(LIMIT, lambda _: Limit(), knows_parts=True),
    Contender(DECISION, lambda _: DecidingLimit(), knows_parts=True),
    Contender(SHARES, lambda _: KnownShares(), is_told_ratio=True),
    Contender(ORACLE, lambda _: Oracle(), is_told_ratio=True),
)
_CONTENDERS = {contender.name: contender for contender in (*_BEFORE_OWN, *_AFTER_OWN)}
_BUILT_IN = tuple(_CONTENDERS)


def in_order(names: Iterable[str]) -> list[str]:
    """Return contenders in the order of tables; those of users stand before ours, in order of appearance."""
    places = {contender.name: place for place, contender in enumerate(_BEFORE_OWN, start=-len(_BEFORE_OWN))}
    places |= {contender.name: place for place, contender in enumerate(_AFTER_OWN, start=1)}
    return sorted(names, key=lambda name: places.get(name, 0))


def contender_names() -> tuple[str, ...]:
    """Return all names in the order of tables."""
    return tuple(in_order(_CONTENDERS))


def get_contender(name: str) -> Contender:
    """Return the contender with this name."""
    if name not in _CONTENDERS:
        meant = did_you_mean(name, _CONTENDERS)
        raise ParameterError(
            f"There is no contender {name!r}{meant}: name one of {', '.join(_CONTENDERS)}, or register it."
        )
    return _CONTENDERS[name]


def make_contender(name: str, random_state: Any = 0, horizon: int = 10_000) -> Any:
    """Return a new classifier of the contender with this name, for a stream of so many rounds."""
    return get_contender(name)(random_state, horizon)


def register(contender: Contender) -> None:
    """Add your own contender; raise a ParameterError if the name is taken, or what it makes is not a contender."""
    if not isinstance(contender, Contender):
        raise ParameterError(f"register takes a Contender(name, make), got {contender!r}.")
    if contender.name in _CONTENDERS:
        raise ParameterError(f"A contender {contender.name!r} already exists: choose another name.")
    arguments = "seed, n_rounds" if contender.takes_horizon else "seed"
    try:
        model = contender(0)
    except TypeError as error:
        raise ParameterError(f"{contender.name!r} is called as make({arguments}), which failed: {error}.") from error
    needed = ("fit", "adapt_to" if contender.is_told_ratio else "adapt", "predict")
    if missing := [name for name in needed if not callable(getattr(model, name, None))]:
        raise ParameterError(f"{contender.name!r} makes a {type(model).__name__} without {' and '.join(missing)}.")
    _CONTENDERS[contender.name] = contender


def unregister(name: str) -> None:
    """Remove a registered contender; built-in ones cannot be removed."""
    if name in _BUILT_IN:
        raise ParameterError(f"{name!r} is built in and cannot be removed.")
    get_contender(name)
    del _CONTENDERS[name]


# --- protocols ---

PREDICT_FIRST, FRESH_ROWS, BATCH_FIRST = PROTOCOLS = ("predict_first", "fresh_rows", "batch_first")


def fit_on(stream: Any, contender: Contender, model: Any) -> None:
    """Fit the contender's model on the reference of the stream, after telling it what this contender may know."""
    if contender.knows_parts:
        model.know_parts(stream)
    model.fit(*stream.reference())


def rounds(
    contender: Contender,
    model: Any,
    stream: Any,
    protocol: str = PREDICT_FIRST,
    is_run: NDArray[np.bool_] | None = None,
) -> Iterator[Any]:
    """Yield, in each round, the rows to predict when it is time to predict them.

    The oracle is told the true ratio of the round before it predicts, under every protocol.

    Parameters
    ----------
    contender : Contender
    model : object
        A fitted model of the contender.
    stream : Stream
    protocol : str
    is_run : ndarray of bool, optional
        Which rounds to run; None runs all. Only for a contender that keeps nothing from one round to the next: it
        then learns only from the batches that these rounds need.
    """
    is_run = np.ones(len(stream), dtype=bool) if is_run is None else is_run
    learns_before = protocol != PREDICT_FIRST
    needs_batch = is_run if learns_before else np.append(is_run[1:], not contender.forgets)
    fresh = _fresh_batches(stream) if protocol == FRESH_ROWS else None
    for batch in stream:
        scored, place = batch if fresh is None else next(fresh), batch.round - 1
        learns = needs_batch[place] and not contender.is_told_ratio
        if contender.is_told_ratio and is_run[place]:
            model.adapt_to(_true_ratio(stream, batch.alpha))
        if learns and learns_before:
            model.adapt(batch.X)
        if is_run[place]:
            yield scored
        if learns and not learns_before:
            model.adapt(batch.X)


def _fresh_batches(stream: Any) -> Iterator[Any]:
    if not hasattr(stream, "fresh_batches"):
        raise DataError(
            "Nobody can draw other rows of a round of this stream: use the protocol predict_first or batch_first."
        )
    return iter(stream.fresh_batches())


def _true_ratio(stream: Any, alpha: float) -> FloatArray:
    if not hasattr(stream, "reference_ratio") or np.isnan(alpha):
        raise DataError("The true ratio of this stream is not known: leave the oracle out.")
    ratio: FloatArray = stream.reference_ratio(alpha)
    return ratio
