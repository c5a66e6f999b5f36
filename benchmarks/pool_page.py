"""Write the tables of docs/pool.md again from the kept results: ``python -m benchmarks.pool_page``.

A comment above a table says which rows it shows: a part of ``benchmarks/results/pool.json``, then settings of the runs.
``match`` is a text that is in the name of the case, and ``seeds`` is written as on the command line; other settings may
have several values with commas between them::

    <!-- pool.json: gaussian n_rounds=1000 seeds=80 match=Squ -->

A table without such a comment comes from a run that was not kept, and the text beside it says so.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.limit import seed_numbers
from benchmarks.pool import Row, markdown
from benchmarks.pool_policies import policy_table, stream_table
from benchmarks.record import FOLDER

__all__ = ["PAGE", "main", "selected", "with_tables"]

PAGE = Path(__file__).parents[1] / "docs" / "pool.md"
_TABLE = re.compile(r"(<!-- pool\.json: (?P<words>[^\n]+) -->\n\n?)(?:\|[^\n]*\n)*")


def with_tables(page: str, results: dict[str, list[Row]]) -> str:
    """Return the page with the tables of these results."""
    return _TABLE.sub(lambda found: found[1] + _table(shlex.split(found["words"]), results) + "\n", page)


def selected(rows: Sequence[Row], settings: dict[str, str]) -> list[Row]:
    """Return the rows with these settings, and complain unless each case has one."""
    found = [row for row in rows if all(_has(row, name, value) for name, value in settings.items())]
    cases = [row["case"] for row in found]
    if not found or len(set(cases)) < len(cases):
        raise ValueError(f"The settings {settings} must select one run of each case, got {cases}.")
    return found


def _table(words: Sequence[str], results: dict[str, list[Row]]) -> str:
    part, *settings = words
    rows = selected(results[part], dict(each.split("=", maxsplit=1) for each in settings if each != "streams"))
    if part == "policies":
        return stream_table(rows) if "streams" in settings else policy_table(rows)
    if part == "cost":
        return _cost_table(rows)
    return markdown(rows)


def _has(row: Row, name: str, value: str) -> bool:
    if name == "match":
        return value in row["case"]
    if name == "seeds":
        return bool(row["seeds"] == seed_numbers(value))
    # Columns that were kept are a list: "none" or their names.
    found = row.get(name)
    return (",".join(found) or "none" if isinstance(found, list) else str(found)) in value.split(",")


def _cost_table(rows: Sequence[dict[str, Any]]) -> str:
    names = list(rows[0]["microseconds"])
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for row in rows:
        cells = [f"{row['microseconds'][name]:,.0f}" for name in names]
        lines.append(f"| {row['case']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    results = json.loads((FOLDER / "pool.json").read_text())["rows"]
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
