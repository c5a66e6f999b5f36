"""Data checks of a reference: its order in time, its span, columns that mislead, repeated rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.coverage import follows_rows, is_number_per_row
from accous.exceptions import DataError
from accous.model.order import Order, OrderKind
from accous.model.tasks import Task
from accous.table.columns import (
    DATE_FORMS,
    FREE_TEXT,
    CategoryColumn,
    Choices,
    DateColumn,
    LeftOutColumn,
    NumberColumn,
    date_form,
)
from accous.table.readers import is_usable, texts_to_times, to_numbers, to_texts, to_times

# --- The order in time of a reference's rows: what it is known from, and the rows in this order


_SHARE_OF_KIND = 0.9  # of the values: the others are exceptions
_SAMPLE = 1000  # rows that tell whether a column of texts may hold dates
_LEAST_CORRELATION, _MOST_STEPS_BACK = 0.95, 0.05


def find_order(frame: pl.DataFrame, choices: Choices, *, is_ordered: bool | None) -> Order | None:
    """Return the order of the rows: the user's choice, or that of a date column; None if the rows have to tell.

    A date column gives the order if it rises nearly always, or if it is the only one. Times of a single day give none.
    Numbers that are times, or those of a calendar, give it if they rise or fall with the rows.

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
        kind = OrderKind.ONE_DAY if _is_one_day(frame[choices.time]) else OrderKind.TIMES
        return Order(kind, column=choices.time)
    if is_ordered is not None:
        return Order(OrderKind.GIVEN if is_ordered else OrderKind.UNORDERED)
    dates = [name for name in _date_columns(frame, choices) if not _is_one_day(frame[name])]
    rising = [name for name in dates if rises(_times(frame[name])[0])]
    # Of several that rise, the one with the finest steps.
    candidates = sorted(rising, key=lambda name: -frame[name].n_unique()) or dates
    if not rising and len(dates) != 1:
        candidates = [name for name in _kept(frame, choices) if _counts_time(frame[name])]
    return Order(OrderKind.COLUMN, column=candidates[0]) if candidates else None


def _counts_time(column: pl.Series) -> bool:
    """Whether numbers that rise or fall with the rows are times, or count months, quarters or weeks by their name."""
    found, words = _numbers(column), _words_of(column.name)
    if found is None or not follows_rows(found[0]):
        return False
    values = found[1]
    if _are_times(column.name, values):
        return bool((values % 1.0 == 0.0).all())
    most = max((each.n_values for each in _CYCLES if words[-1] in each.names and each.whole == "year"), default=0)
    # Months of a loan may be more than those of a year; if "month" is the whole name, they are those of some years.
    fits = len(words) == 1 or (values.max() <= most and {"age", "duration", "tenure"}.isdisjoint(words))
    return most > 0 and bool(fits)


def _kept(frame: pl.DataFrame, choices: Choices) -> list[str]:
    return [name for name in frame.columns if name not in choices.drop and name not in choices.categorical]


def _date_columns(frame: pl.DataFrame, choices: Choices) -> list[str]:
    return [name for name in _kept(frame, choices) if _are_dates(frame[name])]


def remarks_on_one_day(frame: pl.DataFrame, choices: Choices, order: Order) -> list[Remark]:
    """Return a remark on each column of dates that gives no order, because its dates are of a single day."""
    one_day = [name for name in _date_columns(frame, choices) if name != order.column and _is_one_day(frame[name])]
    found = [Remark("order", name, Order(OrderKind.ONE_DAY, column=name).sentence) for name in one_day]
    return found + [each for name in one_day for each in remarks_on_span(frame, Order(OrderKind.ONE_DAY, column=name))]


def _is_one_day(column: pl.Series) -> bool:
    """Whether times are all equal, or dates of a single day."""
    column = column.alias("values")
    dates = _times_of_span(column)
    return column.drop_nulls().n_unique() == 1 if dates is None else dates.dt.date().n_unique() == 1


def remarks_on_unsorted(frame: pl.DataFrame, choices: Choices) -> list[Remark]:
    """Return a remark on each date column if the rows are in the order of none of them.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows that are said to be in order of time.
    choices : Choices
    """
    dates = [name for name in _date_columns(frame, choices) if frame[name].n_unique() > 1]
    if any(rises(_times(frame[name])[0]) for name in dates):
        return []
    first = "The rows are taken as they come (--ordered), but the dates in"
    advice = "are not in order: if they are the times of the rows, use --time"
    return [Remark("order", name, f"{first} {name!r} {advice} {name}.") for name in dates]


