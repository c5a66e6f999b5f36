"""The output for each row: its line, copied columns, round, class, probabilities and ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import ParameterError
from accous.tabular.formats.values import exactly

__all__ = [
    "LINE",
    "class_numbers",
    "copied_columns",
    "output_columns",
    "output_schema",
    "predictions_frame",
    "probabilities",
]

LINE = "line"
_DECIMALS = 6


def class_numbers(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Most probable class of each row, by its number."""
    return (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)


def probabilities(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Class probabilities of each row: the softmax of its scores."""
    if scores.ndim == 1:
        scores = np.stack((np.zeros_like(scores), scores), axis=1)
    exponentials = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def output_columns(key: str | None, kept: list[str], classes: NDArray[Any]) -> list[str]:
    """Return the output columns; a copied column must not have the name of one of ours.

    Parameters
    ----------
    key : str, optional
        The column that identifies a row; its line does if there is none.
    kept : list of str
        The other copied columns.
    classes : array
    """
    ours = ["round", "prediction", *(f"p_{label}" for label in classes), "ratio"]
    options = {"--key": [key or LINE], "--keep": kept}
    for option, names in options.items():
        for name in names:
            if name in ours or (option == "--keep" and key is None and name == LINE):
                raise ParameterError(f"{option} {name}: the predictions have a column with that name; rename yours.")
    return [key or LINE, *kept, *ours]


def output_schema(
    key: str | None, kept: list[str], classes: NDArray[Any], types: dict[str, Any]
) -> dict[str, pl.DataType]:
    """Return the types of the output columns, in their order; ``types`` are those of the copied columns, if known."""
    schema: dict[str, Any] = dict.fromkeys(output_columns(key, kept, classes), pl.Float64())
    copied = kept if key is None else [key, *kept]
    schema |= {LINE: pl.Int64()} if key is None else {}
    schema |= {name: types.get(name, pl.String()) for name in copied}
    schema["round"] = pl.Int64()
    schema["prediction"] = pl.Int64() if classes.dtype.kind == "i" else pl.String()
    return schema


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
    classes: NDArray[Any],
) -> pl.DataFrame:
    """Return the output rows: what identifies them and is copied, then what was found.

    Numbers are rounded to keep files small and readable.
    """
    shares = np.round(probabilities(scores), _DECIMALS)
    columns = {"round": rounds, "prediction": pl.Series(classes.tolist()).gather(class_numbers(scores))}
    columns |= {f"p_{label}": shares[:, number] for number, label in enumerate(classes)}
    columns["ratio"] = np.round(ratios, _DECIMALS)
    return copied.hstack(pl.DataFrame(columns))
