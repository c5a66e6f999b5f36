"""The one rule behind every ``"auto"`` and ``None``: the same for all data.

``docs/defaults.md`` shows the sweep that led to it and the command that reruns it.
"""

from __future__ import annotations

import numpy as np

from accous.arrays import FloatArray
from accous.core.rounds import FULL, LOW_RANK

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
"""Columns up to which standardised rows stay as long as they are; ``docs/defaults.md`` has what is gained beyond."""

MAX_FULL_FEATURES = 1024
"""Features up to which learners keep their whole matrix; ``docs/performance.md`` has what it costs."""

_BOUND_QUANTILE = 0.99
_USUAL_COLUMNS = 12  # of the paper's synthetic data; docs/defaults.md says what else was tried
_SMALLEST_BOUND = 1e-150


def default_shortening(n_columns: int) -> float:
    """What standardised rows are divided by, so that many columns make them no longer than a dozen do.

    A standardised row of d columns is sqrt(d) long and the intercept beside it is 1: among hundreds of columns there is
    next to no intercept, and the ratio of a small part of the reference can fall only if that of the rest grows too.
    """
    # Departs from the paper: it has no intercept at all.
    return 1.0 if n_columns <= MAX_UNSHORTENED_COLUMNS else float(np.sqrt(n_columns / _USUAL_COLUMNS))


def default_feature_bound(norms: FloatArray) -> float:
    """R: the 99 % quantile of the norms of the reference rows, so that a few outliers do not set the scale."""
    # Departs from the paper: it takes the largest norm.
    bound = float(np.quantile(norms, _BOUND_QUANTILE))
    # A reference of zeros has no scale of its own.
    return bound if bound > _SMALLEST_BOUND else 1.0


def default_radius(n_coefs: int, *, is_scaled: bool, largest_score: float) -> float:
    """S: the paper's d/2, d counting the intercept; for features scaled to norm 1, at least 10 and the largest score.

    The largest score is that of ``max_ratio``: its logarithm for the logistic loss, itself for the others.
    """
    # Departs from the paper: dividing phi by R without a larger S would leave |log r| <= d/2, too small for small d.
    return max(n_coefs / 2.0, 10.0, largest_score) if is_scaled else n_coefs / 2.0


def default_step_size(n_batch: int, *, is_log_linear: bool) -> float:
    """Return gamma of a round: larger batches have quieter gradients and bear longer steps.

    Losses whose score is the ratio itself, not its logarithm, bear shorter ones.
    """
    # Departs from the paper: its 3 (1 + exp(S R)) throws every step onto the surface of the ball.
    return (10.0 if is_log_linear else 2.0) * min(n_batch**0.25, 2.0)


def default_metric(n_features: int) -> str:
    """Return what learners keep of their matrix; the intercept is not counted."""
    return FULL if n_features <= MAX_FULL_FEATURES else LOW_RANK
