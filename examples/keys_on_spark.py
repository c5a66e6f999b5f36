"""A stream of 2,000 keys on Spark: files arrive, each key has a model of its own, and a page shows all of them.

Run: python examples/keys_on_spark.py [--keys 2000] [--rounds 50] [--page fleet.html]
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter, fleet, newest_states
from accous.report.page import render_fleet
from accous.spark import adapt_stream, local_session

parser = argparse.ArgumentParser()
parser.add_argument("--keys", type=int, default=2000)
parser.add_argument("--rounds", type=int, default=50)
parser.add_argument("--page", type=Path, default=Path("fleet.html"))
chosen = parser.parse_args()

COLUMNS, ROUND_SIZE, ROUNDS_PER_FILE = ["age", "basket", "visits", "discount"], 5, 5
rng = np.random.default_rng(0)
X = rng.normal(size=(600, len(COLUMNS)))
y = X[:, 0] + np.abs(X[:, 1]) + 0.5 * rng.normal(size=len(X)) > 0.8
model = AdaptiveClassifier().fit(X, y)


def write_file(folder: Path, number: int) -> int:
    """Write some rounds of all shops: from the 20th round on, a tenth drift in baskets, a tenth in discounts."""
    n_rows = ROUNDS_PER_FILE * ROUND_SIZE
    shops = np.repeat(np.arange(chosen.keys), n_rows)
    rows = rng.normal(size=(len(shops), len(COLUMNS)))
    if number * ROUNDS_PER_FILE >= 20:
        rows[:, COLUMNS.index("basket")] += 1.5 * (shops % 10 == 0)
        rows[:, COLUMNS.index("discount")] += 1.5 * (shops % 10 == 5)
    columns = dict(zip(COLUMNS, rows.T, strict=True))
    columns |= {"shop": [f"shop {shop}" for shop in shops], "second": np.tile(np.arange(n_rows), chosen.keys)}
    columns["second"] = columns["second"] + float(number * n_rows)
    pq.write_table(pa.table(columns), folder / f"part-{number:04d}.parquet")
    return len(rows)


with tempfile.TemporaryDirectory() as name:
    folder, begin = Path(name), time.time()
    (folder / "in").mkdir()
    n_rows = sum(write_file(folder / "in", number) for number in range(chosen.rounds // ROUNDS_PER_FILE))
    print(f"{n_rows:,} rows of {chosen.keys:,} shops in {chosen.rounds // ROUNDS_PER_FILE} files")
    spark = local_session(2)
    schema = spark.read.parquet(str(folder / "in")).schema
    arriving = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    # The columns have the names of the reference's: x0, x1, ...
    named = arriving.withColumnsRenamed({column: f"x{place}" for place, column in enumerate(COLUMNS)})
    query = adapt_stream(
        spark,
        named,
        model,
        key="shop",
        time="second",
        checkpoint=str(folder / "checkpoint"),
        output=str(folder / "result"),
        buckets=4,
        expected_keys=chosen.keys,
        with_states=True,
        trigger={"availableNow": True},
        round_size=ROUND_SIZE,
    )
    n_seen, last, is_over = 0, -1, False
    while not is_over:
        is_over = bool(query.awaitTermination(2))
        for progress in query.recentProgress:
            if progress["batchId"] > last:
                n_seen, last = n_seen + progress["numInputRows"], progress["batchId"]
        print(f"\r{n_seen:,} rows in {last + 1} micro-batches, {time.time() - begin:.0f} s", end="", flush=True)
    print()
    adapter = KeyedAdapter(model, round_size=ROUND_SIZE)
    kept = spark.read.parquet(str(folder / "result")).where("kind = 'state'").select("shop", "state").collect()
    states = newest_states((row["shop"], bytes(row["state"])) for row in kept)
    spark.stop()
    readings = fleet(states, adapter)
    chosen.page.parent.mkdir(parents=True, exist_ok=True)
    chosen.page.write_text(render_fleet([reading._asdict() for reading in readings], "Shops"), encoding="utf-8")
    n_drifted = sum(reading.drift > 0.3 for reading in readings)
    print(f"{n_drifted:,} of {len(readings):,} shops have drifted. Page: {chosen.page} ({time.time() - begin:.0f} s)")
