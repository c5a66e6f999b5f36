"""A synthetic stream of four Gaussians, where the true ratio and a linear model's risk are known exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, ndtr

from accous.exceptions import DataError, ParameterError
from accous.parameters import require_integer, require_number_in
from accous.streams.batch import Batch, check_alphas, draw_alphas, mix_risks
from accous.streams.linear_models import linear_scores
from accous.streams.shifts import Shift

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

GEOMETRIES = ("reconstructed", "published")
ROWS_DRAWN_AHEAD = 256  # only speed depends on it
LARGEST_COORDINATE = 1e150  # keeps the log densities of any finite row finite


@dataclass(frozen=True, eq=False)
class GaussianStream:
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

    shift: Shift
    _: KW_ONLY
    geometry: str = "reconstructed"
    angle: float = 75.0
    n_features: int = 12
    n_reference: int = 1000
    n_rounds: int = 10_000
    batch_size: int = 1
    alpha_0: float = 0.9
    random_state: int | None = 0

    def __post_init__(self) -> None:
        if not isinstance(self.shift, Shift):
            raise ParameterError(f"shift must be a Shift such as LinearShift(), got {self.shift!r}.")
        if self.geometry not in GEOMETRIES:
            raise ParameterError(f"geometry must be one of {', '.join(GEOMETRIES)}, got {self.geometry!r}.")
        require_number_in("angle", self.angle, 0, 180)
        require_integer("n_features", self.n_features, at_least=2 if self.geometry == "reconstructed" else 1)
        require_integer("n_reference", self.n_reference, at_least=1)
        require_integer("n_rounds", self.n_rounds, at_least=1)
        require_integer("batch_size", self.batch_size, at_least=1)
        require_number_in("alpha_0", self.alpha_0, 0, 1)
        if self.random_state is not None:
            require_integer("random_state", self.random_state, at_least=0)
        check_alphas(self.alphas, self.n_rounds)

    @cached_property
    def alphas(self) -> FloatArray:
        """The weight of ``D''`` in each round: a read-only array of shape (n_rounds,)."""
        return draw_alphas(self.shift, self.n_rounds, self.generator(0))

    def reference(self) -> tuple[FloatArray, IntArray]:
        """Draw the labelled reference, the same in every call.

        Returns
        -------
        X : ndarray of shape (n_reference, n_features)
            The rows.
        y : ndarray of shape (n_reference,)
            Their labels, 0 or 1.
        """
        alpha_of_row = np.full(self.n_reference, float(self.alpha_0))
        return self._rows(alpha_of_row, choices=self.generator(1, 0), noise=self.generator(1, 1))

    def __len__(self) -> int:
        return int(self.n_rounds)

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(2)

    def fresh_batches(self) -> Iterator[Batch]:
        """Yield other rows of the same rounds, independent of the stream and of the reference."""
        return self._batches(6)

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
        return _ratio_of_odds(self._log_odds(_as_finite_rows(X, self.n_features)), alpha, self.alpha_0)

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
        """Compute the exact error rate of a linear model under ``D_alpha``.

        Parameters
        ----------
        model : object with coef_ and intercept_, tuple (coef, intercept), or object with decision_function
            A binary classifier that is affine in x; a positive score means class 1. The coefficients are
            recovered from a decision function, for example of a pipeline that scales first. A decision function
            that is not affine raises an error.
        alpha : float or ndarray
            The weight of ``D''``, in [0, 1]. An array gives one risk per entry.

        Returns
        -------
        float or ndarray
            ``(1 - alpha) risk under D' + alpha risk under D''``.
        """
        return mix_risks(self.component_risks(model), alpha)

    def component_risks(self, model: Any) -> tuple[float, float]:
        """Compute the exact error rates of a linear model under ``D'`` and under ``D''``.

        Under a Gaussian the score ``w . x + b`` is normal with mean ``w . mu + b`` and standard deviation
        ``|w|``, so each of the four error rates is a value of the normal cdf.

        Parameters
        ----------
        model : object with coef_ and intercept_, tuple (coef, intercept), or object with decision_function
            As in `risk`.

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

    @cached_property
    def _entropy(self) -> Any:
        return np.random.SeedSequence(self.random_state).entropy

    def generator(self, *spawn_key: int) -> np.random.Generator:
        """Return a fresh generator: keys 0, 1, 2 and 6 are for alphas, reference, batches, fresh batches."""
        return np.random.default_rng(np.random.SeedSequence(self._entropy, spawn_key=spawn_key))

    @cached_property
    def _reference_log_odds(self) -> FloatArray:
        return self._log_odds(self.reference()[0])

    @cached_property
    def means(self) -> FloatArray:
        """The means of ``D'`` negative, ``D'`` positive, ``D''`` negative, ``D''`` positive."""
        d = int(self.n_features)
        directions = _class_directions(self.geometry, d, float(np.deg2rad(self.angle)))
        halves = 0.2 * np.sqrt(d) * directions
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


def _class_directions(geometry: str, d: int, angle: float) -> FloatArray:
    """Return the unit vectors from the negative to the positive class of ``D'`` and of ``D''``."""
    if geometry == "published":
        return np.array([np.full(d, -1 / np.sqrt(d)), np.full(d, 1 / np.sqrt(d))])
    turns = np.array([[-angle / 2], [angle / 2]])
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


def _as_finite_rows(X: ArrayLike, n_features: int) -> FloatArray:
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n_features:
        raise DataError(f"X must have shape (n_rows, {n_features}), got {rows.shape}.")
    if not np.all(np.isfinite(rows)):
        raise DataError("X must be finite.")
    return rows
