"""Where the stream leaves the reference the pool is held back, and it is free again after the stream returns."""

from typing import Any

import numpy as np
import pytest

from accous import OnlineDensityRatio


def rows(rng: np.random.Generator, loc: float, n_rows: int, n_columns: int) -> Any:
    return rng.normal(size=(n_rows, n_columns)) + loc * np.eye(n_columns)[0]


def holds_after(ratio: OnlineDensityRatio, rng: np.random.Generator, loc: float, n_rounds: int) -> Any:
    """How far the pool is held back after each round."""
    holds = []
    for _ in range(n_rounds):
        ratio.partial_fit(rows(rng, loc, 5, ratio.n_features_in_))
        holds.append(ratio.pool_.hold)
    return np.array(holds)


@pytest.mark.parametrize("n_columns", [2, 6])
def test_the_hold_follows_the_stream_out_of_the_reference_and_back(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    ratio = OnlineDensityRatio().fit(rows(rng, 0.0, 400, n_columns))
    assert holds_after(ratio, rng, 0.0, 64).max() == 0.0
    assert holds_after(ratio, rng, 1.0, 128).max() == 0.0
    away = holds_after(ratio, rng, 6.0, 96)
    assert away[:4].max() == 0.0
    assert away[48:].min() == 1.0
    back = holds_after(ratio, rng, 0.5, 96)
    assert back[-32:].max() == 0.0
    assert ratio.reference_ratio_.mean() == pytest.approx(1.0, abs=1e-9)


def test_while_held_the_ratio_is_that_of_the_three_cautious_shapes() -> None:
    rng = np.random.default_rng(1)
    ratio = OnlineDensityRatio().fit(rows(rng, 0.0, 300, 3))
    holds_after(ratio, rng, 6.0, 80)
    pool = ratio.pool_
    assert pool.hold == 1.0
    np.testing.assert_array_equal(pool.proportions, pool.cautious.proportions)
    estimate = ratio.whole_reference_.ratios(pool.coef, 1e30)
    shapes = [np.ones(300), np.minimum(np.sqrt(estimate), 100.0), np.minimum(estimate, 100.0)]
    expected = sum(q * shape / shape.mean() for q, shape in zip(pool.proportions, shapes, strict=False))
    np.testing.assert_allclose(pool.reference_ratios, expected, rtol=1e-10, atol=1e-12)


def test_half_held_the_ratio_is_the_mixture_of_both() -> None:
    """Every round between no hold and full hold mixes the two pooled ratios, for the reference and for other rows."""
    rng = np.random.default_rng(0)
    X = rows(rng, 0.0, 300, 3)
    ratio = OnlineDensityRatio().fit(X)
    partly = 0
    for loc in np.linspace(0.0, 4.5, 320):
        ratio.partial_fit(rows(rng, loc, 5, 3))
        hold = ratio.pool_.hold
        if 0.0 < hold < 1.0:
            partly += 1
            assert ratio.pool_.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
            np.testing.assert_allclose(ratio.predict_ratio(X), ratio.reference_ratio_, rtol=1e-9, atol=1e-12)
    assert partly > 0


@pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])
def test_predictions_for_the_reference_are_its_ratios(loss: str) -> None:
    rng = np.random.default_rng(2)
    X = rows(rng, 0.0, 200, 3)
    ratio = OnlineDensityRatio(loss=loss).fit(X)
    for loc, n_rounds in ((1.0, 70), (-1.0, 70), (5.0, 40)):
        for _ in range(n_rounds):
            ratio.partial_fit(rows(rng, loc, 4, 3))
        np.testing.assert_allclose(ratio.predict_ratio(X), ratio.reference_ratio_, rtol=1e-9, atol=1e-12)
        assert ratio.pool_.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    assert ratio.pool_.slots.is_used.any()
