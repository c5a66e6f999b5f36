"""Keys: what a step costs beside a bare loop, how large states are, and how accurate keys are.

    python -m benchmarks.keyed

All times are processor time; the loop is `AdaptiveClassifier.adapt` over the same rounds of the same keys, one model
each, and the bare arithmetic is that of `benchmarks.speed` for the same models.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter
from accous.streams import GaussianStream, SineShift
from benchmarks.pages import describe
from benchmarks.speed import BareArithmetic

ROUND_SIZE = 5
N_FEATURES = 12


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


def loop(model: Any, rows: Any) -> tuple[float, float]:
    """Microseconds of a round of the model of a key, and of its bare arithmetic."""
    one, seconds = AdaptiveClassifier().fit(*model), np.zeros(2)
    for first in range(0, len(rows), 10):
        begin = time.process_time()
        for batch in rows[first : first + 10, 0]:
            one.adapt(batch)
        seconds[0] += time.process_time() - begin
        bare = BareArithmetic(one)
        begin = time.process_time()
        for _ in range(10):
            bare.run()
        seconds[1] += time.process_time() - begin
    return tuple((seconds / len(rows) * 1e6).tolist())


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
    few, many = rows_of_keys(12, 200), rows_of_keys(480, 200)
    adapter.step(None, few[:20, 0].reshape(-1, N_FEATURES))
    AdaptiveClassifier().fit(*model).adapt(few[0, 0])
    # Key by key in turn, and the best of each key: whatever else runs on the machine then meets both alike.
    each_key = [few[:, [key]] for key in range(few.shape[1])]
    turns = np.array([[(*loop(model, rows), stepwise(adapter, rows)) for rows in each_key] for _ in range(8)])
    adapt, bare, step = turns.min(axis=0).mean(axis=0)
    found = {"bare arithmetic": bare, "adapt": adapt, "step": step}
    found["step_many"] = min(together(adapter, many) for _ in range(3))
    print("processor time of a round of 5 rows of one key (200 rounds, 12 columns, 1,000 reference rows)")
    for name, best in found.items():
        print(f"  {name:15} {best:7.0f} us   {best / bare:5.2f} of bare arithmetic   {best / adapt:5.2f} of adapt")


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
    from accous.keyed.arrow import pack_page

    adapter, rows = make_adapter(), rows_of_keys(32, 60)
    *_, states = states_after(adapter, rows)
    one, _, _ = adapter.step_many(states, [3], None, rows[0, 3][:1])
    n_bytes = len(pack_page(states | one))
    print(f"one row of one of 32 keys after 60 rounds: a state of {len(one[3]):,} bytes, a page of {n_bytes:,} bytes")


def accuracy() -> None:
    """Error of keys beside the classifier's on streams with labels, and how often both predict the same."""
    print("error of the adapted predictions, classifier and key on the same streams (300 rounds of 5 rows)")
    for period, seeds in ((40, range(100, 104)), (100, range(104, 108)), (300, range(108, 112))):
        errors = []
        for seed in seeds:
            stream = GaussianStream(SineShift(period=period), n_rounds=300, batch_size=ROUND_SIZE, random_state=seed)
            X, y = stream.reference()
            model, key = AdaptiveClassifier().fit(X, y), KeyedAdapter(AdaptiveClassifier().fit(X, y), round_size=5)
            state, wrong = None, np.zeros(4)
            for batch in stream:
                state, predictions, _ = key.step(state, batch.X)
                fixed, predicted, of_key = model.predict_fixed(batch.X), model.step(batch.X), np.asarray(predictions)
                pairs = (predicted, batch.y), (of_key, batch.y), (fixed, batch.y), (of_key, predicted)
                wrong += [np.sum(one != other) for one, other in pairs]
            errors.append(wrong / (300 * ROUND_SIZE))
        classifier, keyed, of_fixed, unlike = 100 * np.mean(errors, axis=0)
        print(
            f"  period {period:4}   classifier {classifier:5.2f} %   key {keyed:5.2f} %   fixed {of_fixed:5.2f} %",
            end="",
        )
        print(f"   same prediction {100 - unlike:6.2f} %")


def main() -> None:
    """Measure and print."""
    describe(__doc__)
    for part in (speed, sizes, page, accuracy):
        part()


if __name__ == "__main__":
    main()
