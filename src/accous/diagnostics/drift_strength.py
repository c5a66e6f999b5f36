"""How strong the drift is: how well a regression tells recent rows from the reference."""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.core.regression import make_problem, solve
from accous.diagnostics.neighbours import distance_scales, standardized

__all__ = ["ComparedReference", "drift_strength"]

_MAX_REFERENCE = 1000
_C = 0.1
_MAX_COLUMNS = 64
_LARGEST = 10.0


def drift_strength(reference: FloatArray, recent: FloatArray) -> float:
    r"""Return :math:`\max(0, 2\,\mathrm{AUC} - 1)` of a logistic regression, on rows that it was not fitted to.

    Half of the rows, drawn with a fixed seed, fit the regression for the other half, and the other way round.

    Parameters
    ----------
    reference : array of shape (n_reference, n_columns)
        At most 1,000 of the rows are used.
    recent : array of shape (n_recent, n_columns)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> reference = rng.normal(size=(1000, 3))
    >>> drift_strength(reference, rng.normal(size=(500, 3))) < 0.1 < drift_strength(reference, reference[:500] + 1.0)
    True
    """
    return ComparedReference(reference).drift_to(recent)


class ComparedReference:
    """What `drift_strength` needs of a reference, for those who compare it with recent rows again and again.

    Parameters
    ----------
    reference : array of shape (n_reference, n_columns)
    """

    def __init__(self, reference: FloatArray) -> None:
        order = np.random.default_rng(0).permutation(len(reference))
        self._n_reference, self._chosen = len(reference), reference[order[:_MAX_REFERENCE]]
        self._mean, self._scale = self._chosen.mean(axis=0), distance_scales(self._chosen)

    @property
    def n_compared(self) -> int:
        """How many rows of the reference are compared, at most 1,000."""
        return len(self._chosen)

    def drift_to(self, recent: FloatArray) -> float:
        """Return the strength of the drift to these rows."""
        chosen, scale = self._chosen, self._scale
        rows = np.concatenate((chosen, recent))
        labels = np.repeat(np.array([0, 1], dtype=np.int64), (len(chosen), len(recent)))
        if not (scale > 0.0).all():
            # A column that is constant in the reference is measured by how it moves now.
            scale = np.where(scale > 0.0, scale, np.abs(rows - chosen[0]).max(axis=0))
        X = np.clip(standardized(rows, self._mean, scale), -_LARGEST, _LARGEST)
        if X.shape[1] > _MAX_COLUMNS:
            X = _main_axes(X)
        rng = np.random.default_rng(0)
        rng.permutation(self._n_reference)  # the draw that chose the reference's rows comes first
        fold = rng.permutation(len(labels)) % 2
        areas = [_held_out_area(X, labels, fold == number) for number in (0, 1)]
        return max(0.0, 2.0 * float(np.mean(areas)) - 1.0)


def _main_axes(X: FloatArray) -> FloatArray:
    """Return the rows in the axes along which they vary most."""
    centred = X - X.mean(axis=0)
    if len(X) < X.shape[1]:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        axes = vectors[:, -_MAX_COLUMNS:] * np.sqrt(np.maximum(values[-_MAX_COLUMNS:], 0.0))
    else:
        axes = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -_MAX_COLUMNS:]
    return np.ascontiguousarray(axes)


def _held_out_area(X: FloatArray, labels: IntArray, is_held: np.ndarray) -> float:
    fitted, held = labels[~is_held], labels[is_held]
    counts = np.bincount(fitted, minlength=2)
    if not counts.all() or not np.bincount(held, minlength=2).all():
        return 0.5
    weights = (len(fitted) / (2.0 * counts))[fitted]
    coefs = solve(make_problem(np.ascontiguousarray(X[~is_held]), fitted, 2, _C), weights)[0]
    return _area(X[is_held] @ coefs[:-1], held)


def _area(scores: FloatArray, labels: IntArray) -> float:
    """Area under the ROC curve; ties count half."""
    is_recent = labels == 1
    others, recent = np.sort(scores[~is_recent]), scores[is_recent]
    n_below = np.searchsorted(others, recent, "left").sum() + np.searchsorted(others, recent, "right").sum()
    return float(0.5 * n_below / (len(recent) * len(others)))
