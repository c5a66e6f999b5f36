r"""How good the model is now, by any metric: expected from inputs alone, or confirmed by labels.

Held-out predictions of the reference tell what is true of a row that is predicted so: calibrated probabilities of
classes, or residuals of rows with similar predictions. *Expected* is the metric of recent rows with that spread over
them. *Confirmed* adds what labels say beyond it (the difference estimator),

.. math:: m_\lambda = \frac{\lambda}{n} \sum_{i} q_i + \sum_{j\,\text{labelled}} u_j (1_{y_j} - \lambda q_j),
   \qquad u_j \propto w_j / \pi_j,

where :math:`\pi` is the probability of having been chosen, w fades with age and :math:`\lambda` is the regression of
the labels' influences on the expected ones. Every metric is a function of these masses (`accous.diagnostics.metrics`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtri, stdtrit

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.losses import effective_sample_size
from accous.diagnostics.metrics import ClassRows, Metric, NumberRows, one_hot

LEVEL = 0.9
FEWEST_LABELS = 30
"""Labels, older ones counted less, from which on they decide alone."""
# Chosen with all streams of `benchmarks.performance` in view, as is the half-life in rows.
LABEL_HALF_LIFE = 125
_SMALLEST_PROBABILITY = 0.02  # divided by the number of classes
_PENALTY = 0.3
_PENALTY_OF_SLOPE = 3.0
_LARGEST_RATIO = 400.0
_FEWEST_OF_CLASS = 5
_MOST_GAIN = 1.2  # of labels, by what is expected
_TINY = 1e-9
_MOST_BINS = 10
_ROWS_IN_BIN = 50
_N_SEGMENTS = 4

# --- What is handed in, and what comes out


@dataclass(frozen=True)
class PredictedRows:
    """Predictions of rows.

    Attributes
    ----------
    predicted : array of shape (n,)
        Numbers of classes, or numbers.
    probabilities : array of shape (n, n_classes) or None
        None for numbers.
    """

    predicted: NDArray[Any]
    probabilities: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.predicted)

    def __getitem__(self, rows: Any) -> PredictedRows:
        return PredictedRows(self.predicted[rows], None if self.probabilities is None else self.probabilities[rows])


@dataclass(frozen=True)
class Labels:
    """Recent rows whose labels are known.

    Attributes
    ----------
    made : PredictedRows
        What was predicted of them; -1 for a class without a probability.
    y : array of shape (n,)
        Numbers of classes, -1 for one that held-out rows do not have; or numbers.
    weight : array of shape (n,)
        How much each counts: its age over the probability of having been chosen (`label_weights`).
    is_alone : bool
        Whether the predictor has learned since: what is expected of recent rows is then about another one, and the
        labels speak alone.
    """

    made: PredictedRows
    y: NDArray[Any]
    weight: FloatArray
    is_alone: bool = False

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> Labels:
        return Labels(self.made[rows], self.y[rows], self.weight[rows], self.is_alone)

    @cached_property
    def n_effective(self) -> float:
        """How many equally weighted labels say as much."""
        return effective_sample_size(self.weight) if len(self) and self.weight.any() else 0.0


def label_weights(ages: FloatArray, n_recent: int, chosen: FloatArray | float = 1.0) -> FloatArray:
    """Return how much labels count that are so many rows old and had this probability of being chosen.

    Those of the recent rows count in full, older ones fade.

    Examples
    --------
    >>> import numpy as np
    >>> label_weights(np.array([0.0, 500.0, 625.0, 750.0]), n_recent=500).round(2)
    array([1.  , 1.  , 0.5 , 0.25])
    """
    return np.asarray(0.5 ** (np.maximum(0.0, ages - n_recent) / LABEL_HALF_LIFE) / chosen, dtype=np.float64)


@dataclass(frozen=True)
class Estimate:
    """The value of a metric on recent rows, with an interval of 90 %.

    Attributes
    ----------
    metric : str
    value, low, high : float
        As fractions, or in the unit of the label; NaN where the metric is not defined.
    basis : {"labels", "expected"}
        "expected" holds if labels still follow from inputs as they did.
    at_fit : float
        The same metric on held-out rows of the reference.
    n_labels : int
        Labels of recent rows, whether or not they are enough to be the basis.
    """

    metric: str
    value: float
    low: float
    high: float
    basis: str
    at_fit: float
    n_labels: int


# --- What held-out rows tell


@dataclass(frozen=True)
class ClassCalibration:
    """From the model's probabilities to the shares of classes that held-out rows had.

    Attributes
    ----------
    held_out : PredictedRows
        Of rows of the reference by fits without them, in order of time if there is one.
    y : array of shape (n,)
        Their true classes.
    window : array of shape (n,)
        Which window of the backtest each belongs to, from 0.
    slopes : array of shape (1 + n_windows,)
        Of the logarithms of the probabilities, from all rows, then without each of the windows.
    offsets : array of shape (1 + n_windows, n_classes)
    """

    held_out: PredictedRows
    y: IntArray
    window: IntArray
    slopes: FloatArray
    offsets: FloatArray

    @classmethod
    def fit(cls, held_out: PredictedRows, y: IntArray, window: IntArray) -> Self:
        """Fit to held-out rows."""
        assert held_out.probabilities is not None
        logs = _logarithms(held_out.probabilities)
        parts = [np.ones(len(y), dtype=bool), *(window != each for each in range(_n_windows(window)))]
        found = np.array([_fit_scaling(logs[part], y[part], np.ones(part.sum())) for part in parts])
        return cls(held_out, y, window, found[:, 0], found[:, 1:])

    def reweighted(self, ratio: FloatArray) -> Self:
        """Return the calibration for recent rows, given their ratio to the reference at each held-out row.

        What the windows that are left out change is taken as it was without weights.
        """
        assert self.held_out.probabilities is not None
        before = np.concatenate((self.slopes[:1], self.offsets[0]))
        logs = _logarithms(self.held_out.probabilities)
        moved = _fit_scaling(logs, self.y, tempered(ratio), before) - before
        return replace(self, slopes=self.slopes + moved[0], offsets=self.offsets + moved[1:])

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return len(self.slopes) - 1

    def calibrated(self, probabilities: FloatArray, without: int | None = None) -> FloatArray:
        """Return calibrated probabilities, without the rows of a window if one is named."""
        number = 0 if without is None else without + 1
        return _softmax(self.slopes[number] * _logarithms(probabilities) + self.offsets[number])

    def true_rows(self, chosen: Any = slice(None)) -> ClassRows:
        """Return held-out rows with their labels."""
        made, y = self.held_out[chosen], self.y[chosen]
        assert made.probabilities is not None
        return ClassRows(made.predicted, made.probabilities, one_hot(y, made.probabilities.shape[1]) / max(1, len(y)))

    def expected_rows(self, made: PredictedRows, without: int | None = None) -> ClassRows:
        """Return rows with their calibrated probabilities in place of labels; the masses sum to 1."""
        assert made.probabilities is not None
        mass = self.calibrated(made.probabilities, without) / max(1, len(made))
        return ClassRows(made.predicted, made.probabilities, mass)

    def joined(self, recent: PredictedRows, labels: Labels) -> _JoinedClasses:
        """Return what the difference estimator needs."""
        return _JoinedClasses(self, recent, labels)


@dataclass(frozen=True)
class NumberCalibration:
    """Residuals of held-out rows by what was predicted of them.

    Attributes
    ----------
    held_out : PredictedRows
    y : array of shape (n,)
        Their true numbers.
    window : array of shape (n,)
        Which window of the backtest each belongs to, from 0.
    weights : array of shape (n,)
        How much each counts.
    edges : array of shape (n_bins - 1,)
        Rows between two edges are predicted similarly.
    """

    held_out: PredictedRows
    y: FloatArray
    window: IntArray
    weights: FloatArray
    edges: FloatArray

    @classmethod
    def fit(cls, held_out: PredictedRows, y: FloatArray, window: IntArray) -> Self:
        """Fit to held-out rows."""
        n_bins = int(np.clip(len(y) // _ROWS_IN_BIN, 1, _MOST_BINS))
        edges = np.unique(np.quantile(held_out.predicted, np.arange(1, n_bins) / n_bins))
        return cls(held_out, y, window, np.ones(len(y)), edges)

    def reweighted(self, ratio: FloatArray) -> Self:
        """Return the calibration for recent rows, given their ratio to the reference at each held-out row."""
        return replace(self, weights=tempered(ratio))

    @property
    def n_windows(self) -> int:
        """Number of windows."""
        return _n_windows(self.window)

    @cached_property
    def residuals(self) -> FloatArray:
        """Predicted minus true numbers of held-out rows."""
        return np.asarray(self.held_out.predicted - self.y, dtype=np.float64)

    @cached_property
    def bins(self) -> IntArray:
        """The bin of each held-out row."""
        return self.bin_of(self.held_out)

    def bin_of(self, made: PredictedRows) -> IntArray:
        """Return the bin of each row."""
        return np.searchsorted(self.edges, made.predicted, side="right").astype(np.int64)

    def mean_by_bin(self, values: FloatArray, made: PredictedRows) -> FloatArray:
        """Return for each row the mean of something over held-out rows of its bin."""
        n_bins = len(self.edges) + 1
        total = np.maximum(np.bincount(self.bins, self.weights, n_bins), 1e-300)
        return np.asarray((np.bincount(self.bins, self.weights * values, n_bins) / total)[self.bin_of(made)])

    def spread(self, made: PredictedRows, weight: FloatArray, without: int | None = None) -> FloatArray:
        """Return the mass that rows of these weights put on each held-out residual."""
        own = self.weights if without is None else self.weights * (self.window != without)
        n_bins = len(self.edges) + 1
        total = np.bincount(self.bins, own, n_bins)
        # A bin that only the window left out had takes the residuals of all.
        wanted = np.bincount(self.bin_of(made), weight, n_bins)
        by_bin = np.where(total > 0.0, wanted / np.maximum(total, 1e-300), 0.0)
        return own * (by_bin[self.bins] + wanted[total <= 0.0].sum() / own.sum())

    def true_rows(self, chosen: Any = slice(None)) -> NumberRows:
        """Return held-out rows with their labels."""
        residuals = self.residuals[chosen]
        return NumberRows(residuals, np.full(len(residuals), 1.0 / max(1, len(residuals))))

    def expected_rows(self, made: PredictedRows, without: int | None = None) -> NumberRows:
        """Return held-out residuals, weighted as these rows are predicted; the masses sum to 1."""
        return NumberRows(self.residuals, self.spread(made, np.full(len(made), 1.0 / len(made)), without))

    def joined(self, recent: PredictedRows, labels: Labels) -> _JoinedNumbers:
        """Return what the difference estimator needs."""
        return _JoinedNumbers(self, recent, labels)


Calibration = ClassCalibration | NumberCalibration


def with_others(mass: FloatArray) -> FloatArray:
    """Return masses with a column of zeros for classes that held-out rows do not have."""
    return np.hstack((mass, np.zeros((len(mass), 1))))


def windows_of(n_rows: int, n_windows: int = 6) -> IntArray:
    """Return for rows in order of time which of so many equal windows each is in."""
    return (np.arange(n_rows) * n_windows // max(1, n_rows)).astype(np.int64)


def tempered(ratio: FloatArray) -> FloatArray:
    """Return weights of held-out rows with mean 1: the root of the ratio was closer than all or nothing of it."""
    weights = np.sqrt(np.clip(ratio, 1.0 / _LARGEST_RATIO, _LARGEST_RATIO))
    return np.asarray(weights / weights.mean())


def _n_windows(window: IntArray) -> int:
    return int(window.max()) + 1 if len(window) else 0


def _logarithms(probabilities: FloatArray) -> FloatArray:
    return np.log(np.maximum(probabilities, _SMALLEST_PROBABILITY / probabilities.shape[1]))


def _softmax(scores: FloatArray) -> FloatArray:
    # Class by class in memory: over rows of a few numbers each, numpy takes five times as long.
    by_class = np.asfortranarray(scores)
    exponentials = np.exp(by_class - by_class.max(axis=1, keepdims=True))
    return np.ascontiguousarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def _fit_scaling(logs: FloatArray, y: IntArray, weights: FloatArray, first: FloatArray | None = None) -> FloatArray:
    """Return a slope and an offset for each class; the penalty pulls them to probabilities as they are."""
    true = one_hot(y, logs.shape[1])
    start = np.concatenate(([1.0], np.zeros(logs.shape[1])))
    penalty = np.concatenate(([_PENALTY_OF_SLOPE], np.full(logs.shape[1], _PENALTY)))

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        likely = _softmax(parameters[0] * logs + parameters[1:])
        excess = (likely - true) * weights[:, None]
        away = parameters - start
        value = -(weights * np.log(np.maximum(likely[np.arange(len(y)), y], 1e-300))).sum()
        slopes = np.concatenate(([(excess * logs).sum()], excess.sum(axis=0)))
        return float(value + 0.5 * (penalty * away**2).sum()), slopes + penalty * away

    return np.asarray(minimize(loss, start if first is None else first, jac=True, method="L-BFGS-B").x)


# --- Recent rows and labels joined


@dataclass(frozen=True)
class _JoinedClasses:
    calibration: ClassCalibration
    recent: PredictedRows
    labels: Labels

    @cached_property
    def expected(self) -> tuple[FloatArray, FloatArray]:
        """Calibrated probabilities of recent and of labelled rows; no other class is expected."""
        of_recent, of_labelled = self.recent.probabilities, self.labels.made.probabilities
        assert of_recent is not None
        assert of_labelled is not None
        calibrated = self.calibration.calibrated
        return with_others(calibrated(of_recent)), with_others(calibrated(of_labelled))

    @cached_property
    def true(self) -> FloatArray:
        return one_hot(self.labels.y, self.expected[0].shape[1])

    def rows(self, share: float, weight: FloatArray) -> ClassRows:
        """Return the masses for a lambda, where the weights of the labels sum to 1."""
        of_recent, of_labelled = self.expected
        mass = (share / len(self.recent) * of_recent, weight[:, None] * (self.true - share * of_labelled))
        return self._with_mass(*mass)

    def midway(self, weight: FloatArray) -> ClassRows:
        """Return masses half from what is expected and half from labels: none is negative."""
        return self._with_mass(0.5 / len(self.recent) * self.expected[0], 0.5 * weight[:, None] * self.true)

    def influences(self, slopes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return those of labels, those expected of the labelled rows, and those expected of recent rows."""
        n, (of_recent, of_labelled) = len(self.recent), self.expected
        of_labels = slopes[n:]
        return (
            (of_labels * self.true).sum(axis=1),
            (of_labels * of_labelled).sum(axis=1),
            (slopes[:n] * of_recent).sum(axis=1),
        )

    def _with_mass(self, of_recent: FloatArray, of_labelled: FloatArray) -> ClassRows:
        assert self.recent.probabilities is not None
        assert self.labels.made.probabilities is not None
        return ClassRows(
            np.concatenate((self.recent.predicted, self.labels.made.predicted)),
            np.concatenate((self.recent.probabilities, self.labels.made.probabilities)),
            np.concatenate((of_recent, of_labelled)),
        )


