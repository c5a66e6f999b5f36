"""One frame in, one frame out: a table model runs the rounds that `accous adapt` runs, on frames of two libraries."""

import json
import shutil
import subprocess
import sys
import threading
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accous
from accous.arrays import from_plain, to_plain
from accous.cli import main
from accous.diagnostics.drift import SeasonWatch
from accous.exceptions import DataError
from accous.table.checks import TimeColumn, find_time_column
from accous.table.model import TableModel
from tests.cli.tables import fit_model, make_tables
from tests.waiting import PATIENCE

BATCH_SIZE = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a fitted model and the stream."""
    folder = tmp_path_factory.mktemp("fitted")
    reference, stream = make_tables(n_rounds=20)
    stream.write_csv(folder / "stream.csv")
    fit_model(folder, reference, "--drop", "id")
    return folder


@pytest.fixture
def table_model(folder) -> TableModel:
    return accous.load(folder / "model")


@pytest.fixture
def stream(folder) -> pl.DataFrame:
    return pl.read_csv(folder / "stream.csv")


def batches(frame):
    return [frame[start : start + BATCH_SIZE] for start in range(0, len(frame), BATCH_SIZE)]


def adapt(folder: Path, copy: Path, *options: str) -> pl.DataFrame:
    """The predictions of the command on a copy of the model."""
    shutil.copytree(folder / "model", copy)
    output = copy.with_name("predictions.csv")
    arguments = ["adapt", copy, folder / "stream.csv", "-o", output, "--batch-size", BATCH_SIZE, "-q", *options]
    assert main(list(map(str, arguments))) == 0
    return pl.read_csv(output)


def require_same_state(one: TableModel, other: TableModel) -> None:
    assert one.model.n_rounds_ == other.model.n_rounds_
    assert np.array_equal(one.model.reference_weight_, other.model.reference_weight_)
    assert np.array_equal(one.model.ratio_.coef_, other.model.ratio_.coef_)
    require_same_arrays(one.history.to_plain(), other.history.to_plain())
    seasons = [to_plain(model.seasons) for model in (one, other)]
    assert (seasons[0] is None) == (seasons[1] is None)
    if seasons[0] is not None:
        require_same_arrays(*[{**each.pop("slots"), **each} for each in seasons])


def require_same_arrays(first: dict, second: dict) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert np.array_equal(value, second[name], equal_nan=np.asarray(value).dtype.kind == "f"), name


@pytest.mark.parametrize("learns_first", [False, True])
def test_steps_give_the_predictions_and_the_state_of_the_command(folder, table_model, stream, tmp_path, learns_first):
    options = ["--learn-first"] if learns_first else []
    expected = adapt(folder, tmp_path / "model", *options)
    found = pl.concat([table_model.step(batch, learns_first=learns_first) for batch in batches(stream)])
    # The header is the first line of the file.
    assert found["line"].to_list() == (expected["line"] - 1).to_list() == list(range(1, 101))
    assert found.drop("line").equals(expected.drop("line", "id"))
    assert found["ratio"].std() > 0.01
    require_same_state(table_model, accous.load(tmp_path / "model"))


def test_pandas_frames_give_the_same_in_pandas_with_their_index(folder, stream):
    first, second = accous.load(folder / "model"), accous.load(folder / "model")
    frame = pd.read_csv(folder / "stream.csv").set_index(np.arange(100) * 3)
    for number, batch in enumerate(batches(stream)):
        expected = first.step(batch)
        found = second.step(frame.iloc[number * BATCH_SIZE : (number + 1) * BATCH_SIZE])
        assert isinstance(found, pd.DataFrame)
        assert found.index.tolist() == frame.index[number * BATCH_SIZE : (number + 1) * BATCH_SIZE].tolist()
        assert found.to_dict("list") == expected.to_dict(as_series=False)
        assert found["round"].dtype == np.int64
    require_same_state(first, second)


def test_the_dtypes_of_pandas_are_read_as_what_they_mean(folder, table_model, stream):
    head = stream[:20].drop("id", "label")
    plain = pd.DataFrame(head.to_dict(as_series=False))
    typed = plain.assign(
        x0=plain["x0"].astype("Float64"),
        x1=plain["x1"].astype(object).where(plain["x1"].notna(), None),
        colour=plain["colour"].astype("category"),
        day=pd.to_datetime(plain["day"]),
    )
    strings = plain.assign(colour=plain["colour"].astype("string"), x2=plain["x2"].map(repr))
    zoned = plain.assign(day=pd.to_datetime(plain["day"]).dt.tz_localize("UTC"))
    expected = table_model.prepare(head)
    assert not expected.bad_values
    assert expected.n_missing.sum() > 0
    for frame in (plain, typed, strings, zoned):
        found = table_model.prepare(frame)
        assert not found.bad_values
        assert np.array_equal(found.X, expected.X)
        assert np.array_equal(found.n_missing, expected.n_missing)


def test_predicting_never_learns(folder, table_model, stream):
    table_model.step(stream[:30])
    n_columns = len(table_model.encoder.used_columns)
    assert repr(table_model) == f"TableModel(label='label', columns={n_columns}, rounds=1, reference_rows=300)"
    before = accous.load(folder / "model")
    before.step(stream[:30])
    found = table_model.predict(stream[30:60])
    require_same_state(table_model, before)
    stepped = before.step(stream[30:60])
    assert found.drop("line", "round").equals(stepped.drop("line", "round"))
    assert (found["line"].to_list(), stepped["line"].to_list()) == (list(range(1, 31)), list(range(31, 61)))
    assert (found["round"].unique().to_list(), stepped["round"].unique().to_list()) == ([1], [2])


def test_labels_and_other_columns_are_ignored_and_order_does_not_matter(folder, table_model, stream):
    expected = table_model.step(stream[:10])
    other = stream[:10].with_columns(label=pl.lit("unheard of"), more=pl.lit(1))
    assert accous.load(folder / "model").step(other.select(reversed(other.columns))).equals(expected)
    assert accous.load(folder / "model").step(other.drop("label", "id")).equals(expected)


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_a_bad_value_is_named_an_empty_frame_is_no_round_and_nothing_is_learned(folder, table_model, stream, library):
    texts = stream[:10].with_columns(pl.col("x2").cast(pl.String))
    texts[4, "x2"] = "n/k"
    is_polars = library == "polars"
    bad = texts if is_polars else pd.DataFrame(texts.to_dict(as_series=False))
    empty = stream[:0] if is_polars else pd.DataFrame(columns=stream.columns)
    for run_rounds in (table_model.step, table_model.predict):
        with pytest.raises(DataError, match=r"Row 4 .*'x2': 'n/k'"):
            run_rounds(bad)
        found = run_rounds(empty)
        assert list(found.columns) == ["line", "round", "prediction", "p_no", "p_yes", "ratio"]
        assert len(found) == 0
    assert [(each.row, each.column) for each in table_model.prepare(bad).bad_values] == [(4, "x2")]
    require_same_state(table_model, accous.load(folder / "model"))
    if is_polars:
        assert pl.concat([table_model.step(empty), table_model.step(stream[:3])]).height == 3


def test_new_categories_are_used_and_counted(table_model, stream):
    frame = stream[:10].with_columns(colour=pl.Series(["ultraviolet", *stream["colour"][1:10]]))
    assert table_model.prepare(frame).n_unknown.tolist() == [1] + [0] * 9
    assert table_model.step(frame)["round"].to_list() == [1] * 10


def test_saved_between_the_steps_it_resumes_bit_for_bit(folder, table_model, stream, tmp_path):
    resumed = accous.load(folder / "model")
    for batch in batches(stream):
        expected = table_model.step(batch)
        assert resumed.step(batch).equals(expected)
        accous.save(resumed, tmp_path / "saved")
        resumed = accous.load(tmp_path / "saved")
    require_same_state(table_model, resumed)
    assert resumed.settings == table_model.settings


def test_the_command_line_takes_a_model_that_python_saved(folder, table_model, stream, tmp_path, capsys):
    table_model.step(stream[:50])
    accous.save(table_model, tmp_path / "model")
    assert main(["status", str(tmp_path / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 1
    arguments = ["adapt", tmp_path / "model", folder / "stream.csv", "-o", tmp_path / "out.csv", "-q"]
    assert main(list(map(str, arguments))) == 0
    assert pl.read_csv(tmp_path / "out.csv")["round"][0] == 2


@pytest.mark.parametrize(
    ("frame", "culprit"),
    [
        (pl.LazyFrame({"x0": [1.0]}), r"frame\.collect\(\)"),
        ({"x0": 1.0}, r"polars\.DataFrame\(\[row\]\)"),
        ([[1.0, 2.0]], "list"),
        (np.zeros((2, 4)), "ndarray"),
        ({"x0": [1.0]}, "dict"),
    ],
    ids=["lazy", "row", "list", "array", "dict"],
)
def test_what_is_no_frame_is_told_how_to_become_one(table_model, frame, culprit):
    for method in (table_model.predict, table_model.step):
        with pytest.raises(DataError, match=culprit):
            method(frame)


def test_columns_that_are_missing_double_or_of_an_odd_type_are_named(table_model, stream):
    double = pd.DataFrame(stream[:3].to_dict(as_series=False))
    double.columns = ["x0", "x0", *stream.columns[2:]]
    for frame, culprit in (
        (stream.drop("colour", "x1"), "'x1', 'colour'"),
        (double, "'x0'"),
        (stream.with_columns(x0=pl.concat_list("x0")), r"'x0' .*List\(Float64\)"),
    ):
        with pytest.raises(DataError, match=culprit):
            table_model.step(frame)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """A model on an array of embeddings with three classes, and rows for it."""
    folder = tmp_path_factory.mktemp("embedded")
    random = np.random.default_rng(0)
    rows = random.normal(size=(90, 4))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", np.arange(90) % 3)
    arguments = ["fit", folder / "rows.npy", "--label", folder / "labels.npy", "-o", folder / "model", "-q"]
    assert main(list(map(str, arguments))) == 0
    np.save(folder / "stream.npy", rows[:20] + 0.5)
    return folder


def test_embeddings_come_as_lists_or_as_columns(embedded, tmp_path):
    rows = np.load(embedded / "stream.npy")
    frames = [
        pl.DataFrame({"embedding": rows.tolist()}),
        pl.DataFrame({"embedding": rows}),
        pl.DataFrame({f"embedding_{number}": rows[:, number] for number in range(4)}),
        pd.DataFrame({"embedding": rows.tolist()}),
        pd.DataFrame({"embedding": list(rows)}),
    ]
    arguments = ["adapt", embedded / "model", embedded / "stream.npy", "-o", tmp_path / "out.csv", "-q"]
    models = [accous.load(embedded / "model") for _ in frames]
    assert main([str(argument) for argument in [*arguments, "--batch-size", 20]]) == 0
    expected = pl.read_csv(tmp_path / "out.csv").drop("id")
    for model, frame in zip(models, frames, strict=True):
        found = model.step(frame)
        found = pl.DataFrame(found.to_dict("list")) if isinstance(found, pd.DataFrame) else found
        assert found.equals(expected)


def test_bad_and_empty_embeddings(embedded):
    model = accous.load(embedded / "model")
    for rows, culprit in (
        ([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0]], "Row 1 .*'embedding': 3 .* 4"),
        ([[1.0, 2.0, float("nan"), 4.0]], "Row 0 .*'embedding_2': nan"),
        ([None], "Row 0 .*'embedding'"),
    ):
        with pytest.raises(DataError, match=culprit):
            model.step(pl.DataFrame({"embedding": rows}))
    for empty in (pl.DataFrame({"embedding": []}), pd.DataFrame({"embedding": []})):
        assert list(model.step(empty).columns) == ["line", "round", "prediction", "p_0", "p_1", "p_2", "ratio"]


@pytest.mark.slow
def test_pandas_frames_need_no_pyarrow(folder):
    code = """
