"""Writes a report as a complete LaTeX document with booktabs tables."""

from __future__ import annotations

from collections.abc import Iterable

from accous_bench.reporting.document import Block, Bullets, Code, Heading, Paragraph, Picture, Table, Text

__all__ = ["latex"]

_PREAMBLE = r"""\documentclass[10pt]{article}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage[a4paper,margin=2cm]{geometry}
\usepackage{booktabs}
\usepackage{float}
\usepackage{graphicx}
\usepackage{textcomp}
\setlength{\parindent}{0pt}
\sloppy
\setlength{\parskip}{0.5\baselineskip}
\newcommand{\fit}[1]{\sbox0{#1}\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\usebox0}\else\usebox0\fi}
\begin{document}
"""
_SECTIONS = {1: "section*", 2: "section", 3: "subsection", 4: "subsubsection"}
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    "\N{MINUS SIGN}": "$-$",
    "<": "$<$",
    ">": "$>$",
    "[": "{[}",
    "]": "{]}",
    "\n": " ",
}


def latex(blocks: Iterable[Block]) -> str:
    """Write the blocks as a LaTeX document; it reads pictures from the folder ``figures`` next to it."""
    return _PREAMBLE + "\n\n".join(_block(block) for block in blocks) + "\n\\end{document}\n"


def _block(block: Block) -> str:
    match block:
        case Heading():
            return rf"\{_SECTIONS[block.level]}{{{_escaped(block.text)}}}"
        case Paragraph():
            return _escaped(block.text)
        case Bullets():
            items = "\n".join(rf"\item {_escaped(item)}" for item in block.items)
            return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"
        case Code():
            return "\n".join([r"\begin{verbatim}", *block.lines, r"\end{verbatim}"])
        case Picture():
            size = r"width=\textwidth,height=0.8\textheight,keepaspectratio"
            lines = [r"\begin{figure}[H]", r"\centering", rf"\includegraphics[{size}]{{figures/{block.name}.png}}"]
            return "\n".join([*lines, rf"\caption{{{_escaped(block.caption)}}}", r"\end{figure}"])
        case Table():
            return _table(block)


def _table(table: Table) -> str:
    lines = [r"\begin{table}[H]", r"\centering", rf"\caption{{{_escaped(table.caption)}}}"]
    lines += [r"\fit{%", rf"\begin{{tabular}}{{l{'r' * (len(table.headings) - 1)}}}", r"\toprule"]
    lines += _group_lines(table)
    lines += [" & ".join(_escaped(heading) for heading in table.headings) + r" \\", r"\midrule"]
    for index, row in enumerate(table.rows):
        # A rule between the bounds and the contenders.
        if index and row.is_bound != table.rows[index - 1].is_bound:
            lines.append(r"\midrule")
        lines.append(" & ".join(_cell(cell) for cell in row.cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if table.notes:
        notes = [f"{_superscript(mark)} {_escaped(text)}" if mark else _escaped(text) for mark, text in table.notes]
        lines += ["", r"\par\smallskip", r"\begin{minipage}{\textwidth}\footnotesize", " \\\\\n".join(notes)]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table}"])


def _group_lines(table: Table) -> list[str]:
    if not table.groups:
        return []
    cells, rules, first = [], [], 1
    for name, width in table.groups:
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{_escaped(name)}}}")
        if name:
            rules.append(rf"\cmidrule(lr){{{first}-{first + width - 1}}}")
        first += width
    return [" & ".join(cells) + r" \\", " ".join(rules)]


def _cell(cell: Text) -> str:
    text = _escaped(cell.text)
    text = rf"\textbf{{{text}}}" if cell.is_bold else text
    return text + (_superscript(",".join(cell.marks)) if cell.marks else "")


def _superscript(mark: str) -> str:
    return rf"\textsuperscript{{{mark}}}"


def _escaped(text: str) -> str:
    """Escape characters that LaTeX would interpret; replace characters missing from its fonts by a question mark."""
    signs = (_ESCAPES.get(sign, sign) for sign in text)
    return "".join(sign if sign.isascii() or sign in "äöüÄÖÜßéèêáàçñ" else "?" for sign in signs)
