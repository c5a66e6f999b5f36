"""What the pool knows after a round."""

from __future__ import annotations

from dataclasses import dataclass, field

from accous.arrays import FloatArray
from accous.core.pool.filters import Filters
from accous.core.pool.memory import Look, Slots

__all__ = ["PoolState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The state after a round; a reader needs nothing else to compute pooled ratios.

    Attributes
    ----------
    n_rounds : int
    coef : array of shape (d,)
        Theta whose shapes are candidates.
    means : array of shape (n_shapes,)
        Means of these shapes over the reference.
    prior : array of shape (n_candidates,)
    filters, cautious : Filters
        Over all candidates, and over the first three.
    excess : float
        How much better the pool explains the stream than the reference's rows can.
    hold : float
        How far the pool is held back for that, between 0 and 1.
    slots : Slots
    look : Look
    slot_ratios : array of shape (n_slots, n_reference)
        Ratios of the slots for the reference; computed from the slots.
    given_ratios : array of shape (n_given, n_reference)
        Ratios of the given candidates for the reference; not stored.
    reference_ratios : array of shape (n_reference,)
        The pooled ratio; computed from the rest.
    """

    n_rounds: int
    coef: FloatArray
    means: FloatArray
    prior: FloatArray
    filters: Filters
    cautious: Filters
    excess: float
    hold: float
    slots: Slots
    look: Look
    slot_ratios: FloatArray = field(compare=False, repr=False)
    given_ratios: FloatArray = field(compare=False, repr=False)
    reference_ratios: FloatArray = field(compare=False, repr=False)

    @property
    def proportions(self) -> FloatArray:
        """Proportions of the candidates in use."""
        hold = self.hold
        if hold == 0.0:
            return self.filters.proportions
        return (1.0 - hold) * self.filters.proportions + hold * self.cautious.proportions
