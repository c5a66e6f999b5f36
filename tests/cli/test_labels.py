"""`accous labels`: late labels meet their predictions by key, id or line, each counts once, and they judge."""

import json
import shutil
import time
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


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.jsonl", "labels.parquet"])
@pytest.mark.parametrize("key", [BY_ID, []], ids=["a key that is named", "the key of the run"])
def test_labels_of_every_format_are_joined_by_key(name, key, capsys):
    found = run_json(capsys, write(labels(), name), *key)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(expected_error(labels()))
    assert found["measured_error_fixed"] is not None
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != labels()["label"]
    assert (found["measured_error_plain"], found["measured_error_plain_rows"]) == (is_wrong.mean(), N_ROWS)
    assert found["concept_changed"] == "no"


@pytest.mark.parametrize("stream", rest_slow(["s.csv", "s.parquet", "s.jsonl"], n_fast=2))
@pytest.mark.parametrize("by", ["id", "line", "another name", "the file itself"])
def test_ids_and_lines_join_in_any_order_whatever_the_stream_is(stream, by, capsys):
    notes = ["two\nlines" if number == 3 else "one" for number in range(N_ROWS)]
    write(pl.read_csv("stream.csv").with_columns(note=pl.Series(notes)), stream)
    Path("model/predictions.sqlite").unlink()  # it has lines of another file
    adapt(stream, "first.csv")
    named = pl.read_csv("first.csv").select("line", "id")
    if by == "the file itself":
        found = run_json(capsys, stream)
    else:
        column = "line" if by == "line" else "id"
        frame = labels().select("label").with_columns(named[column]).sample(fraction=1.0, shuffle=True, seed=1)
        renamed = frame.rename({"id": "number"}) if by == "another name" else frame
        options = ["--id", "number"] if by == "another name" else []
        found = run_json(capsys, write(renamed), *options)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert found["measured_error"] == pytest.approx(share_wrong("first.csv", labels()))
    assert found["concept_changed"] == "no"


def test_labels_that_nothing_names_are_refused_with_a_hint(capsys):
    for columns in (["label"], ["x0", "label"]):
        write(pl.read_csv("stream.csv").select(columns))
        assert "'id', which is the key of the run" in run(capsys, "labels.csv", code=1)
    # Somebody's own numbers are no ids of predictions.
    adapt("stream.csv", "second.csv")
    assert "of a key" in run(capsys, write(labels()), code=1)
    assert "is it the --key" in run(capsys, "labels.csv", "--id", "id", code=1)
    assert run_json(capsys, "labels.csv", *BY_ID)["counted"] == N_ROWS
    run(capsys, "labels.csv", "--key", "id", "--id", "id", code=2)
    run(capsys, code=2)


def test_lines_that_two_files_have_are_refused_and_ids_are_not(capsys):
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "second_predictions.csv")
    predictions = pl.read_csv("second_predictions.csv").with_columns(label="prediction")
    assert "2 files" in run(capsys, write(predictions.select("line", "label")), code=1)
    assert run_json(capsys, write(predictions))["measured_error"] == 0.0  # the predictions with labels beside them


def test_a_column_of_another_name_holds_the_labels_and_is_told(capsys):
    frame = labels().rename({"label": "truth"})
    assert "'truth'" in run_remarks(capsys, write(frame[:3]), *BY_ID)
    run(capsys, write(frame.with_columns(note=pl.lit("x"))), *BY_ID, code=2)
    assert run_json(capsys, "labels.csv", *BY_ID, "--label", "truth")["counted"] == N_ROWS - 3


def test_a_label_counts_once_however_it_is_given_again_and_a_correction_takes_its_place(capsys):
    first = run_json(capsys, write(labels(*range(200))), *BY_ID)
    again = run_json(capsys, "labels.csv", *BY_ID)
    assert (again["counted"], again["counted_before"]) == (0, 200)
    assert again["labelled_rows"] == first["labelled_rows"] == 200
    found = run_json(capsys, "stream.csv")
    assert (found["counted"], found["counted_before"], found["labelled_rows"]) == (100, 200, 300)
    other = pl.col("label").replace_strict(FLIPPED)
    changed = labels().with_columns(label=pl.when(pl.col("id") < 7).then(other).otherwise("label"))
    again = run_json(capsys, write(changed, "changed.csv"), *BY_ID)
    assert (again["counted"], again["counted_before"], again["corrected"]) == (0, N_ROWS - 7, 7)
    assert again["labelled_rows"] == N_ROWS
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != changed["label"]
    assert again["measured_error_plain"] == is_wrong.mean()
    assert model().history.column("n_late").sum() == N_ROWS
    assert model().history.column("late_loss").sum() == is_wrong.sum()


def state_of(found: dict) -> dict:
    return {name: value for name, value in found.items() if "measured" in name or "label" in name or "concept" in name}


def test_a_wrong_file_is_taken_back_as_if_it_had_not_come(capsys):
    first = run_json(capsys, write(labels(*range(100))), *BY_ID)
    history = model().history.to_plain()
    run(capsys, write(flipped(), "wrong.csv"), *BY_ID)
    taken_back = run_json(capsys, "--undo")
    assert state_of(taken_back) == {name: first[name] for name in state_of(taken_back)}
    for name, value in model().history.to_plain().items():
        assert np.array_equal(value, history[name], equal_nan=True), name
    assert run_json(capsys, "labels.csv", *BY_ID)["counted_before"] == 100
    assert run_json(capsys, "--undo")["labelled_rows"] == 0
    assert "no labels" in run(capsys, "--undo", code=1)


