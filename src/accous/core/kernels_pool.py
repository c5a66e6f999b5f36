"""Compiled loops of the pool: filters, memory and mixtures of candidates."""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int64, types

from accous.arrays import FloatArray, IntArray
from accous.core.compiled import (
    IN1,
    IN2,
    IN3,
    KEYS,
    OUT1,
    OUT2,
    OUT3,
    SINGLE2,
    AnyFloats,
    inlined,
    inlined_sums,
    kernel,
    merged,
)
from accous.core.kernels_rows import BLOCK, evaluate_at_each

# --- Compiled steps of the pool: Bayes' rule over the candidates for a batch, and the pooled ratio of rows


_SMALLEST = 1e-300
_RATES = (IN1, IN1, float64, float64, float64)
_PLACES = types.Array(types.int64, 2, "C", readonly=True)


def _filter_batches(
    active: IntArray,
    starts: IntArray,
    ratios: FloatArray,
    slot_ratios: FloatArray,
    given: FloatArray,
    cuts: FloatArray,
    slot_shapes: FloatArray,
    priors: FloatArray,
    cautious_prior: FloatArray,
    parts: AnyFloats,
    places: IntArray,
    switching: FloatArray,
    decays: FloatArray,
    floor: float,
    filter_share: float,
    prior_count: float,
    likelihoods: FloatArray,
    room: FloatArray,
    logs: FloatArray,
    log_likelihoods: FloatArray,
) -> None:
    """Update the filters of each active model by its rows, and mix their predictions for the next round, in place.

    Parameters
    ----------
    active : array of shape (n_active,)
    starts : array of shape (n_active + 1,)
        Where the rows of each active model begin.
    ratios : array of shape (n_rows,)
        The ratio whose shapes are candidates.
    slot_ratios, given : arrays of shape (n_slots, n_rows) and (n_given, n_rows)
        Ratios at the theta of each slot, and those of candidates that are no shapes and no slots.
    cuts : array of shape (n_shapes,)
        Where each shape is cut.
    slot_shapes : array of shape (n_models, n_slots, n_shapes)
        What each slot multiplies the shapes of its ratio by.
    priors : array of shape (n_models, n_candidates)
    cautious_prior : array
        Of a second set of filters, over the first candidates.
    parts : array of shape (n_models, n_parts)
        The filters, see `accous.core.pool.Filters`, and the means of the shapes over the reference.
    places : array of shape (n_sets, 5)
        For each set of filters, where its weights, posteriors, counts and proportions begin in a row of ``parts``, and
        where the means do.
    switching, decays : arrays
        Rate of each filter of either kind.
    floor, filter_share, prior_count : float
        Constants of `accous.core.pool`.
    likelihoods : array of shape (most_rows, n_candidates)
        Workspace, like the next two arrays.
    room, logs : arrays of shape (n_candidates,) and (n_filters,)
    log_likelihoods : array of shape (n_models,)
        The batch's mean log likelihood under the proportions before it is added here.
    """
    n_all = priors.shape[1]
    for a in range(active.shape[0]):
        key = active[a]
        row, prior = parts[key], priors[key]
        some = likelihoods[: starts[a + 1] - starts[a]]
        _score(
            ratios[starts[a] : starts[a + 1]],
            slot_ratios[:, starts[a] : starts[a + 1]],
            given[:, starts[a] : starts[a + 1]],
            cuts,
            row[places[0, 4] : places[0, 4] + cuts.shape[0]],
            slot_shapes[key],
            floor,
            some,
        )
        log_likelihoods[key] += _surprise(some, row[places[0, 3] : places[0, 3] + n_all])
        for number in range(places.shape[0]):
            _filter(some, prior, row, places[number], switching, decays, filter_share, prior_count, room, logs)
            prior = cautious_prior


filter_batches, filter_batches_of_keys = (
    kernel(types.void, KEYS, KEYS, IN1, IN2, IN2, IN1, IN3, IN2, IN1, parts, _PLACES, *_RATES, OUT2, OUT1, OUT1, OUT1)(
        _filter_batches
    )
    for parts in (OUT2, SINGLE2)
)


@merged
def _surprise(likelihoods: FloatArray, before: AnyFloats) -> float:
    """Return the mean log likelihood of the rows under proportions of the candidates."""
    surprise = 0.0
    for i in range(likelihoods.shape[0]):
        total = 0.0
        for c in range(before.shape[0]):
            total += before[c] * likelihoods[i, c]
        surprise += math.log(total)
    return surprise / likelihoods.shape[0]


