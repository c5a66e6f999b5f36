"""One round of the whole ensemble on few columns: the plain round with its steps compiled."""

from __future__ import annotations

import math
from collections.abc import Callable

from accous.arrays import FloatArray, IntArray
from accous.core.fast.kernels_learners import restart_learners
from accous.core.fast.learners import CompiledStack, play_narrow
from accous.core.paper.cover import intervals_for_round
from accous.core.paper.ensemble import (
    SMALLEST_RELATIVE_RANGE,
    EnsembleSettings,
    EnsembleState,
    LearnerStack,
    PaperRounds,
)
from accous.core.paper.meta import MetaState
from accous.core.paper.reference import Reference

__all__ = ["CompiledRounds"]


class CompiledRounds(PaperRounds):
    """Rounds of learners that keep dense matrices of few columns; the results are those of `PaperRounds`."""

    def __init__(
        self,
        settings: EnsembleSettings,
        reference: Reference,
        start_learners: Callable[[int, FloatArray], LearnerStack],
    ) -> None:
        super().__init__(settings, reference, start_learners)
        # From 64 columns on, only the step of the learners is compiled; numpy computes margins and weights.
        self._is_one_loop = reference.is_free_of_blas

    def _move(self, state: EnsembleState, gradients: FloatArray, step_size: float) -> EnsembleState:
        """Compute the same as the plain version, in one compiled loop."""
        if not self._is_one_loop:
            return super()._move(state, gradients, step_size)
        settings, learners, meta = self.settings, state.learners, state.meta
        assert isinstance(learners, CompiledStack)
        new_learners, new_meta, weights, coef, largest_margin = play_narrow(
            state.coef,
            gradients,
            (learners.coefs, learners.matrices, learners.inverse_roots),
            (meta.log_potentials, meta.rates, meta.squares),
            step_size=step_size,
            radius=settings.radius,
            margin_bound=settings.margin_bound,
            has_running_range=settings.has_running_range,
            smallest_range=SMALLEST_RELATIVE_RANGE * settings.margin_bound,
            largest_margin=state.largest_margin,
            log_count=math.log(intervals_for_round(state.n_rounds + 1, settings.horizon, settings.min_interval)),
        )
        return EnsembleState(
            n_rounds=state.n_rounds + 1,
            coef=coef,
            lengths=state.lengths,
            weights=weights,
            learners=CompiledStack(*new_learners),
            meta=MetaState(*new_meta),
            largest_margin=largest_margin,
        )

    def _restart(self, state: EnsembleState, n_starting: int, start: FloatArray, lengths: IntArray) -> EnsembleState:
        """Compute the same as the plain version, in place."""
        assert isinstance(state.learners, CompiledStack)
        # This modifies the state, which is safe: it was created in this round, and nothing else refers to it yet.
        arrays = (*state.learners.arrays, *state.meta.arrays, state.weights, state.coef)
        log_count = math.log(self._n_intervals(state.n_rounds + 1))
        restart_learners(n_starting, start, self.settings.ridge, log_count, *arrays)
        return state
