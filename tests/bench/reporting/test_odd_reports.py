"""Reports on odd rows: none, failures, one seed, numbers that are not finite, and markup in names."""

import builtins
import re
from pathlib import Path
from typing import Any

import pytest

from accous.exceptions import DataError, ParameterError
from accous_bench.reporting.report import read_inputs, write_report
from tests.bench.reporting.rows import (
    make_failure,
    make_row,
    report_on,
    table_rows,
    write_rows,
)

TABLES = ("report.md", "report.tex", "report.html", "aggregates.json")


def test_an_empty_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no benchmark rows"):
        write_report([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_missing_folder_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="There is no folder or file"):
        read_inputs([tmp_path / "nowhere"])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "something else"}', "\x00"])
def test_a_file_that_holds_no_aggregates_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"a\.json"):
        read_inputs([tmp_path / "a.json"])


def test_only_failures_give_dashes_and_reasons(tmp_path: Path) -> None:
    text = report_on(
        tmp_path, [make_failure("Accous", 0, "no memory"), make_failure("FIX", 0, "no memory")], has_figures=True
    )
    assert "| Accous | – <sup>a</sup> |" in text
    assert "Failed for seed 0: no memory." in text


def test_one_seed_has_neither_spread_nor_test(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, 0) for name in ("FIX", "LR", "Accous", "oracle")], has_figures=True)
    assert "One seed only: no standard deviation and no test." in text
    assert "p =" not in text
    assert "| LR | 35.00 | 36.21 ± 0.46 |" in text


def test_the_limit_is_explained_where_it_takes_part(tmp_path: Path) -> None:
    names = ("FIX", "LR", "Accous", "limit", "oracle")
    sentence = "The limit does not count either"
    with_limit, without = tmp_path / "with", tmp_path / "without"
    for folder in (with_limit, without):
        folder.mkdir()
    assert sentence in report_on(with_limit, [make_row(name, 0) for name in names])
    assert sentence not in report_on(without, [make_row(name, 0) for name in names if name != "limit"])


def test_contenders_that_the_paper_does_not_know_have_a_dash(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, seed) for name in ("mine", "Accous") for seed in (0, 1)])
    assert re.search(r"\| mine \| 30.00 ± 0.00 \| – \|", text)


def test_without_ours_nothing_is_compared(tmp_path: Path) -> None:
    text = report_on(tmp_path, [make_row(name, seed) for name in ("FIX", "LR") for seed in (0, 1)], has_figures=True)
    assert "No contender shares a stream with Accous" in text


def test_fewer_seeds_rounds_and_failures_are_said_in_footnotes(tmp_path: Path) -> None:
    rows = [make_row(name, seed, error=0.3 + 0.01 * seed) for name in ("FIX", "Accous") for seed in (0, 1, 2)]
    rows += [make_row(name, 3, error=0.31) for name in ("FIX", "Accous")]
    rows += [make_row("KMM", seed, error=0.3 + 0.01 * seed**2) for seed in (0, 1, 3)]
    rows += [make_failure("KMM", 2, "singular")]
    rows += [make_row("DANN", seed, n_rounds=100) for seed in (0, 1, 2, 3)]
    text = report_on(tmp_path, rows, has_figures=True)
    assert "3 seeds only: 0, 1 and 3." in text
    assert "Failed for seed 2: singular." in text
    assert "100 rounds instead of 10,000: another stream, left out of the comparisons." in text
    assert "n = 3 or 4 seeds" in text


def test_numbers_that_are_not_finite_are_unknown(tmp_path: Path) -> None:
    text = report_on(
        tmp_path, [make_row("FIX", 0, error=float("nan")), make_row("Accous", 0, risk=float("inf"))], has_figures=True
    )
    assert "| FIX | – |" in text


def test_a_row_that_names_no_run_is_refused(tmp_path: Path) -> None:
    row = make_row("FIX", 0)
    del row["seed"]
    with pytest.raises(DataError, match="seed"):
        report_on(tmp_path, [row])


def test_two_folders_make_one_report(tmp_path: Path) -> None:
    rows = table_rows(batch_sizes=(1,), shifts=("Squ",))
    first = write_rows(tmp_path / "a", [row for row in rows if row["contender"] != "DANN"])
    second = write_rows(tmp_path / "b", [row for row in rows if row["contender"] == "DANN"])
    together = read_inputs([first, second])
    assert len(together.outcomes) == len(rows)
    report = write_report([first], tmp_path / "one", has_figures=False)
    mixed = read_inputs([report.files[-1], second])
    assert {outcome.contender for outcome in mixed.outcomes} == {outcome.contender for outcome in together.outcomes}


def test_without_matplotlib_the_tables_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = builtins.__import__

    def without_matplotlib(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return honest(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    written = write_report([write_rows(tmp_path / "rows", table_rows(n_seeds=2))], tmp_path / "out")
    assert "accous[plot]" in (written.missing_figures or "")
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(TABLES)
