"""What a model's folder remembers of its predictions: one SQLite file that late labels are joined through."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from accous.arrays import FloatArray, IntArray
from accous.checkpoint.files import open_to_write, sync_folder
from accous.exceptions import AccousError, CheckpointError, DataError, LockedError

# --- The file: its schema, and what is refused. Somebody else may have made the folder


STORE_NAME = "predictions.sqlite"
KEEP_DAYS, MOST_ROWS, MOST_FEATURES = 90, 1_000_000, 100_000
"""Days and rows that are kept, and of how many rows the features are: labels come for rows of the last weeks."""

_APPLICATION, _VERSION, _MOST_BATCHES = 0x6163636F, 2, 1_000
_LONGEST_VALUE, _SECONDS_TO_WAIT, _SECONDS_OF_DAY = 16 << 20, 10.0, 86_400
# A journal that ends so names the journal of several databases, which SQLite would remove. This store is one alone.
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
STORE_FILES = tuple(STORE_NAME + ending for ending in ("", "-journal", "-wal", "-shm"))

_SCHEMA = (
    """CREATE TABLE predictions (
    id INTEGER PRIMARY KEY,
    key TEXT,
    source INTEGER NOT NULL,
    line INTEGER NOT NULL,
    round INTEGER NOT NULL,
    learned INTEGER NOT NULL,
    day INTEGER NOT NULL,
    predicted TEXT NOT NULL,
    scores BLOB,
    features TEXT,
    asked REAL,
    asked_batch INTEGER,
    label TEXT,
    label_batch INTEGER,
    earlier TEXT
)""",
    # Many rows that were predicted together: what nobody looks for costs a tenth of a row each.
    """CREATE TABLE blocks (
    first_id INTEGER PRIMARY KEY,
    last_id INTEGER NOT NULL,
    source INTEGER NOT NULL,
    learned INTEGER NOT NULL,
    day INTEGER NOT NULL,
    lines BLOB NOT NULL,
    rounds BLOB NOT NULL,
    keys TEXT NOT NULL,
    predicted TEXT NOT NULL,
    scores BLOB NOT NULL,
    features TEXT
)""",
    "CREATE INDEX by_key ON predictions (key) WHERE key IS NOT NULL",
    "CREATE INDEX by_line ON predictions (source, line)",
    "CREATE INDEX by_asked ON predictions (asked_batch) WHERE asked_batch IS NOT NULL",
    "CREATE INDEX by_label ON predictions (label_batch) WHERE label_batch IS NOT NULL",
)
_ADDED = ("id", "key", "source", "line", "round", "learned", "day", "predicted", "scores", "features")
_TYPES: dict[str, Any] = {
    "id": pl.Int64,
    "key": pl.String,
    "source": pl.Int64,
    "line": pl.Int64,
    "round": pl.Int64,
    "learned": pl.Int64,
    "predicted": pl.String,
    "scores": pl.Binary,
    "features": pl.String,
    "asked": pl.Float64,
    "label": pl.String,
    "label_batch": pl.Int64,
}
_COLUMNS = ", ".join(f"p.{name}" for name in _TYPES)
# JSON may need six bytes for one of a text: a block stays below the longest value.
_FEWEST_OF_BLOCK, _MOST_OF_BLOCK, _BYTES_OF_BLOCK = 64, 4096, 2 << 20
_IN_BLOCK = ("first_id", "last_id", "source", "learned", "day", "lines", "rounds", "keys", "predicted", "scores")


@contextmanager
def _plainly(path: Path) -> Iterator[None]:
    """Turn what SQLite finds wrong into one sentence."""
    try:
        yield
    except (AccousError, OSError):
        raise
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise LockedError(f"{path} is in use by another process: run the command again.") from None
        if any(word in str(error) for word in ("full", "disk", "readonly", "unable to open")):
            advice = "free some space, or change the permissions"
            raise CheckpointError(f"Cannot write to {path} ({error}): {advice}.") from None
        raise CheckpointError(f"{path} cannot be used ({' '.join(str(error).split())}): {_ADVICE}.") from None
    except Exception as error:
        # Also of polars and json: values have other types than accous writes.
        what = str(error) if isinstance(error, sqlite3.Error) else type(error).__name__
        raise CheckpointError(f"{path} is damaged ({what}): {_ADVICE}.") from error


_ADVICE = "restore it from a copy, or remove it to go on without what was predicted before"


def _require_plain_files(path: Path) -> None:
    """Refuse links and what is no file, also under the names that SQLite uses beside this one."""
    for name in STORE_FILES:
        each = path.with_name(name)
        if each.is_symlink() or each.exists():
            descriptor = open_to_write(each, os.O_RDONLY)
            try:
                size = os.fstat(descriptor).st_size
                os.lseek(descriptor, max(0, size - len(_JOURNAL_MAGIC)), os.SEEK_SET)
                is_of_several = size > 512 and os.read(descriptor, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC
            finally:
                os.close(descriptor)
            if is_of_several and name != path.name:
                raise CheckpointError(f"{each} is not a journal that accous wrote: remove it.")


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file, or make it, with its schema checked; nothing in it is run."""
    _require_plain_files(path)
    if not path.exists():
        os.close(open_to_write(path, os.O_RDWR | os.O_CREAT))
        sync_folder(path.parent)
    uri = path.absolute().as_uri() + "?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=_SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        # A journal that is rolled back, not one that is written ahead: then a copy of this one file is whole.
        for pragma in (
            "trusted_schema=OFF",
            "cell_size_check=ON",
            "mmap_size=0",
            "temp_store=MEMORY",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
        _require_schema(path, connection)
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


def _require_schema(path: Path, connection: sqlite3.Connection) -> None:
    found = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")]
    if not found and not connection.execute("PRAGMA user_version").fetchone()[0]:
        connection.execute("BEGIN IMMEDIATE")
        for statement in (*_SCHEMA, f"PRAGMA application_id={_APPLICATION}", f"PRAGMA user_version={_VERSION}"):
            connection.execute(statement)
        connection.execute("COMMIT")
        return
    numbers = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
    if numbers[0] == _APPLICATION and numbers[1] != _VERSION:
        newer, earlier = "a newer accous: upgrade accous", "an earlier accous: fit the model again"
        raise CheckpointError(f"{path} was written by {newer if numbers[1] > _VERSION else earlier}.")
    if found != list(_SCHEMA) or numbers[0] != _APPLICATION:
        raise CheckpointError(f"{path} is not a file that accous wrote: {_ADVICE}.")


# --- Names of rows and of files


_FIRST_ID, _N_FIRST_IDS = 10**14, 8 * 10**14
ID_STEP = 2
"""Ids of rows that the saved state of a model counts are even, others odd: who only predicts needs no lock."""
SERVED = 0
"""The source of rows that came to a service, which are in no file."""
_LEAST_PREFIX, _MOST_PREFIX, _DIGEST_BITS = 1 << 12, 1 << 16, 46


def first_id(settings: dict[str, Any], label: str) -> int:
    """Return the first id of a model's predictions: large, so that nobody's own numbers are taken for ids.

    All ids have 15 digits, which every spreadsheet keeps. It depends on the reference alone.
    """
    text = json.dumps([settings.get("reference_file"), label], sort_keys=True)
    return _FIRST_ID + _digest(text.encode()) % _N_FIRST_IDS


def ids_from(first: int, n_rows: int) -> IntArray:
    """Return so many ids."""
    return first + ID_STEP * np.arange(n_rows, dtype=np.int64)


def rows_before(ids: IntArray, newest: int) -> IntArray:
    """Return how many rows were predicted after each one, until another."""
    return np.maximum(0, newest - ids) // ID_STEP


def looks_like_id(number: int) -> bool:
    """Whether a number can be the id of a prediction."""
    return _FIRST_ID <= number < 10 * _FIRST_ID


def identify_source(path: str, known: Iterable[int] = ()) -> int | None:
    """Return a number for the content of a file, which stays when the file grows; None if it is no file.

    It is made of the length and a digest of the first 64 kB. A file that begins as one of ``known`` is that one, unless
    too little of that was there to tell.
    """
    file = Path(path)
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        prefix = stream.read(_MOST_PREFIX)
    for each in known:
        n_bytes = each >> _DIGEST_BITS
        if _LEAST_PREFIX <= n_bytes <= len(prefix) and _source_of(prefix[:n_bytes]) == each:
            return each
    return _source_of(prefix)


def _source_of(prefix: bytes) -> int:
    return len(prefix) << _DIGEST_BITS | _digest(prefix) % (1 << _DIGEST_BITS)


def _digest(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def pack_scores(scores: FloatArray) -> list[bytes]:
    """Return the numbers of each row as bytes."""
    content = np.ascontiguousarray(scores, dtype="<f8")
    width, whole = 8 * content.shape[1], content.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)] if width else [b""] * len(content)


