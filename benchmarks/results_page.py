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
from accous_bench.reporting.document import Block, Bullets, Code, Heading, Paragraph, Picture
from accous_bench.reporting.figures import Figures, draw_figures
from accous_bench.reporting.render_markdown import markdown
from accous_bench.reporting.report import provenance_lines, read_inputs, report_blocks

__all__ = ["results_blocks", "write_page"]

DOCS = Path(__file__).parent.parent / "docs"
_PREFIX = "results-"
_INTRODUCTION = (
    "The paper's experiments on synthetic data, tables and images, run with this package: all contenders on the same "
    "streams, the paper's numbers beside ours. The page is generated from measurements; nothing on it "
    "is written by hand."
)


def write_page(paths: Sequence[Path], docs: Path = DOCS) -> list[Path]:
    """Write the page and its pictures, and remove pictures that the page no longer uses."""
    aggregates = read_inputs(paths)
    figures = draw_figures(aggregates)
    images = docs / "images"
    images.mkdir(parents=True, exist_ok=True)
    for old in images.glob(f"{_PREFIX}*.png"):
        old.unlink()
    written = []
    for name, drawing in figures.drawings.items():
        written.append(images / f"{_PREFIX}{name}.png")
        written[-1].write_bytes(drawing.png)
    page = docs / "results.md"
    page.write_text(markdown(results_blocks(aggregates, figures, paths), figure_folder="images"), encoding="utf-8")
    return [page, *written]


def results_blocks(aggregates: Aggregates, figures: Figures | None, paths: Sequence[Path]) -> list[Block]:
    """Return the commands and then the report's blocks; pictures have the names that the documentation uses."""
    title, _, *rest = report_blocks(aggregates, figures, title="Results")
    opening: list[Block] = [
        title,
        Paragraph(_INTRODUCTION),
        Heading("How it was made", 2),
        Bullets(provenance_lines(aggregates)),
        Code(_commands(aggregates, paths)),
    ]
    return opening + [_in_docs(block) for block in rest]


def _commands(aggregates: Aggregates, paths: Sequence[Path]) -> list[str]:
    specs = aggregates.provenance.get("specs", [])
    runs = [f"accous bench run {spec}" for spec in specs]
    reports = [
        f"accous bench report results/{spec} -o results/{spec}/report   # writes aggregates.json" for spec in specs
    ]
    names = " ".join(f"benchmarks/results/{path.name}" for path in paths)
    return [*runs, *reports, f"python -m benchmarks.results_page {names}"]


def _in_docs(block: Block) -> Block:
    return replace(block, name=_PREFIX + block.name) if isinstance(block, Picture) else block


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(
            "Name one or more files of aggregates: python -m benchmarks.results_page benchmarks/results/table3.json"
        )
    for path in write_page([Path(name) for name in sys.argv[1:]]):
        print(path.relative_to(DOCS.parent))
