"""The HTML report of one model, and the page of a fleet of keys."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS, rounds_in_words
from accous.diagnostics.status import DEGRADED, HEALTHY, UNCERTAIN, Finding
from accous.report.figures import (
    Figure,
    ReportSource,
    date_of_round,
    headline,
    headline_notes,
    moved_figures,
    performance_figure,
    tolerated_in_words,
)
from accous.text import count

# --- The page itself: one file with everything in it


TONES = {HEALTHY: "good", UNCERTAIN: "thin", DEGRADED: "bad"}
NOTES = {
    "performance": "Each point is a mean over some rounds. Where labels came, they take the place of what is expected.",
    "learned": "Errors are those on labels that the model had not learned from: the new ones, and the next ones.",
    "moved": "Share of rows in the reference and in recent rows. The percentage is the column's share in the shift.",
}
_SHORT_CELL = 24  # characters
_MOST_EVENTS, _MOST_SEGMENTS, _MOST_FINDINGS = 20, 12, 6
_LEAST_SHARE = 0.005  # less is 0 % of the shift


def render_page(source: ReportSource) -> str:
    """Return the report as a single HTML page that needs no other file and no network."""
    figures: dict[str, Figure] = {}
    sections = [
        _head(source),
        _status(source),
        _performance(source, figures),
        _moved(source, figures),
        _segments(source),
        _folded([*_learned(source), *_events(source), *_regimes(source), *_settings(source)]),
    ]
    return _page(
        f"accous: {source.title}",
        page_asset("page.css"),
        sections,
        {"state": source.said, "figures": figures},
        page_asset("charts.js") + page_asset("report.js"),
    )


def _page(title: str, style: str, sections: list[str], data: Any, script: str) -> str:
    parts = {
        "title": escape(title),
        "style": style,
        "body": "\n".join(filter(None, sections)),
        # "</script>" inside the data would end the script element.
        "figures": json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
        "script": script,
    }
    # Replace in one pass: a column name may look like a placeholder.
    return re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], page_asset("page.html"))


def page_asset(name: str) -> str:
    """Return one of the files that a page is made of."""
    return files("accous.report").joinpath("assets", name).read_text(encoding="utf-8")


def _head(source: ReportSource) -> str:
    state = source.snapshot.state
    facts = [
        f"folder {source.name}" if source.title != source.name else "",
        f"{count(state.n_rows, 'row')} in {count(state.n_rounds, 'round')}",
        f"fitted on {len(state.weights):,} labelled rows",
    ]
    return f"<header><h1>{escape(source.title)}</h1><p>{escape(' · '.join(filter(None, facts)))}</p></header>"


def _status(source: ReportSource) -> str:
    """Return state, metric, reasons and advice; before the first row nothing is judged."""
    said, tone = source.said, "none" if source.is_empty else TONES[source.said["state"]]
    alarm = f'<p class="badge alarm">alarm since round {said["alarm_since"]:,}</p>' if said["alarm"] else ""
    notes = "".join(f"<p>{escape(note)}</p>" for note in headline_notes(source))
    content = f"{alarm}<h2>{escape(headline(source))}</h2>{notes}"
    if not source.is_empty:
        reasons = "".join(f"<li>{escape(each['text'])}</li>" for each in said["reasons"])
        command = said["advice"]["command"]
        typed = f" <code>{escape(command)}</code>" if command else ""
        content += f'<ul class="reasons">{reasons}</ul>'
        content += f"<h3>What to do</h3><p>{escape(said['advice']['text'])}{typed}</p>"
    return f'<section class="verdict {tone}">{content}</section>'


def tile_rows(source: ReportSource) -> list[tuple[str, str, str]]:
    """Return the numbers of now: name, value and a note."""
    said, metric, unit, name = source.said, source.metric, source.unit, source.metric.in_words
    between = metric.between(said["low"], said["high"], unit)
    tiles = [
        (f"{name} now", metric.shown(said["value"], unit), between),
        (f"{name} at fit", metric.shown(said["at_fit"], unit), tolerated_in_words(source)),
        ("labels of recent rows", f"{said['n_labels']:,}", ""),
    ]
    outside = said["drift"]["outside"]
    if outside is not None:
        # A reason may count more of them: those that single columns of the table show.
        shown = max([outside, *(each["number"] for each in said["reasons"] if each["code"] == Finding.FEW_INSIDE)])
        tiles.append(("rows unlike the reference", f"{shown:.0%}", "of recent rows"))
    return tiles if not source.is_empty else tiles[1:2]


# --- Charts


def _performance(source: ReportSource, figures: dict[str, Figure]) -> str:
    figure = performance_figure(source)
    if figure is None:
        return ""
    figures["performance"] = figure
    title = source.metric.in_words
    note = f'<p class="note">{NOTES["performance"]}</p>'
    chart = '<div class="chart" id="chart-performance"></div>'
    return f"<section><h2>{escape(title[0].upper() + title[1:])} over time</h2>{note}{chart}</section>"


def _moved(source: ReportSource, figures: dict[str, Figure]) -> str:
    """Return the distributions of columns that moved, and in words what single columns show besides."""
    if source.is_empty:
        return ""
    found, columns = moved_figures(source), source.said["drift"]["columns"]
    figures |= {f"moved-{number}": each for number, each in enumerate(found)}
    charts = "".join(f'<div class="chart spread" id="chart-moved-{number}"></div>' for number in range(len(found)))
    content = f'<p class="note">{NOTES["moved"]}</p><div class="spreads">{charts}</div>' if found else ""
    names = {each["name"] for each in found}
    others = [
        f"{each['name']} {each['share']:.0%}"
        for each in columns
        if each["name"] not in names and each["share"] >= _LEAST_SHARE
    ]
    if others:
        more = f" and {len(others) - _MOST_FINDINGS} more" if len(others) > _MOST_FINDINGS else ""
        content += f"<p>{'Also' if found else 'Moved'}: {escape(', '.join(others[:_MOST_FINDINGS]) + more)}.</p>"
    content += "" if columns else "<p>No column stands out.</p>"
    sentences = source.snapshot.coverage.sentences
    items = "".join(f"<li>{escape(each)}</li>" for each in sentences[:_MOST_FINDINGS])
    if len(sentences) > _MOST_FINDINGS:
        items += f"<li>{count(len(sentences) - _MOST_FINDINGS, 'more column')} with values that are new.</li>"
    content += f"<ul>{items}</ul>" if items else ""
    return f"<section><h2>What moved</h2>{content}</section>"


# --- Tables


def _segments(source: ReportSource) -> str:
    if source.by is None:
        return ""
    metric, unit = source.metric, source.unit
    rows = [
        (
            each["segment"],
            metric.shown(each["value"], unit),
            metric.between(each["low"], each["high"], unit) or "–",
            metric.shown(each["at_fit"], unit),
            each["basis"],
            f"{each['n_labels']:,}",
        )
        for each in source.said["segments"]
    ]
    older = f"<p>The first {_MOST_SEGMENTS} of {len(rows):,}.</p>" if len(rows) > _MOST_SEGMENTS else ""
    headings = [source.by, metric.in_words, "90% interval", "at fit", "basis", "labels"]
    title = f"Segments by {source.by}, worst first"
    return f"<section><h2>{escape(title)}</h2>{older}{_table(headings, rows[:_MOST_SEGMENTS])}</section>"


def event_rows(source: ReportSource) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the headings and the last 20 changes of the inputs, the latest first."""
    rows = []
    for event in source.snapshot.drift.events[-_MOST_EVENTS:][::-1]:
        is_shift = event.kind == "shift"
        took = "in progress" if event.rounds_to_adapt is None else count(event.rounds_to_adapt, "round")
        took = f"{took}; {event.return_in_words}" if event.seen else took
        size = f"{event.size:.0%} of the {'weight' if is_shift else 'rows'}"
        date = date_of_round(source, event.round)
        columns = ", ".join(event.features)
        rows.append(
            (f"{event.round:,}", *([date] if date else []), event.kind, size, columns, took if is_shift else "–")
        )
    dated = ["date"] if date_of_round(source, 1) else []
    return ["round", *dated, "kind", "size", "columns that carry it", "time to adapt"], rows


