"""Answers about inputs, adaptation and predictions, and the verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.ratio_problems import fit_ratio_regression
from accous.diagnostics.coverage import Coverage, Finding
from accous.diagnostics.evidence import FEWEST_LOOKS, Evidence, Look
from accous.diagnostics.losses import LEVEL, effective_sample_size
from accous.diagnostics.messages import CLOSE, ERRORS, LossScale, labels_in_words, latest_in_words, stretches_in_words
from accous.diagnostics.risk import is_telling
from accous.text import count

# --- Three answers about a model, each "yes", "no" or "not known", with a sentence and the evidence


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


# --- Is the adapted model better than the fixed one? The sentence also says which of the two predicts now


# Chosen on half of the streams in docs/trust.md and checked on the other half.
FEWEST_TO_COMPARE = 100
CLEAR_GAIN, CLEAR_STANDARD_ERRORS = 0.01, 2.0
# Numbers in files are rounded, so the same predictions may differ in their last digits.
_ROUNDING = 1e-6
_FIXED = "The fixed model predicts"
_ONE_IS_SCORED = (
    " Labels score what was predicted, so they say nothing about the adapted model: to compare, let a second model "
    'that always adapts (adaptation="always") predict the same rows, and give it the same labels.'
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


# --- Three answers about the current state, and a verdict in one word


# From best to worst.
VERDICTS = ("good", "not verified", "thin", "contradicted", "no overlap")

# Calibrated on Gaussian streams, whose true ratio is known: see docs/trust.md and benchmarks/trust.py.
SMALLEST_MEAN = 0.3
LARGEST_OUT_OF_BOUND = 0.5
FEWEST_ROWS = 10.0
LARGEST_ERROR = 0.06
# Rounds after rows joined the reference in which the ratio is still mainly the one to the reference before.
ROUNDS_TO_SETTLE = 16


@dataclass(frozen=True)
class WeightEvidence:
    """What the weights of the reference show on their own.

    Attributes
    ----------
    effective_sample_size : float
        Number of equally weighted rows that carry as much information, ``(sum w)^2 / sum w^2``.
    design_effect : float
        Reference rows per effective row.
    largest_weight : float
        Largest weight, on a scale where the mean weight is 1.
    mean_weight : float
        Mean of the estimator's ratio over the reference, before scaling to mean 1. The true ratio has mean 1.
    share_cut : float
        Share of reference rows whose ratio was clipped at ``max_ratio``.
    """

    effective_sample_size: float
    design_effect: float
    largest_weight: float
    mean_weight: float
    share_cut: float

    @classmethod
    def of(cls, weights: FloatArray, ratios: FloatArray, base: FloatArray, max_ratio: float) -> WeightEvidence:
        """Measure the weights in use and the ratios they come from."""
        n_effective = effective_sample_size(weights)
        return cls(
            effective_sample_size=n_effective,
            design_effect=effective_sample_size(base) / n_effective,
            largest_weight=float(weights.max() / weights.mean()),
            mean_weight=float(np.average(ratios, weights=base)),
            share_cut=float(np.mean(ratios >= max_ratio)),
        )


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What the answers rest on besides the weights; each is None if there is none.

    Attributes
    ----------
    coverage : Coverage
        How the recent rows lie beside the reference.
    evidence : Evidence
        What the backtest of the reference showed.
    measured : MeasuredError
        What labels that arrived late showed.
    unverified : str
        Why there is no evidence, if that has a reason of its own; otherwise empty.
    since_joining : tuple of int
        Rounds and rows of the stream since rows joined the reference; None if none did.
    """

    coverage: Any = None
    evidence: Evidence | None = None
    measured: Any = None
    unverified: str = ""
    since_joining: tuple[int, int] | None = None


