"""Writes a report as one HTML page that opens offline, without scripts, external fonts or external pictures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from accous_bench.reporting.document import Block, Bullets, Code, Heading, Paragraph, Picture, Table, Text

__all__ = ["html_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5a6675; --paper: #ffffff; --line: #d5dbe3; --shade: #f3f6f9;
  --accent: #0072b2; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9f0; --soft: #9aa7b7; --paper: #14181e; --line: #333c48; --shade: #1d232b; --accent: #6cc0f0; }
  figure svg { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, nav, header { max-width: 76rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 2.5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.4rem; margin: 3rem 0 .75rem; padding-top: 1rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, ul { max-width: 52rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .35rem 1.25rem; list-style: none; padding: 0; margin: 1rem 0 0; }
a { color: var(--accent); }
.scroll { overflow-x: auto; margin: 0 0 .25rem; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
p.caption { color: var(--soft); font-size: .9rem; margin: 1.75rem 0 .5rem; }
th, td { padding: .28rem .5rem; text-align: right; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
thead th { font-weight: 600; border-bottom: 1px solid var(--ink); }
thead tr.groups th { border-bottom: 1px solid var(--line); text-align: center; }
tbody tr:hover td { background: var(--shade); }
tbody tr.bound td { color: var(--soft); font-style: italic; }
tbody tr.edge td { border-top: 1px solid var(--line); }
tbody tr:last-child td { border-bottom: 1px solid var(--ink); }
td strong { color: var(--ink); }
.notes { color: var(--soft); font-size: .82rem; margin: .25rem 0 1.5rem; padding: 0; list-style: none; }
pre { background: var(--shade); padding: .75rem 1rem; overflow-x: auto; font-size: .86rem; }
figure { margin: 1.5rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 52rem; }
footer { height: 4rem; }
@media print {
  :root { --ink: #000; --soft: #444; --paper: #fff; --line: #bbb; --shade: #fff; }
  figure svg { filter: none; mix-blend-mode: normal; }
  nav { display: none; }
  body { font-size: 10pt; }
  h2 { break-before: auto; break-after: avoid; }
  figure, .scroll, tr { break-inside: avoid; }
  .scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  p.caption { break-after: avoid; font-size: 9pt; }
  figcaption, .notes { font-size: 8.5pt; }
  th, td { padding: .15rem .3rem; }
}
"""


def html_page(blocks: Iterable[Block], figures: Mapping[str, str]) -> str:
    """Write the blocks as one page.

    Parameters
    ----------
    blocks : iterable of Block
        The first one is the title.
    figures : mapping of str to str
        SVG text by the name of the figure; figures that are not in it are left out.

    Returns
    -------
    str
    """
    blocks = list(blocks)
    title = next((block.text for block in blocks if isinstance(block, Heading)), "Benchmark")
    sections = [block.text for block in blocks if isinstance(block, Heading) and block.level == 2]
    links = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in sections)
    body = "\n".join(_block(block, figures) for block in blocks if block is not blocks[0])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<header><h1>{escape(title)}</h1></header>\n"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n<main>\n{body}\n</main>\n<footer></footer>\n'
        "</body>\n</html>\n"
    )


def _block(block: Block, figures: Mapping[str, str]) -> str:
    match block:
        case Heading():
            return f'<h{block.level} id="{_anchor(block.text)}">{escape(block.text)}</h{block.level}>'
        case Paragraph():
            return f"<p>{escape(block.text)}</p>"
        case Bullets():
            return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in block.items) + "</ul>"
        case Code():
            return "<pre>" + escape("\n".join(block.lines)) + "</pre>"
        case Picture():
            return _figure(block, figures)
        case Table():
            return _table(block)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def _figure(picture: Picture, figures: Mapping[str, str]) -> str:
    if picture.name not in figures:
        return ""
    svg = _inline(figures[picture.name], picture)
    return f"<figure>\n{svg}\n<figcaption>{escape(picture.caption)}</figcaption>\n</figure>"


def _inline(svg: str, picture: Picture) -> str:
    """Return the drawing of an SVG file with unique ids: two figures on one page must not share ids."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = _anchor(picture.name)
    svg = re.sub(r'\bid="([^"]*)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]*)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{prefix}-\1)", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.caption)}" ', 1)


def _table(table: Table) -> str:
    head = ""
    if table.groups:
        cells = "".join(f'<th colspan="{width}" scope="colgroup">{escape(name)}</th>' for name, width in table.groups)
        head = f'<tr class="groups">{cells}</tr>\n'
    head += "<tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in table.headings) + "</tr>"
    rows = []
    for index, row in enumerate(table.rows):
        is_edge = index > 0 and row.is_bound != table.rows[index - 1].is_bound
        names = " ".join(name for name, holds in (("bound", row.is_bound), ("edge", is_edge)) if holds)
        opening = f'<tr class="{names}">' if names else "<tr>"
        rows.append(opening + "".join(f"<td>{_cell(cell)}</td>" for cell in row.cells) + "</tr>")
    body = "\n".join(rows)
    notes = "".join(f"<li>{f'<sup>{mark}</sup> ' if mark else ''}{escape(text)}</li>" for mark, text in table.notes)
    return (
        f'<p class="caption">{escape(table.caption)}</p>\n<div class="scroll"><table>\n<thead>\n{head}\n</thead>\n'
        f'<tbody>\n{body}\n</tbody>\n</table></div>\n<ul class="notes">{notes}</ul>'
    )


def _cell(cell: Text) -> str:
    text = escape(cell.text)
    text = f"<strong>{text}</strong>" if cell.is_bold else text
    return text + (f"<sup>{escape(','.join(cell.marks))}</sup>" if cell.marks else "")
