"""A loaded data set: rows, labels, names, and its source."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dataset", "Source", "hash_arrays"]


@dataclass(frozen=True)
class Source:
    """The source of a data set.

    Attributes
    ----------
    name : str
    title : str
    url : str
        The page or file of the public source.
    licence : str
    citation : str
    n_rows, n_features, n_classes : int
    file_name : str or None
        Its file in ``ACCOUS_DATA`` and in the cache; None for data that ships with scikit-learn.
    arrays_sha256 : str or None
        ``hash_arrays`` of the arrays parsed from it.
    """

    name: str
    title: str
    url: str
    licence: str
    citation: str
    n_rows: int
    n_features: int
    n_classes: int
    file_name: str | None = None
    arrays_sha256: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows and labels.

    Attributes
    ----------
    X : array of shape (n_rows, n_features), float64
    y : array of shape (n_rows,), int64
    feature_names : tuple of str
    columns : mapping from names to arrays of shape (n_rows,)
        Further information about each row, such as the year; not for learning.
    source : Source
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]]
    source: Source

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        more = f", with {', '.join(self.columns)}" if self.columns else ""
        n_classes = len(np.unique(self.y))
        return f"Dataset({self.source.name}: {n_rows} rows, {n_features} features, {n_classes} classes{more})"

    def where(self, is_chosen: NDArray[np.bool_]) -> Dataset:
        """Return the rows for which the mask is true."""
        columns = {name: column[is_chosen] for name, column in self.columns.items()}
        return Dataset(self.X[is_chosen], self.y[is_chosen], self.feature_names, columns, self.source)


def hash_arrays(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of rows, labels and further columns, independent of the file format."""
    digest = hashlib.sha256()
    for array in (X.astype("<f8"), y.astype("<i8"), *(columns[name].astype("<i8") for name in sorted(columns))):
        digest.update(str(array.shape).encode())
        # All missing values count as the same value, whatever their bits.
        digest.update(np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes())
    return digest.hexdigest()
