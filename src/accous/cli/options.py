"""What the commands on tables have in common: options, consoles, lists of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from accous.exceptions import ParameterError
from accous.parameters import did_you_mean, listed

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "AsJson",
    "Encoding",
    "Force",
    "OnBadRow",
    "Quiet",
    "Rejects",
    "Separator",
    "TableFormat",
    "chosen_columns",
    "remarks_console",
    "require_between",
    "results_console",
]

LARGEST_SEED = 2**32 - 1

TableFormat = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="What the table is (csv, jsonl, ...), where its name does not say.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding", metavar="NAME", help="Of a text, such as latin-1; otherwise UTF-8, or UTF-16 with its mark.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator", metavar="CHAR", help="Between the fields of a CSV; otherwise as its header has it.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
OnBadRow = Annotated[
    str,
    typer.Option(
        "--on-bad-row", metavar="fail|skip", help="Stop at a row that cannot be used, or set it aside and go on.",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Rejects = Annotated[
    str | None,
    typer.Option(
        "--rejects", metavar="FILE", help="Where rows set aside go, with line and reason (CSV).",
        rich_help_panel="The table",
    ),
]  # fmt: skip
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no remarks.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the results as JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there already.")]


def remarks_console(*, quiet: bool) -> Console:
    """Console for remarks and progress, on stderr: results alone go to stdout."""
    from rich.console import Console

    return Console(stderr=True, quiet=quiet, highlight=False)


def results_console() -> Console:
    """Console for results."""
    from rich.console import Console

    return Console(highlight=False)


def chosen_columns(
    option: str, values: list[str], columns: list[str], table: str, widths: Mapping[str, int] | None = None
) -> list[str]:
    """Columns named by an option that may be repeated, or take several names between commas.

    The name of an embedding, one of ``widths``, stands for all of its columns.

    Examples
    --------
    >>> chosen_columns("--keep", ["id", "day,hour"], ["id", "day", "hour"], "rows.csv")
    ['id', 'day', 'hour']
    """
    names = [name for value in values for name in ([value] if value in columns else value.split(","))]
    widths = {name: width for name, width in (widths or {}).items() if name in names}
    if widths:
        from accous.tabular.formats.vectors import spread_names

        names = [part for name in names for part in (spread_names(name, widths[name]) if name in widths else [name])]
    for name in names:
        if name not in columns:
            meant = did_you_mean(name, columns)
            raise ParameterError(f"{option} {name}: {table} has no such column{meant}; it has {listed(columns)}.")
    return list(dict.fromkeys(names))


def require_between(name: str, value: float, low: float, high: float) -> None:
    """Raise a ParameterError for a number that is out of bounds."""
    if not low <= value <= high:
        raise ParameterError(f"{name} must be between {low} and {high}, got {value}.")


def require_separator(separator: str | None) -> str | None:
    """Return a separator of one character; a backslash and t stand for a tab."""
    if separator is None:
        return None
    separator = separator.replace("\\t", "\t")
    if len(separator) != 1 or ord(separator) > 127 or separator in '"\n\r':
        raise ParameterError(f"--separator must be one character such as ';', got {separator!r}.")
    return separator
