r"""Label shift: a stream whose class shares move while P(x | y) stays, and the methods made for it.

All methods share a linear classifier h fitted on the reference, its confusion matrix C from leave-one-out
probabilities, and the black-box estimate of the class shares of a batch (Lipton and others, ICML 2018):

.. math:: \hat q_t \propto \max(w, 0) \, q_0, \qquad C w = \operatorname*{mean}_{S_t} h(x), \qquad
    C_{ij} = \operatorname*{mean}_{S_0} h_i(x) [y = j] .

FTH, ROGD and FLH-FTL track the shares and predict with :math:`h_k(x) q_k / q_{0,k}`: a shift of the intercepts. UOGD
and ATLAS move the classifier itself by gradients of the reference's loss with its classes weighted by
:math:`\hat q_t / q_0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from accous.arrays import FloatArray, IntArray
from accous.exceptions import DataError
from accous.model.predictors import LinearPredictor
from accous.streams import Batch, Shift
from accous_bench.literature import FrozenClassifier, with_scores

__all__ = ["ATLAS", "FLHFTL", "FTH", "ROGD", "UOGD", "LabelShiftStream", "black_box_shares", "onto_simplex"]


@dataclass(frozen=True, eq=False)
class LabelShiftStream:
    """Rows drawn by class, with shares that move between two vectors as alpha moves: the covariates given y stay.

    Attributes
    ----------
    X, y : arrays
        The pool; classes are numbered 0, 1, ... The reference is drawn from it first, with equal shares, and the stream
        draws from the other rows with replacement.
    shift : Shift
    last_shares : tuple of float
        Class shares at alpha = 1; at alpha = 0 they are equal.
    n_rounds, batch_size, n_reference, random_state : int
    """

    X: FloatArray
    y: IntArray
    shift: Shift
    last_shares: tuple[float, ...]
    n_rounds: int
    batch_size: int
    n_reference: int
    random_state: int

    def __repr__(self) -> str:
        return f"LabelShiftStream({self.shift!r}, n_rounds={self.n_rounds}, last_shares={self.last_shares})"

    def __len__(self) -> int:
        return self.n_rounds

    def _generator(self, key: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.random_state, spawn_key=(key,)))

    @cached_property
    def alphas(self) -> FloatArray:
        """Alpha of every round."""
        return self.shift.alphas(self.n_rounds, self._generator(0))

    def shares(self, alpha: float) -> FloatArray:
        """Return the class shares at an alpha."""
        last = np.asarray(self.last_shares)
        return (1.0 - alpha) / len(last) + alpha * last

    @cached_property
    def _rows_by_class(self) -> list[tuple[IntArray, IntArray]]:
        """Rows of the reference and of the stream, for each class."""
        n_classes = len(self.last_shares)
        counts = [len(part) for part in np.array_split(np.arange(self.n_reference), n_classes)]
        orders = [self._generator(1).permutation(np.flatnonzero(self.y == k)) for k in range(n_classes)]
        if any(len(order) <= count for order, count in zip(orders, counts, strict=True)):
            raise DataError(f"A class has too few rows for a reference of {self.n_reference} and a stream.")
        return [(order[:count], order[count:]) for order, count in zip(orders, counts, strict=True)]

    def reference(self) -> tuple[FloatArray, IntArray]:
        """Return the labelled reference."""
        rows = self._generator(2).permutation(np.concatenate([first for first, _ in self._rows_by_class]))
        return self.X[rows], self.y[rows]

    def __iter__(self) -> Iterator[Batch]:
        return self._batches(3)

    def fresh_batches(self) -> Iterator[Batch]:
        """Yield other rows of the same rounds."""
        return self._batches(4)

    def _batches(self, key: int) -> Iterator[Batch]:
        generator = self._generator(key)
        for number, alpha in enumerate(self.alphas, start=1):
            y = generator.choice(len(self.last_shares), self.batch_size, p=self.shares(alpha))
            rows = [generator.choice(self._rows_by_class[k][1]) for k in y]
            yield Batch(X=self.X[rows], y=y, alpha=float(alpha), round=number)

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every reference row: that of its class."""
        return (self.shares(alpha) * len(self.last_shares))[self.reference()[1]]

    def risk(self, model: Any, alpha: float) -> float:
        """Return the error rate of a classifier over all stream rows, with the class shares of an alpha."""
        errors = [np.mean(model.predict(self.X[rows]) != k) for k, (_, rows) in enumerate(self._rows_by_class)]
        return float(self.shares(alpha) @ errors)


# --- what the methods share ---


