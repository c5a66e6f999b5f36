"""`accous adapt` predicts, learns and writes what the library would, whatever the stream comes in."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

import accous
from accous.cli import main
from accous.cli.adapt import _share_adapted
from accous.diagnostics.trust import VERDICTS
from accous.table.adapt import AdaptJob
from accous.table.model import load_table_model
from accous.table.options import AdaptOptions
from tests.cli.processes import files_of
from tests.cli.tables import make_tables

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
    assert found.columns == expected.columns
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


def test_other_labels_change_no_prediction(tmp_path, fitted, capsys):
    assert main([*ADAPT, "--label", "label"]) == 0
    assert "Is this the column of the labels?" not in capsys.readouterr().err
    first = (tmp_path / "predictions.csv").read_bytes()
    for name, content in fitted["files"].items():
        (tmp_path / "model" / name).write_bytes(content)
    is_first = pl.int_range(pl.len()) == 0
    others = pl.when(is_first).then(pl.lit("yes")).otherwise(pl.lit("unheard of"))
    pl.read_csv("stream.csv").with_columns(label=others).write_csv("stream.csv")
    assert main([*ADAPT, "--label", "label", "--force"]) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == first
    assert load_table_model("model").job.n_wrong >= 299
    assert (
        "--label label: 100% of the first 300 labels are none that the model knows ('no', 'yes') and count as errors; "
        "the first is 'unheard of'. Is this the column of the labels?"
    ) in capsys.readouterr().err


def test_labels_none_of_which_is_a_class_are_an_error_and_leave_the_folder_alone(fitted, capsys):
    assert main([*ADAPT, "--label", "id"]) == 2
    error = capsys.readouterr().err
    assert "--label id: none of the first 300 labels is a class of the model ('no', 'yes')" in error
    assert not Path("predictions.csv").exists()
    assert files_of(Path("model")) == fitted["files"]
    assert main([*ADAPT, "--label", "label"]) == 0


def test_a_column_that_the_model_predicts_from_is_not_taken_for_the_labels(fitted, capsys):
    stream = pl.read_csv("stream.csv").with_columns(colour=pl.col("label"))
    stream.write_csv("stream.csv")  # every value is a class of the model
    assert main([*ADAPT, "--label", "colour"]) == 2
    error = "--label colour: the model uses column 'colour' as a feature, so it cannot be the label. Give the column"
    assert error in capsys.readouterr().err
    assert not Path("predictions.csv").exists()
    assert files_of(Path("model")) == fitted["files"]
    stream.drop("colour").write_parquet("stream.parquet")
    stream.select("colour").write_parquet("colours.parquet")
    assert main(["adapt", "model", "stream.parquet", "-o", "predictions.csv", "--label", "colours.parquet"]) == 2
    assert "--label colours.parquet: the model uses column 'colour' as a feature" in capsys.readouterr().err


def test_labels_in_a_file_beside_parquet_are_looked_at_too(fitted, capsys):
    stream = fitted["stream"]
    stream.drop("label").write_parquet("stream.parquet")
    np.save("labels.npy", stream["label"].to_numpy().astype(str))
    np.save("numbers.npy", np.arange(stream.height))
    adapt = ["adapt", "model", "stream.parquet", "-o", "predictions.csv", "--label"]
    assert main([*adapt, "numbers.npy"]) == 2
    assert "--label numbers.npy: none of the first 300 labels is a class of the model" in capsys.readouterr().err
    assert main([*adapt, "labels.npy"]) == 0
    assert load_table_model("model").job.n_scored == 300


def test_a_run_that_was_stopped_has_the_history_of_one_that_was_not(fitted):
    """A stopped run writes a summary, which reads the estimated error; that must leave no trace in the history."""

    def follow(folder: str, stops: list[int]) -> object:
        Path(folder).mkdir()
        for name, content in fitted["files"].items():
            (Path(folder) / name).write_bytes(content)
        options = AdaptOptions(model=Path(folder), stream="stream.csv", output=f"{folder}.csv")
        for stop in [*stops, 1000]:
            job = AdaptJob(options)
            assert job.begin()
            is_finished = job.follow(should_stop=lambda job=job, stop=stop: job.record.n_rounds >= stop)
            assert is_finished == (stop == 1000)
        return load_table_model(folder).model.history_

    whole, in_parts = follow("whole", []), follow("in_parts", [18, 19, 25])
    pd.testing.assert_frame_equal(whole, in_parts, check_exact=True)
    assert len(whole) == 30
    assert 0 < whole["estimated_error"].notna().sum() < 30


def test_two_labels_of_a_new_class_are_no_error_and_are_named(capsys):
    stream = pl.read_csv("stream.csv")
    labels = pl.when(pl.int_range(pl.len()) < 2).then(pl.lit("maybe"))
    stream.with_columns(label=labels).write_csv("stream.csv")
    assert main([*ADAPT, "--label", "label"]) == 0
    assert load_table_model("model").model.measured_.unseen_classes == {"maybe": 2}
    assert "Labels that the reference does not have count as errors: maybe (2)." in capsys.readouterr().err


def test_an_output_that_cannot_be_written_leaves_the_folder_alone(fitted):
    assert main(["adapt", "model", "stream.csv", "-o", "p.xlsx"]) == 2
    assert files_of(Path("model")) == fitted["files"]


def test_labels_in_a_csv_of_their_own_are_pointed_to_the_command_for_them(fitted, capsys):
    fitted["stream"].select("label").write_csv("labels.csv")
    assert main([*ADAPT, "--label", "labels.csv"]) == 2
    assert "run accous adapt without --label, then accous labels MODEL labels.csv" in capsys.readouterr().err
    assert main(ADAPT) == 0
    assert main(["labels", "model", "labels.csv"]) == 0
    assert "Measured error" in capsys.readouterr().out


def test_quiet_hides_remarks_and_shows_results(capsys):
    assert main([*ADAPT, "--label", "label", "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("300 rows in 30 rounds in predictions.csv. Error of the fixed model")
    assert printed.err == ""
    assert main(["adapt", "model", "stream.csv", "-q", "--new"]) == 0
    assert capsys.readouterr().err == ""


def test_missing_labels_are_not_scored():
    stream = pl.read_csv("stream.csv")
    stream.with_columns(label=pl.when(pl.col("id") < 100).then("label")).write_csv("stream.csv")
    assert main([*ADAPT, "--label", "label"]) == 0
    assert load_table_model("model").job.n_scored == 100


def test_every_form_of_the_stream_gives_the_same_predictions(tmp_path, fitted, monkeypatch):
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
        for name, content in fitted["files"].items():
            (tmp_path / "model" / name).write_bytes(content)
        with Path("stream.csv").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert main(["adapt", "model", path, "-o", "found.csv", "--force", "--new"]) == 0
        found = pl.read_csv("found.csv", infer_schema=False)
        assert found.drop("line").equals(expected.drop("line")), path
        # Only CSV and TSV files have a header, which is their first line.
        first = 1 if path in ("stream.jsonl", "stream.parquet") else 2
        assert found["line"].to_list() == [str(line) for line in range(first, first + 300)], path


def test_every_form_of_output_holds_the_same(tmp_path, fitted, capfdbinary):
    frames = {}
    readers = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet, "tsv": pl.read_csv}
    for suffix, read in readers.items():
        for name, content in fitted["files"].items():
            (tmp_path / "model" / name).write_bytes(content)
        path = f"predictions.{suffix}"
        assert main(["adapt", "model", "stream.csv", "-o", path, "--keep", "colour", "--new"]) == 0
        frames[suffix] = read(path, separator="\t") if suffix == "tsv" else read(path)
    assert all(frame.equals(frames["csv"]) for frame in frames.values())
    assert not list(tmp_path.glob("*.partial"))
    capfdbinary.readouterr()


def test_types_survive_from_parquet_to_parquet(fitted):
    fitted["stream"].with_columns(pl.col("day").str.to_date()).write_parquet("stream.parquet")
    assert main(["adapt", "model", "stream.parquet", "-o", "predictions.parquet", "--keep", "id,day,x0"]) == 0
    found = pl.read_parquet("predictions.parquet")
    assert found.schema["id"] == pl.Int64
    assert found.schema["day"] == pl.Date
    assert found["x0"].to_list() == fitted["stream"]["x0"].to_list()


def test_predictions_that_are_there_are_not_replaced(tmp_path, capsys):
    (tmp_path / "predictions.csv").write_text("precious")
    assert main(ADAPT) == 1
    assert "predictions.csv already exists and is not an unfinished output of this model" in capsys.readouterr().err
    assert (tmp_path / "predictions.csv").read_text() == "precious"
    assert main([*ADAPT, "--force"]) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*ADAPT, "--batch-size", "0"], "--batch-size must be between"),
        ([*ADAPT, "--save-every", "often"], "--save-every must be"),
        ([*ADAPT, "--save-every", "0s"], "--save-every must be"),
        ([*ADAPT, "--unknown-category", "cry"], "--unknown-category must be one of"),
        (["adapt", "model", "stream.csv", "--json"], "both go to stdout"),
        (["adapt", "model", "stream.csv", "-o", "stream.csv"], "STREAM and --output are the same file"),
        (["adapt", "model", "stream.csv", "-o", "model/p.csv"], "inside the model's folder"),
        (
            ["adapt", "model", "stream.csv", "-o", "p.xlsx"],
            "written as .xlsx (p.xlsx): use a name that ends in .csv, .tsv, .jsonl or .parquet",
        ),
        (["adapt", "model", "stream.csv", "-o", "p.npy"], "written as .npy (p.npy): use a name"),
        (["adapt", "model", "stream.csv", "-o", "p"], "written to a name without an ending (p): use a name"),
        (["adapt", "model", "rows.xlsx", "-o", "p.csv"], "rows.xlsx is a spreadsheet, which accous does not read"),
        (["adapt", "model", "-", "--format", "parquet", "-o", "p.csv"], "Parquet must be a finished file"),
    ],
)
def test_a_wrong_argument_gets_one_sentence_and_exit_code_2(arguments, sentence, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["adapt", "nothing", "stream.csv"], "nothing is not a folder: make a model with accous fit first"),
        (["adapt", ".", "stream.csv"], ". holds no saved model"),
        (["adapt", "model", "none.csv"], "none.csv cannot be read: No such file"),
        (["adapt", "model", "stream.csv", "-o", "nowhere/p.csv"], "nowhere/p.csv cannot be written to"),
    ],
)
def test_what_cannot_be_used_gets_one_sentence_and_exit_code_1(arguments, sentence, capsys):
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--keep", "--keep nothing: stream.csv has no such column"),
        ("--by", "stream.csv has no column 'nothing'"),
        ("--label", "stream.csv has no column 'nothing'"),
    ],
)
def test_a_column_that_the_stream_does_not_have_is_a_wrong_argument(option, sentence, capsys):
    assert main([*ADAPT, option, "nothing"]) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


def test_a_column_called_like_one_of_ours_cannot_be_kept(capsys):
    pl.read_csv("stream.csv").with_columns(ratio=1).write_csv("stream.csv")
    assert main([*ADAPT, "--keep", "ratio"]) == 2
    assert "--keep ratio: the predictions have a column with that name" in capsys.readouterr().err


def test_a_column_called_line_can_be_the_key_but_not_be_kept_beside_ours(capsys):
    pl.read_csv("stream.csv").with_columns(line=pl.col("id") * 3).write_csv("stream.csv")
    assert main([*ADAPT, "--keep", "line"]) == 2
    assert "--keep line: the predictions have a column with that name; rename yours." in capsys.readouterr().err
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


@pytest.mark.parametrize("name", ["nothing", "round"])
def test_a_key_that_is_not_there_or_is_called_like_one_of_ours_is_refused(name, capsys):
    pl.read_csv("stream.csv").with_columns(round=1).write_csv("stream.csv")
    assert main([*ADAPT, "--key", name]) == 2
    message = capsys.readouterr().err
    assert ("has no column 'nothing'" if name == "nothing" else "--key round: the predictions have a column") in message


def test_a_model_saved_from_python_has_no_preprocessing(capsys):
    accous.save(accous.load("model").model, "plain")
    assert main(["adapt", "plain", "stream.csv", "-o", "predictions.csv"]) == 1
    assert "plain holds a model that was saved from Python" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [["inspect"], ["report", "-o", "page.html"], ["serve", "--port", "0"]],
    ids=lambda command: command[0],
)
def test_commands_do_not_ask_for_the_pipeline_of_a_model_saved_from_python(command, capsys):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    accous.save(accous.AdaptiveClassifier(LogisticRegression()).fit(rows, rows[:, 0] > 0.0), "pipeline")
    assert main([command[0], "pipeline", *command[1:]]) == 1
    message = capsys.readouterr().err
    assert "the command line needs one made by accous fit" in message
    assert "pass them again" not in message


def test_inspect_shows_the_state(capsys):
    assert main([*ADAPT, "--label", "label", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["inspect", "model", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rounds"] == 30
    assert record["last_run"]["finished"]
    assert record["trust"] in VERDICTS
    assert sum(record["weight_of_interval_length"].values()) == pytest.approx(1.0)
    assert main(["inspect", "model"]) == 0
    shown = capsys.readouterr().out
    assert "error of the last run" in shown
    assert "What is done with each column" in shown
    assert main(["inspect", "model", "--quiet"]) == 0
    assert "What is done with each column" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("share", "n_counted", "n_rounds", "text"),
    [
        (0.0, 30, 30, ""),
        (0.25, 40, 40, "; the adapted model predicted 25% of the rounds"),
        (0.0049, 10_000, 10_000, "; the adapted model predicted less than 1% of the rounds"),
        (0.5, 10_000, 12_000, "; the adapted model predicted 50% of the last 10,000 rounds"),
    ],
)
def test_the_share_of_rounds_names_the_rounds_that_it_counts(share, n_counted, n_rounds, text):
    assert _share_adapted(share, n_counted, n_rounds) == text


def test_the_reference_as_the_stream_is_remarked_on_under_any_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    reference, stream = make_tables()
    reference.write_csv("reference.csv")
    stream.write_csv("stream.csv")
    assert main(["fit", "reference.csv", "--label", "label", "--drop", "id", "-o", "own", "-q"]) == 0
    reference.write_csv("copy.csv")
    # As many bytes, but other rows.
    Path("other.csv").write_bytes(Path("reference.csv").read_bytes().replace(b"yes", b"YES"))
    for name, is_told in (("reference", True), ("copy", True), ("stream", False), ("other", False)):
        capsys.readouterr()
        assert main(["adapt", "own", f"{name}.csv", "-o", f"{name}_predicted.csv"]) == 0
        told = f"{name}.csv is the file that the model was fitted on: its rows are not new to the model"
        assert (told in capsys.readouterr().err) is is_told
