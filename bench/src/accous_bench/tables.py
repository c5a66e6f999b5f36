"""The report of a benchmark: one writer of tables, as Markdown and CSV, with the paper's numbers beside ours.

``python -m accous_bench.tables DOCS AGGREGATES`` writes the documentation's pages of results from a folder of
aggregates: the tables of ``results.md``, a page for each spec in ``results/`` with its tables as CSV beside it, the
settings, and the figures that are shown.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from accous.exceptions import DataError, MissingExtraError, ParameterError
from accous.text import count
from accous_bench.aggregates import Aggregates, aggregate_rows, merge, read_aggregates, write_aggregates
from accous_bench.contenders import LIMIT, ORACLE, PAPER_CONTENDERS, PREDICT_FIRST, PROTOCOLS
from accous_bench.grid import read_rows
from accous_bench.paper import N_RUNS, PAPER_CELLS, is_papers_length, paper_result
from accous_bench.problems import get_problem, problem_names
from accous_bench.spec import find_spec, read_spec, spec_names
from accous_bench.statistics import (
    ENSEMBLE,
    OURS,
    UNWEIGHTED,
    AgainstOurs,
    Cell,
    Entry,
    Panel,
    PaperWins,
    RegretSeries,
    against_ours,
    best_contenders,
    counts_by_risk,
    gap_closed,
    in_order,
    lowest,
    make_panels,
    paper_cells,
    paper_wins,
    regret_series,
    split_regret,
    theory_exponent,
)

if TYPE_CHECKING:
    from accous_bench.figures import Figure

__all__ = [
    "Report", "Table", "cell_table", "difference_table", "error_table", "protocol_table", "read_inputs",
    "regret_table", "report_tables", "risk_table", "wins_table", "write_pages", "write_report",
]  # fmt: skip

DASH = "–"
_LONGEST_REASON = 200
_MARKED = re.compile(r"(<!-- table ([\w.-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


# --- the writer ---


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    name : str
        Of letters, digits and dashes: of its file, and of its place in a page.
    title : str
        What the numbers are.
    headings : list of str
    rows : list of list of str
    notes : list of str
        What marks such as [1] in the rows refer to, in their order.
    """

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """Return it with its title above and its notes below."""
        rule = "|---" + "|---:" * (len(self.headings) - 1) + "|"
        lines = [_line(self.headings), rule, *map(_line, self.rows)]
        notes = [f"[{number}] {_escaped(note)}" for number, note in enumerate(self.notes, start=1)]
        return "\n".join(
            [f"*{_escaped(self.title)}*", "", *lines, *([""] if notes else []), "  \n".join(notes)]
        ).rstrip()

    def write_csv(self, path: Path) -> None:
        """Write headings and rows, without marks and bold letters."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(
                [re.sub(r" \[\d+\]|\*\*", "", cell) for cell in row] for row in (self.headings, *self.rows)
            )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |"


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _escaped(text: str) -> str:
    """Keep users' names from breaking a line or a table; stars of ours are in pairs."""
    return re.sub(r"([|`\\]|<(?=\S))", r"\\\1", " ".join(text.split()))


class _Notes:
    """Numbers the notes of a table; the same words get the same mark."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def marks(self, notes: Iterable[str]) -> str:
        for words in notes:
            if words not in self.words:
                self.words.append(words)
        return "".join(f" [{self.words.index(words) + 1}]" for words in notes)


def _per_cent(share: float | None) -> str:
    return DASH if share is None else f"{100.0 * share:.2f}"


def _mean_and_error(values: Sequence[float]) -> str:
    """Return mean and standard error in per cent."""
    if len(values) < 2:
        return _per_cent(values[0] if values else None)
    return f"{_per_cent(fmean(values))} ± {_per_cent(stdev(values) / len(values) ** 0.5)}"


def _points(difference: float) -> str:
    rounded = round(100.0 * difference, 2)
    return f"{rounded:+.2f}".replace("-", "\N{MINUS SIGN}") if rounded else "0.00"


def dataset_title(name: str) -> str:
    """Return the printed name of a data set: the title of its problem if it is registered here."""
    return get_problem(name).title if name in problem_names() else name


def file_name(*parts: object) -> str:
    """Reduce a name to letters, digits and dashes: users choose the names of data sets."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", str(part)).strip("-").lower() or "x" for part in parts)