import sys
sys.modules["pyarrow"] = None
import accous, pandas as pd
model = accous.load(sys.argv[1])
frame = pd.read_csv(sys.argv[2])
print(len(model.step(frame)), model.model.n_rounds_)
"""
    command = [sys.executable, "-c", code, str(folder / "model"), str(folder / "stream.csv")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout == "100 1\n", run.stderr


def test_the_time_of_the_last_row_is_kept_whichever_way_the_rows_come(folder, table_model, stream, tmp_path):
    adapt(folder, tmp_path / "model")
    for batch in batches(stream):
        table_model.step(batch)
    times = table_model.history.column("time")
    assert table_model.time_column is not None
    every = table_model.time_column.seconds(stream)
    assert every is not None
    assert times[0] == every[len(next(iter(batches(stream)))) - 1]
    assert np.array_equal(accous.load(tmp_path / "model").history.column("time"), times, equal_nan=True)


def test_a_column_to_order_by_goes_before_the_only_date(table_model):
    plans = table_model.encoder.plans
    assert find_time_column({}, plans).form
    assert find_time_column({"order": {"by": "time", "column": "when"}}, plans) == TimeColumn("when")
    assert find_time_column({"order": {"by": "rows"}}, ()) is None


def test_seasons_judge_the_changes_of_the_weights_and_not_those_of_single_columns(table_model):
    random, model = np.random.default_rng(0), table_model.model
    width = len(table_model.encoder.feature_names)
    kinds_of_the_last = set()
    for number in range(240):
        X = random.normal(size=(5, width))
        X[:, 0] += 2.0 * (number > 60)
        X[:1, 1] += 9.0 * (number > 130)
        X[:, 2], X[:, 8:] = 0.0, 0.7  # nothing is missing, and the date stands still
        X[:, 5:8] = np.eye(3)[random.integers(0, 3, 5)]
        table_model.run_rounds(X, times=86_400.0 * (number + np.arange(5) / 5))
        shifts = [event.round for event in model.drift_.events if event.kind == "shift"]
        assert not shifts or table_model.seasons.event_round == shifts[-1]
        kinds_of_the_last |= {event.kind for event in model.drift_.events[-1:] if shifts}
    assert kinds_of_the_last == {"shift", "outside"}
    assert {event.kind for event in table_model.seasonal_events_} <= {"shift"}
    assert len(table_model.drift_.events) + len(table_model.seasonal_events_) == len(model.drift_.events)


# --- what moved beyond the season ----------------------------------------------------------------------------------

MONDAY = datetime(2024, 1, 1)
ROUNDS_PER_DAY = 120


def rows(rng: np.random.Generator, times: list[datetime], shift: float = 0.0) -> pl.DataFrame:
    """Column ``temp`` follows the hour of the day; ``z`` shifts."""
    hours = np.array([time.hour + time.minute / 60 for time in times])
    noise = rng.normal(size=(4, len(times)))
    return pl.DataFrame(
        {
            "when": times,
            "temp": 2.0 * np.sin(2.0 * np.pi * hours / 24.0) + 0.5 * noise[0],
            "z": noise[1] + shift,
            "x": noise[2],
            "y": np.where(noise[2] + noise[3] > 0.0, "a", "b"),
        }
    )


@pytest.fixture(scope="module")
def seasonal(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seasons")
    times = [MONDAY + timedelta(hours=number * 24 * 14 / 800) for number in range(800)]
    options = ["--time", "when", "--drop", "when", "--estimator", "linear"]
    return fit_model(folder, rows(np.random.default_rng(0), times), *options, label="y")


def run_rounds(model, first_day: float, last_day: float, shift: float = 0.0):
    rng = np.random.default_rng(int(10 * first_day) + 1)
    for number in range(round(first_day * ROUNDS_PER_DAY), round(last_day * ROUNDS_PER_DAY)):
        start = MONDAY + timedelta(days=21 + number / ROUNDS_PER_DAY)
        model.step(rows(rng, [start + timedelta(minutes=minute) for minute in range(5)], shift))
    return model


@pytest.fixture(scope="module")
def after_a_cycle(seasonal):
    """Four days of the daily cycle alone."""
    return run_rounds(accous.load(seasonal), 0.0, 4.25)


def test_the_hour_of_the_day_has_not_moved_and_what_it_explains_is_saved(seasonal, after_a_cycle, tmp_path):
    without_season = dict(zip(("temp", "z", "x"), after_a_cycle.model.state_.watch.column_shares, strict=True))
    assert without_season["temp"] > 0.9
    assert after_a_cycle.seasons.explained[0] > 0.8 * after_a_cycle.model.state_.watch.column_parts[0]
    first_day = run_rounds(accous.load(seasonal), 0.0, 1.0)
    assert first_day.current().drift_attribution["temp"] > 0.9  # what an hour does must be seen twice first
    accous.save(after_a_cycle, tmp_path / "model")
    assert accous.load(tmp_path / "model").drift_.columns == after_a_cycle.drift_.columns
    plain = to_plain(after_a_cycle.seasons)
    plain.pop("explained")  # as in folders that were saved before
    assert from_plain(SeasonWatch, plain).explained is None


def test_a_shift_on_top_of_the_cycle_has_moved_and_stays(seasonal, after_a_cycle, tmp_path):
    accous.save(after_a_cycle, tmp_path / "model")
    model = run_rounds(accous.load(tmp_path / "model"), 4.25, 5.0, shift=2.0)
    raw = dict(zip(("temp", "z", "x"), model.model.state_.watch.column_shares, strict=True))
    assert raw["z"] < 0.9
    assert model.current().drift_attribution["z"] > max(raw["z"], 0.9)
    assert sum(model.current().drift_attribution.values()) == pytest.approx(1.0)
    moved = model.drift_.columns
    assert {each.name: each.share for each in moved} == {
        name: share for name, share in model.current().drift_attribution.items() if share and name != "when"
    }
    assert moved[0].name == "z"
    assert moved[0].now - moved[0].then > 1.0
    # The days after it are what the same hours did, and the shift has still moved.
    assert run_rounds(model, 5.0, 7.25, shift=2.0).current().drift_attribution["z"] > 0.9


def test_readings_come_from_one_round_while_another_thread_steps(seasonal):
    """A reader that comes between the classifier's part of a round and the table's waits for the whole round."""
    model = run_rounds(accous.load(seasonal), 0.0, 0.2)
    n_before = model.model.n_rounds_
    in_the_middle, found = threading.Event(), []

    def read():
        in_the_middle.wait(PATIENCE)
        snapshot = model.snapshot()
        found.append((snapshot.state.n_rounds, snapshot.past.n_rounds))

    reader = threading.Thread(target=read)
    reader.start()
    watch_columns = model._watch_columns

    def pause(marks):
        in_the_middle.set()
        reader.join(0.2)  # the reader is to wait: it cannot finish before this round does
        assert reader.is_alive()
        watch_columns(marks)

    model._watch_columns = pause
    model.step(rows(np.random.default_rng(5), [MONDAY + timedelta(days=30)] * 5))
    reader.join(PATIENCE)
    assert found[0] == (n_before + 1, n_before + 1)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_stream_that_is_not_in_order_of_time_is_told_once(seasonal, tmp_path, capsys, is_shuffled):
    times = [MONDAY + timedelta(days=20, hours=number) for number in range(100)]
    stream = rows(np.random.default_rng(1), times)
    stream = stream.sample(fraction=1.0, shuffle=True, seed=0) if is_shuffled else stream
    stream.write_parquet(tmp_path / "stream.parquet")
    shutil.copytree(seasonal, tmp_path / "model")
    adapt = ["adapt", str(tmp_path / "model"), str(tmp_path / "stream.parquet"), "--batch-size", "10"]
    assert main([*adapt, "-o", str(tmp_path / "predictions.csv")]) == 0
    assert capsys.readouterr().err.count("'when'") == is_shuffled


def test_the_rounds_of_a_table_model_are_a_frame_as_those_of_a_classifier(after_a_cycle):
    found = after_a_cycle.history_
    assert len(found) == after_a_cycle.model.n_rounds_
    assert found.equals(after_a_cycle.model.history_)
