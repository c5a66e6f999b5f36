"""The stream of ``accous demo`` as two CSV files, to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.streams import GaussianStream

__all__ = ["write_demo_tables"]

_BATCHES_A_DAY = 24


def write_demo_tables(stream: GaussianStream, folder: Path) -> tuple[Path, Path]:
    """Write ``reference.csv`` and ``stream.csv``, both with labels; files that are there already are left alone."""
    paths = folder / "reference.csv", folder / "stream.csv"
    for path in paths:
        if path.exists():
            raise DataError(f"{path} already exists: give another folder.")
    batches = list(stream)
    rows, labels = np.vstack([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    days = np.repeat([batch.round // _BATCHES_A_DAY for batch in batches], [len(batch.X) for batch in batches])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _frame(*stream.reference()).write_csv(paths[0])
        first = np.datetime64("2026-01-01")
        _frame(rows, labels).insert_column(0, pl.Series("day", first + days)).write_csv(paths[1])
    except OSError as error:
        raise DataError(f"{folder} cannot be written to: {error.strerror or error}.") from None
    return paths


def _frame(X: NDArray[np.float64], y: NDArray[Any]) -> pl.DataFrame:
    columns: dict[str, Any] = {f"x{number}": X[:, number - 1].round(6) for number in range(1, X.shape[1] + 1)}
    return pl.DataFrame(columns | {"label": np.where(np.asarray(y) > 0, "yes", "no")})
