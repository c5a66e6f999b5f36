"""Keys: what a step costs beside a bare loop, how large states are, and what Spark adds.

    python -m benchmarks.keyed [--speed | --page | --spark [--keys 10000] [--rounds 8] [--only stream] | --many 1000000]

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
    n_rounds, n_keys = rows.shape[:2]
    models = [AdaptiveClassifier().fit(*model) for _ in range(n_keys)]
    begin = time.process_time()
    for key, one in enumerate(models):
        for batch in rows[:, key]:
            one.adapt(batch)
    return (time.process_time() - begin) / (n_rounds * n_keys) * 1e6


def stepwise(adapter: KeyedAdapter, rows: Any) -> float:
    n_rounds, n_keys = rows.shape[:2]
    begin = time.process_time()
    for key in range(n_keys):
        state = None
        for batch in rows[:, key]:
            state, _, _ = adapter.step(state, batch)
    return (time.process_time() - begin) / (n_rounds * n_keys) * 1e6


def together(adapter: KeyedAdapter, rows: Any) -> float:
    n_rounds, n_keys, size, n_features = rows.shape
    states: dict[Any, bytes] = {}
    keys = np.repeat(np.arange(n_keys), size)
    begin = time.process_time()
    for batch in rows:
        new, _, _ = adapter.step_many(states, keys, None, batch.reshape(-1, n_features))
        states.update(new)
    return (time.process_time() - begin) / (n_rounds * n_keys) * 1e6


def speed() -> None:
    model = reference()
    adapter = KeyedAdapter(AdaptiveClassifier().fit(*model), round_size=ROUND_SIZE)
    few, many = rows_of_keys(12, 100), rows_of_keys(480, 100)
    adapter.step(None, few[:20, 0].reshape(-1, N_FEATURES))
    AdaptiveClassifier().fit(*model).adapt(few[0, 0])
    # Key by key in turn, and the best of each key: whatever else runs on the machine then meets both alike.
    turns = np.array([[in_turn(model, adapter, few[:, [key]]) for key in range(few.shape[1])] for _ in range(8)])
    base, step = turns.min(axis=0).mean(axis=0)
    found = {"bare loop": base, "step": step, "step_many": min(together(adapter, many) for _ in range(3))}
    print(
        "processor time of a round of 5 rows of one key (100 rounds, 12 columns, 1,000 reference rows; best of 8 or 3)"
    )
    for name, best in found.items():
        print(f"  {name:10} {best:7.0f} us   {best / base:5.2f} of bare")


def in_turn(model: Any, adapter: KeyedAdapter, rows: Any) -> tuple[float, float]:
    return bare(model, rows), stepwise(adapter, rows)


def sizes() -> None:
    print("bytes of a state, mean of 12 keys (of which 8 drift), after so many rounds")
    for n_features in (4, 12, 30):
        adapter = KeyedAdapter(AdaptiveClassifier().fit(*reference(n_features)), round_size=ROUND_SIZE)
        rows = rows_of_keys(12, 1000, n_features)
        states: dict[Any, bytes] = {}
        keys, cells = np.repeat(np.arange(12), ROUND_SIZE), []
        for number, batch in enumerate(rows, 1):
            new, _, _ = adapter.step_many(states, keys, None, batch.reshape(-1, n_features))
            states = new
            if number in (1, 10, 100, 1000):
                lengths = [len(state) for state in states.values()]
                cells.append(f"{number}: {np.mean(lengths):6.0f} (largest {max(lengths)})")
        print(f"  {n_features:3} columns   " + "   ".join(cells))


def page() -> None:
    """Bytes that a stream writes for one row: the page of its key, whole."""
    from accous.keyed.arrow import pack_page

    adapter = KeyedAdapter(AdaptiveClassifier().fit(*reference()), round_size=ROUND_SIZE)
    rows, keys = rows_of_keys(32, 60), np.repeat(np.arange(32), ROUND_SIZE)
    states: dict[Any, bytes] = {}
    for batch in rows:
        states.update(adapter.step_many(states, keys, None, batch.reshape(-1, N_FEATURES))[0])
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


def on_spark(n_keys: int, n_rounds: int, only: str | None = None) -> None:
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
        plays = {"batch": spark_batch, "stream": spark_stream}
        for name, play in plays.items() if only is None else [(only, plays[only])]:
            before = family.processor_time()
            play(spark, folder, model, n_few, "-few")
            print(f"  first {name:6} {sum(family.used_since(before).values()):6.1f} s of processor time, {n_few} keys")
            before, start, shuffled = family.processor_time(), time.time(), shuffle_bytes(spark)
            play(spark, folder, model, n_keys, "")
            used, seconds = family.used_since(before), time.time() - start
            bares += [bare(reference(), rows[:, :60]) for _ in range(2)]
            print_run(name, used, seconds, shuffle_bytes(spark) - shuffled, n_keys * n_rounds, min(bares))
            print_sizes(family, [path for path in folder.iterdir() if not path.name.endswith("-few")])
        spark.stop()
        family.close()
    finally:
        shutil.rmtree(folder)


def print_run(
    name: str, used: dict[str, float], seconds: float, shuffled: int, n_played: int, per_round: float
) -> None:
    parts = {part: 1e6 * each / n_played for part, each in used.items()}
    total = sum(parts.values())
    print(
        f"  {name:12} {total:6.0f} us   {per_round / total:4.2f} of bare speed ({per_round:.0f} us)   {seconds:4.0f} s"
    )
    print("               " + ", ".join(f"{part} {us:.0f} us" for part, us in parts.items()))
    print(f"               shuffle {shuffled / (n_played * ROUND_SIZE):.0f} bytes a row of {N_FEATURES} columns")


def print_sizes(family: Family, folders: list[Path]) -> None:
    """Print the largest memory so far, where pages that workers share count for each, and what is on disk."""
    memory = ", ".join(f"{kind} {n_bytes / 1e6:,.0f} MB" for kind, n_bytes in family.largest.items())
    on_disk = {path.name: sum(each.stat().st_size for each in path.rglob("*") if each.is_file()) for path in folders}
    print(f"               memory at most: {memory}")
    print(
        "               on disk: " + ", ".join(f"{name} {n_bytes / 1e6:,.0f} MB" for name, n_bytes in on_disk.items())
    )


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


def play_bucket(folder: Path, bucket: int, n_keys: int, deadline: float) -> tuple[int, float, int, int]:
    """Play a round of each key of a bucket, states on disk; return keys, seconds, bytes and KB of memory."""
    import resource

    from accous.keyed.arrow import pack_page

    if time.time() > deadline:
        return 0, 0.0, 0, 0
    adapter = KeyedAdapter(AdaptiveClassifier().fit(*reference()), round_size=ROUND_SIZE)
    rng, begin = np.random.default_rng(bucket), time.process_time()
    keys = np.repeat(np.arange(bucket * n_keys, (bucket + 1) * n_keys), ROUND_SIZE)
    states, _, _ = adapter.step_many({}, keys, None, rng.normal(size=(len(keys), N_FEATURES)))
    page = pack_page(states)
    (folder / f"states-{bucket:05d}").write_bytes(page)
    return n_keys, time.process_time() - begin, len(page), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def many_keys(n_keys: int, seconds: float) -> None:
    """One round of each of many keys in two processes, with the states on disk; stops in time if it must."""
    from joblib import Parallel, delayed

    folder, begin = Path(tempfile.mkdtemp()), time.time()
    try:
        per_bucket = 10_000
        tasks = (
            delayed(play_bucket)(folder, each, per_bucket, begin + seconds) for each in range(n_keys // per_bucket)
        )
        played = Parallel(n_jobs=2)(tasks)
        n_played, used, n_bytes, _ = (sum(each) for each in zip(*played, strict=True))
        memory = max(each[3] for each in played) / 1024
        print(
            f"{n_played:,} of {n_keys:,} keys: {time.time() - begin:.0f} s, processor time {used:.0f} s "
            f"({1e6 * used / max(n_played, 1):.0f} us a key), {n_bytes / 1e9:.2f} GB on disk, {memory:.0f} MB a process"
        )
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", action="store_true", help="measure Spark, with one micro-batch per round")
    parser.add_argument("--only", choices=["batch", "stream"], help="with --spark, one of the two")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--speed", action="store_true", help="only the processor time of a round")
    parser.add_argument("--page", action="store_true", help="only the bytes that a stream writes for one row")
    parser.add_argument("--many", type=int, metavar="KEYS", help="one round of each of so many keys, states on disk")
    parser.add_argument("--seconds", type=float, default=3600.0, help="when to stop with --many")
    chosen = parser.parse_args()
    if chosen.many:
        many_keys(chosen.many, chosen.seconds)
        return
    if chosen.spark:
        n_together = min(chosen.keys, KEYS_PER_FILE)
        print(f"processor time of a round of one key on Spark, {chosen.keys:,} keys, {n_together:,} a micro-batch")
        on_spark(chosen.keys, chosen.rounds, chosen.only)
        return
    if chosen.page:
        page()
        return
    speed()
    if chosen.speed:
        return
    sizes()
    page()
    accuracy()


if __name__ == "__main__":
    main()
