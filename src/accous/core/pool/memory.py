"""Memory of regimes: settled ratios are remembered in slots and take part in the pool as candidates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.pool.shapes import N_SHAPES

__all__ = ["ROUNDS_PER_LOOK", "Look", "Slots", "distance", "start_look", "start_slots"]

ROUNDS_PER_LOOK = 16
_LARGEST_MOVE = 0.3
_SMALLEST_SHAPE_SHARE = 0.05
_NEAR_ONE = 0.1
_FAR_FROM_POOLED = 0.3
_SAME_REGIME = 0.3
_MOST_MERGED = 8
_USE_DECAY = 0.999**ROUNDS_PER_LOOK


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Remembered ratios.

    Attributes
    ----------
    coefs : array of shape (n_slots, d)
        Theta of each.
    shares : array of shape (n_slots, n_shapes)
        Mixture of the shapes of the ratio at that theta.
    normalisers : array of shape (n_slots, n_shapes)
        Means of these shapes over the reference.
    n_merged : array of shape (n_slots,)
        Number of looks averaged into each; 0 for a free slot.
    use : array of shape (n_slots,)
        Decayed share of the pool that each slot has had.
    """

    coefs: FloatArray
    shares: FloatArray
    normalisers: FloatArray
    n_merged: IntArray
    use: FloatArray

    @property
    def is_used(self) -> NDArray[np.bool_]:
        """Which slots hold a ratio."""
        return np.asarray(self.n_merged > 0)

    @property
    def factors(self) -> FloatArray:
        """What each slot multiplies the shapes of its ratio by."""
        return self.shares / self.normalisers


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Sums over the rounds since the last look.

    Attributes
    ----------
    coefs : array of shape (d,)
    ratios : array of shape (n_reference,)
        Of the pooled ratio.
    proportions : array of shape (n_candidates,)
    before : array of shape (n_reference,)
        Mean pooled ratio of the look before.
    """

    coefs: FloatArray
    ratios: FloatArray
    proportions: FloatArray
    before: FloatArray
    log_likelihood: float = 0.0


def start_slots(n_slots: int, n_columns: int) -> Slots:
    """Return free slots."""
    return Slots(
        coefs=np.zeros((n_slots, n_columns)),
        shares=np.zeros((n_slots, N_SHAPES)),
        normalisers=np.ones((n_slots, N_SHAPES)),
        n_merged=np.zeros(n_slots, dtype=np.int64),
        use=np.zeros(n_slots),
    )


def start_look(n_columns: int, n_rows: int, n_candidates: int, before: FloatArray | None = None) -> Look:
    """Return sums of nothing."""
    before = np.ones(n_rows) if before is None else before
    return Look(
        coefs=np.zeros(n_columns), ratios=np.zeros(n_rows), proportions=np.zeros(n_candidates), before=before
    )


def distance(ratios: FloatArray, others: FloatArray) -> float:
    """Return the total variation between two ratios with mean 1 over the same rows."""
    return float(0.5 * np.abs(ratios - others).mean())


def find_slot(slots: Slots, slot_ratios: FloatArray, settled: FloatArray) -> tuple[int, bool]:
    """Return the slot for a settled ratio, and whether it holds the same regime already."""
    used = np.flatnonzero(slots.is_used)
    if len(used):
        distances = [distance(slot_ratios[k], settled) for k in used]
        nearest = int(np.argmin(distances))
        if distances[nearest] <= _SAME_REGIME:
            return int(used[nearest]), True
    free = np.flatnonzero(~slots.is_used)
    return (int(free[0]) if len(free) else int(np.argmin(slots.use))), False


def is_worth_keeping(look: Look, settled: FloatArray, n_rounds: int) -> bool:
    """Whether a look shows a regime that has settled, differs from the reference, and is not only a memory."""
    mean = look.ratios / n_rounds
    shapes = look.proportions[1:N_SHAPES].sum() / n_rounds
    return (
        distance(mean, look.before) <= _LARGEST_MOVE
        and shapes >= _SMALLEST_SHAPE_SHARE
        and distance(settled, np.ones_like(settled)) > _NEAR_ONE
        and distance(settled, mean) <= _FAR_FROM_POOLED
    )


def put(slots: Slots, k: int, coef: FloatArray, shares: FloatArray, *, is_same: bool) -> Slots:
    """Return the slots with a settled ratio in slot k: averaged with what is there, or in its place."""
    coefs, all_shares, n_merged, use = (a.copy() for a in (slots.coefs, slots.shares, slots.n_merged, slots.use))
    n_merged[k] = n_merged[k] + 1 if is_same else 1
    gain = 1.0 / min(int(n_merged[k]), _MOST_MERGED)
    coefs[k] += gain * (coef - coefs[k])
    all_shares[k] += gain * (shares - all_shares[k])
    if not is_same:
        use[k] = 1.0
    return replace(slots, coefs=coefs, shares=all_shares, n_merged=n_merged, use=use)


def decayed_use(slots: Slots, proportions: FloatArray, n_rounds: int) -> FloatArray:
    """Return the use of the slots after a look with these sums of proportions."""
    return np.asarray(_USE_DECAY * slots.use + proportions[N_SHAPES:] / n_rounds)
