"""One round of a model: how its state moves, when it refits, and how the state is stored."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray, from_plain, to_plain
from accous.core.kernels_weights import is_comparison_due, is_fit_due, weigh_reference
from accous.core.regression import Point
from accous.diagnostics.coverage import NOTHING_FOUND, ROUNDS_BETWEEN_COLUMN_LOOKS, ColumnWatch
from accous.diagnostics.drift import ReferenceColumns
from accous.model.performance import AlarmWatch, LabelledRows
from accous.model.predictors import WeightedErm
from accous.model.safeguards import (
    Check,
    Fit,
    FixedModel,
    Guard,
    Safeguards,
    Veto,
    choose_strength,
    compare,
    is_choice_due,
    next_veto,
    start_safeguards,
)
from accous.model.tasks import Task
from accous.model.watching import (
    NO_ROUNDS,
    NO_ROWS,
    Read,
    RecentRows,
    ReferenceCover,
    RoundLog,
    Watch,
    recent_from_plain,
    rounds_from_plain,
    start_watch,
    watch_columns,
    watch_round,
)
from accous.ratio.base import RatioEstimator, checked_ratios, ratios_of_reference
from accous.text import LOGGER
from accous.threads import one_blas_thread

if TYPE_CHECKING:
    from accous.model.backtest import Verification
    from accous.model.heldout import HeldOutReference, Measures

# --- The state of an adaptive model after a round, and how to store it


@dataclass(frozen=True, kw_only=True)
class AdaptationState:
    """The state after a round. Each round replaces it as a whole, so every reader sees one consistent model.

    Attributes
    ----------
    n_rounds : int
    ratio : RatioEstimator
    weights : array of shape (n_reference,)
        Current importance weights of the reference.
    estimator : object
        The adapted predictor. Under a veto, the fixed predictor makes the predictions instead.
    fitted_weights : array of shape (n_reference,)
        The weights the adapted predictor was fitted with.
    n_refits : int
        Number of fits after the first.
    last_refit : int
        Round of the last fit.
    safeguards : Safeguards
        What holds the adaptation back.
    watch : Watch
        What the rounds showed about the inputs.
    recent : RecentRows
        The last rows of the stream, as numbers.
    n_rows : int
        Rows of all rounds.
    columns : ColumnWatch
        What single columns showed.
    rounds : RoundLog
        What the last rounds did.
    labelled : LabelledRows or None
        The newest rows whose labels came; None before the first.
    alarm : AlarmWatch or None
        The alarm; None until a label comes or the status is read.
    learning : Learning or None
        What was learned from labels; None before the first.
    """

    n_rounds: int
    ratio: Any = field(compare=False)
    weights: FloatArray
    estimator: Any = field(compare=False)
    fitted_weights: FloatArray
    n_refits: int
    last_refit: int
    safeguards: Safeguards
    watch: Watch
    recent: RecentRows = field(compare=False)
    n_rows: int
    columns: ColumnWatch
    rounds: RoundLog = field(default=NO_ROUNDS, compare=False)
    labelled: LabelledRows | None = field(default=None, compare=False)
    alarm: AlarmWatch | None = field(default=None, compare=False)
    learning: Any = field(default=None, compare=False)


def start_state(
    ratio: RatioEstimator, weights: FloatArray, estimator: Any, n_features: int, guard: Guard
) -> AdaptationState:
    """Return the state after ``fit``: no round yet, and the base weights of the reference."""
    return AdaptationState(
        n_rounds=0,
        ratio=ratio,
        weights=weights,
        estimator=estimator,
        fitted_weights=weights,
        n_refits=0,
        last_refit=0,
        safeguards=start_safeguards(ratio, guard),
        watch=start_watch(ratio, n_features),
        recent=NO_ROWS,
        n_rows=0,
        columns=NOTHING_FOUND,
    )


def under_guard(state: AdaptationState, guard: Guard) -> AdaptationState:
    """Return the state with the last comparison judged by this guard, in case it is another one than at the time."""
    veto = state.safeguards.veto
    is_held = guard.holds(veto.excess, veto.standard_error)
    if is_held == veto.is_held:
        return state
    check = replace(state.safeguards.check, veto=replace(veto, is_held=is_held))
    return replace(state, safeguards=replace(state.safeguards, check=check))


def state_to_plain(state: AdaptationState, fixed: Any, read: Read | None) -> dict[str, Any]:
    """Return everything but the ratio as nested dicts; built-in predictors are included if ``fixed`` is given.

    ``read`` is what was read after the last round.
    """
    plain: dict[str, Any] = to_plain(state)
    watch = plain["watch"]
    # The file format keeps the events next to their log instead of inside it.
    watch["events"] = [] if watch["log"] is None else watch["log"].pop("events")
    plain["recent"] = state.recent.to_plain()
    plain["rounds"] = state.rounds.to_plain(read)
    plain |= {"labelled": to_plain(state.labelled), "alarm": to_plain(state.alarm)}
    if fixed is not None:
        plain |= {"estimator": linear_to_plain(state.estimator), "fixed": linear_to_plain(fixed)}
    return plain


def linear_to_plain(predictor: Any) -> dict[str, Any] | None:
    """Return a built-in predictor as arrays and numbers; None for None."""
    if predictor is None:
        return None
    return {"coef": predictor.coef_, "intercept": predictor.intercept_, "point": to_plain(predictor.point)}


def linear_from_plain(plain: dict[str, Any], erm: Any) -> Any:
    """Undo ``linear_to_plain``, given how the built-in predictors are fitted."""
    return erm.restored(plain["coef"], plain["intercept"], from_plain(Point | None, plain["point"]))


def state_from_plain(plain: dict[str, Any], ratio: Any, estimator: Any) -> AdaptationState:
    """Undo ``state_to_plain``, given the ratio and the predictor."""
    watch = dict(plain["watch"])
    events = watch.pop("events")
    if watch["log"] is not None:
        watch["log"] = watch["log"] | {"events": events}
    stored = {each.name: plain[each.name] for each in fields(AdaptationState) if each.compare}
    given = {
        "watch": watch,
        "ratio": ratio,
        "estimator": estimator,
        "recent": recent_from_plain(plain["recent"]),
        "rounds": rounds_from_plain(plain["rounds"]),
    }
    state: AdaptationState = from_plain(AdaptationState, stored | given)
    return state


def predictors_from_plain(plain: dict[str, Any], erm: Any) -> tuple[Any, Any]:
    """Return the adapted and the fixed predictor, given how the built-in predictors are fitted."""
    return linear_from_plain(plain["estimator"], erm), linear_from_plain(plain["fixed"], erm)


# --- When a round refits the predictor, and when it compares the result with the fixed predictor


def is_refit_due(rules: RoundRules, rounds_since: int, effective_share: float, moved: float) -> bool:
    """Return what `accous.core.kernels_weights.is_fit_due` says by a model's rules."""
    at_least, refit_distance = rules.rounds_between_refits, rules.erm.refit_distance
    return is_fit_due(rules.refits_every, at_least, refit_distance, rounds_since, effective_share, moved)


