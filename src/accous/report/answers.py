"""Questions about the model, each with an answer and a sentence, as a section of the page."""

from __future__ import annotations

from html import escape

__all__ = ["answers_section"]

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
