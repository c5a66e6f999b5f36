"""Commands that count one thing say so in the singular."""

import re
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main

PLURAL_OF_ONE = re.compile(r"(?<![\d,.])1 (\w+ )?(rows|labels|rounds|looks|keys|regimes|values|refits)\b")


@pytest.fixture
def _one_row(fitted_folder):
    good = pl.read_csv("stream.csv")[:1].with_columns(pl.lit("violet").alias("colour"))
    bad = good.with_columns(pl.lit("a word").alias("x0"), pl.lit(99, pl.Int64).alias("id"))
    pl.concat([good.cast({"x0": pl.String}), bad]).write_csv("one.csv")
    good.select("id", "label").write_csv("labels.csv")
    pl.concat([good.select("id", "label"), good.select(pl.lit(7, pl.Int64).alias("id"), "label")]).write_csv(
        "more_labels.csv"
    )


@pytest.mark.usefixtures("_one_row")
def test_one_row_one_round_one_label(capsys):
    commands = [
        ["adapt", "model", "one.csv", "-o", "out.csv", "--key", "id", "--on-bad-row", "skip"],
        ["labels", "model", "labels.csv", "--key", "id"],
        ["labels", "model", "more_labels.csv", "--key", "id"],
        ["predict", "model", "one.csv", "-o", "again.csv", "--on-bad-row", "skip"],
        ["inspect", "model"],
        ["extend", "model", "one.csv", "--on-bad-row", "skip", "--key", "id"],
        ["inspect", "model"],
        ["report", "model", "-o", "report.html"],
    ]
    for command in commands:
        assert main(command) == 0, command
    printed = capsys.readouterr()
    text = printed.out + printed.err + Path("report.html").read_text()
    for said in (
        "1 row in 1 round in out.csv.",
        "1 bad row set aside",
        "1 value was a category that the model does not know (",
        "by 1 label.",
        "1 label has no prediction",
        "1 row in again.csv, predicted after 1 round",
        "1 row joined the reference",
        "1 round, compared with",
    ):
        assert said in text
    assert PLURAL_OF_ONE.search(text) is None
