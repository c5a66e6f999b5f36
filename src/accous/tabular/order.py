"""The order in time of a reference's rows: what it is known from, and the rows in this order."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.columns.learning import Choices, date_form
from accous.tabular.formats.values import to_numbers, to_texts, to_times

__all__ = [
    "NO_ORDER",
    "OrderedRows",
    "RowOrder",
    "find_order",
    "not_in_order",
    "put_in_order",
    "rises",
    "unsorted_dates",
]

_SHARE_OF_KIND = 0.9
_SAMPLE = 1000  # rows that tell whether a column of texts may hold dates
_LEAST_CORRELATION, _MOST_STEPS_BACK = 0.95, 0.05


@dataclass(frozen=True)
class RowOrder:
    """What is known about the order of the rows.

    Attributes
    ----------
    by : {"time", "rows"} or None
        Sorted by a column, in order as they come, or in no known order.
    column : str, optional
        The column of times.
    is_found : bool
        Whether the column was found in the table, or named by the user.
    """

    by: str | None
    column: str | None = None
    is_found: bool = False

    @property
    def is_known(self) -> bool:
        """Whether there is an order in time."""
        return self.by is not None

    def to_json(self) -> dict[str, str | None]:
        """Return what settings record."""
        return {name: value for name, value in asdict(self).items() if name != "is_found"}

    def sentence(self, *, can_be_unordered: bool = True) -> str | None:
        """Say which column gave the order, if the user did not name it.

        Parameters
        ----------
        can_be_unordered : bool
            Whether the command has the option ``--unordered``.
        """
        if not self.is_found:
            return None
        otherwise = ", or --unordered" if can_be_unordered else ""
        return (
            f"The rows are taken in the order of the date column {self.column!r}; use --time COL for another "
            f"column{otherwise}."
        )


NO_ORDER = RowOrder(None)


@dataclass(frozen=True)
class OrderedRows:
    """Row numbers in order of time.

    Attributes
    ----------
    rows : array of shape (n_rows,)
    is_bad : array of shape (n_rows,)
        Rows of the file, in its own order, whose time cannot be read.
    """

    rows: NDArray[np.intp]
    is_bad: NDArray[np.bool_]


def find_order(frame: pl.DataFrame, choices: Choices, *, is_ordered: bool | None) -> RowOrder:
    """Return the order of the rows: the user's choice, or that of a date column.

    A date column gives the order if it rises nearly always, or if it is the only one.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference without its label.
    choices : Choices
        With ``time``, if the user has named the column.
    is_ordered : bool, optional
        Whether the rows are in order of time already, if the user has said so.
    """
    if choices.time is not None:
        return RowOrder("time", choices.time)
    if is_ordered is not None:
        return RowOrder("rows") if is_ordered else NO_ORDER
    chosen = {*choices.drop, *choices.categorical}
    dates = [name for name in frame.columns if name not in chosen and _are_dates(frame[name])]
    rising = [name for name in dates if rises(_times(frame[name])[0])]
    # Of several that rise, the one with the finest steps.
    candidates = sorted(rising, key=lambda name: -frame[name].n_unique()) or dates
    if not rising and (len(dates) != 1 or frame[dates[0]].n_unique() < 2):
        return NO_ORDER
    return RowOrder("time", candidates[0], is_found=True)


def unsorted_dates(frame: pl.DataFrame, choices: Choices) -> list[str]:
    """Return the date columns if the rows are in the order of none of them.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows that are said to be in order of time.
    choices : Choices
    """
    chosen = {*choices.drop, *choices.categorical}
    dates = [name for name in frame.columns if name not in chosen and _are_dates(frame[name])]
    dates = [name for name in dates if frame[name].n_unique() > 1]
    return [] if any(rises(_times(frame[name])[0]) for name in dates) else dates


def not_in_order(column: str) -> str:
    """Say that rows which are said to be in order of time are not in the order of a date column."""
    return (
        f"The rows are taken as they come (--ordered), but the dates in {column!r} are not in order: if they are the "
        f"times of the rows, use --time {column}."
    )


def put_in_order(frame: pl.DataFrame, order: RowOrder) -> OrderedRows:
    """Sort the rows; rows of the same time stay as they are, and a row without a time follows the one before it."""
    n_rows = frame.height
    if order.by != "time":
        return OrderedRows(np.arange(n_rows), np.zeros(n_rows, dtype=bool))
    times, is_bad = _times(frame[order.column])  # type: ignore[index]
    is_there = ~np.isnan(times)
    if not is_there.any():
        raise DataError(
            f"Column {order.column!r} holds no time: --time takes a column of dates, such as 2024-05-31 or "
            "2024-05-31 17:00, or of numbers."
        )
    last_known = np.maximum.accumulate(np.where(is_there, np.arange(n_rows), -1))
    first = float(times[is_there][0])
    filled = np.where(last_known >= 0, times[np.maximum(last_known, 0)], first)
    return OrderedRows(np.argsort(filled, kind="stable"), is_bad)


def _are_dates(column: pl.Series) -> bool:
    if column.dtype in (pl.Date, pl.Datetime):
        return True
    if column.dtype != pl.String:
        return False
    is_possible = date_form(column, to_texts(column.drop_nulls().head(_SAMPLE))) is not None
    return is_possible and date_form(column, to_texts(column)) is not None


def _times(column: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return times as numbers, NaN where there is none, and which values cannot be read as the others can."""
    texts = to_texts(column) if column.dtype == pl.String else column
    form = None if texts.null_count() == len(texts) else date_form(column, texts)
    if form is not None:
        times, is_bad = to_times(column, form)
        return _as_floats(times.dt.epoch("us")), is_bad
    if column.dtype.is_temporal():
        return np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    values, is_bad = to_numbers(column)
    if is_bad.sum() > (1.0 - _SHARE_OF_KIND) * len(values):
        return np.full(len(column), np.nan), is_bad
    return np.where(is_bad, np.nan, values), is_bad


def rises(times: NDArray[np.float64]) -> bool:
    """Whether times are nearly in order: few steps lead back, or the ranks follow the rows."""
    known = times[~np.isnan(times)]
    steps = np.diff(known)
    n_changes = int((steps != 0).sum())
    if len(known) < _SHARE_OF_KIND * len(times) or n_changes == 0:
        return False
    if (steps < 0).sum() <= _MOST_STEPS_BACK * n_changes:
        return True
    from scipy.stats import rankdata

    return bool(np.corrcoef(rankdata(known), np.arange(len(known)))[0, 1] > _LEAST_CORRELATION)


def _as_floats(numbers: Any) -> NDArray[np.float64]:
    return np.asarray(numbers.cast(pl.Float64).to_numpy(), dtype=np.float64)
