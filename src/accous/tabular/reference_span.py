"""How much time a reference covers: less than a day or a week leaves hours or weekdays out."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from accous.tabular.columns.learning import date_form
from accous.tabular.formats.values import to_texts, to_times
from accous.tabular.order import RowOrder
from accous.tabular.traps import Remark

__all__ = ["remarks_on_span"]

_NEARLY_A_DAY = timedelta(hours=22)  # the last of hourly rows of a whole day begins 23 hours after the first
_DAYS_OF_A_WEEK = 5  # a week may have working days only


def remarks_on_span(frame: pl.DataFrame, order: RowOrder) -> list[Remark]:
    """Return a remark if the dates that give the order cover less than a day or less than a week.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference.
    order : RowOrder
    """
    times = _times(frame[order.column]) if order.column is not None else None
    if times is None or times.n_unique() < 2:
        return []
    first, last = times.min(), times.max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    if last - first >= timedelta(days=7) or times.dt.date().n_unique() >= _DAYS_OF_A_WEEK:
        return []
    whole, missing = ("day", "hours") if last - first < _NEARLY_A_DAY else ("week", "weekdays")
    text = (
        f"The reference covers less than a {whole}, {_shown(first)} to {_shown(last)}. Rows of other {missing} may be "
        f"new to it: take a reference of several {whole}s if you have one."
    )
    return [Remark("span", order.column, text)]


def _times(column: pl.Series) -> pl.Series | None:
    """Return the dates of a column; None if it holds none, such as numbers."""
    texts = to_texts(column) if column.dtype == pl.String else column
    form = None if texts.null_count() == len(texts) else date_form(column, texts)
    return None if form is None else to_times(column, form)[0].cast(pl.Datetime("us")).drop_nulls()


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"
