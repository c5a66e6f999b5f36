"""`accous adapt` predicts, learns and writes what the library would, whatever the stream comes in."""

import gc
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous.cli import main
from accous.model.performance import UNSEEN
from accous.table.adapt import AdaptJob
from accous.table.kinds import ClassForm
from accous.table.model import TableModel, load_table_model
from accous.table.options import AdaptOptions
from accous.table.rows import PendingRows
from accous.table.store import ID_STEP
from tests.cli.tables import fit_model, make_tables

ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv"]

pytestmark = pytest.mark.usefixtures("fitted_folder")


def by_hand(*, batch_sizes: list[int], learns_first: bool = False) -> pl.DataFrame:
    """The predictions of a plain loop over the library."""
    table_model = load_table_model("model")
    model, columns = table_model.model, []
    X = table_model.encoder.encode(pl.read_csv("stream.csv", infer_schema=False)).X
    start = 0
    for number, size in enumerate(batch_sizes, 1):
        batch = X[start : start + size]
        if learns_first:
            model.adapt(batch)
        shares, ratio = model.predict_proba(batch), model.ratio_.predict_ratio(batch)
        columns.append((np.full(size, number), model.predict(batch), shares[:, 0], shares[:, 1], ratio))
        if not learns_first:
            model.adapt(batch)
        start += size
    names = ["round", "prediction", "p_no", "p_yes", "ratio"]
    found = {name: np.concatenate(part) for name, part in zip(names, zip(*columns, strict=True), strict=True)}
    return pl.DataFrame({"line": np.arange(2, len(X) + 2), **found})


def require_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert found.drop("id").columns == expected.columns
    assert found["id"].n_unique() == found.height
    assert found["line"].to_list() == expected["line"].to_list()
    assert found["round"].to_list() == expected["round"].to_list()
    assert found["prediction"].to_list() == expected["prediction"].to_list()
    for name in ("p_no", "p_yes", "ratio"):
        assert np.abs(found[name] - expected[name]).max() < 1e-6


@pytest.mark.parametrize("learns_first", [False, True])
def test_the_predictions_are_those_of_a_plain_loop(learns_first):
    expected = by_hand(batch_sizes=[7] * 42 + [6], learns_first=learns_first)
    assert main([*ADAPT, "--batch-size", "7", *["--learn-first"] * learns_first]) == 0
    require_same(pl.read_csv("predictions.csv"), expected)
    assert expected["ratio"].std() > 0.1


def test_trees_that_predict_rows_ahead_write_what_they_write_round_by_round(monkeypatch):
    options = ["--drop", "id", "--estimator", "boosting", "--adaptation", "always"]
    fit_model(Path(), make_tables()[0], *options, name="trees")
    shutil.copytree("trees", "again")
    n_rows, scores = [], ClassForm.scores

    def counting(kind, model, X):
        n_rows.append(len(X))
        return scores(kind, model, X)

    monkeypatch.setattr(ClassForm, "scores", counting)
    assert main(["adapt", "trees", "stream.csv", "-o", "ahead.csv", "--batch-size", "5"]) == 0
    assert max(n_rows) > 5
    assert load_table_model("trees").model.n_refits_ > 0
    monkeypatch.setattr("accous.table.adapt._Ahead.scores", lambda *_: None)
    assert main(["adapt", "again", "stream.csv", "-o", "each.csv", "--batch-size", "5"]) == 0
    ahead, each = (pl.read_csv(name).drop("id") for name in ("ahead.csv", "each.csv"))
    assert ahead.equals(each)


@pytest.mark.parametrize("options", [[], ["--learn-first"], ["--label", "label"]])
def test_rounds_that_are_run_together_leave_what_they_leave_one_by_one(monkeypatch, options):
    stream = pl.read_csv("stream.csv")
    late = pl.int_range(stream.height) % 3 == 0
    moved = stream.with_columns(
        pl.col("x0") + 2.0, pl.when(late).then(pl.lit("new")).otherwise(pl.col("colour")).alias("colour")
    )
    pl.concat((stream, moved)).write_csv("stream.csv")
    left, together = [], []
    run_rounds = TableModel.run_rounds

    def counting(self, *arguments, **keywords):
        result = run_rounds(self, *arguments, **keywords)
        together.append(len(result.ends))
        return result

    monkeypatch.setattr(TableModel, "run_rounds", counting)
    for most in (16, 1):
        together.clear()
        monkeypatch.setattr("accous.table.adapt._MOST_ROUNDS_TOGETHER", most)
        shutil.copytree("model", f"model{most}")
        adapt = ["adapt", f"model{most}", "stream.csv", "-o", f"{most}.csv", "--batch-size", "3", *options]
        assert main(adapt) == 0
        assert (max(together) > 1) == (most > 1 and "--label" not in options)
        found = load_table_model(f"model{most}")
        left.append((Path(f"{most}.csv").read_text(), found.model.history_, found.watch, found.history.to_plain()))
        assert found.watch.columns.events
    (text, rounds, watch, history), (other_text, other_rounds, other_watch, other_history) = left
    assert text == other_text
    pd.testing.assert_frame_equal(rounds, other_rounds, check_exact=True)
    assert (watch.columns, watch.latest) == (other_watch.columns, other_watch.latest)
    np.testing.assert_array_equal(watch.recent.last(), other_watch.recent.last())
    for name, values in history.items():
        np.testing.assert_array_equal(values, other_history[name])


