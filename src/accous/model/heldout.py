"""Predictions for rows of the reference that a fit has not seen, and how two predictors are combined by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from accous.arrays import FloatArray, IntArray, from_plain, to_plain
from accous.diagnostics.coverage import MIN_ROWS
from accous.diagnostics.drift import ComparedReference
from accous.diagnostics.metrics import Metric, decide, one_hot, read_metric
from accous.diagnostics.performance import (
    Calibration,
    ClassCalibration,
    NumberCalibration,
    PredictedRows,
    gaps,
    of_constant,
    windows_of,
)
from accous.diagnostics.status import StateHistory, tolerance_of
from accous.exceptions import ParameterError
from accous.model.backtest import CUTS, Backtest, ReferenceParts, Verification
from accous.model.order import Order
from accous.model.tasks import Task
from accous.model.watching import ReferenceCover
from accous.text import require_number
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows

# --- Which rows are held out, and what is predicted for them


N_FOLDS = 5

Split = list[tuple[IntArray, IntArray]]
"""Rows to fit on and rows to predict, for each fit."""


@dataclass(frozen=True)
class HeldOut:
    """Predictions for rows of the reference, each from a fit without it.

    Attributes
    ----------
    rows : array of shape (n_predicted,)
        Rows of the reference, in the order of their predictions.
    block : array of shape (n_predicted,)
        Which fit predicted each row.
    n_before : tuple of int
        Rows that each fit had.
    is_in_time : bool
        Whether every row was predicted from earlier ones.
    predicted : array of shape (n_predicted,)
        Numbers of classes, or numbers.
    probabilities : array of shape (n_predicted, n_classes), optional
        None for numbers to predict, and for an estimator that has none.
    """

    rows: IntArray
    block: IntArray
    n_before: tuple[int, ...]
    is_in_time: bool
    predicted: NDArray[Any]
    probabilities: FloatArray | None


def split_rows(strata: IntArray, order: IntArray | None, seed: int = 0) -> Split:
    """Return which rows are fitted on and which are predicted; nothing if there are fewer rows than folds.

    Parameters
    ----------
    strata : array of shape (n_rows,)
        Groups that every random fold holds in the same shares.
    order : array of shape (n_rows,), optional
        The rows in order of time: the first 40, 60 and 80 % predict the next 20 %. None makes five random folds.
    seed : int
        For the random folds.
    """
    n_rows = len(strata)
    if n_rows < N_FOLDS:
        return []
    if order is not None:
        ends = [round(cut * n_rows) for cut in (*CUTS, 1.0)]
        found = [(order[:start], order[start:end]) for start, end in pairwise(ends)]
    else:
        fold = _folds(strata, seed)
        found = [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in range(N_FOLDS)]
    return [(rows, rest) for rows, rest in found if len(rows) and len(rest)]


def _folds(strata: IntArray, seed: int) -> IntArray:
    """Distribute the rows of each group over the folds, in random order."""
    folds = np.empty(len(strata), dtype=np.int64)
    random, n_dealt = np.random.default_rng(seed), 0
    for group in np.unique(strata):
        rows = random.permutation(np.flatnonzero(strata == group))
        folds[rows] = (n_dealt + np.arange(len(rows))) % N_FOLDS
        n_dealt += len(rows)
    return folds


def answers_of(predictor: Any, rows: Any, classes: NDArray[Any] | None, *, has_scores: bool = True) -> FloatArray:
    """Return numbers, or probabilities with a column for each of the classes.

    There is one also for a class that the predictor does not know, and none for one that only the predictor knows.
    """
    n_rows = count_rows(rows)
    with one_openmp_thread_if_few(n_rows):
        if classes is None:
            return np.asarray(predictor.predict(rows), dtype=np.float64)
        found = np.zeros((n_rows, len(classes)))
        if has_scores and hasattr(predictor, "predict_proba"):
            shares = np.asarray(predictor.predict_proba(rows), dtype=np.float64)
            if np.array_equal(predictor.classes_, classes):
                return np.ascontiguousarray(shares)
            is_known = np.isin(predictor.classes_, classes)
            found[:, np.searchsorted(classes, predictor.classes_[is_known])] = shares[:, is_known]
        else:
            predicted = np.asarray(predictor.predict(rows))
            known = np.flatnonzero(np.isin(predicted, classes))
            found[known, np.searchsorted(classes, predicted[known])] = 1.0
    return found


FitAndAnswer = Callable[[IntArray, IntArray], tuple[FloatArray, ...]]
"""Fits each predictor on some rows and returns what each answers for others, as `answers_of`."""


def hold_out(split: Split, answer: FitAndAnswer) -> tuple[FloatArray, ...]:
    """Return what each predictor answers for all held-out rows, in the order of the split."""
    found = [answer(rows, rest) for rows, rest in split]
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def held_out_of(split: Split, answers: FloatArray, *, is_in_time: bool) -> HeldOut:
    """Return the held-out predictions of one predictor, or of several together."""
    sizes = [len(rest) for _, rest in split]
    has_classes = answers.ndim == 2
    return HeldOut(
        rows=np.concatenate([rest for _, rest in split]),
        block=np.repeat(np.arange(len(split)), sizes),
        n_before=tuple(len(rows) for rows, _ in split),
        is_in_time=is_in_time,
        predicted=answers.argmax(axis=1) if has_classes else answers,
        probabilities=answers if has_classes else None,
    )


# --- What is measured


@dataclass(frozen=True, eq=False)
class Measures:
    """By what a model is judged.

    Attributes
    ----------
    metric : Metric
        The model's own.
    classes : list or None
        None where numbers are predicted.
    costs : array of shape (n_classes, n_classes) or None
    threshold : float or None
        Of two classes, the probability from which on the second counts as predicted; None takes the more probable one.
    tolerance : float or None
        More loss than at fit that is still healthy; None is `accous.diagnostics.status.tolerance_of`.
    has_scores : bool
        Whether the predictor has probabilities.
    """

    metric: Metric
    classes: list[Any] | None
    costs: FloatArray | None = None
    threshold: float | None = None
    tolerance: float | None = None
    has_scores: bool = True

    def read(self, name: str | None) -> Metric:
        """Return the metric of a name, or the model's own."""
        metric = self.metric if name is None else read_metric(name, self.classes, costs=self.costs)
        if metric.is_of_scores and not self.has_scores:
            raise ParameterError(f"The metric {metric.name} needs an estimator with predict_proba.")
        return metric

    def tolerated(self, metric: Metric, at_fit: float, scale: float) -> float:
        """Return how much more loss than at fit is healthy; ``scale`` is what a bias is compared with."""
        is_own = metric is self.metric and self.tolerance is not None
        return float(self.tolerance) if is_own else tolerance_of(metric, at_fit, scale)  # type: ignore[arg-type]

    def made_by(self, predictor: Any, rows: Any) -> PredictedRows:
        """Return what a predictor says of rows."""
        classes = None if self.classes is None else np.array(self.classes)
        return self.made(answers_of(predictor, rows, classes, has_scores=self.has_scores))

    def made(self, answers: FloatArray) -> PredictedRows:
        """Return predictions of numbers, or of probabilities."""
        return PredictedRows(answers) if answers.ndim == 1 else PredictedRows(decide(answers, self.threshold), answers)


