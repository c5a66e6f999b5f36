"""The data of the benchmarks: streams of two parts with exact answers, and real streams in order of time.

A stream of two parts mixes D' with weight 1 - alpha_t and D'' with weight alpha_t. On Gaussians the true ratio and the
risk of a linear model are known in closed form. On a table the parts are two disjoint pools of its rows; the ratio
follows from the mixture weights, and the risk is the error on all rows of the pools, weighted by alpha_t.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from accous import datasets
from accous.streams import (
    BernoulliShift,
    ConstantShift,
    GaussianStream,
    LinearShift,
    MixtureStream,
    SineShift,
    SquareShift,
)
from accous.table.columns import Choices, ColumnEncoder

FloatArray = NDArray[np.float64]

ALPHA_0 = 0.9
MOVING = ("Lin", "Squ", "Sin", "Ber")
# As fast as in a stream of 10,000 rounds, so that a shorter stream is a part of it.
SHIFTS = {
    "Lin": LinearShift(),
    "Squ": SquareShift(period=100),
    "Sin": SineShift(period=100),
    "Ber": BernoulliShift(flip=0.01),
    "none": ConstantShift(ALPHA_0),
}
TABLES = ("diabetes", "breast", "gas_sensor", "acs_employment", "powersupply")
TABLE_ROWS = 6000


# --- streams of two parts ---------------------------------------------------------------------------------------


def two_parts(
    data: str, shift: str, *, n_features: int, n_reference: int, seed: int, **sizes: int
) -> GaussianStream | MixtureStream:
    """Return the reconstructed Gaussian stream, or rows of a table, split in two along their first principal component.

    The columns of a table are scaled by the reference, which has half of a part's rows at most.
    """
    keywords: dict[str, Any] = {"alpha_0": ALPHA_0, "random_state": seed, **sizes}
    if data == "gaussian":
        return GaussianStream(SHIFTS[shift], n_features=n_features, n_reference=n_reference, **keywords)
    X, y = _load_table(data)
    first, second = ((X[rows], y[rows]) for rows in _split_in_two(X))
    stream = MixtureStream(first, second, SHIFTS[shift], **keywords)
    if len(stream.reference()[1]) > n_reference:
        stream = replace(stream, n_reference=n_reference)
    scaler = StandardScaler().fit(stream.reference()[0])
    return replace(
        stream, pool_a=(scaler.transform(first[0]), first[1]), pool_b=(scaler.transform(second[0]), second[1])
    )


def _load_table(name: str) -> tuple[FloatArray, NDArray[Any]]:
    table = datasets.load(name)
    X, y = table.X, table.y
    # Two classes everywhere: with many small classes, the score would show the sample size, not the ratio.
    if name == "powersupply":
        y = ((y >= 7) & (y < 19)).astype(np.int64)  # day against night
    if name == "gas_sensor":
        y = (y <= 2).astype(np.int64)  # ethanol and ethylene against the other gases
    chosen = np.random.default_rng(0).permutation(len(X))[:TABLE_ROWS]
    return X[chosen], y[chosen]


def _split_in_two(X: FloatArray) -> list[NDArray[np.intp]]:
    """Return the rows below and above the median of the first principal component of the standardised columns."""
    Z = StandardScaler().fit_transform(X)
    scores = Z @ np.linalg.svd(Z, full_matrices=False)[2][0]
    is_above = scores > np.median(scores)
    return [np.flatnonzero(~is_above), np.flatnonzero(is_above)]


def write_tables(folder: Path, stream: GaussianStream) -> pl.DataFrame:
    """Write a reference with labels ``y``, and the rows of its stream; return these."""
    X, y = stream.reference()
    names = [f"x{number}" for number in range(X.shape[1])]
    pl.DataFrame(X, schema=names).with_columns(y=pl.Series(np.asarray(y))).write_csv(folder / "reference.csv")
    rows = pl.DataFrame(np.vstack([batch.X for batch in stream]), schema=names)
    rows.write_csv(folder / "stream.csv")
    return rows


# --- real streams -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """A real stream.

    Attributes
    ----------
    label : str
        Its column; empty for the data sets of this package.
    left_out : tuple of str
        Times, counters, and columns that its description names as leaks.
    is_chosen : bool
        Whether constants were chosen on it.
    has_numbers : bool
        Whether the label is a number: the class is then whether it exceeds the median of the first rows.
    in_turn : str
        Column whose two values take turns in blocks of 750 rows after 2,500 mixed ones, where the file has no order.
    """

    label: str = ""
    left_out: tuple[str, ...] = ()
    is_chosen: bool = False
    has_numbers: bool = False
    in_turn: str = ""


STREAMS = {
    "hotel_bookings": Stream("is_canceled", ("arrival_date",), is_chosen=True),
    "bank_marketing": Stream("y", ("row", "duration", "year_month"), is_chosen=True),
    "occupancy": Stream("Occupancy", ("Date", "part"), is_chosen=True),
    "birdstrikes": Stream("damage", ("Flight_Date",), is_chosen=True),
    "online_shoppers": Stream("Revenue", ("month_no", "Month"), is_chosen=True),
    "elec2": Stream("up", ("date",), is_chosen=True),
    "beijing_pm25": Stream("pm25", ("datetime",), is_chosen=True, has_numbers=True),
    "appliances_energy": Stream("Appliances", ("datetime",), is_chosen=True, has_numbers=True),
    "arabic_digits": Stream("digit", ("speaker_sex",), is_chosen=True, in_turn="speaker_sex"),
    "gas_sensor": Stream(is_chosen=True),
    "acs_employment": Stream(is_chosen=True),
    "weather_aus": Stream("RainTomorrow", ("Date",)),
    "nyc_flights_2013": Stream("arr_late_15", ("sched_dep",)),
    "email_spam": Stream("spam", ("time",)),
    "nsl_kdd": Stream("class", ("row", "part")),
    "room_occupancy_count": Stream("Room_Occupancy_Count", ("datetime",)),
    "noaa_weather": Stream("rain"),
    "chicago_taxi_tips": Stream("big_tipper", ("trip_start", "tips")),
    "bike_sharing_hour": Stream("cnt", ("datetime",), has_numbers=True),
    "metro_traffic": Stream("traffic_volume", ("datetime",), has_numbers=True),
    "powersupply": Stream(),
}
BLOCKS = "arabic_digits"
MOST_ROWS = 12_000
_MIXED_ROWS, _ROWS_IN_TURN = 2_500, 750
NUMBER_STREAMS = tuple(name for name, stream in STREAMS.items() if stream.has_numbers)
_DATES = {"arrival_date", "Date", "Flight_Date", "datetime", "sched_dep", "time", "trip_start"}


def read_stream(name: str, most_rows: int, *, as_numbers: bool = False) -> tuple[Any, NDArray[Any]]:
    """Return rows and labels in order of time, thinned evenly to ``most_rows``; labels are classes unless wanted."""
    stream = STREAMS[name]
    if not stream.label:
        dataset = datasets.load(name)
        rows = _thinned(len(dataset.y), most_rows)
        return np.asarray(dataset.X, dtype=np.float64)[rows], np.asarray(dataset.y)[rows]
    frame = _read_file(name)
    label, rows = frame[stream.label], _thinned(len(frame), most_rows)
    X = frame.drop(stream.label, *stream.left_out)[rows.tolist()]
    if as_numbers:
        return X, label.cast(pl.Float64).to_numpy()[rows]
    if stream.has_numbers:
        values = label.cast(pl.Float64)
        label = (values > values.head(max(1_000, len(values) // 10)).median()).cast(pl.Int64)
    return X, np.array(label.cast(pl.String).to_list())[rows]


def read_blocks(n_reference: int, seed: int = 0) -> tuple[FloatArray, NDArray[Any]]:
    """Return spoken digits: a reference of as many women as men, then blocks of women and men in turn."""
    frame = pl.read_csv(Path(os.environ["ACCOUS_DATA"]) / "streams" / f"{BLOCKS}.csv.gz")
    random, is_first = np.random.default_rng(seed), frame["speaker_sex"].to_numpy() == frame["speaker_sex"].min()
    parts = [random.permutation(np.flatnonzero(is_first)), random.permutation(np.flatnonzero(~is_first))]
    half = n_reference // 2
    reference = random.permutation(np.concatenate((parts[0][:half], parts[1][: n_reference - half])))
    rest = [part[half : len(part) - (len(part) - half) % _ROWS_IN_TURN].reshape(-1, _ROWS_IN_TURN) for part in parts]
    rows = np.concatenate((reference, *(block for pair in zip(*rest, strict=False) for block in pair)))
    X = frame.drop("digit", "speaker_sex").to_numpy().astype(np.float64)
    return X[rows], frame["digit"].to_numpy()[rows]


def read_times(name: str, most_rows: int, row_numbers: list[int]) -> list[str] | None:
    """Return when rows of `read_stream`, counted from 1, happened by the file's own words; None without dates."""
    column = next((each for each in STREAMS[name].left_out if each in _DATES), None)
    if column is None:
        return None
    times = _read_file(name)[column]
    rows = _thinned(len(times), most_rows)
    return [str(times[int(rows[number - 1])]) for number in row_numbers]


