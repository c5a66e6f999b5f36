"""Ratios of a single batch: KMM, KLIEP, uLSIF, RuLSIF and logistic regression."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from accous.arrays import FloatArray, IntArray, from_plain, to_plain
from accous.core.ensemble import is_wide
from accous.core.losses import Logistic
from accous.core.ratio_problems import (
    BoxProblem,
    DenseMatrix,
    FactoredMatrix,
    fit_least_squares,
    fit_mixture_weights,
    fit_ratio_regression,
    fit_wide_ratio_regression,
    gaussian_basis,
    largest_exponents,
    leave_one_out_losses,
    make_wide_reference,
    median_distance,
    solve_box_qp,
    spread_indices,
    squared_distances,
    squared_norms,
)
from accous.exceptions import DataError, ParameterError
from accous.ratio.base import RatioEstimator
from accous.ratio.features import RowMap, fit_features, fit_map, map_from_plain, map_to_plain
from accous.text import require_choice, require_integer, require_number, require_number_in, require_number_or
from accous.threads import one_blas_thread

# --- Ratio models with Gaussian kernels, estimated from each batch on its own: what uLSIF, RuLSIF, KLIEP and
#     KMM share


# Multiples of the median rule's width that cross-validation tries; in a tie the first one wins.
CV_WIDTHS = (1.0, 2.0**0.5, 2.0**-0.5, 2.0, 0.5, 4.0, 0.25)

# Takes the indices of the kept rows of a batch, those of the held-out rows, and the widths; returns a loss per width.
HeldOutLosses = Callable[[IntArray, IntArray, tuple[float, ...]], FloatArray]

_MEDIAN_ROWS = 1000
_N_FOLDS = 5


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRatio(RatioEstimator):
    """A ratio estimated from one batch and the reference, with Gaussian kernels on mapped rows."""

    feature_map: Any = field(default="standardize", kw_only=False)
    width: float | str = "median"
    max_centers: int = 100
    max_ratio: float = 100.0
    random_state: Any = None

    state_: Any = field(init=False)

    @abstractmethod
    def _forget(self) -> None:
        """Compute what depends only on the reference, and set the state before the first batch."""

    @abstractmethod
    def _estimate(self, batch: FloatArray) -> None:
        """Replace the state by the estimate from a batch of mapped, centred rows."""

    @abstractmethod
    def _evaluate(self, rows: FloatArray) -> FloatArray:
        """Return the ratio of mapped, centred rows under the current state."""

    @abstractmethod
    def _take_state(self, plain: dict[str, Any]) -> None:
        """Take over the estimate from a batch, as ``to_plain`` gave it."""

    def _start(self, X: Any) -> None:
        self._check_parameters()
        self._start_with(fit_map(self.feature_map, X, self.random_state), None, X)

    def _start_with(self, row_map: RowMap, direction: FloatArray | None, X: Any) -> None:
        rows = row_map.transform(X)
        if direction is None:
            direction = check_random_state(self.random_state).normal(size=rows.shape[1])
        # If there are more rows than needed, rows are chosen evenly along this direction.
        self.row_map_, self.direction_, self.n_rounds_ = row_map, direction, 0
        # A common shift does not change kernels, and centring reduces rounding errors in distances. The median is used
        # because a single outlier hardly moves it.
        self.origin_ = np.median(rows, axis=0)
        self.rows_ = rows - self.origin_
        self.row_norms_ = squared_norms(self.rows_)
        # The median rule: at the median distance the kernel has fallen to 1/e.
        some = spread_indices(self.rows_, _MEDIAN_ROWS, direction)
        self.median_width_ = median_distance(self.rows_[some]) / math.sqrt(2.0)
        self._forget()

    def _run_round(self, X: Any) -> None:
        self._estimate(self._centred(X))
        self.n_rounds_ += 1

    def _ratio(self, X: Any) -> FloatArray:
        with one_blas_thread():
            return self._evaluate(self._centred(X))

    def _centred(self, X: Any) -> FloatArray:
        rows = self.row_map_.transform(X)
        if rows.shape[1] != len(self.origin_):
            raise DataError(
                f"The feature_map returned {rows.shape[1]} columns, but {len(self.origin_)} for the reference; it must "
                "always return the same number."
            )
        return rows - self.origin_

    def state_to_plain(self) -> dict[str, Any]:
        """Return the learned state without the reference, as nested dicts of arrays and numbers."""
        return {
            "row_map": map_to_plain(self.row_map_),
            "direction": self.direction_,
            "n_rounds": self.n_rounds_,
            "state": {} if self.state_ is None else to_plain(self.state_),
        }

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Restore the state that ``state_to_plain`` returned, on the same validated reference."""
        self._start_with(map_from_plain(plain["row_map"], self.feature_map, X), plain["direction"], X)
        if plain["state"]:
            self._take_state(plain["state"])
        self.n_rounds_ = plain["n_rounds"]

    def _check_parameters(self) -> None:
        require_number_or("width", self.width, "median", "cv")
        require_integer("max_centers", self.max_centers, at_least=1)
        require_number("max_ratio", self.max_ratio, above=1.0)

    def _candidate_widths(self, n_batch: int) -> tuple[float, ...]:
        """Return the widths to choose from; a batch of one row cannot be cross-validated."""
        if not isinstance(self.width, str):
            return (float(self.width),)
        if self.width == "median" or n_batch < 2:
            return (self.median_width_,)
        return tuple(factor * self.median_width_ for factor in CV_WIDTHS)

    def _select_width(self, n_batch: int, losses: HeldOutLosses) -> float:
        """Return the width with the smallest loss on held-out parts of the batch."""
        widths = self._candidate_widths(n_batch)
        if len(widths) == 1:
            return widths[0]
        of_folds = [losses(kept, held_out, widths) for kept, held_out in folds(n_batch)]
        return widths[int(np.argmin(np.mean(of_folds, axis=0)))]


