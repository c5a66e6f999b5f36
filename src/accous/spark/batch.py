"""History in batch: the same step over a table, one bucket of keys at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from accous.keyed.arrow import BucketStep, ShippedModel, newest_states
from accous.parameters import require_integer
from accous.spark.buckets import BUCKET, in_buckets, known_states, result_schema

__all__ = ["adapt_table"]


def adapt_table(
    spark: SparkSession,  # noqa: ARG001  as for a stream
    df: DataFrame,
    model: Any,
    *,
    key: str,
    time: str | None = None,
    number: str | None = None,
    resume: DataFrame | None = None,
    buckets: int = 64,
    trust_every: int | None = 64,
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
    resume : DataFrame, optional
        The result of an earlier call or of a stream, or another table with the columns of the key and ``state``: the
        keys go on from their newest states. All keys of it are in the result, those without new rows too.
    buckets : int, default=64
        Into how many groups the keys are hashed. The rows of one bucket must fit into the memory of a worker.
    trust_every : int or None, default=64
        Whether there is a row of kind "trust" for each key that has new rows. None leaves them out, which saves about
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
        "event", "trust", and "state", one row per key. Write it once, for example partitioned by ``kind``: each action
        on it computes all of it again.
    """
    require_integer("buckets", buckets, at_least=1)
    shipped = ShippedModel(model, settings)
    rows, seconds = in_buckets(df, key, time, buckets)
    states = "all" if with_states else "none"
    step = BucketStep(shipped, key, seconds, number, trust_every, states, is_batch=True, is_last=is_last)
    schema = result_schema(df, key)
    if resume is None:
        return rows.groupBy(BUCKET).applyInArrow(_one_bucket(step), schema)
    known = known_states(resume, key, buckets).groupBy(BUCKET)
    return rows.groupBy(BUCKET).cogroup(known).applyInArrow(_two_tables(step), schema)


def _one_bucket(step: BucketStep) -> Callable[[pa.Table], pa.Table]:
    def play(rows: pa.Table) -> pa.Table:
        return step(rows, {})[1]

    return play


def _two_tables(step: BucketStep) -> Callable[[pa.Table, pa.Table], pa.Table]:
    def play(rows: pa.Table, known: pa.Table) -> pa.Table:
        states = newest_states(zip(known.column(step.key).to_pylist(), known.column("state").to_pylist(), strict=True))
        return step(rows, states)[1]

    return play
