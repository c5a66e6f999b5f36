"""The words beside the tables: they follow the numbers."""

import re
from pathlib import Path

import pytest

from accous.text import count
from accous_bench.reporting.aggregate import aggregate_rows, write_aggregates
from accous_bench.reporting.cells import Panel, make_panels
from accous_bench.reporting.document import Notes
from accous_bench.reporting.findings import overall_findings, panel_findings, power_words
from accous_bench.reporting.paper import PAPER_CONTENDERS, PAPER_RESULTS
from accous_bench.reporting.paper_likeness import UNIT_WIDTH, likeness_words
from accous_bench.reporting.wording import listed, p_value, per_cent, plus_minus, points, seed_list
from benchmarks.results_page import write_page
from tests.bench.reporting.rows import make_row, natural_rows, switch_rows, table_rows


def panels_of(errors: dict[str, dict[str, float]], n_seeds: int = 1) -> list[Panel]:
    """Panels of errors by shift and contender."""
    rows = [
        make_row(name, seed, shift=shift, error=error)
        for shift, cell in errors.items()
        for name, error in cell.items()
        for seed in range(n_seeds)
    ]
    return make_panels(aggregate_rows(rows).outcomes)


HELPED = {"FIX": 0.33, "KMM": 0.36, "Accous": 0.28, "oracle": 0.26}
HURT = {"FIX": 0.20, "KMM": 0.21, "Accous": 0.22, "oracle": 0.20}


def test_where_weighting_helps_and_hurts() -> None:
    (panel,) = panels_of({"Squ": HELPED, "none": HURT})
    text = " ".join(panel_findings(panel))
    assert "lowers the error under Squ (33.0 to 28.0 %); it raises the error under no shift (20.0 to 22.0 %)" in text
    assert "Lowest error: Accous under Squ; FIX under no shift." in text
    assert "7.0 points under Squ (71 %)" in text
    assert "Even the true ratio gains less than 0.1 point under no shift." in text
    assert "Worse than FIX by more than 0.3 points of error on the same rounds: KMM under all shifts." in text


def test_words_turn_with_the_numbers() -> None:
    (panel,) = panels_of({"Squ": HELPED | {"Accous": 0.34}})
    text = " ".join(panel_findings(panel))
    assert "raises the error under Squ (33.0 to 34.0 %)" in text
    assert "lowers" not in text


def test_a_sentence_uses_all_seeds_of_those_it_names_and_says_which() -> None:
    # Most contenders have seed 0, in which the true ratio gains nothing; three seeds together gain a point.
    gains = {0: 0.0, 1: 0.015, 2: 0.015}
    rows = [make_row(name, 0, error=0.25) for name in ("KMM", "KLIEP", "uLSIF", "LR")]
    rows += [make_row("FIX", seed, error=0.20) for seed in gains]
    rows += [make_row(name, seed, error=0.20 - gain) for name in ("Accous", "oracle") for seed, gain in gains.items()]
    (panel,) = make_panels(aggregate_rows(rows).outcomes)
    text = " ".join(panel_findings(panel))
    assert "1.0 points under Squ (100 %) (seeds 0, 1 and 2)." in text
    assert "Even the true ratio" not in text
    assert "lowers the error under Squ (20.0 to 19.0 %) (seeds 0, 1 and 2)." in text
    assert "gains 1.0 points on average in the 1 cell" in " ".join(overall_findings([panel]))


def test_distance_to_the_paper() -> None:
    # The paper has 33.19, 35.50 and 29.30.
    (panel,) = panels_of({"Squ": HELPED})
    assert "the paper's 3 numbers is 0.7 points" in " ".join(panel_findings(panel))


def test_contenders_of_unit_width_are_compared_with_the_paper_in_a_sentence_of_their_own() -> None:
    paper = {name: PAPER_RESULTS["gaussian", "Squ", 1, name].mean / 100.0 for name in PAPER_CONTENDERS}
    upside_down = {name: 0.7 - error for name, error in paper.items()}
    stand_ins = {unit: paper[name] + 0.01 for name, unit in UNIT_WIDTH.items()}
    (panel,) = panels_of({"Squ": upside_down | stand_ins | {n: paper[n] for n in ("FIX", "DANN", "OLRE", "Accous")}})
    text = likeness_words(panel)
    assert "KMM, KLIEP, uLSIF, LR are 1.0 points from the paper's numbers instead of " in text
    assert "and the rank correlation without DANN is 1.00 instead of " in text
    (panel,) = panels_of({"Squ": stand_ins | {"FIX": 0.33}})  # nothing to compare them with
    assert "unit width" not in likeness_words(panel)
    some = {name: error for name, error in stand_ins.items() if name != "KMM (unit width)"}
    (panel,) = panels_of({"Squ": paper | some})
    assert "unit width" not in likeness_words(panel)
    assert "distance to the paper's 8 numbers is 0.0 points" in likeness_words(panel)


def test_the_method_as_published_is_compared_with_the_paper() -> None:
    # 29.3 is the paper's number.
    (panel,) = panels_of({"Squ": {"Accous": 0.2, "Accous (ensemble only)": 0.283}})
    assert "the paper's 1 number is 1.0 points" in " ".join(panel_findings(panel))


