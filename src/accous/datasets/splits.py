"""Split a table in two parts so that a classifier trained on one generalises poorly to the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from accous.parameters import require_integer

__all__ = ["split_in_two"]


def split_in_two(
    X: NDArray[np.float64], y: NDArray[np.int64], *, n_directions: int = 100, random_state: int = 0
) -> NDArray[np.bool_]:
    """Find a cut through the middle of the rows across which a linear classifier generalises worst.

    The paper asks for "two subsets ... such that the classifier trained on one dataset generalizes poorly to the
    other" and does not say how they were found. This function standardises the columns and cuts the rows at the
    median of their projection on each axis and on ``n_directions`` random directions. For each cut it computes the
    worse of the two errors (trained on one side, tested on the other), and it keeps the cut where this is largest. It
    ignores cuts that leave less than a twentieth of a class on one side. P(y | x) is the same on both sides.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Finite rows.
    y : array of shape (n_rows,)
    n_directions : int, default=100
    random_state : int, default=0

    Returns
    -------
    array of bool of shape (n_rows,)
        Whether a row belongs to the second part. The two parts have the same size, up to ties.
    """
    require_integer("n_directions", n_directions, at_least=1)
    rows = StandardScaler().fit_transform(X)
    generator = np.random.default_rng(random_state)
    directions = np.concatenate((np.eye(rows.shape[1]), generator.normal(size=(n_directions, rows.shape[1]))))
    best, worst_error = np.zeros(len(rows), dtype=bool), -1.0
    for direction in directions:
        scores = rows @ direction
        is_second = scores > np.median(scores)
        if _has_all_classes(y, is_second) and (error := _error_across(rows, y, is_second)) > worst_error:
            best, worst_error = is_second, error
    return best


def _has_all_classes(y: NDArray[np.int64], is_second: NDArray[np.bool_]) -> bool:
    shares = [is_second[y == label].mean() for label in np.unique(y)]
    return min(shares) >= 0.05 and max(shares) <= 0.95


def _error_across(rows: NDArray[np.float64], y: NDArray[np.int64], is_second: NDArray[np.bool_]) -> float:
    errors = []
    for is_fitted in (is_second, ~is_second):
        model = LogisticRegression(max_iter=1000).fit(rows[is_fitted], y[is_fitted])
        errors.append(1.0 - model.score(rows[~is_fitted], y[~is_fitted]))
    return max(errors)
