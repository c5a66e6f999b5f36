"""Every picture of the documentation, and the command that draws it: ``python -m benchmarks.figures``.

Without options it draws what takes less than a minute: pictures of kept aggregates and of short simulations. ``--list``
prints all of them with their commands, ``--all`` also runs the others; speeds need an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FIGURES", "Figure", "main"]

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Figure:
    """Pictures that one command draws.

    Attributes
    ----------
    pattern : str
        Their names in ``docs/images``.
    command : str
        After ``python``.
    note : str
        What it needs; empty if it needs nothing and takes less than a minute.
    """

    pattern: str
    command: str
    note: str = ""


def _command_of_results() -> str:
    """Return the command that the page of results itself names, with all its files."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = re.search(r"^\$ python (-m accous_bench\.tables .*)$", page, re.MULTILINE)
    if found is None:
        raise ValueError("docs/results.md does not name the command that writes it.")
    return found[1]


FIGURES = (
    Figure("demo*.png", "-m benchmarks.demo_pictures"),
    Figure("gallery-*.svg", "-m benchmarks.gallery_pictures"),
    Figure("method-*.svg", "-m benchmarks.method_pictures"),
    Figure("pool-*.png", "-m benchmarks.pool_pictures"),
    Figure("results-theory-*.png", "-m benchmarks.theory", "minutes"),
    Figure("results-[!t]*.png", _command_of_results()),
    Figure("trust_*.png", "-m benchmarks.trust_pictures"),
    Figure("speed.png", "-m benchmarks.speed", "an idle machine, minutes"),
    Figure("support_inbox.png", "examples/support_inbox.py --picture docs/images/support_inbox.png", "sentence model"),
    Figure("drifting_camera.png", "examples/drifting_camera.py --picture docs/images/drifting_camera.png", "PyTorch"),
)


def main() -> None:
    """Draw or list the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="only print the commands")
    parser.add_argument("--all", action="store_true", help="also run what takes long or needs more")
    options = parser.parse_args()
    for figure in FIGURES:
        needs = f"  # needs {figure.note}" if figure.note else ""
        print(f"{figure.pattern:22} python {figure.command}{needs}", flush=True)
        if not options.list and (options.all or not figure.note):
            subprocess.run([sys.executable, *shlex.split(figure.command)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
