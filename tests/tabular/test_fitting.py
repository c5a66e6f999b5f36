"""A reference is read without what is dropped, and something must be left."""

import numpy as np
import polars as pl
import pytest

from accous.exceptions import DataError
from accous.table.columns import Choices
from accous.table.fit import ReferenceTable, read_reference
from accous.table.readers import open_table, with_labels

ROWS = np.random.default_rng(0).normal(size=(12, 3))
LABELS = np.arange(12) % 2
NAMES = ("embedding_0", "embedding_1", "embedding_2")


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(path: str, rows: np.ndarray, drop: tuple[str, ...]) -> ReferenceTable:
    """Write rows with labels, and read them without some columns."""
    np.save("labels.npy", LABELS)
    if path.endswith(".npy"):
        np.save(path, rows)
    elif path.endswith(".parquet"):
        pl.DataFrame({"embedding": rows.tolist()}).write_parquet(path)
    else:
        pl.DataFrame(rows, schema=NAMES).with_columns(label=LABELS).write_csv(path)
    table, label = with_labels(open_table(path), "label" if path.endswith(".csv") else "labels.npy")
    return read_reference(table, label, Choices(drop=drop), skips_bad=True)


@pytest.mark.parametrize("path", ["rows.npy", "rows.parquet", "rows.csv"])
def test_something_besides_the_label_must_be_left(path):
    assert read(path, ROWS, NAMES[1:]).X.shape == (12, 1)
    with pytest.raises(DataError, match=f"^{path} has no column other than the label 'label': drop fewer"):
        read(path, ROWS, NAMES)


@pytest.mark.parametrize(("path", "bad"), [("rows.npy", [5]), ("rows.parquet", [5]), ("rows.csv", [])])
def test_a_dropped_column_is_not_read_but_an_embedding_is_checked_as_a_whole(path, bad):
    rows = ROWS.copy()
    rows[4, 1] = np.inf
    assert [row.line for row in read(path, rows, NAMES[1:2]).bad_rows] == bad