def _panel_title(panel: Panel) -> str:
    reference = f", {panel.n_reference:,} reference rows" if panel.n_reference else ""
    protocol = "" if panel.protocol == PREDICT_FIRST else f", {panel.protocol}"
    return f"{dataset_title(panel.dataset)}, N_t = {panel.batch_size}{reference}{protocol}"


def _panel_name(kind: str, panel: Panel) -> str:
    protocol = [] if panel.protocol == PREDICT_FIRST else [panel.protocol]
    return file_name(kind, panel.dataset, panel.n_reference, panel.batch_size, *protocol)


# --- the tables of a panel ---


def error_table(panel: Panel) -> Table:
    """Return the errors, mean and standard error over the seeds, with the paper's, and the time of a round."""
    notes = _Notes()
    with_paper = [shift for shift in panel.cells if _is_in_paper(panel, shift)]
    headings = ["contender"]
    for shift in panel.cells:
        headings += [shift, f"{shift}, paper"] if shift in with_paper else [shift]
    rows = []
    for name in panel.contenders:
        row = [name]
        for shift, cell in panel.cells.items():
            row.append(_error(cell, name, notes))
            if shift in with_paper:
                found = paper_result(panel.dataset, shift, panel.batch_size, name)
                row.append(DASH if found is None else f"{found.mean:.2f} ± {found.std / N_RUNS**0.5:.2f}")
        rows.append([*row, _milliseconds(panel, name)])
    title = f"{_panel_title(panel)}: error in %, mean ± standard error over {_seeds(panel)}, {_rounds(panel)}"
    if with_paper and not all(is_papers_length(cell.n_rounds) for cell in panel.cells.values()):
        title += " (the paper's streams have 10,000)"
    time = "processor time" if panel.has_processor_times else "time"
    title += f"; bold: lowest of those that played all rounds; ms: {time} of a round, scoring included."
    return Table(_panel_name("errors", panel), title, [*headings, "ms"], rows, notes.words)


def _is_in_paper(panel: Panel, shift: str) -> bool:
    return any(paper_result(panel.dataset, shift, panel.batch_size, name) for name in panel.contenders)


def _seeds(panel: Panel) -> str:
    numbers = sorted({len(cell.seeds) for cell in panel.cells.values()})
    return count(numbers[0], "seed") if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]} seeds"


def _rounds(panel: Panel) -> str:
    entries = [
        entry for cell in panel.cells.values() for entry in cell.entries.values() if entry.n_rounds == cell.n_rounds
    ]
    played = sorted(set[int]().union(*(entry.n_played for entry in entries))) or [0]
    return f"{played[0]:,} rounds" if len(played) == 1 else f"{played[0]:,} to {played[-1]:,} rounds"


def _error(cell: Cell, name: str, notes: _Notes) -> str:
    entry = cell.entries.get(name)
    if entry is None:
        return DASH
    # Means that are compared are over the same seeds.
    words = _mean_and_error(entry.values("error", cell.seeds if cell.is_complete(name) else None))
    return (f"**{words}**" if name in best_contenders(cell) else words) + notes.marks(list(_shortcomings(cell, entry)))


