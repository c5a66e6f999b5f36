"""Keys in buckets: what Spark groups by, and the schema of what comes out."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from accous.exceptions import DataError
from accous.keyed.arrow import OUTPUT_FIELDS

__all__ = ["BUCKET", "SECONDS", "in_buckets", "known_states", "result_schema", "with_bucket"]

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