def test_what_is_remembered_of_a_key_is_deleted(capsys):
    run(capsys, write(labels()), *BY_ID)
    assert run_json(capsys, "--forget", "7", "--forget", "8", "--forget", "nobody")["labelled_rows"] == N_ROWS - 2
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["unmatched"]) == (0, 2)


def test_predictions_are_forgotten_after_so_many_days(capsys, monkeypatch):
    later = time.time() + 10 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    adapt("stream.csv", "later.csv", "--key", "x0", "--keep-days", "11")
    assert run_json(capsys, write(labels()), *BY_ID)["counted"] == N_ROWS
    adapt("stream.csv", "last.csv", "--key", "x0", "--keep-days", "9")
    assert "belongs to a prediction" in run(capsys, "labels.csv", *BY_ID, code=1)


def test_rows_without_a_prediction_a_key_or_a_label_are_counted_each(capsys):
    frame = labels().with_columns(id=pl.when(pl.col("id") < 20).then(None).otherwise("id"))
    frame = frame.with_columns(label=pl.when(pl.col("id") == 30).then(None).otherwise("label"))
    write(pl.concat([frame, pl.DataFrame({"id": [7_000], "label": ["yes"]}), labels(40)]))
    capsys.readouterr()
    assert main(["labels", "model", "labels.csv", *BY_ID, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["without_key"], found["without_label"], found["unmatched"]) == (20, 1, 1)
    assert found["counted"] == N_ROWS - 21
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
    adapt("far.csv", "far_predictions.csv", "--key", "id")
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


def test_the_rows_are_remembered_when_the_stream_is_gone(capsys):
    write(labels())
    Path("stream.csv").unlink()
    Path("predictions.csv").unlink()
    found = run_json(capsys, "labels.csv")
    assert (found["counted"], found["concept_changed"]) == (N_ROWS, "no")


def test_labels_for_what_predict_wrote_count(capsys):
    pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000).write_csv("second.csv")
    predict = ["predict", "model", "second.csv", "-o", "only.csv", "--key", "id"]
    assert main([*predict, "--quiet"]) == 0
    right = pl.read_csv("only.csv").select("id", label="prediction")
    found = run_json(capsys, write(right))
    assert (found["counted"], found["measured_error"]) == (N_ROWS, 0.0)
    assert found["measured_error_fixed"] is not None


def test_labels_in_the_stream_itself_count_in_the_same_record_and_only_once(capsys):
    adapt("stream.csv", "scored.csv", "--label", "label")
    measured = model().model.measured_
    assert measured.n_labelled == model().job.n_scored == N_ROWS
    assert measured.error == pytest.approx(share_wrong("scored.csv", labels()))
    named = pl.read_csv("scored.csv").select("id").with_columns(labels()["label"])
    found = run_json(capsys, write(named))
    assert (found["counted"], found["counted_before"], found["labelled_rows"]) == (0, N_ROWS, N_ROWS)


def test_a_run_goes_on_as_before_after_labels_were_counted(capsys):
    more = pl.concat([pl.read_csv("stream.csv"), pl.read_csv("stream.csv")])
    write(labels())
    shutil.copytree("model", "other")
    predictions = Path("predictions.csv").read_bytes()
    more.write_csv("stream.csv")
    again = ["stream.csv", "-o", "predictions.csv", "--key", "id", "--quiet"]
    assert main(["adapt", "other", *again]) == 0
    expected = Path("predictions.csv").read_bytes()
    Path("predictions.csv").write_bytes(predictions)
    run_json(capsys, "labels.csv", *BY_ID)
    assert main(["adapt", "model", *again]) == 0
    assert Path("predictions.csv").read_bytes() == expected
    assert model().model.measured_.n_labelled == N_ROWS
    shutil.rmtree("other")


def test_another_prediction_of_a_row_has_a_label_of_its_own(capsys):
    assert run_json(capsys, write(labels()), *BY_ID)["counted"] == N_ROWS
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "predictions.csv", "--key", "id", "--force")
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["counted_before"], found["labelled_rows"]) == (N_ROWS, 0, 2 * N_ROWS)
    assert run_json(capsys, "labels.csv", *BY_ID)["counted"] == 0


def test_a_store_that_is_damaged_is_said_in_one_sentence_and_can_be_removed(capsys):
    Path("model/predictions.sqlite").write_bytes(b"SQLite format 3\0" + bytes(5000))
    for command in (["labels", "model", write(labels())], ["adapt", "model", "stream.csv", "-o", "x.csv", "-q"]):
        assert main(command) == 1
        assert "predictions.sqlite" in capsys.readouterr().err.splitlines()[-1]
    Path("model/predictions.sqlite").unlink()
    assert main(["adapt", "model", "stream.csv", "-o", "x.csv", "--key", "id", "-q"]) == 0
    assert run_json(capsys, "labels.csv")["counted"] == N_ROWS
