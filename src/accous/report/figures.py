"""The report's charts as the plain dicts that plotly reads; the page sets the colours of text and grid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.report.subject import Subject

__all__ = [
    "Figure",
    "error_figure",
    "lengths_figure",
    "moved_columns",
    "moved_figure",
    "sample_size_figure",
    "weights_figure",
]

Figure = dict[str, Any]

# Readable on light and dark pages, and distinguishable with any kind of colour vision.
_ADAPTED, _FIXED, _MEASURED, _EVENT = "#2a8fd6", "#e0701b", "#2fa58c", "#8b95a1"
_BAND = "rgba(42,143,214,0.18)"
_HEAT = [[0.0, "rgba(42,143,214,0)"], [1.0, "rgba(42,143,214,1)"]]
_MOST_COLUMNS = 12
_MOST_MEASURED = 64


def error_figure(subject: Subject) -> Figure | None:
    """Draw the label-free risk with its interval over time, and the measured error if there were labels."""
    history = subject.history
    is_read = ~np.isnan(history.column("risk"))
    rounds = history.rounds[is_read]
    if not len(rounds):
        return None
    low, high = (history.column(name)[is_read] for name in ("risk_low", "risk_high"))
    traces = [
        {**_line(rounds, high, "", "rgba(0,0,0,0)", 0), "showlegend": False, "hoverinfo": "skip"},
        {
            **_line(rounds, low, "90 % interval of the estimate", "rgba(0,0,0,0)", 0),
            "fill": "tonexty",
            "fillcolor": _BAND,
            "hoverinfo": "skip",
        },
        _line(rounds, history.column("risk_fixed")[is_read], "fixed model, estimated without labels", _FIXED, 2),
        _line(rounds, history.column("risk")[is_read], "accous, estimated without labels", _ADAPTED, 3),
    ]
    measured, ours, fixed = subject.measured_errors()
    if len(measured):
        measured, ours, fixed = _averaged(measured, ours, fixed)
        traces.append(_dots(measured, fixed, "fixed model, measured with labels", _FIXED))
        traces.append(_dots(measured, ours, "accous, measured with labels", _MEASURED))
    figure = _figure(traces, "share of wrong rows", subject, is_percent=True)
    figure["layout"]["height"] = 400  # its legend takes three lines
    return figure


def sample_size_figure(subject: Subject) -> Figure | None:
    """Draw how many reference rows carry the weight, over time."""
    history = subject.history
    if not len(history):
        return None
    sizes = history.column("effective_sample_size")
    trace = _line(history.rounds, sizes, "reference rows that carry the weight", _ADAPTED, 2)
    trace |= {"fill": "tozeroy", "fillcolor": _BAND}
    figure = _figure([trace], "rows", subject)
    figure["layout"]["yaxis"]["rangemode"] = "tozero"
    return figure


def lengths_figure(subject: Subject) -> Figure | None:
    """Draw which interval lengths carry the weight, over time: the paper's heat map."""
    weights = subject.history.length_weights
    if not len(weights) or not weights.any():
        return None
    used = np.flatnonzero(weights.any(axis=0))
    bins = range(int(used[0]), int(used[-1]) + 1)
    trace = {
        "type": "heatmap",
        "x": subject.history.rounds.tolist(),
        "y": [f"{2**number:,}" for number in bins],
        "z": np.round(weights[:, bins].T, 4).tolist(),
        "colorscale": _HEAT,
        "zmin": 0.0,
        "zmax": 1.0,
        "colorbar": {"title": {"text": "weight"}, "tickformat": ".0%", "thickness": 12, "outlinewidth": 0},
        "hovertemplate": "round %{x}, the last %{y} rounds: %{z:.0%}<extra></extra>",
    }
    figure = _figure([trace], "rounds of history", subject, has_events=False)
    figure["layout"]["yaxis"]["type"] = "category"
    return figure


def moved_columns(subject: Subject) -> list[tuple[str, float]]:
    """Return the columns that fit into the drift chart, with their shares; columns with no share are left out."""
    return [(name, share) for name, share in subject.column_shares() if share > 0.0][:_MOST_COLUMNS]