def unpack_scores(packed: Sequence[bytes | None], width: int) -> FloatArray:
    """Undo `pack_scores`; NaN where there is nothing of that width, as when classes have joined since."""
    found = np.full((len(packed), width), np.nan)
    for row, each in enumerate(packed):
        if each is not None and len(each) == 8 * width:
            found[row] = np.frombuffer(each, dtype="<f8")
    return found


# --- Blocks: rows of one source with consecutive ids, as one row of the file until one of them is looked for


def _can_be_block(rows: pl.DataFrame) -> bool:
    if rows.height < _FEWEST_OF_BLOCK or "label" in rows.columns:
        return False
    is_whole = isinstance(rows.schema["scores"], pl.Array) and not rows["features"].null_count()
    n_ids = (rows["id"][-1] - rows["id"][0]) // ID_STEP + 1
    return is_whole and n_ids == rows.height and rows["source"].n_unique() == 1


def _longest(rows: pl.DataFrame) -> int:
    """Return the bytes of the longest row."""
    features = rows["features"]
    parts = [features] if features.dtype == pl.String else features.struct.unnest().get_columns()
    texts = [
        each.str.len_bytes().fill_null(0)
        for each in (rows["key"], rows["predicted"], *parts)
        if each.dtype == pl.String
    ]
    n_numbers = len(parts) + rows["scores"].to_numpy().shape[1]
    return 8 * n_numbers + sum(int(each.to_numpy().max()) for each in texts)