def onto_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest point whose entries are not negative and sum to 1."""
    descending = np.sort(point)[::-1]
    excess = np.cumsum(descending) - 1.0
    last = np.flatnonzero(descending * np.arange(1, len(point) + 1) > excess)[-1]
    return np.maximum(point - excess[last] / (last + 1), 0.0)


def black_box_shares(confusion: FloatArray, first: FloatArray, mean_probabilities: FloatArray) -> FloatArray:
    """Estimate the class shares of a batch from the mean of its predicted probabilities."""
    weights = np.linalg.lstsq(confusion, mean_probabilities, rcond=1e-8)[0]
    shares = np.maximum(weights, 0.0) * first
    return shares / shares.sum() if shares.sum() > 0.0 else first


class _Tracker(FrozenClassifier):
    """Tracks the class shares q; the classifier's intercepts move by log(q / q_0).

    Parameters
    ----------
    horizon : int
        T, which the authors' step sizes depend on.
    """

    first_: FloatArray
    shares_: FloatArray
    confusion_: FloatArray
    held_out_: FloatArray

    def __init__(self, horizon: int = 10_000) -> None:
        self.horizon = horizon

    def _start(self, X: FloatArray) -> None:
        is_class = self.labels_[:, None] == np.arange(len(self.classes_))
        held_out = self.erm_.cross_fitted_probabilities(np.ones(len(X)), self.fixed_)
        if held_out is None:
            raise DataError("Label shift needs at least two rows of every class.")
        self.held_out_, self.confusion_ = held_out, held_out.T @ is_class / len(X)
        self.first_ = self.shares_ = is_class.mean(axis=0)
        self._prepare(X, is_class)

    def _prepare(self, X: FloatArray, is_class: NDArray[np.bool_]) -> None:
        """Set the step sizes."""

    def adapt(self, X: Any) -> None:
        """Estimate the shares of a batch, and learn from them."""
        mean = self.fixed_.predict_proba(np.asarray(X, dtype=np.float64)).mean(axis=0)
        self._learn(black_box_shares(self.confusion_, self.first_, mean))

    def _learn(self, shares: FloatArray) -> None:
        raise NotImplementedError

    @property
    def estimator_(self) -> LinearPredictor:
        """The classifier with its intercepts moved to the tracked shares."""
        coefs = self.coefs_.copy()
        coefs[:, -1] += np.log(np.maximum(self.shares_, 1e-12) / self.first_)
        return with_scores(coefs, self.classes_)


class FTH(_Tracker):
    """Follow the history (Wu and others, NeurIPS 2021): the mean of all estimates so far."""

    n_rounds_ = 0

    def _learn(self, shares: FloatArray) -> None:
        self.n_rounds_ += 1
        before = self.shares_ if self.n_rounds_ > 1 else 0.0
        self.shares_ = before + (shares - before) / self.n_rounds_


class KnownShares(_Tracker):
    """A bound: the classifier with its intercepts at the true shares of the round."""

    def adapt_to(self, ratio: FloatArray) -> None:
        """Take the shares from the true ratios of the reference rows, which are those of their classes."""
        self.shares_ = np.bincount(self.labels_, ratio) / len(ratio)


class ROGD(_Tracker):
    r"""Online gradient descent on the shares, over the simplex (Wu and others, NeurIPS 2021).

    The loss of shares p is :math:`\sum_k \hat q_k (1 - \operatorname{mean}_{y = k} f_k(x; p))` with the reweighted
    probabilities f, a smooth form of the error; the step is :math:`\sqrt{2 / T} / L`, with L the largest gradient over
    30 random p and all one-class batches.
    """

    def _prepare(self, X: FloatArray, is_class: NDArray[np.bool_]) -> None:
        self.own_ = [self.held_out_[is_class[:, k]] for k in range(len(self.classes_))]
        one_class = [black_box_shares(self.confusion_, self.first_, unit) for unit in np.eye(len(self.classes_))]
        points = np.random.default_rng(0).dirichlet(np.ones(len(self.classes_)), 30)
        steepest = max(np.linalg.norm(self.slope(p, shares)) for p in points for shares in one_class)
        self.step_ = (2.0 / self.horizon) ** 0.5 / steepest

    def slope(self, p: FloatArray, shares: FloatArray) -> FloatArray:
        """Return the gradient of the loss at p, with classes weighted by the shares."""
        gradient = np.zeros(len(p))
        for k, rows in enumerate(self.own_):
            weights = 1.0 / self.first_
            sums = np.maximum(rows @ (p * weights), 1e-12)
            each = -(p[k] * rows[:, k] * weights[k] / sums**2)[:, None] * (rows * weights)
            each[:, k] += rows[:, k] * weights[k] / sums
            gradient -= shares[k] * each.mean(axis=0)
        return gradient

    def _learn(self, shares: FloatArray) -> None:
        self.shares_ = onto_simplex(self.shares_ - self.step_ * self.slope(self.shares_, shares))


class FLHFTL(_Tracker):
    r"""Follow the leading history over means (Baby and others, NeurIPS 2023): an expert starts in every round.

    Expert j is the mean of the estimates since round j. After an estimate :math:`\hat q`, weights are multiplied by
    :math:`\exp(-\|e_j - \hat q\|^2 / K)` and normalised; the new expert then gets 1 / (t + 1) of the whole.
    """

    def _prepare(self, X: FloatArray, is_class: NDArray[np.bool_]) -> None:
        self.sums_, self.log_weights_ = np.zeros((0, len(self.classes_))), np.zeros(0)

    def _learn(self, shares: FloatArray) -> None:
        ages = np.arange(len(self.sums_), 0, -1)[:, None]
        if len(self.sums_):
            losses = np.sum((self.sums_ / ages - shares) ** 2, axis=1)
            self.log_weights_ = log_softmax(self.log_weights_ - losses / len(shares))
        born = len(self.sums_) + 1
        self.log_weights_ = np.append(self.log_weights_ + np.log1p(-1.0 / born) if born > 1 else [], -np.log(born))
        self.sums_ = np.concatenate((self.sums_ + shares, shares[None]))
        self.shares_ = np.exp(self.log_weights_) @ (self.sums_ / np.arange(len(self.sums_), 0, -1)[:, None])


class UOGD(_Tracker):
    r"""Unbiased online gradient descent on the classifier (Bai and others, NeurIPS 2022).

    A step goes against the gradient of :math:`\sum_k \hat q_k \operatorname{mean}_{y = k} \ell(x, k)`, and back into
    the ball whose radius :math:`\Gamma` is the norm of the fitted classifier; its size is
    :math:`2 \Gamma / (G \sqrt T)`, with G the largest gradient of the fitted classifier on one class.
    """

    def _prepare(self, X: FloatArray, is_class: NDArray[np.bool_]) -> None:
        self.rows_, self.is_class_ = np.column_stack((X, np.ones(len(X)))), is_class
        self.reach_ = float(np.linalg.norm(self.coefs_))
        slopes = [self.loss(self.coefs_, shares)[1] for shares in np.eye(len(self.classes_))]
        self.steepest_ = max(float(np.linalg.norm(slope)) for slope in slopes)
        self.step_ = 2.0 * self.reach_ / (self.steepest_ * self.horizon**0.5)

    def loss(self, coefs: FloatArray, shares: FloatArray) -> tuple[float, FloatArray]:
        """Return the reference's loss with its classes weighted to these shares, and its gradient."""
        weights = (shares / self.first_)[self.labels_] / len(self.labels_)
        logs = log_softmax(self.rows_ @ coefs.T, axis=1)
        slope = ((np.exp(logs) - self.is_class_) * weights[:, None]).T @ self.rows_
        return float(-weights @ logs[np.arange(len(logs)), self.labels_]), slope

    def step(self, coefs: FloatArray, slope: FloatArray, size: float) -> FloatArray:
        """Return the coefficients after a step, back in the ball."""
        moved = coefs - size * slope
        return moved * min(1.0, self.reach_ / float(np.linalg.norm(moved)))

    def _learn(self, shares: FloatArray) -> None:
        self.coefs_ = self.step(self.coefs_, self.loss(self.coefs_, shares)[1], self.step_)

    @property
    def estimator_(self) -> LinearPredictor:
        """The classifier itself: its intercepts are learned too."""
        return with_scores(self.coefs_, self.classes_)


