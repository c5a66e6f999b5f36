"""Whether the reference covers the rows: shares outside, ranges of columns, values that it does not have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.drift import MAX_EVENTS, DriftEvent

# --- Whether the reference covers the recent rows of the stream: jointly, and column by column


MIN_ROWS = 50
"""With fewer recent rows, ``share_outside`` and ``drift_strength`` are NaN: they would mostly be noise."""


@dataclass(frozen=True)
class ColumnFinding:
    """Something about one column that the reference does not show.

    Attributes
    ----------
    column : str
    kind : {"outside", "new values", "missing", "categories"}
        Values outside the reference's range; a column that was constant in the reference and is not any more; another
        share of missing values; categories that the reference does not have.
    share : float
        Share of the recent rows.
    expected : float
        The share that the reference makes likely.
    known, value : str
        What the reference has, and the last value that it does not have.

    Examples
    --------
    >>> ColumnFinding("c", "new values", 0.5, 0.0, "1", "2").sentence
    "Column 'c' was always 1 in the reference and has others, such as 2, in 50% of recent rows."
    """

    column: str
    kind: str
    share: float
    expected: float
    known: str = ""
    value: str = ""

    @property
    def sentence(self) -> str:
        """The same in words."""
        return _TEXTS[self.kind].format(**vars(self), where=share_of_recent_rows(self.share))


_OUTSIDE, _NEW_VALUES = "outside", "new values"
_TEXTS = {
    _OUTSIDE: "Column {column!r} ranged from {known} in the reference and lies outside, such as {value}, in {where}.",
    _NEW_VALUES: "Column {column!r} was always {known} in the reference and has others, such as {value}, in {where}.",
    "missing": "Column {column!r} was missing in {expected:.1%} of the reference and is missing in {where}.",
    "categories": "Column {column!r} has categories unknown to the model, such as {value!r}, in {where}.",
}


@dataclass(frozen=True)
class Coverage:
    """How well the reference covers the recent rows.

    Attributes
    ----------
    n_rows : int
        Number of recent rows, at most 500.
    share_outside : float
        Share of the recent rows that lie farther from the reference than 95 % of its own rows, or in which a column
        that is constant in the reference has another value; about 0.05 without a shift. NaN with fewer than 50 rows.
    drift_strength : float
        2 AUC - 1, at least 0, of a held-out logistic regression that tells recent rows from the reference: 0 if they
        look alike, 1 if they can be told apart without error. NaN with fewer than 50 rows.
    columns : tuple of Finding
        What single columns show, in the order of the columns.
    """

    n_rows: int
    share_outside: float
    drift_strength: float
    columns: tuple[ColumnFinding, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """The findings in words."""
        return [finding.sentence for finding in self.columns]


# --- How many of the recent rows must show something before it is not chance any more


LEVEL = 1e-3
"""Chance of any false finding in one look at all columns of rows that do not drift."""

SMALLEST_CHANGE = 0.02
"""A share that differs by less from the reference's is not reported, however certain the difference is."""


@lru_cache(maxsize=4096)
def smallest_rare_count(n_recent: int, n_reference: int, n_reference_hits: int, n_tests: int) -> int:
    """Return the smallest count among the recent rows that is too large for chance; ``n_recent + 1`` if none is.

    Parameters
    ----------
    n_recent, n_reference : int
        Numbers of rows.
    n_reference_hits : int
        Number of reference rows that show it.
    n_tests : int
        Number of tests in one look, which share the level.
    """
    expected = n_reference_hits / n_reference
    high = n_recent + 1
    low = min(high, max(1, int((expected + SMALLEST_CHANGE) * n_recent) + 1))
    while low < high:
        middle = (low + high) // 2
        if _chance(middle, n_recent, n_reference + n_recent, n_reference_hits + middle) <= LEVEL / n_tests:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=4096)
def largest_rare_count(n_recent: int, n_reference: int, n_reference_hits: int, n_tests: int) -> int:
    """Return the largest count among the recent rows that is too small for chance; -1 if none is."""
    others = smallest_rare_count(n_recent, n_reference, n_reference - n_reference_hits, n_tests)
    return n_recent - others


