"""Ratio models with Gaussian kernels, estimated from each batch on its own: what uLSIF, RuLSIF, KLIEP and KMM share."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from accous.arrays import FloatArray, IntArray, from_plain, to_plain
from accous.core.ratio_problems import (
    gaussian_basis,
    largest_exponents,
    median_distance,
    spread_indices,
    squared_distances,
    squared_norms,
)
from accous.exceptions import DataError
from accous.parameters import require_choice, require_integer, require_number
from accous.ratio.base import RatioEstimator
from accous.ratio.maps import RowMap, fit_map, map_from_plain, map_to_plain
from accous.threads import one_blas_thread

__all__ = ["CV_WIDTHS", "HeldOutLosses", "KernelBasis", "KernelRatio", "MixtureRatio", "MixtureState", "folds"]

# Multiples of the median rule's width that cross-validation tries; in a tie the first one wins.
CV_WIDTHS = (1.0, 2.0**0.5, 2.0**-0.5, 2.0, 0.5, 4.0, 0.25)

# Takes the indices of the kept rows of a batch, those of the held-out rows, and the widths; returns a loss per width.
HeldOutLosses = Callable[[IntArray, IntArray, tuple[float, ...]], FloatArray]

_MEDIAN_ROWS = 1000
_N_FOLDS = 5


class KernelRatio(RatioEstimator):
    """A ratio estimated from one batch and the reference, with Gaussian kernels on mapped rows."""

    feature_map: Any
    width: float | str
    max_centers: int
    max_ratio: float
    random_state: Any

    row_map_: RowMap
    direction_: FloatArray
    origin_: FloatArray
    rows_: FloatArray
    row_norms_: FloatArray
    median_width_: float
    n_rounds_: int
    state_: Any

    @abstractmethod
    def _forget(self) -> None:
        """Compute what depends only on the reference, and set the state before the first batch."""

    @abstractmethod
    def _estimate(self, batch: FloatArray) -> None:
        """Replace the state by the estimate from a batch of mapped, centred rows."""

    @abstractmethod
    def _evaluate(self, rows: FloatArray) -> FloatArray:
        """Return the ratio of mapped, centred rows under the current state."""

    @abstractmethod
    def _take_state(self, plain: dict[str, Any]) -> None:
        """Take over the estimate from a batch, as ``to_plain`` gave it."""

    def _start(self, X: Any) -> None:
        self._check_parameters()
        self._start_with(fit_map(self.feature_map, X, self.random_state), None, X)

    def _start_with(self, row_map: RowMap, direction: FloatArray | None, X: Any) -> None:
        rows = row_map.transform(X)
        if direction is None:
            direction = check_random_state(self.random_state).normal(size=rows.shape[1])
        # If there are more rows than needed, rows are chosen evenly along this direction.
        self.row_map_, self.direction_, self.n_rounds_ = row_map, direction, 0
        # A common shift does not change kernels, and centring reduces rounding errors in distances. The median is used
        # because a single outlier hardly moves it.
        self.origin_ = np.median(rows, axis=0)
        self.rows_ = rows - self.origin_
        self.row_norms_ = squared_norms(self.rows_)
        # The median rule: at the median distance the kernel has fallen to 1/e.
        some = spread_indices(self.rows_, _MEDIAN_ROWS, direction)
        self.median_width_ = median_distance(self.rows_[some]) / math.sqrt(2.0)
        self._forget()

    def _play(self, X: Any) -> None:
        self._estimate(self._centred(X))
        self.n_rounds_ += 1

    def _ratio(self, X: Any) -> FloatArray:
        with one_blas_thread():
            return self._evaluate(self._centred(X))

    def _centred(self, X: Any) -> FloatArray:
        rows = self.row_map_.transform(X)
        if rows.shape[1] != len(self.origin_):
            raise DataError(
                f"The feature_map returned {rows.shape[1]} columns, but {len(self.origin_)} for the reference; it must "
                "always return the same number."
            )
        return rows - self.origin_

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return {
            "row_map": map_to_plain(self.row_map_),
            "direction": self.direction_,
            "n_rounds": self.n_rounds_,
            "state": {} if self.state_ is None else to_plain(self.state_),
        }

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        self._start_with(map_from_plain(plain["row_map"], self.feature_map, X), plain["direction"], X)
        if plain["state"]:
            self._take_state(plain["state"])
        self.n_rounds_ = plain["n_rounds"]

    def _check_parameters(self) -> None:
        if isinstance(self.width, str):
            require_choice("width", self.width, ("median", "cv"), or_else=" or a number")
        else:
            require_number("width", self.width, or_else=", 'median' or 'cv'")
        require_integer("max_centers", self.max_centers, at_least=1)
        require_number("max_ratio", self.max_ratio, above=1.0)

    def _candidate_widths(self, n_batch: int) -> tuple[float, ...]:
        """Return the widths to choose from; a batch of one row cannot be cross-validated."""
        if not isinstance(self.width, str):
            return (float(self.width),)
        if self.width == "median" or n_batch < 2:
            return (self.median_width_,)
        return tuple(factor * self.median_width_ for factor in CV_WIDTHS)

    def _select_width(self, n_batch: int, losses: HeldOutLosses) -> float:
        """Return the width with the smallest loss on held-out parts of the batch."""
        widths = self._candidate_widths(n_batch)
        if len(widths) == 1:
            return widths[0]
        of_folds = [losses(kept, held_out, widths) for kept, held_out in folds(n_batch)]
        return widths[int(np.argmin(np.mean(of_folds, axis=0)))]


@dataclass(frozen=True)
class KernelBasis:
    """Gaussian kernels at given centres, shifted where they would vanish on the reference.

    Attributes
    ----------
    centers : array of shape (n_centers, n_columns)
    shifts : array of shape (n_centers,)
        See :func:`accous.core.ratio_problems.largest_exponents`.
    width : float
        sigma.
    """

    centers: FloatArray
    shifts: FloatArray
    width: float

    @classmethod
    def on(cls, distances: FloatArray, centers: FloatArray, width: float) -> KernelBasis:
        """Return the basis for a reference with these squared distances to the centres."""
        return cls(centers, largest_exponents(distances, width), width)

    def of_distances(self, distances: FloatArray) -> FloatArray:
        """Return the kernels for squared distances to the centres."""
        return gaussian_basis(distances, self.width, self.shifts)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return the kernels of rows, (n_rows, n_centers)."""
        return self.of_distances(squared_distances(rows, self.centers))