class ATLAS(UOGD):
    r"""A pool of UOGD learners with doubling steps, mixed by exponential weights (Bai and others, NeurIPS 2022).

    :math:`N = 1 + \lceil \tfrac12 \log_2(1 + 2T) \rceil` learners have the steps
    :math:`2^i \, \Gamma \sigma / (G \sqrt{K T})`, with :math:`\sigma` the confusion matrix' smallest singular value.
    The mixture weighs each by :math:`\exp(-\varepsilon \sum_t \hat R_t)` with :math:`\varepsilon = 2 \sqrt{\ln N / T}`.
    """

    def _prepare(self, X: FloatArray, is_class: NDArray[np.bool_]) -> None:
        super()._prepare(X, is_class)
        n_learners = 1 + int(np.ceil(np.log2(1.0 + 2.0 * self.horizon) / 2.0))
        smallest = float(np.linalg.svd(self.confusion_, compute_uv=False)[-1])
        unit = self.reach_ * smallest / (self.steepest_ * (len(self.classes_) * self.horizon) ** 0.5)
        self.steps_ = unit * 2.0 ** np.arange(n_learners)
        self.learners_ = np.repeat(self.coefs_[None], n_learners, axis=0)
        self.losses_, self.rate_ = np.zeros(n_learners), 2.0 * (np.log(n_learners) / self.horizon) ** 0.5

    def _learn(self, shares: FloatArray) -> None:
        for place, size in enumerate(self.steps_):
            value, slope = self.loss(self.learners_[place], shares)
            self.losses_[place] += value
            self.learners_[place] = self.step(self.learners_[place], slope, size)
        self.coefs_ = np.tensordot(softmax(-self.rate_ * self.losses_), self.learners_, axes=1)
