"""Tables for the tests of the command line: a stream that drifts, with all kinds of columns."""

from pathlib import Path

import numpy as np
import polars as pl

from accous.cli import main
from accous.streams import GaussianStream, SquareShift


def make_tables(n_rounds: int = 60, batch_size: int = 5, n_features: int = 4) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A reference and a stream, both with labels, categories, dates and missing values."""
    stream = GaussianStream(
        SquareShift(period=20), n_features=n_features, n_reference=300, n_rounds=n_rounds, batch_size=batch_size
    )
    X, y = stream.reference()
    batches = list(stream)
    rows, labels = np.vstack([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])
    return _as_table(X, y, first_day=0), _as_table(rows, labels, first_day=30)


def _as_table(X: np.ndarray, y: np.ndarray, first_day: int) -> pl.DataFrame:
    random = np.random.default_rng(7)
    n_rows = len(X)
    days = np.datetime64("2024-01-01") + first_day + np.arange(n_rows) // 10
    frame = pl.DataFrame({f"x{number}": X[:, number] for number in range(X.shape[1])})
    colours = np.where(X[:, 0] > 1.0, "red", np.where(random.random(n_rows) < 0.5, "blue", "grün"))
    is_missing = pl.Series(random.random(n_rows) < 0.1)
    return frame.with_columns(
        pl.Series("id", np.arange(n_rows)),
        pl.when(is_missing).then(None).otherwise(pl.col("x1")).alias("x1"),
        pl.Series("colour", colours),
        pl.Series("day", [str(day) for day in days]),
        pl.Series("label", np.where(np.asarray(y) > 0, "yes", "no")),
    )


def write_tables(folder: Path, **options: int) -> None:
    """Write reference.csv and stream.csv."""
    reference, stream = make_tables(**options)
    reference.write_csv(folder / "reference.csv")
    stream.write_csv(folder / "stream.csv")


def fit_model(folder: Path, frame: pl.DataFrame, *options: str, label: str = "label", name: str = "model") -> Path:
    """Run ``accous fit`` on a frame; return the model's folder."""
    frame.write_csv(folder / "reference.csv")
    fit = ["fit", str(folder / "reference.csv"), "--label", label, "-o", str(folder / name), "--quiet", "--force"]
    assert main([*fit, *options]) == 0
    return folder / name
