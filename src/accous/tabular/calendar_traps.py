"""Columns that stay in the model and may mislead it: parts of a calendar, and codes that are read as numbers."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from accous.tabular.columns.plans import CategoryColumn, NumberColumn
from accous.tabular.formats.values import to_numbers, to_texts
from accous.tabular.traps import Remark

__all__ = ["is_part_of_calendar", "remarks_on_used"]

_FEWEST_ROWS, _FEWEST_CODES, _MOST_SHOWN = 30, 20, 4
# fmt: off
_MONTHS = [
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_CODE_WORDS = {
    "id", "ids", "code", "codes", "zip", "zipcode", "postcode", "postal", "plz", "sku", "agent", "company", "customer",
    "user", "client", "account", "store", "shop", "product", "item", "vendor", "supplier", "merchant", "driver",
    "device", "station", "employee", "flight", "branch", "dealer",
}
_NUMBER_WORDS = {"no", "nr", "num", "number"}
# A number of items or the age of a user is no code.
_QUANTITY_WORDS = {
    "of", "per", "count", "counts", "n", "total", "sum", "amount", "size", "price", "cost", "fee", "rate",
    "share", "ratio", "mean", "avg", "average", "max", "min", "age", "days", "hours", "minutes", "seconds", "time",
    "duration", "income", "revenue", "sales", "score", "length", "weight", "distance",
}
# fmt: on


@dataclass(frozen=True)
class _Cycle:
    """Something that comes round: its values, how columns of its numbers are called, and its words.

    A reference with as many values as are ``enough`` holds all of it: weeks may have working days only.
    """

    plural: str
    whole: str
    n_values: int
    enough: int
    names: frozenset[str]
    words: tuple[frozenset[str], ...] = ()

    def is_part(self, values: Collection[Any]) -> bool:
        """Whether values that all belong to it leave some of it out."""
        return len(values) < self.enough


def _words(*lists: list[str]) -> tuple[frozenset[str], ...]:
    return tuple(map(frozenset, lists))


_CYCLES = (
    _Cycle("months", "year", 12, 12, frozenset({"month", "mnth"}), _words(_MONTHS, [name[:3] for name in _MONTHS])),
    _Cycle("weekdays", "week", 7, 5, frozenset({"weekday", "dayofweek"}), _words(_DAYS, [name[:3] for name in _DAYS])),
    _Cycle(
        *("seasons", "year", 4, 4, frozenset({"season"})),
        _words(["spring", "summer", "autumn", "winter"], ["spring", "summer", "fall", "winter"]),
    ),
    _Cycle("quarters", "year", 4, 4, frozenset({"quarter", "qtr"}), _words([f"q{number}" for number in range(1, 5)])),
    _Cycle("weeks", "year", 53, 52, frozenset({"week", "weekofyear"})),
)


def remarks_on_used(frame: pl.DataFrame, plans: tuple[Any, ...], kept: Collection[str]) -> list[Remark]:
    """Return a remark on each column that holds only a part of a year or a week, or numbers that look like codes.

    The rest of a year is new to the reference when it comes, and an order of codes means nothing.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference.
    plans : tuple of plans
        What is done with each column.
    kept : collection of str
        Columns that the user wants to be used as they are.
    """
    if frame.height < _FEWEST_ROWS:
        return []
    looked_at = [plan for plan in plans if plan.name not in kept]
    found = [_remark_on_calendar(plan, frame[plan.name]) for plan in looked_at]
    found += [_remark_on_codes(frame[plan.name]) for plan in looked_at if isinstance(plan, NumberColumn)]
    return [remark for remark in found if remark is not None]


def is_part_of_calendar(plan: Any) -> bool:
    """Whether the categories of a column are names of which a year or a week has more."""
    if not isinstance(plan, CategoryColumn):
        return False
    return _named_part(pl.Series(plan.name, [*plan.levels, *plan.rare], dtype=pl.String)) is not None


def _remark_on_calendar(plan: Any, column: pl.Series) -> Remark | None:
    found = None
    if isinstance(plan, CategoryColumn):
        found = _named_part(column)
    elif isinstance(plan, NumberColumn):
        found = _numbered_part(column)
    return None if found is None else _of_calendar(column.name, *found)


def _remark_on_codes(column: pl.Series) -> Remark | None:
    name = column.name
    *others, last = _words_of(name)
    is_code = last in _CODE_WORDS and _QUANTITY_WORDS.isdisjoint(others)
    values = _whole_numbers(column) if is_code else None
    if values is None or len(values) < _FEWEST_CODES or values[0] < 0:
        return None
    text = (
        f"Column {name!r} is called like a code and holds {len(values):,} different whole numbers, read as amounts: if "
        f"they only name something, use --categorical {name} or --drop {name}."
    )
    return Remark("code", name, text)


def _words_of(name: str) -> list[str]:
    """Return the words of a name; the last one says what the numbers are, so that "week number" ends with the week."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return [word for word in words if word not in _NUMBER_WORDS] or [""]


def _whole_numbers(column: pl.Series) -> list[int] | None:
    """Return the different numbers of a column in order; None if some are not whole."""
    values, is_bad = to_numbers(column)
    known = np.unique(values[~(np.isnan(values) | is_bad)])
    return None if not len(known) or (known % 1.0 != 0.0).any() else [int(value) for value in known]


def _named_part(column: pl.Series) -> tuple[_Cycle, list[str]] | None:
    """Return the calendar that the words of a column are a part of."""
    texts = to_texts(column).drop_nulls().str.strip_chars().unique().sort().to_list()
    found = {text.lower().rstrip("."): text for text in reversed(texts)}  # of several spellings, the first
    for cycle in _CYCLES:
        if len(found) > 1 and any(found.keys() <= words for words in cycle.words):
            return (cycle, sorted(found.values())) if cycle.is_part(found) else None
    return None


def _numbered_part(column: pl.Series) -> tuple[_Cycle, list[str]] | None:
    """Return the calendar that a column of whole numbers is a part of, by its name."""
    words = _words_of(column.name)
    for cycle in _CYCLES:
        if cycle.names.isdisjoint((words[-1], "".join(words[-3:]))):  # such as day_of_week
            continue
        values = _whole_numbers(column)
        if values is None or values[0] < 0 or values[-1] > cycle.n_values or not cycle.is_part(values):
            return None
        return cycle, [str(value) for value in values]
    return None


def _of_calendar(name: str, cycle: _Cycle, values: list[str]) -> Remark:
    shown = ", ".join(values[:_MOST_SHOWN]) + (", ..." if len(values) > _MOST_SHOWN else "")
    of_all = f"{len(values)} of the {cycle.n_values} {cycle.plural} ({shown})"
    text = (
        f"Column {name!r} holds only {of_all}: the others will be new to the reference. Leave it out with --drop "
        f"{name}, or take a reference of a whole {cycle.whole}."
    )
    return Remark("calendar", name, text)