def test_a_long_stream_is_held_in_pieces_and_its_predictions_do_not_wait_for_the_end(monkeypatch):
    pl.read_csv("stream.csv").write_parquet("stream.parquet")
    monkeypatch.setattr("accous.table.readers._MOST_ROWS", 20)
    monkeypatch.setattr("accous.table.adapt._MOST_WAITING", 50)
    monkeypatch.setattr("accous.table.adapt._MOST_ROUNDS_TOGETHER", 1)
    job = AdaptJob(AdaptOptions(model=Path("model"), stream="stream.parquet", output="out.csv", batch_size=7))
    assert job.begin()
    n_pieces, n_stored = [], []

    def look(_record):
        n_pieces.append(sum(type(each) is PendingRows for each in gc.get_objects()))
        n_stored.append((job.store.next_id() - job.record.first_id) // ID_STEP)

    assert job.follow(on_round=look)
    assert max(n_pieces) <= 3  # the one that is read, the rows before it, and both together
    assert len(n_stored) == 43
    assert max(7 * np.arange(1, 44) - n_stored) <= 50 + 2 * 20


def test_it_loads_no_library_that_it_does_not_use():
    fit_model(Path(), make_tables()[0], "--drop", "id", "--estimator", "linear", name="linear")
    adapt = ["adapt", "linear", "stream.csv", "-o", "out.csv", "--quiet"]
    code = f"import sys; from accous.cli import main; assert main({adapt}) == 0; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, others = set(run.stdout.split()), {"matplotlib", "plotly", "starlette", "torch", "pyspark"}
    assert "accous.core.kernels_pool" in loaded
    assert not loaded & {"sklearn.ensemble", "sklearn.linear_model", "accous.table.fit", "accous.report", *others}


def test_a_new_round_starts_when_the_column_changes():
    days = pl.read_csv("stream.csv")["day"]
    sizes = [int((days == day).sum()) for day in days.unique(maintain_order=True)]
    expected = by_hand(batch_sizes=sizes)
    assert main([*ADAPT, "--by", "day"]) == 0
    require_same(pl.read_csv("predictions.csv"), expected)


def test_columns_are_passed_through_as_they_stand_in_the_file():
    assert main([*ADAPT, "--keep", "id", "--keep", "x0,colour"]) == 0
    stream = pl.read_csv("stream.csv", infer_schema=False)
    found = pl.read_csv("predictions.csv", infer_schema=False)
    assert found.columns == ["line", "id", "x0", "colour", "round", "prediction", "p_no", "p_yes", "ratio"]
    assert found.select("id", "x0", "colour").equals(stream.select("id", "x0", "colour"))


def test_labels_are_scored_and_never_learned_from(capsys):
    assert main([*ADAPT, "--label", "label", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    stream, found = pl.read_csv("stream.csv"), pl.read_csv("predictions.csv")
    assert record["labelled_rows"] == record["rows"] == 300
    assert record["error"] == pytest.approx((stream["label"] != found["prediction"]).mean())
    fixed = load_table_model("model").model
    fixed.fit(fixed.reference_, fixed.classes_[fixed.labels_])
    X = load_table_model("model").encoder.encode(stream.cast(pl.String)).X
    assert record["error_fixed"] == pytest.approx((fixed.predict(X) != stream["label"].to_numpy()).mean())
    totals = load_table_model("model").history.totals()
    assert totals["n_rows"] == totals["n_scored"] == 300
    assert totals["n_wrong"] == round(300 * record["error"])
    assert totals["n_wrong_fixed"] == round(300 * record["error_fixed"])


def restore(fitted: dict) -> None:
    for name, content in fitted["files"].items():
        Path("model", name).write_bytes(content)


def test_other_labels_change_no_prediction(fitted, capsys):
    assert main([*ADAPT, "--label", "label"]) == 0
    assert capsys.readouterr().err == ""
    first = Path("predictions.csv").read_bytes()
    restore(fitted)
    others = pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("yes")).otherwise(pl.lit("unheard of"))
    pl.read_csv("stream.csv").with_columns(label=others).write_csv("stream.csv")
    assert main([*ADAPT, "--label", "label", "--force"]) == 0
    assert Path("predictions.csv").read_bytes() == first
    assert load_table_model("model").job.n_wrong >= 299
    assert "'unheard of'" in capsys.readouterr().err


def test_labels_in_a_file_beside_parquet_are_scored(fitted):
    fitted["stream"].drop("label").write_parquet("stream.parquet")
    np.save("labels.npy", fitted["stream"]["label"].to_numpy().astype(str))
    assert main(["adapt", "model", "stream.parquet", "-o", "predictions.csv", "--label", "labels.npy"]) == 0
    assert load_table_model("model").job.n_scored == 300


def test_missing_labels_are_not_scored_and_new_classes_are_counted():
    labels = pl.when(pl.col("id") < 2).then(pl.lit("maybe")).when(pl.col("id") < 100).then("label")
    pl.read_csv("stream.csv").with_columns(label=labels).write_csv("stream.csv")
    assert main([*ADAPT, "--label", "label"]) == 0
    assert load_table_model("model").job.n_scored == 100
    assert (load_table_model("model").model.state_.labelled.y == UNSEEN).sum() == 2


def test_every_form_of_the_stream_gives_the_same_predictions(fitted, monkeypatch):
    stream = fitted["stream"]
    reordered = stream.select(*reversed(stream.columns), pl.lit("?").alias("more"))
    reordered.write_csv("reordered.csv")
    stream.write_csv("stream.tsv", separator="\t")
    stream.write_ndjson("stream.jsonl")
    stream.write_parquet("stream.parquet", row_group_size=37)
    with gzip.open("zipped.csv.gz", "wb") as file:
        file.write(stream.write_csv().encode())
    Path("wide.csv").write_bytes(stream.write_csv().encode("utf-16"))
    assert main([*ADAPT]) == 0
    expected = pl.read_csv("predictions.csv", infer_schema=False)
    for path in ["reordered.csv", "stream.tsv", "stream.jsonl", "stream.parquet", "zipped.csv.gz", "wide.csv", "-"]:
        restore(fitted)
        with Path("stream.csv").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert main(["adapt", "model", path, "-o", "found.csv", "--force", "--new"]) == 0
        found = pl.read_csv("found.csv", infer_schema=False)
        assert found.drop("line").equals(expected.drop("line")), path
        # Only CSV and TSV files have a header, which is their first line.
        first = 1 if path in ("stream.jsonl", "stream.parquet") else 2
        assert found["line"].to_list() == [str(line) for line in range(first, first + 300)], path


def test_every_form_of_output_holds_the_same(tmp_path, fitted):
    frames = {}
    readers = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet, "tsv": pl.read_csv}
    for suffix, read in readers.items():
        restore(fitted)
        path = f"predictions.{suffix}"
        assert main(["adapt", "model", "stream.csv", "-o", path, "--keep", "colour", "--new"]) == 0
        frames[suffix] = read(path, separator="\t") if suffix == "tsv" else read(path)
    assert all(frame.equals(frames["csv"]) for frame in frames.values())
    assert not list(tmp_path.glob("*.partial"))


def test_types_survive_from_parquet_to_parquet(fitted):
    fitted["stream"].with_columns(pl.col("day").str.to_date()).write_parquet("stream.parquet")
    assert main(["adapt", "model", "stream.parquet", "-o", "predictions.parquet", "--keep", "id,day,x0"]) == 0
    found = pl.read_parquet("predictions.parquet")
    assert found.schema["id"] == pl.Int64
    assert found.schema["day"] == pl.Date
    assert found["x0"].to_list() == fitted["stream"]["x0"].to_list()


def test_a_column_called_line_can_be_the_key():
    pl.read_csv("stream.csv").with_columns(line=pl.col("id") * 3).write_csv("stream.csv")
    assert main([*ADAPT, "--key", "line"]) == 0
    assert pl.read_csv("predictions.csv")["line"].to_list() == pl.read_csv("stream.csv")["line"].to_list()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_key_takes_the_place_of_the_line(suffix, fitted):
    fitted["stream"].write_parquet("stream.parquet")
    stream = "stream.parquet" if suffix == "parquet" else "stream.csv"
    options = ["--key", "id", "--keep", "colour,id"]
    assert main(["adapt", "model", stream, "-o", f"predictions.{suffix}", *options]) == 0
    readers = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}
    found = readers[suffix](f"predictions.{suffix}")
    assert found.columns == ["id", "colour", "round", "prediction", "p_no", "p_yes", "ratio"]
    assert found["id"].cast(pl.Int64).to_list() == fitted["stream"]["id"].to_list()
    assert suffix != "parquet" or found.schema["id"] == pl.Int64
    job = load_table_model("model").job
    assert job is not None
    assert job.spec.options["key"] == "id"


def test_the_reference_as_the_stream_is_remarked_on_under_any_name(tmp_path, capsys):
    reference, _ = make_tables()
    fit_model(tmp_path, reference, "--drop", "id", name="own")
    reference.write_csv("copy.csv")
    # As many bytes, but other rows.
    Path("other.csv").write_bytes(Path("reference.csv").read_bytes().replace(b"yes", b"YES"))
    for name, is_told in (("reference", True), ("copy", True), ("stream", False), ("other", False)):
        capsys.readouterr()
        assert main(["adapt", "own", f"{name}.csv", "-o", f"{name}_predicted.csv"]) == 0
        assert ("was fitted on" in capsys.readouterr().err) is is_told
