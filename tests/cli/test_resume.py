"""`accous adapt` goes on where it stopped, refuses to mix two runs, and remembers which run wrote what."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import accous
from accous.cli import main
from accous.table.adapt import AdaptJob
from accous.table.model import load_table_model
from accous.table.options import AdaptOptions
from tests.cli.late_labels import N_ROWS, adapt, labels, run_json, write
from tests.cli.processes import files_of

ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv"]
BAD = "1,2\n"


@pytest.fixture
def lines(fitted_folder: Path) -> list[str]:
    """The lines of the stream, in the folder of a fitted model."""
    return (fitted_folder / "stream.csv").read_text().splitlines(keepends=True)


def write_lines(*lines: str, name: str = "stream.csv") -> None:
    Path(name).write_text("".join(lines))


def fail(*arguments: str) -> None:
    assert main([*ADAPT, *arguments]) == 1


def error_of(capsys, *arguments: str) -> str:
    """What a command that is refused says."""
    capsys.readouterr()
    fail(*arguments)
    return capsys.readouterr().err


def test_run_again_on_a_file_that_has_grown_it_appends(lines):
    write_lines(*lines[:101])
    assert main(ADAPT) == 0
    first = Path("predictions.csv").read_bytes()
    assert main(ADAPT) == 0
    assert Path("predictions.csv").read_bytes() == first
    write_lines(*lines)
    assert main(ADAPT) == 0
    assert Path("predictions.csv").read_bytes().startswith(first)
    assert pl.read_csv("predictions.csv")["round"].to_list() == [1 + row // 10 for row in range(300)]


def test_another_stream_goes_on_with_what_was_learned(lines):
    assert main(ADAPT) == 0
    assert main(["adapt", "model", "stream.csv", "-o", "second.csv"]) == 0
    assert pl.read_csv("second.csv")["round"][0] == 31
    assert accous.load("model").model.n_rounds_ == 60


def test_lines_go_on_over_a_resumed_run_and_skip_bad_rows(lines):
    options = ["--on-bad-row", "skip", "--batch-size", "7"]
    for rest in ([], lines[101:]):
        write_lines(*lines[:60], BAD, *lines[60:101], *rest)
        assert main([*ADAPT, *options]) == 0
    assert pl.read_csv("predictions.csv")["line"].to_list() == [line for line in range(2, 303) if line != 61]
    assert pl.read_csv("predictions.csv.rejects.csv")["line"].to_list() == [61]


@pytest.mark.parametrize(
    ("options", "named"),
    [([], ["--key id"]), (["--batch-size", "3", "--key", "id"], ["--batch-size 10"]), (["-o", "other.csv"], ["run"])],
)
def test_another_command_in_the_middle_of_a_run_is_refused_with_that_of_the_run(lines, options, named, capsys):
    write_lines(*lines[:52], BAD)
    fail("--key", "id")
    error = error_of(capsys, *options)
    assert all(name in error for name in [*named, str(Path("stream.csv").absolute())])
    assert main([*ADAPT, *options, "--on-bad-row", "skip", "--new", "--force"]) == 0


def begin_without_saving(lines: list[str], *options: str) -> None:
    """A run that is killed before its first save."""
    write_lines(lines[0], BAD, *lines[1:])
    fail(*options)
    write_lines(*lines)


@pytest.mark.parametrize("output", ["predictions.csv", "predictions.parquet"])
def test_a_run_that_was_killed_before_its_first_save_is_not_abandoned_silently(lines, output, capsys):
    """If it has written rows, another command is refused as in the middle of a run; if not, a line says so."""
    written = output if output.endswith(".csv") else f"{output}.partial"
    begin_without_saving(lines, "-o", output)
    Path(written).write_text("line,round,prediction\n2,1,yes\n")
    assert "--batch-size 10" in error_of(capsys, "-o", output, "--batch-size", "3")
    assert Path(written).read_text() == "line,round,prediction\n2,1,yes\n"
    Path(written).write_text("")
    assert main([*ADAPT, "-o", output, "--batch-size", "3"]) == 0
    assert str(Path("stream.csv").absolute()) in capsys.readouterr().err


def test_the_same_command_takes_up_a_run_that_was_killed_before_its_first_save(lines):
    begin_without_saving(lines)
    Path("predictions.csv").write_text("line,round,prediction\n2,1,yes\n")
    assert main(ADAPT) == 0
    assert pl.read_csv("predictions.csv").height == 300


def test_a_run_stopped_by_a_bad_row_continues_when_bad_rows_are_skipped(lines):
    write_lines(*lines[:100], BAD, *lines[100:])
    shutil.copytree("model", "other")
    fail()
    assert main([*ADAPT, "--on-bad-row", "skip"]) == 0
    assert main(["adapt", "other", *ADAPT[2:-1], "at_once.csv", "--on-bad-row", "skip"]) == 0
    for ending in ("csv", "csv.rejects.csv"):
        assert Path(f"predictions.{ending}").read_bytes() == Path(f"at_once.{ending}").read_bytes()


def test_a_stream_or_predictions_that_changed_before_the_place_reached_are_refused(lines, capsys):
    write_lines(*lines[:100], BAD, *lines[100:])
    fail()
    swapped = lines[90].swapcase()  # as many bytes
    for others in ([*lines[:1], *lines[2:]], [*lines[:90], swapped, *lines[91:]]):
        write_lines(*others)
        assert "line 92" in error_of(capsys)
    write_lines(*lines)
    written = Path("predictions.csv").read_bytes()
    Path("predictions.csv").write_text("round\n")
    assert "6 bytes" in error_of(capsys)
    Path("predictions.csv").write_bytes(written)
    assert main(ADAPT) == 0
    assert pl.read_csv("predictions.csv").height == 300


@pytest.mark.parametrize(("dropped", "options", "code"), [(2, [], 1), (None, ["--label", "nope"], 2)])
def test_a_stream_that_does_not_fit_leaves_the_record_of_the_last_run(lines, dropped, options, code, fitted):
    assert main(ADAPT) == 0
    before = files_of(Path("model"))
    used = load_table_model("model").encoder.used_columns
    fitted["stream"].drop([] if dropped is None else used[:dropped]).write_csv("other.csv")
    assert main(["adapt", "model", "other.csv", "-o", "others.csv", *options]) == code
    assert files_of(Path("model")) == before
    assert not Path("others.csv").exists()
    assert main(ADAPT) == 0


@pytest.mark.parametrize("n_together", [1, 4])
def test_a_run_that_was_stopped_has_the_history_of_one_that_was_not(n_together, lines, monkeypatch):
    """Metric and state are read in some rounds alone, whether or not a run stops there."""
    monkeypatch.setattr("accous.table.adapt._MOST_ROUNDS_TOGETHER", n_together)

    def follow(folder: str, stops: list[int]) -> tuple[pd.DataFrame, Any]:
        shutil.copytree("model", folder)
        options = AdaptOptions(model=Path(folder), stream="stream.csv", output=f"{folder}.csv")
        for stop in [*stops, 1000]:
            job = AdaptJob(options)
            assert job.begin()
            is_finished = job.follow(should_stop=lambda job=job, stop=stop: job.record.n_rounds >= stop)
            assert is_finished == (stop == 1000)
        found = load_table_model(folder)
        return found.model.history_, found.history

    (rounds, whole), (other, in_parts) = follow("whole", []), follow("in_parts", [18, 19, 25])
    pd.testing.assert_frame_equal(rounds, other, check_exact=True)
    assert len(rounds) == 30
    for name in ("value", "low", "high", "basis"):
        assert np.array_equal(whole.column(name), in_parts.column(name), equal_nan=True)
    assert 0 < np.isfinite(whole.column("value")).sum() < 30


# --- earlier runs -----------------------------------------------------------------------------------------------


def remarks_of(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["adapt", "model", *arguments]) == 0
    return capsys.readouterr().err


@pytest.mark.usefixtures("predicted_folder")
def test_a_stream_that_was_followed_before_is_remarked_on_unless_its_rows_are_others(capsys):
    assert "again" in remarks_of(capsys, "stream.csv", "-o", "again.csv")
    stream = pl.read_csv("stream.csv")
    stream.with_columns(pl.col("x0") + 0.5).write_csv("stream.csv")
    assert "again" not in remarks_of(capsys, "stream.csv", "-o", "others.csv")
    # Rows of a Parquet file that was replaced are not taken for those of the day before.
    for day, moved in enumerate((0.0, 5.0)):
        stream.with_columns(pl.col("x0") + moved).write_parquet("today.parquet")
        assert "again" not in remarks_of(capsys, "today.parquet", "-o", f"day{day}.csv")
    assert "again" in remarks_of(capsys, "today.parquet", "-o", "last.csv")


@pytest.mark.usefixtures("predicted_folder")
def test_a_key_that_several_rows_have_is_remarked_on(capsys):
    pl.read_csv("stream.csv").with_columns(key=pl.col("id") % 250).write_csv("keyed.csv")
    assert "key = 0" in remarks_of(capsys, "keyed.csv", "-o", "keyed_predictions.csv", "--key", "key")
    assert "key = 0" not in remarks_of(capsys, "keyed.csv", "-o", "by_id.csv", "--key", "id")


@pytest.mark.usefixtures("predicted_folder")
def test_an_empty_run_writes_a_header_for_rows_that_come_later_and_labels_meet_the_run_before_it(capsys):
    pl.read_csv("stream.csv").clear().write_csv("empty.csv")
    adapt("empty.csv", "later.csv", "--key", "id")
    assert Path("later.csv").read_text().splitlines() == Path("predictions.csv").read_text().splitlines()[:1]
    assert run_json(capsys, write(labels()), "--key", "id")["counted"] == N_ROWS
    Path("empty.csv").write_text(Path("stream.csv").read_text())
    adapt("empty.csv", "later.csv", "--key", "id")
    assert pl.read_csv("later.csv")["id"].equals(pl.read_csv("predictions.csv")["id"])
