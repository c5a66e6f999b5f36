"""Slow, obvious versions of the paper's algorithms, against which the fast ones are checked.

Plain loops over rows and learners, one matrix solve at a time, nothing shared with the package. "Notes" are
the project's notes on the paper; equations have the names of the paper's source. Rows of `reference` and
`batch` are feature vectors phi(x), already mapped and scaled.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgesv

Array = NDArray[np.float64]
Interval = tuple[int, int]


def log_one_plus_exp(z: float) -> float:
    """log(1 + exp(z)) without overflow."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def sigmoid(z: float) -> float:
    """1 / (1 + exp(-z)) without overflow."""
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    return math.exp(z) / (1.0 + math.exp(z))


def row_mean(term: Callable[[Array], Any], rows: Array) -> Any:
    """Mean of term(phi) over the rows, one by one."""
    total = term(rows[0])
    for phi in rows[1:]:
        total = total + term(phi)
    return total / len(rows)


def logistic_loss(theta: Array, reference: Array, batch: Array) -> float:
    """1/2 (mean_{S_0} log(1 + exp(-phi.theta)) + mean_{S_t} log(1 + exp(phi.theta))): logistic example."""
    of_reference = row_mean(lambda phi: log_one_plus_exp(-float(phi @ theta)), reference)
    of_batch = row_mean(lambda phi: log_one_plus_exp(float(phi @ theta)), batch)
    return float(0.5 * (of_reference + of_batch))


def logistic_gradient(theta: Array, reference: Array, batch: Array) -> Array:
    """1/2 (mean_{S_0} (sigmoid(phi.theta) - 1) phi + mean_{S_t} sigmoid(phi.theta) phi): Notes."""
    of_reference = row_mean(lambda phi: -sigmoid(-float(phi @ theta)) * phi, reference)
    of_batch = row_mean(lambda phi: sigmoid(float(phi @ theta)) * phi, batch)
    return np.asarray(0.5 * (of_reference + of_batch))


def least_squares_loss(theta: Array, reference: Array, batch: Array) -> float:
    """1/2 mean_{S_0} (phi.theta)^2 - mean_{S_t} phi.theta: appendix "other choices", psi_LS."""
    of_reference = row_mean(lambda phi: float(phi @ theta) ** 2, reference)
    of_batch = row_mean(lambda phi: float(phi @ theta), batch)
    return float(0.5 * of_reference - of_batch)


def least_squares_gradient(theta: Array, reference: Array, batch: Array) -> Array:
    """mean_{S_0} (phi.theta) phi - mean_{S_t} phi."""
    of_reference = row_mean(lambda phi: float(phi @ theta) * phi, reference)
    of_batch = row_mean(lambda phi: phi, batch)
    return np.asarray(of_reference - of_batch)


def kl_loss(theta: Array, reference: Array, batch: Array, floor: float = 0.01) -> float:
    """mean_{S_0} phi.theta - mean_{S_t} log(phi.theta), -log a straight line below `floor`: psi_KL."""

    def minus_log(z: float) -> float:
        return -math.log(z) if z >= floor else -math.log(floor) - (z - floor) / floor

    of_reference = row_mean(lambda phi: float(phi @ theta), reference)
    of_batch = row_mean(lambda phi: minus_log(float(phi @ theta)), batch)
    return float(of_reference + of_batch)


def kl_gradient(theta: Array, reference: Array, batch: Array, floor: float = 0.01) -> Array:
    """mean_{S_0} phi - mean_{S_t} phi / max(phi.theta, floor)."""
    of_reference = row_mean(lambda phi: phi, reference)
    of_batch = row_mean(lambda phi: phi / max(float(phi @ theta), floor), batch)
    return np.asarray(of_reference - of_batch)


def gradient(loss: str, theta: Array, reference: Array, batch: Array, kl_floor: float = 0.01) -> Array:
    """Gradient of the loss of that name."""
    if loss == "kl":
        return kl_gradient(theta, reference, batch, kl_floor)
    functions = {"logistic": logistic_gradient, "least_squares": least_squares_gradient}
    return functions[loss](theta, reference, batch)