def read_measures(
    task: Task,
    metric: str | None,
    *,
    cost: Any = None,
    threshold: float | None = None,
    tolerance: float | None = None,
    has_scores: bool = True,
) -> Measures:
    """Read the parameters of a model that say how it is judged."""
    classes = task.classes.tolist() if task.has_classes else None
    name = ("mean_absolute_error" if classes is None else "error") if metric is None else metric
    if not isinstance(name, str):
        raise ParameterError(f"metric must be the name of a metric or None, got {metric!r}.")
    if threshold is not None:
        require_number("threshold", threshold, at_most=1.0)
        if classes is None or len(classes) != 2:
            raise ParameterError("threshold is for two classes.")
    if tolerance is not None:
        require_number("tolerance", tolerance)
    costs = None if cost is None else np.asarray(cost, dtype=np.float64)
    own = read_metric(name, classes, costs=costs)
    found = Measures(own, classes, costs, threshold, tolerance, has_scores)
    found.read(None)
    return found


# --- What held-out predictions tell of a reference: calibration, the value at fit, and windows of its history


_FEWEST_HELD_OUT = 10


class HeldOutReference:
    """Held-out predictions of a reference and what they tell the performance engine, each computed on first use.

    Parameters
    ----------
    parts : ReferenceParts
        How a predictor is fitted on a part of the rows.
    order : array of shape (n_rows,), optional
        The rows in order of time.
    measures : Measures
        By what the model is judged.
    known : HeldOut, optional
        The predictions, if they have been made.
    """

    def __init__(
        self, parts: ReferenceParts, order: IntArray | None, measures: Measures, known: HeldOut | None = None
    ) -> None:
        self._parts, self._order, self._measures = parts, order, measures
        self._histories: dict[str, StateHistory] = {}
        if known is not None:
            vars(self)["predictions"] = known

    @property
    def known(self) -> HeldOut | None:
        """The predictions if they have been made."""
        return vars(self).get("predictions")

    @cached_property
    def predictions(self) -> HeldOut | None:
        """Predictions for rows by fits without them; None if the reference has too few rows for such fits."""
        parts, classes = self._parts, self._classes
        split = split_rows(parts.task.strata, self._order)

        def answer(rows: IntArray, rest: IntArray) -> tuple[FloatArray, ...]:
            return (answers_of(parts.fit(rows), parts.rows(rest), classes),)

        if not split:
            return None
        try:
            with one_blas_thread():
                (answers,) = hold_out(split, answer)
        except ValueError:
            # The user's estimator could not be fitted on a part.
            return None
        found = held_out_of(split, answers, is_in_time=self._order is not None)
        return found if self._measures.has_scores else replace(found, probabilities=None)

    @property
    def _classes(self) -> NDArray[Any] | None:
        task = self._parts.task
        return task.classes if task.has_classes else None

    @cached_property
    def calibration(self) -> Calibration | None:
        """What held-out rows tell of rows that are predicted so; None if there are too few."""
        held, task = self.predictions, self._parts.task
        if held is None or len(held.rows) < _FEWEST_HELD_OUT:
            return None
        with one_blas_thread():
            if not task.has_classes:
                return NumberCalibration.fit(PredictedRows(held.predicted), task.targets[held.rows], self._window)
            shares = one_hot(held.predicted, len(task.classes)) if held.probabilities is None else held.probabilities
            return ClassCalibration.fit(self._measures.made(shares), task.labels[held.rows], self._window)

    @property
    def _window(self) -> IntArray:
        held = self.predictions
        assert held is not None
        return windows_of(len(held.rows)) if held.is_in_time else held.block

    def prepare(self) -> None:
        """Make the predictions now."""
        self.predictions  # noqa: B018

    def history(self, metric: Metric, cover: ReferenceCover) -> StateHistory:
        """Return what windows of the reference showed by a metric; the cover has the rows as numbers."""
        if metric.name not in self._histories:
            calibration, held = self.calibration, self.predictions
            if calibration is None or held is None:
                return StateHistory(False, np.zeros(0), float("nan"))
            with one_blas_thread():
                drift = self._drift(cover.numbers)
                found, noise = gaps(metric, calibration)
                constant = of_constant(metric, calibration)
                self._histories[metric.name] = StateHistory(held.is_in_time, found, drift, noise, constant)
        return self._histories[metric.name]

    def _drift(self, numbers: FloatArray | None) -> float:
        """Return how far the inputs of windows were at the mean from those that their fit had; NaN if not known."""
        held = self.predictions
        if held is None or not held.is_in_time or self._order is None or numbers is None:
            return float("nan")
        window, found = self._window, []
        for number in range(int(window.max()) + 1):
            inside = np.flatnonzero(window == number)
            if len(inside) >= MIN_ROWS:
                before = self._order[: held.n_before[held.block[inside[0]]]]
                found.append(ComparedReference(numbers[before]).drift_to(numbers[held.rows[inside]]))
        return float(np.mean(found)) if found else float("nan")


