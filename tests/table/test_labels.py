"""`TableModel` on raw frames: late labels are counted and join the reference."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accous
from accous.exceptions import DataError
from accous.table.kinds import ClassForm
from tests.budgets import rest_slow
from tests.cli.tables import fit_model, make_tables


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A model, the same after twenty rounds, and the stream."""
    folder = tmp_path_factory.mktemp("models")
    reference, stream = make_tables()
    stream.write_csv(folder / "stream.csv")
    fit_model(folder, reference, "--drop", "id", "--no-ordered", name="unordered")
    accous.save(run_rounds(accous.load(folder / "unordered"), stream), folder / "unordered adapted")
    return folder


@pytest.fixture
def stream(folders):
    return pl.read_csv(folders / "stream.csv")


@pytest.fixture
def model(folders):
    return accous.load(folders / "unordered adapted")


def run_rounds(model: Any, stream: pl.DataFrame) -> Any:
    for start in range(0, 200, 10):
        model.step(stream[start : start + 10])
    return model


def count_labels(model: Any) -> int:
    found = model.model.state_.labelled
    return 0 if found is None else len(found)


# --- what labels measure --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", rest_slow(["column", "name", "array", "pandas"]))
def test_observe_counts_what_the_classifier_counts_on_encoded_rows(model, folders, stream, kind):
    other = run_rounds(accous.load(folders / "unordered"), stream)
    rows = stream[:100]
    frame, y = {
        "column": (rows, None),
        "name": (rows.rename({"label": "truth"}), "truth"),
        "array": (rows.drop("label"), rows["label"].to_numpy()),
        "pandas": (pd.DataFrame(rows.to_dict(as_series=False)), None),
    }[kind]
    assert model.observe(frame, y, learn=False) is model
    other.model.observe(other.prepare(rows).X, rows["label"].to_numpy(), learn=False)
    assert count_labels(model) == 100
    assert model.performance() == other.model.performance()
    for name, values in vars(other.model.state_.labelled).items():
        assert np.array_equal(getattr(model.model.state_.labelled, name), values, equal_nan=True), name


def test_rows_without_a_label_are_left_out_with_their_bad_values(model, stream):
    labels = [None if row % 3 else label for row, label in enumerate(stream["label"][:90].to_list())]
    assert count_labels(model.observe(stream[:90], labels)) == 30
    rows = stream[:20].with_columns(pl.col("x0").cast(pl.String))
    rows[7, "x0"] = "?!"
    labels = rows["label"].to_list()
    with pytest.raises(DataError, match=r"Row 7 .*'x0'"):
        model.observe(rows, labels)
    assert count_labels(model) == 30
    labels[7] = None
    assert count_labels(model.observe(rows, labels)) == 49


def test_predictions_of_the_time_are_joined_by_key(folders, stream):
    model, parts = accous.load(folders / "unordered"), []
    for start in range(0, 200, 10):
        rows = stream[start : start + 10]
        parts.append(model.step(rows).with_columns(rows["id"]))
    predictions = pl.concat(parts)
    late = pl.concat((stream[-20:], stream[:40])).select("id", "label")  # the last rows were not predicted
    model.observe(late, predictions=predictions, key="id")
    joined = predictions.join(late, on="id", how="inner", maintain_order="left")
    labelled = model.model.state_.labelled
    assert count_labels(model) == joined.height == 40
    is_wrong = (joined["prediction"] != joined["label"]).to_list()
    assert (labelled.predicted != labelled.y).tolist() == is_wrong
    assert np.isnan(labelled.rows).all()  # the frame has no features
    model.observe(stream[40:60], predictions=predictions, key="id")
    assert count_labels(model) == 60


def test_lines_and_positions_join_too_and_nothing_else(model, stream):
    predictions = model.predict(stream[:30])
    model.observe(stream[:30].with_columns(predictions["line"])[::-1], predictions=predictions)
    assert count_labels(model) == 30
    model.observe(stream[:30], predictions=predictions.drop("line"))
    assert count_labels(model) == 60
    for rows, others in (
        (stream[:29], predictions.drop("line")),
        (stream[100:101].with_columns(pl.lit("x").alias("line")), predictions),
    ):
        with pytest.raises(DataError):
            model.observe(rows, predictions=others)


@pytest.mark.parametrize(("y", "culprit"), [("truth", "'truth'"), (["yes"], "10 rows"), (None, "'label'")])
def test_wrong_labels_are_refused(model, stream, y, culprit):
    rows = stream[:10] if y else stream[:10].drop("label")
    with pytest.raises(DataError, match=culprit):
        model.observe(rows, y)


# --- what is learned from them ----------------------------------------------------------------------------------


def test_labels_are_learned_from_unless_you_object_and_saved_it_goes_on_bit_for_bit(model, stream, tmp_path):
    before = model.predict(stream)
    assert model.observe(stream[:200], learn=False).learned_ == ()
    assert model.predict(stream).equals(before)
    model.observe(stream[:200])
    assert [(event.n_labels, event.n_new) for event in model.learned_] == [(200, 200)]
    assert not model.predict(stream)["p_yes"].equals(before["p_yes"])
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    for start in range(200, 300, 10):
        assert model.step(stream[start : start + 10]).equals(loaded.step(stream[start : start + 10]))
    assert loaded.learned_ == model.learned_


@pytest.mark.parametrize("is_joined", [False, True])
def test_labels_that_were_asked_for_say_how_good_the_model_is(model, stream, is_joined):
    rows, probability = model.ask(stream, 60)
    chosen = stream[rows]
    given = {"predictions": model.predict(chosen)} if is_joined else {}
    assert model.observe(chosen, **given).performance().basis == "expected"
    assert not model.model.state_.learning.kept.is_asked.any()
    assert model.observe(chosen, probability=probability, **given).performance().basis == "labels"
    assert model.model.state_.learning.kept.is_asked.tolist() == [False] * 60 + [True] * 60
    with pytest.raises(DataError, match="probability"):
        model.observe(chosen, probability=probability[1:])


def test_a_whole_number_with_a_point_is_the_class_that_it_names():
    """As a spreadsheet or pandas writes whole numbers where some are missing."""
    given = pl.Series(["1.0", "0", "2.0", "a.0", None])
    assert ClassForm(np.array([0, 1])).texts(given).to_list() == ["1", "0", "2.0", "a.0", None]
    assert ClassForm(np.array(["1", "1.0"])).texts(given).to_list()[0] == "1.0"