def _shortcomings(cell: Cell, entry: Entry) -> Iterator[str]:
    """Yield what a reader needs to know before comparing this number with the others."""
    n_seeds = len(entry.done)
    if n_seeds and entry.n_rounds != cell.n_rounds:
        yield f"{entry.n_rounds:,} rounds instead of {cell.n_rounds:,}: another stream, left out of the comparisons."
    if n_seeds > len(cell.seeds) and cell.is_complete(entry.contender):
        yield f"Ran on {n_seeds} seeds; the mean is over the seeds of the table."
    n_predicted = {outcome.n_predicted for outcome in entry.done.values()}
    if n_seeds and n_predicted != entry.n_played:
        yield f"Played {max(n_predicted):,} of the rounds, drawn at random: it keeps nothing from one to the next."
    if n_seeds and not set(entry.done) >= set(cell.seeds):
        yield f"Seeds {', '.join(map(str, entry.done))} only."
    reasons: dict[str, list[int]] = {}
    for outcome in entry.failed:
        reasons.setdefault((outcome.reason or "")[:_LONGEST_REASON].rstrip("."), []).append(outcome.seed)
    for reason, seeds in reasons.items():
        yield f"Failed for seed {', '.join(map(str, seeds))}: {reason}."


def _milliseconds(panel: Panel, name: str) -> str:
    entries = [cell.entries[name] for cell in panel.cells.values() if name in cell.entries]
    times = [entry.seconds_a_round(of_processor=panel.has_processor_times) for entry in entries]
    known = [seconds for seconds in times if seconds is not None]
    return f"{1e3 * fmean(known):.3g}" if known else DASH


def risk_table(panel: Panel) -> Table | None:
    """Return the exact risks (errors where they are unknown) and the shares of the gap to the bounds that are closed.

    None without an oracle.
    """
    widths = [gap_closed(cell, UNWEIGHTED) for cell in panel.cells.values()]
    if not any(widths):
        return None
    rows = [[name, *(_risk(cell, name) for cell in panel.cells.values())] for name in panel.contenders]
    rows.append(["gap, points", *(DASH if gap is None else _per_cent(gap.width) for gap in widths)])
    has_risk = any(gap is not None and gap.measure == "risk" for gap in widths)
    has_limit = any(gap_closed(cell, UNWEIGHTED, LIMIT) for cell in panel.cells.values())
    bounds = "FIX and the limit, then FIX and the oracle" if has_limit else "FIX and the oracle"
    title = (
        f"{_panel_title(panel)}: {'exact risk' if has_risk else 'error'} in %; in brackets the share of the gap "
        f"between {bounds} that is closed, in %."
    )
    return Table(_panel_name("risks", panel), title, ["contender", *panel.cells], rows)


def _risk(cell: Cell, name: str) -> str:
    gap = gap_closed(cell, name)
    if gap is None:
        return DASH
    gaps = [gap_closed(cell, name, LIMIT), gap] if name not in (UNWEIGHTED, ORACLE) else []
    shares = [f"{100 * one.share:.0f}" for one in gaps if one is not None and one.share is not None]
    return _per_cent(gap.mean) + (f" ({', '.join(shares)})".replace("-", "\N{MINUS SIGN}") if shares else "")


def difference_table(panel: Panel) -> Table | None:
    """Return the differences from Accous with the p-values of paired tests; None without a contender to compare."""
    found = against_ours(panel)
    if not found:
        return None
    names = [name for name in panel.rivals if any((name, shift) in found for shift in panel.cells)]
    rows = [[name, *(_difference(found.get((name, shift))) for shift in panel.cells)] for name in names]
    n_tests = sum(against.adjusted_p is not None for against in found.values())
    title = (
        f"{_panel_title(panel)}: exact risk minus that of {OURS} in points (positive: {OURS} is lower), the error "
        f"where no risk is known; p of the paired t-test over the seeds, after Holm's correction for "
        f"{count(n_tests, 'test')}; bold: below 5 %; ≈: not on the same rounds, so not tested."
    )
    return Table(_panel_name("differences", panel), title, ["contender", *panel.cells], rows)


def _difference(against: AgainstOurs | None) -> str:
    if against is None:
        return DASH
    words = _points(against.test.difference) if against.is_paired else f"≈ {_points(against.test.difference)}"
    if against.adjusted_p is not None:
        words += f" (p {'< 0.001' if against.adjusted_p < 0.001 else f'= {against.adjusted_p:.3f}'})"
    return f"**{words}**" if against.is_significant else words


# --- the tables over all panels ---


