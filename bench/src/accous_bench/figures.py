"""The figures of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO, StringIO
from statistics import fmean, stdev
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from accous.arrays import FloatArray
from accous.text import count
from accous_bench.aggregates import SHOWN_ROUNDS, Aggregates, CellKey, Curve, Outcome
from accous_bench.contenders import ENSEMBLE, LIMIT, ORACLE, OURS, UNWEIGHTED, in_order
from accous_bench.paper import is_papers_length, paper_result
from accous_bench.problems import NATURAL
from accous_bench.statistics import Cell, Panel, RegretSeries, make_panels, regret_series, split_regret, theory_exponent
from accous_bench.tables import dataset_title, file_name

__all__ = [
    "SETTINGS", "Figure", "draw_figures", "drawing", "line_style", "new_figure",
    "possible_figures", "since_switch", "tidy",
]  # fmt: skip

# --- style ---

# Okabe and Ito's colours; line styles differ as well, for printing in grey.
_BLUE, _SKY, _ORANGE, _RED, _GREEN, _PINK = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7"
_LINES: dict[str, dict[str, Any]] = {
    OURS: {"color": _BLUE, "linewidth": 2.4, "zorder": 5},
    "Accous (paper)": {"color": _SKY, "linewidth": 2.0, "linestyle": (0, (5, 1)), "zorder": 5},
    "Accous (literal)": {"color": _BLUE, "linewidth": 1.4, "linestyle": (0, (2, 1)), "zorder": 5},
    "KMM (no ridge)": {"color": _GREEN, "linewidth": 1.0, "linestyle": (0, (3, 1, 1, 1))},
    "LR (Newton step)": {"color": _PINK, "linewidth": 1.0, "linestyle": (0, (1, 1))},
    "OLRE": {"color": _ORANGE, "linewidth": 1.4, "linestyle": (0, (4, 1, 1, 1)), "zorder": 6},
    UNWEIGHTED: {"color": _RED, "linewidth": 1.5, "linestyle": (0, (1, 1)), "zorder": 4},
    LIMIT: {"color": "#444444", "linewidth": 1.2, "linestyle": (0, (1, 2)), "zorder": 7},
    ORACLE: {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 7},
    "DANN": {"color": _PINK, "linewidth": 1.0, "linestyle": "-"},
    "KMM": {"color": _GREEN, "linewidth": 1.0, "linestyle": "-"},
    "KLIEP": {"color": _GREEN, "linewidth": 1.0, "linestyle": (0, (5, 2))},
    "uLSIF": {"color": _GREEN, "linewidth": 1.0, "linestyle": (0, (1, 1))},
    "LR": {"color": _PINK, "linewidth": 1.0, "linestyle": (0, (3, 1, 1, 1))},
}
_OTHER = {"color": "#777777", "linewidth": 1.0}
SETTINGS: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",
}


class Figure(NamedTuple):
    """A figure as files: their name, what it shows, the text of an SVG and the bytes of a PNG."""

    name: str
    caption: str
    svg: str
    png: bytes


def drawn(name: str) -> str:
    """Escape a user's name for a figure, where dollar signs would start a formula."""
    return name.replace("$", r"\$")


def line_style(contender: str) -> dict[str, Any]:
    """Colour, width and dashes of a contender's line, the same in all figures; a variant has its family's colour."""
    family = _LINES.get(contender.partition(" (")[0], _OTHER)
    return dict(_LINES.get(contender, _OTHER | {"color": family["color"]}))


def new_figure(width: float, height: float) -> MplFigure:
    """Return an empty figure, sizes in inches."""
    return MplFigure(figsize=(width, height), layout="constrained", facecolor="white")


