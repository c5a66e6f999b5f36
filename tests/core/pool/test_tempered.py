"""A ratio without a pool is held back by three shapes: 1, its square root and itself."""

from typing import Any

import numpy as np
import pytest

from accous.core.pool import Tempered, start_tempered
from tests.core.pool.plain_pool import PlainFilters, plain_likelihoods, plain_means, plain_pooled

REFERENCE = np.linspace(-2.0, 2.0, 41)


def play(sign: float, loc: float, n_rounds: int, seed: int = 0) -> tuple[Tempered, Any, Any]:
    """Rounds with the ratio exp(sign x), scaled to mean 1, on a stream around a place."""
    rng, tempered, in_use = np.random.default_rng(seed), start_tempered(), np.ones(41)
    scale = np.exp(sign * REFERENCE).mean()
    ratios = np.exp(sign * REFERENCE) / scale
    for _ in range(n_rounds):
        batch = np.exp(sign * rng.normal(loc, size=2)) / scale
        tempered, in_use = tempered.after_round(batch, ratios, 100.0)
    return tempered, ratios, in_use


def test_it_starts_with_half_of_the_mass_on_ratio_one() -> None:
    tempered = start_tempered()
    assert tempered.share == pytest.approx(0.5)
    assert tempered.ratios(np.ones(3), 100.0).tolist() == [1.0] * 3


def test_a_ratio_that_explains_the_batches_gets_the_mass() -> None:
    tempered, ratios, in_use = play(1.0, 1.0, 60)
    assert tempered.share > 0.9
    assert np.corrcoef(ratios, in_use)[0, 1] > 0.99


def test_a_ratio_that_points_the_wrong_way_loses_it() -> None:
    tempered, _, in_use = play(-1.0, 1.0, 60)
    assert tempered.share < 0.1
    np.testing.assert_allclose(in_use, 1.0, atol=0.2)


def test_its_rounds_are_those_of_the_equations() -> None:
    rng, tempered = np.random.default_rng(1), start_tempered()
    prior = [0.5, 0.25, 0.25] + [0.0] * 9
    plain, means = PlainFilters([0.2] * 5, [prior] * 3, [[0.0] * 12] * 2), [1.0] * 12
    for _ in range(10):
        batch, ratios = np.exp(rng.normal(size=3)), np.exp(rng.normal(size=20))
        plain = plain.after(prior, plain_likelihoods(batch, 20.0, means, [], []))
        means = plain_means(ratios, 20.0)
        tempered, in_use = tempered.after_round(batch, ratios, 20.0)
        expected = plain_pooled(ratios, 20.0, plain.proportions(prior), [])
        np.testing.assert_allclose(in_use, expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(tempered.ratios(ratios, 20.0), expected, rtol=1e-11, atol=1e-12)
        assert in_use.mean() == pytest.approx(1.0, abs=1e-9)


def test_on_another_reference_the_mass_stays_and_the_mean_is_one_again() -> None:
    tempered, _, _ = play(1.0, 1.0, 60)
    ratios = np.exp(np.linspace(0.0, 3.0, 25))
    moved, in_use = tempered.on_reference(ratios, 100.0)
    assert moved.share == tempered.share
    np.testing.assert_allclose(in_use, plain_pooled(ratios, 100.0, moved.filters.proportions, []), rtol=1e-11)
    np.testing.assert_allclose(moved.ratios(ratios, 100.0), in_use, rtol=1e-11)
    assert in_use.mean() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ratios_of_any_precision_and_memory_order_are_taken(dtype: Any) -> None:
    batch = np.exp(np.random.default_rng(0).normal(size=8)).astype(dtype)[::2]
    tempered, in_use = start_tempered().after_round(batch, np.ones(5), 100.0)
    assert in_use.tolist() == [1.0] * 5
    assert tempered.filters.proportions.sum() == pytest.approx(1.0, abs=1e-12)