def _chance(count: int, n_recent: int, n_rows: int, n_hits: int) -> float:
    """Return the probability of this count or a larger one among the recent rows, if ``n_hits`` of all rows show it.

    The first term of the sum comes from factorials and each other one from that before it; they fall, because the
    count is above the share of all rows. ``scipy.stats.hypergeom.sf`` takes several times as long.
    """
    log_first = _log_choose(n_hits, count) + _log_choose(n_rows - n_hits, n_recent - count)
    term = total = 1.0
    for number in range(count, min(n_hits, n_recent)):
        term *= (n_hits - number) * (n_recent - number) / ((number + 1) * (n_rows - n_hits - n_recent + number + 1))
        total += term
        if term < 1e-17 * total:
            break
    return total * math.exp(log_first - _log_choose(n_rows, n_recent))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


# --- Values of single columns that the reference does not have: outside its range, or in a column that was
#     constant


_MARGIN = 0.05


class ColumnRanges:
    """The range of each column in the reference.

    Parameters
    ----------
    low, high : array of shape (n_columns,)
        Smallest and largest value in the reference.
    n_reference : int
        Number of its rows.
    names : list of str
    """

    def __init__(self, low: FloatArray, high: FloatArray, n_reference: int, names: list[str]) -> None:
        self.low, self.high, self.names = low, high, names
        self._n_reference = n_reference
        self._is_constant = low == high
        # A value just beyond the range is nothing new; one that differs from a constant is.
        with np.errstate(over="ignore"):
            margin = np.where(self._is_constant, 0.0, _MARGIN * (high - low))
            self._lowest, self._highest = low - margin, high + margin

    @classmethod
    def of(cls, reference: FloatArray, names: list[str]) -> ColumnRanges:
        """Return the ranges of a reference."""
        return cls(reference.min(axis=0), reference.max(axis=0), len(reference), names)

    def count(self, rows: FloatArray) -> IntArray:
        """Return how many values of each column are below its range, and above it, in an array of shape (2, d)."""
        return np.array(((rows < self._lowest).sum(axis=0), (rows > self._highest).sum(axis=0)), dtype=np.int64)

    def rare(self, counts: IntArray, n_rows: int) -> list[tuple[str, str, float]]:
        """Return kind, column and share of what is too frequent for chance."""
        n_tests = 2 * len(self.names)
        # Of the reference's own rows, one is the largest and one the smallest; none differs from a constant.
        least = smallest_rare_count(n_rows, self._n_reference, 1, n_tests)
        least_new = smallest_rare_count(n_rows, self._n_reference, 0, n_tests)
        # A constant is left on both sides; half the limit on each of them is enough.
        if 2 * int(counts.max()) < min(least, least_new):
            return []
        totals = counts.sum(axis=0)
        is_rare = np.where(self._is_constant, totals >= least_new, (counts >= least).any(axis=0))
        found = []
        for column in np.flatnonzero(is_rare).tolist():
            kind = _NEW_VALUES if self._is_constant[column] else _OUTSIDE
            found.append((kind, self.names[column], float(totals[column]) / n_rows))
        return found

    def findings(self, rows: FloatArray) -> tuple[ColumnFinding, ...]:
        """Return what recent rows show."""
        found = []
        for kind, name, share in self.rare(self.count(rows), len(rows)):
            column = self.names.index(name)
            low, high, values = self.low[column], self.high[column], rows[:, column]
            value = values[(values < self._lowest[column]) | (values > self._highest[column])][-1]
            known, expected = f"{low:.6g} to {high:.6g}", 2.0 / (self._n_reference + 1)
            if kind == _NEW_VALUES:
                known, expected = f"{low:.6g}", 0.0
            found.append(ColumnFinding(name, kind, share, expected, known, f"{value:.6g}"))
        return tuple(found)


def share_of_recent_rows(share: float) -> str:
    """Return a share in words."""
    return "all recent rows" if share == 1.0 else f"{share:.1%} of recent rows".replace(".0%", "%")


# --- Which columns show something new, as the rows come in: one event for each column and onset


ROUNDS_BETWEEN_COLUMN_LOOKS = 32
# A finding is over when this many looks in a row do not show it.
_QUIET_LOOKS = 4


