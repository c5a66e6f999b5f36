"""Three answers about a model, each "yes", "no" or "not known", with a sentence and the evidence.

Inputs: does the reference cover them? Adaptation: is the adapted model better than the fixed one? Predictions: can you
believe the estimated error? "Yes" needs evidence from labelled data of yours: a backtest on the reference, or labels
that arrived late. docs/trust.md says how often each answer was right on real streams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from accous.diagnostics.evidence import Evidence

__all__ = ["ANSWERS", "Answer", "answer_adaptation", "answer_inputs", "answer_predictions", "worst"]

ANSWERS = ("yes", "not known", "no")
# Chosen on half of the streams in docs/trust.md and checked on the other half.
FEWEST_RECENT_ROWS = 100
FEWEST_LABELS = 100
COVERED, NOT_COVERED = 0.15, 0.3
NARROW, WIDE = 0.08, 0.25
LARGEST_SHIFT, LARGEST_UNEXPLAINED = 0.05, 0.04
CLEAR_GAIN, CLEAR_STANDARD_ERRORS = 0.01, 2.0


@dataclass(frozen=True)
class Answer:
    """An answer with its reason.

    Attributes
    ----------
    answer : {"yes", "no", "not known"}
    sentence : str
    evidence : dict
        The numbers it rests on.
    """

    answer: str
    sentence: str
    evidence: dict[str, float] = field(default_factory=dict)


def worst(answers: list[Answer]) -> Answer:
    """Return the worst answer, the first of equals; "no" is worse than "not known", and that is worse than "yes"."""
    return max(answers, key=lambda each: ANSWERS.index(each.answer))


def answer_inputs(coverage: Any, no_overlap: str | None) -> Answer:
    """Does the reference cover the inputs?

    Parameters
    ----------
    coverage : Coverage or None
        What recent rows look like beside the reference; None before the first row.
    no_overlap : str, optional
        Why the weights show that the reference hardly overlaps with the recent rows, if they do.
    """
    if coverage is None or coverage.n_rows < FEWEST_RECENT_ROWS:
        if no_overlap is not None:
            return Answer("no", no_overlap)
        return Answer("not known", f"There are fewer than {FEWEST_RECENT_ROWS} recent rows to judge by.")
    share = coverage.share_outside
    evidence = {"share_outside": share, "drift_strength": coverage.drift_strength}
    if share > NOT_COVERED:
        return Answer("no", f"{share:.0%} of the recent rows are unlike any row of the reference.", evidence)
    if no_overlap is not None:
        return Answer("no", no_overlap, evidence)
    if coverage.sentences:
        return Answer("no", coverage.sentences[0], evidence)
    if share > COVERED:
        return Answer("not known", f"{share:.0%} of the recent rows are unlike any row of the reference.", evidence)
    moved = "have moved" if coverage.drift_strength > 0.1 else "have hardly moved"
    return Answer("yes", f"The inputs {moved}, and the reference covers them.", evidence)


def answer_adaptation(
    *,
    excess: tuple[float, float],
    exponent: float,
    is_held: bool,
    guard: str,
    evidence: Evidence | None,
    measured: Any,
) -> Answer:
    """Is the adapted model better than the fixed one?

    Parameters
    ----------
    excess : tuple of float
        Cross-fitted, weighted error of the adapted minus that of the fixed model, and its standard error.
    exponent : float
        Exponent of the ratio in use; 0 means that there is nothing to adapt to.
    is_held : bool
        Whether the fixed model makes the predictions.
    guard : str
        The sentence of the guard.
    evidence : Evidence, optional
        From a backtest.
    measured : MeasuredError, optional
        From labels that arrived late.
    """
    difference, standard_error = excess
    numbers = {"excess_error": difference, "excess_standard_error": standard_error}
    if measured is not None and measured.n_labelled >= FEWEST_LABELS:
        gap = measured.error - measured.error_fixed
        noise = math.sqrt(max(abs(gap), 1e-9) / measured.n_labelled)
        if abs(gap) > CLEAR_STANDARD_ERRORS * noise:
            word = "more" if gap > 0.0 else "less"
            sentence = f"On labelled rows the model errs {100.0 * abs(gap):.1f} points {word} than the fixed model."
            return Answer("no" if gap > 0.0 else "yes", sentence, numbers | {"measured_excess": gap})
    if exponent == 0.0:
        return Answer("not known", "No shift is visible, so the fixed model makes the predictions.", numbers)
    if is_held:
        if difference > CLEAR_STANDARD_ERRORS * standard_error:
            return Answer("no", "The adapted model is worse on the weighted reference; the fixed model predicts.", numbers)
        return Answer("not known", guard, numbers)
    is_clear = difference < -CLEAR_GAIN and difference < -CLEAR_STANDARD_ERRORS * standard_error
    if evidence is None:
        return Answer("not known", "No labelled history in order of time shows whether adaptation helps.", numbers)
    numbers |= {"backtest_gain": evidence.gain, "backtest_unexplained": evidence.fixed.unexplained}
    if is_clear and evidence.gain < 0.0 and evidence.fixed.unexplained < LARGEST_UNEXPLAINED:
        return Answer("yes", "Both the weighted reference and the backtest show that adaptation helps.", numbers)
    return Answer("not known", "The evidence does not show whether the adapted model is better.", numbers)


def answer_predictions(
    interval: tuple[float, float, float], *, coverage: Any, evidence: Evidence | None, measured: Any
) -> Answer:
    """Can you believe the estimated error?

    Parameters
    ----------
    interval : tuple of float
        Estimate, low and high.
    coverage : Coverage or None
    evidence : Evidence, optional
        From a backtest.
    measured : MeasuredError, optional
        From labels that arrived late.
    """
    estimate, low, high = interval
    numbers = {"estimate": estimate, "low": low, "high": high}
    if measured is not None and measured.contradicts:
        return Answer("no", measured.sentence, numbers | {"measured": measured.error})
    if math.isnan(estimate):
        return Answer("not known", "The reference has too few rows of some class to estimate the error.")
    if measured is not None and measured.n_labelled >= FEWEST_LABELS:
        gap = abs(measured.error - estimate)
        if gap <= 0.05 and measured.error_high - measured.error_low <= 0.1:
            sentence = f"Labels of {measured.n_labelled:.0f} rows agree with it: {measured.error:.1%} measured."
            return Answer("yes", sentence, numbers | {"measured": measured.error})
    if evidence is None:
        return Answer("not known", "The reference has no order in time, so no backtest could check the estimate.", numbers)
    shift = evidence.fixed.shift
    if shift >= LARGEST_SHIFT:
        return Answer("no", f"In the backtest the error was {100.0 * shift:.0f} points above the estimate.", numbers)
    if (high - low) / 2.0 > WIDE:
        return Answer("not known", "The inputs have moved further than the backtest can speak for.", numbers)
    is_covered = coverage is not None and coverage.n_rows >= FEWEST_RECENT_ROWS and coverage.share_outside < COVERED
    if is_covered and max(high - estimate, estimate - low) <= NARROW:
        return Answer("yes", "In the backtest such estimates were close to the truth.", numbers)
    return Answer("not known", f"The error may lie anywhere between {low:.0%} and {high:.0%}.", numbers)