def wins_table(wins: Sequence[PaperWins]) -> Table:
    """Return in how many of the paper's cells each contender is lowest: the paper's count, and ours."""
    rows = []
    for name in PAPER_CONTENDERS:
        ours = [one.ours[one.stands_for_accous if name == ENSEMBLE else name] for one in wins]
        rows.append([name, str(wins[0].paper[name]), *(DASH if n_wins is None else str(n_wins) for n_wins in ours)])
    title = (
        f"In how many of the paper's {len(PAPER_CELLS)} cells ({wins[0].n_cells} were run) each contender has the "
        "lowest error; ours by the exact risk where all have one; a shared cell counts for each of its winners."
    )
    return Table("wins", title, ["contender", "paper", *(f"ours, with {one.stands_for_accous}" for one in wins)], rows)


def cell_table(panels: Sequence[Panel]) -> Table:
    """Return the paper's cells: its error and ours, the oracle, and who is lowest without and with our default."""
    rows = []
    for dataset, shift, batch_size, cell in paper_cells(panels):
        names = [name for name in PAPER_CONTENDERS if cell.is_complete(name)]
        measure = "risk" if counts_by_risk(cell, names) else "error"
        published = paper_result(dataset, shift, batch_size, ENSEMBLE)
        means = [fmean(found) if (found := _known(cell, name, measure)) else None for name in (ENSEMBLE, OURS, ORACLE)]
        winners = [", ".join(lowest(cell, who, measure)) for who in (names, [*names, OURS])]
        title = dataset_title(cell.key.dataset)
        where = [title, f"{shift}, {batch_size}", DASH if published is None else f"{published.mean:.1f}"]
        rows.append([*where, *map(_per_cent, means), *winners])
    title = (
        "The paper's cells (data, then shift and rows a round): the paper's error of its method, then our exact risk "
        "(the error where some contender has no risk) of the same method, of our default and of the true ratio, in %; "
        "last, who is lowest of the paper's eight, and with our default among them."
    )
    headings = ["data", "shift, N_t", "paper", ENSEMBLE, OURS, ORACLE, "lowest", f"with {OURS}"]
    return Table("cells", title, headings, rows)


def _known(cell: Cell, name: str, measure: str) -> list[float]:
    return cell.entries[name].values(measure, cell.seeds) if cell.is_complete(name) else []


def protocol_table(panels: Sequence[Panel]) -> Table:
    """Return the errors under each protocol, from panels that differ in nothing else."""
    shifts = [shift for shift in panels[0].cells if all(shift in panel.cells for panel in panels)]
    names = in_order(set.intersection(*(set(panel.contenders) for panel in panels)))
    columns = [(shift, panel) for shift in shifts for panel in panels]
    rows = []
    for name in names:
        cells = [panel.cells[shift] for shift, panel in columns]
        shared = [set(cell.common_seeds(name)) for cell in cells if name in cell.entries]
        seeds = sorted(set.intersection(*shared)) if len(shared) == len(cells) else []
        rows.append(
            [name, *(_mean_and_error(cell.entries[name].values("error", seeds)) if seeds else DASH for cell in cells)]
        )
    first = panels[0]
    title = (
        f"{dataset_title(first.dataset)}, N_t = {first.batch_size}: error in % under each protocol, on the same seeds."
    )
    headings = ["contender", *(f"{shift}, {panel.protocol}" for shift, panel in columns)]
    return Table(file_name("protocols", first.dataset, first.n_reference, first.batch_size), title, headings, rows)


def _protocol_tables(panels: Sequence[Panel]) -> Iterator[Table]:
    groups: dict[tuple[Any, ...], list[Panel]] = {}
    for panel in sorted(panels, key=lambda panel: PROTOCOLS.index(panel.protocol)):
        groups.setdefault((panel.dataset, panel.n_reference, panel.batch_size), []).append(panel)
    return (protocol_table(group) for group in groups.values() if len(group) > 1)