def is_check_due(check: Check, erm: WeightedErm, this_round: int, n_refits: int, moved: float) -> bool:
    """Return what `is_comparison_due` there says after the last comparison."""
    usual = erm.rounds_between_checks, erm.refits_between_checks
    n_rounds, refits = this_round - check.veto.n_rounds, n_refits - check.veto.n_refits
    return is_comparison_due(n_rounds, refits, *usual, check.weights is not None, moved)


# --- One round of accous.AdaptiveClassifier: update the ratio, weigh, refit if due, check if due, watch


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
    reference : array or frame
        As the predictor reads it.
    verification : Verification
        What the replay of the reference showed.
    held_out : HeldOutReference
        What predictions for rows that a fit had not seen show.
    measures : Measures
        By what the model is judged.
    columns : ReferenceColumns
    cover : ReferenceCover
    names : list of str
        Names of the input columns.
    refit : {"auto", "always"} or int
    adaptation : {"auto", "always", "never"}
    has_safeguards : bool
        Whether the ratio counts only as far as past batches support it, and fits are shrunk and compared.
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
    reference: Any
    verification: Verification
    held_out: HeldOutReference
    measures: Measures
    columns: ReferenceColumns
    cover: ReferenceCover
    names: list[str]
    refit: int | str
    adaptation: str
    has_safeguards: bool
    guard: Guard
    has_numbers: bool
    shares_rows: bool
    limits_blas: bool
    rounds_between_refits: int = 0
    is_replay: bool = False

    @cached_property
    def takes_numbers(self) -> bool:
        """Whether the predictor takes rows in the form in which recent rows are kept."""
        is_array = isinstance(self.reference, np.ndarray) and self.reference.dtype == np.float64
        return self.has_numbers or (is_array and self.cover.has_columns)

    @cached_property
    def is_held_at_rest(self) -> bool:
        """Whether the fixed predictor is to predict while there is nothing to adapt to."""
        return self.guard.holds(0.0, 0.0)

    @cached_property
    def refits_every(self) -> int:
        """Rounds from one refit to the next; 0 to refit once the weights have moved."""
        # Departs from the paper: it refits in every round, which is too expensive for most predictors.
        return {"auto": 0, "always": 1}[self.refit] if isinstance(self.refit, str) else int(self.refit)

    @cached_property
    def chosen(self) -> tuple[int | str, str]:
        """The parameters that may be set again after ``fit``."""
        return self.refit, self.adaptation