@merged
def _filter(
    likelihoods: FloatArray,
    prior: FloatArray,
    row: AnyFloats,
    places: IntArray,
    switching: FloatArray,
    decays: FloatArray,
    filter_share: float,
    prior_count: float,
    room: FloatArray,
    logs: FloatArray,
) -> None:
    """Update every filter of a set and their weights, and mix their predictions."""
    n_switching, n_filters, n_all = switching.shape[0], logs.shape[0], prior.shape[0]
    weights = row[places[0] : places[0] + n_filters]
    proportions = row[places[3] : places[3] + n_all]
    for f in range(n_filters):
        if f < n_switching:
            posterior = row[places[1] + f * n_all : places[1] + (f + 1) * n_all]
            gain = _switch(likelihoods, prior, posterior, switching[f], room)
        else:
            start = places[2] + (f - n_switching) * n_all
            gain = _decay(likelihoods, prior, row[start : start + n_all], decays[f - n_switching], prior_count, room)
        logs[f] = math.log(max(weights[f], _SMALLEST)) + gain
    _normalise(logs)
    for f in range(n_filters):
        weights[f] = (1.0 - filter_share) * logs[f] + filter_share / n_filters
    for c in range(n_all):
        room[c] = 0.0
    for f in range(n_switching):
        for c in range(n_all):
            room[c] += weights[f] * row[places[1] + f * n_all + c]
    for f in range(decays.shape[0]):
        start, total = places[2] + f * n_all, 0.0
        for c in range(n_all):
            total += row[start + c]
        total += prior_count
        for c in range(n_all):
            room[c] += weights[n_switching + f] * (row[start + c] + prior_count * prior[c]) / total
    for c in range(n_all):
        proportions[c] = room[c]


@kernel(types.void, IN1, IN1, IN1, IN2, OUT1, OUT1)
def pool_reference(
    ratios: FloatArray,
    cuts: FloatArray,
    proportions: FloatArray,
    others: FloatArray,
    normalisers: FloatArray,
    pooled: FloatArray,
) -> None:
    """Write the mean of each shape over the rows to ``normalisers``, and the mixture of all candidates to ``pooled``.

    Parameters
    ----------
    ratios : array of shape (n_reference,)
        The ratio whose shapes are candidates.
    cuts : array of shape (n_shapes,)
    proportions : array of shape (n_candidates,)
        Shapes first, then the others.
    others : array of shape (n_candidates - n_shapes, n_reference)
        The ratio of each other candidate.
    normalisers : array of shape (n_shapes,)
    pooled : array of shape (n_reference,)
    """
    mix_all(ratios, cuts, proportions, others, normalisers, pooled)


@merged
def mix_all(
    ratios: FloatArray,
    cuts: FloatArray,
    proportions: FloatArray,
    others: FloatArray,
    normalisers: FloatArray,
    pooled: FloatArray,
) -> None:
    """Do what ``pool_reference`` does."""
    _average_shapes(ratios, cuts, normalisers)
    n_shapes = cuts.shape[0]
    _mix(ratios, cuts, proportions, normalisers, pooled)
    for k in range(others.shape[0]):
        share = proportions[n_shapes + k]
        if share > 0.0:
            for i in range(pooled.shape[0]):
                pooled[i] += share * (others[k, i] - 1.0)


@kernel(types.void, IN1, IN2, IN2, IN1, IN1, IN2, IN1, float64, OUT1)
def pool_rows(
    ratios: FloatArray,
    slot_ratios: FloatArray,
    given: FloatArray,
    cuts: FloatArray,
    normalisers: FloatArray,
    slot_shapes: FloatArray,
    proportions: FloatArray,
    max_ratio: float,
    pooled: FloatArray,
) -> None:
    """Write the mixture of all candidates for any rows, between 0 and ``max_ratio``, to ``pooled``.

    Parameters
    ----------
    ratios, slot_ratios, given, cuts, normalisers, slot_shapes : arrays
        As in ``filter_batches``, for these rows.
    proportions : array of shape (n_candidates,)
    max_ratio : float
    pooled : array of shape (n_rows,)
    """
    n_shapes, n_slots = cuts.shape[0], slot_ratios.shape[0]
    for i in range(ratios.shape[0]):
        # Written as 1 plus what differs from 1: nothing to adapt to then gives exactly 1.
        total = 0.0
        for j in range(1, n_shapes):
            total += proportions[j] * (_shape(ratios[i], j, cuts[j]) / normalisers[j] - 1.0)
        for k in range(n_slots):
            share = proportions[n_shapes + k]
            if share > 0.0:
                total += share * (_slot_value(slot_ratios[k, i], cuts, slot_shapes, k) - 1.0)
        for k in range(given.shape[0]):
            total += proportions[n_shapes + n_slots + k] * (given[k, i] - 1.0)
        pooled[i] = min(max(1.0 + total, 0.0), max_ratio)


