"""What a table model reports: conditioned on the season, from one round, and the verdict that its history keeps."""

import shutil
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import accous
from accous.arrays import from_plain, to_plain
from accous.cli import main
from accous.diagnostics.drift import SeasonWatch
from accous.diagnostics.trust import VERDICTS
from accous.report.page import render_page
from accous.report.words import report_source

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
def folder(tmp_path_factory: Any) -> Path:
    folder = tmp_path_factory.mktemp("seasons")
    times = [MONDAY + timedelta(hours=number * 24 * 14 / 800) for number in range(800)]
    rows(np.random.default_rng(0), times).write_parquet(folder / "reference.parquet")
    fit = ["fit", str(folder / "reference.parquet"), "--label", "y", "--time", "when", "--drop", "when", "--quiet"]
    assert main([*fit, "--estimator", "linear", "-o", str(folder / "model")]) == 0
    return folder


def play(model: Any, first_day: float, last_day: float, shift: float = 0.0) -> Any:
    rng = np.random.default_rng(int(10 * first_day) + 1)
    for number in range(round(first_day * ROUNDS_PER_DAY), round(last_day * ROUNDS_PER_DAY)):
        start = MONDAY + timedelta(days=21 + number / ROUNDS_PER_DAY)
        model.step(rows(rng, [start + timedelta(minutes=minute) for minute in range(5)], shift))
    return model


@pytest.fixture(scope="module")
def after_a_cycle(folder: Path) -> Any:
    """Four days of the daily cycle alone."""
    return play(accous.load(folder / "model"), 0.0, 4.25)


# --- what moved -------------------------------------------------------------------------------------------------


def test_the_hour_of_the_day_has_not_moved(folder: Path, after_a_cycle: Any) -> None:
    without_season = dict(zip(("temp", "z", "x"), after_a_cycle.model.drift_attribution_, strict=True))
    assert without_season["temp"] > 0.9
    parts = after_a_cycle.model.state_.watch.column_parts
    assert after_a_cycle.seasons.explained[0] > 0.8 * parts[0]
    first_day = play(accous.load(folder / "model"), 0.0, 1.0)
    assert first_day.drift_attribution_["temp"] > 0.9  # what an hour does must be seen twice first


def test_a_shift_on_top_of_the_cycle_has_moved_and_stays(after_a_cycle: Any, tmp_path: Path) -> None:
    accous.save(after_a_cycle, tmp_path / "model")
    model = play(accous.load(tmp_path / "model"), 4.25, 5.0, shift=2.0)
    raw = dict(zip(("temp", "z", "x"), model.model.drift_attribution_, strict=True))
    assert raw["z"] < 0.9
    assert model.drift_attribution_["z"] > max(raw["z"], 0.9)
    assert sum(model.drift_attribution_.values()) == pytest.approx(1.0)
    # The days after it are what the same hours did, and the shift has still moved.
    later = play(model, 5.0, 7.25, shift=2.0)
    assert later.drift_attribution_["z"] > 0.9


def test_the_report_shows_what_moved_beyond_the_season(folder: Path, after_a_cycle: Any, tmp_path: Path) -> None:
    accous.save(after_a_cycle, tmp_path / "model")
    model = play(accous.load(tmp_path / "model"), 4.25, 5.0, shift=2.0)
    shares = dict(report_source(model.snapshot(), "m").column_shares())
    assert shares == model.drift_attribution_
    assert next(iter(shares)) == "z"
    note = "What the time of the day and the weekend explain is left out."
    assert note in render_page(report_source(model.snapshot(), "m"))
    assert note not in render_page(report_source(accous.load(folder / "model"), "m"))


def test_what_the_season_explains_is_saved(after_a_cycle: Any, tmp_path: Path) -> None:
    accous.save(after_a_cycle, tmp_path / "model")
    assert accous.load(tmp_path / "model").drift_attribution_ == after_a_cycle.drift_attribution_
    plain = to_plain(after_a_cycle.seasons)
    plain.pop("explained")  # as in folders that were saved before
    assert from_plain(SeasonWatch, plain).explained is None


# --- one round --------------------------------------------------------------------------------------------------


def test_readings_come_from_one_round_while_another_thread_steps(folder: Path) -> None:
    """A reader that comes between the classifier's part of a round and the table's waits for the whole round."""
    model = play(accous.load(folder / "model"), 0.0, 0.2)
    n_before = model.model.n_rounds_
    in_the_middle, found = threading.Event(), []

    def read() -> None:
        in_the_middle.wait(60)
        twin = model.at_one_round()
        found.append((twin.model.n_rounds_, twin.history.n_rounds))
        found.append(model.trust_)

    reader = threading.Thread(target=read)
    reader.start()
    watch_columns = model._watch_columns

    def pause(marks: Any) -> None:
        in_the_middle.set()
        reader.join(0.2)  # the reader is to wait: it cannot finish before this round does
        assert reader.is_alive()
        watch_columns(marks)

    model._watch_columns = pause
    model.step(rows(np.random.default_rng(5), [MONDAY + timedelta(days=30)] * 5))
    reader.join(60)
    assert found[0] == (n_before + 1, n_before + 1)


# --- the history ------------------------------------------------------------------------------------------------


def test_the_verdict_in_the_history_is_that_of_the_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_rows = 600
    age = rng.uniform(18, 90, n_rows)
    cities = rng.choice(["Rome", "Oslo"], n_rows)
    reference = pl.DataFrame({"age": age, "city": cities, "y": (age > 50).astype(int)})
    reference.write_csv(tmp_path / "reference.csv")
    fit = ["fit", str(tmp_path / "reference.csv"), "--label", "y", "--estimator", "linear", "--quiet"]
    assert main([*fit, "-o", str(tmp_path / "m")]) == 0
    model = accous.load(tmp_path / "m")
    for _ in range(70):
        batch = pl.DataFrame({"age": rng.uniform(18, 90, 10), "city": ["Lisbon"] * 2 + ["Oslo"] * 4 + ["Rome"] * 4})
        model.step(batch)
    assert model.trust_.verdict == "no overlap" != model.model.trust_.verdict
    assert np.nanmax(model.history.column("verdict")) == VERDICTS.index("no overlap")


# --- the order of the stream, and the rounds --------------------------------------------------------------------


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_a_stream_that_is_not_in_order_of_time_is_told_once(
    folder: Path, tmp_path: Path, capsys: Any, is_shuffled: bool
):
    times = [MONDAY + timedelta(days=20, hours=number) for number in range(100)]
    stream = rows(np.random.default_rng(1), times)
    stream = stream.sample(fraction=1.0, shuffle=True, seed=0) if is_shuffled else stream
    stream.write_parquet(tmp_path / "stream.parquet")
    shutil.copytree(folder / "model", tmp_path / "model")
    adapt = ["adapt", str(tmp_path / "model"), str(tmp_path / "stream.parquet"), "--batch-size", "10"]
    assert main([*adapt, "-o", str(tmp_path / "predictions.csv")]) == 0
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("The times in 'when' go back and forth") == is_shuffled


def test_the_rounds_of_a_table_model_are_a_frame_as_those_of_a_classifier(after_a_cycle: Any):
    found = after_a_cycle.history_
    assert len(found) == after_a_cycle.model.n_rounds_
    assert found.equals(after_a_cycle.model.history_)
