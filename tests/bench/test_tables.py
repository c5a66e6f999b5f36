"""Reports and pages: their tables are the numbers, from rows and from aggregates alike."""

import csv
import re
from pathlib import Path

import pytest

from accous.exceptions import DataError, ParameterError
from accous_bench.aggregates import aggregate_rows, merge, read_aggregates, write_aggregates
from accous_bench.contenders import ENSEMBLE, ORACLE, OURS, PREDICT_FIRST
from accous_bench.spec import find_spec, read_spec
from accous_bench.statistics import Cell, make_panels
from accous_bench.tables import read_inputs, report_tables, write_pages, write_report
from tests.bench.rows import make_failure, make_row, natural_rows, regret_rows, switch_rows, table_rows, write_rows

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"


def tables_of(rows: list) -> dict[str, list[list[str]]]:
    """The rows of every table, by its name."""
    return {table.name: table.rows for table in report_tables(aggregate_rows(rows))}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on rows of every kind."""
    base = tmp_path_factory.mktemp("bench")
    other = table_rows(dataset="diabetes", n_reference=200, batch_sizes=(5,), shifts=("Lin",), risk=None)
    rows = [*table_rows(batch_sizes=(1,)), *other, *switch_rows(), *natural_rows(), *regret_rows()]
    write_report([write_rows(base / "rows", rows)], base / "report")
    return base / "report"


def test_all_files_are_written(everything: Path) -> None:
    assert {path.name for path in everything.iterdir()} == {"report.md", "aggregates.json", "tables", "figures"}
    figures = {path.stem for path in (everything / "figures").glob("*.svg")}
    assert figures == {path.stem for path in (everything / "figures").glob("*.png")}
    assert figures == {
        "comparison-gaussian-1000",
        "comparison-diabetes-200",
        "drift",
        "weights-gaussian-1000-1-squ-400-accous",
        "switches-gaussian-1000-1-squ-400",
        "regret-moving-gaussian-10000-1",
    }
    assert (everything / "aggregates.json").stat().st_size < 150_000


@pytest.mark.slow
def test_the_same_report_comes_from_its_aggregates(everything: Path, tmp_path: Path) -> None:
    write_report([everything / "aggregates.json"], tmp_path)
    for path in everything.rglob("*.*"):
        if path.suffix != ".png":
            assert (tmp_path / path.relative_to(everything)).read_text() == path.read_text(), path


def test_a_table_has_the_same_cells_in_both_formats(everything: Path) -> None:
    text = (everything / "report.md").read_text()
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert len(tables) == len(list((everything / "tables").glob("*.csv")))
    for table in tables:
        assert len({line.count("|") for line in table.strip().split("\n")}) == 1
    with (everything / "tables" / "errors-diabetes-200-5.csv").open() as file:
        for row in csv.reader(file):
            assert re.sub(r" \[\d+\]|\*\*", "", text).count(f"| {' | '.join(row)} |") == 1


def test_errors_have_a_mean_and_a_standard_error_beside_the_papers() -> None:
    errors = {"FIX": (0.30, 0.34), "accous": (0.26, 0.30), "mine": (0.4, 0.4)}
    rows = [make_row(name, seed, error=e) for name, found in errors.items() for seed, e in enumerate(found)]
    assert [row[:3] for row in tables_of(rows)["errors-gaussian-1000-1"]] == [
        ["FIX", "32.00 ± 2.00", "33.19"],
        ["mine", "40.00 ± 0.00", "–"],
        ["accous", "**28.00 ± 2.00**", "29.30"],
    ]


def test_one_seed_has_neither_spread_nor_test() -> None:
    tables = tables_of([make_row(name, 0) for name in ("FIX", "LR", "accous")])
    assert tables["errors-gaussian-1000-1"][1][1] == "35.00"
    assert tables["differences-gaussian-1000-1"] == [["FIX", "+5.00"], ["LR", "+7.00"]]


def test_differences_are_tested_where_both_ran_the_same_rounds() -> None:
    rows = [make_row("accous", seed, error=0.28) for seed in range(3)]
    rows += [make_row("OLRE", seed, error=0.30 + 0.0001 * seed**2) for seed in range(3)]
    rows += [make_row("LR", seed, error=0.35, n_run=10_000, n_predicted=400) for seed in range(3)]
    lr, olre = tables_of(rows)["differences-gaussian-1000-1"]
    assert lr == ["LR", "≈ +7.00"]
    assert olre[1].startswith("**+2.02 (p")


def test_shares_of_the_limit_come_before_those_of_the_oracle() -> None:
    risks = {"FIX": 0.40, "accous": 0.32, "limit": 0.30, "oracle": 0.25}
    assert tables_of([make_row(name, 0, risk=risk) for name, risk in risks.items()])["risks-gaussian-1000-1"] == [
        ["FIX", "40.00"],
        ["accous", "32.00 (80, 53)"],
        ["limit", "30.00 (100, 67)"],
        ["oracle", "25.00"],
        ["gap, points", "15.00"],
    ]


def test_wins_compare_like_with_like() -> None:
    tables = tables_of([*table_rows(n_seeds=2), *(make_row("Accous (paper)", s) for s in (0, 1))])
    assert tables["wins"][-2:] == [["OLRE", "2", "0", "0"], ["Accous (paper)", "22", "1", "8"]]


def test_each_protocol_has_its_own_tables() -> None:
    rows = [
        make_row(name, 0, protocol=protocol, error=error)
        for protocol, errors in (("predict_first", (0.33, 0.35)), ("batch_first", (0.33, 0.29)))
        for name, error in zip(("FIX", "LR"), errors, strict=True)
    ]
    tables = tables_of(rows)
    assert tables["errors-gaussian-1000-1"][1][1] == "35.00"
    assert tables["errors-gaussian-1000-1-batch-first"][1][1] == "**29.00**"


def test_regrets_with_their_exponents() -> None:
    (first, *_) = tables_of(regret_rows())["regret"]
    assert [*first[:2], *first[-2:]] == ["fixed path", "OLRE", "0.50 ± 0.00", "1/3"]


def test_shortcomings_are_noted() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "accous") for seed in range(4)]
    rows += [*(make_row("KMM", seed) for seed in (0, 1, 3)), make_failure("KMM", 2, "singular")]
    rows += [make_row("DANN", seed, n_rounds=100) for seed in range(4)]
    rows += [make_row("LR", seed, n_run=10_000, n_predicted=400) for seed in range(4)]
    table = next(table for table in report_tables(aggregate_rows(rows)) if table.name.startswith("errors"))
    marks = {row[0]: re.findall(r"\[(\d)\]", row[1]) for row in table.rows}
    assert marks == {"FIX": [], "DANN": ["1"], "KMM": ["2", "3"], "LR": ["4"], "accous": []}
    assert re.findall(r"[\d,]+\d", table.notes[0])[-2:] == ["100", "10,000"]
    assert table.notes[1:3] == ["Seeds 0, 1, 3 only.", "Failed for seed 2: singular."]


def test_failures_and_numbers_that_are_not_finite_are_dashes() -> None:
    rows = [make_failure("accous", 0), make_row("FIX", 0, error=float("nan"))]
    assert [row[1][0] for row in tables_of(rows)["errors-gaussian-1000-1"]] == ["–", "–"]


def test_names_cannot_write_markup(tmp_path: Path) -> None:
    name = "<script>alert(1)</script> | $x_1$ & $\\bad$"
    rows = [make_row(contender, seed) for contender in ("FIX", "accous", name) for seed in (0, 1)]
    write_report([write_rows(tmp_path / "rows", rows)], tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert not re.search(r"(?<!\\)<script", text)
    assert r"\| $x_1$" in text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"kind": "something else"}', "\x00"])
def test_a_file_that_holds_no_aggregates_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=r"a\.json"):
        read_inputs([tmp_path / "a.json"])


def test_nothing_to_report_on_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no benchmark rows"):
        write_report([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ParameterError, match="no folder or file"):
        read_inputs([tmp_path / "nowhere"])
    row = make_row("FIX", 0)
    del row["seed"]
    with pytest.raises(DataError, match="seed"):
        read_inputs([write_rows(tmp_path / "rows", [row])])


# --- aggregates ---------------------------------------------------------------------------------------------------


def test_aggregates_survive_a_file(tmp_path: Path) -> None:
    rows = [*table_rows(n_seeds=3), *switch_rows(), *natural_rows(), make_failure("LR", 7, "it broke", shift="Lin")]
    before = aggregate_rows(rows)
    write_aggregates(before, tmp_path / "a.json")
    after = read_aggregates(tmp_path / "a.json")
    runs = [{one.place: (one.error, one.reason, one.n_run) for one in each.outcomes} for each in (before, after)]
    assert runs[0] == runs[1]
    assert after.curves == before.curves
    assert after.learner_weights == before.learner_weights
    assert after.provenance == before.provenance


def test_a_later_run_replaces_an_earlier_one_and_where_it_came_from() -> None:
    late = {"run": "later", "error": 0.1, "commit": "def", "finished": "2026-02-01T00:00:00+00:00"}
    earlier = aggregate_rows([make_row("accous", 0), make_row("LR", 0), make_row("LR", 1)])
    merged = merge([earlier, aggregate_rows([make_row("accous", 0, **late), make_row("LR", 1, **late)])])
    assert [one.error for one in merged.outcomes if one.contender == "accous"] == [0.1]
    of_all, of_some = merged.provenance["accous"], merged.provenance["LR"]
    assert (of_all["commits"], of_some["commits"]) == (["def"], ["abc1234", "def"])
    assert [date[:10] for date in of_all["dates"] + of_some["dates"]] == ["2026-02-01", "2026-01-02", "2026-02-01"]
    assert (of_some["settings"], of_some["versions"]) == (["Model, C=1.0"], ["accous 0.1.0, numpy 2.0"])


# --- the page of results ------------------------------------------------------------------------------------------


def test_the_pages_of_results_are_those_of_the_committed_aggregates(tmp_path: Path) -> None:
    (tmp_path / "results.md").write_text((DOCS / "results.md").read_text())
    pages = write_pages(tmp_path, RESULTS, has_figures=False)
    assert len(pages) >= 12
    for page in pages:
        assert page.read_text() == (DOCS / page.relative_to(tmp_path)).read_text(), page
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.csv")}
    assert written == {path.relative_to(DOCS) for path in (DOCS / "results").rglob("*.csv")}
    assert all((tmp_path / path).read_text() == (DOCS / path).read_text() for path in written)


HEADLINE = {"table1": ("diabetes", "breast"), "table2": ("diabetes", "breast"), "table3": ("gaussian",)}


@pytest.mark.parametrize("name", HEADLINE)
def test_every_headline_cell_has_five_seeds_of_every_contender(name: str) -> None:
    spec = read_spec(find_spec(name))
    cells: dict[tuple[str, str, int], Cell] = {
        (panel.dataset, shift, panel.batch_size): cell
        for panel in make_panels(read_aggregates(RESULTS / f"{name}.json").outcomes)
        if panel.protocol == PREDICT_FIRST
        for shift, cell in panel.cells.items()
    }
    for place in [(d, shift, size) for d in HEADLINE[name] for shift in spec.shifts for size in spec.batch_sizes]:
        assert (cells[place].n_rounds, cells[place].seeds) == (spec.rounds[0], [*range(5)]), place
        for contender in ("FIX", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", ENSEMBLE, OURS, ORACLE):
            assert list(cells[place].entries[contender].done) == [*range(5)], (place, contender)
