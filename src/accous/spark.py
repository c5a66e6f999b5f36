"""One model per key on Spark: history in batch, and streams in Structured Streaming (extra ``spark``).

Without Spark, the import says what to install.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from accous.text import importing

with importing("accous.spark"):
    import pandas as pd
    import pyarrow as pa
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import functions as F
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from accous.exceptions import CheckpointError, DataError
from accous.keyed.arrow import OUTPUT_FIELDS, BucketStep, ShippedModel, hash_key, newest_states, pack_page, unpack_page
from accous.text import require_integer

__all__ = ["adapt_stream", "adapt_table", "local_session", "plain_errors"]


# --- Keys in buckets: what Spark groups by, and the schema of what comes out


BUCKET = "accous_bucket"
SECONDS = "accous_seconds"
_KEY_TYPES = (StringType, LongType, IntegerType)


def in_buckets(df: DataFrame, key: str, time: str | None, n_buckets: int) -> tuple[DataFrame, str | None]:
    """Return rows as the step takes them, with their bucket, and the column of their times.

    Python gets a timestamp as the clock of the session's time zone shows it, in a stream without the zone. Every
    timestamp therefore becomes one of UTC here, and the times of the rows seconds since 1970.
    """
    if time is not None and time not in df.columns:
        raise DataError(f"The rows have no column {time!r} for the times: they have {', '.join(df.columns)}.")
    moments = [field.name for field in df.schema.fields if isinstance(field.dataType, TimestampType)]
    if time is not None and time in moments:
        df = df.withColumn(SECONDS, F.unix_micros(F.col(_quoted(time))) / F.lit(1e6))
    for name in moments:
        # Not a cast: that would go through the session's time zone.
        seconds = f"cast(unix_micros({_quoted(name)}) as decimal(24, 6)) / 1000000"
        since = f"make_dt_interval(0, 0, 0, cast({seconds} as decimal(18, 6)))"
        df = df.withColumn(name, F.expr(f"timestamp_ntz'1970-01-01 00:00:00' + {since}"))
    return with_bucket(df, key, n_buckets), SECONDS if time in moments else time


def _quoted(name: str) -> str:
    """Return a column's name as SQL reads it: without quotes, a dot would mean a field of a structure."""
    return f"`{name.replace('`', '``')}`"


def with_bucket(df: DataFrame, key: str, n_buckets: int) -> DataFrame:
    """Add the column by which rows are grouped: a hash of the key.

    A group per key would cost Python a call per key; a few hundred keys share a bucket.
    """
    # An integer column of 32 bits becomes one of 64, so that a batch and a stream name the same key the same way.
    if isinstance(_key_field(df, key).dataType, IntegerType):
        df = df.withColumn(key, F.col(_quoted(key)).cast("bigint"))
    return df.withColumn(BUCKET, F.pmod(F.xxhash64(F.col(_quoted(key))), F.lit(n_buckets)).cast("int"))


def known_states(resume: DataFrame, key: str, n_buckets: int) -> DataFrame:
    """Return the keys and states of a result, with their buckets."""
    missing = [name for name in (key, "state") if name not in resume.columns]
    if missing:
        raise DataError(
            f"The states to resume from have no column {missing[0]!r}: give a result that has states, or another "
            f"table with the columns {key!r} and 'state'."
        )
    return with_bucket(resume.where("state is not null").select(_quoted(key), "state"), key, n_buckets)


def result_schema(df: DataFrame, key: str) -> StructType:
    """Return the schema of the result: the key, and the columns of `accous.keyed.arrow`."""
    kind: Any = StringType() if isinstance(_key_field(df, key).dataType, StringType) else LongType()
    fields = [StructField(key, kind)]
    plain = StructType.fromDDL(", ".join(f"{name} {kind}" for name, kind in OUTPUT_FIELDS.items()))
    return StructType(fields + plain.fields)


def _key_field(df: DataFrame, key: str) -> Any:
    if key not in df.columns:
        raise DataError(f"The rows have no column {key!r} for the keys: they have {', '.join(df.columns)}.")
    field = df.schema[key]
    if not isinstance(field.dataType, _KEY_TYPES):
        raise DataError(
            f"The column of keys {key!r} has the type {field.dataType.simpleString()}: cast it to string or bigint."
        )
    return field


