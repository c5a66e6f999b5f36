r"""From mapped rows to features phi: intercept, bound, scale.

.. math::
    \phi(x) = \frac{c(x)}{R}\,(\mathrm{map}(x), 1), \qquad c(x) = \min\{1, R / \|(\mathrm{map}(x), 1)\|\}

(without the division by R if features are not scaled). A row longer than R is shortened to R, so
:math:`\|\phi\| \le R` holds for every input.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.core.kernels_rows import make_features
from accous.exceptions import DataError
from accous.ratio.defaults import default_feature_bound
from accous.ratio.maps import LARGEST_FEATURE, Identity, RowMap, Standardize

__all__ = ["LARGEST_NORM", "FeatureMap", "fit_features"]

LARGEST_NORM = "largest"
"""The bound that the paper uses: the largest norm in the reference."""

_BOUND_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class FeatureMap:
    """The complete map from input rows to phi.

    Attributes
    ----------
    row_map : RowMap
    n_columns : int
        Number of columns of mapped rows, without the intercept.
    has_intercept : bool
    is_intercept_bounded : bool
        Whether the intercept is bounded and scaled together with the row. Losses whose neutral theta is not zero need
        a constant that stays 1; for them it is appended at the end.
    bound : float
        R, the bound on the norm of the unscaled row.
    is_scaled : bool
    """

    row_map: RowMap
    n_columns: int
    has_intercept: bool
    is_intercept_bounded: bool
    bound: float
    is_scaled: bool

    @property
    def norm_bound(self) -> float:
        """Largest norm of a row of features."""
        bound = 1.0 if self.is_scaled else self.bound
        return math.hypot(bound, 1.0) if self._appends_last else bound

    @property
    def is_free_of_blas(self) -> bool:
        """Whether rows are mapped without BLAS and without third-party code."""
        return self.keeps_columns

    @property
    def keeps_columns(self) -> bool:
        """Whether each feature is one input column, at most shifted and scaled."""
        return isinstance(self.row_map, (Identity, Standardize))

    def transform(self, X: Any) -> tuple[FloatArray, int]:
        """Return the features of ``X`` and how many rows were shortened to the bound."""
        if isinstance(self.row_map, Standardize):
            return self.finish(X, self.row_map.mean, self.row_map.scale)
        return self.finish(self.map_rows(X))

    def map_rows(self, X: Any) -> FloatArray:
        """Return the mapped rows, before the intercept and the bound."""
        rows = self.row_map.transform(X)
        if rows.shape[1] != self.n_columns:
            raise DataError(
                f"The feature_map returned {rows.shape[1]} columns, but {self.n_columns} for the reference; it must "
                "always return the same number."
            )
        return rows

    def transform_each(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the features of ``X`` and, for each row, 1 if it was shortened to the bound and else 0."""
        is_long = np.zeros(len(X))
        if isinstance(self.row_map, Standardize):
            return self.finish(X, self.row_map.mean, self.row_map.scale, is_long)[0], is_long
        return self.finish(self.map_rows(X), is_long=is_long)[0], is_long

    def finish(
        self,
        rows: FloatArray,
        mean: FloatArray | None = None,
        scale: FloatArray | None = None,
        is_long: FloatArray | None = None,
    ) -> tuple[FloatArray, int]:
        """Append the intercept to mapped rows, bound and scale them; standardise them first where ``mean`` is given.

        Rows that were shortened are marked in ``is_long``, if it is given.
        """
        n_rows, n_columns = rows.shape
        features = np.empty((n_rows, n_columns + self.has_intercept))
        n_long = make_features(
            np.ascontiguousarray(rows),
            np.zeros(n_columns) if mean is None else mean,
            np.ones(n_columns) if scale is None else scale,
            LARGEST_FEATURE,
            self.bound,
            _BOUND_TOLERANCE,
            self.bound if self.is_scaled else 1.0,
            self.is_intercept_bounded,
            features,
            np.zeros(n_rows) if is_long is None else is_long,
        )
        return features, n_long

    @property
    def _appends_last(self) -> bool:
        return self.has_intercept and not self.is_intercept_bounded


def fit_features(
    row_map: RowMap,
    X: Any,
    *,
    fit_intercept: bool,
    is_intercept_bounded: bool,
    feature_bound: float | str | None,
    scale_features: bool,
) -> tuple[FeatureMap, FloatArray]:
    """Add the bound to a fitted row map; return the complete map and the reference's features."""
    rows = row_map.transform(X)
    if feature_bound is None or feature_bound == LARGEST_NORM:
        norms = _row_norms(_append_ones(rows) if fit_intercept and is_intercept_bounded else rows)
        feature_bound = default_feature_bound(norms) if feature_bound is None else float(norms.max()) or 1.0
    features = FeatureMap(
        row_map=row_map,
        n_columns=rows.shape[1],
        has_intercept=fit_intercept,
        is_intercept_bounded=is_intercept_bounded,
        bound=float(feature_bound),
        is_scaled=scale_features,
    )
    return features, features.finish(rows)[0]


def _append_ones(rows: FloatArray) -> FloatArray:
    return np.concatenate((rows, np.ones((rows.shape[0], 1))), axis=1)


def _row_norms(rows: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", rows, rows)))
