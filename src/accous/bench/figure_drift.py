"""Figure: errors over time on streams that drift by nature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from accous.bench.curves import Curve
from accous.bench.figure_style import line_style, new_figure, tidy
from accous.core.arrays import FloatArray

__all__ = ["draw_drift"]

_SMOOTHED_POINTS = 7


def draw_drift(panels: Mapping[str, Sequence[Curve]]) -> Figure:
    """Draw the errors of all contenders, a panel for each data set.

    Parameters
    ----------
    panels : mapping of str to sequence of Curve
        By title.

    Returns
    -------
    Figure
    """
    figure = new_figure(9.0, 2.6 * len(panels) + 0.7)
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    handles = {}
    for panel, (title, curves) in zip(axes, panels.items(), strict=True):
        for curve in curves:
            values = curve.values("error")
            if values is not None:
                style = line_style(curve.contender)
                (line,) = panel.plot(curve.rounds, 100.0 * _smoothed(values), label=curve.contender, **style)
                handles[curve.contender] = line
        panel.set_title(title)
        panel.set_ylabel("error, %")
        panel.set_ylim(bottom=0.0)
        panel.margins(x=0.01)
        tidy(panel)
    axes[-1].set_xlabel(f"round (each point: mean of {_SMOOTHED_POINTS} neighbouring blocks of rounds)")
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(9, len(handles)))
    return figure


def _smoothed(values: FloatArray) -> FloatArray:
    """Mean of each value's neighbourhood, which is cut at both ends."""
    reach = _SMOOTHED_POINTS // 2
    return np.array([np.mean(values[max(0, place - reach) : place + reach + 1]) for place in range(len(values))])
