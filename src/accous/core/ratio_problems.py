"""The problems inside one-step ratio estimators: KMM's program, KLIEP's mixture, least squares, logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dposv
from scipy.special import expit

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.exceptions import ParameterError

# --- Convex quadratic programs with a box and bounds on the mass: the problem of kernel mean matching


_MAX_FACTORED = 400
_MAX_CG_STEPS = 500
_CG_ACCURACY = 1e-10
_FEWEST_FREED = 8
_MAX_SOLVES = 1000
_STUCK = 1e-14
_JITTERS = (1e-12, 1e-9, 1e-6)


class Matrix(Protocol):
    """A symmetric positive semi-definite matrix in any storage format."""

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector."""

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``, as a new array."""


@dataclass(frozen=True)
class DenseMatrix:
    """A matrix with all entries stored."""

    values: FloatArray

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector; skips zeros of the vector if there are many."""
        indices = np.flatnonzero(vector)
        if len(indices) < len(vector) // 3:
            return np.asarray(vector[indices] @ self.values[indices])
        # The matrix is symmetric and reading it dominates the time, so read only half. BLAS needs contiguous columns.
        columns = self.values.T if self.values.flags.c_contiguous else self.values
        return np.asarray(dsymv(1.0, columns, vector))

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``."""
        return self.values[indices[:, None], indices]


@dataclass(frozen=True)
class FactoredMatrix:
    """The matrix F F^T, kept as its factor."""

    factor: FloatArray

    def times(self, vector: FloatArray) -> FloatArray:
        """Product with a vector."""
        return np.asarray(self.factor @ (vector @ self.factor))

    def block(self, indices: IntArray) -> FloatArray:
        """Return the rows and columns ``indices``."""
        rows = self.factor[indices]
        return np.asarray(rows @ rows.T)


@dataclass(frozen=True)
class BoxProblem:
    """A problem as in the module's equation.

    Attributes
    ----------
    matrix : Matrix
        K.
    linear : array of shape (n,)
        kappa.
    ridge : float
        lambda.
    upper : float
        B.
    mass : float or None
        M, at most n B; None if any mass is allowed.
    """

    matrix: Matrix
    linear: FloatArray
    ridge: float
    upper: float
    mass: float | None

    def gradient(self, point: FloatArray) -> FloatArray:
        """Gradient of the objective."""
        return self.matrix.times(point) + self.ridge * point - self.linear

    def value(self, point: FloatArray, gradient: FloatArray) -> float:
        """Objective of a point whose gradient is known."""
        return float(0.5 * point @ (gradient - self.linear))

    def violations(self, point: FloatArray, gradient: FloatArray) -> tuple[FloatArray, float]:
        """How much each entry's optimality condition is violated, and the multiplier of the mass.

        At the optimum the gradient equals -nu for entries between the bounds, is at least -nu for entries at 0, and at
        most -nu for entries at B.
        """
        is_low, is_high = point <= 0.0, point >= self.upper
        largest = gradient[~is_low].max(initial=-np.inf)
        smallest = gradient[~is_high].min(initial=np.inf)
        multiplier = 0.0 if self.mass is None else -0.5 * (largest + smallest)
        slopes = gradient + multiplier
        excess = np.where(is_low, -slopes, np.where(is_high, slopes, np.abs(slopes)))
        return np.maximum(excess, 0.0), float(multiplier)


def solve_box_qp(
    problem: BoxProblem, start: FloatArray, tolerance: float, masses: tuple[float, float] | None = None
) -> tuple[FloatArray, float]:
    """Minimise until no optimality condition is violated by more than the tolerance.

    Parameters
    ----------
    problem : BoxProblem
    start : array of shape (n,)
        Any point; it is first projected onto the box and the mass.
    tolerance : float
        In units of the gradient.
    masses : (float, float), optional
        M- and M+; if given, the problem's own mass is ignored.

    Returns
    -------
    point : array of shape (n,)
        Feasible, up to rounding.
    multiplier : float
        nu, the Lagrange multiplier of the mass.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ratio_problems import BoxProblem, DenseMatrix, solve_box_qp
    >>> problem = BoxProblem(DenseMatrix(np.eye(3)), np.array([3.0, 1.0, 0.0]), 0.0, upper=2.0, mass=3.0)
    >>> solve_box_qp(problem, np.ones(3), tolerance=1e-9)[0].round(9)
    array([2., 1., 0.])
    """
    if masses is not None:
        return _solve_in_range(problem, start, tolerance, masses)
    if problem.mass is None:
        point = np.clip(start, 0.0, problem.upper)
    else:
        point = project_onto_mass(start, problem.upper, problem.mass)
    gradient = problem.gradient(point)
    n_solves, is_stuck, value = 0, False, problem.value(point, gradient)
    while True:
        excess, multiplier = problem.violations(point, gradient)
        if excess.max() <= tolerance or n_solves >= _MAX_SOLVES:
            return point, multiplier
        # Entries that are freed together may push each other back to their bounds; the worst pair alone cannot.
        is_free = _worst_pair(problem, point, gradient) if is_stuck else _set_free(problem, point, excess, tolerance)
        while is_free.any() and n_solves < _MAX_SOLVES:
            n_solves += 1
            point, gradient, is_blocked = _move(problem, point, gradient, np.flatnonzero(is_free), tolerance)
            if not is_blocked.any():
                break
            is_free &= ~is_blocked
        after = problem.value(point, gradient)
        is_stuck, value = after >= value - _STUCK * abs(value), after


def _worst_pair(problem: BoxProblem, point: FloatArray, gradient: FloatArray) -> BoolArray:
    """Return the entry with the strongest pull to shrink and the one with the strongest pull to grow."""
    is_free = np.zeros(len(point), dtype=bool)
    is_free[np.argmax(np.where(point > 0.0, gradient, -np.inf))] = True
    is_free[np.argmin(np.where(point < problem.upper, gradient, np.inf))] = True
    return is_free


def _solve_in_range(
    problem: BoxProblem, start: FloatArray, tolerance: float, masses: tuple[float, float]
) -> tuple[FloatArray, float]:
    """Solve with any mass; if the result is outside the range, solve with the mass of the bound it violates."""
    low, high = masses
    if low < high:
        start, _ = solve_box_qp(replace(problem, mass=None), start, tolerance)
        if low <= start.sum() <= high:
            return start, 0.0
    return solve_box_qp(replace(problem, mass=float(np.clip(start.sum(), low, high))), start, tolerance)


def project_onto_mass(point: FloatArray, upper: float, mass: float) -> FloatArray:
    r"""Return the nearest point of the box with the given mass: a common shift, then clipping to the box.

    The mass :math:`\sum_i \min(\max(v_i + s, 0), B)` is piecewise linear in the shift s, with a corner wherever an
    entry enters or leaves the box; the shift lies between two corners.
    """
    # Repeat from there: for entries far outside the box, the first shift has only a few correct digits.
    return _shift_to_mass(_shift_to_mass(point, upper, mass), upper, mass)


def _shift_to_mass(point: FloatArray, upper: float, mass: float) -> FloatArray:
    corners = np.concatenate((-point, upper - point))
    order = np.argsort(corners, kind="stable")
    corners = corners[order]
    slopes = np.cumsum(np.where(order < len(point), 1.0, -1.0))
    masses = np.concatenate(([0.0], np.cumsum(slopes[:-1] * np.diff(corners))))
    after = int(np.clip(np.searchsorted(masses, mass), 1, len(corners) - 1))
    shift = corners[after - 1] + (mass - masses[after - 1]) / max(slopes[after - 1], 1.0)
    return np.clip(point + shift, 0.0, upper)


def _set_free(problem: BoxProblem, point: FloatArray, excess: FloatArray, tolerance: float) -> BoolArray:
    """Return the entries to free: those between the bounds, and those at a bound with the largest violations.

    Without a ridge, fewer entries are freed at a time.
    """
    is_free = (point > 0.0) & (point < problem.upper)
    candidates = np.flatnonzero(~is_free & (excess > 0.5 * tolerance))
    n_free = int(np.count_nonzero(is_free))
    n_wanted = max(_FEWEST_FREED, n_free if problem.ridge > 0.0 else n_free // 2)
    if len(candidates) > n_wanted:
        candidates = candidates[np.argsort(-excess[candidates], kind="stable")[:n_wanted]]
    is_free[candidates] = True
    return is_free


def _move(
    problem: BoxProblem, point: FloatArray, gradient: FloatArray, free: IntArray, tolerance: float
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Move towards the minimum over the free entries; also return which entries a bound has stopped."""
    direction = _direction(problem, gradient, free, tolerance)
    goal = point[free] + direction
    is_beyond = (goal < 0.0) | (goal > problem.upper)
    is_blocked = np.zeros(len(point), dtype=bool)
    if not is_beyond.any():
        moved = point.copy()
        moved[free] = goal
        return moved, problem.gradient(moved), is_blocked
    projected = point.copy()
    if problem.mass is None:
        projected[free] = np.clip(goal, 0.0, problem.upper)
    else:
        projected[free] = project_onto_mass(goal, problem.upper, point[free].sum())
    projected_gradient = problem.gradient(projected)
    if problem.value(projected, projected_gradient) < problem.value(point, gradient):
        is_blocked[free] = (projected[free] <= 0.0) | (projected[free] >= problem.upper)
        return projected, projected_gradient, is_blocked
    # The projected step increased the objective: go straight, up to the first bound.
    bounds = np.where(goal < 0.0, 0.0, problem.upper)
    shares = np.full(len(free), np.inf)
    shares[is_beyond] = (bounds - point[free])[is_beyond] / direction[is_beyond]
    share = shares.min()
    moved = point.copy()
    moved[free] = np.clip(point[free] + share * direction, 0.0, problem.upper)
    stops = shares <= share
    moved[free[stops]] = bounds[stops]
    is_blocked[free[stops]] = True
    return moved, problem.gradient(moved), is_blocked


