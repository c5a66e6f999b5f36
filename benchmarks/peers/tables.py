"""The comparison as tables for people."""

from __future__ import annotations

from typing import Any

from rich.table import Table


def speed_table(rows: list[dict[str, Any]], shape: str) -> Table:
    """Milliseconds of one update, how many times faster ours is by both clocks, and whether the aim is met."""
    table = Table(title=f"Milliseconds of one ratio update, {shape}; in brackets: times less CPU time")
    for heading in ("method", "peer", "its settings"):
        table.add_column(heading)
    for heading in ("peer", "accous", "times faster", "accous, its settings", "times faster", "accous fit", "aim"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for row in rows:
        table.add_row(
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
        )
    return table


def agreement_table(rows: list[dict[str, Any]]) -> Table:
    """Objective values and constraints at both solutions, for the peer's settings."""
    table = Table(title="The same problem, solved twice (smaller objectives are better)")
    for heading in ("method", "peer", "its settings"):
        table.add_column(heading)
    for heading in ("weights differ", "our objective", "its objective", "ours worse by", "we violate", "it violates"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row["method"],
            f"{row['peer']} {row['peer_version']}",
            row["peer_settings"],
            f"{row['largest_weight_difference']:.1e}",
            f"{row['our_objective']:.8f}",
            f"{row['peer_objective']:.8f}",
            f"{row['worst_relative_excess']:+.1e}",
            f"{row['our_violation']:.0e}",
            f"{row['peer_violation']:.0e}",
        )
    return table


def edge_table(rows: list[dict[str, Any]]) -> Table:
    """What is left of hard cases with default settings."""
    table = Table(title="Hard cases, default settings: lowest to highest over the batches")
    for heading in ("case", "method", "who"):
        table.add_column(heading)
    for heading in ("batches without finite weights", "effective sample size", "mean", "exact zeros"):
        table.add_column(heading, justify="right")
    for row in rows:
        n_bad = row["n_not_finite"] + len(row["errors"])
        table.add_row(
            row["case"],
            row["method"],
            row["who"],
            f"{n_bad} of {row['n_batches']}" if n_bad else "",
            span(row["effective_sample_size"]),
            span(row["mean"]),
            span(row["n_zero"]),
        )
    return table


def span(extremes: list[float] | None) -> str:
    """Lowest to highest, or once where they look the same."""
    texts = dict.fromkeys(f"{value:.3g}" for value in extremes or [])
    return " to ".join(texts)


def milliseconds(seconds: float) -> str:
    """Three significant digits."""
    return f"{1e3 * seconds:.3g}" if seconds < 1.0 else f"{1e3 * seconds:.0f}"
