"""Contenders that played a sample of the rounds: compared by the exact risk, or not at all."""

from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from accous_bench.reporting.aggregate import aggregate_rows
from accous_bench.reporting.cells import Panel, make_panels
from accous_bench.reporting.comparison import against_ours, tally
from accous_bench.reporting.findings import panel_findings
from accous_bench.reporting.lowest import best_contenders, lowest_words
from accous_bench.reporting.tables_of_tests import difference_table, tally_table
from tests.bench.reporting.rows import make_row, report_on

SAMPLE = {"n_played": 10_000, "n_predicted": 400}


def one_panel(rows: list[dict[str, Any]]) -> Panel:
    (panel,) = make_panels(aggregate_rows(rows).outcomes)
    return panel


def cell_rows(risk_of_lr: float | None, n_seeds: int = 4, **changes: Any) -> list[dict[str, Any]]:
    """By the error over its few rounds, LR is the best; by the risk, Accous is."""
    rows = []
    for seed in range(n_seeds):
        noise = 0.001 * seed**2
        rows += [make_row("FIX", seed, error=0.33, risk=0.33 + noise, **changes)]
        rows += [make_row("Accous", seed, error=0.28 + noise, risk=0.28, **changes)]
        rows += [make_row("LR", seed, error=0.25 + 2 * noise, risk=risk_of_lr, **SAMPLE, **changes)]
    return rows


def findings(panel: Panel) -> str:
    return " ".join(panel_findings(panel))


# --- who is lowest -----------------------------------------------------------------------------------------------


def test_the_lowest_is_by_the_exact_risk_if_all_have_one() -> None:
    text = lowest_words(one_panel(cell_rows(risk_of_lr=0.29)))
    assert text == "Lowest exact risk: Accous under Squ."


def test_without_a_risk_of_all_the_lowest_played_all_rounds() -> None:
    panel = one_panel(cell_rows(risk_of_lr=None))
    assert lowest_words(panel) == (
        "Lowest error of those that played all rounds (the exact risk is not known for all): Accous under Squ. "
        "Lower, but over a sample of the rounds: LR under Squ."
    )


def test_a_risk_of_some_seeds_only_does_not_decide() -> None:
    rows = cell_rows(risk_of_lr=0.29)
    rows[-1]["risk"] = None
    assert lowest_words(one_panel(rows)).startswith("Lowest error of those that played all rounds")


def test_a_sample_of_the_rounds_is_never_bold(tmp_path: Path) -> None:
    rows = cell_rows(risk_of_lr=0.29)
    assert best_contenders(one_panel(rows).cells["Squ"]) == ["Accous"]
    (line,) = [line for line in report_on(tmp_path, rows).splitlines() if line.startswith("| LR | 25.")]
    assert "**" not in line


def test_shifts_with_and_without_a_risk_have_a_sentence_each() -> None:
    rows = [*cell_rows(risk_of_lr=0.27, shift="Lin"), *cell_rows(risk_of_lr=None, shift="Ber")]
    text = lowest_words(one_panel(rows))
    assert text.startswith("Lowest exact risk: LR under Lin. Lowest error of those that played all rounds")
    assert "Accous under Ber. Lower, but over a sample of the rounds: LR under Ber." in text


def test_contenders_that_share_a_place_are_named_together() -> None:
    rows = [make_row(name, 0, error=0.2, shift=shift) for name in ("FIX", "Accous") for shift in ("Lin", "Ber")]
    assert lowest_words(one_panel(rows)) == "Lowest error: FIX and Accous under all shifts."


def test_where_a_batch_is_learned_first_the_error_decides() -> None:
    # The risk is of rows that nobody has seen, while batch_first asks about rows that were learned from.
    rows = [make_row(n, 0, error=e, risk=1 - e, protocol="batch_first") for n, e in (("FIX", 0.4), ("Accous", 0.3))]
    assert lowest_words(one_panel(rows)) == "Lowest error: Accous under Squ."


# --- worse than FIX ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("risk", "is_worse"), [(0.32, False), (0.34, True)])
def test_worse_than_fix_is_by_the_risk_of_both(risk: float, is_worse: bool) -> None:
    error = 0.32 if is_worse else 0.40
    rows = [make_row("FIX", 0, error=0.33, risk=0.33), make_row("KLIEP", 0, error=error, risk=risk, **SAMPLE)]
    assert ("Worse than FIX by more than 0.3 points of exact risk: KLIEP" in findings(one_panel(rows))) == is_worse