NO_CHECKS = Checks()


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Three answers and a verdict, with their evidence.

    Attributes
    ----------
    verdict : {"good", "not verified", "thin", "contradicted", "no overlap"}
        "good" only if all three answers are "yes".
    reason : str
        One plain sentence.
    inputs : Answer
        Does the reference cover the inputs?
    adaptation : Answer
        Is the adapted model better than the fixed one? Its sentence also says which of them predicts now.
    predictions : Answer
        Can you believe the estimated error?
    effective_sample_size, design_effect, largest_weight, mean_weight, share_cut : float
        See :class:`WeightEvidence`.
    share_out_of_bound : float
        Share of recent batch rows whose norm exceeds ``feature_bound_``, by default the 99 % quantile of the reference.
        "Recent" means a half-life of 64 rounds. 0 once at least 5 % of the reference lie there, because rows joined it.
        NaN if the ratio estimator has no such bound.
    exponent : float
        Share of the ratio in use that is not ratio 1; 0 means that there is nothing to adapt to.
    is_vetoed : bool
        Whether the fixed model makes the predictions: the adapted model did clearly worse on the weighted reference, or
        not clearly better although the reference drifts, or no backtest supports adaptation, or it is off.
    excess_error, excess_standard_error : float
        Cross-fitted, weighted error of the adapted model minus that of the fixed model, and its standard error; NaN if
        they cannot be computed.
    is_reference_new : bool
        Whether rows joined the reference less than 16 rounds ago: the weights still come from the reference before.
    """

    verdict: str
    reason: str
    inputs: Answer
    adaptation: Answer
    predictions: Answer
    effective_sample_size: float
    design_effect: float
    largest_weight: float
    mean_weight: float
    share_cut: float
    share_out_of_bound: float
    exponent: float
    is_vetoed: bool
    excess_error: float
    excess_standard_error: float
    is_reference_new: bool = False

    @property
    def contradicted_by(self) -> str:
        """What contradicts the estimated error: ``"labels"`` or ``"the backtest"``; empty if nothing does."""
        if self.predictions.answer != "no":
            return ""
        return "labels" if "measured" in self.predictions.evidence else "the backtest"

    @property
    def sentences(self) -> dict[str, str]:
        """The sentence of each answer, by its name."""
        return {name: getattr(self, name).sentence for name in ("inputs", "adaptation", "predictions")}

    def __str__(self) -> str:
        """Return the verdict and the three answers in sentences."""
        answers = {
            "Inputs covered": self.inputs,
            "Adaptation better": self.adaptation,
            "Estimate believable": self.predictions,
        }
        lines = [f"Verdict: {self.verdict}."]
        lines += [f"{question}? {found.answer.capitalize()}. {found.sentence}" for question, found in answers.items()]
        return "\n".join(lines)


def judge(
    evidence: WeightEvidence,
    *,
    share_out_of_bound: float,
    exponent: float,
    is_vetoed: bool,
    excess: tuple[float, float],
    interval: tuple[float, float, float],
    guard: str = "",
    checks: Checks = NO_CHECKS,
    scale: LossScale = ERRORS,
) -> Trust:
    """Answer the three questions, and return the verdict of the first rule that applies.

    "no overlap": more than half of the recent rows lie outside the reference; or the ratio's mean over the reference is
    below 0.3, so nearly all of the stream's mass is where the reference has no rows (not in the 16 rounds after rows
    joined it); or there are fewer than 10 effective rows; or the answer about the inputs is "no".
    "contradicted": the answer about the predictions is "no", so labels or the backtest contradict the estimated error.
    "thin": the standard error of "adapted minus fixed" exceeds 6 points, so a gain cannot be distinguished from a loss.
    "not verified": an answer is "not known", or adaptation does not help.
    "good": all answers are "yes".
    """
    n_rounds, n_rows = checks.since_joining or (None, None)
    inputs = answer_inputs(checks.coverage, no_overlap(evidence, share_out_of_bound, n_rounds), n_rows)
    adaptation = answer_adaptation(
        excess=excess,
        exponent=exponent,
        is_held=is_vetoed,
        guard=guard,
        evidence=checks.evidence,
        measured=checks.measured,
        unverified=checks.unverified,
        scale=scale,
    )
    predictions = answer_predictions(
        interval,
        coverage=checks.coverage,
        inputs=inputs.answer,
        evidence=checks.evidence,
        measured=checks.measured,
        unverified=checks.unverified,
        scale=scale,
    )
    verdict, reason = _verdict(evidence, excess[1], [inputs, predictions, adaptation], scale)
    return Trust(
        verdict=verdict,
        reason=reason,
        inputs=inputs,
        adaptation=adaptation,
        predictions=predictions,
        **vars(evidence),
        share_out_of_bound=share_out_of_bound,
        exponent=exponent,
        is_vetoed=is_vetoed,
        excess_error=excess[0],
        excess_standard_error=excess[1],
        is_reference_new=not _is_settled(n_rounds),
    )


def _is_settled(n_rounds: int | None) -> bool:
    """Whether the ratio is one to the present reference, so many rounds after rows joined it; None if none did."""
    return n_rounds is None or n_rounds >= ROUNDS_TO_SETTLE


def no_overlap(evidence: WeightEvidence, share_out_of_bound: float, n_rounds: int | None) -> str | None:
    """Return why the reference does not overlap with the recent rows, or None if the weights do not show that.

    For ``ROUNDS_TO_SETTLE`` rounds after rows joined the reference, the mean of the ratio says nothing: it was learned
    against the reference before.
    """
    if share_out_of_bound > LARGEST_OUT_OF_BOUND:
        return f"{share_out_of_bound:.0%} of the recent rows lie outside the range of the reference."
    if evidence.mean_weight < SMALLEST_MEAN and _is_settled(n_rounds):
        return (
            f"The ratio averages {evidence.mean_weight:.2f} over the reference instead of 1: most of the recent rows "
            "lie where the reference has none."
        )
    if evidence.effective_sample_size < FEWEST_ROWS:
        return f"The weights leave {count(round(evidence.effective_sample_size), 'effective row')} of the reference."
    return None


def _verdict(
    evidence: WeightEvidence, standard_error: float, answers: list[Answer], scale: LossScale
) -> tuple[str, str]:
    inputs, predictions, _ = answers
    if inputs.answer == "no":
        return "no overlap", inputs.sentence
    if predictions.answer == "no":
        return "contradicted", predictions.sentence
    if standard_error > LARGEST_ERROR * scale.one:
        return "thin", (
            f"The weights leave {count(round(evidence.effective_sample_size), 'effective row')}: the errors of the "
            f"adapted and the fixed model can be compared only to within ±{scale.difference(standard_error, digits=0)}."
        )
    # A "no" about the adaptation contradicts no estimate: where the fixed model predicts instead, all is well.
    decisive = next((each for each in answers if each.answer != "yes"), None)
    return ("good", inputs.sentence) if decisive is None else ("not verified", decisive.sentence)


# --- Compares a value on labelled rows of the stream with what the reference leads to expect of these rows


_RIDGE = 1.0
_MAX_STEPS = 50
_LARGEST_SCORE = math.log(100.0)


class Matched(NamedTuple):
    """Features of both sets of rows, standardised by the reference, and the shares of the reference rows.

    Attributes
    ----------
    reference : array of shape (n_reference, d)
    rows : array of shape (n_rows, d)
    shares : array of shape (n_reference,)
        The weights v, which sum to 1.
    """

    reference: FloatArray
    rows: FloatArray
    shares: FloatArray


class Comparison(NamedTuple):
    """An observed mean and the one to expect, with the standard error of their difference."""

    observed: float
    estimate: float
    standard_error: float

    @property
    def p_value(self) -> float:
        """The p-value of the two-sided test that both are the same."""
        gap = abs(self.observed - self.estimate)
        return 2.0 * NormalDist().cdf(-gap / self.standard_error) if self.standard_error > 0.0 else float(gap == 0.0)

    @property
    def half_width(self) -> float:
        """Half-width of the interval around the estimate that holds 90 % of the observed means."""
        return NormalDist().inv_cdf(0.5 + 0.5 * LEVEL) * self.standard_error


def match_reference(reference_features: FloatArray, features: FloatArray, base_weights: FloatArray) -> Matched:
    """Weight the reference so that it matches the labelled rows.

    Parameters
    ----------
    reference_features : array of shape (n_reference, d)
        Features that the ratio is fitted on; no constant column is needed.
    features : array of shape (n_rows, d)
    base_weights : array of shape (n_reference,)
    """
    reference, rows = _standardised(reference_features, features)
    shares = base_weights * _ratio_to(reference, rows)
    return Matched(reference, rows, shares / shares.sum())


def compare_means(
    values: FloatArray,
    expected: FloatArray,
    reference_values: FloatArray,
    expected_reference: FloatArray,
    shares: FloatArray,
    smallest_variance: float,
) -> Comparison:
    """Compare the mean of a value on the labelled rows with its doubly robust estimate.

    Parameters
    ----------
    values, expected : arrays of shape (n_rows,)
        e and q of the labelled rows.
    reference_values, expected_reference, shares : arrays of shape (n_reference,)
        e, q and v of the reference.
    smallest_variance : float
        Of e - q on one row; the observed one counts if it is larger. A single row has no observed spread.
    """
    residuals = reference_values - expected_reference
    correction = float(shares @ residuals)
    sampling = max(float(np.var(values - expected)), smallest_variance) / len(expected)
    variance = float(np.sum((shares * (residuals - correction)) ** 2)) + sampling
    return Comparison(float(values.mean()), float(expected.mean()) + correction, math.sqrt(variance))


def _ratio_to(reference: FloatArray, rows: FloatArray) -> FloatArray:
    """Ratio of the density of the labelled rows to that of the reference, at the reference rows."""
    theta = fit_ratio_regression(
        _with_constant(reference), _with_constant(rows), _RIDGE / len(rows), np.zeros(rows.shape[1] + 1), _MAX_STEPS
    )
    return np.exp(np.clip(-_with_constant(reference) @ theta, -_LARGEST_SCORE, _LARGEST_SCORE))


def _standardised(reference: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, scale = reference.mean(axis=0), reference.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    # Clip distant rows: a single one must not determine the ratio.
    return (reference - mean) / scale, np.clip((rows - mean) / scale, -5.0, 5.0)


def _with_constant(rows: FloatArray) -> FloatArray:
    return np.concatenate((rows, np.ones((len(rows), 1))), axis=1)


# --- The looks of a backtest as a table for people: its headings, its rows, and what the drift means


HEADINGS = ("rows", "reference rows", "measured (fixed)", "estimated", "measured (adapted)", "drift")
DRIFT_NOTE = (
    "Drift: 0 means that recent rows look like the reference, 1 that a classifier tells them apart without error."
)


def look_cells(look: Look, scale: LossScale = ERRORS) -> tuple[str, ...]:
    """Return one row of the table; rows are counted from 1, and both ends of a range belong to it.

    Parameters
    ----------
    look : Look
    scale : LossScale
        Of the errors.
    """
    errors = (look.error_fixed, look.estimate_fixed, look.error_adapted)
    return (
        f"{look.start + 1:,} to {look.stop:,}",
        f"{look.n_reference:,}",
        *("unknown" if math.isnan(error) else scale.shown(error) for error in errors),
        "unknown" if math.isnan(look.drift) else f"{look.drift:.2f}",
    )
