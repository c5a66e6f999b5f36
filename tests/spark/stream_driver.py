"""Runs a stream over a folder of Parquet files until it has read them all; tests start it and kill it.

python -m tests.spark.stream_driver FOLDER: reads FOLDER/in with FOLDER/model, writes FOLDER/checkpoint and FOLDER/out,
and FOLDER/started when the query runs.
"""

import sys
from pathlib import Path

from accous.spark import adapt_stream, local_session
from tests.spark.rows import ROUND_SIZE


def main(folder):
    spark = local_session(2)
    schema = spark.read.parquet(str(folder / "in")).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = adapt_stream(
        spark,
        rows,
        folder / "model",
        key="shop",
        time="t",
        number="number",
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "out"),
        buckets=2,
        expected_keys=40,
        keys_per_page=8,
        with_states=True,
        trigger={"availableNow": True},
        round_size=ROUND_SIZE,
    )
    (folder / "started").touch()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
