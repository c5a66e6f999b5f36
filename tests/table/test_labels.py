"""`TableModel` on raw frames: late labels are counted and join the reference."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accous
from accous.exceptions import DataError, TrapWarning
from tests.budgets import rest_slow
from tests.cli.tables import fit_model, make_tables


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models fitted in order of time and without an order, the same after twenty rounds, and the stream."""
    folder = tmp_path_factory.mktemp("models")
    reference, stream = make_tables()
    stream.write_csv(folder / "stream.csv")
    for name, option in (("ordered", "--time=day"), ("unordered", "--no-ordered")):
        fit_model(folder, reference, "--drop", "id", option, name=name)
        accous.save(play(accous.load(folder / name), stream), folder / f"{name} played")
    return folder


@pytest.fixture
def stream(folders):
    return pl.read_csv(folders / "stream.csv")


@pytest.fixture
def model(folders):
    return accous.load(folders / "unordered played")


@pytest.fixture
def ordered(folders):
    return accous.load(folders / "ordered played")


def play(model: Any, stream: pl.DataFrame) -> Any:
    for start in range(0, 200, 10):
        model.step(stream[start : start + 10])
    return model


def count_labels(model: Any) -> int:
    found = model.model.state_.labelled
    return 0 if found is None else len(found)


# --- what labels measure --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", rest_slow(["column", "name", "array", "pandas"]))
def test_observe_counts_what_the_classifier_counts_on_encoded_rows(model, folders, stream, kind):
    other = play(accous.load(folders / "unordered"), stream)
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
    for take in (model.observe, model.extend):
        with pytest.raises(DataError, match=culprit):
            take(rows, y)


# --- rows that join the reference -----------------------------------------------------------------------------


def test_predictions_from_before_rows_joined_are_left_out(folders, stream):
    model = accous.load(folders / "unordered")
    earlier = model.step(stream[:100])
    model.step(stream[100:200])
    model.extend(stream[:60])
    assert count_labels(model.observe(stream[:100], predictions=earlier)) == 0
    since = model.predict(stream[200:300])
    assert count_labels(model.observe(stream[200:300], predictions=since)) == 100
    assert count_labels(model.observe(stream[:100], predictions=earlier)) == 100


def test_extend_adds_the_rows_that_the_classifier_would_add(model, folders, stream):
    other = play(accous.load(folders / "unordered"), stream)
    rows = stream[:100]
    assert model.extend(rows) is model
    other.model.extend(other.prepare(rows).X, rows["label"].to_numpy())
    assert len(model.model.labels_) == 400
    assert np.array_equal(model.model.reference_weight_, other.model.reference_weight_)
    assert np.array_equal(model.predict(stream)["p_yes"], other.predict(stream)["p_yes"])
    assert model.settings["n_joined"] == 100


def test_rows_of_the_reference_do_not_join_again(model):
    with pytest.warns(TrapWarning, match="300 rows"):
        model.extend(make_tables()[0])
    assert len(model.model.labels_) == 300


def test_the_rows_are_sorted_by_the_column_that_sorted_the_reference(ordered, folders, stream):
    shuffled = stream[:200].sample(fraction=1.0, shuffle=True, seed=3)
    assert shuffled["day"].to_list() != stream["day"][:200].to_list()
    ordered.extend(shuffled)
    by_day = shuffled.with_row_index().sort("day", "index").drop("index")
    in_order = play(accous.load(folders / "ordered"), stream).extend(by_day, order=True)
    assert ordered.backtest_ == in_order.backtest_
    assert ordered.backtest_.n_reference == 500
    as_given = play(accous.load(folders / "ordered"), stream).extend(shuffled, order=True)
    assert ordered.backtest_ != as_given.backtest_
    with pytest.raises(DataError, match="'day'"):
        ordered.extend(stream[:10].drop("day"))


def test_without_an_order_the_evidence_goes(ordered, stream):
    assert ordered.backtest_ is not None
    assert ordered.extend(stream[:50], order=False).backtest_ is None
    assert ordered.status_.reasons[0].code == "no_backtest"


def test_what_the_reference_knows_grows(model, stream):
    strange = stream.with_columns(pl.lit("violet").alias("colour"))
    play(model, strange)
    assert [finding.column for finding in model.drift_.coverage.columns] == ["colour"]
    n_marks = len(model.encoder.marks)
    model.extend(strange[:300], max_reference=600)
    assert model.drift_.coverage.columns == ()
    assert len(model.encoder.marks) == n_marks
    model.step(strange[:10])


def test_new_classes_join_and_saved_it_goes_on_bit_for_bit(model, stream, tmp_path):
    labels = stream["label"][:60].to_list()
    labels[::4] = ["perhaps"] * 15
    model.extend(stream[:60], labels)
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    assert "p_perhaps" in model.predict(stream[:1]).columns
    for start in range(200, 300, 10):
        assert model.step(stream[start : start + 10]).equals(loaded.step(stream[start : start + 10]))
    assert loaded.status_ == model.status_
    assert (loaded.settings, loaded.encoder) == (model.settings, model.encoder)


def test_numbers_stay_numbers(tmp_path, stream):
    whole = {"no": 0, "yes": 1}
    model = accous.load(fit_model(tmp_path, make_tables()[0].with_columns(pl.col("label").replace_strict(whole))))
    model.extend(stream[:20], stream["label"].replace_strict(whole)[:20].cast(pl.Float64))
    assert model.model.classes_.tolist() == [0, 1]
    model.extend(stream[:20], pl.Series([2] * 20))
    assert model.model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match="whole numbers"):
        model.extend(stream[:2], ["1", "x"])


def test_weights_belong_to_the_labelled_rows_and_a_failure_changes_nothing(model, stream):
    labels = stream["label"][:4].to_list()
    labels[1] = None
    model.extend(stream[:4], labels, [1.0, 50.0, 2.0, 3.0])
    assert model.model.base_weight_[-3:].tolist() == [1.0, 2.0, 3.0]
    before, n_rows = (model.encoder, model.settings), len(model.model.labels_)
    for weights in ([1.0], [-1.0] * 4):
        with pytest.raises(DataError, match="sample_weight"):
            model.extend(stream[:4], ["yes", "no", "yes", "new"], weights)
        assert (model.encoder, model.settings, len(model.model.labels_)) == (*before, n_rows)
