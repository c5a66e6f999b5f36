"""Figure: errors over time on streams with natural drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from accous.arrays import FloatArray
from accous_bench.reporting.cells import UNWEIGHTED, in_order
from accous_bench.reporting.curves import Curve
from accous_bench.reporting.figure_style import line_style, new_figure, tidy
from accous_bench.reporting.wording import drawn

__all__ = ["draw_drift"]

_SMOOTHED_POINTS = 7


def draw_drift(panels: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw the errors of all contenders, and what each gains or loses compared with the unweighted classifier.

    Parameters
    ----------
    panels : mapping of str to sequence of Curve
        By title, one row of the figure each.

    Returns
    -------
    Figure
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
