"""The verdict on the current weights: can the adaptation be trusted, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.weights import effective_sample_size

__all__ = ["FEWEST_ROWS", "LARGEST_ERROR", "LARGEST_OUT_OF_BOUND", "SMALLEST_MEAN", "Trust", "WeightEvidence", "judge"]

# Calibrated on Gaussian streams, whose true ratio is known: see docs/trust.md and benchmarks/trust.py.
SMALLEST_MEAN = 0.3
LARGEST_OUT_OF_BOUND = 0.5
FEWEST_ROWS = 10.0
LARGEST_ERROR = 0.06


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
        Mean ratio over the reference, before tempering and before scaling to mean 1. The true ratio has mean 1.
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
class Trust:
    """A verdict on the adaptation, with its evidence.

    Attributes
    ----------
    verdict : {"good", "thin", "no overlap"}
    reason : str
        One plain sentence.
    effective_sample_size, design_effect, largest_weight, mean_weight, share_cut : float
        See :class:`WeightEvidence`.
    share_out_of_bound : float
        Share of recent batch rows whose norm exceeds ``feature_bound_``, by default the 99 % quantile of the reference.
        "Recent" means a half-life of 64 rounds. NaN if the ratio estimator has no such bound.
    exponent : float
        Exponent tau of the tempered ratio in use; 0 means that the ratio is set to 1.
    is_vetoed : bool
        Whether the fixed model makes the predictions, because the adapted model did worse on the reference.
    excess_error, excess_standard_error : float
        Cross-fitted, weighted error of the adapted model minus that of the fixed model, and its standard error; NaN if
        they cannot be computed.
    """

    verdict: str
    reason: str
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


def judge(
    evidence: WeightEvidence,
    *,
    share_out_of_bound: float,
    exponent: float,
    is_vetoed: bool,
    excess: tuple[float, float],
) -> Trust:
    """Return the verdict of the first rule that applies.

    "no overlap": more than half of the recent rows lie outside the reference; or the ratio's mean over the reference is
    below 0.3, so nearly all of the stream's mass is where the reference has no rows; or there are fewer than 10
    effective rows.
    "thin": the standard error of "adapted minus fixed" exceeds 6 points, so a gain cannot be distinguished from a loss.
    "good": none of these.
    """
    verdict, reason = _verdict(evidence, share_out_of_bound, excess[1])
    if verdict == "good" and exponent == 0.0:
        reason = "No shift is visible: the ratio is set to 1, and the fixed model makes the predictions."
    if is_vetoed:
        reason += " The adapted model did worse on the weighted reference, so the fixed model makes the predictions."
    return Trust(
        verdict=verdict,
        reason=reason,
        **vars(evidence),
        share_out_of_bound=share_out_of_bound,
        exponent=exponent,
        is_vetoed=is_vetoed,
        excess_error=excess[0],
        excess_standard_error=excess[1],
    )


def _verdict(evidence: WeightEvidence, share_out_of_bound: float, standard_error: float) -> tuple[str, str]:
    n_effective = evidence.effective_sample_size
    if share_out_of_bound > LARGEST_OUT_OF_BOUND:
        return "no overlap", f"{share_out_of_bound:.0%} of the recent rows lie outside the range of the reference."
    if evidence.mean_weight < SMALLEST_MEAN:
        return "no overlap", (
            f"The ratio averages {evidence.mean_weight:.2f} over the reference instead of 1: most of the recent rows "
            "lie where the reference has none."
        )
    if n_effective < FEWEST_ROWS:
        return "no overlap", f"The weights leave {n_effective:.0f} effective rows of the reference."
    if standard_error > LARGEST_ERROR:
        return "thin", (
            f"The weights leave {n_effective:.0f} effective rows: the errors of the adapted and the fixed model can be "
            f"compared only to within ±{100.0 * standard_error:.0f} points."
        )
    return "good", f"The weights leave {n_effective:.0f} effective rows of the reference."
