r"""The pool: the ratio in use is a mixture of candidates, weighted by how well they explained past batches.

The candidates are shapes of the current estimate (`accous.core.pool.shapes`) and remembered ratios
(`accous.core.pool.memory`), each scaled to mean 1 over the reference. Filters (`accous.core.pool.filters`) give their
proportions q, and

.. math:: \hat r(x) = \sum_c q_c\, r_c(x)

is a ratio with mean 1 itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from typing import NamedTuple
import numpy as np

from accous.arrays import FloatArray
from accous.core.fast.kernels_pool import filter_batch, mix_shapes, pool_reference
from accous.core.paper.losses import Loss
from accous.core.paper.reference import Reference
from accous.core.pool.filters import DECAYS, FILTER_SHARE, FLOOR, PRIOR_COUNT, SWITCHING, Filters, prior_of, start_filters
from accous.core.pool.memory import (
    ROUNDS_PER_LOOK,
    Look,
    Slots,
    decayed_use,
    find_slot,
    is_worth_keeping,
    put,
    start_look,
    start_slots,
)
from accous.core.pool.shapes import N_SHAPES, shape_cuts

__all__ = ["UNCUT", "PoolState", "RatioPool"]

UNCUT = 1e30
"""The pool cuts ratios itself; it takes them up to this value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """The state after a round; a reader needs nothing else to compute pooled ratios.

    Attributes
    ----------
    n_rounds : int
    coef : array of shape (d,)
        Theta whose shapes are candidates.
    normalisers : array of shape (n_shapes,)
        Means of these shapes over the reference.
    prior : array of shape (n_candidates,)
    filters : Filters
    slots : Slots
    look : Look
    slot_ratios : array of shape (n_slots, n_reference)
        Ratios of the slots for the reference; computed from the slots.
    reference_ratios : array of shape (n_reference,)
        The pooled ratio; computed from the rest.
    """

    n_rounds: int
    coef: FloatArray
    normalisers: FloatArray
    prior: FloatArray
    filters: Filters
    cautious: Filters
    excess: float
    slots: Slots
    look: Look
    slot_ratios: FloatArray = field(compare=False, repr=False)
    reference_ratios: FloatArray = field(compare=False, repr=False)

    @property
    def hold(self) -> float:
        return min(max((self.excess - LOW) / (HIGH - LOW), 0.0), 1.0)

    @property
    def proportions(self) -> FloatArray:
        return self.filters.proportions + self.hold * (self.cautious.proportions - self.filters.proportions)

import os
LOW, HIGH = eval(os.environ.get("ACC_HOLD", "0.6,1.2"))
CAUTIOUS_PRIOR = np.zeros(N_SHAPES + 64)
CAUTIOUS_PRIOR[:3] = 0.5, 0.25, 0.25
CAUTIOUS_PRIOR.setflags(write=False)