def run_round(
    rules: RoundRules,
    before: AdaptationState,
    rows: Any,
    X_batch: Any,
    n_rows: int,
    read_before: Read | None = None,
    alarm: AlarmWatch | None = None,
) -> AdaptationState:
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
    read_before : Read, optional
        What was read after the round before; the history notes it.
    alarm : AlarmWatch, optional
        The alarm as it was read after the round before, if it was.
    """
    this_round = before.n_rounds + 1
    # Ratio estimators replace what they have learned and never modify it, so a shallow copy learns independently.
    ratio = before.ratio.__copy__()
    read = rows if rules.shares_rows else ratio.read(X_batch)
    batch_ratios = ratio.run(read)
    numbers = rows if rules.has_numbers else ratio.batch_as_numbers(read)
    tempered, pooled = before.safeguards.tempered, ratio.pooled()
    ratios, pool_share = pooled or (ratios_of_reference(ratio), 1.0)
    if pooled is None and rules.has_safeguards:
        if ratio.is_foreign:
            batch_ratios = checked_ratios(ratio, batch_ratios, n_rows, ("the batch", "_ratio"))
        tempered, ratios = tempered.after_round(batch_ratios, ratios, float(ratio.max_ratio))
        pool_share = tempered.share
    max_ratio = math.inf if pooled is None else float(ratio.max_ratio)
    weighed = weigh(
        rules, ratios, max_ratio, pool_share, before.weights, before.fitted_weights, before.safeguards.check
    )
    weights, share, n_effective = weighed.weights, weighed.share, weighed.n_effective
    fit, check = _fit_and_check(rules, before, this_round, weighed)
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
    if numbers is not None and ratio.bounds is not None:
        numbers = ratio.bounds.filled(numbers)
    recent, columns = before.recent if numbers is None else before.recent.add(numbers), before.columns
    if this_round % ROUNDS_BETWEEN_COLUMN_LOOKS == 0:
        columns = watch_columns(columns, rules.cover, this_round, recent)
    alarm = before.alarm if alarm is None else alarm
    if alarm is not None and recent.n_closed != alarm.n_closed:
        predictor = _in_use(rules, before.safeguards.check, before.estimator)
        is_replaced = _in_use(rules, check, fit.estimator) is not predictor
        # All blocks that are still kept in one call, but each by the predictor of its time.
        if is_replaced or recent.n_closed - alarm.n_closed > len(recent.blocks):
            alarm = alarm.after_blocks(rules, predictor, before.recent, before.labelled, before.n_rounds)
    return AdaptationState(
        n_rounds=this_round,
        ratio=ratio,
        weights=weights,
        estimator=fit.estimator,
        fitted_weights=fit.weights,
        n_refits=fit.n_refits,
        last_refit=fit.last_refit,
        safeguards=Safeguards(tempered, share, check),
        watch=watch,
        recent=recent,
        columns=columns,
        n_rows=before.n_rows + n_rows,
        labelled=before.labelled,
        alarm=alarm,
        learning=before.learning,
        rounds=before.rounds.after(
            read_before,
            n_effective,
            n_rows,
            share=share,
            refit=fit.last_refit == this_round,
            drift=watch.log is not before.watch.log and watch.found_change(before.watch),
            held=check.veto.is_held,
        ),
    )


def _in_use(rules: RoundRules, check: Check, adapted: Any) -> Any:
    return rules.fixed.estimator if check.veto.is_held else adapted


class Weighed(NamedTuple):
    """The reference as weighed after a round.

    Attributes
    ----------
    weights : array of shape (n_reference,)
        Importance weights: base weights times ratios, scaled to the mean of the base weights.
    shrunk : array of shape (n_reference,)
        Those for a fit.
    share : float
        How far the ratio counts: 0 if the weights say that there is nothing to adapt to.
    n_effective, n_shrunk : float
        Effective rows of both.
    since_fit, since_check : float
        How far they have moved since the last fit, and since the last comparison.
    """

    weights: FloatArray
    shrunk: FloatArray
    share: float
    n_effective: float
    n_shrunk: float
    since_fit: float
    since_check: float


def weigh(
    rules: RoundRules,
    ratios: FloatArray,
    max_ratio: float,
    share: float,
    before: FloatArray,
    fitted: FloatArray,
    check: Check,
) -> Weighed:
    """Weigh the reference.

    Parameters
    ----------
    rules : RoundRules
    ratios : array of shape (n_reference,)
    max_ratio : float
        Where ratios are cut.
    share : float
        How far the ratio counts if there is something to adapt to.
    before, fitted : arrays of shape (n_reference,)
        Weights of the round before, and of the last fit.
    check : Check
        The last comparison.
    """
    base, weights, shrunk, shown = rules.base_weight, np.empty(len(ratios)), np.empty(len(ratios)), np.empty(5)
    strength = check.strength if rules.has_safeguards else 0.0
    compared = base if check.weights is None else check.weights
    weigh_reference(base, ratios, max_ratio, before, fitted, compared, strength, weights, shrunk, shown)
    distance, *numbers = shown.tolist()
    if not rules.has_safeguards:
        share = 1.0
    elif distance < SMALLEST_SHIFT:
        share = 0.0
    return Weighed(weights, shrunk, share, *numbers)


def _fit_and_check(rules: RoundRules, before: AdaptationState, this_round: int, weighed: Weighed) -> tuple[Fit, Check]:
    """Refit if due, and compare with the fixed predictor if due."""
    check = before.safeguards.check
    if weighed.share == 0.0 or rules.guard.name == "off":
        # Nothing to adapt to, or the fixed predictor predicts whatever a comparison says.
        fixed = Fit(rules.fixed.estimator, rules.base_weight, before.n_refits, before.last_refit)
        veto = Veto(rules.is_held_at_rest, 0.0, 0.0, this_round, before.n_refits)
        return fixed, Check(veto, check.strength, None)
    weights, shrunk = weighed.weights, weighed.shrunk
    fit = Fit(before.estimator, before.fitted_weights, before.n_refits, before.last_refit)
    effective_share = weighed.n_shrunk / len(shrunk)
    if is_refit_due(rules, this_round - before.last_refit, effective_share, weighed.since_fit):
        fit = Fit(rules.erm.fit(shrunk, before.estimator), shrunk, before.n_refits + 1, this_round)
    if not rules.has_safeguards or not is_check_due(check, rules.erm, this_round, fit.n_refits, weighed.since_check):
        return fit, check
    with one_blas_thread():
        return check_fit(rules, fit, check.strength, weights, this_round)


def check_fit(rules: RoundRules, fit: Fit, strength: float, weights: FloatArray, this_round: int) -> tuple[Fit, Check]:
    """Choose how far to shrink the weights, and compare the predictor with the fixed one."""
    # A number of rounds between refits is kept: the choice needs fits of its own.
    chosen = None
    if (rules.refit == "auto" or fit.last_refit == this_round) and is_choice_due(rules.erm, weights):
        chosen = choose_strength(rules.erm, rules.task, weights, rules.base_weight, (strength, fit), this_round)
    if chosen is None:
        answers = rules.erm.cross_fitted(fit.weights, fit.estimator, is_quick=True)
    else:
        strength, fit, answers = chosen
    excess = compare(rules.fixed, rules.task, weights, answers)
    veto = next_veto(rules.guard, *excess, this_round, fit.n_refits)
    if not rules.erm.is_slow_to_cross_fit:
        return fit, Check(veto, strength, weights)
    scores = rules.task.set_scores(rules.erm, fit.weights, fit.estimator, is_quick=True)
    return fit, Check(veto, strength, weights, answers, scores)


# --- An upper bound on the time spent refitting, as a number of rounds between refits


# A comparison with the fixed predictor comes with every fifth refit and costs two fits on half of the rows.
_COST_OF_CHECKS = 1.2
_MOST_ROUNDS = 1 << 20


def rounds_between_refits(budget: float, refit_seconds: float, round_seconds: float) -> int:
    """Return how many rounds have to lie between two refits, a power of two.

    Powers of two, so that two fits on one machine nearly always give the same number.

    Parameters
    ----------
    budget : float
        Largest share of the time that refits may take, above 0; from 1 on there is no bound.
    refit_seconds, round_seconds : float
        What a refit takes, and a round without one.

    Examples
    --------
    >>> rounds_between_refits(0.2, refit_seconds=0.5, round_seconds=0.002)
    2048
    >>> rounds_between_refits(1.0, refit_seconds=0.5, round_seconds=0.002)
    0
    """
    if budget >= 1.0:
        return 0
    rounds = _COST_OF_CHECKS * refit_seconds / max(round_seconds, 1e-9) * (1.0 - budget) / budget
    if rounds < 1.0:
        return 0
    return int(min(_MOST_ROUNDS, 2 ** math.ceil(math.log2(rounds))))


def seconds_of(action: Callable[[], object], n_times: int = 3) -> float:
    """Return the processor time of an action, the least of a few times."""
    found = []
    for _ in range(n_times):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)


# --- What a round leaves in the log: changes of the inputs, and which model makes the predictions from now on


_SHOWN = {
    "outside": "values outside the range of the reference",
    "new values": "values that the reference does not have",
    "missing": "missing values",
    "categories": "categories that the reference does not have",
}


def log_events(before: AdaptationState, after: AdaptationState, fixed: FixedModel) -> None:
    """Log what is new after a round: changes of the inputs as INFO, vetoes as WARNING.

    Parameters
    ----------
    before, after : AdaptationState
        The states around the round.
    fixed : FixedModel
    """
    # With nothing to adapt to, the fixed model predicts anyway, and no comparison was made.
    if after.safeguards.veto.is_held != before.safeguards.veto.is_held and after.safeguards.share > 0.0:
        _log_veto(after, fixed)
    log, old = after.watch.log, before.watch.log
    if log is not None and old is not None and log.events is not old.events:
        _log_change(after)
    if after.columns is not before.columns:
        log_onsets(after.columns, after.n_rounds)


def log_onsets(columns: ColumnWatch, this_round: int) -> None:
    """Log as INFO which columns show something new since this round."""
    for event in columns.events:
        if event.round == this_round:
            LOGGER.info(
                "Round %d: column %s has %s in %.1f %% of the recent rows.",
                this_round,
                ", ".join(event.features),
                _SHOWN[event.kind],
                100.0 * event.size,
            )


def _log_veto(state: AdaptationState, fixed: FixedModel) -> None:
    veto = state.safeguards.veto
    name = "fixed" if veto.is_held else "adapted"
    LOGGER.warning(
        "Round %d: the %s model makes the predictions from now on. %s", state.n_rounds, name, _comparison(veto, fixed)
    )


def _comparison(veto: Veto, fixed: FixedModel) -> str:
    if math.isnan(veto.excess):
        return "The adapted and the fixed model could not be compared on the reference."
    scale, sign = fixed.scale, "-" if veto.excess < 0.0 else "+"
    return (
        f"{scale.name.capitalize()} on the weighted reference, adapted minus fixed: "
        f"{sign}{scale.difference(abs(veto.excess))} "
        f"(standard error {scale.difference(veto.standard_error).removesuffix(' points')})."
    )


def _log_change(state: AdaptationState) -> None:
    assert state.watch.log is not None
    event = state.watch.log.events[-1]
    columns = ", ".join(event.features) or "no single column"
    if event.rounds_to_adapt is None:
        returned = f" They are {event.return_in_words}." if event.seen else ""
        LOGGER.info(
            "Round %d: the inputs changed (size %.2f), mainly %s.%s", event.round, event.size, columns, returned
        )
    else:
        LOGGER.info(
            "Round %d: the change of round %d is over (size %.2f, mainly %s); the weights followed within %d rounds.",
            state.n_rounds,
            event.round,
            event.size,
            columns,
            event.rounds_to_adapt,
        )
