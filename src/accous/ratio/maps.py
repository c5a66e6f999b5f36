"""The maps from input rows to feature columns: auto, identity, standardize, rbf, or any scikit-learn transformer.

The built-in maps consist of arrays and arithmetic: there is nothing to unpickle, and no checks are repeated on every
row. The scikit-learn classes that fit them are imported during fitting, so a saved model does not need them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray, from_plain, to_plain
from accous.exceptions import DataError, ParameterError
from accous.ratio.defaults import default_shortening
from accous.validation import count_rows, own_copy, require_finite

__all__ = [
    "FEATURE_MAPS",
    "LARGEST_FEATURE",
    "Foreign",
    "Identity",
    "NamedMap",
    "RadialBasis",
    "RowMap",
    "Shortened",
    "Standardize",
    "fit_map",
    "map_from_plain",
    "map_to_plain",
]

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
