"""`accous backtest` replays a labelled table, and `accous fit` keeps the outcome with the model."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous import AdaptiveClassifier
from accous import backtest as replay
from accous.cli import main
from accous.table.model import load_table_model
from tests.budgets import rest_slow

BACKTEST = ["backtest", "reference.csv", "--label", "label", "--ordered"]
FIT = ["fit", "reference.csv", "--label", "label", "-o", "model", "--quiet"]
N_ROWS = 300


def write_reference(*, turns_round: bool = False, n_rows: int = N_ROWS, moves_by: float = 0.0) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(n_rows, 2)) + np.linspace(0.0, moves_by, n_rows)[:, None]
    is_right = X[:, 0] + random.normal(size=n_rows) > 0.0
    if turns_round:
        is_right ^= np.arange(n_rows) >= n_rows // 2
    days = [str(np.datetime64("2024-01-01") + row) for row in range(n_rows)]
    columns = {"a": X[:, 0], "b": X[:, 1], "day": days, "label": np.where(is_right, "yes", "no")}
    pl.DataFrame(columns).write_csv("reference.csv")


@pytest.fixture(autouse=True)
def _reference(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_reference()


def json_of(capsys, *options: str) -> dict:
    capsys.readouterr()
    assert main([*BACKTEST, "--json", *options]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # NaN is no JSON


def test_json_holds_what_the_function_returns(capsys):
    found = json_of(capsys, "--drop", "b,day")
    X = pl.read_csv("reference.csv")["a"].to_numpy()
    y = pl.read_csv("reference.csv")["label"].to_numpy()
    expected = replay(AdaptiveClassifier(standardize=False, random_state=0), ((X - X.mean()) / X.std())[:, None], y)
    assert found["verdict"] == expected.verdict
    assert [look["error_fixed"] for look in found["table"]] == [look.error_fixed for look in expected.looks]
    assert found["looks"] == len(found["table"]) == len(expected.looks)


def test_what_a_short_replay_cannot_know_is_null(capsys):
    write_reference(n_rows=120)
    table = json_of(capsys)["table"]
    assert table[-1]["drift"] is None, "24 rows are too few to measure a drift"
    assert table[0]["drift"] is not None
    assert main(BACKTEST) == 0
    lines = [line.split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [line[3].strip() for line in lines] == [f"{look['error_fixed']:.1%}" for look in table]
    assert [line[5].strip() for line in lines][-1] == "unknown"


def test_a_column_of_times_and_rows_in_order_give_the_same(capsys):
    expected = json_of(capsys, "--drop", "day")
    pl.read_csv("reference.csv").sample(fraction=1.0, shuffle=True, seed=1).write_csv("reference.csv")
    assert main(["backtest", "reference.csv", "--label", "label", "--time", "day", "--drop", "day", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == expected["table"]
    assert json_of(capsys, "--drop", "day")["table"] != expected["table"]


def test_smaller_batches_are_other_rounds(capsys):
    write_reference(moves_by=2.0)
    one, other = (json_of(capsys, "--batch-size", size)["table"] for size in ("1", "50"))
    assert [look["stop"] for look in one] == [look["stop"] for look in other]
    assert [look["error_adapted"] for look in one] != [look["error_adapted"] for look in other]


@pytest.mark.parametrize("name", rest_slow(["replay.svg", "replay.png"]))
def test_a_picture_is_made_and_not_replaced_without_permission(name, capsys):
    assert main([*BACKTEST, "--plot", name]) == 0
    picture = Path(name).read_bytes()
    assert picture[:4] == b"\x89PNG" or b"<svg" in picture
    Path(name).write_text("mine")
    capsys.readouterr()
    assert main([*BACKTEST, "--plot", name]) == 1
    assert (capsys.readouterr().out, Path(name).read_text()) == ("", "mine")
    assert main([*BACKTEST, "--plot", name, "--force"]) == 0
    assert Path(name).read_bytes()[:4] == picture[:4]


# --- with a model -------------------------------------------------------------------------------------------


def test_fit_prints_the_sentences_and_stores_the_outcome(capsys):
    assert main([*FIT, "--ordered"]) == 0
    printed = capsys.readouterr().out
    found = load_table_model("model").model.backtest_
    assert found.sentence in printed
    record = json_of(capsys)
    assert found.summary() == {name: value for name, value in record.items() if name not in ("table", "estimator")}
    assert main([*FIT, "--ordered", "--force", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["backtest"] == found.summary()
    # One engine: what fit says of windows decides the state, and is by the model's own held-out predictions.
    assert fitted["worst_window"] == load_table_model("model").snapshot().windows.worst
    assert f"{100.0 * fitted['worst_window']:.1f} points higher" in printed


@pytest.mark.parametrize(
    ("n_rows", "options", "has_one"), [(300, [], True), (300, ["--no-ordered"], False), (80, ["--ordered"], False)]
)
def test_a_date_column_gives_the_order_and_without_one_or_with_few_rows_nothing_is_verified(
    n_rows, options, has_one, capsys
):
    write_reference(n_rows=n_rows)
    assert main([*FIT, *options, "--json"]) == 0
    assert (json.loads(capsys.readouterr().out)["backtest"] is not None) is has_one
    assert (load_table_model("model").model.backtest_ is not None) is has_one


@pytest.mark.parametrize(("turns_round", "adaptation", "guard"), [(True, "auto", "lenient"), (True, "always", "free")])
def test_the_second_sentence_says_what_this_model_does(turns_round, adaptation, guard, capsys):
    write_reference(turns_round=turns_round)
    assert main([*FIT, "--ordered", "--adaptation", adaptation]) == 0
    rule = load_table_model("model").model.rules_.guard
    assert rule.name == guard
    assert rule.sentence in capsys.readouterr().out.splitlines()[-1]


def write_stream() -> None:
    random = np.random.default_rng(5)
    days = [str(np.datetime64("2025-01-01") + row // 4) for row in range(N_ROWS)]
    pl.DataFrame({"a": random.normal(size=N_ROWS), "b": random.normal(size=N_ROWS), "day": days}).write_csv(
        "stream.csv"
    )


@pytest.mark.parametrize(
    ("order", "turns_round", "state", "code"),
    [
        ("--no-ordered", False, "uncertain", "no_backtest"),
        ("--ordered", True, "healthy", "inputs_as_before"),  # no worse than at fit, where it errs on more than half
    ],
)
def test_the_status_names_what_the_windows_of_the_reference_showed(order, turns_round, state, code, capsys):
    write_reference(turns_round=turns_round, n_rows=600)
    write_stream()
    assert main([*FIT, order, "--drop", "day", "--estimator", "linear"]) == 0
    assert main(["adapt", "model", "stream.csv", "-o", "predictions.csv", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["status", "model", "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["state"], found["reasons"][0]["code"]) == (state, code)
    assert found["low"] <= found["value"] <= found["high"]
