"""What a round leaves in the log: a change of the inputs, and a veto that is taken or released."""

from __future__ import annotations

from accous.classifier.state import AdaptationState
from accous.logs import LOGGER

__all__ = ["log_events"]


def log_events(before: AdaptationState, after: AdaptationState) -> None:
    """Log what is new after a round: changes of the inputs as INFO, vetoes as WARNING.

    Parameters
    ----------
    before, after : AdaptationState
        The states around the round.
    """
    if after.fallback.veto.is_held != before.fallback.veto.is_held:
        _log_veto(after)
    log, old = after.watch.log, before.watch.log
    if log is not None and old is not None and log.events is not old.events:
        _log_change(after)


def _log_veto(state: AdaptationState) -> None:
    veto = state.fallback.veto
    if veto.is_held:
        LOGGER.warning(
            "Round %d: the fixed model makes the predictions. On the weighted reference the adapted one errs by %+.1f "
            "points more (standard error %.1f).",
            state.n_rounds,
            100.0 * veto.excess,
            100.0 * veto.standard_error,
        )
    else:
        LOGGER.warning("Round %d: the adapted model makes the predictions again.", state.n_rounds)


def _log_change(state: AdaptationState) -> None:
    assert state.watch.log is not None
    event = state.watch.log.events[-1]
    columns = ", ".join(event.features) or "no single column"
    if event.rounds_to_adapt is None:
        LOGGER.info("Round %d: the inputs changed (size %.2f), mainly %s.", event.round, event.size, columns)
    else:
        LOGGER.info(
            "Round %d: the change of round %d is over (size %.2f, mainly %s); the weights followed within %d rounds.",
            state.n_rounds,
            event.round,
            event.size,
            columns,
            event.rounds_to_adapt,
        )
