"""Decides which figures the rows allow, and draws them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from accous.exceptions import MissingExtraError
from accous.text import count
from accous_bench.reporting.aggregate import Aggregates
from accous_bench.reporting.cells import ORACLE, UNWEIGHTED, Cell, Panel, make_panels, split_regret
from accous_bench.reporting.curves import Curve, WeightMap
from accous_bench.reporting.document import Picture
from accous_bench.reporting.regret import regret_series
from accous_bench.reporting.wording import dataset_title, drawn

if TYPE_CHECKING:
    from accous_bench.reporting.figure_style import Drawing

__all__ = ["Figures", "draw_figures", "require_plotting"]

_NATURAL = "natural"
_PORTRAITS = "yearbook"
_NO_PORTRAITS = (
    " The paper's figure of this kind (section 'Comparison on Real-world Data', Case Study) is on Yearbook, portraits "
    "in order of time, whose images have to be got from their authors. This is the same figure on tables of numbers "
    "in order of time, not on images."
)


class Figures(NamedTuple):
    """Figures by section: comparisons, drift, learners and regret; and what was drawn, by name."""

    comparison: list[Picture]
    drift: list[Picture]
    learners: list[Picture]
    regret: list[Picture]
    drawings: dict[str, Drawing]


def require_plotting() -> None:
    """Raise an error that says what to install if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtraError("Figures need matplotlib: pip install 'accous[plot]'.") from error


def draw_figures(aggregates: Aggregates) -> Figures:
    """Draw every figure that the aggregates have data for.

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    """
    require_plotting()
    from accous_bench.reporting.figure_style import drawing

    for_tables, for_regret = split_regret(aggregates.outcomes)
    sections = (
        _comparisons(make_panels(for_tables)),
        _drift(aggregates.curves),
        _learners(aggregates),
        _regret(for_regret),
    )
    drawings: dict[str, Drawing] = {}
    pictures: list[list[Picture]] = []
    for section in sections:
        pictures.append([])
        for picture, draw in section:
            drawings[picture.name] = drawing(draw, picture.name)
            pictures[-1].append(picture)
    comparison, drift, learners, regret = pictures
    return Figures(comparison, drift, learners, regret, drawings)


_Drawn = Iterator[tuple[Picture, Callable[[], Any]]]


def _file_name(*parts: object) -> str:
    """Reduce a name to letters, digits and dashes: users choose the names of data sets."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", str(part)).strip("-").lower() or "x" for part in parts)


def _comparisons(panels: list[Panel]) -> _Drawn:
    from accous_bench.reporting.figure_comparison import draw_comparison

    shown = [
        panel for panel in panels if any(entry.done for cell in panel.cells.values() for entry in cell.entries.values())
    ]
    simulated = [panel for panel in shown if set(panel.cells) != {_NATURAL}]
    for place in dict.fromkeys((panel.dataset, panel.n_reference) for panel in simulated):
        chosen = _of_one_protocol([panel for panel in simulated if (panel.dataset, panel.n_reference) == place])
        grid = [
            [(f"{drawn(shift)}, $N_t$ = {one.batch_size}", cell) for shift, cell in one.cells.items()] for one in chosen
        ]
        title = dataset_title(place[0])
        caption = f"{title}: errors of the contenders under each shift, between FIX and the oracle."
        yield Picture(_file_name("comparison", *place), caption), partial(draw_comparison, grid)
        if all(_has_risks(cell) for row in grid for _, cell in row):
            caption = f"{title}: exact risks, of each round's model on fresh rows, between FIX and the oracle."
            yield Picture(_file_name("risk", *place), caption), partial(draw_comparison, grid, measure="risk")
    natural = [panel for panel in shown if set(panel.cells) == {_NATURAL}]
    if natural:
        row = [
            (f"{drawn(dataset_title(one.dataset))}, $N_t$ = {one.batch_size}", one.cells[_NATURAL]) for one in natural
        ]
        grid = [row[start : start + 3] for start in range(0, len(row), 3)]
        caption = "Errors of the contenders on data with natural drift, where the oracle is not known."
        yield Picture("comparison-natural", caption), partial(draw_comparison, grid, shares_errors=False)


def _of_one_protocol(panels: list[Panel]) -> list[Panel]:
    """Keep the panels of the protocol that comes first in the report."""
    return [panel for panel in panels if panel.protocol == panels[0].protocol]


def _has_risks(cell: Cell) -> bool:
    return all(name in cell.entries and cell.entries[name].values("risk") for name in (UNWEIGHTED, ORACLE))


def _drift(curves: list[Curve]) -> _Drawn:
    from accous_bench.reporting.figure_drift import draw_drift

    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        if curve.key.shift == _NATURAL and "error" in curve.series:
            title = f"{drawn(dataset_title(curve.key.dataset))}, $N_t$ = {curve.key.batch_size}"
            panels.setdefault(title, []).append(curve)
    if panels:
        caption = "Error over time on data with natural drift, averaged over seeds; beside it, the difference from FIX."
        if not any(curve.key.dataset.startswith(_PORTRAITS) for curve in curves):
            caption += _NO_PORTRAITS
        yield Picture("drift", caption), partial(draw_drift, panels)


def _learners(aggregates: Aggregates) -> _Drawn:
    from accous_bench.reporting.figure_switches import draw_switches, switch_words
    from accous_bench.reporting.figure_weights import draw_weights, weight_words

    for weight_map in sorted(
        _with_their_length(aggregates.weight_maps), key=lambda one: (one.key.dataset, one.period or 0)
    ):
        key = weight_map.key
        caption = (
            f"{dataset_title(key.dataset)}, {key.shift}, N_t = {key.batch_size}: weights of {weight_map.contender}'s "
            f"learners by interval length, mean of {count(weight_map.n_seeds, 'seed')}. {weight_words(weight_map)}"
        )
        yield (
            Picture(_file_name("weights", *key[:4], weight_map.n_rounds, weight_map.contender), caption),
            partial(draw_weights, weight_map),
        )
    by_cell: dict[Any, list[Curve]] = {}
    for curve in aggregates.curves:
        if curve.key.shift != _NATURAL:
            by_cell.setdefault((curve.key, curve.n_rounds), []).append(curve)
    for (key, n_rounds), curves in by_cell.items():
        caption = (
            f"{dataset_title(key.dataset)}, {key.shift}, N_t = {key.batch_size}: error and loss of the ratio around "
            f"the switches, which come every {curves[0].period} rounds; mean of {count(curves[0].n_seeds, 'seed')}. "
            f"{switch_words(curves)}"
        ).rstrip()
        yield Picture(_file_name("switches", *key[:4], n_rounds), caption), partial(draw_switches, curves)


def _with_their_length(weight_maps: list[WeightMap]) -> list[WeightMap]:
    """Return the maps of streams whose period is the length of an interval; all of them if there is none.

    No learner can match another period, so where the weight peaks then says nothing.
    """
    return [one for one in weight_maps if one.period in one.lengths] or weight_maps


def _regret(outcomes: list[Any]) -> _Drawn:
    from accous_bench.reporting.figure_regret import draw_regret

    series = regret_series(outcomes)
    for place in dict.fromkeys(one.key[:3] for one in series):
        chosen = [one for one in series if one.key[:3] == place]
        caption = (
            f"{dataset_title(place[0])}: dynamic regret against the number of rounds, on logarithmic axes, with the "
            "fitted exponent p (± standard error), the theory's slope and the term T / N_0 with the constant 1."
        )
        yield Picture(_file_name("regret", *place), caption), partial(draw_regret, chosen)
