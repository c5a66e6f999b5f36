"""The comparison as tables, for the terminal and for docs/peers.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.table import Table

from benchmarks.peers.processes import ROOT

PAGE = ROOT / "docs" / "peers.md"
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
RISKS_BEGIN, RISKS_END = "<!-- bench-peers risks: begin -->", "<!-- bench-peers risks: end -->"


@dataclass(frozen=True, slots=True)
class Grid:
    """A titled table of text."""

    title: str
    headings: tuple[str, ...]
    lines: list[list[str]]

    def rich(self) -> Table:
        """Return the table for the terminal."""
        table = Table(title=self.title)
        for index, heading in enumerate(self.headings):
            table.add_column(heading, justify="left" if index < 3 else "right")
        for line in self.lines:
            table.add_row(*line)
        return table

    def markdown(self) -> str:
        """Return the table for the documentation."""
        lines = [self.headings, ["---"] * len(self.headings), *self.lines]
        return f"{self.title}:\n\n" + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def speed_grid(rows: list[dict[str, Any]], shape: str) -> Grid:
    """Return milliseconds of one update, how many times faster ours is by both clocks, and whether the aim is met."""
    title = f"Milliseconds of one ratio update, {shape} (in brackets: how many times less CPU time)"
    ours = ("accous", "times faster", "accous, its settings", "times faster", "accous fit")
    headings = ("method", "peer", "its settings", "peer", *ours, "aim", "")
    lines = [
        [
            row["method"],
            f"{row['peer']} {row['peer_version']}",
            row["peer_settings"],
            milliseconds(row["peer_seconds"]),
            milliseconds(row["our_seconds"]),
            f"{row['times_faster']:.0f} ({row['times_less_work']:.0f})",
            milliseconds(row["our_seconds_same_settings"]),
            f"{row['times_faster_same_settings']:.0f} ({row['times_less_work_same_settings']:.0f})",
            milliseconds(row["our_seconds_of_fit"]),
            "" if row["aim"] is None else f"{row['aim']:.0f}",
            row["verdict"],
        ]
        for row in rows
    ]
    return Grid(title, headings, lines)


def agreement_grid(rows: list[dict[str, Any]]) -> Grid:
    """Return objective values and constraints at both solutions, for the peer's settings."""
    headings = ("weights differ by", "our objective", "its objective", "ours worse by", "we violate", "it violates")
    lines = [
        [
            row["method"],
            f"{row['peer']} {row['peer_version']}",
            row["peer_settings"],
            f"{row['largest_weight_difference']:.1e}",
            f"{row['our_objective']:.8f}",
            f"{row['peer_objective']:.8f}",
            f"{row['worst_relative_excess']:+.1e}",
            f"{row['our_violation']:.0e}",
            f"{row['peer_violation']:.0e}",
        ]
        for row in rows
    ]
    title = "The same problem, solved twice (smaller objectives are better)"
    return Grid(title, ("method", "peer", "its settings", *headings), lines)


def edge_grid(rows: list[dict[str, Any]]) -> Grid:
    """Return the results on hard cases with default settings."""
    headings = ("batches without finite weights", "effective sample size", "mean", "exact zeros")
    lines = []
    for row in rows:
        n_bad = row["n_not_finite"] + len(row["errors"])
        lines.append(
            [
                row["case"],
                row["method"],
                row["who"],
                f"{n_bad} of {row['n_batches']}" if n_bad else "",
                span(row["effective_sample_size"]),
                span(row["mean"]),
                span(row["n_zero"]),
            ]
        )
    title = "Hard cases with default settings, lowest to highest over the batches"
    return Grid(title, ("case", "method", "who", *headings), lines)


def write_page(grids: list[Grid], begin: str = BEGIN, end: str = END) -> None:
    """Write the tables between their markers in docs/peers.md."""
    before, rest = PAGE.read_text().split(begin)
    tables = "\n".join(grid.markdown() for grid in grids)
    PAGE.write_text(f"{before}{begin}\n\n{tables}\n{end}{rest.split(end)[1]}")


def span(extremes: list[float] | None) -> str:
    """Return lowest to highest, or one value if both look the same."""
    texts = dict.fromkeys(f"{value:.3g}" for value in extremes or [])
    return " to ".join(texts)


def milliseconds(seconds: float) -> str:
    """Return milliseconds with three significant digits."""
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"