def neutral_theta(loss: str, n_features: int, neutral: Array | None) -> Array:
    """The theta with ratio 1 everywhere: zeros for the logistic loss, the given vector for the other two."""
    if loss == "logistic":
        return np.zeros(n_features)
    assert neutral is not None
    return np.array(neutral, dtype=np.float64)


def project(nu: Array, A: Array, radius: float) -> tuple[Array, float]:
    """argmin over ||theta|| <= radius of ||theta - nu||_A, and its multiplier mu (Algorithm 1, line 5).

    (A + mu I) theta = A nu with mu >= 0, and ||theta|| = radius where mu > 0. ||theta|| falls as mu grows, so
    mu is bisected until two neighbouring floats enclose it.
    """

    identity, right = np.eye(len(nu)), A @ nu

    def theta_of(mu: float) -> Array:
        # What np.linalg.solve calls: its checks take longer than a small system itself.
        return np.asarray(dgesv(A + mu * identity, right)[2], dtype=np.float64)

    def is_outside(theta: Array) -> bool:
        return math.sqrt(theta @ theta) > radius

    if np.linalg.norm(nu) <= radius:
        return nu.copy(), 0.0
    low, high = 0.0, 1.0
    while is_outside(theta_of(high)):
        low, high = high, 2.0 * high
    while low < (middle := low + (high - low) / 2.0) < high:
        if is_outside(theta_of(middle)):
            low = middle
        else:
            high = middle
    return theta_of(high), high


def newton_step(theta: Array, A: Array, g: Array, step_size: float, radius: float) -> tuple[Array, Array]:
    """theta_{t+1} and A_t = A_{t-1} + g g^T (Algorithm 1, lines 4 and 5)."""
    A = A + np.outer(g, g)
    theta, _ = project(theta - step_size * np.linalg.solve(A, g), A, radius)
    return theta, A


class SlowSingleLearner:
    """One Online Newton Step learner over all history, from the neutral theta at round 1 (Algorithm 1)."""

    def __init__(
        self,
        reference: Array,
        *,
        radius: float,
        step_size: float,
        ridge: float = 1.0,
        loss: str = "logistic",
        neutral: Array | None = None,
        kl_floor: float = 0.01,
    ) -> None:
        self.reference = np.asarray(reference, dtype=np.float64)
        self.radius, self.step_size, self.loss, self.kl_floor = radius, step_size, loss, kl_floor
        self.theta = neutral_theta(loss, self.reference.shape[1], neutral)
        self.A = ridge * np.eye(self.reference.shape[1])
        self.round = 0

    def run(self, batch: Array) -> None:
        """One round; afterwards `theta` is the one of the next round."""
        batch = np.asarray(batch, dtype=np.float64)
        g = gradient(self.loss, self.theta, self.reference, batch, self.kl_floor)
        self.theta, self.A = newton_step(self.theta, self.A, g, self.step_size, self.radius)
        self.round += 1


def cover(horizon: int, min_interval: int) -> list[Interval]:
    """[i 2^k, (i+1) 2^k - 1], i >= 1, start <= horizon, length >= min_interval (eq:geometric-covering)."""
    intervals = []
    k = 0
    while 2**k <= horizon:
        i = 1
        while i * 2**k <= horizon:
            if 2**k >= min_interval:
                intervals.append((i * 2**k, (i + 1) * 2**k - 1))
            i += 1
        k += 1
    return intervals


def active_intervals(t: int, min_interval: int) -> list[Interval]:
    """The intervals of the cover that contain round t, by ascending length."""
    return [(start, end) for start, end in cover(t, min_interval) if start <= t <= end]


@functools.cache
def count_intervals(horizon: int, min_interval: int) -> int:
    """K = |C|, at least 2 (Algorithm 2, line 1; Notes, "Meta-learner")."""
    return max(2, len(cover(horizon, min_interval)))