def regret_table(series: Sequence[RegretSeries]) -> Table:
    """Return the regrets by stream length, with the fitted exponent and the theory's."""
    lengths = sorted({length for one in series for length in one.lengths})
    rows = []
    for one in series:
        means = dict(zip(one.lengths, one.means, strict=True))
        regrets = [f"{means[length]:,.3g}" if length in means else DASH for length in lengths]
        error = "" if one.standard_error is None else f" ± {one.standard_error:.2f}"
        fitted = DASH if one.exponent is None else f"{one.exponent:.2f}{error}"
        theory = theory_exponent(one.key.shift)
        rows.append(
            [one.key.shift, one.contender, *regrets, fitted, DASH if theory is None else f"{round(3 * theory)}/3"]
        )
    title = (
        f"{dataset_title(series[0].key.dataset)}: cumulative dynamic regret of the ratio by the number of rounds T, "
        "mean over seeds; the exponent p of the fit T^p ± its standard error, and the theory's."
    )
    return Table(
        "regret", title, ["shift", "contender", *(f"T = {length:,}" for length in lengths), "p", "theory"], rows
    )


def report_tables(aggregates: Aggregates) -> list[Table]:
    """Return every table that the aggregates have numbers for; those over all panels come first."""
    for_tables, for_regret = split_regret(aggregates.outcomes)
    panels = make_panels(for_tables)
    headline = [panel for panel in panels if panel.protocol == PREDICT_FIRST] or panels
    wins, series = paper_wins(headline), regret_series(for_regret)
    tables = [wins_table(wins)] if wins else []
    for panel in headline:
        made = (error_table(panel), risk_table(panel), difference_table(panel))
        tables += [table for table in made if table is not None]
    tables += _protocol_tables(panels)
    return tables + ([regret_table(series)] if series else [])


# --- a report, and the tables of a page ---


@dataclass(frozen=True)
class Report:
    """The result of writing a report: its files, the number of runs behind it, and why there are no figures, if so."""

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
            found = read_rows(path)
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


