r"""The pool: the ratio in use is a mixture of candidates, weighted by how well they explained past batches.

The candidates are shapes of the current estimate (`accous.core.pool.shapes`) and remembered ratios
(`accous.core.pool.memory`), each scaled to mean 1 over the reference. Filters (`accous.core.pool.filters`) give their
proportions q, and

.. math:: \hat r(x) = \sum_c q_c\, r_c(x)

has mean 1 itself. Where the reference does not support this ratio (`accous.core.pool.support`), a second set of filters
takes over, whose only candidates are 1, the square root of the estimate, and the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray, to_plain
from accous.core.fast.kernels_pool import pool_reference
from accous.core.paper.losses import Loss
from accous.core.paper.reference import Reference
from accous.core.pool.filters import Filters, cautious_prior, prior_of, start_filters
from accous.core.pool.memory import ROUNDS_PER_LOOK, Look, Slots, start_look, start_slots
from accous.core.pool.shapes import N_SHAPES, UNCUT, mixed_shapes, shape_cuts, shape_values
from accous.core.pool.support import excess_after, hold_for

__all__ = ["PoolState", "RatioPool"]


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
    reference_ratios: FloatArray = field(compare=False, repr=False)

    @property
    def proportions(self) -> FloatArray:
        """Proportions of the candidates in use."""
        hold = self.hold
        if hold == 0.0:
            return self.filters.proportions
        return (1.0 - hold) * self.filters.proportions + hold * self.cautious.proportions


class Judgement(NamedTuple):
    """What a batch says about the candidates, before the estimator learns from it."""

    filters: Filters
    cautious: Filters
    log_likelihood: float


class RatioPool:
    """Plays the pool's rounds next to those of an estimator.

    Parameters
    ----------
    reference : Reference
        Features of all reference rows.
    loss : Loss
        Turns scores into ratios.
    max_ratio : float
        The largest ratio.
    n_slots : int
        How many regimes to remember.
    """

    def __init__(self, reference: Reference, loss: Loss, max_ratio: float, n_slots: int) -> None:
        self._reference, self._loss, self._n_slots = reference, loss, n_slots
        self._max_ratio, self._cuts = max_ratio, shape_cuts(max_ratio)
        self._cautious_prior = cautious_prior(n_slots)

    def start(self, neutral: FloatArray) -> PoolState:
        """Return the state before the first round: the prior, and ratio 1 as far as all shapes of ratio 1 are 1."""
        n_rows, n_columns = self._reference.features.shape
        slots = start_slots(self._n_slots, n_columns)
        prior = prior_of(slots.is_used)
        return PoolState(
            n_rounds=0,
            coef=neutral,
            means=np.ones(N_SHAPES),
            prior=prior,
            filters=start_filters(prior),
            cautious=start_filters(self._cautious_prior),
            excess=0.0,
            hold=0.0,
            slots=slots,
            look=start_look(n_columns, len(prior), np.ones(n_rows)),
            slot_ratios=np.zeros((self._n_slots, n_rows)),
            reference_ratios=np.ones(n_rows),
        )

    def judge(self, state: PoolState, batch: FloatArray) -> Judgement:
        """Return the filters after a batch, which the estimator has not learned from yet.

        Parameters
        ----------
        state : PoolState
        batch : array of shape (n_batch, d)
            Features of the batch.
        """
        ratios = self._reference.batch_ratios(state.coef, batch, UNCUT)
        shapes = self._cuts, state.means
        slots = self._slot_ratios(state.slots, batch), state.slots.factors
        filters, log_likelihood = state.filters.after_batch(state.prior, ratios, shapes, slots)
        cautious, _ = state.cautious.after_batch(self._cautious_prior, ratios, shapes, slots)
        return Judgement(filters, cautious, log_likelihood)

    def settle(self, state: PoolState, judgement: Judgement, coef: FloatArray, ratios: FloatArray) -> PoolState:
        """Return the state after a round, once the estimator has learned from the batch.

        Parameters
        ----------
        state : PoolState
            Before the round.
        judgement : Judgement
            What ``judge`` returned for the batch.
        coef : array of shape (d,)
            The estimator's theta after the round.
        ratios : array of shape (n_reference,)
            Its ratios of the reference, at most ``UNCUT``.
        """
        filters, look = judgement.filters, state.look
        means, pooled = self._pooled(ratios, filters, state)
        after = PoolState(
            n_rounds=state.n_rounds + 1,
            coef=coef,
            means=means,
            prior=state.prior,
            filters=filters,
            cautious=judgement.cautious,
            excess=state.excess,
            hold=state.hold,
            slots=state.slots,
            look=Look(
                coef=look.coef + coef,
                ratios=look.ratios + pooled,
                proportions=look.proportions + filters.proportions,
                log_likelihood=look.log_likelihood + judgement.log_likelihood,
                before=look.before,
            ),
            slot_ratios=state.slot_ratios,
            reference_ratios=pooled,
        )
        if after.n_rounds % ROUNDS_PER_LOOK == 0:
            after = self._look_back(after)
            # The ratio in use is a function of the state, so that a model that was saved goes on with the same bits.
            after = replace(after, reference_ratios=self._pooled(ratios, after.filters, after)[1])
        return self._hold_back(after, ratios) if after.hold else after

    def on_reference(self, state: PoolState, ratios: FloatArray) -> PoolState:
        """Return a state that comes from another reference, on this pool's reference.

        Sums over the rows of the other reference say nothing about these rows: the look goes on as if the ratio had not
        moved in it.

        Parameters
        ----------
        state : PoolState
        ratios : array of shape (n_reference,)
            Ratios of the reference at the state's theta, at most ``UNCUT``.
        """
        state = self.restored(state, ratios)
        _, pooled = self._pooled(ratios, state.filters, state)
        n_rounds = state.n_rounds % ROUNDS_PER_LOOK
        return replace(state, look=replace(state.look, ratios=pooled * n_rounds, before=pooled))

    def fits(self, state: PoolState) -> bool:
        """Whether a state that was stored has the shapes that a state of this pool has."""
        expected, found = self.start(state.coef), to_plain(state)
        n_columns = self._reference.features.shape[1]
        return state.coef.shape == (n_columns,) and _shapes(to_plain(expected)) == _shapes(found)

    def restored(self, state: PoolState, ratios: FloatArray) -> PoolState:
        """Return a state that was stored without what is computed from the reference.

        Parameters
        ----------
        state : PoolState
        ratios : array of shape (n_reference,)
            Ratios of the reference at the state's theta, at most ``UNCUT``.
        """
        slots, slot_ratios = state.slots, np.zeros((self._n_slots, len(ratios)))
        for slot in np.flatnonzero(slots.is_used).tolist():
            slot_ratios[slot], of_slot = self._mixed(slots.coefs[slot], slots.shares[slot])
            slots = slots.with_factors(slot, of_slot)
        state = replace(state, slots=slots, slot_ratios=slot_ratios)
        means, pooled = self._pooled(ratios, state.filters, state)
        state = replace(state, means=means, reference_ratios=pooled)
        return self._hold_back(state, ratios) if state.hold else state

    def with_estimate(self, state: PoolState, ratios: FloatArray) -> FloatArray:
        """Return the pooled ratio of the reference if these were the estimate's ratios."""
        _, pooled = self._pooled(ratios, state.filters, state)
        if state.hold:
            pooled = (1.0 - state.hold) * pooled + state.hold * self._pooled(ratios, state.cautious, state)[1]
        return pooled

    def ratios(self, state: PoolState, features: FloatArray) -> FloatArray:
        """Return the pooled ratio of any rows, given their features."""
        ratios = self._loss.ratio(np.einsum("nd,d->n", features, state.coef), UNCUT)
        proportions, factors = state.proportions, state.slots.factors
        # Written as 1 plus what differs from 1, as in the kernel: nothing to adapt to then gives exactly 1.
        pooled = 1.0 + (shape_values(ratios, self._cuts) / state.means - 1.0) @ proportions[:N_SHAPES]
        for slot in np.flatnonzero(state.slots.is_used).tolist():
            of_slot = shape_values(
                self._loss.ratio(np.einsum("nd,d->n", features, state.slots.coefs[slot]), UNCUT), self._cuts
            )
            pooled += proportions[N_SHAPES + slot] * (of_slot @ factors[slot] - 1.0)
        return np.clip(pooled, 0.0, self._max_ratio)

    def _look_back(self, state: PoolState) -> PoolState:
        """Remember the ratio of the last look if it has settled, and see whether the reference supports it."""
        look = state.look.mean()
        excess = excess_after(state.excess, look)
        slots, put, filters, prior = state.slots, None, state.filters, state.prior
        slot_ratios = state.slot_ratios
        shares = look.shape_shares()
        settled, _ = self._mixed(look.coef, shares)
        if self._n_slots and look.is_worth_keeping(settled):
            put, is_same = slots.find(slot_ratios, settled)
            slots = slots.put(put, look.coef, shares, is_same=is_same)
            slot_ratios = slot_ratios.copy()
            slot_ratios[put], means = self._mixed(slots.coefs[put], slots.shares[put])
            slots = slots.with_factors(put, means)
            prior = prior_of(slots.is_used)
            filters = filters if is_same else filters.without(N_SHAPES + put, prior)
        return replace(
            state,
            prior=prior,
            filters=filters,
            excess=excess,
            hold=hold_for(excess),
            slots=slots.after_look(look.proportions, put, state.n_rounds),
            look=start_look(len(look.coef), len(prior), look.ratios),
            slot_ratios=slot_ratios,
        )

    def _hold_back(self, state: PoolState, ratios: FloatArray) -> PoolState:
        """Replace the ratio in use by that of the cautious filters, as far as the hold goes."""
        _, cautious = self._pooled(ratios, state.cautious, state)
        in_use = (1.0 - state.hold) * state.reference_ratios + state.hold * cautious
        return replace(state, reference_ratios=in_use)

    def _pooled(self, ratios: FloatArray, filters: Filters, state: PoolState) -> tuple[FloatArray, FloatArray]:
        """Return the means of the shapes, and the mixture of all candidates for the reference."""
        means, pooled = np.empty(N_SHAPES), np.empty(len(ratios))
        pool_reference(ratios, self._cuts, filters.proportions, state.slot_ratios, means, pooled)
        return means, pooled

    def _slot_ratios(self, slots: Slots, features: FloatArray) -> FloatArray:
        """Return the ratios of some rows at the theta of every slot."""
        if not slots.n_merged.any():
            return np.zeros((self._n_slots, len(features)))
        return np.ascontiguousarray(self._loss.ratio(np.einsum("kd,nd->kn", slots.coefs, features), UNCUT))

    def _mixed(self, coef: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a mixture of the shapes at a theta for the reference, and the means of the shapes."""
        return mixed_shapes(self._reference.ratios(coef, UNCUT), self._cuts, shares)


def _shapes(plain: Any) -> Any:
    """Return the shapes of nested arrays; the number of visits may be any."""
    if isinstance(plain, dict):
        return {name: _shapes(part) for name, part in plain.items() if name != "visits"}
    return np.shape(plain)
