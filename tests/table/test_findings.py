"""What a table model tells of its columns: new values, categories, gaps; the same in every reading and after a save."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import accous
from accous.cli import main
from accous.diagnostics.coverage import NOTHING_FOUND
from accous.diagnostics.drift import start_seasons
from accous.diagnostics.status import Finding as Code
from accous.diagnostics.status import Reason
from tests.budgets import rest_slow
from tests.cli.tables import fit_model


def rows(seed: int, n_rows: int, **changes: Any) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n_rows).round(1)
    frame = pl.DataFrame(
        {
            "age": pl.Series(age).set(pl.Series(rng.random(n_rows) < 0.1), None),
            "city": rng.choice(["Rome", "Oslo", "Bonn"], n_rows),
            "c": np.ones(n_rows, dtype=np.int64),
            "country": ["IT"] * n_rows,
            "note": pl.Series([None] * n_rows, dtype=pl.String),
        }
    )
    return frame.with_columns(pl.Series(name, values) for name, values in changes.items())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = rows(0, 600).with_columns(y=(pl.col("age").fill_null(50) > 50).cast(pl.Int64))
    return fit_model(tmp_path_factory.mktemp("fitted"), frame, "--estimator", "linear", label="y")


@pytest.fixture
def model(fitted: Path) -> Any:
    return accous.load(fitted)


def after_rounds(model: Any, **changes: Any) -> Any:
    for number in range(1, 61):
        model.step(rows(number, 10, **{name: make(number) for name, make in changes.items()}))
    return model


# By column, what it has in each round, the kind of what is found, and the value or the share that is named.
CHANGES = {
    "constant number": ("c", lambda _: [2] * 10, "new values", "such as 2, in all"),
    "constant text": ("country", lambda number: [["FR", "ES"][number % 2]] * 10, "new values", "such as FR, in all"),
    "empty column": ("note", lambda _: ["x"] * 5 + [None] * 5, "new values", "such as x, in 50%"),
    "new category": ("city", lambda _: ["Rome"] * 8 + ["Lisbon"] * 2, "categories", "such as 'Lisbon', in 20%"),
    "out of range": ("age", lambda _: [30.0, None] + [120.0] * 8, "outside", "80%"),
    "more missing": ("age", lambda _: [30.0] * 6 + [None] * 4, "missing", "40%"),
    "none missing": ("age", lambda _: [30.0] * 10, "missing", "0%"),
}
# Changes of different columns happen together; one column changes in one way at a time.
TOGETHER = ["constant number", "constant text", "empty column", "new category", "out of range"]


@pytest.fixture(scope="module")
def all_changed(fitted: Path) -> Any:
    return after_rounds(accous.load(fitted), **{CHANGES[name][0]: CHANGES[name][1] for name in TOGETHER})


@pytest.mark.parametrize("name", rest_slow(CHANGES, len(TOGETHER) + 1))
def test_a_change_is_named_and_has_one_event(fitted: Path, all_changed: Any, name: str) -> None:
    column, make, kind, named = CHANGES[name]
    model = all_changed if name in TOGETHER else after_rounds(accous.load(fitted), **{column: make})
    (found,) = (each for each in model.drift_.coverage.columns if each.kind == kind and each.column == column)
    changed = {CHANGES[each][0] for each in TOGETHER} if name in TOGETHER else {column}
    assert {each.column for each in model.drift_.coverage.columns} == changed
    assert named in found.sentence
    events = [event for event in model.drift_.events if event.kind == kind and column in event.features]
    assert len(events) == 1


def test_a_quiet_stream_and_frames_without_the_constant_columns_show_nothing(fitted: Path) -> None:
    model, other = after_rounds(accous.load(fitted)), accous.load(fitted)
    for number in range(1, 31):
        other.step(rows(number, 10).drop("c", "country", "note"))
    assert model.drift_.coverage.columns == other.drift_.coverage.columns == ()
    assert [event for event in model.drift_.events if event.kind != "shift"] == []
    assert model.drift_.coverage.share_outside < 0.15


def test_a_saved_model_goes_on_with_the_same_marks(model: Any, fitted: Path, tmp_path: Path) -> None:
    saved = accous.load(fitted)
    for number in range(1, 61):
        batch = rows(number, 10, c=[1 + number // 20] * 10, city=["Rome"] * 8 + ["Lisbon"] * 2)
        for each in (model, saved):
            each.step(batch)
        if number % 7 == 0:
            accous.save(saved, tmp_path / "other")
            saved = accous.load(tmp_path / "other")
        assert repr(saved.drift_.coverage) == repr(model.drift_.coverage)  # NaN does not equal NaN
        assert saved.drift_.events == model.drift_.events
    assert {finding.column for finding in model.drift_.coverage.columns} == {"c", "city"}


def adapt(model: Any, folder: Path, stream: pl.DataFrame, ending: str = "csv") -> Any:
    """The model after ``accous adapt`` has followed a stream in rounds of ten."""
    accous.save(model, folder / "model")
    path = folder / f"stream.{ending}"
    {"csv": stream.write_csv, "jsonl": stream.write_ndjson, "parquet": stream.write_parquet}[ending](path)
    arguments = ["adapt", folder / "model", path, "-o", folder / "out.csv", "--quiet", "--batch-size", 10]
    assert main(list(map(str, arguments))) == 0
    return accous.load(folder / "model")


@pytest.mark.parametrize("ending", rest_slow(["csv", "jsonl", "parquet"]))
def test_the_command_line_sees_what_steps_see(model: Any, tmp_path: Path, ending: str) -> None:
    found = adapt(model, tmp_path, pl.concat([rows(number, 10, c=[2] * 10) for number in range(1, 61)]), ending)
    by_step = after_rounds(model, c=lambda _: [2] * 10)
    assert [(each.column, each.kind) for each in found.drift_.coverage.columns] == [("c", "new values")]
    assert repr(found.watch.to_plain()) == repr(by_step.watch.to_plain())
    assert found.drift_.events == by_step.drift_.events
    coverage = found.drift_.coverage
    assert 0.0 <= coverage.share_outside <= 0.2
    assert 0.0 <= coverage.drift_strength <= 0.2
    assert found.status_.reasons[-1] == Reason(Code.NEW_CATEGORIES, 1.0, "c")


def test_nested_values_of_a_column_that_is_only_watched_are_missing(model: Any, tmp_path: Path) -> None:
    found = adapt(model, tmp_path, rows(1, 80).with_columns(c=pl.Series([[1, 2]] * 80)), "jsonl")
    assert [(each.column, each.kind) for each in found.drift_.coverage.columns] == [("c", "missing")]


def test_what_only_the_table_sees_is_a_reason_and_logged(model: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="accous")
    after_rounds(model, country=lambda _: ["FR"] * 10)
    # The classifier does not read the column, which was constant.
    assert Reason(Code.NEW_CATEGORIES, 1.0, "country") in model.status_.reasons
    assert Code.NEW_CATEGORIES not in {each.code for each in model.model.status_.reasons}
    (onset,) = (event.round for event in model.drift_.events if event.features == ("country",))
    (message,) = (record.getMessage() for record in caplog.records if record.levelname == "INFO")
    assert message.startswith(f"Round {onset}: ")


def test_a_seasonal_change_is_no_event(model: Any) -> None:
    after_rounds(model, age=lambda _: [85.0] * 10)
    rounds = tuple(event.round for event in model.model.drift_.events)
    model.watch = replace(model.watch, columns=NOTHING_FOUND)
    assert model.drift_.events[-1].round == rounds[-1]
    model.seasons = replace(start_seasons(model.model.n_features_in_), seasonal=rounds)
    model.watch = replace(model.watch)  # which begins another snapshot
    assert model.drift_.events == ()
    assert [event.round for event in model.seasonal_events_] == list(rounds)


# --- a table's own findings are reasons ---------------------------------------------------------------------------


def orders(n_rows: int, seed: int, category: str | None = None) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, 6))
    plan = rng.choice(["basic", "family", "pro"], n_rows) if category is None else np.full(n_rows, category)
    numbers = {f"x{number}": x[:, number] for number in range(6)}
    return pl.DataFrame(numbers | {"plan": plan, "y": 2.0 * x[:, 0] + rng.normal(scale=0.5, size=n_rows)})


def fit_orders(folder: Path, **columns: Any) -> Any:
    frame = orders(400, 0).with_columns(**columns)
    return accous.load(fit_model(folder, frame, "--no-ordered", "--estimator", "linear", label="y"))


@pytest.fixture(scope="module")
def regression(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of numbers, half of whose recent rows have a category that the reference does not have."""
    folder = tmp_path_factory.mktemp("coverage")
    model, rng = fit_orders(folder), np.random.default_rng(1)
    for seed in range(30):
        is_new = pl.Series(rng.random(10) < 0.5)
        model.step(orders(10, 2 + seed).with_columns(plan=pl.when(is_new).then(pl.lit("student")).otherwise("plan")))
    accous.save(model, folder / "adapted")
    return folder / "adapted"


