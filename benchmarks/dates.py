"""When each result was measured: ``python -m benchmarks.dates`` writes the table of ``docs/benchmarks/index.md``.

A file of results says when and with which commit it was measured. Files from before that was recorded get the date of
the commit that wrote them, marked with a star.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.record import FOLDER

__all__ = ["BEGIN", "END", "PAGE", "PAGES", "known_origin", "main"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "index.md"
BEGIN, END = "<!-- dates: begin -->", "<!-- dates: end -->"
_RESULTS = ("figures", "gaussian_published", "images", "images_tuned", "natural", "regret", "weights")
_TABLES = ("table1", "table2", "table3")
# The page that shows each file, from the folder docs/benchmarks.
PAGES = {
    **dict.fromkeys((*_RESULTS, *_TABLES, "theory"), "../results.md"),
    **dict.fromkeys(("large_references", "speed", "startup"), "../performance.md"),
    **dict.fromkeys(("peers", "peers_risks"), "../peers.md"),
    **dict.fromkeys(
        ("measured_error", "prediction_sets", "real_numbers", "regression", "trust", "trust_cost"), "../trust.md"
    ),
    "cli_throughput": "../cli.md",
    "dann_steps": "../benchmark.md",
    **dict.fromkeys(("cross_fit", "embedding"), "../deep.md"),
    **dict.fromkeys(("estimators", "large_choices"), "../defaults.md"),
    "gallery": "../gallery/index.md",
    **dict.fromkeys(("limit", "pool"), "../pool.md"),
    "refits": "../python.md",
}


def main() -> None:
    """Write the table."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    lines = ["| results | page | measured | accous |", "|---|---|---|---|"]
    lines += [_line(name) for name in sorted(PAGES)]
    table = "\n".join(lines)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def _line(name: str) -> str:
    path = FOLDER / name if name == "gallery" else FOLDER / f"{name}.json"
    page = PAGES[name]
    date, version = known_origin(path)
    shown = date or f"{_committed(path)}\\*"
    title = page.removeprefix("../").removesuffix(".md").removesuffix("/index")
    return f"| `{path.name}` | [{title}]({page}) | {shown} | {version} |"


def known_origin(path: Path) -> tuple[str, str]:
    """Return the date and the version of accous that a file of results names; empty if it does not."""
    kept: Any = json.loads((path if path.is_file() else sorted(path.glob("*.json"))[0]).read_text(encoding="utf-8"))
    if not isinstance(kept, dict):
        return "", ""
    if "provenance" in kept:  # of `accous bench`: many runs, perhaps of several days
        runs = kept["provenance"]
        days = sorted({runs["first"][:10], runs["last"][:10]})
        return " to ".join(days), ", ".join(runs["versions"].get("accous", []))
    found = kept.get("measured_with", {})
    return found.get("date", ""), found.get("accous", "")


def _committed(path: Path) -> str:
    command = ["git", "log", "-1", "--format=%ad", "--date=short", "--", str(path)]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
