r"""The pool: the ratio in use is a mixture of candidates, weighted by how well they explained past batches.

The candidates are shapes of the current estimate (`accous.core.pool.shapes`), remembered ratios
(`accous.core.pool.memory`) and any ratios that are given as rows: those of a batch and those of the reference. Each has
mean 1 over the reference. Filters (`accous.core.pool.filters`) give their proportions q, and

.. math:: \hat r(x) = \sum_c q_c\, r_c(x)

has mean 1 itself. Where the reference does not support this ratio (`accous.core.pool.support`), a second set of filters
takes over, whose only candidates are 1, the square root of the estimate, and the estimate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from accous.arrays import FloatArray, to_plain
from accous.core.fast.kernels_pool import pool_reference, pool_rows
from accous.core.paper.reference import Reference
from accous.core.pool.filters import Filters, cautious_prior, prior_of, start_filters
from accous.core.pool.judgement import Judgement, SeenRows
from accous.core.pool.memory import LEAST_ROWS, LONGEST_LOOK, Look, Slots, start_look, start_slots
from accous.core.pool.shapes import N_SHAPES, UNCUT, mixed_shapes, shape_cuts
from accous.core.pool.state import PoolState
from accous.core.pool.support import excess_after, hold_for

__all__ = ["RatioPool"]


class RatioPool:
    """Plays the pool's rounds next to those of an estimator.

    Parameters
    ----------
    reference : Reference
        Features of all reference rows.
    max_ratio : float
        The largest ratio.
    n_slots : int
        How many regimes to remember.
    n_given : int
        How many candidates are given. Where a method takes ``given``, it is an array of their ratios with mean 1 over
        the reference, (n_given, n_rows), for the rows of the batch or of the reference; it may be left out for none.
    """

    def __init__(self, reference: Reference, max_ratio: float, n_slots: int, n_given: int = 0) -> None:
        self._reference, self._n_slots, self._n_given = reference, n_slots, n_given
        self._max_ratio, self._cuts = max_ratio, shape_cuts(max_ratio)
        self._cautious_prior = cautious_prior(n_slots + n_given)

    def start(self, neutral: FloatArray, given: FloatArray | None = None) -> PoolState:
        """Return the state before the first round: the prior, and ratio 1 as far as all shapes of ratio 1 are 1."""
        n_rows, n_columns = self._reference.features.shape
        slots = start_slots(self._n_slots, n_columns)
        prior = prior_of(slots.is_used, self._n_given)
        state = PoolState(
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
            given_ratios=self._rows(given, n_rows),
            reference_ratios=np.ones(n_rows),
        )
        return replace(state, reference_ratios=self.with_estimate(state, np.ones(n_rows))) if self._n_given else state

    def judge(self, state: PoolState, batch: FloatArray, given: FloatArray | None = None) -> Judgement:
        """Return the filters after a batch, which the estimator has not learned from yet.

        Parameters
        ----------
        state : PoolState
        batch : array of shape (n_batch, d)
            Features of the batch.
        given : array of shape (n_given, n_batch), optional
        """
        seen = self._see(state, batch, given)
        shapes, slots = (self._cuts, seen.means), (seen.slot_ratios, seen.factors)
        filters, log_likelihood = state.filters.after_batch(state.prior, seen.ratios, shapes, slots, seen.given)
        cautious, _ = state.cautious.after_batch(self._cautious_prior, seen.ratios, shapes, slots, seen.given)
        return Judgement(filters, cautious, log_likelihood, seen)

    def settle(
        self,
        state: PoolState,
        judgement: Judgement,
        coef: FloatArray,
        ratios: FloatArray,
        given: FloatArray | None = None,
    ) -> PoolState:
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
        given : array of shape (n_given, n_reference), optional
            After the given candidates have learned from the batch.
        """
        filters = judgement.filters
        state = replace(state, given_ratios=self._rows(given, len(ratios))) if self._n_given else state
        means, pooled = self._pooled(ratios, filters, state)
        this_round = coef, pooled, filters.proportions, judgement.log_likelihood, len(judgement.seen.ratios)
        is_left = state.look.n_rows >= LEAST_ROWS and state.look.is_left(pooled)
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
            look=state.look if is_left else _with_round(state.look, *this_round),
            slot_ratios=state.slot_ratios,
            given_ratios=state.given_ratios,
            reference_ratios=pooled,
        )
        if is_left or after.look.n_rounds == LONGEST_LOOK:
            after = self.look_back(after, after.n_rounds - is_left)
            after = replace(after, look=_with_round(after.look, *this_round)) if is_left else after
            # The ratio in use is a function of the state, so that a model that was saved goes on with the same bits.
            after = replace(after, reference_ratios=self._pooled(ratios, after.filters, after)[1])
        return self._hold_back(after, ratios) if after.hold else after

    def on_reference(self, state: PoolState, ratios: FloatArray, given: FloatArray | None = None) -> PoolState:
        """Return a state that comes from another reference, on this pool's reference.

        Sums over the rows of the other reference say nothing about these rows: the look goes on as if the ratio had not
        moved in it.

        Parameters
        ----------
        state : PoolState
        ratios : array of shape (n_reference,)
            Ratios of the reference at the state's theta, at most ``UNCUT``.
        given : array of shape (n_given, n_reference), optional
        """
        state = self.restored(state, ratios, given)
        _, pooled = self._pooled(ratios, state.filters, state)
        return replace(state, look=replace(state.look, ratios=pooled * state.look.n_rounds, before=pooled))

    def fits(self, state: PoolState) -> bool:
        """Whether a state that was stored has the shapes that a state of this pool has."""
        n_rows, n_columns = self._reference.features.shape
        expected, found = self.start(state.coef, np.ones((self._n_given, n_rows))), to_plain(state)
        return state.coef.shape == (n_columns,) and _shapes(to_plain(expected)) == _shapes(found)

    def restored(self, state: PoolState, ratios: FloatArray, given: FloatArray | None = None) -> PoolState:
        """Return a state that was stored without what is computed from the reference.

        Parameters
        ----------
        state : PoolState
        ratios : array of shape (n_reference,)
            Ratios of the reference at the state's theta, at most ``UNCUT``.
        given : array of shape (n_given, n_reference), optional
        """
        slots, slot_ratios = state.slots, np.zeros((self._n_slots, len(ratios)))
        for slot in np.flatnonzero(slots.is_used).tolist():
            slot_ratios[slot], of_slot = self._mixed(slots.coefs[slot], slots.shares[slot])
            slots = slots.with_factors(slot, of_slot)
        given_ratios = self._rows(given, len(ratios))
        state = replace(state, slots=slots, slot_ratios=slot_ratios, given_ratios=given_ratios)
        means, pooled = self._pooled(ratios, state.filters, state)
        state = replace(state, means=means, reference_ratios=pooled)
        return self._hold_back(state, ratios) if state.hold else state

    def with_estimate(self, state: PoolState, ratios: FloatArray) -> FloatArray:
        """Return the pooled ratio of the reference if these were the estimate's ratios."""
        _, pooled = self._pooled(ratios, state.filters, state)
        if state.hold:
            pooled = (1.0 - state.hold) * pooled + state.hold * self._pooled(ratios, state.cautious, state)[1]
        return pooled

    def ratios(self, state: PoolState, features: FloatArray, given: FloatArray | None = None) -> FloatArray:
        """Return the pooled ratio of any rows, given their features."""
        return self.mixed(self._see(state, features, given))

    def mixed(self, seen: SeenRows) -> FloatArray:
        """Return the pooled ratio of rows that were judged or looked at, as it was then."""
        pooled = np.empty(len(seen.ratios))
        of_rows, of_candidates = seen[:3], seen[3:]
        pool_rows(*of_rows, self._cuts, *of_candidates, self._max_ratio, pooled)
        return pooled

    def look_back(self, state: PoolState, last_round: int) -> PoolState:
        """Remember the ratio of the last look if it has settled, and see whether the reference supports it.

        Parameters
        ----------
        state : PoolState
        last_round : int
            The last round of the look.
        """
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
            prior = prior_of(slots.is_used, self._n_given)
            filters = filters if is_same else filters.without(N_SHAPES + put, prior)
        return replace(
            state,
            prior=prior,
            filters=filters,
            excess=excess,
            hold=hold_for(excess),
            slots=slots.after_look(look, put, last_round),
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
        others = np.concatenate((state.slot_ratios, state.given_ratios)) if self._n_given else state.slot_ratios
        pool_reference(ratios, self._cuts, filters.proportions, others, means, pooled)
        return means, pooled

    def _see(self, state: PoolState, features: FloatArray, given: FloatArray | None) -> SeenRows:
        return SeenRows(
            self._reference.batch_ratios(state.coef, features, UNCUT),
            self._slot_ratios(state.slots, features),
            self._rows(given, len(features)) if self._n_given else np.empty((0, len(features))),
            state.means,
            state.slots.factors,
            state.proportions,
        )

    def _rows(self, given: FloatArray | None, n_rows: int) -> FloatArray:
        given = np.empty((0, n_rows)) if given is None else given
        if given.shape != (self._n_given, n_rows):
            raise ValueError(f"given must have the shape {(self._n_given, n_rows)}, got {given.shape}.")
        return given

    def _slot_ratios(self, slots: Slots, features: FloatArray) -> FloatArray:
        """Return the ratios of some rows at the theta of every slot."""
        if not slots.n_merged.any():
            return np.zeros((self._n_slots, len(features)))
        return self._reference.batch_ratios_at_each(slots.coefs, features, UNCUT)

    def _mixed(self, coef: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a mixture of the shapes at a theta for the reference, and the means of the shapes."""
        return mixed_shapes(self._reference.ratios(coef, UNCUT), self._cuts, shares)


def _with_round(
    look: Look, coef: FloatArray, ratios: FloatArray, proportions: FloatArray, log_likelihood: float, n_rows: int
) -> Look:
    """Return the sums with one round more."""
    return Look(
        n_rounds=look.n_rounds + 1,
        n_rows=look.n_rows + n_rows,
        coef=look.coef + coef,
        ratios=look.ratios + ratios,
        proportions=look.proportions + proportions,
        log_likelihood=look.log_likelihood + log_likelihood,
        before=look.before,
    )


def _shapes(plain: Any) -> Any:
    """Return the shapes of nested arrays; the number of visits may be any."""
    if isinstance(plain, dict):
        return {name: _shapes(part) for name, part in plain.items() if name != "visits"}
    return np.shape(plain)
