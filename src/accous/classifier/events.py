"""What a round leaves in the log: changes of the inputs, and which model makes the predictions from now on."""

from __future__ import annotations

import math

from accous.classifier.fallback import FixedModel, Veto
from accous.classifier.state import AdaptationState
from accous.diagnostics.coverage import ColumnWatch
from accous.text import LOGGER

__all__ = ["log_events", "log_onsets"]

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
    if after.fallback.veto.is_held != before.fallback.veto.is_held and after.fallback.share > 0.0:
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
    veto = state.fallback.veto
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
