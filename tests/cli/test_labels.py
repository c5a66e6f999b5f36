"""`accous labels`: late labels meet their predictions by key, id or line, each counts once, and they judge."""

import json
import shutil
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model, open_store
from tests.budgets import rest_slow
from tests.cli.late_labels import N_ROWS, adapt, labels, run, run_json, run_remarks, share_wrong, write
from tests.cli.tables import fit_model

pytestmark = pytest.mark.usefixtures("predicted_folder")
FLIPPED = {"yes": "no", "no": "yes"}
BY_ID = ["--key", "id"]


def flipped(predictions: str = "predictions.csv") -> pl.DataFrame:
    """Labels that say that all predictions are wrong."""
    return pl.read_csv(predictions).select("id", label=pl.col("prediction").replace_strict(FLIPPED))


def model():
    return load_table_model(Path("model"))


def n_labelled() -> int:
    """How many labels the model has."""
    found = model().model.state_.labelled
    return 0 if found is None else len(found)


# --- what is measured -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.jsonl", "labels.parquet"])
@pytest.mark.parametrize("key", [BY_ID, []], ids=["a key that is named", "the key of the run"])
def test_labels_of_every_format_are_joined_by_key(name, key, capsys):
    found = run_json(capsys, write(labels(), name), *key)
    assert (found["counted"], found["unmatched"]) == (N_ROWS, 0)
    assert (found["metric"], found["basis"], found["n_labels"]) == ("error", "labels", N_ROWS)
    assert found["value"] == pytest.approx(share_wrong("predictions.csv", labels()), abs=0.005)  # the oldest count less
    assert found["low"] < found["value"] < found["high"]


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
    assert n_labelled() == N_ROWS
    assert model().model.state_.labelled.y.tolist() == (labels()["label"] == "yes").cast(int).to_list()


def test_labels_that_nothing_names_are_refused_with_a_hint(capsys):
    for columns in (["label"], ["x0", "label"]):
        write(pl.read_csv("stream.csv").select(columns))
        assert "'id', which is" in run(capsys, "labels.csv", code=1)
    # Somebody's own numbers are no ids of predictions.
    adapt("stream.csv", "second.csv")
    assert "of a key" in run(capsys, write(labels()), code=1)
    run(capsys, "labels.csv", "--id", "id", code=1)
    assert run_json(capsys, "labels.csv", *BY_ID)["counted"] == N_ROWS
    run(capsys, "labels.csv", "--key", "id", "--id", "id", code=2)
    run(capsys, code=2)


def test_lines_that_two_files_have_are_refused_and_ids_are_not(capsys):
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "second_predictions.csv")
    predictions = pl.read_csv("second_predictions.csv").with_columns(label="prediction")
    assert "2 files" in run(capsys, write(predictions.select("line", "label")), code=1)
    assert run_json(capsys, write(predictions))["counted"] == N_ROWS  # the predictions with labels beside them
    labelled = model().model.state_.labelled
    assert labelled.y.tolist() == labelled.predicted.tolist()


def test_a_column_of_another_name_holds_the_labels_and_is_told(capsys):
    frame = labels().rename({"label": "truth"})
    assert "'truth'" in run_remarks(capsys, write(frame[:3]), *BY_ID)
    run(capsys, write(frame.with_columns(note=pl.lit("x"))), *BY_ID, code=2)
    assert run_json(capsys, "labels.csv", *BY_ID, "--label", "truth")["counted"] == N_ROWS - 3


def test_a_label_counts_once_however_it_is_given_again_and_a_correction_takes_its_place(capsys):
    first = run_json(capsys, write(labels(*range(200))), *BY_ID)
    again = run_json(capsys, "labels.csv", *BY_ID)
    assert (again["counted"], again["counted_before"]) == (0, 200)
    assert (n_labelled(), first["n_labels"]) == (200, 0)  # two thirds of the rows may be of a certain kind
    found = run_json(capsys, "stream.csv")
    assert (found["counted"], found["counted_before"], found["n_labels"]) == (100, 200, 300)
    other = pl.col("label").replace_strict(FLIPPED)
    changed = labels().with_columns(label=pl.when(pl.col("id") < 7).then(other).otherwise("label"))
    again = run_json(capsys, write(changed, "changed.csv"), *BY_ID)
    assert (again["counted"], again["counted_before"], again["corrected"]) == (0, N_ROWS - 7, 7)
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != changed["label"]
    assert (again["n_labels"], again["value"]) == (N_ROWS, pytest.approx(is_wrong.mean(), abs=0.005))
    assert model().history.column("n_late").sum() == N_ROWS
    assert model().history.column("late_loss").sum() == is_wrong.sum()


