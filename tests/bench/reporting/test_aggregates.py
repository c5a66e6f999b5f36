"""Aggregates of rows: what survives a file, what a later run replaces, protocols side by side, and wins."""

from pathlib import Path

import pytest

from accous_bench.reporting.aggregate import aggregate_rows, merge, read_aggregates, write_aggregates
from accous_bench.reporting.cells import make_panels
from accous_bench.reporting.figures import draw_figures
from accous_bench.reporting.wins import paper_wins
from tests.bench.reporting.rows import (
    make_failure,
    make_row,
    natural_rows,
    report_on,
    switch_rows,
    table_rows,
)


def test_aggregates_survive_a_file(tmp_path: Path) -> None:
    rows = [*table_rows(n_seeds=3), *switch_rows(), *natural_rows(), make_failure("LR", 7, "it broke", shift="Lin")]
    before = aggregate_rows(rows)
    write_aggregates(before, tmp_path / "a.json")
    after = read_aggregates(tmp_path / "a.json")

    def by_run(outcomes: list) -> dict:
        return {(one.key, one.contender, one.seed, one.n_rounds): one for one in outcomes}

    there, back = by_run(before.outcomes), by_run(after.outcomes)
    assert there.keys() == back.keys()
    for place, outcome in there.items():
        assert back[place].error == (None if outcome.error is None else pytest.approx(outcome.error, abs=1e-6))
        assert back[place].reason == outcome.reason
        assert back[place].n_played == outcome.n_played
    assert after.curves == before.curves
    assert after.weight_maps == before.weight_maps
    assert after.provenance == before.provenance


def test_runs_with_other_settings_are_superseded_and_the_report_says_so(tmp_path: Path) -> None:
    late = {"run": "other settings", "error": 0.1, "finished": "2026-01-03T00:00:00+00:00"}
    text = report_on(tmp_path, [make_row("Accous", 0, **late), make_row("Accous", 0), make_row("FIX", 0)])
    assert "| Accous | **10.00** |" in text
    assert "Left out: 1 run that a later run" in text


def test_provenance_names_what_the_numbers_come_from() -> None:
    rows = [make_row("LR", 0), make_row("LR", 1, commit="def", finished="2026-02-01T00:00:00+00:00")]
    origin = merge([aggregate_rows(rows[:1]), aggregate_rows(rows[1:])]).provenance
    assert origin["commits"] == ["abc1234", "def"]
    assert (origin["first"][:10], origin["last"][:10]) == ("2026-01-02", "2026-02-01")
    assert origin["settings"] == {"LR": ["Model, C=1.0"]}
    assert origin["versions"]["numpy"] == ["2.0"]


def test_protocols_stand_side_by_side_and_only_the_first_has_its_own_tables(tmp_path: Path) -> None:
    rows = [
        make_row(name, 0, protocol=protocol, error=error)
        for protocol, errors in (("predict_first", (0.33, 0.35)), ("batch_first", (0.33, 0.29)))
        for name, error in zip(("FIX", "LR"), errors, strict=True)
    ]
    text = report_on(tmp_path, rows)
    assert text.count("## Gaussians (reconstructed), N_t = 1") == 1
    assert "## The protocols side by side" in text
    assert "| LR | 35.00 | 29.00 |" in text


def test_protocols_are_compared_by_the_exact_risk_where_it_is_known(tmp_path: Path) -> None:
    scores = {  # errors and risks of FIX and LR; the drawn rows of fresh_rows are others
        "predict_first": ((0.3245, 0.326), (0.31, 0.312)),
        "fresh_rows": ((0.3356, 0.326), (0.33, 0.309)),
        "batch_first": ((0.3245, 0.326), (0.27, 0.309)),
    }
    rows = [
        make_row(name, 0, protocol=protocol, error=error, risk=risk)
        for protocol, pairs in scores.items()
        for name, (error, risk) in zip(("FIX", "LR"), pairs, strict=True)
    ]
    by_risk, by_error = report_on(tmp_path, rows).partition("## The protocols side by side")[2].split("*Gaussians")[1:]
    assert "| contender | Squ before the batch | Squ after it |" in by_risk
    assert "| FIX | 32.60 | 32.60 |" in by_risk
    assert "| LR | 31.20 | 30.90 |" in by_risk
    assert "| contender | Squ predict first | Squ batch first |" in by_error
    assert "| FIX | 32.45 | 32.45 |" in by_error
    assert "| LR | 31.00 | 27.00 |" in by_error
    assert "33.56" not in by_risk + by_error


