"""`accous labels` without a key: labels meet their own rows, by line or by position, or they are refused."""

import shutil
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from tests.budgets import rest_slow
from tests.cli.late_labels import N_ROWS, adapt, expected_error, labels, run, run_json, run_remarks, share_wrong, write

pytestmark = pytest.mark.usefixtures("predicted_folder")


@pytest.mark.parametrize("stream", rest_slow(["s.csv", "s.parquet", "s.jsonl"], n_fast=2))
@pytest.mark.parametrize("is_last", [True, False], ids=["last run", "earlier run"])
def test_lines_mean_the_same_in_labels_and_predictions_of_any_stream(stream, is_last, capsys):
    write(pl.read_csv("stream.csv"), stream)
    adapt(stream, "first.csv")
    expected = share_wrong("first.csv", labels())
    if not is_last:
        adapt("stream.csv", "second.csv", "--keep", "id")
    write(labels().select("label").with_columns(pl.read_csv("first.csv")["line"]))
    found = run_json(capsys, "labels.csv", "--predictions", "first.csv")
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected)
    assert found["measured_error_fixed"] is not None


def test_labels_of_a_run_that_is_not_remembered_are_not_joined_by_position(capsys):
    pl.read_csv("predictions.csv").write_csv("copy.csv")
    message = run(capsys, write(labels().drop("id")), "--predictions", "copy.csv", code=1)
    assert "need not be all rows of the stream: join by a column that is in both files, with --key" in message


@pytest.mark.parametrize("by", ["position", "line"])
def test_a_line_break_inside_a_row_does_not_shift_the_rows_after_it(by, capsys):
    stream = pl.read_csv("stream.csv")
    notes = ["two\nlines" if number == 3 else "one" for number in range(N_ROWS)]
    stream.with_columns(note=pl.Series(notes)).write_csv("s.csv")
    adapt("s.csv", "first.csv")
    expected = share_wrong("first.csv", labels())
    frame = labels().select("label")
    write(frame if by == "position" else frame.with_columns(pl.read_csv("first.csv")["line"]))
    found = run_json(capsys, "labels.csv")
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected)
    assert found["measured_error_fixed"] is not None


def test_an_empty_line_in_a_list_of_labels_is_a_row_without_a_label(capsys):
    values = labels()["label"].to_list()
    Path("labels.csv").write_text(
        "\n".join(["label", *("" if row in (0, 7) else each for row, each in enumerate(values))])
    )
    found = run_json(capsys, "labels.csv")
    some = labels(*(row for row in range(N_ROWS) if row not in (0, 7)))
    assert found["counted"] == N_ROWS - 2
    assert found["measured_error"] == pytest.approx(expected_error(some))


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
@pytest.mark.parametrize("is_piped", [False, True], ids=["stream", "kept columns"])
def test_a_position_is_refused_if_a_column_of_both_files_disagrees(name, is_piped, capsys):
    if is_piped:
        Path("stream.csv").rename("gone.csv")
    frame = pl.read_csv("gone.csv" if is_piped else "stream.csv").select("id", "label")
    message = run(capsys, write(frame.with_columns(id=pl.col("id").shift(-1, fill_value=999)), name), code=1)
    if is_piped:
        Path("gone.csv").rename("stream.csv")
    assert "in row 1 'id' is '1', and '0' in " in message
    assert run_json(capsys, write(frame.with_columns(pl.col("id").cast(pl.Float64)), name))["counted"] == N_ROWS


@pytest.mark.parametrize("name", ["labels.csv", "labels.npy"])
def test_a_part_of_the_labels_is_not_joined_by_position_on_trust(name, capsys):
    message = run(capsys, write(labels()[:100].drop("id"), name), code=1)
    assert f"{name} covers 100 of the 300 rows that were predicted" in message
    same_everywhere = labels()[:100].with_columns(id=pl.lit(0))
    assert "in row 2 'id' is '0', and '1' in " in run(capsys, write(same_everywhere), code=1)


