"""Files with too few rows, odd types and odd names end in a sentence or in a model that works, never in a traceback."""

import json
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main

ROWS = [f"{row % 7},{row % 5},{'no' if row % 3 else 'yes'}" for row in range(40)]
FIT = ["fit", "reference.csv", "--label", "y", "-o", "model"]
ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv"]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write("reference.csv", ROWS)
    write("stream.csv", ROWS[:20])


def write(path: str, rows: list[str], header: str = "a,b,y") -> None:
    """Write a table."""
    Path(path).write_text("\n".join([header, *rows, ""]))


@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_a_reference_of_few_rows_has_no_accuracy_and_gives_a_model_all_the_same(n_rows, capsys):
    write("reference.csv", [f"{row},{row * row},{row % 2}" for row in range(n_rows)])
    assert main([*FIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] is None
    assert main([*FIT, "--force"]) == 0
    assert "unknown, the reference has too few rows to cross-validate" in capsys.readouterr().out
    write("stream.csv", ["1,2,0"] * 8)
    assert main(ADAPT) == 0
    capsys.readouterr()
    assert main(["inspect", "model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reference_accuracy"] is None
    assert main(["report", "model"]) == 0
    assert "unknown, the reference has too few rows to cross-validate</td>" in Path("report.html").read_text()


def test_a_column_that_a_part_of_the_reference_lacks_leaves_the_accuracy_unknown(capsys):
    # Without row 3 the only column is constant.
    write("reference.csv", [f"{5 if row == 3 else 1},,{row % 2}" for row in range(12)])
    assert main([*FIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] is None


def test_nearly_as_many_classes_as_rows_are_remarked_on_once(capsys):
    write("reference.csv", [f"{row * row % 23},{row * 7 % 13},{row % 25}" for row in range(40)])
    assert main(FIT) == 0
    remark = "The label 'y' has 25 different values in 40 rows: if it is a number rather than a class, say"
    assert capsys.readouterr().err.count(remark) == 1


def test_a_failure_is_one_line_without_characters_that_a_terminal_obeys(capsys):
    assert main(FIT) == 0
    write("stream.csv", ["1,2,yes"], header="a,\x1b[31mb,y")
    capsys.readouterr()
    assert main(ADAPT) == 1
    Path("stream.parquet").write_bytes(b"PAR1 and so on, but no footer PAR1")
    assert main(["adapt", "model", "stream.parquet", "-o", "other.csv"]) == 1
    assert main(["adapt", "model", "stream\x1b[31m.csv", "-o", "other.csv"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert "has no column 'b'" in lines[0]
    assert all(line.startswith("accous: ") and line.isprintable() for line in lines)


def test_json_is_printed_also_where_nothing_is_left_to_do(capsys):
    assert main([*FIT, "-q"]) == 0
    adapt = ["adapt", "model", "stream.csv", "-o", "predictions.parquet", "--json"]
    capsys.readouterr()
    assert main(adapt) == 0
    first = json.loads(capsys.readouterr().out)
    assert main(adapt) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_a_file_of_somebody_else_s_is_not_replaced_by_rows_set_aside(capsys):
    write("reference.csv", [*ROWS, "1,2,"])
    write("stream.csv", [*ROWS[:20], "1,2"])
    Path("mine.csv").write_text("mine")
    rejects = ["--on-bad-row", "skip", "--rejects", "mine.csv"]
    assert main([*FIT, *rejects]) == 1
    assert main([*FIT, "--on-bad-row", "skip"]) == 0
    assert main([*ADAPT, *rejects]) == 1
    assert (
        capsys.readouterr().err.count("mine.csv already exists: name another file with --rejects, or use --force") == 2
    )
    assert main(ADAPT) == 1  # at the bad row, in the middle of a run
    assert main([*ADAPT, *rejects]) == 1
    assert Path("mine.csv").read_text() == "mine"
    assert main([*ADAPT, *rejects, "--force"]) == 0
    assert "the row has 2 fields" in Path("mine.csv").read_text()


@pytest.mark.parametrize(
    "value", [b"\xff\x00", timedelta(1), {"x": 1}, ["x"]], ids=["bytes", "length", "object", "list"]
)
def test_values_of_odd_types_are_left_out_of_a_reference_and_named_in_a_stream(value, capsys):
    frame = pl.read_csv("reference.csv").with_columns(odd=pl.Series([value] * 40))
    frame.write_parquet("reference.parquet")
    assert main(["fit", "reference.parquet", "--label", "y", "-o", "model"]) == 0
    assert "objects, bytes, durations and lists" in capsys.readouterr().out
    frame.with_columns(a=pl.Series([value] * 40)).write_parquet("stream.parquet")
    for options, column in ([], "a"), (["--keep", "odd"], "a"), (["--label", "odd"], "a"):
        assert main(["adapt", "model", "stream.parquet", "-o", "predictions.csv", *options]) == 1
        assert f"accous: stream.parquet, column '{column}': values of the type" in capsys.readouterr().err
    assert main(["adapt", "model", "reference.parquet", "-o", "predictions.csv", "--keep", "odd"]) == 1
    assert main(["fit", "reference.parquet", "--label", "odd", "-o", "other"]) == 1
    assert capsys.readouterr().err.count("column 'odd': values of the type") == 2
