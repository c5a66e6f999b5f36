"""Embeddings that somebody has computed, as arrays or in Parquet, from fit to the report."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model

WIDTH = 14
FIT = ["fit", "reference.npy", "--label", "labels.npy", "-o", "model", "--quiet"]
ADAPT = ["adapt", "model", "stream.npy", "-o", "predictions.csv"]
SPREAD = [f"embedding_{number}" for number in range(WIDTH)]


def make_rows(n_rows: int, seed: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = (random.normal(size=(n_rows, WIDTH)) + shift).astype(np.float32)
    rows[:, 5] = 0.25  # a neuron that never fires
    return rows, np.where(rows[:, 0] + 0.3 * random.normal(size=n_rows) > 0.0, "cat", "dog")


def write_csv(path: str, rows: np.ndarray, labels: np.ndarray) -> None:
    pl.DataFrame(rows.astype(np.float64), schema=SPREAD).with_columns(label=labels).write_csv(path)


def write_parquet(path: str, rows: list, labels: np.ndarray, name: str = "embedding") -> None:
    pl.DataFrame({"id": range(len(rows)), name: rows, "label": labels}).write_parquet(path)


@pytest.fixture(autouse=True)
def _arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name, rows, labels in (("reference", *make_rows(80, seed=0)), ("stream", *make_rows(60, seed=1, shift=0.4))):
        np.save(f"{name}.npy", rows)
        np.save("labels.npy" if name == "reference" else "stream_labels.npy", labels)
        write_csv(f"{name}.csv", rows, labels)
        write_parquet(f"{name}.parquet", rows.tolist(), labels)


def test_an_array_gives_the_bytes_that_the_same_numbers_in_a_csv_give(capsys):
    assert main(FIT) == 0
    assert main(["fit", "reference.csv", "--label", "label", "-o", "other", "--quiet"]) == 0
    assert load_table_model("model").encoder == load_table_model("other").encoder
    capsys.readouterr()
    assert main([*ADAPT, "--label", "stream_labels.npy", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["adapt", "other", "stream.csv", "-o", "others.csv", "--label", "label", "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    of_array, of_table = (pl.read_csv(path, infer_schema=False) for path in ("predictions.csv", "others.csv"))
    assert of_array.drop("line", "id").equals(of_table.drop("line", "id"))
    assert of_array["line"].to_list() == [str(row) for row in range(1, 61)]
    assert found["labelled_rows"] == 60
    assert 0.0 < found["error"] == expected["error"] < 0.5


def test_lists_in_parquet_and_arrays_can_take_each_others_place():
    assert main(FIT) == 0
    fit = ["fit", "reference.parquet", "--label", "label", "-o", "listed", "--drop", "id", "--quiet"]
    assert main(fit) == 0
    assert main(ADAPT) == 0
    expected = pl.read_csv("predictions.csv").drop("id")
    assert main(["adapt", "listed", "stream.npy", "-o", "a.csv"]) == 0
    assert pl.read_csv("a.csv").drop("id").equals(expected)
    reference = np.load("reference.npy")
    write_parquet("reference.parquet", reference.tolist(), np.load("labels.npy"), name="vec")
    assert main([*fit, "--force"]) == 0
    assert main(["adapt", "listed", "stream.npy", "-o", "b.csv"]) == 0
    assert pl.read_csv("b.csv").drop("id").equals(expected)


def test_other_columns_are_features_too_and_whole_embeddings_can_be_dropped_and_kept():
    fit = ["fit", "reference.parquet", "--label", "label", "-o", "model", "--quiet", "--keep-as-feature", "id"]
    assert main(fit) == 0
    assert load_table_model("model").encoder.used_columns == ["id", *(name for name in SPREAD if name[-2:] != "_5")]
    assert main(["adapt", "model", "stream.parquet", "-o", "p.parquet", "--keep", "id,embedding"]) == 0
    kept = pl.read_parquet("p.parquet")
    assert kept.columns[: WIDTH + 2] == ["line", "id", *SPREAD]
    assert np.array_equal(kept.select(SPREAD).to_numpy(), np.load("stream.npy").astype(np.float64))
    assert main([*fit, "--drop", "embedding", "--force"]) == 0
    assert load_table_model("model").encoder.used_columns == ["id"]


def test_single_rows_of_another_length_are_bad_rows(capsys):
    fit = ["fit", "reference.parquet", "--label", "label", "-o", "model", "--drop", "id", "-q"]
    adapt = ["adapt", "model", "stream.parquet", "-o", "predictions.csv", "-q"]
    assert main(fit) == 0
    stream, reference = np.load("stream.npy").tolist(), np.load("reference.npy").tolist()
    stream[41], reference[1] = stream[41][:3], [*reference[1], 1.0]
    write_parquet("stream.parquet", stream, np.load("stream_labels.npy"))
    write_parquet("reference.parquet", reference, np.load("labels.npy"))
    capsys.readouterr()
    for command, row, n_numbers in ((adapt, 42, 3), ([*fit, "--force"], 2, WIDTH + 1)):
        assert main(command) == 1
        assert f"row {row}, column 'embedding': {n_numbers} " in capsys.readouterr().err
    assert pl.read_csv("predictions.csv").height == 40
    assert main([*adapt, "--on-bad-row", "skip", "--new", "--force"]) == 0
    assert pl.read_csv("predictions.csv").height == 59
    assert pl.read_csv("predictions.csv.rejects.csv")["line"].to_list() == [42]
    assert main([*fit, "--force", "--on-bad-row", "skip"]) == 0
    assert load_table_model("model").settings["n_reference"] == 79


def test_an_embedding_that_is_dropped_may_be_anything():
    for name, odd in (("reference", [1.0]), ("stream", [1.0, 2.0, 3.0])):
        others = [[0.0, 1.0]] * 20 if name == "reference" else [[0.0] * 5] * 20
        rows, _ = make_rows(21, seed=2)
        frame = pl.DataFrame({"embedding": rows.tolist(), "other": [*others, odd], "y": [0, 1, 2] * 7})
        frame.write_parquet(f"{name}.parquet")
    assert main(["fit", "reference.parquet", "--label", "y", "-o", "model", "--drop", "other"]) == 0
    assert load_table_model("model").settings["widths"] == {"embedding": WIDTH}
    assert main(["adapt", "model", "stream.parquet", "-o", "predictions.csv"]) == 0
    assert pl.read_csv("predictions.csv").height == 21


def test_an_array_that_has_grown_is_followed_from_where_it_was():
    assert main(FIT) == 0
    stream = np.load("stream.npy")
    assert main(ADAPT) == 0
    expected = Path("predictions.csv").read_bytes()
    assert main([*FIT, "--force"]) == 0
    Path("predictions.csv").unlink()
    np.save("stream.npy", stream[:30])
    assert main(ADAPT) == 0
    np.save("stream.npy", stream)
    assert main(ADAPT) == 0
    assert Path("predictions.csv").read_bytes() == expected


def test_numbers_to_predict_can_be_an_array(capsys):
    rows, _ = make_rows(80, seed=0)
    np.save("minutes.npy", 30.0 + rows[:, 0] + rows[:, 1])
    assert main(["fit", "reference.npy", "--target", "minutes.npy", "-o", "numbers", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == "regression"
    assert main(["adapt", "numbers", "stream.npy", "-o", "numbers.csv", "--quiet"]) == 0
    assert pl.read_csv("numbers.csv").columns == ["line", "id", "round", "prediction", "low", "high", "ratio"]
