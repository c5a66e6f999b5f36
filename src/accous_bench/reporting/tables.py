"""The tables of a report: errors next to the paper's, the gap closed, and regrets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from accous.text import count
from accous_bench.reporting.cells import LIMIT, ORACLE, TOLD, UNWEIGHTED, Cell, Entry, Panel
from accous_bench.reporting.comparison import Gap, gap_closed
from accous_bench.reporting.document import DASH, Notes, Row, Table, Text
from accous_bench.reporting.lowest import best_contenders
from accous_bench.reporting.paper import is_papers_length, paper_note, paper_result
from accous_bench.reporting.regret import RegretSeries, theory_exponent
from accous_bench.reporting.wording import dataset_title, panel_title, per_cent, plus_minus, seed_list

__all__ = ["error_table", "gap_table", "more_seeds_table", "regret_table"]

_LONGEST_REASON = 200


def error_table(panel: Panel) -> Table:
    """Return the table of errors (mean and standard deviation), the paper's errors, and the time of a round."""
    notes = Notes()
    with_paper = [shift for shift in panel.cells if _is_in_paper(panel, shift)]
    groups, headings = [("", 1)], ["contender"]
    for shift in panel.cells:
        columns = ["ours", "paper"] if shift in with_paper else ["ours"]
        groups.append((shift, len(columns)))
        headings += columns
    groups.append(("", 1))
    if not with_paper:
        groups, headings = [], ["contender", *panel.cells]
    rows = [_error_row(panel, name, with_paper, notes) for name in panel.contenders]
    n_seeds = max((len(cell.seeds) for cell in panel.cells.values()), default=0)
    spread = f"mean ± standard deviation over {_seed_words(panel)}" if n_seeds > 1 else count(n_seeds, "seed")
    title = panel_title(panel.dataset, panel.n_reference, panel.batch_size, panel.protocol)
    time = "processor time" if panel.has_processor_times else "time"
    caption = f"{title}: error in %, {spread}, {_rounds_words(panel)}; ms: mean {time} of a round, scoring included."
    remarks = ["One seed only: no standard deviation and no test."] if n_seeds == 1 else []
    remarks += [remark] if with_paper and (remark := paper_note(panel.dataset)) else []
    if with_paper and not all(is_papers_length(cell.n_rounds) for cell in panel.cells.values()):
        remarks.append("The paper's numbers are from another experiment: its streams have 10,000 rounds, these do not.")
    footnotes = notes.all() + [("", remark) for remark in remarks]
    return Table(caption, [*headings, "ms"], rows, groups, footnotes)


def _is_in_paper(panel: Panel, shift: str) -> bool:
    return any(paper_result(panel.dataset, shift, panel.batch_size, name) for name in panel.contenders)


def _seed_words(panel: Panel) -> str:
    """Return the number of seeds; if it differs between the shifts, that of each."""
    numbers = {shift: len(cell.seeds) for shift, cell in panel.cells.items()}
    if len(set(numbers.values())) == 1:
        return count(next(iter(numbers.values())), "seed")
    return f"the seeds of each shift ({', '.join(f'{shift}: {n}' for shift, n in numbers.items())})"


def _rounds_words(panel: Panel) -> str:
    usual = [
        entry for cell in panel.cells.values() for entry in cell.entries.values() if entry.n_rounds == cell.n_rounds
    ]
    played = sorted(set[int]().union(*(entry.n_played for entry in usual)))
    if not played:
        return "no round played"
    return f"{played[0]:,} rounds" if len(played) == 1 else f"{played[0]:,} to {played[-1]:,} rounds"


def _error_row(panel: Panel, name: str, with_paper: Sequence[str], notes: Notes) -> Row:
    cells = [Text(name)]
    for shift, cell in panel.cells.items():
        cells.append(_error_text(cell, name, notes))
        if shift in with_paper:
            published = paper_result(panel.dataset, shift, panel.batch_size, name)
            cells.append(Text(DASH if published is None else f"{published.mean:.2f} ± {published.std:.2f}"))
    return Row([*cells, Text(_milliseconds(panel, name))], is_bound=name in (UNWEIGHTED, *TOLD))


def _error_text(cell: Cell, name: str, notes: Notes) -> Text:
    entry = cell.entries.get(name)
    if entry is None:
        return Text(DASH)
    marks = notes.marks(_shortcomings(cell, entry))
    # Means that are compared are over the same seeds.
    errors = entry.values("error", cell.seeds if cell.is_complete(name) else None)
    mean, std = (fmean(errors) if errors else None), (stdev(errors) if len(errors) > 1 else None)
    return Text(plus_minus(mean, std), name in best_contenders(cell), marks)


def _shortcomings(cell: Cell, entry: Entry) -> Iterable[str]:
    """Return the notes that a reader needs before comparing this number with the others."""
    n_seeds = len(entry.done)
    if n_seeds and entry.n_rounds != cell.n_rounds:
        yield f"{entry.n_rounds:,} rounds instead of {cell.n_rounds:,}: another stream, left out of the comparisons."
    if n_seeds > len(cell.seeds) and cell.is_complete(entry.contender):
        yield f"Ran on {n_seeds} seeds, more than most contenders; the mean is over the seeds of the table."
    n_predicted = {outcome.n_predicted for outcome in entry.done.values()}
    if n_seeds and n_predicted != entry.n_played:
        yield (
            f"Played in {max(n_predicted):,} of the rounds, drawn at random: it keeps nothing from one round to the "
            "next, so it need not play the others."
        )
    if n_seeds and not set(entry.done) >= set(cell.seeds):
        yield f"{count(n_seeds, 'seed')} only: {seed_list(list(entry.done))}."
    reasons: dict[str, list[int]] = {}
    for outcome in entry.failed:
        reasons.setdefault((outcome.reason or "")[:_LONGEST_REASON].rstrip("."), []).append(outcome.seed)
    for reason, seeds in reasons.items():
        yield f"Failed for seed {seed_list(seeds)}: {reason}."


