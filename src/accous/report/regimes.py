"""The section about regimes: a time line, and the columns that tell the regimes apart."""

from __future__ import annotations

from html import escape

from accous.diagnostics.drift import Regime, rounds_in_words
from accous.report.subject import Subject
from accous.text import count

__all__ = ["regimes_section"]

_NOTE = (
    "A regime is a state of the inputs that the stream settled in and that differs from the reference. "
    "When it comes back, the model recognises it within a few rounds instead of learning it again."
)
_WIDTH, _ROW, _BAR, _LEFT = 1000, 34, 18, 40


def regimes_section(subject: Subject) -> str:
    """Return the section; empty if no regime is remembered."""
    regimes = subject.regimes
    if not regimes:
        return ""
    items = "".join(f"<li>{escape(_in_words(regime))}</li>" for regime in regimes)
    line = _time_line(regimes, subject.model.n_rounds_)
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
