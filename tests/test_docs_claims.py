"""Sentences of the pages that repeat a measured figure agree with the table that measures it."""

from tests.docs_pages import ROOT


def section(title: str) -> str:
    """Return a section of docs/trust.md, without its subsections."""
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    return page.partition(f" {title}\n")[2].partition("\n#")[0]


def test_the_backtest_says_of_intervals_for_sampling_alone_what_was_measured() -> None:
    lines = section("Coverage of the interval for sampling alone").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| shift |"))
    table = lines[start : lines.index("", start)]
    covered = [float(line.split("|")[3].split()[0]) for line in table[2:]]
    assert len(covered) >= 8
    claim = " ".join(section("Backtest").split())
    assert f"in {min(covered):.0f} to {max(covered):.0f} % of the cases" in claim
    assert "hold on simulated streams" not in claim
