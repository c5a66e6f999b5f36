"""The report of a benchmark: one writer of tables, as Markdown and CSV, with the paper's numbers beside ours.

``python -m accous_bench.tables DOCS AGGREGATES`` writes the documentation's pages of results from a folder of
aggregates: the tables of ``results.md``, a page for each spec in ``results/`` with its tables as CSV beside it, the
settings, and the figures that are shown.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from accous.exceptions import DataError, ParameterError
from accous.text import count
from accous_bench.aggregates import Aggregates, aggregate_rows, compare, merge, read_aggregates, write_aggregates
from accous_bench.contenders import ENSEMBLE, LIMIT, ORACLE, OURS, PAPER_CONTENDERS, PREDICT_FIRST, UNWEIGHTED
from accous_bench.grid import read_rows
from accous_bench.paper import PAPER_CELLS, is_papers_length, paper_result
from accous_bench.problems import get_problem, problem_names
from accous_bench.spec import find_spec, read_spec, spec_names
from accous_bench.statistics import (
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
    lowest,
    make_panels,
    paper_cells,
    paper_wins,
    regret_series,
    split_regret,
    theory_exponent,
)

__all__ = [
    "Table", "cell_table", "difference_table", "error_table", "read_inputs",
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

    def write_csv(self, folder: Path) -> Path:
        """Write headings and rows, without marks and bold letters, into a file of the table's name."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows(
                [re.sub(r" \[\d+\]|\*\*", "", cell) for cell in row] for row in (self.headings, *self.rows)
            )
        return path


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
                row.append(DASH if found is None else f"{found.mean:.2f}")
        rows.append([*row, _milliseconds(panel, name)])
    title = f"{_panel_title(panel)}: error in %, {_seeds(panel)}, {_rounds(panel)}"
    if with_paper and not all(is_papers_length(cell.n_rounds) for cell in panel.cells.values()):
        title += " (the paper's streams have 10,000)"
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
    n_run = sorted(set[int]().union(*(entry.n_run for entry in entries))) or [0]
    return f"{n_run[0]:,} rounds" if len(n_run) == 1 else f"{n_run[0]:,} to {n_run[-1]:,} rounds"


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
        yield f"{entry.n_rounds:,} rounds instead of {cell.n_rounds:,}: another stream, not compared."
    if n_seeds > len(cell.seeds) and cell.is_complete(entry.contender):
        yield f"Ran on {n_seeds} seeds; the mean is over the seeds of the table."
    n_predicted = {outcome.n_predicted for outcome in entry.done.values()}
    if n_seeds and n_predicted != entry.n_run:
        yield f"{max(n_predicted):,} of the rounds, drawn at random."
    if n_seeds and not set(entry.done) >= set(cell.seeds):
        yield f"Seeds {', '.join(map(str, entry.done))} only."
    reasons: dict[str, list[int]] = {}
    for outcome in entry.failed:
        reasons.setdefault((outcome.reason or "")[:_LONGEST_REASON].rstrip("."), []).append(outcome.seed)
    for reason, seeds in reasons.items():
        yield f"Failed for seed {', '.join(map(str, seeds))}: {reason}."


def _milliseconds(panel: Panel, name: str) -> str:
    entries = [cell.entries[name] for cell in panel.cells.values() if name in cell.entries]
    known = [entry.seconds_a_round for entry in entries if entry.seconds_a_round is not None]
    return f"{1e3 * fmean(known):.3g}" if known else DASH


def risk_table(panel: Panel) -> Table | None:
    """Return the exact risks (errors where they are unknown) and the shares of the gap to the bounds that are closed.

    None without an oracle.
    """
    widths = [gap_closed(cell, UNWEIGHTED) for cell in panel.cells.values()]
    if not any(widths):
        return None
    measure = "risk" if any(gap is not None and gap.measure == "risk" for gap in widths) else "error"
    rows = [[name, *(_risk(cell, name, measure) for cell in panel.cells.values())] for name in panel.contenders]
    rows.append(["gap, points", *(DASH if gap is None else _per_cent(gap.width) for gap in widths)])
    title = f"{_panel_title(panel)}: {'exact ' * (measure == 'risk')}{measure} in % (share of the gap closed)"
    return Table(_panel_name("risks", panel), title, ["contender", *panel.cells], rows)


def _risk(cell: Cell, name: str, measure: str) -> str:
    gap = gap_closed(cell, name)
    if gap is None or gap.measure != measure:
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
    n_tests = sum(against.p is not None for against in found.values())
    tests = f" (p after Holm's correction for {count(n_tests, 'test')})" if n_tests else ""
    title = f"{_panel_title(panel)}: minus {OURS}, points{tests}"
    return Table(_panel_name("differences", panel), title, ["contender", *panel.cells], rows)


def _difference(against: AgainstOurs | None) -> str:
    if against is None:
        return DASH
    words = _points(against.difference) if against.is_paired else f"≈ {_points(against.difference)}"
    if against.p is not None:
        words += f" (p {'< 0.001' if against.p < 0.001 else f'= {against.p:.3f}'})"
    return f"**{words}**" if against.is_significant else words


