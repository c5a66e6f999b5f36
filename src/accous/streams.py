"""Streams whose drift is known: how the mixture moves, and data drawn from it.

A simulated stream mixes two parts: ``D_t = (1 - alpha_t) D' + alpha_t D''``. A `Shift` defines how ``alpha_t`` moves
over the rounds. A stream turns it into a labelled reference and labelled batches; the labels of the batches are for
scoring only. `GaussianStream` draws from four Gaussians, `MixtureStream` from any two pools of rows.
`GaussianRegressionStream` has numbers to predict in place of classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, ndtr

from accous.exceptions import DataError, ParameterError
from accous.text import require_integer, require_number_in

__all__ = [
    "Batch",
    "BernoulliShift",
    "ConstantShift",
    "GaussianRegressionStream",
    "GaussianStream",
    "LinearShift",
    "MixtureStream",
    "Shift",
    "SineShift",
    "SquareShift",
]


# --- How the weight alpha_t of the second part D'' moves over the rounds


Seed = int | np.random.SeedSequence | np.random.Generator | None


@dataclass(frozen=True)
class Shift(ABC):
    """Base of all shifts: a rule for the weight of ``D''`` in each round."""

    def alphas(self, n_rounds: int, random_state: Seed = None) -> NDArray[np.float64]:
        """Return ``alpha_1 .. alpha_T``, the weight of ``D''`` in each round.

        Parameters
        ----------
        n_rounds : int
            The number of rounds, T.
        random_state : None, int, SeedSequence or Generator, default=None
            The seed. Only random shifts use it. None gives different numbers in every call.

        Returns
        -------
        ndarray of shape (n_rounds,)
            Numbers in [0, 1]; entry ``t - 1`` belongs to round ``t``.
        """
        require_integer("n_rounds", n_rounds, at_least=1)
        try:
            generator = np.random.default_rng(random_state)
        except (TypeError, ValueError) as error:
            raise ParameterError(
                "random_state must be None, a non-negative integer, or a numpy SeedSequence or Generator, "
                f"got {random_state!r}."
            ) from error
        return self._alphas(np.arange(1, int(n_rounds) + 1), generator)

    @abstractmethod
    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        """Return alpha for ``rounds = 1 .. T``; the arguments have been checked."""


@dataclass(frozen=True)
class ConstantShift(Shift):
    """No drift: ``alpha_t = alpha`` in every round. For stationary streams; not in the paper.

    Parameters
    ----------
    alpha : float
        The weight of ``D''``, in [0, 1].

    Examples
    --------
    >>> ConstantShift(0.25).alphas(3)
    array([0.25, 0.25, 0.25])
    """

    alpha: float

    def __post_init__(self) -> None:
        require_number_in("alpha", self.alpha, 0, 1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        return np.full(len(rounds), float(self.alpha))


@dataclass(frozen=True, kw_only=True)
class LinearShift(Shift):
    """A gradual move, the paper's ``Lin``: ``alpha_t = t / T``, or ``1 - t / T`` when reversed.

    The paper's appendix has t / T (the stream goes from ``D'`` to ``D''``), its main text 1 -> 0.

    Parameters
    ----------
    reverse : bool, default=False
        Go from ``D''`` to ``D'`` instead.

    Examples
    --------
    >>> LinearShift().alphas(4)
    array([0.25, 0.5 , 0.75, 1.  ])
    >>> LinearShift(reverse=True).alphas(4)
    array([0.75, 0.5 , 0.25, 0.  ])
    """

    reverse: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.reverse, bool | np.bool_):
            raise ParameterError(f"reverse must be True or False, got {self.reverse!r}.")

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        # Departs from the paper: its text and appendix disagree on the direction, so you can choose it here.
        forward: NDArray[np.float64] = rounds / len(rounds)
        return 1.0 - forward if self.reverse else forward


@dataclass(frozen=True)
class _PeriodicShift(Shift):
    period: int | None = None

    def __post_init__(self) -> None:
        if self.period is not None:
            require_integer("period", self.period, at_least=1)

    def _period_in(self, rounds: NDArray[np.int64]) -> int:
        return self.period or max(1, round(math.sqrt(len(rounds))))


class SquareShift(_PeriodicShift):
    """Sudden periodic switches, the paper's ``Squ``: ``alpha_t = 1 - (floor((t - 1) / M) mod 2)``.

    It starts at 1 and switches between 1 and 0 every M rounds. As in the paper's appendix, M is *half* the cycle
    of the wave, which repeats after 2 M rounds.

    Parameters
    ----------
    period : int, optional
        M, the rounds between two switches. None is ``max(1, round(sqrt(T)))``, one reading of the paper's
        ``Theta(sqrt(T))``.

    Examples
    --------
    >>> SquareShift(period=2).alphas(6)
    array([1., 1., 0., 0., 1., 1.])
    """

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        n_switches = (rounds - 1) // self._period_in(rounds)
        return (1 - n_switches % 2).astype(np.float64)


class SineShift(_PeriodicShift):
    """Smooth periodic waves, the paper's ``Sin``: ``alpha_t = sin(pi (t mod M) / M)``.

    The formula is that of the paper's appendix. The waves are half sines, so that alpha stays in [0, 1] and M
    is the whole cycle (in `SquareShift` it is half of one).

    Parameters
    ----------
    period : int, optional
        M, the rounds from one zero to the next. None is ``max(1, round(sqrt(T)))``, one reading of the
        paper's ``Theta(sqrt(T))``. With M = 1 alpha is always 0.

    Examples
    --------
    >>> SineShift(period=2).alphas(4)
    array([1., 0., 1., 0.])
    """

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        period = self._period_in(rounds)
        waves: NDArray[np.float64] = np.sin(np.pi * (rounds % period) / period)
        return waves


@dataclass(frozen=True)
class BernoulliShift(Shift):
    """Sudden switches at random times, the paper's ``Ber``.

    ``alpha_1 = 1``; then, in each round, ``alpha_t = 1 - alpha_{t-1}`` with probability ``flip`` and
    ``alpha_t = alpha_{t-1}`` otherwise. A segment lasts ``1 / flip`` rounds on average.

    Parameters
    ----------
    flip : float, optional
        The probability of a switch in each round, in [0, 1]. None is ``1 / sqrt(T)``.

    Notes
    -----
    The paper's appendix *keeps* alpha with probability ``Theta(1 / sqrt(T))``, which would switch in nearly
    every round. Its main text says that alpha *flips* with a certain probability. Here ``1 / sqrt(T)`` is the
    probability of a flip.

    Examples
    --------
    >>> BernoulliShift(flip=1.0).alphas(4)
    array([1., 0., 1., 0.])
    >>> BernoulliShift(flip=0.3).alphas(8, random_state=0)
    array([1., 0., 1., 0., 0., 0., 0., 0.])
    """

    flip: float | None = None

    def __post_init__(self) -> None:
        if self.flip is not None:
            require_number_in("flip", self.flip, 0, 1)

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.float64]:
        # Departs from the paper: 1 / sqrt(T) is the probability of flipping, not of keeping; see the notes above.
        flip = 1 / math.sqrt(len(rounds)) if self.flip is None else self.flip
        is_flipped = generator.random(len(rounds)) < flip
        is_flipped[0] = False
        return (1 - np.cumsum(is_flipped) % 2).astype(np.float64)


# --- What all streams share: the batch, the checked weights of the second part, and the risk of a mixture


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """The rows that arrive in one round. The labels and alpha are for scoring only.

    Attributes
    ----------
    X : ndarray of shape (batch_size, n_features)
        The rows.
    y : ndarray of shape (batch_size,)
        Their labels.
    alpha : float
        The weight of ``D''`` in this round; NaN if it is unknown.
    round : int
        The round, from 1.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    alpha: float
    round: int


