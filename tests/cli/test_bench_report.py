"""The command `accous bench report`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous_bench.commands.report import report
from tests.bench.reporting.rows import make_failure, table_rows

app = typer.Typer()
app.command()(report)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "table3"
    folder.mkdir(parents=True)
    rows = [*table_rows(n_seeds=2, shifts=("Squ",), batch_sizes=(1,)), make_failure("mine", 0)]
    (folder / "table3.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_it_writes_and_says_what(folder: Path, tmp_path: Path) -> None:
    output = run(folder, "-o", tmp_path / "out")
    assert "Report on 19 runs, 1 of them failed" in output
    assert (tmp_path / "out" / "report.html").is_file()
    assert (tmp_path / "out" / "figures" / "comparison-gaussian-1000.png").is_file()


def test_quiet_says_nothing(folder: Path, tmp_path: Path) -> None:
    assert run(folder, "-o", tmp_path / "out", "-q", "--no-figures") == ""
    assert not (tmp_path / "out" / "figures").exists()


def test_without_a_folder_all_results_are_taken(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("--no-figures")
    assert (tmp_path / "bench-report" / "report.md").is_file()


def test_without_any_results_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match="no results here yet"):
        run()


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no benchmark rows"):
        run(tmp_path, "-o", tmp_path / "out")


def test_missing_matplotlib_is_an_error_after_the_tables(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"tables are in .*accous\[plot\]"):
        run(folder, "-o", tmp_path / "out")
    assert (tmp_path / "out" / "report.md").is_file()
