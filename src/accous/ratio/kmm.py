"""KMM: kernel mean matching, a quadratic program solved to a stated tolerance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray, from_plain
from accous.core.ratio_problems import BoxProblem, solve_box_qp, squared_distances
from accous.exceptions import ParameterError
from accous.parameters import require_choice, require_number, require_number_in
from accous.ratio.kernel import KernelRatio
from accous.ratio.kernel_matrix import KernelMatrix, make_kernel_matrix

__all__ = ["KMM"]

_FEWEST_AT_START = 32
_CHUNK = 500


@dataclass(frozen=True)
class MatchingState:
    """The solution for one batch.

    Attributes
    ----------
    weights : array of shape (n_reference,)
    multiplier : float
        Lagrange multiplier of the bound on the mass.
    batch : array of shape (n_batch, n_columns)
        The batch that was matched.
    width, ridge : float
    """

    weights: FloatArray
    multiplier: float
    batch: FloatArray
    width: float
    ridge: float


class KMM(KernelRatio):
    r"""Kernel mean matching of the reference to one batch ("IW-KMM" in the paper).

    .. math::
        \min_w \; \tfrac12 w^\top (K + \lambda I) w - \kappa^\top w \quad\text{subject to}\quad
        0 \le w_i \le B, \;\; \Big| \tfrac{1}{N_0} \textstyle\sum_i w_i - 1 \Big| \le \varepsilon,
        \qquad \kappa_i = \frac{N_0}{N_t} \sum_{x \in S_t} k_\sigma(x_i, x)

    (Huang and others, NIPS 2006; there :math:`\lambda = 0`). ``partial_fit`` replaces the batch and starts from the
    last solution.

    A few reference rows are enough to match the mean of a few batch rows exactly. Without a ridge, a batch of five rows
    leaves an effective sample size of about 20 out of 1000. The default ridge is as large as the noise in the mean of
    a small batch.

    Parameters
    ----------
    feature_map : {"standardize", "auto", "identity", "rbf"} or transformer, default="standardize"
        Map of the rows before the kernels; fitted on the reference.
    width : float, "median" or "cv", default="median"
        sigma of the kernel exp(-distance^2 / 2 sigma^2). With ``"median"``, the kernel falls to 1/e at the median
        distance between reference rows. ``"cv"`` chooses among 1/4 to 4 times that width in every round, by the
        least-squares loss of held-out rows of the batch.
    ridge : float or "auto", default="auto"
        lambda; ``"auto"`` is N_0 / N_t. With 0, the problem in the literature, only reference rows have weights.
    mass_tolerance : float or "literature", default=0.0
        epsilon, from 0 to 1; ``"literature"`` is 1 - 1 / sqrt(N_0), the value of Huang and others.
    tol : float, default=1e-6
        Largest violation of the optimality conditions, as a share of N_0, the scale of kappa.
    max_centers : int, default=100
        With more than 2000 reference rows, K is replaced by its Nystroem approximation with this many centres, spread
        along a random direction. No matrix of N_0 rows and columns is then created.
    max_ratio : float, default=100.0
        B, the largest weight.
    random_state : int, RandomState or None, default=None
        Seed of that direction and of the ``"rbf"`` map.

    Attributes
    ----------
    reference_ratio_ : array of shape (n_reference,)
        The weights w; ones before the first batch.
    width_, ridge_ : float
        Width and ridge used for the last batch.
    n_rounds_ : int
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Notes
    -----
    The method itself weights only the reference rows. With a ridge, its optimality conditions also determine the weight
    of any other row, and ``predict_ratio`` returns it:

    .. math:: w(x) = \min\Big\{B, \max\Big\{0, \frac{1}{\lambda} \Big(\kappa(x) - \sum_i k(x, x_i) w_i - \nu
        \Big)\Big\}\Big\}

    where :math:`\nu` is the multiplier of the mass. At reference rows this equals their weight, up to ``tol``.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import KMM
    >>> rng = np.random.default_rng(0)
    >>> ratio = KMM().fit(rng.normal(size=(200, 2))).partial_fit(rng.normal(loc=1.0, size=(20, 2)))
    >>> round(float(ratio.reference_ratio_.mean()), 9)
    1.0
    """

    matrix_: KernelMatrix
    state_: MatchingState | None

    def __init__(
        self,
        feature_map: Any = "standardize",
        *,
        width: float | str = "median",
        ridge: float | str = "auto",
        mass_tolerance: float | str = 0.0,
        tol: float = 1e-6,
        max_centers: int = 100,
        max_ratio: float = 100.0,
        random_state: Any = None,
    ) -> None:
        self.feature_map = feature_map
        self.width = width
        self.ridge = ridge
        self.mass_tolerance = mass_tolerance
        self.tol = tol
        self.max_centers = max_centers
        self.max_ratio = max_ratio
        self.random_state = random_state

    @property
    def reference_ratio_(self) -> FloatArray:
        """Weights of the reference rows."""
        return np.ones(len(self.rows_)) if self.state_ is None else self.state_.weights.copy()

    @property
    def width_(self) -> float:
        """Kernel width of the last batch; before the first batch, that of the reference."""
        return self.matrix_.width if self.state_ is None else self.state_.width

    @property
    def ridge_(self) -> float:
        """Ridge of the last batch; before the first batch, that for a batch of one row."""
        return self._resolve_ridge(1) if self.state_ is None else self.state_.ridge

    def _forget(self) -> None:
        self.state_ = None
        self.matrix_ = self._make_matrix(self._candidate_widths(1)[0])

    def _make_matrix(self, width: float) -> KernelMatrix:
        return make_kernel_matrix(self.rows_, width, int(self.max_centers), self.direction_)

    def _estimate(self, batch: FloatArray) -> None:
        def losses(kept: IntArray, held_out: IntArray, widths: tuple[float, ...]) -> FloatArray:
            return np.array([self._held_out_loss(batch[kept], batch[held_out], width) for width in widths])

        width = self._select_width(len(batch), losses)
        matrix = self.matrix_ if width == self.matrix_.width else self._make_matrix(width)
        self.matrix_, self.state_ = matrix, self._match(matrix, batch)

    def _match(self, matrix: KernelMatrix, batch: FloatArray) -> MatchingState:
        n_reference, ridge = len(self.rows_), self._resolve_ridge(len(batch))
        pull = self._pull(self.rows_, batch, matrix.width, self.row_norms_)
        problem = BoxProblem(matrix.matrix, pull, ridge, self.max_ratio, None)
        tolerance = 1.0 - n_reference**-0.5 if isinstance(self.mass_tolerance, str) else float(self.mass_tolerance)
        low, high = (n_reference * (1.0 + sign * tolerance) for sign in (-1.0, 1.0))
        masses = (low, min(high, n_reference * float(self.max_ratio)))
        start = self._choose_start(problem)
        weights, multiplier = solve_box_qp(problem, start, self.tol * n_reference, masses)
        return MatchingState(weights, multiplier, batch, matrix.width, ridge)

    def _pull(
        self, rows: FloatArray, batch: FloatArray, width: float, row_norms: FloatArray | None = None
    ) -> FloatArray:
        """Return kappa of rows."""
        factor = -0.5 / (width * width)
        total = np.zeros(len(rows))
        # Avoids an array with an entry for every pair of reference row and batch row if the batch is large.
        for part in _chunks(batch):
            total += np.exp(squared_distances(rows, part, row_norms) * factor).sum(axis=1)
        return total * (len(self.rows_) / len(batch))

    def _choose_start(self, problem: BoxProblem) -> FloatArray:
        """Return the better start: the last solution, or a point near a sparse solution."""
        n_reference = len(problem.linear)
        last = np.ones(n_reference) if self.state_ is None else self.state_.weights
        if problem.ridge > 0.0:
            return last
        n_chosen = min(n_reference, max(_FEWEST_AT_START, int(np.ceil(2.0 * n_reference / problem.upper))))
        sparse = np.zeros(n_reference)
        sparse[np.argsort(-problem.linear, kind="stable")[:n_chosen]] = n_reference / n_chosen
        return min((last, sparse), key=lambda point: problem.value(point, problem.gradient(point)))

    def _evaluate(self, rows: FloatArray) -> FloatArray:
        if self.state_ is None:
            return np.ones(len(rows))
        if self.state_.ridge == 0.0:
            raise ParameterError(
                "KMM with ridge=0 has weights for the reference rows only: read reference_ratio_, or give KMM a ridge "
                "above 0."
            )
        return np.concatenate([self._extend(self.matrix_, self.state_, part) for part in _chunks(rows)])

    def _extend(self, matrix: KernelMatrix, state: MatchingState, rows: FloatArray) -> FloatArray:
        """Return the weights of other rows, from the optimality conditions."""
        pull = self._pull(rows, state.batch, state.width) - matrix.cross(rows, state.weights)
        return np.clip((pull - state.multiplier) / state.ridge, 0.0, float(self.max_ratio))

    def _held_out_loss(self, kept: FloatArray, held_out: FloatArray, width: float) -> float:
        matrix = self._make_matrix(width)
        state = self._match(matrix, kept)
        return float(0.5 * np.mean(state.weights**2) - self._extend(matrix, state, held_out).mean())

    def _resolve_ridge(self, n_batch: int) -> float:
        # Departs from the paper: KMM in the literature has no ridge, and fits the noise of a small batch.
        return len(self.rows_) / n_batch if isinstance(self.ridge, str) else float(self.ridge)

    def _take_state(self, plain: dict[str, Any]) -> None:
        self.state_ = from_plain(MatchingState, plain)
        self.matrix_ = self._make_matrix(plain["width"])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if isinstance(self.ridge, str):
            require_choice("ridge", self.ridge, ("auto",), or_else=" or a number")
        elif isinstance(self.ridge, bool) or self.ridge != 0:
            require_number("ridge", self.ridge, or_else=", 0 or 'auto'")
        if isinstance(self.mass_tolerance, str):
            require_choice("mass_tolerance", self.mass_tolerance, ("literature",), or_else=" or a number from 0 to 1")
        else:
            require_number_in("mass_tolerance", self.mass_tolerance, 0.0, 1.0)
        require_number("tol", self.tol)
        if self.ridge == 0 and self.width == "cv":
            raise ParameterError("width='cv' needs a ridge above 0: without one, KMM has no weights for held-out rows.")


def _chunks(rows: FloatArray) -> Iterator[FloatArray]:
    for first in range(0, len(rows), _CHUNK):
        yield rows[first : first + _CHUNK]