class ShiftedStream(ABC):
    """Rounds whose rows follow a shift. Each purpose has a generator of its own, named by a key."""

    shift: Shift
    n_rounds: int
    batch_size: int
    random_state: int | None

    def check_rounds(self) -> None:
        """Check what all streams have."""
        if not isinstance(self.shift, Shift):
            raise ParameterError(f"shift must be a Shift such as LinearShift(), got {self.shift!r}.")
        require_integer("n_rounds", self.n_rounds, at_least=1)
        require_integer("batch_size", self.batch_size, at_least=1)
        if self.random_state is not None:
            require_integer("random_state", self.random_state, at_least=0)
        if self.alphas.shape != (self.n_rounds,) or not np.all((self.alphas >= 0) & (self.alphas <= 1)):
            raise ParameterError("shift must give one alpha in [0, 1] for each of the n_rounds rounds.")

    def __len__(self) -> int:
        return int(self.n_rounds)

    @cached_property
    def alphas(self) -> NDArray[np.float64]:
        """Alpha of each round, the weight of ``D''``: a read-only array of shape (n_rounds,)."""
        alphas = np.array(self.shift.alphas(self.n_rounds, self.generator(0)), dtype=np.float64)
        alphas.setflags(write=False)
        return alphas

    @cached_property
    def _entropy(self) -> Any:
        return np.random.SeedSequence(self.random_state).entropy

    def generator(self, *key: int) -> np.random.Generator:
        """Return a fresh generator: key 0 is for the alphas, the others are for rows and labels."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=key))


def mix_risks(risks: tuple[float, float], alpha: float | NDArray[np.float64]) -> Any:
    """Return the risk under ``D_alpha``, given those under ``D'`` and ``D''``: a float, or one entry per alpha."""
    weights = np.asarray(alpha, dtype=np.float64)
    if not np.all((weights >= 0) & (weights <= 1)):
        raise ParameterError(f"alpha must be in [0, 1], got {alpha!r}.")
    risk = (1 - weights) * risks[0] + weights * risks[1]
    return risk if weights.ndim else float(risk)


# --- Read the weights and the intercept of a linear model, also of a wrapped one such as a pipeline


FloatArray = NDArray[np.float64]

PROBE_SCALE = 3.0  # about where the Gaussians have their mass
PROBE_TOLERANCE = 1e-5  # relative to the largest score; single-precision models pass


def linear_scores(model: Any, means: FloatArray) -> tuple[FloatArray, float]:
    """Return ``w`` and ``b`` of a model whose score is ``w . x + b``."""
    if isinstance(model, tuple) and len(model) == 2:
        raw_coef, raw_intercept = model
    elif hasattr(model, "coef_") and hasattr(model, "intercept_"):
        raw_coef, raw_intercept = model.coef_, model.intercept_
    elif hasattr(model, "decision_function"):
        affine = _affine_part(model.decision_function, means)
        if affine is None:
            raise DataError("risk needs a linear model: the decision function is not affine in x.")
        raw_coef, raw_intercept = affine
    else:
        found = type(model).__name__
        raise DataError(f"risk needs a linear model: {found} has no coefficients and no decision function.")
    return _checked(raw_coef, raw_intercept, means)


