"""Write the speed measurements as a table and a picture for ``docs/performance.md``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["BEGIN", "END", "speed_markdown", "write_page"]

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"

Row = dict[str, float]


def write_page(rows: list[Row], ages: list[Row]) -> Path:
    """Replace the table between the markers of the page, and the picture."""
    page = DOCS / "performance.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n\n{speed_markdown(rows, ages)}\n{END}{after}")
    draw(rows, ages, DOCS / "images" / "speed.png")
    return page.relative_to(DOCS.parent)


def speed_markdown(rows: list[Row], ages: list[Row]) -> str:
    """Return one table of all rounds and one of the rounds late in a stream."""
    headings = ["reference", "features", "batch", "classes", "rounds/s", "ms", "times bare arithmetic"]
    headings += ["times faster than the loop"]
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    for row in rows:
        seconds = row["adapt_seconds"]
        sizes = " | ".join(f"{row[name]:,}" for name in ("n_reference", "n_features", "batch_size", "n_classes"))
        faster = f"{row['plain_loop_seconds'] / seconds:.0f}" if "plain_loop_seconds" in row else ""
        quotient = f"{seconds / row['bare_seconds']:.2f}"
        lines.append(f"| {sizes} | {1 / seconds:,.0f} | {1e3 * seconds:.3g} | {quotient} | {faster} |")
    lines += ["", "| round t | learners | microseconds | times that of round 10,000 |", "|---|---|---|---|"]
    base = next(age["adapt_seconds"] for age in ages if age["round"] == 10_000)
    for age in ages:
        seconds = age["adapt_seconds"]
        lines.append(f"| {age['round']:,} | {age['n_learners']} | {1e6 * seconds:.0f} | {seconds / base:.2f} |")
    return "\n".join(lines) + "\n"


def draw(rows: list[Row], ages: list[Row], path: Path) -> None:
    """Draw the time of a round against the reference's size, the number of features and the age of the stream."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    _draw_curve(
        axes[0], [row for row in rows if row["n_features"] == 12], "n_reference", "reference rows (12 features)"
    )
    _draw_curve(axes[1], [row for row in rows if row["n_reference"] == 1000], "n_features", "features (1,000 rows)")
    axes[2].plot([age["round"] for age in ages], [1e3 * age["adapt_seconds"] for age in ages], "o-", label="adapt")
    largest = 1.3e3 * max(age["adapt_seconds"] for age in ages)
    axes[2].set(xscale="log", xlabel="round t (1,000 rows, 12 features)", ylim=(0, largest))
    axes[0].set_ylabel("milliseconds a round")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_curve(axis: Any, rows: list[Row], size: str, label: str) -> None:
    """Draw one point per size, for two classes and the smallest batch that all sizes have."""
    two_classes = [row for row in rows if row["n_classes"] == 2]
    chosen = {row[size]: row for row in sorted(two_classes, key=lambda row: -row["batch_size"])}
    sizes = sorted(chosen)
    for name, style in (("adapt", "o-"), ("bare", "s--"), ("plain_loop", "^:")):
        known = [s for s in sizes if f"{name}_seconds" in chosen[s]]
        label_of_line = {"adapt": "adapt", "bare": "bare arithmetic", "plain_loop": "plain loop"}[name]
        axis.plot(known, [1e3 * chosen[s][f"{name}_seconds"] for s in known], style, label=label_of_line)
    axis.set(xscale="log", yscale="log", xlabel=label)