def test_a_wrong_file_is_taken_back_as_if_it_had_not_come(capsys):
    before = run_json(capsys, write(labels(*range(100))), *BY_ID)
    history = model().history.to_plain()
    assert run_json(capsys, write(flipped(), "wrong.csv"), *BY_ID)["state"] == "degraded"
    taken_back = run_json(capsys, "--undo")
    assert taken_back == {name: before[name] for name in taken_back}
    for name, value in model().history.to_plain().items():
        assert np.array_equal(value, history[name], equal_nan=True), name
    assert run_json(capsys, "labels.csv", *BY_ID)["counted_before"] == 100
    assert run_json(capsys, "--undo")["n_labels"] == n_labelled() == 0
    assert "no labels" in run(capsys, "--undo", code=1)


def test_what_is_remembered_of_a_key_is_deleted(capsys):
    run(capsys, write(labels()), *BY_ID)
    assert run_json(capsys, "--forget", "7", "--forget", "8", "--forget", "nobody")["n_labels"] == N_ROWS - 2
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["unmatched"]) == (0, 2)


def test_predictions_are_forgotten_after_so_many_days(capsys, monkeypatch):
    later = time.time() + 10 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    adapt("stream.csv", "later.csv", "--key", "x0", "--keep-days", "11")
    assert run_json(capsys, write(labels()), *BY_ID)["counted"] == N_ROWS
    adapt("stream.csv", "last.csv", "--key", "x0", "--keep-days", "9")
    assert "a prediction" in run(capsys, "labels.csv", *BY_ID, code=1)


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
    assert found["unseen_classes"] == {"perhaps": 40}
    is_wrong = pl.read_csv("predictions.csv")["prediction"] != frame["label"]
    assert found["value"] == pytest.approx(is_wrong.mean(), abs=0.005)


def test_labels_that_cannot_be_learned_from_change_nothing(capsys):
    """More classes than a label can have: what was counted until that showed is taken back."""
    odd = labels().with_row_index().with_columns(label=pl.concat_str(pl.lit("c"), "index")).drop("index")
    odd = odd.with_columns(label=pl.when(pl.col("label") == "c0").then(pl.lit("yes")).otherwise("label"))
    before = Path("model/predictions.sqlite").read_bytes()
    assert main(["labels", "model", write(odd, "odd.csv")]) == 1
    assert "more than 200" in capsys.readouterr().err
    assert Path("model/predictions.sqlite").read_bytes() == before


def test_rows_that_were_asked_for_count_with_their_probability(capsys):
    """A draw among rows that look wrong: of the few right ones, each stands for many."""
    predictions = pl.read_csv("predictions.csv")
    is_wrong = (predictions["prediction"] != labels()["label"]).to_numpy()
    asked = np.flatnonzero(is_wrong | (np.arange(N_ROWS) % 4 == 0))
    chosen = np.where(is_wrong[asked], 1.0, 0.25)
    found = model()
    with open_store(found, Path("model")) as store:
        joined = store.join(labels().select(place=pl.col("id").cast(str), label="label"), by="key")
        store.mark_asked(joined.rows["id"].to_numpy()[asked].tolist(), chosen.tolist())
    found = run_json(capsys, write(labels(*asked.tolist())), *BY_ID)
    assert (found["basis"], found["n_labels"]) == ("labels", len(asked))
    assert is_wrong[asked].mean() > is_wrong.mean() + 0.1
    assert found["value"] == pytest.approx(is_wrong.mean(), abs=0.05)


# --- runs -------------------------------------------------------------------------------------------------------


