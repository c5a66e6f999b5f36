"""Batch and stream on Spark: the same step, the same bytes."""

import numpy as np
import pandas as pd
import pytest

import accous
from accous.exceptions import DataError
from tests.needs import needs_spark
from tests.spark.rows import COLUMNS, ROUND_SIZE, assert_same, fitted_model, write_rows

pytestmark = [needs_spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark does not yet fully support")]


@pytest.fixture(scope="module")
def spark():
    from accous.spark import local_session

    session = local_session(2)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("spark")
    rows = write_rows(path / "in", n_files=3, n_keys=20, rows_per_key=20)
    accous.save(fitted_model(), path / "model")
    return path, rows


def collect(df) -> pd.DataFrame:
    return pd.DataFrame([row.asDict() for row in df.collect()])


def test_batch_is_what_one_process_makes_of_the_rows(spark, folder):
    from accous.spark import adapt_table

    path, rows = folder
    df = spark.read.parquet(str(path / "in"))
    chosen = {"key": "shop", "time": "t", "number": "number", "round_size": ROUND_SIZE}
    assert_same(collect(adapt_table(spark, df, path / "model", buckets=4, **chosen)), rows)
    # A backfill hands over: the first files, then the rest from the states of the first.
    first = adapt_table(spark, df.where("number < 400"), fitted_model(), buckets=3, **chosen)
    first.write.parquet(str(path / "first"))
    known = spark.read.parquet(str(path / "first"))
    rest = adapt_table(spark, df.where("number >= 400"), path / "model", resume=known, buckets=5, **chosen)
    both = pd.concat([collect(known.where("kind <> 'state'")), collect(rest)], ignore_index=True)
    assert_same(both, rows)


def test_stream_is_what_one_process_makes_of_the_rows(spark, folder):
    from accous.spark import adapt_stream

    path, rows = folder
    schema = spark.read.parquet(str(path / "in")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(path / "in"))
    query = adapt_stream(
        spark,
        stream,
        path / "model",
        key="shop",
        time="t",
        number="number",
        checkpoint=str(path / "checkpoint"),
        output=str(path / "out"),
        buckets=2,
        expected_keys=20,
        keys_per_page=4,
        with_states=True,
        trust_every=4,
        trigger={"availableNow": True},
        round_size=ROUND_SIZE,
    )
    query.awaitTermination()
    result = collect(spark.read.parquet(str(path / "out")))
    assert_same(result, rows)
    trust = result[result["kind"] == "trust"]
    assert len(trust)
    assert trust["verdict"].notna().all()


def test_wrong_tables_are_refused_with_a_sentence(spark, folder):
    from accous.spark import adapt_table

    path, _ = folder
    df = spark.read.parquet(str(path / "in"))
    with pytest.raises(DataError, match="no column 'store' for the keys"):
        adapt_table(spark, df, path / "model", key="store")
    with pytest.raises(DataError, match=r"has the type double: cast it to string or bigint"):
        adapt_table(spark, df, path / "model", key="x0")
    with pytest.raises(Exception, match="The rows have no column 'x1', which the model needs"):
        adapt_table(spark, df.drop("x1"), path / "model", key="shop", buckets=1).count()
    from pyspark.sql import functions

    nulls = df.withColumn("shop", functions.when(df.number > 5, df.shop))
    with pytest.raises(Exception, match="keys holds None in row"):
        adapt_table(spark, nulls, path / "model", key="shop", buckets=1).count()
    assert np.all([name in df.columns for name in COLUMNS])