_OF_MODEL = (IN1, OUT1, _PLACES, int64, float64, IN2, OUT1, OUT1, OUT1, OUT1)


@merged
def mix_candidates(
    ratios: FloatArray,
    cuts: FloatArray,
    parts: AnyFloats,
    places: IntArray,
    slots: FloatArray,
    means: FloatArray,
    shares: FloatArray,
    pooled: FloatArray,
) -> None:
    """Write the mixture of all candidates to ``pooled``, and the means of the shapes to ``means`` and ``parts``."""
    n_shapes = cuts.shape[0]
    _average_shapes(ratios, cuts, means)
    for j in range(n_shapes):
        shares[j] = parts[places[0, 3] + j]
        parts[places[0, 4] + j] = means[j]
    _mix(ratios, cuts, shares, means, pooled)
    for k in range(slots.shape[0]):
        share = parts[places[0, 3] + n_shapes + k]
        if share > 0.0:
            for i in range(pooled.shape[0]):
                pooled[i] += share * (slots[k, i] - 1.0)


@merged
def hold_back(
    ratios: FloatArray,
    cuts: FloatArray,
    parts: AnyFloats,
    places: IntArray,
    n_cautious: int,
    hold: float,
    means: FloatArray,
    shares: FloatArray,
    held: FloatArray,
    pooled: FloatArray,
) -> None:
    """Move a mixture towards that of the cautious candidates."""
    for j in range(cuts.shape[0]):
        shares[j] = parts[places[1, 3] + j] if j < n_cautious else 0.0
    _mix(ratios, cuts, shares, means, held)
    for i in range(pooled.shape[0]):
        pooled[i] = (1.0 - hold) * pooled[i] + hold * held[i]


@kernel(types.void, IN1, *_OF_MODEL)
def pool_in_use(
    ratios: FloatArray,
    cuts: FloatArray,
    parts: FloatArray,
    places: IntArray,
    n_cautious: int,
    hold: float,
    slots: FloatArray,
    means: FloatArray,
    shares: FloatArray,
    held: FloatArray,
    pooled: FloatArray,
) -> None:
    """Write the pooled ratio in use of a model to ``pooled``, and the means of its shapes to ``parts``.

    Parameters
    ----------
    ratios : array, at least as long as ``pooled``
    cuts : array of shape (n_shapes,)
    parts, places : arrays
        A row and the places of ``filter_batches``.
    n_cautious : int
        Candidates of the second set of filters, the cautious ones.
    hold : float
        How far the cautious ones are in use.
    slots : array of shape (n_slots, n_reference)
    means, shares, held : arrays of shape (n_shapes,), (n_shapes,) and (n_reference,)
        Workspace.
    pooled : array of shape (n_reference,)
    """
    row = ratios[: pooled.shape[0]]
    mix_candidates(row, cuts, parts, places, slots, means, shares, pooled)
    if hold > 0.0:
        hold_back(row, cuts, parts, places, n_cautious, hold, means, shares, held, pooled)


@merged
def distance_from_means(
    ratios: FloatArray,
    cuts: FloatArray,
    parts: AnyFloats,
    look_shares: int,
    n_rounds: float,
    slots: FloatArray,
    mixed: FloatArray,
    pooled: FloatArray,
) -> float:
    """Return the total variation between the pooled ratio and the one at the mean theta and proportions of a look.

    Parameters
    ----------
    ratios : array of shape (n_reference,)
        At the mean theta.
    cuts, slots, pooled : arrays
        As in ``pool_in_use``.
    parts : array of shape (n_parts,)
        The sums of the proportions begin at ``look_shares``.
    n_rounds : int
        Of the look.
    mixed : array of shape (n_reference,)
        Workspace.
    """
    means, shares = np.empty(cuts.shape[0]), np.empty(cuts.shape[0] + slots.shape[0])
    for c in range(shares.shape[0]):
        shares[c] = parts[look_shares + c] / n_rounds
    mix_all(ratios, cuts, shares, slots, means, mixed)
    return 0.5 * _mean_distance(pooled, mixed, 1.0)