def test_errors_over_other_rounds_are_not_compared_with_fix() -> None:
    rows = [make_row("FIX", 0, error=0.33), make_row("KLIEP", 0, error=0.4, **SAMPLE), make_row("OLRE", 0, error=0.4)]
    text = findings(one_panel(rows))
    assert "Worse than FIX by more than 0.3 points of error on the same rounds: OLRE under Squ." in text
    assert "Without an exact risk and on other rounds than FIX, so not compared: KLIEP under Squ." in text


# --- tests against Accous ----------------------------------------------------------------------------------------


def test_a_sample_of_the_rounds_is_tested_by_the_exact_risk() -> None:
    rows = cell_rows(risk_of_lr=0.29)
    for row in rows:
        row["risk"] += 0.001 * (row["seed"] % 3) * (row["contender"] == "LR")
    panel = one_panel(rows)
    found = against_ours(panel)["LR", "Squ"]
    risks = [panel.cells["Squ"].entries[name].values("risk") for name in ("LR", "Accous")]
    assert found.test.p == pytest.approx(stats.ttest_rel(*risks).pvalue)
    assert (found.measure, found.test.difference > 0) == ("risk", True)
    table = difference_table(panel)
    assert table is not None
    assert table.caption.startswith("Exact risk minus that of Accous, in points (positive: Accous has the lower risk)")
    assert table.notes == []


def test_errors_over_other_rounds_have_no_p() -> None:
    panel = one_panel(cell_rows(risk_of_lr=None))
    found = against_ours(panel)
    assert found["LR", "Squ"].test.p is None
    assert found["LR", "Squ"].adjusted_p is None
    assert found["FIX", "Squ"].adjusted_p == found["FIX", "Squ"].test.p  # the only test of the table
    table = difference_table(panel)
    assert table is not None
    assert [note for _, note in table.notes] == [
        "By errors over different rounds, since an exact risk is not known: not tested."
    ]
    assert "for the 1 comparison of this table" in table.caption
    assert "Of 1 tested difference from Accous" in findings(panel)


def test_two_samples_of_the_same_rounds_are_pairs() -> None:
    rows = [make_row("LR", seed, error=0.3 + 0.01 * seed**2, **SAMPLE) for seed in range(3)]
    rows += [make_row("Accous", seed, error=0.28, **SAMPLE) for seed in range(3)]
    assert against_ours(one_panel(rows))["LR", "Squ"].test.p is not None


def test_a_contender_without_risk_is_tested_by_its_error_and_marked() -> None:
    rows = cell_rows(risk_of_lr=0.29)
    rows += [make_row("OLRE", seed, error=0.3 + 0.001 * seed) for seed in range(4)]
    panel = one_panel(rows)
    assert against_ours(panel)["OLRE", "Squ"].adjusted_p is not None
    table = difference_table(panel)
    assert table is not None
    assert [note for _, note in table.notes] == ["By the error, in the same rounds, since an exact risk is not known."]


def test_the_tally_tests_no_errors_over_other_rounds() -> None:
    tallies = {one.contender: one for one in tally([one_panel(cell_rows(risk_of_lr=None))])}
    assert tallies["LR"].losses == 1
    assert tallies["LR"].pooled is not None
    assert tallies["LR"].pooled.adjusted_p is None
    assert tallies["FIX"].pooled is not None
    assert tallies["FIX"].pooled.adjusted_p is not None
    (note,) = [note for _, note in tally_table(list(tallies.values())).notes]
    assert "Played fewer rounds than Accous in some of these cells" in note


# --- captions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_seeds", "words"),
    [(1, "; one seed cannot be tested."), (2, "; two seeds are too few for a test."), (4, "paired t-test over n")],
)
def test_captions_announce_a_test_only_where_there_is_one(n_seeds: int, words: str) -> None:
    panel = one_panel(cell_rows(risk_of_lr=0.29, n_seeds=n_seeds))
    table = difference_table(panel)
    assert table is not None
    captions = [table.caption, tally_table(tally([panel])).caption, tally_table(tally([panel], "risk"), "risk").caption]
    for caption in captions:
        assert words in caption
        assert ("t-test" in caption) == (n_seeds > 2)
        assert ("one seed" in caption) == (n_seeds == 1)


def test_captions_say_why_nothing_is_tested() -> None:
    sampled = [row for row in cell_rows(risk_of_lr=None) if row["contender"] != "FIX"]
    equal = [make_row(name, seed, error=e) for name, e in (("FIX", 0.3), ("Accous", 0.2)) for seed in range(3)]
    for rows, reason in (
        (sampled, "errors over different rounds are not tested"),
        (equal, "differences that are the same for all seeds cannot be tested"),
    ):
        table = difference_table(one_panel(rows))
        assert table is not None
        assert table.caption.endswith(f"; {reason}.")