# --- History in batch: the same step over a table, one bucket of keys at a time


def adapt_table(
    spark: SparkSession,  # noqa: ARG001  as for a stream
    df: DataFrame,
    model: Any,
    *,
    key: str,
    time: str | None = None,
    number: str | None = None,
    label: str | None = None,
    resume: DataFrame | None = None,
    buckets: int = 64,
    status_every: int | None = 64,
    with_states: bool = True,
    is_last: bool = False,
    **settings: Any,
) -> DataFrame:
    """Predict and learn from a table of rows of many keys; lazily, as all of Spark's tables are.

    Parameters
    ----------
    spark : SparkSession
    df : DataFrame
        With the columns of the model's reference; other columns are left out.
    model : path, AdaptiveClassifier or TableModel
        A folder that `accous.save` or ``accous fit`` wrote, or a fitted model. It travels with the tasks.
    key : str
        The column of the keys: string or bigint.
    time : str, optional
        The column of the times; rows of a key are taken in their order. Timestamps become seconds since 1970 in UTC,
        whatever the session's time zone is.
    number : str, optional
        A column of integers that names the rows in the result.
    label : str, optional
        A column of labels: rows that have one teach their key, and are not predicted (`KeyedAdapter.observe`).
    resume : DataFrame, optional
        The result of an earlier call or of a stream, or another table with the columns of the key and ``state``: the
        keys go on from their newest states. All keys of it are in the result, those without new rows too.
    buckets : int, default=64
        Into how many groups the keys are hashed. The rows of one bucket must fit into the memory of a worker.
    status_every : int or None, default=64
        Whether there is a row of kind "status" for each key that has new rows. None leaves them out, which saves about
        as much time as five rounds per key take. How many rounds lie between two of them matters in streams only.
    with_states : bool, default=True
        Whether the result has the states, so that another call can go on from them.
    is_last : bool, default=False
        Whether no more rows will come, so that none has to wait for rows that may be late.
    **settings
        Of `accous.keyed.KeyedAdapter`: ``round_size``, ``round_time``, ``lateness``, ``late``.

    Returns
    -------
    DataFrame
        The key, and the columns that ``kind`` says: "prediction" (time, number, round, prediction, probability),
        "event", "status", and "state", one row per key. Write it once, for example partitioned by ``kind``: each action
        on it computes all of it again.
    """
    require_integer("buckets", buckets, at_least=1)
    shipped = ShippedModel(model, settings)
    rows, seconds = in_buckets(df, key, time, buckets)
    states = "all" if with_states else "none"
    step = BucketStep(shipped, key, seconds, number, status_every, states, label, is_batch=True, is_last=is_last)
    schema = result_schema(df, key)
    if resume is None:
        return rows.groupBy(BUCKET).applyInArrow(_one_bucket(step), schema)
    known = known_states(resume, key, buckets).groupBy(BUCKET)
    return rows.groupBy(BUCKET).cogroup(known).applyInArrow(_two_tables(step), schema)


def _one_bucket(step: BucketStep) -> Callable[[pa.Table], pa.Table]:
    def run(rows: pa.Table) -> pa.Table:
        return step(rows, {})[1]

    return run


def _two_tables(step: BucketStep) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def run(rows: pa.Table, known: pa.Table) -> pa.Table:
        states = newest_states(zip(known.column(step.key).to_pylist(), known.column("state").to_pylist(), strict=True))
        return step(rows, states)[1]

    return run


# --- What a checkpoint was made with: kept beside it, because a stream that goes on with something else loses
#     its keys


_FOLDER = "accous"  # inside the checkpoint


@dataclass(frozen=True, kw_only=True)
class BucketLayout:
    """Where a stream's keys are, and what they belong to.

    Attributes
    ----------
    key : str
        The column of the keys.
    buckets, pages : int
        Groups of keys, and pages of each.
    expected_keys, keys_per_page : int
        What the number of pages came from.
    fingerprint : str
        Of the model and the settings of `accous.keyed.KeyedAdapter`.
    is_resumed : bool
        Whether the keys went on from states of an earlier result.
    """

    key: str
    buckets: int
    pages: int
    expected_keys: int
    keys_per_page: int
    fingerprint: str
    is_resumed: bool