@kernel(types.boolean, IN3, IN1, float64, OUT3, *_OF_MODEL, KEYS, int64, float64, boolean)
def pool_round(
    blocks: FloatArray,
    coef: FloatArray,
    max_ratio: float,
    ratios: FloatArray,
    cuts: FloatArray,
    parts: FloatArray,
    places: IntArray,
    n_cautious: int,
    hold: float,
    slots: FloatArray,
    means: FloatArray,
    shares: FloatArray,
    held: FloatArray,
    pooled: FloatArray,
    of_look: IntArray,
    n_rounds: int,
    largest_move: float,
    is_last: bool,
) -> bool:
    """Write the pooled ratio in use after a round of a model, and add the round to the sums of the look.

    Parameters
    ----------
    blocks : array of shape (n_blocks, d, BLOCK)
        Reference rows.
    coef : array of shape (d,)
        The ensemble's theta.
    max_ratio : float
    ratios : array of shape (2, n_blocks, BLOCK)
        Receives the ratios at that theta, and at the mean theta of the look so far where it matters.
    cuts, parts, places, n_cautious, hold, slots, means, shares, held, pooled
        As in ``pool_in_use``.
    of_look : array of shape (4,)
        Where the proportions of the candidates begin and end in ``parts``, and where the sums of thetas and proportions
        begin.
    n_rounds : int
        Rounds of the look so far.
    largest_move : float
        From which total variation on the pooled ratio has left that at the means over the look so far.
    is_last : bool
        Whether the look ends with this round; how far to hold back is then decided anew.

    Returns
    -------
    bool
        Whether the round was added: not if the ratio has left the look.
    """
    may_leave = n_rounds > 0 and largest_move < math.inf
    points = np.empty((2, coef.shape[0]))
    for j in range(coef.shape[0]):
        points[0, j], points[1, j] = coef[j], parts[of_look[2] + j] / n_rounds
    evaluate_at_each(blocks, points, 2 if may_leave else 1, max_ratio, np.empty((2, BLOCK)), ratios)
    row, of_means = ratios[0].reshape(-1)[: pooled.shape[0]], ratios[1].reshape(-1)[: pooled.shape[0]]
    mix_candidates(row, cuts, parts, places, slots, means, shares, pooled)
    if may_leave:
        moved = distance_from_means(of_means, cuts, parts, of_look[3], n_rounds, slots, held, pooled)
        if moved > largest_move:
            return False
    for j in range(coef.shape[0]):
        parts[of_look[2] + j] += coef[j]
    for j in range(of_look[1] - of_look[0]):
        parts[of_look[3] + j] += parts[of_look[0] + j]
    if hold > 0.0 and not is_last:
        hold_back(row, cuts, parts, places, n_cautious, hold, means, shares, held, pooled)
    return True


@kernel(types.void, IN1, IN1, IN1, IN2, OUT1)
def measure_look(
    pooled: FloatArray, before: FloatArray, settled: FloatArray, slots: FloatArray, distances: FloatArray
) -> None:
    """Write the total variations that a look back depends on.

    Parameters
    ----------
    pooled, before : arrays of shape (n_reference,)
        The ratio of the look, and of the one before.
    settled : array of shape (n_reference,)
        The ratio that would be remembered.
    slots : array of shape (n_slots, n_reference)
        Those that are.
    distances : array of shape (3 + n_slots,)
        From ``pooled`` to ``before``; from ``settled`` to ``pooled``, to 1, and to each slot.
    """
    distances[0] = 0.5 * _mean_distance(pooled, before, 1.0)
    distances[1] = 0.5 * _mean_distance(settled, pooled, 1.0)
    distances[2] = 0.5 * _mean_distance_from_one(settled)
    for k in range(slots.shape[0]):
        distances[3 + k] = 0.5 * _mean_distance(settled, slots[k], 1.0)