@dataclass
class Learner:
    """One active interval before round t: theta_{t,i}, A_{t-1,i}, v_{t-1,i}, eps_{t-1,i}, sum of m^2."""

    theta: Array
    A: Array
    v: float
    eps: float
    m_squared_sum: float = 0.0


class PaperAccous:
    """Algorithms 1 and 2. After `run` of round t everything describes round t+1."""

    def __init__(
        self,
        reference: Array,
        *,
        radius: float,
        feature_bound: float,
        step_size: float,
        ridge: float = 1.0,
        horizon: int | None,
        min_interval: int = 4,
        loss: str = "logistic",
        start: str = "zero",
        meta_range: str = "paper",
        neutral: Array | None = None,
        kl_floor: float = 0.01,
        gradient_bound: float | None = None,
    ) -> None:
        assert start in ("zero", "ensemble", "handover")
        assert meta_range in ("paper", "running")
        self.reference = np.asarray(reference, dtype=np.float64)
        self.radius, self.feature_bound, self.gradient_bound = radius, feature_bound, gradient_bound
        self.step_size, self.ridge = step_size, ridge
        self.horizon, self.min_interval = horizon, min_interval
        self.loss, self.kl_floor = loss, kl_floor
        self.start, self.meta_range = start, meta_range
        self.neutral = neutral_theta(loss, self.reference.shape[1], neutral)
        self.learners: dict[Interval, Learner] = {}
        self.largest_gap = 0.0
        self.round = 0
        self._describe()

    def run(self, batch: Array) -> None:
        """One round: Algorithm 2, lines 13 to 15 of round t, then lines 3 to 12 of round t+1."""
        batch = np.asarray(batch, dtype=np.float64)
        t = self.round + 1
        if t == 1:
            self._open(t, self.neutral)  # the one learner [1, 1], where min_interval is 1
            self._describe()

        # Meta-learner: m with the gradient at the ensemble's theta_t, then eps and v
        # (eq:appendix-AdaMLprod-LR-meta, eq:appendix-AdaMLprod-update-meta).
        g = gradient(self.loss, self.theta, self.reference, batch, self.kl_floor)
        gaps = {}
        for interval, learner in self.learners.items():
            gaps[interval] = float(g @ (self.theta - learner.theta))
            self.largest_gap = max(self.largest_gap, abs(gaps[interval]))
        for interval, learner in self.learners.items():
            m = self._normalise(gaps[interval])
            learner.m_squared_sum += m**2
            eps = min(0.5, math.sqrt(math.log(self._n_intervals(t)) / (1.0 + learner.m_squared_sum)))
            factor = 1.0 + learner.eps * m if 1.0 + learner.eps * m > 0.0 else 1e-300
            learner.v = (learner.v * factor) ** (eps / learner.eps)
            learner.eps = eps

        # Base learners: the gradient at their own theta_{t,i}.
        for learner in self.learners.values():
            g = gradient(self.loss, learner.theta, self.reference, batch, self.kl_floor)
            learner.theta, learner.A = newton_step(learner.theta, learner.A, g, self.step_size, self.radius)

        # Round t+1: a new learner's start sees all learners of round t, also those whose interval ended at t.
        start = self.neutral
        all_end = all(interval[1] == t for interval in self.learners)
        if self.learners and (self.start == "ensemble" or (self.start == "handover" and all_end)):
            start = self._mean(self._weights())
        self.learners = {interval: learner for interval, learner in self.learners.items() if interval[1] > t}
        self._open(t + 1, start)
        self.round = t
        self._describe()

    def _n_intervals(self, t: int) -> int:
        """K in round t: up to the given horizon; without one, up to the next power of two less 1."""
        if self.horizon is not None:
            return count_intervals(self.horizon, self.min_interval)
        end = 1
        while end < t:
            end = 2 * end + 1
        return count_intervals(end, self.min_interval)

    def _normalise(self, gap: float) -> float:
        """m_{t,i} from g_t.(theta_t - theta_{t,i})."""
        bound = self._margin_bound()
        if self.meta_range == "running":
            # Gaps below 1e-12 of the bound are rounding: learners that started together are still equal.
            return gap / self.largest_gap if self.largest_gap > 1e-12 * bound else 0.0
        return gap / bound if self.loss == "logistic" else min(1.0, max(-1.0, gap / bound))

    def _margin_bound(self) -> float:
        """S R for the logistic loss, 2 S G for the others."""
        if self.loss == "logistic":
            return self.radius * self.feature_bound
        assert self.gradient_bound is not None
        return 2.0 * self.radius * self.gradient_bound

    def _open(self, t: int, theta: Array) -> None:
        """Create the learners whose interval starts at t (Algorithm 2, line 5)."""
        k = self._n_intervals(t)
        for interval in active_intervals(t, self.min_interval):
            if interval[0] == t:
                eps = min(0.5, math.sqrt(math.log(k)))
                self.learners[interval] = Learner(theta.copy(), self.ridge * np.eye(len(theta)), 1.0 / k, eps)

    def _weights(self) -> dict[Interval, float]:
        """p proportional to eps v over the learners there are (eq:appendix-AdaMLprod-reweight-meta)."""
        total = sum(learner.eps * learner.v for learner in self.learners.values())
        assert total > 0.0 or not self.learners, "the potentials underflowed: too hard for plain floats"
        return {interval: learner.eps * learner.v / total for interval, learner in self.learners.items()}

    def _mean(self, weights: dict[Interval, float]) -> Array:
        """sum_i p_i theta_i (Algorithm 2, line 12)."""
        theta = np.zeros(len(self.neutral))
        for interval, weight in weights.items():
            theta += weight * self.learners[interval].theta
        return theta

    def _describe(self) -> None:
        """Set what is shown of the coming round, learners by ascending length."""
        weights = self._weights()
        shown = sorted(self.learners, key=lambda interval: interval[1] - interval[0])
        self.theta = self._mean(weights) if self.learners else self.neutral.copy()
        self.lengths = np.array([end - start + 1 for start, end in shown], dtype=np.int64)
        self.weights = np.array([weights[interval] for interval in shown], dtype=np.float64)
        self.learner_thetas = np.zeros((len(shown), len(self.neutral)))
        for row, interval in enumerate(shown):
            self.learner_thetas[row] = self.learners[interval].theta


