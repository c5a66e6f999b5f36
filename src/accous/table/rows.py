"""Rows of a stream on their way through a model: read, rejected, predicted, remembered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.table.columns import ColumnEncoder, ColumnPlan, DateColumn, Features, Marks, NumberColumn
from accous.table.kinds import ID, LINE, LabelForm, key_texts
from accous.table.readers import (
    BadRow,
    Chunk,
    Position,
    RowsOutput,
    TableReader,
    exactly,
    is_usable,
    no_such_column,
    require_usable,
    to_numbers,
    to_texts,
)

# --- Rows on their way from a table to a round: features, copied columns, and the position of each row


@dataclass(frozen=True, kw_only=True)
class PendingRows:
    """Rows that are waiting for their round.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
    frame : polars.DataFrame
        The columns to copy, to group by and to score with.
    lines : array of shape (n_rows,)
        Line of each row in the table, or its number if the table has no lines.
    bad_rows : list of BadRow
        Bad rows between and after them.
    n_missing, n_unknown : array of shape (n_rows,)
        Values in each row that are missing, and categories that the reference does not have.
    marks : Marks
        What each row shows in single columns.
    """

    X: NDArray[np.float64]
    frame: pl.DataFrame
    lines: NDArray[np.int64]
    bad_rows: list[BadRow]
    n_missing: NDArray[np.int64]
    n_unknown: NDArray[np.int64]
    marks: Marks
    _chunks: tuple[tuple[int, Chunk], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.X)

    def end_of(self, row: int) -> int:
        """Where a row ends in the table."""
        first, chunk = self._chunk_of(row)
        return int(chunk.ends[row - first])

    def position_after(self, row: int) -> Position:
        """How far the table is read when this row is the last one used."""
        first, chunk = self._chunk_of(row)
        return chunk.position_after(row - first)

    def followed_by(self, others: PendingRows) -> PendingRows:
        """Return these rows and the others as one."""
        if not len(self) and not self.bad_rows:
            return others
        moved = tuple((first + len(self), chunk) for first, chunk in others._chunks)
        arrays = ("X", "lines", "n_missing", "n_unknown")
        return PendingRows(
            **{name: np.concatenate((getattr(self, name), getattr(others, name))) for name in arrays},
            frame=pl.concat((self.frame, others.frame)),
            bad_rows=self.bad_rows + others.bad_rows,
            marks=self.marks.followed_by(others.marks),
            _chunks=(*self._chunks, *moved),
        )

    def part(self, rows: Any, **others: Any) -> PendingRows:
        """Return some of the rows; ``others`` are the attributes that are not just cut."""
        names = ("X", "frame", "lines", "n_missing", "n_unknown", "marks")
        return replace(self, **{name: getattr(self, name)[rows] for name in names if name not in others}, **others)

    def after(self, n_rows: int) -> PendingRows:
        """Return the rows after the first ``n_rows``, with the bad rows that follow."""
        if n_rows == 0:
            return self
        end = self.end_of(n_rows - 1)
        # Of the chunks that are used up the last one stays as long as it has rows.
        chunks = tuple((first - n_rows, chunk) for first, chunk in self._chunks if first + len(chunk.ends) > n_rows)
        bad_rows = [bad for bad in self.bad_rows if bad.end > end]
        return self.part(slice(n_rows, None), bad_rows=bad_rows, _chunks=chunks)

    def pieces_of_table(self, start: int, stop: int) -> Iterator[pl.DataFrame]:
        """Yield some rows as the table has them; the type of a column may differ from piece to piece."""
        for first, chunk in self._chunks:
            yield chunk.frame[max(0, start - first) : max(0, stop - first)]

    def _chunk_of(self, row: int) -> tuple[int, Chunk]:
        return next((first, chunk) for first, chunk in reversed(self._chunks) if first <= row)


class RowReader:
    """Reads a table, encodes its rows, and sets bad rows aside or stops at the first one.

    Parameters
    ----------
    table : TableReader
    encoder : ColumnEncoder
    passed : list of str
        Columns to read besides the features.
    skips_bad : bool
    accepts_unknown : bool
        Whether categories that the reference does not have are accepted, or make their rows bad.
    """

    def __init__(
        self, table: TableReader, encoder: ColumnEncoder, passed: list[str], *, skips_bad: bool, accepts_unknown: bool
    ) -> None:
        self._table = table
        self._encoder = encoder
        self._passed = passed
        self._skips_bad = skips_bad
        self._accepts_unknown = accepts_unknown
        encoder.require_columns(table.columns, table.name)
        numbers = [plan.name for plan in encoder.used if isinstance(plan, NumberColumn)]
        table.read_as_numbers([name for name in numbers if name not in passed])
        for name in passed:
            if name not in table.columns:
                raise no_such_column(table, name)
        require_usable(table, [*encoder.used_columns, *passed])
        watched = [name for name in encoder.constants if name in table.columns and name not in passed]
        types = table.column_types(watched)
        self._watched = [name for name in watched if name not in types or is_usable(types[name])]
        table.read_if_simple(self._watched)

    def read(self, start: Position) -> Iterator[PendingRows | None]:
        """Yield the rows from a position on; None while there is nothing new yet.

        Raises
        ------
        DataError
            At a bad row, unless bad rows are skipped; the rows before it have been yielded.
        """
        wanted = list(dict.fromkeys([*self._encoder.used_columns, *self._passed, *self._watched]))
        for chunk in self._table.chunks(wanted, start):
            if chunk is None:
                yield None
                continue
            rows = self._prepare(chunk)
            first_bad = rows.bad_rows[0] if rows.bad_rows else None
            if first_bad is None or self._skips_bad:
                yield rows
                continue
            n_before = int(np.searchsorted(rows._chunks[0][1].ends, first_bad.end))
            yield rows.part(slice(n_before), bad_rows=[])
            raise first_bad.error(self._table.name, self._table.unit)

    def _prepare(self, chunk: Chunk) -> PendingRows:
        features = self._encoder.encode(chunk.frame, accepts_unknown=self._accepts_unknown)
        rows = PendingRows(
            X=features.X,
            frame=chunk.frame.select(exactly(self._passed)),
            lines=np.asarray(chunk.lines, dtype=np.int64),
            bad_rows=chunk.bad_rows,
            n_missing=features.n_missing,
            n_unknown=features.n_unknown,
            marks=features.marks,
            _chunks=((0, chunk),),
        )
        if not features.bad_values:
            return rows
        bad_rows = chunk.bad_rows + [chunk.bad_row(bad.row, bad.column, bad.reason) for bad in features.bad_values]
        good = np.setdiff1d(np.arange(len(rows)), [bad.row for bad in features.bad_values])
        kept = chunk.part(good)
        return rows.part(
            good,
            frame=kept.frame.select(exactly(self._passed)),
            bad_rows=sorted(bad_rows, key=lambda bad: bad.end),
            _chunks=((0, kept),),
        )


# --- The bad rows that were set aside, as a table


def rejects_frame(bad_rows: list[BadRow]) -> pl.DataFrame:
    """Return the line of each row, what is wrong with it, and its text."""
    columns = {
        "line": [bad.line for bad in bad_rows],
        "column": [bad.column or None for bad in bad_rows],
        "reason": [bad.reason for bad in bad_rows],
        "row": [bad.text for bad in bad_rows],
    }
    return pl.DataFrame(columns, schema_overrides={"column": pl.String})


def write_rejects(bad_rows: list[BadRow], path: str) -> None:
    """Write the rows to a new CSV file."""
    file = RowsOutput(path, "csv", 0)
    file.write(rejects_frame(bad_rows))
    file.put_on_disk()
    file.close()


# --- Rows as they are remembered with their predictions: the columns that the model uses, as JSON


def features_to_json(frame: pl.DataFrame, encoder: ColumnEncoder) -> pl.Series:
    """Return the columns that a model uses as one JSON object a row: numbers, and text for all the rest."""
    return plain_features(frame, encoder).struct.json_encode()


def plain_features(frame: pl.DataFrame, encoder: ColumnEncoder) -> pl.Series:
    """Return the columns that a model uses as one struct a row, the same fields for every piece of a table.

    Columns that were constant in the reference are among them: a model that learns from labels may use them.
    """
    schema = frame.schema
    columns = [_plain_column(frame[plan.name], plan) for plan in encoder.used]
    for name in encoder.constants:
        if name in schema:
            texts = to_texts(frame[name]) if is_usable(schema[name]) else pl.repeat(None, frame.height, eager=True)
            columns.append(texts.cast(pl.String).alias(name))
    # As one struct: a query over thousands of columns takes longer than what it does.
    return pl.DataFrame(columns).to_struct("row")


def _plain_column(column: pl.Series, plan: ColumnPlan) -> pl.Series:
    if isinstance(plan, NumberColumn):
        is_float = column.dtype == pl.Float64
        values = column.to_numpy() if is_float else to_numbers(column)[0]
        return column if is_float and not np.isnan(values).any() else pl.Series(plan.name, values, nan_to_null=True)
    if isinstance(plan, DateColumn) and column.dtype.is_temporal():
        return column.dt.strftime(plan.form).alias(plan.name)
    return to_texts(column).alias(plan.name)


def frame_from_json(texts: list[str], encoder: ColumnEncoder) -> pl.DataFrame:
    """Undo `features_to_json`."""
    schema = {plan.name: pl.Float64 if isinstance(plan, NumberColumn) else pl.String for plan in encoder.used}
    schema |= dict.fromkeys(encoder.constants, pl.String)
    return pl.read_ndjson("\n".join(texts).encode(), schema=schema)


def features_from_json(texts: pl.Series, encoder: ColumnEncoder) -> Features | None:
    """Encode rows that were remembered; None if one was not, or is none that the model can use."""
    if texts.null_count() or not len(texts):
        return None
    try:
        frame = frame_from_json(texts.to_list(), encoder)
    except pl.exceptions.PolarsError:
        return None
    features = encoder.encode(frame) if frame.height == len(texts) else None
    return None if features is None or features.bad_values else features


# --- Frames of polars and of pandas; pyarrow, which polars itself would use for pandas, is not needed


Frame = TypeVar("Frame")
_NUMPY_KINDS = "biufM"


def to_polars(frame: Any) -> pl.DataFrame:
    """Return a polars frame as it is, and a pandas frame converted."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if not _is_pandas(frame):
        raise DataError(f"A polars or pandas DataFrame is needed, got {type(frame).__name__}{_advice(frame)}.")
    names = [str(name) for name in frame.columns]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise DataError(f"The frame has two columns called {name!r}; rename one.")
    return pl.DataFrame([_to_series(name, frame.iloc[:, number]) for number, name in enumerate(names)])


