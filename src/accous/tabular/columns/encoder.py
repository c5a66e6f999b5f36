"""The preprocessing: columns in, features out, and the values that cannot be used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.parameters import did_you_mean, listed, nearest_name
from accous.tabular.columns.learning import Choices, plan_column
from accous.tabular.columns.marks import CATEGORIES, MISSING, NEW_VALUES, Mark, Marks, list_marks, mark_rows
from accous.tabular.columns.plain_columns import Block, blocks_of
from accous.tabular.columns.plans import ColumnPlan, LeftOutColumn, NumberColumn, plan_from_json, plan_to_json
from accous.tabular.columns.records import ColumnRecord, record_column
from accous.tabular.formats.values import NO_DECIMAL_COMMAS, is_usable, to_texts
from accous.tabular.formats.vectors import Fault

__all__ = ["BadValue", "ColumnEncoder", "Features"]

_WITH_COMMA = re.compile(r"[+-]?[\d.]*,\d+")
_MOST_NAMED = 3
_COUNTED_AS = {MISSING: "n_missing", NEW_VALUES: "n_new"}


@dataclass(frozen=True)
class BadValue:
    """The first value of a row that cannot be used."""

    row: int
    column: str
    reason: str


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

    def with_faults(self, faults: Mapping[int, Fault]) -> Features:
        """Return the same with more bad values; in a row that has one already, the new one replaces it."""
        if not faults:
            return self
        bad = {value.row: value for value in self.bad_values}
        bad |= {row: BadValue(row, fault.column, fault.reason) for row, fault in faults.items()}
        return replace(self, bad_values=[bad[row] for row in sorted(bad)])


@dataclass(frozen=True)
class ColumnEncoder:
    """Encodes the columns of a table as features, as learned from the reference.

    Attributes
    ----------
    plans : tuple of column plans
    records : tuple of ColumnRecord or None
        What is remembered about each column; empty if nothing is, as in folders of the first versions.
    """

    plans: tuple[Any, ...]
    records: tuple[ColumnRecord | None, ...] = ()

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

    def joined_by(self, marks: Marks, limit: int) -> Self:
        """Return the same encoder, which remembers that rows with these marks have joined the reference.

        Parameters
        ----------
        marks : Marks
            Of the rows that joined.
        limit : int
            Rows that the reference has now.
        """
        counts: dict[str, dict[str, int]] = {}
        categories: dict[str, list[str]] = {}
        for mark, n_hits in zip(self.marks, marks.hits.sum(axis=0, dtype=np.int64).tolist(), strict=True):
            if mark.kind != CATEGORIES:
                counts.setdefault(mark.column, {})[_COUNTED_AS[mark.kind]] = n_hits
            elif n_hits:
                categories[mark.column] = marks.values[mark.column].drop_nulls().unique(maintain_order=True).to_list()
        records = tuple(
            None
            if record is None
            else record.joined_by(
                len(marks.hits), counts.get(plan.name, {}), limit, categories=categories.get(plan.name, ())
            )
            for plan, record in zip(self.plans, self.records, strict=False)
        )
        return replace(self, records=records)

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
        """What the features are, column by column, for models that read plain columns."""
        return blocks_of(self.used)

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
                is_bad, reason = encoded.is_unknown, "is a category that the reference does not have"
            for row in np.flatnonzero(is_bad).tolist():
                bad.setdefault(
                    row, BadValue(row, plan.name, f"{_shown(column[row])} {reason}{_hint(plan, column[row])}")
                )
            if encoded.is_missing is not None:
                n_missing += encoded.is_missing
                shown[plan.name, MISSING] = encoded.is_missing
            if encoded.is_unknown is not None:
                n_unknown += encoded.is_unknown
                shown[plan.name, CATEGORIES] = encoded.is_unknown
        X = np.ascontiguousarray(np.column_stack(blocks))
        marks = mark_rows(self.marks, shown, frame)
        return Features(X, [bad[row] for row in sorted(bad)], n_missing, n_unknown, marks)

    def _watch_constants(self, frame: pl.DataFrame) -> dict[tuple[str, str], Any]:
        shown = {}
        for name, record in self.constants.items():
            # A table need not have a column that the model does not use.
            if name in frame.columns and is_usable(frame.schema[name]):
                shown[name, NEW_VALUES] = record.is_new(frame[name])
                shown[name, MISSING] = to_texts(frame[name]).is_null().to_numpy()
        return shown

    def require_columns(self, columns: list[str], table: str) -> None:
        """Raise a DataError that names the columns missing from a table."""
        lacking = [name for name in self.used_columns if name not in columns]
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
            parts = dict(each)
            record = parts.pop("reference", None)
            plans.append(plan_from_json(parts))
            joined = {} if record is None else {"joined": tuple(record.get("joined", ()))}
            records.append(None if record is None else ColumnRecord(**record | joined))
        return cls(tuple(plans), tuple(records) if any(records) else ())


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


def _shown(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
