"""What a round of `accous.AdaptiveClassifier` leaves behind, and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from accous.arrays import FloatArray, from_plain, to_plain
from accous.classifier.drift_watch import Watch, start_watch
from accous.classifier.erm import LinearPredictor
from accous.classifier.fallback import Fallback, start_fallback
from accous.core.solvers.descent import Point
from accous.ratio.base import RatioEstimator

__all__ = ["AdaptationState", "predictors_from_plain", "start_state", "state_from_plain", "state_to_plain"]

_STORED_AS_THEY_ARE = ("n_rounds", "weights", "fitted_weights", "n_refits", "last_refit")


@dataclass(frozen=True, kw_only=True)
class AdaptationState:
    """What a round leaves behind; replaced as a whole, so that every reader sees one consistent model.

    Attributes
    ----------
    n_rounds : int
    ratio : RatioEstimator
    weights : array of shape (n_reference,)
        Importance weights of the reference now.
    estimator : object
        The adapted predictor; under a veto the fixed one answers in its place.
    fitted_weights : array of shape (n_reference,)
        The weights it was fitted with.
    n_refits : int
        Fits after the first.
    last_refit : int
        Round of the last fit.
    fallback : Fallback
        What holds the adaptation back.
    watch : Watch
        What the rounds showed besides.
    cache : dict
        What was computed from this state when it was read.
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
    cache: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)


def start_state(ratio: RatioEstimator, weights: FloatArray, estimator: Any, n_features: int) -> AdaptationState:
    """Return the state after ``fit``: no round yet, and the weights that the reference came with."""
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
    )


def state_to_plain(state: AdaptationState, fixed: LinearPredictor | None) -> dict[str, Any]:
    """Return all but the ratio as nested dicts; predictors only where they are our own (``fixed`` is given then)."""
    plain = {name: getattr(state, name) for name in _STORED_AS_THEY_ARE}
    plain |= {"fallback": to_plain(state.fallback), "watch": _watch_to_plain(state.watch)}
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
    """Store the events beside the log that they belong to: files keep them so."""
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
