"""When a round refits the predictor, and when it compares the result with the fixed predictor."""

from __future__ import annotations

from typing import Any

from accous.arrays import FloatArray
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import Check
from accous.classifier.state import AdaptationState
from accous.core.kernels_rows import effective_rows, total_variation

__all__ = ["is_check_due", "is_refit_due", "refit_limit"]

_REFIT_SENSITIVITY = 1.0 / 3.0
# Weights that moved by this total variation since the last check are checked at once, with a 16th of the usual rounds
# in between.
_JUMP = 0.2
_SHARE_OF_ROUNDS = 1.0 / 16.0
_REFITS_AFTER_JUMP = 2


def is_refit_due(
    refit: int | str,
    erm: WeightedErm,
    before: AdaptationState,
    weights: FloatArray,
    this_round: int,
    fewest_rounds: int = 0,
) -> bool:
    """Whether to refit the predictor: the weights have moved enough, or enough rounds have passed.

    Parameters
    ----------
    refit : {"auto", "always"} or int
        The rule: by how far the weights moved, in every round, or every so many rounds.
    erm : WeightedErm
        Says how far weights may move before a refit is worth its cost.
    before : AdaptationState
        The state before the round.
    weights : array of shape (n_reference,)
        The weights after the round.
    this_round : int
    fewest_rounds : int, default=0
        How many rounds have to lie between two refits by the first rule; see `accous.classifier.refit_budget`.
    """
    if refit == "always":
        return True
    if refit == "auto":
        if this_round - before.last_refit < fewest_rounds:
            return False
        # Departs from the paper: it refits in every round, which is too expensive for most predictors.
        # The fewer rows carry the weight, the more a fit depends on each of them.
        limit = refit_limit(erm, effective_rows(weights) / len(weights))
        return bool(total_variation(weights, before.fitted_weights) > limit)
    return this_round - before.last_refit >= int(refit)


def refit_limit(erm: WeightedErm, effective_share: Any) -> Any:
    """Return how far weights may move before a refit, given the share of effective rows: a number or an array."""
    return erm.refit_distance * effective_share**_REFIT_SENSITIVITY


def is_check_due(check: Check, erm: WeightedErm, this_round: int, n_refits: int, weights: FloatArray) -> bool:
    """Whether to compare with the fixed predictor again: enough rounds and refits have passed, or the stream jumped.

    The first adapted predictor, and the first after rounds with nothing to adapt to, are compared soon after the fit.

    Parameters
    ----------
    check : Check
        The last comparison.
    erm : WeightedErm
    this_round, n_refits : int
    weights : array of shape (n_reference,)
        Current importance weights.
    """
    n_rounds, refits = this_round - check.veto.n_rounds, n_refits - check.veto.n_refits
    if refits < 1 or n_rounds < _SHARE_OF_ROUNDS * erm.rounds_between_checks:
        return False
    if n_rounds >= erm.rounds_between_checks and refits >= erm.refits_between_checks:
        return True
    if check.weights is None:
        return True
    return refits >= min(_REFITS_AFTER_JUMP, erm.refits_between_checks) and (
        total_variation(weights, check.weights) > _JUMP
    )
