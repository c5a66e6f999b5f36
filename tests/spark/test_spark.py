"""Batch and stream on Spark: the same step, the same bytes."""

import re
import shutil

import pandas as pd
import pytest

import accous
from accous.exceptions import CheckpointError, DataError
from accous.keyed import adapt_folder
from tests.needs import needs_spark
from tests.spark.rows import ROUND_SIZE, assert_same, fitted_model, write_rows

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


def collect(df):
    return pd.DataFrame([row.asDict() for row in df.collect()])


def test_a_local_session_starts_java_for_a_short_life(spark):
    options = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions")
    assert "-XX:TieredStopAtLevel=1" in options
    assert int(spark.conf.get("spark.sql.maxConcurrentOutputFileWriters")) >= len(
        {"prediction", "event", "status", "state"}
    )


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


def test_what_waits_is_released_without_new_rows(spark, folder):
    from accous.spark import adapt_table

    path, rows = folder
    df = spark.read.parquet(str(path / "in"))
    chosen = {"key": "shop", "time": "t", "number": "number", "round_size": ROUND_SIZE, "lateness": 500.0, "buckets": 2}
    first = collect(adapt_table(spark, df, path / "model", **chosen))
    known = spark.createDataFrame(first.loc[first["kind"] == "state", ["shop", "state"]])
    last = collect(adapt_table(spark, df.where("false"), path / "model", resume=known, is_last=True, **chosen))
    numbers = [each.loc[each["kind"] == "prediction", "number"].astype(int).tolist() for each in (first, last)]
    assert min(map(len, numbers)) > 0
    assert sorted(numbers[0] + numbers[1]) == sorted(rows["number"])


def stream_of(spark, source):
    schema = spark.read.parquet(str(source)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))


def follow(spark, path, name, *, source="in", **changed):
    """Run a stream over the files of a folder until it has read them all, and return what its sink holds."""
    from accous.spark import adapt_stream

    chosen = {
        "key": "shop",
        "time": "t",
        "number": "number",
        "checkpoint": str(path / f"checkpoint-{name}"),
        "output": str(path / f"out-{name}"),
        "buckets": 2,
        "expected_keys": 20,
        "keys_per_page": 4,
        "with_states": True,
        "trigger": {"availableNow": True},
        "round_size": ROUND_SIZE,
    }
    query = adapt_stream(spark, stream_of(spark, path / source), path / "model", **chosen | changed)
    query.awaitTermination()
    return collect(spark.read.parquet(chosen["output"]))


def test_stream_is_what_one_process_makes_of_the_rows(spark, folder):
    path, rows = folder
    result = follow(spark, path, "whole", status_every=4)
    assert_same(result, rows)
    found = result[result["kind"] == "status"]
    assert len(found)
    assert found[["status", "value", "low", "high", "at_fit"]].notna().all(axis=None)
    # Its sink has several states of each key; the newest one is the one to go on from.
    more = rows.assign(t=rows["t"] + 1e6, number=rows["number"] + 10**6)
    known = spark.read.parquet(str(path / "out-whole"))
    chosen = {"key": "shop", "time": "t", "number": "number", "round_size": ROUND_SIZE, "buckets": 3}
    from accous.spark import adapt_table

    rest = adapt_table(spark, spark.createDataFrame(more), path / "model", resume=known, **chosen)
    assert_same(pd.concat([result[result["kind"] != "state"], collect(rest)]), pd.concat([rows, more]))
    more.to_parquet(path / "more.parquet", index=False)
    adapt_folder(path / "more.parquet", path / "model", path / "local", resume=path / "out-whole", **chosen)
    local = pd.read_parquet(path / "local")
    assert_same(pd.concat([result[result["kind"] != "state"], local]), pd.concat([rows, more]))


