"""Streams of the benchmark: one Gaussian that moves, and a table in order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from accous.arrays import FloatArray, IntArray
from accous.exceptions import DataError
from accous.streams import Batch, Shift, ShiftedStream, finite_rows
from accous.text import require_integer, require_number, require_number_in

# --- A realizable stream: one Gaussian whose mean moves, so that a log-linear model can represent the true
#     ratio


@dataclass(frozen=True, eq=False)
class MovingGaussianStream(ShiftedStream):
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
    random_state : int or None, default=0
        The seed. Reference, alphas and batches have independent generators.

    Examples
    --------
    >>> from accous.streams import LinearShift
    >>> from accous_bench.streams import MovingGaussianStream
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
    random_state: int | None = 0

    def __post_init__(self) -> None:
        require_number("distance", self.distance)
        require_integer("n_features", self.n_features, at_least=1)
        require_integer("n_reference", self.n_reference, at_least=2)
        self.check_rounds()

    def reference(self) -> tuple[FloatArray, IntArray]:
        """Draw the labelled reference, the same in every call."""
        return self._rows(np.zeros(self.n_reference), self.generator(1))

    def fresh_reference_rows(self, n_rows: int) -> FloatArray:
        """Draw rows of the reference's distribution that are not the reference, the same in every call."""
        return self._rows(np.zeros(n_rows), self.generator(3))[0]

    def __iter__(self) -> Iterator[Batch]:
        generator = self.generator(2)
        for i, alpha in enumerate(self.alphas.tolist()):
            yield Batch(*self._rows(np.full(int(self.batch_size), alpha), generator), alpha, i + 1)

    def true_ratio(self, X: ArrayLike, alpha: float) -> FloatArray:
        """Compute the exact ratio, batch over reference, of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Finite rows.
        alpha : float
            How far along the path, in [0, 1].
        """
        require_number_in("alpha", alpha, 0, 1)
        mean = alpha * self._mean
        ratio: FloatArray = np.exp(finite_rows(X, self.n_features) @ mean - 0.5 * mean @ mean)
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

    def _rows(self, alpha_of_row: FloatArray, generator: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draw one row per alpha. In all rounds, label 1 is more likely the larger the first feature is."""
        X = generator.standard_normal((len(alpha_of_row), int(self.n_features))) + np.outer(alpha_of_row, self._mean)
        y = (generator.random(len(X)) < expit(2.0 * X[:, 0])).astype(np.int64)
        return X, y


# --- A stream from a table whose rows are in time order: natural drift


@dataclass(frozen=True, eq=False)
class OrderedStream:
    """The rows of a table in their order: the first rows are the reference, the others arrive in rounds.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows, oldest first.
    y : ndarray of shape (n_rows,)
        Their labels.
    n_reference : int
        Rows in the reference.
    batch_size : int
        Rows in a round; the last may have fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from accous_bench.streams import OrderedStream
    >>> stream = OrderedStream(np.arange(6.0)[:, None], np.zeros(6), n_reference=3, batch_size=2)
    >>> [batch.X.ravel().tolist() for batch in stream]
    [[3.0, 4.0], [5.0]]
    """

    X: NDArray[Any]
    y: NDArray[Any]
    _: KW_ONLY
    n_reference: int
    batch_size: int

    def __post_init__(self) -> None:
        if self.X.ndim < 2 or self.y.shape != (len(self.X),):
            raise DataError(f"X and y must have one label for each row, got shapes {self.X.shape} and {self.y.shape}.")
        require_integer("n_reference", self.n_reference, at_least=2)
        require_integer("batch_size", self.batch_size, at_least=1)
        if self.n_reference >= len(self.y):
            raise DataError(f"The reference takes {self.n_reference} of {len(self.y)} rows and leaves no stream.")

    def __repr__(self) -> str:
        return (
            f"OrderedStream({len(self.y)} rows, n_reference={self.n_reference}, n_rounds={len(self)}, "
            f"batch_size={self.batch_size})"
        )

    def __len__(self) -> int:
        return len(range(self.n_reference, len(self.y), self.batch_size))

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first rows and their labels."""
        return self.X[: self.n_reference], self.y[: self.n_reference]

    def __iter__(self) -> Iterator[Batch]:
        for i, start in enumerate(range(self.n_reference, len(self.y), self.batch_size)):
            rows = slice(start, start + self.batch_size)
            yield Batch(self.X[rows], self.y[rows], float("nan"), i + 1)
