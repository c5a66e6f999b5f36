"""Narrow or wide: the one place that says for how many columns the compiled loops are used."""

from __future__ import annotations

__all__ = ["MAX_NARROW_COLUMNS", "is_narrow"]

MAX_NARROW_COLUMNS = 64


def is_narrow(n_columns: int) -> bool:
    """Whether the compiled loops are faster than products of matrices."""
    return n_columns <= MAX_NARROW_COLUMNS
