"""The HTML report of one model, and the page of a fleet of keys."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS, DriftEvent, Regime, rounds_in_words
from accous.diagnostics.labels import ALPHA
from accous.diagnostics.messages import NOT_COVERED, LossScale, counted_in_words, latest_in_words
from accous.diagnostics.trust import DRIFT_NOTE, HEADINGS, look_cells
from accous.report.figures import (
    Figure,
    date_of_round,
    error_figure,
    lengths_figure,
    moved_columns,
    moved_figure,
    sample_size_figure,
    weights_figure,
)
from accous.report.words import ReportSource, answer_rows, judge_in_words, kinds_of_changes, note_on_changes
from accous.text import count

# --- The section about regimes: a time line, and the columns that tell the regimes apart


_NOTE = (
    "A regime is a state of the inputs that the stream settled in and that differs from the reference. "
    "When it comes back, the model recognises it within a few rounds instead of learning it again."
)
_WIDTH, _ROW, _BAR, _LEFT = 1000, 34, 18, 40


def regimes_section(source: ReportSource) -> str:
    """Return the section; empty if no regime is remembered."""
    regimes = source.regimes
    if not regimes:
        return ""
    items = "".join(f"<li>{escape(_in_words(regime))}</li>" for regime in regimes)
    line = _time_line(regimes, source.snapshot.state.n_rounds)
    return f'<section><h2>Regimes</h2><p class="note">{_NOTE}</p>{line}<ul>{items}</ul></section>'


def _in_words(regime: Regime) -> str:
    now = " It is in force now." if regime.is_current else ""
    columns = f" It differs mainly in {', '.join(regime.features)}." if regime.features else ""
    return f"Regime {regime.number}: {rounds_in_words(regime.visits)}.{columns}{now}"


def _time_line(regimes: tuple[Regime, ...], n_rounds: int) -> str:
    """Return one bar for each visit, a row for each regime, over all rounds."""
    height = _ROW * len(regimes) + 24
    parts = []
    for row, regime in enumerate(regimes):
        top = _ROW * row + (_ROW - _BAR) / 2
        parts.append(f'<text x="0" y="{top + _BAR - 4:.0f}">{regime.number}</text>')
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{top + _BAR / 2}" y2="{top + _BAR / 2}"/>')
        for first, last in regime.visits:
            x, end = _place(first - 1, n_rounds), _place(last, n_rounds)
            title = f"<title>regime {regime.number}: rounds {first:,} to {last:,}</title>"
            width = max(end - x, 3.0)
            parts.append(
                f'<rect class="visit" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}">{title}</rect>'
            )
    parts.append(f'<text class="title" x="{_LEFT}" y="{height - 4}">round 1</text>')
    parts.append(f'<text class="title" x="{_WIDTH}" y="{height - 4}" text-anchor="end">{n_rounds:,}</text>')
    label = f"Time line of {count(len(regimes), 'regime')} over {count(n_rounds, 'round')}"
    view = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}"'
    return f'<div class="chart regimes"><svg {view}>{"".join(parts)}</svg></div>'


def _place(this_round: int, n_rounds: int) -> float:
    return _LEFT + (_WIDTH - _LEFT) * this_round / max(n_rounds, 1)


# --- Questions about the model, each with an answer and a sentence, as a section of the page


_TONES = {"yes": "good", "no": "bad", "not known": "none"}


def answers_section(rows: list[tuple[str, str, str]]) -> str:
    """Return the section of the page.

    Parameters
    ----------
    rows : list of (title, answer, sentence)
        An answer is ``"yes"``, ``"no"`` or ``"not known"``.

    Examples
    --------
    >>> section = answers_section([("Inputs", "not known", "No batch has been seen yet.")])
    >>> '<dt>Inputs <b class="none">not known</b></dt>' in section
    True
    """
    entries = "".join(
        f'<dt>{escape(title)} <b class="{_TONES[answer]}">{answer}</b></dt><dd>{escape(sentence)}</dd>'
        for title, answer, sentence in rows
    )
    return f'<section class="answers"><dl>{entries}</dl></section>'


# --- The page itself: one file with everything in it


TITLES = {
    "error": "How often it is wrong",
    "sample": "How much of the reference is in use",
    "lengths": "How far back it looks",
    "moved": "What moved",
    "weights": "How the weights are distributed",
}
NOTES = {
    "error": """The estimate needs no labels. It takes the errors on the reference rows and gives more weight to rows
        that resemble the current inputs. Each point is a mean over an interval of rounds, and the last one is the
        estimate now. Where the estimate is not known, there is no line. Dotted lines mark changes in the inputs. The
        width of the interval comes from three things: how few reference rows carry the weight, how far the inputs have
        drifted, and how far the estimates were from the truth in the backtest, if there was one.""",
    "sample": """Reference rows that resemble the current inputs count more than others. The fewer rows carry the
        weight, the less certain the results are.""",
    "lengths": """Many small learners run side by side. Each one learns from a different number of recent rounds. A
        stronger colour means more weight. After a sudden change, learners with a short history take over. While the
        inputs are stable, learners with a long history do.""",
    "moved": """Share of the drift: how much each column contributes to the difference between recent inputs and the
        reference.""",
    "weights": """A row of weight 1 is as common now as it was in the reference. If a few rows carry most of the weight,
        all results depend on those rows.""",
}
_SHORT_CELL = 24  # characters


def render_page(source: ReportSource) -> str:
    """Return the report as a single HTML page that needs no other file and no network."""
    figures: dict[str, Figure] = {}
    top = [_head(source), _verdict(source), answers_section(answer_rows(source)), _tiles(source)]
    sections = [*top, *_charts(source, figures), _findings(source), _backtest(source), _settings(source)]
    parts = {
        "title": escape(f"accous: {source.name}"),
        "style": page_asset("page.css"),
        "body": "\n".join(sections),
        # "</script>" inside the data would end the script element.
        "figures": json.dumps(figures, allow_nan=False).replace("<", "\\u003c"),
        "script": page_asset("charts.js") + page_asset("report.js") if figures else "",
    }
    # Replace in one pass: a column name may look like a placeholder.
    return re.sub(r"\[\[(\w+)\]\]", lambda place: parts[place[1]], page_asset("page.html"))


def page_asset(name: str) -> str:
    """Return one of the files that a page is made of."""
    return files("accous.report").joinpath("assets", name).read_text(encoding="utf-8")


def _head(source: ReportSource) -> str:
    state = source.snapshot.state
    facts = f"{count(state.n_rounds, 'round')}, compared with {len(state.weights):,} labelled reference rows"
    return f"<header><h1>{escape(source.name)}</h1><p>{facts}</p></header>"


def _verdict(source: ReportSource) -> str:
    verdict = judge_in_words(source)
    advice = "".join(f"<li>{escape(line)}</li>" for line in verdict.advice)
    return (
        f'<section class="verdict {verdict.tone}"><p class="badge">{escape(verdict.badge)}</p>'
        f"<h2>{escape(verdict.headline)}</h2><p>{escape(verdict.moved)}</p><p>{escape(verdict.trust)}</p>"
        f"<h3>What to do</h3><ul>{advice}</ul></section>"
    )


def tile_rows(source: ReportSource) -> list[tuple[str, str, str]]:
    """Return the numbers of now: name, value and a note."""
    snapshot, totals = source.snapshot, source.history.totals()
    risk, scale, found = source.snapshot.risk, source.scale, source.snapshot.measured
    shown = _shown(scale)
    in_use = (risk.adapted, risk.adapted_low, risk.adapted_high)
    fixed = (risk.fixed, risk.fixed_low, risk.fixed_high)
    estimate, interval = _estimate(scale, in_use, is_known=risk.is_known, is_covered=risk.is_covered)
    # Where no number is shown, labels may still lie outside the interval that is.
    is_outside = found is not None and found.contradicts_now and not found.is_inside
    by = source.snapshot.trust.contradicted_by if risk.is_known or is_outside else ""
    interval += f"; contradicted by {by}" if by else ""
    of_fixed = _estimate(scale, fixed, is_known=risk.is_fixed_known, is_covered=risk.is_covered)
    tiles = [
        (f"estimated {scale.name} now", estimate, interval + (f", {count(risk.age, 'round')} old" if risk.age else "")),
        (f"estimated {scale.name}, fixed model", *of_fixed),
        ("reference rows that carry the weight", f"{snapshot.effective_sample_size:,.0f}", _of_reference(source)),
        ("history in use", f"{snapshot.history_in_use:,.0f}", "rounds, on average"),
        ("changes detected", f"{len(source.events):,}", kinds_of_changes(source)),
    ]
    if found is not None:
        counted = counted_in_words(found.n_labelled, found.n_plain, found.error_plain, scale)
        note = f"between {shown(found.error_low)} and {shown(found.error_high)}, {counted}"
        note += f"; {latest_in_words(found)}" if found.latest.is_apart else ""
        which = "before rows joined the reference" if found.is_outdated else "labels given last"
        tiles.insert(1, (f"measured {scale.name}, {which}", shown(found.error), note))
        if not math.isnan(found.intervals.share):
            promised = f"{1.0 - ALPHA:.0%} promised, {found.intervals.n_rows:,} labels"
            tiles.insert(2, ("true numbers between low and high", f"{found.intervals.share:.0%}", promised))
    if totals["n_scored"]:
        measured = totals["n_wrong"] / totals["n_scored"], totals["n_wrong_fixed"] / totals["n_scored"]
        note = f"fixed model {shown(measured[1])}, {count(totals['n_scored'], 'label')}"
        tiles.insert(2, (f"measured {scale.name}, all rounds", shown(measured[0]), note))
    return tiles


def _tiles(source: ReportSource) -> str:
    return '<section class="tiles">' + "".join(_tile(*tile) for tile in tile_rows(source)) + "</section>"


def _tile(name: str, value: str, note: str) -> str:
    small = f"<small>{escape(note)}</small>" if note else ""
    return f"<div><span>{escape(name)}</span><strong>{escape(value)}</strong>{small}</div>"


def _charts(source: ReportSource, figures: dict[str, Figure]) -> list[str]:
    """Return the sections that have a chart, and add their figures to ``figures``."""
    charts = {
        "error": error_figure(source),
        "sample": sample_size_figure(source),
        "lengths": lengths_figure(source),
        "moved": moved_figure(source),
        "weights": weights_figure(source),
    }
    sections = []
    for key, figure in charts.items():
        if figure is None:
            continue
        figures[key] = figure
        chart = f'<div class="chart" id="chart-{key}"></div>'
        note = escape(" ".join(NOTES[key].split()) + (_notes_on_moved(source) if key == "moved" else ""))
        title = TITLES[key] if key != "error" or source.scale.is_of_classes else "How far it is off"
        sections.append(f'<section><h2>{title}</h2><p class="note">{note}</p>{chart}</section>')
        if key == "sample":
            sections += [_events(source), regimes_section(source)]
    return sections


def _notes_on_moved(source: ReportSource) -> str:
    """Say if the season is left out, and how many columns the chart shows and how much they carry, if not all."""
    n_columns, shown = len(source.column_shares()), moved_columns(source)
    season = "the time of the day and the weekend explain" if source.has_hours else "the day of the week explains"
    season = f" What {season} is left out." if source.knows_seasons else ""
    if len(shown) == n_columns:
        return season
    of_shown = sum(share for _, share in shown)
    return f"{season} The chart shows {len(shown)} of {n_columns:,} columns; together they account for {of_shown:.0%}."


def event_rows(source: ReportSource) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the headings and the last 20 changes of the inputs, the latest first."""
    rows = []
    for event in source.events[-20:][::-1]:
        is_shift = event.kind == "shift"
        took = "in progress" if event.rounds_to_adapt is None else count(event.rounds_to_adapt, "round")
        took = f"{took}; {event.return_in_words}" if event.seen else took
        took = took if is_shift else "–"
        columns = ", ".join(event.features)
        date = date_of_round(source, event.round)
        rows.append((f"{event.round:,}", *([date] if date else []), event.kind, _size(source, event), columns, took))
    dated = ["date"] if date_of_round(source, 1) else []
    return ["round", *dated, "kind", "size", "columns that carry it", "time to adapt"], rows