@dataclass(frozen=True, slots=True)
class ColumnWatch:
    """What was found so far.

    Attributes
    ----------
    n_closed : int
        Number of closed blocks of recent rows at the last look.
    found : tuple of str
        The findings in progress, as kind and column.
    quiet : tuple of int
        For each of them, the number of looks since it was last seen.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS`` onsets.
    """

    n_closed: int = 0
    found: tuple[str, ...] = ()
    quiet: tuple[int, ...] = ()
    events: tuple[DriftEvent, ...] = ()

    def look(self, this_round: int, n_closed: int, rare: list[tuple[str, str, float]]) -> ColumnWatch:
        """Return the watch after a look at the recent rows.

        Parameters
        ----------
        this_round : int
        n_closed : int
            Number of closed blocks of recent rows.
        rare : list of (kind, column, share)
            What is too frequent for chance.
        """
        if not rare and not self.found:
            return ColumnWatch(n_closed, (), (), self.events)
        now = {f"{kind}: {column}": (kind, column, share) for kind, column, share in rare}
        quiet = {key: 0 if key in now else n_looks + 1 for key, n_looks in zip(self.found, self.quiet, strict=True)}
        events = [
            DriftEvent(this_round, share, (column,), None, kind)
            for key, (kind, column, share) in now.items()
            if key not in quiet
        ]
        lasting = {key: n_looks for key, n_looks in quiet.items() if n_looks < _QUIET_LOOKS} | dict.fromkeys(now, 0)
        return ColumnWatch(n_closed, tuple(lasting), tuple(lasting.values()), (*self.events, *events)[-MAX_EVENTS:])


NOTHING_FOUND = ColumnWatch()


# --- Columns that mislead a model: counters, and columns that determine the label by themselves; and too small
#     classes


FEWEST_ROWS_PER_CLASS = 10
_FEWEST_ROWS = 30
_LEAST_CORRELATION, _LEAST_SHARE_OF_STEPS, _FEWEST_STEPS = 0.95, 0.98, 4
_FEWEST_SLOW_STEPS, _FEWEST_ROWS_AT_A_VALUE = 2, 5
_LARGEST_CLASS, _ALONE, _DETERMINED = 0.95, 0.99, 0.999
_SAMPLE, _DEVIATIONS, _FEW_CHANGES = 64, 3.5, 0.42
_SUSPICIOUS = 0.1  # label changes along a sorted column, as a share of those by chance


def follows_rows(values: FloatArray) -> bool:
    """Whether a column counts the rows: it rises (or falls) with them nearly without exception.

    The rank correlation with the row order exceeds 0.95. In addition, 98 % of the steps that change the value go in the
    same direction, or all values are different whole numbers. A measurement that rises slowly fails the second
    condition, because it also takes steps back.

    A column of few values, such as the number of the month, counts too if it takes at least two steps, all by the same
    whole number, and holds each value for five rows or more. A month that starts again at 1 takes a step back and does
    not count.

    Examples
    --------
    >>> rows = np.arange(100.0)
    >>> follows_rows(rows // 7), follows_rows(rows + 3.0 * np.sin(rows))
    (True, False)
    >>> follows_rows(rows // 40), follows_rows(rows // 40 % 2)
    (True, False)
    """
    known = values[~np.isnan(values)]
    if len(known) < max(_FEWEST_ROWS, 0.9 * len(values)):
        return False
    steps = np.diff(known)
    places = np.flatnonzero(steps)
    steps = steps[places]
    if _counts_slowly(steps, places, len(known)):
        return True
    if len(steps) < _FEWEST_STEPS:
        return False
    n_up = int((steps > 0.0).sum())
    one_way = max(n_up, len(steps) - n_up) >= _LEAST_SHARE_OF_STEPS * len(steps)
    # A share of steps is cheap to compute, and rules nearly every column out.
    if not one_way and not is_number_per_row(known):
        return False
    return abs(_rank_correlation_with_rows(known)) > _LEAST_CORRELATION


def _counts_slowly(steps: FloatArray, places: IntArray, n_rows: int) -> bool:
    """Whether a column takes equal whole steps and stays at each value for several rows."""
    if len(steps) < _FEWEST_SLOW_STEPS or steps[0] % 1.0 != 0.0 or (steps != steps[0]).any():
        return False
    return int(np.diff([-1, *places.tolist(), n_rows - 1]).min()) >= _FEWEST_ROWS_AT_A_VALUE


