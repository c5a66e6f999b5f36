"""Columns that mislead a model: counters, and columns that determine the label by themselves; and too small classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray

__all__ = [
    "FEWEST_ROWS_PER_CLASS",
    "columns_of_label",
    "columns_of_number",
    "follows_rows",
    "is_number_per_row",
    "rare_classes",
    "share_predicted_alone",
]

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
