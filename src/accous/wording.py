"""Numbers with their nouns in sentences."""

from __future__ import annotations

__all__ = ["count"]


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, and with the verb if you give it in both forms.

    Examples
    --------
    >>> count(1, "row"), count(2_000, "row"), count(0, "row has", "rows have")
    ('1 row', '2,000 rows', '0 rows have')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