def keep_layout(spark: SparkSession, checkpoint: str, layout: BucketLayout) -> None:
    """Write the layout of a new checkpoint, or compare with that of one that exists.

    Raises
    ------
    CheckpointError
        If the checkpoint was made with another layout.
    """
    path = f"{checkpoint.rstrip('/')}/{_FOLDER}"
    kept = _lines(spark, path)
    if not kept:
        # Spark writes it, so that the checkpoint may be wherever Spark can write.
        row = spark.createDataFrame([(json.dumps(asdict(layout)),)], "value string")
        row.coalesce(1).write.mode("overwrite").text(path)
        return
    found = BucketLayout(**json.loads(kept[0]))
    _compare(checkpoint, found, layout)
    if found.is_resumed and not layout.is_resumed and not _lines(spark, f"{checkpoint.rstrip('/')}/commits"):
        raise CheckpointError(
            f"The stream of the checkpoint {checkpoint} began with resume=..., and its first micro-batch is not "
            "over: start it with the same states again."
        )


def _compare(checkpoint: str, found: BucketLayout, layout: BucketLayout) -> None:
    begin = f"The checkpoint {checkpoint} belongs to a stream with"
    end = "or give a new checkpoint, with which the keys go on from resume=... or start again."
    if found.key != layout.key:
        raise CheckpointError(f"{begin} key={found.key!r}, not {layout.key!r}: use that column, {end}")
    if (found.buckets, found.pages) != (layout.buckets, layout.pages):
        raise CheckpointError(
            f"{begin} buckets={found.buckets}, expected_keys={found.expected_keys} and keys_per_page="
            f"{found.keys_per_page}, not {layout.buckets}, {layout.expected_keys} and {layout.keys_per_page}; its keys "
            f"would not be found: use the same numbers, {end}"
        )
    if found.fingerprint != layout.fingerprint:
        raise CheckpointError(
            f"{begin} another model or other settings of its rounds (fingerprint {found.fingerprint[:12]}, not "
            f"{layout.fingerprint[:12]}): use the same model, round_size, round_time, lateness and late, {end}"
        )
    if layout.is_resumed and not found.is_resumed:
        raise CheckpointError(
            f"{begin} keys of its own, which began without resume=...: states are only taken over by a stream "
            "that has not begun. Leave resume out, or give a new checkpoint."
        )


def _lines(spark: SparkSession, path: str) -> list[str]:
    """Return the lines of the text files of a folder; none if there is no such folder."""
    try:
        df: DataFrame = spark.read.text(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
    return [row[0] for row in df.collect()]


# --- What Spark says when it fails, in one sentence: its own messages are pages of traces of two languages


_OURS = re.compile(r"accous\.exceptions\.\w+: (.+)")
_PYTHONS = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): .+", re.MULTILINE)


@contextmanager
def plain_errors(source: str, output: str) -> Iterator[None]:
    """Turn errors of Spark into a `DataError` with one sentence.

    Parameters
    ----------
    source, output : str
        What is read and where the result goes, as the user named them.
    """
    try:
        yield
    except PySparkException as error:
        raise DataError(_sentence(error, source, output)) from error


def _sentence(error: PySparkException, source: str, output: str) -> str:
    text = str(error)
    # The step's own errors come back from the workers as text.
    if ours := _OURS.search(text):
        return ours[1]
    condition = error.getCondition() or ""
    known = {
        "PATH_ALREADY_EXISTS": f"There is something at {output} already: give another folder for the result, or "
        "remove it.",
        "PATH_NOT_FOUND": f"There is nothing at {source}, or at the folder to resume from: give a path that exists.",
        "UNABLE_TO_INFER_SCHEMA": f"There are no rows at {source} that tell which columns there are: put a first file "
        "there, or name the columns with --schema.",
    }
    if sentence := known.get(condition.partition(".")[0]):
        return sentence
    in_python = _PYTHONS.findall(text)
    return f"Spark failed: {in_python[-1] if in_python else text.partition(chr(10))[0]}"