def tidy(axes: Axes) -> None:
    """Keep only the axes that show numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)


def drawing(draw: Callable[[], MplFigure], name: str) -> tuple[str, bytes]:
    """Draw a figure in the common style and return it as SVG and PNG; the same numbers give the same files."""
    svg, png = StringIO(), BytesIO()
    with mpl.rc_context(SETTINGS | {"svg.hashsalt": name}):
        figure = draw()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # as laid out for the first file
        figure.savefig(png, format="png", metadata={"Software": None})
    return svg.getvalue(), png.getvalue()


# --- comparison ---


def draw_comparison(grid: list[list[tuple[str, Cell]]]) -> MplFigure:
    """Draw a dot with the standard deviation of the errors for each contender, a panel for each cell.

    Parameters
    ----------
    grid : list of lists of (str, Cell)
        Titles and cells, row by row.
    """
    n_columns = max(len(row) for row in grid)
    cells = [cell for row in grid for _, cell in row]
    names = _names(cells)
    height = len(grid) * (0.75 + 0.24 * len(names)) + 0.6
    figure = new_figure(max(6.5, 1.3 + 2.4 * n_columns), height)
    axes = figure.subplots(len(grid), n_columns, squeeze=False, sharey=True, sharex=True)
    for row, titled in enumerate(grid):
        for column, (title, cell) in enumerate(titled):
            _draw_cell(axes[row, column], cell, names)
            axes[row, column].set_title(title)
        for column in range(len(titled), n_columns):
            axes[row, column].set_visible(False)
    for panel in axes[-1]:
        panel.set_xlabel("error, %")
    has_paper = any(_published(cell, name) for cell in cells for name in names)
    figure.legend(handles=_legend(cells, has_paper), loc="outside lower center", ncols=4 if n_columns > 2 else 2)
    return figure


def _names(cells: list[Cell]) -> list[str]:
    known = (name for cell in cells for name in cell.entries if _values(cell, name))
    return [name for name in in_order(dict.fromkeys(known)) if name not in (UNWEIGHTED, ORACLE)]


def _published(cell: Cell, name: str) -> float | None:
    # With streams of another length, the paper's numbers belong to another experiment and may be far off.
    if not is_papers_length(cell.n_rounds):
        return None
    found = paper_result(cell.key.dataset, cell.key.shift, cell.key.batch_size, name)
    return None if found is None else found.mean


def _values(cell: Cell, name: str) -> list[float]:
    """Return one value per seed in per cent; none if the stream had another length, which is another experiment."""
    entry = cell.entries.get(name)
    if entry is None or entry.n_rounds != cell.n_rounds:
        return []
    seeds = cell.seeds if cell.is_complete(name) else None  # the same seeds for all, as in the tables
    return [100.0 * value for value in entry.values("error", seeds)]


def _draw_cell(axes: Axes, cell: Cell, names: list[str]) -> None:
    bounds = {name: fmean(found) for name in (UNWEIGHTED, ORACLE) if (found := _values(cell, name))}
    if len(bounds) == 2 and bounds[ORACLE] < bounds[UNWEIGHTED]:
        axes.axvspan(bounds[ORACLE], bounds[UNWEIGHTED], color="#EEF2F6", zorder=0)
    for name, bound in bounds.items():
        axes.axvline(bound, **line_style(name))
    for place, name in enumerate(names):
        found = _values(cell, name)
        if found:
            _draw_dot(axes, place, name, found, is_complete=cell.is_complete(name))
        published = _published(cell, name)
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
    axes.plot(mean, place, "o", markersize=size, alpha=opacity, zorder=6, color=color)


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


# --- drift ---

_SMOOTHED_POINTS = 7


def draw_drift(panels: Mapping[str, Sequence[Curve]]) -> MplFigure:
    """Draw the errors of all contenders, and what each gains or loses compared with the unweighted classifier.

    Parameters
    ----------
    panels : mapping of str to sequence of Curve
        By title, one row of the figure each.
    """
    figure = new_figure(10.0, 2.3 * len(panels) + 0.8)
    axes = figure.subplots(len(panels), 2, squeeze=False, sharex="row", width_ratios=[1.25, 1.0])
    handles: dict[str, Any] = {}
    for (errors, differences), (title, curves) in zip(axes, panels.items(), strict=True):
        fixed = next((curve for curve in curves if curve.contender == UNWEIGHTED), None)
        for curve in curves:
            handles[curve.contender] = _draw(errors, differences, curve, fixed)
        errors.set_title(title)
        errors.set_ylabel("error, %")
        differences.set_title(f"minus {UNWEIGHTED}")
        differences.set_ylabel("points")
        for panel in (errors, differences):
            panel.margins(x=0.01)
            tidy(panel)
    for panel in axes[-1]:
        panel.set_xlabel(f"round (mean of {_SMOOTHED_POINTS} neighbouring blocks)")
    names = in_order(handles)
    labels = [drawn(name) for name in names]
    figure.legend([handles[name] for name in names], labels, loc="outside lower center", ncols=min(9, len(names)))
    return figure


def _draw(errors: Axes, differences: Axes, curve: Curve, fixed: Curve | None) -> Line2D:
    values, style = np.array(curve.series["error"], dtype=float), line_style(curve.contender)
    (line,) = errors.plot(curve.rounds, 100.0 * _smoothed(values), **style)
    if fixed is not None and fixed.rounds == curve.rounds:
        change = 100.0 * _smoothed(values - np.array(fixed.series["error"], dtype=float))
        differences.plot(curve.rounds, change, **style)
    return line


def _smoothed(values: FloatArray) -> FloatArray:
    """Return the mean of each value's neighbourhood, which is shorter at both ends."""
    reach = _SMOOTHED_POINTS // 2
    return np.array([np.mean(values[max(0, place - reach) : place + reach + 1]) for place in range(len(values))])


