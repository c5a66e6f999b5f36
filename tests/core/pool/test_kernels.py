"""The compiled steps of the pool agree with its equations, written as explicit loops."""

from typing import Any

import numpy as np
import pytest

from accous.core.kernels_pool import pool_reference, pool_rows
from accous.core.pool import (
    EXPONENTS,
    N_SHAPES,
    Filters,
    mixed_shapes,
    prior_of,
    shape_cuts,
    shape_values,
    start_filters,
)
from tests.core.pool.plain_pool import (
    SHAPES,
    PlainFilters,
    plain_candidates,
    plain_likelihoods,
    plain_log_likelihood,
    plain_means,
    plain_pooled,
    plain_pooled_rows,
    plain_shape,
)

CLOSE = {"rtol": 1e-12, "atol": 1e-12}
MAX_RATIOS = [100.0, 5.0]

each_max_ratio = pytest.mark.parametrize("max_ratio", MAX_RATIOS)
each_kind = pytest.mark.parametrize("kind", ["ordinary", "zeros", "huge", "ones"])
each_memory = pytest.mark.parametrize(
    "is_used", [[], [False] * 4, [True, False, True, False], [True] * 4], ids=["no slots", "free", "some", "all"]
)
each_size = pytest.mark.parametrize("n_batch", [1, 50])


def draw_ratios(kind: str, shape: Any, rng: np.random.Generator) -> Any:
    ratios = np.exp(rng.normal(scale=1.5, size=shape))
    is_special = rng.random(shape) < 0.3
    if kind == "zeros":
        return np.where(is_special, 0.0, ratios)
    if kind == "huge":
        return np.where(is_special, 1e30, ratios)
    return np.ones(shape) if kind == "ones" else ratios


def draw_filters(is_used: Any, rng: np.random.Generator, n_given: int = 0) -> tuple[Filters, PlainFilters, Any]:
    prior = prior_of(np.array(is_used, dtype=bool), n_given)
    weights = rng.dirichlet(np.ones(5))
    posteriors = rng.dirichlet(np.ones(len(prior)), size=3) * (prior > 0.0)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    counts = rng.gamma(2.0, 5.0, size=(2, len(prior))) * (prior > 0.0)
    plain = PlainFilters(weights.tolist(), posteriors.tolist(), counts.tolist())
    return Filters(weights, posteriors, counts, np.array(plain.proportions(prior))), plain, prior


