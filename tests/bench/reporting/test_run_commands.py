"""The commands on the page of results are those that make its runs."""

from __future__ import annotations

import shlex

from accous_bench.reporting.aggregate import aggregate_rows
from accous_bench.reporting.cells import make_panels
from accous_bench.reporting.tables import error_table
from accous_bench.spec import find_spec, read_spec
from benchmarks.missing_runs import missing_lines
from benchmarks.run_commands import run_commands
from tests.bench.reporting.rows import make_row, table_rows

MAIN = ("FIX", "Accous", "oracle")


def test_a_part_of_a_grid_names_what_ran() -> None:
    rows = table_rows(n_seeds=2, batch_sizes=(1,), contenders=MAIN)
    rows += table_rows(n_seeds=1, batch_sizes=(1,), shifts=("Squ",), contenders=("LR",), protocol="fresh_rows")
    whole, one_step = run_commands(aggregate_rows(rows).outcomes)
    assert whole == "accous bench run table3 --contenders FIX,Accous,oracle --batch-sizes 1 --seeds 0,1"
    words = "table3 --contenders LR --shifts Squ --batch-sizes 1 --seeds 0 --protocol fresh_rows"
    assert one_step == f"accous bench run {words}"


def test_contenders_with_other_parts_get_their_own_command_and_names_with_spaces_are_quoted() -> None:
    rows = table_rows(contenders=MAIN) + table_rows(n_seeds=1, contenders=("Accous (literal)",))
    commands = [shlex.split(command) for command in run_commands(aggregate_rows(rows).outcomes)]
    assert commands == [
        ["accous", "bench", "run", "table3", "--contenders", "FIX,Accous,oracle"],
        ["accous", "bench", "run", "table3", "--contenders", "Accous (literal)", "--seeds", "0"],
    ]


def test_other_lengths_than_the_spec_has_get_a_command_each() -> None:
    rows = [row for n in (10_000, 300) for row in table_rows(contenders=MAIN, n_rounds=n)]
    usual = "accous bench run table3 --contenders FIX,Accous,oracle"
    assert run_commands(aggregate_rows(rows).outcomes) == [usual, f"{usual} --rounds 300"]


def test_a_spec_that_is_not_built_in_is_only_named() -> None:
    rows = table_rows(n_seeds=1, shifts=("none",), batch_sizes=(1,), contenders=("FIX",), spec="unknown", n_rounds=7)
    assert run_commands(aggregate_rows(rows).outcomes) == ["accous bench run unknown"]


def test_caption_says_if_shifts_have_different_numbers_of_seeds() -> None:
    rows = table_rows(n_seeds=2, shifts=("Lin",), batch_sizes=(1,))
    rows += table_rows(n_seeds=1, shifts=("Squ",), batch_sizes=(1,))
    (panel,) = make_panels(aggregate_rows(rows).outcomes)
    assert "over the seeds of each shift (Lin: 2, Squ: 1), 10,000 rounds" in error_table(panel).caption


def test_what_has_no_run_is_named() -> None:
    spec = read_spec(find_spec("smoke"))
    rows = [make_row(name, 0, spec="smoke", shift="Lin") for name in spec.contenders if name != "DANN"]
    outcomes = aggregate_rows(rows).outcomes
    assert missing_lines(outcomes, ["smoke"]) == [
        "Contenders and data sets of the specs without a run on this page: smoke: DANN and breast_cancer."
    ]
    rows += [make_row(spec.contenders[1], 0, spec="smoke", shift="Lin", dataset=one) for one in spec.datasets]
    assert missing_lines(aggregate_rows(rows).outcomes, ["smoke", "my own spec"]) == []