def write_report(paths: Sequence[Path], output: Path, *, has_figures: bool = True) -> Report:
    """Write ``report.md``, ``tables/*.csv``, ``figures/*`` and ``aggregates.json`` into a folder.

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
    tables = report_tables(aggregates)
    figures: list[Figure] = []
    missing = None
    if has_figures:
        try:
            figures = _draw(aggregates)
        except MissingExtraError as error:
            missing = str(error)
    files = [output / "report.md", output / "aggregates.json"]
    for folder in ("tables", "figures") if figures else ("tables",):
        (output / folder).mkdir(parents=True, exist_ok=True)
    parts = ["# Benchmark report", _bullets(_origin(aggregates))]
    parts += [table.markdown() for table in tables]
    parts += [f"![{_escaped(one.caption)}](figures/{one.name}.png)\n\n*{_escaped(one.caption)}*" for one in figures]
    settings = aggregates.provenance["settings"]
    parts += ["Settings:", _bullets(f"{name}: {one}" for name, found in settings.items() for one in found)]
    files[0].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    write_aggregates(aggregates, files[1])
    for table in tables:
        files.append(output / "tables" / f"{table.name}.csv")
        table.write_csv(files[-1])
    for figure in figures:
        files += [output / "figures" / f"{figure.name}{suffix}" for suffix in (".svg", ".png")]
        files[-2].write_text(figure.svg, encoding="utf-8")
        files[-1].write_bytes(figure.png)
    n_done = sum(outcome.is_done for outcome in aggregates.outcomes)
    return Report(files, n_done, len(aggregates.outcomes) - n_done, missing)


def _draw(aggregates: Aggregates) -> list[Figure]:
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("Figures need matplotlib: pip install 'accous[plot]'.") from error
    from accous_bench.figures import draw_figures

    return draw_figures(aggregates)


def _origin(aggregates: Aggregates) -> Iterator[str]:
    """Yield where the numbers come from: runs, dates, machine, versions."""
    origin = aggregates.provenance
    n_done = sum(outcome.is_done for outcome in aggregates.outcomes)
    n_failed = len(aggregates.outcomes) - n_done
    specs, machines = (", ".join(origin[name]) or DASH for name in ("specs", "machines"))
    first, last = ((origin[name] or DASH)[:10] for name in ("first", "last"))
    yield f"{count(n_done, 'run')}, {n_failed} failed, {origin['superseded']} replaced by later ones; specs: {specs}"
    yield f"from {first} to {last} on {machines}"
    yield f"commit {', '.join(origin['commits']) or DASH}"
    yield ", ".join(f"{name} {' or '.join(found)}" for name, found in origin["versions"].items())


# --- the pages of the documentation ---

HEADLINE = ("table3", "table1", "table2", "images", "images_tuned")
_SHOWN = re.compile(
    r"table3/comparison-gaussian-1000|natural/drift|regret/regret-.*|figures/switches-.*|weights/weights-.*squ64.*|"
    r"label_shift/comparison-.*"
)
"""The figures that pages show, by spec and name."""


def write_pages(docs: Path, results: Path, *, has_figures: bool = True) -> list[Path]:
    """Write the pages of results from a folder of aggregates, one file a spec; return the pages.

    Runs of the spec ``figures`` give curves, but no numbers: they are scored in every round, on streams of table3.
    """
    folder = docs / "results"
    folder.mkdir(parents=True, exist_ok=True)
    specs = [name for name in spec_names() if (results / f"{name}.json").is_file()]
    pages = [_write_spec_page(docs, results / f"{name}.json", has_figures=has_figures) for name in specs]
    panels = make_panels(read_inputs([results / f"{name}.json" for name in HEADLINE]).outcomes)
    headline = [panel for panel in panels if panel.protocol == PREDICT_FIRST]
    tables = {table.name: table for table in (cell_table(headline), wins_table(paper_wins(headline)))}
    page = docs / "results.md"
    text = page.read_text(encoding="utf-8")
    filled = _MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]].markdown()}\n\n{found[3]}", text)
    page.write_text(filled, encoding="utf-8")
    for table in tables.values():
        table.write_csv(folder / f"{table.name}.csv")
    return [page, *pages, _write_settings(folder, {name: read_aggregates(results / f"{name}.json") for name in specs})]


def _write_spec_page(docs: Path, source: Path, *, has_figures: bool) -> Path:
    """Write what a spec runs, its tables and figures; tables also as CSV in a folder of the page's name."""
    spec, aggregates = read_spec(find_spec(source.stem)), read_aggregates(source)
    page = docs / "results" / f"{spec.name}.md"
    tables = [] if spec.name == "figures" else report_tables(aggregates)
    parts = [f"# {spec.title}", " ".join(spec.description.split())]
    for table in tables:
        page.with_suffix("").mkdir(exist_ok=True)
        table.write_csv(page.with_suffix("") / f"{table.name}.csv")
        parts += [table.markdown(), f"[As CSV]({spec.name}/{table.name}.csv)"]
    from accous_bench.figures import drawing, possible_figures

    for name, caption, draw in possible_figures(aggregates):
        if _SHOWN.fullmatch(f"{spec.name}/{name}"):
            parts.append(f"![{_escaped(caption)}](../images/results-{name}.png)")
            if has_figures:
                (docs / "images" / f"results-{name}.png").write_bytes(drawing(draw, name).png)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _write_settings(folder: Path, found: dict[str, Aggregates]) -> Path:
    """Write the appendix: the command of every spec, where its numbers come from, and every contender's settings."""
    parts = ["# Settings and commands", "Every page of results is written by one command from the kept aggregates:"]
    parts.append("`python -m accous_bench.tables docs benchmarks/results`")
    for name, aggregates in found.items():
        command = f"`accous bench run {name}`, `accous bench report results/{name} -o report`; kept as"
        parts += [f"## {name}", f"{command} `benchmarks/results/{name}.json`.", _bullets(_origin(aggregates))]
        settings = aggregates.provenance["settings"]
        parts.append(_bullets(f"{contender}: {one}" for contender, each in settings.items() for one in each))
    page = folder / "settings.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m accous_bench.tables DOCS AGGREGATES")
    write_pages(Path(sys.argv[1]), Path(sys.argv[2]))
