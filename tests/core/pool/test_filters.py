"""What holds for the filters and the pooled ratio, whatever the ratios are."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.core.kernels_pool import pool_reference
from accous.core.pool import N_SHAPES, Filters, cautious_prior, mixed_shapes, prior_of, shape_cuts, start_filters

CUTS, NO_SLOTS = shape_cuts(100.0), np.zeros((0, N_SHAPES))
ratios_of = st.floats(0.0, 1e30) | st.floats(0.01, 20.0)
references = arrays(np.float64, st.integers(2, 40), elements=ratios_of).filter(lambda ratios: ratios.max() > 1e-3)
batches = arrays(np.float64, st.integers(1, 50), elements=ratios_of)
seeds = st.integers(0, 2**32 - 1)


def after(filters: Filters, prior: Any, ratios: Any, means: Any = None) -> tuple[Filters, float]:
    shapes = CUTS, np.ones(N_SHAPES) if means is None else means
    no_ratios = np.zeros((0, len(ratios)))
    return filters.after_batch(prior, ratios, shapes, (no_ratios, NO_SLOTS), no_ratios)


@given(references, seeds)
def test_the_pooled_ratio_has_mean_one_over_the_reference(ratios: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    slot_ratios, proportions = np.zeros((2, len(ratios))), rng.dirichlet(np.ones(N_SHAPES + 2))
    for slot in range(2):
        slot_ratios[slot], _ = mixed_shapes(rng.permutation(ratios), CUTS, rng.dirichlet(np.ones(N_SHAPES)))
    means, pooled = np.empty(N_SHAPES), np.empty(len(ratios))
    pool_reference(ratios, CUTS, proportions, slot_ratios, means, pooled)
    assert pooled.mean() == pytest.approx(1.0, abs=1e-9)
    assert pooled.min() >= -1e-12


@given(seeds)
def test_shapes_of_ratio_one_are_exactly_one_in_any_proportions(seed: int) -> None:
    proportions = np.random.default_rng(seed).dirichlet(np.ones(N_SHAPES))
    mixed, means = mixed_shapes(np.ones(30), CUTS, proportions)
    assert mixed.tolist() == [1.0] * 30
    assert means.tolist() == [1.0] * N_SHAPES


@given(st.lists(batches, min_size=1, max_size=6), seeds)
def test_proportions_sum_to_one_and_every_used_candidate_keeps_a_share(rows: Any, seed: int) -> None:
    prior = prior_of(np.zeros(0, dtype=bool))
    means = np.random.default_rng(seed).uniform(0.1, 10.0, size=N_SHAPES)
    filters = start_filters(prior)
    for ratios in rows:
        filters, log_likelihood = after(filters, prior, ratios, means)
        assert np.isfinite(log_likelihood)
        assert filters.weights.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(filters.posteriors.sum(axis=1), 1.0, atol=1e-12)
        assert filters.proportions.sum() == pytest.approx(1.0, abs=1e-12)
        # No candidate is ruled out: it keeps its part of the switching share in the slowest filter.
        assert (filters.posteriors[-1] >= prior / 512.0 * (1.0 - 1e-12)).all()


@given(batches, seeds)
def test_the_order_of_the_rows_of_a_batch_does_not_matter(ratios: Any, seed: int) -> None:
    prior, rng = prior_of(np.zeros(0, dtype=bool)), np.random.default_rng(seed)
    filters, _ = after(start_filters(prior), prior, np.exp(rng.normal(size=5)))
    one, one_log = after(filters, prior, ratios)
    other, other_log = after(filters, prior, rng.permutation(ratios))
    for name in ("weights", "posteriors", "counts", "proportions"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)
    assert one_log == pytest.approx(other_log, rel=1e-12, abs=1e-12)


@given(st.integers(1, 50), st.floats(0.0, 50.0), st.floats(1e-6, 50.0), seeds)
def test_a_candidate_that_explains_the_rows_better_gets_more(n_rows: int, low: float, more: float, seed: int) -> None:
    rng, prior = np.random.default_rng(seed), prior_of(np.array([True]))
    filters = start_filters(prior)
    shapes, slot_ratios = (CUTS, np.ones(N_SHAPES)), np.ones((1, n_rows))
    ratios = np.exp(rng.normal(size=n_rows))
    results = []
    for value in (low, low + more):  # what the slot says of every row
        factors = np.zeros((1, N_SHAPES))
        factors[0, 0] = value
        results.append(filters.after_batch(prior, ratios, shapes, (slot_ratios, factors), slot_ratios[:0]))
    (worse, worse_log), (better, better_log) = results
    assert better_log > worse_log
    # Where the slot has nearly all the mass already, the last digits decide.
    assert (better.posteriors[:, -1] >= worse.posteriors[:, -1] - 1e-12).all()
    assert (better.counts[:, -1] > worse.counts[:, -1]).all()


def test_filters_that_have_seen_nothing_predict_the_prior() -> None:
    for prior in (prior_of(np.array([True, False, True])), cautious_prior(4)):
        np.testing.assert_allclose(start_filters(prior).proportions, prior, rtol=1e-14)
        assert prior.sum() == pytest.approx(1.0, abs=1e-15)


def test_the_prior_has_no_mass_on_free_slots() -> None:
    prior = prior_of(np.array([False, True, False, True]))
    assert prior[0] == 0.5
    assert prior[N_SHAPES:].tolist() == [0.0, 0.125, 0.0, 0.125]
    assert prior_of(np.zeros(4, dtype=bool))[N_SHAPES:].tolist() == [0.0] * 4


def test_cautious_filters_never_leave_three_shapes() -> None:
    prior, rng = cautious_prior(2), np.random.default_rng(0)
    filters, factors = start_filters(prior), rng.dirichlet(np.ones(N_SHAPES), size=2)
    for _ in range(50):
        ratios, of_slots = np.exp(rng.normal(1.0, size=3)), np.full((2, 3), 50.0)
        filters, _ = filters.after_batch(prior, ratios, (CUTS, np.ones(N_SHAPES)), (of_slots, factors), of_slots[:0])
    assert filters.proportions[3:].tolist() == [0.0] * (N_SHAPES - 3 + 2)
    assert filters.proportions[0] < 0.1


def test_without_a_candidate_the_others_share_its_mass_in_proportion() -> None:
    rng, prior = np.random.default_rng(0), prior_of(np.array([True, True]))
    filters = start_filters(prior)
    factors = rng.dirichlet(np.ones(N_SHAPES), size=2)
    for _ in range(20):
        ratios, of_slots = np.exp(rng.normal(size=2)), np.exp(rng.normal(size=(2, 2)))
        filters, _ = filters.after_batch(prior, ratios, (CUTS, np.ones(N_SHAPES)), (of_slots, factors), of_slots[:0])
    gone = N_SHAPES + 1
    rest = filters.without(gone, prior_of(np.array([True, False])))
    assert rest.proportions[gone] == 0.0
    assert rest.proportions.sum() == pytest.approx(1.0, abs=1e-12)
    others = np.delete(filters.posteriors, gone, axis=1)
    expected = others / others.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.delete(rest.posteriors, gone, axis=1), expected, rtol=1e-12)
    np.testing.assert_array_equal(np.delete(rest.counts, gone, axis=1), np.delete(filters.counts, gone, axis=1))
    assert filters.proportions[gone] > 0.0


def test_a_switch_is_followed_within_a_few_rounds_even_after_a_long_time() -> None:
    """A thousand rounds of ratio 1, then rows that the estimate explains: the posterior is not stuck."""
    prior = prior_of(np.zeros(0, dtype=bool))
    filters = start_filters(prior)
    for _ in range(1000):
        filters, _ = after(filters, prior, np.array([0.3]))
    assert filters.proportions[0] > 0.95
    for _ in range(12):
        filters, _ = after(filters, prior, np.array([4.0]))
    assert filters.proportions[0] < 0.1


@pytest.mark.parametrize(("n_used", "n_given"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_the_prior_is_shared_by_groups_of_candidates(n_used: int, n_given: int) -> None:
    is_used = np.arange(4) < n_used
    prior = prior_of(is_used, n_given)
    assert len(prior) == N_SHAPES + 4 + n_given
    assert prior[0] == 0.5
    groups = [prior[1:N_SHAPES], prior[N_SHAPES : N_SHAPES + n_used], prior[N_SHAPES + 4 :]]
    groups = [group for group in groups if len(group)]
    for group in groups:
        assert group.sum() == pytest.approx(0.5 / len(groups), abs=1e-12)
        assert len(set(group.tolist())) == 1
    assert prior.sum() == pytest.approx(1.0, abs=1e-12)
