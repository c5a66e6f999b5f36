"""The maps from input rows to feature columns: auto, identity, standardize, rbf, or any scikit-learn transformer.

The built-in maps consist of arrays and arithmetic: there is nothing to unpickle, and no checks are repeated on every
row. The scikit-learn classes that fit them are imported during fitting, so a saved model does not need them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from accous.arrays import FloatArray
from accous.exceptions import DataError, ParameterError
from accous.ratio.defaults import default_shortening
from accous.validation import count_rows, own_copy, require_finite

__all__ = [
    "BUILT_IN_MAPS",
    "LARGEST_FEATURE",
    "Foreign",
    "Identity",
    "RadialBasis",
    "RowMap",
    "Standardize",
    "fit_map",
    "map_from_plain",
    "map_to_plain",
]

BUILT_IN_MAPS = ("auto", "identity", "standardize", "rbf")
LARGEST_FEATURE = 1e100

_RBF_COMPONENTS = 100
_RBF_MEDIAN_ROWS = 500


class RowMap(Protocol):
    """A fitted map; its output is finite and far from overflow for every finite input."""

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""


@dataclass(frozen=True)
class Identity:
    """Leaves the rows unchanged."""

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        return _away_from_overflow(X)


@dataclass(frozen=True)
class Standardize:
    """Centres columns on the reference and divides them by their deviation there, times the divisor of ``"auto"``.

    Constant columns count as having deviation 1.
    """

    mean: FloatArray
    scale: FloatArray

    def transform(self, X: Any) -> FloatArray:
        """Map rows."""
        with np.errstate(over="ignore"):
            return _away_from_overflow((X - self.mean) / self.scale)


@dataclass(frozen=True)
class RadialBasis:
    """Nystroem features of a Gaussian kernel on standardised rows."""

    standardize: Standardize
    centres: FloatArray
    normalization: FloatArray
    gamma: float

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


def map_to_plain(row_map: RowMap) -> dict[str, Any]:
    """Describe a fitted map by names and arrays, or a user's transformer by its class name only."""
    match row_map:
        case Foreign(transformer):
            return {"kind": "foreign", "class": type(transformer).__name__}
        case Identity() | Standardize() | RadialBasis():
            return {"kind": type(row_map).__name__, **asdict(row_map)}
        case _:
            raise TypeError(f"{type(row_map).__name__} is not a built-in feature map.")


def map_from_plain(plain: dict[str, Any], feature_map: Any, X: Any) -> RowMap:
    """Rebuild a map; a user's transformer is refitted on the reference ``X``."""
    parts = {name: part for name, part in plain.items() if name != "kind"}
    match plain["kind"]:
        case "foreign":
            return fit_map(feature_map, X, None)
        case "Identity":
            return Identity()
        case "Standardize":
            return Standardize(**parts)
        case "RadialBasis":
            return RadialBasis(**parts | {"standardize": Standardize(**parts["standardize"])})
        case kind:
            raise DataError(f"Unknown kind of feature map {kind!r}.")


def fit_map(feature_map: Any, X: Any, random_state: Any) -> RowMap:
    """Fit on the reference the map that the parameter names, or a clone of the transformer that it holds."""
    if hasattr(feature_map, "fit") and hasattr(feature_map, "transform") and not isinstance(feature_map, type):
        return Foreign(clone(feature_map).fit(own_copy(X, X)))
    if feature_map not in BUILT_IN_MAPS:
        raise ParameterError(
            f"feature_map must be one of {', '.join(map(repr, BUILT_IN_MAPS))} or a scikit-learn transformer, "
            f"got {feature_map!r}."
        )
    if feature_map == "identity":
        return Identity()
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(X)
    if feature_map == "auto":
        return Standardize(scaler.mean_, scaler.scale_ * default_shortening(X.shape[1]))
    standardize = Standardize(scaler.mean_, scaler.scale_)
    return standardize if feature_map == "standardize" else _fit_rbf(standardize, X, random_state)


def _fit_rbf(standardize: Standardize, X: FloatArray, random_state: Any) -> RadialBasis:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.metrics.pairwise import euclidean_distances

    rows = standardize.transform(X)
    n_rows = rows.shape[0]
    distances = euclidean_distances(rows[:: max(1, n_rows // _RBF_MEDIAN_ROWS)], squared=True)
    # The median rule: at the median distance the kernel has fallen to 1/e.
    median = float(np.median(distances[np.triu_indices_from(distances, k=1)]))
    gamma = 1.0 / median if median > 0.0 else 1.0
    nystroem = Nystroem(gamma=gamma, n_components=min(_RBF_COMPONENTS, n_rows), random_state=random_state)
    nystroem.fit(rows)
    return RadialBasis(standardize, nystroem.components_, nystroem.normalization_, gamma)


def _away_from_overflow(rows: FloatArray) -> FloatArray:
    return np.asarray(np.clip(rows, -LARGEST_FEATURE, LARGEST_FEATURE))
