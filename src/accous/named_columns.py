"""Frames are read by the names of their columns: other columns are left out, and any order is put right."""

from __future__ import annotations

from typing import Any

from accous.exceptions import DataError

__all__ = ["is_frame", "select_columns"]


def is_frame(X: Any) -> bool:
    """Whether ``X`` is a data frame of pandas or polars."""
    return hasattr(X, "iloc") or (type(X).__module__.partition(".")[0] == "polars" and hasattr(X, "to_numpy"))


def select_columns(estimator: Any, X: Any, *, any_order: bool = True) -> Any:
    """Return a frame with the columns of the reference alone, in the order of the reference.

    Arrays and frames that fit already are returned as they are.

    Parameters
    ----------
    estimator : object
        Its ``feature_names_in_`` are the columns of the reference; without them, columns have no names.
    X : array or frame
    any_order : bool, default=True
        Whether a frame with just these columns may have them in another order. scikit-learn's ``check_estimator``
        requires its own methods, such as ``predict``, to refuse that. It also requires its own text for a frame that
        lacks a column, so such a frame is then returned as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> fitted = SimpleNamespace(feature_names_in_=np.array(["age", "height"], dtype=object))
    >>> select_columns(fitted, pd.DataFrame({"height": [1.8], "name": ["Ada"], "age": [36]}))
       age  height
    0   36     1.8
    """
    names = vars(estimator).get("feature_names_in_")
    if names is None or not is_frame(X) or getattr(X, "ndim", 2) != 2:
        return X
    wanted, found = names.tolist(), list(X.columns)
    if found == wanted or (len(found) == len(wanted) and not any_order):
        return X
    there = set(found)
    missing = [name for name in wanted if name not in there]
    if missing and any_order:
        known = set(wanted)
        others = [name for name in found if name not in known]
        hint = f" X has {others[0]!r}, which the reference has not." if others else ""
        raise DataError(f"X has no column {missing[0]!r}, which the reference has: add it, or correct its name.{hint}")
    if missing:
        return X
    if len(there) < len(found):
        for name in (name for name in wanted if found.count(name) > 1):
            raise DataError(f"X has several columns called {name!r}: rename or drop all but one.")
    return X[wanted]
