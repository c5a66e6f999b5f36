"""Predictions for rows of the reference that a fit has not seen, and how two predictors are combined by them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.model.backtest import CUTS
from accous.model.tasks import Task

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
    """Return which rows are fitted on and which are predicted.

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


def answers_of(predictor: Any, rows: Any, classes: NDArray[Any] | None) -> FloatArray:
    """Return numbers, or probabilities with a column for each of the classes, also for those it has not seen."""
    if classes is None:
        return np.asarray(predictor.predict(rows), dtype=np.float64)
    found = np.zeros((len(rows), len(classes)))
    if hasattr(predictor, "predict_proba"):
        found[:, np.searchsorted(classes, predictor.classes_)] = predictor.predict_proba(rows)
    else:
        found[np.arange(len(rows)), np.searchsorted(classes, predictor.predict(rows))] = 1.0
    return found


Answer = Callable[[IntArray, IntArray], tuple[FloatArray, ...]]
"""Fits each predictor on some rows and returns what each answers for others, as `answers_of`."""


def hold_out(split: Split, answer: Answer) -> tuple[FloatArray, ...]:
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


# --- Two predictors together: the weight of each by its held-out predictions, and calibrated probabilities


# With fewer rows, trees have too few for their leaves, and held-out rows say little.
FEWEST_ROWS_OF_TREES = 500
SHARES = np.linspace(0.0, 1.0, 21)
"""Weights of the trees that are tried."""
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
    truths = task.strata[rows] if task.kind == "classifier" else task.truths[rows]
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
    """Return the share of the least loss if the same predictor is ahead in every block of rows, otherwise a half."""
    ends = losses[0] - losses[-1]
    leads = [float(weights[block == each] @ ends[block == each]) for each in np.unique(block)]
    if min(leads) <= 0.0 <= max(leads):
        return 0.5
    return float(SHARES[int((losses @ weights).argmin())])


def _choose_temperature(probabilities: FloatArray, truths: IntArray, weights: FloatArray) -> float:
    """Return the temperature of the least log loss, held near 1 where few rows speak."""
    found = []
    for temperature in _TEMPERATURES:
        loss = float(_losses(tempered(probabilities, float(temperature)), truths) @ weights) / float(weights.mean())
        found.append(loss + _ROWS_FOR_ONE * float(np.log(temperature)) ** 2)
    return float(_TEMPERATURES[int(np.argmin(found))])
