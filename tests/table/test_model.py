"""One frame in, one frame out: a table model plays the rounds that `accous adapt` plays, on frames of two libraries."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accous
from accous.arrays import to_plain
from accous.cli import main
from accous.exceptions import CheckpointError, DataError
from accous.table.checks import TimeColumn, find_time_column
from accous.table.model import TableModel
from tests.cli.tables import make_tables

BATCH_SIZE = 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a fitted model and the stream."""
    folder = tmp_path_factory.mktemp("fitted")
    reference, stream = make_tables(n_rounds=20)
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")
    options = ["--label", "label", "--drop", "id", "-o", str(folder / "model"), "--quiet", "--json"]
    assert main(["fit", str(folder / "reference.csv"), *options]) == 0
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
    copy.mkdir()
    for file in (folder / "model").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    output = copy.with_name("predictions.csv")
    arguments = ["adapt", copy, folder / "stream.csv", "-o", output, "--batch-size", BATCH_SIZE, "-q", *options]
    assert main([str(argument) for argument in arguments]) == 0
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
    assert found.drop("line").equals(expected.drop("line"))
    assert found["ratio"].std() > 0.01
    require_same_state(table_model, accous.load(tmp_path / "model"))


def test_the_command_plays_its_rounds_through_the_table_model(folder, tmp_path, monkeypatch):
    played = []

    def play_round(self, X, marks, **options):
        played.append(len(X))
        return original(self, X, marks, **options)

    original = TableModel.play_round
    monkeypatch.setattr(TableModel, "play_round", play_round)
    adapt(folder, tmp_path / "model")
    assert played == [BATCH_SIZE] * 14 + [2]
    assert accous.load(tmp_path / "model").model.n_rounds_ == len(played)


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


def test_it_prints_in_one_line(table_model, stream):
    table_model.step(stream[:10])
    n_columns = len(table_model.encoder.used_columns)
    assert repr(table_model) == f"TableModel(label='label', columns={n_columns}, rounds=1, reference_rows=300)"


def test_predicting_never_learns(folder, table_model, stream):
    table_model.step(stream[:30])
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
def test_a_bad_value_is_named_and_nothing_is_learned(folder, table_model, stream, library):
    texts = stream[:10].with_columns(pl.col("x2").cast(pl.String))
    texts[4, "x2"] = "n/k"
    frame = texts if library == "polars" else pd.DataFrame(texts.to_dict(as_series=False))
    sentence = r"Row 4 of the frame \(counted from 0\), column 'x2': 'n/k' is not a number"
    for play in (table_model.step, table_model.predict):
        with pytest.raises(DataError, match=sentence):
            play(frame)
    assert [(bad.row, bad.column) for bad in table_model.prepare(frame).bad_values] == [(4, "x2")]
    require_same_state(table_model, accous.load(folder / "model"))


def test_new_categories_are_used_and_counted(table_model, stream):
    frame = stream[:10].with_columns(colour=pl.Series(["ultraviolet", *stream["colour"][1:10]]))
    assert table_model.prepare(frame).n_unknown.tolist() == [1] + [0] * 9
    assert table_model.step(frame)["round"].to_list() == [1] * 10


