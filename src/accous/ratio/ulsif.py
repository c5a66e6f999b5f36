"""ULSIF: least-squares importance fitting in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.core.ratio_problems import fit_least_squares, leave_one_out_losses, spread_indices, squared_distances
from accous.parameters import require_choice, require_number
from accous.ratio.kernel import KernelBasis, MixtureRatio, MixtureState

__all__ = ["ULSIF", "LeastSquaresRatio"]

DEFAULT_RIDGE = 0.1
CV_RIDGES = (0.1, 0.3, 0.03, 1.0, 0.01, 3.0, 0.001, 10.0)

_LEAVE_ONE_OUT_ROWS = 1000


class LeastSquaresRatio(MixtureRatio):
    """What ULSIF and RULSIF share: the closed form, and leave-one-out selection of width and ridge."""

    ridge: float | str

    @property
    def ridge_(self) -> float:
        """Ridge of the last batch."""
        if self.state_ is not None:
            return self.state_.ridge
        return DEFAULT_RIDGE if isinstance(self.ridge, str) else float(self.ridge)

    def _share_of_batch(self) -> float:
        """Share of the batch in the denominator; 0 is the plain ratio."""
        return 0.0

    def _fit_coefs(self, distances: FloatArray, batch: FloatArray, centers: FloatArray) -> MixtureState:
        alpha = self._share_of_batch()
        batch_distances = squared_distances(batch, centers)
        width, ridge = self._select(distances, batch_distances, centers)
        basis = KernelBasis.on(distances, centers, width)
        kernels = basis.of_distances(distances)
        coefs = fit_least_squares(kernels, basis.of_distances(batch_distances), ridge, alpha)
        return MixtureState(basis, coefs, ridge, self._combine(kernels, coefs))

    def _select(self, distances: FloatArray, batch_distances: FloatArray, centers: FloatArray) -> tuple[float, float]:
        """Return the width and ridge with the smallest leave-one-out loss, or the ones the user passed."""
        n_batch = len(batch_distances)
        widths, ridges = self._candidate_widths(n_batch), self._candidate_ridges(n_batch)
        if len(widths) == len(ridges) == 1:
            return widths[0], ridges[0]
        some = spread_indices(self.rows_, _LEAVE_ONE_OUT_ROWS, self.direction_)
        losses = np.empty((len(widths), len(ridges)))
        for i, width in enumerate(widths):
            basis = KernelBasis.on(distances, centers, width)
            kernels, batch_kernels = basis.of_distances(distances[some]), basis.of_distances(batch_distances)
            losses[i] = leave_one_out_losses(kernels, batch_kernels, np.array(ridges), self._share_of_batch())
        best_width, best_ridge = np.unravel_index(np.argmin(losses), losses.shape)
        return widths[best_width], ridges[best_ridge]

    def _candidate_ridges(self, n_batch: int) -> tuple[float, ...]:
        if not isinstance(self.ridge, str):
            return (float(self.ridge),)
        return CV_RIDGES if n_batch > 1 else (DEFAULT_RIDGE,)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.ridge, str):
            require_choice("ridge", self.ridge, ("cv",), or_else=" or a number")
        else:
            require_number("ridge", self.ridge, or_else=" or 'cv'")


class ULSIF(LeastSquaresRatio):
    r"""Unconstrained least-squares importance fitting of one batch against the reference ("IW-uLSIF" in the paper).

    .. math:: r(x) = \sum_l a_l k_\sigma(x, c_l), \qquad a = \max(0, (H + \lambda I)^{-1} h),

    where H is the mean of :math:`k k^\top` over the reference, h is the mean of k over the batch, and the centres are
    rows of the batch (Kanamori, Hido and Sugiyama, JMLR 2009). ``partial_fit`` replaces the batch.

    Parameters
    ----------
    feature_map : {"standardize", "auto", "identity", "rbf"} or transformer, default="standardize"
        Map of the rows before the kernels; fitted on the reference.
    width : float, "median" or "cv", default="median"
        sigma of the kernel exp(-distance^2 / 2 sigma^2). With ``"median"``, the kernel falls to 1/e at the median
        distance between reference rows. ``"cv"`` chooses among 1/4 to 4 times that width by leave-one-out in every
        round.
    ridge : float or "cv", default=0.1
        lambda; ``"cv"`` chooses it by leave-one-out in every round. A batch of one row leaves nothing to validate on:
        the median rule and 0.1 are used then.
    max_centers : int, default=100
        The centres are the rows of the batch, or this many of them, spread along a random direction.
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.
    random_state : int, RandomState or None, default=None
        Seed of that direction and of the ``"rbf"`` map.

    Attributes
    ----------
    reference_ratio_ : array of shape (n_reference,)
        Ratio of the reference rows under the last batch; ones before the first.
    width_, ridge_ : float
        Width and ridge used for the last batch.
    centers_, coef_ : arrays of shape (n_centers, n_columns) and (n_centers,)
    n_rounds_ : int
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import ULSIF
    >>> rng = np.random.default_rng(0)
    >>> ratio = ULSIF().fit(rng.normal(size=(500, 1))).partial_fit(rng.normal(loc=1.0, size=(500, 1)))
    >>> bool(np.all(np.diff(ratio.predict_ratio([[-1.0], [0.0], [1.0]])) > 0.0))
    True
    """

    def __init__(
        self,
        feature_map: Any = "standardize",
        *,
        width: float | str = "median",
        ridge: float | str = DEFAULT_RIDGE,
        max_centers: int = 100,
        max_ratio: float = 100.0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.width = width
        self.ridge = ridge
        self.max_centers = max_centers
        self.max_ratio = max_ratio
        self.random_state = random_state