@inlined_sums
def _mean_distance_from_one(values: FloatArray) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += abs(values[i] - 1.0)
    return total / values.shape[0]


@inlined_sums
def _mean_distance(values: FloatArray, sums: FloatArray, n_rounds: float) -> float:
    total = 0.0
    for i in range(values.shape[0]):
        total += abs(values[i] - sums[i] / n_rounds)
    return total / values.shape[0]


# --- shapes -------------------------------------------------------------------------------------------------------


@inlined_sums
def _average_shapes(ratios: FloatArray, cuts: FloatArray, means: FloatArray) -> None:
    c1, c2, c3, c4, c5 = cuts[1], cuts[2], cuts[3], cuts[4], cuts[5]
    c6, c7, c8, c9, c10, c11 = cuts[6], cuts[7], cuts[8], cuts[9], cuts[10], cuts[11]
    s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = s10 = s11 = 0.0
    for i in range(ratios.shape[0]):
        whole = ratios[i]
        half = math.sqrt(whole)
        square = whole * whole
        fourth = square * square
        s1 += half if half < c1 else c1
        s2 += whole if whole < c2 else c2
        s3 += whole if whole < c3 else c3
        s4 += whole if whole < c4 else c4
        s5 += whole if whole < c5 else c5
        s6 += square if square < c6 else c6
        s7 += square if square < c7 else c7
        s8 += square if square < c8 else c8
        s9 += fourth if fourth < c9 else c9
        s10 += fourth if fourth < c10 else c10
        s11 += fourth if fourth < c11 else c11
    n = ratios.shape[0]
    means[0] = 1.0
    means[1], means[2], means[3], means[4], means[5] = s1 / n, s2 / n, s3 / n, s4 / n, s5 / n
    means[6], means[7], means[8], means[9], means[10], means[11] = s6 / n, s7 / n, s8 / n, s9 / n, s10 / n, s11 / n
    for j in range(means.shape[0]):
        means[j] = means[j] if means[j] > _SMALLEST else _SMALLEST


@inlined
def _mix(ratios: FloatArray, cuts: FloatArray, shares: FloatArray, normalisers: FloatArray, mixed: FloatArray) -> None:
    c1, c2, c3, c4, c5 = cuts[1], cuts[2], cuts[3], cuts[4], cuts[5]
    c6, c7, c8, c9, c10, c11 = cuts[6], cuts[7], cuts[8], cuts[9], cuts[10], cuts[11]
    # Written as 1 plus what differs from 1: the mixture of shapes of ratio 1 is then exactly 1.
    a1, a2, a3 = 1.0 / normalisers[1], 1.0 / normalisers[2], 1.0 / normalisers[3]
    a4, a5, a6 = 1.0 / normalisers[4], 1.0 / normalisers[5], 1.0 / normalisers[6]
    a7, a8, a9 = 1.0 / normalisers[7], 1.0 / normalisers[8], 1.0 / normalisers[9]
    a10, a11 = 1.0 / normalisers[10], 1.0 / normalisers[11]
    q1, q2, q3, q4, q5 = shares[1], shares[2], shares[3], shares[4], shares[5]
    q6, q7, q8, q9, q10, q11 = shares[6], shares[7], shares[8], shares[9], shares[10], shares[11]
    for i in range(ratios.shape[0]):
        whole = ratios[i]
        half = math.sqrt(whole)
        square = whole * whole
        fourth = square * square
        total = q1 * (a1 * (half if half < c1 else c1) - 1.0) + q2 * (a2 * (whole if whole < c2 else c2) - 1.0)
        total += q3 * (a3 * (whole if whole < c3 else c3) - 1.0) + q4 * (a4 * (whole if whole < c4 else c4) - 1.0)
        total += q5 * (a5 * (whole if whole < c5 else c5) - 1.0) + q6 * (a6 * (square if square < c6 else c6) - 1.0)
        total += q7 * (a7 * (square if square < c7 else c7) - 1.0) + q8 * (a8 * (square if square < c8 else c8) - 1.0)
        total += q9 * (a9 * (fourth if fourth < c9 else c9) - 1.0)
        total += q10 * (a10 * (fourth if fourth < c10 else c10) - 1.0)
        mixed[i] = 1.0 + (total + q11 * (a11 * (fourth if fourth < c11 else c11) - 1.0))


