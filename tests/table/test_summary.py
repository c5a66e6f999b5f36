"""Columns of a table that show something new: named, once, and the same after a save."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import accous
from accous import Alerts
from accous.cli import main
from accous.diagnostics.coverage import NOTHING_FOUND
from accous.diagnostics.drift import start_seasons
from accous.table.columns import Choices, ColumnEncoder
from accous.table.model import load_table_model
from accous.table.summary import summarize_table_model
from tests.budgets import rest_slow


def rows(seed: int, n_rows: int, **changes: Any) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "age": rng.uniform(18, 90, n_rows).round(1),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n_rows),
            "c": np.ones(n_rows, dtype=np.int64),
            "country": ["IT"] * n_rows,
            "note": [None] * n_rows,
        },
        schema_overrides={"note": pl.String},
    )
    frame = frame.with_columns(
        pl.when(pl.Series(rng.random(n_rows) < 0.1)).then(None).otherwise(pl.col("age")).alias("age")
    )
    return frame.with_columns(pl.Series(name, values) for name, values in changes.items())


def labelled(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns((pl.col("age").fill_null(50) > 50).cast(pl.Int64).alias("y"))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fitted once; the tests work on copies."""
    path = tmp_path_factory.mktemp("fitted")
    labelled(rows(0, 600)).write_csv(path / "reference.csv")
    assert (
        main(
            [
                "fit",
                str(path / "reference.csv"),
                "--label",
                "y",
                "--estimator",
                "linear",
                "-o",
                str(path / "model"),
                "-q",
            ]
        )
        == 0
    )
    return path / "model"


@pytest.fixture
def folder(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted, tmp_path / "model"))


def played(model: Any, **changes: Any) -> Any:
    for number in range(1, 61):
        model.step(rows(number, 10, **{name: make(number) for name, make in changes.items()}))
    return model


CHANGES = {
    "constant number": (
        "c",
        lambda _: [2] * 10,
        "Column 'c' was always 1 in the reference and is 2 in all recent rows.",
    ),
    "constant text": (
        "country",
        lambda number: [["FR", "ES"][number % 2]] * 10,
        "Column 'country' was always 'IT' in the reference and has other values, such as FR, in all recent rows.",
    ),
    "empty column": (
        "note",
        lambda _: ["x"] * 5 + [None] * 5,
        "Column 'note' was always missing in the reference and is x in 50.0% of the recent rows.",
    ),
    "new category": (
        "city",
        lambda _: ["Rome"] * 8 + ["Lisbon"] * 2,
        (
            "Column 'city' has categories that the model's columns do not know, such as 'Lisbon', in 20.0% of the "
            "recent rows."
        ),
    ),
    "more missing": ("age", lambda _: [30.0] * 6 + [None] * 4, "and is missing in 40.0% of the recent rows."),
    "none missing": ("age", lambda _: [30.0] * 10, "and is missing in 0.0% of the recent rows."),
    "out of range": ("age", lambda _: [30.0, None] + [120.0] * 8, "in the reference and is clearly above it in 80.0%"),
}
KINDS = {
    "constant number": "new values", "constant text": "new values", "empty column": "new values",
    "new category": "categories", "more missing": "missing", "none missing": "missing", "out of range": "outside",
}  # fmt: skip


# Changes of different columns happen together; one column changes in one way at a time.
TOGETHER = ["constant number", "constant text", "empty column", "new category", "out of range"]


@pytest.fixture(scope="module")
def all_changed(fitted: Path) -> Any:
    return played(accous.load(fitted), **{CHANGES[name][0]: CHANGES[name][1] for name in TOGETHER})


@pytest.mark.parametrize("name", rest_slow([*TOGETHER, *sorted(CHANGES.keys() - TOGETHER)], len(TOGETHER) + 1))
def test_a_change_is_named_and_has_one_event(fitted: Path, all_changed: Any, name: str) -> None:
    column, make, sentence = CHANGES[name]
    model = all_changed if name in TOGETHER else played(accous.load(fitted), **{column: make})
    found = [each for each in model.coverage_.columns if each.kind == KINDS[name] and each.column == column]
    changed = {CHANGES[each][0] for each in TOGETHER} if name in TOGETHER else {column}
    assert {each.column for each in model.coverage_.columns} == changed
    assert sentence in found[0].sentence
    events = [event for event in model.drift_events_ if event.kind == KINDS[name] and column in event.features]
    assert len(events) == 1


def test_a_quiet_stream_shows_nothing(folder: Path) -> None:
    model = played(accous.load(folder))
    assert model.coverage_.columns == ()
    assert [event for event in model.drift_events_ if event.kind != "shift"] == []
    assert model.coverage_.share_outside < 0.15


def test_a_frame_need_not_have_the_constant_columns(folder: Path) -> None:
    model = accous.load(folder)
    for number in range(1, 31):
        model.step(rows(number, 10).drop("c", "country", "note"))
    assert model.coverage_.columns == ()


