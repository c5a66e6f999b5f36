"""Keys: what a step costs beside a bare loop, how large states are, and what Spark adds.

    python -m benchmarks.keyed [--speed | --page | --spark [--keys 10000] [--rounds 8] [--only stream]]

All times are processor time of the process and its children, JVM included; the bare loop is `AdaptiveClassifier.adapt`
over the same rounds of the same keys, one model each.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter
from accous.streams import GaussianStream, SineShift

ROUND_SIZE = 5
N_FEATURES = 12
KEYS_PER_FILE = 100_000


def reference(n_features: int = N_FEATURES) -> tuple[Any, Any]:
    stream = GaussianStream(SineShift(period=100), n_rounds=1, n_features=n_features, batch_size=1, random_state=0)
    X, y = stream.reference()
    return np.asarray(X), np.asarray(y)


def rows_of_keys(n_keys: int, n_rounds: int, n_features: int = N_FEATURES) -> Any:
    """Rows, (n_rounds, n_keys, ROUND_SIZE, d): a third of the keys stands still, the others drift at their own pace."""
    rows = np.empty((n_rounds, n_keys, ROUND_SIZE, n_features))
    for key in range(min(n_keys, 60)):
        period = {0: 10**9, 1: 100, 2: 300}[key % 3]
        stream = GaussianStream(
            SineShift(period=period), n_rounds=n_rounds, n_features=n_features, batch_size=ROUND_SIZE, random_state=key
        )
        rows[:, key] = np.array([batch.X for batch in stream])
    for key in range(60, n_keys):
        rows[:, key] = rows[:, key % 60][:, np.random.default_rng(key).permutation(ROUND_SIZE)]
    return rows


def bare(model: Any, rows: Any) -> float:
    """Microseconds of a round of a model per key, in one loop."""
    models = [AdaptiveClassifier().fit(*model) for _ in range(rows.shape[1])]
    begin = time.process_time()
    for key, one in enumerate(models):
        for batch in rows[:, key]:
            one.adapt(batch)
    return per_round(begin, rows)


def stepwise(adapter: KeyedAdapter, rows: Any) -> float:
    """Microseconds of a round of one key per call."""
    begin = time.process_time()
    for key in range(rows.shape[1]):
        state = None
        for batch in rows[:, key]:
            state, _, _ = adapter.step(state, batch)
    return per_round(begin, rows)


def together(adapter: KeyedAdapter, rows: Any) -> float:
    """Microseconds of a round of one key, all keys in one call."""
    begin = time.process_time()
    for _ in states_after(adapter, rows):
        pass
    return per_round(begin, rows)


def states_after(adapter: KeyedAdapter, rows: Any) -> Iterator[dict[Any, bytes]]:
    """Yield the states of all keys after every round."""
    states: dict[Any, bytes] = {}
    keys = np.repeat(np.arange(rows.shape[1]), ROUND_SIZE)
    for batch in rows:
        states.update(adapter.step_many(states, keys, None, batch.reshape(len(keys), -1))[0])
        yield states


def per_round(begin: float, rows: Any) -> float:
    """Microseconds since ``begin`` for each round of each key."""
    return (time.process_time() - begin) / (rows.shape[0] * rows.shape[1]) * 1e6


def make_adapter(n_features: int = N_FEATURES) -> KeyedAdapter:
    """Return an adapter for rounds of five rows."""
    return KeyedAdapter(AdaptiveClassifier().fit(*reference(n_features)), round_size=ROUND_SIZE)


def speed() -> None:
    """Print the processor time of a round."""
    model, adapter = reference(), make_adapter()
    few, many = rows_of_keys(12, 100), rows_of_keys(480, 100)
    adapter.step(None, few[:20, 0].reshape(-1, N_FEATURES))
    AdaptiveClassifier().fit(*model).adapt(few[0, 0])
    # Key by key in turn, and the best of each key: whatever else runs on the machine then meets both alike.
    each_key = [few[:, [key]] for key in range(few.shape[1])]
    turns = np.array([[(bare(model, rows), stepwise(adapter, rows)) for rows in each_key] for _ in range(8)])
    base, step = turns.min(axis=0).mean(axis=0)
    found = {"bare loop": base, "step": step, "step_many": min(together(adapter, many) for _ in range(3))}
    print("processor time of a round of 5 rows of one key (100 rounds, 12 columns, 1,000 reference rows)")
    for name, best in found.items():
        print(f"  {name:10} {best:7.0f} us   {best / base:5.2f} of bare")


def sizes() -> None:
    """Print the bytes of a state."""
    print("bytes of a state, mean of 12 keys (of which 8 drift), after so many rounds")
    for n_features in (4, 12, 30):
        cells = []
        for number, states in enumerate(states_after(make_adapter(n_features), rows_of_keys(12, 1000, n_features)), 1):
            if number in (1, 10, 100, 1000):
                lengths = [len(state) for state in states.values()]
                cells.append(f"{number}: {np.mean(lengths):6.0f} (largest {max(lengths)})")
        print(f"  {n_features:3} columns   " + "   ".join(cells))


def page() -> None:
    """Print the bytes that a stream writes for one row: the page of its key, whole."""
    from accous.keyed.pages import pack_page

    adapter, rows = make_adapter(), rows_of_keys(32, 60)
    *_, states = states_after(adapter, rows)
    one, _, _ = adapter.step_many(states, [3], None, rows[0, 3][:1])
    n_bytes = len(pack_page(states | one))
    print(f"one row of one of 32 keys after 60 rounds: a state of {len(one[3]):,} bytes, a page of {n_bytes:,} bytes")


def accuracy() -> None:
    """Error of keys beside the classifier's on streams with labels."""
    print("error of the adapted predictions, classifier and key on the same streams (300 rounds of 5 rows)")
    for period, seeds in ((40, range(100, 104)), (100, range(104, 108)), (300, range(108, 112))):
        errors = []
        for seed in seeds:
            stream = GaussianStream(SineShift(period=period), n_rounds=300, batch_size=ROUND_SIZE, random_state=seed)
            X, y = stream.reference()
            model, key = AdaptiveClassifier().fit(X, y), KeyedAdapter(AdaptiveClassifier().fit(X, y), round_size=5)
            state, wrong = None, np.zeros(3)
            for batch in stream:
                state, predictions, _ = key.step(state, batch.X)
                wrong += [
                    np.sum(model.step(batch.X) != batch.y),
                    np.sum(np.asarray(predictions) != batch.y),
                    np.sum(model.predict_fixed(batch.X) != batch.y),
                ]
            errors.append(wrong / (300 * ROUND_SIZE))
        classifier, keyed, fixed = 100 * np.mean(errors, axis=0)
        print(f"  period {period:4}   classifier {classifier:5.2f} %   key {keyed:5.2f} %   fixed {fixed:5.2f} %")


