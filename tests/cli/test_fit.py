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
from accous.table.model import load_table_model
from tests.cli.tables import make_tables

FIT = ["fit", "reference.csv", "--label", "label", "-o", "model"]


@pytest.fixture(autouse=True)
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_tables()[0].write_csv("reference.csv")


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
    assert record["beats_constant"] is True
    assert record["at_fit"] == pytest.approx(1.0 - record["accuracy"])


def test_the_accuracy_of_labels_by_chance_is_that_of_chance(capsys):
    labels = np.where(np.random.default_rng(0).random(300) < 0.5, "a", "b")
    pl.read_csv("reference.csv").with_columns(pl.Series("label", labels)).write_csv("reference.csv")
    assert main([*FIT, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert 0.35 < record["accuracy"] < 0.65
    assert record["beats_constant"] is False


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
    assert main([*FIT, "--no-ordered"]) == 0
    expected = load_table_model("model")
    for path in [*others, "marked.csv", "wide.csv", "latin.csv", "-"]:
        options = ["--encoding", "latin-1"] if path == "latin.csv" else []
        with Path("reference.csv").open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            fit = ["fit", path, "--label", "label", "-o", f"model-{path}", "--no-ordered", "--quiet"]
            assert main([*fit, *options]) == 0
        found = load_table_model(f"model-{path}")
        assert found.encoder == expected.encoder, path
        assert np.array_equal(found.model.reference_, expected.model.reference_), path
        assert np.array_equal(found.model.labels_, expected.model.labels_), path


def test_the_model_loads_in_python_too_with_whole_numbers_as_labels():
    assert main(FIT) == 0
    model = accous.load("model").model
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.reference_.mean(axis=0)[0] == pytest.approx(0.0, abs=1e-12)
    assert model.reference_.std(axis=0)[0] == pytest.approx(1.0)
    pl.read_csv("reference.csv").with_columns(label=pl.col("id") % 3, code=pl.col("id") % 4).write_csv("reference.csv")
    assert main([*FIT, "--force", "--categorical", "code"]) == 0
    saved = accous.load("model")
    assert saved.model.classes_.tolist() == [0, 1, 2]
    codes = [name for name in saved.encoder.feature_names if name.startswith("code")]
    assert codes == ["code = 0", "code = 1", "code = 2", "code = 3"]


@pytest.mark.parametrize("name", ["accous", "ulsif", "kliep", "kmm", "lr", "olre", "none"])
def test_every_ratio_can_be_chosen(name, capsys):
    classes = {"accous": "OnlineDensityRatio", "olre": "SingleLearnerRatio", "none": "NoShift", "lr": "LogisticRatio"}
    assert main([*FIT, "--ratio", name, "--no-ordered", "--quiet"]) == 0
    assert type(accous.load("model").model.ratio_).__name__ == classes.get(name, name.upper())


def test_off_a_terminal_a_long_fit_says_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr("accous.text._SECONDS_BETWEEN_LINES", 0.0)
    assert main([*FIT, "--ordered", "--drop", "id,day"]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if " s left." in line]
    shares = [int(line.partition(": ")[2].partition("%")[0]) for line in lines]
    assert len(shares) > 5
    assert shares == sorted(shares)
    assert main([*FIT, "--ordered", "--drop", "id,day", "--force", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_options_reach_the_model():
    options = ["--feature-map", "identity", "--loss", "kl", "--max-ratio", "7", "--C", "0.5", "--seed", "3"]
    assert main([*FIT, *options]) == 0
    model = accous.load("model").model
    assert (model.C, model.random_state) == (0.5, 3)
    ratio = model.ratio
    assert (ratio.feature_map, ratio.loss, ratio.max_ratio, ratio.random_state) == ("identity", "kl", 7.0, 3)


@pytest.mark.parametrize(
    ("options", "by", "column", "kind"),
    [
        ([], "time", "day", "column"),
        (["--time", "x0"], "time", "x0", "times"),
        (["--ordered"], "rows", None, "given"),
        (["--no-ordered"], None, None, "unordered"),
    ],
)
def test_the_order_in_time_is_printed_and_saved(options, by, column, kind, capsys):
    assert main([*FIT, *options, "--json"]) == 0
    saved = accous.load("model")
    assert json.loads(capsys.readouterr().out)["order"] == saved.settings["order"]
    assert saved.settings["order"] == {"by": by, "column": column, "kind": kind, "p_value": None}
    assert ("x0" in saved.encoder.used_columns) == (column != "x0")


def test_columns_that_mislead_are_left_out_and_listed_unless_you_object(capsys):
    for options, kinds in (([], ["order", "counter"]), (["--quiet", "--keep-as-feature", "id"], ["order"])):
        assert main([*FIT, "--json", "--force", *options]) == 0
        printed = capsys.readouterr()
        remarks = json.loads(printed.out)["remarks"]
        assert sorted(remark["kind"] for remark in remarks) == sorted(kinds)
        assert all(remark["text"] in printed.err for remark in remarks) is not bool(options)
        assert ("id" in load_table_model("model").encoder.used_columns) is bool(options)


def test_bad_rows_are_named_or_set_aside(capsys):
    lines = Path("reference.csv").read_text().splitlines()
    lines[4] = lines[4].rpartition(",")[0] + ","
    lines[9] = "oops," + lines[9].partition(",")[2]
    lines[20] += ",one,more"
    Path("reference.csv").write_text("\n".join(lines))
    assert main(FIT) == 1
    assert "line 5, column 'label'" in capsys.readouterr().err
    assert main([*FIT, "--on-bad-row", "skip", "--rejects", "rejects.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 297
    rejects = pl.read_csv("rejects.csv")
    assert rejects["line"].to_list() == [5, 10, 21]
    assert rejects["column"].to_list() == ["label", "x0", None]
    assert rejects["row"][2] == lines[20]


@pytest.mark.parametrize("turns", [True, False])
def test_the_order_of_rows_without_dates_is_found_and_said_in_one_line(turns, capsys):
    random = np.random.default_rng(3)
    x = random.normal(size=600)
    y = (x > 0.0) ^ (turns & (np.arange(600) > 300)) ^ (random.random(600) < 0.1)
    pl.DataFrame({"id": np.arange(600), "x": x, "label": y}).write_csv("rows.csv")
    assert main(["fit", "rows.csv", "--label", "label", "--estimator", "linear", "-o", "model", "--json"]) == 0
    printed = capsys.readouterr()
    record = json.loads(printed.out)
    assert (record["order"]["kind"], record["order"]["by"]) == (("found", "rows") if turns else ("not found", None))
    assert (record["order"]["p_value"] <= 0.01) is turns
    assert (record["backtest"] is not None) is turns
    said = [remark["text"] for remark in record["remarks"] if remark["kind"] == "order"]
    assert len(said) == 1
    assert said[0] in printed.err


# --- what the model is judged by --------------------------------------------------------------------------------


def test_the_metric_is_that_of_the_model_and_costs_follow_the_classes(capsys):
    make_tables()[1].write_csv("stream.csv")
    # In another order than the classes: to miss a yes costs five times as much as a false alarm.
    Path("costs.csv").write_text("truth,yes,no\nyes,0,5\nno,1,0\n")
    fit = [
        "fit",
        "reference.csv",
        "--label",
        "label",
        "--drop",
        "id",
        "--estimator",
        "linear",
        "-o",
        "costly",
        "--quiet",
    ]
    assert main([*fit, "--metric", "cost", "--cost", "costs.csv", "--threshold", "0.2"]) == 0
    model = load_table_model(Path("costly"))
    assert model.model.rules_.measures.costs.tolist() == [[0.0, 1.0], [5.0, 0.0]]
    assert (model.performance().metric, model.status_.state) == ("cost", model.current().to_json()["state"])
    assert model.performance("recall").at_fit > 0.9  # nearly all have a probability above the threshold
    assert f"cost {model.performance().at_fit:.3g} at fit" in capsys.readouterr().out
    assert main(["adapt", "costly", "stream.csv", "-o", "costly.csv", "--quiet", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metric"], found["basis"]) == ("cost", "expected")
    assert found["low"] < found["value"] < found["high"]


@pytest.mark.parametrize(("n_rare", "is_told"), [(9, False), (30, True), (90, False)])
def test_a_rare_class_gets_another_metric_suggested(n_rare, is_told, capsys):
    number = pl.int_range(pl.len())
    label = pl.when(number % 300 < n_rare).then(pl.lit("rare")).otherwise(pl.lit("usual"))
    make_tables()[0].with_columns(label=label.shuffle(seed=0)).write_csv("reference.csv")
    fit = ["fit", "reference.csv", "--label", "label", "-o", "rare", "--force", "--json", "--estimator", "linear"]
    for options, is_here in (([], is_told), (["--metric", "roc_auc"], False)):
        capsys.readouterr()
        assert main([*fit, *options]) == 0
        remarks = {each["kind"]: each["text"] for each in json.loads(capsys.readouterr().out)["remarks"]}
        assert ("metric" in remarks) is is_here
        assert not is_here or "recall:rare" in remarks["metric"]