def _milliseconds(panel: Panel, name: str) -> str:
    entries = [cell.entries[name] for cell in panel.cells.values() if name in cell.entries]
    times = [entry.seconds_a_round(of_processor=panel.has_processor_times) for entry in entries]
    known = [seconds for seconds in times if seconds is not None]
    return f"{1e3 * fmean(known):.3g}" if known else DASH


def more_seeds_table(panel: Panel) -> Table | None:
    """Return the errors of contenders that ran on more seeds than the table's, over all of them; None without any."""
    names = [
        name
        for name in panel.contenders
        if any(
            len(cell.entries[name].done) > len(cell.seeds) for cell in panel.cells.values() if cell.is_complete(name)
        )
    ]
    if not names:
        return None
    rows = []
    for name in names:
        entries = [cell.entries.get(name) for cell in panel.cells.values()]
        cells = [Text(DASH if entry is None else plus_minus(entry.mean, entry.std)) for entry in entries]
        rows.append(Row([Text(name), *cells], is_bound=name in (UNWEIGHTED, *TOLD)))
    n_seeds = max(
        len(cell.entries[name].done) for cell in panel.cells.values() for name in names if name in cell.entries
    )
    caption = f"Error in % of the contenders that ran on more seeds, over all of them (up to {n_seeds})."
    return Table(caption, ["contender", *panel.cells], rows)


def gap_table(panel: Panel) -> Table | None:
    """Return the table of exact risks and of the shares of the gap between FIX and the limit and the oracle.

    None without an oracle.
    """
    widths = [gap_closed(cell, UNWEIGHTED) for cell in panel.cells.values()]
    if not any(widths):
        return None
    notes = Notes()
    has_limit = any(gap_closed(cell, UNWEIGHTED, LIMIT) for cell in panel.cells.values())
    rows = []
    for name in panel.contenders:
        cells = [_gap_text(cell, name, notes) for cell in panel.cells.values()]
        rows.append(Row([Text(name), *cells], is_bound=name in (UNWEIGHTED, *TOLD)))
    rows.append(Row([Text("gap, points"), *(_width_text(gap, notes) for gap in widths)], is_bound=True))
    has_risk = any(gap is not None and gap.measure == "risk" for gap in widths)
    what = "Exact risk in %, of each round's model on the distribution of its round" if has_risk else "Error in %"
    bound = "limit" if has_limit else "oracle"
    caption = (
        f"{what}, mean over the seeds. In brackets: the share of the gap between FIX and the {bound} that is closed"
        f"{', then of that between FIX and the oracle' if has_limit else ''}, in %; a negative share is worse than FIX."
    )
    return Table(caption, ["contender", *panel.cells], rows, notes=notes.all())


def _gap_text(cell: Cell, name: str, notes: Notes) -> Text:
    gap, usual = gap_closed(cell, name), gap_closed(cell, UNWEIGHTED)
    if gap is None or usual is None:
        return Text(DASH)
    remarks = [] if gap.measure == usual.measure else ["By the error, since its risk is not known."]
    gaps = [gap_closed(cell, name, LIMIT), gap] if name not in (UNWEIGHTED, ORACLE) else []
    shares = [f"{100 * one.share:.0f}" for one in gaps if one is not None and one.share is not None]
    words = f" ({', '.join(shares)})".replace("-", "\N{MINUS SIGN}") if shares else ""
    return Text(per_cent(gap.mean) + words, marks=notes.marks(remarks))


def _width_text(gap: Gap | None, notes: Notes) -> Text:
    if gap is None:
        return Text(DASH)
    remarks = [] if gap.measure == "risk" else ["By the error, since the risk is not known."]
    if gap.share is None:
        remarks.append("Below 0.1 point there is nothing to close.")
    return Text(per_cent(gap.width).replace("-", "\N{MINUS SIGN}"), marks=notes.marks(remarks))


def regret_table(series: list[RegretSeries]) -> Table:
    """Return the table of regrets by stream length, with the fitted exponent and the theory's."""
    lengths = sorted({length for one in series for length in one.lengths})
    rows = []
    for one in series:
        cells = [Text(f"{one.key.shift}, {one.contender}")]
        known = dict(zip(one.lengths, zip(one.means, one.stds, strict=True), strict=True))
        for length in lengths:
            mean, std = known.get(length, (None, None))
            words = DASH if mean is None else _regret_words(mean)
            cells.append(Text(words if std is None else f"{words} ± {_regret_words(std)}"))
        theory = theory_exponent(one.key.shift)
        cells.append(Text(_exponent_words(one)))
        rows.append(Row([*cells, Text(DASH if theory is None else f"{round(3 * theory)}/3")]))
    title = dataset_title(series[0].key.dataset)
    caption = (
        f"{title}: cumulative dynamic regret of the ratio by the number of rounds T (mean ± standard deviation over "
        "seeds), the exponent p of the fit T^p with its standard error, and the theory's."
    )
    return Table(caption, ["shift", *(f"T = {length:,}" for length in lengths), "p", "theory"], rows)


def _regret_words(regret: float) -> str:
    return f"{regret:,.0f}" if abs(regret) >= 100 else f"{regret:.3g}"


def _exponent_words(series: RegretSeries) -> str:
    if series.exponent is None:
        return DASH
    error = "" if series.standard_error is None else f" ± {series.standard_error:.2f}"
    return f"{series.exponent:.2f}{error}"
