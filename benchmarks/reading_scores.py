"""Errors of a contender in a cell under all protocols and predictors at once.

What the protocol and the predictor change comes after the ratio, so one pass over the stream serves all of them: in a
scored round, the ratio before the batch gives ``predict_first``, and the ratio after it the other two protocols.

``predict_first`` and ``fresh_rows`` are exact risks. ``batch_first`` predicts the rows of the batch. All contenders of
a cell are compared with FIX on the same rows, and the level is set by the exact risk of FIX over all rounds, which
takes out most of the noise of the drawn rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from accous.arrays import FloatArray
from accous_bench.contenders import get_contender
from accous_bench.oracle import Oracle
from accous_bench.protocols import PROTOCOLS
from accous_bench.scores import scored_rounds

__all__ = ["Cell", "LinearModel", "Predictor", "errors_in"]

FIX, LITERAL = "FIX", "Accous (literal)"
# Rounds to skip for each that others play: these cost several milliseconds a round.
_SPARSE = {"KMM": 2, "KMM (no ridge)": 4, "KMM (unit width)": 4}


@dataclass(frozen=True)
class Predictor:
    """The weighted regression: its penalty, and whether the reference's scales are divided out first."""

    C: float = 1.0
    is_scaled: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of the paper's tables, on a shorter stream."""

    dataset: str
    shift: str
    batch_size: int
    n_rounds: int
    seed: int


@dataclass(frozen=True)
class LinearModel:
    """A linear classifier of the raw rows."""

    coef_: FloatArray
    intercept_: float

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return 1 where the score is positive."""
        return (X @ self.coef_ + self.intercept_ > 0.0).astype(np.int64)


class _Regression:
    """The weighted regression of one predictor, with coefficients for the raw rows."""

    def __init__(self, predictor: Predictor, X: FloatArray, y: NDArray[Any]) -> None:
        scaler = StandardScaler().fit(X)
        self._mean = scaler.mean_ if predictor.is_scaled else np.zeros(X.shape[1])
        self._scale = scaler.scale_ if predictor.is_scaled else np.ones(X.shape[1])
        self._fit = Oracle(predictor.C).fit((X - self._mean) / self._scale, y)

    def weighted_by(self, ratio: FloatArray) -> LinearModel:
        self._fit.adapt_to(ratio)
        fitted = self._fit.estimator_
        coef = np.ravel(fitted.coef_) / self._scale
        return LinearModel(coef, float(np.ravel(fitted.intercept_)[0]) - float(coef @ self._mean))


def errors_in(
    data: Any, cell: Cell, names: Sequence[str], predictors: Sequence[Predictor], every: int
) -> dict[tuple[str, Predictor, str], float]:
    """Return the error in %, by contender, predictor and protocol.

    Parameters
    ----------
    data : Gaussians or Halves
    cell : Cell
    names : sequence of str
        Contenders; FIX need not be among them.
    predictors : sequence of Predictor
    every : int
        One round of so many is scored, drawn at random; expensive contenders play fewer.
    """
    stream = data.stream(cell.dataset, cell.shift, cell.batch_size, cell.n_rounds, cell.seed)
    fixed = {step: _scores(data, stream, FIX, predictors, cell, step) for step in {every * n for n in (1, 2, 4)}}
    levels = [_risk_of_fixed(stream, predictor) for predictor in predictors]
    errors = {}
    for name in names:
        step = every * _SPARSE.get(name, 1)
        scores = fixed[step] if name == FIX else _scores(data, stream, name, predictors, cell, step)
        above = (scores - fixed[step]).mean(axis=0)
        for place, predictor in enumerate(predictors):
            for number, protocol in enumerate(PROTOCOLS):
                errors[name, predictor, protocol] = 100.0 * float(levels[place] + above[place, number])
    return errors


def _risk_of_fixed(stream: Any, predictor: Predictor) -> float:
    """Return the exact risk of FIX, averaged over all rounds."""
    X, y = stream.reference()
    first, second = stream.component_risks(_Regression(predictor, X, y).weighted_by(np.ones(len(y))))
    alpha = float(np.mean(stream.alphas))
    return (1.0 - alpha) * first + alpha * second


def _scores(
    data: Any, stream: Any, name: str, predictors: Sequence[Predictor], cell: Cell, every: int
) -> NDArray[np.float64]:
    """Return errors of shape (scored rounds, predictors, protocols)."""
    X, y = stream.reference()
    contender = get_contender(name)
    ratio = contender(cell.seed).ratio
    if name == LITERAL:
        ratio = ratio.set_params(horizon=cell.n_rounds)
    ratio.fit(X)
    regressions = [_Regression(predictor, X, y) for predictor in predictors]
    is_scored = scored_rounds(cell.n_rounds, every, cell.seed)
    is_needed = is_scored | np.append(is_scored[1:], False) if contender.forgets else np.ones(cell.n_rounds, dtype=bool)
    found = []
    for batch in stream:
        place = batch.round - 1
        before = ratio.reference_ratio_ if is_scored[place] else None
        if is_needed[place]:
            ratio.partial_fit(batch.X)
        if before is not None:
            after = ratio.reference_ratio_
            found.append([_three_errors(data, stream, batch, one, before, after) for one in regressions])
    return np.array(found)


def _three_errors(
    data: Any, stream: Any, batch: Any, regression: _Regression, before: FloatArray, after: FloatArray
) -> tuple[float, float, float]:
    """Return the errors under predict_first, fresh_rows and batch_first."""
    first = stream.risk(regression.weighted_by(before), batch.alpha)
    learned = regression.weighted_by(after)
    on_batch = data.chance_of_error(stream, batch, learned.predict(batch.X)).mean()
    return first, stream.risk(learned, batch.alpha), float(on_batch)