@pytest.mark.parametrize("library", ["polars", "pandas"])
def test_an_empty_frame_is_no_round(folder, table_model, stream, library):
    empty = stream[:0] if library == "polars" else pd.DataFrame(columns=stream.columns)
    for play in (table_model.step, table_model.predict):
        found = play(empty)
        assert list(found.columns) == ["line", "round", "prediction", "p_no", "p_yes", "ratio"]
        assert len(found) == 0
    require_same_state(table_model, accous.load(folder / "model"))
    if library == "polars":
        assert pl.concat([table_model.step(empty), table_model.step(stream[:3])]).height == 3


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
    assert main(["inspect", str(tmp_path / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 1
    arguments = ["adapt", tmp_path / "model", folder / "stream.csv", "-o", tmp_path / "out.csv", "-q"]
    assert main([str(argument) for argument in arguments]) == 0
    assert pl.read_csv(tmp_path / "out.csv")["round"][0] == 2


@pytest.mark.parametrize(
    ("frame", "advice"),
    [(pl.LazyFrame({"x0": [1.0]}), r"pass frame\.collect\(\)"), ({"x0": 1.0}, r"pass polars\.DataFrame\(\[row\]\)")],
    ids=["lazy", "dict"],
)
def test_what_is_nearly_a_frame_is_told_how_to_become_one(table_model, frame, advice):
    for method in (table_model.predict, table_model.step):
        with pytest.raises(DataError, match=advice):
            method(frame)


@pytest.mark.parametrize("frame", [[[1.0, 2.0]], np.zeros((2, 4)), {"x0": [1.0]}])
def test_something_else_than_a_frame_is_refused(table_model, frame):
    with pytest.raises(DataError, match=f"A polars or pandas DataFrame is needed, got {type(frame).__name__}"):
        table_model.step(frame)


def test_columns_that_are_missing_double_or_of_an_odd_type_are_named(table_model, stream):
    with pytest.raises(DataError, match="The frame has no column 'x1', 'colour', which the model was fitted with"):
        table_model.step(stream.drop("colour", "x1"))
    double = pd.DataFrame(stream[:3].to_dict(as_series=False))
    double.columns = ["x0", "x0", *stream.columns[2:]]
    with pytest.raises(DataError, match="two columns called 'x0'"):
        table_model.step(double)
    with pytest.raises(DataError, match=r"Column 'x0' of the frame has the type List\(Float64\), which cannot be used"):
        table_model.step(stream.with_columns(x0=pl.concat_list("x0")))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    """A model on an array of embeddings with three classes, and rows for it."""
    folder = tmp_path_factory.mktemp("embedded")
    random = np.random.default_rng(0)
    rows = random.normal(size=(90, 4))
    np.save(folder / "rows.npy", rows)
    np.save(folder / "labels.npy", np.arange(90) % 3)
    arguments = ["fit", folder / "rows.npy", "--label", folder / "labels.npy", "-o", folder / "model", "-q", "--json"]
    assert main([str(argument) for argument in arguments]) == 0
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
    expected = pl.read_csv(tmp_path / "out.csv")
    for model, frame in zip(models, frames, strict=True):
        found = model.step(frame)
        found = pl.DataFrame(found.to_dict("list")) if isinstance(found, pd.DataFrame) else found
        assert found.equals(expected)


def test_bad_and_empty_embeddings(embedded):
    model = accous.load(embedded / "model")
    with pytest.raises(DataError, match=r"Row 1 of .*, column 'embedding': 3 numbers instead of 4"):
        model.step(pl.DataFrame({"embedding": [[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0]]}))
    with pytest.raises(DataError, match=r"Row 0 of .*, column 'embedding_2': nan is not a finite number"):
        model.step(pl.DataFrame({"embedding": [[1.0, 2.0, float("nan"), 4.0]]}))
    with pytest.raises(DataError, match=r"Row 0 of .*, column 'embedding': the embedding is missing"):
        model.step(pl.DataFrame({"embedding": [None]}))
    for empty in (pl.DataFrame({"embedding": []}), pd.DataFrame({"embedding": []})):
        assert list(model.step(empty).columns) == ["line", "round", "prediction", "p_0", "p_1", "p_2", "ratio"]


def test_a_folder_of_a_newer_format_is_refused(folder, tmp_path, table_model, monkeypatch):
    monkeypatch.setattr("accous.table.model._FORMAT", 3)
    accous.save(table_model, tmp_path / "newer")
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match="was written by a newer accous: upgrade accous"):
        accous.load(tmp_path / "newer")


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
        table_model.play_round(X, times=86_400.0 * (number + np.arange(5) / 5))
        shifts = [event.round for event in model.drift_events_ if event.kind == "shift"]
        assert not shifts or table_model.seasons.event_round == shifts[-1]
        kinds_of_the_last |= {event.kind for event in model.drift_events_[-1:] if shifts}
    assert kinds_of_the_last == {"shift", "outside"}
    assert {event.kind for event in table_model.seasonal_events_} <= {"shift"}
    assert len(table_model.drift_events_) + len(table_model.seasonal_events_) == len(model.drift_events_)
