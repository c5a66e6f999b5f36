"""A report as a list of blocks; one module each writes them as Markdown, LaTeX or HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Block", "Bullets", "Code", "Heading", "Notes", "Paragraph", "Picture", "Row", "Table", "Text"]

DASH = "–"


@dataclass(frozen=True)
class Text:
    """The content of a table cell: plain text, whether it is bold, and the marks of footnotes."""

    text: str
    is_bold: bool = False
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of a table; the bounds (unweighted, limit and oracle) are set off from the contenders."""

    cells: list[Text]
    is_bound: bool = False


@dataclass(frozen=True)
class Table:
    """A table with footnotes.

    Attributes
    ----------
    caption : str
    groups : list of (str, int)
        Headings above the headings with the number of columns they span; empty for none.
    headings : list of str
    rows : list of Row
    notes : list of (str, str)
        Mark and text of each footnote.
    """

    caption: str
    headings: list[str]
    rows: list[Row]
    groups: list[tuple[str, int]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int


@dataclass(frozen=True)
class Paragraph:
    """Plain words."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of plain sentences."""

    items: list[str]


@dataclass(frozen=True)
class Picture:
    """A figure by the name of its file, without the suffix."""

    name: str
    caption: str


@dataclass(frozen=True)
class Code:
    """Commands to type."""

    lines: list[str]


Block = Heading | Paragraph | Bullets | Code | Table | Picture


class Notes:
    """Assigns the marks a, b, c, ... to footnotes; the same text gets the same mark."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """Return the mark of a footnote."""
        return self._marks.setdefault(text, _mark(len(self._marks)))

    def marks(self, texts: Iterable[str]) -> tuple[str, ...]:
        """Return the marks of several footnotes."""
        return tuple(self.mark(text) for text in texts)

    def all(self) -> list[tuple[str, str]]:
        """Mark and text of each, in order."""
        return [(mark, text) for text, mark in self._marks.items()]


def _mark(index: int) -> str:
    """Letters from a to z, then aa, ab, ..."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    before, last = divmod(index, len(letters))
    return (_mark(before - 1) if before else "") + letters[last]
