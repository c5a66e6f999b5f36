"""Streams from two pools: what is drawn, how often, and the ratio that follows from it."""

from typing import Any

import numpy as np
import pytest

from accous.exceptions import DataError, ParameterError
from accous.streams import ConstantShift, LinearShift, MixtureStream, SquareShift

# A row says where it is from: its pool in the first column, its number in the second.
POOL_A = np.column_stack((np.zeros(300), np.arange(300.0))), np.arange(300) % 2
POOL_B = np.column_stack((np.ones(500), np.arange(500.0))), np.arange(500) % 3


def stream(**changes: Any) -> MixtureStream:
    settings = {"n_rounds": 40, "batch_size": 5, "n_reference": 100} | changes
    shift = settings.pop("shift", SquareShift(period=10))
    return MixtureStream(POOL_A, POOL_B, shift, **settings)


def rows_of(batches: MixtureStream) -> np.ndarray:
    return np.concatenate([batch.X for batch in batches])


def test_reference_has_its_size_and_share_of_the_second_pool() -> None:
    X, y = stream(alpha_0=0.7).reference()
    assert X.shape == (100, 2)
    assert X[:, 0].sum() == 70
    assert np.array_equal(y, np.where(X[:, 0] == 0, X[:, 1] % 2, X[:, 1] % 3))


def test_default_reference_leaves_half_of_each_pool_to_the_stream() -> None:
    X, _ = stream(n_reference=None, alpha_0=0.5).reference()
    assert len(X) == 300
    assert X[:, 0].sum() == 150


def test_no_row_is_in_reference_and_stream() -> None:
    mixed = stream(n_rounds=400)
    in_reference = set(map(tuple, mixed.reference()[0]))
    assert len(in_reference) == 100
    assert in_reference.isdisjoint(map(tuple, rows_of(mixed)))


def test_share_of_the_second_pool_follows_alpha() -> None:
    mixed = stream(shift=ConstantShift(0.3), n_rounds=2000)
    # The standard deviation of the share is sqrt(.21 / 10000).
    assert rows_of(mixed)[:, 0].mean() == pytest.approx(0.3, abs=0.02)
    for batch in stream():
        assert set(batch.X[:, 0]) == {batch.alpha}  # alpha of Squ is 0 or 1


def test_labels_stay_with_their_rows() -> None:
    for batch in stream():
        assert np.array_equal(batch.y, np.where(batch.X[:, 0] == 0, batch.X[:, 1] % 2, batch.X[:, 1] % 3))


def test_it_can_be_followed_again_with_the_same_bits_and_seeds_differ() -> None:
    mixed = stream()
    assert rows_of(mixed).tobytes() == rows_of(mixed).tobytes() == rows_of(stream()).tobytes()
    assert rows_of(mixed).tobytes() != rows_of(stream(random_state=1)).tobytes()
    assert [batch.round for batch in mixed] == list(range(1, 41))
    assert len(mixed) == 40


def test_without_replacement_no_row_comes_twice() -> None:
    rows = rows_of(stream(replace=False))
    assert len(set(map(tuple, rows))) == len(rows) == 200


def test_with_replacement_rows_come_again() -> None:
    rows = rows_of(stream(n_rounds=400))
    assert len(set(map(tuple, rows))) < len(rows)


def test_true_ratio_is_by_what_the_parts_weight_has_changed() -> None:
    mixed = stream(alpha_0=0.8)
    X, _ = mixed.reference()
    ratio = mixed.reference_ratio(alpha=0.2)
    assert ratio == pytest.approx(np.where(X[:, 0] == 1, 0.2 / 0.8, 0.8 / 0.2))
    assert ratio.mean() == pytest.approx(1.0)


class SaysOne:
    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ones(len(X))


def test_risk_is_the_error_on_all_rows_left_weighted_by_alpha() -> None:
    mixed = stream()
    in_reference = set(map(tuple, mixed.reference()[0]))
    errors = [
        np.mean([label != 1 for row, label in zip(*pool, strict=True) if tuple(row) not in in_reference])
        for pool in (POOL_A, POOL_B)
    ]
    assert mixed.component_risks(SaysOne()) == pytest.approx(tuple(errors))
    assert mixed.risk(SaysOne(), 0.25) == pytest.approx(0.75 * errors[0] + 0.25 * errors[1])


def test_images_and_text_labels_pass_through() -> None:
    pool = np.zeros((20, 4, 4), dtype=np.uint8), np.array(["cat", "dog"] * 10)
    mixed = MixtureStream(pool, pool, LinearShift(), n_rounds=3, batch_size=2, n_reference=10)
    batch = next(iter(mixed))
    assert batch.X.shape == (2, 4, 4)
    assert batch.X.dtype == np.uint8
    assert set(batch.y) <= {"cat", "dog"}


def test_repr_tells_sizes_and_settings() -> None:
    assert repr(stream()) == (
        "MixtureStream(pools of 300 and 500 rows, SquareShift(period=10), n_rounds=40, batch_size=5, replace=True, "
        "n_reference=100, alpha_0=0.9, random_state=0)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shift": "Lin"}, "shift must be a Shift"),
        ({"n_rounds": 0}, "n_rounds must be an integer of at least 1"),
        ({"batch_size": -1}, "batch_size must be an integer"),
        ({"alpha_0": 1.5}, "alpha_0 must be a number in"),
        ({"n_reference": 1}, "n_reference must be an integer of at least 2"),
        ({"random_state": None}, "random_state must be an integer"),
    ],
)
def test_bad_parameters_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        stream(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_reference": 600, "alpha_0": 0.5, "n_rounds": 10}, "pool_a has 300 rows, but the reference takes 300"),
        ({"replace": False, "n_rounds": 400}, r"pool_\w has \d+ rows, .* or set replace=True"),
    ],
)
def test_pools_that_are_too_small_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        stream(**changes)


@pytest.mark.parametrize("pool", [POOL_A[0], (POOL_A[0], POOL_A[1][:-1]), (np.zeros(3), np.zeros(3)), None])
def test_a_pool_must_be_rows_and_labels(pool: Any) -> None:
    with pytest.raises(DataError, match="pool_a must be"):
        MixtureStream(pool, POOL_B, LinearShift(), n_rounds=2, batch_size=1)


def test_pools_must_have_the_same_columns() -> None:
    with pytest.raises(DataError, match="same columns"):
        MixtureStream((np.zeros((9, 3)), np.zeros(9)), POOL_B, LinearShift(), n_rounds=2, batch_size=1)


def test_fresh_batches_are_other_draws_for_the_same_rounds() -> None:
    whole = stream(n_rounds=60, replace=False, batch_size=3)
    fresh = list(whole.fresh_batches())
    assert [(batch.round, batch.alpha) for batch in fresh] == [(batch.round, batch.alpha) for batch in whole]
    for batch in fresh:
        assert set(batch.X[:, 0]) <= ({1.0} if batch.alpha == 1 else {0.0})
    reference = {tuple(row) for row in whole.reference()[0]}
    assert not reference & {tuple(row) for batch in fresh for row in batch.X}
    assert not np.array_equal(rows_of(fresh), rows_of(whole))
    assert np.array_equal(rows_of(fresh), rows_of(whole.fresh_batches()))
