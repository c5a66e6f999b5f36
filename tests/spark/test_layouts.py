"""What a checkpoint was made with is kept in it, and something else is refused before a query starts."""

import re
from dataclasses import replace

import pytest

from accous.exceptions import CheckpointError
from tests.needs import needs_spark

pytestmark = [needs_spark, pytest.mark.slow, pytest.mark.filterwarnings("ignore:PySpark does not yet fully support")]


@pytest.fixture(scope="module")
def spark():
    from accous.spark import local_session

    session = local_session(1)
    yield session
    session.stop()


def test_another_layout_is_refused(spark, tmp_path):
    from accous.spark import Layout, keep_layout

    first = Layout(
        key="shop", buckets=2, pages=3, expected_keys=24, keys_per_page=4, fingerprint="ab" * 16, is_resumed=False
    )
    checkpoint = str(tmp_path / "a checkpoint é")
    keep_layout(spark, checkpoint, first)
    keep_layout(spark, checkpoint, replace(first, expected_keys=23))  # as many pages
    for changed, message in (
        (
            {"pages": 8, "expected_keys": 64},
            "expected_keys=24 and keys_per_page=4, not 2, 64 and 4; its keys would not",
        ),
        ({"buckets": 4}, "belongs to a stream with buckets=2"),
        ({"key": "number"}, "belongs to a stream with key='shop', not 'number'"),
        ({"fingerprint": "cd" * 16}, "another model or other settings of its rounds"),
        ({"is_resumed": True}, "states are only taken over by a stream that has not begun"),
    ):
        with pytest.raises(CheckpointError, match=re.escape(message)):
            keep_layout(spark, checkpoint, replace(first, **changed))


def test_states_that_were_not_taken_over_yet_are_asked_for_again(spark, tmp_path):
    from accous.spark import Layout, keep_layout

    first = Layout(
        key="shop", buckets=2, pages=3, expected_keys=24, keys_per_page=4, fingerprint="ab" * 16, is_resumed=True
    )
    checkpoint = tmp_path / "checkpoint"
    keep_layout(spark, str(checkpoint), first)
    with pytest.raises(CheckpointError, match="its first micro-batch is not over: start it with the same states again"):
        keep_layout(spark, str(checkpoint), replace(first, is_resumed=False))
    (checkpoint / "commits").mkdir()
    (checkpoint / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    keep_layout(spark, str(checkpoint), replace(first, is_resumed=False))


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
