"""Metrics of predictions as functions of masses: of labelled rows, of expected ones, and of both together.

Each row spreads a mass over what may be true of it. A label puts all of it on one class; calibrated probabilities
spread it; a labelled row that corrects what was expected adds mass to its class and takes what was expected away, so
that a mass may be negative. `Metric.value` is homogeneous of degree 0 in the masses, and `Metric.gradient` is its
derivative by each of them: the influence function, from which every interval follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.exceptions import ParameterError

_COUNTED = ("precision", "recall", "f1")
_RANKED = ("roc_auc", "average_precision")
CLASS_METRICS = ("error", "balanced_error", "log_loss", "brier", *_RANKED, *_COUNTED, "cost")
NUMBER_METRICS = ("mean_absolute_error", "median_absolute_error", "root_mean_squared_error", "bias", "pinball")
_NAMES = {"roc_auc": "AUC", "f1": "F1", "brier": "Brier score", "pinball": "pinball loss"}
_SMALLEST_MASS = 1e-12

# --- What is measured


@dataclass(frozen=True)
class ClassRows:
    """Rows with predicted classes.

    Attributes
    ----------
    predicted : array of shape (n,)
        Numbers of classes; -1 is one that probabilities do not have.
    probabilities : array of shape (n, n_classes)
        The model's own: they rank the rows, and log loss and Brier score judge them.
    mass : array of shape (n, n_classes) or (n, n_classes + 1)
        How much each class counts as the true one; a last column is for classes that probabilities do not have.
    """

    predicted: IntArray
    probabilities: FloatArray
    mass: FloatArray


@dataclass(frozen=True)
class NumberRows:
    """Rows with predicted numbers: predicted minus true values, and how much each counts."""

    residuals: FloatArray
    mass: FloatArray


def one_hot(y: IntArray, n_classes: int) -> FloatArray:
    """Return a mass of 1 on the class of each row; -1 is the last class."""
    return np.eye(n_classes)[y]


def decide(probabilities: FloatArray, threshold: float | None = None) -> IntArray:
    """Return the most probable class of each row, or of two classes the second from a probability on."""
    if threshold is None:
        return probabilities.argmax(axis=1)
    if probabilities.shape[1] != 2:
        raise ParameterError(f"threshold is for two classes, but there are {probabilities.shape[1]}.")
    return (probabilities[:, 1] >= threshold).astype(np.int64)


# --- Names


@dataclass(frozen=True, eq=False)
class Metric:
    """One metric.

    Attributes
    ----------
    name : str
        As the user writes it.
    kind : str
        The name without what follows.
    classes : tuple of int
        Numbers of the classes whose values are averaged; of metrics that count or rank.
    quantile : float
        Of the pinball loss.
    costs : array of shape (n_classes, n_classes) or None
        True classes as rows, predicted ones as columns.

    Examples
    --------
    >>> import numpy as np
    >>> f1 = read_metric("f1", ["no", "yes"])
    >>> probabilities = np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6]])
    >>> rows = ClassRows(decide(probabilities), probabilities, one_hot(np.array([1, 0, 0]), 2))
    >>> round(f1.value(rows), 3), f1.higher_is_better, round(f1.loss(0.75), 3)
    (0.667, True, 0.25)
    """

    name: str
    kind: str
    classes: tuple[int, ...] = ()
    quantile: float = math.nan
    costs: FloatArray | None = None

    @property
    def is_of_numbers(self) -> bool:
        """Whether it measures predicted numbers."""
        return self.kind in NUMBER_METRICS

    @property
    def higher_is_better(self) -> bool:
        """Whether a model is better the larger the value."""
        return self.kind in (*_RANKED, *_COUNTED)

    @property
    def is_of_scores(self) -> bool:
        """Whether probabilities alone make the value, whatever class is predicted."""
        return self.kind in (*_RANKED, "log_loss", "brier")

    @property
    def is_share(self) -> bool:
        """Whether values lie between 0 and 1 and are spoken of in points."""
        return self.higher_is_better or self.kind in ("error", "balanced_error")

    def loss(self, value: float) -> float:
        """Return a number that is smaller the better the model."""
        if self.kind == "bias":
            return abs(value)
        return 1.0 - value if self.higher_is_better else value

    @property
    def in_words(self) -> str:
        """The name for people.

        Examples
        --------
        >>> [read_metric(name, ["no", "yes"]).in_words for name in ("roc_auc", "recall:yes", "f1_macro")]
        ['AUC', 'recall of yes', 'F1, macro average']
        """
        plain = _NAMES.get(self.kind, self.kind.replace("_", " "))
        _, is_of, which = self.name.partition(":")
        if is_of:
            return f"{plain} at {which}" if self.kind == "pinball" else f"{plain} of {which}"
        return f"{plain}, macro average" if self.name.endswith("_macro") else plain

    def shown(self, value: float | None, unit: str = "") -> str:
        """Return a value for people: errors in percent, others with three digits and their unit.

        Examples
        --------
        >>> read_metric("error", ["no", "yes"]).shown(0.1234), read_metric("bias", None).shown(12.345, "minutes")
        ('12.3%', '12.3 minutes')
        """
        if value is None or math.isnan(value):
            return "not defined"
        if self.is_share:
            return f"{value:.3f}" if self.higher_is_better else f"{value:.1%}"
        return f"{value:,.0f} {unit}".rstrip() if abs(value) >= 1000.0 else f"{value:.3g} {unit}".rstrip()

    def between(self, low: float | None, high: float | None, unit: str = "") -> str:
        """Return an interval for people; empty if there is none."""
        if low is None or high is None or math.isnan(low) or math.isnan(high):
            return ""
        return f"{self.shown(low)} to {self.shown(high, unit)}"

    def value(self, rows: ClassRows | NumberRows) -> float:
        """Return the metric; NaN where it is not defined, as AUC of one class."""
        return self._measure(rows)[0]

    def gradient(self, rows: ClassRows | NumberRows) -> FloatArray:
        """Return the derivative by each mass, of the same shape."""
        return self._measure(rows)[1]

    def share_counted(self, rows: ClassRows | NumberRows) -> float:
        """Return the share of the mass that the value counts: what neither is of a class nor predicted so is not.

        AUC compares the class with all others: it counts as if each side had the harmonic mean of their rows.
        """
        if isinstance(rows, NumberRows) or self.kind not in (*_COUNTED, *_RANKED) or len(self.classes) != 1:
            return 1.0
        (number,), total = self.classes, rows.mass.sum()
        is_predicted, of_class = rows.predicted == number, rows.mass[:, number]
        if self.kind == "roc_auc":
            return 4.0 * float(of_class.sum() * (total - of_class.sum()) / total**2) if total > _SMALLEST_MASS else 0.0
        by_row = {
            "precision": is_predicted * rows.mass.sum(axis=1),
            "recall": of_class,
            "average_precision": of_class,
            "f1": np.where(is_predicted, rows.mass.sum(axis=1), of_class),
        }
        return float(by_row[self.kind].sum() / total) if total > _SMALLEST_MASS else 0.0

    def parts(self, rows: ClassRows) -> list[Metric]:
        """Return the metrics of single classes that a mean over counts is made of; nothing for others."""
        kind = "recall" if self.kind == "balanced_error" else self.kind
        if kind not in _COUNTED or len(self.classes) < 2:
            return []
        is_there = "recall" if self.kind == "balanced_error" else "f1"
        singles = [(Metric(is_there, is_there, (each,)), Metric(kind, kind, (each,))) for each in self.classes]
        return [single for present, single in singles if present.share_counted(rows) > 0.0]

    def _measure(self, rows: ClassRows | NumberRows) -> tuple[float, FloatArray]:
        if isinstance(rows, NumberRows):
            return _of_numbers(self.kind, self.quantile, rows)
        if self.kind in _RANKED:
            return _averaged([_RANKINGS[self.kind](rows, each) for each in self.classes])
        if self.kind in _COUNTED or self.kind == "balanced_error":
            return _of_counts(self, rows)
        losses = _class_losses(self, rows)
        return _mean(losses, rows.mass)


def read_metric(name: str, classes: Sequence[Any] | None, *, costs: FloatArray | None = None) -> Metric:
    """Return the metric of a name.

    Parameters
    ----------
    name : str
        One of `CLASS_METRICS` or `NUMBER_METRICS`; precision, recall, F1, AUC and average precision also with
        ``_macro`` or ``:CLASS``, pinball with ``:QUANTILE``.
    classes : sequence or None
        The labels of the classes in order; None where numbers are predicted.
    costs : array of shape (n_classes, n_classes) or None
        For ``"cost"``.

    Raises
    ------
    ParameterError
        If there is no such metric; it names those that there are.
    """
    stem, _, detail = name.partition(":")
    kind = stem.removesuffix("_macro")
    if classes is None:
        return _number_metric(name, stem, detail)
    is_per_class = kind in (*_COUNTED, *_RANKED)
    if kind not in CLASS_METRICS or ((stem != kind or detail) and not is_per_class):
        raise _unknown(name, CLASS_METRICS)
    if kind == "cost":
        return Metric(name, kind, costs=_read_costs(costs, len(classes)))
    return Metric(name, kind, _averaged_classes(name, kind, stem != kind, detail, [str(each) for each in classes]))


def _averaged_classes(name: str, kind: str, is_macro: bool, detail: str, labels: list[str]) -> tuple[int, ...]:
    if detail:
        if is_macro or detail not in labels:
            raise ParameterError(f"metric is {name!r}, but the classes are {', '.join(labels)}.")
        return (labels.index(detail),)
    if is_macro or (kind in _RANKED and len(labels) > 2) or kind not in (*_COUNTED, *_RANKED):
        return tuple(range(len(labels)))
    if len(labels) > 2:
        message = f"metric is {name!r}, but there are {len(labels)} classes: use {kind}_macro or {kind}:CLASS."
        raise ParameterError(message)
    return (1,)


def _number_metric(name: str, stem: str, detail: str) -> Metric:
    if stem not in NUMBER_METRICS or bool(detail) != (stem == "pinball"):
        raise _unknown(name, NUMBER_METRICS)
    if not detail:
        return Metric(name, stem)
    try:
        quantile = float(detail)
    except ValueError:
        quantile = math.nan
    if not 0.0 < quantile < 1.0:
        raise ParameterError(f"The quantile of the pinball loss must be above 0 and below 1, got {detail!r}.")
    return Metric(name, stem, quantile=quantile)


def _read_costs(costs: FloatArray | None, n_classes: int) -> FloatArray:
    if costs is None:
        raise ParameterError(
            "metric is 'cost', but there are no costs: true classes as rows, predicted ones as columns."
        )
    costs = np.asarray(costs, dtype=np.float64)
    if costs.shape != (n_classes, n_classes) or not np.isfinite(costs).all():
        raise ParameterError(f"costs must be numbers of shape ({n_classes}, {n_classes}), got shape {costs.shape}.")
    return costs


def _unknown(name: str, known: tuple[str, ...]) -> ParameterError:
    forms = [f"{each}, {each}_macro, {each}:CLASS" if each in (*_COUNTED, *_RANKED) else each for each in known]
    listed = ", ".join(forms).replace("pinball", "pinball:QUANTILE")
    return ParameterError(f"There is no metric {name!r} for this task. Known: {listed}.")


# --- Means of losses


def _mean(losses: FloatArray, mass: FloatArray) -> tuple[float, FloatArray]:
    total = mass.sum()
    if total <= _SMALLEST_MASS:
        return math.nan, np.zeros_like(mass)
    value = float((mass * losses).sum() / total)
    return value, (losses - value) / total


def _class_losses(metric: Metric, rows: ClassRows) -> FloatArray:
    """Return the loss of each row for each class as the true one."""
    n_classes, n_more = rows.mass.shape[1], rows.mass.shape[1] - rows.probabilities.shape[1]
    if metric.kind == "error":
        return 1.0 - one_hot(rows.predicted, n_classes)
    if metric.kind == "cost":
        assert metric.costs is not None
        # What is neither in the rows nor in the columns of the costs is as bad as the worst of them.
        return np.pad(metric.costs, (0, n_more), constant_values=metric.costs.max()).T[rows.predicted]
    shares = np.pad(rows.probabilities, ((0, 0), (0, n_more)))
    if metric.kind == "log_loss":
        smallest = float(np.finfo(np.float64).eps)
        return -np.log(np.clip(shares, smallest, 1.0 - smallest))
    squares = np.square(shares).sum(axis=1, keepdims=True) - 2.0 * shares + 1.0
    # scikit-learn counts both classes of two once, and each of several.
    return 0.5 * squares if n_classes - n_more == 2 else squares


# --- Counts of predicted against true classes


def _of_counts(metric: Metric, rows: ClassRows) -> tuple[float, FloatArray]:
    n_classes = rows.mass.shape[1]
    counts = rows.mass.T @ one_hot(rows.predicted, n_classes)
    kind = "recall" if metric.kind == "balanced_error" else metric.kind
    found, n_known = [], rows.probabilities.shape[1]
    # What is expected in less than half a row does not occur.
    fewest = max(_SMALLEST_MASS, 0.5 * rows.mass.sum() / max(1, len(rows.mass)))
    more = range(n_known, n_classes) if len(metric.classes) == n_known else ()
    for each in (*metric.classes, *more):
        n_true, n_predicted = counts[each].sum(), counts[:, each].sum()
        is_absent = n_true <= fewest and (n_predicted <= fewest or metric.kind == "balanced_error")
        if not is_absent or len(metric.classes) == 1:
            found.append(_of_one_class(kind, counts, each))
    value, by_count = _averaged(found)
    if metric.kind == "balanced_error":
        value, by_count = 1.0 - value, -by_count
    return value, by_count[:, rows.predicted].T


def _of_one_class(kind: str, counts: FloatArray, number: int) -> tuple[float, FloatArray]:
    """Return a ratio of counts for one class, and its derivative by the table of counts."""
    hits, true, predicted = np.zeros_like(counts), np.zeros_like(counts), np.zeros_like(counts)
    hits[number, number] = true[number] = predicted[:, number] = 1.0
    above, below = {"precision": (hits, predicted), "recall": (hits, true), "f1": (2.0 * hits, true + predicted)}[kind]
    n_below = float((below * counts).sum())
    if n_below <= _SMALLEST_MASS:
        return 0.0, np.zeros_like(counts)
    value = float((above * counts).sum()) / n_below
    return value, (above - value * below) / n_below


def _averaged(found: list[tuple[float, FloatArray]]) -> tuple[float, FloatArray]:
    if not found:
        return math.nan, np.zeros((0, 0))
    return float(np.mean([value for value, _ in found])), np.mean([slope for _, slope in found], axis=0)


# --- Orders of rows by the probability of a class


def _roc_auc(rows: ClassRows, number: int) -> tuple[float, FloatArray]:
    """Return the share of pairs in the right order; a tie counts half."""
    _, group = np.unique(rows.probabilities[:, number], return_inverse=True)
    positive, negative = _two_sides(rows, number)
    n_positive, n_negative = positive.sum(), negative.sum()
    if n_positive <= _SMALLEST_MASS or n_negative <= _SMALLEST_MASS:
        return math.nan, np.zeros_like(rows.mass)
    below = _shares_below(group, negative) / n_negative
    above = 1.0 - _shares_below(group, positive) / n_positive
    value = float((positive * below).sum() / n_positive)
    return value, _by_side(rows, number, (below - value) / n_positive, (above - value) / n_negative)


def _average_precision(rows: ClassRows, number: int) -> tuple[float, FloatArray]:
    """Return the mean over positive rows of the precision among rows at least as probable."""
    _, group = np.unique(-rows.probabilities[:, number], return_inverse=True)
    positive, negative = _two_sides(rows, number)
    n_positive = positive.sum()
    if n_positive <= _SMALLEST_MASS:
        return math.nan, np.zeros_like(rows.mass)
    in_group = np.bincount(group, positive)
    hits, n_rows = np.cumsum(in_group), np.cumsum(np.bincount(group, positive + negative))
    precision = np.clip(hits / np.maximum(n_rows, _SMALLEST_MASS), 0.0, 1.0)
    value = float((in_group * precision).sum() / n_positive)
    # A row takes part in the precision of all groups from its own on.
    share = in_group / np.maximum(n_rows, _SMALLEST_MASS)
    of_hits = np.cumsum(share[::-1])[::-1][group]
    of_rows = np.cumsum((share * precision)[::-1])[::-1][group]
    slopes = (precision[group] - value + of_hits - of_rows) / n_positive
    return value, _by_side(rows, number, slopes, -of_rows / n_positive)


_RANKINGS = {"roc_auc": _roc_auc, "average_precision": _average_precision}


def _two_sides(rows: ClassRows, number: int) -> tuple[FloatArray, FloatArray]:
    positive = rows.mass[:, number]
    return positive, rows.mass.sum(axis=1) - positive


def _shares_below(group: IntArray, mass: FloatArray) -> FloatArray:
    """Return for each row the mass of rows with lower scores and half of those with the same."""
    in_group = np.bincount(group, mass)
    return (np.cumsum(in_group) - 0.5 * in_group)[group]


def _by_side(rows: ClassRows, number: int, positive: FloatArray, negative: FloatArray) -> FloatArray:
    slopes = np.repeat(negative[:, None], rows.mass.shape[1], axis=1)
    slopes[:, number] = positive
    return slopes


# --- Predicted numbers


def _of_numbers(kind: str, quantile: float, rows: NumberRows) -> tuple[float, FloatArray]:
    residuals, mass = rows.residuals, rows.mass
    if kind == "median_absolute_error":
        return _median(np.abs(residuals), mass)
    if kind == "root_mean_squared_error":
        value, slopes = _mean(np.square(residuals), mass)
        root = math.sqrt(max(value, 0.0))
        return root, slopes / (2.0 * root) if root > 0.0 else np.zeros_like(mass)
    if kind == "pinball":
        # A residual is predicted minus true.
        return _mean(np.maximum((1.0 - quantile) * residuals, -quantile * residuals), mass)
    return _mean(residuals if kind == "bias" else np.abs(residuals), mass)


def _median(values: FloatArray, mass: FloatArray) -> tuple[float, FloatArray]:
    """Return the weighted median, and its derivative by a density from the middle half of the rows."""
    order = np.argsort(values, kind="stable")
    total = mass.sum()
    if total <= _SMALLEST_MASS:
        return math.nan, np.zeros_like(mass)
    # Masses may be negative, a distribution function does not fall.
    below = np.maximum.accumulate(np.cumsum(mass[order])) / total
    last = len(order) - 1

    def at(share: float) -> float:
        return float(values[order[min(last, int(np.searchsorted(below, share)))]])

    value = 0.5 * (at(0.5 - 1e-9) + at(0.5 + 1e-9))
    spread = at(0.75) - at(0.25)
    return value, 2.0 * spread * (0.5 - (values <= value)) / total
