"""`accous adapt` goes on where it stopped, and refuses to where that would mix two runs."""

import shutil
from pathlib import Path

import polars as pl
import pytest

import accous
from accous.cli import main
from accous.table.model import load_table_model, save_table_model
from tests.cli.processes import files_of

ADAPT = ["adapt", "model", "stream.csv", "-o", "predictions.csv"]

pytestmark = pytest.mark.usefixtures("fitted_folder")


def test_run_again_on_a_file_that_has_grown_it_appends(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join(lines[:101]))
    assert main(ADAPT) == 0
    first = (tmp_path / "predictions.csv").read_bytes()
    assert main(ADAPT) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == first
    assert "Nothing new" in capsys.readouterr().err
    (tmp_path / "stream.csv").write_text("".join(lines))
    assert main(ADAPT) == 0
    assert "Resuming after row 100" in capsys.readouterr().err
    assert (tmp_path / "predictions.csv").read_bytes().startswith(first)
    assert pl.read_csv("predictions.csv").height == 300
    assert pl.read_csv("predictions.csv")["round"].to_list() == [1 + row // 10 for row in range(300)]


def test_another_stream_goes_on_with_what_was_learned():
    assert main(ADAPT) == 0
    assert main(["adapt", "model", "stream.csv", "-o", "second.csv"]) == 0
    assert pl.read_csv("second.csv")["round"][0] == 31
    assert accous.load("model").model.n_rounds_ == 60


def test_the_key_is_part_of_what_a_run_is(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:52], "1,2\n"]))
    assert main([*ADAPT, "--key", "id"]) == 1
    capsys.readouterr()
    assert main(ADAPT) == 1
    assert "has an unfinished run on" in (message := capsys.readouterr().err)
    assert "with --key id: run that command again" in message


def test_an_unfinished_run_on_another_stream_is_named_once(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "bad.csv").write_text("".join([*lines[:52], "1,2\n"]))
    assert main(["adapt", "model", "bad.csv", "-o", "bad_predictions.csv"]) == 1
    capsys.readouterr()
    assert main(ADAPT) == 1
    assert f"has an unfinished run on {tmp_path / 'bad.csv'}: run that command again" in capsys.readouterr().err


def test_an_unfinished_run_of_an_older_version_is_not_continued_with_other_columns(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:52], "1,2\n"]))
    assert main(ADAPT) == 1
    table_model = load_table_model("model")
    del table_model.job.spec.options["key"]
    save_table_model(table_model, Path("model"))
    capsys.readouterr()
    assert main(ADAPT) == 1
    assert "with the columns of an older accous: run that command again" in capsys.readouterr().err


def test_lines_go_on_over_a_resumed_run_and_skip_bad_rows(tmp_path):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:60], "1,2\n", *lines[60:101]]))
    options = ["--on-bad-row", "skip", "--batch-size", "7"]
    assert main([*ADAPT, *options]) == 0
    with (tmp_path / "stream.csv").open("a") as file:
        file.write("".join(lines[101:]))
    assert main([*ADAPT, *options]) == 0
    assert pl.read_csv("predictions.csv")["line"].to_list() == [line for line in range(2, 303) if line != 61]
    assert pl.read_csv("predictions.csv.rejects.csv")["line"].to_list() == [61]


def test_another_command_in_the_middle_of_a_run_is_refused(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:100], "1,2\n", *lines[100:]]))
    assert main(ADAPT) == 1
    assert main([*ADAPT, "--batch-size", "3"]) == 1
    assert "model has an unfinished run on" in (error := capsys.readouterr().err)
    assert "with --batch-size 10: run that command again to finish it, or abandon it with --new" in error
    assert main([*ADAPT, "--on-bad-row", "skip", "--new"]) == 0


def begin_without_saving(*options: str) -> None:
    """A run that is killed before its first save, with what it has written until then."""
    lines = Path("stream.csv").read_text().splitlines(keepends=True)
    Path("stream.csv").write_text("".join([lines[0], "1,2\n", *lines[1:]]))
    assert main([*ADAPT, *options]) == 1
    Path("stream.csv").write_text("".join(lines))


