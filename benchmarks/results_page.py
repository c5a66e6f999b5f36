"""Write ``docs/results.md`` and its pictures from committed aggregates.

Run it as ``python -m benchmarks.results_page benchmarks/results/table3.json ...``. Every sentence and number on the
page is computed from these files.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from accous_bench.reporting.aggregate import Aggregates
from accous_bench.reporting.cells import make_panels, split_regret
from accous_bench.reporting.document import Block, Bullets, Code, Heading, Paragraph, Picture
from accous_bench.reporting.figures import Figures, draw_figures
from accous_bench.reporting.outcomes import Outcome
from accous_bench.reporting.render_markdown import markdown
from accous_bench.reporting.report import provenance_lines, read_inputs, report_blocks
from benchmarks.missing_runs import missing_lines
from benchmarks.readings_page import readings_blocks
from benchmarks.run_commands import run_commands
from benchmarks.theory_page import theory_blocks
from benchmarks.unmatched import unmatched_blocks

__all__ = ["results_blocks", "write_page"]

DOCS = Path(__file__).parent.parent / "docs"
RECORDS = Path(__file__).parent / "results"
SUMMARY = Path(__file__).parent / "results_summary.txt"
"""Written by hand, one bullet a line: the summary, the figures behind it, and remarks on how it was made."""
_PREFIX = "results-"
_CURVES = "figures"
_INTRODUCTION = (
    "The paper's experiments on synthetic data, tables and images, run with this package: all contenders on the same "
    "streams and under the same protocol (protocols.md), the paper's numbers beside ours. The page is generated from "
    "measurements; only the sentences of the first two sections are written by hand, from the tables below."
)
_NAMES = (
    "FIX is fitted once and never adapts. LR, KMM, KLIEP and uLSIF estimate the ratio from the latest batch alone, "
    "OLRE from all batches with one online learner; DANN trains a network whose features hide which population a "
    "row is from. The oracle knows the true ratio. N_t is the number of rows in a batch. Lin, Squ, Sin and Ber are "
    "the shifts: the mixture of the populations moves on a line, jumps with a period, follows a sine, or jumps at "
    "random."
)


def write_page(paths: Sequence[Path], docs: Path = DOCS) -> list[Path]:
    """Write the page and its pictures, and remove pictures that the page no longer uses."""
    aggregates = _read(paths)
    figures = draw_figures(aggregates)
    theory, drawings = theory_blocks(RECORDS / "theory.json")
    figures.drawings.update(drawings)
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob(f"{_PREFIX}*.png"):
        old.unlink()
    written = []
    for name, drawing in figures.drawings.items():
        written.append(images / f"{_PREFIX}{name}.png")
        written[-1].write_bytes(drawing.png)
    page = docs / "results.md"
    blocks = results_blocks(aggregates, figures, paths)
    blocks += [_in_docs(block) for block in (*theory, *readings_blocks(RECORDS / "readings.json"))]
    text = markdown(blocks, figure_folder="images")
    # A report knows no links, because most of its forms stand alone.
    page.write_text(text.replace("(protocols.md)", "([protocols](protocols.md))", 1), encoding="utf-8")
    return [page, *written]


def _read(paths: Sequence[Path]) -> Aggregates:
    """Read all files; the runs of the spec figures give curves, but no numbers of tables.

    They are on the same streams as those of table3, but scored in every round.
    """
    everything = read_inputs(paths)
    for_tables = [path for path in paths if path.stem != _CURVES]
    return replace(everything, outcomes=read_inputs(for_tables).outcomes) if for_tables else everything


def results_blocks(aggregates: Aggregates, figures: Figures | None, paths: Sequence[Path]) -> list[Block]:
    """Return the commands and then the report's blocks; pictures have the names that the documentation uses."""
    summary, figures_behind, remarks = _hand_written()
    title, _, *rest = report_blocks(aggregates, figures, title="Results")
    opening: list[Block] = [
        title,
        Paragraph(_INTRODUCTION),
        Paragraph(_NAMES),
        *_section("In five sentences", summary),
        *_section("The figures behind them", figures_behind),
        Heading("How it was made", 2),
        Bullets([*provenance_lines(aggregates), *remarks, *missing_lines(*_runs_and_specs(aggregates, paths))]),
        Code(_commands(aggregates, paths)),
    ]
    for_tables, _ = split_regret(aggregates.outcomes)
    return opening + unmatched_blocks(make_panels(for_tables)) + [_in_docs(block) for block in rest]


def _section(title: str, sentences: list[str]) -> list[Block]:
    return [Heading(title, 2), Bullets(sentences)] if sentences else []


def _hand_written() -> tuple[list[str], list[str], list[str]]:
    text = SUMMARY.read_text(encoding="utf-8") if SUMMARY.is_file() else "\n\n\n\n"
    summary, figures_behind, remarks = (part.splitlines() for part in text.split("\n\n"))
    return summary, figures_behind, remarks


def _commands(aggregates: Aggregates, paths: Sequence[Path]) -> list[str]:
    outcomes, specs = _runs_and_specs(aggregates, paths)
    reports = [
        line
        for spec in specs
        for line in (
            f"accous bench report results/{spec} -o results/{spec}/report",
            f"cp results/{spec}/report/aggregates.json benchmarks/results/{spec}.json",
        )
    ]
    names = " ".join(f"benchmarks/results/{path.name}" for path in paths)
    return [*run_commands(outcomes), *reports, f"python -m benchmarks.results_page {names}"]


def _runs_and_specs(aggregates: Aggregates, paths: Sequence[Path]) -> tuple[list[Outcome], list[str]]:
    """Return all runs, those of the spec figures included, and the specs they come from."""
    runs = [outcome for path in paths for outcome in read_inputs([path]).outcomes]
    return runs, aggregates.provenance.get("specs", [])


def _in_docs(block: Block) -> Block:
    return replace(block, name=_PREFIX + block.name) if isinstance(block, Picture) else block


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(
            "Name one or more files of aggregates: python -m benchmarks.results_page benchmarks/results/table3.json"
        )
    for path in write_page([Path(name) for name in sys.argv[1:]]):
        print(path.relative_to(DOCS.parent))
