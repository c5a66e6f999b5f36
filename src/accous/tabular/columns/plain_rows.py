"""Rows as plain values, such as those of JSON: to a frame, or straight to features where that gives the same bits.

A frame of one row costs as much as several rounds of learning. Numbers and known categories, which nearly all rows have
only, need no frame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import polars as pl

from accous.tabular.columns.encoder import ColumnEncoder, Features
from accous.tabular.columns.marks import Marks
from accous.tabular.columns.plans import LARGEST, CategoryColumn, NumberColumn
from accous.tabular.formats.values import MISSING_TEXTS

__all__ = ["PlainRowEncoder", "frame_of_rows"]

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
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pl.Series(texts, dtype=pl.String)


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
        self._n_marks, self._no_values = len(encoder.marks), pl.DataFrame()

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
        return Features(X, [], n_missing, n_unknown, Marks(hits, self._no_values))

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