def linear_predictions(model: Any, means: FloatArray) -> tuple[FloatArray, float] | None:
    """Return ``w`` and ``b`` of a regression that predicts ``w . x + b``; None if its predictions are not affine in x.

    Coefficients are believed only of a model without ``predict``: some regressions predict a function of the score.
    """
    if hasattr(model, "predict"):
        affine = _affine_part(model.predict, means)
        return None if affine is None else _checked(*affine, means)
    return linear_scores(model, means)


def _checked(raw_coef: Any, raw_intercept: Any, means: FloatArray) -> tuple[FloatArray, float]:
    coef = np.ravel(np.asarray(raw_coef, dtype=np.float64))
    intercept = np.ravel(np.asarray(raw_intercept, dtype=np.float64))
    if coef.size != means.shape[1] or intercept.size != 1:
        found = f"{coef.size} coefficients and {intercept.size} intercepts"
        raise DataError(f"risk needs a linear model: one score on {means.shape[1]} features, got {found}.")
    if not np.all(np.isfinite([*coef, *intercept])):
        raise DataError("risk needs a linear model: its coefficients must be finite.")
    return coef, float(intercept[0])


def _affine_part(scorer: Callable[[FloatArray], Any], means: FloatArray) -> tuple[FloatArray, float] | None:
    """Recover ``w`` and ``b`` from scores on the axes; None if they are wrong on rows like those of the stream."""
    d = means.shape[1]
    axes = PROBE_SCALE * np.eye(d)
    probes = np.tile(means, (8, 1)) + np.random.default_rng(0).standard_normal((32, d))
    rows = np.vstack([np.zeros((1, d)), axes, -axes, probes, 2 * probes])
    scores = np.asarray(scorer(rows), dtype=np.float64)
    if scores.shape == (len(rows), 1):
        scores = scores[:, 0]
    if scores.shape != (len(rows),):
        raise DataError(f"risk needs a linear model: one score per row, got scores of shape {scores.shape}.")
    intercept = float(scores[0])
    coef = (scores[1 : d + 1] - scores[d + 1 : 2 * d + 1]) / (2 * PROBE_SCALE)
    largest_miss = np.abs(rows @ coef + intercept - scores).max()
    is_affine = largest_miss <= PROBE_TOLERANCE * np.abs(scores).max()
    return (coef, intercept) if is_affine else None


# --- A synthetic stream of four Gaussians, where the true ratio and a linear model's risk are known exactly


IntArray = NDArray[np.int64]

GEOMETRIES = ("reconstructed", "published")
ROWS_DRAWN_AHEAD = 256  # only speed depends on it
LARGEST_COORDINATE = 1e150  # keeps the log densities of any finite row finite


