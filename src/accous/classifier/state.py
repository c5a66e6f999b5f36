"""What a round of `accous.AdaptiveClassifier` leaves behind, and how it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from accous.arrays import FloatArray
from accous.classifier.fallback import Fallback, fallback_from_plain, fallback_to_plain, start_fallback
from accous.classifier.drift_watch import Watch, start_watch, watch_from_plain, watch_to_plain

__all__ = ["AdaptationState", "complete", "state_from_plain", "state_to_plain"]


@dataclass(frozen=True)
class AdaptationState:
    """What a round leaves behind; replaced as a whole, so that every reader sees one consistent model.

    Attributes
    ----------
    n_rounds : int
    ratio : ratio estimator
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
        What the rounds told besides.
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


def state_to_plain(state: AdaptationState) -> dict[str, Any]:
    """All but ratio and predictor, as nested dicts of arrays, numbers and strings."""
    names = ("n_rounds", "weights", "fitted_weights", "n_refits", "last_refit")
    plain = {name: getattr(state, name) for name in names}
    return plain | {"fallback": fallback_to_plain(state.fallback), "watch": watch_to_plain(state.watch)}


def state_from_plain(plain: dict[str, Any], ratio: Any, estimator: Any) -> AdaptationState:
    """Undo ``state_to_plain``."""
    fallback, watch = fallback_from_plain(plain["fallback"]), watch_from_plain(plain["watch"])
    return AdaptationState(ratio=ratio, estimator=estimator, **plain | {"fallback": fallback, "watch": watch})


def complete(plain: dict[str, Any], ratio: Any, n_features: int) -> dict[str, Any]:
    """Return a copy; what was saved before there was a fallback gets one that knows nothing yet."""
    parts = dict(plain)
    if "fallback" not in plain:
        parts["fallback"] = fallback_to_plain(start_fallback(ratio))
        parts["watch"] = watch_to_plain(start_watch(ratio, n_features))
        if "coef" in plain:
            parts["estimator"] = {name: parts.pop(name, None) for name in ("coef", "intercept", "point")}
    return parts
