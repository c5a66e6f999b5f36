"""The figures of the gallery's pages: ``python -m benchmarks.gallery_page`` writes them between the marks."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.gallery import CASES, FOLDER

__all__ = ["PAGES", "fill", "main"]

PAGES = Path(__file__).parents[1] / "docs" / "gallery"
_MARKED = re.compile(r"(<!-- figures of (?P<name>\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_NAMES = {
    "acs_employment": "US census, employment",
    "weather_aus": "rain in Australia",
    "birdstrikes": "bird strikes",
    "occupancy": "a room's occupancy",
    "bank_marketing": "a bank's calls",
    "nsl_kdd": "network traffic",
}
_MODELS = {"fixed": "fixed", "used": "accous", "always adapted": "always adapted", "boosted": "boosted trees, fixed"}


def main() -> None:
    """Fill all pages."""
    for page in sorted(PAGES.glob("*.md")):
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")


def fill(text: str) -> str:
    """Return the text of a page with the figures that are kept now."""
    return _MARKED.sub(lambda mark: f"{mark[1]}{_figures(mark['name'])}{mark[3]}", text)


def _figures(name: str) -> str:
    return _all_cases() if name == "all" else _one_case(_kept(name))


def _kept(name: str) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return kept


def _all_cases() -> str:
    lines = [
        "| stream | fixed | accous | always adapted | boosted trees, fixed | looks in which the interval covered |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in CASES:
        kept = _kept(name)
        errors = " | ".join(f"{100 * kept['errors'][model]:.1f}" for model in _MODELS)
        page = name.replace("_", "-")
        lines.append(f"| [{_NAMES[name]}]({page}.md) | {errors} | {_covered(kept)} of {len(kept['looks'])} |")
    return "\n".join(lines) + "\n"


def _one_case(kept: dict[str, Any]) -> str:
    said, later = kept["said"]["without_labels"], kept["said"]["with_late_labels"]
    errors = " | ".join(f"{100 * kept['errors'][model]:.1f}" for model in _MODELS)
    lines = [
        f"Errors in % of {kept['rows']:,} rows:",
        "",
        f"| {' | '.join(_MODELS.values())} |",
        "|" + "---:|" * len(_MODELS),
        f"| {errors} |",
        "",
        "**Before the stream**, from the replay of the reference:",
        "",
        *(f"> {sentence}\n>" for sentence in kept["backtest"][:1]),
        f"> {kept['backtest'][1]}",
        "",
        f"**At the end of the stream**, without labels (verdict: {said['verdict']}):",
        "",
        *_answers(said),
        "",
        f"**With the labels of the last 1,000 rows** (verdict: {later['verdict']}):",
        "",
        f"> {later['measured']}",
        "",
        f"The 90 % interval covered the measured error in {_covered(kept)} of {len(kept['looks'])} looks. "
        + _believed(kept),
    ]
    return "\n".join(lines) + "\n"


def _answers(said: dict[str, Any]) -> list[str]:
    return [f"- {name}: **{said[name][0]}**. {said[name][1]}" for name in ("inputs", "adaptation", "predictions")]


def _believed(kept: dict[str, Any]) -> str:
    """Return how often accous said, without labels, that the estimate can be believed."""
    counts = Counter(look["predictions"] for look in kept["looks"])
    said = ", ".join(f'"{answer}" {counts[answer]} times' for answer in ("yes", "not known", "no") if counts[answer])
    return f"Whether to believe the estimate, accous answered {said}.".replace(" 1 times", " once")


def _covered(kept: dict[str, Any]) -> int:
    return sum(look["low"] <= look["errors"]["used"] <= look["high"] for look in kept["looks"])


if __name__ == "__main__":
    main()
