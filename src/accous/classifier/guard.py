"""The guard: whether the adapted predictor may make the predictions, given a backtest and the user's caution.

The guard is chosen once, at ``fit``. The veto of each comparison follows it.
"""

from __future__ import annotations

from dataclasses import dataclass

from accous.diagnostics.risk import LARGEST_UNEXPLAINED, Evidence

__all__ = ["CAUTIONS", "DOUBTED", "FREE", "LENIENT", "OFF", "STRICT", "UNPROVEN", "Guard", "choose_guard"]

CAUTIONS = ("high", "normal", "low")
# Chosen on half of the streams in docs/trust.md and checked on the other half.
LARGEST_LOSS = 0.002
QUIET_DRIFT = 0.08
VETO_STANDARD_ERRORS = 1.5
GAIN_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Guard:
    """When the fixed predictor makes the predictions in place of the adapted one.

    Attributes
    ----------
    name : {"free", "lenient", "strict", "off"}
    sentence : str
        Why, in one sentence.
    """

    name: str
    sentence: str

    def holds(self, excess: float, standard_error: float) -> bool:
        """Whether to hold the adapted predictor back after a comparison with the fixed one.

        Parameters
        ----------
        excess, standard_error : float
            Weighted, cross-fitted error of the adapted predictor minus that of the fixed one; NaN if unknown.
        """
        if self.name == "free":
            return False
        if self.name == "lenient":
            return excess > VETO_STANDARD_ERRORS * standard_error
        return self.name == "off" or not excess < -GAIN_STANDARD_ERRORS * standard_error

    @property
    def starts_held(self) -> bool:
        """Whether the fixed predictor makes the predictions until a comparison says otherwise."""
        return self.holds(float("nan"), float("nan"))


# Departs from the paper: it adapts in every round, without any safeguard. That is "free".
FREE = Guard("free", "Adaptation is not held back.")
LENIENT = Guard(
    "lenient",
    "The adapted model predicts unless it is clearly worse than the fixed model on the weighted reference.",
)
STRICT = Guard(
    "strict",
    "The adapted model predicts only while it is clearly better than the fixed model on the weighted reference, "
    "because rows of the reference differ from the rows before them.",
)
OFF = Guard("off", "The fixed model predicts, because the backtest does not support adaptation.")
# Adaptation did no harm in the backtest, but the estimates that would decide when to adapt were wrong there.
DOUBTED = Guard(
    "off",
    "The fixed model predicts, because the estimates of the backtest were too far from the truth to tell when "
    "adaptation helps.",
)
UNPROVEN = Guard("off", "The fixed model predicts, because caution is high and no backtest supports adaptation.")


def choose_guard(evidence: Evidence | None, caution: str) -> Guard:
    """Choose the guard.

    With caution "low" it is lenient. With "normal" it depends on the backtest: without one, or where the reference is
    quiet (drift below 0.08), it is lenient; where the reference drifts, it is strict. It is off where the backtest's
    estimates missed the truth by 4 points or more beyond what sampling explains, or where the reference drifts and
    adaptation cost more than 0.2 points. With "high" the same rules hold, and without a backtest it is off.

    Parameters
    ----------
    evidence : Evidence, optional
        None without a backtest.
    caution : {"high", "normal", "low"}
    """
    if caution == "low":
        return LENIENT
    if evidence is None:
        return UNPROVEN if caution == "high" else LENIENT
    if evidence.fixed.unexplained >= LARGEST_UNEXPLAINED:
        return DOUBTED if evidence.gain < 0.0 else OFF
    if evidence.drift < QUIET_DRIFT:
        return LENIENT
    return OFF if evidence.gain > LARGEST_LOSS else STRICT
