"""The order in time that a user gives for rows: what sorts as time does, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import IntArray
from accous.exceptions import DataError

__all__ = ["read_order"]

_ISO = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])"
    r"(?:-(?:0[1-9]|[12]\d|3[01])(?:(?P<mark>[T ])[0-2]\d(?P<minutes>:[0-5]\d(?P<seconds>:[0-6]\d(?:\.\d+)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}(?::?\d{2})?)?)?)?"
)


def read_order(order: Any, n_rows: int) -> IntArray:
    """Return the rows in order of time, oldest first; rows of the same time keep their order.

    Text is sorted letter by letter, so it must be in one ISO form, in which this is the order of time.
    """
    times = np.asarray(order)
    if isinstance(order, str):
        raise DataError(f"order is {order!r}, but it takes the times themselves, as X[{order!r}], or True: no name.")
    if times.shape != (n_rows,):
        raise DataError(f"order must have one entry for each of the {n_rows} rows, got shape {times.shape}.")
    try:
        # NaN and NaT differ from themselves.
        is_missing = (times != times) | (times == None)  # noqa: E711, PLR0124
    except TypeError as error:
        raise _not_sortable(error) from None
    if is_missing.any():
        raise DataError(f"order has no time in row {int(np.flatnonzero(is_missing)[0])}.")
    try:
        return np.argsort(_sortable(times), kind="stable")
    except TypeError as error:
        raise _not_sortable(error) from None


def _not_sortable(error: TypeError) -> DataError:
    return DataError(f"order has entries that cannot be sorted: {error}.")


def _sortable(times: NDArray[Any]) -> NDArray[Any]:
    """Return times as they sort: text in ISO form without its zone, anything else as it is."""
    if times.dtype.kind not in "OUST":
        return times
    texts = [value.decode(errors="replace") if isinstance(value, bytes) else value for value in times.tolist()]
    # Other objects, such as dates, know how they sort; a mixture does not.
    if not all(isinstance(text, str) for text in texts):
        return times
    forms = [_form(text) for text in texts]
    for row, (text, form) in enumerate(zip(texts, forms, strict=True)):
        if form is None or form != forms[0]:
            raise _not_iso(text, row, texts[0] if form is not None else None)
    end = -len(forms[0][-1]) if forms and forms[0] is not None and forms[0][-1] else None
    return np.array([text[:end] for text in texts])


def _form(text: str) -> tuple[int, str, bool, bool, str] | None:
    """Return what two texts must share to sort as their times do; None for a text that is not in ISO form."""
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    mark = parts["mark"] or ""
    n_of_date = len(text) if not mark else text.index(mark)
    return n_of_date, mark, parts["minutes"] is not None, parts["seconds"] is not None, parts["zone"] or ""


def _not_iso(text: str, row: int, first: str | None) -> DataError:
    """Make the error about a text; ``first`` is that of row 0 where both are ISO text, but of two forms."""
    if first is not None:
        what = f"text of several forms, {first!r} in row 0 and {text!r} in row {row}"
        advice = 'pass pandas.to_datetime(order, format="ISO8601", utc=True).'
    else:
        what = f"the text {text!r} in row {row}"
        to = "pandas.to_numeric(order)" if _is_number(text) else "pandas.to_datetime(order, format=...)"
        advice = f"pass {to}, or ISO text such as 2024-05-31 17:00."
    return DataError(f"order holds {what}, and text sorts letter by letter, not by time: {advice}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
