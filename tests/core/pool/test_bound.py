"""The bound of docs/pool.md: the pool's log loss against the best switching sequence of candidates."""

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.core.pool import (
    DECAYS,
    FILTER_SHARE,
    FLOOR,
    N_SHAPES,
    SWITCHING,
    prior_of,
    shape_cuts,
    shape_values,
    start_filters,
)

CUTS, MEANS = shape_cuts(100.0), np.linspace(1.0, 3.0, N_SHAPES)
NO_SLOTS = np.zeros((0, 1)), np.zeros((0, N_SHAPES))
PRIOR = prior_of(np.zeros(0, dtype=bool))


def pool_losses(ratios: FloatArray) -> FloatArray:
    """Loss of the floored pooled ratio in each round of one row."""
    filters, losses = start_filters(PRIOR), []
    for ratio in ratios:
        filters, log_likelihood = filters.after_batch(PRIOR, np.array([ratio]), (CUTS, MEANS), NO_SLOTS, NO_SLOTS[0])
        losses.append(-log_likelihood)
    return np.array(losses)


def best_sequence(losses: FloatArray, share: float) -> float:
    """Loss of the best sequence of candidates, with what the bound charges for it, by dynamic programming."""
    costs = losses[0] - np.log(PRIOR)
    for of_round in losses[1:]:
        switched = costs.min() - np.log(share * PRIOR)
        costs = np.minimum(costs - np.log1p(-share), switched) + of_round
    return float(costs.min())


@pytest.mark.parametrize("share", SWITCHING)
@pytest.mark.parametrize("seed", range(3))
def test_the_pool_is_bounded_by_the_best_switching_sequence(share: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Long stretches in which small or large ratios arrive, so that the best candidate changes.
    levels = np.repeat(rng.normal(scale=2.0, size=12), 60)
    ratios = np.exp(levels + rng.normal(size=len(levels)))
    losses = -np.log(np.maximum(shape_values(ratios, CUTS) / MEANS, 1e-300))
    n_rounds, n_filters = len(ratios), len(SWITCHING) + len(DECAYS)
    for_filters = np.log(n_filters) - (n_rounds - 1) * np.log1p(-FILTER_SHARE)
    bound = best_sequence(losses, share) + for_filters - n_rounds * np.log1p(-FLOOR)
    total = float(pool_losses(ratios).sum())
    assert total <= bound
    # It is not empty: no single candidate is as good as the pool.
    assert total < losses.sum(axis=0).min()