def gaussian_mixture_ratio(x: Array, means: Array, weights_t: Array, weights_0: Array) -> Array:
    """D_t(x) / D_0(x) for mixtures of N(means[j], I) with weights weights_t and weights_0."""

    def log_density(row: Array, weights: Array) -> float:  # up to the normalising constant, which cancels
        terms = []
        for mean, weight in zip(means, weights, strict=True):
            if weight > 0.0:
                terms.append(math.log(weight) - 0.5 * float((row - mean) @ (row - mean)))
        largest = max(terms)
        return largest + math.log(sum(math.exp(term - largest) for term in terms))

    return np.array([math.exp(log_density(row, weights_t) - log_density(row, weights_0)) for row in x])


# --- cheaper matrices: a diagonal, and frequent directions with a dense matrix ----------------------------------


class PlainSketch:
    """Frequent directions with full singular value decompositions; half of each delta goes to the ridge."""

    def __init__(self, ridge: float, d: int, rank: int) -> None:
        self.rank, self.d, self.ridge, self.rows = rank, d, ridge, np.empty((0, d))

    @property
    def dense(self) -> Array:
        """A."""
        A = self.ridge * np.eye(self.d)
        for row in self.rows:
            A = A + np.outer(row, row)
        return A

    def plus(self, gradient: Array) -> Array:
        """Take a gradient in, and return the Newton direction."""
        if len(self.rows) == 2 * self.rank:
            self._shrink()
        self.rows = np.vstack((self.rows, gradient))
        return np.asarray(np.linalg.solve(self.dense, gradient))

    def _shrink(self) -> None:
        _, values, directions = np.linalg.svd(self.rows)
        squares = np.zeros(2 * self.rank)
        squares[: len(values)] = values**2
        delta = squares[self.rank]
        self.rows = np.zeros((self.rank, self.d))
        for i in range(min(self.rank, self.d)):
            self.rows[i] = np.sqrt(max(squares[i] - delta, 0.0)) * directions[i]
        self.ridge += delta / 2.0


