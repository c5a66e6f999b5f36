"""Figure: growth of the regret with the length of the stream, compared with the theory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from accous.arrays import FloatArray
from accous_bench.reporting.cells import ENSEMBLE, OURS
from accous_bench.reporting.figure_style import line_style, marker_style, new_figure, tidy
from accous_bench.reporting.regret import RegretSeries, theory_exponent
from accous_bench.reporting.wording import drawn

__all__ = ["draw_regret"]

_THEORY = {1 / 3: "$T^{1/3}$", 2 / 3: "$T^{2/3}$"}


def draw_regret(series: Sequence[RegretSeries]) -> Figure:
    """Draw the regret against T on logarithmic axes, a panel for each shift.

    Parameters
    ----------
    series : sequence of RegretSeries
        Series of one data set.

    Returns
    -------
    Figure
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
        panel.legend(fontsize=8)
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
    axes.plot(lengths, means, linestyle="none", markersize=6, label=label, **marker_style(series.contender))


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
