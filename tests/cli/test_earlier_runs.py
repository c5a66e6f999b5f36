"""Late labels after later runs: the model remembers which run wrote what, and an empty run changes nothing."""

import os
import time
from pathlib import Path

import polars as pl
import pytest

from accous.cli import main
from accous.table.model import load_table_model
from accous.table.runs import MOST_RUNS, Job, JobSpec, last_run_with_rows, remember_run
from tests.cli.late_labels import N_ROWS, adapt, labels, run, run_json, write


def job(output: str, n_rows: int = 1) -> Job:
    return Job(spec=JobSpec("stream.csv", output, ""), n_rows=n_rows)


def outputs(runs: tuple[Job, ...]) -> list[str]:
    return [run.spec.output for run in runs]


def test_runs_without_rows_or_without_a_file_are_not_remembered():
    earlier = remember_run((), job("a"), job("b"))
    assert outputs(earlier) == ["a"]
    assert outputs(remember_run(earlier, job("b", n_rows=0), job("c"))) == ["a"]
    assert outputs(remember_run(earlier, job("-"), job("c"))) == ["a"]
    assert remember_run((), None, job("a")) == ()


def test_a_run_that_replaces_the_file_of_another_replaces_it_in_memory():
    assert outputs(remember_run((job("a"), job("b")), job("c"), job("a"))) == ["b", "c"]


def test_the_oldest_runs_are_forgotten():
    earlier: tuple[Job, ...] = ()
    for number in range(MOST_RUNS + 5):
        earlier = remember_run(earlier, job(str(number)), job("now"))
    assert outputs(earlier) == [str(number) for number in range(5, MOST_RUNS + 5)]


def test_the_last_run_is_the_one_with_rows():
    empty = job("c", n_rows=0)
    found = last_run_with_rows(empty, (job("a"), job("b")))
    assert found is not None
    assert found.spec.output == "b"
    assert last_run_with_rows(empty, ()) is empty
    assert last_run_with_rows(None, ()) is None


def remarks_of(capsys, *arguments: str) -> str:
    capsys.readouterr()
    assert main(["adapt", "model", *arguments]) == 0
    return capsys.readouterr().err


@pytest.mark.usefixtures("predicted_folder")
def test_a_stream_that_was_followed_before_is_remarked_on_unless_its_rows_are_others(capsys):
    remarks = remarks_of(capsys, "stream.csv", "-o", "again.csv")
    assert (
        "predictions.csv, followed this stream: the model learns it again. To only predict, use accous predict."
        in remarks
    )
    stream = pl.read_csv("stream.csv")
    stream.with_columns(pl.col("x0") + 0.5).write_csv("stream.csv")
    assert "followed this stream" not in remarks_of(capsys, "stream.csv", "-o", "others.csv")


@pytest.mark.usefixtures("predicted_folder")
def test_rows_of_a_parquet_file_that_was_replaced_are_not_taken_for_those_of_the_day_before(capsys):
    stream = pl.read_csv("stream.csv")
    for day, moved in enumerate((0.0, 5.0)):
        stream.with_columns(pl.col("x0") + moved).write_parquet("today.parquet")
        os.utime("today.parquet", ns=(time.time_ns(), time.time_ns()))
        remarks = remarks_of(capsys, "today.parquet", "-o", f"day{day}.csv", "--keep", "id")
        assert "followed this stream" not in remarks
    assert "followed this stream" in remarks_of(capsys, "today.parquet", "-o", "again.csv", "--keep", "id")
    before = len(load_table_model(Path("model")).model.task_)
    write(labels())
    assert main(["extend", "model", "labels.csv", "--key", "id", "--predictions", "day0.csv"]) != 0
    assert main(["extend", "model", "labels.csv", "--key", "id", "--predictions", "day1.csv", "--quiet"]) == 0
    assert len(load_table_model(Path("model")).model.task_) == before + N_ROWS


@pytest.mark.usefixtures("predicted_folder")
def test_a_key_that_several_rows_have_is_remarked_on(capsys):
    stream = pl.read_csv("stream.csv").with_columns(key=pl.col("id") % 250)
    stream.write_csv("keyed.csv")
    remarks = remarks_of(capsys, "keyed.csv", "-o", "keyed_predictions.csv", "--key", "key")
    assert "Several rows have key = 0: late labels cannot be joined by this key." in remarks
    assert "Several rows" not in remarks_of(capsys, "keyed.csv", "-o", "by_id.csv", "--key", "id")


def write_empty_day() -> None:
    pl.read_csv("stream.csv").clear().write_csv("empty.csv")


@pytest.mark.usefixtures("predicted_folder")
def test_an_empty_run_writes_a_header_and_labels_are_joined_with_the_run_before_it(capsys):
    write_empty_day()
    adapt("empty.csv", "nothing.csv", "--key", "id")
    header = Path("predictions.csv").read_text().splitlines()[0]
    assert Path("nothing.csv").read_text() == header.replace("line,id,", "id,") + "\n"
    assert run_json(capsys, write(labels()), "--key", "id")["counted"] == N_ROWS


@pytest.mark.usefixtures("predicted_folder")
def test_rows_that_come_later_are_appended_below_the_header(capsys):
    write_empty_day()
    adapt("empty.csv", "later.csv", "--keep", "id")
    Path("empty.csv").write_text(Path("stream.csv").read_text())
    adapt("empty.csv", "later.csv", "--keep", "id")
    found, expected = (pl.read_csv(name) for name in ("later.csv", "predictions.csv"))
    assert found.columns == expected.columns
    assert found["id"].equals(expected["id"])


@pytest.mark.usefixtures("predicted_folder")
def test_without_a_run_that_has_rows_the_error_names_the_option(capsys):
    Path("model").rename("used")
    assert main(["fit", "reference.csv", "--label", "label", "--drop", "id", "-o", "model", "-q"]) == 0
    write_empty_day()
    adapt("empty.csv", "nothing.csv")
    message = run(capsys, write(labels()), code=1)
    assert "The last run has predicted no rows: name what an earlier one has written with" in message


@pytest.mark.usefixtures("predicted_folder")
def test_labels_of_an_earlier_run_extend_the_reference_after_the_next_run(capsys):
    stream = pl.read_csv("stream.csv")
    stream.with_columns(pl.col("id") + 1_000).write_csv("next.csv")
    adapt("next.csv", "next_predictions.csv", "--keep", "id")
    write(labels())
    assert main(["extend", "model", "labels.csv", "--key", "id"]) == 1
    message = capsys.readouterr().err
    assert "give another --key or --predictions; other runs have written " in message
    named = message.rpartition("have written ")[2].strip().removesuffix(".")
    assert Path(named).samefile("predictions.csv")
    before = len(load_table_model(Path("model")).model.task_)
    assert main(["extend", "model", "labels.csv", "--key", "id", "--predictions", named, "--quiet"]) == 0
    capsys.readouterr()
    assert len(load_table_model(Path("model")).model.task_) == before + N_ROWS
    assert main(["extend", "model", "stream.csv", "--predictions", named]) == 2
    assert "--predictions is for late labels alone" in capsys.readouterr().err
