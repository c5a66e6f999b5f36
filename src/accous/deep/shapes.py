"""The shape and the columns of a reference, which all later rows must have."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from accous.deep.rows import ArrayRows, Rows
from accous.exceptions import DataError

__all__ = ["require_values", "shape_and_columns", "table_of"]


def require_values(rows: ArrayRows) -> None:
    """Raise an error for an array whose rows are empty."""
    if rows.array.size == 0:
        raise DataError(
            f"Rows without values: 0 feature(s) (shape={rows.array.shape}) while a minimum of 1 is required."
        )


def shape_and_columns(X: Any, rows: Rows, *, is_prepared: bool) -> tuple[tuple[int, ...] | None, dict[str, Any]]:
    """Return the shape that all rows must have, and what scikit-learn stores about a table's columns."""
    if not isinstance(rows, ArrayRows) or is_prepared:
        return None, {}
    seen = BaseEstimator()  # stands in for the estimator, which must not change if the table is refused
    if rows.array.ndim == 2:
        validate_data(seen, table_of(X, rows), reset=True, skip_check_array=True)
    return rows.array.shape[1:], dict(vars(seen))


def table_of(X: Any, rows: ArrayRows) -> Any:
    """Return what scikit-learn reads widths and names from."""
    return X if hasattr(X, "columns") else rows.array
