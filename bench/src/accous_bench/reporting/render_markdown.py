"""Writes a report as Markdown with GitHub tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from accous_bench.reporting.document import Block, Bullets, Code, Heading, Paragraph, Picture, Table, Text

__all__ = ["markdown"]


def markdown(blocks: Iterable[Block], figure_folder: str = "figures") -> str:
    """Write the blocks as Markdown.

    Parameters
    ----------
    blocks : iterable of Block
    figure_folder : str, default="figures"
        Folder of the pictures, relative to the file.

    Returns
    -------
    str
    """
    return "\n\n".join(_block(block, figure_folder) for block in blocks) + "\n"


def _block(block: Block, figure_folder: str) -> str:
    match block:
        case Heading():
            return f"{'#' * block.level} {_escaped(block.text)}"
        case Paragraph():
            return _escaped(block.text)
        case Bullets():
            return "\n".join(f"- {_escaped(item)}" for item in block.items)
        case Code():
            return "\n".join(["```console", *(f"$ {line}" for line in block.lines), "```"])
        case Picture():
            caption = _escaped(block.caption)
            return f"![{caption.partition(': ')[0]}]({figure_folder}/{block.name}.png)\n\n*{caption}*"
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    headings = _flat_headings(table)
    lines = [_line([_escaped(heading) for heading in headings]), "|---" + "|---:" * (len(headings) - 1) + "|"]
    lines += [_line([_cell(cell) for cell in row.cells]) for row in table.rows]
    parts = [f"*{_escaped(table.caption)}*", "\n".join(lines)]
    parts += [f"<sup>{mark}</sup> {_escaped(text)}" if mark else _escaped(text) for mark, text in table.notes]
    return "\n\n".join(parts)


def _flat_headings(table: Table) -> list[str]:
    """Markdown has one line of headings: "Squ ours", "Squ paper"; a group of one column needs its own name only."""
    if not table.groups:
        return table.headings
    headings: list[str] = []
    for group, width in table.groups:
        names = table.headings[len(headings) : len(headings) + width]
        headings += [f"{group} {name}" if width > 1 else group or name for name in names]
    return headings


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Text) -> str:
    text = _escaped(cell.text)
    text = f"**{text}**" if cell.is_bold else text
    return text + (f" <sup>{','.join(cell.marks)}</sup>" if cell.marks else "")


def _escaped(text: str) -> str:
    """Escape characters that Markdown would interpret; an underscore inside a word needs no escape."""
    text = re.sub(r"([\\`*|\[\]])", r"\\\1", text.replace("\n", " "))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