def _pack_block(rows: pl.DataFrame) -> tuple[Any, ...]:
    first = rows.row(0, named=True)
    packed = (rows[name].to_numpy().astype("<i8").tobytes() for name in ("line", "round"))
    texts = (json.dumps(rows[name].to_list(), ensure_ascii=False) for name in ("key", "predicted"))
    others = rows["scores"].to_numpy().astype("<f8", copy=False).tobytes(), _pack_features(rows["features"])
    return (first["id"], rows["id"][-1], first["source"], first["learned"], first["day"], *packed, *texts, *others)


def _pack_features(features: pl.Series) -> str | bytes:
    """Return JSON as lines; of a struct its texts as JSON, then its numbers as bytes, because to write them is slow."""
    if features.dtype == pl.String:
        return str(features.str.join("\n").item())
    frame = features.struct.unnest()
    texts = {each.name: None if each.dtype == pl.Float64 else each.to_list() for each in frame}
    # In numpy, null is NaN.
    numbers = [each.to_numpy().astype("<f8", copy=False).tobytes() for each in frame if texts[each.name] is None]
    return b"".join((json.dumps(texts, ensure_ascii=False).encode(), b"\n", *numbers))


def _unpack_features(packed: str | bytes | None, n_rows: int) -> list[str | None]:
    """Return what `_pack_features` was given, as JSON."""
    if packed is None:
        return [None] * n_rows
    if isinstance(packed, str):
        return list(packed.split("\n"))
    head, _, content = packed.partition(b"\n")
    texts, numbers = json.loads(head), np.frombuffer(content, dtype="<f8").reshape(-1, n_rows)
    columns = {name: each for name, each in texts.items() if each is not None}
    places = [name for name in texts if name not in columns]
    columns |= {name: pl.Series(each, nan_to_null=True) for name, each in zip(places, numbers, strict=True)}
    schema = {name: pl.Float64 if texts[name] is None else pl.String for name in texts}
    return pl.DataFrame({name: columns[name] for name in texts}, schema).to_struct("row").struct.json_encode().to_list()