class Family:
    """Processor time and memory of this process, of the JVM and of the Python workers, looked at five times a second.

    Workers come and go, and what the kernel adds to their parent when they end is not always there.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[int, float], tuple[str, float]] = {}
        self.largest: dict[str, int] = {"driver": 0, "JVM": 0, "workers": 0}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _look_on(self) -> None:
        while not self._is_over.wait(0.2):
            self._look()

    def _look(self) -> None:
        import psutil

        here, memory = psutil.Process(), dict.fromkeys(self.largest, 0)
        for each in [here, *here.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                name = "driver" if each.pid == here.pid else "JVM" if each.name().startswith("java") else "workers"
                self._seconds[each.pid, each.create_time()] = name, sum(each.cpu_times()[:2])
                memory[name] += each.memory_info().rss
        for name, n_bytes in memory.items():
            self.largest[name] = max(self.largest[name], n_bytes)

    def processor_time(self) -> dict[str, float]:
        """Seconds so far, of each kind."""
        self._look()
        found = dict.fromkeys(self.largest, 0.0)
        for name, seconds in list(self._seconds.values()):
            found[name] += seconds
        return found

    def used_since(self, before: dict[str, float]) -> dict[str, float]:
        return {name: seconds - before[name] for name, seconds in self.processor_time().items()}


def shuffle_bytes(spark: Any) -> int:
    """Bytes that all stages so far have written for a shuffle."""
    gateway = spark.sparkContext._gateway
    no_list, no_numbers = gateway.jvm.java.util.ArrayList(), gateway.new_array(gateway.jvm.double, 0)
    stages = spark._jsc.sc().statusStore().stageList(no_list, False, False, no_numbers, no_list)
    return sum(int(stages.apply(number).shuffleWriteBytes()) for number in range(stages.size()))


def on_spark(n_keys: int, n_rounds: int, names: list[str]) -> None:
    """Measure batch and stream in one session: first a few keys, which load everything, then all."""
    from accous.spark import local_session

    folder, n_few = Path(tempfile.mkdtemp()), 240
    try:
        model = AdaptiveClassifier().fit(*reference())
        rows = rows_of_keys(min(n_keys, n_few), n_rounds)
        bare(reference(), rows[:, :2])  # loads the kernels
        bares = [bare(reference(), rows[:, :60]) for _ in range(2)]
        write_files(folder / "in", rows, n_keys)
        write_files(folder / "in-few", rows[:2], n_few)
        family = Family()
        before = family.processor_time()
        spark = local_session(2)
        print(f"  session      {sum(family.used_since(before).values()):6.1f} s of processor time")
        for name in names:
            before = family.processor_time()
            PLAYS[name](spark, folder, model, n_few, "-few")
            print(f"  first {name:6} {sum(family.used_since(before).values()):6.1f} s of processor time, {n_few} keys")
            before, start, shuffled = family.processor_time(), time.time(), shuffle_bytes(spark)
            PLAYS[name](spark, folder, model, n_keys, "")
            used, seconds = family.used_since(before), time.time() - start
            bares += [bare(reference(), rows[:, :60]) for _ in range(2)]
            print_run(name, used, shuffle_bytes(spark) - shuffled, n_keys * n_rounds, min(bares))
            print_sizes(family, seconds, [path for path in folder.iterdir() if not path.name.endswith("-few")])
        spark.stop()
        family.close()
    finally:
        shutil.rmtree(folder)


def print_run(name: str, used: dict[str, float], shuffled: int, n_played: int, of_bare: float) -> None:
    """Print the processor time of a round, by process, and the bytes of the shuffle."""
    parts = {part: 1e6 * each / n_played for part, each in used.items()}
    total = sum(parts.values())
    print(f"  {name:12} {total:6.0f} us   {of_bare / total:4.2f} of bare speed ({of_bare:.0f} us)")
    print("               " + ", ".join(f"{part} {us:.0f} us" for part, us in parts.items()))
    print(f"               shuffle {shuffled / (n_played * ROUND_SIZE):.0f} bytes a row of {N_FEATURES} columns")


def print_sizes(family: Family, seconds: float, folders: list[Path]) -> None:
    """Print the largest memory so far, where pages that workers share count for each, and what is on disk."""
    on_disk = {path.name: sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) for path in folders}
    for title, found in (("memory at most", family.largest), ("on disk", on_disk)):
        shown = ", ".join(f"{name} {n_bytes / 1e6:,.0f} MB" for name, n_bytes in found.items())
        print(f"               {title}: {shown}")
    print(f"               {seconds:.0f} s")


def spark_batch(spark: Any, folder: Path, model: Any, n_keys: int, which: str) -> None:
    """All rounds of all keys in a batch."""
    from accous.spark import adapt_table

    df = spark.read.parquet(str(folder / f"in{which}"))
    n_buckets = max(2, n_keys // 160)
    batch = adapt_table(
        spark, df, model, key="key", time="t", buckets=n_buckets, trust_every=None, round_size=ROUND_SIZE
    )
    batch.write.partitionBy("kind").parquet(str(folder / f"batch{which}"))


def spark_stream(spark: Any, folder: Path, model: Any, n_keys: int, which: str) -> None:
    """A round of all keys in each micro-batch."""
    from accous.spark import adapt_stream

    source = str(folder / f"in{which}")
    schema = spark.read.parquet(source).schema
    query = adapt_stream(
        spark,
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source),
        model,
        key="key",
        time="t",
        checkpoint=str(folder / f"checkpoint{which}"),
        output=str(folder / f"out{which}"),
        buckets=max(16, n_keys // 10_000),
        expected_keys=n_keys,
        trust_every=None,
        trigger={"availableNow": True},
        round_size=ROUND_SIZE,
    )
    query.awaitTermination()


PLAYS = {"batch": spark_batch, "stream": spark_stream}


def write_files(folder: Path, rows: Any, n_keys: int) -> None:
    """Write a file per round and 100,000 keys; keys beyond those that were simulated repeat them, with some noise.

    Without it, compression would find the same rows and states again and again, and shuffle and disk would look small.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    n_rounds, n_drawn, size, n_features = rows.shape
    for number in range(n_rounds):
        for first in range(0, n_keys, KEYS_PER_FILE):
            keys = np.arange(first, min(first + KEYS_PER_FILE, n_keys))
            X = rows[number][keys % n_drawn].reshape(-1, n_features)
            X = X + 1e-3 * np.random.default_rng((number, first)).normal(size=X.shape)
            columns = {f"x{column}": X[:, column] for column in range(n_features)}
            columns["key"] = np.repeat(keys, size)
            columns["t"] = number * size + np.tile(np.arange(size), len(keys)).astype(np.float64)
            pq.write_table(pa.table(columns), folder / f"round-{number:05d}-{first:08d}.parquet")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spark", action="store_true", help="measure Spark, with one micro-batch per round")
    parser.add_argument("--only", choices=list(PLAYS), help="with --spark, one of the two")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--speed", action="store_true", help="only the processor time of a round")
    parser.add_argument("--page", action="store_true", help="only the bytes that a stream writes for one row")
    chosen = parser.parse_args()
    if chosen.spark:
        n_together = min(chosen.keys, KEYS_PER_FILE)
        print(f"processor time of a round of one key on Spark, {chosen.keys:,} keys, {n_together:,} a micro-batch")
        on_spark(chosen.keys, chosen.rounds, [chosen.only] if chosen.only else list(PLAYS))
        return
    only = speed if chosen.speed else page if chosen.page else None
    for part in (only,) if only else (speed, sizes, page, accuracy):
        part()


if __name__ == "__main__":
    main()
