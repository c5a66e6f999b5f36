"""The common style of all figures: colours that work with any colour vision and in grey, sizes, and saving."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO, StringIO
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from accous_bench.reporting.cells import LIMIT, ORACLE, OURS, UNWEIGHTED

__all__ = ["SETTINGS", "Drawing", "drawing", "line_style", "marker_style", "new_figure", "tidy"]

# Okabe and Ito's colours; line styles and markers differ as well, for printing in grey.
_BLUE, _SKY, _ORANGE, _RED, _GREEN, _PINK = "#0072B2", "#56B4E9", "#E69F00", "#D55E00", "#009E73", "#CC79A7"
_LINES: dict[str, dict[str, Any]] = {
    OURS: {"color": _BLUE, "linewidth": 2.4, "zorder": 5},
    "Accous (ensemble only)": {"color": _SKY, "linewidth": 2.0, "linestyle": (0, (5, 1)), "zorder": 5},
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
_MARKERS = {
    OURS: "o",
    "Accous (ensemble only)": "s",
    "Accous (literal)": "h",
    "OLRE": "^",
    "DANN": "v",
    "KMM": "<",
    "KLIEP": ">",
    "uLSIF": "8",
    "LR": "X",
    UNWEIGHTED: "P",
    LIMIT: "D",
    ORACLE: "*",
}
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


class Drawing(NamedTuple):
    """A figure as files: the text of an SVG and the bytes of a PNG."""

    svg: str
    png: bytes


def line_style(contender: str) -> dict[str, Any]:
    """Colour, width and dashes of a contender's line, the same in all figures; a variant has its family's colour."""
    family = _LINES.get(contender.partition(" (")[0], _OTHER)
    return dict(_LINES.get(contender, _OTHER | {"color": family["color"]}))


def marker_style(contender: str) -> dict[str, Any]:
    """Colour and marker of a contender's points."""
    return {"color": line_style(contender)["color"], "marker": _MARKERS.get(contender, "p")}


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure, sizes in inches."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def tidy(axes: Axes) -> None:
    """Keep only the axes that show numbers."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=3)


def drawing(draw: Callable[[], Figure], name: str) -> Drawing:
    """Draw a figure in the common style and save it twice; the same numbers give the same files."""
    svg, png = StringIO(), BytesIO()
    with mpl.rc_context(SETTINGS | {"svg.hashsalt": name}):
        figure = draw()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # as laid out for the first file
        figure.savefig(png, format="png", metadata={"Software": None})
    return Drawing(svg.getvalue(), png.getvalue())
