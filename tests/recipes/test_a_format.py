"""Recipe: a format of tables is a `TableReader` and an entry of `FORMATS` in table/readers.py."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.readers import FORMATS, Chunk, Format, format_of, has_known_ending
from tests.cli.tables import make_tables


class ColumnsTable:
    """A toy format: a line for each column, its name and its values, with spaces between them."""

    unit = "row"

    def __init__(self, path):
        lines = [line.split(" ") for line in Path(path).read_text(encoding="utf-8").splitlines()]
        self._frame = pl.DataFrame({name: values for name, *values in lines})
        self.name, self.columns, self.widths, self.n_rows = path, self._frame.columns, {}, len(self._frame)

    def close(self):
        pass

    def share_read(self):
        return None

    def column_types(self, wanted):
        return {}

    def read_as_numbers(self, names):
        pass

    def read_if_simple(self, names):
        pass

    def chunks(self, wanted, start):
        ends = np.arange(start.end, self.n_rows) + 1
        frame = self._frame.select(wanted)[start.end :]
        yield Chunk(frame=frame, lines=ends, ends=ends, next_lines=ends)


@pytest.fixture(autouse=True)
def _toy_format(monkeypatch):
    toy = Format((".columns",), lambda asked: ColumnsTable(asked.path), "A file of columns")
    monkeypatch.setitem(FORMATS, "columns", toy)


def write_columns(frame, path):
    texts = frame.with_columns(pl.all().cast(pl.String).fill_null(""))
    path.write_text("\n".join(" ".join([name, *texts[name]]) for name in texts.columns), encoding="utf-8")


def test_the_commands_read_it_by_its_ending_and_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reference, stream = make_tables(n_rounds=20)
    write_columns(reference, tmp_path / "reference.columns")
    write_columns(stream, tmp_path / "stream.data")
    reference.write_csv("reference.csv")
    stream.write_csv("stream.csv")
    for ending in ("columns", "csv"):
        assert main(["fit", f"reference.{ending}", "--label", "label", "-o", f"of_{ending}"]) == 0
    assert main(["adapt", "of_columns", "stream.data", "--format", "columns", "-o", "columns.csv"]) == 0
    assert main(["adapt", "of_csv", "stream.csv", "-o", "csv.csv"]) == 0
    columns, csv = pl.read_csv("columns.csv"), pl.read_csv("csv.csv")
    # Rows of this format are counted from 1, lines of a CSV file with its head; each prediction has an id of its own.
    assert columns["line"].to_list() == [line - 1 for line in csv["line"]]
    assert columns.drop("line", "id").equals(csv.drop("line", "id"))


def test_its_ending_is_known_and_errors_name_it(tmp_path, monkeypatch, capsys):
    assert has_known_ending("rows.columns")
    assert format_of("rows.columns", "--format") == "columns"
    monkeypatch.chdir(tmp_path)
    for arguments in (["-", "--format", "columns"], ["rows.dat"], ["rows.dat", "--format", "colums"]):
        assert main(["fit", *arguments, "--label", "y", "-o", "model"]) == 2
        assert "columns" in capsys.readouterr().err