@inlined
def _shape(whole: float, j: int, cut: float) -> float:
    """Return one shape of a ratio; the order is that of `accous.core.pool`."""
    value = 1.0
    if j == 1:
        value = math.sqrt(whole)
    elif j >= 2:
        value = whole
        if j >= 6:
            value = whole * whole
        if j >= 9:
            value = value * value
    return value if value < cut else cut


@inlined
def _slot_value(whole: float, cuts: FloatArray, slot_shapes: FloatArray, k: int) -> float:
    """Return the ratio of slot k, given the one at its theta."""
    value = 0.0
    for j in range(cuts.shape[0]):
        if slot_shapes[k, j] > 0.0:
            value += slot_shapes[k, j] * _shape(whole, j, cuts[j])
    return value


@merged
def _score(
    ratios: FloatArray,
    slot_ratios: FloatArray,
    given: FloatArray,
    cuts: FloatArray,
    normalisers: FloatArray,
    slot_shapes: FloatArray,
    floor: float,
    likelihoods: FloatArray,
) -> None:
    """Write the likelihood of every row under every candidate, raised to the floor, to ``likelihoods``."""
    n_shapes, n_slots = cuts.shape[0], slot_ratios.shape[0]
    for i in range(ratios.shape[0]):
        for j in range(n_shapes):
            value = _shape(ratios[i], j, cuts[j]) / normalisers[j]
            likelihoods[i, j] = (1.0 - floor) * value + floor
        for k in range(n_slots):
            value = _slot_value(slot_ratios[k, i], cuts, slot_shapes, k)
            likelihoods[i, n_shapes + k] = (1.0 - floor) * value + floor
        for k in range(given.shape[0]):
            likelihoods[i, n_shapes + n_slots + k] = (1.0 - floor) * given[k, i] + floor


# --- filters ------------------------------------------------------------------------------------------------------


@merged
def _switch(likelihoods: FloatArray, prior: FloatArray, posterior: AnyFloats, rate: float, room: FloatArray) -> float:
    """Update one switching filter; return the log likelihood of the batch under its prediction."""
    gain, n_all = 0.0, prior.shape[0]
    for i in range(likelihoods.shape[0]):
        total = 0.0
        for c in range(n_all):
            total += posterior[c] * likelihoods[i, c]
        gain += math.log(total)
    for c in range(n_all):
        room[c] = posterior[c]
    for i in range(likelihoods.shape[0]):
        # Brought to the sum 1 after each row, so that no product under- or overflows.
        total = 0.0
        for c in range(n_all):
            room[c] *= likelihoods[i, c]
            total += room[c]
        for c in range(n_all):
            room[c] /= total
    for c in range(n_all):
        posterior[c] = (1.0 - rate) * room[c] + rate * prior[c]
    return gain


@merged
def _decay(
    likelihoods: FloatArray, prior: FloatArray, counts: AnyFloats, decay: float, prior_count: float, shares: FloatArray
) -> float:
    """Update one filter of decayed responsibilities; return the log likelihood of the batch under its prediction."""
    total, n_all = prior_count, prior.shape[0]
    for c in range(n_all):
        total += counts[c]
    for c in range(n_all):
        shares[c] = (counts[c] + prior_count * prior[c]) / total
        counts[c] = decay * counts[c]
    gain = 0.0
    for i in range(likelihoods.shape[0]):
        mixed = 0.0
        for c in range(n_all):
            mixed += shares[c] * likelihoods[i, c]
        gain += math.log(mixed)
        for c in range(n_all):
            counts[c] += shares[c] * likelihoods[i, c] / mixed
    return gain


@merged
def _normalise(logs: FloatArray) -> None:
    """Replace logarithms by their exponentials, scaled to sum 1."""
    largest = -math.inf
    for c in range(logs.shape[0]):
        largest = logs[c] if logs[c] > largest else largest
    total = 0.0
    for c in range(logs.shape[0]):
        logs[c] = math.exp(logs[c] - largest)
        total += logs[c]
    for c in range(logs.shape[0]):
        logs[c] /= total


# --- Compiled weights of mixtures with few components: many small problems of maximum likelihood in one call


_MAX_STEPS = 60
_MAX_HALVINGS = 30
_MAX_CHANGES = 5  # of the active set, per component
_RIDGE = 1e-10
_SMALLEST_RIDGE = 1e-14