# --- switches ---


def draw_switches(curves: Sequence[Curve]) -> MplFigure:
    """Draw errors above and losses below; left in time, right averaged over all switches.

    Parameters
    ----------
    curves : sequence of Curve
        Curves of one cell, all with the same period.
    """
    measure = "risk" if all("risk" in curve.series for curve in curves) else "error"
    has_losses = any("estimator_loss" in curve.series for curve in curves)
    series = [(measure, 100.0, "exact risk, %" if measure == "risk" else "error, %")]
    series += [("estimator_loss", 1.0, "loss of the ratio")] if has_losses else []
    figure = new_figure(9.5, 2.1 * len(series) + 1.0)
    axes = figure.subplots(len(series), 2, squeeze=False, width_ratios=[2.6, 1.0], sharey="row", sharex="col")
    for (name, factor, label), (over_time, after) in zip(series, axes, strict=True):
        for curve in curves:
            values = curve.values(name)
            if values is not None:
                _draw_switched(over_time, after, curve, factor * values)
        over_time.set_ylabel(label)
        _shade(over_time, curves[0])
        for panel in (over_time, after):
            tidy(panel)
    last = curves[0].rounds[-1]
    axes[0, 0].set_title(f"Rounds {max(0, last - SHOWN_ROUNDS) + 1:,} to {last:,}")
    axes[0, 1].set_title("Mean over the switches")
    axes[-1, 0].set_xlabel("round (shaded: every other segment)")
    axes[-1, 1].set_xlabel("rounds since the switch")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_switched(over_time: Axes, after: Axes, curve: Curve, values: FloatArray) -> None:
    over_time.plot(curve.rounds, values, label=curve.contender, **line_style(curve.contender))
    if curve.period:
        offsets, means = since_switch(np.array(curve.rounds), values, curve.period)
        after.plot(offsets, means, **line_style(curve.contender))


