"""What each round shows about the inputs: rows out of bound, columns that moved, a log of changes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.drift import (
    ROUNDS_BETWEEN_LOOKS,
    DriftLog,
    ReferenceColumns,
    linear_parts,
    main_columns,
    shares,
    start_log,
)
from accous.threads import one_blas_thread

__all__ = ["LOOK_DECAY", "ROUND_DECAY", "Watch", "parts_of_coef", "shares_of_parts", "start_watch", "watch_round"]

HALF_LIFE = 64
ROUND_DECAY = 0.5 ** (1.0 / HALF_LIFE)
# Reached by a log ratio with a standard deviation of 1/7 in one look, or a smaller one in several looks.
_SMALLEST_VARIANCE = 0.02
LOOK_DECAY = 0.5 ** (ROUNDS_BETWEEN_LOOKS / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Watch:
    """What was observed so far.

    Attributes
    ----------
    n_recent : float
        Number of rounds, discounted with a half-life of 64.
    n_recent_out : float
        Sum over the rounds of the share of rows out of bound, with the same discount.
    column_parts : array of shape (n_features,)
        Contribution of each column to the variance of the log ratio, summed over looks and discounted.
    log : DriftLog or None
        None if the ratio has no theta.
    """

    n_recent: float
    n_recent_out: float
    column_parts: FloatArray
    log: DriftLog | None

    @property
    def column_shares(self) -> FloatArray:
        """Share of each column; zeros if the log ratio of recent rounds hardly varied."""
        return shares_of_parts(self.column_parts)

    @property
    def share_out_of_bound(self) -> float:
        """Share of recent rows whose norm exceeds the bound; NaN if there is no bound."""
        if self.log is None:
            return float("nan")
        return self.n_recent_out / self.n_recent if self.n_recent else 0.0

    def found_change(self, before: Watch) -> bool:
        """Whether a change of the inputs was detected since an earlier watch."""
        if self.log is None or before.log is None:
            return False
        new, old = self.log.events, before.log.events
        return bool(new) and (not old or new[-1].round != old[-1].round)

    def on_other_reference(self) -> Watch:
        """Return the same watch without what was computed for the rows of an earlier reference."""
        return self if self.log is None else replace(self, log=replace(self.log, settled_weights=None))


def shares_of_parts(parts: FloatArray) -> FloatArray:
    """Return the share of each column; zeros if the parts are too small to speak of a shift."""
    return np.zeros_like(parts) if parts.sum() < _SMALLEST_VARIANCE else shares(parts)


def start_watch(ratio: Any, n_features: int) -> Watch:
    """Return a watch that has observed nothing yet."""
    return Watch(0.0, 0.0, np.zeros(n_features), start_log(ratio.coef_) if ratio.has_scores else None)


def watch_round(
    watch: Watch,
    *,
    this_round: int,
    before: Any,
    after: Any,
    n_rows: int,
    exponent: float,
    columns: ReferenceColumns,
    names: list[str],
) -> Watch:
    """Return the watch after a round, given the ratio before and after it; columns are examined every 16 rounds."""
    n_recent_out = watch.n_recent_out
    if watch.log is not None:
        n_recent_out = ROUND_DECAY * n_recent_out + (after.n_out_of_bound_ - before.n_out_of_bound_) / n_rows
    watch = Watch(ROUND_DECAY * watch.n_recent + 1.0, n_recent_out, watch.column_parts, watch.log)
    if this_round % ROUNDS_BETWEEN_LOOKS:
        return watch
    with nullcontext() if after.is_free_of_blas else one_blas_thread():
        if watch.log is None:
            return _look_at_ratios(watch, after, exponent, columns)
        return _look_at_scores(watch, this_round, after, exponent, columns, names)


def _look_at_scores(
    watch: Watch,
    this_round: int,
    ratio: Any,
    exponent: float,
    columns: ReferenceColumns,
    names: list[str],
) -> Watch:
    """Examine a ratio that is a function of scores: its theta shows what moved, and by how much."""
    assert watch.log is not None
    parts = LOOK_DECAY * watch.column_parts
    change = exponent * (ratio.coef_ - ratio.neutral_coef_)
    if exponent:
        parts += parts_of_coef(ratio, change, columns)
    log = watch.log.look(
        this_round,
        ratio.neutral_coef_ + change,
        weigh=ratio.ratios_at,
        name=lambda change: main_columns(shares(parts_of_coef(ratio, change, columns)), names),
        recall=ratio.earlier_visit,
    )
    return replace(watch, column_parts=parts, log=log)


def _look_at_ratios(watch: Watch, ratio: Any, exponent: float, columns: ReferenceColumns) -> Watch:
    """Examine any other ratio: which columns correlate with its values on the reference."""
    parts = LOOK_DECAY * watch.column_parts
    if exponent:
        log_ratios = np.log(np.maximum(np.asarray(ratio.reference_ratio_, dtype=np.float64), 0.01))
        parts += exponent**2 * columns.parts(log_ratios)
    return replace(watch, column_parts=parts)


def parts_of_coef(ratio: Any, coef: FloatArray, columns: ReferenceColumns) -> FloatArray:
    """Return the contribution of each column to the variance of the score at a theta, or at a difference of two."""
    if ratio.features_.keeps_columns:
        # Each feature is a column; the intercept comes last.
        return linear_parts(coef, ratio.score_covariances(coef))[: ratio.features_.n_columns]
    return columns.parts(np.asarray(ratio.reference_features_ @ coef, dtype=np.float64))