class Judgement(NamedTuple):
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
        self._cuts = shape_cuts(max_ratio)
        self._max_ratio = max_ratio

    def start(self, neutral: FloatArray) -> PoolState:
        """Return the state before the first round."""
        n_rows, n_columns = self._reference.features.shape
        slots = start_slots(self._n_slots, n_columns)
        prior = prior_of(slots.is_used)
        return PoolState(
            n_rounds=0,
            coef=neutral,
            normalisers=np.ones(N_SHAPES),
            prior=prior,
            filters=start_filters(prior),
            cautious=start_filters(CAUTIOUS_PRIOR[: len(prior)]),
            excess=0.0,
            slots=slots,
            look=start_look(n_columns, n_rows, len(prior)),
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
        slot_ratios = self._slot_ratios(state, batch)
        filters, log_likelihood = self._filter(state, state.filters, state.prior, ratios, slot_ratios)
        cautious, _ = self._filter(state, state.cautious, CAUTIOUS_PRIOR[: len(state.prior)], ratios, slot_ratios)
        return Judgement(filters, cautious, log_likelihood)

    def _filter(self, state, filters, prior, ratios, slot_ratios):
        new = np.empty_like(filters.weights), np.empty_like(filters.posteriors), np.empty_like(filters.counts)
        proportions = np.empty(len(prior))
        log_likelihood = filter_batch(
            ratios,
            slot_ratios,
            self._cuts,
            state.normalisers,
            state.slots.factors,
            prior,
            filters.weights,
            filters.posteriors,
            filters.counts,
            filters.proportions,
            SWITCHING,
            DECAYS,
            FLOOR,
            FILTER_SHARE,
            PRIOR_COUNT,
            np.empty((len(ratios), len(prior))),
            np.empty(len(prior)),
            *new,
            proportions,
        )
        return Filters(*new, proportions), log_likelihood

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
        filters, cautious, log_likelihood = judgement
        normalisers, pooled = np.empty(N_SHAPES), np.empty(len(ratios))
        pool_reference(ratios, self._cuts, filters.proportions, state.slot_ratios, normalisers, pooled)
        in_use = pooled
        if state.hold > 0.0:
            held = np.empty(len(ratios))
            pool_reference(ratios, self._cuts, cautious.proportions, state.slot_ratios, normalisers, held)
            in_use = pooled + state.hold * (held - pooled)
        look = state.look
        look = Look(
            coefs=look.coefs + coef,
            ratios=look.ratios + pooled,
            proportions=look.proportions + filters.proportions,
            before=look.before,
            log_likelihood=look.log_likelihood + log_likelihood,
        )
        after = PoolState(
            n_rounds=state.n_rounds + 1,
            coef=coef,
            normalisers=normalisers,
            prior=state.prior,
            filters=filters,
            cautious=cautious,
            excess=state.excess,
            slots=state.slots,
            look=look,
            slot_ratios=state.slot_ratios,
            reference_ratios=in_use,
        )
        if after.n_rounds % ROUNDS_PER_LOOK:
            return after
        mean = look.ratios / ROUNDS_PER_LOOK
        divergence = float((mean * np.log(np.maximum(mean, 1e-12))).mean())
        new = look.log_likelihood / ROUNDS_PER_LOOK - divergence
        after = replace(after, excess=0.5 * (after.excess + new))
        return self._remember(after)

    def _remember(self, state: PoolState) -> PoolState:
        """Remember the ratio of the last look if it has settled."""
        look, slots = state.look, state.slots
        if not self._n_slots:
            return replace(state, look=start_look(len(look.coefs), len(look.ratios), len(look.proportions)))
        slots = replace(slots, use=decayed_use(slots, look.proportions, ROUNDS_PER_LOOK))
        coef = look.coefs / ROUNDS_PER_LOOK
        shares = look.proportions[:N_SHAPES] / look.proportions[:N_SHAPES].sum()
        mean = look.ratios / ROUNDS_PER_LOOK
        fresh = start_look(len(coef), len(mean), len(look.proportions), mean)
        settled, _ = self._mixed(coef, shares)
        if not is_worth_keeping(look, settled, ROUNDS_PER_LOOK):
            return replace(state, slots=slots, look=fresh)
        k, is_same = find_slot(slots, state.slot_ratios, settled)
        slots = put(slots, k, coef, shares, is_same=is_same)
        slot_ratios, normalisers = state.slot_ratios.copy(), slots.normalisers.copy()
        slot_ratios[k], normalisers[k] = self._mixed(slots.coefs[k], slots.shares[k])
        slots = replace(slots, normalisers=normalisers)
        prior = prior_of(slots.is_used)
        filters = state.filters if is_same else state.filters.without(N_SHAPES + k, prior)
        return replace(
            state, slots=slots, look=fresh, slot_ratios=slot_ratios, prior=prior, filters=filters
        )

    def ratios(self, state: PoolState, features: FloatArray) -> FloatArray:
        """Return the pooled ratio of any rows, given their features."""
        ratios = self._loss.ratio(np.einsum("nd,d->n", features, state.coef), UNCUT)
        proportions = state.proportions
        pooled = shape_values(ratios, self._cuts) @ (proportions[:N_SHAPES] / state.normalisers)
        factors = state.slots.factors
        for k, ratios in enumerate(self._slot_ratios(state, features)):
            pooled = pooled + proportions[N_SHAPES + k] * (shape_values(ratios, self._cuts) @ factors[k])
        return np.minimum(pooled, self._max_ratio)

    def _slot_ratios(self, state: PoolState, batch: FloatArray) -> FloatArray:
        """Return the ratios of a batch at the theta of every slot."""
        if not state.slots.n_merged.any():
            return np.zeros((self._n_slots, len(batch)))
        return np.ascontiguousarray(self._loss.ratio(np.einsum("kd,nd->kn", state.slots.coefs, batch), UNCUT))

    def _mixed(self, coef: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a mixture of the shapes at a theta for the reference, and the means of the shapes."""
        ratios = self._reference.ratios(coef, UNCUT)
        normalisers, mixed = np.empty(N_SHAPES), np.empty(len(ratios))
        mix_shapes(ratios, self._cuts, shares, normalisers, mixed)
        return mixed, normalisers


def shape_values(ratios: FloatArray, cuts: FloatArray) -> FloatArray:
    """Return all shapes of some ratios, (n_rows, n_shapes)."""
    with np.errstate(over="ignore"):
        squares = ratios * ratios
        powers = (np.ones_like(ratios), np.sqrt(ratios), *(ratios,) * 4, *(squares,) * 3, *(squares * squares,) * 3)
    return np.minimum(np.stack(powers, axis=1), cuts)