def _advice(frame: Any) -> str:
    if isinstance(frame, pl.LazyFrame):
        return ": pass frame.collect()"
    if isinstance(frame, dict):
        return ": pass polars.DataFrame([row]) for a dict that is one row"
    return ""


def like(original: Frame, result: pl.DataFrame) -> Frame:
    """Return a polars frame in the library of another frame, with its index where it has one."""
    if not _is_pandas(original):
        return cast(Frame, result)
    import pandas as pd

    columns = {column.name: column.to_list() if column.dtype == pl.String else column.to_numpy() for column in result}
    frame = pd.DataFrame(columns, index=cast(Any, original).index)
    return cast(Frame, frame)


def _is_pandas(frame: Any) -> bool:
    # A pandas frame cannot be at hand before pandas is imported.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _to_series(name: str, column: Any) -> pl.Series:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    values = column.to_numpy()
    if values.dtype.kind in _NUMPY_KINDS:
        return pl.Series(name, values)
    missing = column.isna().tolist()
    try:
        return pl.Series(
            name,
            [None if is_missing else value for value, is_missing in zip(values, missing, strict=True)],
            strict=False,
        )
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise DataError(f"Column {name!r} of the frame cannot be used ({error}).") from None


# --- The output for each row: its line, copied columns, round, what is predicted, and ratio