def put_in_order(frame: pl.DataFrame, order: Order | None) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the rows in order of time, and which rows of the file have a time that cannot be read.

    Rows of the same time stay as they are, and a row without a time follows the one before it.
    """
    n_rows = frame.height
    if order is None or order.by != "time":
        return np.arange(n_rows), np.zeros(n_rows, dtype=bool)
    times, is_bad = _times(frame[str(order.column)])
    is_there = ~np.isnan(times)
    if not is_there.any():
        raise DataError(
            f"Column {order.column!r} holds no time: --time takes a column of dates, such as 2024-05-31 or "
            "2024-05-31 17:00, or of numbers."
        )
    last_known = np.maximum.accumulate(np.where(is_there, np.arange(n_rows), -1))
    first = float(times[is_there][0])
    filled = np.where(last_known >= 0, times[np.maximum(last_known, 0)], first)
    return np.argsort(filled, kind="stable"), is_bad


def _are_dates(column: pl.Series) -> bool:
    column = column.alias("values")  # some names are patterns to polars
    if column.dtype in (pl.Date, pl.Datetime):
        return True
    if column.dtype != pl.String:
        return False
    is_possible = date_form(column, to_texts(column.drop_nulls().head(_SAMPLE))) is not None
    return is_possible and date_form(column, to_texts(column)) is not None


def _times(column: pl.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return times as numbers, NaN where there is none, and which values cannot be read as the others can."""
    column = column.alias("values")
    dates = _dates(column)
    if dates is not None:
        return np.asarray(dates[0].dt.epoch("us").cast(pl.Float64).to_numpy(), dtype=np.float64), dates[1]
    if column.dtype.is_temporal() or column.dtype.is_nested():
        return np.full(len(column), np.nan), np.zeros(len(column), dtype=bool)
    values, is_bad = to_numbers(column)
    if is_bad.sum() > (1.0 - _SHARE_OF_KIND) * len(values):
        return np.full(len(column), np.nan), is_bad
    return np.where(is_bad, np.nan, values), is_bad


def _dates(column: pl.Series) -> tuple[pl.Series, NDArray[np.bool_]] | None:
    """Return the dates of a column, and which values are none; None if it holds something else."""
    texts = to_texts(column) if column.dtype == pl.String else column
    form = None if texts.null_count() == len(texts) else date_form(column, texts)
    return None if form is None else to_times(column, form)


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


# --- What misleads in a labelled table: ids, counters and times among the features, columns that give the label away


_FEWEST_ROWS = 30
# Correlation with the rows: sorted normal numbers reach 0.98, so that is not even.
_EVENLY = 0.99
_ID_WORDS = {"id", "ids", "idx", "index", "key", "row", "rownum", "rowid", "nr", "no", "number", "uid", "uuid", "guid"}
_UNNAMED = re.compile(r"(unnamed(: ?\d+)?|column_\d+|_c0|__index_level_\d+__)?", re.IGNORECASE)
_YEAR_NAMES = {"year", "yr", "yyyy"}
_TIME_WORD = re.compile(r".*(time|date|stamp|seconds)|at|ts|dt|when|created|updated|epoch|unix|utc|ms|us|ns")
_FIRST_SECOND, _LAST_SECOND = 6e8, 2.5e9  # 1989 and 2049, in seconds since 1970


@dataclass(frozen=True)
class Remark:
    """Something in the reference that you should know about.

    Attributes
    ----------
    kind : str
        ``"id"``, ``"counter"``, ``"time"``, ``"sorted"``, ``"label"``, ``"class"``, ``"order"``, ``"calendar"``,
        ``"span"``, ``"repeated"``, ``"text"`` or ``"code"``.
    column : str, optional
    text : str
        One sentence.
    """

    kind: str
    column: str | None
    text: str


def leave_out_columns(frame: pl.DataFrame, choices: Choices, *, has_order: bool | None) -> tuple[Choices, list[Remark]]:
    """Return the choices with ids, counters and times left out, and a remark on each.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference without its label, in order of time if it has one.
    choices : Choices
        Columns in ``keep`` are not looked at.
    has_order : bool, optional
        Whether the rows are in order of time. If not, nothing counts the rows. If that is not known (None), the table
        may be merely sorted by a column: one that rises evenly counts the rows, and any other stays, with a remark.
    """
    if frame.height < _FEWEST_ROWS:
        return choices, []
    decided = {*choices.drop, *choices.categorical, *choices.keep, choices.time}
    remarks = []
    for number, name in enumerate(frame.columns):
        if name in decided:
            continue
        found = _misleading(frame[name], is_first=number == 0, has_order=has_order)
        if found is not None:
            remarks.append(Remark(found[0], name, found[1]))
    left_out = {str(remark.column): remark.text for remark in remarks}
    texts = [f"Column {remark.column!r} is left out: {remark.text}; use it with --keep-as-feature {remark.column}."
             for remark in remarks]  # fmt: skip
    told = [replace(remark, text=text) for remark, text in zip(remarks, texts, strict=True)]
    if has_order is None:
        kept = [name for name in frame.columns if name not in decided and name not in left_out]
        told += [_sorted_by(name) for name in kept if _follows_rows(frame[name])]
    return replace(choices, left_out=left_out), told


