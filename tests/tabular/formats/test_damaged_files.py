"""Files that no reader of ours or of a library can make sense of are refused with a sentence."""

import csv
from contextlib import suppress
from datetime import time, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.exceptions import DataError
from accous.table.readers import Position, open_table, panics_as_errors, require_usable, to_numbers, to_texts, to_times
from accous.table.runs import RoundRule


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("content", [b"a,b\rc\n1,2,3\n", b"a,b\r1,2\r3,4\r", b"a,b\rc"])
def test_a_carriage_return_in_the_header_is_named(content):
    Path("rows.csv").write_bytes(content)
    with pytest.raises(DataError, match=r"^rows\.csv, line 1: the header has a carriage return in it; save the file"):
        open_table("rows.csv")


def test_a_header_that_the_csv_module_refuses_is_named():
    Path("rows.csv").write_text("a," + "b" * (csv.field_size_limit() + 1) + "\n1,2\n")
    with pytest.raises(DataError, match=r"^rows\.csv, line 1: the header cannot be read as a list of column names"):
        open_table("rows.csv")


def test_whatever_numpy_stumbles_over_in_the_header_of_an_array_is_a_data_error():
    np.save("rows.npy", np.eye(3))
    content = Path("rows.npy").read_bytes()
    for place in range(128):
        for bit in range(8):
            Path("rows.npy").write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            with suppress(DataError):  # other bits give other arrays
                open_table("rows.npy")


@pytest.mark.parametrize("line", ['{"a": "\\ud800"}', '{"\\ud800": 1}', '{"a": ' + "[" * 100_000])
def test_json_that_python_reads_or_gives_up_on_but_is_no_table_is_a_bad_row(line):
    Path("rows.jsonl").write_text(line)
    with pytest.raises(DataError, match=r"^rows\.jsonl, line 1: not valid JSON \("):
        open_table("rows.jsonl")
    Path("rows.jsonl").write_text(f'{{"a": 1}}\n{line}\n{{"a": 2}}')
    chunks = list(open_table("rows.jsonl").chunks(["a"], Position()))
    assert [row for chunk in chunks for row in chunk.frame["a"]] == ["1", "2"]
    assert [(bad.line, bad.reason[:14]) for chunk in chunks for bad in chunk.bad_rows] == [(2, "not valid JSON")]


def test_whole_surrogate_pairs_and_long_numbers_are_json():
    Path("rows.jsonl").write_text('{"a": "\\ud83d\\ude00", "b": ' + "9" * 5000 + "}")
    (chunk,) = (chunk for chunk in open_table("rows.jsonl").chunks(["a", "b"], Position()) if chunk.frame.height)
    assert chunk.frame.rows() == [("\U0001f600", "9" * 5000)]


@pytest.mark.parametrize(
    "values", [[b"\xff"], [timedelta(1)], [{"x": 1}], [["a"]], [[1.0], [1.0, 2.0]]], ids=lambda values: str(values[0])
)
def test_types_that_are_no_single_values_are_named(values):
    pl.DataFrame({"odd": values}, strict=False).write_parquet("rows.parquet")
    with pytest.raises(DataError, match=r"^rows\.parquet, column 'odd': values of the type .* cannot be used; save"):
        require_usable(open_table("rows.parquet"), ["odd"])


def test_a_time_of_day_is_no_date():
    times, is_bad = to_times(pl.Series([time(12, 30), None]), "%Y-%m-%d")
    assert times.is_null().all()
    assert is_bad.tolist() == [True, False]


@pytest.mark.parametrize("name", ["*", "^.*$", "^a$"])
@pytest.mark.parametrize("path", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_a_name_that_polars_takes_for_a_pattern_is_a_name(name, path):
    frame = pl.DataFrame({"a": ["1", "2"], name: ["3", "4"]})
    {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[path.partition(".")[2]](path)
    table = open_table(path)
    (column,) = (chunk.frame[name] for chunk in table.chunks([name], Position()) if len(chunk.lines))
    assert to_texts(column).to_list() == ["3", "4"]
    assert to_numbers(column)[0].tolist() == [3.0, 4.0]
    assert to_times(column, "%Y-%m-%d")[1].all()
    assert RoundRule(by=name).stops(column.to_frame(), 2, is_end=True) == [1, 2]


def test_a_panic_of_polars_is_an_error_of_polars(capfd):
    with pytest.raises(pl.exceptions.ComputeError), panics_as_errors():
        pl.DataFrame({"a": [b"x"]}).write_ndjson()
    assert capfd.readouterr().err == ""