_DECIMALS = 6


def names_of_row(key: str | None, kept: list[str]) -> list[str]:
    """Return the columns that name a row: the key, or the line and the id of its prediction.

    There is no id beside a kept column of the same name.
    """
    return [key] if key is not None else [LINE, *([] if ID in kept else [ID])]


def output_columns(key: str | None, kept: list[str], form: LabelForm) -> list[str]:
    """Return the output columns; a copied column must not have the name of one of ours.

    Parameters
    ----------
    key : str, optional
        The column that identifies a row; its line and its id do if there is none.
    kept : list of str
        The other copied columns.
    form : LabelForm
    """
    ours = ["round", *form.columns, "ratio"]
    options = {"--key": [key or LINE], "--keep": kept}
    for option, names in options.items():
        for name in names:
            if name in ours or (option == "--keep" and key is None and name == LINE):
                raise ParameterError(f"{option} {name}: the predictions have a column with that name; rename yours.")
    return [*names_of_row(key, kept), *kept, *ours]


def output_schema(key: str | None, kept: list[str], form: LabelForm, types: dict[str, Any]) -> dict[str, pl.DataType]:
    """Return the types of the output columns, in their order; ``types`` are those of the copied columns, if known."""
    schema: dict[str, Any] = dict.fromkeys(output_columns(key, kept, form), pl.Float64())
    copied = kept if key is None else [key, *kept]
    schema |= {} if key is not None else dict.fromkeys(names_of_row(None, kept), pl.Int64())
    schema |= {name: types.get(name, pl.String()) for name in copied}
    return schema | {"round": pl.Int64()} | form.columns


