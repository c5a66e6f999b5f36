"""Finds the line of a setting in a TOML text, so that an error can name it."""

from __future__ import annotations

import re

__all__ = ["line_of"]


def line_of(text: str, path: tuple[str, ...], value: object = None) -> int | None:
    r"""Return the line of a key, counted from 1, or of a value in its list if one is given and found.

    Parameters
    ----------
    text : str
        Valid TOML.
    path : tuple of str
        Names of the tables, then the key; if the last name is a table, its header is found.
    value : object, optional
        An entry of the key's list.

    Examples
    --------
    >>> from accous_bench.spec_lines import line_of
    >>> line_of("seeds = 2\n[options.gaussian]\nn_features = 0", ("options", "gaussian", "n_features"))
    3
    >>> line_of('shifts = [\n  "Lin",\n  "Squ",\n]', ("shifts",), "Squ")
    3
    """
    lines = text.splitlines()
    table: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        header = re.match(r"\s*\[+([^\]]+)\]+", line)
        if header:
            table = tuple(part.strip().strip("\"'") for part in header[1].split("."))
            if table == path:
                return number
            continue
        key = re.match(r"\s*([\w.\"' -]+?)\s*=", line)
        if key and (*table, *(part.strip().strip("\"'") for part in key[1].split("."))) == path:
            return number if value is None else _line_of_entry(lines, number, value)
    return None


def _line_of_entry(lines: list[str], first: int, value: object) -> int:
    """Return the line of an entry of the list that begins at ``line``, or ``line`` if the list does not have it."""
    wanted = [f'"{value}"', f"'{value}'"] if isinstance(value, str) else [str(value)]
    for number in range(first, len(lines) + 1):
        if any(re.search(rf"(?<![\w.-]){re.escape(text)}(?![\w.])", lines[number - 1]) for text in wanted):
            return number
        if "]" in lines[number - 1]:
            break
    return first
