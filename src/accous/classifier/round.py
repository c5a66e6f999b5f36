r"""One round of `accous.AdaptiveClassifier`: update the ratio, temper, weigh, refit if due, veto if due, watch.

Every step is a pure function. `play_round` calls them in order and returns the next state.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.covering import ReferenceCover, watch_columns
from accous.classifier.drift_watch import watch_round
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import Fallback, FixedModel, Veto, compare, next_veto
from accous.classifier.guard import Guard
from accous.classifier.refit_rule import is_comparison_due, is_refit_due
from accous.classifier.state import AdaptationState
from accous.core.fast.kernels_weights import normalise_weights
from accous.diagnostics.attribution import ReferenceColumns
from accous.diagnostics.column_watch import ROUNDS_BETWEEN_COLUMN_LOOKS
from accous.diagnostics.weights import Tempering, temper

__all__ = ["RoundRules", "play_round", "weigh"]


@dataclass(frozen=True, kw_only=True)
class RoundRules:
    """What ``fit`` sets up and no round changes.

    Attributes
    ----------
    erm : WeightedErm
        How to fit the predictor.
    fixed : FixedModel
        The fixed predictor, which never adapts.
    labels : array of shape (n_reference,)
        Class numbers of the reference rows.
    base_weight : array of shape (n_reference,)
    columns : ReferenceColumns
    cover : ReferenceCover
    names : list of str
        Names of the input columns.
    refit : {"auto", "always"} or int
    has_fallback : bool
        Whether the adaptation is held back while there is evidence against it.
    caution : {"high", "normal", "low"}
    guard : Guard
        Which predictor makes the predictions after a comparison.
    has_numbers : bool
        Whether the predictor reads the rows as numbers.
    shares_rows : bool
        Whether the ratio reads the same rows as the predictor, so that one read is enough.
    limits_blas : bool
        Whether the steps of a round limit BLAS to one thread themselves, or do not use BLAS.
    is_replay : bool
        Whether the rounds are those of a backtest, which are not for the user's log.
    """

    erm: WeightedErm
    fixed: FixedModel
    labels: IntArray
    base_weight: FloatArray
    columns: ReferenceColumns
    cover: ReferenceCover
    names: list[str]
    refit: int | str
    has_fallback: bool
    caution: str
    guard: Guard
    has_numbers: bool
    shares_rows: bool
    limits_blas: bool
    is_replay: bool = False

    @cached_property
    def chosen(self) -> tuple[int | str, bool, str]:
        """The parameters that may be set again after ``fit``."""
        return self.refit, self.has_fallback, self.caution


class Fit(NamedTuple):
    """A predictor, the weights it was fitted with, and the round of that fit."""

    estimator: Any
    weights: FloatArray
    n_refits: int
    last_refit: int


def play_round(rules: RoundRules, before: AdaptationState, rows: Any, X_batch: Any, n_rows: int) -> AdaptationState:
    """Return the state after a round.

    Parameters
    ----------
    rules : RoundRules
    before : AdaptationState
        The state before the round; it is not changed.
    rows : array or frame
        The batch as the predictor reads it.
    X_batch : array or frame
        The batch as the user passed it.
    n_rows : int
        Number of rows in the batch.
    """
    this_round = before.n_rounds + 1
    # Ratio estimators replace what they have learned and never modify it, so a shallow copy learns independently.
    ratio = copy(before.ratio)
    read = rows if rules.shares_rows else ratio.read(X_batch)
    batch_ratios = ratio.play(read)
    numbers = rows if rules.has_numbers else ratio.batch_as_numbers(read)
    ratios = np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64)
    tempering = before.fallback.tempering
    if ratio.keeps_record:
        tempering = tempering.after_round(batch_ratios, ratios, float(ratio.max_ratio))
    exponent = tempering.exponent
    weights = weigh(rules, temper(ratios, exponent) if rules.has_fallback else ratios, before.weights)
    fit, veto = _fit_and_veto(rules, before, this_round, tempering, weights)
    watch = watch_round(
        before.watch,
        this_round=this_round,
        before=before.ratio,
        after=ratio,
        n_rows=n_rows,
        exponent=exponent,
        columns=rules.columns,
        names=rules.names,
    )
    recent, columns = before.recent if numbers is None else before.recent.add(numbers), before.columns
    if this_round % ROUNDS_BETWEEN_COLUMN_LOOKS == 0:
        columns = watch_columns(columns, rules.cover, this_round, recent)
    return AdaptationState(
        n_rounds=this_round,
        ratio=ratio,
        weights=weights,
        estimator=fit.estimator,
        fitted_weights=fit.weights,
        n_refits=fit.n_refits,
        last_refit=fit.last_refit,
        fallback=Fallback(tempering, veto),
        watch=watch,
        recent=recent,
        columns=columns,
        n_rows=before.n_rows + n_rows,
        n_fitted=before.n_fitted,
        late_labels=before.late_labels,
        rounds=before.rounds.after(
            before.cache,
            weights,
            n_rows,
            exponent=exponent if rules.has_fallback else 1.0,
            refit=fit.last_refit == this_round,
            drift=watch.log is not before.watch.log and watch.found_change(before.watch),
            held=veto.is_held,
        ),
    )


def weigh(rules: RoundRules, ratios: FloatArray, before: FloatArray) -> FloatArray:
    """Importance weights of the reference: base weights times ratios, scaled to the mean of the base weights."""
    weights = np.empty(len(rules.base_weight))
    # A ratio that is zero on the whole reference carries no information about its rows: keep the current weights.
    return weights if normalise_weights(rules.base_weight, ratios, weights) else before


def _fit_and_veto(
    rules: RoundRules, before: AdaptationState, this_round: int, tempering: Tempering, weights: FloatArray
) -> tuple[Fit, Veto]:
    """Refit if due, and compare with the fixed predictor if due."""
    if rules.has_fallback and tempering.exponent == 0.0:
        # There is nothing to adapt to, so no fit and no comparison is needed.
        fixed = Fit(rules.fixed.estimator, rules.base_weight, before.n_refits, before.last_refit)
        return fixed, next_veto(rules.guard, 0.0, 0.0, this_round, before.n_refits)
    fit = Fit(before.estimator, before.fitted_weights, before.n_refits, before.last_refit)
    if is_refit_due(rules.refit, rules.erm, before, weights, this_round):
        fit = Fit(rules.erm.fit(weights, before.estimator), weights, before.n_refits + 1, this_round)
    veto = before.fallback.veto
    has_record = rules.has_fallback and before.ratio.keeps_record
    if has_record and is_comparison_due(veto, rules.erm, this_round, fit.n_refits):
        with one_blas_thread():
            excess = compare(rules.erm, rules.fixed, rules.labels, weights, (fit.estimator, fit.weights))
        veto = next_veto(rules.guard, *excess, this_round, fit.n_refits)
    return fit, veto
