"""The pictures of the gallery: ``python -m benchmarks.gallery_pictures`` draws what `benchmarks.gallery` kept."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accous_bench.figures import new_figure, tidy
from benchmarks.gallery import CASES, FOLDER
from benchmarks.site_style import Palette, save_pair

__all__ = ["TITLES", "main"]

TITLES = {
    "acs_employment": "US census: is a person employed?",
    "weather_aus": "Rain in Australia: will it rain tomorrow?",
    "birdstrikes": "Bird strikes: was the aircraft damaged?",
    "occupancy": "A room: is somebody in it?",
    "bank_marketing": "A bank's calls: will the customer say yes?",
    "nsl_kdd": "Network traffic: is it an attack?",
}
_LINES: dict[str, tuple[str, dict[str, Any]]] = {
    "used": ("accous", {"linestyle": "-", "linewidth": 3.6}),
    "fixed": ("fixed", {"linestyle": (0, (3, 5)), "linewidth": 1.6}),
    "always adapted": ("always adapted", {"linestyle": (0, (1, 1)), "linewidth": 1.5}),
    "boosted": ("boosted trees, fixed", {"linestyle": "-", "linewidth": 1.3}),
}


def main() -> None:
    """Draw one picture for each case."""
    for name in CASES:
        found = json.loads((FOLDER / f"{name}.json").read_text())
        save_pair(partial(draw_case, found), f"gallery-{name.replace('_', '-')}")


def draw_case(found: dict[str, Any], palette: Palette) -> Figure:
    """Draw errors over time above, what was said without labels below."""
    figure = new_figure(8.0, 5.2)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    times = _times(found)
    _draw_errors(above, times, found["looks"], palette)
    _draw_estimates(below, times, found["looks"], palette)
    above.set_title(TITLES[found["stream"]])
    below.set_title("The error of accous: estimated without labels, and measured later", fontsize=9)
    if isinstance(times[0], datetime):
        below.xaxis_date()
        below.tick_params(axis="x", labelrotation=0)
    else:
        below.set_xlabel("rows of the stream", loc="right")  # the legend is on the left
    return figure


def _times(found: dict[str, Any]) -> list[Any]:
    """Return dates where the stream has them, else the number of rows."""
    if found["times"] is None:
        return [look["row"] - found["looks"][0]["row"] + 500 for look in found["looks"]]
    return [datetime.fromisoformat(text) for text in found["times"]]


def _draw_errors(axes: Axes, times: list[Any], looks: list[dict[str, Any]], palette: Palette) -> None:
    for name, (label, style) in _LINES.items():
        colour = getattr(palette, name.removeprefix("always "))
        axes.plot(times, [100 * look["errors"][name] for look in looks], label=label, color=colour, **style)
    axes.set_ylabel("errors in 500 rows, %")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=4, loc="lower left", bbox_to_anchor=(0.0, -0.22), fontsize=8.5)
    tidy(axes)


def _draw_estimates(axes: Axes, times: list[Any], looks: list[dict[str, Any]], palette: Palette) -> None:
    low, high = ([100 * look[name] for look in looks] for name in ("low", "high"))
    axes.fill_between(times, low, high, color=palette.used, alpha=0.25, linewidth=0, label="90 % interval")
    axes.plot(times, [100 * look["estimate"] for look in looks], color=palette.used, label="estimated")
    measured = [100 * look["errors"]["used"] for look in looks]
    axes.plot(times, measured, "o", color=palette.ink, markersize=3.5, label="measured")
    axes.set_ylabel("error, %")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0.0, -0.42), fontsize=8.5)
    tidy(axes)


if __name__ == "__main__":
    main()