@inlined
def _scale_rows(likelihoods: FloatArray, i: int, weights: FloatArray, scaled: FloatArray, slopes: FloatArray) -> float:
    """Divide every row by its mixture, write the slopes of the mean log likelihood, and return the gap."""
    n_rows, n_weights = scaled.shape
    for k in range(n_weights):
        slopes[k] = 0.0
    for j in range(n_rows):
        mixture = 0.0
        for k in range(n_weights):
            mixture += likelihoods[i, j, k] * weights[k]
        for k in range(n_weights):
            scaled[j, k] = likelihoods[i, j, k] / mixture
            slopes[k] += scaled[j, k] / n_rows
    largest = 0.0
    for k in range(n_weights):
        # Written so that a slope that is not a number ends as a gap that is none.
        largest = largest if slopes[k] <= largest else slopes[k]
    return largest - 1.0


@inlined
def _make_model(
    scaled: FloatArray, slopes: FloatArray, weights: FloatArray, hessian: FloatArray, linear: FloatArray
) -> None:
    """Write the quadratic model c^T H c / 2 - linear^T c; a small ridge pulls to the present weights."""
    n_rows, n_weights = scaled.shape
    for k in range(n_weights):
        for m in range(n_weights):
            hessian[k, m] = 0.0
    for j in range(n_rows):
        for k in range(n_weights):
            share = scaled[j, k] / n_rows
            for m in range(n_weights):
                hessian[k, m] += share * scaled[j, m]
    largest = 0.0
    for k in range(n_weights):
        largest = max(largest, hessian[k, k])
    for k in range(n_weights):
        ridge = _RIDGE * hessian[k, k] + _SMALLEST_RIDGE * largest
        hessian[k, k] += ridge
        # The Hessian times the weights equals the slopes.
        linear[k] = 2.0 * slopes[k] - 1.0 + ridge * weights[k]


@inlined
def _solve_free(
    hessian: FloatArray, linear: FloatArray, is_free: FloatArray, factor: FloatArray, goal: FloatArray
) -> bool:
    """Write the optimum of the free entries, and 0 for the others; return whether the matrix is positive definite."""
    n_weights = len(linear)
    for k in range(n_weights):
        goal[k] = 0.0
        if is_free[k] > 0.0:
            entry = linear[k]
            for m in range(k):
                if is_free[m] > 0.0:
                    total = hessian[k, m]
                    for i in range(m):
                        total -= factor[k, i] * factor[m, i]
                    factor[k, m] = total / factor[m, m]
                    entry -= factor[k, m] * goal[m]
                else:
                    factor[k, m] = 0.0
            pivot = hessian[k, k]
            for m in range(k):
                pivot -= factor[k, m] * factor[k, m]
            if not pivot > 0.0:
                return False
            factor[k, k] = math.sqrt(pivot)
            goal[k] = entry / factor[k, k]
    for k in range(n_weights - 1, -1, -1):
        if is_free[k] > 0.0:
            goal[k] /= factor[k, k]
            for m in range(k):
                if is_free[m] > 0.0:
                    goal[m] -= factor[k, m] * goal[k]
    return True


@inlined
def _take_goal(point: FloatArray, goal: FloatArray, is_free: FloatArray) -> bool:
    """Replace the point by the goal, with 0 for entries below 0, which are free no more; return if there are none."""
    is_whole = True
    for k in range(len(point)):
        if is_free[k] > 0.0 and not goal[k] > 0.0:
            is_free[k] = 0.0
            is_whole = False
        point[k] = goal[k] if is_free[k] > 0.0 else 0.0
    return is_whole


@inlined
def _move_to_goal(point: FloatArray, goal: FloatArray, is_free: FloatArray) -> bool:
    """Move to the goal, or up to the first bound, which holds from then on; return whether the goal is reached."""
    share, first = 1.0, -1
    for k in range(len(point)):
        if is_free[k] > 0.0 and goal[k] <= 0.0:
            reach = point[k] / (point[k] - goal[k]) if point[k] > 0.0 else 0.0
            if first < 0 or reach < share:
                share, first = reach, k
    for k in range(len(point)):
        if is_free[k] > 0.0:
            point[k] = max(point[k] + share * (goal[k] - point[k]), 0.0)
    if first >= 0:
        point[first] = is_free[first] = 0.0
    return first < 0


