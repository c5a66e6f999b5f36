"""Three answers about the current state, and a verdict in one word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.adaptation_answer import answer_adaptation
from accous.diagnostics.answers import Answer, answer_inputs, answer_predictions
from accous.diagnostics.evidence import Evidence
from accous.diagnostics.loss_scale import ERRORS, LossScale
from accous.diagnostics.weights import effective_sample_size
from accous.text import count

__all__ = [
    "FEWEST_ROWS",
    "LARGEST_ERROR",
    "LARGEST_OUT_OF_BOUND",
    "NO_CHECKS",
    "ROUNDS_TO_SETTLE",
    "SMALLEST_MEAN",
    "VERDICTS",
    "Checks",
    "Trust",
    "WeightEvidence",
    "judge",
    "no_overlap",
]

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
        not clearly better although the reference drifts, or no backtest supports adaptation; see ``caution``.
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