def test_errors_that_are_not_the_risk_are_named() -> None:
    def rows(protocol: str) -> list:
        alike = [make_row(name, seed, error=0.3, risk=0.302) for name in ("FIX", "Accous") for seed in (0, 1)]
        unlike = [make_row("LR", seed, error=0.27, risk=0.30) for seed in (0, 1)]
        return [row | {"protocol": protocol} for row in (*alike, *unlike)]

    (usual,) = make_panels(aggregate_rows(rows("predict_first")).outcomes)
    assert not any("differs from the exact risk" in sentence for sentence in panel_findings(usual))
    (panel,) = make_panels(aggregate_rows(rows("batch_first")).outcomes)
    (sentence,) = [sentence for sentence in panel_findings(panel) if "differs from the exact risk" in sentence]
    assert "On average over the shifts" in sentence
    assert "for LR (−3.00 points)." in sentence
    assert "Accous" not in sentence


def test_overall() -> None:
    text = " ".join(overall_findings(panels_of({"Squ": HELPED, "none": HURT})))
    assert "by more than 0.3 points in 1 of 2 cells and raises it by more than that in 1" in text
    assert "mean gain is +1.50 points, from −2.00 to +5.00" in text
    assert "It hurts in: Gaussians (reconstructed), 1,000 reference rows, N_t = 1, no shift (by 2.00 points)." in text
    assert "gains 7.0 points on average in the 1 cell" in text
    assert "Accous gets 71 % of that" in text
    assert "In 1 cell, even the oracle gains less than that." in text
    assert "nobody knows" not in text


def test_cells_without_an_oracle_are_counted_too() -> None:
    without = {name: error for name, error in HURT.items() if name != "oracle"}
    text = " ".join(overall_findings(panels_of({"Squ": HELPED, "none": without})))
    assert "in the 1 cell where" in text
    assert "In 1 cell, nobody knows the true ratio: there is no oracle." in text


def test_nothing_to_say_without_ours() -> None:
    assert overall_findings(panels_of({"Squ": {"FIX": 0.3, "LR": 0.2}})) == []


def test_power_is_that_of_the_usual_number_of_seeds() -> None:
    rows = [row for row in table_rows(batch_sizes=(1,)) if row["contender"] != "DANN" or row["seed"] < 2]
    (panel,) = make_panels(aggregate_rows(rows).outcomes)
    words = power_words(panel)
    assert "With n = 5 seeds, a single test finds a difference of 1.7" in words
    assert "four times in five" in words


def test_significant_differences_are_counted() -> None:
    (panel,) = make_panels(aggregate_rows(table_rows(batch_sizes=(1,))).outcomes)
    assert (
        "Of 28 tested differences from Accous, 28 are significant after the correction: 28 in its favour"
        in " ".join(panel_findings(panel))
    )


def test_results_page_is_written_with_every_picture_it_shows(tmp_path: Path) -> None:
    """With rows of one kind; the test below has all kinds."""
    write_aggregates(aggregate_rows(table_rows(n_seeds=2, shifts=("Squ",), batch_sizes=(1,))), tmp_path / "all.json")
    page, *pictures = write_page([tmp_path / "all.json"], tmp_path / "docs")
    text = page.read_text(encoding="utf-8")
    shown = set(re.findall(r"!\[[^\]]*\]\((images/[^)]+)\)", text))
    assert shown == {f"images/{picture.name}" for picture in pictures}
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table
    assert "$ accous bench run table3" in text


@pytest.mark.slow
def test_results_page_has_its_pictures_and_commands(tmp_path: Path) -> None:
    rows = [*table_rows(n_seeds=2, shifts=("Squ",), batch_sizes=(1,)), *switch_rows(), *natural_rows()]
    write_aggregates(aggregate_rows(rows), tmp_path / "all.json")
    docs = tmp_path / "docs"
    (docs / "images").mkdir(parents=True)
    (docs / "images" / "results-old.png").write_bytes(b"")
    (docs / "images" / "demo.png").write_bytes(b"")
    page, *pictures = write_page([tmp_path / "all.json"], docs)
    text = page.read_text()
    assert {path.name for path in (docs / "images").iterdir()} == {"demo.png", *(path.name for path in pictures)}
    assert all(f"(images/{picture.name})" in text for picture in pictures)
    assert "$ accous bench run table3" in text
    assert "([protocols](protocols.md))" in text
    assert "Machine: x86_64, 2 cores." in text
    assert "Run on 2026-01-02." in text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (per_cent(0.27714), "27.71"),
        (per_cent(None), "–"),
        (plus_minus(0.2771, 0.0049), "27.71 ± 0.49"),
        (plus_minus(0.2771, None), "27.71"),
        (points(-0.0123), "−1.23"),
        (points(0.0123), "+1.23"),
        (points(-0.00001), "0.00"),
        (p_value(0.0004), "p < 0.001"),
        (p_value(0.04999), "p = 0.050"),
        (p_value(None), "–"),
        (count(1, "seed"), "1 seed"),
        (count(1200, "seed"), "1,200 seeds"),
        (listed(["a"]), "a"),
        (listed(["a", "b", "c"]), "a, b and c"),
        (seed_list(list(range(8))), "0, 1, 2, 3, 4 and 3 more"),
    ],
)
def test_wording(found: str, expected: str) -> None:
    assert found == expected


def test_footnotes_with_the_same_words_share_a_mark() -> None:
    notes = Notes()
    assert notes.marks(["x", "y", "x"]) == ("a", "b", "a")
    assert notes.all() == [("a", "x"), ("b", "y")]
    assert [notes.mark(str(number)) for number in range(26)][-2:] == ["aa", "ab"]
