"""The tables that put the protocols side by side: the same contenders and streams, scored in different ways."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from accous_bench.protocols import BATCH_FIRST, FRESH_ROWS, PREDICT_FIRST, PROTOCOLS
from accous_bench.reporting.cells import TOLD, UNWEIGHTED, Panel, in_order
from accous_bench.reporting.document import DASH, Row, Table, Text
from accous_bench.reporting.wording import panel_title, per_cent, seed_list

__all__ = ["protocol_tables"]

_Place = tuple[str, int, int]
_Column = tuple[str, str, str]
"""Heading, protocol and measure."""


def protocol_tables(panels: Iterable[Panel]) -> list[Table]:
    """Return the tables of every data set and batch size that was run under more than one protocol.

    Where the exact risk is known, one table has the risk of the model before and after it learned from the batch:
    predict_first and fresh_rows without the noise of drawn rows. A second one has the errors on the rows of the stream,
    which predict_first and batch_first predict both, so that they differ by what was learned from these very rows.
    Elsewhere one table has the errors under each protocol.
    """
    groups: dict[_Place, dict[str, Panel]] = {}
    for panel in panels:
        if panel.protocol in PROTOCOLS:
            groups.setdefault((panel.dataset, panel.n_reference, panel.batch_size), {})[panel.protocol] = panel
    return [table for place, group in groups.items() if len(group) > 1 for table in _tables(place, group)]


def _tables(place: _Place, panels: dict[str, Panel]) -> Iterable[Table]:
    learned = next((protocol for protocol in (FRESH_ROWS, BATCH_FIRST) if protocol in panels), PREDICT_FIRST)
    knows_risk = PREDICT_FIRST in panels and all(_knows(panels[p], "risk") for p in (PREDICT_FIRST, learned))
    if not knows_risk:
        columns = [(protocol.replace("_", " "), protocol, "error") for protocol in PROTOCOLS if protocol in panels]
        yield _table(place, panels, columns, "error in % under each protocol")
        return
    before_and_after = [("before the batch", PREDICT_FIRST, "risk"), ("after it", learned, "risk")]
    yield _table(
        place,
        panels,
        before_and_after,
        "exact risk in %, on rows of the round that nobody has seen, of the model before it learns from the batch "
        "(predict first) and after (fresh rows)",
    )
    if BATCH_FIRST in panels:
        on_stream = [(name.replace("_", " "), name, "error") for name in (PREDICT_FIRST, BATCH_FIRST)]
        yield _table(
            place,
            panels,
            on_stream,
            "error in % on the rows of the stream, predicted before they are learned from (predict first) and after "
            "(batch first): the same rows, so the difference is what a contender gains by fitting the rows it is asked "
            "about; the level has the noise of drawn rows",
        )


def _table(place: _Place, panels: dict[str, Panel], columns: list[_Column], what: str) -> Table:
    used = [panels[protocol] for _, protocol, _ in columns]
    shifts = [shift for shift in used[0].cells if all(shift in panel.cells for panel in used)]
    names = in_order(set.intersection(*(set(panel.contenders) for panel in used)))
    names = [name for name in names if all(_is_known(panels[p], shifts, name, measure) for _, p, measure in columns)]
    seeds = _common_seeds(panels, columns, shifts, names)
    rows = [
        Row(
            [
                Text(name),
                *(Text(_mean(panels[p], shift, name, measure, seeds)) for shift in shifts for _, p, measure in columns),
            ],
            is_bound=name in (UNWEIGHTED, *TOLD),
        )
        for name in names
    ]
    noun = "seed" if len(seeds) == 1 else "seeds"
    caption = f"{panel_title(*place)}: {what}. Mean over {noun} {seed_list(seeds)}."
    groups = [("", 1), *((shift, len(columns)) for shift in shifts)]
    return Table(caption, ["contender", *(heading for _ in shifts for heading, _, _ in columns)], rows, groups)


def _knows(panel: Panel, measure: str) -> bool:
    """Whether every cell knows the measure for FIX, so that the table has its first row."""
    return all(cell.common_seeds(UNWEIGHTED, measure=measure) for cell in panel.cells.values())


def _is_known(panel: Panel, shifts: list[str], name: str, measure: str) -> bool:
    return any(panel.cells[shift].common_seeds(name, measure=measure) for shift in shifts)


def _common_seeds(panels: dict[str, Panel], columns: list[_Column], shifts: list[str], names: list[str]) -> list[int]:
    known = [
        set(panels[protocol].cells[shift].common_seeds(name, measure=measure))
        for _, protocol, measure in columns
        for shift in shifts
        for name in names
        if name in panels[protocol].cells[shift].entries
    ]
    return sorted(set.intersection(*known)) if known else []


def _mean(panel: Panel, shift: str, name: str, measure: str, seeds: list[int]) -> str:
    entry = panel.cells[shift].entries.get(name)
    values = entry.values(measure, seeds) if entry is not None and seeds else []
    return per_cent(fmean(values)) if values else DASH
