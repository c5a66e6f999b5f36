"""Rows that cannot be used are named by file, line and column, or set aside; nothing written before is damaged."""

import gzip
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
ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv", "--batch-size", "4"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fitted")
    (folder / "reference.csv").write_text("\n".join([HEADER, *REFERENCE]))
    assert main(["fit", str(folder / "reference.csv"), "--label", "label", "-o", str(folder / "model"), "-q"]) == 0
    return files_of(folder / "model")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for name, content in fitted.items():
        (tmp_path / "model" / name).write_bytes(content)


def write_stream(*bad: str, after: int = 21) -> None:
    """Write a stream with bad rows after so many good ones."""
    content = "\n".join([HEADER, *ROWS[:after], *bad, *ROWS[after:], ""])
    Path("stream.csv").write_bytes(content.encode("utf-8", "surrogateescape"))


BAD = {
    "too few fields": ("30,1200", "", "the row has 2 fields, but the header has 4"),
    "too many fields": ("30,1200,a,no,more", "", "the row has 5 fields, but the header has 4"),
    "text for a number": ("30,lots,a,", "income", "'lots' is not a number"),
    "infinity": ("inf,1200,a,", "age", "'inf' is not a number"),
    "decimal comma": ('"30,5",1200,a,', "age", "'30,5' is not a number: decimal commas are not read"),
    "not UTF-8": ("30,1200,\udce4,", "", "the text is not UTF-8"),
    "long text": (f"30,{'9' * 20 + 'x' * 80},a,", "income", f"'{'9' * 20}{'x' * 17}...' is not a number"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named_by_file_line_and_column_and_the_rows_before_it_stay(name, capsys):
    row, column, reason = BAD[name]
    write_stream(row)
    assert main(ADAPT) == 1
    error = capsys.readouterr().err
    where = f", column '{column}'" if column else ""
    assert error.startswith(f"accous: stream.csv, line 23{where}: {reason}")
    assert error.count("\n") == 1
    assert pl.read_csv("predictions.csv").height == 20
    assert load_table_model("model").job.n_rows == 20


@pytest.mark.parametrize("name", rest_slow(BAD, n_fast=2))
def test_after_the_file_is_corrected_the_run_continues_without_a_trace(name, tmp_path, fitted):
    write_stream()
    assert main(ADAPT) == 0
    expected = (tmp_path / "predictions.csv").read_bytes()
    (tmp_path / "predictions.csv").unlink()
    for path, content in fitted.items():
        (tmp_path / "model" / path).write_bytes(content)
    write_stream(BAD[name][0])
    assert main(ADAPT) == 1
    write_stream()
    assert main(ADAPT) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == expected


def test_bad_rows_are_set_aside_with_line_and_reason_and_counted(tmp_path, fitted, capsys):
    write_stream()
    assert main(ADAPT) == 0
    expected = pl.read_csv("predictions.csv", infer_schema=False)
    (tmp_path / "predictions.csv").unlink()
    for path, content in fitted.items():
        (tmp_path / "model" / path).write_bytes(content)
    write_stream(*(row for row, _, _ in BAD.values()))
    assert main([*ADAPT, "--on-bad-row", "skip"]) == 0
    found = pl.read_csv("predictions.csv", infer_schema=False)
    assert found.drop("line").equals(expected.drop("line"))
    lines = range(2, 2 + len(found) + len(BAD))
    assert found["line"].cast(pl.Int64).to_list() == [line for line in lines if not 23 <= line < 23 + len(BAD)]
    assert f"{len(BAD)} bad rows set aside, in predictions.csv.rejects.csv" in capsys.readouterr().err
    rejects = pl.read_csv("predictions.csv.rejects.csv")
    assert rejects["line"].to_list() == list(range(23, 23 + len(BAD)))
    assert rejects["column"].to_list() == [column or None for _, column, _ in BAD.values()]
    for found, (_, _, reason) in zip(rejects["reason"], BAD.values(), strict=True):
        assert found.startswith(reason)
    assert rejects["row"][0] == "30,1200"


def test_a_quote_left_open_is_one_bad_row():
    write_stream('30,1200,"a,', after=10)
    assert main([*ADAPT, "--on-bad-row", "skip", "--rejects", "rejects.csv"]) == 0
    rejects = pl.read_csv("rejects.csv")
    assert rejects["line"].to_list() == [12]
    assert rejects["reason"].to_list() == ["a quote is opened and not closed"]
    assert pl.read_csv("predictions.csv").height == 40


def test_quotes_line_ends_and_separators_inside_fields_are_no_trouble():
    write_stream('31,"1200","a ""quoted"", and\nbroken",', '32,1200,5"2,', after=10)
    assert main([*ADAPT, "--keep", "plan"]) == 0
    plans = pl.read_csv("predictions.csv")["plan"].to_list()
    assert plans[10:12] == ['a "quoted", and\nbroken', '5"2']
    write_stream('31,"1200","a\nb",', "oops", after=10)
    assert main([*ADAPT, "--new", "--force"]) == 1


def test_lines_are_counted_also_where_fields_have_line_ends(capsys):
    write_stream('31,1200,"a\nb\nc",', "30,x,a,", after=10)
    assert main(ADAPT) == 1
    assert "stream.csv, line 15, column 'income'" in capsys.readouterr().err


def test_blank_lines_and_blanks_around_numbers_are_no_trouble():
    write_stream("", " 31 , 1200 ,a,", "\r", after=10)
    assert main(ADAPT) == 0
    assert pl.read_csv("predictions.csv").height == 41


def test_missing_values_and_unknown_categories_are_used_and_counted(capsys):
    write_stream(",?,nan,", "NA,1200,z,", after=10)
    assert main(ADAPT) == 0
    job = load_table_model("model").job
    assert (job.n_rows, job.n_missing, job.n_unknown) == (42, 4, 1)
    assert (
        "1 value was a category that the model does not know (plan 1): to learn it, run accous"
        in capsys.readouterr().err
    )


def test_unknown_categories_can_be_bad_rows(capsys):
    write_stream("31,1200,z,")
    assert main([*ADAPT, "--unknown-category", "bad"]) == 1
    error = capsys.readouterr().err
    assert "stream.csv, line 23, column 'plan': 'z' is a category that the reference does not have" in error


def test_a_missing_column_is_named_with_what_to_do(capsys):
    Path("stream.csv").write_text("age,plan\n30,a\n")
    assert main(ADAPT) == 1
    error = capsys.readouterr().err
    assert "stream.csv has no column 'income', which the model was fitted with" in error
    assert (
        "Add it, empty where its values are not known, or fit a model without it (accous fit --drop income)." in error
    )


def test_a_decimal_comma_is_not_a_reason_to_set_rows_aside(capsys):
    write_stream('"1.030,5",1200,a,')
    assert main(ADAPT) == 1
    error = capsys.readouterr().err
    assert "is not a number: decimal commas are not read; write numbers with a decimal point." in error
    assert "--on-bad-row" not in error


@pytest.mark.parametrize(("content", "n_rows"), [(HEADER, 0), (f"{HEADER}\n", 0), (f"{HEADER}\n30,1200,a,", 1)])
def test_short_streams_end_well_and_a_remark_says_that_there_are_no_rows(content, n_rows, capsys):
    Path("stream.csv").write_text(content)
    assert main(ADAPT) == 0
    assert ("stream.csv has no rows: nothing was predicted." in capsys.readouterr().err) == (n_rows == 0)
    assert load_table_model("model").job.n_rows == n_rows
    assert load_table_model("model").job.is_finished


def test_an_empty_file_is_refused(capsys):
    Path("stream.csv").write_text("")
    assert main(ADAPT) == 1
    assert capsys.readouterr().err == "accous: stream.csv is empty.\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (gzip.compress(f"{HEADER}\n{ROWS[0]}\n".encode())[:-9], "is truncated: its gzip data end too early"),
        (gzip.compress(b"x" * 100)[:10] + b"\x07" * 40, "is damaged: its gzip data cannot be read"),
        (b"PK\x03\x04 and so on", "is a zip archive or an Excel file"),
        ("größe\n1\n".encode("latin-1"), "the text is not UTF-8; name its encoding with --encoding"),
    ],
    ids=["cut gzip", "damaged gzip", "Excel", "latin-1"],
)
def test_files_of_another_kind_are_refused(content, sentence, capsys):
    Path("stream.csv").write_bytes(content)
    assert main(ADAPT) == 1
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_the_wrong_encoding_is_noticed(capsys):
    write_stream(after=3)
    Path("stream.csv").write_bytes(Path("stream.csv").read_bytes() + b"30,1200,\x81,\n")
    assert main([*ADAPT, "--encoding", "cp1252"]) == 1
    assert "the text is not cp1252" in capsys.readouterr().err


def test_json_lines_name_what_is_wrong(capsys):
    good = '{"age": 30, "income": 1200.5, "plan": "a"}'
    bad = {
        "{": "not valid JSON",
        "[1, 2]": "not a JSON object",
        '{"age": [1], "income": 2, "plan": "a"}': "a list or an object where a single value is expected",
        '{"age": true, "income": 2, "plan": "a"}': "'true' is not a number",
    }
    for row, reason in bad.items():
        Path("stream.jsonl").write_text(f"{good}\n{row}\n{good}")
        assert main(["adapt", "model", "stream.jsonl", "-o", "predictions.jsonl", "--new", "--force"]) == 1
        error = capsys.readouterr().err
        assert error.startswith("accous: stream.jsonl, line 2")
        assert reason in error
    Path("stream.jsonl").write_text(good + '\n{"age": null, "plan": "b"}')
    assert main(["adapt", "model", "stream.jsonl", "-o", "predictions.jsonl", "--new", "--force"]) == 0
    assert load_table_model("model").job.n_missing == 2
