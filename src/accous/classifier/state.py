"""The state of `accous.AdaptiveClassifier` after a round, and how to store it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from accous.arrays import FloatArray, from_plain, to_plain
from accous.classifier.drift_watch import Watch, start_watch
from accous.classifier.erm import LinearPredictor
from accous.classifier.fallback import Fallback, start_fallback
from accous.classifier.recent_rows import NO_ROWS, RecentRows, recent_from_plain
from accous.core.solvers.descent import Point
from accous.diagnostics.column_watch import NOTHING_FOUND, ColumnWatch
from accous.ratio.base import RatioEstimator

__all__ = ["AdaptationState", "predictors_from_plain", "start_state", "state_from_plain", "state_to_plain"]

_STORED_AS_THEY_ARE = ("n_rounds", "weights", "fitted_weights", "n_refits", "last_refit")


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
    columns : ColumnWatch
        What single columns showed.
    cache : dict
        Values computed from this state on first read.
    """

    n_rounds: int
    ratio: Any
    weights: FloatArray
    estimator: Any
    fitted_weights: FloatArray
    n_refits: int
    last_refit: int
    fallback: Fallback
    watch: Watch
    recent: RecentRows
    columns: ColumnWatch
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def start_state(ratio: RatioEstimator, weights: FloatArray, estimator: Any, n_features: int) -> AdaptationState:
    """Return the state after ``fit``: no round yet, and the base weights of the reference."""
    return AdaptationState(
        n_rounds=0,
        ratio=ratio,
        weights=weights,
        estimator=estimator,
        fitted_weights=weights,
        n_refits=0,
        last_refit=0,
        fallback=start_fallback(ratio),
        watch=start_watch(ratio, n_features),
        recent=NO_ROWS,
        columns=NOTHING_FOUND,
    )


def state_to_plain(state: AdaptationState, fixed: LinearPredictor | None) -> dict[str, Any]:
    """Return everything but the ratio as nested dicts; built-in predictors are included if ``fixed`` is given."""
    plain = {name: getattr(state, name) for name in _STORED_AS_THEY_ARE}
    plain |= {"fallback": to_plain(state.fallback), "watch": _watch_to_plain(state.watch)}
    plain |= {"recent": state.recent.to_plain(), "columns": to_plain(state.columns)}
    if fixed is not None:
        for name, predictor in (("estimator", state.estimator), ("fixed", fixed)):
            parts = {"coef": predictor.coef_, "intercept": predictor.intercept_}
            plain[name] = {**parts, "point": to_plain(predictor.point)}
    return plain


def state_from_plain(plain: dict[str, Any], ratio: Any, estimator: Any) -> AdaptationState:
    """Undo ``state_to_plain``, given the ratio and the predictor."""
    return AdaptationState(
        ratio=ratio,
        estimator=estimator,
        fallback=from_plain(Fallback, plain["fallback"]),
        watch=_watch_from_plain(plain["watch"]),
        # Folders saved by the first versions have neither.
        recent=recent_from_plain(plain.get("recent")),
        columns=from_plain(ColumnWatch, plain.get("columns", {})),
        **{name: plain[name] for name in _STORED_AS_THEY_ARE},
    )


def predictors_from_plain(plain: dict[str, Any], classes: NDArray[Any]) -> tuple[LinearPredictor, LinearPredictor]:
    """Return the adapted and the fixed predictor."""
    adapted, fixed = (
        LinearPredictor(parts["coef"], parts["intercept"], classes, from_plain(Point | None, parts["point"]))
        for parts in (plain["estimator"], plain["fixed"])
    )
    return adapted, fixed


def _watch_to_plain(watch: Watch) -> dict[str, Any]:
    """Store the events next to their log instead of inside it, as the file format requires."""
    plain: dict[str, Any] = to_plain(watch)
    plain["events"] = [] if plain["log"] is None else plain["log"].pop("events")
    return plain


def _watch_from_plain(plain: dict[str, Any]) -> Watch:
    parts = dict(plain)
    events = parts.pop("events")
    if parts["log"] is not None:
        parts["log"] = parts["log"] | {"events": events}
    watch: Watch = from_plain(Watch, parts)
    return watch
