"""Figures of the site: the common style on a transparent ground, once for light and once for dark pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from accous_bench.figures import SETTINGS

__all__ = ["Palette", "save_pair"]

IMAGES = Path(__file__).parents[1] / "docs" / "images"


@dataclass(frozen=True)
class Palette:
    """The colours of a page: Okabe and Ito's, lighter on a dark ground; every line keeps a contrast of 3 to 1."""

    ink: str
    grid: str
    fixed: str
    used: str
    adapted: str
    boosted: str
    first: str
    second: str


LIGHT = Palette("#1d2733", "#d7dde3", "#b04a00", "#0072b2", "#2b8cbe", "#00785a", "#a36a00", "#00785a")
DARK = Palette("#e6edf3", "#39434e", "#f08c4a", "#6ec1f5", "#9ad4fa", "#3fc79a", "#f2b95c", "#3fc79a")


def save_pair(draw: Callable[[Palette], Figure], name: str) -> None:
    """Draw twice and write ``docs/images/NAME.svg`` and ``NAME-dark.svg``; the same numbers give the same files."""
    for palette, ending in ((LIGHT, ""), (DARK, "-dark")):
        settings = SETTINGS | {
            "svg.hashsalt": name,
            "axes.facecolor": "none",
            "axes.edgecolor": palette.ink,
            "axes.labelcolor": palette.ink,
            "axes.titlecolor": palette.ink,
            "text.color": palette.ink,
            "xtick.color": palette.ink,
            "ytick.color": palette.ink,
            "grid.color": palette.grid,
        }
        svg = StringIO()
        with mpl.rc_context(settings):
            figure = draw(palette)
            figure.patch.set_alpha(0.0)
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        lines = (line.rstrip() for line in svg.getvalue().splitlines())
        (IMAGES / f"{name}{ending}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")