def _direction(problem: BoxProblem, gradient: FloatArray, free: IntArray, tolerance: float) -> FloatArray:
    """Step to the minimum over the free entries with unchanged mass."""
    if len(free) > _MAX_FACTORED:
        return _direction_by_cg(problem, gradient, free, tolerance)
    system = problem.matrix.block(free)
    diagonal = np.einsum("ii->i", system)  # a view, into an array of our own
    right_sides = np.ones((1 if problem.mass is None else 2, len(free)))
    np.negative(gradient[free], out=right_sides[0])
    scale = float(diagonal.max())
    diagonal += problem.ridge
    for jitter in _JITTERS:
        diagonal += jitter * scale
        # Call LAPACK directly: the usual checks cost more than a small system. The transpose has the order it expects.
        _, solution, info = dposv(system.T, right_sides.T)
        if info:
            continue
        if problem.mass is None:
            return np.asarray(solution[:, 0])
        unconstrained, ones = solution.T
        return np.asarray(unconstrained - ones * (unconstrained.sum() / ones.sum()))
    raise LinAlgError("The kernel matrix is not positive semi-definite.")


def _direction_by_cg(problem: BoxProblem, gradient: FloatArray, free: IntArray, tolerance: float) -> FloatArray:
    """Solve by conjugate gradients on the free entries; with a mass, among steps whose entries sum to 0."""
    has_mass = problem.mass is not None
    embedded = np.zeros(len(gradient))
    step = np.zeros(len(free))
    residual = (gradient[free].mean() if has_mass else 0.0) - gradient[free]
    search = residual.copy()
    square = residual @ residual
    goal = max(_CG_ACCURACY**2 * square, (0.01 * tolerance) ** 2)
    for _ in range(_MAX_CG_STEPS):
        if square <= goal:
            break
        embedded[free] = search
        product = problem.matrix.times(embedded)[free] + problem.ridge * search
        if has_mass:
            product -= product.mean()
        length = square / (search @ product)
        step += length * search
        residual = residual - length * product
        next_square = residual @ residual
        search = residual + (next_square / square) * search
        square = next_square
    return step


