"""Is the adapted model better than the fixed one? The sentence also says which of the two predicts now."""

from __future__ import annotations

import math
from typing import Any

from accous.diagnostics.answers import RECENT_ROWS, Answer
from accous.diagnostics.evidence import FEWEST_LOOKS, Evidence
from accous.diagnostics.loss_scale import ERRORS, LossScale

__all__ = ["answer_adaptation"]

# Chosen on half of the streams in docs/trust.md and checked on the other half.
FEWEST_TO_COMPARE = 100
CLEAR_GAIN, CLEAR_STANDARD_ERRORS = 0.01, 2.0
# Numbers in files are rounded, so the same predictions may differ in their last digits.
_ROUNDING = 1e-6
_FIXED = "The fixed model predicts"
_ONE_IS_SCORED = (
    " Labels score what was predicted, so they say nothing about the adapted model: to compare, let a second model "
    'with low caution (caution="low", accous fit --caution low) predict the same rows, and give it the same labels.'
)
_FIXED_NOW, _ADAPTED_NOW = f"{_FIXED} now.", "The adapted model predicts now."


def answer_adaptation(
    *,
    excess: tuple[float, float],
    exponent: float,
    is_held: bool,
    guard: str,
    evidence: Evidence | None,
    measured: Any,
    unverified: str = "",
    scale: LossScale = ERRORS,
) -> Answer:
    """Answer whether the adapted model is better than the fixed one, and say which of them predicts now.

    Parameters
    ----------
    excess : tuple of float
        Cross-fitted, weighted error of the adapted minus that of the fixed model, and its standard error.
    exponent : float
        How far the ratio counts; 0 means that there is nothing to adapt to.
    is_held : bool
        Whether the fixed model makes the predictions.
    guard : str
        The sentence of the guard.
    evidence : Evidence, optional
        From a backtest.
    measured : MeasuredError, optional
        From labels that arrived late.
    unverified : str
        Why there is no evidence, if that has a reason of its own.
    scale : LossScale
        Of the excess.
    """
    now = _FIXED_NOW if is_held or exponent == 0.0 else _ADAPTED_NOW
    by_labels = _by_labels(measured, now)
    if by_labels is not None:
        return by_labels
    difference, standard_error = excess
    numbers = {"excess_error": difference, "excess_standard_error": standard_error}
    if exponent == 0.0:
        return Answer(
            "not known", f"The estimated weights are nearly equal: there is nothing to adapt to. {now}", numbers
        )
    if is_held:
        is_worse = difference > CLEAR_STANDARD_ERRORS * standard_error
        worse = f"The adapted model is worse on the weighted reference. {now}"
        held = guard if guard.startswith(_FIXED) else f"{guard} {now}"
        held += _ONE_IS_SCORED if _is_one_scored(measured) else ""
        return Answer("no", worse, numbers) if is_worse else Answer("not known", held, numbers)
    if evidence is None:
        none = unverified or "No labelled history in order of time shows whether adaptation helps."
        return Answer("not known", f"{none} {now}", numbers)
    numbers |= {"backtest_gain": evidence.gain, "backtest_unexplained": evidence.fixed.unexplained}
    is_clear = difference < -max(CLEAR_GAIN * scale.one, CLEAR_STANDARD_ERRORS * standard_error)
    if is_clear and evidence.gain < 0.0 and evidence.held:
        helps = "The weighted reference shows that adaptation helps, and the backtest does not speak against it."
        return Answer("yes", f"{helps} {now}", numbers)
    return Answer("not known", f"{_open_question(difference, evidence, scale, is_clear=is_clear)} {now}", numbers)


def _open_question(difference: float, evidence: Evidence, scale: LossScale, *, is_clear: bool) -> str:
    """Say what is missing to call the adapted model better."""
    if not is_clear:
        return "The weighted reference does not clearly show that the adapted model is better."
    size = scale.difference(-difference)
    if evidence.n_looks < FEWEST_LOOKS:
        replay = "the backtest has too few looks to confirm that"
    elif evidence.held:
        replay = "adaptation gained nothing in the backtest"
    else:
        replay = "such estimates were not close to the truth in the backtest"
    return f"The adapted model errs {size} less on the weighted reference, but {replay}: only labels can confirm it."


def _is_one_scored(measured: Any) -> bool:
    """Whether many labels cannot compare the models, because all that was predicted came from the fixed one."""
    if measured is None or measured.n_labelled < FEWEST_TO_COMPARE:
        return False
    return bool(abs(measured.gap) <= _ROUNDING * measured.scale.one)


def _by_labels(measured: Any, now: str) -> Answer | None:
    """Compare the errors of both models on labelled rows; None if they say nothing."""
    if measured is None or measured.n_labelled < FEWEST_TO_COMPARE or measured.is_outdated:
        return None
    gap, is_recent = measured.gap, measured.age <= RECENT_ROWS
    if math.isnan(gap) or abs(gap) <= CLEAR_STANDARD_ERRORS * measured.gap_standard_error:
        return None
    # What labels have shown to do harm is not taken back because no more came; that something helps may have ended.
    if gap < 0.0 and not is_recent:
        return None
    word = "more" if gap > 0.0 else "less"
    size = measured.scale.difference(abs(gap))
    errs = f"On labelled rows, what was predicted errs {size} {word} than the fixed model."
    if not is_recent:
        errs += f" The last label came {measured.age:,} rows ago."
    return Answer("no" if gap > 0.0 else "yes", f"{errs} {now}", {"measured_excess": gap})
