"""The fallback: hold the adaptation back while past batches or the reference's labels are evidence against it.

There are three safeguards, and none needs extra data. A ratio counts only as far as it explained past batches better
than ratio 1: the pool of `accous.OnlineDensityRatio` does that itself, and `accous.core.pool.tempered` does it for
others. Weights that leave few effective rows are shrunk (`accous.classifier.shrinkage`). The veto uses the labels of
the reference: it compares the cross-fitted, weighted errors of the adapted and the fixed predictor, and the guard
(`accous.classifier.guard`) says which of them makes the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.erm import WeightedErm
from accous.classifier.guard import LENIENT, Guard
from accous.classifier.shrinkage import FIRST_STRENGTH
from accous.core.pool.tempered import Tempered, start_tempered
from accous.diagnostics.risk import error_difference
from accous.ratio.base import RatioEstimator

__all__ = [
    "Check",
    "Fallback",
    "FixedModel",
    "Veto",
    "compare",
    "next_veto",
    "start_fallback",
]


class FixedModel:
    """The fixed predictor, which never adapts, and its cross-fitted errors; both are computed on first use."""

    def __init__(self, erm: WeightedErm, weights: FloatArray, labels: IntArray, estimator: Any = None) -> None:
        self._erm, self._weights, self._labels = erm, weights, labels
        self._estimator = estimator
        self._is_wrong: dict[bool, NDArray[np.bool_] | None] = {}

    @cached_property
    def estimator(self) -> Any:
        """The predictor itself."""
        if self._estimator is not None:
            return self._estimator
        with one_blas_thread():
            return self._erm.fit(self._weights, None)

    def is_wrong(self, *, is_quick: bool = False) -> NDArray[np.bool_] | None:
        """Which reference rows are misclassified by a fit without them; None if a class has too few rows."""
        if is_quick not in self._is_wrong:
            predicted = self._erm.cross_fitted(self._weights, self.estimator, is_quick=is_quick)
            self._is_wrong[is_quick] = None if predicted is None else predicted != self._labels
        return self._is_wrong[is_quick]


@dataclass(frozen=True, slots=True)
class Veto:
    """Result of the last comparison of the adapted and the fixed predictor.

    Attributes
    ----------
    is_held : bool
        Whether the fixed predictor makes the predictions.
    excess, standard_error : float
        Weighted error of the adapted predictor minus that of the fixed one, and its standard error; NaN before the
        first comparison.
    n_rounds, n_refits : int
        Round and number of refits at that comparison.
    """

    is_held: bool
    excess: float
    standard_error: float
    n_rounds: int
    n_refits: int


@dataclass(frozen=True, slots=True)
class Check:
    """The last comparison of the adapted and the fixed predictor.

    Attributes
    ----------
    veto : Veto
        What follows from it.
    strength : float
        How far weights are shrunk for a fit; see `accous.classifier.shrinkage`.
    weights : array of shape (n_reference,) or None
        Weights at that time; None before the first comparison, and since a round with nothing to adapt to.
    """

    veto: Veto
    strength: float
    weights: FloatArray | None


@dataclass(frozen=True, slots=True)
class Fallback:
    """The state of all safeguards.

    Attributes
    ----------
    tempered : Tempered
        Holds back a ratio that has no pool of its own.
    share : float
        How far the ratio counts; 0 means that there is nothing to adapt to.
    check : Check
    """

    tempered: Tempered
    share: float
    check: Check

    @property
    def veto(self) -> Veto:
        """Whether the fixed predictor makes the predictions, and why."""
        return self.check.veto


def start_fallback(ratio: RatioEstimator, guard: Guard = LENIENT) -> Fallback:
    """Return the state before the first round: the guard's first veto, and nothing to adapt to yet."""
    veto = Veto(guard.starts_held, float("nan"), float("nan"), 0, 0)
    share = 0.0 if ratio.keeps_record else 1.0
    return Fallback(start_tempered(), share, Check(veto, FIRST_STRENGTH, None))


def compare(
    erm: WeightedErm, fixed: FixedModel, labels: IntArray, weights: FloatArray, fitted: tuple[Any, FloatArray]
) -> tuple[float, float]:
    """Return the weighted error of the adapted minus the fixed predictor, and its standard error; NaN if unknown.

    Parameters
    ----------
    erm : WeightedErm
    fixed : FixedModel
    labels : array of shape (n_reference,)
    weights : array of shape (n_reference,)
        Current importance weights.
    fitted : tuple
        The adapted predictor, and the weights it was fitted with.
    """
    predicted = erm.cross_fitted(fitted[1], fitted[0], is_quick=True)
    is_wrong = fixed.is_wrong(is_quick=True)
    if predicted is None or is_wrong is None:
        return float("nan"), float("nan")
    return error_difference(predicted != labels, is_wrong, weights)


def next_veto(guard: Guard, excess: float, standard_error: float, n_rounds: int, n_refits: int) -> Veto:
    """Hold the adapted predictor back if the guard says so."""
    return Veto(guard.holds(excess, standard_error), excess, standard_error, n_rounds, n_refits)
