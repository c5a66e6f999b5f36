"""One round of many keys that share a reference: filters, learners, ratios and the pooled ratio of each key.

The steps are those of `accous.core.paper.ensemble` and `accous.core.pool.pool`. Each kernel goes through the keys one
after the other, so that what a key gets does not depend on the other keys of a call.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.fast.ensemble import NarrowReference
from accous.core.fast.kernels_learners import play_learners_of_keys
from accous.core.fast.kernels_pool import filter_batches_of_keys, mix_shapes, pool_references_of_keys
from accous.core.fast.kernels_rows import BLOCK, evaluate_ratios_of_keys, read_batches_of_keys
from accous.core.keys.stack import N_CAUTIOUS, KeyShape, KeyStack, Number
from accous.core.paper.cover import log_intervals
from accous.core.paper.ensemble import SMALLEST_RELATIVE_RANGE, EnsembleSettings
from accous.core.paper.projection import project_onto_ball
from accous.core.pool.filters import (
    DECAYS,
    FILTER_SHARE,
    FLOOR,
    PRIOR_COUNT,
    SWITCHING,
    cautious_prior,
    prior_of,
    start_filters,
)
from accous.core.pool.shapes import N_SHAPES, UNCUT, shape_cuts
from accous.core.pool.support import hold_for

__all__ = ["KeyRounds", "count_learners"]

_RATES = (SWITCHING, DECAYS, FLOOR, FILTER_SHARE, PRIOR_COUNT)
_MOST_BITS = 64
_MOST_KNOWN_SLOTS = 256
_OUTSIDE = 1.0 + 1e-6  # times the radius: beyond the rounding of a point on the surface


class KeyRounds:
    """Plays the rounds of keys that share a reference.

    Parameters
    ----------
    settings : EnsembleSettings
    gradient_reference : NarrowReference
        The reference rows that gradients are summed over.
    reference : NarrowReference
        All reference rows.
    max_ratio : float
    shape : KeyShape
    """

    def __init__(
        self,
        settings: EnsembleSettings,
        gradient_reference: NarrowReference,
        reference: NarrowReference,
        max_ratio: float,
        shape: KeyShape,
    ) -> None:
        self._settings, self._shape = settings, shape
        self._gradient_reference, self._reference = gradient_reference, reference
        self.cuts = shape_cuts(max_ratio)
        # ln K, by the number of binary digits of the round.
        self._log_counts = np.array(
            [log_intervals(bits, settings.horizon, settings.min_interval) for bits in range(_MOST_BITS)]
        )
        self._priors: dict[tuple[bool, ...], FloatArray] = {}
        # Slots change every 16 rounds at most: a process that sees a key again soon need not compute them again.
        self._known_slots: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._free_prior = prior_of(np.zeros(shape.n_slots, dtype=np.bool_))
        self._cautious_priors = np.tile(cautious_prior(0)[:N_CAUTIOUS], (1, 1))
        # Workspace of single kernels: whoever calls one writes there first, so that threads may share it.
        d, n_filters = shape.n_coefs, len(SWITCHING) + len(DECAYS)
        self._room = settings.neutral, np.empty((d + 3, d)), np.empty((1, d, d)), np.empty((1, d))
        self._scores = np.empty((max(2, gradient_reference.blocks.shape[0]), BLOCK))
        self._pool_room = np.empty(N_SHAPES), np.empty(N_SHAPES), np.empty(shape.n_reference)
        self._filter_room = {
            n: (np.empty(n), np.empty(n_filters), np.empty((len(SWITCHING), n)), np.empty((len(DECAYS), n)))
            for n in (shape.n_candidates, N_CAUTIOUS)
        }

    def start(self, stack: KeyStack, keys: IntArray) -> None:
        """Write the state before the first round for some keys of a stack of zeros."""
        filters, cautious = start_filters(self._free_prior), start_filters(cautious_prior(0))
        stack.parts["filter_weights"][keys] = filters.weights
        stack.parts["posteriors"][keys] = filters.posteriors
        stack.parts["proportions"][keys] = filters.proportions
        stack.parts["cautious_weights"][keys] = cautious.weights
        stack.parts["cautious_posteriors"][keys] = cautious.posteriors[:, :N_CAUTIOUS]
        stack.parts["cautious_proportions"][keys] = cautious.proportions[:N_CAUTIOUS]
        stack.parts["means"][keys] = 1.0
        # The mean ratio before the first look is 1.
        stack.parts["before_proportions"][keys, 0] = 1.0
        for name in ("before_coef", "watch_coef", "settled_coef"):
            stack.parts[name][keys] = self._settings.neutral
        stack.coef[keys] = self._settings.neutral
        if self._settings.min_interval == 1:
            # Only an interval of length 1 starts in round 1.
            rows, columns = np.tril_indices(self._shape.n_coefs)
            stack.n_learners[keys] = 1
            stack.coefs[keys, 0] = self._settings.neutral
            stack.triangles[keys, 0] = np.where(rows == columns, self._settings.ridge, 0.0)
            stack.log_potentials[keys, 0] = -self._log_counts[1]

    def restore(self, stack: KeyStack, keys_with_slots: list[int]) -> None:
        """Compute what is not kept from what is."""
        stack.priors[:] = self._free_prior
        for key in keys_with_slots:
            self.restore_slots(stack, key)
        for key, excess in enumerate(stack.numbers[Number.EXCESS].tolist()):
            if excess > 0.0:
                stack.holds[key] = hold_for(excess)

    def restore_slots(self, stack: KeyStack, key: int) -> None:
        """Compute the prior of a key, and the ratios of its slots."""
        is_used = tuple((stack.n_merged[key] > 0.0).tolist())
        if is_used not in self._priors:
            self._priors[is_used] = prior_of(np.array(is_used))
        stack.priors[key] = self._priors[is_used]
        for slot in range(sum(is_used)):  # free slots come last
            content = stack.slots[key, slot, :-2].tobytes()
            known = self._known_slots.get(content)
            if known is None:
                known = self._ratios_of_slot(stack.slots[key, slot, :-2].astype(np.float64))
                if len(self._known_slots) >= _MOST_KNOWN_SLOTS:
                    self._known_slots.clear()
                self._known_slots[content] = known
            stack.slot_ratios[key, slot], stack.factors[key, slot] = known

    def _ratios_of_slot(self, slot: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a slot's ratios of the reference, and what it multiplies the shapes by."""
        coef, shares = slot[: self._shape.n_coefs], slot[self._shape.n_coefs :]
        ratios, means = self._ratios_at(np.zeros(1, dtype=np.int64), coef[None]), np.empty(N_SHAPES)
        mixed = np.empty(self._shape.n_reference)
        mix_shapes(ratios[0, : len(mixed)], self.cuts, np.ascontiguousarray(shares), means, mixed)
        return mixed, shares / means

    def play(
        self, stack: KeyStack, active: IntArray, batch: FloatArray, starts: IntArray, step_sizes: FloatArray
    ) -> FloatArray:
        """Play a round of each active key, in place, and return the ratios of the reference at the new thetas.

        Parameters
        ----------
        stack : KeyStack
        active : array of shape (n_active,)
        batch : array of shape (n_rows, d)
            Features of all rows, one key after the other.
        starts : array of shape (n_active + 1,)
            Where the rows of each key begin; each has at least one.
        step_sizes : array of shape (n_active,)

        Returns
        -------
        array of shape (n_active, n_padded)
        """
        n_slots, most = self._shape.n_slots, stack.coefs.shape[1]
        reference = self._gradient_reference
        gradients = np.empty((len(active), most + 1, self._shape.n_coefs))
        ratios, slot_ratios = np.empty(len(batch)), np.empty((n_slots, len(batch)))
        read_batches_of_keys(
            active,
            reference.blocks,
            batch,
            starts,
            stack.coefs,
            stack.n_learners,
            stack.coef,
            stack.slot_coefs,
            stack.n_merged,
            -0.5 / len(reference.features),
            UNCUT,
            np.empty((most + 1, self._shape.n_coefs)),
            self._scores,
            gradients,
            ratios,
            slot_ratios,
        )
        self._judge(stack, active, starts, ratios, slot_ratios)
        self._learn(stack, active, gradients, step_sizes)
        places = stack.places(active)
        stack.parts["look_coef"][places] += stack.coef[places].astype(np.float32)
        stack.parts["look_proportions"][places] += stack.filters[0][-1][places]
        return self.ratios(stack, active)

    def ratios(self, stack: KeyStack, active: IntArray) -> FloatArray:
        """Return the ratios of the reference at the theta of each key, with padding."""
        return self._ratios_at(active, stack.coef)

    def _ratios_at(self, indices: IntArray, coefs: FloatArray) -> FloatArray:
        blocks = self._reference.blocks
        ratios = np.empty((len(indices), blocks.shape[0], BLOCK))
        evaluate_ratios_of_keys(indices, blocks, coefs, UNCUT, ratios)
        return ratios.reshape(len(indices), -1)

    def pool(self, stack: KeyStack, active: IntArray, ratios: FloatArray) -> FloatArray:
        """Return the pooled ratio of the reference in use, (n_active, n_reference), given what ``ratios`` returns."""
        pooled = np.empty((len(active), self._shape.n_reference))
        pool_references_of_keys(
            active,
            ratios,
            self.cuts,
            stack.parts["proportions"],
            stack.parts["cautious_proportions"],
            stack.holds,
            stack.slot_ratios,
            *self._pool_room,
            stack.parts["means"],
            pooled,
        )
        return pooled

    def _judge(
        self, stack: KeyStack, active: IntArray, starts: IntArray, ratios: FloatArray, slot_ratios: FloatArray
    ) -> None:
        """Update the filters by the ratios of the batch, before anything learns from it."""
        n_keys, n_all = len(stack.coef), self._shape.n_candidates
        if len(self._cautious_priors) < n_keys:
            self._cautious_priors = np.tile(self._cautious_priors[:1], (n_keys, 1))
        likelihoods = np.empty((len(ratios), n_all))
        log_likelihoods = stack.numbers[Number.LOG_LIKELIHOOD], np.empty(n_keys)
        for filters, priors, added in zip(
            stack.filters, (stack.priors, self._cautious_priors), log_likelihoods, strict=True
        ):
            filter_batches_of_keys(
                active,
                starts,
                ratios,
                slot_ratios,
                self.cuts,
                stack.parts["means"],
                stack.factors,
                priors,
                *filters,
                *_RATES,
                likelihoods,
                *self._filter_room[priors.shape[1]],
                added,
            )

    def _learn(self, stack: KeyStack, active: IntArray, gradients: FloatArray, step_sizes: FloatArray) -> None:
        """Make the steps of the learners, and open the next round."""
        settings, marks = self._settings, np.zeros(len(stack.coef))
        play_learners_of_keys(
            active,
            gradients,
            stack.numbers[Number.N_ROUNDS],
            stack.n_learners,
            stack.numbers[Number.LARGEST_MARGIN],
            stack.coefs,
            stack.triangles,
            stack.log_potentials,
            stack.squares,
            stack.coef,
            step_sizes,
            settings.radius,
            settings.margin_bound,
            settings.has_running_range,
            SMALLEST_RELATIVE_RANGE * settings.margin_bound,
            self._log_counts,
            settings.ridge,
            settings.min_interval,
            settings.start == "ensemble",
            settings.start == "handover",
            *self._room,
            np.empty(stack.coefs.shape[1]),
            marks,
        )
        if marks.any():
            for key in np.flatnonzero(marks).tolist():
                self._project(stack, key)

    def _project(self, stack: KeyStack, key: int) -> None:
        """Bring learners back into the ball whose matrix is too badly conditioned for the compiled projection."""
        d = self._shape.n_coefs
        rows, columns = np.tril_indices(d)
        for learner in range(int(stack.n_learners[key])):
            point = stack.coefs[key, learner].astype(np.float64)
            if point @ point > (_OUTSIDE * self._settings.radius) ** 2:
                matrix = np.empty((1, d, d))
                matrix[0, rows, columns] = matrix[0, columns, rows] = stack.triangles[key, learner]
                stack.coefs[key, learner] = project_onto_ball(point[None], matrix, self._settings.radius)[0][0]


def count_learners(this_round: int, min_interval: int) -> int:
    """Return how many intervals are active in a round.

    Examples
    --------
    >>> from accous.core.keys.rounds import count_learners
    >>> [count_learners(this_round, min_interval=4) for this_round in (3, 4, 20)]
    [0, 1, 3]
    """
    return max(0, this_round.bit_length() - min_interval.bit_length() + 1)
