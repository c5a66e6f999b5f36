"""A reference in which many rows occur twice is remarked on; rows that are alike by chance are not."""

import json

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.checks import remarks_on_repeats
from tests.cli.tables import make_tables


def remarks(frame: pl.DataFrame, *, label: str = "label", is_whole: bool = True) -> list[str]:
    found = remarks_on_repeats(frame.drop(label), frame[label].to_numpy(), is_whole=is_whole)
    return [remark.text for remark in found]


def categories(n_levels: int, n_rows: int = 400) -> pl.DataFrame:
    values = np.random.default_rng(n_levels).integers(0, n_levels, size=(n_rows, 2))
    return pl.DataFrame({"a": values[:, 0], "b": [f"v{value}" for value in values[:, 1]], "label": values[:, 0] % 2})


@pytest.fixture(scope="module")
def reference():
    return make_tables()[0]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_file_that_was_joined_with_itself(reference, is_whole):
    (text,) = remarks(pl.concat((reference, reference)), is_whole=is_whole)
    where = "all columns" if is_whole else "all columns that are read"
    assert text.startswith(f"300 of the 600 rows repeat an earlier row in {where}: cross-validation and backtest")


def test_a_tenth_of_the_rows_is_the_limit(reference):
    assert not remarks(pl.concat((reference[:270], reference[:30])))
    assert remarks(pl.concat((reference[:269], reference[:31])))[0].startswith("31 of the 300 rows")


def test_an_id_a_time_or_a_label_makes_rows_different(reference):
    for column in ("id", "label"):
        other = reference.with_columns((pl.col(column).cast(pl.String) + " again").alias(column))
        assert not remarks(pl.concat((reference.with_columns(pl.col(column).cast(pl.String)), other)))
    assert not remarks(pl.concat((reference[:14], reference[:14])))  # too few rows


def test_rows_of_few_categories_are_not_copies_if_other_columns_are_dropped():
    for n_levels in (2, 4, 9, 14, 20):
        frame = categories(n_levels)
        assert frame.n_unique() < 0.9 * frame.height
        assert remarks(frame)
        assert not remarks(frame, is_whole=False)


@pytest.mark.parametrize("command", ["fit", "backtest"])
@pytest.mark.parametrize("options", [[], ["--drop", "id"]], ids=["whole", "dropped"])
def test_the_commands_print_it(reference, tmp_path, monkeypatch, capsys, command, options):
    monkeypatch.chdir(tmp_path)
    pl.concat((reference, reference)).write_csv("twice.csv")
    output = ["-o", "model", "--json"] if command == "fit" else ["--json"]
    given = [command, "twice.csv", "--label", "label", "--time", "day", "--estimator", "linear", *options, *output]
    assert main(given) == 0
    printed = capsys.readouterr()
    if command == "fit":
        kinds = [remark["kind"] for remark in json.loads(printed.out)["remarks"]]
        assert kinds.count("repeated") == 1
    assert "300 of the 600 rows repeat an earlier row" in " ".join(printed.err.split())
