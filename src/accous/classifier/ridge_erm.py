"""The built-in predictor of numbers: importance-weighted ridge regression on the reference, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError

from accous.arrays import FloatArray
from accous.classifier.number_task import NumberTask
from accous.core.regression import (
    Point,
    RidgeProblem,
    leave_one_out_predictions,
    make_ridge_problem,
    solve_ridge,
    solve_ridge_compiled,
)
from accous.exceptions import DataError
from accous.threads import one_blas_thread

__all__ = ["RidgeErm", "RidgePredictor", "RidgeRecipe"]

_FEW_COEFS = 128


@dataclass(frozen=True)
class RidgePredictor:
    """A fitted ridge regression, with scikit-learn's attribute names.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
    intercept_ : float
    """

    coef_: FloatArray
    intercept_: float
    point: ClassVar[None] = None

    @property
    def coefs(self) -> FloatArray:
        """Coefficients with the intercept in the last entry."""
        return np.append(self.coef_, self.intercept_)

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the prediction for each row."""
        # The limit is large enough to change no answer and small enough that sums do not overflow.
        return np.asarray(np.clip(X, -1e100, 1e100) @ self.coef_ + self.intercept_)


class RidgeErm:
    """Built-in ridge regression; a refit costs less than the ratio's round. See `accous.core.regression`.

    With ``scales``, the penalty acts on the coefficients of standardised columns. Predictors always have the
    coefficients of the raw columns.

    Attributes
    ----------
    rounds_between_checks : int
        32 for few coefficients, up to 256 for many.
    n_coefs : int
        With the intercept.
    """

    refit_distance: ClassVar[float] = 0.04
    limits_blas: ClassVar[bool] = True
    refits_between_checks: ClassVar[int] = 1
    is_slow_to_cross_fit: ClassVar[bool] = False
    keeps_first_fit: ClassVar[bool] = False

    def __init__(self, X: FloatArray, targets: FloatArray, alpha: float, scales: FloatArray | None = None) -> None:
        self._scales = None if scales is None else np.append(scales, 1.0)  # and that of the intercept
        rows = X if self._scales is None else X / self._scales[:-1]
        self._problem: RidgeProblem = make_ridge_problem(rows, targets, alpha)
        self.n_coefs = X.shape[1] + 1
        self.rounds_between_checks = min(256, 32 * (1 + self.n_coefs // 64))
        self.is_quick_to_cross_fit = self.n_coefs <= _FEW_COEFS

    def fit(self, weights: FloatArray, previous: RidgePredictor | None) -> RidgePredictor:
        """Minimise the weighted objective; with many columns, from the previous predictor."""
        found = solve_ridge_compiled(self._problem, weights)
        coefs = self._to_raw(self._solve(weights, previous) if found is None else found)
        # A copy, not a view: its products then have the same bits after the model was saved and loaded.
        return RidgePredictor(coefs[:-1].copy(), float(coefs[-1]))

    def _solve(self, weights: FloatArray, previous: RidgePredictor | None) -> FloatArray:
        # Departs from the paper: with many columns a round starts from the last solution and stops at nine digits.
        start = None if previous is None else self._to_scaled(previous.coefs)
        try:
            with one_blas_thread():
                return solve_ridge(self._problem, weights, start)
        except LinAlgError as error:
            raise DataError(f"The reference has numbers that are too large for a regression: {error}") from None

    def cross_fitted(self, weights: FloatArray, fitted: RidgePredictor, *, is_quick: bool = False) -> FloatArray | None:
        """Return exact leave-one-out predictions; None for fewer than two rows with a weight."""
        if np.count_nonzero(weights) < 2:
            return None
        return leave_one_out_predictions(self._problem, weights)

    def restored(self, coef: FloatArray, intercept: float, point: Point | None) -> RidgePredictor:
        """Return a predictor that was fitted before, from its parts."""
        return RidgePredictor(coef, float(intercept))

    def _to_scaled(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs * self._scales

    def _to_raw(self, coefs: FloatArray) -> FloatArray:
        return coefs if self._scales is None else coefs / self._scales


@dataclass(frozen=True, eq=False)
class RidgeRecipe:
    """The built-in ridge regression with its parameters."""

    alpha: float
    scales: FloatArray | None

    def on(self, X: FloatArray, task: NumberTask) -> RidgeErm:
        """Return how to fit it on these rows."""
        return RidgeErm(X, task.targets, self.alpha, self.scales)
