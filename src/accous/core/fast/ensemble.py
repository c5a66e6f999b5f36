"""One compiled round of the whole ensemble on few columns: the reference it reads, the learners, their next state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.fast.kernels_learners import play_learners, restart_learners
from accous.core.fast.kernels_rows import (
    BLOCK,
    covary_scores,
    evaluate_ratios,
    evaluate_row_ratios,
    evaluate_row_ratios_at_each,
    sum_gradients,
    to_blocks,
)
from accous.core.paper.cover import log_intervals
from accous.core.paper.ensemble import (
    SMALLEST_RELATIVE_RANGE,
    EnsembleSettings,
    EnsembleState,
    LearnerStack,
    PaperRounds,
)
from accous.core.paper.meta import MetaState
from accous.core.paper.newton import Arrays, NewtonStack
from accous.core.paper.projection import project_onto_ball
from accous.core.paper.reference import Reference

__all__ = ["CompiledRounds", "CompiledStack", "NarrowReference"]

_MANY_ROWS = 32
_THREADED_COLUMNS = 64


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

    def play(self, state: EnsembleState, batch: FloatArray, step_size: float) -> EnsembleState:
        """See ``PaperRounds``."""
        if not self._is_one_loop or len(state.lengths) == 0:
            return super().play(state, batch, step_size)
        gradients = self.reference.gradients(state.learners.coefs, state.coef, batch)
        moved = self._move(state, gradients, step_size)
        # No interval starts or ends in between.
        return moved if (moved.n_rounds + 1) % self.settings.min_interval else self._open_round(moved)

    def _move(self, state: EnsembleState, gradients: FloatArray, step_size: float) -> EnsembleState:
        """Compute the same as the plain version, in one compiled loop."""
        if not self._is_one_loop:
            return super()._move(state, gradients, step_size)
        settings, learners, meta = self.settings, state.learners, state.meta
        assert isinstance(learners, CompiledStack)
        assert isinstance(meta, MetaState)
        new_learners, new_meta, weights, coef, largest_margin = _play_learners(
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
            log_count=log_intervals((state.n_rounds + 1).bit_length(), settings.horizon, settings.min_interval),
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
        assert isinstance(state.meta, MetaState)
        # Writes into the state: this very round made it, and nobody has seen it yet. The plain version, which copies,
        # makes a round that restarts learners 1.8 times as slow (12 features, 1,000 reference rows).
        arrays = (*state.learners.arrays, *state.meta.arrays, state.weights, state.coef)
        n_bits = (state.n_rounds + 1).bit_length()
        log_count = log_intervals(n_bits, self.settings.horizon, self.settings.min_interval)
        restart_learners(n_starting, start, self.settings.ridge, log_count, *arrays)
        return state


@dataclass(frozen=True)
class NarrowReference:
    """The logistic loss on few columns: one compiled pass over the rows for all thetas.

    Attributes
    ----------
    features : array of shape (n_reference, d)
    blocks : array of shape (n_blocks, d, BLOCK)
        The same, as the kernels read them.
    """

    features: FloatArray
    blocks: FloatArray

    shares_passes: ClassVar[bool] = False

    @property
    def is_free_of_blas(self) -> bool:
        """Whether there are so few columns that LAPACK, which badly conditioned matrices need, uses no threads."""
        return self.features.shape[1] < _THREADED_COLUMNS

    def gradients(self, coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """See ``Reference``."""
        n_reference, n_batch = self.features.shape[0], batch.shape[0]
        # With a small reference, sum the batch in the same way: if both are equal, so are their terms.
        has_few = n_batch < _MANY_ROWS <= n_reference
        rows = np.ascontiguousarray(batch if has_few else batch[:0])
        gradients, sums = np.empty((2, coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty((max(2, self.blocks.shape[0]), BLOCK))
        sum_gradients(self.blocks, rows, coefs, coef, -0.5 / n_reference, 0.5 / n_batch, sums, room, gradients)
        return gradients if has_few else gradients + self._batch_gradients(coefs, coef, batch)

    @staticmethod
    def _batch_gradients(coefs: FloatArray, coef: FloatArray, batch: FloatArray) -> FloatArray:
        """Sum over a large batch, block by block: a batch row x has the term of a reference row -x."""
        blocks, gradients = to_blocks(-batch), np.empty((coefs.shape[0] + 1, coefs.shape[1]))
        room = np.empty(gradients.shape), np.empty((max(2, blocks.shape[0]), BLOCK))
        sum_gradients(blocks, batch[:0], coefs, coef, -0.5 / batch.shape[0], 0.0, *room, gradients)
        return gradients

    def ratios(self, coef: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty((self.blocks.shape[0], BLOCK))
        evaluate_ratios(self.blocks, coef, max_ratio, ratios)
        return ratios.reshape(-1)[: self.features.shape[0]]

    def batch_ratios(self, coef: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty(batch.shape[0])
        evaluate_row_ratios(np.ascontiguousarray(batch), coef, max_ratio, ratios)
        return ratios

    def batch_ratios_at_each(self, coefs: FloatArray, batch: FloatArray, max_ratio: float) -> FloatArray:
        """See ``Reference``."""
        ratios = np.empty((len(coefs), batch.shape[0]))
        evaluate_row_ratios_at_each(np.ascontiguousarray(batch), np.ascontiguousarray(coefs), max_ratio, ratios)
        return ratios

    def score_covariances(self, coef: FloatArray) -> FloatArray:
        """See ``Reference``."""
        covariances = np.empty(self.features.shape[1])
        room = np.empty((self.blocks.shape[0], BLOCK))
        covary_scores(self.blocks, coef, self.features.shape[0], room, covariances)
        return covariances


class CompiledStack(NewtonStack):
    """The same learners as `NewtonStack`, with a compiled step."""

    __slots__ = ()

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> Self:
        """Make one Newton step of learners that no meta-learner looks at; see ``NewtonStack.step``."""
        n_learners, n_columns = self.coefs.shape
        ones, nothing = np.ones(n_learners), np.zeros((1, n_columns))
        new_arrays, *_ = _play_learners(
            nothing[0],
            np.concatenate((gradients, nothing)),
            (self.coefs, self.matrices, self.inverse_roots),
            (ones, ones, ones),
            step_size=step_size,
            radius=radius,
            margin_bound=np.inf,
            has_running_range=False,
            smallest_range=0.0,
            largest_margin=0.0,
            log_count=1.0,
        )
        return type(self)(*new_arrays)


def _play_learners(
    coef: FloatArray,
    gradients: FloatArray,
    stack: Arrays,
    meta: Arrays,
    *,
    step_size: float,
    radius: float,
    margin_bound: float,
    has_running_range: bool,
    smallest_range: float,
    largest_margin: float,
    log_count: float,
) -> tuple[Arrays, Arrays, FloatArray, FloatArray, float]:
    """Play one round of all learners.

    Parameters
    ----------
    coef : array of shape (d,)
        The ensemble's theta.
    gradients : array of shape (n_learners + 1, d)
        Each learner's and, after them, the ensemble's.
    stack : tuple of arrays
        As in ``NewtonStack``.
    meta : tuple of arrays
        As in ``MetaState``.
    step_size, radius, margin_bound, has_running_range : numbers
        As in ``EnsembleSettings``.
    smallest_range : float
        A running range below this one is rounding: margins count as zero.
    largest_margin : float
        So far.
    log_count : float
        ln K.

    Returns
    -------
    stack, meta : tuples of arrays
    weights : array of shape (n_learners,)
    coef : array of shape (d,)
        The ensemble's theta after the step.
    largest_margin : float
    """
    n_learners, n_columns = stack[0].shape
    shape = stack[1].shape
    new_stack = np.empty((n_learners, n_columns)), np.empty(shape), np.empty(shape)
    new_meta = np.empty(n_learners), np.empty(n_learners), np.empty(n_learners)
    weights, new_coef = np.empty(n_learners), np.empty(n_columns)
    marks, largest_margin = play_learners(
        coef,
        gradients,
        *stack,
        *meta,
        step_size,
        radius,
        margin_bound,
        has_running_range,
        smallest_range,
        largest_margin,
        log_count,
        np.empty((n_columns + 3, n_columns)),
        *new_stack,
        *new_meta,
        weights,
        new_coef,
    )
    if marks == 0:
        return new_stack, new_meta, weights, new_coef, largest_margin
    # Badly conditioned matrices need the eigendecomposition.
    indices = [i for i in range(n_learners) if marks >> i & 1]
    coefs, matrices, _ = new_stack
    coefs[indices], _ = project_onto_ball(coefs[indices], matrices[indices], radius)
    return new_stack, new_meta, weights, weights @ coefs, largest_margin
