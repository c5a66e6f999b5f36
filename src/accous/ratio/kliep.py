"""KLIEP: the ratio with the highest likelihood under the batch."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.ratio_problems import fit_mixture_weights, gaussian_basis, largest_exponents, squared_distances
from accous.parameters import require_number
from accous.ratio.kernel import HeldOutLosses, KernelBasis, MixtureRatio, MixtureState

__all__ = ["KLIEP"]


class KLIEP(MixtureRatio):
    r"""Kullback-Leibler importance estimation of one batch against the reference ("IW-KLIEP" in the paper).

    .. math::
        \max_{a \ge 0} \; \operatorname*{mean}_{x \in S_t} \log r(x) \quad\text{subject to}\quad
        \operatorname*{mean}_{x \in S_0} r(x) = 1, \qquad r(x) = \sum_l a_l k_\sigma(x, c_l),

    with centres at rows of the batch (Sugiyama and others, NIPS 2007). ``partial_fit`` replaces the batch. The mean of
    the ratio over the reference is exactly 1, unless ``max_ratio`` clips some ratios.

    Parameters
    ----------
    feature_map, max_centers, max_ratio, random_state
        As in :class:`accous.ULSIF`.
    width : float, "median" or "cv", default="median"
        sigma of the kernel exp(-distance^2 / 2 sigma^2). With ``"median"``, the kernel falls to 1/e at the median
        distance between reference rows. ``"cv"`` chooses among 1/4 to 4 times that width in every round, by the
        likelihood of held-out rows of the batch.
    tol : float, default=1e-8
        How far the mean log likelihood may be below its maximum, according to a bound that the solver computes.

    Attributes
    ----------
    reference_ratio_, width_, centers_, coef_, n_rounds_, n_features_in_, feature_names_in_
        As in :class:`accous.ULSIF`.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import KLIEP
    >>> rng = np.random.default_rng(0)
    >>> ratio = KLIEP().fit(rng.normal(size=(500, 1))).partial_fit(rng.normal(loc=1.0, size=(50, 1)))
    >>> round(float(ratio.reference_ratio_.mean()), 9)
    1.0
    """

    def __init__(
        self,
        feature_map: Any = "standardize",
        *,
        width: float | str = "median",
        tol: float = 1e-8,
        max_centers: int = 100,
        max_ratio: float = 100.0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.width = width
        self.tol = tol
        self.max_centers = max_centers
        self.max_ratio = max_ratio
        self.random_state = random_state

    def _fit_coefs(self, distances: FloatArray, batch: FloatArray, centers: FloatArray) -> MixtureState:
        batch_distances = squared_distances(batch, centers)
        width = self._select_width(len(batch), self._held_out_losses(distances, batch, batch_distances))
        basis = KernelBasis.on(distances, centers, width)
        kernels = basis.of_distances(distances)
        masses = kernels.mean(axis=0)
        coefs = self._maximise(_log_kernels(batch_distances, width, basis.shifts) - np.log(masses)) / masses
        return MixtureState(basis, coefs, 0.0, self._combine(kernels, coefs))

    def _maximise(self, log_likelihoods: FloatArray) -> FloatArray:
        """Return the share of each centre in the ratio's mass on the reference."""
        # Scaling a row only adds a constant to the objective, so rows are scaled such that none vanishes.
        scaled = log_likelihoods - log_likelihoods.max(axis=-1, keepdims=True)
        return fit_mixture_weights(np.exp(scaled), float(self.tol))

    def _held_out_losses(self, distances: FloatArray, batch: FloatArray, batch_distances: FloatArray) -> HeldOutLosses:
        """Return how to compute the negative mean log ratios of held-out rows."""
        # If every row of the batch is a centre, the folds share the kernels; otherwise each has centres of its own.
        is_shared = distances.shape[1] == len(batch)

        @cache
        def of_all(widths: tuple[float, ...]) -> FloatArray:
            return _log_likelihoods(distances, batch_distances, widths)

        def losses(kept: IntArray, held_out: IntArray, widths: tuple[float, ...]) -> FloatArray:
            if is_shared:
                return self._losses(of_all(widths)[:, :, kept], kept, held_out)
            centers = self._choose_centers(batch[kept])
            to_reference = squared_distances(self.rows_, centers, self.row_norms_)
            to_batch = squared_distances(batch, centers)
            # One width at a time: all widths of a large batch would need several times the memory.
            of_each = (_log_likelihoods(to_reference, to_batch, (width,)) for width in widths)
            return np.concatenate([self._losses(logs, kept, held_out) for logs in of_each])

        return losses

    def _losses(self, log_likelihoods: FloatArray, kept: IntArray, held_out: IntArray) -> FloatArray:
        """Return the negative mean log ratio of held-out rows for each width, fitted to the rows that are kept."""
        shares = self._maximise(log_likelihoods[:, kept])
        return np.asarray(-_log_mixture(log_likelihoods[:, held_out], shares).mean(axis=1))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("tol", self.tol)


def _log_likelihoods(distances: FloatArray, batch_distances: FloatArray, widths: tuple[float, ...]) -> FloatArray:
    """Log kernels of the batch, divided by their means on the reference, (n_widths, n_batch, n_centers)."""
    logs = np.empty((len(widths), *batch_distances.shape))
    for i, width in enumerate(widths):
        shifts = largest_exponents(distances, width)
        masses = gaussian_basis(distances, width, shifts).mean(axis=0)
        logs[i] = _log_kernels(batch_distances, width, shifts) - np.log(masses)
    return logs


def _log_kernels(distances: FloatArray, width: float, shifts: FloatArray) -> FloatArray:
    return -np.maximum(distances * (0.5 / (width * width)) - shifts, 0.0)


def _log_mixture(logs: FloatArray, shares: FloatArray) -> FloatArray:
    """Log of the sum of share times likelihood for every row, (n_widths, n_rows), where the sum itself may vanish."""
    with np.errstate(divide="ignore"):
        terms = logs + np.log(shares)[:, None]
    largest = terms.max(axis=2)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, :, None]).sum(axis=2)))