@dataclass(frozen=True)
class NamedRows:
    """Rows that are predicted, with the names that they have in the output and in the store.

    Attributes
    ----------
    rows : PendingRows
    start, stop : int
        Which of them.
    ids : array of int, optional
        Of their predictions; None if they are not remembered.
    key : str, optional
        The column that identifies a row.
    kept : list of str
        The columns to pass through.
    """

    rows: PendingRows
    start: int
    stop: int
    ids: NDArray[np.int64] | None
    key: str | None
    kept: list[str]

    def copied(self) -> pl.DataFrame:
        """Return the first columns of the output: what names the rows, and the columns to pass through."""
        frame = self.rows.frame[self.start : self.stop]
        if self.key is not None:
            return frame.select(exactly([self.key, *self.kept]))
        names = pl.DataFrame({LINE: self.rows.lines[self.start : self.stop]})
        names = names.with_columns(pl.Series(ID, [None] * names.height if self.ids is None else self.ids, pl.Int64))
        names = names.select(names_of_row(None, self.kept))
        return names.hstack(frame.select(exactly(self.kept))) if self.kept else names

    def to_store(
        self,
        source: int,
        rounds: NDArray[np.int64],
        scores: NDArray[np.float64],
        form: LabelForm,
        encoder: ColumnEncoder,
    ) -> pl.DataFrame:
        """Return what `accous.table.store.Store.add_predictions` takes."""
        n_rows, part = self.stop - self.start, self.rows.frame[self.start : self.stop]
        keys = pl.Series([None] * n_rows, dtype=pl.String) if self.key is None else key_texts(part[self.key])
        return pl.DataFrame(
            {
                "id": self.ids,
                "key": keys,
                "source": np.full(n_rows, source),
                "line": self.rows.lines[self.start : self.stop],
                "round": rounds,
                **stored_scores(scores, form),
                "features": pl.concat(
                    [plain_features(piece, encoder) for piece in self.rows.pieces_of_table(self.start, self.stop)]
                ),
            }
        )


def stored_scores(scores: NDArray[np.float64], form: LabelForm) -> dict[str, pl.Series]:
    """Return what was predicted as text, and the probabilities of classes or the ends of an interval."""
    return {"predicted": form.predicted_texts(form.answers(scores)), "scores": pl.Series(form.stored(scores))}


def predictions_frame(
    copied: pl.DataFrame,
    rounds: NDArray[np.int64],
    scores: NDArray[np.float64],
    ratios: NDArray[np.float64],
    form: LabelForm,
) -> pl.DataFrame:
    """Return the output rows: what identifies them and is copied, then what was found.

    Numbers are rounded to keep files small and readable.
    """
    columns = {"round": rounds, **form.shown(scores), "ratio": np.round(ratios, _DECIMALS)}
    return copied.hstack(pl.DataFrame(columns))