def moved_figure(subject: Subject) -> Figure | None:
    """Draw which columns carry the drift."""
    shares = moved_columns(subject)
    if not shares:
        return None
    names, values = zip(*reversed(shares), strict=True)
    trace = {
        "type": "bar",
        "orientation": "h",
        "x": [round(value, 4) for value in values],
        "y": [_short(name) for name in names],
        "marker": {"color": _ADAPTED},
        "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
    }
    layout = _layout("")
    layout["height"] = 90 + 24 * len(shares)
    layout["xaxis"] = {"title": {"text": "share of the drift"}, "tickformat": ".0%", "rangemode": "tozero"}
    layout["yaxis"] = {"type": "category", "automargin": True}
    return {"data": [trace], "layout": layout}


def weights_figure(subject: Subject) -> Figure | None:
    """Draw how the weights are distributed over the reference."""
    if subject.model.n_rounds_ == 0:
        return None
    weights = subject.model.reference_weight_
    edges = np.array([0.0, *(2.0**power for power in range(-6, 8)), np.inf])
    counts, _ = np.histogram(weights / weights.mean(), edges)
    sums, _ = np.histogram(weights, edges * weights.mean(), weights=weights)
    names = ["below 1/64", *(_between(power) for power in range(-6, 7)), "above 128"]
    of_rows, of_weight = counts / counts.sum(), sums / sums.sum()
    bars = [(of_rows, "share of the reference rows", _EVENT), (of_weight, "share of the weight", _ADAPTED)]
    traces = [
        {
            "type": "bar",
            "x": names,
            "y": np.round(values, 4).tolist(),
            "name": name,
            "marker": {"color": colour},
            "hovertemplate": "%{x}: %{y:.1%}<extra></extra>",
        }
        for values, name, colour in bars
    ]
    layout = _layout("share")
    title = "weight of a row (1: as common now as in the reference)"
    layout["xaxis"] = {"title": {"text": title}, "type": "category", "automargin": True, "tickangle": -45}
    layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return {"data": traces, "layout": layout}


def _between(power: int) -> str:
    low, high = (f"{2**each}" if each >= 0 else f"1/{2**-each}" for each in (power, power + 1))
    return f"{low} to {high}"


def _figure(
    traces: list[Figure], title: str, subject: Subject, *, is_percent: bool = False, has_events: bool = True
) -> Figure:
    layout = _layout(title)
    layout["xaxis"] = {"title": {"text": "round"}, "rangemode": "tozero"}
    if is_percent:
        layout["yaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    if has_events:
        layout["shapes"] = [
            {
                "type": "line",
                "x0": event.round,
                "x1": event.round,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"color": _EVENT, "width": 1, "dash": "dot"},
            }
            for event in subject.model.drift_events_
        ]
    return {"data": traces, "layout": layout}


def _layout(title: str) -> Figure:
    return {
        "height": 340,
        "margin": {"l": 64, "r": 16, "t": 12, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "yaxis": {"title": {"text": title}, "automargin": True},
    }


def _line(x: NDArray[Any], y: NDArray[np.float64], name: str, colour: str, width: float) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x.tolist(),
        "y": np.round(y, 5).tolist(),
        "name": name,
        "line": {"color": colour, "width": width},
    }


def _dots(x: NDArray[Any], y: NDArray[np.float64], name: str, colour: str) -> Figure:
    dots = _line(x, y, name, colour, 1)
    return dots | {"mode": "markers", "marker": {"color": colour, "size": 5, "opacity": 0.7}}


def _averaged(*columns: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """Average neighbours down to at most ``_MOST_MEASURED`` points: single batches of few rows are mostly noise."""
    size = -(-len(columns[0]) // _MOST_MEASURED)
    starts = np.arange(0, len(columns[0]), size)
    counts = np.diff([*starts, len(columns[0])])
    return tuple(np.add.reduceat(column, starts) / counts for column in columns)


def _short(name: str) -> str:
    return name if len(name) <= 32 else f"{name[:29]}..."
