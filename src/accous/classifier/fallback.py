"""The fallback: hold the adaptation back while past batches or the reference's labels are evidence against it.

There are three safeguards, and none needs extra data. A ratio counts only as far as it explained past batches better
than ratio 1: the pool of `accous.OnlineDensityRatio` does that itself, and `accous.core.pool` does it for
others. Weights that leave few effective rows are shrunk (`accous.classifier.shrinkage`). The veto uses the labels of
the reference: it compares the cross-fitted, weighted losses of the adapted and the fixed predictor, and the guard
(`accous.classifier.guard`) says which of them makes the predictions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.classifier.erm import WeightedErm
from accous.classifier.guard import LENIENT, Guard
from accous.classifier.shrinkage import FIRST_STRENGTH
from accous.classifier.task import Task
from accous.core import Tempered, start_tempered
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import loss_difference
from accous.ratio.base.base import RatioEstimator
from accous.threads import one_blas_thread

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

    def __init__(
        self,
        erm: WeightedErm,
        weights: FloatArray,
        task: Task,
        estimator: Any = None,
        errors: dict[str, NDArray[Any] | None] | None = None,
    ) -> None:
        self._erm, self._weights, self._task = erm, weights, task
        self._estimator = estimator
        self._errors: dict[str, NDArray[Any] | None] = dict(errors or {})

    @cached_property
    def estimator(self) -> Any:
        """The predictor itself."""
        if self._estimator is not None:
            return self._estimator
        with one_blas_thread():
            return self._erm.fit(self._weights, None)

    def errors(self, *, is_quick: bool = False) -> NDArray[Any] | None:
        """Error of each reference row by a fit without it; None if there are too few rows, or too few of a class."""
        name = "quick" if is_quick else "all"
        if name not in self._errors:
            answers = self._erm.cross_fitted(self._weights, self.estimator, is_quick=is_quick)
            self._errors[name] = None if answers is None else self._task.errors(answers)
        return self._errors[name]

    def scores(self) -> FloatArray | None:
        """Score of each reference row by a fit without it, for sets of classes; None as for the errors."""
        if "scores" not in self._errors:
            self._errors["scores"] = self._task.set_scores(self._erm, self._weights, self.estimator, is_quick=False)
        return self._errors["scores"]

    def prepare(self) -> None:
        """Compute now what reading needs, where it takes fits that are slow."""
        if self._erm.is_slow_to_cross_fit:
            self.errors()
            self.scores()

    @property
    def known_errors(self) -> dict[str, NDArray[Any] | None]:
        """The errors and scores that have been computed so far, for files."""
        return self._errors

    @cached_property
    def scale(self) -> LossScale:
        """The scale of the losses, by those of this predictor."""
        with one_blas_thread():
            errors = self.errors()
        return self._task.scale(None if errors is None else self._task.losses(errors), self._weights)


@dataclass(frozen=True, slots=True)
class Veto:
    """Result of the last comparison of the adapted and the fixed predictor.

    Attributes
    ----------
    is_held : bool
        Whether the fixed predictor makes the predictions.
    excess, standard_error : float
        Weighted loss of the adapted predictor minus that of the fixed one, and its standard error; NaN before the
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
    answers : array of shape (n_reference,), optional
        What the adapted predictor of that time answered for each row when fitted without it. Kept where such fits are
        slow, so that the risk can be read at once.
    scores : array of shape (n_reference,), optional
        Of those fits, for sets of classes.
    """

    veto: Veto
    strength: float
    weights: FloatArray | None
    answers: NDArray[Any] | None = None
    scores: FloatArray | None = None


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


def compare(fixed: FixedModel, task: Task, weights: FloatArray, answers: NDArray[Any] | None) -> tuple[float, float]:
    """Return the weighted loss of the adapted minus the fixed predictor, and its standard error; NaN if unknown.

    Parameters
    ----------
    fixed : FixedModel
    task : Task
    weights : array of shape (n_reference,)
        Current importance weights.
    answers : array of shape (n_reference,) or None
        What the adapted predictor answers for each row when fitted without it, by quick fits; None if unknown.
    """
    errors = fixed.errors(is_quick=True)
    if answers is None or errors is None:
        return float("nan"), float("nan")
    return loss_difference(task.losses(task.errors(answers)), task.losses(errors), weights)


def next_veto(guard: Guard, excess: float, standard_error: float, n_rounds: int, n_refits: int) -> Veto:
    """Hold the adapted predictor back if the guard says so."""
    return Veto(guard.holds(excess, standard_error), excess, standard_error, n_rounds, n_refits)
