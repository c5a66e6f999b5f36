"""Streams of many keys: Structured Streaming with the states in Spark's own state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

from accous.exceptions import DataError
from accous.keyed.arrow import BucketStep, ShippedModel, hash_key, newest_states, pack_page, unpack_page
from accous.parameters import require_integer
from accous.spark.buckets import BUCKET, in_buckets, known_states, result_schema
from accous.spark.layouts import Layout, keep_layout
from accous.spark.session import require_stream_settings

__all__ = ["adapt_stream"]


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
    resume: DataFrame | None = None,
    buckets: int = 16,
    expected_keys: int = 10_000,
    keys_per_page: int = 32,
    trust_every: int | None = 64,
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
    trust_every : int or None, default=64
        How many rounds of a key lie between two rows of kind "trust".
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
    step = BucketStep(shipped, key, str(seconds), number, trust_every, with_states="new" if with_states else "none")
    n_pages = max(1, round(expected_keys / (buckets * keys_per_page)))
    known = None if resume is None else known_states(resume, key, buckets).groupBy(BUCKET)
    layout = Layout(
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