def test_a_saved_model_goes_on_with_the_same_marks(folder: Path, tmp_path: Path) -> None:
    changes = {"c": lambda number: [1 + number // 20] * 10, "city": lambda _: ["Rome"] * 8 + ["Lisbon"] * 2}
    model, saved = accous.load(folder), accous.load(folder)
    for number in range(1, 61):
        batch = rows(number, 10, **{name: make(number) for name, make in changes.items()})
        for each in (model, saved):
            each.step(batch)
        if number % 7 == 0:
            accous.save(saved, tmp_path / "other")
            saved = accous.load(tmp_path / "other")
        assert repr(saved.coverage_) == repr(model.coverage_)  # NaN does not equal NaN
        assert saved.drift_events_ == model.drift_events_
    assert {finding.column for finding in model.coverage_.columns} == {"c", "city"}


@pytest.mark.parametrize("ending", rest_slow(["csv", "jsonl", "parquet"]))
def test_the_command_line_sees_constant_columns_of_every_format(folder: Path, tmp_path: Path, ending: str) -> None:
    stream = pl.concat([rows(number, 10, c=[2] * 10) for number in range(1, 61)])
    by_step = played(accous.load(folder), c=lambda _: [2] * 10)
    path = tmp_path / f"stream.{ending}"
    {"csv": stream.write_csv, "jsonl": stream.write_ndjson, "parquet": stream.write_parquet}[ending](path)
    assert (
        main(["adapt", str(folder), str(path), "-o", str(tmp_path / "out.csv"), "--quiet", "--batch-size", "10"]) == 0
    )
    table_model = load_table_model(folder)
    assert table_model.coverage_.sentences == ["Column 'c' was always 1 in the reference and is 2 in all recent rows."]
    assert repr(table_model.watch.to_plain()) == repr(by_step.watch.to_plain())
    assert table_model.drift_events_ == by_step.drift_events_


def test_findings_are_in_the_summary(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a sentence in a narrow cell has lines of the table in it
    pl.concat([rows(number, 10, c=[2] * 10) for number in range(1, 61)]).write_csv(tmp_path / "s.csv")
    main(
        [
            "adapt",
            str(folder),
            str(tmp_path / "s.csv"),
            "-o",
            str(tmp_path / "out.csv"),
            "--quiet",
            "--batch-size",
            "10",
        ]
    )
    capsys.readouterr()
    assert main(["inspect", str(folder), "--json"]) == 0
    state = json.loads(capsys.readouterr().out)
    assert state["findings"] == ["Column 'c' was always 1 in the reference and is 2 in all recent rows."]
    assert 0.0 <= state["share_outside"] <= 0.2
    assert 0.0 <= state["drift_strength"] <= 0.2
    assert main(["inspect", str(folder)]) == 0
    assert "Column 'c' was always 1" in " ".join(capsys.readouterr().out.split())


def test_nested_values_of_a_column_that_is_only_watched_are_missing(folder: Path, tmp_path: Path) -> None:
    lines = rows(1, 80).with_columns(c=pl.Series([[1, 2]] * 80))
    lines.write_ndjson(tmp_path / "s.jsonl")
    assert main(["adapt", str(folder), str(tmp_path / "s.jsonl"), "-o", str(tmp_path / "out.csv"), "--quiet"]) == 0
    (finding,) = load_table_model(folder).coverage_.columns
    assert (finding.column, finding.kind) == ("c", "missing")


def test_records_survive_json_and_old_plans_have_none() -> None:
    frame = rows(0, 300)
    encoder = ColumnEncoder.learn(frame, Choices()).with_records(frame)
    content = json.loads(json.dumps(encoder.to_json()))
    assert ColumnEncoder.from_json(content) == encoder
    assert encoder.constants.keys() == {"c", "country", "note"}
    old = [{key: part for key, part in each.items() if key != "reference"} for each in content]
    assert ColumnEncoder.from_json(old).marks == []
    assert ColumnEncoder.from_json(old).encode(frame).marks.hits.shape == (300, 0)


def test_dropped_columns_are_not_watched() -> None:
    frame = rows(0, 300)
    choices = Choices(drop=("c",))
    encoder = ColumnEncoder.learn(frame, choices).with_records(frame)
    assert "c" not in encoder.constants


def test_alerts_and_the_summary_see_what_the_table_sees(folder: Path) -> None:
    model = played(load_table_model(folder), country=lambda _: ["FR"] * 10)
    conditions = [
        f"inputs == {model.trust_.inputs.answer!r}",
        f"verdict == {model.trust_.verdict!r}",
        "drift within 60",
    ]
    # The classifier does not read the column, which was constant.
    assert model.trust_.inputs.answer == "no" != model.model.trust_.inputs.answer
    assert not Alerts(conditions).check(model.model)
    found = {alert.alert: alert.value for alert in Alerts(conditions).check(model)}
    last = model.drift_events_[-1].round
    assert found == dict(zip(conditions, ("no", model.trust_.verdict, last), strict=True))
    assert summarize_table_model(model)["state"]["last_drift_round"] == last


def test_a_seasonal_change_raises_no_alert(folder: Path) -> None:
    model = load_table_model(folder)
    for number in range(1, 61):
        model.step(rows(number, 10, age=[85.0] * 10))
    rounds = tuple(event.round for event in model.model.drift_events_)
    model.watch = replace(model.watch, columns=NOTHING_FOUND)
    assert [alert.value for alert in Alerts("drift within 60").check(model)] == [rounds[-1]]
    model.seasons = replace(start_seasons(model.model.n_features_in_), seasonal=rounds)
    assert {event.kind for event in model.model.drift_events_} == {"shift"}
    assert Alerts("drift within 60").check(model) == []
    assert summarize_table_model(model)["state"]["last_drift_round"] == 0


def test_the_onset_in_a_column_of_the_table_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="accous")
    model = played(load_table_model(folder), country=lambda _: ["FR"] * 10)
    onsets = [event.round for event in model.drift_events_ if event.features == ("country",)]
    messages = [record.getMessage() for record in caplog.records if "column country" in record.getMessage()]
    assert messages == [
        f"Round {onset}: column country has values that the reference does not have in 100.0 % of the recent rows."
        for onset in onsets
    ]
    assert len(onsets) == 1
