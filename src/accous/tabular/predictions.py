"""The output for each row: its line, copied columns, round, what is predicted, and ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import ParameterError
from accous.tabular.formats.values import exactly
from accous.tabular.label_kinds import LabelKind
from accous.tabular.label_tables import LINE

__all__ = [
    "copied_columns",
    "output_columns",
    "output_schema",
    "predictions_frame",
]

_DECIMALS = 6


def output_columns(key: str | None, kept: list[str], kind: LabelKind) -> list[str]:
    """Return the output columns; a copied column must not have the name of one of ours.

    Parameters
    ----------
    key : str, optional
        The column that identifies a row; its line does if there is none.
    kept : list of str
        The other copied columns.
    kind : LabelKind
    """
    ours = ["round", *kind.columns, "ratio"]
    options = {"--key": [key or LINE], "--keep": kept}
    for option, names in options.items():
        for name in names:
            if name in ours or (option == "--keep" and key is None and name == LINE):
                raise ParameterError(f"{option} {name}: the predictions have a column with that name; rename yours.")
    return [key or LINE, *kept, *ours]


def output_schema(key: str | None, kept: list[str], kind: LabelKind, types: dict[str, Any]) -> dict[str, pl.DataType]:
    """Return the types of the output columns, in their order; ``types`` are those of the copied columns, if known."""
    schema: dict[str, Any] = dict.fromkeys(output_columns(key, kept, kind), pl.Float64())
    copied = kept if key is None else [key, *kept]
    schema |= {LINE: pl.Int64()} if key is None else {}
    schema |= {name: types.get(name, pl.String()) for name in copied}
    return schema | {"round": pl.Int64()} | kind.columns


def copied_columns(frame: pl.DataFrame, lines: NDArray[np.int64], key: str | None, kept: list[str]) -> pl.DataFrame:
    """Return what identifies rows, their key or their lines, and the columns to pass through."""
    if key is not None:
        return frame.select(exactly([key, *kept]))
    of_lines = pl.DataFrame({LINE: lines})
    return of_lines.hstack(frame.select(exactly(kept))) if kept else of_lines


def predictions_frame(
    copied: pl.DataFrame,
    rounds: NDArray[np.int64],
    scores: NDArray[np.float64],
    ratios: NDArray[np.float64],
    kind: LabelKind,
) -> pl.DataFrame:
    """Return the output rows: what identifies them and is copied, then what was found.

    Numbers are rounded to keep files small and readable.
    """
    columns = {"round": rounds, **kind.shown(scores), "ratio": np.round(ratios, _DECIMALS)}
    return copied.hstack(pl.DataFrame(columns))
