"""One loader for each data set, and their sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.datasets.dataset import Dataset, Source
from accous.datasets.files import find_arrays
from accous.exceptions import ParameterError
from accous.parameters import did_you_mean

__all__ = [
    "SOURCES",
    "list_datasets",
    "load",
    "load_acs_employment",
    "load_breast",
    "load_breast_cancer",
    "load_diabetes",
    "load_digits",
    "load_gas_sensor",
    "load_powersupply",
    "load_wine",
]

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
