r"""The weighted cross-entropy of labelled rows as a function of their scores: value, slope, curvature.

.. math:: L(Z) = \sum_i s_i \Big( \log \sum_k e^{z_{ki}} - z_{y_i i} \Big)

with one score z per class, or with scores (0, z) if two classes share one score. Everything here works on arrays of
shape (n_scores, n_rows). BLAS computes such scores in half the time of the other order, and no array has an entry per
row and pair of classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray, IntArray

__all__ = ["CrossEntropy", "Evaluation", "Sigmoid", "Softmax", "make_cross_entropy"]


@dataclass(frozen=True)
class Evaluation:
    """L at some scores.

    Attributes
    ----------
    value : float
    probabilities : array of shape (n_scores, n_rows)
        Probabilities of class 1 if two classes share one score.
    residuals : array of shape (n_scores, n_rows)
        The derivative of L in the scores.
    """

    value: float
    probabilities: FloatArray
    residuals: FloatArray


@dataclass(frozen=True)
class CrossEntropy(ABC):
    """Labels and weights of the rows.

    Attributes
    ----------
    labels : array of shape (n_rows,)
        Class numbers.
    weights : array of shape (n_rows,)
        s, non-negative.
    """

    labels: IntArray
    weights: FloatArray

    @abstractmethod
    def evaluate(self, scores: FloatArray) -> Evaluation:
        """Evaluate L with its probabilities and residuals."""

    @abstractmethod
    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """Return the second derivative of L when all scores move along ``change``."""

    @abstractmethod
    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        r"""Return eigenvalues and eigenvectors of :math:`\sum_i s_i (\mathrm{diag}\, p_i - p_i p_i^\top)`."""


class Sigmoid(CrossEntropy):
    """Two classes, one score: that of class 1 over class 0."""

    def evaluate(self, scores: FloatArray) -> Evaluation:
        """As in the base class."""
        z = scores[0]
        # exp(-|z|) never overflows and gives both the probability and the loss.
        power = np.exp(-np.abs(z))
        losses = np.log1p(power) - np.minimum(np.where(self.labels == 1, z, -z), 0.0)
        probabilities = np.where(z >= 0.0, 1.0, power) / (1.0 + power)
        residuals = self.weights * (probabilities - self.labels)
        return Evaluation(float(self.weights @ losses), probabilities[None], residuals[None])

    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """As in the base class."""
        p, z = probabilities[0], change[0]
        return float(self.weights @ (p * (1.0 - p) * z * z))

    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in the base class, of the one score."""
        p = probabilities[0]
        return np.array([self.weights @ (p * (1.0 - p))]), np.ones((1, 1))


class Softmax(CrossEntropy):
    """One score per class."""

    def evaluate(self, scores: FloatArray) -> Evaluation:
        """As in the base class."""
        rows = np.arange(scores.shape[1])
        largest = scores.max(axis=0)
        probabilities = scores - largest
        np.exp(probabilities, out=probabilities)
        partition = probabilities.sum(axis=0)
        probabilities /= partition
        losses = np.log(partition) + largest - scores[self.labels, rows]
        residuals = probabilities * self.weights
        residuals[self.labels, rows] -= self.weights
        return Evaluation(float(self.weights @ losses), probabilities, residuals)

    def curvature_along(self, probabilities: FloatArray, change: FloatArray) -> float:
        """As in the base class."""
        moved = probabilities * change
        mean = moved.sum(axis=0)
        moved *= change
        return float(self.weights @ (moved.sum(axis=0) - mean * mean))

    def total_curvature(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As in the base class."""
        weighted = probabilities * self.weights
        matrix = np.diag(weighted.sum(axis=1)) - weighted @ probabilities.T
        eigenvalues, eigenvectors = np.linalg.eigh(matrix)
        return np.maximum(eigenvalues, 0.0), eigenvectors


def make_cross_entropy(labels: IntArray, weights: FloatArray, n_scores: int) -> CrossEntropy:
    """Return the cross-entropy of two classes with one score, or of several classes with one score each."""
    return Sigmoid(labels, weights) if n_scores == 1 else Softmax(labels, weights)