def remarks_on_texts(frame: pl.DataFrame, plans: tuple[Any, ...]) -> list[Remark]:
    """Return a remark on each column of texts that was left out: sentences, and ids that differ in every row."""
    remarks = []
    for plan in plans:
        if frame.height < _FEWEST_ROWS or not isinstance(plan, LeftOutColumn) or frame[plan.name].dtype != pl.String:
            continue
        if plan.reason.startswith(FREE_TEXT):
            text = f"Column {plan.name!r} is left out as {plan.reason}. Embeddings of it in other columns can be used."
            remarks.append(Remark("text", plan.name, text))
        elif "different values" in plan.reason and to_texts(frame[plan.name]).n_unique() == frame.height:
            text = f"Column {plan.name!r} is left out: an id, its text is different in every row."
            remarks.append(Remark("id", plan.name, text))
    return remarks


def remarks_on_labels(frame: pl.DataFrame, plans: tuple[Any, ...], task: Task) -> list[Remark]:
    """Return a remark on each column that determines the label, and on each class with too few rows."""
    codes = [(plan.name, _codes(plan, frame[plan.name])) for plan in plans]
    known = [(name, values) for name, values in codes if values is not None]
    X = np.column_stack([np.empty((len(task), 0)), *(values for _, values in known)])
    remarks = [_of_label(known[place][0], what) for place, what in task.columns_of_label(X)]
    return remarks + [Remark("class", None, text) for text in task.findings() if task.has_classes]


def _of_label(name: str, what: str) -> Remark:
    advice = f"if it is not known before the label is, leave it out with --drop {name}."
    return Remark("label", name, f"Column {name!r} alone predicts {what}: {advice}")


def _codes(plan: Any, column: pl.Series) -> FloatArray | None:
    """Return a column that is used as one number per value; None for others."""
    if isinstance(plan, NumberColumn):
        values, is_bad = to_numbers(column)
        return np.where(np.isnan(values) | is_bad, plan.median, values)
    if isinstance(plan, CategoryColumn):
        return np.asarray(to_texts(column).fill_null("").rank("dense").to_numpy(), dtype=np.float64)
    if isinstance(plan, DateColumn):
        return plan.encode(column).features[:, 0]
    return None


def _sorted_by(name: str) -> Remark:
    advice = "if the rows are in order of time, say --ordered, and it is left out."
    return Remark("sorted", name, f"Column {name!r} rises or falls with the rows, and is kept: {advice}")


def _numbers(column: pl.Series) -> tuple[FloatArray, FloatArray] | None:
    """Return the numbers in a column with NaN for the rest, and the known ones; None if it holds few or one value."""
    if not (column.dtype.is_numeric() or column.dtype == pl.String):
        return None
    values, is_bad = to_numbers(column)
    values = np.where(is_bad, np.nan, values)
    known = values[~np.isnan(values)]
    return None if len(known) < 0.9 * len(values) or (known == known[0]).all() else (values, known)


def _follows_rows(column: pl.Series) -> bool:
    found = _numbers(column)
    return found is not None and follows_rows(found[0])


def _rises_evenly(values: FloatArray) -> bool:
    """Whether numbers lie on a line over the rows, as counted ones do; sorted measurements seldom do."""
    places = np.flatnonzero(~np.isnan(values))
    return abs(float(np.corrcoef(values[places], places)[0, 1])) > _EVENLY


def _misleading(column: pl.Series, *, is_first: bool, has_order: bool | None) -> tuple[str, str] | None:
    """Return how a column misleads and the reason; None for an ordinary column."""
    found = _numbers(column)
    if found is None:
        return None
    values, known = found
    if _are_times(column.name, known):
        return "time", "a time as a number, so all later rows would lie outside the reference"
    counts = has_order is not False and follows_rows(values) and (bool(has_order) or _rises_evenly(values))
    if counts:
        direction = "rises" if known[-1] > known[0] else "falls"
        return "counter", f"a counter that {direction} with the rows, so all later rows would lie outside the reference"
    if is_number_per_row(known) and (_is_named_id(column.name, is_first=is_first) or _fills_its_range(known)):
        return "id", "an id, a different whole number in every row"
    if _words_of(column.name)[-1] in ("id", "ids") and len(_whole_numbers(column) or ()) > _SHARE_OF_KIND * len(known):
        return "id", "an id, another whole number in nearly every row"
    return None