@dataclass(frozen=True, eq=False)
class _GaussianRows(ShiftedStream):
    """Rows of four Gaussians, two in each part."""

    shift: Shift
    _: KW_ONLY
    n_features: int = 12
    n_reference: int = 1000
    n_rounds: int = 10_000
    batch_size: int = 1
    alpha_0: float = 0.9
    random_state: int | None = 0

    def __post_init__(self) -> None:
        require_integer("n_features", self.n_features, at_least=self._fewest_features)
        require_integer("n_reference", self.n_reference, at_least=1)
        require_number_in("alpha_0", self.alpha_0, 0, 1)
        self.check_rounds()

    @property
    def _fewest_features(self) -> int:
        return 2

    @property
    def _directions(self) -> FloatArray:
        """The unit vectors from the negative to the positive class of ``D'`` and of ``D''``."""
        return _turned_directions(int(self.n_features), 75.0)

    @abstractmethod
    def component_risks(self, model: Any) -> tuple[float, float]:
        """Compute the exact risks of a model under ``D'`` and under ``D''``."""

    def _draw_reference(self) -> tuple[FloatArray, IntArray]:
        alpha_of_row = np.full(self.n_reference, float(self.alpha_0))
        return self._rows(alpha_of_row, choices=self.generator(1, 0), noise=self.generator(1, 1))

    def _batches(self, key: int) -> Iterator[Batch]:
        choices, noise = self.generator(key, 0), self.generator(key, 1)
        size = int(self.batch_size)
        rounds_ahead = max(1, ROWS_DRAWN_AHEAD // size)
        for first in range(0, len(self), rounds_ahead):
            alphas = self.alphas[first : first + rounds_ahead]
            X, y = self._rows(np.repeat(alphas, size), choices=choices, noise=noise)
            for i, alpha in enumerate(alphas.tolist()):
                rows = slice(i * size, (i + 1) * size)
                yield Batch(X[rows], y[rows], alpha, first + i + 1)

    def true_ratio(self, X: ArrayLike, alpha: float) -> FloatArray:
        """Compute the exact ratio ``D_alpha(x) / D_{alpha_0}(x)``, batch over reference, of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Finite rows.
        alpha : float
            The weight of ``D''``, in [0, 1].

        Returns
        -------
        ndarray of shape (n_rows,)
            The ratios. For ``0 < alpha_0 < 1`` they are finite, between ``(1 - alpha) / (1 - alpha_0)`` and
            ``alpha / alpha_0``. If ``alpha_0`` is 0 or 1, they may be inf where the reference has no mass.
        """
        require_number_in("alpha", alpha, 0, 1)
        return _ratio_of_odds(self._log_odds(finite_rows(X, self.n_features)), alpha, self.alpha_0)

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Compute the exact ratio of every reference row.

        Parameters
        ----------
        alpha : float
            The weight of ``D''``, in [0, 1].
        """
        require_number_in("alpha", alpha, 0, 1)
        return _ratio_of_odds(self._reference_log_odds, alpha, self.alpha_0)

    @overload
    def risk(self, model: Any, alpha: float) -> float: ...
    @overload
    def risk(self, model: Any, alpha: FloatArray) -> FloatArray: ...
    def risk(self, model: Any, alpha: float | FloatArray) -> float | FloatArray:
        """Compute the risk of a model under ``D_alpha``; ``component_risks`` says of which models.

        Parameters
        ----------
        model : object
        alpha : float or ndarray
            The weight of ``D''``, in [0, 1]. An array gives one risk per entry.

        Returns
        -------
        float or ndarray
            ``(1 - alpha) risk under D' + alpha risk under D''``.
        """
        return mix_risks(self.component_risks(model), alpha)

    @cached_property
    def _reference_log_odds(self) -> FloatArray:
        return self._log_odds(self._draw_reference()[0])

    @cached_property
    def means(self) -> FloatArray:
        """The means of ``D'`` negative, ``D'`` positive, ``D''`` negative, ``D''`` positive."""
        halves = 0.2 * np.sqrt(int(self.n_features)) * self._directions
        return np.stack([-1 - halves[0], -1 + halves[0], 1 - halves[1], 1 + halves[1]])

    def _rows(
        self, alpha_of_row: FloatArray, *, choices: np.random.Generator, noise: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """Draw one row per alpha. One generator per kind of draw: bits do not depend on the block size."""
        uniforms = choices.random((len(alpha_of_row), 2))
        is_second = uniforms[:, 0] < alpha_of_row
        y = (uniforms[:, 1] < 0.5).astype(np.int64)
        X = self.means[2 * is_second + y] + noise.standard_normal((len(y), int(self.n_features)))
        return X, y

    def _log_odds(self, X: FloatArray) -> FloatArray:
        """Compute ``log D''(x) / D'(x)``, leaving out what the four densities have in common."""
        # Rows far out are moved inwards along their ray, to where the odds have long reached their limit.
        X = X / np.maximum(1.0, np.abs(X).max(axis=1, keepdims=True) / LARGEST_COORDINATE)
        logs = X @ self.means.T - 0.5 * (self.means**2).sum(axis=1)
        odds: FloatArray = np.logaddexp(logs[:, 2], logs[:, 3]) - np.logaddexp(logs[:, 0], logs[:, 1])
        return odds


@dataclass(frozen=True, eq=False)
class GaussianStream(_GaussianRows):
    """The paper's synthetic data: ``D_t = (1 - alpha_t) D' + alpha_t D''``, two Gaussian classes per part.

    All four Gaussians have unit covariance and both classes are equally likely. The reference has
    ``alpha_0`` in place of ``alpha_t``. Iterating yields the batches of all rounds, the same bits every time.

    Parameters
    ----------
    shift : Shift
        How alpha, the weight of ``D''``, moves.
    geometry : {"reconstructed", "published"}, default="reconstructed"
        Where the class means are; see the notes.
    angle : float, default=75.0
        Degrees between the class directions of ``D'`` and ``D''``, in [0, 180]; "published" does not use it.
    n_features : int, default=12
        The number of features d: at least 2 for "reconstructed", at least 1 for "published".
    n_reference : int, default=1000
        Rows in the reference.
    n_rounds : int, default=10000
        Rounds in the stream.
    batch_size : int, default=1
        Rows in each batch.
    alpha_0 : float, default=0.9
        The weight of ``D''`` in the reference, in [0, 1].
    random_state : int or None, default=0
        The seed. None draws one at construction. Reference, alphas and batches have independent generators, so
        ``n_rounds`` and ``batch_size`` do not change the reference.

    Notes
    -----
    ``"published"`` follows the paper's appendix, "Datasets": in every coordinate ``D'`` has its positive class
    at -1.2 and its negative class at -0.8, ``D''`` at +1.2 and +0.8. With these means, every fixed linear model
    is wrong on at least 37.2 % of the rows under `LinearShift`, while the paper reports 32.9 %.

    ``"reconstructed"`` reproduces the paper's pattern of numbers. It keeps the centres of ``D'`` and ``D''``
    (-1 and +1 in every coordinate) and the distance ``0.4 sqrt(d)`` between the class means. The class
    directions have ``angle`` degrees between them and are orthogonal to the line between the centres. In two
    dimensions only one direction is orthogonal to that line; there the class directions lie at ``-angle / 2``
    and ``+angle / 2`` around it.

    Covariate shift requires the same ``P(y | x)`` in all rounds. Here this holds where one part far outweighs
    the other, and only approximately in between. The centres are ``2 sqrt(d)`` apart, so a share of about
    ``Phi(-sqrt(d))`` of each part lies on the other's side: 0.03 % for d = 12, but 8 % for d = 2.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.streams import GaussianStream, LinearShift
    >>> stream = GaussianStream(LinearShift(), n_rounds=4, batch_size=2)
    >>> X_reference, y_reference = stream.reference()
    >>> X_reference.shape
    (1000, 12)
    >>> [(batch.round, batch.alpha, batch.X.shape) for batch in stream][:2]
    [(1, 0.25, (2, 12)), (2, 0.5, (2, 12))]
    >>> always_positive = (np.zeros(12), 1.0)
    >>> stream.risk(always_positive, alpha=0.25)
    0.5
    """

    _: KW_ONLY
    geometry: str = "reconstructed"
    angle: float = 75.0

    def __post_init__(self) -> None:
        if self.geometry not in GEOMETRIES:
            raise ParameterError(f"geometry must be one of {', '.join(GEOMETRIES)}, got {self.geometry!r}.")
        require_number_in("angle", self.angle, 0, 180)
        super().__post_init__()

    @property
    def _fewest_features(self) -> int:
        return 2 if self.geometry == "reconstructed" else 1

    @property
    def _directions(self) -> FloatArray:
        d = int(self.n_features)
        if self.geometry == "published":
            return np.array([np.full(d, -1 / np.sqrt(d)), np.full(d, 1 / np.sqrt(d))])
        return _turned_directions(d, self.angle)

    def reference(self) -> tuple[FloatArray, IntArray]:
        """Draw the labelled reference, the same in every call.

        Returns
        -------
        X : ndarray of shape (n_reference, n_features)
            The rows.
        y : ndarray of shape (n_reference,)
            Their labels, 0 or 1.
        """
        return self._draw_reference()

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(2)

    def fresh_batches(self) -> Iterator[Batch]:
        """Yield other rows of the same rounds, independent of the stream and of the reference."""
        return self._batches(6)

    def component_risks(self, model: Any) -> tuple[float, float]:
        """Compute the exact error rates of a linear model under ``D'`` and under ``D''``.

        Under a Gaussian the score ``w . x + b`` is normal with mean ``w . mu + b`` and standard deviation
        ``|w|``, so each of the four error rates is a value of the normal cdf.

        Parameters
        ----------
        model : object with coef_ and intercept_, tuple (coef, intercept), or object with decision_function
            A binary classifier that is affine in x; a positive score means class 1. The coefficients are
            recovered from a decision function, for example of a pipeline that scales first. A decision function
            that is not affine raises an error.

        Returns
        -------
        tuple of float
            The risk under ``D'`` and the risk under ``D''``.
        """
        coef, intercept = linear_scores(model, self.means)
        largest = np.abs(coef).max()
        if largest == 0:  # one class for every row, and a score of 0 is class 0
            margins = np.full(4, np.inf if intercept > 0 else -np.inf)
        else:
            coef, intercept = coef / largest, intercept / largest
            margins = (self.means @ coef + intercept) / np.linalg.norm(coef)
        errors = ndtr(margins * np.array([1, -1, 1, -1]))
        return float(errors[:2].mean()), float(errors[2:].mean())


def _turned_directions(d: int, angle: float) -> FloatArray:
    """Return two unit vectors with this angle between them, orthogonal to the line between the centres if d > 2."""
    turns = np.deg2rad(angle) * np.array([[-0.5], [0.5]])
    directions: FloatArray
    if d == 2:
        across, along = np.array([1.0, -1.0]) / np.sqrt(2), np.array([1.0, 1.0]) / np.sqrt(2)
        directions = np.cos(turns) * across + np.sin(turns) * along
        return directions
    # Sampled cosines sum to zero, so they are orthogonal to all ones; their phases are the angles between them.
    directions = np.sqrt(2 / d) * np.cos(2 * np.pi * np.arange(d) / d - turns)
    return directions


def _ratio_of_odds(log_odds: FloatArray, alpha: float, alpha_0: float) -> FloatArray:
    with np.errstate(over="ignore"):
        ratio: FloatArray = np.exp(_log_mixture(log_odds, alpha) - _log_mixture(log_odds, alpha_0))
    return ratio


def _log_mixture(log_odds: FloatArray, alpha: float) -> FloatArray:
    """Compute ``log D_alpha / (D' + D'')``."""
    with np.errstate(divide="ignore"):
        log_weights = np.log([1 - alpha, alpha])
    log_first, log_second = log_weights[0] + log_expit(-log_odds), log_weights[1] + log_expit(log_odds)
    mixture: FloatArray = np.logaddexp(log_first, log_second)
    return mixture


def finite_rows(X: ArrayLike, n_features: int) -> FloatArray:
    """Return rows as an array of finite numbers with so many columns."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise DataError(f"X must have shape (n_rows, {n_features}), got {rows.shape}.")
    if not np.all(np.isfinite(rows)):
        raise DataError("X must be finite.")
    return rows


# --- A synthetic stream of numbers to predict, where the true ratio and a linear model's risk are known exactly


SAMPLE_SIZE = 20_000  # rows of each part, on which models that are not linear are measured


@dataclass(frozen=True, eq=False)
class GaussianRegressionStream(_GaussianRows):
    r"""The rows of `GaussianStream` with a number to predict, whose relation to the rows never changes.

    .. math:: y = u(x) + \big(1 - \mathrm{bend} \, (1 - u(x))\big) \, v \cdot x + \mathrm{noise} \cdot \varepsilon

    Here u is the mean of the coordinates, which is about -1 in ``D'`` and +1 in ``D''``, v is a unit vector across the
    line between the two, and epsilon is standard normal. The slope along v is therefore about 1 in ``D''`` and about
    ``1 - 2 bend`` in ``D'``. Unlike the classes of `GaussianStream`, P(y | x) is exactly the same in all rounds.

    With ``bend=0`` the target is linear. One linear model is then right everywhere, and weights only cost rows. With
    the default the target is close to linear in each part, but no linear model fits both. Ridge regression on the
    reference, 90 % of which is ``D''``, has a squared error of 2.1 in ``D'``, and with the true ratio as weights it has
    1.2 (means of five seeds). The variance of the noise is 1.

    Parameters
    ----------
    shift : Shift
        How alpha, the weight of ``D''``, moves.
    bend : float, default=0.5
        How far the target is from linear, in [0, 1].
    noise : float, default=1.0
        Standard deviation of the noise, in [0, 1e6].
    n_features, n_reference, n_rounds, batch_size, alpha_0, random_state
        As in `GaussianStream`; at least 2 features. The rows are the same as there.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.streams import GaussianRegressionStream, LinearShift
    >>> stream = GaussianRegressionStream(LinearShift(), n_rounds=4, batch_size=2)
    >>> X, y = stream.reference()
    >>> X.shape, y.shape
    ((1000, 12), (1000,))
    >>> [(batch.round, batch.alpha, batch.y.shape) for batch in stream][:2]
    [(1, 0.25, (2,)), (2, 0.5, (2,))]
    >>> always_zero = (np.zeros(12), 0.0)
    >>> round(stream.risk(always_zero, alpha=1.0), 3), round(stream.risk(always_zero, alpha=0.0), 3)
    (3.413, 2.11)
    """

    _: KW_ONLY
    bend: float = 0.5
    noise: float = 1.0

    def __post_init__(self) -> None:
        require_number_in("bend", self.bend, 0, 1)
        require_number_in("noise", self.noise, 0, 1e6)
        super().__post_init__()

    def reference(self) -> tuple[FloatArray, FloatArray]:
        """Draw the labelled reference, the same in every call.

        Returns
        -------
        X : ndarray of shape (n_reference, n_features)
            The rows.
        y : ndarray of shape (n_reference,)
            Their targets.
        """
        X, _ = self._draw_reference()
        return X, self._targets(X, self.generator(3))

    def __iter__(self) -> Iterator[Batch]:
        generator = self.generator(4)
        for batch in self._batches(2):
            yield Batch(batch.X, self._targets(batch.X, generator), batch.alpha, batch.round)

    def mean_target(self, X: ArrayLike) -> FloatArray:
        """Compute the target of each row without its noise, the best prediction there is.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        """
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"X must have shape (n_rows, {self.n_features}), got {rows.shape}.")
        u = rows.mean(axis=1)
        targets: FloatArray = u + (1.0 - self.bend * (1.0 - u)) * (rows @ self._across)
        return targets

    def component_risks(self, model: Any) -> tuple[float, float]:
        r"""Compute the mean squared errors of a model under ``D'`` and under ``D''``.

        The target without its noise is :math:`\beta \cdot x + x^\top Q x` with a symmetric Q. Under a Gaussian with
        mean mu and unit covariance, the error of the model :math:`w \cdot x + b` has the mean square

        .. math:: (\operatorname{tr} Q + c)^2 + 2 \operatorname{tr} Q^2 + |g|^2, \qquad
                  c = \mu^\top Q \mu + (\beta - w) \cdot \mu - b, \quad g = 2 Q \mu + \beta - w ,

        to which the noise adds its variance.

        Parameters
        ----------
        model : object with predict, object with coef_ and intercept_, or tuple (coef, intercept)
            If its predictions are affine in x, the error is exact. Otherwise it is the mean over 20,000 rows of each
            part, the same in every call, plus the variance of the noise.

        Returns
        -------
        tuple of float
            The risk under ``D'`` and the risk under ``D''``.
        """
        means = self.means
        linear = linear_predictions(model, means)
        if linear is None:
            errors = np.array([np.mean((model.predict(X) - targets) ** 2) for X, targets in self._sample])
        else:
            slopes, quadratic = self._coefficients
            gaps = slopes - linear[0]
            centres = np.einsum("mi,ij,mj->m", means, quadratic, means) + means @ gaps - linear[1]
            gradients = 2.0 * means @ quadratic + gaps
            squares = (np.trace(quadratic) + centres) ** 2 + np.square(gradients).sum(axis=1)
            errors = squares.reshape(2, 2).mean(axis=1) + 2.0 * np.square(quadratic).sum()
        first, second = (errors + self.noise**2).tolist()
        return first, second

    @cached_property
    def _across(self) -> FloatArray:
        """The unit vector v; sampled cosines sum to zero, so it is orthogonal to the line between the parts."""
        cosines = np.cos(2 * np.pi * np.arange(int(self.n_features)) / int(self.n_features))
        across: FloatArray = cosines / np.linalg.norm(cosines)
        return across

    @property
    def _coefficients(self) -> tuple[FloatArray, FloatArray]:
        """The slopes beta and the symmetric matrix Q."""
        average = np.full(int(self.n_features), 1.0 / self.n_features)
        product = 0.5 * self.bend * np.outer(average, self._across)
        return average + (1.0 - self.bend) * self._across, product + product.T

    @cached_property
    def _sample(self) -> list[tuple[FloatArray, FloatArray]]:
        """Rows of each part and their targets without noise."""
        generator = self.generator(5)
        noise = generator.standard_normal((2, SAMPLE_SIZE, int(self.n_features)))
        rows = np.repeat(self.means, SAMPLE_SIZE // 2, axis=0).reshape(noise.shape) + noise
        return [(X, self.mean_target(X)) for X in rows]

    def _targets(self, X: FloatArray, generator: np.random.Generator) -> FloatArray:
        return self.mean_target(X) + self.noise * generator.standard_normal(len(X))


# --- A stream that mixes two pools of real rows, where the true ratio follows from the mixture weights


BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MixtureStream(ShiftedStream):
    """Rows of two pools: ``D_t = (1 - alpha_t) D' + alpha_t D''``, where D' and D'' are uniform on the pools.

    Each pool is split at random: some rows go to the labelled reference, and the stream draws from the others, so that
    no row is in both. Iterating yields the batches of all rounds, the same bits every time.

    Parameters
    ----------
    pool_a, pool_b : tuple (X, y)
        Rows and labels of ``D'`` and of ``D''``.
    shift : Shift
        How alpha, the weight of ``D''``, moves.
    n_rounds : int
        Rounds in the stream.
    batch_size : int
        Rows in each batch.
    replace : bool, default=True
        Whether the stream may draw a row more than once. If not, a pool that is too small raises an error.
    n_reference : int, optional
        Rows in the reference. None takes as many as possible while leaving half of each pool to the stream.
    alpha_0 : float, default=0.9
        The weight of ``D''`` in the reference, in [0, 1], rounded to whole rows.
    random_state : int or None, default=0
        The seed.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.streams import MixtureStream, SquareShift
    >>> rng = np.random.default_rng(0)
    >>> cold, warm = (rng.normal(m, size=(100, 2)) for m in (-1.0, 1.0))
    >>> pools = (cold, cold[:, 0] > -1.0), (warm, warm[:, 0] > 1.0)
    >>> stream = MixtureStream(*pools, SquareShift(period=4), n_rounds=8, batch_size=5)
    >>> stream
    MixtureStream(pools of 100 and 100 rows, SquareShift(period=4), n_rounds=8, batch_size=5, replace=True,
        n_reference=55, alpha_0=0.9091, random_state=0)
    >>> np.unique(stream.reference_ratio(alpha=0.5).round(3))
    array([0.55, 5.5 ])
    """

    pool_a: tuple[ArrayLike, ArrayLike]
    pool_b: tuple[ArrayLike, ArrayLike]
    shift: Shift
    _: KW_ONLY
    n_rounds: int
    batch_size: int
    replace: bool = True
    n_reference: int | None = None
    alpha_0: float = 0.9
    random_state: int | None = 0
    _pools: tuple[tuple[NDArray[Any], NDArray[Any]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_rounds()
        require_number_in("alpha_0", self.alpha_0, 0, 1)
        if self.n_reference is not None:
            require_integer("n_reference", self.n_reference, at_least=2, or_else=" or None")
        pools = tuple(_read_pool(name, getattr(self, name)) for name in ("pool_a", "pool_b"))
        if pools[0][0].shape[1:] != pools[1][0].shape[1:]:
            raise DataError(f"Both pools must have the same columns, got {pools[0][0].shape} and {pools[1][0].shape}.")
        object.__setattr__(self, "_pools", pools)
        self._check_sizes()

    def __repr__(self) -> str:
        sizes = " and ".join(str(len(y)) for _, y in self._pools)
        return (
            f"MixtureStream(pools of {sizes} rows, {self.shift!r}, n_rounds={self.n_rounds}, "
            f"batch_size={self.batch_size}, replace={self.replace}, n_reference={sum(self._reference_counts)}, "
            f"alpha_0={self.reference_alpha:.4g}, random_state={self.random_state})"
        )

    @property
    def reference_alpha(self) -> float:
        """The share of ``D''`` in the reference: ``alpha_0`` in whole rows."""
        return self._reference_counts[1] / sum(self._reference_counts)

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labelled reference, the same in every call.

        Returns
        -------
        X : ndarray of shape (n_reference, n_features)
            The rows.
        y : ndarray of shape (n_reference,)
            Their labels.
        """
        is_second, indices = self._reference_rows
        return self._take(is_second, indices)

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(*self._stream_rows)

    def fresh_batches(self) -> Iterator[Batch]:
        """Yield other draws from the pools for the same rounds, with replacement and never from the reference."""
        return self._batches(*self._draw_rows(self.generator(3), is_replaced=True))

    def _batches(self, is_second: BoolArray, indices: IntArray) -> Iterator[Batch]:
        size = int(self.batch_size)
        for i, alpha in enumerate(self.alphas.tolist()):
            rows = slice(i * size, (i + 1) * size)
            yield Batch(*self._take(is_second[rows], indices[rows]), alpha, i + 1)

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every reference row: the factor by which the weight of its part has changed.

        Parameters
        ----------
        alpha : float
            The weight of ``D''``, in [0, 1].
        """
        require_number_in("alpha", alpha, 0, 1)
        alpha_0 = self.reference_alpha
        with np.errstate(divide="ignore", invalid="ignore"):  # a part that the reference has no row of
            ratios = np.divide([1.0 - alpha, alpha], [1.0 - alpha_0, alpha_0])
        return ratios[self._reference_rows[0].astype(np.int64)]

    def component_risks(self, model: Any) -> tuple[float, float]:
        """Return the error rates of a fitted classifier on all stream rows of each pool."""
        first, second = (
            float(np.mean((np.asarray(model.predict(X)) != y)[rows]))  # to predict all rows is faster than to copy some
            for (X, y), rows in zip(self._pools, self._stream_indices, strict=True)
        )
        return first, second

    def risk(self, model: Any, alpha: float) -> float:
        """Return the error rate of a fitted classifier under ``D_alpha``, over all stream rows of both pools."""
        require_number_in("alpha", alpha, 0, 1)
        first, second = self.component_risks(model)
        return (1.0 - alpha) * first + alpha * second

    @cached_property
    def _reference_counts(self) -> tuple[int, int]:
        """Number of reference rows from each pool."""
        shares = (1.0 - self.alpha_0, float(self.alpha_0))
        n_rows = self.n_reference
        if n_rows is None:
            halves = [len(y) // 2 for _, y in self._pools]
            n_rows = int(min(half / share for half, share in zip(halves, shares, strict=True) if share > 0.0))
        n_second = round(n_rows * shares[1])
        return n_rows - n_second, n_second

    @cached_property
    def _shuffled(self) -> tuple[IntArray, ...]:
        generator = self.generator(1)
        return tuple(generator.permutation(len(y)) for _, y in self._pools)

    @cached_property
    def _stream_indices(self) -> tuple[IntArray, ...]:
        """Rows of each pool that are left to the stream."""
        return tuple(rows[count:] for rows, count in zip(self._shuffled, self._reference_counts, strict=True))

    @cached_property
    def _reference_rows(self) -> tuple[BoolArray, IntArray]:
        """Pool and row of every reference row, in random order."""
        parts = [rows[:count] for rows, count in zip(self._shuffled, self._reference_counts, strict=True)]
        order = self.generator(1, 1).permutation(len(parts[0]) + len(parts[1]))
        return (np.arange(len(order)) >= len(parts[0]))[order], np.concatenate(parts)[order]

    @cached_property
    def _stream_rows(self) -> tuple[BoolArray, IntArray]:
        """Pool and row of every row of the stream."""
        return self._draw_rows(self.generator(2), is_replaced=self.replace)

    def _draw_rows(self, generator: np.random.Generator, *, is_replaced: bool) -> tuple[BoolArray, IntArray]:
        """Draw pool and row for every row of all batches."""
        uniforms = generator.random((int(self.n_rounds) * int(self.batch_size), 2))
        is_second = uniforms[:, 0] < np.repeat(self.alphas, int(self.batch_size))
        indices = np.empty(len(is_second), dtype=np.int64)
        for is_from_pool, rows in zip((~is_second, is_second), self._stream_indices, strict=True):
            n_drawn = int(np.count_nonzero(is_from_pool))
            if is_replaced:
                places = (uniforms[is_from_pool, 1] * len(rows)).astype(np.int64)
            else:
                places = np.arange(n_drawn)
            indices[is_from_pool] = rows[places]
        return is_second, indices

    def _take(self, is_second: BoolArray, indices: IntArray) -> tuple[NDArray[Any], NDArray[Any]]:
        (X_a, y_a), (X_b, y_b) = self._pools
        X = np.empty((len(indices), *X_a.shape[1:]), dtype=np.result_type(X_a, X_b))
        y = np.empty(len(indices), dtype=np.result_type(y_a, y_b))
        X[~is_second], X[is_second] = X_a[indices[~is_second]], X_b[indices[is_second]]
        y[~is_second], y[is_second] = y_a[indices[~is_second]], y_b[indices[is_second]]
        return X, y

    def _check_sizes(self) -> None:
        if min(self._reference_counts) < 0 or sum(self._reference_counts) < 2:
            raise DataError("The pools are too small for a reference of two rows: give larger ones.")
        uniforms = self.generator(2).random((int(self.n_rounds) * int(self.batch_size), 2))
        n_second = int(np.count_nonzero(uniforms[:, 0] < np.repeat(self.alphas, int(self.batch_size))))
        needs = (len(uniforms) - n_second, n_second)
        for name, (_, y), in_reference, needed in zip(
            ("pool_a", "pool_b"), self._pools, self._reference_counts, needs, strict=True
        ):
            wanted = in_reference + (1 if self.replace else max(needed, 1))
            if wanted > len(y):
                raise DataError(
                    f"{name} has {len(y)} rows, but the reference takes {in_reference} and the stream needs "
                    f"{wanted - in_reference} more: lower n_reference, n_rounds or batch_size"
                    + ("." if self.replace else ", or set replace=True.")
                )


def _read_pool(name: str, pool: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    try:
        X, y = (np.asarray(part) for part in pool)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be a tuple (X, y) of rows and labels.") from error
    if X.ndim < 2 or y.ndim != 1 or len(X) != len(y) or len(y) == 0:
        raise DataError(
            f"{name} must be (X, y) with one label for each of one or more rows, got shapes {X.shape} and {y.shape}."
        )
    return X, y
