"""Figure: errors of all contenders under each shift, between the unweighted classifier and the oracle."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from accous_bench.reporting.cells import ORACLE, OURS, UNWEIGHTED, Cell, in_order
from accous_bench.reporting.figure_style import line_style, marker_style, new_figure, tidy
from accous_bench.reporting.paper import is_papers_length, paper_result
from accous_bench.reporting.wording import drawn

__all__ = ["draw_comparison"]


def draw_comparison(
    grid: list[list[tuple[str, Cell]]], *, measure: str = "error", shares_errors: bool = True
) -> Figure:
    """Draw a dot with the standard deviation for each contender, a panel for each cell.

    Parameters
    ----------
    grid : list of lists of (str, Cell)
        Titles and cells, row by row.
    measure : str, default="error"
        Or ``"risk"``; the paper has no such number.
    shares_errors : bool, default=True
        Whether all panels have the same axis of errors.

    Returns
    -------
    Figure
    """
    n_columns = max(len(row) for row in grid)
    cells = [cell for row in grid for _, cell in row]
    names = _names(cells, measure)
    height = len(grid) * (0.75 + 0.24 * len(names)) + 0.6
    figure = new_figure(max(6.5, 1.3 + 2.4 * n_columns), height)
    axes = figure.subplots(len(grid), n_columns, squeeze=False, sharey=True, sharex=shares_errors)
    for row, titled in enumerate(grid):
        for column, (title, cell) in enumerate(titled):
            _draw_cell(axes[row, column], cell, names, measure)
            axes[row, column].set_title(title)
        for column in range(len(titled), n_columns):
            axes[row, column].set_visible(False)
    for panel in axes[-1]:
        panel.set_xlabel("error, %" if measure == "error" else "exact risk, %")
    has_paper = any(_published(cell, name, measure) for cell in cells for name in names)
    figure.legend(handles=_legend(cells, has_paper), loc="outside lower center", ncols=4 if n_columns > 2 else 2)
    return figure


def _names(cells: list[Cell], measure: str) -> list[str]:
    known = (name for cell in cells for name in cell.entries if _values(cell, name, measure))
    return [name for name in in_order(dict.fromkeys(known)) if name not in (UNWEIGHTED, ORACLE)]


def _published(cell: Cell, name: str, measure: str) -> float | None:
    # With streams of another length, the paper's numbers belong to another experiment and may be far off.
    if measure != "error" or not is_papers_length(cell.n_rounds):
        return None
    found = paper_result(cell.key.dataset, cell.key.shift, cell.key.batch_size, name)
    return None if found is None else found.mean


def _values(cell: Cell, name: str, measure: str) -> list[float]:
    """Return one value per seed in per cent; none if the stream had another length, which is another experiment."""
    entry = cell.entries.get(name)
    if entry is None or entry.n_rounds != cell.n_rounds:
        return []
    seeds = cell.seeds if cell.is_complete(name) else None  # the same seeds for all, as in the tables
    return [100.0 * value for value in entry.values(measure, seeds)]


def _draw_cell(axes: Axes, cell: Cell, names: list[str], measure: str) -> None:
    bounds = {name: fmean(found) for name in (UNWEIGHTED, ORACLE) if (found := _values(cell, name, measure))}
    if len(bounds) == 2 and bounds[ORACLE] < bounds[UNWEIGHTED]:
        axes.axvspan(bounds[ORACLE], bounds[UNWEIGHTED], color="#EEF2F6", zorder=0)
    for name, bound in bounds.items():
        axes.axvline(bound, **line_style(name))
    for place, name in enumerate(names):
        found = _values(cell, name, measure)
        if found:
            _draw_dot(axes, place, name, found, is_complete=cell.is_complete(name))
        published = _published(cell, name, measure)
        if published is not None:
            axes.plot(published, place, "d", markersize=5, markerfacecolor="none", markeredgecolor="#444444", zorder=8)
    axes.set_yticks(np.arange(len(names)), [drawn(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    tidy(axes)


def _draw_dot(axes: Axes, place: int, name: str, values: list[float], *, is_complete: bool) -> None:
    """Draw a dot; it is faint if it comes from fewer seeds than the others."""
    color, mean, std = line_style(name)["color"], fmean(values), stdev(values) if len(values) > 1 else 0.0
    size, opacity = (7.5 if name == OURS else 6.0), (1.0 if is_complete else 0.45)
    axes.errorbar(mean, place, xerr=std, fmt="none", ecolor=color, elinewidth=1.4, alpha=opacity, zorder=5)
    axes.plot(mean, place, markersize=size, linestyle="none", alpha=opacity, zorder=6, **marker_style(name))


def _legend(cells: list[Cell], has_paper: bool) -> list[Line2D]:
    """Return legend entries only for what is drawn."""
    label = "ours, ± std over seeds (faint: fewer seeds)"
    handles = [Line2D([], [], color="#555555", marker="o", linestyle="-", label=label)]
    if has_paper:
        hollow: Any = {"marker": "d", "markerfacecolor": "none", "markeredgecolor": "#444444", "linestyle": "none"}
        handles.append(Line2D([], [], label="the paper's", **hollow))
    for name, label in ((UNWEIGHTED, "FIX, never weighted"), (ORACLE, "oracle, true ratio")):
        if any(name in cell.entries for cell in cells):
            handles.append(Line2D([], [], label=label, **line_style(name)))
    return handles
