"""Three answers about a model, each "yes", "no" or "not known", with a sentence and the evidence.

Inputs: does the reference cover them? Adaptation: is the adapted model better than the fixed one? Predictions: can you
believe the estimated error? "Yes" needs evidence from labelled data of yours: a backtest on the reference, or labels
that arrived late. docs/trust.md says how often each answer was right on real streams.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from accous.diagnostics.coverage import Coverage, Finding
from accous.diagnostics.evidence import Evidence
from accous.diagnostics.loss_scale import ERRORS, LossScale
from accous.diagnostics.measured_words import CLOSE, labels_in_words, latest_in_words, stretches_in_words
from accous.diagnostics.risk import is_telling

__all__ = [
    "ANSWERS",
    "LARGEST_SHIFT",
    "Answer",
    "answer_inputs",
    "answer_predictions",
    "is_outside",
    "worst",
]

ANSWERS = ("yes", "not known", "no")
# Chosen on half of the streams in docs/trust.md and checked on the other half.
FEWEST_RECENT_ROWS = 100
# Labels that came more than so many rows ago say nothing about now.
RECENT_ROWS = 500
COVERED, NOT_COVERED = 0.15, 0.3
# With so many rows in which a value is missing, the reference knows such rows.
KNOWN_MISSING = 0.05
NARROW = 0.08
CLOSE_SHARE = 0.2  # of a measured error: as far off as an estimate of numbers may be to count as close
LARGEST_SHIFT = 0.08
_NO_RECENT_ROWS = "A key keeps no recent rows, so it is not known whether the reference covers them."
_BEFORE_JOINING = (
    "These rows came before the last ones joined the reference: adapt to new rows (accous adapt) to see whether it "
    "covers those."
)
_LABELS_BEFORE_JOINING = (
    "The labels contradicted the estimate, but they came before rows joined the reference: new labels (accous labels) "
    "show whether it holds now."
)


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


def answer_inputs(coverage: Any, no_overlap: str | None, n_since_joining: int | None = None) -> Answer:
    """Answer whether the reference covers the inputs.

    The recent rows are compared with the reference as it is now. If nearly all of them came before rows joined it, the
    sentence says so, and the answer is not "yes": the rows that it covers may be those that joined.
    A column that the reference does not cover in more than 15 % of the recent rows gives "no", in fewer "not known".
    More missing values in a column give "not known" if at least 5 % of the reference have none there either.

    Parameters
    ----------
    coverage : Coverage or None
        What recent rows look like beside the reference; None for a key (`accous.keyed`), which keeps none.
    no_overlap : str, optional
        Why the weights show that the reference hardly overlaps with the recent rows, if they do.
    n_since_joining : int, optional
        Rows of the stream since rows joined the reference; None if none did.
    """
    found = _inputs_as_they_are(coverage, no_overlap)
    if n_since_joining is None or n_since_joining >= FEWEST_RECENT_ROWS:
        return found
    if found.answer != "yes":
        return replace(found, sentence=f"{found.sentence} {_BEFORE_JOINING}")
    return replace(found, answer="not known", sentence=f"{found.sentence} But t{_BEFORE_JOINING[1:]}")


def _inputs_as_they_are(coverage: Any, no_overlap: str | None) -> Answer:
    """Answer by the recent rows, whenever they came."""
    if coverage is None or coverage.n_rows < FEWEST_RECENT_ROWS:
        few = f"There are fewer than {FEWEST_RECENT_ROWS} recent rows to judge by."
        sentence = _NO_RECENT_ROWS if coverage is None else few
        return Answer("not known", sentence) if no_overlap is None else Answer("no", no_overlap)
    share = coverage.share_outside
    evidence = {"share_outside": share, "drift_strength": coverage.drift_strength}
    far = f"{share:.0%} of the recent rows lie unusually far from the reference (5% would be normal)."
    against = [far] if share > NOT_COVERED else []
    against += [] if no_overlap is None else [no_overlap]
    against += [each.sentence for each in coverage.columns if _is_new(each)]
    if against:
        return Answer("no", against[0], evidence)
    if not share <= COVERED or coverage.columns:
        return Answer("not known", coverage.sentences[0] if share <= COVERED else far, evidence)
    moved = "have moved, and the reference covers them" if coverage.has_moved else "lie where the reference has rows"
    return Answer("yes", f"The inputs {moved}.", evidence)


def is_outside(coverage: Coverage) -> bool:
    """Whether the recent rows show by themselves that the reference does not cover them."""
    if coverage.n_rows < FEWEST_RECENT_ROWS:
        return False
    return coverage.share_outside > NOT_COVERED or any(map(_is_new, coverage.columns))


def _is_new(finding: Finding) -> bool:
    """Whether a column shows in many rows what the reference does not have; more missing values it may well have."""
    if finding.kind == "missing" and finding.expected >= KNOWN_MISSING:
        return False
    return finding.share - finding.expected > COVERED


def answer_predictions(
    interval: tuple[float, float, float],
    *,
    coverage: Any,
    inputs: str,
    evidence: Evidence | None,
    measured: Any,
    unverified: str = "",
    scale: LossScale = ERRORS,
) -> Answer:
    """Answer whether you can believe the estimated error.

    Parameters
    ----------
    interval : tuple of float
        Estimate, low and high.
    coverage : Coverage or None
    inputs : str
        The answer about the inputs.
    evidence : Evidence, optional
        From a backtest.
    measured : MeasuredError, optional
        From labels that arrived late.
    unverified : str
        Why there is no evidence, if that has a reason of its own.
    scale : LossScale
        Of the interval.
    """
    estimate, low, high = interval
    numbers = {"estimate": estimate, "low": low, "high": high}
    has_rows = coverage is not None and coverage.n_rows >= FEWEST_RECENT_ROWS
    is_covered = inputs != "no" and has_rows and coverage.share_outside <= COVERED
    doubts = _predictions_by_stretches(estimate, measured, scale) + _predictions_by_latest(estimate, measured, scale)
    by_labels = _predictions_by_labels(interval, measured, is_covered=is_covered, scale=scale)
    if by_labels is not None:
        return worst([by_labels, *doubts])
    if evidence is None or math.isnan(estimate):
        none = unverified or "No replay of the reference in order of time has checked the estimate."
        few = "The reference has too few rows of some class to estimate the error."
        by_backtest = Answer("not known", few) if math.isnan(estimate) else Answer("not known", none, numbers)
    else:
        # Few rows show nothing yet, so nothing says that they have moved.
        is_beyond = has_rows and (not is_covered or coverage.drift_strength > evidence.drift)
        by_backtest = _predictions_by_backtest(
            interval, inputs=inputs, is_covered=is_covered, is_beyond=is_beyond, evidence=evidence, scale=scale
        )
    if measured is not None and measured.contradicts:
        # By labels of an earlier predictor, or they would have answered.
        return worst([Answer("not known", _LABELS_BEFORE_JOINING, numbers), by_backtest])
    return worst([*doubts, by_backtest])


def _predictions_by_backtest(
    interval: tuple[float, float, float],
    *,
    inputs: str,
    is_covered: bool,
    is_beyond: bool,
    evidence: Evidence,
    scale: LossScale,
) -> Answer:
    """Answer by how far such estimates were from the truth in the backtest.

    Whether the inputs have moved further than those of the backtest (``is_beyond``) is a reason of its own.
    """
    estimate, low, high = interval
    numbers = {"estimate": estimate, "low": low, "high": high}
    # Where the reference has no rows, nothing shows how the model does.
    is_known = inputs != "no" and is_telling(estimate, low, high, scale.loss)
    if evidence.fixed.shift >= LARGEST_SHIFT:
        # The mean, as the sentences of the backtest have it, in the unit of the backtest.
        one = scale.one if evidence.one is None else evidence.one
        size = scale.difference(evidence.fixed.mean * one, digits=0)
        shown = "" if is_known else f" The {scale.name} is not known now: only labels of recent rows can tell it."
        return Answer("no", f"In the backtest the {scale.name} was {size} above the estimate.{shown}", numbers)
    if is_covered and is_known and max(high - estimate, estimate - low) <= NARROW * scale.one:
        return Answer("yes", "In the backtest such estimates were close to the truth.", numbers)
    wide = "The inputs have moved further than the backtest can speak for."
    ends = f"{low:.0%} and {high:.0%}" if scale.is_of_classes else f"{scale.shown(low)} and {scale.shown(high)}"
    some = f"The {scale.name} may lie anywhere between {ends}."
    is_wide = is_beyond and not (is_known and (is_covered or scale.is_of_classes))
    return Answer("not known", wide if is_wide else some, numbers)


def _predictions_by_stretches(estimate: float, measured: Any, scale: LossScale) -> list[Answer]:
    """Return "not known" if labels and estimate are apart in many stretches: errors either way cancel in the mean."""
    if measured is None or measured.is_outdated or not measured.stretches.disagree:
        return []
    apart = stretches_in_words(measured)
    if abs(measured.excess) <= CLOSE * scale.one:
        found = f"{scale.shown(measured.error)} against {scale.shown(measured.estimated)}"
        sentence = f"On average the labels agree with the estimate ({found}), but {apart}"
    else:
        sentence = f"Labels and estimate do not agree throughout: {apart}"
    return [Answer("not known", sentence, {"estimate": estimate, "measured": measured.error})]


def _predictions_by_latest(estimate: float, measured: Any, scale: LossScale) -> list[Answer]:
    """Return "not known" if the error moves, and the latest labels are not close to the estimate of now."""
    if measured is None or measured.is_outdated or measured.age > RECENT_ROWS or not measured.latest.is_apart:
        return []
    if abs(measured.latest.error - estimate) <= CLOSE * scale.one:
        return []
    sentence = f"{latest_in_words(measured)}, where {scale.shown(estimate)} is estimated."
    numbers = {"estimate": estimate, "measured": measured.latest.error}
    return [Answer("not known", f"{sentence[0].upper()}{sentence[1:]}", numbers)]


def _predictions_by_labels(
    interval: tuple[float, float, float], measured: Any, *, is_covered: bool, scale: LossScale
) -> Answer | None:
    """Compare the estimate with the error on labelled rows; None if they say nothing, or nothing about now.

    Labels contradict an estimate whenever they came. They confirm it only if they are recent, exact, close to the
    estimate of the time and to that of now, and about inputs that the reference covers. Labels that are exact and not
    close leave the estimate open.
    """
    if measured is None or measured.is_outdated:
        return None
    estimate, low, high = interval
    numbers = {"estimate": estimate, "measured": measured.error}
    if measured.contradicts:
        return Answer("no", measured.sentence, numbers)
    close = CLOSE * scale.one
    is_about_now = measured.age <= RECENT_ROWS
    if measured.is_exact and measured.is_off and is_about_now:
        return Answer("not known", measured.sentence, numbers)
    is_close = abs(measured.excess) <= close and abs(measured.error_now - estimate) <= close
    is_supported = is_covered and is_telling(estimate, low, high, scale.loss)
    if not (measured.is_exact and is_close and is_about_now and is_supported):
        return None
    if doubt := _doubt_about_closeness(measured, scale):
        return Answer("not known", doubt, numbers)
    labels = f"{labels_in_words(measured.n_labelled).capitalize()} say {scale.shown(measured.error)}"
    apart = f"{scale.difference(abs(measured.excess))} apart, and up to {scale.difference(close)} count as close"
    return Answer("yes", f"{labels} where {scale.shown(measured.estimated)} was estimated: {apart}.", numbers)


def _doubt_about_closeness(measured: Any, scale: LossScale) -> str:
    """Say why labels that are close to the estimate do not confirm it; empty if they do."""
    labels = labels_in_words(measured.n_labelled)
    if measured.concept_changed == "yes":
        return f"{labels} are close to the estimate, but the latest of them say that P(y | x) has changed."
    if not measured.is_estimate_outside or abs(measured.excess) <= CLOSE_SHARE * measured.error:
        return ""
    found = f"{scale.shown(measured.error)} where {scale.shown(measured.estimated)} was estimated"
    side = "low" if measured.excess > 0.0 else "high"
    return f"{labels} say {found}, which is clearly too {side}."
