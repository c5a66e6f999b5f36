"""Methods of other authors that weight no reference by an online ratio: double weighting, T3A, LAME, a sliding window.

T3A and LAME change a fitted linear classifier on features that stay as they are, without labels and without a ratio.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize, nnls
from scipy.special import logsumexp, softmax

from accous.arrays import FloatArray, IntArray
from accous.core.ratio_problems import median_distance, squared_distances
from accous.model.predictors import LinearPredictor, LogisticErm
from accous.ratio.base import RatioEstimator
from accous.ratio.one_step import LogisticRatio
from accous.text import require_integer

__all__ = ["LAME", "T3A", "DoubleWeighting", "FrozenClassifier", "WindowRatio", "with_scores"]


def with_scores(coefs: FloatArray, classes: NDArray[Any]) -> LinearPredictor:
    """Return a predictor of the class with the highest score; one row of coefficients per class, intercepts last."""
    return LinearPredictor(coefs[1:] - coefs[:1] if len(classes) == 2 else coefs, classes)


class WindowRatio(RatioEstimator):
    """Logistic regression of the latest rows against the reference: what one would do without the paper.

    Parameters
    ----------
    n_rows : int, default=100
        How many of the latest rows count, over as many batches as that takes.
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.
    """

    ratio_: LogisticRatio
    rows_: FloatArray
    n_rounds_: int

    def __init__(self, n_rows: int = 100, *, max_ratio: float = 100.0) -> None:
        self.n_rows = n_rows
        self.max_ratio = max_ratio

    @property
    def reference_ratio_(self) -> FloatArray:
        """Ratio of every reference row under the latest rows; ones before the first batch."""
        return self.ratio_.reference_ratio_

    def _start(self, X: Any) -> None:
        require_integer("n_rows", self.n_rows, at_least=1)
        self.ratio_ = LogisticRatio(max_ratio=self.max_ratio).fit(X)
        self.rows_, self.n_rounds_ = np.empty((0, np.shape(X)[1])), 0

    def _run_round(self, X: Any) -> None:
        self.rows_ = np.concatenate((self.rows_, X))[-int(self.n_rows) :]
        self.ratio_ = copy(self.ratio_).partial_fit(self.rows_)
        self.n_rounds_ += 1

    def _ratio(self, X: Any) -> FloatArray:
        return self.ratio_.predict_ratio(X)


class FrozenClassifier:
    """A linear classifier fitted on the reference once; subclasses change its answers, never its features."""

    classes_: NDArray[Any]
    erm_: LogisticErm
    labels_: IntArray
    coefs_: FloatArray  # one row per class, the intercept last

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.endswith("_"))
        return f"{type(self).__name__}({settings})"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the regression of the benchmark on the unweighted reference."""
        self.classes_, self.labels_ = np.unique(y, return_inverse=True)
        self.erm_ = LogisticErm(np.ascontiguousarray(X, dtype=np.float64), self.labels_, self.classes_, 1.0)
        self.fixed_ = self.erm_.fit(np.ones(len(self.labels_)), None)
        coefs = self.fixed_.coefs
        self.coefs_ = np.concatenate((-coefs / 2, coefs / 2)) if len(self.classes_) == 2 else coefs
        self._start(np.asarray(X, dtype=np.float64))
        return self

    def _start(self, X: FloatArray) -> None:
        """Prepare for the first round."""

    def adapt(self, X: Any) -> None:
        """Learn from an unlabelled batch."""

    @property
    def estimator_(self) -> LinearPredictor:
        """The linear classifier in use."""
        return with_scores(self.coefs_, self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class of each row."""
        return self.estimator_.predict(X)


def _unit(rows: FloatArray) -> FloatArray:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


class T3A(FrozenClassifier):
    """Test-time template adjuster (Iwasawa and Matsuo, NeurIPS 2021).

    Every row joins the supports of the class that the fitted classifier gives it, as a unit vector. A class is
    represented by the sum of its most confident supports, scaled to norm 1, and a row gets the class with the largest
    product. The first support of a class is its row of coefficients; there are no intercepts.

    Parameters
    ----------
    n_supports : int, default=100
        M, the supports with the lowest entropy that a class keeps.
    """

    def __init__(self, n_supports: int = 100) -> None:
        self.n_supports = n_supports

    def _start(self, X: FloatArray) -> None:
        self.fitted_coefs_ = self.coefs_
        n_classes, n_columns = self.coefs_.shape
        self.supports_ = [np.empty((0, n_columns - 1)) for _ in range(n_classes)]
        self.entropies_ = [np.empty(0) for _ in range(n_classes)]
        self.adapt(self.coefs_[:, :-1])

    def adapt(self, X: Any) -> None:
        """Add the rows to the supports of their classes."""
        probabilities = softmax(X @ self.fitted_coefs_[:, :-1].T + self.fitted_coefs_[:, -1], axis=1)
        entropies = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)
        found = probabilities.argmax(axis=1)
        for number in np.unique(found):
            all_entropies = np.append(self.entropies_[number], entropies[found == number])
            kept = np.argsort(all_entropies, kind="stable")[: self.n_supports]
            rows = np.concatenate((self.supports_[number], _unit(X[found == number])))
            self.supports_[number], self.entropies_[number] = rows[kept], all_entropies[kept]
        templates = _unit(np.array([rows.sum(axis=0) for rows in self.supports_]))
        self.coefs_ = np.concatenate((templates, np.zeros((len(templates), 1))), axis=1)


class LAME(FrozenClassifier):
    r"""Laplacian adjusted maximum likelihood (Boudiaf and others, CVPR 2022): rows of a batch that are close agree.

    With q the fitted classifier's probabilities and W the symmetric affinities of nearest neighbours,

    .. math:: z_i \propto q_i \exp\Big(\sum_j W_{ij} z_j\Big)

    is repeated until it stands still. A prediction depends on the other rows of its batch, so no risk is known, and
    with one row in a batch nothing happens.

    Parameters
    ----------
    n_neighbors : int, default=5
    """

    def __init__(self, n_neighbors: int = 5) -> None:
        self.n_neighbors = n_neighbors

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the rows of a batch together."""
        logs = np.log(np.maximum(self.fixed_.predict_proba(X), 1e-10))
        z, affinities = np.exp(logs), self._affinities(_unit(np.asarray(X, dtype=np.float64)))
        for _ in range(100):
            last, z = z, softmax(logs + affinities @ z, axis=1)
            if np.abs(z - last).max() < 1e-8:
                break
        return np.asarray(self.classes_[z.argmax(axis=1)])

    def _affinities(self, rows: FloatArray) -> FloatArray:
        similarity = rows @ rows.T
        np.fill_diagonal(similarity, -np.inf)
        n_neighbors, affinities = min(self.n_neighbors, len(rows) - 1), np.zeros_like(similarity)
        if n_neighbors:
            nearest = np.argpartition(-similarity, n_neighbors - 1, axis=1)[:, :n_neighbors]
            np.put_along_axis(affinities, nearest, 1.0, axis=1)
        return (affinities + affinities.T) / 2.0


class DoubleWeighting(FrozenClassifier):
    r"""Double weighting of one batch (Segovia-Martín and others, ICML 2023 and TMLR 2025): DW-KMM, then a minimax fit.

    Weights :math:`\beta \ge 0` of the reference rows and :math:`\alpha` of the batch rows minimise the distance of both
    weighted means in the space of a Gaussian kernel, with :math:`0 \le \alpha_i \le 1` and
    :math:`\|\alpha - 1\| \le (1 - 1/\sqrt D) \sqrt{N_t}`. With
    :math:`\tau = \operatorname{mean}_{S_0} \beta \phi(x, y)` and the smallest confidence :math:`\lambda` that labels
    of the batch agree with, the minimax risk classifier for the logarithmic loss minimises

    .. math:: -\tau \cdot \mu + \operatorname*{mean}_{S_t} \log \sum_y \exp(\alpha \phi(x, y) \cdot \mu)
        + \lambda \cdot |\mu| .

    It predicts the class with the largest :math:`\phi(x, y) \cdot \mu`, whatever the row's :math:`\alpha`.

    Parameters
    ----------
    D : float, default=4.0
        As in the authors' code, whose upper bounds on beta and on its mean are out of reach here and left out. The
        width of the kernel is the median distance.
    """

    def __init__(self, D: float = 4.0) -> None:
        self.D = D

    def _start(self, X: FloatArray) -> None:
        self.center_, self.scale_ = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-12)
        self.rows_ = (X - self.center_) / self.scale_
        self.width_ = median_distance(self.rows_)
        values, vectors = np.linalg.eigh(self._kernels(self.rows_))
        kept = values > 1e-4 * values[-1]  # beyond, the least squares would fit rounding errors
        self.factor_ = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
        self.inverse_ = vectors[:, kept].T / np.sqrt(values[kept])[:, None]

    def _kernels(self, rows: FloatArray) -> FloatArray:
        return np.exp(-squared_distances(rows, self.rows_) / (2.0 * self.width_**2))

    def adapt(self, X: Any) -> None:
        """Forget the last batch and learn from this one."""
        batch = (np.asarray(X, dtype=np.float64) - self.center_) / self.scale_
        alpha = self.weigh(batch)
        mapped = np.column_stack((self.rows_, np.ones(len(self.rows_)))) * self.beta_[:, None]
        is_class = self.labels_ == np.arange(len(self.classes_))[:, None]
        tau = is_class @ mapped / len(mapped)
        weighted = np.column_stack((batch, np.ones(len(batch)))) * alpha[:, None]
        mu = fit_minimax(tau, smallest_confidence(tau, weighted), weighted)
        slopes = mu[:, :-1] / self.scale_
        self.coefs_ = np.column_stack((slopes, mu[:, -1] - slopes @ self.center_))

    def weigh(self, batch: FloatArray, n_sweeps: int = 3) -> FloatArray:
        """Find the weights beta of the reference, in turns with the weights alpha of the batch, which are returned."""
        n, t = len(self.rows_), len(batch)
        cross = self._kernels(batch)
        own = np.exp(-squared_distances(batch, batch) / (2.0 * self.width_**2))
        alpha, reach = np.ones(t), (1.0 - self.D**-0.5) * t**0.5
        step = t / max(float(np.linalg.norm(own, 2)), 1e-12)
        for _ in range(n_sweeps):
            # Neither the bound B / sqrt(D) nor the mass, which may differ by nearly 1, is ever reached.
            self.beta_, _ = nnls(self.factor_, self.inverse_ @ (alpha @ cross) * (n / t))
            pull = cross @ self.beta_ / n
            for _ in range(50):
                away = np.maximum(1.0 - (alpha - step * (own @ alpha / t - pull)), 0.0)
                alpha = 1.0 - np.minimum(away * min(1.0, reach / max(float(np.linalg.norm(away)), 1e-12)), 1.0)
        return alpha


