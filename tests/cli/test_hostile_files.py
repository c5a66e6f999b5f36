"""Bad rows, damaged files, too few rows, odd types and names: each is named or set aside, and nothing is damaged."""

import gzip
import json
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model
from tests.budgets import rest_slow
from tests.cli.processes import files_of

HEADER = "age,income,plan,label"
REFERENCE = [
    f"{20 + row % 50},{1000 + 37 * (row % 29)},{'abc'[row % 3]},{'no' if row % 4 else 'yes'}" for row in range(200)
]
ROWS = [f"{30 + row % 40},{1100 + 31 * (row % 31)},{'ab'[row % 2]}," for row in range(40)]
FIT = ["fit", "reference.csv", "--label", "label", "-o", "new"]
ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--batch-size", "4"]
SKIP = ["--on-bad-row", "skip"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "reference.csv").write_text("\n".join([HEADER, *REFERENCE]))
    assert main(["fit", str(folder / "reference.csv"), "--label", "label", "-o", str(folder / "model"), "-q"]) == 0
    return files_of(folder / "model")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    put_model(fitted)
    write_reference(REFERENCE)
    write_stream()


def put_model(files: dict[str, bytes]) -> None:
    Path("model").mkdir(exist_ok=True)
    for name, content in files.items():
        Path("model", name).write_bytes(content)


def write_reference(rows: list[str], header: str = HEADER) -> None:
    Path("reference.csv").write_text("\n".join([header, *rows, ""]))


def write_stream(*bad: str, after: int = 21) -> None:
    """Write a stream with bad rows after so many good ones."""
    content = "\n".join([HEADER, *ROWS[:after], *bad, *ROWS[after:], ""])
    Path("stream.csv").write_bytes(content.encode("utf-8", "surrogateescape"))


def error_of(capsys, *arguments: str, code: int = 1) -> str:
    """The one printable line of a command that fails."""
    capsys.readouterr()
    assert main(list(arguments)) == code
    error = capsys.readouterr().err
    assert error.startswith("accous: ")
    assert error[:-1].isprintable()
    return error


def predicted(*options: str) -> pl.DataFrame:
    assert main([*ADAPT, *options]) == 0
    return pl.read_csv("predictions.csv", infer_schema=False)


# --- bad rows ---------------------------------------------------------------------------------------------------

# The row, its column, and what is said of it.
BAD = {
    "too few fields": ("30,1200", None, "2 fields"),
    "too many fields": ("30,1200,a,no,more", None, "5 fields"),
    "text for a number": ("30,lots,a,", "income", "'lots'"),
    "infinity": ("inf,1200,a,", "age", "'inf'"),
    "decimal comma": ('"30,5",1200,a,', "age", "decimal commas"),
    "not UTF-8": ("30,1200,\udce4,", None, "not UTF-8"),
    "long text": (f"30,{'9' * 20 + 'x' * 80},a,", "income", f"'{'9' * 20}{'x' * 17}...'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_by_file_line_and_column_and_the_rows_before_it_stay(name, capsys):
    row, column, reason = BAD[name]
    write_stream(row)
    error = error_of(capsys, *ADAPT)
    where = f", column '{column}'" if column else ""
    assert error.startswith(f"accous: stream.csv, line 23{where}: ")
    assert reason in error
    # A decimal comma is no reason to set rows aside.
    assert ("--on-bad-row" in error) == (name != "decimal comma")
    assert pl.read_csv("predictions.csv").height == load_table_model("model").job.n_rows == 20


@pytest.mark.parametrize("name", rest_slow(BAD, n_fast=2))
def test_after_the_file_is_corrected_the_run_continues_without_a_trace(name, fitted):
    expected = predicted()
    Path("predictions.csv").unlink()
    put_model(fitted)
    write_stream(BAD[name][0])
    assert main(ADAPT) == 1
    write_stream()
    assert predicted().equals(expected)


def test_bad_rows_are_set_aside_with_line_and_reason_and_counted(fitted):
    expected = predicted()
    Path("predictions.csv").unlink()
    put_model(fitted)
    write_stream(*(row for row, _, _ in BAD.values()))
    found = predicted(*SKIP)
    assert found.drop("line").equals(expected.drop("line"))
    lines = range(2, 2 + len(found) + len(BAD))
    assert found["line"].cast(pl.Int64).to_list() == [line for line in lines if not 23 <= line < 23 + len(BAD)]
    rejects = pl.read_csv("predictions.csv.rejects.csv")
    assert rejects["line"].to_list() == list(range(23, 23 + len(BAD)))
    assert rejects["column"].to_list() == [column for _, column, _ in BAD.values()]
    assert all(reason in said for said, (_, _, reason) in zip(rejects["reason"], BAD.values(), strict=True))
    assert rejects["row"][0] == "30,1200"


def test_a_quote_left_open_is_one_bad_row():
    write_stream('30,1200,"a,', after=10)
    assert predicted(*SKIP, "--rejects", "rejects.csv").height == 40
    assert pl.read_csv("rejects.csv")["line"].to_list() == [12]


def test_quotes_line_ends_blanks_and_separators_inside_fields_are_no_trouble(capsys):
    write_stream('31,"1200","a ""quoted"", and\nbroken",', '32,1200,5"2,', "", " 31 , 1200 ,a,", "\r", after=10)
    assert predicted("--keep", "plan")["plan"].to_list()[10:13] == ['a "quoted", and\nbroken', '5"2', "a"]
    write_stream('31,1200,"a\nb\nc",', "30,x,a,", after=10)
    assert "line 15, column 'income'" in error_of(capsys, *ADAPT, "--new", "--force")


def test_missing_values_and_unknown_categories_are_used_and_counted_or_bad_rows(capsys):
    write_stream(",?,nan,", "NA,1200,z,", after=10)
    error = error_of(capsys, *ADAPT, "--unknown-category", "bad")
    assert error.startswith("accous: stream.csv, line 13, column 'plan': 'z'")
    predicted("--new", "--force")
    job = load_table_model("model").job
    assert (job.n_rows, job.n_missing, job.n_unknown) == (42, 4, 1)


@pytest.mark.parametrize(("content", "n_rows"), [(HEADER, 0), (f"{HEADER}\n", 0), (f"{HEADER}\n30,1200,a,", 1)])
def test_short_streams_end_well(content, n_rows):
    Path("stream.csv").write_text(content)
    assert predicted().height == n_rows
    job = load_table_model("model").job
    assert (job.n_rows, job.is_finished) == (n_rows, True)


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (gzip.compress(f"{HEADER}\n{ROWS[0]}\n".encode())[:-9], "gzip"),
        (gzip.compress(b"x" * 100)[:10] + b"\x07" * 40, "gzip"),
        (b"PK\x03\x04 and so on", "zip"),
        ("größe\n1\n".encode("latin-1"), "--encoding"),
        (f"{HEADER}\n30,1200,".encode() + b"\x81,\n", "UTF-8"),
        (b"age,\x07\x1b[31mincome,plan\n30,1,a\n", "'income'"),
        (b"age,plan\n30,a\n", "--drop income"),
    ],
    ids=["cut gzip", "damaged gzip", "Excel", "latin-1", "another encoding", "colours of a terminal", "no column"],
)
def test_files_of_another_kind_are_refused(content, culprit, capsys):
    Path("stream.csv").write_bytes(content)
    assert culprit in error_of(capsys, *ADAPT)
    if culprit == "UTF-8":
        assert "cp1252" in error_of(capsys, *ADAPT, "--encoding", "cp1252", "--new", "--force")


