"""Cells, panels, gaps and tallies, from rows with known answers."""

import numpy as np
import pytest
from scipy import stats

from accous_bench.reporting.aggregate import aggregate_rows
from accous_bench.reporting.cells import Panel, make_panels, split_regret
from accous_bench.reporting.comparison import against_ours, gap_closed, tally
from accous_bench.reporting.figure_comparison import draw_comparison
from accous_bench.reporting.lowest import best_contenders
from tests.bench.reporting.rows import CONTENDERS, make_failure, make_row, regret_rows, table_rows

NAMES = ("oracle", "limit", "mine", "Accous (literal)", "Accous", "FIX", "Accous (ensemble only)", "KMM")


def panels_of(rows: list) -> list[Panel]:
    return make_panels(aggregate_rows(rows).outcomes)


def one_panel(rows: list) -> Panel:
    (panel,) = panels_of(rows)
    return panel


def test_a_panel_is_a_data_set_and_a_batch_size() -> None:
    panels = panels_of([*table_rows(dataset="mine"), *table_rows()])
    assert [(panel.dataset, panel.batch_size) for panel in panels] == [
        ("gaussian", 1),
        ("gaussian", 5),
        ("mine", 1),
        ("mine", 5),
    ]
    assert list(panels[0].cells) == ["Lin", "Squ", "Sin", "Ber"]
    assert panels[0].contenders == list(CONTENDERS)


def test_own_contenders_stand_before_ours_and_the_bounds() -> None:
    panel = one_panel([make_row(name, 0) for name in NAMES])
    ours = ["Accous (literal)", "Accous (ensemble only)", "Accous"]
    assert panel.contenders == ["FIX", "KMM", "mine", *ours, "limit", "oracle"]
    assert panel.rivals == ["FIX", "KMM", "mine", "Accous (literal)", "Accous (ensemble only)"]


def test_mean_and_standard_deviation() -> None:
    errors = [0.30, 0.31, 0.35]
    cell = one_panel([make_row("LR", seed, error=error) for seed, error in enumerate(errors)]).cells["Squ"]
    assert cell.entries["LR"].mean == pytest.approx(np.mean(errors))
    assert cell.entries["LR"].std == pytest.approx(np.std(errors, ddof=1))


def test_one_seed_has_no_standard_deviation() -> None:
    cell = one_panel([make_row("LR", 0)]).cells["Squ"]
    assert cell.entries["LR"].std is None


def test_time_of_a_round_is_the_processors_where_all_runs_know_it() -> None:
    rows = [make_row(name, 0, cpu_seconds=30.0, seconds_per_round=9.0) for name in ("FIX", "LR")]
    panel = one_panel(rows)
    assert panel.has_processor_times
    assert panel.cells["Squ"].entries["LR"].seconds_a_round(of_processor=True) == pytest.approx(0.003)
    panel = one_panel([*rows, make_row("Accous", 0)])
    assert not panel.has_processor_times
    assert panel.cells["Squ"].entries["LR"].seconds_a_round(of_processor=False) == pytest.approx(9.0)


def test_ties_within_rounding_are_all_best_and_the_bounds_never_are() -> None:
    rows = [make_row("LR", 0, error=0.27004), make_row("KMM", 0, error=0.26996), make_row("Accous", 0, error=0.28)]
    rows += [make_row("limit", 0, error=0.2), make_row("oracle", 0, error=0.1)]
    assert set(best_contenders(one_panel(rows).cells["Squ"])) == {"LR", "KMM"}


def test_who_ran_on_fewer_seeds_or_rounds_is_not_best() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "Accous") for seed in (0, 1)]
    rows += [make_row("KMM", 0, error=0.01), *(make_row("DANN", seed, error=0.01, n_rounds=100) for seed in (0, 1))]
    cell = one_panel(rows).cells["Squ"]
    assert cell.n_rounds == 10_000
    assert best_contenders(cell) == ["Accous"]
    assert not cell.is_complete("KMM")
    assert not cell.is_complete("DANN")
    assert cell.common_seeds("KMM", "Accous") == [0]
    assert cell.common_seeds("DANN", "Accous") == []


def test_a_seed_that_few_contenders_have_does_not_decide_who_is_best() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "LR", "Accous") for seed in (0, 1)]
    rows.append(make_row("FIX", 2, error=0.0))
    cell = one_panel(rows).cells["Squ"]
    assert cell.seeds == [0, 1]
    assert cell.is_complete("Accous")
    assert best_contenders(cell) == ["Accous"]
    assert cell.entries["FIX"].mean == pytest.approx(0.22)


def test_gap_closed_by_risk_where_known() -> None:
    rows = [make_row("FIX", 0, risk=0.40), make_row("oracle", 0, risk=0.20), make_row("LR", 0, risk=0.25, error=0.9)]
    gap = gap_closed(one_panel(rows).cells["Squ"], "LR")
    assert gap is not None
    assert (gap.measure, gap.width, gap.share) == ("risk", pytest.approx(0.2), pytest.approx(0.75))


def test_gap_closed_by_error_where_one_risk_is_unknown() -> None:
    rows = [make_row("FIX", 0, error=0.4, risk=0.1), make_row("oracle", 0, error=0.2, risk=0.1)]
    rows.append(make_row("LR", 0, error=0.5))
    gap = gap_closed(one_panel(rows).cells["Squ"], "LR")
    assert gap is not None
    assert (gap.measure, gap.share) == ("error", pytest.approx(-0.5))


