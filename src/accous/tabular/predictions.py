"""The output for each row: copied columns, round, class, probabilities and ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import ParameterError

__all__ = ["class_numbers", "output_columns", "predictions_frame", "probabilities"]

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


def output_columns(kept: list[str], classes: NDArray[Any]) -> list[str]:
    """Return the output columns; a copied column must not have the name of one of ours."""
    ours = ["round", "prediction", *(f"p_{label}" for label in classes), "ratio"]
    taken = [name for name in kept if name in ours]
    if taken:
        raise ParameterError(f"--keep {taken[0]}: the predictions have a column with that name; rename yours.")
    return [*kept, *ours]


def predictions_frame(
    kept: pl.DataFrame,
    rounds: NDArray[np.int64],
    scores: NDArray[np.float64],
    ratios: NDArray[np.float64],
    classes: NDArray[Any],
) -> pl.DataFrame:
    """Return the output rows.

    Numbers are rounded to keep files small and readable.
    """
    shares = np.round(probabilities(scores), _DECIMALS)
    columns = {"round": rounds, "prediction": pl.Series(classes.tolist()).gather(class_numbers(scores))}
    columns |= {f"p_{label}": shares[:, number] for number, label in enumerate(classes)}
    columns["ratio"] = np.round(ratios, _DECIMALS)
    return pl.DataFrame(columns) if kept.width == 0 else kept.hstack(pl.DataFrame(columns))
