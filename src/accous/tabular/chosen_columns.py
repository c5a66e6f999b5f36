"""The columns that an option such as ``--keep`` names."""

from __future__ import annotations

from collections.abc import Mapping

from accous.exceptions import ParameterError
from accous.parameters import did_you_mean, listed
from accous.tabular.formats.vectors import spread_names

__all__ = ["chosen_columns"]


def chosen_columns(
    option: str, values: list[str], columns: list[str], table: str, widths: Mapping[str, int] | None = None
) -> list[str]:
    """Return the columns named by an option that can be repeated and takes names separated by commas.

    The name of an embedding, one of ``widths``, stands for all of its columns.

    Examples
    --------
    >>> chosen_columns("--keep", ["id", "day,hour"], ["id", "day", "hour"], "rows.csv")
    ['id', 'day', 'hour']
    """
    names = [name for value in values for name in ([value] if value in columns else value.split(","))]
    widths = widths or {}
    names = [part for name in names for part in (spread_names(name, widths[name]) if name in widths else [name])]
    for name in names:
        if name not in columns:
            meant = did_you_mean(name, columns)
            raise ParameterError(f"{option} {name}: {table} has no such column{meant}; it has {listed(columns)}.")
    return list(dict.fromkeys(names))
