"""The rules behind every ``"auto"`` and ``None``; they are the same for all data.

``docs/defaults.md`` shows the sweep that led to them and the command that reruns it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from accous.arrays import FloatArray
from accous.core.ensemble import FULL, LOW_RANK

__all__ = [
    "AUTO_META_RANGE",
    "AUTO_START",
    "MAX_FULL_FEATURES",
    "MAX_UNSHORTENED_COLUMNS",
    "default_feature_bound",
    "default_metric",
    "default_radius",
    "default_shortening",
    "default_step_size",
]

AUTO_START = "handover"
AUTO_META_RANGE = "running"

MAX_UNSHORTENED_COLUMNS = 256
"""Largest number of columns for which standardised rows are not shortened; ``docs/defaults.md`` shows the gain."""

MAX_FULL_FEATURES = 1024
"""Largest number of features for which learners keep their whole matrix; ``docs/performance.md`` shows the cost."""

_BOUND_QUANTILE = 0.99
_USUAL_COLUMNS = 12  # as in the paper's synthetic data; docs/defaults.md lists the other values that were tried
_SMALLEST_BOUND = 1e-150


def default_shortening(n_columns: int) -> float:
    """Return the divisor that makes standardised rows of many columns as long as rows of a dozen columns.

    A standardised row of d columns has norm sqrt(d), and the intercept is 1. Next to hundreds of columns the intercept
    hardly counts, and the ratio of a small part of the reference can fall only if the ratio of the rest grows too.
    """
    # Departs from the paper: it has no intercept at all.
    return 1.0 if n_columns <= MAX_UNSHORTENED_COLUMNS else float(np.sqrt(n_columns / _USUAL_COLUMNS))


def default_feature_bound(norms: FloatArray) -> float:
    """Return R: the 99 % quantile of the norms of the reference rows, so that a few outliers do not set the scale."""
    # Departs from the paper: it takes the largest norm.
    bound = float(np.quantile(norms, _BOUND_QUANTILE))
    # A reference of zeros has no scale of its own.
    return bound if bound > _SMALLEST_BOUND else 1.0


def default_radius(n_coefs: int, *, is_scaled: bool, largest_score: float) -> float:
    """Return S: the paper's d/2, where d counts the intercept; for scaled features, at least 10 and the largest score.

    The largest score is that of ``max_ratio``: its logarithm for the logistic loss, ``max_ratio`` itself otherwise.
    """
    # Departs from the paper: dividing phi by R without a larger S limits |log r| to d/2, too small for small d.
    return max(n_coefs / 2.0, 10.0, largest_score) if is_scaled else n_coefs / 2.0


@lru_cache(maxsize=64)
def default_step_size(n_batch: int, *, is_log_linear: bool) -> float:
    """Return gamma of a round: larger batches have less noisy gradients and allow longer steps.

    Losses whose score is the ratio itself instead of its logarithm need shorter steps.
    """
    # Departs from the paper: with its 3 (1 + exp(S R)), every step ends on the surface of the ball.
    return (10.0 if is_log_linear else 2.0) * min(n_batch**0.25, 2.0)


def default_metric(n_features: int) -> str:
    """Return which part of their matrix learners keep; the intercept does not count as a feature."""
    return FULL if n_features <= MAX_FULL_FEATURES else LOW_RANK