def smallest_confidence(tau: FloatArray, weighted: FloatArray) -> FloatArray:
    """Return the least lambda, in sum, for which some labels of the batch have means within lambda of tau."""
    (n_classes, n_columns), t = tau.shape, len(weighted)
    # Unknowns: lambda, then the probability of each class and row, divided by the number of rows.
    means = np.kron(np.eye(n_classes), weighted.T)
    widths = -np.eye(tau.size)
    bounds = np.block([[widths, means], [widths, -means]])
    sums = np.hstack((np.zeros((t, tau.size)), np.tile(np.eye(t), n_classes)))
    cost = np.append(np.ones(tau.size), np.zeros(n_classes * t))
    limits = np.append(tau.ravel(), -tau.ravel()) - 1e-6
    found = linprog(cost, bounds, limits, sums, np.full(t, 1.0 / t), method="highs")
    return np.maximum(found.x[: tau.size], 0.0).reshape(n_classes, n_columns)


def fit_minimax(tau: FloatArray, confidence: FloatArray, weighted: FloatArray) -> FloatArray:
    """Minimise the minimax objective, with mu as the difference of two parts that are not negative."""

    def objective(parts: FloatArray) -> tuple[float, FloatArray]:
        up, down = parts.reshape(2, *tau.shape)
        scores = weighted @ (up - down).T
        slope = softmax(scores, axis=1).T @ weighted / len(weighted) - tau
        value = logsumexp(scores, axis=1).mean() - np.sum(tau * (up - down)) + np.sum(confidence * (up + down))
        return float(value), np.concatenate((slope + confidence, confidence - slope)).ravel()

    found = minimize(
        objective, np.zeros(2 * tau.size), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * 2 * tau.size
    )
    up, down = found.x.reshape(2, *tau.shape)
    mu: FloatArray = up - down
    return mu
