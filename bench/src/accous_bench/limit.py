"""The limit of what past rows can tell: weighted ERM with the ratio of a Bayes filter that knows both parts.

The oracle knows the weight ``alpha_t`` of every round, which no method can learn from rows before the round. The limit
knows everything else, the densities of both parts, and infers ``alpha_t``. The distance between the two is out of
reach; the distance between the limit and a method is what better estimation could still gain.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from accous.arrays import FloatArray
from accous.exceptions import DataError
from accous.streams import GaussianStream
from accous_bench.oracle import Oracle

__all__ = ["AlphaFilter", "Limit"]

N_ALPHAS = 101
DIFFUSIONS = (0.002, 0.006, 0.02, 0.06)
JUMPS = (0.0, 0.001, 0.01, 0.03)
SHARE = 0.001
_LEAST_PROBABILITY = 1e-100  # keeps the evidence of a kernel positive when the rows contradict it


class AlphaFilter:
    r"""A Bayes filter for the weight ``alpha_t`` of ``D_t = (1 - alpha_t) D' + alpha_t D''``, given both densities.

    On a grid of 101 values of alpha, each kernel k says how alpha moves from one round to the next. It diffuses with
    standard deviation :math:`\sigma_k`, or jumps anywhere with probability :math:`h_k`:

    .. math:: K_k = (1 - h_k) \exp\big(\tfrac{\sigma_k^2}{2 \delta^2} L\big) + h_k \, U

    Here :math:`\delta` is the step of the grid, L the second difference with reflecting ends, and U the matrix whose
    entries are all 1 / 101. After the rows :math:`x_1, \dots, x_n` of a round, with
    :math:`\ell(\alpha) = \prod_i \big[(1 - \alpha) D'(x_i) + \alpha D''(x_i)\big]`,

    .. math::
        e_k = \sum_\alpha p_k(\alpha) \ell(\alpha), \qquad
        p_k \leftarrow \frac{p_k \ell}{e_k} K_k, \qquad
        w_k \leftarrow (1 - s) \frac{w_k e_k}{\sum_j w_j e_j} + \frac{s}{16}

    with the share s = 0.001: the kernels are averaged by evidence, and none is ever out of the race. All start equal,
    with every alpha equally likely.

    Attributes
    ----------
    alphas : ndarray of shape (101,)
    probabilities : ndarray of shape (4, 4, 101)
        :math:`p_k`, the distribution of the next round's alpha under each diffusion and jump probability.
    weights : ndarray of shape (4, 4)
        :math:`w_k`, the weight of each diffusion and jump probability.

    Examples
    --------
    >>> import numpy as np
    >>> from accous_bench.limit import AlphaFilter
    >>> tracker = AlphaFilter()
    >>> round(tracker.mean, 12)
    0.5
    >>> for _ in range(100):
    ...     tracker.learn(np.array([0.0]), np.array([1.0]))  # a row that only D'' can have drawn
    >>> tracker.mean > 0.97
    True
    """

    def __init__(self) -> None:
        self.alphas = np.linspace(0.0, 1.0, N_ALPHAS)
        self.probabilities = np.full((len(DIFFUSIONS), len(JUMPS), N_ALPHAS), 1.0 / N_ALPHAS)
        self.weights = np.full((len(DIFFUSIONS), len(JUMPS)), 1.0 / (len(DIFFUSIONS) * len(JUMPS)))
        self._diffusions = _diffusion_matrices()
        self._jumps = np.array(JUMPS)[:, None]

    @property
    def mean(self) -> float:
        """The expected alpha of the next round, given all rows so far."""
        return float(np.sum(self.weights * (self.probabilities @ self.alphas)))

    def learn(self, first: FloatArray, second: FloatArray) -> None:
        """Learn from the rows of a round.

        Parameters
        ----------
        first, second : ndarray of shape (n_rows,)
            Densities of the rows under ``D'`` and ``D''``. A factor that a row has in both does not matter.
        """
        with np.errstate(divide="ignore"):
            logs = np.log(first[:, None] * (1.0 - self.alphas) + second[:, None] * self.alphas).sum(axis=0)
        joint = self.probabilities * np.exp(logs - logs.max())
        evidence = joint.sum(axis=2)
        weights = self.weights * evidence
        self.weights = (1.0 - SHARE) * weights / weights.sum() + SHARE / weights.size
        moved = (joint / evidence[:, :, None]) @ self._diffusions
        self.probabilities = np.maximum((1.0 - self._jumps) * moved + self._jumps / N_ALPHAS, _LEAST_PROBABILITY)


def _diffusion_matrices() -> FloatArray:
    """Return the matrix exponential for each diffusion; rows and columns of each matrix sum to 1."""
    second_difference = np.diag(np.full(N_ALPHAS - 1, 1.0), 1) + np.diag(np.full(N_ALPHAS - 1, 1.0), -1)
    second_difference -= np.diag(second_difference.sum(axis=1))
    eigenvalues, vectors = np.linalg.eigh(second_difference)
    times = 0.5 * (np.array(DIFFUSIONS) * (N_ALPHAS - 1)) ** 2
    matrices: FloatArray = (vectors * np.exp(times[:, None, None] * eigenvalues)) @ vectors.T
    return np.maximum(matrices, 0.0)


class Limit(Oracle):
    """The oracle's regression, weighted with the true ratio at the filter's mean alpha.

    The ratio is linear in alpha, so this ratio is also the filter's mean ratio. The model of a round depends on the
    rows before that round only.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty, as in `AdaptiveClassifier`.

    Examples
    --------
    >>> from accous_bench.limit import Limit
    >>> from accous.streams import GaussianStream, SquareShift
    >>> stream = GaussianStream(SquareShift(period=50), n_rounds=100)
    >>> limit = Limit()
    >>> limit.know_parts(stream)
    >>> limit = limit.fit(*stream.reference())
    >>> before = stream.risk(limit.estimator_, alpha=0.0)
    >>> for batch in stream:
    ...     limit.adapt(batch.X)
    >>> stream.risk(limit.estimator_, alpha=0.0) < before
    True
    """

    filter_: AlphaFilter
    _stream: GaussianStream | None = None

    def __repr__(self) -> str:
        return f"Limit(C={self.C!r})"

    def know_parts(self, stream: Any) -> None:
        """Take the densities of both parts from the stream; call this before ``fit``.

        Raises
        ------
        DataError
            If the stream is not a `GaussianStream` whose reference has rows of both parts.
        """
        if not (isinstance(stream, GaussianStream) and 0.0 < stream.alpha_0 < 1.0):
            raise DataError(
                "The limit needs the densities of the two parts that a stream mixes. Only the Gaussian problems "
                "(gaussian, gaussian_published) have them: leave the limit out."
            )
        self._stream = stream

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on the reference; the filter has seen no rows yet."""
        stream = self._known_stream()
        super().fit(X, y)
        self.filter_ = AlphaFilter()
        self.adapt_to(stream.reference_ratio(self.filter_.mean))
        return self

    def adapt(self, X: Any) -> None:
        """Learn from a batch; the weights are for the next round."""
        stream = self._known_stream()
        # Densities divided by that of the reference.
        self.filter_.learn(stream.true_ratio(X, alpha=0.0), stream.true_ratio(X, alpha=1.0))
        self.adapt_to(stream.reference_ratio(self.filter_.mean))

    def _known_stream(self) -> GaussianStream:
        if self._stream is None:
            raise DataError("The limit does not know the parts yet: call know_parts(stream) before fit.")
        return self._stream