def _events(source: ReportSource) -> list[tuple[str, str]]:
    n_events = len(source.snapshot.drift.events)
    if not n_events and not source.n_seasonal:
        return []
    older = f"<p>The last {_MOST_EVENTS} of {n_events}.</p>" if n_events > _MOST_EVENTS else ""
    table = _table(*event_rows(source)) if n_events else ""
    season = ""
    if source.n_seasonal:
        changes = count(source.n_seasonal, "more change is", "more changes are")
        season = f"<p>{changes} what the same hours or days did before.</p>"
    return [(f"Changes in the inputs: {n_events}", older + table + season)]


def learned_rows(source: ReportSource) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the headings and the last 20 refits on labels, with the errors on labels that were not learned from."""
    form = "{:.1%}" if source.snapshot.rules.task.has_classes else "{:.4g}"
    rows = []
    for event in (source.said["learning"] or {"events": []})["events"][-_MOST_EVENTS:][::-1]:
        errors = [event[name] for name in ("error_fixed", "error", "error_after")]
        shown_errors = ["–" if each is None else form.format(each) for each in errors]
        counts = f"{event['round']:,}", f"{event['n_labels']:,}", f"{event['n_new']:,}"
        rows.append((*counts, *shown_errors, f"{event['weight']:.0%}"))
    return ["round", "labels", "new", "error without labels", "error before", "error after", "learned part"], rows


def _learned(source: ReportSource) -> list[tuple[str, str]]:
    """Return when the model learned from labels, and its error on labels that it had not learned from."""
    headings, rows = learned_rows(source)
    if not rows:
        return []
    learning = source.said["learning"]
    note = f"<p>{NOTES['learned']}</p>"
    now = learning["experts"]["learned from labels"]
    return [
        (f"Learned from {learning['labels']:,} labels: {now:.0%} of each prediction", note + _table(headings, rows))
    ]


def _regimes(source: ReportSource) -> list[tuple[str, str]]:
    """Return the states of the inputs that the model remembers, and when each was in force."""
    rows = [
        (str(each.number), rounds_in_words(each.visits), ", ".join(each.features), "yes" if each.is_current else "no")
        for each in source.snapshot.regimes
    ]
    table = _table(["regime", "in force in", "differs mainly in", "now"], rows)
    return [(f"Remembered regimes: {len(rows)}", table)] if rows else []


def _settings(source: ReportSource) -> list[tuple[str, str]]:
    settings = [(name.replace("_", " "), value) for name, value in source.settings.items()]
    found = [("Settings", _table(["setting", "value"], settings))] if settings else []
    if source.preparation:
        table = _table(["column", "read as", "what is done"], source.preparation)
        found.append(("What is done with each column", table))
    return found


def _folded(parts: list[tuple[str, str]]) -> str:
    """Return what is opened by a click, so that the page stays short."""
    items = (f"<details><summary>{escape(title)}</summary>{content}</details>" for title, content in parts)
    return f"<section>{''.join(items)}</section>" if parts else ""


def _table(headings: list[str], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    """Return a cell; only long ones wrap, so that a small screen scrolls the table and breaks no word or date."""
    style = ' class="long"' if len(text) > _SHORT_CELL else ""
    return f"<td{style}>{escape(text)}</td>"


# --- The page about all keys: which drifted, since when, in which columns, worst first


_LARGE_DRIFT = 0.3
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
    body = [_fleet_head(readings, name), _fleet_tiles(readings), _columns(readings), _table_section(readings)]
    times = [each["time"] for each in readings if not math.isnan(each["time"])]
    are_dates = bool(times) and min(times) >= _FIRST_SECOND and max(times) < _LAST_SECOND
    rows = [
        [
            str(each["key"]),
            each["state"],
            TONES[each["state"]],
            _number(each["value"]),
            _number(each["at_fit"]),
            _number(each["drift"]),
            _number(each["effective_rows"]),
            each["since_round"],
            each["is_moving"],
            ", ".join(each["columns"]),
            each["rounds"],
            each["is_adapted"],
            _moment(each["since_time"], are_dates=are_dates),
        ]
        for each in readings
    ]
    style = page_asset("page.css") + page_asset("fleet.css")
    return _page(f"accous: {name}", style, body, rows, page_asset("fleet.js"))


def _moment(seconds: float, *, are_dates: bool) -> str:
    """Return a time as a date if all times lie in this age, and as the number that it is otherwise."""
    if math.isnan(seconds):
        return ""
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%d %H:%M}" if are_dates else f"{seconds:.10g}"


def _fleet_head(readings: Sequence[Mapping[str, Any]], name: str) -> str:
    n_rows = sum(each["rows"] for each in readings)
    return f"<header><h1>{escape(name)}</h1><p>{count(len(readings), 'key')}, {count(n_rows, 'row')}</p></header>"


def _fleet_tiles(readings: Sequence[Mapping[str, Any]]) -> str:
    states = Counter(each["state"] for each in readings)
    n_drifted = sum(each["drift"] >= _LARGE_DRIFT for each in readings)
    tiles = [
        *((f"keys that are {state}", states[state], "") for state in (DEGRADED, UNCERTAIN, HEALTHY) if states[state]),
        ("keys that have drifted", n_drifted, f"by {_LARGE_DRIFT:.0%} or more"),
        ("keys that move now", sum(each["is_moving"] for each in readings), "the last change is not over"),
        ("keys with an adapted model", sum(each["is_adapted"] for each in readings), "the others use the fixed one"),
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


def _table_section(readings: Sequence[Mapping[str, Any]]) -> str:
    metric = readings[0]["metric"].replace("_", " ") if readings else "metric"
    return (
        '<section class="keys"><h2>Keys, worst first</h2><p class="note">The metric is what is expected if labels '
        "still follow from inputs as they did. Drift is 0 % for inputs as in the reference and 100 % for inputs that "
        "are all elsewhere. “Since” is the round in which the last change was noticed, and its time, in UTC if times "
        "are dates."
        '</p><p><label>Find <input id="find" type="search" placeholder="key, column or state"></label> '
        '<span id="shown" role="status"></span></p><div class="table"><table><thead><tr><th>key</th><th>state</th>'
        f"<th>{escape(metric)} now</th><th>at fit</th><th>drift</th><th>effective rows</th><th>since</th>"
        "<th>columns</th><th>rounds</th><th>predicts</th></tr></thead>"
        '<tbody id="keys"></tbody></table></div><p><button id="more" type="button">Show more</button></p></section>'
    )


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else round(value, 4)
