"""The output for each row: its line, copied columns, round, class, probabilities and ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import ParameterError

__all__ = ["LINE", "class_numbers", "output_columns", "predictions_frame", "probabilities"]

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