@dataclass(frozen=True)
class _JoinedNumbers:
    calibration: NumberCalibration
    recent: PredictedRows
    labels: Labels

    def rows(self, share: float, weight: FloatArray) -> NumberRows:
        of_recent = self.calibration.spread(self.recent, np.full(len(self.recent), 1.0 / len(self.recent)))
        of_labelled = self.calibration.spread(self.labels.made, weight)
        return self._with_mass(share * (of_recent - of_labelled), weight)

    def midway(self, weight: FloatArray) -> NumberRows:
        return self._with_mass(0.5 * self.calibration.expected_rows(self.recent).mass, 0.5 * weight)

    def influences(self, slopes: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        of_held_out, of_labels = np.split(slopes, [len(self.calibration.y)])
        rows = (self.labels.made, self.recent)
        of_labelled, of_recent = (self.calibration.mean_by_bin(of_held_out, each) for each in rows)
        return of_labels, of_labelled, of_recent

    def _with_mass(self, of_held_out: FloatArray, of_labelled: FloatArray) -> NumberRows:
        own = np.asarray(self.labels.made.predicted - self.labels.y, dtype=np.float64)
        return NumberRows(np.concatenate((self.calibration.residuals, own)), np.concatenate((of_held_out, of_labelled)))


# --- Estimates


def at_fit(metric: Metric, calibration: Calibration, chosen: Any = slice(None)) -> float:
    """Return the metric on held-out rows; NaN without any."""
    rows = calibration.true_rows(chosen)
    return metric.value(rows) if len(rows.mass) else math.nan


def of_constant(metric: Metric, calibration: Calibration) -> float:
    """Return the metric of the best constant prediction for held-out rows; NaN where a constant can be perfect."""
    rows, y = calibration.true_rows(), calibration.y
    if metric.kind == "bias" or (metric.kind == "recall" and len(metric.classes) == 1) or not len(y):
        return math.nan
    if isinstance(rows, NumberRows):
        level = 0.5 if math.isnan(metric.quantile) else metric.quantile
        values = [metric.value(NumberRows(each - y, rows.mass)) for each in (np.mean(y), np.quantile(y, level))]
    else:
        shares = np.tile(rows.mass.sum(axis=0), (len(y), 1))
        classes = range(1 if metric.is_of_scores else shares.shape[1])
        values = [metric.value(ClassRows(np.full(len(y), each), shares, rows.mass)) for each in classes]
    return min(values, key=metric.loss)


def expected(metric: Metric, calibration: Calibration, recent: PredictedRows) -> Estimate:
    """Return what the metric is on recent rows if labels still follow from inputs as they did; NaN without any."""
    before = at_fit(metric, calibration)
    if not len(recent):
        return Estimate(metric.name, math.nan, math.nan, math.nan, "expected", before, 0)
    rows = calibration.expected_rows(recent)
    value, variance = metric.value(rows), _spread(metric, rows) / len(recent)
    without = [metric.value(calibration.expected_rows(recent, each)) for each in range(calibration.n_windows)]
    if len(without) > 1:
        # The jackknife by windows of time sees what rows close to one another share.
        variance += (len(without) - 1) * float(np.var(without))
    low, high = _interval(metric, rows, value, variance, len(recent), df=len(calibration.y) - 1.0)
    return Estimate(metric.name, value, low, high, "expected", before, 0)


def confirmed(metric: Metric, calibration: Calibration, recent: PredictedRows, labels: Labels) -> Estimate:
    """Return what labels of recent rows say about the metric, with what is expected as control variate."""
    weight = labels.weight / labels.weight.sum()
    joined = calibration.joined(recent, labels)
    true, guessed, of_recent = joined.influences(metric.gradient(joined.midway(weight)))
    share = 0.0 if labels.is_alone else _regression(true, guessed, weight)
    rows = joined.rows(share, weight)
    value = _within(metric, metric.value(rows))
    true, guessed, of_recent = joined.influences(metric.gradient(rows))
    n_effective = labels.n_effective
    variance = share**2 * float(np.var(of_recent)) / len(recent)
    own = _variance_of_mean(true - share * guessed, weight, n_effective)
    if metric.is_of_numbers:
        # A few labels seldom hold the largest residuals: held-out rows know the tail better.
        own = max(own, spread_of(metric, calibration, recent) / n_effective)
    variance += own
    low, high = _interval(metric, joined.rows(0.0, weight), value, variance, n_effective, df=n_effective - 1.0)
    return Estimate(metric.name, value, low, high, "labels", at_fit(metric, calibration), len(labels))


def estimate(metric: Metric, calibration: Calibration, recent: PredictedRows, labels: Labels) -> Estimate:
    """Return what labels confirm if there are enough of them, or else what is expected."""
    if len(recent) and labels.n_effective >= FEWEST_LABELS and _have_both_sides(metric, labels):
        found = confirmed(metric, calibration, recent, labels)
        if not math.isnan(found.value):
            return found
    return replace(expected(metric, calibration, recent), n_labels=len(labels))


def _have_both_sides(metric: Metric, labels: Labels) -> bool:
    """Whether labels hold a few rows of the class that a metric is about, and a few of others."""
    if len(metric.classes) != 1:
        return True
    n_of_class = int((labels.y == metric.classes[0]).sum())
    return min(n_of_class, len(labels) - n_of_class) >= _FEWEST_OF_CLASS


def gaps(metric: Metric, calibration: Calibration) -> tuple[FloatArray, float]:
    """Return by how much the loss of each window of the backtest exceeded what was expected without its labels.

    The second number is the mean variance of these gaps that comes from the few rows of a window; 0 for numbers, whose
    worst window is a better guide as it is.
    """
    found, variances = [], []
    for each in range(calibration.n_windows):
        chosen = np.flatnonzero(calibration.window == each)
        true, guessed = calibration.true_rows(chosen), calibration.expected_rows(calibration.held_out[chosen], each)
        found.append(metric.loss(metric.value(true)) - metric.loss(metric.value(guessed)))
        if not math.isnan(found[-1]) and not metric.is_of_numbers:
            variances.append(_spread(metric, true) / len(chosen))
    return np.array(found), float(np.mean(variances)) if variances else 0.0


def moved(before: PredictedRows, now: PredictedRows) -> float:
    """Return how far predictions have moved: from 0, as before, to 1, all beyond those of before.

    It is ``|2 AUC - 1|`` of recent against earlier rows in the order of the predicted numbers, or of the probability of
    the class of which it is largest.

    Examples
    --------
    >>> import numpy as np
    >>> (
    ...     moved(PredictedRows(np.arange(4.0)), PredictedRows(np.arange(4.0))),
    ...     moved(PredictedRows(np.zeros(3)), PredictedRows(np.ones(3))),
    ... )
    (0.0, 1.0)
    """
    if not len(before) or not len(now):
        return 0.0
    then, later = (
        each.predicted[:, None] if each.probabilities is None else each.probabilities for each in (before, now)
    )
    found = []
    for earlier, recent in zip(then.T, later.T, strict=True):
        order, recent = np.sort(earlier), np.sort(recent)  # to look for rows in their order is quicker
        below = sum(np.searchsorted(order, recent, side=side) for side in ("left", "right"))
        found.append(abs(float(np.mean(below)) / len(order) - 1.0))
    return max(found)


def spread_of(metric: Metric, calibration: Calibration, recent: PredictedRows) -> float:
    """Return the variance that a metric has by one label of the rows that are expected."""
    return _spread(metric, calibration.expected_rows(recent))


def _spread(metric: Metric, rows: ClassRows | NumberRows) -> float:
    return float((rows.mass * np.square(metric.gradient(rows))).sum())


def labels_needed(spread: float, half_width: float) -> int:
    """Return how many labels tell a metric to within a half-width, given its variance by one label.

    Examples
    --------
    >>> labels_needed(0.16 * 0.84, 0.05)
    146
    """
    normal = float(ndtri(0.5 + 0.5 * LEVEL))
    return math.ceil(normal**2 * spread / half_width**2)


# --- Segments


def estimate_by_segment(
    metric: Metric,
    calibration: Calibration,
    recent: PredictedRows,
    labels: Labels,
    *,
    of_recent: NDArray[Any],
    of_labels: NDArray[Any],
    of_held_out: NDArray[Any],
) -> list[tuple[str, Estimate]]:
    """Return an estimate for each value of a column, or each quarter of its numbers; worst first.

    The last three arrays hold that column for recent, labelled and held-out rows.
    """
    found = []
    for name, (in_recent, in_labels, in_held_out) in _segments(of_recent, of_labels, of_held_out):
        if not in_recent.any():
            continue
        one = estimate(metric, calibration, recent[in_recent], labels[in_labels])
        before = at_fit(metric, calibration, in_held_out) if in_held_out.any() else math.nan
        found.append((name, replace(one, at_fit=before)))
    return sorted(found, key=lambda each: math.inf if math.isnan(each[1].value) else -metric.loss(each[1].value))


def _segments(*columns: NDArray[Any]) -> Iterator[tuple[str, tuple[NDArray[np.bool_], ...]]]:
    recent = columns[0]
    if recent.dtype.kind in "iuf" and len(np.unique(recent)) > 2 * _N_SEGMENTS:
        edges = np.unique(np.nanquantile(recent, np.arange(1, _N_SEGMENTS) / _N_SEGMENTS))
        names = [f"below {edges[0]:g}", *(f"{a:g} to {b:g}" for a, b in pairwise(edges))]
        names.append(f"from {edges[-1]:g}")
        numbers = [np.where(np.isnan(each), -1, np.searchsorted(edges, each, side="right")) for each in columns]
        yield from ((name, tuple(each == number for each in numbers)) for number, name in enumerate(names))
        return
    texts = [np.array([str(value) for value in each.tolist()], dtype=object) for each in columns]
    yield from ((str(name), tuple(each == name for each in texts)) for name in np.unique(texts[0].astype(str)))


# --- Intervals


def _regression(true: FloatArray, guessed: FloatArray, weight: FloatArray) -> float:
    """Return lambda, between 0 and 1."""
    from_mean = guessed - weight @ guessed
    spread = float(weight @ np.square(from_mean))
    return float(np.clip(weight @ (from_mean * true) / spread, 0.0, 1.0)) if spread > 0.0 else 0.0


def _variance_of_mean(values: FloatArray, weight: FloatArray, n_effective: float) -> float:
    away = values - weight @ values
    return float(np.square(weight * away).sum()) * n_effective / max(1.0, n_effective - 1.0)


def _within(metric: Metric, value: float) -> float:
    """Return a value that the metric can have: sums with negative masses may leave the range a little."""
    if metric.is_share:
        return float(np.clip(value, 0.0, 1.0))
    if metric.costs is not None:
        return float(np.clip(value, metric.costs.min(), metric.costs.max()))
    return value if metric.kind == "bias" else max(0.0, value)


def _interval(
    metric: Metric, rows: ClassRows | NumberRows, value: float, variance: float, n: float, df: float
) -> tuple[float, float]:
    """Return Wilson's interval for what is bounded, and one of Student's for others.

    The rows tell how many of n the metric counts.
    """
    if math.isnan(value):
        return math.nan, math.nan
    if metric.costs is not None:
        least, span = float(metric.costs.min()), max(float(np.ptp(metric.costs)), _TINY)
        low, high = _wilson((value - least) / span, variance / span**2, n)
        return least + span * low, least + span * high
    if metric.is_share:
        low, high = _of_share(metric, value, variance, n * metric.share_counted(rows))
        below, above = _by_class(metric, rows, n)
        return max(0.0, min(low, value - below)), min(1.0, max(high, value + above))
    half = float(stdtrit(max(1.0, df), 0.5 + 0.5 * LEVEL)) * math.sqrt(variance)
    if metric.kind == "bias" or value <= 0.0:
        return value - half, value + half
    return value * math.exp(-half / value), value * math.exp(half / value)


def _of_share(metric: Metric, value: float, variance: float, n: float) -> tuple[float, float]:
    """Return Wilson's interval.

    F1 is 2 p / (1 + p), where p is the share of hits among rows that are of the class or predicted so: its interval is
    that of p.
    """
    if metric.kind != "f1" or len(metric.classes) != 1:
        return _wilson(value, variance, n)
    low, high = _wilson(value / (2.0 - value), variance * 4.0 / (2.0 - value) ** 4, n)
    return 2.0 * low / (1.0 + low), 2.0 * high / (1.0 + high)


def _by_class(metric: Metric, rows: Any, n: float) -> tuple[float, float]:
    """Return how far below and above a mean over classes may lie, by the intervals of each class (MOVER).

    A class with few rows may be far off where the others hide it.
    """
    sides = []
    for each in metric.parts(rows):
        value = each.value(rows)
        low, high = _of_share(each, value, 0.0, n * each.share_counted(rows))
        sides.append((value - low, high - value))
    if not sides:
        return 0.0, 0.0
    below, above = np.sqrt(np.square(sides).sum(axis=0)) / len(sides)
    return (above, below) if metric.kind == "balanced_error" else (below, above)


def _wilson(value: float, variance: float, n: float) -> tuple[float, float]:
    spread = value * (1.0 - value)
    if n <= 0.0:
        return 0.0, 1.0
    # Where few errors were seen, their variance is too small by chance: the rows themselves say how little is known.
    n_effective = min(spread / variance, _MOST_GAIN * n) if variance > 0.0 and spread > 0.0 else n
    normal = float(ndtri(0.5 + 0.5 * LEVEL))
    extra = normal**2 / n_effective
    middle = (value + 0.5 * extra) / (1.0 + extra)
    half = math.sqrt(extra * spread + 0.25 * extra**2) / (1.0 + extra)
    return (middle - half if value > _TINY else 0.0), (middle + half if value < 1.0 - _TINY else 1.0)
