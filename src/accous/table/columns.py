"""Columns as features: how each column is encoded, learned from a reference."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from accous.arrays import FloatArray, from_plain
from accous.exceptions import CheckpointError, DataError
from accous.table.readers import (
    LIKE_A_DATE,
    MISSING_TEXTS,
    NO_DECIMAL_COMMAS,
    BadValue,
    count_times,
    is_usable,
    plain_text,
    to_numbers,
    to_texts,
    to_times,
)
from accous.text import count, did_you_mean, listed, nearest_name

# --- How a column is encoded: as a number, a category, a date, or not at all


# Reasons to leave a column out; such columns are still watched.
ALWAYS_THE_SAME, ALL_MISSING = "always the same value", "all values are missing"
FREE_TEXT = "free text"
_MISSING, _OTHER = "(missing)", "(other)"
# With more levels, trees that choose which of them go together fit the noise of a reference (docs/defaults.md).
_MOST_CHOSEN_FROM = 8
LARGEST = 1e9  # in standard deviations of the reference: enough to be far away, and its square is a number


@dataclass(frozen=True)
class Encoded:
    """A column as features.

    Attributes
    ----------
    features : array of shape (n_rows, n_features)
    is_bad : array of shape (n_rows,)
        Values that cannot be read.
    reason : str
        What is wrong with them; messages put it after the value.
    is_missing, is_unknown : array of shape (n_rows,) or None
        Values that are missing, and categories that the reference does not have; None where there are none.
    """

    features: FloatArray
    is_bad: NDArray[np.bool_]
    reason: str
    is_missing: NDArray[np.bool_] | None = None
    is_unknown: NDArray[np.bool_] | None = None


class ColumnPlan(Protocol):
    """How one column is encoded."""

    kind: ClassVar[str]

    @property
    def name(self) -> str:
        """The column."""

    @property
    def feature_names(self) -> list[str]:
        """Names of its features."""

    def encode(self, column: pl.Series) -> Encoded:
        """Return the column as features."""

    def summary(self) -> str:
        """Describe the encoding in one line."""


@dataclass(frozen=True)
class NumberColumn:
    """A number: missing values become the reference's median, then mean 0 and deviation 1 on the reference.

    Attributes
    ----------
    name : str
    median, mean, deviation : float
        Of the reference; mean and deviation after missing values are filled in.
    marks_missing : bool
        Whether a second feature marks missing values; it does if the reference has any.
    """

    name: str
    median: float
    mean: float
    deviation: float
    marks_missing: bool
    kind: ClassVar[str] = "number"

    @property
    def feature_names(self) -> list[str]:
        """The number and, if the reference has missing values, whether it is missing."""
        return [self.name, f"{self.name} is missing"] if self.marks_missing else [self.name]

    def encode(self, column: pl.Series) -> Encoded:
        """Return the number, scaled, and whether it is missing."""
        values, is_bad = to_numbers(column)
        is_missing = np.isnan(values)
        has_missing = bool(is_missing.any())
        if has_missing:
            values = np.where(is_missing, self.median, values)
        with np.errstate(over="ignore"):  # what becomes infinite is cut
            scaled = (values - self.mean) / self.deviation
        features = np.clip(scaled, -LARGEST, LARGEST)[:, None]
        if self.marks_missing:
            features = np.column_stack((features, is_missing))
        return Encoded(features, is_bad, "is not a number", is_missing if has_missing else None)

    def summary(self) -> str:
        """Describe the encoding in one line."""
        marked = ", marked" if self.marks_missing else ""
        sign = "+" if self.mean < 0.0 else "-"
        return f"(x {sign} {abs(self.mean):.4g}) / {self.deviation:.4g}; missing: {self.median:.4g}{marked}"


@dataclass(frozen=True, kw_only=True)
class CategoryColumn:
    """A category: one feature for each level that is frequent in the reference.

    Attributes
    ----------
    name : str
    levels : list of str
        The frequent levels, the most frequent first.
    has_other : bool
        Whether one more feature stands for all levels that are rare in the reference, and for unknown levels. Without
        it, unknown levels have no feature.
    has_missing : bool
        Whether one more feature stands for missing values.
    rare : list of str
        The levels that share a feature; empty if there are too many to list.
    n_rare : int
    """

    name: str
    levels: list[str]
    has_other: bool
    has_missing: bool
    rare: list[str]
    n_rare: int
    kind: ClassVar[str] = "category"

    @property
    def _all_levels(self) -> list[str]:
        return [*self.levels, *[_OTHER] * self.has_other, *[_MISSING] * self.has_missing]

    @property
    def is_ranked(self) -> bool:
        """Whether trees read the rank of a level, the most frequent first, and do not choose among all its levels."""
        return len(self._all_levels) > _MOST_CHOSEN_FROM

    @property
    def feature_names(self) -> list[str]:
        """One for each level."""
        return [f"{self.name} = {level}" for level in self._all_levels]

    def encode(self, column: pl.Series) -> Encoded:
        """Return one-hot features."""
        texts, n_levels = to_texts(column), len(self.levels)
        codes = texts.replace_strict(self.levels, list(range(n_levels)), default=-1, return_dtype=pl.Int64).to_numpy()
        is_missing = texts.is_null().to_numpy()
        is_other = (codes < 0) & ~is_missing
        columns = [codes == level for level in range(n_levels)]
        columns += [is_other] * self.has_other + [is_missing] * self.has_missing
        features = np.column_stack(columns).astype(np.float64)
        is_unknown = ~self.is_known(column) if is_other.any() else None
        return Encoded(features, np.zeros(len(texts), dtype=bool), "", is_missing, is_unknown)

    def is_known(self, column: pl.Series) -> NDArray[np.bool_]:
        """Which values are missing or in the reference; all, if the reference has too many rare levels to list."""
        if self.n_rare > len(self.rare):
            return np.ones(len(column), dtype=bool)
        texts = to_texts(column)
        return np.asarray((texts.is_in([*self.levels, *self.rare]) | texts.is_null()).fill_null(True).to_numpy())

    def summary(self) -> str:
        """Describe the encoding in one line."""
        parts = [f"{count(len(self.levels), 'level')}, a feature each"]
        if self.has_other:
            rare = count(self.n_rare, "rare level")
            parts.append(f"{rare} and unknown levels share one")
        else:
            parts.append("unknown levels have none")
        if self.has_missing:
            parts.append("missing is a level")
        if self.is_ranked:
            parts.append("boosting reads their rank by frequency")
        return "; ".join(parts)


@dataclass(frozen=True)
class DateColumn:
    """A date: its position in the cycles that the reference covers twice, each as a point on a circle.

    The date itself is not a feature: every future date lies outside the reference, and no weighting could follow it.

    Attributes
    ----------
    name : str
    form : str
        The format, as for ``strftime``; empty for a column of typed dates.
    cycles : list of str
        Of ``"year"``, ``"week"`` and ``"day"``.
    """

    name: str
    form: str
    cycles: list[str]
    kind: ClassVar[str] = "date"

    @property
    def feature_names(self) -> list[str]:
        """Two for each cycle."""
        return [f"{self.name}: {part} of {cycle}" for cycle in self.cycles for part in ("sine", "cosine")]

    def encode(self, column: pl.Series) -> Encoded:
        """Return a point on a circle for each cycle; its centre where the date is missing."""
        times, is_bad = to_times(column, self.form)
        columns = []
        for cycle in self.cycles:
            angles = np.asarray(_share_of_cycle(times, cycle).to_numpy(), dtype=np.float64) * 2.0 * np.pi
            columns += [np.nan_to_num(np.sin(angles)), np.nan_to_num(np.cos(angles))]
        is_missing = times.is_null().to_numpy() & ~is_bad
        return Encoded(np.column_stack(columns), is_bad, "is not a date like those of the reference", is_missing)

    def summary(self) -> str:
        """Describe the encoding in one line."""
        features = "two features each" if len(self.cycles) > 1 else "two features"
        return f"position in the {', '.join(self.cycles)}, {features}; the date itself is left out"


@dataclass(frozen=True)
class LeftOutColumn:
    """A column that is not used.

    Attributes
    ----------
    name, reason : str
    """

    name: str
    reason: str
    kind: ClassVar[str] = "left out"

    def summary(self) -> str:
        """Give the reason in one line."""
        return self.reason


_PLANS: dict[str, type[Any]] = {plan.kind: plan for plan in (NumberColumn, CategoryColumn, DateColumn, LeftOutColumn)}


def plan_to_json(plan: Any) -> dict[str, Any]:
    """Return the plan, ready for JSON."""
    return {"kind": plan.kind, **asdict(plan)}


def plan_from_json(content: dict[str, Any]) -> Any:
    """Undo ``plan_to_json``."""
    parts = dict(content)
    cls = _PLANS.get(parts.pop("kind", ""))
    if cls is None:
        raise CheckpointError(
            "The saved preprocessing has a kind of column that this version of accous does not know: upgrade accous."
        )
    return cls(**parts)


def _share_of_cycle(times: pl.Series, cycle: str) -> pl.Series:
    seconds = times.dt.hour().cast(pl.Float64) * 3600 + times.dt.minute() * 60 + times.dt.second()
    day = seconds / 86_400
    if cycle == "day":
        return day
    if cycle == "week":
        return (times.dt.weekday().cast(pl.Float64) - 1 + day) / 7
    return (times.dt.ordinal_day().cast(pl.Float64) - 1 + day) / 365.25


# --- Decides from the reference how to encode each column


_SHARE_OF_KIND = 0.9
_LOOKS_LIKE_A_DATE = re.compile(LIKE_A_DATE)
_RAREST_SHARE, _RAREST_COUNT, _MOST_LEVELS, _MOST_RARE = 0.005, 5, 50, 1000
_NEARLY_EMPTY, _WORDS_OF_TEXT = 0.05, 2.5
_SMALLEST_DEVIATION = 1e-12
DATE_FORMS = (
    "%Y-%m-%d",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.fZ",
    "%Y-%m-%dT%H:%M:%S%.f%z",
    "%Y-%m-%d %H:%M:%S%.f%z",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y%m%dT%H%M%S",
    *(
        f"{day}{time}"
        for day in ("%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%m/%d/%Y", "%m-%d-%Y")
        for time in ("", " %H:%M", " %H:%M:%S", " %I:%M:%S %p")
    ),
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
    # If none of these looks like one, the others are too few. It takes a tenth of the time of the query below.
    first = texts.drop_nulls().head(int(n_values - _SHARE_OF_KIND * n_values) + 1)
    if not any(map(_LOOKS_LIKE_A_DATE.search, first.to_list())):
        return None
    readable = count_times(texts, DATE_FORMS)
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
        return LeftOutColumn(column.name, "the time of the rows, so all later rows would lie outside the reference")
    values, is_bad = to_numbers(column)
    is_there = ~np.isnan(values) & ~is_bad
    largest = float(np.abs(values[is_there]).max())
    if largest > 1e150:
        raise DataError(
            f"Column {column.name!r} of the reference holds {largest:.3g}, too large to compute with; rescale it."
        )
    median = float(np.median(values[is_there]))
    filled = np.where(is_there, values, median)
    mean, deviation = float(filled.mean()), float(filled.std())
    if deviation <= _SMALLEST_DEVIATION * max(1.0, abs(mean)):
        return LeftOutColumn(column.name, ALWAYS_THE_SAME)
    return NumberColumn(column.name, median, mean, deviation, bool(np.isnan(values).any()))


def _plan_date(column: pl.Series, form: str) -> DateColumn | LeftOutColumn:
    times, _ = to_times(column, form)
    days = (times.max() - times.min()).total_seconds() / 86_400  # type: ignore[operator,union-attr]
    has_hours = bool((times.dt.hour() != 0).any() or (times.dt.minute() != 0).any())
    # In a single turn, the position says no more than the time itself, and no later row is like an earlier one.
    cycles = [cycle for cycle, length in _CYCLE_DAYS.items() if days >= 2 * length and (cycle != "day" or has_hours)]
    if not cycles:
        return LeftOutColumn(column.name, "a date, and the reference holds no year, week or day twice")
    return DateColumn(column.name, form, cycles)


def _plan_category(name: str, texts: pl.Series, *, is_sure: bool = True) -> CategoryColumn | LeftOutColumn:
    n_values = len(texts) - texts.null_count()
    ordered = _ordered_levels(texts)
    smallest = max(_RAREST_COUNT, int(np.ceil(_RAREST_SHARE * len(texts))))
    frequent = [level for level, count in ordered if count >= smallest][:_MOST_LEVELS]
    n_rare = len(ordered) - len(frequent)
    if not is_sure and n_values and sum(count for level, count in ordered if level in set(frequent)) < 0.5 * n_values:
        return LeftOutColumn(name, _describe_rare(texts, len(ordered), f"--categorical {name}" if frequent else ""))
    if len(ordered) == 1 and n_values == len(texts):
        return LeftOutColumn(name, ALWAYS_THE_SAME)
    if not frequent:
        return LeftOutColumn(name, _describe_rare(texts, len(ordered), ""))
    rare = sorted({level for level, _ in ordered} - set(frequent)) if n_rare <= _MOST_RARE else []
    return CategoryColumn(
        name=name, levels=frequent, has_other=n_rare > 0, has_missing=texts.null_count() > 0, rare=rare, n_rare=n_rare
    )


def _describe_rare(texts: pl.Series, n_different: int, option: str) -> str:
    """Return what a column of rare levels is: nearly empty, sentences, or words such as names; and how to use it."""
    values = texts.drop_nulls()
    way_out = f"; use it with {option}" if option else ""
    if len(values) <= _NEARLY_EMPTY * len(texts):
        return f"a value in only {count(len(values), 'row')} of {len(texts):,}{way_out}"
    n_words = float(np.mean(values.str.count_matches(r"\S+").to_numpy()))
    if n_words >= _WORDS_OF_TEXT:
        return f"{FREE_TEXT}: {n_words:.0f} words on average, {n_different:,} different texts{way_out}"
    return f"text with {n_different:,} different values, {'most' if option else 'all'} of them rare{way_out}"


# --- What is remembered about each column of the reference, so that something new in the stream is seen


_ROUNDING = 1e-9


@dataclass(frozen=True)
class ColumnRecord:
    """One column of the reference.

    Attributes
    ----------
    n_rows, n_missing : int
        Rows of the reference, and how many have no value.
    low, high : float, optional
        Smallest and largest number.
    constant : str, optional
        The only value, of a column that is left out because it has only one and that is no number.
    n_once : int, optional
        How many categories occur once; None if the categories are not all known.
    n_new : int
        Rows that joined the reference later with another value of a constant column.
    joined : tuple of str
        Categories that have joined the reference later; the last thousand of them.
    """

    n_rows: int
    n_missing: int
    low: float | None = None
    high: float | None = None
    constant: str | None = None
    n_once: int | None = None
    n_new: int = 0
    joined: tuple[str, ...] = ()

    @property
    def only_value(self) -> str:
        """The value of a constant column, for a sentence."""
        if self.n_missing == self.n_rows:
            return "missing"
        return f"{self.low:.6g}" if self.constant is None else repr(self.constant)

    def is_new(self, column: pl.Series) -> NDArray[np.bool_]:
        """Which values differ from the only value of a constant column; missing values do not."""
        texts = to_texts(column)
        is_there = texts.is_not_null().to_numpy()
        if self.low is None or self.high is None:
            is_same = False if self.constant is None else (texts == self.constant).fill_null(True).to_numpy()
            return np.asarray(is_there & ~np.asarray(is_same, dtype=bool))
        values, is_bad = to_numbers(column)
        margin = _ROUNDING * max(1.0, abs(self.low))
        return np.asarray(is_there & (is_bad | (values < self.low - margin) | (values > self.high + margin)))


def record_column(column: pl.Series, plan: Any) -> ColumnRecord | None:
    """Return what to remember about a column of the reference; None if it is left out and not constant."""
    is_left_out = isinstance(plan, LeftOutColumn)
    if (is_left_out and plan.reason not in (ALWAYS_THE_SAME, ALL_MISSING)) or not is_usable(column.dtype):
        return None
    if is_left_out:
        return _record_constant(column, plan)
    if isinstance(plan, NumberColumn):
        return _record_number(column)
    texts = to_texts(column)
    n_once = None
    if isinstance(plan, CategoryColumn) and plan.n_rare == len(plan.rare):
        n_once = int((texts.drop_nulls().value_counts()["count"] == 1).sum())
    return ColumnRecord(len(column), texts.null_count(), n_once=n_once)


def _record_number(column: pl.Series) -> ColumnRecord:
    values, is_bad = to_numbers(column)
    there = values[~np.isnan(values) & ~is_bad]
    return ColumnRecord(len(column), int(np.isnan(values).sum()), float(there.min()), float(there.max()))


def _record_constant(column: pl.Series, plan: LeftOutColumn) -> ColumnRecord:
    if plan.reason == ALL_MISSING:
        return ColumnRecord(len(column), len(column))
    values, is_bad = to_numbers(column)
    if not is_bad.any() and not np.isnan(values).all():
        return _record_number(column)
    texts = to_texts(column)
    return ColumnRecord(len(column), texts.null_count(), constant=str(texts.drop_nulls()[0]))


# --- Marks on the rows of a stream: values that are missing, new categories, new values of constant columns


MISSING, CATEGORIES, NEW_VALUES = "missing", "categories", "new values"
_LONGEST = 40


@dataclass(frozen=True)
class Mark:
    """Something that a row may show in one column.

    Attributes
    ----------
    column : str
    kind : {"missing", "categories", "new values"}
    n_reference : int
        Rows of the reference.
    n_hits : int
        How many of them show it. A category that occurs once would be new without its row.
    """

    column: str
    kind: str
    n_reference: int
    n_hits: int


@dataclass(frozen=True)
class Marks:
    """The marks of rows.

    Attributes
    ----------
    hits : array of uint8 of shape (n_rows, n_marks)
    values : dict of str to array of shape (n_rows,)
        The new values as text, for each column that has one anywhere; None in the other rows.
    """

    hits: NDArray[np.uint8]
    values: dict[str, NDArray[Any]]

    def __getitem__(self, rows: Any) -> Marks:
        return Marks(self.hits[rows], {name: each[rows] for name, each in self.values.items()})

    def followed_by(self, others: Marks) -> Marks:
        """Return these rows and the others as one."""
        values = {
            name: np.concatenate([each.values.get(name, np.full(len(each.hits), None)) for each in (self, others)])
            for name in self.values | others.values
        }
        return Marks(np.concatenate((self.hits, others.hits)), values)

    def without(self, marks: list[Mark], known: Mapping[str, Collection[str]]) -> Marks:
        """Return the same without categories that the reference has come to know.

        Parameters
        ----------
        marks : list of Mark
        known : mapping of str to collection of str
            Such categories, for each column that has some.
        """
        hits, values = self.hits.copy(), dict(self.values)
        for number, mark in enumerate(marks):
            if mark.kind != CATEGORIES or mark.column not in known or mark.column not in values:
                continue
            column = values[mark.column] = values[mark.column].copy()
            is_known = np.array([each in known[mark.column] for each in column.tolist()], dtype=bool)
            hits[is_known, number], column[is_known] = 0, None
        return Marks(hits, values)

    def latest(self) -> dict[str, str]:
        """Return the last new value of each column that has one."""
        places = ((name, each, np.flatnonzero(each != None)) for name, each in self.values.items())  # noqa: E711
        return {name: _shortened(each[rows[-1]]) for name, each, rows in places if len(rows)}


def list_marks(plans: tuple[Any, ...], records: tuple[ColumnRecord | None, ...]) -> list[Mark]:
    """Return the marks that rows may have, in the order of the columns."""
    marks = []
    for plan, record in zip(plans, records, strict=False):
        if record is None:
            continue
        is_empty = record.n_missing == record.n_rows
        if not is_empty:
            marks.append(Mark(plan.name, MISSING, record.n_rows, record.n_missing))
        if isinstance(plan, LeftOutColumn):
            marks.append(Mark(plan.name, NEW_VALUES, record.n_rows, record.n_new))
        elif record.n_once is not None:
            marks.append(Mark(plan.name, CATEGORIES, record.n_rows, record.n_once))
    return marks


def mark_rows(marks: list[Mark], shown: Mapping[tuple[str, str], Any], frame: pl.DataFrame) -> Marks:
    """Return the marks of the rows of a frame.

    Parameters
    ----------
    marks : list of Mark
    shown : mapping
        By column and kind: which rows show it.
    frame : polars.DataFrame
    """
    hits = np.zeros((frame.height, len(marks)), dtype=np.uint8)
    values: dict[str, NDArray[Any]] = {}
    for number, mark in enumerate(marks):
        is_shown = shown.get((mark.column, mark.kind))
        if is_shown is None:
            continue
        hits[:, number] = is_shown
        if mark.kind != MISSING and is_shown.any():
            values[mark.column] = np.array(to_texts(frame[mark.column]).to_list(), dtype=object)
            values[mark.column][~np.asarray(is_shown, dtype=bool)] = None
    return Marks(hits, values)


# --- Encoded features folded back into plain columns, for models that need no encoding: trees


NUMBERS, MARKED, CATEGORY, RANKED = "numbers", "number with mark", "category", "ranked category"
Block = tuple[str, int]


class PlainColumns(TransformerMixin, BaseEstimator):
    """Folds the features of a table back: a category becomes one column of codes, a missing number becomes NaN.

    The model of a table keeps its rows as the features that a linear model reads. Trees do better with categories as
    categories and with missing values as they are. A number stays scaled, which means nothing to a tree. A number that
    is missing nowhere in the reference has no mark, so where it is missing later it stays the median.

    Parameters
    ----------
    blocks : tuple of (str, int)
        For every column of the table what it is, "numbers", "number with mark", "category" or "ranked category", and
        how many features it has. The codes of categories are ranks by frequency; only of "category" they mean nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.table.columns import PlainColumns
    >>> columns = PlainColumns((("number with mark", 2), ("category", 3)))
    >>> columns.fit_transform(np.array([[0.5, 0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0, 0.0]]))
    array([[0.5, 1. ],
           [nan, 0. ]])
    """

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        self.blocks = blocks

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Do nothing: the blocks say everything."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return one column for each number, each category and each coordinate of a date."""
        if all(kind == NUMBERS for kind, _ in self.blocks):
            return X
        columns: list[FloatArray] = []
        start = 0
        for kind, n_features in self.blocks:
            part = X[:, start : start + n_features]
            columns.append(part if kind == NUMBERS else _fold(part, kind)[:, None])
            start += n_features
        return np.concatenate((*columns, X[:, start:]), axis=1)


