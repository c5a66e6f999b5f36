"""One round of the whole ensemble: gradients, Newton steps, meta weights, next round's learners."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.paper.cover import active_lengths, count_starting, intervals_for_round
from accous.core.fast.kernels_learners import restart_learners
from accous.core.paper.learners import FULL, LearnerStack, newton_step, start_learners
from accous.core.paper.losses import Loss
from accous.core.paper.meta import MetaState, meta_step, meta_weights, start_meta
from accous.core.fast.learners import play_narrow
from accous.core.paper.newton import NewtonStack
from accous.core.fast.reference import NarrowReference, Reference, prepare_reference
from accous.core.fast.width import is_narrow

__all__ = ["EnsembleSettings", "EnsembleState", "play_round", "reference_ratios", "start_ensemble"]

_SMALLEST_RELATIVE_RANGE = 1e-12


@dataclass(frozen=True)
class EnsembleSettings:
    """What stays the same from round to round.

    Attributes
    ----------
    loss : Loss
    neutral : array of shape (d,)
        The theta whose ratio is 1 everywhere.
    radius : float
        S.
    margin_bound : float
        What margins are divided by in the paper; see ``Loss.margin_bound``.
    has_running_range : bool
        Whether margins are divided by the largest one seen so far instead.
    ridge : float
        lambda.
    min_interval : int
        Length of the shortest interval, a power of two.
    horizon : int or None
        T, where known.
    start : {"zero", "ensemble", "handover"}
        Where a new learner starts: at the neutral theta, at the ensemble's, or at the neutral one except when all
        learners restart together, as they do at every power of two; there the ensemble's theta is handed over.
    metric : {"full", "diagonal", "low_rank"}
        What learners keep of their matrix.
    rank : int or None
        k, for "low_rank".
    """

    loss: Loss
    neutral: FloatArray
    radius: float
    margin_bound: float
    has_running_range: bool
    ridge: float
    min_interval: int
    horizon: int | None
    start: str
    metric: str = FULL
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class EnsembleState:
    """What is known after ``n_rounds`` rounds; everything describes the round that comes next.

    ``cache`` holds what was computed from the rest and is no part of the state.
    """

    n_rounds: int
    coef: FloatArray
    lengths: IntArray
    weights: FloatArray
    learners: LearnerStack
    meta: MetaState
    largest_margin: float
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def start_ensemble(settings: EnsembleSettings) -> EnsembleState:
    """State before the first round: the neutral theta and no learner."""
    return EnsembleState(
        n_rounds=0,
        coef=settings.neutral,
        lengths=np.empty(0, dtype=np.int64),
        weights=np.empty(0),
        learners=_start_learners(settings, 0, settings.neutral),
        meta=start_meta(0, 2),
        largest_margin=0.0,
    )


def play_round(
    state: EnsembleState,
    settings: EnsembleSettings,
    reference: FloatArray | Reference,
    batch: FloatArray,
    step_size: float,
) -> EnsembleState:
    """Learn from one batch and return the state for the next round; ``state`` is left as it was.

    Parameters
    ----------
    state : EnsembleState
    settings : EnsembleSettings
    reference : Reference or array of shape (n_reference, d)
        Features phi of the reference rows; best prepared once for all rounds.
    batch : array of shape (n_batch, d)
        Features of the batch, at least one row.
    step_size : float
        gamma of this round.
    """
    if isinstance(reference, np.ndarray):
        reference = prepare_reference(reference, settings.loss)
    if state.n_rounds == 0:
        # Only an interval of length 1 starts in round 1; the state before it shows no learner yet.
        state = _open_round(settings, state)
    if len(state.learners) == 0:
        return _open_round(settings, replace(state, n_rounds=state.n_rounds + 1, cache={}))
    gradients = _gradients(state, settings, reference, batch)
    is_compiled = reference.is_free_of_blas and isinstance(state.learners, NewtonStack)
    move = _move_compiled if is_compiled else _move
    return _open_round(settings, move(state, settings, gradients, step_size))


def reference_ratios(
    state: EnsembleState, settings: EnsembleSettings, reference: Reference, max_ratio: float
) -> FloatArray:
    """Ratio of each reference row at the ensemble's theta, cut at ``max_ratio``."""
    if isinstance(reference, NarrowReference) or len(state.learners) == 0:
        return reference.ratios(state.coef, max_ratio)
    # The coming round needs its gradients at the same points, which do not depend on its batch: one pass does for both.
    return settings.loss.ratio(_pass_over(reference, state, settings)[1], max_ratio)


def _gradients(state: EnsembleState, settings: EnsembleSettings, reference: Reference, batch: FloatArray) -> FloatArray:
    """Gradient at the theta of every learner and, last, of the ensemble."""
    if isinstance(reference, NarrowReference):
        return reference.gradients(state.learners.coefs, state.coef, batch)
    of_reference, _ = _pass_over(reference, state, settings)
    return of_reference + settings.loss.batch_gradient(_points(state), batch)


def _points(state: EnsembleState) -> FloatArray:
    """Theta of every learner and, last, of the ensemble."""
    return np.concatenate((state.learners.coefs, state.coef[None]))