def draw_slots(is_used: Any, kind: str, n_batch: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Ratios of a batch at the theta of each slot, and factors: zeros in a free slot."""
    factors = rng.dirichlet(np.ones(N_SHAPES), size=len(is_used)) * np.array(is_used, dtype=float)[:, None]
    return draw_ratios(kind, (len(is_used), n_batch), rng), factors / rng.uniform(0.5, 2.0)


@each_max_ratio
def test_the_shapes_are_those_of_the_equation(max_ratio: float) -> None:
    cuts = shape_cuts(max_ratio)
    assert tuple(EXPONENTS) == tuple(tau for tau, _ in SHAPES)
    ratios = np.array([0.0, 1e-3, 0.7, 1.0, 1.9, 4.0, 50.0, 1e30])
    expected = [[plain_shape(float(ratio), number, max_ratio) for number in range(N_SHAPES)] for ratio in ratios]
    np.testing.assert_allclose(shape_values(ratios, cuts), expected, **CLOSE)


@pytest.mark.every_pair
@each_kind
@each_memory
@each_max_ratio
def test_the_pooled_ratio_of_the_reference(kind: str, is_used: Any, max_ratio: float) -> None:
    rng = np.random.default_rng(len(is_used) + sum(is_used))
    ratios = draw_ratios(kind, 70, rng)
    slot_ratios = draw_ratios("ordinary", (len(is_used), 70), rng) * np.array(is_used, dtype=float)[:, None]
    proportions = draw_filters(is_used, rng)[0].proportions
    means, pooled = np.empty(N_SHAPES), np.empty(70)
    pool_reference(ratios, shape_cuts(max_ratio), proportions, slot_ratios, means, pooled)
    np.testing.assert_allclose(means, plain_means(ratios, max_ratio), **CLOSE)
    np.testing.assert_allclose(pooled, plain_pooled(ratios, max_ratio, proportions, slot_ratios), **CLOSE)


@pytest.mark.every_pair
@each_size
@each_kind
@each_memory
@each_max_ratio
@pytest.mark.parametrize("n_given", [0, 2])
def test_the_pooled_ratio_of_any_rows(n_batch: int, kind: str, is_used: Any, max_ratio: float, n_given: int) -> None:
    rng = np.random.default_rng(n_batch + len(is_used) + sum(is_used))
    ratios, means = draw_ratios(kind, n_batch, rng), rng.uniform(0.3, 3.0, size=N_SHAPES)
    means[0] = 1.0  # the shape 1 has mean 1
    slot_ratios, factors = draw_slots(is_used, kind, n_batch, rng)
    given, proportions = draw_ratios(kind, (n_given, n_batch), rng), draw_filters(is_used, rng, n_given)[0].proportions
    pooled = np.empty(n_batch)
    pool_rows(ratios, slot_ratios, given, shape_cuts(max_ratio), means, factors, proportions, max_ratio, pooled)
    candidates = plain_candidates(ratios, max_ratio, means, slot_ratios, factors, given)
    np.testing.assert_allclose(pooled, plain_pooled_rows(max_ratio, proportions, candidates), **CLOSE)
    assert pooled.min() >= 0.0
    assert pooled.max() <= max_ratio


@each_kind
@each_max_ratio
def test_a_mixture_of_shapes(kind: str, max_ratio: float) -> None:
    rng = np.random.default_rng(3)
    ratios, shares = draw_ratios(kind, 70, rng), rng.dirichlet(np.ones(N_SHAPES))
    mixed, means = mixed_shapes(ratios, shape_cuts(max_ratio), shares)
    np.testing.assert_allclose(means, plain_means(ratios, max_ratio), **CLOSE)
    np.testing.assert_allclose(mixed, plain_pooled(ratios, max_ratio, shares, []), **CLOSE)


@pytest.mark.every_pair
@each_size
@each_kind
@each_memory
@pytest.mark.parametrize("n_given", [0, 2])
def test_the_filters_after_a_batch(n_batch: int, kind: str, is_used: Any, n_given: int) -> None:
    rng = np.random.default_rng(n_batch + len(is_used) + sum(is_used))
    max_ratio = MAX_RATIOS[n_batch % 2]
    filters, plain, prior = draw_filters(is_used, rng, n_given)
    ratios, means = draw_ratios(kind, n_batch, rng), rng.uniform(0.3, 3.0, size=N_SHAPES)
    slot_ratios, factors = draw_slots(is_used, kind, n_batch, rng)
    given, shapes = draw_ratios(kind, (n_given, n_batch), rng), (shape_cuts(max_ratio), means)
    after, log_likelihood = filters.after_batch(prior, ratios, shapes, (slot_ratios, factors), given)
    likelihoods = plain_likelihoods(ratios, max_ratio, means, slot_ratios, factors, given)
    expected = plain.after(prior, likelihoods)
    np.testing.assert_allclose(after.posteriors, expected.posteriors, **CLOSE)
    np.testing.assert_allclose(after.counts, expected.counts, **CLOSE)
    np.testing.assert_allclose(after.weights, expected.weights, **CLOSE)
    np.testing.assert_allclose(after.proportions, expected.proportions(prior), **CLOSE)
    assert log_likelihood == pytest.approx(plain_log_likelihood(filters.proportions, likelihoods), rel=1e-12, abs=1e-12)


def test_many_batches_in_a_row() -> None:
    rng = np.random.default_rng(0)
    prior = prior_of(np.array([True, False]))
    filters, cuts, factors = start_filters(prior), shape_cuts(100.0), np.zeros((2, N_SHAPES))
    factors[0] = rng.dirichlet(np.ones(N_SHAPES))
    plain = PlainFilters(filters.weights.tolist(), filters.posteriors.tolist(), filters.counts.tolist())
    for _ in range(60):
        ratios, slot_ratios = draw_ratios("ordinary", 2, rng), draw_ratios("ordinary", (2, 2), rng)
        means = rng.uniform(0.5, 2.0, size=N_SHAPES)
        filters, _ = filters.after_batch(prior, ratios, (cuts, means), (slot_ratios, factors), np.zeros((0, 2)))
        plain = plain.after(prior, plain_likelihoods(ratios, 100.0, means, slot_ratios, factors))
    np.testing.assert_allclose(filters.proportions, plain.proportions(prior), **CLOSE)
    assert filters.proportions[-1] == 0.0


def test_what_was_passed_in_is_not_written_into() -> None:
    rng = np.random.default_rng(1)
    filters, _, prior = draw_filters([True, False], rng)
    arrays = (prior, filters.weights, filters.posteriors, filters.counts, filters.proportions)
    before = [each.copy() for each in arrays]
    slots = draw_slots([True, False], "ordinary", 3, rng)
    ratios, shapes = draw_ratios("ordinary", 3, rng), (shape_cuts(100.0), np.ones(N_SHAPES))
    filters.after_batch(prior, ratios, shapes, slots, np.zeros((0, 3)))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
