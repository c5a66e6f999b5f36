"""`accous labels` after `accous extend`: labels for earlier predictions say nothing about the present reference."""

import json
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from accous.tabular import summary
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


def test_labels_for_predictions_before_rows_joined_count_as_labels_that_came_before(capsys):
    extend()
    found = run_json(capsys, write(opposite(labels())), "--key", "id")
    assert (found["counted"], found["before_joining"], found["measured_error"]) == (N_ROWS, N_ROWS, 1.0)
    assert (found["labels_outdated"], found["labels_contradict"], found["concept_changed"]) == (True, None, "not known")
    assert found["measured_error_fixed"] is None  # the fixed model of now was fitted on some of the rows
    assert inspect(capsys)["trust_predictions"] != "no"


def test_the_lines_do_not_say_that_labels_of_an_earlier_reference_contradict(capsys):
    extend()
    remarks = run_remarks(capsys, write(opposite(labels(*range(150)))), "--key", "id")
    assert "150 labels are about predictions from before rows joined the reference." in remarks
    last = run(capsys, write(opposite(labels())), "--key", "id").splitlines()[-1]
    assert last == (
        "This is about predictions from before the last rows joined the reference: new labels show whether the "
        "estimate holds now."
    )


@pytest.mark.parametrize(("off", "words"), [(True, "though inside its interval"), (False, "far worse than estimated")])
def test_inspect_names_what_contradicts_an_estimate_whose_interval_holds(off, words, capsys, monkeypatch):
    run(capsys, write(labels()), "--key", "id")
    saved = summary.read_table_model_summary(Path("model"))
    saved["state"] |= {"labels_contradict": True, "labels_inside": True, "labels_off": off}
    monkeypatch.setattr(summary, "read_table_model_summary", lambda _: saved)
    capsys.readouterr()
    assert main(["inspect", "model"]) == 0
    assert words in capsys.readouterr().out


def test_labels_for_later_predictions_are_not_diluted_by_those_for_earlier_ones(capsys):
    extend()
    pl.read_csv("stream.csv").with_columns(pl.col("id") + 1000).write_csv("second.csv")
    adapt("second.csv", "second_predictions.csv", "--keep", "id")
    later = pl.read_csv("second_predictions.csv").select("id", label="prediction")
    found = run_json(capsys, write(later), "--key", "id")
    assert (found["counted"], found["before_joining"], found["measured_error"]) == (N_ROWS, 0, 0.0)
    earlier = write(opposite(labels()), "earlier.csv")
    found = run_json(capsys, earlier, "--key", "id", "--predictions", "predictions.csv")
    assert (found["counted"], found["before_joining"], found["labelled_rows"]) == (N_ROWS, N_ROWS, 2 * N_ROWS)
    assert (found["measured_error"], found["labels_outdated"]) == (0.0, False)
    assert run_json(capsys, earlier, "--key", "id", "--predictions", "predictions.csv")["counted"] == 0
