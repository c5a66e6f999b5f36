"""The page about all keys: which drifted, since when, in which columns, worst first."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS
from accous.diagnostics.trust import VERDICTS
from accous.report.page import page_asset
from accous.text import count

__all__ = ["render_fleet"]

_TONES = {"good": "good", "not verified": "none", "thin": "thin", "contradicted": "bad", "no overlap": "bad"}
_LARGE_DRIFT = 0.2  # total variation, as for a drift event
_MOST_COLUMNS = 12
# Seconds since 1970: from 1990 until 2100.
_FIRST_SECOND, _LAST_SECOND = 631_152_000.0, 4_102_444_800.0


def render_fleet(readings: Sequence[Mapping[str, Any]], name: str) -> str:
    """Return a page about many keys that needs no other file and no network; ten thousand keys take a megabyte.

    Parameters
    ----------
    readings : sequence of mappings
        One per key, worst first, with the names of ``accous.keyed.KeyReading``.
    name : str
        What the page is about.
    """
    body = [_head(readings, name), _tiles(readings), _columns(readings), _table_section()]
    moments = _Moments.of(readings)
    rows = [
        [
            str(each["key"]),
            each["verdict"],
            _TONES[each["verdict"]],
            _number(each["estimated_error"]),
            _number(each["fixed_error"]),
            _number(each["drift"]),
            _number(each["effective_rows"]),
            each["since_round"],
            each["is_moving"],
            ", ".join(each["columns"]),
            each["rounds"],
            each["is_adapted"],
            moments.said(each["since_time"]),
        ]
        for each in readings
    ]
    parts = {
        "title": escape(f"accous: {name}"),
        "style": page_asset("page.css") + page_asset("fleet.css"),
        "body": "\n".join(body),
        # "</script>" inside the data would end the script element.
        "figures": json.dumps(rows, allow_nan=False).replace("<", "\\u003c"),
        "script": page_asset("fleet.js"),
    }
    return re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], page_asset("page.html"))


@dataclass(frozen=True)
class _Moments:
    """How times are shown: as dates if all of them lie in this age, and as the numbers that they are otherwise."""

    are_dates: bool

    @classmethod
    def of(cls, readings: Sequence[Mapping[str, Any]]) -> _Moments:
        times = [each["time"] for each in readings if not math.isnan(each["time"])]
        return cls(bool(times) and min(times) >= _FIRST_SECOND and max(times) < _LAST_SECOND)

    def said(self, seconds: float) -> str:
        if math.isnan(seconds):
            return ""
        if not self.are_dates:
            return f"{seconds:.10g}"
        return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M}"


def _head(readings: Sequence[Mapping[str, Any]], name: str) -> str:
    n_rows = sum(each["rows"] for each in readings)
    return f"<header><h1>{escape(name)}</h1><p>{count(len(readings), 'key')}, {count(n_rows, 'row')}</p></header>"


def _tiles(readings: Sequence[Mapping[str, Any]]) -> str:
    verdicts = Counter(each["verdict"] for each in readings)
    n_drifted = sum(each["drift"] >= _LARGE_DRIFT for each in readings)
    tiles = [
        ("keys that have drifted", n_drifted, "a fifth of the weight or more has moved"),
        ("keys that move now", sum(each["is_moving"] for each in readings), "the last change is not over"),
        ("keys with an adapted model", sum(each["is_adapted"] for each in readings), "the others use the fixed one"),
        *((f"verdict “{verdict}”", verdicts[verdict], "") for verdict in reversed(VERDICTS) if verdicts[verdict]),
    ]
    cells = (f"<div><span>{title}</span><strong>{n:,}</strong><small>{note}</small></div>" for title, n, note in tiles)
    return f'<section class="tiles">{"".join(cells)}</section>'


def _columns(readings: Sequence[Mapping[str, Any]]) -> str:
    """Say which columns carry the last change of how many keys."""
    drifted = [each for each in readings if each["drift"] >= _LARGE_DRIFT]
    counts = Counter(column for each in drifted for column in each["columns"])
    if not counts:
        nothing = (
            f"Not known yet: a key names its columns at the next look, every {ROUNDS_BETWEEN_LOOKS} rounds."
            if drifted
            else "No key has drifted."
        )
        return f"<section><h2>Columns that moved</h2><p>{nothing}</p></section>"
    largest = max(counts.values())
    bars = "".join(
        f"<tr><td>{escape(column)}</td><td>{n:,}</td>"
        f'<td class="bar"><i style="width:{max(1, round(100 * n / largest))}%"></i></td></tr>'
        for column, n in counts.most_common(_MOST_COLUMNS)
    )
    left_out = f"<p>The first {_MOST_COLUMNS} of {len(counts):,}.</p>" if len(counts) > _MOST_COLUMNS else ""
    head = "<thead><tr><th>column</th><th>keys</th><th></th></tr></thead>"
    return (
        '<section><h2>Columns that moved</h2><p class="note">How many of the keys that have drifted have the '
        "column among those that carry half of their last change. Columns that moved less are not counted.</p>"
        f'{left_out}<div class="table"><table>{head}<tbody>{bars}</tbody></table></div></section>'
    )


def _table_section() -> str:
    return (
        '<section class="keys"><h2>Keys, worst first</h2><p class="note">The estimated error needs no labels. Drift is '
        "the share of the reference's weight that has moved. “Since” is the round in which the last change was "
        "noticed, and the time of that round, in UTC if times are dates."
        '</p><p><label>Find <input id="find" type="search" placeholder="key, column or verdict"></label> '
        '<span id="shown" role="status"></span></p><div class="table"><table><thead><tr><th>key</th><th>verdict</th>'
        "<th>error now</th><th>fixed model</th><th>drift</th><th>effective rows</th><th>since</th><th>columns</th>"
        "<th>rounds</th><th>predicts</th></tr></thead>"
        '<tbody id="keys"></tbody></table></div><p><button id="more" type="button">Show more</button></p></section>'
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)
