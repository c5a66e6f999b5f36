"""Figure: error and estimator loss around the switches of a square shift, for the ensemble and a single learner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accous.arrays import FloatArray
from accous_bench.reporting.curves import LEARNERS, SHOWN_ROUNDS, Curve
from accous_bench.reporting.figure_style import line_style, new_figure, tidy

__all__ = ["draw_switches", "since_switch", "switch_words"]


def draw_switches(curves: Sequence[Curve]) -> Figure:
    """Draw errors above and losses below; left in time, right averaged over all switches.

    Parameters
    ----------
    curves : sequence of Curve
        Curves of one cell, all with the same period.

    Returns
    -------
    Figure
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
                _draw(over_time, after, curve, factor * values)
        over_time.set_ylabel(label)
        _shade(over_time, curves[0])
        for panel in (over_time, after):
            tidy(panel)
    last = curves[0].rounds[-1]
    axes[0, 0].set_title(f"Rounds {max(0, last - SHOWN_ROUNDS) + 1:,} to {last:,}")
    axes[0, 1].set_title("Mean over the switches")
    axes[-1, 0].set_xlabel("round (shaded: every other stretch)")
    axes[-1, 1].set_xlabel("rounds since the switch")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw(over_time: Axes, after: Axes, curve: Curve, values: FloatArray) -> None:
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
        Ascending; offset 0 is the first round of a stretch.
    """
    offsets = (rounds - 1) % period
    is_known = ~np.isnan(values) & (rounds > period)
    found = np.unique(offsets[is_known])
    return found, np.array([values[is_known & (offsets == offset)].mean() for offset in found])


def switch_words(curves: Sequence[Curve]) -> str:
    """Describe how the learners do in the first fifth of the rounds after a switch, and in the rest."""
    words = []
    for curve in curves:
        name = "risk" if "risk" in curve.series else "error"
        values = curve.values(name)
        if curve.period is None or values is None or curve.contender not in LEARNERS:
            continue
        offsets, means = since_switch(np.array(curve.rounds), values, curve.period)
        is_early = offsets < curve.period / 5
        if is_early.any() and not is_early.all():
            early, late = 100.0 * means[is_early].mean(), 100.0 * means[~is_early].mean()
            words.append(f"{curve.contender} {early:.1f} % and {late:.1f} %")
    if not words:
        return ""
    return f"{name.capitalize()} in the first fifth of the rounds after a switch, and in the rest: {'; '.join(words)}."


def _shade(axes: Axes, curve: Curve) -> None:
    """Shade every other stretch."""
    if not curve.period:
        return
    first, last = curve.rounds[0], curve.rounds[-1]
    for start in range(curve.period, last, 2 * curve.period):
        if start + curve.period > first:
            axes.axvspan(max(start, first) + 0.5, min(start + curve.period, last) + 0.5, color="#EFEBDF", zorder=0)
    axes.set_xlim(first, last)
