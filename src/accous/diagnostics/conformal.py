"""Prediction sets and intervals: what conforms to the reference, weighted to match the current inputs."""

from __future__ import annotations

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
    scores: FloatArray, weights: FloatArray, late: FloatArray, arrived: IntArray, now: int, alpha: float
) -> tuple[FloatArray, FloatArray, float]:
    r"""Return scores, weights and level for `conformal_limits`, corrected by labels that came (Gibbs and Candes, 2021).

    Scores of labelled rows join those of the reference, which counts as 50 labels; they fade. The level starts at
    alpha, and labels that came together, at least 25, move it once by

    .. math:: \alpha_{t+1} = \alpha_t + 0.2 \, (\alpha - \text{share of their rows outside}) ,

    where all of them are judged by what was known before. So the share of labelled rows outside tends to alpha, unless
    the stream keeps going beyond all that was ever seen.

    Parameters
    ----------
    scores, weights : arrays of shape (n_reference,)
    late : array of shape (n_labels,)
        Scores of labelled rows, as they were predicted, in the order in which their labels came.
    arrived : array of shape (n_labels,)
        Rows of the stream when the label came.
    now : int
        Rows of the stream.
    alpha : float

    Examples
    --------
    >>> import numpy as np
    >>> reference, late = np.linspace(0.0, 1.0, 100), np.random.default_rng(0).uniform(0.0, 3.0, 500)
    >>> found = with_feedback(reference, np.ones(100), late, 10 * np.arange(500), 5_000, alpha=0.1)
    >>> print(conformal_limits(*found[:2], np.zeros(1), found[2]).round(1))
    [2.6]
    """
    late, arrived = late[-_MOST_LATE:], arrived[-_MOST_LATE:]
    given = weights * (_REFERENCE_COUNTS / max(float(weights.sum()), 1e-300))
    level, first = alpha, 0
    for last in _ends_of_batches(arrived):
        known = np.concatenate((scores, late[:first]))
        order = np.argsort(known, kind="stable")
        counts = np.concatenate((given, _fading(arrived[first] - arrived[:first])))[order]
        shares = np.concatenate(([0.0], np.cumsum(counts) / counts.sum()))
        is_outside = shares[np.searchsorted(known[order], late[first:last])] >= 1.0 - level
        # Above 0: the largest score is the last limit, as an interval without ends would say nothing.
        level = min(1.0, max(1e-9, level + _RATE * (alpha - float(is_outside.mean()))))
        first = last
    return np.concatenate((scores, late)), np.concatenate((given, _fading(now - arrived))), level


def _fading(ages: IntArray) -> FloatArray:
    return np.power(0.5, np.maximum(ages, 0) / _HALF_LIFE)


def _ends_of_batches(arrived: IntArray) -> list[int]:
    """Return where batches of labels end: those that came together, and at least 25."""
    ends = [*(np.flatnonzero(np.diff(arrived)) + 1).tolist(), len(arrived)] if len(arrived) else []
    chosen, last = [], 0
    for end in ends:
        if end - last >= FEWEST_LATE or end == len(arrived):
            chosen.append(end)
            last = end
    return chosen
