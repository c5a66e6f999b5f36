from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianStream, LinearShift, MovingGaussianStream, SquareShift


def test_the_ratio_is_that_of_the_two_densities() -> None:
    stream = MovingGaussianStream(LinearShift(), n_features=3, distance=1.5, n_rounds=4)
    X = np.random.default_rng(0).normal(size=(20, 3))
    mean = np.full(3, 0.6 * 1.5 / np.sqrt(3))
    expected = multivariate_normal(mean).pdf(X) / multivariate_normal(np.zeros(3)).pdf(X)
    assert stream.true_ratio(X, alpha=0.6) == pytest.approx(expected, rel=1e-10)


def test_the_reference_has_the_ratios_of_its_rows() -> None:
    for stream in (MovingGaussianStream(LinearShift(), n_reference=30), GaussianStream(LinearShift(), n_reference=30)):
        X, _ = stream.reference()
        assert np.array_equal(stream.reference_ratio(0.3), stream.true_ratio(X, 0.3))


def test_rows_have_the_mean_of_their_round() -> None:
    stream = MovingGaussianStream(SquareShift(period=2), distance=3.0, n_features=2, n_rounds=4, batch_size=20_000)
    means = [batch.X.mean(axis=0) for batch in stream]
    expected = np.outer([1, 1, 0, 0], np.full(2, 3.0 / np.sqrt(2)))
    assert np.array(means) == pytest.approx(expected, abs=0.05)


@given(st.integers(0, 5), st.integers(1, 4))
def test_it_can_be_followed_again(seed: int, batch_size: int) -> None:
    stream = MovingGaussianStream(LinearShift(), n_reference=5, n_rounds=3, batch_size=batch_size, random_state=seed)
    first, second = ([np.column_stack((batch.X, batch.y)) for batch in stream] for _ in range(2))
    assert np.array(first).tobytes() == np.array(second).tobytes()
    assert np.array_equal(stream.reference()[0], stream.reference()[0])
    assert not np.array_equal(stream.fresh_reference_rows(5), stream.reference()[0])


def test_labels_follow_the_same_rule_in_all_rounds() -> None:
    stream = MovingGaussianStream(LinearShift(), distance=2.0, n_rounds=2, batch_size=50_000, n_reference=50_000)
    parts = [stream.reference(), *((batch.X, batch.y) for batch in stream)]
    shares = [y[np.abs(X[:, 0] - 0.5) < 0.1].mean() for X, y in parts]
    assert np.ptp(shares) < 0.05


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"distance": 0}, "distance"), ({"n_features": 0}, "n_features"), ({"random_state": -1}, "random_state")],
)
def test_a_wrong_parameter_is_named(changes: dict[str, int], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        MovingGaussianStream(LinearShift(), **changes)


def test_what_is_no_shift_or_no_row_is_refused() -> None:
    with pytest.raises(ParameterError, match="shift must be a Shift"):
        MovingGaussianStream("Lin")  # type: ignore[arg-type]
    stream = MovingGaussianStream(LinearShift())
    with pytest.raises(DataError, match=r"shape \(n_rows, 4\)"):
        stream.true_ratio([[1.0]], 0.5)
    with pytest.raises(ParameterError, match="alpha"):
        stream.true_ratio([[1.0] * 4], 1.5)
