"""Rows of many keys in Parquet files, and what one process makes of them."""

import os

import numpy as np
import pandas as pd

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter, KeyEvent, newest_states

COLUMNS = ["x0", "x1", "x2", "x3"]
ROUND_SIZE = 5
_FIRST_SECOND = 1_700_000_000


def fitted_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, len(COLUMNS)))
    return AdaptiveClassifier().fit(X, X[:, 0] + 0.5 * rng.normal(size=300) > 0.2)


def write_rows(folder, *, n_files, n_keys, rows_per_key, first=0):
    """Write files whose rows are shuffled within each file; times go on from file to file."""
    frames = []
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(first, first + n_files):
        rng = np.random.default_rng(file)
        keys = rng.integers(n_keys, size=n_keys * rows_per_key)
        X = rng.normal(size=(len(keys), len(COLUMNS)))
        # Most shops drift, and come back after some files, so that there is something to tell.
        X[:, 1] += (keys % 3) * (1.2 if file % 8 < 6 else 0.0)
        frame = pd.DataFrame(X, columns=COLUMNS)
        frame["shop"] = [f"shop {key} é" for key in keys]
        frame["number"] = np.arange(len(keys)) + file * len(keys)
        frame["t"] = frame["number"].astype(np.float64)
        frames.append(frame)
        path = folder / f"part-{file:04d}.parquet"
        frame.sample(frac=1.0, random_state=file).to_parquet(path, index=False)
        # Spark reads the oldest file first, by milliseconds. Two files of the same one would come in any order.
        os.utime(path, times=(_FIRST_SECOND + file, _FIRST_SECOND + file))
    return pd.concat(frames, ignore_index=True)


def in_one_process(rows):
    """States, predictions by row, and events of an uninterrupted run without an engine."""
    adapter = KeyedAdapter(fitted_model(), round_size=ROUND_SIZE)
    states, predictions, events = adapter.step_many(
        {}, rows["shop"].tolist(), rows["t"].to_numpy(), rows[COLUMNS].to_numpy(), numbers=rows["number"].to_numpy()
    )
    found = pd.DataFrame(
        {
            "number": predictions.numbers,
            "shop": predictions.keys,
            "time": predictions.times,
            "round": predictions.rounds,
            "prediction": [str(each) for each in predictions.classes],
            "probability": predictions.probabilities.max(axis=1),
        }
    )
    return states, found.sort_values("number", ignore_index=True), events


def assert_same(result, rows):
    """What an engine wrote is what one process makes of the rows, bit for bit, and nothing is there twice."""
    states, predictions, events = in_one_process(rows)
    found = result[result["kind"] == "prediction"].sort_values("number", ignore_index=True)
    assert found["number"].astype(np.int64).tolist() == predictions["number"].tolist()
    for column in ("shop", "prediction"):
        assert found[column].tolist() == predictions[column].tolist()
    assert found["round"].astype(np.int64).tolist() == predictions["round"].tolist()
    assert found["probability"].to_numpy().tobytes() == predictions["probability"].to_numpy().tobytes()
    assert found["time"].tolist() == predictions["time"].tolist()
    assert sorted(event_tuples(result)) == sorted(events)
    kept = result[result["kind"] == "state"]
    pairs = [(shop, bytes(state)) for shop, state in zip(kept["shop"], kept["state"], strict=True)]
    assert len(set(pairs)) == len(pairs), "a state is there twice"
    # A stream writes a state per micro-batch: the newest one of each key is the one that counts.
    assert newest_states(pairs) == states


def event_tuples(result):
    """The events of a result as `step_many` returns them."""
    said = result[result["kind"] == "event"]
    return [
        KeyEvent(
            row.shop,
            int(row.round),
            row.time,
            row.event,
            row.size,
            tuple(row.columns.split(",")) if row.columns else (),
            int(row.rounds_to_adapt),
        )
        for row in said.itertuples()
    ]
