"""Data sets: where they are looked for, what is refused, and what they hold."""

from pathlib import Path

import numpy as np
import pooch
import pytest

from accous import datasets
from accous.datasets.loaders import SOURCES, hash_arrays, parse_gas_batch, parse_powersupply, user_cache_folder
from accous.exceptions import DataError, ParameterError
from tests.needs import needs_data

BUNDLED = [name for name, source in SOURCES.items() if source.file_name is None]
FROM_FILES = [name for name in SOURCES if name not in BUNDLED]


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No data folder, an empty cache, and a network that answers nothing; gives the cache."""
    monkeypatch.delenv("ACCOUS_DATA", raising=False)
    monkeypatch.setenv("ACCOUS_CACHE", str(tmp_path / "cache"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    return tmp_path / "cache"


def test_list_names_every_loader():
    assert datasets.list() == [*FROM_FILES, *BUNDLED]
    for name in datasets.list():
        assert callable(getattr(datasets, f"load_{name}"))


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_data_need_nothing(name, offline):
    dataset = getattr(datasets, f"load_{name}")()
    assert_as_declared(dataset)
    assert not offline.exists()


@needs_data
@pytest.mark.parametrize("name", FROM_FILES)
def test_files_hold_what_is_declared(name):
    dataset = getattr(datasets, f"load_{name}")()
    assert_as_declared(dataset)
    for column in dataset.columns.values():
        assert column.shape == dataset.y.shape


def assert_as_declared(dataset):
    source = dataset.source
    assert dataset.X.shape == (source.n_rows, source.n_features)
    assert dataset.X.dtype == np.float64
    assert np.isfinite(dataset.X).all()
    assert dataset.y.shape == (source.n_rows,)
    assert len(np.unique(dataset.y)) == source.n_classes
    assert len(dataset.feature_names) == source.n_features
    assert source.licence
    assert source.citation
    assert source.url.startswith("http")


@needs_data
def test_further_columns():
    assert np.unique(datasets.load_gas_sensor().columns["batch"]).tolist() == [1, 2, 3, 4, 5, 6, 8, 9]
    assert np.unique(datasets.load_acs_employment().columns["year"]).tolist() == [2015, 2016, 2017, 2018]


def test_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ParameterError, match="diabetes"):
        datasets.load("iris")
    assert repr(datasets.load_wine()) == "Dataset(wine: 178 rows, 13 features, 3 classes)"


# --- where files are looked for -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diabetes", "gas_sensor", "powersupply", "acs_employment"])
def test_offline_without_data_one_sentence_says_what_to_do(name, offline):
    with pytest.raises(DataError, match="ACCOUS_DATA") as raised:
        datasets.load(name)
    assert SOURCES[name].file_name in str(raised.value)


@needs_data
def test_the_cache_is_used_where_there_is_no_folder_and_no_network(request):
    diabetes = datasets.load_diabetes()
    offline = request.getfixturevalue("offline")
    offline.mkdir()
    np.savez(offline / str(diabetes.source.file_name), X=diabetes.X, y=diabetes.y)
    assert_as_declared(datasets.load_diabetes())


def test_the_data_folder_comes_before_the_cache(offline, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    for place in (folder, offline):
        place.mkdir()
        np.savez(place / "diabetes_pima.npz", X=np.zeros((2, 8)), y=np.zeros(2))
    monkeypatch.setenv("ACCOUS_DATA", str(folder))
    with pytest.raises(DataError, match=str(folder)):
        datasets.load_diabetes()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.zeros((768, 8)), "y": np.zeros(768)}, "hash"),
        ({"X": np.array([{}], dtype=object), "y": np.zeros(1)}, "cannot be read"),  # nothing is unpickled
        ({"Z": np.zeros(3)}, "arrays X and y"),
        (None, r"diabetes_pima\.npz"),
    ],
    ids=["other numbers", "objects", "no rows", "torn"],
)
def test_files_that_hold_something_else_are_refused(arrays, message, offline):
    offline.mkdir()
    if arrays is None:
        (offline / "diabetes_pima.npz").write_bytes(b"PK\x03\x04 not a whole file")
    else:
        np.savez(offline / "diabetes_pima.npz", **arrays)
    with pytest.raises(DataError, match=message):
        datasets.load_diabetes()


def test_a_data_folder_that_is_not_a_folder_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCOUS_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="not a folder"):
        datasets.load_diabetes()


def test_hash_sees_every_array_but_not_their_types():
    X, y, year = np.array([[1.0, np.nan]]), np.array([1]), np.array([2015])
    first = hash_arrays(X, y, {"year": year})
    assert first == hash_arrays(X.astype(np.float32), y.astype(np.uint8), {"year": year.astype(np.int16)})
    assert (
        len({first, hash_arrays(X, y, {}), hash_arrays(X, y + 1, {"year": year}), hash_arrays(X[:, ::-1], y, {})}) == 4
    )


@pytest.mark.parametrize("xdg", [None, "", "/somewhere/else"])
def test_the_folder_is_the_one_that_pooch_names(xdg, monkeypatch):
    monkeypatch.delenv("ACCOUS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if xdg is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert user_cache_folder() == Path(pooch.os_cache("accous"))


def test_a_variable_names_another(monkeypatch):
    monkeypatch.setenv("ACCOUS_CACHE", "/my/cache")
    assert user_cache_folder() == Path("/my/cache")


# --- parsing the public files ------------------------------------------------------------------------------------


def test_gas_lines():
    assert parse_gas_batch("1 1:15596.16 2:1.5\n6 1:2 2:-3.25e1\n").tolist() == [[1, 15596.16, 1.5], [6, 2, -32.5]]


def test_power_supply_lines():
    arrays = parse_powersupply("@relation x\n@attribute a real\n@DATA\n1,10,0\n3,20,1\n2,15,23\n")
    assert arrays["X"].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]]
    assert arrays["y"].tolist() == [0, 1, 23]
