"""Predictions for every reference row from fits on folds without it."""

from __future__ import annotations

from typing import Any

import numpy as np

from accous.arrays import IntArray

__all__ = ["N_FOLDS", "N_QUICK_FOLDS", "by_folds"]

N_FOLDS = 5
N_QUICK_FOLDS = 2


def by_folds(strata: IntArray, n_folds: int, answer_rest: Any) -> Any:
    """Return predictions for each fold's rows by fits on the other folds, in the order of the rows.

    Parameters
    ----------
    strata : array of shape (n_rows,)
        Groups that every fold holds in the same shares; with fewer than five rows in one, the result is None.
    n_folds : int
    answer_rest : callable
        Takes the rows to fit on and those to predict; returns the predictions.
    """
    if np.bincount(strata).min() < N_FOLDS:
        return None
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(np.zeros(len(strata)), strata))
    answers = np.concatenate([answer_rest(rows, rest) for rows, rest in folds])
    return answers[np.argsort(np.concatenate([rest for _, rest in folds]))]