def _pass_over(reference: Reference, state: EnsembleState, settings: EnsembleSettings) -> tuple[FloatArray, FloatArray]:
    """Return the reference part of the gradients at all points, and the reference's scores by the ensemble."""
    known = state.cache.get("pass")
    if known is None or known[0] is not reference.features:
        known = (reference.features, *settings.loss.reference_gradient(_points(state), reference.features))
        state.cache["pass"] = known
    return known[1], known[2]


def _move(state: EnsembleState, settings: EnsembleSettings, gradients: FloatArray, step_size: float) -> EnsembleState:
    """Newton steps, margins and meta update of the round after ``state``; the lengths are still those of before."""
    this_round = state.n_rounds + 1
    n_learners = len(state.learners)
    learners = newton_step(state.learners, gradients[:n_learners], step_size, settings.radius)
    raw_margins = (state.coef - state.learners.coefs) @ gradients[n_learners]
    margins, largest_margin = _scale_margins(raw_margins, settings, state.largest_margin)
    n_intervals = intervals_for_round(this_round, settings.horizon, settings.min_interval)
    meta = meta_step(state.meta, margins, n_intervals)
    weights = meta_weights(meta)
    return EnsembleState(this_round, weights @ learners.coefs, state.lengths, weights, learners, meta, largest_margin)


def _move_compiled(
    state: EnsembleState, settings: EnsembleSettings, gradients: FloatArray, step_size: float
) -> EnsembleState:
    """Do what ``_move`` does, compiled."""
    assert isinstance(state.learners, NewtonStack)
    this_round = state.n_rounds + 1
    n_intervals = intervals_for_round(this_round, settings.horizon, settings.min_interval)
    stack, meta, weights, coef, largest_margin = play_narrow(
        state.coef,
        gradients,
        state.learners.arrays,
        state.meta.arrays,
        step_size,
        settings.radius,
        settings.margin_bound,
        settings.has_running_range,
        _SMALLEST_RELATIVE_RANGE * settings.margin_bound,
        state.largest_margin,
        math.log(n_intervals),
    )
    return EnsembleState(
        this_round, coef, state.lengths, weights, NewtonStack(*stack), MetaState(*meta), largest_margin
    )


def _scale_margins(margins: FloatArray, settings: EnsembleSettings, largest_margin: float) -> tuple[FloatArray, float]:
    """Divide the margins by their range; returns also the largest margin seen so far."""
    largest_margin = max(largest_margin, float(np.abs(margins).max()))
    if not settings.has_running_range:
        return np.clip(margins / settings.margin_bound, -2.0, 2.0), largest_margin
    if largest_margin <= _SMALLEST_RELATIVE_RANGE * settings.margin_bound:
        # Learners that started together are still equal: their differences are rounding, not margins.
        return np.zeros_like(margins), largest_margin
    # Departs from the paper: S R is so far above the margins that occur that the weights would hardly move.
    return margins / largest_margin, largest_margin


def _open_round(settings: EnsembleSettings, state: EnsembleState) -> EnsembleState:
    """Close the intervals that end after ``state.n_rounds`` rounds, open those that start, and combine."""
    next_round, learners = state.n_rounds + 1, state.learners
    n_starting = count_starting(next_round, settings.min_interval)
    if n_starting == 0:
        return state
    lengths = active_lengths(next_round, settings.min_interval)
    # The lengths that start are the shortest; all of them but a length never seen before end at the same time.
    n_ended = n_starting - (len(lengths) - len(learners))
    n_intervals = intervals_for_round(next_round, settings.horizon, settings.min_interval)
    start = _starting_point(settings, state, n_ended)
    if n_ended == n_starting and isinstance(learners, NewtonStack) and is_narrow(len(start)):
        # The state is that of a round that nobody has seen yet: its arrays may be written into.
        arrays = (*learners.arrays, *state.meta.arrays, state.weights, state.coef)
        restart_learners(n_starting, start, settings.ridge, math.log(n_intervals), *arrays)
        return state
    learners = learners.since(n_ended).after(_start_learners(settings, n_starting, start))
    meta = state.meta.since(n_ended).after(start_meta(n_starting, n_intervals))
    weights = meta_weights(meta)
    coef = weights @ learners.coefs
    return EnsembleState(state.n_rounds, coef, lengths, weights, learners, meta, state.largest_margin)


def _start_learners(settings: EnsembleSettings, n_learners: int, coef: FloatArray) -> LearnerStack:
    return start_learners(n_learners, coef, settings.ridge, settings.metric, settings.rank)


def _starting_point(settings: EnsembleSettings, state: EnsembleState, n_ended: int) -> FloatArray:
    """Theta of the learners that start; the ensemble's is that after the step, ended learners included."""
    # Departs from the paper: it allows any point. The neutral one makes learners that differ from their elders, but
    # when none of those is left, it would throw the estimate back to ratio 1 for a round.
    n_learners = len(state.learners)
    is_handover = settings.start == "handover" and n_ended == n_learners
    return state.coef if n_learners and (settings.start == "ensemble" or is_handover) else settings.neutral
