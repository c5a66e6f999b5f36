"""Embeddings in Python: arrays as numpy saves them and frames made from them give the same bits."""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import DataError

NAMES = [f"embedding_{number}" for number in range(6)]


def as_map(rows: np.ndarray, path: Path) -> np.ndarray:
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


FORMS = {
    "float32": lambda rows, _: rows,
    "float64": lambda rows, _: rows.astype(np.float64),
    "memory map": as_map,
    "rows of a larger map": lambda rows, path: as_map(np.hstack([rows, rows]), path)[:, :6],
    "polars": lambda rows, _: pl.DataFrame(rows, schema=NAMES),
    "pandas": lambda rows, _: pd.DataFrame(rows, columns=NAMES),
}


def make_rows() -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(0).normal(size=(90, 6)).astype(np.float32)
    rows[60:] += np.float32(0.5)
    return rows, (rows[:, 0] + rows[:, 1] > 0.3).astype(int)


def follow(form, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    rows, y = make_rows()
    reference = form(rows[:60], folder / "reference.npy")
    model = AdaptiveClassifier(random_state=0).fit(reference, y[:60])
    ratio = OnlineDensityRatio(random_state=0).fit(reference)
    for start in range(60, 90, 5):
        batch = form(rows[start : start + 5], folder / f"{start}.npy")
        model.adapt(batch)
        ratio.partial_fit(batch)
    return model.predict_proba(reference), ratio.predict_ratio(reference)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_the_same_numbers_gives_the_same_bits(name, tmp_path):
    expected = follow(FORMS["float32"], tmp_path)
    found = follow(FORMS[name], tmp_path)
    assert np.ptp(expected[1]) > 0.01
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    "frame",
    [
        lambda rows: pl.DataFrame({"vec": rows.tolist()}),
        lambda rows: pl.DataFrame({"vec": pl.Series(rows, dtype=pl.Array(pl.Float32, 6))}),
        lambda rows: pd.DataFrame({"vec": list(rows)}),
    ],
    ids=["polars list", "polars array", "pandas"],
)
def test_a_column_of_lists_is_refused_with_what_to_do(frame):
    rows, y = make_rows()
    for estimator in (AdaptiveClassifier(), OnlineDensityRatio()):
        with pytest.raises(DataError, match=r"'vec' .*numpy\.array\(frame"):
            estimator.fit(frame(rows), y)
    told = np.array(frame(rows)["vec"].to_list())
    assert np.array_equal(told, rows)