# --- Gaussian kernels between rows and centres, without underflow in many dimensions


_LARGEST_UNSHIFTED = 30.0


def squared_distances(rows: FloatArray, centers: FloatArray, row_norms: FloatArray | None = None) -> FloatArray:
    """Return the squared distances of every row to every centre, (n_rows, n_centers).

    They come from one matrix product. Callers centre their rows, so cancellation loses little, but a distance of 0 may
    come out as a rounding error. The array is contiguous along the rows of one centre, because there are many rows and
    few centres.

    Parameters
    ----------
    rows, centers : arrays of shape (n_rows, d) and (n_centers, d)
    row_norms : array of shape (n_rows,), optional
        Squared norms of the rows, if known.
    """
    distances = (-2.0 * centers) @ rows.T
    distances += squared_norms(rows) if row_norms is None else row_norms
    distances += squared_norms(centers)[:, None]
    return np.maximum(distances, 0.0, out=distances).T


def squared_norms(rows: FloatArray) -> FloatArray:
    """Squared norm of every row."""
    return np.asarray(np.einsum("nd,nd->n", rows, rows))


def median_distance(rows: FloatArray) -> float:
    """Return the median distance between two different rows; 1 if more than half of the pairs coincide."""
    distances = squared_distances(rows, rows)[np.triu_indices(len(rows), k=1)]
    # Rows that coincide have distances the size of rounding errors.
    distances[distances <= 1e-13 * squared_norms(rows).max()] = 0.0
    median = math.sqrt(float(np.median(distances))) if distances.size else 0.0
    return median if median > 0.0 else 1.0


