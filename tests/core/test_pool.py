"""The pool: filters and slots against their equations, its bound, and rounds next to an estimator."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from accous.core.ensemble import MatrixReference
from accous.core.kernels_pool import pool_reference, pool_rows
from accous.core.losses import LOSSES
from accous.core.pool import (
    DECAYS,
    EXPONENTS,
    FILTER_SHARE,
    FLOOR,
    LONGEST_LOOK,
    MOST_VISITS,
    N_SHAPES,
    SWITCHING,
    UNCUT,
    Filters,
    LookSums,
    RatioPool,
    cautious_prior,
    distance,
    mixed_shapes,
    prior_of,
    shape_cuts,
    shape_values,
    start_filters,
    start_look,
    start_slots,
    start_tempered,
)
from tests.oracles import (
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
CUTS, NO_SLOTS = shape_cuts(100.0), np.zeros((0, N_SHAPES))
MEANS, PRIOR = np.linspace(1.0, 3.0, N_SHAPES), prior_of(np.zeros(0, dtype=bool))
ONES = np.ones(10)
LOSS = LOSSES["logistic"].make(100.0)
ONE, OTHER = np.array([-1.5, 0.0, 1.1]), np.array([1.5, 0.0, 1.1])
TEMPERED_REFERENCE = np.linspace(-2.0, 2.0, 41)
each_max_ratio = pytest.mark.parametrize("max_ratio", MAX_RATIOS)
each_kind = pytest.mark.parametrize("kind", ["ordinary", "zeros", "huge", "ones"])
each_memory = pytest.mark.parametrize(
    "is_used", [[], [False] * 4, [True, False, True, False], [True] * 4], ids=["no slots", "free", "some", "all"]
)
each_size = pytest.mark.parametrize("n_batch", [1, 50])
ratios_of = st.floats(0.0, 1e30) | st.floats(0.01, 20.0)
references = arrays(np.float64, st.integers(2, 40), elements=ratios_of).filter(lambda ratios: ratios.max() > 1e-3)
batches = arrays(np.float64, st.integers(1, 50), elements=ratios_of)
seeds = st.integers(0, 2**32 - 1)

# --- the equations ----------------------------------------------------------------------------------------------


def draw_ratios(kind, shape, rng):
    ratios = np.exp(rng.normal(scale=1.5, size=shape))
    is_special = rng.random(shape) < 0.3
    if kind == "zeros":
        return np.where(is_special, 0.0, ratios)
    if kind == "huge":
        return np.where(is_special, 1e30, ratios)
    return np.ones(shape) if kind == "ones" else ratios


def draw_filters(is_used, rng, n_given=0):
    prior = prior_of(np.array(is_used, dtype=bool), n_given)
    weights = rng.dirichlet(np.ones(5))
    posteriors = rng.dirichlet(np.ones(len(prior)), size=3) * (prior > 0.0)
    posteriors /= posteriors.sum(axis=1, keepdims=True)
    counts = rng.gamma(2.0, 5.0, size=(2, len(prior))) * (prior > 0.0)
    plain = PlainFilters(weights.tolist(), posteriors.tolist(), counts.tolist())
    return Filters(weights, posteriors, counts, np.array(plain.proportions(prior))), plain, prior


def draw_slots(is_used, kind, n_batch, rng):
    """Ratios of a batch at the theta of each slot, and factors: zeros in a free slot."""
    factors = rng.dirichlet(np.ones(N_SHAPES), size=len(is_used)) * np.array(is_used, dtype=float)[:, None]
    return draw_ratios(kind, (len(is_used), n_batch), rng), factors / rng.uniform(0.5, 2.0)


@each_max_ratio
def test_the_shapes_are_those_of_the_equation(max_ratio):
    cuts = shape_cuts(max_ratio)
    assert tuple(EXPONENTS) == tuple(tau for tau, _ in SHAPES)
    ratios = np.array([0.0, 1e-3, 0.7, 1.0, 1.9, 4.0, 50.0, 1e30])
    expected = [[plain_shape(float(ratio), number, max_ratio) for number in range(N_SHAPES)] for ratio in ratios]
    np.testing.assert_allclose(shape_values(ratios, cuts), expected, **CLOSE)


@pytest.mark.every_pair
@each_kind
@each_memory
@each_max_ratio
def test_the_pooled_ratio_of_the_reference(kind, is_used, max_ratio):
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
def test_the_pooled_ratio_of_any_rows(n_batch, kind, is_used, max_ratio, n_given):
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
def test_a_mixture_of_shapes(kind, max_ratio):
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
def test_the_filters_after_a_batch(n_batch, kind, is_used, n_given):
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


def test_what_was_passed_in_is_not_written_into():
    rng = np.random.default_rng(1)
    filters, _, prior = draw_filters([True, False], rng)
    arrays = (prior, filters.weights, filters.posteriors, filters.counts, filters.proportions)
    before = [each.copy() for each in arrays]
    slots = draw_slots([True, False], "ordinary", 3, rng)
    ratios, shapes = draw_ratios("ordinary", 3, rng), (shape_cuts(100.0), np.ones(N_SHAPES))
    filters.after_batch(prior, ratios, shapes, slots, np.zeros((0, 3)))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- what holds for filters, whatever the ratios are ------------------------------------------------------------


def after(filters, prior, ratios, means=None):
    shapes = CUTS, np.ones(N_SHAPES) if means is None else means
    no_ratios = np.zeros((0, len(ratios)))
    return filters.after_batch(prior, ratios, shapes, (no_ratios, NO_SLOTS), no_ratios)


@given(references, seeds)
def test_the_pooled_ratio_has_mean_one_over_the_reference(ratios, seed):
    rng = np.random.default_rng(seed)
    slot_ratios, proportions = np.zeros((2, len(ratios))), rng.dirichlet(np.ones(N_SHAPES + 2))
    for slot in range(2):
        slot_ratios[slot], _ = mixed_shapes(rng.permutation(ratios), CUTS, rng.dirichlet(np.ones(N_SHAPES)))
    means, pooled = np.empty(N_SHAPES), np.empty(len(ratios))
    pool_reference(ratios, CUTS, proportions, slot_ratios, means, pooled)
    assert pooled.mean() == pytest.approx(1.0, abs=1e-9)
    assert pooled.min() >= -1e-12


@given(seeds)
def test_shapes_of_ratio_one_are_exactly_one_in_any_proportions(seed):
    proportions = np.random.default_rng(seed).dirichlet(np.ones(N_SHAPES))
    mixed, means = mixed_shapes(np.ones(30), CUTS, proportions)
    assert mixed.tolist() == [1.0] * 30
    assert means.tolist() == [1.0] * N_SHAPES


@given(st.lists(batches, min_size=1, max_size=6), seeds)
def test_proportions_sum_to_one_and_every_used_candidate_keeps_a_share(rows, seed):
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
def test_the_order_of_the_rows_of_a_batch_does_not_matter(ratios, seed):
    prior, rng = prior_of(np.zeros(0, dtype=bool)), np.random.default_rng(seed)
    filters, _ = after(start_filters(prior), prior, np.exp(rng.normal(size=5)))
    one, one_log = after(filters, prior, ratios)
    other, other_log = after(filters, prior, rng.permutation(ratios))
    for name in ("weights", "posteriors", "counts", "proportions"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12)
    assert one_log == pytest.approx(other_log, rel=1e-12, abs=1e-12)


@given(st.integers(1, 50), st.floats(0.0, 50.0), st.floats(1e-6, 50.0), seeds)
def test_a_candidate_that_explains_the_rows_better_gets_more(n_rows, low, more, seed):
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


def test_filters_that_have_seen_nothing_predict_the_prior():
    for prior in (prior_of(np.array([True, False, True])), cautious_prior(4)):
        np.testing.assert_allclose(start_filters(prior).proportions, prior, rtol=1e-14)
        assert prior.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("n_used", "n_given"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_the_prior_is_shared_by_groups_of_candidates(n_used, n_given):
    prior = prior_of(np.arange(4) < n_used, n_given)
    assert len(prior) == N_SHAPES + 4 + n_given
    assert prior[0] == 0.5
    groups = [prior[1:N_SHAPES], prior[N_SHAPES : N_SHAPES + n_used], prior[N_SHAPES + 4 :]]
    groups = [group for group in groups if len(group)]
    for group in groups:
        np.testing.assert_allclose(group, 0.5 / len(groups) / len(group), atol=1e-12)
    assert prior[N_SHAPES + n_used : N_SHAPES + 4].tolist() == [0.0] * (4 - n_used)
    assert prior_of(np.array([False, True, False, True]))[N_SHAPES:].tolist() == [0.0, 0.125, 0.0, 0.125]


def test_cautious_filters_never_leave_three_shapes():
    prior, rng = cautious_prior(2), np.random.default_rng(0)
    filters, factors = start_filters(prior), rng.dirichlet(np.ones(N_SHAPES), size=2)
    for _ in range(50):
        ratios, of_slots = np.exp(rng.normal(1.0, size=3)), np.full((2, 3), 50.0)
        filters, _ = filters.after_batch(prior, ratios, (CUTS, np.ones(N_SHAPES)), (of_slots, factors), of_slots[:0])
    assert filters.proportions[3:].tolist() == [0.0] * (N_SHAPES - 3 + 2)
    assert filters.proportions[0] < 0.1


def test_without_a_candidate_the_others_share_its_mass_in_proportion():
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


def test_a_switch_is_followed_within_a_few_rounds_even_after_a_long_time():
    """A thousand rounds of ratio 1, then rows that the estimate explains: the posterior is not stuck."""
    prior = prior_of(np.zeros(0, dtype=bool))
    filters = start_filters(prior)
    for _ in range(1000):
        filters, _ = after(filters, prior, np.array([0.3]))
    assert filters.proportions[0] > 0.95
    for _ in range(12):
        filters, _ = after(filters, prior, np.array([4.0]))
    assert filters.proportions[0] < 0.1


def best_sequence(losses, share):
    """Loss of the best sequence of candidates, with what the bound charges for it, by dynamic programming."""
    costs = losses[0] - np.log(PRIOR)
    for of_round in losses[1:]:
        switched = costs.min() - np.log(share * PRIOR)
        costs = np.minimum(costs - np.log1p(-share), switched) + of_round
    return float(costs.min())


@pytest.mark.parametrize("share", SWITCHING)
@pytest.mark.parametrize("seed", range(3))
def test_the_pool_is_bounded_by_the_best_switching_sequence(share, seed):
    """The bound of docs/pool.md."""
    rng = np.random.default_rng(seed)
    # Long stretches in which small or large ratios arrive, so that the best candidate changes.
    levels = np.repeat(rng.normal(scale=2.0, size=12), 60)
    ratios = np.exp(levels + rng.normal(size=len(levels)))
    losses = -np.log(np.maximum(shape_values(ratios, CUTS) / MEANS, 1e-300))
    n_rounds, n_filters = len(ratios), len(SWITCHING) + len(DECAYS)
    for_filters = np.log(n_filters) - (n_rounds - 1) * np.log1p(-FILTER_SHARE)
    bound = best_sequence(losses, share) + for_filters - n_rounds * np.log1p(-FLOOR)
    filters, total = start_filters(PRIOR), 0.0
    for ratio in ratios:
        filters, log_likelihood = after(filters, PRIOR, np.array([ratio]), MEANS)
        total -= log_likelihood
    assert total <= bound
    # It is not empty: no single candidate is as good as the pool.
    assert total < losses.sum(axis=0).min()


# --- slots: what is put, merged, forgotten, and when regimes were visited ---------------------------------------


def ratio_on(first, last):
    """A ratio of mean 1 on some of ten rows."""
    ratios = np.zeros(10)
    ratios[first:last] = 10.0 / (last - first)
    return ratios


def shares(number):
    return np.eye(N_SHAPES)[number]


def filled(n_slots, n_used):
    slots = start_slots(n_slots, 2)
    for slot in range(n_used):
        slots = slots.put(slot, np.full(2, float(slot)), shares(1), is_same=False)
    return slots


def look_at(ratios, before, of_shapes=1.0):
    proportions = np.zeros(N_SHAPES + 2)
    proportions[[0, 2, N_SHAPES]] = 0.0, of_shapes, 1.0 - of_shapes
    return mean_look(proportions, before=before), ratios


def mean_look(proportions, n_rounds=16, n_rows=80, before=ONES):
    """Means over a look."""
    means = {"coef": np.zeros(2), "proportions": proportions, "log_likelihood": 0.0}
    return LookSums(n_rounds=n_rounds, n_rows=n_rows, before=before, **means)


def find(slots, ratios, settled):
    """The slot for a settled ratio, given those of the slots."""
    return slots.find(np.array([distance(settled, each) for each in ratios]))


def test_a_look_measures_all_its_distances():
    pooled, before, settled, *others = np.random.default_rng(0).uniform(0.0, 2.0, (6, 131))
    look = mean_look(shares(1), before=before)
    expected = [distance(pooled, before), *(distance(settled, each) for each in (pooled, np.ones(131), *others))]
    np.testing.assert_allclose(look.distances(pooled, settled, np.array(others)), expected, rtol=1e-13)


def test_a_new_regime_takes_a_free_slot():
    slots = start_slots(3, 2)
    slot, is_same = find(slots, np.zeros((3, 10)), ratio_on(0, 5))
    assert (slot, is_same) == (0, False)
    slots = slots.put(slot, np.array([1.0, 2.0]), shares(3), is_same=False).with_factors(slot, np.full(N_SHAPES, 2.0))
    assert slots.is_used.tolist() == [True, False, False]
    assert slots.coefs[0].tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(slots.factors[0], shares(3) / 2.0)
    assert slots.factors[1:].tolist() == [[0.0] * N_SHAPES] * 2
    ratios = np.array([ratio_on(0, 5), np.zeros(10), np.zeros(10)])
    assert find(slots, ratios, ratio_on(5, 10)) == (1, False)


def test_the_same_regime_is_the_nearest_slot_within_a_total_variation():
    slots = filled(3, 2)
    ratios = np.array([ratio_on(0, 5), ratio_on(0, 7), np.zeros(10)])
    assert find(slots, ratios, ratio_on(0, 7)) == (1, True)
    assert distance(ratio_on(0, 6), ratio_on(0, 7)) < distance(ratio_on(0, 6), ratio_on(0, 5))
    assert find(slots, ratios, ratio_on(0, 6)) == (1, True)
    # The last three rows take a share of the ratio, which is its distance. Free slots do not count as ratios.
    for share, expected in ((0.29, (1, True)), (0.31, (2, False)), (1.0, (2, False))):
        other = (1.0 - share) * ratio_on(0, 7) + share * ratio_on(7, 10)
        assert distance(other, ratio_on(0, 7)) == pytest.approx(share)
        assert find(slots, ratios, other) == expected


def test_looks_at_the_same_regime_are_averaged_and_later_ones_keep_an_eighth():
    slots, values = filled(1, 0), np.random.default_rng(0).normal(size=(30, 2))
    slots = slots.put(0, values[0], shares(1), is_same=False)
    mean = values[0].copy()
    for n_merged, value in enumerate(values[1:], start=2):
        slots = slots.put(0, value, shares(2), is_same=True)
        mean += (value - mean) / min(n_merged, 8)
        np.testing.assert_allclose(slots.coefs[0], mean, rtol=1e-12)
        if n_merged == 8:
            np.testing.assert_allclose(mean, values[:8].mean(axis=0), rtol=1e-12)
    assert slots.n_merged[0] == 30
    assert slots.shares[0].sum() == pytest.approx(1.0)
    assert slots.shares[0, 2] > 0.95


def test_the_least_used_slot_is_forgotten_when_all_are_taken():
    slots = filled(3, 3)
    proportions = np.zeros(N_SHAPES + 3)
    for used in (0, 2, 0, 2):
        proportions[N_SHAPES:] = np.eye(3)[used]
        slots = slots.after_look(mean_look(proportions), None, 16)
    ratios = np.array([ratio_on(0, 3), ratio_on(3, 6), ratio_on(6, 8)])
    slot, is_same = find(slots, ratios, ratio_on(8, 10))
    assert (slot, is_same) == (1, False)
    slots = slots.put(slot, np.array([7.0, 7.0]), shares(4), is_same=False)
    assert slots.coefs[1].tolist() == [7.0, 7.0]
    np.testing.assert_array_equal(slots.shares[1], shares(4))
    assert (slots.n_merged[1], slots.use[1]) == (1, 1.0)


def test_use_decays_and_counts_the_share_of_each_slot():
    proportions = np.zeros(N_SHAPES + 2)
    proportions[N_SHAPES:] = 0.3, 0.1
    slots = filled(2, 2).after_look(mean_look(proportions), None, 16)
    np.testing.assert_allclose(slots.use, 0.999**16 + np.array([0.3, 0.1]), rtol=1e-14)
    # A look that ended early counts by its rounds.
    slots = filled(2, 2).after_look(mean_look(proportions, n_rounds=4), None, 16)
    np.testing.assert_allclose(slots.use, 0.999**4 + np.array([0.3, 0.1]) / 4.0, rtol=1e-14)


def test_visits_are_prolonged_by_the_next_look_and_begin_anew_after_a_pause():
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    in_force = [nothing + np.eye(N_SHAPES + 2)[N_SHAPES + slot] for slot in range(2)]
    looks = [(in_force[0], None), (in_force[0], None), (in_force[1], None), (nothing, None), (nothing, 1), (nothing, 0)]
    for number, (proportions, put) in enumerate(looks, start=1):
        slots = slots.after_look(mean_look(proportions), put, 16 * number)
    assert slots.visits.tolist() == [[0, 1, 32], [1, 33, 48], [1, 65, 80], [0, 81, 96]]


def test_only_the_latest_visits_are_kept_and_a_forgotten_regime_has_none():
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    n_looks = 2 * MOST_VISITS + 20
    for number in range(1, n_looks + 1):
        slots = slots.after_look(mean_look(nothing), number % 2, 16 * number)
    assert np.bincount(slots.visits[:, 0]).tolist() == [MOST_VISITS, MOST_VISITS]
    assert slots.visits[:2].tolist() == [[1, 1, 16], [0, 17, 32]]  # the first visits stay
    assert slots.visits[-1].tolist() == [0, 16 * (n_looks - 1) + 1, 16 * n_looks]
    forgotten = slots.put(0, np.zeros(2), shares(1), is_same=False)
    assert set(forgotten.visits[:, 0].tolist()) == {1}
    assert set(slots.put(0, np.zeros(2), shares(1), is_same=True).visits[:, 0].tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("look", "settled", "is_kept"),
    [
        (look_at(ratio_on(0, 5), ratio_on(0, 5)), ratio_on(0, 5), True),
        (look_at(ratio_on(0, 5), ratio_on(5, 10)), ratio_on(0, 5), False),
        (look_at(ratio_on(0, 5), ratio_on(0, 5), of_shapes=0.04), ratio_on(0, 5), False),
        (look_at(ONES, ONES), 0.95 + 0.1 * (np.arange(10) < 5), False),
        (look_at(ratio_on(0, 5), ratio_on(0, 5)), ratio_on(0, 9), False),
    ],
    ids=["kept", "has moved", "is remembered already", "is the reference", "is not what the pool says"],
)
def test_which_looks_are_worth_keeping(look, settled, is_kept):
    means, ratios = look
    assert means.is_worth_keeping(means.distances(ratios, settled, np.zeros((0, 10)))) is is_kept


def test_a_look_starts_from_nothing_and_means_are_over_its_rounds():
    look = start_look(2, N_SHAPES, ratio_on(0, 5))
    assert look.coef.tolist() == [0.0, 0.0]
    assert look.before.tolist() == ratio_on(0, 5).tolist()
    assert (look.n_rounds, look.n_rows) == (0, 0)
    sums = {"coef": np.array([12.0, 24.0]), "proportions": 6.0 * shares(1), "log_likelihood": 3.0}
    mean = replace(look, n_rounds=12, n_rows=60, **sums).mean()
    assert mean.coef.tolist() == [1.0, 2.0]
    assert (mean.log_likelihood, mean.proportions[1]) == (0.25, 0.5)
    assert mean.shape_shares()[1] == 1.0


def test_slots_are_never_written_into():
    slots = filled(2, 1)
    before = [each.copy() for each in (slots.coefs, slots.shares, slots.n_merged, slots.use, slots.factors)]
    slots.put(0, np.full(2, 9.0), shares(5), is_same=True).with_factors(0, np.ones(N_SHAPES))
    slots.put(0, np.full(2, 9.0), shares(5), is_same=False).after_look(mean_look(np.ones(N_SHAPES + 2)), 0, 16)
    for array, copy in zip((slots.coefs, slots.shares, slots.n_merged, slots.use, slots.factors), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_what_a_jump_passed_through_is_no_visit_of_the_regime_that_takes_its_slot():
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    slots = replace(slots, n_merged=np.array([1, 2]))
    for number, slot in enumerate((0, 1), start=1):
        slots = slots.after_look(mean_look(nothing), slot, 16 * number)
    taken_up = slots.put(0, np.zeros(2), shares(1), is_same=True).after_look(mean_look(nothing), 0, 48)
    assert taken_up.visits.tolist() == [[1, 17, 32], [0, 33, 48]]


@pytest.mark.parametrize(
    ("n_rounds", "n_rows", "before", "is_kept"),
    [(16, 16, 5, True), (16, 16, 0, False), (12, 60, 0, True), (8, 16, 0, True), (7, 70, 0, False), (12, 12, 0, False)],
)
def test_a_look_that_ended_early_needs_rounds_and_rows_and_no_look_before(n_rounds, n_rows, before, is_kept):
    """The look before it was of another regime, or of the same one."""
    proportions = np.append(shares(2), (0.0, 0.0))
    look = mean_look(proportions, n_rounds, n_rows, ratio_on(before, before + 5))
    assert look.is_worth_keeping(look.distances(ratio_on(5, 10), ratio_on(5, 10), np.zeros((0, 10)))) is is_kept
    visits = filled(2, 2).after_look(look, 0, 100).visits.tolist()
    assert visits == ([[0, 101 - n_rounds, 100]] if n_rounds >= 8 and n_rows >= 16 else [])


def test_visits_of_short_looks_in_a_row_are_one():
    slots, nothing = filled(2, 2), np.zeros(N_SHAPES + 2)
    for n_rounds, last in ((16, 16), (10, 26), (12, 42), (12, 70)):
        slots = slots.after_look(mean_look(nothing, n_rounds), 0, last)
    assert slots.visits.tolist() == [[0, 1, 42], [0, 59, 70]]


# --- rounds next to an estimator whose theta is known -----------------------------------------------------------


def draw_rows(rng, n_rows, loc=0.0):
    return np.column_stack((rng.normal((loc, 0.0), size=(n_rows, 2)), np.ones(n_rows)))


class PoolRun:
    """A pool on sixty draw_rows, and rounds whose theta the test chooses."""

    def __init__(self, n_slots=4, seed=0):
        self.rng = np.random.default_rng(seed)
        self.reference = MatrixReference(draw_rows(self.rng, 60), LOSS)
        self.pool = RatioPool(self.reference, 100.0, n_slots)
        self.state = self.pool.start(np.zeros(3))

    def run(self, coef, loc, n_rounds=1, n_batch=3):
        for _ in range(n_rounds):
            judgement = self.pool.judge(self.state, draw_rows(self.rng, n_batch, loc))
            self.state = self.pool.settle(self.state, judgement, coef, self.reference.ratios(coef, UNCUT))
        return self.state


def assert_same_state(one, other):
    """All numbers of two states are the same bits."""
    for name in type(one).__slots__:
        mine, theirs = getattr(one, name), getattr(other, name)
        if hasattr(type(mine), "__slots__") and not isinstance(mine, (np.ndarray, int, float)):
            assert_same_state(mine, theirs)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize("n_slots", [0, 1, 4])
def test_before_the_first_round_the_ratio_is_exactly_one(n_slots):
    pool_run = PoolRun(n_slots)
    assert pool_run.state.reference_ratios.tolist() == [1.0] * 60
    assert pool_run.pool.ratios(pool_run.state, 1e3 * draw_rows(pool_run.rng, 20)).tolist() == [1.0] * 20
    # And it stays 1 while the estimate is 1, whatever the draw_rows are.
    after = pool_run.run(np.zeros(3), loc=5.0, n_rounds=20)
    assert after.reference_ratios.tolist() == [1.0] * 60
    assert after.hold == 0.0


@pytest.mark.parametrize("n_slots", [0, 4])
def test_a_look_is_left_once_the_ratio_is_far_from_that_at_the_means_of_the_look(n_slots):
    pool_run, coef, cuts, left = PoolRun(n_slots), np.zeros(3), shape_cuts(100.0), []
    pool, features = pool_run.pool, pool_run.reference.features

    def pooled(theta, proportions, slot_ratios):
        shapes = shape_values(np.exp(-features @ theta), cuts)
        candidates = np.column_stack((shapes / shapes.mean(axis=0), slot_ratios.T))
        return candidates @ proportions

    for number in range(150):
        before = pool_run.state
        goal, loc = (ONE, 1.5) if number % 40 < 20 else (OTHER, -1.5)
        coef = 0.7 * coef + 0.3 * goal
        judgement = pool.judge(before, draw_rows(pool_run.rng, 3, loc))
        pool_run.state = pool.settle(before, judgement, coef, pool_run.reference.ratios(coef, UNCUT))
        look, slots = before.look, before.slot_ratios
        if look.n_rows >= 16:
            now = pooled(coef, judgement.filters.proportions, slots)
            at_means = pooled(look.coef / look.n_rounds, look.proportions / look.n_rounds, slots)
            left.append(bool(distance(now, at_means) > 0.3))
            assert (pool_run.state.look.n_rounds == 1) is left[-1]
    assert 5 < sum(left) < len(left) - 5


@pytest.mark.parametrize("n_slots", [0, 4])
def test_a_batch_is_judged_as_by_each_set_of_filters_alone(n_slots):
    pool_run = PoolRun(n_slots)
    state = pool_run.run(ONE, loc=1.0, n_rounds=40)
    found = pool_run.pool.judge(state, draw_rows(pool_run.rng, 4, -1.0))
    seen = found.seen
    rows = seen.ratios, (shape_cuts(100.0), seen.means), (seen.slot_ratios, seen.factors), seen.given
    expected, log_likelihood = state.filters.after_batch(state.prior, *rows)
    assert_same_state(found.filters, expected)
    assert found.log_likelihood == log_likelihood
    assert_same_state(found.cautious, state.cautious.after_batch(cautious_prior(n_slots), *rows)[0])


@pytest.mark.parametrize("n_slots", [0, 4])
def test_rounds_are_those_of_the_equations(n_slots):
    pool_run = PoolRun(n_slots)
    pool_run.run(ONE, loc=1.0, n_rounds=40)
    pool_run.run(OTHER, loc=-1.0, n_rounds=3)
    before, batch = pool_run.state, draw_rows(pool_run.rng, 4, -1.0)
    judgement = pool_run.pool.judge(before, batch)
    batch_ratios = np.exp(-batch @ before.coef)
    of_slots = [np.exp(-batch @ coef) for coef in before.slots.coefs]
    likelihoods = plain_likelihoods(batch_ratios, 100.0, before.means, of_slots, before.slots.factors)
    expected = plain_log_likelihood(before.filters.proportions, likelihoods)
    assert judgement.log_likelihood == pytest.approx(expected, rel=1e-12)
    after = pool_run.pool.settle(before, judgement, OTHER, pool_run.reference.ratios(OTHER, UNCUT))
    assert after.n_rounds == 44
    slot_ratios = [
        np.array(plain_pooled(np.exp(-pool_run.reference.features @ coef), 100.0, shares, [])) * is_used
        for coef, shares, is_used in zip(after.slots.coefs, after.slots.shares, after.slots.is_used, strict=True)
    ]
    ratios = np.exp(-pool_run.reference.features @ OTHER)
    pooled = plain_pooled(ratios, 100.0, after.filters.proportions, slot_ratios)
    np.testing.assert_allclose(after.reference_ratios, pooled, rtol=1e-11, atol=1e-12)


def test_the_pooled_ratio_of_any_rows_is_that_of_the_reference_on_its_rows():
    pool_run = PoolRun()
    for coef, loc in ((ONE, 1.0), (OTHER, -1.0), (ONE, 1.0)):
        state = pool_run.run(coef, loc, n_rounds=50)
        found = pool_run.pool.ratios(state, pool_run.reference.features)
        np.testing.assert_allclose(found, np.minimum(state.reference_ratios, 100.0), rtol=1e-10, atol=1e-12)
        assert state.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)


def test_a_regime_is_remembered_and_recognised():
    pool_run = PoolRun()
    assert pool_run.run(ONE, 1.0, n_rounds=48).slots.is_used.tolist() == [True, False, False, False]
    np.testing.assert_allclose(pool_run.state.slots.coefs[0], ONE, rtol=1e-12)
    # The estimate now says nothing, and the slot explains the draw_rows.
    state = pool_run.run(np.zeros(3), 1.0, n_rounds=6)
    assert state.proportions[N_SHAPES] > 0.5
    assert np.corrcoef(state.reference_ratios, pool_run.reference.ratios(ONE, UNCUT))[0, 1] > 0.9


def test_a_regime_like_the_reference_is_not_remembered():
    pool_run = PoolRun()
    assert not pool_run.run(0.1 * ONE, 0.1, n_rounds=64).slots.is_used.any()


@pytest.mark.parametrize(("size", "loc"), [(1.0, 1.0), (3.0, 6.0)])
def test_with_another_estimate_proportions_and_hold_stay(size, loc):
    pool_run = PoolRun()
    state = pool_run.run(size * ONE, loc, n_rounds=40)
    assert (state.hold > 0.0) == (size > 1.0)
    same = pool_run.pool.with_estimate(state, pool_run.reference.ratios(size * ONE, UNCUT))
    assert same.tobytes() == state.reference_ratios.tobytes()
    ratios = pool_run.reference.ratios(OTHER, UNCUT)
    expected = plain_pooled(ratios, 100.0, state.proportions, state.slot_ratios)
    np.testing.assert_allclose(pool_run.pool.with_estimate(state, ratios), expected, rtol=1e-11, atol=1e-12)


def test_a_slot_that_is_taken_over_starts_without_the_mass_of_its_last_regime():
    pool_run = PoolRun(n_slots=1)
    pool_run.run(ONE, 1.0, n_rounds=48)
    mass = pool_run.run(np.zeros(3), 1.0, n_rounds=8).proportions[N_SHAPES]
    assert mass > 0.5
    while np.array_equal(np.sign(pool_run.state.slots.coefs[0]), np.sign(ONE)):
        before = pool_run.state
        pool_run.run(OTHER, -1.0)
        assert pool_run.state.n_rounds < 200
    # What the slot still had, the others have taken over.
    assert before.filters.posteriors[:, N_SHAPES].min() > 0.0
    assert pool_run.state.proportions[N_SHAPES] < 0.01
    assert pool_run.state.filters.posteriors[:, N_SHAPES].tolist() == [0.0] * 3
    assert pool_run.state.proportions.sum() == pytest.approx(1.0, abs=1e-12)
    assert pool_run.run(OTHER, -1.0, n_rounds=20).proportions[N_SHAPES] > 0.0


@pytest.mark.parametrize("n_rounds", [5, LONGEST_LOOK, 3 * LONGEST_LOOK, 3 * LONGEST_LOOK + 7])
@pytest.mark.parametrize("loc", [1.0, 6.0])
def test_a_restored_state_is_unchanged(n_rounds, loc):
    pool_run = PoolRun()
    state = pool_run.run(3.0 * ONE if loc > 5.0 else ONE, loc, n_rounds)
    again = pool_run.pool.restored(state, pool_run.reference.ratios(state.coef, UNCUT))
    assert_same_state(again, state)
    assert (state.hold > 0.0) == (loc > 5.0 and n_rounds >= LONGEST_LOOK), state.hold


def test_the_excess_compares_the_stream_with_the_reference_at_every_look():
    pool_run = PoolRun()
    pool_run.run(ONE, 1.0, n_rounds=LONGEST_LOOK)
    first = pool_run.state.excess
    sum_of_logs, sum_of_ratios = 0.0, np.zeros(60)
    for _ in range(LONGEST_LOOK):
        before, batch = pool_run.state, draw_rows(pool_run.rng, 3, 1.0)
        judgement = pool_run.pool.judge(before, batch)
        pool_run.state = pool_run.pool.settle(before, judgement, ONE, pool_run.reference.ratios(ONE, UNCUT))
        sum_of_logs += judgement.log_likelihood
        ratios, proportions = pool_run.reference.ratios(ONE, UNCUT), judgement.filters.proportions
        sum_of_ratios += plain_pooled(ratios, 100.0, proportions, before.slot_ratios)
    mean = sum_of_ratios / LONGEST_LOOK
    expected = sum_of_logs / LONGEST_LOOK - float(np.mean([r * np.log(r) if r > 0.0 else 0.0 for r in mean]))
    assert pool_run.state.excess == pytest.approx(0.5 * (first + expected), rel=1e-9)


def test_a_look_ends_when_the_regime_does_and_the_round_begins_the_next_look():
    pool_run = PoolRun()
    pool_run.run(ONE, 1.0, n_rounds=LONGEST_LOOK)
    assert pool_run.state.look.n_rounds == 0
    pool_run.run(ONE, 1.0, n_rounds=12)
    assert pool_run.state.look.n_rounds == 12
    before = pool_run.state
    n_rounds = 0
    while pool_run.state.look.n_rounds > n_rounds and n_rounds < 100:
        n_rounds = pool_run.state.look.n_rounds
        after = pool_run.run(OTHER, -1.0)
    assert after.look.n_rounds == 1
    assert after.look.n_rows == 3
    assert after.n_rounds < before.n_rounds + 4
    np.testing.assert_array_equal(after.look.coef, OTHER)
    # The look that ended went to the slot of the first regime, and its visit ends with it.
    assert after.slots.is_used.tolist() == [True, False, False, False]
    assert after.slots.visits.tolist() == [[0, after.slots.visits[0, 1], after.n_rounds - 1]]


# --- a ratio without a pool is held back by three shapes: 1, its square root and itself -------------------------


def run_tempered(sign, loc, n_rounds, seed=0):
    """Rounds with the ratio exp(sign x), scaled to mean 1, on a stream around a place."""
    rng, tempered, in_use = np.random.default_rng(seed), start_tempered(), np.ones(41)
    scale = np.exp(sign * TEMPERED_REFERENCE).mean()
    ratios = np.exp(sign * TEMPERED_REFERENCE) / scale
    for _ in range(n_rounds):
        batch = np.exp(sign * rng.normal(loc, size=2)) / scale
        tempered, in_use = tempered.after_round(batch, ratios, 100.0)
    return tempered, ratios, in_use


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_ratio_gets_the_mass_if_it_explains_the_batches_and_loses_it_if_it_points_the_wrong_way(sign):
    start = start_tempered()
    assert start.share == pytest.approx(0.5)
    assert start.ratios(np.ones(3), 100.0).tolist() == [1.0] * 3
    tempered, ratios, in_use = run_tempered(sign, 1.0, 60)
    if sign > 0.0:
        assert tempered.share > 0.9
        assert np.corrcoef(ratios, in_use)[0, 1] > 0.99
    else:
        assert tempered.share < 0.1
        np.testing.assert_allclose(in_use, 1.0, atol=0.2)


def test_its_rounds_are_those_of_the_equations():
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


def test_on_another_reference_the_mass_stays_and_the_mean_is_one_again():
    tempered, _, _ = run_tempered(1.0, 1.0, 60)
    ratios = np.exp(np.linspace(0.0, 3.0, 25))
    moved, in_use = tempered.on_reference(ratios, 100.0)
    assert moved.share == tempered.share
    np.testing.assert_allclose(in_use, plain_pooled(ratios, 100.0, moved.filters.proportions, []), rtol=1e-11)
    np.testing.assert_allclose(moved.ratios(ratios, 100.0), in_use, rtol=1e-11)
    assert in_use.mean() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ratios_of_any_precision_and_memory_order_are_taken(dtype):
    batch = np.exp(np.random.default_rng(0).normal(size=8)).astype(dtype)[::2]
    tempered, in_use = start_tempered().after_round(batch, np.ones(5), 100.0)
    assert in_use.tolist() == [1.0] * 5
    assert tempered.filters.proportions.sum() == pytest.approx(1.0, abs=1e-12)
