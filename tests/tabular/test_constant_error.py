"""The error of a constant is that of the rows that a predictor is judged on."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from accous.table.columns import Choices
from accous.table.fit import ReferenceTable, error_of_constant, read_reference
from accous.table.readers import open_table


def read(folder: Path, labels: list[object], *, is_ordered: bool, task: str | None = None) -> ReferenceTable:
    path = folder / "reference.csv"
    x = np.random.default_rng(0).normal(size=len(labels))
    pl.DataFrame({"x": x, "y": labels}, strict=False).write_csv(path)
    table = open_table(str(path))
    return read_reference(table, "y", Choices(), skips_bad=False, is_ordered=is_ordered, task=task)


def test_classes_in_blocks_are_compared_with_the_class_that_was_frequent_before(tmp_path: Path) -> None:
    # The first fifth knows "a" alone. From then on all rows are "b", which are the most frequent from row 40 on.
    labels: list[object] = ["a"] * 20 + ["b"] * 80
    assert error_of_constant(read(tmp_path, labels, is_ordered=True)) == pytest.approx((20 + 20) / 80)
    assert error_of_constant(read(tmp_path, labels, is_ordered=False)) == pytest.approx(0.2)


def test_numbers_in_blocks_are_compared_with_the_median_before(tmp_path: Path) -> None:
    labels: list[object] = [float(number) for number in range(100)]
    by_hand = np.mean([abs(number - np.median(range(number // 20 * 20))) for number in range(20, 100)])
    assert error_of_constant(read(tmp_path, labels, is_ordered=True)) == pytest.approx(by_hand)
    assert error_of_constant(read(tmp_path, labels, is_ordered=False)) == pytest.approx(25.0)
    few = read(tmp_path, [0.5, 1.5, 2.5, 3.5], is_ordered=True, task="regression")
    assert error_of_constant(few) == pytest.approx(1.0)