def is_number_per_row(values: FloatArray) -> bool:
    """Whether all values are different whole numbers."""
    return bool((values % 1.0 == 0.0).all()) and len(np.unique(values)) == len(values)


def columns_of_label(X: FloatArray, labels: IntArray) -> list[tuple[int, float]]:
    """Return the columns that predict the label by themselves with more than 99 % accuracy, and their accuracy.

    Nothing is returned if one class has 95 % of the rows. A sample of the rows rules nearly every column out: where a
    column determines the label, the label changes only a few times along the sorted column.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    labels : array of shape (n_rows,)
        Class numbers.
    """
    n_rows = len(labels)
    shares = np.bincount(labels) / n_rows
    if n_rows < _FEWEST_ROWS or shares.max() >= _LARGEST_CLASS:
        return []
    step = max(1, n_rows // _SAMPLE)
    sample = labels[::step]
    ordered = sample[np.ascontiguousarray(X[::step].T).argsort(axis=1)]
    n_changes = np.count_nonzero(ordered[:, 1:] != ordered[:, :-1], axis=1)
    by_chance = len(sample) * (1.0 - float(shares @ shares))
    most_changes = max(2.0, min(_FEW_CHANGES * by_chance, by_chance - _DEVIATIONS * np.sqrt(0.5 * by_chance)))
    found = []
    for column in np.flatnonzero(n_changes <= most_changes).tolist():
        accuracy = share_predicted_alone(X[:, column], labels)
        if accuracy > _ALONE:
            found.append((column, accuracy))
    return found


def columns_of_number(X: FloatArray, targets: FloatArray) -> list[tuple[int, float]]:
    """Return the columns that determine a number by themselves, and the share of its variance that they explain.

    That is, the squared correlation of the values, or of their ranks, is above 0.999.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
    targets : array of shape (n_rows,)

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> columns_of_number(X, np.exp(X[:, 1]))
    [(1, 1.0)]
    """
    if len(targets) < _FEWEST_ROWS:
        return []
    found = []
    for column in range(X.shape[1]):
        values = X[:, column]
        # A sample rules nearly every column out.
        step = max(1, len(targets) // _SAMPLE)
        if _squared_correlation(values[::step], targets[::step]) > _ALONE:
            share = _squared_correlation(values, targets)
            if share > _DETERMINED:
                found.append((column, share))
    return found


def _squared_correlation(values: FloatArray, targets: FloatArray) -> float:
    """Return the larger one of the squared correlations of values and of ranks; 0 if one of both is constant."""
    from scipy.stats import rankdata

    found = 0.0
    for x, y in ((values, targets), (rankdata(values), rankdata(targets))):
        x, y = x / (np.abs(x).max() or 1.0), y / (np.abs(y).max() or 1.0)
        x, y = x - x.mean(), y - y.mean()
        squares = float(x @ x) * float(y @ y)
        found = max(found, float(x @ y) ** 2 / squares if squares > 0.0 else 0.0)
    return min(1.0, found)


def share_predicted_alone(values: FloatArray, labels: IntArray) -> float:
    """Return the cross-validated accuracy of a decision tree on one column; 0 if it is clearly lower than 99 %."""
    shares = np.bincount(labels) / len(labels)
    ordered = labels[np.argsort(values, kind="stable")]
    n_changes = int((ordered[1:] != ordered[:-1]).sum())
    if n_changes > _SUSPICIOUS * len(labels) * (1.0 - float(shares @ shares)) + 10.0:
        return 0.0
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    tree, folds = DecisionTreeClassifier(random_state=0), KFold(5, shuffle=True, random_state=0)
    predicted = cross_val_predict(tree, np.nan_to_num(values)[:, None], labels, cv=folds)
    return float((predicted == labels).mean())


def rare_classes(labels: IntArray) -> NDArray[np.int64]:
    """Return the class numbers with fewer than ten rows."""
    counts = np.bincount(labels)
    return np.flatnonzero((counts > 0) & (counts < FEWEST_ROWS_PER_CLASS))


def _rank_correlation_with_rows(values: FloatArray) -> float:
    from scipy.stats import rankdata

    return float(np.corrcoef(rankdata(values), np.arange(len(values)))[0, 1])