# --- the tables over all panels ---


def wins_table(wins: Sequence[PaperWins]) -> Table:
    """Return in how many of the paper's cells each contender is lowest: the paper's count, and ours."""
    rows = []
    for name in PAPER_CONTENDERS:
        ours = [one.ours[one.stands_for_accous if name == ENSEMBLE else name] for one in wins]
        rows.append([name, str(wins[0].paper[name]), *(DASH if n_wins is None else str(n_wins) for n_wins in ours)])
    title = f"In how many of the paper's {len(PAPER_CELLS)} cells ({wins[0].n_cells} were run) each is lowest"
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
    title = "The paper's cells: its error in %, then our exact risk (the error where some contender has no risk)"
    headings = ["data", "shift, N_t", "paper", ENSEMBLE, OURS, ORACLE, "lowest of its eight", f"with {OURS}"]
    return Table("cells", title, headings, rows)


def _known(cell: Cell, name: str, measure: str) -> list[float]:
    return cell.entries[name].values(measure, cell.seeds) if cell.is_complete(name) else []


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
    title = f"{dataset_title(series[0].key.dataset)}: cumulative dynamic regret, and the exponent p of the fit T^p"
    return Table(
        "regret", title, ["shift", "contender", *(f"T = {length:,}" for length in lengths), "p", "theory"], rows
    )


def report_tables(aggregates: Aggregates) -> list[Table]:
    """Return every table that the aggregates have numbers for; those over all panels come first."""
    for_tables, for_regret = split_regret(aggregates.outcomes)
    panels, series = make_panels(for_tables), regret_series(for_regret)
    wins = paper_wins(panels)
    tables = [wins_table(wins)] if wins else []
    for panel in panels:
        made = (error_table(panel), risk_table(panel), difference_table(panel))
        tables += [table for table in made if table is not None]
    return tables + ([regret_table(series)] if series else [])


# --- a report, and the tables of a page ---


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


def write_report(
    paths: Sequence[Path], output: Path, *, has_figures: bool = True, repeated: Path | None = None
) -> list[Path]:
    """Write ``report.md``, ``tables/*.csv``, ``figures/*`` and ``aggregates.json`` into a folder; return the files.

    Parameters
    ----------
    paths : sequence of Path
        Folders of ``accous bench run``, or files of aggregates.
    output : Path
        Created if it does not exist; files of an earlier report are replaced.
    has_figures : bool, default=True
    repeated : Path, optional
        Folder of repeated runs, which are compared with the others.
    """
    from accous_bench.figures import draw_figures

    aggregates = read_inputs(paths)
    if repeated is not None:
        aggregates = compare(aggregates, read_inputs([repeated]))
    tables = report_tables(aggregates)
    figures = draw_figures(aggregates) if has_figures else []
    files = [output / "report.md", output / "aggregates.json"]
    output.mkdir(parents=True, exist_ok=True)
    specs = ", ".join(dict.fromkeys(outcome.spec for outcome in aggregates.outcomes))
    origin = origin_table({specs: aggregates})
    parts = ["# Benchmark report", _bullets("; ".join(row) for row in origin.rows), LEGEND]
    parts += [table.markdown() for table in tables]
    parts += [f"![{_escaped(one.caption)}](figures/{one.name}.png)\n\n*{_escaped(one.caption)}*" for one in figures]
    settings = [f"{name}: {one}" for name, each in aggregates.provenance.items() for one in each["settings"]]
    parts += ["Settings:", _bullets(settings)]
    files[0].write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    write_aggregates(aggregates, files[1])
    files += [table.write_csv(output / "tables") for table in tables]
    for figure in figures:
        (output / "figures").mkdir(exist_ok=True)
        files += [output / "figures" / f"{figure.name}{suffix}" for suffix in (".svg", ".png")]
        files[-2].write_text(figure.svg, encoding="utf-8")
        files[-1].write_bytes(figure.png)
    return files


def origin_table(found: Mapping[str, Aggregates]) -> Table:
    """Return where the numbers of each spec come from: contenders that ran on the same days at the same commits."""
    rows = []
    for spec, aggregates in found.items():
        groups: dict[tuple[str, ...], list[str]] = {}
        for name, origin in aggregates.provenance.items():
            groups.setdefault(_origin(origin), []).append(name)
        for origin, names in groups.items():
            outcomes = [outcome for outcome in aggregates.outcomes if outcome.contender in names]
            n_failed = sum(not outcome.is_done for outcome in outcomes)
            runs = count(len(outcomes), "run") + (f", {n_failed} failed" if n_failed else "")
            rows.append([spec, ", ".join(names), runs, *origin])
    headings = ["spec", "contenders", "runs", "dates", "machine", "commits", "versions", "repeated"]
    return Table("origin", "Where the numbers come from", headings, rows)


