"""Prediction sets and intervals: what conforms to the reference, weighted to match the current inputs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from accous.arrays import FloatArray, IntArray


def conformal_limits(scores: FloatArray, weights: FloatArray, row_weights: FloatArray, alpha: float) -> FloatArray:
    r"""Largest score that conforms, for each row (Tibshirani, Foygel Barber, Candes and Ramdas, 2019).

    The limit of row x is the smallest s with

    .. math:: \sum_{i: s_i \le s} w_i \;\ge\; (1 - \alpha) \Big( \sum_i w_i + w(x) \Big) .

    If there is no such s, the limit is infinite: the row weighs too much for the reference to exclude anything.

    Parameters
    ----------
    scores : array of shape (n_reference,)
        Nonconformity of each reference row to its label, from a fit without that row: one minus a probability, or the
        size of a residual.
    weights : array of shape (n_reference,)
    row_weights : array of shape (n_rows,)
        Weights on the same scale as those of the reference.
    alpha : float
        Share of rows whose true label may be outside.

    Returns
    -------
    array of shape (n_rows,)
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    # Slightly less: a sum in another order may differ in the last bit.
    wanted = (1.0 - alpha) * (reached[-1] + row_weights) * (1.0 - 1e-12)
    places = np.searchsorted(reached, wanted)
    return np.asarray(np.append(scores[order], np.inf)[places])


# In labels, what the reference counts beside them; in rows of the stream, after how many a label counts half; and how
# far labels that came together move the level, by the share of them that was outside.
_REFERENCE_COUNTS, _HALF_LIFE, _RATE = 50.0, 2_000.0, 0.2
FEWEST_LATE, _MOST_LATE = 25, 2_000


def with_feedback(
    scores: FloatArray, weights: FloatArray, late: FloatArray, made_at: IntArray, came: IntArray, now: int, alpha: float
) -> tuple[FloatArray, FloatArray, float]:
    r"""Return scores, weights and level for `conformal_limits`, corrected by labels that came (Gibbs and Candes, 2021).

    Scores of labelled rows join those of the reference, which counts as 50 labels; they fade. The level starts at
    alpha, and labels that came together, at least 25, move it once by

    .. math:: \alpha_{t+1} = \alpha_t + 0.2 \, (\alpha - \text{share of their rows outside}) .

    A row is outside if the limit that was in force when it was predicted excludes it. That limit knew no label that
    came later; to judge late labels by it is what makes up for their delay. So the share of labelled rows outside tends
    to alpha, unless the stream keeps going beyond all that was ever seen.

    Parameters
    ----------
    scores, weights : arrays of shape (n_reference,)
    late : array of shape (n_labels,)
        Scores of labelled rows, as they were predicted, in the order in which their labels came.
    made_at, came : array of shape (n_labels,)
        Rows of the stream when the row was predicted, and when its label came.
    now : int
        Rows of the stream.
    alpha : float

    Examples
    --------
    >>> import numpy as np
    >>> reference, late = np.linspace(0.0, 1.0, 100), np.random.default_rng(0).uniform(0.0, 3.0, 500)
    >>> times = 10 * np.arange(500)
    >>> found = with_feedback(reference, np.ones(100), late, times, times, 5_000, alpha=0.1)
    >>> print(conformal_limits(*found[:2], np.zeros(1), found[2]).round(1))
    [2.6]
    """
    late, made_at, came = late[-_MOST_LATE:], made_at[-_MOST_LATE:], came[-_MOST_LATE:]
    given = weights * (_REFERENCE_COUNTS / max(float(weights.sum()), 1e-300))
    ends, levels = _ends_of_batches(came), [alpha]
    for first, last in pairwise((0, *ends)):
        then = int(np.median(made_at[first:last]))
        # Of the batches before this one, those whose labels had come then.
        n_known = sum(int(came[end - 1]) <= then for end in ends[: len(levels) - 1])
        n_scores = ends[n_known - 1] if n_known else 0
        known = np.concatenate((scores, late[:n_scores]))
        order = np.argsort(known, kind="stable")
        counts = np.concatenate((given, _fading(then - came[:n_scores])))[order]
        shares = np.concatenate(([0.0], np.cumsum(counts) / counts.sum()))
        is_outside = shares[np.searchsorted(known[order], late[first:last])] >= 1.0 - levels[n_known]
        # Above 0: the largest score is the last limit, as an interval without ends would say nothing.
        levels.append(min(1.0, max(1e-9, levels[-1] + _RATE * (alpha - float(is_outside.mean())))))
    return np.concatenate((scores, late)), np.concatenate((given, _fading(now - came))), levels[-1]


def _fading(ages: IntArray) -> FloatArray:
    return np.power(0.5, np.maximum(ages, 0) / _HALF_LIFE)


def _ends_of_batches(came: IntArray) -> list[int]:
    """Return where batches of labels end: those that came together, and at least 25."""
    ends: list[int] = []
    for end in [*(np.flatnonzero(np.diff(came)) + 1).tolist(), len(came)]:
        if end - sum(ends[-1:]) >= FEWEST_LATE or 0 < end == len(came):
            ends.append(end)
    return ends
