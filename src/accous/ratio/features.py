"""From rows to features: feature maps, intercept, bound and scale."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray, from_plain, to_plain
from accous.core.kernels_weights import make_features
from accous.exceptions import DataError, ParameterError
from accous.ratio.base import default_feature_bound, default_shortening
from accous.validation import count_rows, own_copy, require_finite

# --- The maps from input rows to feature columns: auto, identity, standardize, rbf, or any scikit-learn
#     transformer


LARGEST_FEATURE = 1e100

_RBF_COMPONENTS = 100
_RBF_MEDIAN_ROWS = 500


class RowMap(Protocol):
    """A fitted map; its output is finite and far from overflow for every finite input."""

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""


class NamedMap(ABC):
    """A map that has a name in `FEATURE_MAPS`: a frozen dataclass of arrays and numbers, which a saved model keeps."""

    @classmethod
    @abstractmethod
    def fit(cls, X: FloatArray, random_state: Any) -> NamedMap:
        """Fit the map on the reference."""

    @abstractmethod
    def transform(self, X: Any) -> FloatArray:
        """Map rows, as `RowMap` says."""


@dataclass(frozen=True)
class Identity(NamedMap):
    """The rows as they are."""

    @classmethod
    def fit(cls, X: FloatArray, random_state: Any) -> Identity:  # noqa: ARG003
        """Return the map, which learns nothing."""
        return cls()

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        return _away_from_overflow(X)


@dataclass(frozen=True)
class Standardize(NamedMap):
    """Columns centred on the reference and divided by their deviation there, times what ``"auto"`` shortens rows by.

    Constant columns count as having deviation 1.
    """

    mean: FloatArray
    scale: FloatArray

    @classmethod
    def fit(cls, X: FloatArray, random_state: Any) -> Standardize:  # noqa: ARG003
        """Take mean and deviation of each column."""
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(X)
        return Standardize(scaler.mean_, scaler.scale_)

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        with np.errstate(over="ignore"):
            return _away_from_overflow((X - self.mean) / self.scale)


class Shortened(Standardize):
    """The same map, fitted such that many columns make rows no longer than a dozen do."""

    @classmethod
    def fit(cls, X: FloatArray, random_state: Any) -> Standardize:
        """Take mean and deviation of each column, and the shortening for this many of them."""
        plain = super().fit(X, random_state)
        return Standardize(plain.mean, plain.scale * default_shortening(X.shape[1]))


@dataclass(frozen=True)
class RadialBasis(NamedMap):
    """Nystroem features of a Gaussian kernel on standardised rows."""

    standardize: Standardize
    centres: FloatArray
    normalization: FloatArray
    gamma: float

    @classmethod
    def fit(cls, X: FloatArray, random_state: Any) -> RadialBasis:
        """Draw the centres, and take the kernel's width by the median rule."""
        from sklearn.kernel_approximation import Nystroem
        from sklearn.metrics.pairwise import euclidean_distances

        standardize = Standardize.fit(X, random_state)
        rows = standardize.transform(X)
        n_rows = rows.shape[0]
        distances = euclidean_distances(rows[:: max(1, n_rows // _RBF_MEDIAN_ROWS)], squared=True)
        # The median rule: at the median distance the kernel has fallen to 1/e.
        median = float(np.median(distances[np.triu_indices_from(distances, k=1)]))
        gamma = 1.0 / median if median > 0.0 else 1.0
        nystroem = Nystroem(gamma=gamma, n_components=min(_RBF_COMPONENTS, n_rows), random_state=random_state)
        nystroem.fit(rows)
        return cls(standardize, nystroem.components_, nystroem.normalization_, gamma)

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        from sklearn.metrics.pairwise import rbf_kernel

        kernel = rbf_kernel(self.standardize.transform(X), self.centres, gamma=self.gamma)
        return np.asarray(kernel @ self.normalization.T)


@dataclass(frozen=True)
class Foreign:
    """A user's scikit-learn transformer, fitted on the reference; it receives frames unconverted."""

    transformer: Any

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        # Pass a copy: some transformers write into their input.
        mapped = self.transformer.transform(own_copy(X, X))
        dense = mapped.toarray() if hasattr(mapped, "toarray") else mapped
        try:
            rows = np.asarray(dense, dtype=np.float64)
        except (ValueError, TypeError) as error:
            raise DataError(f"The feature_map returned values that are not numbers ({error}).") from error
        if rows.ndim != 2 or rows.shape[0] != count_rows(X) or rows.shape[1] == 0:
            raise DataError(
                f"The feature_map must return one or more numbers for each of the {count_rows(X)} rows, got "
                f"an array of shape {rows.shape}."
            )
        require_finite(rows, mapped, what="The feature_map's output is not finite: ")
        return _away_from_overflow(rows)


FEATURE_MAPS: dict[str, type[NamedMap]] = {
    "auto": Shortened,
    "identity": Identity,
    "standardize": Standardize,
    "rbf": RadialBasis,
}
"""The maps by name: what the parameter ``feature_map`` may be, besides a transformer."""


def map_to_plain(row_map: RowMap) -> dict[str, Any]:
    """Describe a fitted map by names and arrays; a foreign transformer by its class name only."""
    if isinstance(row_map, Foreign):
        return {"kind": "foreign", "class": type(row_map.transformer).__name__}
    if type(row_map).__name__ not in _kinds():
        raise TypeError(f"{type(row_map).__name__} is not a feature map of ours.")
    return {"kind": type(row_map).__name__, **to_plain(row_map)}


def map_from_plain(plain: dict[str, Any], feature_map: Any, X: Any) -> RowMap:
    """Rebuild a map; a foreign transformer is fitted anew on the reference ``X``."""
    kind, parts = plain["kind"], {name: part for name, part in plain.items() if name != "kind"}
    if kind == "foreign":
        return fit_map(feature_map, X, None)
    if kind not in _kinds():
        raise DataError(f"Unknown kind of feature map {kind!r}.")
    row_map: RowMap = from_plain(_kinds()[kind], parts)
    return row_map


def _kinds() -> dict[str, type[NamedMap]]:
    return {each.__name__: each for each in FEATURE_MAPS.values()}


def fit_map(feature_map: Any, X: Any, random_state: Any) -> RowMap:
    """Fit on the reference the map that the parameter names, or a clone of the transformer that it holds."""
    if hasattr(feature_map, "fit") and hasattr(feature_map, "transform") and not isinstance(feature_map, type):
        return Foreign(clone(feature_map).fit(own_copy(X, X)))
    if not isinstance(feature_map, str) or feature_map not in FEATURE_MAPS:
        raise ParameterError(
            f"feature_map must be one of {', '.join(map(repr, FEATURE_MAPS))} or a scikit-learn transformer, "
            f"got {feature_map!r}."
        )
    return FEATURE_MAPS[feature_map].fit(X, random_state)


def _away_from_overflow(rows: FloatArray) -> FloatArray:
    return np.asarray(np.clip(rows, -LARGEST_FEATURE, LARGEST_FEATURE))


# --- From mapped rows to features phi: intercept, bound, scale


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