def diagonal_step(theta: Array, A: Array, g: Array, step_size: float, radius: float) -> tuple[Array, Array]:
    """`newton_step` with the squares of g on the diagonal of A only, one coordinate at a time."""
    A = A.copy()
    nu = theta.copy()
    for j in range(len(g)):
        A[j, j] += g[j] ** 2
        nu[j] -= step_size * g[j] / A[j, j]
    return project(nu, A, radius)[0], A


def sketched_step_of_rank(rank: int) -> Any:
    """`newton_step` with a sketch for A; a learner's first A is a matrix, lambda I."""

    def step(theta: Array, A: Any, g: Array, step_size: float, radius: float) -> tuple[Array, PlainSketch]:
        sketch = A if isinstance(A, PlainSketch) else PlainSketch(A[0, 0], len(g), rank)
        nu = theta - step_size * sketch.plus(g)
        return project(nu, sketch.dense, radius)[0], sketch

    return step


# --- least squares: uLSIF and RuLSIF --------------------------------------------------------------------------


def slow_coefs(reference: Array, batch: Array, ridge: float, alpha: float) -> Array:
    """(H + lambda I)^-1 h, row by row; negative coefficients are still there."""
    n_basis = reference.shape[1]
    H, h = np.zeros((n_basis, n_basis)), np.zeros(n_basis)
    for psi in reference:
        H += (1.0 - alpha) * np.outer(psi, psi) / len(reference)
    for psi in batch:
        H += alpha * np.outer(psi, psi) / len(batch)
        h += psi / len(batch)
    return np.asarray(np.linalg.solve(H + ridge * np.eye(n_basis), h))


def slow_leave_one_out(reference: Array, batch: Array, ridge: float, alpha: float) -> float:
    """Refit without each row in turn, and ask what the row itself loses."""
    total = 0.0
    for i, psi in enumerate(reference):
        coefs = np.maximum(slow_coefs(np.delete(reference, i, axis=0), batch, ridge, alpha), 0.0)
        total += 0.5 * (1.0 - alpha) * (psi @ coefs) ** 2 / len(reference)
    for j, psi in enumerate(batch):
        coefs = np.maximum(slow_coefs(reference, np.delete(batch, j, axis=0), ridge, alpha), 0.0)
        total += (0.5 * alpha * (psi @ coefs) ** 2 - psi @ coefs) / len(batch)
    return float(total)


# --- the pool: explicit loops, and exact fractions where the kernels use logarithms -----------------------------

SHAPES = [(0.0, 1.0), (0.5, None), (1.0, None), *((tau, cut) for tau in (1.0, 2.0, 4.0) for cut in (3.0, 10.0, 30.0))]
SHARES = [1.0 / 32.0, 1.0 / 128.0, 1.0 / 512.0]
HALF_LIVES = [16.0, 64.0]


def plain_shape(ratio: float, number: int, max_ratio: float) -> float:
    """One shape of a ratio, not divided by its mean."""
    tau, cut = SHAPES[number]
    return min(ratio**tau, max_ratio if cut is None else min(cut, max_ratio))


def plain_means(ratios: Any, max_ratio: float) -> list[float]:
    """Mean of each shape over the reference."""
    return [
        math.fsum(plain_shape(float(ratio), number, max_ratio) for ratio in ratios) / len(ratios)
        for number in range(len(SHAPES))
    ]


def plain_pooled(ratios: Any, max_ratio: float, proportions: Any, other_ratios: Any) -> list[float]:
    """The mixture of all candidates, for each row of the reference."""
    means, pooled = plain_means(ratios, max_ratio), []
    for row, ratio in enumerate(ratios):
        candidates = [plain_shape(float(ratio), number, max_ratio) / means[number] for number in range(len(SHAPES))]
        candidates += [float(of_candidate[row]) for of_candidate in other_ratios]
        pooled.append(math.fsum(q * r for q, r in zip(proportions, candidates, strict=True)))
    return pooled


