"""Small change of messages: numbers with their nouns, and the logger of accous."""

from __future__ import annotations

import logging

# --- The logger of accous: silent until you configure logging


LOGGER = logging.getLogger("accous")
# Without a handler of any kind, Python would print warnings to stderr.
LOGGER.addHandler(logging.NullHandler())


# --- Numbers with their nouns in sentences


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, and with the verb if you give it in both forms.

    Examples
    --------
    >>> count(1, "row"), count(2_000, "row"), count(0, "row has", "rows have")
    ('1 row', '2,000 rows', '0 rows have')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