@dataclass(frozen=True)
class MixtureState:
    """A ratio that is a sum of kernels with non-negative coefficients.

    Attributes
    ----------
    basis : KernelBasis
    coefs : array of shape (n_centers,)
    ridge : float
        Penalty of the fit; 0 if the method has none.
    reference_ratio : array of shape (n_reference,)
        Computed from the others, so it is not saved.
    """

    basis: KernelBasis
    coefs: FloatArray
    ridge: float
    reference_ratio: FloatArray = field(compare=False)


class MixtureRatio(KernelRatio):
    """A ratio that is a sum of kernels centred at rows of the batch."""

    state_: MixtureState | None

    @abstractmethod
    def _fit_coefs(self, distances: FloatArray, batch: FloatArray, centers: FloatArray) -> MixtureState:
        """Estimate the ratio; ``distances`` are squared distances from the reference to the centres."""

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, clipped at ``max_ratio``."""
        return np.ones(len(self.rows_)) if self.state_ is None else self.state_.reference_ratio.copy()

    @property
    def width_(self) -> float:
        """Kernel width of the last batch; before the first batch, the width by the median rule."""
        return self.median_width_ if self.state_ is None else self.state_.basis.width

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the kernels."""
        return np.empty(0) if self.state_ is None else self.state_.coefs.copy()

    @property
    def centers_(self) -> FloatArray:
        """Centres of the kernels, as mapped rows."""
        return self.rows_[:0] + self.origin_ if self.state_ is None else self.state_.basis.centers + self.origin_

    def _forget(self) -> None:
        self.state_ = None

    def _estimate(self, batch: FloatArray) -> None:
        centers = self._choose_centers(batch)
        distances = squared_distances(self.rows_, centers, self.row_norms_)
        self.state_ = self._fit_coefs(distances, batch, centers)

    def _choose_centers(self, batch: FloatArray) -> FloatArray:
        return batch[spread_indices(batch, int(self.max_centers), self.direction_)]

    def _evaluate(self, rows: FloatArray) -> FloatArray:
        state = self.state_
        if state is None:
            return np.ones(len(rows))
        return self._combine(state.basis(rows), state.coefs)

    def _combine(self, kernels: FloatArray, coefs: FloatArray) -> FloatArray:
        return np.minimum(kernels @ coefs, float(self.max_ratio))

    def _take_state(self, plain: dict[str, Any]) -> None:
        basis = from_plain(KernelBasis, plain["basis"])
        ratios = self._combine(basis(self.rows_), plain["coefs"])
        self.state_ = from_plain(MixtureState, plain | {"reference_ratio": ratios})


def folds(n_rows: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Split two or more rows into up to five pairs of indices: the kept rows and the held-out ones."""
    fold_of_row = np.arange(n_rows) % min(_N_FOLDS, n_rows)
    for fold in range(fold_of_row.max() + 1):
        yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)
