"""Read the weights and the intercept of a linear model, also of a wrapped one such as a pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import DataError

FloatArray = NDArray[np.float64]

PROBE_SCALE = 3.0  # about where the Gaussians have their mass
PROBE_TOLERANCE = 1e-5  # relative to the largest score; single-precision models pass


def linear_scores(model: Any, means: FloatArray) -> tuple[FloatArray, float]:
    """Return ``w`` and ``b`` of a model whose score is ``w . x + b``."""
    if isinstance(model, tuple) and len(model) == 2:
        raw_coef, raw_intercept = model
    elif hasattr(model, "coef_") and hasattr(model, "intercept_"):
        raw_coef, raw_intercept = model.coef_, model.intercept_
    elif hasattr(model, "decision_function"):
        affine = _affine_part(model.decision_function, means)
        if affine is None:
            raise DataError("risk needs a linear model: the decision function is not affine in x.")
        raw_coef, raw_intercept = affine
    else:
        found = type(model).__name__
        raise DataError(f"risk needs a linear model: {found} has no coefficients and no decision function.")
    return _checked(raw_coef, raw_intercept, means)


def linear_predictions(model: Any, means: FloatArray) -> tuple[FloatArray, float] | None:
    """Return ``w`` and ``b`` of a regression that predicts ``w . x + b``; None if its predictions are not affine in x.

    Coefficients are believed only of a model without ``predict``: some regressions predict a function of the score.
    """
    if hasattr(model, "predict"):
        affine = _affine_part(model.predict, means)
        return None if affine is None else _checked(*affine, means)
    return linear_scores(model, means)


def _checked(raw_coef: Any, raw_intercept: Any, means: FloatArray) -> tuple[FloatArray, float]:
    coef = np.ravel(np.asarray(raw_coef, dtype=np.float64))
    intercept = np.ravel(np.asarray(raw_intercept, dtype=np.float64))
    if coef.size != means.shape[1] or intercept.size != 1:
        found = f"{coef.size} coefficients and {intercept.size} intercepts"
        raise DataError(f"risk needs a linear model: one score on {means.shape[1]} features, got {found}.")
    if not np.all(np.isfinite([*coef, *intercept])):
        raise DataError("risk needs a linear model: its coefficients must be finite.")
    return coef, float(intercept[0])


def _affine_part(scorer: Callable[[FloatArray], Any], means: FloatArray) -> tuple[FloatArray, float] | None:
    """Recover ``w`` and ``b`` from scores on the axes; None if they are wrong on rows like those of the stream."""
    d = means.shape[1]
    axes = PROBE_SCALE * np.eye(d)
    probes = np.tile(means, (8, 1)) + np.random.default_rng(0).standard_normal((32, d))
    rows = np.vstack([np.zeros((1, d)), axes, -axes, probes, 2 * probes])
    scores = np.asarray(scorer(rows), dtype=np.float64)
    if scores.shape == (len(rows), 1):
        scores = scores[:, 0]
    if scores.shape != (len(rows),):
        raise DataError(f"risk needs a linear model: one score per row, got scores of shape {scores.shape}.")
    intercept = float(scores[0])
    coef = (scores[1 : d + 1] - scores[d + 1 : 2 * d + 1]) / (2 * PROBE_SCALE)
    largest_miss = np.abs(rows @ coef + intercept - scores).max()
    is_affine = largest_miss <= PROBE_TOLERANCE * np.abs(scores).max()
    return (coef, intercept) if is_affine else None