def largest_exponents(reference_distances: FloatArray, width: float) -> FloatArray:
    r"""Return how far to shift the exponents of each centre so that its kernel does not vanish on the reference.

    If the nearest reference row of a centre has exponent :math:`m = \min_i \|x_i - c\|^2 / 2\sigma^2` above 30, the
    kernel is widened at its top, :math:`\exp(-\max(0, \|x - c\|^2 / 2\sigma^2 - (m - 30)))`. It keeps its shape on the
    reference, where it would otherwise vanish in floating point. All other centres have shift 0. With a reasonable
    width, that is every centre.

    Parameters
    ----------
    reference_distances : array of shape (n_reference, n_centers)
        Squared distances.
    width : float
        sigma.
    """
    return np.maximum(reference_distances.min(axis=0) * (0.5 / (width * width)) - _LARGEST_UNSHIFTED, 0.0)


def gaussian_basis(distances: FloatArray, width: float, shifts: FloatArray) -> FloatArray:
    """Return kernels from squared distances, with the shift of every centre; see :func:`largest_exponents`."""
    exponents = distances * (0.5 / (width * width))
    if shifts.any():
        exponents = np.maximum(exponents - shifts, 0.0)
    return np.exp(np.negative(exponents, out=exponents), out=exponents)


def spread_indices(rows: FloatArray, n_wanted: int, direction: FloatArray) -> IntArray:
    """Choose rows evenly along a direction; the choice depends on their values, not on their order."""
    if len(rows) <= n_wanted:
        return np.arange(len(rows))
    order = np.argsort(rows @ direction, kind="stable")
    positions = (np.arange(n_wanted) * len(rows) + len(rows) // 2) // n_wanted
    return order[positions]


# --- Weights of a mixture by maximum likelihood, to a certified accuracy: the problem inside KLIEP


_MAX_STEPS = 200
_MAX_HALVINGS = 30


def fit_mixture_weights(likelihoods: FloatArray, tolerance: float) -> FloatArray:
    """Maximise until the gap to the maximum is below the tolerance.

    Parameters
    ----------
    likelihoods : array of shape (..., n_rows, n_components)
        A, non-negative; every row has a positive entry. The scale of a row does not matter. The dimensions in front
        count problems.
    tolerance : float
        In units of the mean log likelihood.

    Returns
    -------
    array of shape (..., n_components)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ratio_problems import fit_mixture_weights
    >>> fit_mixture_weights(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), 1e-12).round(6)
    array([0.333333, 0.666667])
    """
    # Imported on first use: commands compile at their start what is imported by then, and few of them need this.
    from accous.core.kernels_pool import fit_mixtures

    problems = np.ascontiguousarray(likelihoods.reshape(-1, *likelihoods.shape[-2:]))
    n_problems, n_rows, n_components = problems.shape
    weights, gaps = np.empty((n_problems, n_components)), np.empty(n_problems)
    hessian, factor = np.empty((2, n_components, n_components))
    scaled, room = np.empty((n_rows, n_components)), np.empty((6, n_components))
    fit_mixtures(problems, tolerance, scaled, hessian, factor, room, weights, gaps)
    # Written so that a gap that is not a number counts as too large.
    for i in np.flatnonzero(~(gaps <= tolerance)):
        weights[i] = _fit_surely(problems[i], tolerance)
    return weights.reshape(likelihoods.shape[:-2] + likelihoods.shape[-1:])


def _fit_surely(likelihoods: FloatArray, tolerance: float) -> FloatArray:
    """Fit by steps that maximise the quadratic model of the objective over all allowed weights."""
    weights = np.full(likelihoods.shape[1], 1.0 / likelihoods.shape[1])
    for _ in range(_MAX_STEPS):
        mixture = likelihoods @ weights
        scaled = likelihoods / mixture[:, None]
        slopes = scaled.mean(axis=0)
        if slopes.max() - 1.0 <= tolerance:
            break
        direction = _newton_goal(scaled, slopes, weights, tolerance) - weights
        stepped = _search(likelihoods, weights, mixture, direction, float(slopes @ direction))
        # The multiplicative step of the EM algorithm always increases the objective, though slowly.
        weights = weights * slopes if stepped is None else np.maximum(stepped, 0.0)
        weights = weights / weights.sum()
    return weights


def _newton_goal(scaled: FloatArray, slopes: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Maximise the quadratic model of the likelihood at the weights, over all allowed weights."""
    hessian = (scaled.T @ scaled) / len(scaled)
    ridge = 1e-10 * float(hessian.diagonal().max())
    # The Hessian times the weights equals the slopes, so the linear term is twice the slopes.
    problem = BoxProblem(DenseMatrix(hessian), 2.0 * slopes + ridge * weights, ridge, 1.0, 1.0)
    return solve_box_qp(problem, weights, 0.1 * tolerance)[0]


def _search(
    likelihoods: FloatArray, weights: FloatArray, mixture: FloatArray, direction: FloatArray, rise: float
) -> FloatArray | None:
    """Move along the direction until the likelihood rises enough; return None if it does not."""
    value, size = np.log(mixture).mean(), 1.0
    for _ in range(_MAX_HALVINGS):
        trial = weights + size * direction
        trial_mixture = likelihoods @ trial
        if trial_mixture.min() > 0.0 and np.log(trial_mixture).mean() >= value + 1e-4 * size * rise:
            return trial
        size *= 0.5
    return None


# --- Least-squares ratio fitting in closed form: uLSIF and its relative version RuLSIF


_Decomposition = tuple[FloatArray, FloatArray]  # eigenvalues and eigenvectors


def fit_least_squares(reference: FloatArray, batch: FloatArray, ridge: float, alpha: float) -> FloatArray:
    """Return the coefficients a of the ratio.

    Parameters
    ----------
    reference, batch : arrays of shape (n_reference, n_basis) and (n_batch, n_basis)
        Basis functions at the rows of both.
    ridge : float
        lambda.
    alpha : float
        Share of the batch in the denominator, in [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ratio_problems import fit_least_squares
    >>> fit_least_squares(np.array([[1.0], [0.5]]), np.array([[1.0]]), ridge=0.375, alpha=0.0)
    array([1.])
    """
    system = _system(reference, batch, 1.0 - alpha, alpha, ridge)
    # Call LAPACK directly: the usual checks cost many times more than such a small system.
    _, coefs, info = dposv(system, batch.mean(axis=0))
    if info:
        raise ParameterError(f"ridge is too small for these rows, got {ridge!r}: raise it.")
    return np.maximum(coefs, 0.0)


def leave_one_out_losses(reference: FloatArray, batch: FloatArray, ridges: FloatArray, alpha: float) -> FloatArray:
    r"""Return, for every ridge, the loss of every row under the coefficients fitted without it.

    .. math::
        \tfrac{1 - \alpha}{2} \operatorname*{mean}_{i \in S_0} (\psi_i^\top a^{(-i)})^2
        + \operatorname*{mean}_{j \in S_t} \Big[ \tfrac{\alpha}{2} (\psi_j^\top a^{(-j)})^2
        - \psi_j^\top a^{(-j)} \Big]

    Leaving out a row changes H by a matrix of rank one, and a ridge changes only its eigenvalues: one decomposition is
    enough for all rows and ridges. The batch must have two rows or more.

    Parameters
    ----------
    reference, batch, alpha
        As in :func:`fit_least_squares`.
    ridges : array of shape (n_ridges,)

    Returns
    -------
    array of shape (n_ridges,)
    """
    (n_reference, n_batch), total = (len(reference), len(batch)), batch.mean(axis=0)
    share = (1.0 - alpha) / (n_reference - 1)
    system: _Decomposition = np.linalg.eigh(_system(reference, batch, share * n_reference, alpha, 0.0))
    at_reference = _at_each_left_out(system, reference, total[None], share, ridges)
    share = alpha / (n_batch - 1)
    if alpha > 0.0:
        system = np.linalg.eigh(_system(reference, batch, 1.0 - alpha, share * n_batch, 0.0))
    else:  # the two differ by a factor
        system = (system[0] * (1.0 - 1.0 / n_reference), system[1])
    at_batch = _at_each_left_out(system, batch, (n_batch * total - batch) / (n_batch - 1), share, ridges)
    with np.errstate(over="ignore", invalid="ignore"):  # a ridge that is next to nothing: the caller says so
        quadratic = (1.0 - alpha) * np.square(at_reference).mean(axis=1) + alpha * np.square(at_batch).mean(axis=1)
        return np.asarray(0.5 * quadratic - at_batch.mean(axis=1))


def _system(
    reference: FloatArray, batch: FloatArray, reference_share: float, batch_share: float, ridge: float
) -> FloatArray:
    system = (reference_share / len(reference)) * (reference.T @ reference)
    if batch_share > 0.0:
        system += (batch_share / len(batch)) * (batch.T @ batch)
    # The diagonal, every (n + 1)-th entry.
    system.flat[:: len(system) + 1] += ridge
    return system


def _at_each_left_out(
    system: _Decomposition, rows: FloatArray, targets: FloatArray, share: float, ridges: FloatArray
) -> FloatArray:
    r"""Return :math:`\psi_i^\top \max(0, a_i)` with :math:`(M + \lambda I - s \psi_i \psi_i^\top) a_i = h_i`.

    M is given by its eigenvalues and eigenvectors, and s is the share. There is one target h for every row, or one for
    all. The result has shape (n_ridges, n_rows).
    """
    eigenvalues, axes = system
    inverses = 1.0 / (np.maximum(eigenvalues, 0.0) + ridges[:, None])
    # Arrays have shape (n_ridges, n_basis, n_rows or 1) from here on: there are many rows and few functions.
    columns = np.ascontiguousarray(rows.T)
    turned = axes.T @ columns
    weighted_axes = axes * inverses[:, None]
    solved_targets = weighted_axes @ (axes.T @ targets.T)
    if len(targets) == 1:
        overlap = solved_targets[:, :, 0] @ columns
    else:
        overlap = np.einsum("bn,rbn->rn", columns, solved_targets)
    leverage = inverses @ np.square(turned)
    coefs = weighted_axes @ turned
    coefs *= (share * overlap / (1.0 - share * leverage))[:, None]
    coefs += solved_targets
    return np.asarray(np.einsum("bn,rbn->rn", columns, np.maximum(coefs, 0.0, out=coefs)))


# --- Logistic regression of one batch against the reference


MAX_HALVINGS = 40
DECREMENT = 1e-16


def fit_ratio_regression(
    reference: FloatArray, batch: FloatArray, ridge: float, start: FloatArray, max_steps: int
) -> FloatArray:
    """Minimise by Newton's method with step halving.

    Parameters
    ----------
    reference, batch : arrays of shape (n_reference, d + 1) and (n_batch, d + 1)
        Features phi with a constant as the last column.
    ridge : float
        lambda, positive.
    start : array of shape (d + 1,)
    max_steps : int
        The method stops earlier if a step lowers the objective only by rounding.

    Returns
    -------
    array of shape (d + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ratio_problems import fit_ratio_regression
    >>> rows = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> fit_ratio_regression(rows, rows[1:], ridge=0.1, start=np.zeros(2), max_steps=50).round(3)
    array([-0.941,  0.52 ])
    """
    # A tiny penalty for the intercept keeps matrices regular.
    return minimise(reference, batch, np.append(np.full(len(start) - 1, ridge), 1e-10), start, max_steps)


def minimise(
    reference: FloatArray, batch: FloatArray, penalty: FloatArray, start: FloatArray, max_steps: int
) -> FloatArray:
    """Do the same with a penalty for every coefficient."""
    theta, value = start, _objective(reference, batch, penalty, start)
    for _ in range(max_steps):
        gradient, hessian = _derivatives(reference, batch, penalty, theta)
        try:
            direction = cho_solve(cho_factor(hessian), gradient)
        except LinAlgError as error:
            raise ParameterError("ridge is too small for these rows: raise it.") from error
        decrement = float(gradient @ direction)
        size = 1.0
        for _ in range(MAX_HALVINGS):
            trial = theta - size * direction
            trial_value = _objective(reference, batch, penalty, trial)
            if trial_value <= value - 1e-4 * size * decrement:
                break
            size *= 0.5
        else:
            return theta
        theta, value = trial, trial_value
        if decrement <= DECREMENT:
            return theta
    return theta


def _objective(reference: FloatArray, batch: FloatArray, penalty: FloatArray, theta: FloatArray) -> float:
    losses = np.logaddexp(0.0, -reference @ theta).mean() + np.logaddexp(0.0, batch @ theta).mean()
    return float(0.5 * losses + 0.5 * (penalty * theta) @ theta)


def _derivatives(
    reference: FloatArray, batch: FloatArray, penalty: FloatArray, theta: FloatArray
) -> tuple[FloatArray, FloatArray]:
    gradient, hessian = penalty * theta, np.diag(penalty)
    for rows, sign in ((reference, -1.0), (batch, 1.0)):
        probabilities = expit(sign * (rows @ theta))
        share = 0.5 / len(rows)
        gradient = gradient + (sign * share) * (probabilities @ rows)
        hessian = hessian + rows.T @ (rows * (share * probabilities * (1.0 - probabilities))[:, None])
    return gradient, hessian


# --- The regression of ratio_regression.py for many columns: the same Newton steps, without a Hessian


_MAX_SPAN = 8
_START_STEPS = 4
_MAX_BATCH_IN_PRECONDITIONER = 64
_MAX_PRODUCTS = 100
# Factors by which conjugate gradients reduce the decrement: at least, and at most in single precision.
_COARSEST, _FINEST = 1e-2, 1e-10
# Far below its curvature, because it changes the solution if the reference's mean is far from zero.
_INTERCEPT_RIDGE = 1e-15


@dataclass(frozen=True, slots=True)
class WideReference:
    """The reference as every round needs it.

    Attributes
    ----------
    rows : array of shape (n_reference, d + 1)
        Features, centred and in their principal axes, with a constant as the last column.
    mean_squares : array of shape (d + 1,)
        Lambda.
    scales : array of shape (d + 1,)
        Its root; 1 for columns of zeros.
    single_rows : array of shape (n_reference, d + 1)
        Rows divided by scales, in single precision: products that need not be exact take a third of the time.
    centre : array of shape (d,)
    axes : array of shape (d, d)
    """

    rows: FloatArray
    mean_squares: FloatArray
    scales: FloatArray
    single_rows: NDArray[np.float32]
    centre: FloatArray
    axes: FloatArray

    def to_axes(self, batch: FloatArray) -> FloatArray:
        """Return features of other rows in the same axes."""
        return np.concatenate(((batch[:, :-1] - self.centre) @ self.axes, batch[:, -1:]), axis=1)

    def from_axes(self, theta: FloatArray) -> FloatArray:
        """Return theta for the original features; the intercept is not penalised, so centring changes nothing."""
        slopes = self.axes @ theta[:-1]
        return np.append(slopes, theta[-1] - self.centre @ slopes)


def make_wide_reference(reference: FloatArray) -> WideReference:
    """Prepare features with a constant as the last column."""
    centre = reference[:, :-1].mean(axis=0)
    centred = reference[:, :-1] - centre
    axes = np.linalg.eigh(centred.T @ centred).eigenvectors
    rows = np.concatenate((centred @ axes, reference[:, -1:]), axis=1)
    mean_squares = np.square(rows).mean(axis=0)
    scales = np.where(mean_squares > 0.0, np.sqrt(mean_squares), 1.0)
    return WideReference(rows, mean_squares, scales, (rows / scales).astype(np.float32), centre, axes)


def fit_wide_ratio_regression(reference: WideReference, batch: FloatArray, ridge: float, max_steps: int) -> FloatArray:
    """Minimise by Newton's method with step halving, each step by conjugate gradients.

    Parameters
    ----------
    reference : WideReference
    batch : array of shape (n_batch, d + 1)
        Features with a constant as last column.
    ridge : float
        lambda, positive.
    max_steps : int
        The method stops earlier if a step lowers the objective only by rounding.

    Returns
    -------
    array of shape (d + 1,)

    Examples
    --------
    >>> import numpy as np
    >>> from accous.core.ratio_problems import fit_wide_ratio_regression, make_wide_reference
    >>> rows = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> fit_wide_ratio_regression(make_wide_reference(rows), rows[1:], ridge=0.1, max_steps=50).round(3)
    array([-0.941,  0.52 ])
    """
    penalty = np.append(np.full(batch.shape[1] - 1, ridge), _INTERCEPT_RIDGE)
    problem = _Problem(reference, reference.to_axes(batch), penalty)
    point = problem.at(_start(reference, problem.batch, ridge))
    for step in range(max_steps):
        gradient, model = problem.model(point)
        direction = model.solve(gradient)
        if direction is None:
            # If a few rows have all the curvature, M is far from the Hessian: use Newton steps with the full Hessian.
            theta = minimise(reference.rows, problem.batch, penalty, point.theta, max_steps - step)
            return reference.from_axes(theta)
        decrement = float(gradient @ direction)
        if decrement <= DECREMENT:
            # Rounding hides whether this step lowers the objective.
            return reference.from_axes(point.theta - direction)
        lower = problem.search(point, direction, decrement)
        if lower is None:
            break
        point = lower
    return reference.from_axes(point.theta)


def _start(reference: WideReference, batch: FloatArray, ridge: float) -> FloatArray:
    """Return a point near the optimum among the thetas that M gives for a few means of batch rows."""
    means = [part.mean(axis=0) for part in np.array_split(batch[:, :-1], min(len(batch), _MAX_SPAN))]
    # At theta = 0 the curvatures of the reference add up to 1/8.
    directions = np.stack(means, axis=1) / (0.125 * reference.mean_squares[:-1] + ridge)[:, None]
    basis = np.linalg.qr(directions)[0]
    to_span = np.zeros((batch.shape[1], basis.shape[1] + 1))
    to_span[:-1, :-1], to_span[-1, -1] = basis, 1.0
    scaled = reference.scales[:, None] * to_span
    sizes = np.abs(scaled).max(axis=0)
    in_span = (reference.single_rows @ (scaled / sizes).astype(np.float32)) * sizes
    start = np.zeros(to_span.shape[1])
    return to_span @ fit_ratio_regression(in_span, batch @ to_span, ridge, start, _START_STEPS)


@dataclass(frozen=True, slots=True)
class _Point:
    """Theta with the scores of reference and batch, and the objective's value."""

    theta: FloatArray
    reference_scores: FloatArray
    batch_scores: FloatArray
    value: float


@dataclass(frozen=True, slots=True)
class _Problem:
    """The objective of one round, in the principal axes."""

    reference: WideReference
    batch: FloatArray
    penalty: FloatArray

    def at(self, theta: FloatArray) -> _Point:
        return self._point(theta, self.reference.rows @ theta, self.batch @ theta)

    def model(self, point: _Point) -> tuple[FloatArray, _Model]:
        """Return the gradient and the Hessian."""
        gradient, curvatures = self.penalty * point.theta, []
        sides = ((self.reference.rows, point.reference_scores, -1.0), (self.batch, point.batch_scores, 1.0))
        for rows, scores, sign in sides:
            probabilities = expit(sign * scores)
            share = 0.5 / len(rows)
            gradient = gradient + (sign * share) * (probabilities @ rows)
            curvatures.append(share * probabilities * (1.0 - probabilities))
        return gradient, _make_model(self, curvatures[0], curvatures[1])

    def search(self, point: _Point, direction: FloatArray, decrement: float) -> _Point | None:
        """Move against the direction until the objective falls enough; return None if it does not."""
        changes, size = (self.reference.rows @ direction, self.batch @ direction), 1.0
        for _ in range(MAX_HALVINGS):
            trial = self._point(
                point.theta - size * direction,
                point.reference_scores - size * changes[0],
                point.batch_scores - size * changes[1],
            )
            if trial.value <= point.value - 1e-4 * size * decrement:
                return trial
            size *= 0.5
        return None

    def _point(self, theta: FloatArray, reference_scores: FloatArray, batch_scores: FloatArray) -> _Point:
        losses = np.logaddexp(0.0, -reference_scores).mean() + np.logaddexp(0.0, batch_scores).mean()
        value = float(0.5 * losses + 0.5 * (self.penalty * theta) @ theta)
        return _Point(theta, reference_scores, batch_scores, value)


@dataclass(frozen=True, slots=True)
class _Model:
    """The Hessian H as products with it, and M.

    Attributes
    ----------
    reference : WideReference
    curvatures : array of shape (n_reference,)
        Curvatures of the reference rows.
    batch : array of shape (n_batch, d + 1)
        Rows times the roots of their curvatures.
    penalty : array of shape (d + 1,)
    inverses : array of shape (d + 1,)
        Inverses of the diagonal part of M.
    extra : array of shape (n_extra, d + 1)
        The rows in M, times ``inverses``.
    factor : tuple
        Cholesky factor of the small matrix in the inverse of M.
    """

    reference: WideReference
    curvatures: NDArray[np.float32]
    batch: FloatArray
    penalty: FloatArray
    inverses: FloatArray
    extra: FloatArray
    factor: tuple[FloatArray, bool]

    def solve(self, gradient: FloatArray) -> FloatArray | None:
        """Solve H x = gradient by conjugate gradients; return None if this takes too many products."""
        solution, residual = np.zeros(len(gradient)), gradient
        direction = preconditioned = self._precondition(residual)
        size = float(residual @ preconditioned)
        goal = max(size * min(_COARSEST, max(size, _FINEST)), 0.01 * DECREMENT)
        for _ in range(_MAX_PRODUCTS):
            if size <= goal:
                return solution
            product = self._multiply(direction)
            length = size / float(direction @ product)
            solution = solution + length * direction
            residual = residual - length * product
            preconditioned = self._precondition(residual)
            last, size = size, float(residual @ preconditioned)
            direction = preconditioned + (size / last) * direction
        return None

    def _multiply(self, vector: FloatArray) -> FloatArray:
        # Its error slows convergence a little; the gradient, in double precision, determines where it ends.
        scales, rows = self.reference.scales, self.reference.single_rows
        product = scales * ((self.curvatures * (rows @ (scales * vector).astype(np.float32))) @ rows)
        return np.asarray(product + (self.batch @ vector) @ self.batch + self.penalty * vector)

    def _precondition(self, vector: FloatArray) -> FloatArray:
        small = cho_solve(self.factor, self.extra @ vector, check_finite=False)
        return np.asarray(self.inverses * vector - small @ self.extra)


def _make_model(problem: _Problem, reference_curvatures: FloatArray, batch_curvatures: FloatArray) -> _Model:
    batch = problem.batch * np.sqrt(batch_curvatures)[:, None]
    total, in_preconditioner = float(reference_curvatures.sum()), batch
    if len(batch) > _MAX_BATCH_IN_PRECONDITIONER:
        # A batch this large is spread like the reference.
        total, in_preconditioner = total + float(batch_curvatures.sum()), batch[:0]
    inverses = 1.0 / (total * problem.reference.mean_squares + problem.penalty)
    extra = in_preconditioner * inverses
    small = np.eye(len(extra)) + in_preconditioner @ extra.T
    return _Model(
        problem.reference,
        reference_curvatures.astype(np.float32),
        batch,
        problem.penalty,
        inverses,
        extra,
        cho_factor(small, check_finite=False),
    )
