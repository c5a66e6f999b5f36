"""The report of a benchmark: from rows or aggregates to Markdown, LaTeX, HTML, figures and new aggregates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import count
from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.aggregate import Aggregates, aggregate_rows, merge, read_aggregates, write_aggregates
from accous_bench.reporting.cells import LIMIT, OURS, Panel, make_panels, split_regret
from accous_bench.reporting.comparison import tally
from accous_bench.reporting.document import Block, Bullets, Heading, Paragraph, Picture
from accous_bench.reporting.figures import Figures, draw_figures
from accous_bench.reporting.findings import overall_findings, panel_findings, regret_findings
from accous_bench.reporting.outcomes import MIXED_PROTOCOL
from accous_bench.reporting.protocol_table import protocol_tables
from accous_bench.reporting.regret import regret_series
from accous_bench.reporting.render_html import html_page
from accous_bench.reporting.render_latex import latex
from accous_bench.reporting.render_markdown import markdown
from accous_bench.reporting.tables import error_table, gap_table, more_seeds_table, regret_table
from accous_bench.reporting.tables_of_tests import difference_table, tally_table
from accous_bench.reporting.wins import paper_wins, wins_table
from accous_bench.reporting.wording import panel_title

__all__ = ["Report", "provenance_lines", "read_inputs", "report_blocks", "write_report"]

_LEGEND = (
    "Bold marks the lowest error; errors that are equal to two decimals are all bold. The oracle does not count, and "
    "neither do contenders that did not run on all of the table's seeds and rounds. The sentence on the lowest above a "
    "table goes by the exact risk where all contenders have one, so it may name another. FIX (never weighted) and the "
    "oracle (weighted by the true ratio) are the bounds between which weighting can help. All contenders get the same "
    "seeds and streams, and every contender predicts a batch before it learns from it (predict_first)."
)
_PROTOCOLS = (
    "The same contenders on the same streams: predict first (the batch is predicted before it is learned from), fresh "
    "rows (after it, on other rows of the same distribution) and batch first (after it, on the batch itself). Where "
    "the risk is known exactly, it replaces the errors on drawn rows; batch first is about the drawn rows themselves."
)
_LEGEND_OF_LIMIT = (
    " The limit does not count either: it knows the densities of both parts and infers only their weights from past "
    "rows."
)


@dataclass(frozen=True)
class Report:
    """The result of writing a report.

    Attributes
    ----------
    files : list of Path
    n_done, n_failed : int
        Number of runs behind the report.
    missing_figures : str or None
        Why there are no figures, if there are none.
    """

    files: list[Path]
    n_done: int
    n_failed: int
    missing_figures: str | None


def read_inputs(paths: Sequence[Path]) -> Aggregates:
    """Read folders of rows and files of aggregates, and combine them.

    Raises
    ------
    DataError
        If there is nothing to report on.
    """
    parts: list[Aggregates] = []
    rows: dict[str, dict[str, Any]] = {}
    for path in paths:
        if path.suffix == ".json" and path.is_file():
            parts.append(read_aggregates(path))
        elif path.exists():
            found = _read_rows(path)
            if not found:
                raise DataError(f"{path} holds no benchmark rows: write some with accous bench run.")
            rows |= {row["run"]: row for row in found}
        else:
            raise ParameterError(
                f"There is no folder or file {path}: pass a folder of accous bench run, or aggregates."
            )
    aggregates = merge([*parts, *([aggregate_rows(rows.values())] if rows else [])])
    if not aggregates.outcomes:
        raise DataError(f"There is nothing to report on in {', '.join(map(str, paths))}: run accous bench run first.")
    return aggregates


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    from accous_bench.results import read_rows

    return read_rows(folder)


def write_report(paths: Sequence[Path], output: Path, *, has_figures: bool = True) -> Report:
    """Write the whole report into a folder.

    Parameters
    ----------
    paths : sequence of Path
        Folders of ``accous bench run``, or files of aggregates.
    output : Path
        Created if it does not exist; files of an earlier report are replaced.
    has_figures : bool, default=True

    Returns
    -------
    Report
        Without matplotlib there are no figures, and ``missing_figures`` says so.
    """
    aggregates = read_inputs(paths)
    figures, missing = None, None
    if has_figures:
        try:
            figures = draw_figures(aggregates)
        except MissingExtraError as error:
            missing = str(error)
    blocks = report_blocks(aggregates, figures)
    output.mkdir(parents=True, exist_ok=True)
    svgs = {name: drawing.svg for name, drawing in figures.drawings.items()} if figures else {}
    texts = {"report.md": markdown(blocks), "report.tex": latex(blocks), "report.html": html_page(blocks, svgs)}
    for name, text in texts.items():
        (output / name).write_text(text, encoding="utf-8")
    write_aggregates(aggregates, output / "aggregates.json")
    files = [output / name for name in (*texts, "aggregates.json")]
    files += _write_figures(figures, output / "figures") if figures else []
    n_done = sum(outcome.is_done for outcome in aggregates.outcomes)
    return Report(files, n_done, len(aggregates.outcomes) - n_done, missing)


def _write_figures(figures: Figures, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = []
    for name, drawing in figures.drawings.items():
        svg, png = folder / f"{name}.svg", folder / f"{name}.png"
        svg.write_text(drawing.svg, encoding="utf-8")
        png.write_bytes(drawing.png)
        files += [svg, png]
    return files


def report_blocks(
    aggregates: Aggregates, figures: Figures | None = None, title: str = "Benchmark report"
) -> list[Block]:
    """Assemble the report, independent of the output format.

    Parameters
    ----------
    aggregates : Aggregates
    figures : Figures, optional
    title : str

    Returns
    -------
    list of Block
        The first one is the title.
    """
    for_tables, for_regret = split_regret(aggregates.outcomes)
    panels = make_panels(for_tables)
    blocks: list[Block] = [Heading(title, 1), Bullets(provenance_lines(aggregates))]
    headline = [panel for panel in panels if panel.protocol == PREDICT_FIRST] or panels
    blocks += _summary(headline)
    if figures is not None:
        blocks += _pictures("Comparison of the contenders", figures.comparison)
    shown = [panel for panel in panels if panel in headline or panel.protocol == MIXED_PROTOCOL]
    for panel in shown:
        blocks += _panel_blocks(panel)
    side_by_side = protocol_tables(panels)
    blocks += [Heading("The protocols side by side", 2), Paragraph(_PROTOCOLS), *side_by_side] if side_by_side else []
    if figures is not None:
        blocks += _pictures("Errors over time under natural drift", figures.drift)
        blocks += _pictures("Inside the ensemble", figures.learners)
    series = regret_series(for_regret)
    if series:
        blocks += [Heading("Growth of the regret", 2), Bullets(regret_findings(series)), regret_table(series)]
        blocks += [] if figures is None else figures.regret
    settings = [f"{name}: {one}." for name, found in aggregates.provenance.get("settings", {}).items() for one in found]
    return blocks + ([Heading("Settings of the contenders", 2), Bullets(settings)] if settings else [])


def provenance_lines(aggregates: Aggregates) -> list[str]:
    """Return the origin of the numbers: runs, dates, machine, versions."""
    origin = aggregates.provenance
    n_done = sum(outcome.is_done for outcome in aggregates.outcomes)
    n_failed = len(aggregates.outcomes) - n_done
    failed = f", {count(n_failed, 'failed run')}" if n_failed else ""
    lines = [f"Made from {count(n_done, 'run')}{failed}, specs: {', '.join(origin.get('specs', [])) or 'unnamed'}."]
    if origin.get("superseded"):
        runs = count(origin["superseded"], "run")
        lines.append(f"Left out: {runs} that a later run with the same names and other settings replaces.")
    if origin.get("first"):
        first, last = origin["first"][:10], origin["last"][:10]
        lines.append(f"Run on {first}." if first == last else f"Run from {first} to {last}.")
    if origin.get("machines"):
        lines.append(f"Machine: {'; '.join(origin['machines'])}.")
    versions = ", ".join(f"{name} {' or '.join(found)}" for name, found in origin.get("versions", {}).items())
    lines += [f"Versions: {versions}."] if versions else []
    lines += [f"Commit: {', '.join(origin['commits'])}."] if origin.get("commits") else []
    return lines


def _summary(panels: list[Panel]) -> Iterable[Block]:
    if not panels:
        return
    yield Heading("Summary", 2)
    findings = overall_findings(panels)
    if findings:
        yield Bullets(findings)
    has_limit = any(LIMIT in panel.contenders for panel in panels)
    yield Paragraph(_LEGEND + (_LEGEND_OF_LIMIT if has_limit else ""))
    yield from [wins_table(wins)] if (wins := paper_wins(panels)) else []
    by_error, by_risk = tally(panels), tally(panels, "risk")
    if not by_error:
        yield Paragraph(f"No contender shares a stream with {OURS}, so nothing is compared.")
    yield from [tally_table(by_error)] if by_error else []
    yield from [tally_table(by_risk, "risk")] if by_risk else []


def _panel_blocks(panel: Panel) -> Iterable[Block]:
    yield Heading(panel_title(panel.dataset, panel.n_reference, panel.batch_size, panel.protocol), 2)
    findings = panel_findings(panel)
    if findings:
        yield Bullets(findings)
    tables = (error_table(panel), more_seeds_table(panel), gap_table(panel), difference_table(panel))
    yield from (table for table in tables if table is not None)


def _pictures(title: str, pictures: list[Picture]) -> list[Block]:
    return [Heading(title, 2), *pictures] if pictures else []
