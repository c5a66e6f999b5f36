"""Streams from a table in the order of time."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.exceptions import DataError, ParameterError
from accous.streams import OrderedStream

X = np.arange(20.0)[:, None]
Y = np.arange(20) % 2
MONTHS = np.repeat([3, 1, 2, 1], [6, 5, 5, 4])


def starts(stream: OrderedStream) -> list[int]:
    return [int(batch.X[0, 0]) for batch in stream]


def test_so_many_rows_a_round() -> None:
    stream = OrderedStream(X, Y, n_reference=7, batch_size=5)
    assert stream.reference()[0].ravel().tolist() == list(range(7))
    assert starts(stream) == [7, 12, 17]
    assert [len(batch.y) for batch in stream] == [5, 5, 3]
    assert [batch.round for batch in stream] == [1, 2, 3]
    assert all(np.isnan(batch.alpha) for batch in stream)


def test_a_round_begins_where_the_column_changes_also_back_to_a_value_seen_before() -> None:
    stream = OrderedStream(X, Y, groups=MONTHS)
    assert len(stream.reference()[1]) == 6
    assert starts(stream) == [6, 11, 16]


def test_long_groups_are_cut_into_batches() -> None:
    assert starts(OrderedStream(X, Y, groups=MONTHS, batch_size=2)) == [6, 8, 10, 11, 13, 15, 16, 18]


def test_a_reference_may_end_within_a_group() -> None:
    assert starts(OrderedStream(X, Y, groups=MONTHS, n_reference=8)) == [8, 11, 16]


@given(
    n_reference=st.integers(2, 19),
    batch_size=st.integers(1, 30),
    groups=st.none() | st.lists(st.integers(0, 2), min_size=20, max_size=20),
)
def test_every_row_comes_once_and_in_order(n_reference: int, batch_size: int, groups: Any) -> None:
    stream = OrderedStream(X, Y, n_reference=n_reference, batch_size=batch_size, groups=groups)
    pieces = [stream.reference()[0], *(batch.X for batch in stream)]
    assert np.array_equal(np.concatenate(pieces), X)
    assert len(stream) == len(pieces) - 1
    assert all(len(piece) <= batch_size for piece in pieces[1:])
    if groups is not None:
        assert all(len({groups[int(row[0])] for row in piece}) == 1 for piece in pieces[1:])


def test_repr_tells_sizes() -> None:
    expected = "OrderedStream(20 rows, n_reference=7, n_rounds=3, batch_size=5)"
    assert repr(OrderedStream(X, Y, n_reference=7, batch_size=5)) == expected


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ParameterError, "Give n_reference and batch_size"),
        ({"n_reference": 5}, ParameterError, "Give n_reference and batch_size"),
        ({"n_reference": 1, "batch_size": 1}, ParameterError, "n_reference must be"),
        ({"n_reference": 5, "batch_size": 0}, ParameterError, "batch_size must be"),
        ({"n_reference": 20, "batch_size": 1}, DataError, "leaves no stream"),
        ({"groups": np.zeros(20)}, DataError, "leaves no stream"),
        ({"groups": np.zeros(3)}, DataError, "one entry for each of the 20 rows"),
    ],
)
def test_bad_input_is_named(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OrderedStream(X, Y, **settings)


def test_labels_must_match() -> None:
    with pytest.raises(DataError, match="one label for each row"):
        OrderedStream(X, Y[:5], n_reference=5, batch_size=1)