def _origin(origin: Mapping[str, Any]) -> tuple[str, ...]:
    """Return dates, machine, commits, versions, and how the repeated runs of a contender compare."""
    words = DASH
    if note := origin.get("repeated"):
        words = f"{note['runs']} on {_days(note)} at {', '.join(note['commits'])}: "
        apart = f"{note['same']} the same, the others within {100.0 * note['largest']:.2g} points"
        words += "the same" if note["same"] == note["runs"] else apart
    return _days(origin), *(", ".join(origin[each]) or DASH for each in ("machines", "commits", "versions")), words


def _days(origin: Mapping[str, Any]) -> str:
    return " to ".join(dict.fromkeys(date[:10] for date in origin["dates"])) or DASH


# --- the pages of the documentation ---

HEADLINE = ("table3", "table1", "table2", "images", "images_tuned")
LEGEND = (
    "Errors and risks are in %, means over the seeds, errors with ± their standard error. The paper's are beside them. "
    "**Bold** is the lowest error of those that ran all rounds. The risk is exact. In brackets is the share of the "
    "gap between FIX and the limit, then FIX and the oracle, that a contender closes. Differences are of risks, or of "
    "errors where no risk is known, with the p of a paired t-test over the seeds. Those with ≈ are not on the same "
    "rounds and not tested. ms is processor time a round."
)
_COMMANDS = (
    "`accous bench run SPEC` runs a spec. `accous bench report results/SPEC -o report` writes `aggregates.json`, "
    "kept as `benchmarks/results/SPEC.json`. Where a run takes long, `accous bench run SPEC --share 0.05 -o again` "
    "repeats a random sample, and `accous bench report benchmarks/results/SPEC.json --repeated again -o report` notes "
    'how many give the same numbers, in the column "repeated". `python -m accous_bench.tables docs benchmarks/results` '
    "writes every page of results from these files. Every contender's settings: [CSV](settings.csv)."
)
_SHOWN = re.compile(
    r"table3/comparison-gaussian-1000|natural/drift|regret/regret-.*|figures/switches-.*|weights/weights-.*squ64.*|"
    r"label_shift/comparison-.*"
)
"""The figures that pages show, by spec and name."""
_PRINTED = re.compile(r"(errors|risks|regret)(?!.*(fresh-rows|batch-first)).*")
"""The tables that pages show; the others are only kept as CSV."""


def write_pages(docs: Path, results: Path, *, has_figures: bool = True) -> list[Path]:
    """Write the pages of results from a folder of aggregates, one file a spec; return the pages.

    Runs of the spec ``figures`` give curves, but no numbers: they are scored in every round, on streams of table3.
    """
    folder = docs / "results"
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: read_aggregates(path) for name in spec_names() if (path := results / f"{name}.json").is_file()}
    pages = [_write_spec_page(docs, name, aggregates, has_figures) for name, aggregates in found.items()]
    headline = make_panels(merge(found[name] for name in HEADLINE).outcomes)
    tables = {table.name: table for table in (cell_table(headline), wins_table(paper_wins(headline)))}
    page = docs / "results.md"
    text = page.read_text(encoding="utf-8")
    filled = _MARKED.sub(lambda mark: f"{mark[1]}\n{tables[mark[2]].markdown()}\n\n{mark[3]}", text)
    page.write_text(filled, encoding="utf-8")
    for table in tables.values():
        table.write_csv(folder)
    return [page, *pages, _write_settings(folder, found)]


def _write_spec_page(docs: Path, name: str, aggregates: Aggregates, has_figures: bool) -> Path:
    """Write what a spec runs, its tables and figures; all tables as CSV in a folder of the page's name."""
    spec, folder = read_spec(find_spec(name)), docs / "results"
    tables = [] if name == "figures" else [table for table in report_tables(aggregates) if table.name != "wins"]
    parts = [f"# {spec.title}", " ".join(spec.description.split())]
    for table in tables:
        table.write_csv(folder / name)
    parts += [table.markdown() for table in tables if _PRINTED.fullmatch(table.name)]
    if tables:
        links = ", ".join(f"[{table.name}]({name}/{table.name}.csv)" for table in tables)
        parts.append(f"[How to read the tables](settings.md). As CSV: {links}.")
    from accous_bench.figures import drawing, possible_figures

    for figure, caption, draw in possible_figures(aggregates):
        if _SHOWN.fullmatch(f"{name}/{figure}"):
            parts.append(f"![{_escaped(caption)}](../images/results-{figure}.png)")
            if has_figures:
                (docs / "images" / f"results-{figure}.png").write_bytes(drawing(draw, figure)[1])
    page = folder / f"{name}.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _write_settings(folder: Path, found: dict[str, Aggregates]) -> Path:
    """Write how to read the tables, where the numbers come from, and every contender's settings as CSV."""
    rows = [
        [name, contender, " ".join(one.split())]
        for name, aggregates in found.items()
        for contender, origin in aggregates.provenance.items()
        for one in origin["settings"]
    ]
    Table("settings", "", ["spec", "contender", "settings"], rows).write_csv(folder)
    page = folder / "settings.md"
    parts = ["# Settings and commands", LEGEND, _COMMANDS, origin_table(found).markdown()]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m accous_bench.tables DOCS AGGREGATES")
    write_pages(Path(sys.argv[1]), Path(sys.argv[2]))
