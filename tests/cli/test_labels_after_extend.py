"""`accous labels` after `accous extend`: labels for earlier predictions say nothing about the present reference."""

import json
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from accous.table import summary
from accous.table.model import load_table_model
from tests.cli.late_labels import N_ROWS, adapt, labels, run, run_json, run_remarks, write

pytestmark = pytest.mark.usefixtures("predicted_folder")
FLIPPED = {"yes": "no", "no": "yes"}


def extend(n_rows: int = 60) -> None:
    pl.read_csv("stream.csv")[:n_rows].write_csv("labelled.csv")
    assert main(["extend", "model", "labelled.csv", "--quiet"]) == 0


def opposite(frame: pl.DataFrame) -> pl.DataFrame:
    """Labels that say that nearly all predictions are wrong."""
    predicted = pl.read_csv("predictions.csv").select("id", "prediction")
    joined = frame.join(predicted, on="id", maintain_order="left")
    return joined.select("id", label=pl.col("prediction").replace_strict(FLIPPED))


def inspect(capsys: pytest.CaptureFixture[str]) -> dict:
    capsys.readouterr()
    assert main(["inspect", "model", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_labels_for_predictions_from_before_rows_joined_are_not_counted(capsys):
    extend()
    found = run_json(capsys, write(opposite(labels())), "--key", "id")
    assert (found["counted"], found["before_joining"], found["labelled_rows"]) == (0, N_ROWS, 0)
    assert inspect(capsys)["trust_predictions"] != "no"
    remarks = run_remarks(capsys, "labels.csv", "--key", "id")
    assert "300 labels are about predictions from before rows joined the reference: not counted." in remarks
    assert "Nothing new" not in remarks
    line = "Nothing is measured yet: no label is about a prediction of the present model.\n"
    assert run(capsys, "labels.csv", "--key", "id") == line


def test_labels_that_came_before_rows_joined_are_outdated_and_contradict_nothing(capsys):
    run(capsys, write(opposite(labels())), "--key", "id")
    assert main(["inspect", "model"]) == 0
    assert "all labels alike" in capsys.readouterr().out
    extend()
    assert main(["inspect", "model"]) == 0
    # No label came since, so that there is no plain mean to show.
    assert "all labels alike" not in capsys.readouterr().out
    last = run(capsys, "labels.csv", "--key", "id").splitlines()[-1]
    assert last == (
        "This is about predictions from before the last rows joined the reference: at least 20 labels for later ones "
        "are needed to judge the estimate of now."
    )
    record = inspect(capsys)
    assert (record["labels_outdated"], record["labels_contradict"], record["measured_error"]) == (True, None, 1.0)
    assert main(["inspect", "model", "--fail-if", "measured_error > 50%"]) == 0  # it is not about the present model


def test_what_predict_wrote_since_counts(capsys):
    extend()
    assert main(["predict", "model", "stream.csv", "-o", "since.csv", "--keep", "id", "--quiet"]) == 0
    right = pl.read_csv("since.csv").select("id", label="prediction")
    found = run_json(capsys, write(right), "--key", "id", "--predictions", "since.csv")
    assert (found["counted"], found["before_joining"], found["measured_error"]) == (N_ROWS, 0, 0.0)


@pytest.mark.parametrize(
    ("inside", "off", "known", "words"),
    [
        (True, True, True, "though the intervals of both"),
        (True, False, True, "far worse than estimated"),
        (False, True, True, "contradicts the estimate"),
        (True, True, False, "the estimate is too wide to be shown, so rely on this"),
        (False, True, False, "outside the interval of the estimate, which is too wide to be shown"),
    ],
)
def test_inspect_names_what_contradicts_the_estimate(inside, off, known, words, capsys, monkeypatch):
    run(capsys, write(labels()), "--key", "id")
    saved = summary.read_table_model_summary(Path("model"))
    saved["state"] |= {"labels_contradict": True, "labels_inside": inside, "labels_off": off}
    saved["state"]["labels_estimate_known"] = known
    monkeypatch.setattr(summary, "read_table_model_summary", lambda _: saved)
    capsys.readouterr()
    assert main(["inspect", "model"]) == 0
    assert words in capsys.readouterr().out


@pytest.mark.parametrize(
    ("by", "words"),
    [("labels", "rely on the measured one"), ("the backtest", "rely on no estimate before labels arrive")],
)
def test_inspect_says_by_what_the_estimate_is_contradicted(by, words, capsys, monkeypatch):
    saved = summary.summarize_table_model(load_table_model(Path("model")).snapshot())
    saved["state"] |= {"trust": "contradicted", "contradicted_by": by, "estimated_error_known": True}
    monkeypatch.setattr(summary, "read_table_model_summary", lambda _: saved)
    assert main(["inspect", "model"]) == 0
    shown = capsys.readouterr().out
    assert words in shown
    assert f"without labels; contradicted by {by}" in shown


def test_labels_for_later_predictions_are_not_diluted_by_those_for_earlier_ones(capsys):
    extend()
    pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000).write_csv("second.csv")
    adapt("second.csv", "second_predictions.csv", "--keep", "id")
    later = pl.read_csv("second_predictions.csv").select("id", label="prediction")
    found = run_json(capsys, write(later), "--key", "id")
    assert (found["counted"], found["before_joining"], found["measured_error"]) == (N_ROWS, 0, 0.0)
    earlier = write(opposite(labels()), "earlier.csv")
    found = run_json(capsys, earlier, "--key", "id", "--predictions", "predictions.csv")
    assert (found["counted"], found["before_joining"], found["labels_outdated"]) == (0, N_ROWS, False)
    # Of a file that no run has written, the last round may hold what accous predict wrote since: it counts.
    pl.read_csv("predictions.csv").write_csv("copy.csv")
    found = run_json(capsys, earlier, "--key", "id", "--predictions", "copy.csv")
    assert (found["counted"], found["before_joining"], found["labels_outdated"]) == (10, N_ROWS - 10, False)
    assert found["measured_error"] < 0.05