def _fold(part: FloatArray, kind: str) -> FloatArray:
    """Return one column in place of several features."""
    if kind == MARKED:
        return np.where(part[:, 1] > 0.0, np.nan, part[:, 0])
    return np.where(part.max(axis=1) > 0.0, part.argmax(axis=1).astype(np.float64), np.nan)


def places_of_categories(blocks: tuple[Block, ...]) -> list[int]:
    """Return which plain columns are categories whose codes have no order."""
    kinds = [kind for kind, n_features in blocks for _ in range(n_features if kind == NUMBERS else 1)]
    return [place for place, kind in enumerate(kinds) if kind == CATEGORY]


def _kind(plan: ColumnPlan) -> str:
    if isinstance(plan, CategoryColumn):
        return RANKED if plan.is_ranked else CATEGORY
    return MARKED if isinstance(plan, NumberColumn) and plan.marks_missing else NUMBERS


# --- The preprocessing: columns in, features out, and the values that cannot be used


_WITH_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
_MOST_NAMED = 3


@dataclass(frozen=True)
class Features:
    """Rows as features.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
        Meaningless in the rows of bad values.
    bad_values : list of BadValue
        At most one per row, in the order of the rows.
    n_missing, n_unknown : array of shape (n_rows,)
        Values in each row that are missing, and categories that the reference does not have.
    marks : Marks
        The same by column, and new values of columns that are constant in the reference.
    """

    X: NDArray[np.float64]
    bad_values: list[BadValue]
    n_missing: NDArray[np.int64]
    n_unknown: NDArray[np.int64]
    marks: Marks

    def with_faults(self, faults: Mapping[int, BadValue]) -> Features:
        """Return the same with more bad values; in a row that has one already, the new one replaces it."""
        bad = {value.row: value for value in self.bad_values} | dict(faults)
        return replace(self, bad_values=[bad[row] for row in sorted(bad)])