def test_a_run_that_was_killed_before_its_first_save_is_not_abandoned_silently(capsys):
    """If it has written rows, another command is refused as in the middle of a run; if not, a line says so."""
    begin_without_saving()
    Path("predictions.csv").write_text("line,round,prediction\n2,1,yes\n")
    capsys.readouterr()
    assert main([*ADAPT, "--batch-size", "3"]) == 1
    error = capsys.readouterr().err
    assert "with --batch-size 10: run that command again to finish it, or abandon it with --new" in error
    assert Path("predictions.csv").read_text() == "line,round,prediction\n2,1,yes\n"
    Path("predictions.csv").write_text("")
    assert main([*ADAPT, "--batch-size", "3"]) == 0
    stream = Path("stream.csv").absolute()
    said = f"The unfinished run on {stream} is abandoned: it was stopped before it saved a round."
    assert said in capsys.readouterr().err


def test_the_same_command_takes_up_a_run_that_was_killed_before_its_first_save(capsys):
    begin_without_saving()
    Path("predictions.csv").write_text("line,round,prediction\n2,1,yes\n")
    capsys.readouterr()
    assert main(ADAPT) == 0
    assert "abandoned" not in capsys.readouterr().err
    assert pl.read_csv("predictions.csv").height == 300


def test_rows_of_a_parquet_file_that_no_save_has_seen_count_too(capsys):
    begin = ["adapt", "model", "stream.csv", "-o", "predictions.parquet"]
    begin_without_saving("-o", "predictions.parquet")
    Path("predictions.parquet.partial").write_text("line,round,prediction\n2,1,yes\n")
    assert main([*begin, "--batch-size", "3"]) == 1
    assert "has an unfinished run" in capsys.readouterr().err
    assert main([*begin, "--batch-size", "3", "--new"]) == 0


def test_a_run_stopped_by_a_bad_row_continues_when_bad_rows_are_skipped(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:100], "1,2\n", *lines[100:]]))
    shutil.copytree("model", "other")
    assert main(ADAPT) == 1
    assert main([*ADAPT, "--on-bad-row", "skip"]) == 0
    assert "Resuming after row" in capsys.readouterr().err
    assert main(["adapt", "other", *ADAPT[2:-1], "at_once.csv", "--on-bad-row", "skip"]) == 0
    assert (tmp_path / "predictions.csv").read_bytes() == (tmp_path / "at_once.csv").read_bytes()
    assert (tmp_path / "predictions.csv.rejects.csv").read_bytes() == (
        tmp_path / "at_once.csv.rejects.csv"
    ).read_bytes()


def test_a_stream_that_changed_before_the_place_reached_is_refused(tmp_path, capsys):
    text = (tmp_path / "stream.csv").read_text()
    lines = text.splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:100], "1,2\n", *lines[100:]]))
    assert main(ADAPT) == 1
    capsys.readouterr()
    (tmp_path / "stream.csv").write_text("".join(lines[:1] + lines[2:]))
    assert main(ADAPT) == 1
    assert "stream.csv is not the table that was read before: the text before line 92" in capsys.readouterr().err
    (tmp_path / "stream.csv").write_text(text)
    assert main(ADAPT) == 0
    assert pl.read_csv("predictions.csv").height == 300


def test_predictions_that_were_cut_are_noticed(tmp_path, capsys):
    lines = (tmp_path / "stream.csv").read_text().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_text("".join([*lines[:100], "1,2\n"]))
    assert main(ADAPT) == 1
    (tmp_path / "predictions.csv").write_text("round\n")
    assert main(ADAPT) == 1
    assert "predictions.csv has 6 bytes, but" in capsys.readouterr().err


@pytest.mark.parametrize(("dropped", "options", "code"), [(2, [], 1), (None, ["--label", "nope"], 2)])
def test_a_stream_that_does_not_fit_leaves_the_record_of_the_last_run(dropped, options, code, fitted):
    assert main(ADAPT) == 0
    before = files_of(Path("model"))
    used = load_table_model("model").encoder.used_columns
    fitted["stream"].drop([] if dropped is None else used[:dropped]).write_csv("other.csv")
    assert main(["adapt", "model", "other.csv", "-o", "others.csv", *options]) == code
    assert files_of(Path("model")) == before
    assert not Path("others.csv").exists()
    assert main(ADAPT) == 0