# --- Sessions that run here, with the settings that streams of keys need


_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STREAM_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""What `adapt_stream` needs: Spark's own state store with RocksDB, which writes only what changed."""
# A session on one machine often lasts for minutes. Compiling Java to the end, and collecting its garbage in several
# threads, took more processor time than it saved over 300,000 rows.
_LOCAL_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Files that a task writes side by side. With fewer than there are kinds of rows it would sort the rows first.
_MOST_FILES = 8


def local_session(threads: int = 2, name: str = "accous", **settings: Any) -> SparkSession:
    """Return a session on this machine, with the settings for streams of keys.

    Java is set up to start quickly. If one exists already, it is taken as it is.

    Parameters
    ----------
    threads : int, default=2
    name : str
    **settings
        More settings of Spark, with ``_`` in place of the dots.
    """
    # Workers run the interpreter that runs this, whichever is first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{threads}]").appName(name)
    chosen: dict[str, Any] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": threads,
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": _LOCAL_JAVA,
        "spark.sql.maxConcurrentOutputFileWriters": _MOST_FILES,
    }
    chosen |= STREAM_SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def require_stream_settings(spark: SparkSession) -> None:
    """Choose the state store for the streams of this session, unless it was chosen already."""
    for key, value in STREAM_SETTINGS.items():
        spark.conf.set(key, value)


# --- Streams of many keys: Structured Streaming with the states in Spark's own state store