def test_the_rows_are_remembered_when_the_stream_is_gone(capsys):
    write(labels())
    Path("stream.csv").unlink()
    Path("predictions.csv").unlink()
    found = run_json(capsys, "labels.csv")
    assert (found["counted"], found["basis"]) == (N_ROWS, "labels")
    assert np.isfinite(model().model.state_.labelled.rows).all()


def test_labels_for_what_predict_wrote_count(capsys):
    pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000).write_csv("second.csv")
    predict = ["predict", "model", "second.csv", "-o", "only.csv", "--key", "id"]
    assert main([*predict, "--quiet"]) == 0
    right = pl.read_csv("only.csv").select("id", label="prediction")
    found = run_json(capsys, write(right))
    assert (found["counted"], found["value"]) == (N_ROWS, 0.0)


def test_labels_in_the_stream_itself_count_in_the_same_record_and_only_once(capsys):
    adapt("stream.csv", "scored.csv", "--label", "label")
    now = model().performance()
    assert now.n_labels == model().job.n_scored == N_ROWS
    assert now.value == pytest.approx(share_wrong("scored.csv", labels()), abs=0.02)  # older ones count less
    named = pl.read_csv("scored.csv").select("id").with_columns(labels()["label"])
    found = run_json(capsys, write(named))
    assert (found["counted"], found["counted_before"], n_labelled()) == (0, N_ROWS, N_ROWS)


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
    run_json(capsys, "labels.csv", *BY_ID, "--measure-only")
    assert main(["adapt", "model", *again]) == 0
    assert Path("predictions.csv").read_bytes() == expected
    assert n_labelled() == N_ROWS
    shutil.rmtree("other")


def test_another_prediction_of_a_row_has_a_label_of_its_own(capsys):
    assert run_json(capsys, write(labels()), *BY_ID)["counted"] == N_ROWS
    pl.read_csv("stream.csv").reverse().write_csv("second.csv")
    adapt("second.csv", "predictions.csv", "--key", "id", "--force")
    found = run_json(capsys, "labels.csv", *BY_ID)
    assert (found["counted"], found["counted_before"], n_labelled()) == (N_ROWS, 0, 2 * N_ROWS)
    assert run_json(capsys, "labels.csv", *BY_ID)["counted"] == 0


def test_a_store_that_is_damaged_is_said_in_one_sentence_and_can_be_removed(capsys):
    store = Path("model/predictions.sqlite")
    store.write_bytes(b"SQLite format 3\0" + bytes(5000))
    for command in (["labels", "model", write(labels())], ["adapt", "model", "stream.csv", "-o", "x.csv", "-q"]):
        assert main(command) == 1
        assert "predictions.sqlite" in capsys.readouterr().err.splitlines()[-1]
    store.unlink()
    again = ["adapt", "model", "stream.csv", "-o", "x.csv", "--key", "id", "-q"]
    assert main(again) == 0
    assert run_json(capsys, "labels.csv")["counted"] == N_ROWS
    store.write_bytes(store.read_bytes()[:63] + b"\1" + store.read_bytes()[64:])  # the version
    assert main([*again, "--new", "--force"]) == 1
    assert "earlier" in capsys.readouterr().err
    fit_model(Path(), pl.read_csv("reference.csv"), "--drop", "id", "--estimator", "linear")
    assert main([*again, "--force"]) == 0


def test_a_stream_is_scored_once_labels_have_taught_a_category(capsys):
    some = pl.int_range(pl.len()) % 3 == 0
    stream = pl.read_csv("stream.csv").with_columns(colour=pl.when(some).then(pl.lit("new")).otherwise("colour"))
    adapt(write(stream, "new.csv"), "new-predictions.csv", "--key", "id")
    run_remarks(capsys, "new.csv", "--key", "id", "--quiet")
    width = model().model.n_features_in_
    assert model().encoder.encode(stream).X.shape[1] > width
    assert main(["adapt", "model", "new.csv", "-o", "scored.csv", "--label", "label", "--json", "--quiet"]) == 0
    found = json.loads(capsys.readouterr().out)
    fixed = model().model.predict_fixed(model().encoder.encode(stream).X)
    assert found["error"] == pytest.approx(share_wrong("scored.csv", stream))
    assert found["error_fixed"] == pytest.approx((fixed != stream["label"].to_numpy()).mean())