def _unpack_block(block: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    first, last, source, learned, day, lines, rounds, keys, predicted, scores, features = block
    ids = range(first, last + 1, ID_STEP)
    if len(lines) != 8 * len(ids):
        raise ValueError("a block has another number of rows")
    numbers = (np.frombuffer(each, dtype="<i8").tolist() for each in (lines, rounds))
    width = len(scores) // len(ids)
    of_rows = [scores[start : start + width] for start in range(0, len(scores), width)] if width else [b""] * len(ids)
    columns = (ids, json.loads(keys), *numbers, json.loads(predicted), of_rows, _unpack_features(features, len(ids)))
    for number, key, line, played, answer, packed, text in zip(*columns, strict=True):
        yield number, key, source, line, played, learned, day, answer, packed, text


# --- The store


@dataclass(frozen=True)
class StorePosition:
    """How much of the store the saved state of a model contains: what came after it did not happen.

    Attributes
    ----------
    last_id : int
        Of the predictions that the state counts; 0 if there is none.
    n_batches : int
        Files of labels that were counted.
    keep_days : int
        Days after which predictions are forgotten.
    asked_id : int
        The last prediction of a service when it was asked which rows to label.
    came : tuple of int
        The last id when each of the last thousand files of labels came.
    """

    last_id: int = 0
    n_batches: int = 0
    keep_days: int = KEEP_DAYS
    asked_id: int = 0
    came: tuple[int, ...] = ()

    def with_batch(self) -> StorePosition:
        """Return this after one more file of labels."""
        return replace(self, n_batches=self.n_batches + 1, came=(*self.came, self.last_id)[-_MOST_BATCHES:])

    def without_batch(self, batch: int) -> StorePosition:
        """Return this without a file of labels and those after it."""
        return replace(self, n_batches=batch - 1, came=self.came[: batch - 1 - self.n_batches])

    def since_came(self, labelled: pl.DataFrame) -> IntArray:
        """Return how many rows came after the first label of each labelled row.

        Labels of batch 0 came with their rows.
        """
        batch, ids = labelled["first_batch"].to_numpy(), labelled["id"].to_numpy()
        came = np.array((0, *self.came), dtype=np.int64)
        place = np.clip(batch - (self.n_batches - len(self.came)), 0, len(self.came))
        return rows_before(np.where(batch == 0, ids, came[place]), self.last_id)


@dataclass(frozen=True)
class Joined:
    """Labels and the predictions that they belong to.

    Attributes
    ----------
    rows : polars.DataFrame
        The predictions that have a label now, in their order, as they were before: ``id``, ``key``, ``line``,
        ``round``, ``predicted``, ``scores``, ``features``, ``asked``, ``label`` (the earlier one, or null). ``given``
        is the label that came.
    unknown : polars.Series
        Places of labels whose row is not here.
    """

    rows: pl.DataFrame
    unknown: pl.Series

    @property
    def new(self) -> pl.DataFrame:
        """Rows that had no label."""
        return self.rows.filter(pl.col("label").is_null())

    @property
    def corrected(self) -> pl.DataFrame:
        """Rows that had another label."""
        return self.rows.filter(pl.col("label") != pl.col("given"))

    @property
    def n_before(self) -> int:
        """Rows that had this label already."""
        return self.rows.filter(pl.col("label") == pl.col("given")).height


class Store:
    """The predictions of a model, what was asked about them, and their labels.

    Every change is one transaction, or part of `changing`. What the saved state of the model does not contain is taken
    back when the store is opened: the caller commits here first and saves the model then, so that a process that was
    killed between the two has counted nothing twice.

    Parameters
    ----------
    path : Path
    connection : sqlite3.Connection
    position : StorePosition
    start : int
        The first id, if there is no row yet.
    clock : callable
        Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        position: StorePosition,
        start: int,
        clock: Callable[[], float],
    ) -> None:
        self._path, self._connection, self._clock = path, connection, clock
        self.position = position
        self._start = start

    @classmethod
    def open(
        cls,
        folder: Path,
        position: StorePosition | None,
        *,
        start: int = _FIRST_ID,
        clock: Callable[[], float] | None = None,
    ) -> Self:
        """Open the store of a folder, or make one.

        Parameters
        ----------
        folder : Path
        position : StorePosition, optional
            What the saved state contains; whatever goes beyond it is taken back. None only looks, and adds predictions
            that no state counts, as others may do while a model is in use.
        start : int
            The first id.
        clock : callable, optional
            Returns the time in seconds since 1970.

        Raises
        ------
        CheckpointError
            If the file is a link, damaged, or none that accous has written.
        """
        path = folder / STORE_NAME
        with _plainly(path):
            store = cls(path, _connect(path), position or StorePosition(), start, clock or time.time)
            if position is not None:
                try:
                    store._take_back(position)
                except BaseException:
                    store.close()
                    raise
            return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a change that is under way is taken back."""
        self._connection.close()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make all changes inside one transaction; an error takes them back."""
        if self._connection.in_transaction:
            yield
            return
        before = self.position
        with _plainly(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _plainly(self._path):
                self._connection.execute("COMMIT")
        except BaseException:
            self.position = before
            with _plainly(self._path):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    def _take_back(self, position: StorePosition) -> None:
        """Forget what the saved state does not contain."""
        beyond = "SELECT 1 FROM predictions WHERE id > ?1 AND id % 2 = 0"
        beyond += " UNION ALL SELECT 1 FROM blocks WHERE last_id > ?1 AND last_id % 2 = 0 LIMIT 1"
        asked = f"FROM predictions WHERE asked_batch IS NOT NULL AND source = {SERVED} AND id > ?"
        is_asked = bool(self._rows(f"SELECT 1 {asked} LIMIT 1", position.asked_id))
        is_beyond = is_asked or bool(self._rows(beyond, position.last_id))
        if not is_beyond and self._last_batch() <= position.n_batches:
            return
        with self.changing():
            self._run("DELETE FROM predictions WHERE id > ? AND id % 2 = 0", position.last_id)
            self._run("DELETE FROM blocks WHERE last_id > ? AND last_id % 2 = 0", position.last_id)
            forget = "UPDATE predictions SET asked = NULL, asked_batch = NULL WHERE id IN"
            self._run(f"{forget} (SELECT id {asked})", position.asked_id)
            while self._last_batch() > position.n_batches:
                self._undo(self._last_batch())
        self.position = position

    # --- predictions

    def next_id(self, *, in_state: bool = True) -> int:
        """Return the id of the next prediction, of one that the saved state counts or not."""
        last = self._last_id()
        number = int(max(self._start - 1, self.position.last_id, last)) + 1
        return number + (number % ID_STEP == int(in_state))

    def sources(self) -> list[int]:
        """Return the numbers of all files whose rows are here."""
        return self._numbers(f"SELECT source FROM blocks UNION SELECT * FROM ({_DISTINCT_SOURCES})")

    def add_predictions(self, rows: pl.DataFrame, *, learned: bool) -> None:
        """Remember predictions.

        Parameters
        ----------
        rows : polars.DataFrame
            The columns ``id``, ``key`` (text or null), ``source``, ``line``, ``round``, ``predicted`` (text),
            ``scores`` (an array of numbers for each row, or null), ``features`` (the row as JSON, null, or a struct of
            numbers and texts), and ``label`` if labels came with the rows: they are batch 0, which cannot be taken
            back.
        learned : bool
            Whether the model learns from these rows in their round, after it has predicted them.
        """
        if not rows.height:
            return
        rows = rows.with_columns(learned=pl.lit(int(learned)), day=pl.lit(self._today()))
        with self.changing():
            if _can_be_block(rows):
                size = min(_MOST_OF_BLOCK, max(1, _BYTES_OF_BLOCK // max(1, _longest(rows))))
                self._insert("blocks", (*_IN_BLOCK, "features"), map(_pack_block, rows.iter_slices(size)))
            else:
                names: tuple[str, ...] = _ADDED
                if "label" in rows.columns:
                    names = (*_ADDED, "label", "label_batch")
                    rows = rows.with_columns(label_batch=pl.when(pl.col("label").is_not_null()).then(0))
                if isinstance(rows.schema["scores"], pl.Array):
                    packed = pl.Series("scores", pack_scores(rows["scores"].to_numpy()), pl.Binary)
                    rows = rows.with_columns(packed)
                if rows.schema["features"] == pl.Struct:
                    rows = rows.with_columns(pl.col("features").struct.json_encode())
                self._insert("predictions", names, rows.select(names).iter_rows())
        if rows["id"][-1] % ID_STEP == 0:
            self.position = replace(self.position, last_id=int(rows["id"][-1]))

    def _insert(self, table: str, names: Sequence[str], values: Iterable[tuple[Any, ...]]) -> None:
        self._run_many(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values)

    def _unpack(self) -> None:
        """Make rows of the blocks, before one of them is looked for."""
        if not self._rows("SELECT 1 FROM blocks LIMIT 1"):
            return
        first = f"SELECT {', '.join(_IN_BLOCK)}, features FROM blocks ORDER BY first_id LIMIT 1"
        with self.changing():
            while block := self._rows(first):
                self._insert("predictions", _ADDED, _unpack_block(block[0]))
                self._run("DELETE FROM blocks WHERE first_id = ?", block[0][0])

    def _last_id(self) -> int:
        both = "SELECT max(id) AS id FROM predictions UNION ALL SELECT max(last_id) FROM blocks"
        return max(self._numbers(both), default=0)

    def _today(self) -> int:
        return int(self._clock() // _SECONDS_OF_DAY)

    def has_learned(self, source: int) -> bool:
        """Whether rows of a file are here that the model has learned from."""
        where = "WHERE source = ? AND learned"
        found = f"SELECT 1 FROM predictions {where} UNION ALL SELECT 1 FROM blocks {where} LIMIT 1"
        return bool(self._rows(found, source, source))

    def drop(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Forget rows that no state counts, from one id to another: their predictions were never seen."""
        with self.changing():
            for pair in ranges:
                self._run("DELETE FROM predictions WHERE id BETWEEN ? AND ? AND id % 2 = 1", *pair)
                self._run("DELETE FROM blocks WHERE first_id BETWEEN ? AND ? AND first_id % 2 = 1", *pair)

    def repeated_key(self, number: int) -> str | None:
        """Return a key that several rows have, from an id on; None if there is none."""
        self._unpack()
        found = self._rows(
            "SELECT key FROM predictions WHERE key IS NOT NULL AND id >= ? GROUP BY key HAVING count(*) > 1 LIMIT 1",
            number,
        )
        return str(found[0][0]) if found else None

    # --- labels

    def join(self, labels: pl.DataFrame, *, by: str, source: int | None = None) -> Joined:
        """Find the predictions that labels belong to; nothing is changed.

        Parameters
        ----------
        labels : polars.DataFrame
            The columns ``place`` (text, each once) and ``label`` (text).
        by : {"key", "id", "line"}
            What the places are. Of several predictions with one key, or for one line, the one that a label was asked
            for and has none is meant, or the last one.
        source : int, optional
            The file whose lines they are. None: the one that has them, of rows that were asked about if there are such.

        Raises
        ------
        DataError
            If lines of several files were predicted and ``source`` does not say which is meant.
        """
        self._unpack()
        with self._given(labels, is_number=by != "key"):
            if by == "line" and source is None:
                source = self._source_of_lines()
            types = {"place": pl.String, "given": pl.String, **_TYPES}
            rows = self._frame(types, _JOINS[by], *((source,) if by == "line" else ()))
        rows = rows.sort("id").unique("id", keep="last", maintain_order=True)
        unknown = labels.join(rows, on="place", how="anti", maintain_order="left")["place"]
        return Joined(rows, unknown)

    @contextmanager
    def _given(self, labels: pl.DataFrame, *, is_number: bool) -> Iterator[None]:
        """Hold labels in a table of this connection alone."""
        number = pl.col("place").cast(pl.Float64, strict=False)  # 7.0 is line 7: other programs write gaps so
        number = pl.when(number % 1.0 == 0.0).then(number).cast(pl.Int64, strict=False)
        pairs = labels.select("place", "label", number=number)
        pairs = pairs.drop_nulls("number") if is_number else pairs
        self._run("CREATE TEMP TABLE given (place TEXT, label TEXT, number INTEGER)")
        try:
            self._run_many("INSERT INTO temp.given VALUES (?, ?, ?)", pairs.iter_rows())
            yield
        finally:
            self._run("DROP TABLE temp.given")

    def _source_of_lines(self) -> int:
        """Return the one file that has these lines; asked rows decide if there are several."""
        found = self._rows(_SOURCES_OF_LINES)
        asked = [(source, n_asked) for source, _, n_asked in found if n_asked]
        most = max((n_asked for _, n_asked in asked), default=0)
        meant = [source for source, n_asked in asked if n_asked == most] or [source for source, _, _ in found]
        if len(meant) > 1:
            raise DataError(
                f"Rows with these lines were predicted in {len(meant)} files: join by the column id of the "
                "predictions, or by a key (accous adapt --key COL)."
            )
        return int(meant[0]) if meant else 0

    def set_labels(self, joined: Joined) -> None:
        """Give rows their labels, as one batch that `undo_last` takes back; a later label replaces an earlier one."""
        changed = joined.rows.filter(pl.col("label").is_null() | (pl.col("label") != pl.col("given")))
        if not changed.height:
            return
        batch = self.position.n_batches + 1
        with self.changing():
            select = "SELECT id, earlier FROM predictions WHERE id = ?"
            before = dict(self._one(select, number) for number in joined.corrected["id"])
            parts = changed.select("id", "given", "label", "label_batch").iter_rows()
            values = (
                (given, batch, _pushed(before.get(number), label, label_batch), number)
                for number, given, label, label_batch in parts
            )
            self._run_many(_SET_LABEL, values)
        self.position = self.position.with_batch()

    def labelled(self) -> pl.DataFrame:
        """Return all rows that have a label, in the order in which the labels came.

        ``given`` is the label, and ``first_batch`` when the row had its first one.
        """
        first = "coalesce(json_extract(p.earlier, '$[0][1]'), p.label_batch)"
        rows = self._frame(
            _TYPES | {"first_batch": pl.Int64},
            f"SELECT {_COLUMNS}, {first} FROM predictions AS p WHERE p.label_batch IS NOT NULL "
            "ORDER BY p.label_batch, p.id",
        )
        return rows.with_columns(given=pl.col("label"))

    def undo_last(self) -> int:
        """Take the last batch of labels back, those that it replaced come back; return how many labels it had."""
        batch = self._last_batch()
        if not batch:
            return 0
        with self.changing():
            n_labels = self._undo(batch)
        self.position = self.position.without_batch(batch)
        return n_labels

    def _undo(self, batch: int) -> int:
        rows = self._rows("SELECT id, earlier FROM predictions WHERE label_batch = ?", batch)
        self._run_many(_SET_LABEL, ((*_popped(earlier), number) for number, earlier in rows))
        return len(rows)

    def _last_batch(self) -> int:
        return max(self._numbers("SELECT max(label_batch) FROM predictions WHERE label_batch IS NOT NULL"), default=0)

    # --- questions

    def mark_asked(self, ids: Sequence[int], probabilities: Sequence[float]) -> int:
        """Note that labels of rows were asked for, with the probability that each had of being chosen.

        Returns
        -------
        int
            The number of this batch of questions.

        Raises
        ------
        DataError
            If a row is not here, or was asked for before.
        """
        self._unpack()
        with self.changing():
            last = self._numbers("SELECT max(asked_batch) FROM predictions WHERE asked_batch IS NOT NULL")
            batch = max(last, default=0) + 1
            for number, probability in zip(ids, probabilities, strict=True):
                statement = "UPDATE predictions SET asked = ?, asked_batch = ? WHERE id = ? AND asked IS NULL"
                if self._run(statement, float(probability), batch, int(number)) != 1:
                    raise DataError(f"The prediction {number} is not stored, or was asked for before.")
        return batch

    def served_since(self, number: int) -> pl.DataFrame:
        """Return the rows that came to a service after an id and have no label, in their order."""
        self._unpack()
        columns = ("id", "key", "line", "round", "predicted")
        return self._frame(
            {name: _TYPES[name] for name in columns},
            f"SELECT {', '.join(columns)} FROM predictions WHERE id > ? AND source = ? AND label IS NULL ORDER BY id",
            number,
            SERVED,
        )

    def settled(self, by: str, source: int | None) -> list[str]:
        """Return the keys, or the lines of a file, as text, that were asked about or have a label."""
        done = "(asked_batch IS NOT NULL OR label_batch IS NOT NULL)"
        if by == "key":
            found = self._rows(f"SELECT DISTINCT key FROM predictions WHERE key IS NOT NULL AND {done}")
        else:
            found = self._rows(f"SELECT DISTINCT line FROM predictions WHERE source = ? AND {done}", source)
        return [str(place) for (place,) in found]

    # --- forgetting

    def forget(self, keys: Sequence[str]) -> int:
        """Delete all rows with these keys, and what was written of them; return how many there were."""
        self._unpack()
        with self.changing():
            return sum(self._run("DELETE FROM predictions WHERE key = ?", key) for key in keys)

    def prune(
        self, *, keep_days: int | None = None, most_rows: int = MOST_ROWS, most_features: int = MOST_FEATURES
    ) -> None:
        """Delete rows that are older than so many days, and the oldest if there are too many.

        The features of rows that are not among the last ``most_features`` go too, unless a label was asked for. Blocks
        go as a whole, once all of their rows may.
        """
        oldest_day = self._today() - (self.position.keep_days if keep_days is None else keep_days)
        with self.changing():
            last = self._last_id()
            # Ids rise with time: rows are deleted from the first on, without a look at all of them.
            young = self._rows("SELECT id FROM predictions WHERE day >= ? ORDER BY id LIMIT 1", oldest_day)
            end = max(young[0][0] if young else last + 1, last - ID_STEP * most_rows + 1)
            self._run("DELETE FROM predictions WHERE id < ?", end)
            self._run("DELETE FROM blocks WHERE day < ? OR last_id <= ?", oldest_day, last - ID_STEP * most_rows)
            end = last - ID_STEP * most_features
            forget = "SET features = NULL WHERE features IS NOT NULL AND"
            self._run(f"UPDATE predictions {forget} asked IS NULL AND id <= ?", end)
            self._run(f"UPDATE blocks {forget} last_id <= ?", end)

    # --- SQL

    def _run(self, statement: str, *values: Any) -> int:
        with _plainly(self._path):
            return int(self._connection.execute(statement, values).rowcount)

    def _run_many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with _plainly(self._path):
            self._connection.executemany(statement, rows)

    def _frame(self, types: dict[str, Any], statement: str, *values: Any) -> pl.DataFrame:
        with _plainly(self._path):
            return pl.DataFrame(self._rows(statement, *values), schema=types, orient="row")

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with _plainly(self._path):
            return self._connection.execute(statement, values).fetchall()

    def _numbers(self, statement: str) -> list[int]:
        """Return the whole numbers of a column but for null; in a file of others' it may hold anything else."""
        with _plainly(self._path):
            return [index(found) for (found,) in self._rows(statement) if found is not None]

    def _one(self, statement: str, *values: Any) -> Any:
        found = self._rows(statement, *values)
        return found[0] if found else (None,)


_SET_LABEL = "UPDATE predictions SET label = ?, label_batch = ?, earlier = ? WHERE id = ?"
_DISTINCT_SOURCES = """
WITH RECURSIVE found (source) AS (
    SELECT min(source) FROM predictions
    UNION ALL
    SELECT (SELECT min(source) FROM predictions WHERE source > found.source) FROM found WHERE found.source IS NOT NULL
)
SELECT source FROM found WHERE source IS NOT NULL
"""
_MEANT = "ORDER BY asked IS NOT NULL AND label IS NULL DESC, id DESC LIMIT 1"
_JOINS = {
    by: f"SELECT g.place, g.label, {_COLUMNS} FROM temp.given AS g JOIN predictions AS p ON p.id = {which}"
    for by, which in {
        "id": "g.number",
        "key": f"(SELECT id FROM predictions WHERE key = g.place {_MEANT})",
        "line": f"(SELECT id FROM predictions WHERE source = ? AND line = g.number {_MEANT})",
    }.items()
}
_SOURCES_OF_LINES = f"""
SELECT s.source, count(*), count(p.asked) FROM ({_DISTINCT_SOURCES}) AS s CROSS JOIN temp.given AS g
JOIN predictions AS p ON p.source = s.source AND p.line = g.number GROUP BY s.source
"""


def _pushed(earlier: str | None, label: str | None, batch: int | None) -> str | None:
    """Return the earlier labels of a row with one more."""
    return None if label is None else json.dumps([*json.loads(earlier or "[]"), [label, batch]])


def _popped(earlier: str | None) -> tuple[str | None, int | None, str | None]:
    """Return the last one of the earlier labels, its batch, and the others."""
    if earlier is None:
        return None, None, None
    *others, (label, batch) = json.loads(earlier)
    return str(label), int(batch), json.dumps(others) if others else None