def plain_candidates(
    ratios: Any, max_ratio: float, means: Any, slot_ratios: Any, factors: Any, given: Any = ()
) -> list[list[float]]:
    """The ratio of any row under each candidate, given the means of the shapes over the reference."""
    candidates = []
    for row, ratio in enumerate(ratios):
        values = [plain_shape(float(ratio), number, max_ratio) / means[number] for number in range(len(SHAPES))]
        for of_slot, factors_of_slot in zip(slot_ratios, factors, strict=True):
            shapes = [plain_shape(float(of_slot[row]), number, max_ratio) for number in range(len(SHAPES))]
            values.append(math.fsum(f * shape for f, shape in zip(factors_of_slot, shapes, strict=True)))
        values += [float(of_candidate[row]) for of_candidate in given]
        candidates.append(values)
    return candidates


def plain_likelihoods(*candidates: Any) -> list[list[float]]:
    """Likelihood of each row of a batch under each of the `plain_candidates`."""
    return [[0.99 * value + 0.01 for value in values] for values in plain_candidates(*candidates)]


def plain_pooled_rows(max_ratio: float, proportions: Any, candidates: list[list[float]]) -> list[float]:
    """The mixture of the `plain_candidates` of each row, cut to what is allowed."""
    mixed = [math.fsum(q * r for q, r in zip(proportions, values, strict=True)) for values in candidates]
    return [min(max(value, 0.0), max_ratio) for value in mixed]


@dataclass
class PlainFilters:
    """The five filters; proportions are computed on request."""

    weights: list[float]
    posteriors: list[list[float]]
    counts: list[list[float]]

    def predictions(self, prior: Any) -> list[list[float]]:
        """What each filter predicts."""
        decayed = []
        for counts in self.counts:
            total = math.fsum(counts) + 1.0
            decayed.append([(n + p) / total for n, p in zip(counts, prior, strict=True)])
        return [*self.posteriors, *decayed]

    def proportions(self, prior: Any) -> list[float]:
        """What all filters together predict."""
        each = self.predictions(prior)
        return [math.fsum(w * q[c] for w, q in zip(self.weights, each, strict=True)) for c in range(len(prior))]

    def after(self, prior: Any, likelihoods: list[list[float]]) -> "PlainFilters":
        """The filters after a batch."""
        predictions = self.predictions(prior)
        evidence = []
        for weight, predicted in zip(self.weights, predictions, strict=True):
            product = Fraction(weight)
            for row in likelihoods:
                product *= sum(Fraction(q) * Fraction(value) for q, value in zip(predicted, row, strict=True))
            evidence.append(product)
        weights = [0.995 * float(each / sum(evidence)) + 0.005 / len(evidence) for each in evidence]
        posteriors = []
        for share, posterior in zip(SHARES, self.posteriors, strict=True):
            products = [Fraction(p) for p in posterior]
            for row in likelihoods:
                products = [product * Fraction(value) for product, value in zip(products, row, strict=True)]
            total = sum(products)
            posteriors.append(
                [(1.0 - share) * float(each / total) + share * p for each, p in zip(products, prior, strict=True)]
            )
        counts = []
        for half_life, before, predicted in zip(HALF_LIVES, self.counts, predictions[len(SHARES) :], strict=True):
            after = [0.5 ** (1.0 / half_life) * n for n in before]
            for row in likelihoods:
                total_of_row = math.fsum(q * value for q, value in zip(predicted, row, strict=True))
                after = [n + q * v / total_of_row for n, q, v in zip(after, predicted, row, strict=True)]
            counts.append(after)
        return PlainFilters(weights, posteriors, counts)


def plain_log_likelihood(proportions: Any, likelihoods: list[list[float]]) -> float:
    """Mean log likelihood of the rows under some proportions."""
    logs = [math.log(math.fsum(q * v for q, v in zip(proportions, row, strict=True))) for row in likelihoods]
    return float(np.mean(logs))
