r"""One round of `accous.AdaptiveClassifier`: update the ratio, weigh, refit if due, check if due, watch.

Every step is a pure function. `play_round` calls them in order and returns the next state.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.classifier.covering import ReferenceCover, watch_columns
from accous.classifier.drift_watch import watch_round
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import Check, Fallback, FixedModel, compare, next_veto
from accous.classifier.guard import Guard
from accous.classifier.refit_rule import is_check_due, is_refit_due
from accous.classifier.shrinkage import Fit, choose_strength, is_choice_due, shrink
from accous.classifier.state import AdaptationState
from accous.classifier.task import Task
from accous.core import Tempered
from accous.core.kernels_rows import normalise_weights, total_variation
from accous.diagnostics.coverage import ROUNDS_BETWEEN_COLUMN_LOOKS
from accous.diagnostics.drift import ReferenceColumns
from accous.ratio.base.base import checked_ratios, ratios_of_reference
from accous.threads import one_blas_thread

__all__ = ["SMALLEST_SHIFT", "RoundRules", "check_fit", "play_round", "share_in_use", "weigh"]

# Total variation below which the weights are as good as the base weights. The estimate of a stream that stands still
# stays below it.
SMALLEST_SHIFT = 0.1


@dataclass(frozen=True, kw_only=True)
class RoundRules:
    """What ``fit`` sets up and no round changes.

    Attributes
    ----------
    erm : WeightedErm
        How to fit the predictor.
    fixed : FixedModel
        The fixed predictor, which never adapts.
    task : Task
        The labels of the reference, and what follows from their kind.
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
    rounds_between_refits : int
        At least so many, with ``refit="auto"``.
    is_replay : bool
        Whether the rounds are those of a backtest, which are not for the user's log.
    """

    erm: WeightedErm
    fixed: FixedModel
    task: Task
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
    rounds_between_refits: int = 0
    is_replay: bool = False

    @cached_property
    def chosen(self) -> tuple[int | str, bool, str]:
        """The parameters that may be set again after ``fit``."""
        return self.refit, self.has_fallback, self.caution


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
    tempered, ratios = hold_back(rules, ratio, before.fallback.tempered, batch_ratios, n_rows)
    weights = weigh(rules, ratios, before.weights)
    share = share_in_use(rules, ratio, tempered, weights)
    fit, check = _fit_and_check(rules, before, this_round, share, weights)
    watch = watch_round(
        before.watch,
        this_round=this_round,
        before=before.ratio,
        after=ratio,
        n_rows=n_rows,
        exponent=share,
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
        fallback=Fallback(tempered, share, check),
        watch=watch,
        recent=recent,
        columns=columns,
        n_rows=before.n_rows + n_rows,
        n_fitted=before.n_fitted,
        joined=before.joined,
        late_labels=before.late_labels,
        rounds=before.rounds.after(
            before.cache,
            weights,
            n_rows,
            share=share,
            refit=fit.last_refit == this_round,
            drift=watch.log is not before.watch.log and watch.found_change(before.watch),
            held=check.veto.is_held,
        ),
    )


def weigh(rules: RoundRules, ratios: FloatArray, before: FloatArray) -> FloatArray:
    """Importance weights of the reference: base weights times ratios, scaled to the mean of the base weights."""
    weights = np.empty(len(rules.base_weight))
    # A ratio that is zero on the whole reference carries no information about its rows: keep the current weights.
    return weights if normalise_weights(rules.base_weight, ratios, weights) else before


def hold_back(
    rules: RoundRules, ratio: Any, tempered: Tempered, batch_ratios: FloatArray, n_rows: int
) -> tuple[Tempered, FloatArray]:
    """Return the ratio of the reference in use, held back as far as past batches are evidence against it."""
    is_ours = not ratio.is_foreign
    ratios = np.ascontiguousarray(ratio.reference_ratio_, dtype=np.float64) if is_ours else ratios_of_reference(ratio)
    if ratio.is_pooled or not (ratio.keeps_record and rules.has_fallback):
        return tempered, ratios
    if not is_ours:
        batch_ratios = checked_ratios(ratio, batch_ratios, n_rows, ("the batch", "_ratio"))
    return tempered.after_round(batch_ratios, ratios, float(ratio.max_ratio))


def share_in_use(rules: RoundRules, ratio: Any, tempered: Tempered, weights: FloatArray) -> float:
    """Return how far the ratio counts: 0 if the weights say that there is nothing to adapt to."""
    if not (rules.has_fallback and ratio.keeps_record):
        return 1.0
    if total_variation(weights, rules.base_weight) < SMALLEST_SHIFT:
        return 0.0
    share: float = ratio.share_in_use if ratio.is_pooled else tempered.share
    return share


def _fit_and_check(
    rules: RoundRules, before: AdaptationState, this_round: int, share: float, weights: FloatArray
) -> tuple[Fit, Check]:
    """Refit if due, and compare with the fixed predictor if due."""
    check = before.fallback.check
    if share == 0.0:
        # There is nothing to adapt to, so no fit and no comparison is needed.
        fixed = Fit(rules.fixed.estimator, rules.base_weight, before.n_refits, before.last_refit)
        veto = next_veto(rules.guard, 0.0, 0.0, this_round, before.n_refits)
        return fixed, Check(veto, check.strength, None)
    has_safeguards = rules.has_fallback and before.ratio.keeps_record
    shrunk = shrink(weights, rules.base_weight, check.strength) if has_safeguards else weights
    fit = Fit(before.estimator, before.fitted_weights, before.n_refits, before.last_refit)
    if is_refit_due(rules.refit, rules.erm, before, shrunk, this_round, rules.rounds_between_refits):
        fit = Fit(rules.erm.fit(shrunk, before.estimator), shrunk, before.n_refits + 1, this_round)
    if not has_safeguards or not is_check_due(check, rules.erm, this_round, fit.n_refits, weights):
        return fit, check
    with one_blas_thread():
        return check_fit(rules, fit, check.strength, weights, this_round)


def check_fit(rules: RoundRules, fit: Fit, strength: float, weights: FloatArray, this_round: int) -> tuple[Fit, Check]:
    """Choose how far to shrink the weights, and compare the predictor with the fixed one."""
    # A number of rounds between refits is kept: the choice needs fits of its own.
    if (rules.refit == "auto" or fit.last_refit == this_round) and is_choice_due(rules.erm, weights):
        strength, fit = choose_strength(rules.erm, rules.task, weights, rules.base_weight, (strength, fit), this_round)
    answers = rules.erm.cross_fitted(fit.weights, fit.estimator, is_quick=True)
    excess = compare(rules.fixed, rules.task, weights, answers)
    veto = next_veto(rules.guard, *excess, this_round, fit.n_refits)
    if not rules.erm.is_slow_to_cross_fit:
        return fit, Check(veto, strength, weights)
    scores = rules.task.set_scores(rules.erm, fit.weights, fit.estimator, is_quick=True)
    return fit, Check(veto, strength, weights, answers, scores)
