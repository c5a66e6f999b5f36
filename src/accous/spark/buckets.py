"""Keys in buckets: what Spark groups by, and the schema of what comes out."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from accous.exceptions import DataError
from accous.keyed.bucket_step import OUTPUT_FIELDS

__all__ = ["BUCKET", "result_schema", "with_bucket"]

BUCKET = "accous_bucket"
_KEY_TYPES = (StringType, LongType, IntegerType)


def with_bucket(df: DataFrame, key: str, n_buckets: int) -> DataFrame:
    """Add the column by which rows are grouped: a hash of the key.

    A group per key would cost Python a call per key; a few hundred keys share a bucket.
    """
    # An integer column of 32 bits becomes one of 64, so that a batch and a stream name the same key the same way.
    if isinstance(_key_field(df, key).dataType, IntegerType):
        df = df.withColumn(key, F.col(key).cast("bigint"))
    return df.withColumn(BUCKET, F.pmod(F.xxhash64(F.col(key)), F.lit(n_buckets)).cast("int"))


def result_schema(df: DataFrame, key: str) -> StructType:
    """Return the schema of the result: the key, and the columns of `accous.keyed.bucket_step`."""
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