# --- Two predictors together: the weight of each by its held-out predictions, and calibrated probabilities


# With fewer rows, trees have too few for their leaves, and held-out rows say little.
FEWEST_ROWS_OF_TREES = 500
SHARES = np.linspace(0.0, 1.0, 21)
"""Weights of the trees that are tried."""
_SURE = 0.95  # that the predictor with the lead is the better one
_TEMPERATURES = np.geomspace(0.5, 4.0, 25)
_SMALLEST = 1e-6  # of a probability: a single sure miss must not decide
# So many rows with a well calibrated answer count on the side of leaving probabilities as they are.
_ROWS_FOR_ONE = 100.0


@dataclass(frozen=True)
class Combination:
    """How a linear predictor and boosted trees predict together.

    Attributes
    ----------
    share : float
        Weight of the trees; that of the linear predictor is the rest.
    temperature : float
        By which logarithms of probabilities are divided: above 1, probabilities become less extreme.
    errors : tuple of float
        Held-out errors of the linear predictor, of the trees and of both together, or mean absolute errors of numbers;
        empty if nothing was held out.
    losses : tuple of float
        Sums of the held-out losses with each of `SHARES`; empty if nothing was held out.
    """

    share: float = 0.5
    temperature: float = 1.0
    errors: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return weights and held-out errors of both, ready for JSON."""
        linear, trees, both = self.errors or (None, None, None)
        return {
            "linear": {"weight": 1.0 - self.share, "error": linear},
            "boosting": {"weight": self.share, "error": trees},
            "together": {"error": both, "temperature": self.temperature},
        }

    def mixed(self, linear: FloatArray, trees: FloatArray) -> FloatArray:
        """Return the answers of both together: numbers, or calibrated probabilities."""
        both = (1.0 - self.share) * linear + self.share * trees
        return both if both.ndim == 1 else tempered(both, self.temperature)


def tempered(probabilities: FloatArray, temperature: float) -> FloatArray:
    """Return probabilities whose logarithms are divided by the temperature; their order stays."""
    if temperature == 1.0:
        return probabilities
    powers = np.power(probabilities, 1.0 / temperature)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def combine(task: Task, split: Split, linear: FloatArray, trees: FloatArray, weights: FloatArray) -> Combination:
    """Choose how two predictors predict together, by what they answered for held-out rows.

    Parameters
    ----------
    task : Task
    split : list
        Which rows were held out.
    linear, trees : array
        As `hold_out` returns them.
    weights : array of shape (n_rows,)
        Base weights of all rows.
    """
    rows = np.concatenate([rest for _, rest in split])
    truths = task.strata[rows] if task.has_classes else task.truths[rows]
    weights = weights[rows]
    if not weights.any():
        return Combination()
    losses = np.stack([_losses((1.0 - share) * linear + share * trees, truths) for share in SHARES])
    share = _choose_share(losses, weights, np.repeat(np.arange(len(split)), [len(rest) for _, rest in split]))
    both = Combination(share).mixed(linear, trees)
    temperature = 1.0 if both.ndim == 1 else _choose_temperature(both, truths, weights)
    errors = (float(np.average(_errors(each, truths), weights=weights)) for each in (linear, trees, both))
    return Combination(share, temperature, tuple(errors), tuple((losses @ weights).tolist()))


def _losses(answers: FloatArray, truths: NDArray[Any]) -> FloatArray:
    """Return log losses of probabilities, or absolute errors of numbers."""
    if answers.ndim == 1:
        return losses_of_truths(answers, truths)
    return losses_of_truths(answers[np.arange(len(truths)), truths], None)


def losses_of_truths(answers: FloatArray, truths: NDArray[Any] | None) -> FloatArray:
    """Return absolute errors of numbers, or, without truths, log losses of the probabilities of the true classes."""
    return -np.log(np.maximum(answers, _SMALLEST)) if truths is None else np.abs(answers - truths)


def _errors(answers: FloatArray, truths: NDArray[Any]) -> FloatArray:
    """Return which classes are wrong, or how far numbers are off."""
    return np.abs(answers - truths) if answers.ndim == 1 else (answers.argmax(axis=1) != truths).astype(np.float64)


def _choose_share(losses: FloatArray, weights: FloatArray, block: IntArray) -> float:
    """Return the share of the least loss if blocks of rows agree which predictor is ahead, otherwise a half.

    They agree if their mean lead differs from zero by Student's t-test, as rows of one block are not independent.
    """
    ends = losses[0] - losses[-1]
    numbers = [each for each in np.unique(block) if weights[block == each].any()]
    leads = np.array([np.average(ends[block == each], weights=weights[block == each]) for each in numbers])
    if len(leads) < 2:
        return 0.5
    least = float(stdtrit(len(leads) - 1, _SURE)) * leads.std(ddof=1) / np.sqrt(len(leads))
    if not abs(leads.mean()) > least:
        return 0.5
    return float(SHARES[int((losses @ weights).argmin())])


def _choose_temperature(probabilities: FloatArray, truths: IntArray, weights: FloatArray) -> float:
    """Return the temperature of the least log loss, held near 1 where few rows speak."""
    found = []
    for temperature in _TEMPERATURES:
        loss = float(_losses(tempered(probabilities, float(temperature)), truths) @ weights) / float(weights.mean())
        found.append(loss + _ROWS_FOR_ONE * float(np.log(temperature)) ** 2)
    return float(_TEMPERATURES[int(np.argmin(found))])


# --- What a fit has found about order and held-out rows, for files


def verification_to_plain(model: Any) -> dict[str, Any]:
    """Return the order in time and the backtest, for files."""
    found = model.verification_
    plain = {
        "order": found.order,
        "found": to_plain(found.found) | {"kind": str(found.found.kind)},
        "backtest": to_plain(found.backtest),
    }
    if model.holding_out_.known is not None:
        plain["held_out"] = to_plain(model.holding_out_.known)
    if model._pair is not None:
        plain["combination"] = to_plain(model.combination_)
    return plain


def verification_from_plain(model: Any, plain: dict[str, Any]) -> None:
    """Undo ``verification_to_plain``."""
    if model._pair is not None:
        model.combination_ = from_plain(Combination, plain["combination"])
    backtest = from_plain(Backtest | None, plain["backtest"])
    model.verification_ = Verification(from_plain(Order, plain["found"]), plain["order"], backtest)
    model.hold_out(from_plain(HeldOut | None, plain.get("held_out")))
