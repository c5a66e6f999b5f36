"""`accous fit`: a labelled table in any form becomes a model, and it says what was done with each column."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main
from accous.cli.fit import _signed
from accous.diagnostics.messages import ERRORS
from accous.report.words import judge_in_words, report_source
from accous.table.model import load_table_model
from tests.cli.tables import make_tables

FIT = ["fit", "reference.csv", "--label", "label", "-o", "model"]


@pytest.fixture(autouse=True)
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    make_tables()[0].write_csv("reference.csv")


def test_it_prints_what_is_done_with_each_column_and_the_accuracy(capsys):
    assert main(FIT) == 0
    printed = capsys.readouterr()
    rows = {line.split("│")[1].strip(): line for line in printed.out.splitlines() if line.startswith("│")}
    assert rows.keys() == {"x0", "x1", "x2", "x3", "id", "colour", "day"}
    assert "marked" in rows["x1"]
    assert "marked" not in rows["x0"]
    assert "3 levels" in rows["colour"]
    assert "week" in rows["day"]
    assert "300 rows" in printed.out
    assert "Error on the reference, in blocks of time, each predicted by a fit on all rows before it: " in printed.out
    assert "The rows are taken in the order of the date column 'day'" in printed.err
    assert "Model: model" in printed.err


def test_json_is_all_that_stdout_gets_and_the_accuracy_is_that_of_held_out_rows(capsys):
    assert main([*FIT, "--json", "--quiet", "--drop", "id,day"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert printed.err == ""
    assert record["rows"] == 300
    assert record["features"] == 4 + 1 + 3
    assert sum(record["classes"].values()) == 300
    assert [column["kind"] for column in record["columns"]] == ["number"] * 4 + ["left out", "category", "left out"]
    assert record["largest_class"] < record["accuracy"] < 0.95


def test_a_model_that_is_no_better_than_the_most_frequent_class_is_called_so(capsys):
    said = "The model is no better than always predicting the most frequent class."
    assert main(FIT) == 0
    assert said not in capsys.readouterr().out
    labels = np.where(np.random.default_rng(0).random(300) < 0.7, "a", "b")
    pl.read_csv("reference.csv").with_columns(pl.Series("label", labels)).write_csv("reference.csv")
    assert main([*FIT, "--force"]) == 0
    assert said in capsys.readouterr().out.splitlines()
    assert main(["inspect", "model", "--quiet"]) == 0
    assert said in capsys.readouterr().out
    assert judge_in_words(report_source(load_table_model("model"), "model")).trust == said


def test_an_error_that_equals_that_of_the_most_frequent_class_is_no_better(capsys):
    labels = np.where(np.arange(300) % 10 == 0, "a", "b")  # 1 - (1 - 0.1) lies below 0.1
    frame = pl.read_csv("reference.csv").select(
        pl.lit(1.0).alias("x") + pl.int_range(300) % 2, pl.Series("label", labels)
    )
    frame.write_csv("reference.csv")
    assert main(["fit", "reference.csv", "--label", "label", "-o", "model", "--force", "--estimator", "linear"]) == 0
    printed = capsys.readouterr().out
    assert "10.0% (always the most frequent class: 10.0%)" in printed
    assert "The model is no better than always predicting the most frequent class." in printed


def test_the_accuracy_of_labels_by_chance_is_that_of_chance(capsys):
    labels = np.where(np.random.default_rng(0).random(300) < 0.5, "a", "b")
    pl.read_csv("reference.csv").with_columns(pl.Series("label", labels)).write_csv("reference.csv")
    assert main([*FIT, "--json"]) == 0
    assert 0.35 < json.loads(capsys.readouterr().out)["accuracy"] < 0.65


@pytest.mark.slow
def test_every_form_of_a_table_gives_the_same_model(monkeypatch):
    table = pl.read_csv("reference.csv")
    table.write_csv("reference.tsv", separator="\t")
    table.write_csv("semicolons.csv", separator=";")
    table.write_ndjson("reference.jsonl")
    table.write_parquet("reference.parquet")
    with gzip.open("zipped.csv.gz", "wb") as file:
        file.write(table.write_csv().encode())
    Path("marked.csv").write_bytes(table.write_csv().replace("\n", "\r\n").encode("utf-8-sig"))
    Path("wide.csv").write_bytes(table.write_csv().encode("utf-16"))
    Path("latin.csv").write_bytes(table.write_csv().encode("latin-1"))
    others = ["reference.tsv", "semicolons.csv", "reference.jsonl", "reference.parquet", "zipped.csv.gz"]
    assert main([*FIT, "--unordered"]) == 0
    expected = load_table_model("model")
    for path in [*others, "marked.csv", "wide.csv", "latin.csv", "-"]:
        options = ["--encoding", "latin-1"] if path == "latin.csv" else []
        with Path("reference.csv").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert (
                main(["fit", path, "--label", "label", "-o", f"model-{path}", "--unordered", "--quiet", *options]) == 0
            )
        found = load_table_model(f"model-{path}")
        assert found.encoder == expected.encoder, path
        assert np.array_equal(found.model.reference_, expected.model.reference_), path
        assert np.array_equal(found.model.labels_, expected.model.labels_), path


def test_the_model_loads_in_python_too(capsys):
    assert main(FIT) == 0
    model = accous.load("model").model
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.reference_.mean(axis=0)[0] == pytest.approx(0.0, abs=1e-12)
    assert model.reference_.std(axis=0)[0] == pytest.approx(1.0)


def test_whole_numbers_as_labels_stay_numbers():
    pl.read_csv("reference.csv").with_columns(label=pl.col("id") % 3).write_csv("reference.csv")
    assert main(FIT) == 0
    assert accous.load("model").model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["accous", "ulsif", "kliep", "kmm", "lr", "olre", "none"])
def test_every_ratio_can_be_chosen(name, capsys):
    classes = {"accous": "OnlineDensityRatio", "olre": "SingleLearnerRatio", "none": "NoShift", "lr": "LogisticRatio"}
    assert main([*FIT, "--ratio", name, "--unordered", "--quiet"]) == 0
    assert type(accous.load("model").model.ratio).__name__ == classes.get(name, name.upper())


def test_options_reach_the_model():
    options = ["--feature-map", "identity", "--loss", "kl", "--max-ratio", "7", "--C", "0.5", "--seed", "3"]
    assert main([*FIT, *options]) == 0
    model = accous.load("model").model
    assert (model.C, model.random_state) == (0.5, 3)
    ratio = model.ratio
    assert (ratio.feature_map, ratio.loss, ratio.max_ratio, ratio.random_state) == ("identity", "kl", 7.0, 3)


def test_a_number_column_can_be_read_as_categories():
    pl.read_csv("reference.csv").with_columns(code=pl.col("id") % 4).write_csv("reference.csv")
    assert main([*FIT, "--categorical", "code"]) == 0
    assert [name for name in load_table_model("model").encoder.feature_names if name.startswith("code")] == [
        "code = 0",
        "code = 1",
        "code = 2",
        "code = 3",
    ]


def test_the_order_in_time_is_printed_and_saved(capsys):
    orders = {
        (): ("time", "day"),
        ("--time", "x0"): ("time", "x0"),
        ("--ordered",): ("rows", None),
        ("--unordered",): (None, None),
    }
    for options, (by, column) in orders.items():
        assert main([*FIT, *options, "--json", "--force"]) == 0
        assert json.loads(capsys.readouterr().out)["order"] == {"by": by, "column": column}
        saved = accous.load("model")
        assert saved.settings["order"] == {"by": by, "column": column}
        assert ("x0" in saved.encoder.used_columns) == (column != "x0")
    assert main([*FIT, "--unordered", "--force"]) == 0
    printed = capsys.readouterr()
    assert "Error on the reference, cross-validated: " in printed.out
    assert "in the order of" not in printed.err


def test_traps_are_left_out_and_listed_unless_you_object(capsys):
    assert main([*FIT, "--json"]) == 0
    printed = capsys.readouterr()
    remarks = {remark["column"]: remark for remark in json.loads(printed.out)["remarks"]}
    assert {column: remark["kind"] for column, remark in remarks.items()} == {"day": "order", "id": "counter"}
    assert "Column 'id' is left out: a counter" in remarks["id"]["text"]
    assert remarks["id"]["text"] in printed.err
    assert "id" not in load_table_model("model").encoder.used_columns
    assert main([*FIT, "--json", "--force", "--quiet", "--keep-as-feature", "id"]) == 0
    printed = capsys.readouterr()
    assert [remark["kind"] for remark in json.loads(printed.out)["remarks"]] == ["order"]
    assert printed.err == ""
    assert "id" in load_table_model("model").encoder.used_columns


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "none.csv", "--label", "y", "-o", "m"], "none.csv cannot be read: No such file or directory"),
        ([*FIT, "--format", "parquet"], "reference.csv is not a readable Parquet file"),
        (["fit", ".", "--label", "y", "-o", "m", "--format", "csv"], ". is a folder: give a file"),
    ],
)
def test_what_cannot_be_read_gets_one_sentence_and_exit_code_1(arguments, sentence, capsys):
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fit", "reference.csv", "--label", "y", "-o", "m"], "reference.csv has no column 'y'"),
        ([*FIT, "--drop", "nothing"], "--drop nothing: reference.csv has no such column"),
        ([*FIT, "--categorical", "nothing"], "--categorical nothing: reference.csv has no such column"),
        ([*FIT, "--drop", "label"], "The label 'label' cannot be dropped"),
        ([*FIT, "--keep-as-feature", "nothing"], "--keep-as-feature nothing: reference.csv has no such column"),
        ([*FIT, "--time", "dya"], "reference.csv has no column 'dya'"),
        ([*FIT, "--time", "label"], "--time label is the label"),
        ([*FIT, "--time", "day", "--ordered"], "--time sorts the rows"),
        ([*FIT, "--ratio", "best"], "--ratio must be one of"),
        ([*FIT, "--ratio", "kmm", "--loss", "kl"], "--loss cannot be combined with --ratio kmm"),
        ([*FIT, "--on-bad-row", "cry"], "--on-bad-row must be one of"),
        ([*FIT, "--seed", "-1"], "--seed must be between"),
        ([*FIT, "--encoding", "klingon"], "--encoding 'klingon' is unknown"),
        ([*FIT, "--separator", "::"], "--separator must be one character"),
        ([*FIT, "--C", "-1"], "C must be"),
        ([*FIT, "--max-ratio", "0"], "max_ratio must be"),
        ([*FIT, "--feature-map", "deep"], "feature_map must be"),
        (["fit", "reference", "--label", "y", "-o", "m"], "does not tell the file format"),
        (["fit", "reference.csv", "-o", "m"], "--label"),
    ],
)
def test_a_wrong_argument_gets_one_sentence_and_exit_code_2(arguments, sentence, capsys):
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "bad.csv is empty"),
        ("\n\n", "bad.csv is empty"),
        ("x,label\n", "bad.csv has no row with a label"),
        ("x,label\n1,\n2,\n", "bad.csv has no row with a label"),
        ("x,label\n1,a\n2,a\n", "the label 'label' is always 'a'"),
        ("x,x,label\n1,2,a\n", "two columns are called 'x'"),
        ("x,label\n1,a\n1,b\n", "No column of the reference can be used as a feature"),
    ],
)
def test_tables_without_what_is_needed_are_refused(content, sentence, tmp_path, capsys):
    (tmp_path / "bad.csv").write_text(content)
    assert main(["fit", "bad.csv", "--label", "label", "-o", "model"]) == 1
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_a_label_that_is_a_measurement_is_refused_as_a_class(capsys):
    assert main(["fit", "reference.csv", "--label", "x0", "--task", "classification", "-o", "model"]) == 1
    assert "300 different values, too many for classes" in capsys.readouterr().err


def test_a_model_is_replaced_only_when_asked_for(capsys):
    assert main(FIT) == 0
    assert main(FIT) == 1
    assert "model already holds a model: give another folder, or use --force" in capsys.readouterr().err
    assert main([*FIT, "--force", "--seed", "5"]) == 0
    assert accous.load("model").model.random_state == 5


def test_a_folder_of_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.tex").write_text("years of work")
    assert main([*FIT, "--force"]) == 1
    assert "holds something that accous did not save" in capsys.readouterr().err
    assert (tmp_path / "model" / "thesis.tex").read_text() == "years of work"


def test_bad_rows_are_named_or_set_aside(tmp_path, capsys):
    lines = (tmp_path / "reference.csv").read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    lines[9] = "oops," + lines[9].partition(",")[2]
    lines[20] += ",one,more"
    (tmp_path / "reference.csv").write_text("\n".join(lines))
    assert main(FIT) == 1
    assert "reference.csv, line 5, column 'label': the label is missing" in capsys.readouterr().err
    assert main([*FIT, "--on-bad-row", "skip", "--rejects", "rejects.csv"]) == 0
    printed = capsys.readouterr()
    assert "3 bad rows set aside, in rejects.csv; the first: line 5" in printed.err
    assert "297 rows" in printed.out
    rejects = pl.read_csv("rejects.csv")
    assert rejects["line"].to_list() == [5, 10, 21]
    assert rejects["column"].to_list() == ["label", "x0", None]
    assert "'oops' is not a number" in rejects["reason"][1]
    assert rejects["row"][2] == lines[20]


def test_a_gain_that_is_shown_as_nothing_has_no_sign():
    shown = [_signed(gain, ERRORS) for gain in (-0.0004, 0.0004, 0.0, -0.0006, 0.012)]
    assert shown == ["0.0 points", "0.0 points", "0.0 points", "-0.1 points", "+1.2 points"]
    assert _signed(None, ERRORS) == "-"
