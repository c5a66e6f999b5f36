"""`accous status`: one screen and one JSON object about a model, and exit codes for whoever watches it."""

import json
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model
from tests.cli.late_labels import N_ROWS, labels, run, write

pytestmark = pytest.mark.usefixtures("predicted_folder")
FIELDS = {"state", "alarm", "alarm_since", "metric", "value", "low", "high", "basis", "at_fit", "n_labels", "rounds"}
FIELDS |= {"rows", "reasons", "advice", "metrics", "segments", "drift", "learning"}
BY_ID = ["--key", "id"]


def status(capsys, *options: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["status", "model", *options]) == code
    return capsys.readouterr().out


def status_json(capsys, *options: str, code: int = 0) -> dict:
    return json.loads(status(capsys, *options, "--json", code=code))


def wrong_labels() -> str:
    other = pl.col("prediction").replace_strict({"yes": "no", "no": "yes"})
    return write(pl.read_csv("predictions.csv").select("id", label=other))


def test_json_is_what_the_model_says(capsys):
    found = status_json(capsys, "--metric", "roc_auc,recall:yes", "--metric", "f1_macro", "--by", "colour")
    model = load_table_model(Path("model"))
    now = model.performance()
    assert found.keys() == FIELDS
    assert (found["state"], found["alarm"], found["rounds"]) == (model.status_.state, False, model.model.n_rounds_)
    assert (found["metric"], found["basis"], found["n_labels"]) == ("error", "expected", 0)
    assert (found["value"], found["low"], found["high"], found["at_fit"]) == (now.value, now.low, now.high, now.at_fit)
    assert list(found["metrics"]) == ["roc_auc", "recall:yes", "f1_macro"]
    assert found["metrics"]["roc_auc"]["value"] == model.performance("roc_auc").value
    assert {each["segment"] for each in found["segments"]} == {"blue", "grün", "red"}
    values = [each["value"] for each in found["segments"]]
    assert values == sorted(values, reverse=True)
    assert [each["code"] for each in found["reasons"]] == [str(each.code) for each in model.status_.reasons]
    stream = str(Path("stream.csv").resolve())
    assert found["advice"]["command"] == f"accous ask model {stream} -n {found['advice']['n']} -o to_label.csv"


def test_labels_decide_and_conditions_give_exit_code_3(capsys):
    watched = ["--fail-if", "degraded", "--fail-if", "alarm"]
    status(capsys, *watched)
    run(capsys, write(labels()), *BY_ID)
    found = status_json(capsys, *watched)
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != labels()["label"]
    assert (found["basis"], found["n_labels"]) == ("labels", N_ROWS)
    assert found["value"] == pytest.approx(is_wrong.mean(), abs=0.005)  # the oldest count less
    run(capsys, wrong_labels(), *BY_ID)
    found = status_json(capsys, "--fail-if", "degraded", code=3)
    assert (found["state"], found["reasons"][0]["code"]) == ("degraded", "labels_beyond")
    assert found["value"] == pytest.approx(1.0)
    assert found["advice"]["code"] == "learn"
    assert found["alarm"]
    status(capsys, "--fail-if", "alarm", code=3)
    assert main(["status", "model", "--fail-if", "error > 20%"]) == 2


def test_it_fits_on_a_screen_and_names_columns_as_then_and_now(capsys):
    shown = status(capsys)
    assert shown.count("\n") <= 24
    assert "expected if" in shown
    found = status_json(capsys)
    assert all(each["text"] in " ".join(shown.split()) for each in found["reasons"][:4])
    moved = found["drift"]["columns"]
    assert {each["name"] for each in moved} <= {"x0", "x1", "x2", "x3", "colour"}  # day tells the time
    x0 = next(each for each in moved if each["name"] == "x0")
    stream = pl.read_csv("stream.csv")["x0"]
    assert x0["now"] == pytest.approx(stream.mean(), abs=0.05)


def test_segments_of_a_number_are_quarters_and_of_others_refused(capsys):
    assert len(status_json(capsys, "--by", "x0")["segments"]) == 4
    for column in ("day", "id", "colur"):
        assert main(["status", "model", "--by", column]) == 2
    assert "colour" in capsys.readouterr().err
