"""A folder of Parquet files on one machine: the same step, the same bytes, resumed where it stopped."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier
from accous.cli import main
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.keyed import adapt_folder, newest_states
from accous.keyed.arrow import hash_key, pack_page, unpack_page
from tests.keyed.conftest import drifting, labelled
from tests.needs import PYARROW

pa = pytest.importorskip("pyarrow", reason=PYARROW)
pytest.importorskip("pyarrow.compute", reason=PYARROW)
pq = pytest.importorskip("pyarrow.parquet", reason=PYARROW)
ds = pytest.importorskip("pyarrow.dataset", reason=PYARROW)
N_ROWS = 300


@pytest.fixture(scope="module")
def table():
    X = drifting(N_ROWS, 0)
    columns = {f"x{column}": X[:, column] for column in range(4)}
    shops = [f"shop {number % 7}" for number in range(N_ROWS)]
    times = np.datetime64("2026-01-01T00:00:00", "us") + np.arange(N_ROWS) * np.timedelta64(1, "s")
    return pa.table({"shop": shops, "when": times, "line": np.arange(N_ROWS), **columns})


def states_in(folder):
    found = ds.dataset(folder, format="parquet").to_table(filter=ds.field("kind") == "state")
    return dict(zip(found["shop"].to_pylist(), found["state"].to_pylist(), strict=True))


def test_files_and_resume(tmp_path, adapter, model, table):
    expected, predictions, _ = adapter.step_many(
        {}, table["shop"].to_pylist(), table["when"].to_numpy(), drifting(N_ROWS, 0), numbers=np.arange(N_ROWS)
    )
    chosen = {"key": "shop", "time": "when", "number": "line", "round_size": 5, "buckets": 3}
    pq.write_table(table, tmp_path / "rows.parquet")
    assert adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", **chosen) == N_ROWS
    assert states_in(tmp_path / "out") == expected
    found = ds.dataset(tmp_path / "out").to_table(filter=ds.field("kind") == "prediction").sort_by("number")
    assert found["number"].to_pylist() == list(range(N_ROWS))
    assert found["probability"].to_pylist() == predictions.probabilities.max(axis=1).tolist()
    # The first rows, then the rest; the states of shops without new rows stay.
    for part, rows in (("first", table.slice(0, 100)), ("rest", table.slice(100, 50)), ("last", table.slice(150))):
        (tmp_path / part).mkdir()
        pq.write_table(rows, tmp_path / part / "rows.parquet")
    adapt_folder(tmp_path / "first", model, tmp_path / "out-1", **chosen)
    adapt_folder(tmp_path / "rest", model, tmp_path / "out-2", resume=tmp_path / "out-1", **chosen | {"buckets": 2})
    adapt_folder(tmp_path / "last", model, tmp_path / "out-3", resume=tmp_path / "out-2", **chosen)
    assert states_in(tmp_path / "out-3") == expected


def test_rows_with_a_label_teach_their_key_and_are_not_predicted(tmp_path, adapter, model, table):
    labels, names = [None] * 200 + [1, 0] * 50, table["shop"].to_pylist()
    pq.write_table(table.append_column("late", pa.array(labels)), tmp_path / "rows.parquet")
    adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", key="shop", label="late", round_size=5)
    X, keys = drifting(N_ROWS, 0), np.array(names)
    states = adapter.observe({}, keys[200:], X[200:], labels[200:])
    assert states_in(tmp_path / "out") == adapter.step_many(states, keys[:200], None, X[:200])[0]


TEXTS, HOLES = pa.array(["a"] * N_ROWS), pa.array([None if row == 4 else "a" for row in range(N_ROWS)])
FAULTS = {
    "no column": (lambda table: table.drop_columns(["x2"]), "shop", "no column 'x2'"),
    "no key": (lambda table: table, "store", "no column 'store'"),
    "no table": (None, "shop", "There is no table"),
    "missing key": (lambda table: table.set_column(0, "shop", HOLES), "shop", "missing in row 4"),
    "texts": (lambda table: table.set_column(5, "x2", TEXTS), "shop", "'x2' holds values of type"),
    "times": (lambda table: table.set_column(5, "x2", table["when"]), "shop", "'x2' holds values of type"),
    **{
        f"key {name}": (lambda table, name=name: table.rename_columns({"shop": name}), name, f"called '{name}'")
        for name in ("kind", "time", "number", "state")
    },
}


@pytest.mark.parametrize(("change", "key", "message"), FAULTS.values(), ids=FAULTS)
def test_faults_are_named(change, key, message, tmp_path, model, table):
    if change is not None:
        pq.write_table(change(table), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=message):
        adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", key=key)


def test_of_several_states_the_newest_counts(tmp_path, adapter, model, table):
    X, times = drifting(N_ROWS, 0), np.arange(float(N_ROWS))
    first, _, _ = adapter.step(None, X[:31], times[:31])
    second, _, _ = adapter.step(first, X[31:62], times[31:62])
    flushed, _, _ = adapter.step(second, X[:0], times[:0], is_last=True)
    for pairs in ([first, second], [second, first, second], [second, None, first]):
        assert newest_states(("k", state) for state in pairs) == {"k": second}
    assert adapter.rows_seen(flushed) == adapter.rows_seen(second) == 62
    with pytest.raises(CheckpointError, match="'k'"):
        newest_states([("k", b"torn")])
    # A stream's result, with several states of a key in folders of kinds, the older one last.
    folder = tmp_path / "stream" / "kind=state"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"shop": ["shop 1", "shop 1"], "state": [second, first]}), folder / "part.parquet")
    rows = table.filter(pa.compute.equal(table["shop"], "shop 1"))
    pq.write_table(rows, tmp_path / "rows.parquet")
    chosen = {"key": "shop", "time": "when", "round_size": 5, "buckets": 1}
    adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", resume=tmp_path / "stream", **chosen)
    expected, _, _ = adapter.step(second, X[1::7], rows["when"].to_numpy())
    assert states_in(tmp_path / "out") == {"shop 1": expected}


def test_a_folder_is_written_anew_with_a_status_for_every_key(tmp_path, model, table):
    pq.write_table(table, tmp_path / "rows.parquet")
    for buckets, status_every, n_readings in ((5, 64, 7), (2, None, 0)):
        options = {"key": "shop", "time": "when", "buckets": buckets, "status_every": status_every}
        adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", **options)
        kinds = ds.dataset(tmp_path / "out").to_table()["kind"].to_pylist()
        assert (kinds.count("prediction"), kinds.count("status")) == (N_ROWS, n_readings)
    with pytest.raises(DataError, match="resumes from"):
        adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", key="shop", resume=tmp_path / "out")
    assert len(states_in(tmp_path / "out")) == 7


def test_pages():
    states = {"": b"a", "鍵": b"bb", 7: b"", -1: b"c", "7": b"d"}
    assert unpack_page(pack_page(states)) == states
    page = pack_page(states)
    for damaged in (page[:-1], page + b"x", b"xxxx" + page[4:]):
        with pytest.raises(Exception, match="page of states"):
            unpack_page(damaged)
    assert hash_key("7") != hash_key(7)
    with pytest.raises(DataError, match="type float"):
        pack_page({1.5: b""})


def test_a_model_that_was_fitted_on_a_frame_finds_its_columns(tmp_path, model, table):
    X, y = labelled(300, 0)
    named = AdaptiveClassifier().fit(pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"]), y)
    for order in (["x0", "x1", "x2", "x3"], ["x3", "x0", "x2", "x1"]):
        pq.write_table(table.select(["shop", *order]), tmp_path / "rows.parquet")
        adapt_folder(tmp_path / "rows.parquet", named, tmp_path / "out", key="shop", buckets=2)
        adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "expected", key="shop", buckets=2)
        assert states_in(tmp_path / "out") == states_in(tmp_path / "expected")
    assert named.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]


def test_a_model_of_numbers_is_refused_before_anything_is_removed(tmp_path, model, table):
    numbers = pl.DataFrame({f"x{column}": drifting(N_ROWS, column)[:, 0] for column in range(4)})
    numbers.with_columns(minutes=numbers["x0"] + numbers["x1"]).write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--target", "minutes", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(tmp_path / "numbers")]) == 0
    pq.write_table(table, tmp_path / "rows.parquet")
    adapt_folder(tmp_path / "rows.parquet", model, tmp_path / "out", key="shop")
    with pytest.raises(ParameterError, match="classes only"):
        adapt_folder(tmp_path / "rows.parquet", tmp_path / "numbers", tmp_path / "out", key="shop")
    assert len(states_in(tmp_path / "out")) == 7
