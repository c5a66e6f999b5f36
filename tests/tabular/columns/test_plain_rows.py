"""Rows of plain values: without a frame, the features have the bits that a frame gives, or there are none."""

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.table.columns import Choices, ColumnEncoder, PlainRowEncoder, frame_of_rows

N_ROWS = 60


@pytest.fixture(scope="module")
def encoder() -> ColumnEncoder:
    random = np.random.default_rng(3)
    colours = ["red", "blue"] * (N_ROWS // 2 - 1) + ["green", "grey"]
    frame = pl.DataFrame(
        {
            "a": random.normal(size=N_ROWS) * 1e3 + 7,
            "colour": colours,
            "gaps": [None if number % 7 == 0 else number / 3 for number in range(N_ROWS)],
            "same": [5] * N_ROWS,
        }
    )
    return ColumnEncoder.learn(frame, Choices()).with_records(frame)


numbers = st.one_of(
    st.floats(allow_nan=False), st.integers(), st.booleans(), st.none(), st.sampled_from(["7", "x", ""])
)
texts = st.one_of(
    st.sampled_from(["red", "blue", "green", "grey", "pink", " red", "NA", "nan"]),
    # As any text, which Hypothesis would make by encoding every character there is.
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(),
)
rows = st.lists(
    st.fixed_dictionaries({"a": numbers, "colour": texts, "gaps": numbers}, optional={"same": numbers, "other": texts}),
    min_size=1,
    max_size=4,
)


@given(rows=rows)
def test_the_bits_are_those_of_a_frame_or_there_are_none(encoder, rows):
    quick = PlainRowEncoder(encoder).encode(rows)
    frame = frame_of_rows(rows, ["a", "gaps"], ["colour", "same"])
    whole = encoder.encode(frame)
    if quick is None:
        return
    assert whole.bad_values == []
    assert quick.X.tobytes() == whole.X.tobytes()
    assert quick.marks.hits.tobytes() == whole.marks.hits.tobytes()
    assert quick.marks.hits.shape == whole.marks.hits.shape
    assert quick.marks.values.equals(whole.marks.values)
    assert quick.n_missing.tolist() == whole.n_missing.tolist()
    assert quick.n_unknown.tolist() == whole.n_unknown.tolist()


@pytest.fixture(scope="module")
def encoder_of_numbers() -> ColumnEncoder:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(3.0, 1e-3, size=50), "b": rng.integers(0, 9, size=50)})
    return ColumnEncoder.learn(frame, Choices()).with_records(frame)


@given(row=st.fixed_dictionaries({"a": numbers, "b": numbers}))
def test_the_bits_of_a_row_of_numbers_are_those_of_a_frame(encoder_of_numbers, row):
    """A single row of numbers is encoded without arrays."""
    quick = PlainRowEncoder(encoder_of_numbers).encode([row])
    if quick is None:
        assert any(type(value) not in (int, float) or not math.isfinite(as_float(value)) for value in row.values())
        return
    whole = encoder_of_numbers.encode(frame_of_rows([row], ["a", "b"], []))
    assert whole.bad_values == []
    assert quick.X.tobytes() == whole.X.tobytes()
    assert quick.X.shape == whole.X.shape


def as_float(value):
    try:
        return float(value)
    except OverflowError:
        return math.inf


def test_numbers_and_known_categories_need_no_frame(encoder):
    found = PlainRowEncoder(encoder).encode(
        [{"a": 1.5, "colour": "red", "gaps": 3}, {"a": 2, "colour": "grey", "gaps": 0}]
    )
    assert found is not None
    assert found.X.shape == (2, len(encoder.feature_names))


@pytest.mark.parametrize(
    "row",
    [
        {"a": None, "colour": "red", "gaps": 1},
        {"a": "7", "colour": "red", "gaps": 1},
        {"a": True, "colour": "red", "gaps": 1},
        {"a": float("inf"), "colour": "red", "gaps": 1},
        {"a": 10**400, "colour": "red", "gaps": 1},
        {"a": 1, "colour": "pink", "gaps": 1},
        {"a": 1, "colour": 3, "gaps": 1},
        {"a": 1, "colour": "red"},
        {"a": 1, "colour": "red", "gaps": 1, "same": 6},
    ],
    ids=json.dumps,
)
def test_anything_else_needs_one(encoder, row):
    assert PlainRowEncoder(encoder).encode([row]) is None


def test_a_value_does_not_depend_on_the_other_rows():
    frame = frame_of_rows([{"a": 7, "b": 7}, {"a": 7.5, "b": "x"}, {"a": True, "b": 7.0}], ["a"], ["b"])
    assert frame["a"].to_list() == [7.0, 7.5, 1.0]
    assert frame["b"].to_list() == ["7", "x", "7.0"]