def test_a_file_of_somebody_else_s_is_not_replaced_by_rows_set_aside(capsys):
    write_reference([*REFERENCE, "1,2,a,"])
    write_stream("1,2")
    Path("mine.csv").write_text("mine")
    rejects = [*SKIP, "--rejects", "mine.csv"]
    assert "mine.csv" in error_of(capsys, *FIT, *rejects)
    assert main([*FIT, *SKIP]) == 0
    assert "mine.csv" in error_of(capsys, *ADAPT, *rejects)
    assert main(ADAPT) == 1  # at the bad row, in the middle of a run
    assert main([*ADAPT, *rejects]) == 1
    assert Path("mine.csv").read_text() == "mine"
    assert main([*ADAPT, *rejects, "--force"]) == 0
    assert "2 fields" in Path("mine.csv").read_text()


# --- few rows and odd types -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_a_reference_of_few_rows_has_no_accuracy_and_gives_a_model_all_the_same(n_rows, capsys):
    write_reference([f"{row},{row * row},a,{row % 2}" for row in range(n_rows)])
    assert main([*FIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] is None
    assert main(["adapt", "new", "stream.csv", "-o", "other.csv", "-q"]) == 0
    capsys.readouterr()
    assert main(["status", "new", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["value"], found["reasons"][0]["code"]) == ("uncertain", None, "not_defined")
    assert main(["status", "new", "--by", "a"]) in (1, 2)
    assert main(["report", "new"]) == 0


def test_a_column_that_a_part_of_the_reference_lacks_leaves_the_accuracy_unknown(capsys):
    # Without row 3 the only column is constant.
    write_reference([f"{5 if row == 3 else 1},,,{row % 2}" for row in range(12)])
    assert main([*FIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] is None


def test_nearly_as_many_classes_as_rows_are_remarked_on_once(capsys):
    write_reference([f"{row * row % 23},{row * 7 % 13},a,{row % 25}" for row in range(40)])
    assert main(FIT) == 0
    assert capsys.readouterr().err.count("25 different values in 40 rows") == 1


def test_json_is_printed_also_where_nothing_is_left_to_do(capsys):
    printed = []
    for _ in range(2):
        assert main(["adapt", "model", "stream.csv", "-o", "predictions.parquet", "--json"]) == 0
        printed.append(json.loads(capsys.readouterr().out))
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "value", [b"\xff\x00", timedelta(1), {"x": 1}, ["x"]], ids=["bytes", "length", "object", "list"]
)
def test_values_of_odd_types_are_left_out_of_a_reference_and_named_in_a_stream(value, capsys):
    odd = pl.Series("odd", [value] * 200)
    frame = pl.read_csv("reference.csv").with_columns(odd)
    frame.write_parquet("reference.parquet")
    assert main(["fit", "reference.parquet", "--label", "label", "-o", "new"]) == 0
    assert "odd" not in load_table_model("new").encoder.used_columns
    frame.with_columns(odd.alias("age")).write_parquet("stream.parquet")
    adapt = ["adapt", "new", "stream.parquet", "-o", "predictions.csv"]
    for options in ([], ["--keep", "odd"], ["--label", "odd"]):
        assert "stream.parquet, column 'age'" in error_of(capsys, *adapt, *options)
    for command in ("adapt new reference.parquet --keep odd", "fit reference.parquet --label odd"):
        assert "column 'odd'" in error_of(capsys, *command.split(), "-o", "other.csv")
