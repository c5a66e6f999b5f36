"""The ratios of a user's own estimator are checked where a round reads them: NaN would look like a calm stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.exceptions import ParameterError
from accous.ratio.base import RatioEstimator
from accous.validation import count_rows

__all__ = ["checked_ratios", "ratios_of_reference"]


def ratios_of_reference(ratio: RatioEstimator) -> FloatArray:
    """Return ``reference_ratio_`` as an array of floats; those of a class outside accous are checked."""
    if ratio.is_foreign:
        n_rows = count_rows(ratio.reference_)
        return checked_ratios(ratio, ratio.reference_ratio_, n_rows, ("the reference", "reference_ratio_"))
    return np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64)


def checked_ratios(ratio: RatioEstimator, values: Any, n_rows: int, source: tuple[str, str]) -> FloatArray:
    """Return ratios as an array of floats, or raise a ParameterError that names the class and the first bad row.

    Parameters
    ----------
    ratio : RatioEstimator
    values : array of shape (n_rows,)
        What the estimator returned.
    n_rows : int
    source : tuple of str
        The rows whose ratios these are, and the method that returned them.
    """
    (rows, method), name = source, type(ratio).__name__
    try:
        found = np.ascontiguousarray(values, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ParameterError(
            f"{name} returned values that are not numbers for {rows} ({error}): return one ratio a row from {method}."
        ) from error
    if np.shape(values) != (n_rows,):
        raise ParameterError(
            f"{name} returned an array of shape {np.shape(values)} for the {n_rows} rows of {rows}: return one ratio a "
            f"row from {method}."
        )
    is_good = (found >= 0.0) & (found < np.inf)
    if not is_good.all():
        row = int(np.argmin(is_good))
        raise ParameterError(
            f"{name} returned the ratio {found[row]} for row {row} of {rows}, counted from 0: return finite numbers "
            f"that are not negative from {method}."
        )
    return found
