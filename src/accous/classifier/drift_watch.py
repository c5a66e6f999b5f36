"""What the rounds tell besides the predictor: rows out of bound, columns that moved, a log of changes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accous.blas import one_blas_thread
from accous.arrays import FloatArray
from accous.diagnostics.attribution import ReferenceColumns, linear_parts, shares
from accous.diagnostics.drift import ROUNDS_BETWEEN_LOOKS, DriftEvent, DriftLog, main_columns, start_log
from accous.diagnostics.tempering import HALF_LIFE
from accous.ratio.linear import LinearRatio
from accous.ratio.maps import Identity, Standardize

__all__ = ["Watch", "start_watch", "watch_from_plain", "watch_round", "watch_to_plain"]

_ROUND_DECAY = 0.5 ** (1.0 / HALF_LIFE)
# A standard deviation of the log ratio of a seventh in one look, and of less in several.
_SMALLEST_VARIANCE = 0.02
_LOOK_DECAY = 0.5 ** (ROUNDS_BETWEEN_LOOKS / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Watch:
    """What was noticed so far.

    Attributes
    ----------
    n_recent : float
        Rounds, discounted with a half-life of 64.
    n_recent_out : float
        The sum of their shares of rows out of bound, discounted the same.
    column_parts : array of shape (n_features,)
        What each column brought to the variance of the log ratio, summed over looks and discounted.
    log : DriftLog or None
        None where the ratio has no theta.
    """

    n_recent: float
    n_recent_out: float
    column_parts: FloatArray
    log: DriftLog | None

    @property
    def column_shares(self) -> FloatArray:
        """Share of each column; zeros where the log ratio of recent rounds did not vary enough to speak of."""
        is_still = self.column_parts.sum() < _SMALLEST_VARIANCE
        return np.zeros_like(self.column_parts) if is_still else shares(self.column_parts)

    @property
    def share_out_of_bound(self) -> float:
        """Share of recent rows that were longer than the bound; NaN where there is no bound."""
        if self.log is None:
            return float("nan")
        return self.n_recent_out / self.n_recent if self.n_recent else 0.0


def start_watch(ratio: Any, n_features: int) -> Watch:
    """Nothing noticed yet."""
    log = start_log(ratio.coef_) if isinstance(ratio, LinearRatio) else None
    return Watch(0.0, 0.0, np.zeros(n_features), log)


def watch_round(
    watch: Watch,
    this_round: int,
    ratios: tuple[Any, Any],
    n_rows: int,
    exponent: float,
    columns: ReferenceColumns,
    names: Callable[[], list[str]],
) -> Watch:
    """Take notice of a round, given the ratio before and after it; columns are looked at in every sixteenth."""
    before, after = ratios
    n_recent_out = watch.n_recent_out
    if watch.log is not None:
        n_recent_out = _ROUND_DECAY * n_recent_out + (after.n_out_of_bound_ - before.n_out_of_bound_) / n_rows
    n_recent = _ROUND_DECAY * watch.n_recent + 1.0
    if this_round % ROUNDS_BETWEEN_LOOKS:
        return Watch(n_recent, n_recent_out, watch.column_parts, watch.log)
    with nullcontext() if getattr(after, "_is_free_of_blas", False) else one_blas_thread():
        parts, log = _LOOK_DECAY * watch.column_parts, watch.log
        if isinstance(after, LinearRatio) and log is not None:
            neutral = after._neutral_coef
            change = exponent * (after.coef_ - neutral)
            if exponent:
                parts += _parts_of_coef(after, change, columns)
            log = _look(log, this_round, after, neutral + change, columns, names)
        elif exponent:
            parts += exponent**2 * columns.parts(_log(np.asarray(after.reference_ratio_, dtype=np.float64)))
    return Watch(n_recent, n_recent_out, parts, log)


def _look(
    log: DriftLog,
    this_round: int,
    ratio: LinearRatio,
    coef: FloatArray,
    columns: ReferenceColumns,
    names: Callable[[], list[str]],
) -> DriftLog:
    return log.look(
        this_round,
        coef,
        weigh=lambda theta: ratio.whole_reference_.ratios(theta, float(ratio.max_ratio)),
        name=lambda change: main_columns(shares(_parts_of_coef(ratio, change, columns)), names()),
    )


def _parts_of_coef(ratio: LinearRatio, coef: FloatArray, columns: ReferenceColumns) -> FloatArray:
    if isinstance(ratio.features_.row_map, (Identity, Standardize)):
        # Each feature is a column; the intercept comes last.
        covariances = ratio.whole_reference_.score_covariances(coef)
        return linear_parts(coef, covariances)[: ratio.features_.n_columns]
    return columns.parts(np.asarray(ratio.reference_features_ @ coef, dtype=np.float64))


def _log(ratios: FloatArray) -> FloatArray:
    return np.log(np.maximum(ratios, 0.01))


def watch_to_plain(watch: Watch) -> dict[str, Any]:
    """Nested dicts of arrays, numbers and strings."""
    log = watch.log
    plain: dict[str, Any] = {name: getattr(watch, name) for name in ("n_recent", "n_recent_out", "column_parts")}
    plain["log"] = (
        None if log is None else {"coef": log.coef, "settled_coef": log.settled_coef, "sizes": list(log.sizes)}
    )
    events = () if log is None else log.events
    plain["events"] = [vars(event) | {"features": list(event.features)} for event in events]
    return plain


def watch_from_plain(plain: dict[str, Any]) -> Watch:
    """Undo ``watch_to_plain``."""
    events = tuple(DriftEvent(**event | {"features": tuple(event["features"])}) for event in plain["events"])
    watch = Watch(plain["n_recent"], plain["n_recent_out"], plain["column_parts"], None)
    if plain["log"] is None:
        return watch
    log = DriftLog(**plain["log"] | {"sizes": tuple(plain["log"]["sizes"])}, events=events)
    return replace(watch, log=log)
