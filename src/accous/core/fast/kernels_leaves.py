r"""Compiled passes over the leaves of boosted trees: new values under other weights, with the structure kept.

A boosted model is :math:`F(x) = b + \sum_t v_t[\text{leaf}_t(x)]`, one such sum for each score. Given the leaf of every
row in every tree, one pass in the order of the trees finds the values that boosting with weights w would give them,

.. math:: v_t[l] = -\eta \frac{\sum_{i \in l} w_i g_i}{\sum_{i \in l} w_i h_i + \lambda},

where g and h are the derivatives of the loss at the sum of the trees before.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, int64, types, uint8

from accous.arrays import FloatArray
from accous.core.fast.compiled import IN1, IN3, OUT2, OUT3, inlined, kernel

__all__ = ["BINOMIAL", "MULTINOMIAL", "SQUARED", "add_leaves", "revalue_leaves"]

SQUARED, BINOMIAL, MULTINOMIAL = 0, 1, 2
_LEAVES = types.Array(uint8, 3, "C", readonly=True)
# Keeps the quotient of an empty leaf at zero, as in scikit-learn.
_TINY = 1e-15


@inlined
def _add_derivatives(
    loss: int,
    leaves: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    scores: FloatArray,
    shares: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the weighted derivatives of the loss by each score to the sums of the leaves, first and second ones."""
    n_rows, n_scores = scores.shape
    for i in range(n_rows):
        if loss == MULTINOMIAL:
            largest, total = scores[i, 0], 0.0
            for k in range(n_scores):
                largest = max(largest, scores[i, k])
            for k in range(n_scores):
                shares[k] = math.exp(scores[i, k] - largest)
                total += shares[k]
            for k in range(n_scores):
                share = shares[k] / total
                sums[k, 0, leaves[k, i]] += weights[i] * (share - (1.0 if targets[i] == k else 0.0))
                sums[k, 1, leaves[k, i]] += weights[i] * share * (1.0 - share)
            continue
        slope, curve = scores[i, 0] - targets[i], 1.0
        if loss == BINOMIAL:
            share = 1.0 / (1.0 + math.exp(-scores[i, 0]))
            slope, curve = share - targets[i], share * (1.0 - share)
        sums[0, 0, leaves[0, i]] += weights[i] * slope
        sums[0, 1, leaves[0, i]] += weights[i] * curve


@kernel(types.void, int64, _LEAVES, IN1, IN1, float64, float64, OUT2, OUT3)
def revalue_leaves(
    loss: int,
    leaves: FloatArray,
    targets: FloatArray,
    weights: FloatArray,
    rate: float,
    penalty: float,
    scores: FloatArray,
    values: FloatArray,
) -> None:
    """Write the value of each leaf to ``values``, and leave the scores of the rows in ``scores``.

    Parameters
    ----------
    loss : int
        `SQUARED`, `BINOMIAL` or `MULTINOMIAL`.
    leaves : array of uint8 of shape (n_steps, n_scores, n_rows)
        The leaf of each row in each tree; a step has a tree for each score.
    targets : array of shape (n_rows,)
        Numbers to predict, or numbers of classes.
    weights : array of shape (n_rows,)
    rate, penalty : float
        The learning rate, and the penalty of large values.
    scores : array of shape (n_rows, n_scores)
        On entry the score of each row before the first tree.
    values : array of shape (n_steps, n_scores, n_nodes)
    """
    n_steps, n_scores, n_rows = leaves.shape
    n_nodes = values.shape[2]
    sums, shares = np.zeros((n_scores, 2, n_nodes)), np.zeros(n_scores)
    for step in range(n_steps):
        sums[:] = 0.0
        _add_derivatives(loss, leaves[step], targets, weights, scores, shares, sums)
        for k in range(n_scores):
            for node in range(n_nodes):
                values[step, k, node] = -rate * sums[k, 0, node] / (sums[k, 1, node] + penalty + _TINY)
            for i in range(n_rows):
                scores[i, k] += values[step, k, leaves[step, k, i]]


@kernel(types.void, _LEAVES, IN3, OUT2)
def add_leaves(leaves: FloatArray, values: FloatArray, scores: FloatArray) -> None:
    """Add the values of the leaves to the scores of rows, in the order of the trees."""
    n_steps, n_scores, n_rows = leaves.shape
    for step in range(n_steps):
        for k in range(n_scores):
            for i in range(n_rows):
                scores[i, k] += values[step, k, leaves[step, k, i]]
