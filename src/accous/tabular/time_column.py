"""The column that says when a row happened, if the model knows one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.tabular.columns.plans import DateColumn
from accous.tabular.formats.values import texts_to_times, to_texts, to_times

__all__ = ["TimeColumn", "find_time_column"]

# Forms that cannot be mistaken for one another, for a column that the reference left out.
_PLAIN_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%Y/%m/%d",
)


@dataclass(frozen=True)
class TimeColumn:
    """A column of times.

    Attributes
    ----------
    name : str
    form : str, optional
        The format, as for ``strftime``; empty for typed dates. None if it is not known: then every value is read in
        the first form of year, month and day that fits it.
    """

    name: str
    form: str | None = None

    def seconds(self, frame: pl.DataFrame) -> NDArray[np.float64] | None:
        """Return when each row happened, in seconds since 1970.

        The result is NaN where a value is missing or not a time, and None if the frame has no such column.

        Examples
        --------
        >>> frame = pl.DataFrame({"when": ["1970-01-02", "1970-01-01 00:01:00", "?"]})
        >>> TimeColumn("when").seconds(frame).tolist()
        [86400.0, 60.0, nan]
        """
        if self.name not in frame.columns:
            return None
        column = frame[self.name]
        if column.dtype.is_temporal() and column.dtype not in (pl.Date, pl.Datetime):
            return None
        times = self._read(column)
        if times is None:
            return None
        return np.asarray(times.dt.epoch("us").cast(pl.Float64).to_numpy(), dtype=np.float64) / 1e6

    def _read(self, column: pl.Series) -> pl.Series | None:
        if column.dtype in (pl.Date, pl.Datetime):
            return to_times(column, "")[0]
        if column.dtype != pl.String:
            return None
        if self.form:
            return to_times(column, self.form)[0]
        # Value by value, so that the result does not depend on the rows that a value arrives with.
        texts = to_texts(column)
        times = texts_to_times(texts, _PLAIN_FORMS[0])[0]
        for form in _PLAIN_FORMS[1:]:
            is_left = times.is_null() & texts.is_not_null()
            if not is_left.any():
                break
            times = times.zip_with(~is_left, texts_to_times(texts, form)[0])
        return times


def find_time_column(settings: dict[str, Any], plans: tuple[Any, ...]) -> TimeColumn | None:
    """Return the column that the model was told to order by, or else the only date among its columns.

    Parameters
    ----------
    settings : dict
        Of the table model; ``settings["order"]`` is ``{"by": "time", "column": name}`` where it was told one.
    plans : tuple of column plans
    """
    dates = {plan.name: plan for plan in plans if isinstance(plan, DateColumn)}
    order = settings.get("order") or {}
    if order.get("by") == "time":
        name = order["column"]
        return TimeColumn(name, dates[name].form if name in dates else None)
    if len(dates) == 1:
        ((name, plan),) = dates.items()
        return TimeColumn(name, plan.form)
    return None