class KeyPages(StatefulProcessor):
    """Takes the rows of a bucket in each micro-batch; its keys are kept in pages of Spark's state store.

    Parameters
    ----------
    step : BucketStep
    n_pages : int
        Pages of a bucket.
    """

    def __init__(self, step: BucketStep, n_pages: int) -> None:
        self._step, self._n_pages = step, n_pages

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the store."""
        self._pages = handle.getMapState("pages", "page INT", "content BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """Take the rows of a bucket, write the pages of its keys, and return what there is to say."""
        del key, timerValues
        frame = pd.concat(rows, ignore_index=True)
        is_missing = frame[self._step.key].isna()
        if is_missing.any():
            row = int(is_missing.to_numpy().argmax())
            raise DataError(f"The key is missing in row {row}: give every row a key, or leave such rows out.")
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pages = self._pages_of(set(frame[self._step.key].tolist()))
        known = {name: state for page in pages.values() for name, state in page.items()}
        after, result = self._step(table, known)
        self._write(pages, after)
        if result.num_rows:
            # Columns stay Arrow's, so that Spark need not convert each value; it takes columns in one piece only.
            yield result.combine_chunks().to_pandas(types_mapper=pd.ArrowDtype)

    def handleInitialState(self, key: Any, initialState: pd.DataFrame, timerValues: Any) -> None:
        """Take over states that an earlier result had; Spark calls this in the first micro-batch only."""
        del key, timerValues
        pairs = list(zip(initialState[self._step.key].tolist(), initialState["state"].tolist(), strict=True))
        pages = self._pages_of({name for name, _ in pairs})
        # Spark may hand over the states of a bucket in several parts.
        earlier = [(name, state) for page in pages.values() for name, state in page.items()]
        self._write(pages, newest_states(pairs + earlier))

    def close(self) -> None:
        """Nothing is left open."""

    def _pages_of(self, names: set[Any]) -> dict[int, dict[Any, bytes]]:
        return {number: self._read(number) for number in sorted({hash_key(name) % self._n_pages for name in names})}

    def _write(self, pages: dict[int, dict[Any, bytes]], after: dict[Any, bytes]) -> None:
        for name, state in after.items():
            pages[hash_key(name) % self._n_pages][name] = state
        for number, page in pages.items():
            self._pages.updateValue((number,), (pack_page(page),))

    def _read(self, number: int) -> dict[Any, bytes]:
        return unpack_page(self._pages.getValue((number,))[0]) if self._pages.containsKey((number,)) else {}


def adapt_stream(
    spark: SparkSession,
    df: DataFrame,
    model: Any,
    *,
    key: str,
    time: str,
    checkpoint: str,
    output: str,
    number: str | None = None,
    label: str | None = None,
    resume: DataFrame | None = None,
    buckets: int = 16,
    expected_keys: int = 10_000,
    keys_per_page: int = 32,
    status_every: int | None = 64,
    with_states: bool = False,
    trigger: dict[str, Any] | None = None,
    **settings: Any,
) -> StreamingQuery:
    """Start a query that predicts and learns from a stream of rows of many keys.

    States are in Spark's state store (RocksDB with changelog checkpoints), so that exactly-once, shared storage and
    recovery are Spark's. The result goes to Parquet files, partitioned by ``kind``; read them with
    ``spark.read.parquet(output)``, which leaves out files that a crash left behind.

    Parameters
    ----------
    spark : SparkSession
    df : DataFrame
        A stream.
    model : path, AdaptiveClassifier or TableModel
    key : str
        The column of the keys: string or bigint.
    time : str
        The column of the times. Spark hands over the rows of a micro-batch in any order; they are taken in this one.
        Timestamps become seconds since 1970 in UTC, whatever the session's time zone is.
    checkpoint, output : str
        Folders on storage that all workers see.
    number : str, optional
        A column of integers that names the rows in the result.
    label : str, optional
        A column of labels: rows that have one teach their key, and are not predicted (`KeyedAdapter.observe`).
    resume : DataFrame, optional
        The result of `adapt_table` or of another stream, or another table with the columns of the key and ``state``:
        the keys go on from their newest states. Spark reads it in the first micro-batch; a stream that has begun
        without it refuses it. Once the first micro-batch is over you may leave it out.
    buckets : int, default=16
        Into how many groups the keys are hashed; at least the number of cores. It cannot change while a stream lives:
        another number is refused.
    expected_keys : int, default=10000
        How many keys there will be, roughly: decides how many pages there are. It cannot change while a stream
        lives, either.
    keys_per_page : int, default=32
        How many keys share a value of the state store.
    status_every : int or None, default=64
        How many rounds of a key lie between two rows of kind "status".
    with_states : bool, default=False
        Whether the result has the states of all keys that had rows, too; `accous.keyed.arrow` reads them.
    trigger : dict, optional
        Arguments of Spark's ``trigger``, such as ``{"processingTime": "10 seconds"}`` or ``{"availableNow": True}``.
    **settings
        Of `accous.keyed.KeyedAdapter`: ``round_size``, ``round_time``, ``lateness``, ``late``.

    Returns
    -------
    StreamingQuery

    Raises
    ------
    CheckpointError
        If the checkpoint belongs to a stream with another key, another model, or other numbers of buckets and pages.
    """
    for name, value in (("buckets", buckets), ("expected_keys", expected_keys), ("keys_per_page", keys_per_page)):
        require_integer(name, value, at_least=1)
    require_stream_settings(spark)
    shipped = ShippedModel(model, settings)
    rows, seconds = in_buckets(df, key, time, buckets)
    step = BucketStep(shipped, key, str(seconds), number, status_every, "new" if with_states else "none", label)
    n_pages = max(1, round(expected_keys / (buckets * keys_per_page)))
    known = None if resume is None else known_states(resume, key, buckets).groupBy(BUCKET)
    layout = BucketLayout(
        key=key,
        buckets=buckets,
        pages=n_pages,
        expected_keys=expected_keys,
        keys_per_page=keys_per_page,
        fingerprint=shipped.unpack()[1].fingerprint.hex(),
        is_resumed=resume is not None,
    )
    keep_layout(spark, checkpoint, layout)
    result = rows.groupBy(BUCKET).transformWithStateInPandas(
        KeyPages(step, n_pages), result_schema(df, key), "Append", "None", initialState=known
    )
    writer = (
        result.writeStream.format("parquet")
        .partitionBy("kind")
        .option("checkpointLocation", checkpoint)
        .option("path", output)
        .outputMode("append")
    )
    return writer.trigger(**trigger).start() if trigger else writer.start()
