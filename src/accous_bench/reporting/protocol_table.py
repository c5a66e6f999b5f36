"""The table that puts the protocols side by side: the same contenders and streams, scored in different ways."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from accous_bench.protocols import PROTOCOLS
from accous_bench.reporting.cells import TOLD, UNWEIGHTED, Panel, in_order
from accous_bench.reporting.document import DASH, Row, Table, Text
from accous_bench.reporting.wording import panel_title, per_cent, seed_list

__all__ = ["protocol_tables"]


def protocol_tables(panels: Iterable[Panel]) -> list[Table]:
    """Return a table for every data set and batch size that was run under more than one protocol."""
    groups: dict[tuple[str, int, int], dict[str, Panel]] = {}
    for panel in panels:
        if panel.protocol in PROTOCOLS:
            groups.setdefault((panel.dataset, panel.n_reference, panel.batch_size), {})[panel.protocol] = panel
    return [_table(place, group) for place, group in groups.items() if len(group) > 1]


def _table(place: tuple[str, int, int], panels: dict[str, Panel]) -> Table:
    protocols = [protocol for protocol in PROTOCOLS if protocol in panels]
    shifts = [
        shift for shift in panels[protocols[0]].cells if all(shift in panels[protocol].cells for protocol in protocols)
    ]
    names = in_order(set.intersection(*(set(panels[protocol].contenders) for protocol in protocols)))
    seeds = _common_seeds(panels, protocols, shifts, names)
    rows = [
        Row(
            [Text(name), *(Text(_error(panels[p], shift, name, seeds)) for shift in shifts for p in protocols)],
            is_bound=name in (UNWEIGHTED, *TOLD),
        )
        for name in names
    ]
    caption = (
        f"{panel_title(*place)}: error in % under each protocol, mean over "
        f"{'seed' if len(seeds) == 1 else 'seeds'} {seed_list(seeds)}."
    )
    groups = [("", 1), *((shift, len(protocols)) for shift in shifts)]
    return Table(caption, ["contender", *(p.replace("_", " ") for _ in shifts for p in protocols)], rows, groups)


def _common_seeds(panels: dict[str, Panel], protocols: list[str], shifts: list[str], names: list[str]) -> list[int]:
    known = [
        set(panels[protocol].cells[shift].entries[name].done)
        for protocol in protocols
        for shift in shifts
        for name in names
        if name in panels[protocol].cells[shift].entries
    ]
    return sorted(set.intersection(*known)) if known else []


def _error(panel: Panel, shift: str, name: str, seeds: list[int]) -> str:
    entry = panel.cells[shift].entries.get(name)
    errors = entry.values("error", seeds) if entry is not None and seeds else []
    return per_cent(fmean(errors)) if errors else DASH
