"""The look back of a key's pool, every 16 rounds: remember what has settled, hold back what is not supported.

`accous.core.pool.pool.RatioPool` does it, as for a single stream. A key keeps no ratios of the reference: the mean
pooled ratio of a look is computed from the mean theta and the mean proportions of its rounds.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.ensemble import NarrowReference
from accous.core.fast.kernels_pool import pool_reference
from accous.core.keys.rounds import KeyRounds
from accous.core.keys.stack import KeyStack, Number
from accous.core.pool.filters import Filters
from accous.core.pool.memory import LONGEST_LOOK, Look, Slots
from accous.core.pool.pool import RatioPool
from accous.core.pool.shapes import N_SHAPES, UNCUT
from accous.core.pool.state import PoolState

__all__ = ["look_back", "slots_of"]

_MOST_VISITS = 4  # of a slot: a change is recalled for three looks, so no earlier ones are asked for


def slots_of(stack: KeyStack, key: int) -> Slots:
    """Return the slots of a key in double precision."""
    return Slots(
        coefs=stack.slot_coefs[key].astype(np.float64),
        shares=stack.slot_shares[key].astype(np.float64),
        factors=stack.factors[key].copy(),
        n_merged=stack.n_merged[key].astype(np.int64),
        use=stack.slot_use[key].astype(np.float64),
        visits=stack.visits[key],
    )


def look_back(stack: KeyStack, key: int, pool: RatioPool, rounds: KeyRounds, reference: NarrowReference) -> None:
    """Look back at the last 16 rounds of a key, in place.

    Parameters
    ----------
    stack : KeyStack
    key : int
    pool : RatioPool
        The pool that all keys share.
    rounds : KeyRounds
    reference : NarrowReference
        All reference rows.
    """
    state = _pool_state(stack, key, rounds.cuts, reference)
    after = pool.look_back(state, state.n_rounds)
    stack.numbers[Number.EXCESS, key] = after.excess
    stack.numbers[Number.LOG_LIKELIHOOD, key] = 0.0
    stack.holds[key] = after.hold
    stack.parts["before_coef"][key] = stack.parts["look_coef"][key] / np.float32(LONGEST_LOOK)
    stack.parts["before_proportions"][key] = stack.parts["look_proportions"][key] / np.float32(LONGEST_LOOK)
    stack.parts["look_coef"][key] = 0.0
    stack.parts["look_proportions"][key] = 0.0
    stack.visits[key] = _last_visits(after.slots)
    stack.slot_use[key] = after.slots.use
    if after.slots.coefs is not state.slots.coefs:
        stack.slot_coefs[key] = after.slots.coefs
        stack.slot_shares[key] = after.slots.shares
        stack.n_merged[key] = after.slots.n_merged
        stack.parts["posteriors"][key] = after.filters.posteriors
        stack.parts["counts"][key] = after.filters.counts
        stack.parts["proportions"][key] = after.filters.proportions
        rounds.restore_slots(stack, key)


def _pool_state(stack: KeyStack, key: int, cuts: FloatArray, reference: NarrowReference) -> PoolState:
    """Return the pool of a key as it is before the look, with the sums of its rounds."""
    slot_ratios = stack.slot_ratios[key]

    def mixture(coef: FloatArray, proportions: FloatArray) -> FloatArray:
        means, pooled = np.empty(N_SHAPES), np.empty(len(reference.features))
        pool_reference(reference.ratios(coef, UNCUT), cuts, proportions, slot_ratios, means, pooled)
        return pooled

    coef, proportions, before_coef, before_proportions = (
        np.ascontiguousarray(stack.parts[name][key], dtype=np.float64)
        for name in ("look_coef", "look_proportions", "before_coef", "before_proportions")
    )
    look = Look(
        n_rounds=LONGEST_LOOK,
        n_rows=LONGEST_LOOK,  # at least; they are not counted, because this look never ends early
        coef=coef,
        ratios=LONGEST_LOOK * mixture(coef / LONGEST_LOOK, proportions / LONGEST_LOOK),
        proportions=proportions,
        log_likelihood=float(stack.numbers[Number.LOG_LIKELIHOOD, key]),
        before=mixture(before_coef, before_proportions),
    )
    return PoolState(
        n_rounds=int(stack.numbers[Number.N_ROUNDS, key]),
        coef=stack.coef[key],
        means=stack.parts["means"][key].astype(np.float64),
        prior=stack.priors[key],
        filters=_filters(stack, key, is_cautious=False),
        cautious=_filters(stack, key, is_cautious=True),
        excess=float(stack.numbers[Number.EXCESS, key]),
        hold=float(stack.holds[key]),
        slots=slots_of(stack, key),
        look=look,
        slot_ratios=slot_ratios,
        given_ratios=slot_ratios[:0],
        reference_ratios=look.before,
    )


def _filters(stack: KeyStack, key: int, *, is_cautious: bool) -> Filters:
    return Filters(*(part[key].astype(np.float64) for part in stack.filters[is_cautious]))


def _last_visits(slots: Slots) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the last few visits of each slot, in their order."""
    visits = slots.visits
    is_kept = np.zeros(len(visits), dtype=np.bool_)
    for slot in range(len(slots.use)):
        is_kept[np.flatnonzero(visits[:, 0] == slot)[-_MOST_VISITS:]] = True
    return visits[is_kept]