def test_runs_from_before_there_were_protocols_are_marked(tmp_path: Path) -> None:
    rows = [make_row(name, 0) for name in ("FIX", "LR")]
    for row in rows:
        del row["protocol"]
    assert "before there were protocols: DANN, KMM, KLIEP, uLSIF, LR and the oracle learn first" in report_on(
        tmp_path, rows
    )


def test_a_contender_that_played_a_sample_of_the_rounds_is_marked(tmp_path: Path) -> None:
    rows = [make_row("FIX", 0), make_row("LR", 0, n_played=10_000, n_predicted=2000, cpu_seconds=4.0)]
    text = report_on(tmp_path, rows)
    assert "Played in 2,000 of the rounds, drawn at random" in text
    assert "10,000 rounds; ms" in text


def test_shares_of_the_limit_come_first(tmp_path: Path) -> None:
    risks = {"FIX": 0.40, "Accous": 0.32, "limit": 0.30, "oracle": 0.25}
    text = report_on(tmp_path, [make_row(name, 0, risk=risk) for name, risk in risks.items()], has_figures=True)
    assert "between FIX and the limit that is closed, then of that between FIX and the oracle" in text
    assert "| Accous | 32.00 (80, 53) |" in text
    assert "30.00 (100, 67)" in text


@pytest.mark.slow
def test_wins_in_the_papers_cells(tmp_path: Path) -> None:
    text = report_on(tmp_path, [*table_rows(n_seeds=2), *(make_row("Accous (ensemble only)", s) for s in (0, 1))])
    assert "each of its contenders has the lowest error (1 of them were run" in text
    assert "| OLRE | 2 | 0 | 0 |" in text
    assert "| Accous | 22 | 1 | 8 |" in text


def test_a_contender_that_never_ran_has_a_dash_instead_of_no_wins(tmp_path: Path) -> None:
    names = ("FIX", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "Accous")
    text = report_on(tmp_path, table_rows(n_seeds=1, contenders=names))
    assert "| DANN | 0 | \N{EN DASH} |" in text
    assert "| KMM | 0 | 0 |" in text


@pytest.mark.parametrize(("n_tuned", "winner"), [(3, "OLRE"), (6, "LR")])
def test_a_variant_counts_if_as_many_contenders_ran_it(tmp_path: Path, n_tuned: int, winner: str) -> None:
    names = ("FIX", "KMM", "KLIEP", "LR", "OLRE", "Accous")
    place = {"shift": "Squ", "batch_size": 5, "n_reference": 2000}
    rows = [make_row(n, 0, dataset="mnist_svhn", error=0.2 - 0.1 * (n == "OLRE"), **place) for n in names]
    tuned = [make_row(n, 0, dataset="mnist_svhn_tuned", error=0.2 - 0.1 * (n == "LR"), **place) for n in names]
    (wins,) = paper_wins(make_panels(aggregate_rows([*rows, *tuned[-n_tuned:]]).outcomes))
    assert [name for name, n_wins in wins.ours.items() if n_wins] == [winner]


@pytest.mark.parametrize(("without_risk", "winner"), [(None, "OLRE"), ("KMM", "LR")])
def test_wins_are_by_the_exact_risk_if_all_have_one(without_risk: str | None, winner: str) -> None:
    names = ("FIX", "KMM", "KLIEP", "LR", "OLRE", "Accous")
    place = {"shift": "Squ", "batch_size": 5, "n_reference": 2000, "dataset": "mnist_svhn"}
    rows = [
        make_row(n, 0, error=0.2 - 0.1 * (n == "LR"), **place)
        | {"risk": None if n == without_risk else 0.2 - 0.1 * (n == "OLRE")}
        for n in names
    ]
    (wins,) = paper_wins(make_panels(aggregate_rows(rows).outcomes))
    assert [name for name, n_wins in wins.ours.items() if n_wins] == [winner]


def test_only_weights_of_periods_that_an_interval_can_match_are_drawn() -> None:
    rows = [
        *switch_rows(period=50),
        *(row | {"shift": "Squ64", "run": row["run"] + "64"} for row in switch_rows(period=64)),
    ]
    names = [picture.name for picture in draw_figures(aggregate_rows(rows)).learners]
    assert [name for name in names if "weights" in name and "squ64" in name]
    assert not [name for name in names if "weights" in name and "squ64" not in name]


@pytest.mark.parametrize("has_portraits", [False, True])
def test_the_figure_of_drift_says_that_it_is_not_the_papers(has_portraits: bool) -> None:
    portraits = {"dataset": "yearbook"} if has_portraits else {}
    rows = [row | portraits for row in natural_rows() if row["dataset"] == "gas_sensor"]
    (picture,) = draw_figures(aggregate_rows(rows)).drift
    assert ("not on images" in picture.caption) != has_portraits
