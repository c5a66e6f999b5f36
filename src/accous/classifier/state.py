"""The state of an adaptive model after a round, and how to store it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

from accous.arrays import FloatArray, from_plain, to_plain
from accous.classifier.drift_watch import Watch, start_watch
from accous.classifier.fallback import Fallback, start_fallback
from accous.classifier.guard import Guard
from accous.classifier.recent_rows import NO_ROWS, RecentRows, recent_from_plain
from accous.classifier.round_log import NO_ROUNDS, RoundLog, rounds_from_plain
from accous.classifier.shrinkage import FIRST_STRENGTH
from accous.core import start_tempered
from accous.core.regression import Point
from accous.diagnostics.coverage import NOTHING_FOUND, ColumnWatch
from accous.diagnostics.labels import LateLabels
from accous.ratio.base.base import RatioEstimator

__all__ = [
    "AdaptationState",
    "Joining",
    "predictors_from_plain",
    "start_state",
    "state_from_plain",
    "state_to_plain",
    "under_guard",
]


@dataclass(frozen=True)
class Joining:
    """When rows last joined the reference.

    Attributes
    ----------
    n_rounds, n_rows : int
        Rounds and rows of the stream until then.
    """

    n_rounds: int
    n_rows: int


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
    fallback : Fallback
        The safeguards that hold the adaptation back.
    watch : Watch
        What the rounds showed about the inputs.
    recent : RecentRows
        The last rows of the stream, as numbers.
    n_rows : int
        Rows of all rounds.
    n_fitted : int
        Rows of the reference that ``fit`` was given.
    joined : Joining or None
        When rows last joined the reference; None if it is the one that ``fit`` was given.
    late_labels : LateLabels or None
        What labels that arrived late have shown; None before the first.
    columns : ColumnWatch
        What single columns showed.
    rounds : RoundLog
        What the last rounds did.
    cache : dict
        Values computed from this state on first read.
    """

    n_rounds: int
    ratio: Any = field(compare=False)
    weights: FloatArray
    estimator: Any = field(compare=False)
    fitted_weights: FloatArray
    n_refits: int
    last_refit: int
    fallback: Fallback
    watch: Watch
    recent: RecentRows = field(compare=False)
    n_rows: int
    n_fitted: int
    columns: ColumnWatch
    joined: Joining | None = None
    late_labels: LateLabels | None = field(default=None, compare=False)
    rounds: RoundLog = field(default=NO_ROUNDS, compare=False)
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


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
        fallback=start_fallback(ratio, guard),
        watch=start_watch(ratio, n_features),
        recent=NO_ROWS,
        n_rows=0,
        n_fitted=len(weights),
        columns=NOTHING_FOUND,
    )


def under_guard(state: AdaptationState, guard: Guard) -> AdaptationState:
    """Return the state with the last comparison judged by this guard, in case it is another one than at the time."""
    fallback = state.fallback
    is_held = guard.holds(fallback.veto.excess, fallback.veto.standard_error)
    if is_held == fallback.veto.is_held:
        return state
    check = replace(fallback.check, veto=replace(fallback.veto, is_held=is_held))
    return replace(state, fallback=replace(fallback, check=check), cache={})


def state_to_plain(state: AdaptationState, fixed: Any) -> dict[str, Any]:
    """Return everything but the ratio as nested dicts; built-in predictors are included if ``fixed`` is given."""
    plain: dict[str, Any] = to_plain(state)
    watch = plain["watch"]
    # The file format keeps the events next to their log instead of inside it.
    watch["events"] = [] if watch["log"] is None else watch["log"].pop("events")
    plain["recent"] = state.recent.to_plain()
    plain["rounds"] = state.rounds.to_plain(state.cache)
    plain["late_labels"] = None if state.late_labels is None else to_plain(state.late_labels.packed())
    if fixed is not None:
        for name, predictor in (("estimator", state.estimator), ("fixed", fixed)):
            parts = {"coef": predictor.coef_, "intercept": predictor.intercept_}
            plain[name] = {**parts, "point": to_plain(predictor.point)}
    return plain


def state_from_plain(plain: dict[str, Any], ratio: Any, estimator: Any) -> AdaptationState:
    """Undo ``state_to_plain``, given the ratio and the predictor; the first folders have no recent rows and labels."""
    watch = dict(plain["watch"])
    events = watch.pop("events")
    if watch["log"] is not None:
        watch["log"] = watch["log"] | {"events": events}
    # The first folders had at least one row in each round.
    earlier = {"n_rows": plain["n_rounds"], "n_fitted": len(plain["weights"]), "columns": {}, "joined": None}
    known = earlier | plain | {"fallback": _fallback_from_plain(plain["fallback"])}
    stored = {each.name: known[each.name] for each in fields(AdaptationState) if each.compare}
    given = {
        "watch": watch,
        "ratio": ratio,
        "estimator": estimator,
        "recent": recent_from_plain(plain.get("recent")),
        "late_labels": _late_labels_from_plain(plain.get("late_labels")),
        "rounds": rounds_from_plain(plain.get("rounds"), plain["n_refits"]),
    }
    state: AdaptationState = from_plain(AdaptationState, stored | given)
    return state


def _late_labels_from_plain(plain: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the late labels; earlier folders call the errors of kept rows by what they were of classes."""
    if plain is not None and "plain_loss" not in plain:
        # Folders before 0.3 have only the discounted sums.
        plain = plain | {"plain_loss": math.nan}
    if plain is None or not any("is_wrong_fixed" in rows for rows in plain["kept"]):
        return plain
    kept = [rows | {"errors_fixed": rows["is_wrong_fixed"]} for rows in plain["kept"]]
    return plain | {"kept": [{name: rows[name] for name in rows if name != "is_wrong_fixed"} for rows in kept]}


def _fallback_from_plain(plain: dict[str, Any]) -> dict[str, Any]:
    """Return the safeguards; the first folders have other ones, which start again with the last veto."""
    if "tempering" not in plain:
        return plain
    share = float(plain["tempering"]["exponent"])
    check = {"veto": plain["veto"], "strength": FIRST_STRENGTH, "weights": None}
    return {"tempered": to_plain(start_tempered()), "share": share, "check": check}


def predictors_from_plain(plain: dict[str, Any], erm: Any) -> tuple[Any, Any]:
    """Return the adapted and the fixed predictor, given how the built-in predictors are fitted."""
    adapted, fixed = (
        erm.restored(parts["coef"], parts["intercept"], from_plain(Point | None, parts["point"]))
        for parts in (plain["estimator"], plain["fixed"])
    )
    return adapted, fixed
