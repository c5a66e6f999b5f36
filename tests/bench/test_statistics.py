"""Cells, gaps, paired tests, wins and regret, from rows with known answers and against scipy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from accous_bench.aggregates import aggregate_rows
from accous_bench.statistics import (
    Panel,
    against_ours,
    best_contenders,
    fitted_exponent,
    gap_closed,
    holm,
    make_panels,
    paired_p,
    paper_wins,
    regret_series,
    split_regret,
)
from tests.bench.rows import CONTENDERS, make_failure, make_row, regret_rows, table_rows

NAMES = ("oracle", "limit", "mine", "Accous (literal)", "accous", "FIX", "Accous (paper)", "KMM")


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
    ours = ["Accous (literal)", "Accous (paper)", "accous"]
    assert panel.contenders == ["FIX", "KMM", "mine", *ours, "limit", "oracle"]
    assert panel.rivals == ["FIX", "KMM", "mine", "Accous (literal)", "Accous (paper)"]


def test_time_of_a_round_is_the_processors() -> None:
    rows = [make_row("LR", seed, seconds_per_round=9.0, cpu_seconds=20.0, n_predicted=400) for seed in (0, 1)]
    (entry,) = one_panel(rows).cells["Squ"].entries.values()
    assert entry.seconds_a_round == pytest.approx(0.05)


def test_ties_within_rounding_are_all_best_and_the_bounds_never_are() -> None:
    rows = [make_row("LR", 0, error=0.27004), make_row("KMM", 0, error=0.26996), make_row("accous", 0, error=0.28)]
    rows += [make_row("limit", 0, error=0.2), make_row("oracle", 0, error=0.1)]
    assert set(best_contenders(one_panel(rows).cells["Squ"])) == {"LR", "KMM"}


def test_who_ran_on_fewer_seeds_or_rounds_is_not_best() -> None:
    rows = [make_row(name, seed) for name in ("FIX", "accous") for seed in (0, 1)]
    rows += [make_row("KMM", 0, error=0.01), *(make_row("DANN", seed, error=0.01, n_rounds=100) for seed in (0, 1))]
    cell = one_panel(rows).cells["Squ"]
    assert cell.n_rounds == 10_000
    assert best_contenders(cell) == ["accous"]
    assert not cell.is_complete("KMM")
    assert not cell.is_complete("DANN")
    assert cell.common_seeds("KMM", "accous") == [0]
    assert cell.common_seeds("DANN", "accous") == []


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


def test_against_ours_is_scipys_test_with_holm_over_the_panel() -> None:
    panel = panels_of(table_rows())[0]
    tests = against_ours(panel)
    assert len(tests) == 7 * 4
    raw = {}
    for (name, shift), found in tests.items():
        entries = panel.cells[shift].entries
        assert found.measure == "risk"
        raw[name, shift] = stats.ttest_rel(entries[name].values("risk"), entries["accous"].values("risk")).pvalue
    assert [found.p for found in tests.values()] == pytest.approx(slow_holm([raw[place] for place in tests]))


def test_pairs_are_matched_by_seed_not_by_place() -> None:
    rows = [make_row("accous", seed, error=0.2 + 0.01 * seed) for seed in (0, 1, 2)]
    rows += [make_row("LR", seed, error=0.25 + 0.01 * seed) for seed in (2, 0)]
    (found,) = against_ours(one_panel(rows)).values()
    assert found.difference == pytest.approx(0.05)
    assert found.p is None


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


def test_regrets_are_no_table_of_errors() -> None:
    outcomes = aggregate_rows([*table_rows(), *regret_rows()]).outcomes
    for_tables, for_regret = split_regret(outcomes)
    assert {outcome.key.dataset for outcome in for_tables} == {"gaussian"}
    assert {outcome.key.dataset for outcome in for_regret} == {"moving_gaussian"}


SAMPLE = {"n_run": 10_000, "n_predicted": 400}


def sampled_rows(risk_of_lr: float | None, n_seeds: int = 4) -> list[dict[str, Any]]:
    """By the error over its few rounds, LR is the best; by the risk, Accous is."""
    rows = []
    for seed in range(n_seeds):
        noise = 0.001 * seed**2
        rows += [make_row("FIX", seed, error=0.33, risk=0.33 + noise)]
        rows += [make_row("accous", seed, error=0.28 + noise, risk=0.28)]
        rows += [make_row("LR", seed, error=0.25 + 2 * noise, risk=risk_of_lr, **SAMPLE)]
    return rows


def test_a_sample_of_the_rounds_is_never_best_by_its_error() -> None:
    assert best_contenders(one_panel(sampled_rows(risk_of_lr=0.29)).cells["Squ"]) == ["accous"]


def test_a_sample_of_the_rounds_is_tested_by_the_exact_risk() -> None:
    rows = sampled_rows(risk_of_lr=0.29)
    for row in rows:
        row["risk"] += 0.001 * (row["seed"] % 3) * (row["contender"] == "LR")
    panel = one_panel(rows)
    entries, found = panel.cells["Squ"].entries, against_ours(panel)
    raw = [stats.ttest_rel(entries[name].values("risk"), entries["accous"].values("risk")).pvalue for name, _ in found]
    assert [each.p for each in found.values()] == pytest.approx(slow_holm(raw))
    assert {each.measure for each in found.values()} == {"risk"}


def test_errors_over_other_rounds_have_no_p() -> None:
    panel = one_panel(sampled_rows(risk_of_lr=None))
    found = against_ours(panel)
    assert found["LR", "Squ"].p is None
    assert found["FIX", "Squ"].p is not None


def test_two_samples_of_the_same_rounds_are_pairs() -> None:
    rows = [make_row("LR", seed, error=0.3 + 0.01 * seed**2, **SAMPLE) for seed in range(3)]
    rows += [make_row("accous", seed, error=0.28, **SAMPLE) for seed in range(3)]
    assert against_ours(one_panel(rows))["LR", "Squ"].p is not None


PAPERS = ("FIX", "KMM", "KLIEP", "LR", "OLRE", "Accous (paper)")
PLACE = {"shift": "Squ", "batch_size": 5, "n_reference": 2000, "dataset": "mnist_svhn"}


@pytest.mark.parametrize(("n_tuned", "winner"), [(3, "OLRE"), (6, "LR")])
def test_a_variant_counts_if_as_many_contenders_ran_it(n_tuned: int, winner: str) -> None:
    rows = [make_row(name, 0, error=0.2 - 0.1 * (name == "OLRE"), **PLACE) for name in PAPERS]
    place = PLACE | {"dataset": "mnist_svhn_tuned"}
    tuned = [make_row(name, 0, error=0.2 - 0.1 * (name == "LR"), **place) for name in PAPERS]
    (wins,) = paper_wins(panels_of([*rows, *tuned[-n_tuned:]]))
    assert [name for name, n_wins in wins.ours.items() if n_wins] == [winner]
    assert wins.ours["DANN"] is None


@pytest.mark.parametrize(("without_risk", "winner"), [(None, "OLRE"), ("KMM", "LR")])
def test_wins_are_by_the_exact_risk_if_all_have_one(without_risk: str | None, winner: str) -> None:
    rows = [
        make_row(name, 0, error=0.2 - 0.1 * (name == "LR"), **PLACE)
        | {"risk": None if name == without_risk else 0.2 - 0.1 * (name == "OLRE")}
        for name in PAPERS
    ]
    (wins,) = paper_wins(panels_of(rows))
    assert [name for name, n_wins in wins.ours.items() if n_wins] == [winner]
    assert (wins.paper["Accous (paper)"], wins.paper["OLRE"], sum(wins.paper.values())) == (22, 2, 24)


# --- paired tests -------------------------------------------------------------------------------------------------

errors = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)
p_values = st.lists(st.floats(0, 1), max_size=12)


def slow_holm(p: list[float]) -> list[float]:
    """Reject from the smallest on: the adjusted value of each is the level at which it would just be rejected."""
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda index: p[index])):
        largest = max(largest, min(1.0, p[index] * (len(p) - rank)))
        adjusted[index] = largest
    return adjusted


@pytest.mark.parametrize("n", [3, 5, 20])
def test_paired_p_is_scipys(n: int) -> None:
    generator = np.random.default_rng(n)
    ours = generator.normal(0.3, 0.02, n)
    others = ours + generator.normal(0.01, 0.01, n)
    assert paired_p(others, ours) == pytest.approx(stats.ttest_rel(others, ours).pvalue)


def test_edges_of_the_paired_test() -> None:
    assert paired_p([0.1, 0.2, 0.3], [0.1, 0.2, 0.3]) == 1.0
    assert paired_p([0.25, 0.5, 0.75], [0.0, 0.25, 0.5]) is None
    assert paired_p([0.3, 0.35], [0.2, 0.21]) is None


@given(errors)
def test_p_is_a_probability_and_the_same_from_both_sides(pairs: list[tuple[float, float]]) -> None:
    others, ours = zip(*pairs, strict=True)
    there, back = paired_p(others, ours), paired_p(ours, others)
    assert (there is None) == (back is None)
    if there is not None:
        assert 0.0 <= there <= 1.0
        assert back == pytest.approx(there)


@given(p_values)
def test_holm_is_the_slow_one(p: list[float]) -> None:
    assert holm(p) == pytest.approx(slow_holm(p))


# --- growth of the regret ------------------------------------------------------------------------------------------


@given(st.floats(0.1, 1.5), st.floats(0.01, 100.0))
def test_exact_growth_is_found(exponent: float, level: float) -> None:
    regrets = {T: {seed: level * (1 + seed) * T**exponent for seed in range(3)} for T in (100, 200, 800)}
    assert fitted_exponent(regrets) == (pytest.approx(exponent), pytest.approx(0.0, abs=1e-6))


@pytest.mark.parametrize("regrets", [{}, {100: {0: 1.0}}, {T: {0: 1.0, 1: T, 2: -1.0} for T in (100, 200)}])
def test_fewer_than_three_slopes_are_no_exponent(regrets: dict[int, dict[int, float]]) -> None:
    assert fitted_exponent(regrets) == (None, None)


def test_series_from_rows() -> None:
    series = regret_series(aggregate_rows(regret_rows()).outcomes)
    found = {(one.key.shift, one.contender): one.exponent for one in series}
    assert found == {
        ("fixed path", "OLRE"): pytest.approx(0.5, abs=1e-5),
        ("fixed path", "accous"): pytest.approx(0.4, abs=1e-5),
        ("growing path", "OLRE"): pytest.approx(0.8, abs=1e-5),
        ("growing path", "accous"): pytest.approx(0.7, abs=1e-5),
    }
    assert series[0].lengths == [500, 1000, 2000, 4000]
    assert series[0].means[0] == pytest.approx(1.15 * 500**0.5, rel=1e-5)
