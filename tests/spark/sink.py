"""Reads what a stream wrote without Spark, as `spark.read.parquet` does: only the files that the sink's log names."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq


def read_sink(folder):
    log = folder / "_spark_metadata"
    names = {}
    batches = [path for path in log.iterdir() if path.name.partition(".")[0].isdigit()]
    for path in sorted(batches, key=lambda path: int(path.name.partition(".")[0])):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            names[entry["path"]] = entry["action"]
    frames = []
    for name, action in names.items():
        assert action == "add"
        path = Path(name.removeprefix("file://").replace("%20", " "))
        frame = pq.ParquetFile(path).read().to_pandas()
        frames.append(frame.assign(kind=path.parent.name.removeprefix("kind=")))
    return pd.concat(frames, ignore_index=True)


def n_committed(checkpoint):
    """How many micro-batches are over."""
    commits = checkpoint / "commits"
    # Spark removes the entries of old ones.
    numbers = [int(path.name) for path in commits.iterdir() if path.name.isdigit()] if commits.is_dir() else []
    return max(numbers, default=-1) + 1