def test_nested_values_of_columns_that_nobody_uses_are_not_compared(capsys):
    nested = pl.DataFrame({"tags": [{"a": row} if row % 3 else None for row in range(N_ROWS)]})
    nested.hstack(pl.read_csv("stream.csv")).write_ndjson("nested.jsonl")
    adapt("nested.jsonl", "first.csv")
    assert run_json(capsys, "nested.jsonl")["counted"] == N_ROWS
    turned = pl.read_ndjson("nested.jsonl").with_columns(pl.col("id").reverse())
    assert "in row 1 'id' is '299', and '0' in " in run(capsys, write(turned, "turned.jsonl"), code=1)


@pytest.mark.parametrize("n_depots", [1, 2])
def test_a_column_with_few_values_does_not_tell_rows_apart(n_depots, capsys):
    depots = pl.Series("depot", ["north", "south"][:n_depots] * (N_ROWS // n_depots))
    pl.read_csv("stream.csv").with_columns(depots).write_csv("depot.csv")
    adapt("depot.csv", "first.csv")
    message = run(capsys, write(labels()[:100].drop("id").with_columns(depots[:100])), code=1)
    assert "covers 100 of the 300 rows" in message


def test_true_in_another_spelling_is_the_same_value(capsys):
    flags = pl.Series("flag", ["true", "false", "false"] * (N_ROWS // 3))
    pl.read_csv("stream.csv").with_columns(flags).write_csv("flags.csv")
    adapt("flags.csv", "first.csv")
    found = run_json(capsys, write(labels().drop("id").with_columns(flags.str.to_titlecase())))
    assert found["counted"] == N_ROWS


@pytest.mark.parametrize(
    ("columns", "options", "remark"),
    [
        (["id", "label"], ["--key", "id"], "Joined by key id."),
        (["line", "label"], [], "Joined by line."),
        (["label"], [], "Joined by position: rows 1 to 300."),
    ],
)
def test_a_remark_says_how_labels_were_joined(columns, options, remark, capsys):
    write(labels().with_columns(pl.read_csv("predictions.csv")["line"]).select(columns))
    assert remark in run_remarks(capsys, "labels.csv", *options).splitlines()


@pytest.mark.parametrize("command", ["labels", "extend"])
def test_a_remark_names_the_key_of_the_run_if_positions_are_taken_on_trust(command, capsys):
    adapt("stream.csv", "keyed.csv", "--key", "id")
    # To extend, a file with a column of the model must have them all.
    compared = [(["x0", "label"], False)] if command == "labels" else []
    for columns, is_told in [(["label"], True), (["id", "label"], False), *compared]:
        write(pl.read_csv("stream.csv").select(columns))
        capsys.readouterr()
        assert main([command, "model", "labels.csv"]) == 0
        remarks = capsys.readouterr().err
        assert ("The run has the key 'id', and these labels do not" in remarks) is is_told
        assert ("they are compared with the wrong ones." in remarks) is is_told


@pytest.mark.parametrize("command", ["labels", "extend"])
def test_a_file_without_the_key_of_the_run_is_not_joined_by_position(command, capsys):
    adapt("stream.csv", "keyed.csv", "--key", "id")
    renamed = write(labels().rename({"id": "booking"}))
    capsys.readouterr()
    assert main([command, "model", renamed]) == 1
    message = capsys.readouterr().err
    assert "has no column 'id', which is the key of the run" in message
    assert "rename 'booking' if it is the key" in message
    assert run_json(capsys, write(labels().drop("id")))["counted"] == N_ROWS


def test_the_key_of_the_last_run_serves_for_predictions_of_an_earlier_one(capsys):
    for output in ("first.csv", "second.csv"):
        adapt("stream.csv", output, "--key", "id")
    write(labels())
    remarks = run_remarks(capsys, "labels.csv", "--predictions", "first.csv")
    assert "Joined by key id." in remarks
    assert "is not tested" not in remarks
    shutil.copy("second.csv", "copy.csv")
    remarks = run_remarks(capsys, "labels.csv", "--predictions", "copy.csv")
    assert "The model does not remember the run of these predictions, so P(y | x) is not tested" in remarks