def _are_times(name: str, values: FloatArray) -> bool:
    low, high = float(values.min()), float(values.max())
    is_whole = bool((values % 1.0 == 0.0).all())
    if any(low >= _FIRST_SECOND * unit and high <= _LAST_SECOND * unit for unit in (1.0, 1e3, 1e6, 1e9)):
        # Ids and amounts may be as large. Days, such as 20240531, tell it by themselves.
        return _TIME_WORD.fullmatch(_words_of(name)[-1]) is not None and not _is_named_id(name, is_first=False)
    if is_whole and low >= 1900 and high <= 2100:
        return name.strip().lower() in _YEAR_NAMES
    months, days = values // 100 % 100, values % 100
    is_day = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return is_whole and low >= 19000101 and high <= 21001231 and bool(is_day.all())


def _is_named_id(name: str, *, is_first: bool) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    return any(word.lower() in _ID_WORDS for word in words) or (is_first and _UNNAMED.fullmatch(name) is not None)


def _fills_its_range(values: FloatArray) -> bool:
    """Whether different whole numbers lie so close together that they were counted, in whatever order."""
    return float(values.max() - values.min()) < 1.1 * len(values)


# --- How much time a reference covers: less than a day or a week leaves hours or weekdays out


_NEARLY_A_DAY = timedelta(hours=22)  # the last of hourly rows of a whole day begins 23 hours after the first
_DAYS_OF_A_WEEK = 5  # a week may have working days only


def remarks_on_span(frame: pl.DataFrame, order: Order) -> list[Remark]:
    """Return a remark if the dates that give the order cover less than a day or less than a week.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference.
    order : Order
    """
    times = _times_of_span(frame[order.column]) if order.column is not None else None
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


def _times_of_span(column: pl.Series) -> pl.Series | None:
    """Return the dates of a column; None if it holds none, such as numbers."""
    dates = _dates(column.alias("values"))
    return None if dates is None else dates[0].cast(pl.Datetime("us")).drop_nulls()


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M}"


# --- The column that says when a row happened, if the model knows one


# Forms that cannot be mistaken for one another, for a column that the reference left out.
_PLAIN_FORMS = tuple(form for form in DATE_FORMS if form.startswith("%Y"))


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


# --- Columns that stay in the model and may mislead it: parts of a calendar, and codes that are read as numbers


_FEWEST_CALENDAR_ROWS, _FEWEST_CODES, _MOST_SHOWN = 30, 20, 4
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
    if frame.height < _FEWEST_CALENDAR_ROWS:
        return []
    looked_at = [plan for plan in plans if plan.name not in kept]
    found = [_remark_on_calendar(plan, frame[plan.name]) for plan in looked_at]
    found += [_remark_on_codes(frame[plan.name]) for plan in looked_at if isinstance(plan, NumberColumn)]
    return [remark for remark in found if remark is not None]


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
    what = f"is called like a code and holds {len(values):,} different whole numbers, read as amounts"
    advice = f"if they only name something, use --categorical {name} or --drop {name}."
    return Remark("code", name, f"Column {name!r} {what}: {advice}")


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


# --- Rows that a reference holds twice: held-out rows are then rows that a model was fitted on


_LARGEST_SHARE = 0.1
_MOSTLY = 0.5


def remarks_on_repeats(frame: pl.DataFrame, y: NDArray[Any], *, is_whole: bool) -> list[Remark]:
    """Return a remark if more than a tenth of the rows repeat an earlier one.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference without its label.
    y : array of shape (n_rows,)
        The labels.
    is_whole : bool
        Whether it has all columns of the file. If not, rows may differ in the others: then more than half of the
        different rows must occur equally often, as they do in a file that was joined with itself. Of rows that are
        alike by chance, at most a third do.
    """
    compared = [name for name, dtype in frame.schema.items() if is_usable(dtype)]
    if frame.height < _FEWEST_ROWS or not compared:
        return []
    rows = pl.DataFrame({"row": frame.select(pl.col(compared)).hash_rows(), "label": pl.Series(y.tolist())})
    n_times = rows.group_by("row", "label").len()["len"]
    n_repeated = frame.height - len(n_times)
    if n_repeated <= _LARGEST_SHARE * frame.height:
        return []
    is_known = is_whole and len(compared) == frame.width
    if not is_known and not _occur_equally_often(n_times):
        return []
    where = "in all columns" if is_known else "in all columns that are read"
    text = (
        f"{n_repeated:,} of the {frame.height:,} rows repeat an earlier row {where}: cross-validation and backtest "
        "test on rows that the model was fitted on, and their errors may be too small. Remove the copies, unless they "
        "are different events."
    )
    return [Remark("repeated", None, text)]


def _occur_equally_often(n_times: pl.Series) -> bool:
    often = n_times.filter(n_times > 1).value_counts()["count"].max()
    return len(n_times) >= _FEWEST_ROWS // 2 and isinstance(often, int) and often > _MOSTLY * len(n_times)