@dataclass(frozen=True)
class KernelBasis:
    """Gaussian kernels at given centres, shifted where they would vanish on the reference.

    Attributes
    ----------
    centers : array of shape (n_centers, n_columns)
    shifts : array of shape (n_centers,)
        See :func:`accous.core.ratio_problems.largest_exponents`.
    width : float
        sigma.
    """

    centers: FloatArray
    shifts: FloatArray
    width: float

    @classmethod
    def on(cls, distances: FloatArray, centers: FloatArray, width: float) -> KernelBasis:
        """Return the basis for a reference with these squared distances to the centres."""
        return cls(centers, largest_exponents(distances, width), width)

    def of_distances(self, distances: FloatArray) -> FloatArray:
        """Return the kernels for squared distances to the centres."""
        return gaussian_basis(distances, self.width, self.shifts)

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Return the kernels of rows, (n_rows, n_centers)."""
        return self.of_distances(squared_distances(rows, self.centers))


@dataclass(frozen=True)
class MixtureState:
    """A ratio that is a sum of kernels with non-negative coefficients.

    Attributes
    ----------
    basis : KernelBasis
    coefs : array of shape (n_centers,)
    ridge : float
        Penalty of the fit; 0 if the method has none.
    reference_ratio : array of shape (n_reference,)
        Computed from the others, so it is not saved.
    """

    basis: KernelBasis
    coefs: FloatArray
    ridge: float
    reference_ratio: FloatArray = field(compare=False)


class MixtureRatio(KernelRatio):
    """A ratio that is a sum of kernels centred at rows of the batch."""

    @abstractmethod
    def _fit_coefs(self, distances: FloatArray, batch: FloatArray, centers: FloatArray) -> MixtureState:
        """Estimate the ratio; ``distances`` are squared distances from the reference to the centres."""

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, clipped at ``max_ratio``."""
        return np.ones(len(self.rows_)) if self.state_ is None else self.state_.reference_ratio.copy()

    @property
    def width_(self) -> float:
        """Kernel width of the last batch; before the first batch, the width by the median rule."""
        return self.median_width_ if self.state_ is None else self.state_.basis.width

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of the kernels."""
        return np.empty(0) if self.state_ is None else self.state_.coefs.copy()

    @property
    def centers_(self) -> FloatArray:
        """Centres of the kernels, as mapped rows."""
        return self.rows_[:0] + self.origin_ if self.state_ is None else self.state_.basis.centers + self.origin_

    def _forget(self) -> None:
        self.state_ = None

    def _estimate(self, batch: FloatArray) -> None:
        centers = self._choose_centers(batch)
        distances = squared_distances(self.rows_, centers, self.row_norms_)
        self.state_ = self._fit_coefs(distances, batch, centers)

    def _choose_centers(self, batch: FloatArray) -> FloatArray:
        return batch[spread_indices(batch, int(self.max_centers), self.direction_)]

    def _evaluate(self, rows: FloatArray) -> FloatArray:
        state = self.state_
        if state is None:
            return np.ones(len(rows))
        return self._combine(state.basis(rows), state.coefs)

    def _combine(self, kernels: FloatArray, coefs: FloatArray) -> FloatArray:
        return np.minimum(kernels @ coefs, float(self.max_ratio))

    def _take_state(self, plain: dict[str, Any]) -> None:
        basis = from_plain(KernelBasis, plain["basis"])
        ratios = self._combine(basis(self.rows_), plain["coefs"])
        self.state_ = from_plain(MixtureState, plain | {"reference_ratio": ratios})


def folds(n_rows: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Split two or more rows into up to five pairs of indices: the kept rows and the held-out ones."""
    fold_of_row = np.arange(n_rows) % min(_N_FOLDS, n_rows)
    for fold in range(fold_of_row.max() + 1):
        yield np.flatnonzero(fold_of_row != fold), np.flatnonzero(fold_of_row == fold)


