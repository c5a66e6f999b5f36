"""A stream that mixes two pools of real rows, where the true ratio follows from the mixture weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accous.exceptions import DataError, ParameterError
from accous.parameters import require_integer, require_number_in
from accous.streams.batch import Batch, check_alphas, draw_alphas
from accous.streams.shifts import Shift

__all__ = ["MixtureStream"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class MixtureStream:
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
    random_state : int, default=0
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
    random_state: int = 0
    _pools: tuple[tuple[NDArray[Any], NDArray[Any]], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.shift, Shift):
            raise ParameterError(f"shift must be a Shift such as LinearShift(), got {self.shift!r}.")
        require_integer("n_rounds", self.n_rounds, at_least=1)
        require_integer("batch_size", self.batch_size, at_least=1)
        require_number_in("alpha_0", self.alpha_0, 0, 1)
        require_integer("random_state", self.random_state, at_least=0)
        if self.n_reference is not None:
            require_integer("n_reference", self.n_reference, at_least=2, or_else=" or None")
        pools = tuple(_read_pool(name, getattr(self, name)) for name in ("pool_a", "pool_b"))
        if pools[0][0].shape[1:] != pools[1][0].shape[1:]:
            raise DataError(f"Both pools must have the same columns, got {pools[0][0].shape} and {pools[1][0].shape}.")
        object.__setattr__(self, "_pools", pools)
        check_alphas(self.alphas, self.n_rounds)
        self._check_sizes()

    def __repr__(self) -> str:
        sizes = " and ".join(str(len(y)) for _, y in self._pools)
        return (
            f"MixtureStream(pools of {sizes} rows, {self.shift!r}, n_rounds={self.n_rounds}, "
            f"batch_size={self.batch_size}, replace={self.replace}, n_reference={sum(self._reference_counts)}, "
            f"alpha_0={self.reference_alpha:.4g}, random_state={self.random_state})"
        )

    def __len__(self) -> int:
        return int(self.n_rounds)

    @cached_property
    def alphas(self) -> FloatArray:
        """The weight of ``D''`` in each round: a read-only array of shape (n_rounds,)."""
        return draw_alphas(self.shift, self.n_rounds, self._generator(0))

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
        return self._batches(*self._draw_rows(self._generator(3), is_replaced=True))

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

    def _generator(self, *key: int) -> np.random.Generator:
        """Return a fresh generator: key 0 for the alphas, 1 for the reference, 2 for the batches, 3 for fresh ones."""
        return np.random.default_rng(np.random.SeedSequence(int(self.random_state), spawn_key=key))

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
        generator = self._generator(1)
        return tuple(generator.permutation(len(y)) for _, y in self._pools)

    @cached_property
    def _stream_indices(self) -> tuple[IntArray, ...]:
        """Rows of each pool that are left to the stream."""
        return tuple(rows[count:] for rows, count in zip(self._shuffled, self._reference_counts, strict=True))

    @cached_property
    def _reference_rows(self) -> tuple[BoolArray, IntArray]:
        """Pool and row of every reference row, in random order."""
        parts = [rows[:count] for rows, count in zip(self._shuffled, self._reference_counts, strict=True)]
        order = self._generator(1, 1).permutation(len(parts[0]) + len(parts[1]))
        return (np.arange(len(order)) >= len(parts[0]))[order], np.concatenate(parts)[order]

    @cached_property
    def _stream_rows(self) -> tuple[BoolArray, IntArray]:
        """Pool and row of every row of the stream."""
        return self._draw_rows(self._generator(2), is_replaced=self.replace)

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
        uniforms = self._generator(2).random((int(self.n_rounds) * int(self.batch_size), 2))
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
