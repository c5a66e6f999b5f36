"""The real streams: where they lie, what their label is, and which columns are no features."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous import datasets
from accous.table.columns import Choices, ColumnEncoder

__all__ = ["STREAMS", "Stream", "number_streams", "prepare", "read_number_stream", "read_stream", "read_times"]


@dataclass(frozen=True)
class Stream:
    """A stream with classes, or with numbers that can be split into two.

    Attributes
    ----------
    label : str
        Its column; empty for the data sets of this package.
    left_out : tuple of str
        Times, counters, and columns that its description names as leaks.
    leaks : tuple of str
        Those of them that are no features however time is read.
    is_chosen : bool
        Whether constants were chosen on it.
    is_split : bool
        Whether the label is a number: the class is then whether it exceeds the median of the first rows. The numbers
        themselves are in `read_number_stream`.
    """

    label: str = ""
    left_out: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    is_chosen: bool = False
    is_split: bool = False

    @property
    def times(self) -> tuple[str, ...]:
        """Columns that the stream leaves out although they do not leak: times and counters."""
        return tuple(column for column in self.left_out if column not in self.leaks)


_DATES = {"arrival_date", "Date", "Flight_Date", "datetime", "sched_dep", "time"}
STREAMS = {
    "hotel_bookings": Stream("is_canceled", ("arrival_date",), is_chosen=True),
    "bank_marketing": Stream("y", ("row", "duration", "year_month"), ("duration", "year_month"), is_chosen=True),
    "occupancy": Stream("Occupancy", ("Date", "part"), ("part",), is_chosen=True),
    "birdstrikes": Stream("damage", ("Flight_Date",), is_chosen=True),
    "online_shoppers": Stream("Revenue", ("month_no", "Month"), ("Month",), is_chosen=True),
    "elec2": Stream("up", ("date",), is_chosen=True),
    "beijing_pm25": Stream("pm25", ("datetime",), is_chosen=True, is_split=True),
    "appliances_energy": Stream("Appliances", ("datetime",), is_chosen=True, is_split=True),
    "gas_sensor": Stream(is_chosen=True),
    "acs_employment": Stream(is_chosen=True),
    "weather_aus": Stream("RainTomorrow", ("Date",)),
    "nyc_flights_2013": Stream("arr_late_15", ("sched_dep",)),
    "email_spam": Stream("spam", ("time",)),
    "nsl_kdd": Stream("class", ("row", "part"), ("part",)),
    "room_occupancy_count": Stream("Room_Occupancy_Count", ("datetime",)),
    "noaa_weather": Stream("rain"),
    "bike_sharing_hour": Stream("cnt", ("datetime",), is_split=True),
    "metro_traffic": Stream("traffic_volume", ("datetime",), is_split=True),
    "powersupply": Stream(),
}


def read_stream(name: str, most_rows: int | None, keeps: tuple[str, ...] = ()) -> tuple[Any, NDArray[Any]]:
    """Return rows and labels in order of time, thinned evenly to ``most_rows``.

    Parameters
    ----------
    name : str
        A key of `STREAMS`.
    most_rows : int, optional
        None keeps all rows.
    keeps : tuple of str
        Columns that stay among the features although the stream leaves them out.
    """
    X: Any
    if STREAMS[name].label:
        X, y = _read_table(name, keeps)
    else:
        dataset = getattr(datasets, f"load_{name}")()
        X, y = np.asarray(dataset.X, dtype=np.float64), np.asarray(dataset.y)
    rows = _thinned(len(y), most_rows)
    return (X[rows] if isinstance(X, np.ndarray) else X[rows.tolist()]), y[rows]


def number_streams() -> list[str]:
    """Return the names of the streams whose label is a number."""
    return [name for name, stream in STREAMS.items() if stream.is_split]


def read_number_stream(name: str, most_rows: int) -> tuple[pl.DataFrame, NDArray[np.float64]]:
    """Return rows and the numbers to predict in order of time, thinned evenly to ``most_rows``.

    Parameters
    ----------
    name : str
        One of `number_streams`.
    most_rows : int
    """
    frame, label = _read_frame(name)
    rows = _thinned(len(label), most_rows)
    return frame[rows.tolist()], label.cast(pl.Float64).to_numpy()[rows]


def prepare(reference: Any) -> Callable[[Any], NDArray[np.float64]]:
    """Learn from a reference how to make features, and return the function from rows to features."""
    if isinstance(reference, np.ndarray):
        mean, scale = reference.mean(axis=0), reference.std(axis=0)
        return lambda rows: (rows - mean) / np.where(scale > 0.0, scale, 1.0)
    encoder = ColumnEncoder.learn(reference, Choices((), ()))
    return lambda rows: np.ascontiguousarray(encoder.encode(rows).X)


def read_times(name: str, most_rows: int, row_numbers: list[int]) -> list[str] | None:
    """Return when rows of `read_stream` happened, by the file's own words; None if it has no dates.

    Parameters
    ----------
    name : str
        A key of `STREAMS`.
    most_rows : int
        As passed to `read_stream`.
    row_numbers : list of int
        Rows are counted from 1, as in "after so many rows".
    """
    column = next((each for each in STREAMS[name].left_out if each in _DATES), None)
    if column is None:
        return None
    times = _read_file(name)[column]
    rows = _thinned(len(times), most_rows)
    return [str(times[int(rows[number - 1])]) for number in row_numbers]


def _thinned(n_rows: int, most_rows: int | None) -> NDArray[np.int64]:
    if most_rows is None:
        return np.arange(n_rows)
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most_rows)).astype(np.int64))


@cache
def _read_frame(name: str, keeps: tuple[str, ...] = ()) -> tuple[pl.DataFrame, pl.Series]:
    """Return the features and the label as it is in the file."""
    stream, frame = STREAMS[name], _read_file(name)
    left_out = [column for column in stream.left_out if column not in keeps]
    return frame.drop(stream.label, *left_out), frame[stream.label]


@cache
def _read_file(name: str) -> pl.DataFrame:
    path = Path(os.environ["ACCOUS_DATA"]) / "streams" / f"{name}.csv.gz"
    return pl.read_csv(path, infer_schema_length=None).filter(pl.col(STREAMS[name].label).is_not_null())


@cache
def _read_table(name: str, keeps: tuple[str, ...]) -> tuple[pl.DataFrame, NDArray[Any]]:
    frame, label = _read_frame(name, keeps)
    if STREAMS[name].is_split:
        values = label.cast(pl.Float64)
        label = (values > values.head(max(1_000, len(values) // 10)).median()).cast(pl.Int64)
    return frame, np.array(label.cast(pl.String).to_list())
