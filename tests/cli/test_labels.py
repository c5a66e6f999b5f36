"""`accous labels`: late labels meet their predictions by key, line or position, each counts once, and they judge."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model
from tests.budgets import rest_slow
from tests.cli.late_labels import N_ROWS, adapt, expected_error, labels, run, run_json, run_remarks, share_wrong, write

pytestmark = pytest.mark.usefixtures("predicted_folder")
FLIPPED = {"yes": "no", "no": "yes"}
BY_ID = ["--key", "id"]


def flipped(predictions: str = "predictions.csv") -> pl.DataFrame:
    """Labels that say that all predictions are wrong."""
    return pl.read_csv(predictions).select("id", label=pl.col("prediction").replace_strict(FLIPPED))


def model():
    return load_table_model(Path("model"))


def inspect(capsys) -> dict:
    capsys.readouterr()
    assert main(["inspect", "model", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# --- what is measured -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.jsonl", "labels.parquet", "labels.npy"])
@pytest.mark.parametrize("key", [BY_ID, []], ids=["by key", "by position"])
def test_labels_of_every_format_are_joined_by_key_or_by_position(name, key, capsys):
    if name == "labels.npy" and key:
        key = []  # an array has no keys
    found = run_json(capsys, write(labels() if key else labels().drop("id"), name), *key)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected_error(labels()))
    assert found["measured_error_fixed"] is not None
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != labels()["label"]
    assert (found["measured_error_plain"], found["measured_error_plain_rows"]) == (is_wrong.mean(), N_ROWS)
    assert found["concept_changed"] == "no"


def test_some_labels_in_any_order_are_joined_by_key_or_line(capsys):
    some = labels(250, 3, 17).with_columns(line=pl.Series([252, 5, 19]))  # line 1 of the stream is its header
    expected = expected_error(some)
    found = run_json(capsys, write(some.select("line", "label")))
    assert (found["counted"], found["unmatched"], found["measured_error"]) == (3, 0, pytest.approx(expected))
    found = run_json(capsys, write(pl.concat([some.drop("line"), labels(4)])), *BY_ID)
    assert (found["counted"], found["counted_before"]) == (1, 3)


def test_a_column_of_another_name_holds_the_labels_and_is_told(capsys):
    frame = labels().rename({"label": "truth"})
    assert "'truth'" in run_remarks(capsys, write(frame[:3]), *BY_ID)
    run(capsys, write(frame.with_columns(note=pl.lit("x"))), *BY_ID, code=2)
    assert run_json(capsys, "labels.csv", *BY_ID, "--label", "truth")["counted"] == N_ROWS - 3


def test_a_label_counts_once_however_it_is_given_again_and_others_change_nothing(capsys):
    first = run_json(capsys, write(labels(*range(200))), *BY_ID)
    again = run_json(capsys, "labels.csv", *BY_ID)
    assert (again["counted"], again["counted_before"]) == (0, 200)
    assert again["labelled_rows"] == first["labelled_rows"] == 200
    by_line = run_json(capsys, write(labels().drop("id"), "all.csv"))
    assert (by_line["counted"], by_line["counted_before"], by_line["labelled_rows"]) == (100, 200, 300)
    other = pl.col("label").replace_strict(FLIPPED)
    changed = labels().with_columns(label=pl.when(pl.col("id") < 7).then(other).otherwise("label"))
    again = run_json(capsys, write(changed, "changed.csv"), *BY_ID)
    assert (again["counted"], again["counted_before"], again["differing"]) == (0, N_ROWS, 7)
    assert again["measured_error"] == by_line["measured_error"]


@pytest.mark.parametrize("command", ["labels", "extend"])
def test_rows_without_a_prediction_a_key_or_a_label_are_counted_each(command, capsys):
    frame = labels().with_columns(id=pl.when(pl.col("id") < 20).then(None).otherwise("id"))
    frame = frame.with_columns(label=pl.when(pl.col("id") == 30).then(None).otherwise("label"))
    write(pl.concat([frame, pl.DataFrame({"id": [7_000], "label": ["yes"]}), labels(40)]))
    capsys.readouterr()
    assert main([command, "model", "labels.csv", *BY_ID, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["without_key"], found["without_label"], found["unmatched"]) == (20, 1, 1)
    assert found["counted" if command == "labels" else "joined"] == N_ROWS - 21
    assert printed.err.count("\n") >= 4


def test_classes_that_the_reference_does_not_have_are_counted_by_name(capsys):
    frame = labels().with_columns(label=pl.when(pl.col("id") < 40).then(pl.lit("perhaps")).otherwise("label"))
    found = run_json(capsys, write(frame), *BY_ID)
    assert (found["unseen_classes"], found["concept_changed"]) == ({"perhaps": 40}, "yes")


def test_labels_opposite_to_the_predictions_contradict_the_estimate(capsys):
    assert run_json(capsys, write(flipped()), *BY_ID)["labels_contradict"] is True
    record = inspect(capsys)
    assert (record["measured_error"], record["trust_predictions"], record["contradicted_by"]) == (1.0, "no", "labels")


def test_an_alert_fires_for_labels_that_contradict_where_the_verdict_is_no_overlap(capsys):
    pl.read_csv("stream.csv").with_columns(x0=pl.col("x0") + 50.0).write_csv("far.csv")
    adapt("far.csv", "far_predictions.csv", "--keep", "id")
    run(capsys, write(flipped("far_predictions.csv")), *BY_ID)
    assert main(["inspect", "model", "--fail-if", "verdict == contradicted"]) == 0
    assert main(["inspect", "model", "--fail-if", "predictions == no"]) == 3
    assert "300 labels" in json.loads(capsys.readouterr().out)["reason"]
    assert inspect(capsys)["trust"] == "no overlap"


def test_the_history_and_the_report_have_what_late_labels_measured_over_the_rounds(capsys):
    for _ in range(2):  # each counts once
        run(capsys, write(labels()), *BY_ID)
        is_wrong = pl.read_csv("predictions.csv").select("round", is_wrong=pl.col("prediction") != labels()["label"])
        by_round = is_wrong.group_by("round", maintain_order=True).agg(pl.len(), pl.sum("is_wrong"))
        assert model().history.column("n_late").tolist() == by_round["len"].to_list()
        assert model().history.column("late_loss").tolist() == by_round["is_wrong"].to_list()
    assert main(["report", "model", "-o", "report.html"]) == 0
    assert "late labels" in Path("report.html").read_text()


def test_estimates_are_those_of_the_rounds_in_which_the_rows_were_predicted(capsys):
    history = model().history
    predictions = pl.read_csv("predictions.csv")
    rounds = predictions["round"].to_numpy()
    early = np.flatnonzero(rounds <= 10)
    found = run_json(capsys, write(labels(*early.tolist())), *BY_ID)
    weights = 0.5 ** (np.arange(len(early) - 1, -1, -1) / 500)
    expected = np.average(history.column("risk")[rounds[early] - 1], weights=weights)
    assert found["estimated_error"] == pytest.approx(expected)


def test_labels_are_not_compared_with_an_estimate_that_is_far_away(capsys):
    pl.read_csv("predictions.csv").with_columns(round=pl.lit(5_000)).write_csv("predictions.csv")
    found = run_json(capsys, write(labels()), *BY_ID)
    assert (found["counted"], found["estimated_error"], found["labels_contradict"]) == (N_ROWS, None, None)


def test_rounds_with_labels_read_the_estimate_more_often():
    def longest_gap(first_round: int) -> int:
        history = model().history
        read = history.rounds[~np.isnan(history.column("risk"))]
        return int(np.diff([first_round, *read[read > first_round], history.n_rounds]).max())

    for options, is_rare in (([], True), (["--label", "label"], False)):
        n_before = model().history.n_rounds
        adapt("stream.csv", f"rare-{is_rare}.csv", "--batch-size", "2", *options)
        assert (longest_gap(n_before) > 9) is is_rare


# --- runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("becomes", ["gone", "another table", "empty"])
def test_counts_are_kept_if_the_stream_cannot_be_read_again(becomes, capsys):
    write(labels())
    stream = pl.read_csv("stream.csv")
    Path("stream.csv").unlink()
    if becomes == "another table":
        stream.reverse().write_csv("stream.csv")
    if becomes == "empty":
        Path("stream.csv").touch()
    found = run_json(capsys, "labels.csv")
    assert (found["counted"], found["measured_error_fixed"], found["concept_changed"]) == (N_ROWS, None, "not known")
    assert found["measured_error"] is not None


def test_a_row_that_a_killed_run_has_begun_to_write_is_not_read(capsys):
    with Path("predictions.csv").open("a") as file:
        file.write("300,61,ye")
    assert run_json(capsys, write(labels()))["counted"] == N_ROWS


def test_rows_that_were_set_aside_need_a_key(capsys):
    lines = Path("stream.csv").read_text().splitlines()
    lines[5] = lines[5] + ",one field too many"
    Path("broken.csv").write_text("\n".join(lines))
    adapt("broken.csv", "other.csv", "--keep", "id", "--on-bad-row", "skip")
    pl.read_csv("other.csv").drop("line", strict=False).write_csv("other.csv")
    run(capsys, write(labels()), code=1)
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["unmatched"]) == (N_ROWS - 1, 1)


def test_labels_in_the_stream_itself_count_in_the_same_record(capsys):
    adapt("stream.csv", "scored.csv", "--label", "label")
    measured = model().model.measured_
    assert measured.n_labelled == model().job.n_scored == N_ROWS
    assert measured.error == pytest.approx(share_wrong("scored.csv", labels()))
    run(capsys, write(labels()), code=1)  # they must not count twice


def test_a_run_goes_on_as_before_after_labels_were_counted(capsys):
    more = pl.concat([pl.read_csv("stream.csv"), pl.read_csv("stream.csv")])
    write(labels())
    shutil.copytree("model", "other")
    predictions = Path("predictions.csv").read_bytes()
    more.write_csv("stream.csv")
    again = ["stream.csv", "-o", "predictions.csv", "--keep", "id", "--quiet"]
    assert main(["adapt", "other", *again]) == 0
    expected = Path("predictions.csv").read_bytes()
    Path("predictions.csv").write_bytes(predictions)
    run_json(capsys, "labels.csv", *BY_ID)
    assert main(["adapt", "model", *again]) == 0
    assert Path("predictions.csv").read_bytes() == expected
    assert model().model.measured_.n_labelled == N_ROWS
    shutil.rmtree("other")


def test_a_run_that_replaces_the_predictions_of_another_has_labels_of_its_own(capsys):
    assert run_json(capsys, write(labels()), *BY_ID)["counted"] == N_ROWS
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "predictions.csv", "--keep", "id", "--force")
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["counted_before"], found["labelled_rows"]) == (N_ROWS, 0, 2 * N_ROWS)
    assert run_json(capsys, "labels.csv", *BY_ID)["counted"] == 0


# --- without a key: labels meet their own rows, by line or by position, or they are refused ---------------------


def require_all_counted(capsys, expected: float, *options: str) -> None:
    found = run_json(capsys, "labels.csv", *options)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected)
    assert found["measured_error_fixed"] is not None


@pytest.mark.parametrize("stream", rest_slow(["s.csv", "s.parquet", "s.jsonl"], n_fast=2))
@pytest.mark.parametrize("is_last", [True, False], ids=["last run", "earlier run"])
def test_lines_mean_the_same_in_labels_and_predictions_of_any_stream(stream, is_last, capsys):
    write(pl.read_csv("stream.csv"), stream)
    adapt(stream, "first.csv")
    if not is_last:
        adapt("stream.csv", "second.csv", "--keep", "id")
    write(labels().select("label").with_columns(pl.read_csv("first.csv")["line"]))
    require_all_counted(capsys, share_wrong("first.csv", labels()), "--predictions", "first.csv")


@pytest.mark.parametrize("by", ["position", "line"])
def test_a_line_break_inside_a_row_does_not_shift_the_rows_after_it(by, capsys):
    notes = ["two\nlines" if number == 3 else "one" for number in range(N_ROWS)]
    pl.read_csv("stream.csv").with_columns(note=pl.Series(notes)).write_csv("s.csv")
    adapt("s.csv", "first.csv")
    frame = labels().select("label")
    write(frame if by == "position" else frame.with_columns(pl.read_csv("first.csv")["line"]))
    require_all_counted(capsys, share_wrong("first.csv", labels()))


def test_an_empty_line_in_a_list_of_labels_is_a_row_without_a_label(capsys):
    values = ["" if row in (0, 7) else each for row, each in enumerate(labels()["label"].to_list())]
    Path("labels.csv").write_text("\n".join(["label", *values]))
    found = run_json(capsys, "labels.csv")
    some = labels(*(row for row in range(N_ROWS) if row not in (0, 7)))
    assert (found["counted"], found["measured_error"]) == (N_ROWS - 2, pytest.approx(expected_error(some)))


@pytest.mark.parametrize("name", ["labels.csv", "labels.parquet"])
@pytest.mark.parametrize("is_piped", [False, True], ids=["stream", "kept columns"])
def test_a_position_is_refused_if_a_column_of_both_files_disagrees(name, is_piped, capsys):
    frame = labels()
    if is_piped:
        Path("stream.csv").rename("gone.csv")
    message = run(capsys, write(frame.with_columns(id=pl.col("id").shift(-1, fill_value=999)), name), code=1)
    if is_piped:
        Path("gone.csv").rename("stream.csv")
    assert "row 1 'id' is '1', and '0'" in message
    assert run_json(capsys, write(frame.with_columns(pl.col("id").cast(pl.Float64)), name))["counted"] == N_ROWS


@pytest.mark.parametrize("name", ["labels.csv", "labels.npy"])
@pytest.mark.parametrize("n_depots", [0, 1, 2])
def test_a_part_of_the_labels_is_not_joined_by_position_on_trust(name, n_depots, capsys):
    """Neither without a column that both files have, nor if its few values do not tell rows apart."""
    part = labels()[:100].drop("id")
    if n_depots:
        depots = pl.Series("depot", ["north", "south"][:n_depots] * (N_ROWS // n_depots))
        pl.read_csv("stream.csv").with_columns(depots).write_csv("depot.csv")
        adapt("depot.csv", "first.csv")
        part = part.with_columns(depots[:100])
    assert "100 of the 300 rows" in run(capsys, write(part, name), code=1)


def test_nested_values_of_columns_that_nobody_uses_are_not_compared(capsys):
    nested = pl.DataFrame({"tags": [{"a": row} if row % 3 else None for row in range(N_ROWS)]})
    nested.hstack(pl.read_csv("stream.csv")).write_ndjson("nested.jsonl")
    adapt("nested.jsonl", "first.csv")
    assert run_json(capsys, "nested.jsonl")["counted"] == N_ROWS
    turned = pl.read_ndjson("nested.jsonl").with_columns(pl.col("id").reverse())
    assert "row 1 'id' is '299', and '0'" in run(capsys, write(turned, "turned.jsonl"), code=1)


def test_true_in_another_spelling_is_the_same_value(capsys):
    flags = pl.Series("flag", ["true", "false", "false"] * (N_ROWS // 3))
    pl.read_csv("stream.csv").with_columns(flags).write_csv("flags.csv")
    adapt("flags.csv", "first.csv")
    found = run_json(capsys, write(labels().drop("id").with_columns(flags.str.to_titlecase())))
    assert found["counted"] == N_ROWS


@pytest.mark.parametrize(
    ("columns", "options", "how"),
    [(["id", "label"], BY_ID, "by key id"), (["line", "label"], [], "by line"), (["label"], [], "by position")],
)
def test_a_remark_says_how_labels_were_joined(columns, options, how, capsys):
    write(labels().with_columns(pl.read_csv("predictions.csv")["line"]).select(columns))
    assert f"Joined {how}" in run_remarks(capsys, "labels.csv", *options)


@pytest.mark.parametrize("command", ["labels", "extend"])
def test_the_key_of_the_run_is_missed_and_a_file_with_another_name_for_it_is_refused(command, capsys):
    adapt("stream.csv", "keyed.csv", "--key", "id")
    assert main([command, "model", write(labels().rename({"id": "booking"}))]) == 1
    assert "'booking'" in capsys.readouterr().err
    # To extend, a file with a column of the model must have them all.
    compared = [(["x0", "label"], False)] if command == "labels" else []
    for columns, is_told in [(["label"], True), (["id", "label"], False), *compared]:
        write(pl.read_csv("stream.csv").select(columns))
        capsys.readouterr()
        assert main([command, "model", "labels.csv"]) == 0
        assert ("has the key 'id'" in capsys.readouterr().err) is is_told


def test_a_run_that_is_not_remembered_needs_a_key_and_that_of_the_last_run_serves(capsys):
    for output in ("first.csv", "second.csv"):
        adapt("stream.csv", output, "--key", "id")
    shutil.copy("second.csv", "copy.csv")
    run(capsys, write(labels().drop("id"), "alone.csv"), "--predictions", "copy.csv", code=1)
    write(labels())
    for name, is_tested in (("first.csv", True), ("copy.csv", False)):
        remarks = run_remarks(capsys, "labels.csv", "--predictions", name)
        assert "by key id" in remarks
        assert ("is not tested" not in remarks) is is_tested


# --- after rows have joined: labels for earlier predictions say nothing about the present reference -------------


def extend(n_rows: int = 60) -> None:
    pl.read_csv("stream.csv")[:n_rows].write_csv("labelled.csv")
    assert main(["extend", "model", "labelled.csv", "--quiet"]) == 0


def counts_of(found: dict) -> tuple:
    return found["counted"], found["before_joining"], found["labelled_rows"]


def test_labels_for_predictions_from_before_rows_joined_are_not_counted(capsys):
    extend()
    assert counts_of(run_json(capsys, write(flipped()), *BY_ID)) == (0, N_ROWS, 0)
    assert inspect(capsys)["trust_predictions"] != "no"


def test_labels_that_came_before_rows_joined_are_outdated_and_contradict_nothing(capsys):
    run(capsys, write(flipped()), *BY_ID)
    extend()
    record = inspect(capsys)
    assert (record["labels_outdated"], record["labels_contradict"], record["measured_error"]) == (True, None, 1.0)
    assert main(["inspect", "model", "--fail-if", "measured_error > 50%"]) == 0  # it is not about the present model


def test_labels_for_later_predictions_count_and_are_not_diluted_by_those_for_earlier_ones(capsys):
    extend()
    assert main(["predict", "model", "stream.csv", "-o", "since.csv", "--keep", "id", "--quiet"]) == 0
    right = pl.read_csv("since.csv").select("id", label="prediction")
    found = run_json(capsys, write(right), *BY_ID, "--predictions", "since.csv")
    assert (counts_of(found), found["measured_error"]) == ((N_ROWS, 0, N_ROWS), 0.0)
    pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000).write_csv("second.csv")
    adapt("second.csv", "second_predictions.csv", "--keep", "id")
    later = pl.read_csv("second_predictions.csv").select("id", label="prediction")
    found = run_json(capsys, write(later), *BY_ID)
    assert (counts_of(found), found["measured_error"]) == ((N_ROWS, 0, 2 * N_ROWS), 0.0)
    earlier = write(flipped(), "earlier.csv")
    found = run_json(capsys, earlier, *BY_ID, "--predictions", "predictions.csv")
    assert (counts_of(found), found["labels_outdated"]) == ((0, N_ROWS, 2 * N_ROWS), False)
    # Of a file that no run has written, the last round may hold what accous predict wrote since: it counts.
    pl.read_csv("predictions.csv").write_csv("copy.csv")
    found = run_json(capsys, earlier, *BY_ID, "--predictions", "copy.csv")
    assert (found["counted"], found["before_joining"], found["labels_outdated"]) == (10, N_ROWS - 10, False)
    assert found["measured_error"] < 0.05
