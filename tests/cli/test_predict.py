"""`accous predict` writes what `accous adapt` would from the same state; the model's folder only remembers that."""

import json
from pathlib import Path

import polars as pl
import pytest

import accous
from accous.cli import main
from accous.table.adapt import AdaptJob, PredictJob
from accous.table.options import AdaptOptions, PredictOptions
from accous.table.store import ID_STEP, STORE_NAME, Store
from tests.cli.processes import files_of, put_files
from tests.cli.tables import fit_model, make_tables

PREDICT = ["predict", "model", "rows.csv", "-o", "out.csv"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model that has learned from a stream, and other rows."""
    folder = tmp_path_factory.mktemp("fitted")
    reference, stream = make_tables()
    stream[:200].write_csv(folder / "stream.csv")
    model = str(fit_model(folder, reference, "--drop", "id"))
    assert main(["adapt", model, str(folder / "stream.csv"), "-o", str(folder / "adapted.csv"), "--quiet"]) == 0
    return {"files": files_of(folder / "model"), "rows": stream[200:]}


@pytest.fixture(autouse=True)
def _model(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    put_files(tmp_path / "model", fitted["files"])
    fitted["rows"].write_csv("rows.csv")


@pytest.fixture
def untouched(tmp_path):
    """After the test, the folder holds the same files with the same bytes and times, but for the store."""

    def files():
        paths = [path for path in (tmp_path / "model").iterdir() if path.name != STORE_NAME]
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}

    before = files()
    yield
    assert files() == before


@pytest.mark.usefixtures("untouched")
def test_the_predictions_are_those_of_the_table_model(capsys):
    assert main([*PREDICT, "--json"]) == 0
    record, found = json.loads(capsys.readouterr().out), pl.read_csv("out.csv")
    assert (record["rows"], record["rounds_learned"], record["output"]) == (100, 20, str(Path("out.csv").absolute()))
    assert record["predicted"] == {name: int((found["prediction"] == name).sum()) for name in ("no", "yes")}
    expected = accous.load("model").predict(pl.read_csv("rows.csv"))
    assert found["line"].to_list() == list(range(2, 102))
    assert found.drop("line", "id").equals(expected.drop("line"))
    assert set(found["round"]) == {20}
    assert found["ratio"].std() > 0.01


def test_the_first_round_of_adapt_gives_the_same_rows():
    assert main(PREDICT) == 0
    assert main(["adapt", "model", "rows.csv", "-o", "adapted.csv", "--batch-size", "100"]) == 0
    assert pl.read_csv("out.csv").drop("id", "round").equals(pl.read_csv("adapted.csv").drop("id", "round"))


def test_a_long_table_leaves_no_trace_of_its_length_in_memory_and_old_rows_go_meanwhile(fitted, monkeypatch):
    fitted["rows"].write_parquet("rows.parquet")
    monkeypatch.setattr("accous.table.readers._MOST_ROWS", 10)
    monkeypatch.setattr("accous.table.adapt._ROWS_BETWEEN_PRUNES", 30)
    n_prunes, prune = [], Store.prune
    monkeypatch.setattr(Store, "prune", lambda store, **rules: n_prunes.append(1) or prune(store, **rules))
    job = PredictJob(PredictOptions(model=Path("model"), rows="rows.parquet", output="out.csv"))
    assert job.run()
    assert (job.n_rows, len(job._ids), len(n_prunes)) == (100, 1, 4)
    assert job._ids[0][1] - job._ids[0][0] == 99 * ID_STEP
    monkeypatch.setattr("accous.table.adapt._MOST_WAITING", 10)
    following = AdaptJob(AdaptOptions(model=Path("model"), stream="rows.parquet", output="adapted.csv", batch_size=5))
    assert following.begin()
    assert following.follow()
    assert len(n_prunes) >= 4 + 3


@pytest.mark.usefixtures("untouched")
def test_a_bad_row_leaves_no_output_or_is_set_aside(capsys):
    lines = Path("rows.csv").read_text().splitlines(keepends=True)
    Path("rows.csv").write_text("".join([*lines[:40], "1,2\n", *lines[40:]]))
    assert main(PREDICT) == 1
    assert "line 41" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["model", "rows.csv"]
    assert main([*PREDICT, "--on-bad-row", "skip"]) == 0
    assert pl.read_csv("out.csv").height == 100
    assert pl.read_csv("out.csv.rejects.csv")["line"].to_list() == [41]


def test_a_model_in_use_by_another_process_can_predict(tmp_path):
    from accous.checkpoint.files import exclusive_lock

    with exclusive_lock(tmp_path / "model", "accous adapt"):
        assert main(PREDICT) == 0
    assert pl.read_csv("out.csv").height == 100


def test_an_unfinished_run_of_adapt_to_the_same_name_is_not_disturbed():
    """Its rows wait in predictions.parquet.partial."""
    Path("out.parquet.partial").write_text("rows of a run")
    assert main(["predict", "model", "rows.csv", "-o", "out.parquet"]) == 0
    assert Path("out.parquet.partial").read_text() == "rows of a run"