@pytest.mark.parametrize("oracle", [0.3995, 0.4, 0.45])
def test_a_gap_below_a_tenth_of_a_point_has_no_shares(oracle: float) -> None:
    rows = [make_row("FIX", 0, error=0.4), make_row("oracle", 0, error=oracle), make_row("LR", 0)]
    gap = gap_closed(one_panel(rows).cells["Squ"], "LR")
    assert gap is not None
    assert gap.share is None


def test_no_gap_without_an_oracle() -> None:
    assert gap_closed(one_panel([make_row("FIX", 0), make_row("LR", 0)]).cells["Squ"], "LR") is None


def test_against_ours_is_scipys_test_with_holm_over_the_panel() -> None:
    panel = panels_of(table_rows())[0]
    tests = against_ours(panel)
    assert len(tests) == 7 * 4
    raw = {}
    for (name, shift), found in tests.items():
        entries = panel.cells[shift].entries
        assert found.measure == "risk"
        expected = stats.ttest_rel(entries[name].values("risk"), entries["Accous"].values("risk"))
        assert found.test.p == pytest.approx(expected.pvalue)
        raw[name, shift] = expected.pvalue
    smallest = min(raw, key=raw.__getitem__)
    assert tests[smallest].adjusted_p == pytest.approx(28 * raw[smallest])


def test_pairs_are_matched_by_seed_not_by_place() -> None:
    rows = [make_row("Accous", seed, error=0.2 + 0.01 * seed) for seed in (0, 1, 2)]
    rows += [make_row("LR", seed, error=0.25 + 0.01 * seed) for seed in (2, 0)]
    (found,) = against_ours(one_panel(rows)).values()
    assert found.test.n == 2
    assert found.test.difference == pytest.approx(0.05)


def test_wins_ties_and_losses_at_three_tenths_of_a_point() -> None:
    rows = []
    for shift, error in (("Lin", 0.3031), ("Squ", 0.303), ("Sin", 0.297), ("Ber", 0.2969)):
        rows += [make_row("Accous", 0, shift=shift, error=0.3), make_row("LR", 0, shift=shift, error=error)]
    (found,) = tally(panels_of(rows))
    assert (found.wins, found.ties, found.losses) == (1, 2, 1)


def test_pooled_test_averages_each_seed_over_the_cells_first() -> None:
    panels = panels_of(table_rows())
    found = {one.contender: one for one in tally(panels)}["OLRE"]
    cells = [cell for panel in panels for cell in panel.cells.values()]
    means = {
        name: np.mean([cell.entries[name].values("error") for cell in cells], axis=0) for name in ("OLRE", "Accous")
    }
    assert found.pooled is not None
    assert found.pooled.test.n == 5
    assert found.pooled.test.p == pytest.approx(stats.ttest_rel(means["OLRE"], means["Accous"]).pvalue)
    assert found.wins == 8


def test_the_tally_by_risk_leaves_out_what_has_none() -> None:
    rows = [make_row("Accous", seed, error=0.3, risk=0.2 + 0.01 * seed) for seed in (0, 1)]
    rows += [make_row("LR", seed, error=0.1, risk=0.25 + 0.011 * seed) for seed in (0, 1)]
    rows += [make_row("DANN", seed, error=0.1) for seed in (0, 1)]
    (found,) = tally(panels_of(rows), "risk")
    assert (found.contender, found.wins, found.losses) == ("LR", 1, 0)
    assert found.pooled is not None
    assert found.pooled.test.difference == pytest.approx(0.0505)
    assert [one.losses for one in tally(panels_of(rows))] == [1, 1]


def test_a_failure_is_forgotten_once_the_run_is_done() -> None:
    late = {"finished": "2026-01-03T00:00:00+00:00"}
    rows = [
        make_row("LR", 0),
        make_failure("LR", 0, **late),
        make_failure("LR", 0, n_rounds=500),
        make_failure("LR", 1),
    ]
    cell = one_panel(rows).cells["Squ"]
    assert [outcome.seed for outcome in cell.entries["LR"].failed] == [1]
    assert list(cell.entries["LR"].done) == [0]


def test_failed_rows_join_the_cell_of_their_data_set() -> None:
    panel = one_panel([make_row("FIX", 0), make_failure("LR", 0)])
    assert panel.contenders == ["FIX", "LR"]
    assert panel.cells["Squ"].entries["LR"].mean is None


def test_regrets_are_no_table_of_errors() -> None:
    outcomes = aggregate_rows([*table_rows(), *regret_rows()]).outcomes
    for_tables, for_regret = split_regret(outcomes)
    assert {outcome.key.dataset for outcome in for_tables} == {"gaussian"}
    assert {outcome.key.dataset for outcome in for_regret} == {"moving_gaussian"}


def test_a_stream_of_another_length_is_not_drawn_beside_the_others() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "KMM", "Accous") for seed in (0, 1)]
    rows += [make_row("DANN", 0, error=0.9, n_rounds=100)]
    figure = draw_comparison([[("Squ", one_panel(rows).cells["Squ"])]])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["KMM", "Accous"]
    assert figure.axes[0].get_xlim()[1] < 80.0