def _events(source: ReportSource) -> str:
    events, season = source.events, _seasonal_note(source)
    if not events:
        return f"<section><h2>Changes in the inputs</h2><p>No change was detected.</p>{season}</section>"
    older = f"<p>The last 20 of {len(events)}.</p>" if len(events) > 20 else ""
    table = _table(*event_rows(source))
    note = f'<p class="note">{escape(note_on_changes(source))}</p>'
    return f"<section><h2>Changes in the inputs</h2>{note}{older}{table}{season}</section>"


def _size(source: ReportSource, event: DriftEvent) -> str:
    """Return how large a change was; missing values may also have become fewer, so both shares are shown."""
    if event.kind == "shift":
        return f"{event.size:.0%} of the weight"
    if event.kind != "missing":
        return f"{event.size:.0%} of the rows"
    expected = source.share_missing_before(event.features[0])
    return "–" if expected is None else f"{expected:.0%} → {event.size:.0%} of the rows"


def _seasonal_note(source: ReportSource) -> str:
    """Say how many changes are left out because the same hours, or days of the week, did the same before."""
    if not source.n_seasonal:
        return ""
    changes = count(source.n_seasonal, "more change was", "more changes were")
    same = "hours did on the days before" if source.has_hours else "days of the week did before"
    return f'<p class="note">{changes} what the same {same}, and not counted as drift.</p>'