def prepare(reference: Any) -> Callable[[Any], FloatArray]:
    """Learn from a reference how to make features, and return the function from rows to features."""
    if isinstance(reference, np.ndarray):
        mean, scale = reference.mean(axis=0), reference.std(axis=0)
        return lambda rows: (rows - mean) / np.where(scale > 0.0, scale, 1.0)
    encoder = ColumnEncoder.learn(reference, Choices((), ()))
    return lambda rows: np.ascontiguousarray(encoder.encode(rows).X)


def _thinned(n_rows: int, most_rows: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most_rows)).astype(np.int64))


@cache
def _read_file(name: str) -> pl.DataFrame:
    path = Path(os.environ["ACCOUS_DATA"]) / "streams" / f"{name}.csv.gz"
    stream = STREAMS[name]
    frame = pl.read_csv(path, infer_schema_length=None).filter(pl.col(stream.label).is_not_null())
    return _in_turn(frame, stream.in_turn) if stream.in_turn else frame


def _in_turn(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return mixed rows first, then those of each value of a column in turn, block by block."""
    rest = frame[_MIXED_ROWS:].with_columns(block=pl.int_range(pl.len()).over(column) // _ROWS_IN_TURN)
    return pl.concat([frame[:_MIXED_ROWS], rest.sort("block", column, maintain_order=True).drop("block")])
