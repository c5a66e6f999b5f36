"""Traps in a labelled table: ids, counters and times among the features, columns that give the label away."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.coverage import (
    FEWEST_ROWS_PER_CLASS,
    columns_of_label,
    columns_of_number,
    follows_rows,
    is_number_per_row,
    rare_classes,
)
from accous.tabular.columns.learning import Choices
from accous.tabular.columns.plans import CategoryColumn, DateColumn, LeftOutColumn, NumberColumn
from accous.tabular.formats.values import to_numbers, to_texts
from accous.text import count

__all__ = ["Remark", "leave_out_traps", "remarks_on_labels", "remarks_on_texts"]

_FEWEST_ROWS = 30
# Correlation with the rows: sorted normal numbers reach 0.98, so that is not even.
_EVENLY = 0.99
_ID_WORDS = {"id", "ids", "idx", "index", "key", "row", "rownum", "rowid", "nr", "no", "number", "uid", "uuid", "guid"}
_UNNAMED = re.compile(r"(unnamed(: ?\d+)?|column_\d+|_c0|__index_level_\d+__)?", re.IGNORECASE)
_YEAR_NAMES = {"year", "yr", "yyyy"}
_FIRST_SECOND, _LAST_SECOND = 6e8, 2.5e9  # 1989 and 2049, in seconds since 1970


@dataclass(frozen=True)
class Remark:
    """Something in the reference that you should know about.

    Attributes
    ----------
    kind : str
        ``"id"``, ``"counter"``, ``"time"``, ``"sorted"``, ``"label"``, ``"class"``, ``"order"``, ``"calendar"``,
        ``"span"``, ``"repeated"`` or ``"code"``.
    column : str, optional
    text : str
        One sentence.
    """

    kind: str
    column: str | None
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return it, ready for JSON."""
        return asdict(self)


def leave_out_traps(frame: pl.DataFrame, choices: Choices, *, has_order: bool | None) -> tuple[Choices, list[Remark]]:
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
        found = _trap(frame[name], is_first=number == 0, has_order=has_order)
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
    """Return a remark on each column of texts that was left out because they are different in every row."""
    remarks = []
    for plan in plans:
        if frame.height < _FEWEST_ROWS or not isinstance(plan, LeftOutColumn) or frame[plan.name].dtype != pl.String:
            continue
        if "different values" in plan.reason and to_texts(frame[plan.name]).n_unique() == frame.height:
            text = f"Column {plan.name!r} is left out: an id, its text is different in every row."
            remarks.append(Remark("id", plan.name, text))
    return remarks


def remarks_on_labels(
    frame: pl.DataFrame, plans: tuple[Any, ...], y: NDArray[Any], kind: str = "classifier"
) -> list[Remark]:
    """Return a remark on each column that determines the label, and on each class with too few rows."""
    codes = [(plan.name, _codes(plan, frame[plan.name])) for plan in plans]
    known = [(name, values) for name, values in codes if values is not None]
    X = np.column_stack([values for _, values in known]) if known else np.empty((len(y), 0))
    if kind == "regressor":
        return [
            _of_label(known[place][0], f"{share:.1%} of the variance of the label")
            for place, share in columns_of_number(X, y)
        ]
    classes, labels = np.unique(y, return_inverse=True)
    found = columns_of_label(X, labels) if known else []
    remarks = [_of_label(known[place][0], f"the label of {share:.1%} of the rows") for place, share in found]
    return remarks + _remarks_on_classes(classes, labels)


def _of_label(name: str, what: str) -> Remark:
    text = (
        f"Column {name!r} alone predicts {what}: if it is not known before the label is, leave it out with --drop "
        f"{name}."
    )
    return Remark("label", name, text)


def _remarks_on_classes(classes: NDArray[Any], labels: IntArray) -> list[Remark]:
    remarks = []
    for number in rare_classes(labels).tolist():
        n_rows = int((labels == number).sum())
        rows = count(n_rows, "row")
        text = (
            f"Class {str(classes[number])!r} has only {rows}: with fewer than {FEWEST_ROWS_PER_CLASS}, its predictions "
            "and the estimated error cannot be relied on."
        )
        remarks.append(Remark("class", None, text))
    return remarks


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
    text = (
        f"Column {name!r} rises or falls with the rows, and stays: if the rows are in order of time, say --ordered, "
        "and it is left out."
    )
    return Remark("sorted", name, text)


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


def _trap(column: pl.Series, *, is_first: bool, has_order: bool | None) -> tuple[str, str] | None:
    """Return the kind of trap and the reason; None for an ordinary column."""
    found = _numbers(column)
    if found is None:
        return None
    values, known = found
    if _are_times(column.name, known):
        return "time", "a time as a number, and every future time lies outside the reference"
    counts = has_order is not False and follows_rows(values) and (bool(has_order) or _rises_evenly(values))
    if counts:
        direction = "rises" if known[-1] > known[0] else "falls"
        return "counter", f"a counter, it {direction} with the rows, so that all later rows lie outside the reference"
    if is_number_per_row(known) and (_is_named_id(column.name, is_first=is_first) or _fills_its_range(known)):
        return "id", "an id, a different whole number in every row"
    return None


def _are_times(name: str, values: FloatArray) -> bool:
    low, high = float(values.min()), float(values.max())
    is_whole = bool((values % 1.0 == 0.0).all())
    if any(low >= _FIRST_SECOND * unit and high <= _LAST_SECOND * unit for unit in (1.0, 1e3, 1e6, 1e9)):
        return len(np.unique(values)) > 10
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
