"""The last rows of the stream: the right ones, whatever the batches, and never changed afterwards."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.model.watching import BLOCK_ROWS, MAX_BYTES, MAX_ROWS, NO_ROWS, recent_from_plain

SAVED = Path(__file__).parent.parent / "checkpoint" / "saved_by_0_1"


def counted(start: int, n_rows: int, n_columns: int = 2) -> Any:
    return np.arange(start, start + n_rows, dtype=np.float64)[:, None] * np.ones(n_columns)


@given(st.lists(st.integers(1, 1300), min_size=1, max_size=30))
def test_the_last_rows_are_kept_whatever_the_batches(sizes: list[int]) -> None:
    recent, n_rows = NO_ROWS, 0
    for size in sizes:
        recent = recent.add(counted(n_rows, size))
        n_rows += size
        expected = np.arange(max(0, n_rows - MAX_ROWS), n_rows)
        np.testing.assert_array_equal(recent.last()[:, 0], expected)
        assert recent.n_closed == n_rows // BLOCK_ROWS
        assert sum(map(len, recent.blocks)) <= MAX_ROWS + BLOCK_ROWS


def test_single_rows_are_kept_too() -> None:
    recent = NO_ROWS
    for number in range(700):
        recent = recent.add(counted(number, 1))
    np.testing.assert_array_equal(recent.last()[:, 0], np.arange(200, 700))


def test_an_older_state_and_the_callers_array_are_not_connected() -> None:
    batch = counted(0, 40)
    first = NO_ROWS.add(batch)
    second = first.add(batch)
    batch[:] = -1.0
    np.testing.assert_array_equal(first.last()[:, 0], np.arange(40))
    np.testing.assert_array_equal(second.last()[:, 0], [*range(40), *range(40)])


@pytest.mark.parametrize("n_columns", [1_000, 5_000, 1_000_000])
def test_wide_rows_take_bounded_memory(n_columns: int) -> None:
    recent = NO_ROWS
    for number in range(4):
        recent = recent.add(counted(number, 3, n_columns))
    assert recent.max_rows == max(1, min(MAX_ROWS, MAX_BYTES // (8 * n_columns)))
    n_bytes = sum(part.nbytes for part in (*recent.blocks, *recent.waiting))
    assert n_bytes <= 1.2 * MAX_BYTES + 8 * n_columns


@pytest.mark.parametrize("n_before", [0, 1, 63, 64, 499, 700])
def test_a_saved_structure_goes_on_with_the_same_blocks(n_before: int) -> None:
    recent = NO_ROWS.add(counted(0, n_before)) if n_before else NO_ROWS
    restored = recent_from_plain(recent.to_plain())
    for number in range(3):
        recent, restored = (each.add(counted(n_before + 50 * number, 50)) for each in (recent, restored))
        assert recent.n_closed == restored.n_closed
        assert [block.tobytes() for block in recent.blocks] == [block.tobytes() for block in restored.blocks]
        assert recent.last().tobytes() == restored.last().tobytes()


def test_a_model_keeps_constant_columns_and_saves_its_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=(100, 2)), np.ones(100)))
    model = AdaptiveClassifier().fit(X, X[:, 0] > 0)
    assert model.state_.recent.last() is None
    batches = [np.column_stack((rng.normal(size=(7, 2)), np.full(7, 2.0))) for _ in range(90)]
    for batch in batches:
        model.adapt(batch)
    np.testing.assert_array_equal(model.state_.recent.last(), np.concatenate(batches)[-MAX_ROWS:])
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    assert loaded.state_.recent.last().tobytes() == model.state_.recent.last().tobytes()


def test_a_transformer_gives_the_numbers_of_a_frame() -> None:
    rng = np.random.default_rng(0)

    def frame(n_rows: int) -> pd.DataFrame:
        return pd.DataFrame({"size": rng.normal(size=n_rows), "colour": rng.choice(["red", "blue"], n_rows)})

    encode = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["size"]))
    reference, batch = frame(60), frame(5)
    pipeline = make_pipeline(encode, LogisticRegression())
    model = AdaptiveClassifier(pipeline, OnlineDensityRatio(encode)).fit(reference, np.arange(60) % 2)
    model.adapt(batch)
    np.testing.assert_allclose(model.state_.recent.last(), model.ratio_.features_.row_map.transform(batch))
    blind = AdaptiveClassifier(pipeline, NoShift()).fit(reference, np.arange(60) % 2).adapt(batch)
    assert blind.state_.recent.last() is None


def test_a_folder_saved_before_has_no_recent_rows() -> None:
    assert accous.load(SAVED / "classifier").state_.recent == NO_ROWS
