"""How many changes of the inputs the time of the day explains, on three real streams with a column of times.

``python -m benchmarks.seasons`` fits a table model on the first rows of each stream in order of time, and plays the
rest in rounds of one row and in rounds of 10 rows, 8,000 rounds at most. It prints how many changes are seasonal.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from accous.table.fit import FitJob
from accous.table.model import TableModel
from accous.table.options import FitOptions
from accous.threads import one_blas_thread

__all__ = ["STREAMS", "SeasonalStream", "count_events", "main"]

MOST_ROUNDS = 8_000


@dataclass(frozen=True)
class SeasonalStream:
    """A recorded stream with times.

    Attributes
    ----------
    label : str
    time : str
        Its column of times; it is made from the order of the rows, half an hour each, if the stream has none.
    n_reference : int
    left_out : tuple of str
        Counters, and columns that name a part of the recording.
    is_split : bool
        Whether the label is a number: the class is then whether it exceeds the median of the reference.
    """

    label: str
    time: str
    n_reference: int = 3_000
    left_out: tuple[str, ...] = ()
    is_split: bool = False


STREAMS = {
    "elec2": SeasonalStream("up", "made", left_out=("date",)),
    "bike_sharing_hour": SeasonalStream("cnt", "datetime", is_split=True),
    "occupancy": SeasonalStream("Occupancy", "Date", n_reference=4_000, left_out=("part",)),
}


def read(name: str) -> pl.DataFrame:
    """Return a stream with its label as text and its times."""
    stream = STREAMS[name]
    frame = pl.read_csv(Path(os.environ["ACCOUS_DATA"]) / "streams" / f"{name}.csv.gz", infer_schema_length=None).drop(
        stream.left_out
    )
    label = frame[stream.label]
    if stream.is_split:
        label = (label > label.head(stream.n_reference).median()).cast(pl.Int64)
    frame = frame.with_columns(label.cast(pl.String).alias(stream.label))
    if stream.time not in frame.columns:
        first = datetime(1996, 5, 7)
        times = [first + timedelta(minutes=30 * row) for row in range(frame.height)]
        frame = frame.with_columns(pl.Series(stream.time, times))
    return frame


def fit(name: str, frame: pl.DataFrame, folder: Path) -> TableModel:
    """Fit a table model on the first rows."""
    stream = STREAMS[name]
    path = folder / "reference.parquet"
    frame[: stream.n_reference].write_parquet(path)
    options = FitOptions(
        reference=str(path),
        label=stream.label,
        output=folder / "model",
        time=stream.time,
        estimator="linear",
        refit_budget=None,
    )
    return FitJob(options).fit_and_save()


def count_events(name: str, batch_size: int, most_rounds: int) -> dict[str, Any]:
    """Play a stream, and count its events."""
    frame = read(name)
    with TemporaryDirectory() as folder, one_blas_thread():
        model = fit(name, frame, Path(folder))
        start = STREAMS[name].n_reference
        for number in range(min(most_rounds, (frame.height - start) // batch_size)):
            first = start + number * batch_size
            model.step(frame[first : first + batch_size])
    seasonal = len(model.seasonal_events_)
    shifts = seasonal + sum(event.kind == "shift" for event in model.drift_events_)
    return {"stream": name, "batch_size": batch_size, "rounds": number + 1, "seasonal": seasonal, "shifts": shifts}


def main() -> None:
    """Play all streams, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS), choices=list(STREAMS))
    parser.add_argument("--rounds", type=int, default=MOST_ROUNDS, help="most rounds (default 8,000)")
    options = parser.parse_args()
    for name in options.streams:
        for batch_size in (1, 10):
            found = count_events(name, batch_size, options.rounds)
            print(
                f"{name}: {found['seasonal']} of {found['shifts']} changes are seasonal, {found['rounds']:,} rounds of "
                f"{batch_size} rows",
                flush=True,
            )


if __name__ == "__main__":
    main()