@inlined
def _free_one(
    hessian: FloatArray, linear: FloatArray, point: FloatArray, is_free: FloatArray, tolerance: float
) -> bool:
    """Free the entry at 0 with the strongest pull to grow; return whether there is one."""
    strongest, best = tolerance, -1
    for k in range(len(point)):
        if is_free[k] == 0.0:
            pull = linear[k]
            for m in range(len(point)):
                pull -= hessian[k, m] * point[m]
            if pull > strongest:
                strongest, best = pull, k
    if best >= 0:
        is_free[best] = 1.0
    return best >= 0


@inlined
def _maximise_model(
    hessian: FloatArray, linear: FloatArray, tolerance: float, room: FloatArray, factor: FloatArray, point: FloatArray
) -> bool:
    """Replace the point by the optimum of the model over non-negative entries; return whether it was found."""
    is_free, goal = room[0], room[1]
    for k in range(len(point)):
        is_free[k] = 1.0 if point[k] > 0.0 else 0.0
    # Any optimum of some free entries is a start. Dropping all entries below 0 at once leads to one soon.
    is_started = False
    for _ in range(_MAX_CHANGES * len(point) + _MAX_CHANGES):
        if not _solve_free(hessian, linear, is_free, factor, goal):
            return False
        if is_started:
            is_reached = _move_to_goal(point, goal, is_free)
        else:
            is_reached = is_started = _take_goal(point, goal, is_free)
        if is_reached and not _free_one(hessian, linear, point, is_free, tolerance):
            return True
    return False


@inlined
def _rise(scaled: FloatArray, point: FloatArray, weights: FloatArray, size: float, room: FloatArray) -> float:
    """Write a part of the way to the point to the room, and return how much the penalised objective rises there."""
    total = 0.0
    for k in range(len(weights)):
        room[k] = weights[k] + size * (point[k] - weights[k])
        total -= room[k] - weights[k]
    for j in range(scaled.shape[0]):
        share = 0.0
        for k in range(len(weights)):
            share += scaled[j, k] * room[k]
        if not share > 0.0:
            return -math.inf
        total += math.log(share) / scaled.shape[0]
    return total


@inlined
def _step(scaled: FloatArray, slopes: FloatArray, weights: FloatArray, point: FloatArray, trial: FloatArray) -> None:
    """Move the weights towards the point until the objective rises enough, and bring them to the sum 1."""
    expected = 0.0
    for k in range(len(weights)):
        expected += (slopes[k] - 1.0) * (point[k] - weights[k])
    size, n_halvings = 1.0, 0
    while n_halvings < _MAX_HALVINGS and not _rise(scaled, point, weights, size, trial) >= 1e-4 * size * expected:
        size *= 0.5
        n_halvings += 1
    total = 0.0
    for k in range(len(weights)):
        # The multiplicative step of the EM algorithm always increases the objective, though slowly.
        weights[k] = weights[k] * slopes[k] if n_halvings == _MAX_HALVINGS else max(trial[k], 0.0)
        total += weights[k]
    for k in range(len(weights)):
        weights[k] /= total


@kernel(types.void, IN3, float64, OUT2, OUT2, OUT2, OUT2, OUT2, OUT1)
def fit_mixtures(
    likelihoods: FloatArray,
    tolerance: float,
    scaled: FloatArray,
    hessian: FloatArray,
    factor: FloatArray,
    room: FloatArray,
    weights: FloatArray,
    gaps: FloatArray,
) -> None:
    """Fit the weights of every problem, and write a bound on how far each mean log likelihood is below its maximum.

    ``likelihoods`` is (n_problems, n_rows, n_weights). A gap above the tolerance says that the method did not succeed.
    """
    n_problems, _, n_weights = likelihoods.shape
    slopes, linear, point = room[2], room[3], room[4]
    for i in range(n_problems):
        for k in range(n_weights):
            weights[i, k] = 1.0 / n_weights
        for step in range(_MAX_STEPS + 1):
            gaps[i] = _scale_rows(likelihoods, i, weights[i], scaled, slopes)
            if gaps[i] <= tolerance or step == _MAX_STEPS:
                break
            _make_model(scaled, slopes, weights[i], hessian, linear)
            for k in range(n_weights):
                point[k] = weights[i, k]
            if not _maximise_model(hessian, linear, 0.1 * tolerance, room, factor, point):
                break
            _step(scaled, slopes, weights[i], point, room[5])
