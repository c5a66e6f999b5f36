"""What the scripts leave behind: kept results, tables of the documentation's pages, and the style of its pictures.

A page has a table between ``<!-- table NAME -->`` and ``<!-- end of table -->``; the script that measures writes it.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from accous_bench.figures import SETTINGS, drawing
from accous_bench.grid import commit, machine, versions

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
RESULTS = ROOT / "benchmarks" / "results"
_TABLE = re.compile(r"(<!-- table (?P<name>[^\n]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def describe(text: str | None) -> None:
    """Answer ``--help`` of a script without options."""
    argparse.ArgumentParser(description=text).parse_args()


# --- kept results -----------------------------------------------------------------------------------------------


def origin() -> dict[str, str]:
    """Return what a measurement is made with: the day, the commit, the versions and the machine."""
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": commit() or "", **versions(), "machine": machine()}


def keep(name: str, rows: Any) -> None:
    """Write rows to ``benchmarks/results/<name>.json``, with their origin."""
    (RESULTS / f"{name}.json").write_text(json.dumps({"measured_with": origin(), "rows": rows}, indent=1) + "\n")
    print(f"Written to benchmarks/results/{name}.json")


def kept(name: str, default: Any = None) -> Any:
    """Return the rows of ``benchmarks/results/<name>.json``, or a default where there are none yet."""
    path = RESULTS / f"{name}.json"
    return default if default is not None and not path.exists() else json.loads(path.read_text())["rows"]


def keep_part(name: str, part: str, rows: Any) -> None:
    """Replace one of several named lists of rows."""
    keep(name, kept(name, {}) | {part: rows})


# --- tables -----------------------------------------------------------------------------------------------------


def markdown(headings: Sequence[str], lines: Iterable[Sequence[object]], n_left: int = 1) -> str:
    """Return a table; columns after the first ``n_left`` are aligned to the right."""
    marks = "|" + "".join("---|" if place < n_left else "---:|" for place in range(len(headings)))
    head, *rest = ("| " + " | ".join(map(str, line)) + " |" for line in (headings, *lines))
    return "\n".join((head, marks, *rest)) + "\n"


def filled(text: str, make: Callable[[str], str | None]) -> str:
    """Return a page with every table for whose name there is one now."""

    def put(mark: re.Match[str]) -> str:
        table = make(mark["name"])
        return mark[0] if table is None else f"{mark[1]}\n{table.strip()}\n\n{mark[3]}"

    return _TABLE.sub(put, text)


def fill(page: str, tables: Mapping[str, str] | Callable[[str], str | None]) -> None:
    """Write tables, by name, into a page of the documentation."""
    path, make = DOCS / page, tables if callable(tables) else tables.get
    path.write_text(filled(path.read_text(encoding="utf-8"), make), encoding="utf-8")
    print(f"Written to docs/{page}")


# --- pictures ---------------------------------------------------------------------------------------------------


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
    """Draw for light and for dark pages; the same numbers give the same files."""
    for palette, ending in ((LIGHT, ""), (DARK, "-dark")):
        places = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
        colours = dict.fromkeys(places, palette.ink) | {"grid.color": palette.grid, "axes.facecolor": "none"}
        svg = StringIO()
        with mpl.rc_context(SETTINGS | colours | {"svg.hashsalt": name}):
            figure = draw(palette)
            figure.patch.set_alpha(0.0)
            figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        lines = (line.rstrip() for line in svg.getvalue().splitlines())
        (IMAGES / f"{name}{ending}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def save_png(draw: Callable[[], Figure], name: str) -> None:
    """Draw one picture, whose lightness dark pages turn round."""
    (IMAGES / f"{name}.png").write_bytes(drawing(draw, name)[1])