@dataclass(frozen=True)
class ColumnEncoder:
    """Encodes the columns of a table as features, as learned from the reference.

    Attributes
    ----------
    plans : tuple of column plans
    records : tuple of ColumnRecord or None
        What is remembered about each column; empty if nothing is, as in folders of the first versions.
    extra : tuple of column plans
        What labelled rows have and the reference has not, as further features after all others.
    """

    plans: tuple[Any, ...]
    records: tuple[ColumnRecord | None, ...] = ()
    extra: tuple[ColumnPlan, ...] = ()

    @classmethod
    def learn(cls, frame: pl.DataFrame, choices: Choices) -> Self:
        """Learn from the reference how to encode each column."""
        for name in (*choices.drop, *choices.categorical):
            if name not in frame.columns:
                meant = did_you_mean(name, frame.columns)
                raise DataError(
                    f"There is no column {name!r}{meant} to drop or to read as a category: the columns are "
                    f"{listed(frame.columns)}."
                )
        encoder = cls(tuple(plan_column(frame[name], choices) for name in frame.columns))
        if not encoder.used:
            raise DataError(
                "No column of the reference can be used as a feature: every one is constant, empty, text, an id or a "
                "counter. --keep-as-feature COL uses an id or a counter."
            )
        return encoder

    def with_records(self, frame: pl.DataFrame) -> Self:
        """Return the same encoder that also remembers what the reference looks like, to notice something new."""
        return replace(self, records=tuple(record_column(frame[plan.name], plan) for plan in self.plans))

    def with_extra(self, labelled: pl.DataFrame) -> Self:
        """Return the same encoder with features for what labelled rows have and the reference has not, or hardly.

        Categories that are frequent now, gaps, cycles of dates that the rows cover now, and columns that were constant
        in the reference: what a fit on these rows would read. In the reference, and for whoever reads the features of
        the reference alone, they are all 0, so its rows need not be kept as they were.
        """
        extra = [_extra_plan(plan, labelled[plan.name]) for plan in self.used]
        extra += [
            _plan_of_constant(record, labelled[name])
            for name, record in self.constants.items()
            if name in labelled.columns
        ]
        return replace(self, extra=tuple(plan for plan in extra if plan is not None))

    @cached_property
    def joined_categories(self) -> dict[str, tuple[str, ...]]:
        """Categories that have joined the reference since ``fit``, for each column that has some."""
        pairs = zip(self.plans, self.records, strict=False)
        return {plan.name: record.joined for plan, record in pairs if record is not None and record.joined}

    @cached_property
    def marks(self) -> list[Mark]:
        """The marks that rows may have."""
        return list_marks(self.plans, self.records)

    @cached_property
    def constants(self) -> dict[str, ColumnRecord]:
        """Columns that are left out because they are constant or empty in the reference; they are still watched."""
        pairs = zip(self.plans, self.records, strict=False)
        return {plan.name: record for plan, record in pairs if record is not None and isinstance(plan, LeftOutColumn)}

    @property
    def used(self) -> list[ColumnPlan]:
        """Plans of the columns that are used."""
        return [plan for plan in self.plans if not isinstance(plan, LeftOutColumn)]

    @property
    def used_columns(self) -> list[str]:
        """Columns that are used."""
        return [plan.name for plan in self.used]

    @property
    def feature_names(self) -> list[str]:
        """Names of all features."""
        return [name for plan in self.used for name in plan.feature_names]

    @property
    def blocks(self) -> tuple[Block, ...]:
        """What the features are, column by column, for `PlainColumns`."""
        return tuple((_kind(plan), len(plan.feature_names)) for plan in self.used)

    @property
    def column_of_feature(self) -> list[str]:
        """The column that each feature comes from."""
        return [plan.name for plan in self.used for _ in plan.feature_names]

    def encode(self, frame: pl.DataFrame, *, accepts_unknown: bool = True) -> Features:
        """Return the features of rows.

        Parameters
        ----------
        frame : polars.DataFrame
            With the columns used, in any order.
        accepts_unknown : bool, optional
            Whether categories that the reference does not have are accepted, or are bad values.
        """
        blocks: list[NDArray[np.float64]] = []
        bad: dict[int, BadValue] = {}
        n_missing, n_unknown = np.zeros((2, frame.height), dtype=np.int64)
        shown: dict[tuple[str, str], Any] = self._watch_constants(frame)
        for plan in self.used:
            column = frame[plan.name]
            encoded = plan.encode(column)
            blocks.append(encoded.features)
            is_bad, reason = encoded.is_bad, encoded.reason
            if not accepts_unknown and encoded.is_unknown is not None:
                is_bad, reason = (
                    self._without_extra(column, encoded.is_unknown),
                    "is a category that the reference does not have",
                )
            for row in np.flatnonzero(is_bad).tolist():
                bad.setdefault(
                    row, BadValue(row, plan.name, f"{_shortened(column[row])!r} {reason}{_hint(plan, column[row])}")
                )
            if encoded.is_missing is not None:
                n_missing += encoded.is_missing
                shown[plan.name, MISSING] = encoded.is_missing
            if encoded.is_unknown is not None:
                is_unknown = self._without_extra(column, encoded.is_unknown)
                n_unknown += is_unknown
                shown[plan.name, CATEGORIES] = is_unknown
        for plan in self.extra:
            # A table need not have a column that was constant.
            nothing = np.zeros((frame.height, len(plan.feature_names)))
            blocks.append(plan.encode(frame[plan.name]).features if plan.name in frame.columns else nothing)
        X = np.ascontiguousarray(np.column_stack(blocks))
        marks = mark_rows(self.marks, shown, frame)
        return Features(X, [bad[row] for row in sorted(bad)], n_missing, n_unknown, marks)

    def _without_extra(self, column: pl.Series, is_unknown: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which categories are still unknown: not those that labelled rows have."""
        plans = [plan for plan in self.extra if isinstance(plan, CategoryColumn) and plan.name == column.name]
        learned = [level for plan in plans for level in plan.levels]
        return is_unknown & ~to_texts(column).is_in(learned).fill_null(False).to_numpy() if learned else is_unknown

    def _watch_constants(self, frame: pl.DataFrame) -> dict[tuple[str, str], Any]:
        shown, schema = {}, frame.schema
        for name, record in self.constants.items():
            # A table need not have a column that the model does not use.
            if name in schema and is_usable(schema[name]):
                shown[name, NEW_VALUES] = record.is_new(frame[name])
                shown[name, MISSING] = to_texts(frame[name]).is_null().to_numpy()
        return shown

    def require_columns(self, columns: list[str], table: str) -> None:
        """Raise a DataError that names the columns missing from a table."""
        known = set(columns)
        lacking = [name for name in self.used_columns if name not in known]
        if lacking:
            meant = _renamed(lacking, [name for name in columns if name not in self.used_columns])
            raise DataError(
                f"{table} has no column {listed(lacking)}, which the model was fitted with: it has "
                f"{listed(columns)}.{meant}{'' if meant and len(lacking) == 1 else _what_to_do(lacking)}"
            )

    def to_json(self) -> list[dict[str, Any]]:
        """Return all plans, ready for JSON."""
        content = [plan_to_json(plan) for plan in self.plans]
        for each, record in zip(content, self.records, strict=False):
            each["reference"] = None if record is None else asdict(record)
        return content

    @classmethod
    def from_json(cls, content: list[dict[str, Any]]) -> Self:
        """Undo ``to_json``."""
        plans, records = [], []
        for each in content:
            plan = dict(each)
            records.append(from_plain(ColumnRecord | None, plan.pop("reference", None)))
            plans.append(plan_from_json(plan))
        return cls(tuple(plans), tuple(records) if any(records) else ())


def _extra_plan(plan: ColumnPlan, column: pl.Series) -> ColumnPlan | None:
    """Return what labelled rows add to a column that is used; None if nothing."""
    if isinstance(plan, DateColumn):
        found = None if to_times(column, plan.form)[0].is_null().all() else _plan_date(column, plan.form)
        new = [cycle for cycle in found.cycles if cycle not in plan.cycles] if isinstance(found, DateColumn) else []
        return replace(plan, cycles=new) if new else None
    texts = to_texts(column)
    has_gaps = plan.has_missing if isinstance(plan, CategoryColumn) else getattr(plan, "marks_missing", True)
    levels = _frequent_levels(texts, plan.levels) if isinstance(plan, CategoryColumn) else []
    return _plan_of_levels(plan.name, levels, has_missing=texts.null_count() >= _RAREST_COUNT and not has_gaps)


def _plan_of_constant(record: ColumnRecord, column: pl.Series) -> ColumnPlan | None:
    """Return how to read a column that was constant in the reference; None if it still is, or is hardly readable."""
    if int(record.is_new(column).sum()) < _RAREST_COUNT:
        return None
    plan = plan_column(column, Choices())
    if isinstance(plan, NumberColumn):
        only = plan.median if record.low is None else record.low
        return replace(plan, mean=only, median=only, marks_missing=False)
    levels = _frequent_levels(to_texts(column), [record.constant]) if isinstance(plan, CategoryColumn) else []
    return _plan_of_levels(column.name, levels, has_missing=False)


def _frequent_levels(texts: pl.Series, known: Collection[str | None]) -> list[str]:
    return [level for level, n_rows in _ordered_levels(texts) if n_rows >= _RAREST_COUNT and level not in known][
        :_MOST_LEVELS
    ]


def _ordered_levels(texts: pl.Series) -> list[tuple[str, int]]:
    """Return levels and counts by falling count and then by name: the same whatever order the rows came in."""
    return sorted(texts.drop_nulls().value_counts(sort=False).iter_rows(), key=lambda level: (-level[1], level[0]))


def _plan_of_levels(name: str, levels: list[str], *, has_missing: bool) -> CategoryColumn | None:
    if not (levels or has_missing):
        return None
    return CategoryColumn(name=name, levels=levels, has_other=False, has_missing=has_missing, rare=[], n_rare=0)


def _renamed(lacking: list[str], others: list[str]) -> str:
    """Return a hint at the first column that a table may have under another name; empty if there is none."""
    for name in lacking:
        near = nearest_name(name, others)
        if near is not None:
            return f" Rename {near!r} if it is {name!r}."
    return ""


def _hint(plan: ColumnPlan, value: Any) -> str:
    """Return why a value is not a number, if it is one with a decimal comma."""
    is_comma = isinstance(plan, NumberColumn) and _WITH_COMMA.fullmatch(str(value).strip())
    return f": {NO_DECIMAL_COMMAS}" if is_comma else ""


def _what_to_do(lacking: list[str]) -> str:
    """Return the ways out, where columns are missing that the model needs."""
    it, its = ("it", "its") if len(lacking) == 1 else ("them", "their")
    names = f" {','.join(lacking)}" if len(lacking) <= _MOST_NAMED else ""
    return f" Add {it}, empty where {its} values are not known, or fit a model without {it} (accous fit --drop{names})."


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# --- Rows as plain values, such as those of JSON: to a frame, or straight to features where that gives the same
#     bits


Row = Mapping[str, Any]
_NUMBERS = frozenset((float, int))
_INFINITY = math.inf


def frame_of_rows(rows: Sequence[Row], numbers: Collection[str], others: Collection[str]) -> pl.DataFrame:
    """Return rows as a frame with those of the columns that any row has; what a row lacks is missing.

    What a value becomes does not depend on the other rows: a number in a column of categories becomes the text that it
    has in a file of JSON lines, and a text in a column of numbers makes the column text.

    Parameters
    ----------
    rows : sequence of mappings from column to value
    numbers, others : collection of str
        The columns that are wanted: those that are read as numbers, and the others.

    Examples
    --------
    >>> frame = frame_of_rows([{"a": 1, "b": "x", "c": 0}, {"a": 2.5, "b": 7}], ["a"], ["b", "d"])
    >>> frame.to_dicts()
    [{'a': 1.0, 'b': 'x'}, {'a': 2.5, 'b': '7'}]
    """
    there = set().union(*(row.keys() for row in rows)) if rows else set()
    columns = {name: _numbers([row.get(name) for row in rows]) for name in numbers if name in there}
    columns |= {name: _texts([row.get(name) for row in rows]) for name in others if name in there}
    return pl.DataFrame(columns)


def _numbers(values: list[Any]) -> pl.Series:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {list}:
        return pl.Series(values, dtype=pl.List(pl.Float64))
    if not kinds <= {float, int, bool}:
        return _texts(values)
    return pl.Series([None if value is None else _as_float(value) for value in values], dtype=pl.Float64)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number with hundreds of digits
        return math.inf


def _texts(values: list[Any]) -> pl.Series:
    return pl.Series(map(plain_text, values), dtype=pl.String)


class PlainRowEncoder:
    """Encodes rows of numbers and known categories, with the bits of `ColumnEncoder.encode`.

    Parameters
    ----------
    encoder : ColumnEncoder
    """

    def __init__(self, encoder: ColumnEncoder) -> None:
        used = encoder.used
        self._is_possible = all(isinstance(plan, (NumberColumn, CategoryColumn)) for plan in used)
        self._constants = frozenset(encoder.constants)
        numbers = [plan for plan in used if isinstance(plan, NumberColumn)]
        self._number_names = [plan.name for plan in numbers]
        self._means, self._deviations = (
            np.array([getattr(plan, name) for plan in numbers], dtype=np.float64) for name in ("mean", "deviation")
        )
        self._plain_plans = [(plan.name, float(plan.mean), float(plan.deviation)) for plan in numbers]
        places = np.cumsum([0, *(len(plan.feature_names) for plan in used)]).tolist()
        self._n_features, starts = places[-1], dict(zip((plan.name for plan in used), places[:-1], strict=True))
        self._number_places = np.array([starts[plan.name] for plan in numbers], dtype=np.intp)
        self._is_all_numbers = self._number_places.tolist() == list(range(self._n_features)) and bool(numbers)
        self._categories = [
            (plan.name, _codes(plan, starts[plan.name])) for plan in used if isinstance(plan, CategoryColumn)
        ]
        self._n_marks = len(encoder.marks)

    def encode(self, rows: Sequence[Row]) -> Features | None:
        """Return the features of rows; None if only a frame can tell, as with missing, new or wrong values."""
        if not self._is_possible or not rows:
            return None
        if self._constants and any(not self._constants.isdisjoint(row) for row in rows):
            return None
        try:
            X = self._encode_numbers(rows)
            if X is None or not self._add_categories(X, rows):
                return None
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return None
        n_rows = len(rows)
        n_missing, n_unknown = np.zeros((2, n_rows), dtype=np.int64)
        hits = np.zeros((n_rows, self._n_marks), dtype=np.uint8)
        return Features(X, [], n_missing, n_unknown, Marks(hits, {}))

    def _encode_numbers(self, rows: Sequence[Row]) -> Any:
        if len(rows) == 1 and self._is_all_numbers:
            return self._encode_row(rows[0])
        names = self._number_names
        plain = [[row[name] for name in names] for row in rows]
        if not _NUMBERS.issuperset(map(type, chain.from_iterable(plain))):
            return None
        values = np.array(plain, dtype=np.float64).reshape(len(rows), len(names))
        if not np.isfinite(values).all():
            return None
        with np.errstate(over="ignore"):  # what becomes infinite is cut
            scaled = np.minimum(np.maximum((values - self._means) / self._deviations, -LARGEST), LARGEST)
        if self._is_all_numbers:
            return scaled
        X = np.zeros((len(rows), self._n_features))
        X[:, self._number_places] = scaled
        return X

    def _encode_row(self, row: Row) -> Any:
        """Compute the same for a single row of numbers: on so few values, numpy takes several times as long."""
        scaled = []
        for name, mean, deviation in self._plain_plans:
            value = row[name]
            if type(value) is not float:
                if type(value) is not int:
                    return None
                value = float(value)
            if not -_INFINITY < value < _INFINITY:
                return None
            scaled.append(min(max((value - mean) / deviation, -LARGEST), LARGEST))
        return np.array((scaled,))

    def _add_categories(self, X: Any, rows: Sequence[Row]) -> bool:
        for name, codes in self._categories:
            for number, row in enumerate(rows):
                place = codes.get(row[name])
                if place is None:
                    return False
                if place >= 0:
                    X[number, place] = 1.0
        return True


def _codes(plan: CategoryColumn, start: int) -> dict[str, int]:
    """Return the feature of each known level; -1 for a rare one that has none."""
    rare = start + len(plan.levels) if plan.has_other else -1
    found = dict.fromkeys(plan.rare if plan.n_rare == len(plan.rare) else [], rare)
    found |= {level: start + number for number, level in enumerate(plan.levels)}
    return {level: place for level, place in found.items() if _is_plain(level)}


def _is_plain(level: str) -> bool:
    """Whether a value that is this text is read as this level, and not as missing."""
    return level == level.strip() and level.lower() not in MISSING_TEXTS


# --- The encoding of the columns as readable lines; similar columns, such as those of an embedding, share one


_LONGEST_RUN = 12
_MOST_LINES = 60
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class ColumnLine:
    """One line about one column, or about several consecutive ones.

    Attributes
    ----------
    columns, kind : str
    n_features : int
    what : str
        What is done.
    """

    columns: str
    kind: str
    n_features: int
    what: str


def summarize(plans: Sequence[Any]) -> list[ColumnLine]:
    """Return one line per column; more than twelve consecutive numbered columns share one.

    Examples
    --------
    >>> plans = [NumberColumn(f"embedding_{number}", 0.0, 0.0, 1.0, False) for number in range(512)]
    >>> summarize(plans)[0].columns
    'embedding_0 to embedding_511'
    """
    lines = []
    for run in _runs(plans):
        if len(run) > _LONGEST_RUN:
            lines.append(_line_of_many(run))
        else:
            lines += [ColumnLine(plan.name, plan.kind, _n_features(plan), plan.summary()) for plan in run]
    return lines


def shown_lines(plans: Sequence[Any]) -> list[list[str]]:
    """Return column, kind, number of features and encoding as text; the last of many lines stands for the rest."""
    lines = summarize(plans)
    shown = [[line.columns, line.kind, str(line.n_features or "-"), line.what] for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        n_features = sum(line.n_features for line in lines[_MOST_LINES:])
        more = f"{len(lines) - _MOST_LINES:,} more"
        what = "accous fit --json and manifest.json list all"
        shown.append([more, "", str(n_features or "-"), what])
    return shown


def _runs(plans: Sequence[Any]) -> Iterator[list[Any]]:
    """Divide the plans into runs of columns whose names differ only by a counting number."""
    run: list[Any] = []
    for plan in plans:
        if run and not (_can_share(run[-1]) and _can_share(plan) and _follows(plan.name, run[-1].name)):
            yield run
            run = []
        run.append(plan)
    if run:
        yield run


def _can_share(plan: Any) -> bool:
    return isinstance(plan, (NumberColumn, LeftOutColumn))


def _follows(name: str, before: str) -> bool:
    now, then = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(before)
    return bool(now and then and now[1] == then[1] and int(now[2]) == int(then[2]) + 1)


def _line_of_many(run: list[Any]) -> ColumnLine:
    numbers = [plan for plan in run if isinstance(plan, NumberColumn)]
    reasons = Counter(plan.reason for plan in run if isinstance(plan, LeftOutColumn))
    what = []
    if numbers:
        means, deviations = [plan.mean for plan in numbers], [plan.deviation for plan in numbers]
        what.append(
            f"each (x - mean) / deviation: means {min(means):.4g} to {max(means):.4g}, "
            f"deviations {min(deviations):.4g} to {max(deviations):.4g}"
        )
    what += [f"{count} left out: {reason}" for reason, count in reasons.most_common(3)]
    kind = f"{len(numbers)} numbers" if numbers else LeftOutColumn.kind
    return ColumnLine(f"{run[0].name} to {run[-1].name}", kind, sum(map(_n_features, run)), "; ".join(what))


def _n_features(plan: Any) -> int:
    return len(getattr(plan, "feature_names", ()))
