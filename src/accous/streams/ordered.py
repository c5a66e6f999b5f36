"""A stream from a table whose rows are in time order: natural drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.parameters import require_integer
from accous.streams.batch import Batch

__all__ = ["OrderedStream"]


@dataclass(frozen=True, eq=False)
class OrderedStream:
    """The rows of a table in their order: the first rows are the reference, the others arrive in rounds.

    A round ends after ``batch_size`` rows, and wherever ``groups`` changes.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows, oldest first.
    y : ndarray of shape (n_rows,)
        Their labels.
    n_reference : int, optional
        Rows in the reference. None takes the first group.
    batch_size : int, optional
        Largest number of rows in a round. None makes each group one round.
    groups : ndarray of shape (n_rows,), optional
        A column such as the month; a new round begins where it changes.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.streams import OrderedStream
    >>> months = np.array([1, 1, 1, 2, 2, 2, 3])
    >>> stream = OrderedStream(np.arange(7.0)[:, None], np.zeros(7), groups=months, batch_size=2)
    >>> [batch.X.ravel().tolist() for batch in stream]
    [[3.0, 4.0], [5.0], [6.0]]
    """

    X: NDArray[Any]
    y: NDArray[Any]
    _: KW_ONLY
    n_reference: int | None = None
    batch_size: int | None = None
    groups: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y", "groups"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else np.asarray(value))
        if self.X.ndim < 2 or self.y.shape != (len(self.X),):
            raise DataError(f"X and y must have one label for each row, got shapes {self.X.shape} and {self.y.shape}.")
        if self.groups is not None and self.groups.shape != self.y.shape:
            raise DataError(f"groups must have one entry for each of the {len(self.y)} rows, got {self.groups.shape}.")
        if self.groups is None and (self.n_reference is None or self.batch_size is None):
            raise ParameterError("Give n_reference and batch_size, or groups that say where a round begins.")
        if self.n_reference is not None:
            require_integer("n_reference", self.n_reference, at_least=2, or_else=" or None")
        if self.batch_size is not None:
            require_integer("batch_size", self.batch_size, at_least=1, or_else=" or None")
        if self._n_reference >= len(self.y):
            raise DataError(f"The reference takes {self._n_reference} of {len(self.y)} rows and leaves no stream.")

    def __repr__(self) -> str:
        return (
            f"OrderedStream({len(self.y)} rows, n_reference={self._n_reference}, n_rounds={len(self)}, "
            f"batch_size={self.batch_size})"
        )

    def __len__(self) -> int:
        return len(self._starts)

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the first rows and their labels."""
        return self.X[: self._n_reference], self.y[: self._n_reference]

    def __iter__(self) -> Iterator[Batch]:
        ends = [*self._starts[1:], len(self.y)]
        for i, (start, end) in enumerate(zip(self._starts, ends, strict=True)):
            yield Batch(self.X[start:end], self.y[start:end], float("nan"), i + 1)

    @cached_property
    def _changes(self) -> NDArray[np.int64]:
        """Rows whose group differs from that of the row before."""
        if self.groups is None:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.groups[1:] != self.groups[:-1]) + 1

    @property
    def _n_reference(self) -> int:
        if self.n_reference is not None:
            return int(self.n_reference)
        return int(self._changes[0]) if len(self._changes) else len(self.y)

    @cached_property
    def _starts(self) -> list[int]:
        """First row of every round."""
        first = self._n_reference
        edges = [first, *self._changes[self._changes > first].tolist(), len(self.y)]
        step = len(self.y) if self.batch_size is None else int(self.batch_size)
        return [start for low, high in pairwise(edges) for start in range(low, high, step)]
