"""Numbers to predict on the command line: the task is decided by the label, and everything speaks in its unit."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main
from tests.cli.processes import files_of, put_files
from tests.cli.tables import fit_model

N_REFERENCE, N_STREAM = 300, 120


def tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    rng = np.random.default_rng(0)
    n_rows = N_REFERENCE + N_STREAM
    size = rng.normal(size=n_rows) + np.where(np.arange(n_rows) < N_REFERENCE, 0.0, 0.7)
    place = rng.choice(["north", "south"], size=n_rows)
    minutes = 30.0 + 8.0 * size + 5.0 * (place == "north") + 3.0 * rng.normal(size=n_rows)
    frame = pl.DataFrame({"size": size, "place": place, "minutes": minutes.round(3)})
    return frame[:N_REFERENCE], frame[N_REFERENCE:]


FIT = ["fit", "reference.csv", "--target", "minutes", "--ordered", "-o", "model"]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    reference, stream = tables()
    folder = fit_model(tmp_path_factory.mktemp("numbers"), reference, "--ordered", label="minutes")
    return {"files": files_of(folder), "reference": reference, "stream": stream}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    put_files(tmp_path / "model", fitted["files"])
    fitted["reference"].write_csv("reference.csv")
    fitted["stream"].write_csv("stream.csv")


def test_the_record_of_fit_has_errors_in_the_place_of_accuracies(capsys):
    assert main([*FIT, "--force", "--json", "--quiet"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["task"] == "regression"
    assert record["error"] < record["error_of_constant"]
    assert "classes" not in record


def test_a_run_writes_numbers_with_their_intervals_and_scores_them(capsys):
    adapt = ["adapt", "model", "stream.csv", "-o", "out.csv", "--label", "minutes", "--json", "--quiet"]
    assert main(adapt) == 0
    found, truth = pl.read_csv("out.csv"), pl.read_csv("stream.csv")["minutes"]
    assert found.columns == ["line", "id", "round", "prediction", "low", "high", "ratio"]
    errors = (truth - found["prediction"]).abs()
    record = json.loads(capsys.readouterr().out)
    assert record["error"] == pytest.approx(errors.mean())
    assert record["labelled_rows"] == N_STREAM
    inside = ((found["low"] <= truth) & (truth <= found["high"])).mean()
    assert 0.8 < inside < 1.0
    table_model = accous.load("model")
    now = table_model.performance()
    assert (now.metric, now.basis, now.n_labels) == ("mean_absolute_error", "labels", N_STREAM)
    assert now.value == pytest.approx(errors.mean(), rel=0.1)  # older ones count less
    totals = table_model.history.totals()
    assert totals["n_wrong"] == pytest.approx(errors.sum())
    assert (totals["n_rows"], totals["n_scored"]) == (N_STREAM, N_STREAM)


def test_late_labels_measure_in_the_unit_of_the_target():
    assert main(["adapt", "model", "stream.csv", "-o", "out.csv", "--quiet"]) == 0
    assert main(["labels", "model", "stream.csv", "--label", "minutes", "--quiet"]) == 0
    errors = (pl.read_csv("stream.csv")["minutes"] - pl.read_csv("out.csv")["prediction"]).abs()
    assert accous.load("model").performance().value == pytest.approx(errors.mean(), rel=0.05)


def test_the_state_speaks_in_the_unit_of_the_target(capsys):
    assert main(["adapt", "model", "stream.csv", "-o", "out.csv", "--label", "minutes", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["status", "model", "--metric", "bias,pinball:0.9", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    truth, found = pl.read_csv("stream.csv")["minutes"], pl.read_csv("out.csv")["prediction"]
    assert (record["metric"], record["basis"]) == ("mean_absolute_error", "labels")
    assert record["metrics"]["bias"]["value"] == pytest.approx((found - truth).mean(), abs=0.5)
    assert main(["status", "model", "--metric", "roc_auc"]) == 2


def test_a_label_that_is_no_number_is_a_bad_row(capsys):
    lines = Path("reference.csv").read_text().splitlines()
    lines[5] = lines[5].rsplit(",", 1)[0] + ",late"
    Path("reference.csv").write_text("\n".join(lines) + "\n")
    assert main([*FIT, "--force", "--task", "regression"]) == 1
    assert "line 6, column 'minutes'" in capsys.readouterr().err
    assert main([*FIT, "--force", "--task", "regression", "--on-bad-row", "skip", "--quiet"]) == 0
    assert len(accous.load("model").model.targets_) == N_REFERENCE - 1


def test_few_whole_numbers_are_classes_unless_you_object():
    pl.read_csv("reference.csv").with_columns((pl.col("minutes") / 10).round(0).cast(int)).write_csv("reference.csv")
    for options, kind in (([], "classifier"), (["--task", "regression"], "regressor")):
        assert main([*FIT, "--force", "--quiet", *options]) == 0
        assert accous.load("model").model.task_.kind == kind


def test_frames_in_python():
    model, stream = accous.load("model"), pl.read_csv("stream.csv")
    found = model.step(stream[:20])
    assert found.columns == ["line", "round", "prediction", "low", "high", "ratio"]
    model.observe(stream[:20], predictions=found)
    errors = (stream["minutes"][:20] - found["prediction"]).abs()
    labelled = model.model.state_.labelled
    assert np.abs(labelled.predicted - labelled.y) == pytest.approx(errors.to_numpy())
    model.observe(stream[20:60])
    assert model.learned_[-1].n_labels == 60


def test_a_row_that_leaves_all_weight_to_one_row_of_the_reference_has_no_interval():
    """A fit without that row is impossible; the stream goes on, and so does the same command later."""
    pl.read_csv("reference.csv")[:40].write_csv("few.csv")
    assert main(["fit", "few.csv", "--target", "minutes", "--ratio", "ulsif", "-o", "far", "--quiet"]) == 0
    rows = pl.read_csv("stream.csv")[:6].with_columns(size=pl.Series([0.0, 1e9, 1e9, 0.5, 0.5, 0.5]))
    rows.write_csv("far.csv")
    assert main(["adapt", "far", "far.csv", "-o", "far_predictions.csv", "--batch-size", "1", "--quiet"]) == 0
    found = pl.read_csv("far_predictions.csv")
    assert found["low"].null_count() == found["high"].null_count() > 0
    assert found["low"].null_count() < found.height
    assert found["prediction"].is_finite().all()


def test_a_label_whose_square_is_no_number_is_a_bad_row(capsys):
    lines = Path("reference.csv").read_text().splitlines()
    lines[1] = f"{lines[1].rpartition(',')[0]},1e200"
    Path("reference.csv").write_text("\n".join(lines) + "\n")
    assert main([*(each for each in FIT if each != "--ordered"), "--force", "-q"]) == 1  # looks for an order
    assert "at most 1e+100" in capsys.readouterr().err