@pytest.fixture
def numbers(regression: Path) -> Any:
    return accous.load(regression)


def follow(model: Any, category: str, n_rounds: int = 60) -> None:
    for seed in range(n_rounds):
        model.step(orders(10, 200 + seed, category))


def share_of_new(model: Any) -> float:
    """The share of rows with new categories that the status names; 0 if it names none."""
    return max((each.number for each in model.status_.reasons if each.code == Code.NEW_CATEGORIES), default=0.0)


def test_a_new_category_in_many_rows_is_a_reason(numbers: Any) -> None:
    (found,) = numbers.drift_.coverage.columns
    assert "'student'" in found.sentence
    assert share_of_new(numbers) == found.share == pytest.approx(0.5, abs=0.1)
    assert share_of_new(numbers.model) == 0.0  # the features alone do not show it
    reasons = numbers.snapshot().to_json()["reasons"]
    assert (reasons[-1]["code"], reasons[-1]["column"]) == ("new_categories", found.column)
    assert repr(found.column) in reasons[-1]["text"]
    assert reasons[-1]["number"] == found.share


def test_many_categories_that_occur_once_do_not_hide_a_new_one(tmp_path: Path) -> None:
    number = pl.int_range(pl.len())
    model = fit_orders(tmp_path, plan=pl.when(number < 30).then(pl.format("u{}", number)).otherwise("plan"))
    follow(model, "martian", 40)
    assert share_of_new(model) == 1.0


def test_new_values_of_columns_are_named(tmp_path: Path) -> None:
    months = pl.Series(["Feb", "Mar", "May", "Jun"] * 100)
    model = fit_orders(tmp_path, Month=months, fee=pl.lit(1.0))
    same = orders(200, 1).drop("y").with_columns(Month=pl.lit("Feb"), fee=pl.lit(1.0))
    model.step(same)
    model.step(same.with_columns(Month=pl.lit("Dec"), fee=pl.lit(2.5)))
    month, fee = sorted(model.drift_.coverage.columns, key=lambda found: found.column)
    assert (month.column, fee.column) == ("Month", "fee")
    assert (month.value, fee.known, fee.value) == ("Dec", "1", "2.5")
