"""A realizable stream: one Gaussian whose mean moves, so that a log-linear model can represent the true ratio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from accous.exceptions import DataError, ParameterError
from accous.parameters import require_integer, require_number, require_number_in
from accous.streams.batch import Batch, check_alphas, draw_alphas
from accous.streams.shifts import Shift

__all__ = ["MovingGaussianStream"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MovingGaussianStream:
    r"""Reference from N(0, I), round t from N(mu_t, I) with :math:`\mu_t = \alpha_t \mu`.

    The ratio :math:`r_t(x) = \exp(\mu_t \cdot x - |\mu_t|^2 / 2)` is log-linear. The paper's theorems on dynamic
    regret therefore apply: they require that the model can represent the true ratio (section "Theoretical
    Guarantees"). The ratio of a mixture is not log-linear.

    Parameters
    ----------
    shift : Shift
        How alpha moves. Under `LinearShift` the length of the path, V_T, is the same for every number of rounds.
        Under `SquareShift` it grows like the square root of that number.
    distance : float, default=1.0
        The length of mu; all its coordinates are equal.
    n_features : int, default=4
    n_reference : int, default=10000
    n_rounds : int, default=1000
    batch_size : int, default=1
    random_state : int, default=0
        The seed. Reference, alphas and batches have independent generators.

    Examples
    --------
    >>> from accous.streams import LinearShift, MovingGaussianStream
    >>> stream = MovingGaussianStream(LinearShift(), n_features=2, n_rounds=4)
    >>> stream.true_ratio([[0.0, 0.0]], alpha=1.0).round(4)
    array([0.6065])
    """

    shift: Shift
    _: KW_ONLY
    distance: float = 1.0
    n_features: int = 4
    n_reference: int = 10_000
    n_rounds: int = 1000
    batch_size: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.shift, Shift):
            raise ParameterError(f"shift must be a Shift such as LinearShift(), got {self.shift!r}.")
        require_number("distance", self.distance)
        for name, least in (("n_features", 1), ("n_reference", 2), ("n_rounds", 1), ("batch_size", 1)):
            require_integer(name, getattr(self, name), at_least=least)
        require_integer("random_state", self.random_state, at_least=0)
        check_alphas(self.alphas, self.n_rounds)

    def __len__(self) -> int:
        return int(self.n_rounds)

    @cached_property
    def alphas(self) -> FloatArray:
        """How far along the path each round is: a read-only array of shape (n_rounds,)."""
        return draw_alphas(self.shift, self.n_rounds, self._generator(0))

    def reference(self) -> tuple[FloatArray, IntArray]:
        """Draw the labelled reference, the same in every call."""
        return self._rows(np.zeros(self.n_reference), self._generator(1))

    def fresh_reference_rows(self, n_rows: int) -> FloatArray:
        """Draw rows of the reference's distribution that are not the reference, the same in every call."""
        return self._rows(np.zeros(n_rows), self._generator(3))[0]

    def __iter__(self) -> Iterator[Batch]:
        generator = self._generator(2)
        for i, alpha in enumerate(self.alphas.tolist()):
            yield Batch(*self._rows(np.full(int(self.batch_size), alpha), generator), alpha, i + 1)

    def true_ratio(self, X: ArrayLike, alpha: float) -> FloatArray:
        """Compute the exact ratio, batch over reference, of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
        alpha : float
            How far along the path, in [0, 1].
        """
        require_number_in("alpha", alpha, 0, 1)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(f"X must have shape (n_rows, {self.n_features}), got {rows.shape}.")
        mean = alpha * self._mean
        ratio: FloatArray = np.exp(rows @ mean - 0.5 * mean @ mean)
        return ratio

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Compute the exact ratio of every reference row."""
        return self.true_ratio(self._reference_rows, alpha)

    @cached_property
    def _reference_rows(self) -> FloatArray:
        return self.reference()[0]

    @property
    def _mean(self) -> FloatArray:
        return np.full(int(self.n_features), float(self.distance) / np.sqrt(self.n_features))

    def _generator(self, key: int) -> np.random.Generator:
        """Return a fresh generator: key 0 for the alphas, 1 for the reference, 2 for the batches, 3 for fresh rows."""
        return np.random.default_rng(np.random.SeedSequence(int(self.random_state), spawn_key=(key,)))

    def _rows(self, alpha_of_row: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draw one row per alpha. In all rounds, label 1 is more likely the larger the first feature is."""
        X = generator.standard_normal((len(alpha_of_row), int(self.n_features))) + np.outer(alpha_of_row, self._mean)
        y = (generator.random(len(X)) < expit(2.0 * X[:, 0])).astype(np.int64)
        return X, y
