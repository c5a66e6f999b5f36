"""Rounds of an ensemble as functions of everything they depend on, for tests that change one thing at a time."""

from accous.core.ensemble import EnsembleSettings, EnsembleState, Reference, choose_rounds, prepare_reference
from tests.builders import Array


def start_ensemble(settings: EnsembleSettings) -> EnsembleState:
    """The state before the first round, which no reference row has a part in."""
    return choose_rounds(settings, prepare_reference(settings.neutral[None], settings.loss)).start()


def run_round(
    state: EnsembleState, settings: EnsembleSettings, reference: Array, batch: Array, step_size: float
) -> EnsembleState:
    """The state after a round."""
    return choose_rounds(settings, prepare_reference(reference, settings.loss)).run(state, batch, step_size)


def reference_ratios(state: EnsembleState, settings: EnsembleSettings, reference: Reference, max_ratio: float) -> Array:
    """Ratios of the reference rows by a state."""
    return choose_rounds(settings, reference).reference_ratios(state, max_ratio)
