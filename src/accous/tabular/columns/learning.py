"""Decides from the reference how to encode each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from accous.exceptions import DataError
from accous.tabular.columns.plans import (
    ALL_MISSING,
    ALWAYS_THE_SAME,
    CategoryColumn,
    DateColumn,
    LeftOutColumn,
    NumberColumn,
)
from accous.tabular.formats.values import count_times, is_usable, to_numbers, to_texts, to_times

__all__ = ["Choices", "date_form", "plan_column"]

_SHARE_OF_KIND = 0.9
_RAREST_SHARE, _RAREST_COUNT, _MOST_LEVELS, _MOST_RARE = 0.005, 5, 50, 1000
_SMALLEST_DEVIATION = 1e-12
_DATE_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
)
_CYCLE_DAYS = {"year": 365.0, "week": 7.0, "day": 1.0}


@dataclass(frozen=True)
class Choices:
    """The user's decisions about columns.

    Attributes
    ----------
    drop, categorical : tuple of str
        Columns to leave out, and columns to read as categories whatever they look like.
    time : str, optional
        The column that gives the rows their order in time. A date stays a feature, as a position in the year, the week
        and the day; a number is left out.
    """

    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    time: str | None = None
    keep: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def plan_column(column: pl.Series, choices: Choices) -> Any:
    """Decide how to encode a column of the reference.

    If nine in ten values are numbers, it is a column of numbers, and the other values make their rows bad; the same
    goes for dates. Everything else is a category, unless nearly every value is different.
    """
    name = column.name
    if name in choices.drop or name in choices.left_out:
        return LeftOutColumn(name, choices.left_out.get(name, "dropped with --drop"))
    if not is_usable(column.dtype):
        return LeftOutColumn(name, "objects, bytes, durations and lists of different lengths cannot be used")
    # Typed numbers need no reading as texts, which takes most of the time where an embedding has hundreds of columns.
    if name not in choices.categorical and column.dtype.is_numeric() and _are_mostly_finite(column):
        return _plan_number(column, choices)
    texts = to_texts(column)
    if texts.null_count() == len(texts):
        return LeftOutColumn(name, ALL_MISSING)
    if name in choices.categorical:
        return _plan_category(name, texts)
    return _plan_by_values(column, texts, choices)


def date_form(column: pl.Series, texts: pl.Series) -> str | None:
    """Return the format of the dates in a column, empty if they are typed; None if the column does not hold dates.

    Parameters
    ----------
    column : polars.Series
    texts : polars.Series
        The column, or some of its rows, as `to_texts` returns it.
    """
    if column.dtype in (pl.Date, pl.Datetime):
        return ""
    if column.dtype != pl.String:
        return None
    n_values = len(texts) - texts.null_count()
    readable = count_times(texts, _DATE_FORMS)
    best = max(readable, key=lambda form: readable[form])  # of equals the first: days before months
    return best if readable[best] >= max(1.0, _SHARE_OF_KIND * n_values) else None


def _plan_by_values(column: pl.Series, texts: pl.Series, choices: Choices) -> Any:
    if _are_numbers(column, texts):
        return _plan_number(column, choices)
    form = date_form(column, texts)
    if form is not None:
        return _plan_date(column, form)
    return _plan_category(column.name, texts, is_sure=False)


def _are_mostly_finite(column: pl.Series) -> bool:
    values, is_bad = to_numbers(column)
    is_there = ~np.isnan(values)
    return bool(is_there.any()) and int((is_there & ~is_bad).sum()) >= _SHARE_OF_KIND * int(is_there.sum())


def _are_numbers(column: pl.Series, texts: pl.Series) -> bool:
    if column.dtype.is_temporal():
        return False
    values, is_bad = to_numbers(column)
    n_numbers = int((~np.isnan(values) & ~is_bad).sum())
    return n_numbers >= _SHARE_OF_KIND * (len(texts) - texts.null_count())


def _plan_number(column: pl.Series, choices: Choices) -> NumberColumn | LeftOutColumn:
    if column.name == choices.time and column.name not in choices.keep:
        return LeftOutColumn(column.name, "the time of the rows: every future time lies outside the reference")
    values, is_bad = to_numbers(column)
    is_there = ~np.isnan(values) & ~is_bad
    median = float(np.median(values[is_there]))
    largest = float(np.abs(values[is_there]).max())
    if largest > 1e150:
        raise DataError(
            f"Column {column.name!r} of the reference holds {largest:.3g}, too large to compute with; rescale it."
        )
    filled = np.where(is_there, values, median)
    mean, deviation = float(filled.mean()), float(filled.std())
    if deviation <= _SMALLEST_DEVIATION * max(1.0, abs(mean)):
        return LeftOutColumn(column.name, ALWAYS_THE_SAME)
    return NumberColumn(column.name, median, mean, deviation, bool(np.isnan(values).any()))


def _plan_date(column: pl.Series, form: str) -> DateColumn | LeftOutColumn:
    times, _ = to_times(column, form)
    days = (times.max() - times.min()).total_seconds() / 86_400  # type: ignore[operator,union-attr]
    has_hours = bool((times.dt.hour() != 0).any() or (times.dt.minute() != 0).any())
    cycles = [cycle for cycle, length in _CYCLE_DAYS.items() if days >= length and (cycle != "day" or has_hours)]
    if not cycles:
        return LeftOutColumn(column.name, f"a date, and the reference spans only {days:.3g} days")
    return DateColumn(column.name, form, cycles)


def _plan_category(name: str, texts: pl.Series, *, is_sure: bool = True) -> CategoryColumn | LeftOutColumn:
    n_values = len(texts) - texts.null_count()
    counts = texts.drop_nulls().value_counts(sort=False)
    # By falling count and then by name: the same levels whatever order the rows came in.
    ordered = sorted(counts.iter_rows(), key=lambda level: (-level[1], level[0]))
    smallest = max(_RAREST_COUNT, int(np.ceil(_RAREST_SHARE * len(texts))))
    frequent = [level for level, count in ordered if count >= smallest][:_MOST_LEVELS]
    n_rare = len(ordered) - len(frequent)
    if not is_sure and n_values and sum(count for level, count in ordered if level in set(frequent)) < 0.5 * n_values:
        return LeftOutColumn(name, f"text with {len(ordered)} different values; use it with --categorical {name}")
    if len(ordered) == 1 and n_values == len(texts):
        return LeftOutColumn(name, ALWAYS_THE_SAME)
    if not frequent:
        return LeftOutColumn(name, f"text with {len(ordered)} different values, all of them rare")
    rare = sorted({level for level, _ in ordered} - set(frequent)) if n_rare <= _MOST_RARE else []
    return CategoryColumn(
        name=name,
        levels=frequent,
        has_other=n_rare > 0,
        has_missing=texts.null_count() > 0,
        rare=rare,
        n_rare=n_rare,
    )