# --- The kernel matrix of the reference: the full matrix if it is small, otherwise its Nystroem approximation


_MAX_DENSE_ROWS = 2000
_SMALLEST_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class KernelMatrix:
    """The kernel matrix K of the reference, and its extension to other rows.

    Attributes
    ----------
    matrix : DenseMatrix or FactoredMatrix
    centers : array of shape (n_centers, n_columns)
        All reference rows for a dense matrix, or the chosen ones for a factored matrix.
    normalization : array of shape (n_centers, n_factors) or None
        Maps kernels at the centres to rows of the factor.
    width : float
    """

    matrix: DenseMatrix | FactoredMatrix
    centers: FloatArray
    normalization: FloatArray | None
    width: float

    def cross(self, rows: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the sum over the reference of weight times kernel, for every row."""
        kernels = _kernels(rows, self.centers, self.width)
        if isinstance(self.matrix, DenseMatrix) or self.normalization is None:
            return np.asarray(kernels @ weights)
        return np.asarray(kernels @ (self.normalization @ (weights @ self.matrix.factor)))


def make_kernel_matrix(rows: FloatArray, width: float, max_centers: int, direction: FloatArray) -> KernelMatrix:
    """Return the kernel matrix of the rows; it is exact for up to 2000 rows."""
    if len(rows) <= _MAX_DENSE_ROWS:
        return KernelMatrix(DenseMatrix(_kernels(rows, rows, width)), rows, None, width)
    centers = rows[spread_indices(rows, max_centers, direction)]
    eigenvalues, eigenvectors = eigh(_kernels(centers, centers, width))
    is_used = eigenvalues > _SMALLEST_EIGENVALUE * eigenvalues[-1]
    normalization = eigenvectors[:, is_used] / np.sqrt(eigenvalues[is_used])
    factor = _kernels(rows, centers, width) @ normalization
    return KernelMatrix(FactoredMatrix(factor), centers, normalization, width)


def _kernels(rows: FloatArray, centers: FloatArray, width: float) -> FloatArray:
    return gaussian_basis(squared_distances(rows, centers), width, np.zeros(len(centers)))


# --- KLIEP: the ratio with the highest likelihood under the batch


@dataclass(eq=False, repr=False, kw_only=True)
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

    __module__ = "accous"

    tol: float = 1e-8

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


# --- KMM: kernel mean matching, a quadratic program solved to a stated tolerance


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


@dataclass(eq=False, repr=False, kw_only=True)
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

    __module__ = "accous"

    ridge: float | str = "auto"
    mass_tolerance: float | str = 0.0
    tol: float = 1e-6

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
        if isinstance(self.ridge, bool) or self.ridge != 0:
            require_number_or("ridge", self.ridge, "auto")
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


# --- LogisticRatio: the ratio from a logistic regression of one batch against the reference


@dataclass(frozen=True, slots=True)
class RegressionState:
    """Theta of the last batch."""

    n_rounds: int
    coef: FloatArray


@dataclass(eq=False, repr=False, kw_only=True)
class LogisticRatio(RatioEstimator):
    r"""Density ratio from a penalised logistic regression of one batch against the reference ("LR" in the paper).

    .. math::
        r(x) = \exp(-\phi(x)^\top\theta), \qquad \theta = \arg\min \; L_t(\theta) + \frac{\lambda}{2 N_t}
        \|\theta_{1..d}\|^2

    where :math:`L_t` is the observed loss of the round. In it, reference and batch have equal weight, and the intercept
    has no penalty. Every round solves the regression to convergence. ``partial_fit`` replaces the batch, and the same
    batch always gives the same bits, regardless of earlier batches.

    Parameters
    ----------
    feature_map : {"standardize", "auto", "identity", "rbf"} or transformer, default="standardize"
        phi before the intercept; fitted on the reference.
    ridge : float, default=1.0
        lambda: a batch of N_t rows counts N_t times as much as the penalty.
    feature_bound : float, optional
        Rows of mapped features longer than this are shortened to it. None uses the 99 % quantile of the norms of the
        reference.
    max_steps : int, default=50
        Maximum number of Newton steps; five are usually enough.
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.
    random_state : int, RandomState or None, default=None
        Seed of the ``"rbf"`` map.

    Attributes
    ----------
    coef_ : array of shape (n_columns + 1,)
        theta, with the intercept last; zeros before the first batch.
    reference_ratio_ : array of shape (n_reference,)
        Ratio of the reference rows under the last batch; ones before the first.
    n_rounds_ : int
    feature_bound_ : float
    n_features_in_, feature_names_in_
        Width and column names of the reference.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import LogisticRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = LogisticRatio().fit(rng.normal(size=(500, 1))).partial_fit(rng.normal(loc=1.0, size=(500, 1)))
    >>> bool(np.all(np.diff(ratio.predict_ratio([[-1.0], [0.0], [1.0]])) > 0.0))
    True
    """

    __module__ = "accous"

    feature_map: Any = field(default="standardize", kw_only=False)
    ridge: float = 1.0
    feature_bound: float | None = None
    max_steps: int = 50
    max_ratio: float = 100.0
    random_state: Any = None

    @property
    def coef_(self) -> FloatArray:
        """Theta of the last batch."""
        return self.state_.coef.copy()

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        return self.state_.n_rounds

    @property
    def feature_bound_(self) -> float:
        """Rows of mapped features longer than this are shortened to it."""
        return self.features_.bound

    @property
    def reference_ratio_(self) -> FloatArray:
        """Current ratio of every reference row, clipped at ``max_ratio``."""
        with one_blas_thread():
            return self._ratio_of_features(self.reference_features_)

    def _start(self, X: Any) -> None:
        require_number("ridge", self.ridge)
        require_integer("max_steps", self.max_steps, at_least=1)
        require_number("max_ratio", self.max_ratio, above=1.0)
        require_number_or("feature_bound", self.feature_bound, None)
        self._start_with(fit_map(self.feature_map, X, self.random_state), X)

    def _start_with(self, row_map: RowMap, X: Any) -> None:
        self.features_, self.reference_features_ = fit_features(
            row_map,
            X,
            fit_intercept=True,
            is_intercept_bounded=False,
            feature_bound=self.feature_bound,
            scale_features=False,
        )
        n_columns = self.reference_features_.shape[1]
        self.wide_reference_ = make_wide_reference(self.reference_features_) if is_wide(n_columns) else None
        self.state_ = RegressionState(0, np.zeros(n_columns))

    def _run_round(self, X: Any) -> None:
        batch, _ = self.features_.transform(X)
        self.state_ = RegressionState(self.state_.n_rounds + 1, self._regress(batch))

    def _regress(self, batch: FloatArray) -> FloatArray:
        # Departs from the paper: it takes Newton steps on the current batch without saying how many.
        ridge, max_steps = float(self.ridge) / len(batch), int(self.max_steps)
        if self.wide_reference_ is not None:
            return fit_wide_ratio_regression(self.wide_reference_, batch, ridge, max_steps)
        # Start from zero, not from the last solution: a difference below the tolerance would remain in the ratio.
        return fit_ratio_regression(self.reference_features_, batch, ridge, np.zeros(batch.shape[1]), max_steps)

    def _ratio(self, X: Any) -> FloatArray:
        with one_blas_thread():
            return self._ratio_of_features(self.features_.transform(X)[0])

    def _ratio_of_features(self, features: FloatArray) -> FloatArray:
        return Logistic().ratio(features @ self.state_.coef, float(self.max_ratio))

    def state_to_plain(self) -> dict[str, Any]:
        """Return everything learned besides the reference, as nested dicts of arrays and numbers."""
        return {"row_map": map_to_plain(self.features_.row_map), **to_plain(self.state_)}

    def state_from_plain(self, plain: dict[str, Any], X: Any) -> None:
        """Take over what ``state_to_plain`` gave, on the same validated reference."""
        state = {name: part for name, part in plain.items() if name != "row_map"}
        self._start_with(map_from_plain(plain["row_map"], self.feature_map, X), X)
        self.state_ = from_plain(RegressionState, state)


# --- ULSIF: least-squares importance fitting in closed form


DEFAULT_RIDGE = 0.1
CV_RIDGES = (0.1, 0.3, 0.03, 1.0, 0.01, 3.0, 0.001, 10.0)

_LEAVE_ONE_OUT_ROWS = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class LeastSquaresRatio(MixtureRatio):
    """What ULSIF and RULSIF share: the closed form, and leave-one-out selection of width and ridge."""

    ridge: float | str = DEFAULT_RIDGE

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
        require_number_or("ridge", self.ridge, "cv")


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

    __module__ = "accous"


# --- RULSIF: the relative ratio, bounded by construction


@dataclass(eq=False, repr=False, kw_only=True)
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

    __module__ = "accous"

    alpha: float = 0.1

    def _share_of_batch(self) -> float:
        return float(self.alpha)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number_in("alpha", self.alpha, 0.0, 0.99)
