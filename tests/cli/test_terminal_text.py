"""Names from files that anybody may have written: no terminal obeys them, and the JSON has them as they are."""

import json
import logging
import unicodedata
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.cli.serve import PlainFormatter

COLUMN = "x\x1b]0;owned\x07\x1b[2J"
NEXT_LINE = "y\naccous: all is well\r"
MARKUP = "[red]:bug:[/red]"
LABEL, OTHER = "\u202eoffer\u2066", "no\x9b1m"


def _table(path: str, n_rows: int, shift: float) -> None:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 3)) + shift
    colours = np.where(X[:, 1] > 0, "red\x1b[31m", "blue\u200f")
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=n_rows) > 0, LABEL, OTHER)
    columns = {COLUMN: X[:, 0], NEXT_LINE: X[:, 1], MARKUP: X[:, 2], "c\x00": colours, "label\u202a": labels}
    pl.DataFrame({"id": np.arange(n_rows), **columns}).write_parquet(path)


def _is_plain(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each) not in ("Cc", "Cf") for each in text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _table("reference.parquet", 300, 0.0)
    _table("stream.parquet", 200, 1.5)
    labels = pl.read_parquet("stream.parquet").select("id", pl.col("label\u202a"))
    is_new = pl.when(pl.col("id") < 10).then(pl.lit("new\x1b[5m")).otherwise(pl.col("label\u202a"))
    labels.with_columns(is_new.alias("label\u202a")).write_parquet("labels.parquet")


def test_no_command_prints_what_a_terminal_obeys(folder, capfd):
    label = ["--label", "label\u202a"]
    run = ["-o", "predictions.csv", "--batch-size", "20", "--key", "id"]
    commands = [
        ["fit", "reference.parquet", *label, "-o", "model", "--drop", "id"],
        ["adapt", "model", "stream.parquet", *run],
        ["predict", "model", "stream.parquet", "-o", "again.csv", "--unknown-category", "use"],
        ["status", "model", "--by", MARKUP],
        ["ask", "model", "stream.parquet", "-n", "5", "-o", "asked.csv", "--key", "id"],
        ["labels", "model", "labels.parquet", "--key", "id"],
        ["report", "model", "-o", "report.html"],
        ["status", "model", "--by", MARKUP],
        ["backtest", "reference.parquet", *label, "--ordered"],
        ["fit", "reference.parquet", "--label", "label", "-o", "other"],
        ["adapt", "model", "stream.parquet", "-o", "p.csv", "--key", "\x1b[2J"],
    ]
    printed = {}
    for number, command in enumerate(commands):
        code = main(command)
        out, err = capfd.readouterr()
        printed[number] = out + err
        assert (code == 0) == (number < 9), printed[number]
        assert _is_plain(out + err), (command, out + err)
    assert "x\\x1b]0;owned\\x07\\x1b[2J" in printed[0]
    assert "y\\naccous: all is well\\r" in printed[0]
    assert MARKUP in printed[0]
    assert "\\u202eoffer\\u2066" in printed[0]
    assert MARKUP in printed[3]
    assert "new\\x1b[5m" in printed[5]


def test_the_json_has_the_names_as_they_are(folder, capfd):
    assert main(["fit", "reference.parquet", "--label", "label\u202a", "-o", "model", "-q", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert {COLUMN, NEXT_LINE, MARKUP} <= {each["column"] for each in found["columns"]}
    assert set(found["classes"]) == {LABEL, OTHER}
    assert Path("model").is_dir()


def test_the_log_of_a_service_quotes_clients_plainly():
    record = logging.LogRecord("accous", logging.WARNING, "", 0, "No class %s", (f"{COLUMN}{NEXT_LINE}{LABEL}",), None)
    line = PlainFormatter("%(levelname)s: %(message)s").format(record)
    assert line.startswith("WARNING: No class x\\x1b]0;owned")
    assert _is_plain(line)
    assert "\n" not in line