def test_a_stream_refuses_what_would_lose_its_keys(spark, folder, tmp_path):
    path, rows = folder
    for name in ("in", "model"):
        shutil.copytree(path / name, tmp_path / name)
    last = tmp_path / "in" / "part-0002.parquet"
    last.rename(tmp_path / "later.parquet")
    follow(spark, tmp_path, "cut")
    (tmp_path / "later.parquet").rename(last)
    known = spark.read.parquet(str(tmp_path / "out-cut"))
    for changed, message in (
        ({"expected_keys": 60}, "expected_keys=20"),
        ({"keys_per_page": 40}, "its keys would not be found"),
        ({"buckets": 4, "expected_keys": 40}, "buckets=2"),
        ({"round_size": 7}, "another model"),
        ({"resume": known}, "taken over"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            follow(spark, tmp_path, "cut", **changed)
    # Nothing was lost, and what decides nothing may change.
    assert_same(follow(spark, tmp_path, "cut", expected_keys=18, status_every=None), rows)


@pytest.mark.parametrize("records", ["10000", "3"])
def test_a_backfill_hands_over_to_a_stream(spark, folder, tmp_path, records):
    from accous.spark import adapt_table

    path, rows = folder
    shutil.copytree(path / "model", tmp_path / "model")
    (tmp_path / "in").mkdir()
    for number in (1, 2):
        shutil.copy(path / "in" / f"part-000{number}.parquet", tmp_path / "in")
    history = spark.read.parquet(str(path / "in" / "part-0000.parquet"))
    first = adapt_table(spark, history, path / "model", key="shop", time="t", number="number", round_size=ROUND_SIZE)
    first.write.partitionBy("kind").parquet(str(tmp_path / "first"))
    known = spark.read.parquet(str(tmp_path / "first"))
    # Spark hands over states in parts of so many rows.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", records)
    last = tmp_path / "in" / "part-0002.parquet"
    last.rename(tmp_path / "later.parquet")
    try:
        follow(spark, tmp_path, "handed", resume=known)
        # Once it has begun, the states are in its checkpoint.
        (tmp_path / "later.parquet").rename(last)
        result = follow(spark, tmp_path, "handed")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert_same(pd.concat([collect(known.where("kind <> 'state'")), result], ignore_index=True), rows)


def test_times_do_not_depend_on_the_time_zone_of_the_session(spark, folder, tmp_path):
    from accous.spark import adapt_table

    path, rows = folder
    shutil.copytree(path / "model", tmp_path / "model")
    (tmp_path / "in").mkdir()
    # An hour that clocks in New York show twice.
    moments = 1_793_510_000.25 + 60.0 * rows["t"]
    timed = rows.assign(t=pd.to_datetime(moments, unit="s", utc=True).astype("datetime64[us, UTC]"))
    timed.to_parquet(tmp_path / "in" / "rows.parquet", index=False)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        df = spark.read.parquet(str(tmp_path / "in"))
        chosen = {"key": "shop", "time": "t", "number": "number", "round_size": ROUND_SIZE}
        batch = collect(adapt_table(spark, df, path / "model", **chosen))
        stream = follow(spark, tmp_path, "zone")
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert_same(batch, rows.assign(t=moments))
    assert_same(stream, rows.assign(t=moments))


def test_a_stream_goes_on_with_other_threads_and_partitions(spark, folder, tmp_path):
    """The number of shuffle partitions is the checkpoint's, as long as it lives; threads and sessions may change."""
    path, rows = folder
    for name in ("in", "model"):
        shutil.copytree(path / name, tmp_path / name)
    last = tmp_path / "in" / "part-0002.parquet"
    last.rename(tmp_path / "later.parquet")
    follow(spark, tmp_path, "grown")
    (tmp_path / "later.parquet").rename(last)
    other = spark.newSession()
    other.conf.set("spark.sql.shuffle.partitions", "5")
    assert_same(follow(other, tmp_path, "grown"), rows)


def test_partitioned_folders(spark, folder, tmp_path):
    from accous.spark import adapt_table

    path, rows = folder
    spark.createDataFrame(rows).write.partitionBy("shop").parquet(str(tmp_path / "in"))
    chosen = {"key": "shop", "time": "t", "number": "number", "round_size": ROUND_SIZE, "buckets": 2}
    df = spark.read.parquet(str(tmp_path / "in"))
    result = collect(adapt_table(spark, df, path / "model", **chosen))
    assert_same(result, rows)
    read = result.loc[result["kind"] == "status", "shop"]
    assert sorted(read) == sorted(set(rows["shop"])), "one reading per key, although none has run 64 rounds"
    adapt_folder(tmp_path / "in", path / "model", tmp_path / "local", **chosen)
    assert_same(pd.read_parquet(tmp_path / "local"), rows)
    bare = adapt_table(spark, df, path / "model", with_states=False, status_every=None, **chosen)
    assert set(collect(bare.select("kind").distinct())["kind"]) == {"prediction"} | set(
        result.loc[result["kind"] == "event", "kind"]
    )


def test_wrong_tables_are_refused_with_a_sentence(spark, folder):
    from accous.spark import adapt_table

    path, _ = folder
    df = spark.read.parquet(str(path / "in"))
    with pytest.raises(DataError, match="'store' for the keys"):
        adapt_table(spark, df, path / "model", key="store")
    with pytest.raises(DataError, match=r"type double"):
        adapt_table(spark, df, path / "model", key="x0")
    with pytest.raises(Exception, match="no column 'x1'"):
        adapt_table(spark, df.drop("x1"), path / "model", key="shop", buckets=1).count()
    from pyspark.sql import functions

    nulls = df.withColumn("shop", functions.when(df.number > 5, df.shop))
    with pytest.raises(Exception, match="None in row"):
        adapt_table(spark, nulls, path / "model", key="shop", buckets=1).count()
    with pytest.raises(DataError, match="'when' for the times"):
        adapt_table(spark, df, path / "model", key="shop", time="when")
    with pytest.raises(DataError, match="called 'state'"):
        adapt_table(spark, df.withColumnRenamed("shop", "state"), path / "model", key="state")
    with pytest.raises(DataError, match=r"resume .*'state'"):
        adapt_table(spark, df, path / "model", key="shop", resume=df)


def test_a_missing_key_in_a_stream_is_named(spark, folder, tmp_path):
    path, rows = folder
    shutil.copytree(path / "model", tmp_path / "model")
    (tmp_path / "in").mkdir()
    numbered = rows.head(50).assign(shop=pd.array([None, *range(49)], dtype="Int64"))
    numbered.to_parquet(tmp_path / "in" / "rows.parquet", index=False)
    with pytest.raises(Exception, match="missing in row"):
        follow(spark, tmp_path, "holes", buckets=1)


# --- what a checkpoint was made with is kept in it, and something else is refused before a query starts --------


def layout(**changed):
    from accous.spark import BucketLayout

    return BucketLayout(
        **{"key": "shop", "buckets": 2, "pages": 3, "expected_keys": 24, "keys_per_page": 4, "fingerprint": "ab" * 16}
        | {"is_resumed": False}
        | changed
    )


def test_another_layout_is_refused(spark, tmp_path):
    from accous.spark import keep_layout

    checkpoint = str(tmp_path / "a checkpoint é")
    keep_layout(spark, checkpoint, layout())
    keep_layout(spark, checkpoint, layout(expected_keys=23))  # as many pages
    for changed, message in (
        ({"pages": 8, "expected_keys": 64}, "expected_keys=24"),
        ({"buckets": 4}, "buckets=2"),
        ({"key": "number"}, "key='shop'"),
        ({"fingerprint": "cd" * 16}, "another model"),
        ({"is_resumed": True}, "taken over"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            keep_layout(spark, checkpoint, layout(**changed))


def test_states_that_were_not_taken_over_yet_are_asked_for_again(spark, tmp_path):
    from accous.spark import keep_layout

    checkpoint = tmp_path / "checkpoint"
    keep_layout(spark, str(checkpoint), layout(is_resumed=True))
    with pytest.raises(CheckpointError, match="first micro-batch"):
        keep_layout(spark, str(checkpoint), layout())
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    keep_layout(spark, str(checkpoint), layout())


def test_times_are_seconds_of_utc_in_any_zone(spark):
    from accous.spark import SECONDS, in_buckets

    # An hour apart, and both half past one in New York: its clocks went back in between.
    query = (
        "select 'a' shop, timestamp_micros(m) t, timestamp_micros(m) other "
        "from values (1793511000250000), (1793514600250000) v(m)"
    )
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows, time = in_buckets(spark.sql(query), "shop", "t", 4)
        assert time == SECONDS
        found = rows.select(SECONDS, "other").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [row[0] for row in found] == [1793511000.25, 1793514600.25]
    assert [row[1].isoformat() for row in found] == ["2026-11-01T05:30:00.250000", "2026-11-01T06:30:00.250000"]