def _findings(source: ReportSource) -> str:
    """Return what single columns show that the reference does not."""
    found = source.snapshot.coverage.columns
    if not found:
        return ""
    items = "".join(f"<li>{escape(finding.sentence)}</li>" for finding in found)
    return f"<section><h2>What the reference does not know</h2><ul>{items}</ul></section>"


def _backtest(source: ReportSource) -> str:
    """Return what the replay of the reference showed."""
    found = source.snapshot.rules.verification.backtest
    if found is None:
        return ""
    shown = filter(None, (found.sentences[0], found.how, found.sentences[1]))
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in shown)
    table = _table(list(HEADINGS), [look_cells(look, found.scale) for look in found.looks])
    note = f'<p class="note">{escape(DRIFT_NOTE)}</p>'
    return f"<section><h2>Backtest on the reference</h2>{sentences}{note}{table}</section>"


def _settings(source: ReportSource) -> str:
    settings = [(name.replace("_", " "), value) for name, value in source.settings.items()]
    content = f"<section><h2>Settings</h2>{_table(['setting', 'value'], settings)}</section>" if settings else ""
    if source.preparation:
        table = _table(["column", "read as", "what is done"], source.preparation)
        content += f"<section><h2>What is done with each column</h2>{table}</section>"
    return content


def _table(headings: list[str], rows: list[Any]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(_cell(str(cell)) for cell in row) + "</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    """Return a cell; only long ones wrap, so that a small screen scrolls the table and breaks no word or date."""
    style = ' class="long"' if len(text) > _SHORT_CELL else ""
    return f"<td{style}>{escape(text)}</td>"


def _shown(scale: LossScale) -> Callable[[float], str]:
    """Return the function that writes errors."""
    return lambda value: "unknown" if math.isnan(value) else "infinity" if math.isinf(value) else scale.shown(value)


def _of_reference(source: ReportSource) -> str:
    """Return out of how many rows some carry the weight; the fixed model weighs all alike."""
    is_held = source.snapshot.state.safeguards.veto.is_held
    n_reference = f"of {len(source.snapshot.state.weights):,}"
    return f"{n_reference}; the fixed model, which is in use, weighs all alike" if is_held else n_reference


def _estimate(
    scale: LossScale, interval: tuple[float, float, float], *, is_known: bool, is_covered: bool
) -> tuple[str, str]:
    """Return an estimate and its interval; "not known" where that says nothing, as in ``accous inspect``."""
    error, low, high = interval
    shown = _shown(scale)
    if math.isnan(low):
        return shown(error), f"too few rows{' of a class' if scale.is_of_classes else ''}"
    if not is_covered:
        return "not known", NOT_COVERED
    return shown(error) if is_known else "not known", f"between {shown(low)} and {shown(high)}"


# --- The page about all keys: which drifted, since when, in which columns, worst first


_TONES_OF_STATES = {"degraded": "bad", "uncertain": "none", "healthy": "good"}
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
    moments = _Moments.of(readings)
    rows = [
        [
            str(each["key"]),
            each["state"],
            _TONES_OF_STATES[each["state"]],
            _number(each["value"]),
            _number(each["at_fit"]),
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


def _fleet_head(readings: Sequence[Mapping[str, Any]], name: str) -> str:
    n_rows = sum(each["rows"] for each in readings)
    return f"<header><h1>{escape(name)}</h1><p>{count(len(readings), 'key')}, {count(n_rows, 'row')}</p></header>"


def _fleet_tiles(readings: Sequence[Mapping[str, Any]]) -> str:
    states = Counter(each["state"] for each in readings)
    n_drifted = sum(each["drift"] >= _LARGE_DRIFT for each in readings)
    tiles = [
        *((f"keys that are {state}", states[state], "") for state in _TONES_OF_STATES if states[state]),
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
