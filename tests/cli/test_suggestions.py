"""The error for a misspelled name suggests similar names."""

from pathlib import Path

import polars as pl
import pytest

from accous import datasets
from accous.cli import main
from accous.exceptions import ParameterError
from accous.parameters import did_you_mean
from tests.cli.tables import make_tables

FIT = ["fit", "reference.csv", "--label", "label", "-o", "model"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fitt"], "No such command 'fitt'. Did you mean 'fit'?"),
        (["bench", "reprot"], "No such command 'reprot'. Did you mean 'report'?"),
        ([*FIT, "--ratio", "klip"], "got 'klip' (did you mean 'kliep'?)."),
        ([*FIT, "--drop", "color"], "has no such column (did you mean 'colour'?); it has 'x0', 'x1',"),
        (["fit", "reference.csv", "--label", "Labels", "-o", "m"], "no column 'Labels' (did you mean 'label'?): it"),
        (["bench", "run", "table33"], "There is no spec 'table33' (did you mean 'table3'?): give"),
        (["bench", "run", "smoke", "--contenders", "Acous"], "no contender 'Acous' (did you mean 'Accous'?), only"),
        (["bench", "run", "smoke", "--datasets", "gausian"], "no dataset 'gausian' (did you mean 'gaussian'?), only"),
    ],
)
def test_the_nearest_name_is_named(arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_tables()[0].write_csv("reference.csv")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not error.endswith("?.\n")
    assert not Path("model").exists()


def test_the_label_is_not_suggested_for_the_column_of_times(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_tables()[0].rename({"label": "late"}).write_csv("reference.csv")
    assert main(["fit", "reference.csv", "--label", "late", "-o", "model", "--time", "date"]) == 2
    assert capsys.readouterr().err.startswith("accous: reference.csv has no column 'date': it has 'x0',")
    assert main(["fit", "reference.csv", "--label", "late", "-o", "model", "--time", "dya"]) == 2
    assert "no column 'dya' (did you mean 'day'?)" in capsys.readouterr().err


def test_data_sets_too():
    with pytest.raises(ParameterError, match=r"There is no data set 'diabets' \(did you mean 'diabetes'\?\): name"):
        datasets.load("diabets")


def test_nothing_is_suggested_where_nothing_is_near():
    assert did_you_mean("y", ["age", "income", "plan"]) == ""
    assert did_you_mean("x", []) == ""


def test_a_column_that_the_table_has_under_another_name_is_named(fitted_folder, capsys):
    pl.read_csv("stream.csv").rename({"x3": "X3"}).write_csv("stream.csv")
    assert main(["adapt", "model", "stream.csv", "-o", "out.csv"]) == 1
    error = capsys.readouterr().err
    assert "stream.csv has no column 'x3', which the model was fitted with: it has 'x0', 'x1', 'x2', 'X3'," in error
    assert error.endswith(" Rename 'X3' if it is 'x3'.\n")
