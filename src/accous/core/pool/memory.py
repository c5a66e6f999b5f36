"""Memory of regimes: settled ratios are remembered in slots, and take part in the pool as candidates.

A look takes 16 rounds. Once it has 16 rows, it ends as soon as the pooled ratio moves away from its mean over the look.
At its end the pool looks back at the mean theta and the mean pooled ratio of its rounds. If the ratio has settled and
differs from the reference, it is averaged into the slot that holds the same regime already, or takes a free slot, or
the slot that was used least. Distances are total variations over the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.pool.shapes import N_SHAPES

__all__ = ["LEAST_ROWS", "LONGEST_LOOK", "Look", "Slots", "distance", "start_look", "start_slots"]

LONGEST_LOOK = 16
LEAST_ROWS = 16
_LEAST_ROUNDS = 8
MOST_VISITS = 25
_LARGEST_MOVE = 0.3
_SMALLEST_SHAPE_SHARE = 0.05
_NEAR_ONE = 0.1
_FAR_FROM_POOLED = 0.3
_SAME_REGIME = 0.3
_MOST_MERGED = 8
_USE_DECAY = 0.999
_IN_FORCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """Remembered ratios: mixtures of the shapes of a log-linear ratio.

    Attributes
    ----------
    coefs : array of shape (n_slots, d)
        Theta of each.
    shares : array of shape (n_slots, n_shapes)
        Proportions of the shapes of the ratio at that theta.
    factors : array of shape (n_slots, n_shapes)
        The same, divided by the means of the shapes over the reference; zeros in a free slot.
    n_merged : array of shape (n_slots,)
        Number of looks averaged into each; 0 for a free slot.
    use : array of shape (n_slots,)
        Decayed share of the pool that each slot has had.
    visits : array of shape (n_visits, 3)
        Slot, first and last round of each time in which a regime was in force, the latest last.
    """

    coefs: FloatArray
    shares: FloatArray
    factors: FloatArray
    n_merged: IntArray
    use: FloatArray
    visits: IntArray

    @property
    def is_used(self) -> BoolArray:
        """Which slots hold a ratio."""
        return np.asarray(self.n_merged > 0)

    def shares_of(self, proportions: FloatArray) -> FloatArray:
        """Return the shares of the slots among the proportions of all candidates."""
        return proportions[N_SHAPES : N_SHAPES + len(self.use)]

    def find(self, ratios: FloatArray, settled: FloatArray) -> tuple[int, bool]:
        """Return the slot for a settled ratio, and whether that slot holds the same regime already.

        Parameters
        ----------
        ratios : array of shape (n_slots, n_reference)
            Ratios of the slots.
        settled : array of shape (n_reference,)
        """
        used = np.flatnonzero(self.is_used)
        if len(used):
            distances = 0.5 * np.abs(ratios[used] - settled).mean(axis=1)
            nearest = int(np.argmin(distances))
            if distances[nearest] <= _SAME_REGIME:
                return int(used[nearest]), True
        free = np.flatnonzero(~self.is_used)
        return (int(free[0]) if len(free) else int(np.argmin(self.use))), False

    def put(self, slot: int, coef: FloatArray, shares: FloatArray, *, is_same: bool) -> Slots:
        """Return the slots with a settled ratio: averaged with what the slot holds, or in its place."""
        coefs, all_shares, use = (each.copy() for each in (self.coefs, self.shares, self.use))
        n_merged = self.n_merged.copy()
        n_merged[slot] = n_merged[slot] + 1 if is_same else 1
        gain = 1.0 / min(int(n_merged[slot]), _MOST_MERGED)
        coefs[slot] += gain * (coef - coefs[slot])
        all_shares[slot] += gain * (shares - all_shares[slot])
        visits = self.visits
        # A slot of a single look that is taken up again after a pause held what a jump passed through.
        was_passed = is_same and self.n_merged[slot] == 1 and len(visits) > 0 and visits[-1, 0] != slot
        if not is_same or was_passed:
            visits = visits[visits[:, 0] != slot]
        if not is_same:
            use[slot] = 1.0
        return replace(self, coefs=coefs, shares=all_shares, n_merged=n_merged, use=use, visits=visits)

    def with_factors(self, slot: int, means: FloatArray) -> Slots:
        """Return the slots after the means of one slot's shapes over the reference were computed."""
        factors = self.factors.copy()
        factors[slot] = self.shares[slot] / means
        return replace(self, factors=factors)

    def in_force(
        self, proportions: FloatArray, last_look: int, ratios: FloatArray, slot_ratios: FloatArray
    ) -> int | None:
        """Return the slot whose regime is in force: most of the pool is on it, or the last look went to it.

        The rounds since that look may have left it: then the ratio is no longer that of the slot, and none is in force.

        Parameters
        ----------
        proportions : array of shape (n_candidates,)
        last_look : int
            The round in which the last look ended.
        ratios : array of shape (n_reference,)
            The pooled ratio now.
        slot_ratios : array of shape (n_slots, n_reference)
        """
        of_slots = self.shares_of(proportions)
        if (of_slots > _IN_FORCE).any():
            slot = int(np.argmax(of_slots))
        elif len(self.visits) and self.visits[-1, 2] == last_look:
            slot = int(self.visits[-1, 0])
        else:
            return None
        return slot if distance(ratios, slot_ratios[slot]) <= _SAME_REGIME else None

    def earlier_visit(self, proportions: FloatArray, this_round: int) -> tuple[int, int] | None:
        """Return when the regime in force now was in force before a change that was noticed in this round.

        None if most of the pool is on no slot, and if the same regime was in force just before the change.
        """
        of_slots = self.shares_of(proportions)
        if not (of_slots > _IN_FORCE).any():
            return None
        visits = self.visits[self.visits[:, 0] == np.argmax(of_slots)]
        # A change is noticed within two looks.
        began = this_round - 2 * LONGEST_LOOK
        if ((visits[:, 1] <= began) & (began <= visits[:, 2])).any() or not (visits[:, 2] < began).any():
            return None
        first, last = visits[visits[:, 2] < began][-1, 1:].tolist()
        return first, last

    def after_look(self, look: Look, put: int | None, this_round: int) -> Slots:
        """Return the slots with their use and the visits brought up to date.

        Parameters
        ----------
        look : Look
            Means over the look.
        put : int or None
            The slot that the look's ratio went to.
        this_round : int
        """
        of_slots = self.shares_of(look.proportions)
        slot = put if put is not None else int(np.argmax(of_slots)) if (of_slots > _IN_FORCE).any() else None
        slot = slot if look.is_long_enough else None
        visits = self.visits if slot is None else _visited(self.visits, slot, this_round, look.n_rounds)
        use = _USE_DECAY**look.n_rounds * self.use + look.n_rounds / LONGEST_LOOK * of_slots
        return replace(self, use=use, visits=visits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Sums over the rounds since the last look.

    Attributes
    ----------
    n_rounds, n_rows : int
        Rounds since then, and rows in their batches.
    coef : array of shape (d,)
    ratios : array of shape (n_reference,)
        Of the pooled ratio.
    proportions : array of shape (n_candidates,)
    log_likelihood : float
        Of the batches under the pooled ratio before each round.
    before : array of shape (n_reference,)
        Mean pooled ratio of the look before.
    """

    n_rounds: int
    n_rows: int
    coef: FloatArray
    ratios: FloatArray
    proportions: FloatArray
    log_likelihood: float
    before: FloatArray

    @property
    def is_long_enough(self) -> bool:
        """Whether there are enough rows and rounds to look back at."""
        return self.n_rows >= LEAST_ROWS and self.n_rounds >= _LEAST_ROUNDS

    def is_left(self, ratios: FloatArray) -> bool:
        """Whether the pooled ratio has moved away from its mean over the rounds so far."""
        return distance(ratios, self.ratios / self.n_rounds) > _LARGEST_MOVE

    def mean(self) -> Look:
        """Return the means over the rounds."""
        coef, ratios, proportions = (each / self.n_rounds for each in (self.coef, self.ratios, self.proportions))
        log_likelihood = self.log_likelihood / self.n_rounds
        return replace(self, coef=coef, ratios=ratios, proportions=proportions, log_likelihood=log_likelihood)

    def shape_shares(self) -> FloatArray:
        """Return the proportions of the shapes among themselves."""
        shares = self.proportions[:N_SHAPES]
        return np.asarray(shares / shares.sum())

    def is_worth_keeping(self, settled: FloatArray) -> bool:
        """Whether these means show a regime that has settled, differs from the reference and is not only remembered.

        Parameters
        ----------
        settled : array of shape (n_reference,)
            The ratio that a slot would hold.
        """
        return (
            self.is_long_enough
            and (self.n_rounds < LONGEST_LOOK or distance(self.ratios, self.before) <= _LARGEST_MOVE)
            and float(self.proportions[1:N_SHAPES].sum()) >= _SMALLEST_SHAPE_SHARE
            and distance(settled, np.ones_like(settled)) > _NEAR_ONE
            and distance(settled, self.ratios) <= _FAR_FROM_POOLED
        )


def start_slots(n_slots: int, n_columns: int) -> Slots:
    """Return free slots."""
    return Slots(
        coefs=np.zeros((n_slots, n_columns)),
        shares=np.zeros((n_slots, N_SHAPES)),
        factors=np.zeros((n_slots, N_SHAPES)),
        n_merged=np.zeros(n_slots, dtype=np.int64),
        use=np.zeros(n_slots),
        visits=np.zeros((0, 3), dtype=np.int64),
    )


def start_look(n_columns: int, n_candidates: int, before: FloatArray) -> Look:
    """Return sums of nothing, after a look with this mean pooled ratio."""
    return Look(
        n_rounds=0,
        n_rows=0,
        coef=np.zeros(n_columns),
        ratios=np.zeros(len(before)),
        proportions=np.zeros(n_candidates),
        log_likelihood=0.0,
        before=before,
    )


def distance(ratios: FloatArray, others: FloatArray) -> float:
    """Return the total variation between two ratios with mean 1 over the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.pool.memory import distance
    >>> distance(np.array([1.0, 1.0]), np.array([2.0, 0.0]))
    0.5
    """
    return float(0.5 * np.abs(ratios - others).mean())


def _visited(visits: IntArray, slot: int, this_round: int, n_rounds: int) -> IntArray:
    """Return the visits with the last look added: it prolongs the latest visit, or begins another."""
    visits = visits.copy()
    if len(visits) and visits[-1, 0] == slot and visits[-1, 2] >= this_round - n_rounds - _LEAST_ROUNDS:
        visits[-1, 2] = this_round
        return visits
    first = this_round - n_rounds + 1
    visits = np.concatenate((visits, np.array([[slot, first, this_round]])))
    of_slot = np.flatnonzero(visits[:, 0] == slot)
    # The first visit stays, so that the regimes keep their order.
    return np.delete(visits, of_slot[1], axis=0) if len(of_slot) > MOST_VISITS else visits
