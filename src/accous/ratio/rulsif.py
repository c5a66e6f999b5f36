"""RULSIF: the relative ratio, bounded by construction."""

from __future__ import annotations

from typing import Any

from accous.parameters import require_number_in
from accous.ratio.ulsif import DEFAULT_RIDGE, LeastSquaresRatio

__all__ = ["RULSIF"]


class RULSIF(LeastSquaresRatio):
    r"""Relative least-squares importance fitting of one batch against the reference.

    .. math:: r_\alpha(x) = \frac{D_t(x)}{\alpha D_t(x) + (1 - \alpha) D_0(x)} \le \frac1\alpha

    is computed by the closed form of :class:`accous.ULSIF` with :math:`H = (1 - \alpha) \operatorname{mean}_{S_0}
    k k^\top + \alpha \operatorname{mean}_{S_t} k k^\top` (Yamada and others, Neural Computation 2013). ``partial_fit``
    replaces the batch. Note that r_alpha is not the ratio itself: it is flatter, but it ranks rows in the same order.

    Parameters
    ----------
    feature_map, width, ridge, max_centers, max_ratio, random_state
        As in :class:`accous.ULSIF`.
    alpha : float, default=0.1
        Share of the batch in the denominator, from 0 (the plain ratio) to below 1.

    Attributes
    ----------
    reference_ratio_, width_, ridge_, centers_, coef_, n_rounds_, n_features_in_, feature_names_in_
        As in :class:`accous.ULSIF`.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import RULSIF
    >>> rng = np.random.default_rng(0)
    >>> ratio = RULSIF(alpha=0.5).fit(rng.normal(size=(500, 1))).partial_fit(rng.normal(loc=3.0, size=(500, 1)))
    >>> bool(ratio.reference_ratio_.max() < 2.5)
    True
    """

    def __init__(
        self,
        feature_map: Any = "standardize",
        *,
        alpha: float = 0.1,
        width: float | str = "median",
        ridge: float | str = DEFAULT_RIDGE,
        max_centers: int = 100,
        max_ratio: float = 100.0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.alpha = alpha
        self.width = width
        self.ridge = ridge
        self.max_centers = max_centers
        self.max_ratio = max_ratio
        self.random_state = random_state

    def _share_of_batch(self) -> float:
        return float(self.alpha)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number_in("alpha", self.alpha, 0.0, 0.99)