def since_switch(rounds: FloatArray, values: FloatArray, period: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the values by rounds since the last switch; the part before the first switch is left out.

    Parameters
    ----------
    rounds : array
        The last round of each block that a value is the mean of.
    values : array
    period : int
        Rounds between two switches.

    Returns
    -------
    offsets, means : array
        Ascending; offset 0 is the first round of a segment.
    """
    offsets = (rounds - 1) % period
    is_known = ~np.isnan(values) & (rounds > period)
    found = np.unique(offsets[is_known])
    return found, np.array([values[is_known & (offsets == offset)].mean() for offset in found])


def _shade(axes: Axes, curve: Curve) -> None:
    """Shade every other segment."""
    if not curve.period:
        return
    first, last = curve.rounds[0], curve.rounds[-1]
    for start in range(curve.period, last, 2 * curve.period):
        if start + curve.period > first:
            axes.axvspan(max(start, first) + 0.5, min(start + curve.period, last) + 0.5, color="#EFEBDF", zorder=0)
    axes.set_xlim(first, last)


# --- weights ---


def draw_weights(curve: Curve) -> MplFigure:
    """Draw a heat map of the weights, and the mean weight of each length while it is in use.

    Parameters
    ----------
    curve : Curve
        With the weights of learners as its series.
    """
    figure = new_figure(9.0, 3.6)
    heat, bars = figure.subplots(1, 2, width_ratios=[3.2, 1.0], sharey=True)
    lengths, weights = np.array(curve.series["length"]), np.array(curve.series["weight"]).T
    edges = np.concatenate(([0.0], curve.rounds))
    # An interval of length n begins in round n for the first time: before, there is nothing to show.
    is_absent = edges[1:][None, :] < lengths[:, None]
    heights = np.arange(len(lengths) + 1) - 0.5
    picture = heat.pcolormesh(edges, heights, np.ma.masked_where(is_absent, weights), cmap="Blues", vmin=0.0)
    picture.set_rasterized(True)
    heat.set_facecolor("#F4F4F4")
    heat.set_yticks(np.arange(len(lengths)), [f"{length:,}" for length in lengths])
    heat.set(xlabel="round", ylabel="interval length")
    heat.set_title(drawn(f"Weight of {curve.contender}'s learners under {curve.key.shift}"))
    heat.grid(visible=False)
    figure.colorbar(picture, ax=heat, format=PercentFormatter(1.0, decimals=0), pad=0.01)
    means = np.array(curve.series["mean_weight"])
    colors = ["#0072B2" if mean == means.max() else "#9DBFD6" for mean in means]
    bars.barh(np.arange(len(lengths)), means, color=colors)
    bars.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    bars.set_title("mean while in use")
    bars.set_xlabel("weight")
    bars.tick_params(labelleft=False)
    bars.grid(visible=False, axis="y")
    if curve.period:
        height = float(np.interp(np.log2(curve.period), np.log2(lengths), np.arange(len(lengths))))
        for axes in (heat, bars):
            axes.axhline(height, color="#D55E00", linewidth=1.4, linestyle=(0, (4, 2)))
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
        heat.annotate(f"M = {curve.period:,}", (1.0, height), (-4, 4), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", va="bottom", color="#D55E00", bbox=box)  # fmt: skip
    for axes in (heat, bars):
        tidy(axes)
    return figure


# --- regret ---

_THEORY = {1 / 3: "$T^{1/3}$", 2 / 3: "$T^{2/3}$"}


def draw_regret(series: Sequence[RegretSeries]) -> MplFigure:
    """Draw the regret against T on logarithmic axes, a panel for each shift.

    Parameters
    ----------
    series : sequence of RegretSeries
        Series of one data set.
    """
    shifts = list(dict.fromkeys(one.key.shift for one in series))
    figure = new_figure(1.0 + 4.2 * len(shifts), 3.9)
    axes = figure.subplots(1, len(shifts), squeeze=False, sharey=True)[0]
    for panel, shift in zip(axes, shifts, strict=True):
        shown = [one for one in series if one.key.shift == shift]
        for one in shown:
            _draw_series(panel, one)
        lengths = sorted({length for one in shown for length in one.lengths})
        _draw_theory(
            panel,
            next((one for one in shown if one.contender in (OURS, ENSEMBLE)), shown[0]),
            np.array(lengths, dtype=float),
        )
        panel.set(xscale="log", yscale="log", xlabel="rounds T", title=drawn(shift))
        panel.set_xticks(lengths, [f"{length:,}" for length in lengths])
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        panel.legend(fontsize=8, frameon=True, framealpha=0.95, edgecolor="none")
        tidy(panel)
    axes[0].set_ylabel("cumulative dynamic regret of the ratio")
    return figure


def _draw_series(axes: Axes, series: RegretSeries) -> None:
    style, lengths, means = line_style(series.contender), np.array(series.lengths, dtype=float), np.array(series.means)
    label = drawn(series.contender)
    if series.exponent is not None:
        error = "" if series.standard_error is None else rf" \pm {series.standard_error:.2f}"
        label += f": $p = {series.exponent:.2f}{error}$"
        # Through the middle of the points, in logarithms.
        level = np.exp(np.mean(np.log(np.maximum(means, 1e-12))) - series.exponent * np.mean(np.log(lengths)))
        axes.plot(lengths, level * lengths**series.exponent, color=style["color"], linewidth=1.0)
    stds = [std or 0.0 for std in series.stds]
    # Downwards no further than a logarithmic axis allows.
    below = np.minimum(stds, 0.9 * np.maximum(means, 0.0))
    axes.errorbar(lengths, means, yerr=[below, stds], fmt="none", ecolor=style["color"], elinewidth=1.2, capsize=2)
    axes.plot(lengths, means, "o", markersize=6, label=label, color=style["color"])


def _draw_theory(axes: Axes, anchor: RegretSeries, lengths: FloatArray) -> None:
    """Draw the theory's slope through the anchor's first point, and T / N_0 with constant 1, as its own is unknown."""
    theory = theory_exponent(anchor.key.shift)
    if theory is not None:
        bound = anchor.means[0] * (lengths / anchor.lengths[0]) ** theory
        with_logs = bound * (np.log(lengths) / np.log(anchor.lengths[0])) ** 2
        label = f"theory: {_THEORY[theory]} (through the first point)"
        axes.plot(lengths, bound, color="black", linestyle=(0, (4, 3)), linewidth=1.2, label=label)
        label = rf"with logarithms: {_THEORY[theory]}$\,\log^2 T$"
        axes.plot(lengths, with_logs, color="black", linestyle=(0, (1, 1)), linewidth=1.0, label=label)
    if anchor.key.n_reference:
        label = f"$T / N_0$, $N_0$ = {anchor.key.n_reference:,}"
        term = lengths / anchor.key.n_reference
        axes.plot(lengths, term, color="#777777", linestyle=(0, (1, 1)), linewidth=1.4, label=label)


# --- which of them the numbers allow ---

_Made = Iterator[tuple[str, str, Callable[[], MplFigure]]]
"""Name, caption, and how to draw it."""


def draw_figures(aggregates: Aggregates) -> list[Figure]:
    """Draw every figure that the aggregates have data for."""
    return [Figure(name, caption, *drawing(draw, name)) for name, caption, draw in possible_figures(aggregates)]


def possible_figures(aggregates: Aggregates) -> _Made:
    """Yield every figure that the aggregates have data for: its name, its caption, and how to draw it."""
    for_tables, for_regret = split_regret(aggregates.outcomes)
    yield from _comparisons(make_panels(for_tables))
    yield from _drift(aggregates.curves)
    yield from _weights(aggregates.learner_weights)
    yield from _switches(aggregates.curves)
    yield from _regret(for_regret)


def _comparisons(panels: list[Panel]) -> _Made:
    """Yield a figure for each data set, with a row of cells for each batch size."""
    simulated = [panel for panel in panels if set(panel.cells) != {NATURAL}]  # on natural drift no oracle is known
    shown = [panel for panel in simulated if any(map(_has_outcome, panel.cells.values()))]
    for place in dict.fromkeys((panel.dataset, panel.n_reference) for panel in shown):
        chosen = [panel for panel in shown if (panel.dataset, panel.n_reference) == place]
        grid = [
            [(f"{drawn(shift)}, $N_t$ = {one.batch_size}", cell) for shift, cell in one.cells.items()]
            for one in chosen
            if one.protocol == chosen[0].protocol
        ]
        caption = f"{dataset_title(place[0])}: errors between FIX and the oracle"
        yield file_name("comparison", *place), caption, partial(draw_comparison, grid)


def _has_outcome(cell: Cell) -> bool:
    return any(entry.done for entry in cell.entries.values())


def _drift(curves: list[Curve]) -> _Made:
    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        if curve.key.shift == NATURAL and "error" in curve.series:
            title = f"{drawn(dataset_title(curve.key.dataset))}, $N_t$ = {curve.key.batch_size}"
            panels.setdefault(title, []).append(curve)
    if panels:
        yield "drift", "Error over time under natural drift, and the difference from FIX", partial(draw_drift, panels)


def _weights(curves: list[Curve]) -> _Made:
    # No learner can match a period that is not the length of an interval: where the weight peaks then says nothing.
    matching = [one for one in curves if one.period in one.series["length"]] or curves
    for one in sorted(matching, key=lambda one: (one.key.dataset, one.period or 0)):
        key = one.key
        name = file_name("weights", *key[:4], one.n_rounds, one.contender)
        caption = (
            f"{dataset_title(key.dataset)}, {key.shift}, N_t = {key.batch_size}: weights of {one.contender}'s learners "
            f"by interval length, mean of {count(one.n_seeds, 'seed')}"
        )
        yield name, caption, partial(draw_weights, one)


def _switches(curves: list[Curve]) -> _Made:
    by_cell: dict[tuple[CellKey, int], list[Curve]] = {}
    for curve in curves:
        if curve.key.shift != NATURAL:
            by_cell.setdefault((curve.key, curve.n_rounds), []).append(curve)
    for (key, n_rounds), found in by_cell.items():
        caption = (
            f"{dataset_title(key.dataset)}, {key.shift}, N_t = {key.batch_size}: error and loss of the ratio around "
            f"the switches, every {found[0].period} rounds; mean of {count(found[0].n_seeds, 'seed')}"
        )
        yield file_name("switches", *key[:4], n_rounds), caption, partial(draw_switches, found)


def _regret(outcomes: list[Outcome]) -> _Made:
    series = regret_series(outcomes)
    for place in dict.fromkeys(one.key[:3] for one in series):
        chosen = [one for one in series if one.key[:3] == place]
        caption = f"{dataset_title(place[0])}: dynamic regret against the number of rounds, with the theory's slope"
        yield file_name("regret", *place), caption, partial(draw_regret, chosen)
