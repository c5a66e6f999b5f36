"""Streams of many keys: Structured Streaming with the states in Spark's own state store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery

from accous.keyed.bucket_step import BucketStep
from accous.keyed.pages import hash_key, pack_page, unpack_page
from accous.keyed.shipped_model import ShippedModel
from accous.parameters import require_integer
from accous.spark.buckets import BUCKET, result_schema, with_bucket
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
        table = pa.Table.from_pandas(pd.concat(rows, ignore_index=True), preserve_index=False)
        names = {name for name in table.column(self._step.key).to_pylist() if name is not None}
        numbers = sorted({hash_key(name) % self._n_pages for name in names})
        pages = {number: self._read(number) for number in numbers}
        known = {name: state for page in pages.values() for name, state in page.items()}
        after, result = self._step(table, known)
        for name, state in after.items():
            pages[hash_key(name) % self._n_pages][name] = state
        for number, page in pages.items():
            self._pages.updateValue((number,), (pack_page(page),))
        yield _to_pandas(result)

    def close(self) -> None:
        """Nothing is left open."""

    def _read(self, number: int) -> dict[Any, bytes]:
        return unpack_page(self._pages.getValue((number,))[0]) if self._pages.containsKey((number,)) else {}


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return a frame that Spark can convert back without loss: integers with gaps, and texts as objects."""
    columns = {
        name: pd.array(column.to_pylist(), dtype="Int64" if pa.types.is_integer(column.type) else object)
        if not pa.types.is_floating(column.type)
        else column.to_numpy()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(columns)


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
    checkpoint, output : str
        Folders on storage that all workers see.
    number : str, optional
        A column of integers that names the rows in the result.
    buckets : int, default=16
        Into how many groups the keys are hashed; at least the number of cores. It cannot change while a stream lives.
    expected_keys : int, default=10000
        How many keys there will be, roughly: decides how many pages there are. It cannot change while a stream lives.
    keys_per_page : int, default=32
        How many keys share a value of the state store.
    trust_every : int or None, default=64
        How many rounds of a key lie between two rows of kind "trust".
    with_states : bool, default=False
        Whether the result has the states of all keys that had rows, too; `accous.keyed.fleet` reads them.
    trigger : dict, optional
        Arguments of Spark's ``trigger``, such as ``{"processingTime": "10 seconds"}`` or ``{"availableNow": True}``.
    **settings
        Of `accous.keyed.KeyedAdapter`: ``round_size``, ``round_time``, ``lateness``, ``late``.

    Returns
    -------
    StreamingQuery
    """
    for name, value in (("buckets", buckets), ("expected_keys", expected_keys), ("keys_per_page", keys_per_page)):
        require_integer(name, value, at_least=1)
    require_stream_settings(spark)
    shipped = ShippedModel(model, settings)
    step = BucketStep(shipped, key, time, number, trust_every, with_states="new" if with_states else "none")
    n_pages = max(1, round(expected_keys / (buckets * keys_per_page)))
    result = (
        with_bucket(df, key, buckets)
        .groupBy(BUCKET)
        .transformWithStateInPandas(KeyPages(step, n_pages), result_schema(df, key), "Append", "None")
    )
    writer = (
        result.writeStream.format("parquet")
        .partitionBy("kind")
        .option("checkpointLocation", checkpoint)
        .option("path", output)
        .outputMode("append")
    )
    return writer.trigger(**trigger).start() if trigger else writer.start()
