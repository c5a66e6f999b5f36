r"""The three Bregman losses of density-ratio matching: value and gradient.

All three have the same form. With the score :math:`z = \phi(x)^\top \theta`,

.. math:: L_t(\theta) = \mathrm{mean}_{S_0}\, a(z) + \mathrm{mean}_{S_t}\, b(z), \qquad r(x) = \rho(z),

so a loss is the two scalar functions a (reference term) and b (batch term), their slopes, and the link
:math:`\rho` from score to ratio.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from accous.arrays import FloatArray

_BLOCK_ENTRIES = 1 << 17


class Loss(ABC):
    """A density-ratio matching loss for a model that is linear in the features: scores in, value and gradient out.

    Every method maps an array of scores elementwise and is safe for all finite scores: a value too large for a float
    becomes infinite, never NaN, and nothing warns.
    """

    name: ClassVar[str]
    neutral_score: ClassVar[float]
    """The score whose ratio is 1."""
    is_log_linear: ClassVar[bool] = False
    """Whether the score is the negative logarithm of the ratio; otherwise the score is the ratio itself."""

    @classmethod
    def make(cls, max_ratio: float) -> Loss:  # noqa: ARG003
        """Return the loss for ratios up to ``max_ratio``; some losses depend on it."""
        return cls()

    @abstractmethod
    def reference_term(self, scores: FloatArray) -> FloatArray:
        """Return the contribution a(z) of a reference row."""

    @abstractmethod
    def batch_term(self, scores: FloatArray) -> FloatArray:
        """Return the contribution b(z) of a batch row."""

    @abstractmethod
    def reference_slope(self, scores: FloatArray) -> FloatArray:
        """Return the derivative a'(z)."""

    @abstractmethod
    def batch_slope(self, scores: FloatArray) -> FloatArray:
        """Return the derivative b'(z)."""

    @abstractmethod
    def ratio(self, scores: FloatArray, max_ratio: float) -> FloatArray:
        """Return the ratio of a row with the given score, clipped at ``max_ratio``."""

    @abstractmethod
    def gradient_bound(self, radius: float, feature_bound: float) -> float:
        """Return the largest possible norm of the gradient for theta in the ball and feature rows within the bound."""

    def largest_score(self, max_ratio: float) -> float:
        """Return the largest absolute score needed for ratios up to ``max_ratio``."""
        return math.log(max_ratio) if self.is_log_linear else float(max_ratio)

    def margin_bound(self, radius: float, feature_bound: float) -> float:
        """Return the divisor of the meta-learner's margins for ``meta_range="paper"``."""
        # Departs from the paper: it uses S R for every loss, but that bounds the margin of the logistic loss only.
        return 2.0 * radius * self.gradient_bound(radius, feature_bound)

    def value(self, coefs: FloatArray, reference: FloatArray, batch: FloatArray) -> FloatArray:
        """Return the observed loss at each row of ``coefs``.

        Parameters
        ----------
        coefs : array of shape (n_coefs, d)
        reference : array of shape (n_reference, d)
        batch : array of shape (n_batch, d)

        Returns
        -------
        array of shape (n_coefs,)
        """
        reference_part = self.reference_term(coefs @ reference.T).mean(axis=1)
        return np.asarray(reference_part + self.batch_term(coefs @ batch.T).mean(axis=1))

    def gradient(self, coefs: FloatArray, reference: FloatArray, batch: FloatArray) -> FloatArray:
        """Return the gradient of the observed loss at each row of ``coefs``, (n_coefs, d); see :meth:`value`."""
        return self.reference_gradient(coefs, reference)[0] + self.batch_gradient(coefs, batch)

    def reference_gradient(self, coefs: FloatArray, reference: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the reference part of the gradient at each row of ``coefs``, and the scores under the last row."""
        gradient = np.zeros_like(coefs)
        last_scores = np.empty(reference.shape[0])
        points = coefs.astype(reference.dtype, copy=False)
        # Work in blocks of rows: they stay in the cache for the second product, and no array has an entry per row and
        # theta.
        n_block_rows = max(1, _BLOCK_ENTRIES // reference.shape[1])
        for first in range(0, reference.shape[0], n_block_rows):
            rows = reference[first : first + n_block_rows]
            scores = points @ rows.T
            last_scores[first : first + n_block_rows] = scores[-1]
            gradient += self.reference_slope(scores) @ rows
        gradient /= reference.shape[0]
        return gradient, last_scores

    def batch_gradient(self, coefs: FloatArray, batch: FloatArray) -> FloatArray:
        """Return the batch part of the gradient at each row of ``coefs``."""
        gradient = self.batch_slope(coefs @ batch.T) @ batch
        gradient /= batch.shape[0]
        return np.asarray(gradient)


@dataclass(frozen=True)
class Logistic(Loss):
    r"""Logistic regression of reference against batch (the paper's Example 1).

    .. math:: a(z) = \tfrac12 \log(1 + e^{-z}), \quad b(z) = \tfrac12 \log(1 + e^{z}), \quad r = e^{-z}.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.losses import Logistic
    >>> Logistic().ratio(np.array([0.0, -1e308]), max_ratio=100.0)
    array([  1., 100.])
    """

    name: ClassVar[str] = "logistic"
    neutral_score: ClassVar[float] = 0.0
    is_log_linear: ClassVar[bool] = True

    def reference_term(self, scores: FloatArray) -> FloatArray:
        return 0.5 * np.logaddexp(0.0, -scores)

    def batch_term(self, scores: FloatArray) -> FloatArray:
        return 0.5 * np.logaddexp(0.0, scores)

    def reference_slope(self, scores: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            powers = np.exp(scores)
        powers += 1.0
        return np.divide(-0.5, powers, out=powers)

    def batch_slope(self, scores: FloatArray) -> FloatArray:
        return 0.5 * _sigmoid(scores)

    def ratio(self, scores: FloatArray, max_ratio: float) -> FloatArray:
        # Clip before exp, which would overflow. exp(log(max_ratio)) may round up, so clip again afterwards.
        return np.asarray(np.minimum(np.exp(np.minimum(-scores, np.log(max_ratio))), max_ratio))

    def gradient_bound(self, radius: float, feature_bound: float) -> float:
        return feature_bound

    def margin_bound(self, radius: float, feature_bound: float) -> float:
        return radius * feature_bound


@dataclass(frozen=True)
class LeastSquares(Loss):
    r"""Least-squares importance fitting, uLSIF (appendix "On Other Choices of Bregman Divergence Function").

    .. math:: a(z) = \tfrac12 z^2, \quad b(z) = -z, \quad r = \max(z, 0).
    """

    name: ClassVar[str] = "least_squares"
    neutral_score: ClassVar[float] = 1.0

    def reference_term(self, scores: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return 0.5 * scores * scores

    def batch_term(self, scores: FloatArray) -> FloatArray:
        return -scores

    def reference_slope(self, scores: FloatArray) -> FloatArray:
        return scores

    def batch_slope(self, scores: FloatArray) -> FloatArray:
        return np.full_like(scores, -1.0)

    def ratio(self, scores: FloatArray, max_ratio: float) -> FloatArray:
        # Departs from the paper: a linear model can be negative, a ratio cannot.
        return np.asarray(np.clip(scores, 0.0, max_ratio))

    def gradient_bound(self, radius: float, feature_bound: float) -> float:
        return feature_bound * (feature_bound * radius + 1.0)


@dataclass(frozen=True)
class KullbackLeibler(Loss):
    r"""Unnormalised Kullback-Leibler divergence, UKL (same appendix), with a floor c under the ratio.

    .. math:: a(z) = z, \quad b(z) = -\log z \;(z \ge c), \quad r = \max(z, c).

    Below c, b continues along its tangent, so that loss and gradient exist for every theta in the ball.

    Parameters
    ----------
    floor : float
        c, the smallest ratio.
    """

    floor: float

    name: ClassVar[str] = "kl"
    neutral_score: ClassVar[float] = 1.0

    @classmethod
    def make(cls, max_ratio: float) -> KullbackLeibler:
        return cls(floor=1.0 / max_ratio)

    def reference_term(self, scores: FloatArray) -> FloatArray:
        return scores

    def batch_term(self, scores: FloatArray) -> FloatArray:
        # Departs from the paper: it requires phi.theta > 1/beta on the whole ball, which no ball around 0 satisfies.
        above = np.maximum(scores, self.floor)
        with np.errstate(over="ignore"):
            return np.asarray(-np.log(above) + (above - scores) / self.floor)

    def reference_slope(self, scores: FloatArray) -> FloatArray:
        return np.ones_like(scores)

    def batch_slope(self, scores: FloatArray) -> FloatArray:
        return np.asarray(-1.0 / np.maximum(scores, self.floor))

    def ratio(self, scores: FloatArray, max_ratio: float) -> FloatArray:
        return np.asarray(np.clip(scores, self.floor, max_ratio))

    def gradient_bound(self, radius: float, feature_bound: float) -> float:
        return feature_bound * (1.0 + 1.0 / self.floor)


LOSSES: dict[str, type[Loss]] = {loss.name: loss for loss in (Logistic, LeastSquares, KullbackLeibler)}
"""The losses by name: the allowed values of the parameter ``loss`` of the estimators."""


def _sigmoid(scores: FloatArray) -> FloatArray:
    # exp overflows to infinity below -709, where 1 / (1 + inf) = 0 is right; scipy's expit takes 2.5 times as long.
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-scores)))
