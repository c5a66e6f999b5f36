"""The error of an adaptive classifier without labels: estimates from the weighted reference, and their intervals.

Everything here is computed from one state of the model when you read it. Nothing here changes the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import FixedModel, compare
from accous.classifier.time_halves import TimeHalves
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.evidence import NO_EVIDENCE, Evidence, widen
from accous.diagnostics.risk import RiskEstimate, error_interval, weighted_error

__all__ = ["Estimating"]


class Estimating:
    """The part of `accous.AdaptiveClassifier` that estimates its own error without labels."""

    state_: Any
    erm_: WeightedErm
    fixed_: FixedModel
    labels_: IntArray
    base_weight_: FloatArray
    fallback: str
    halves_: TimeHalves | None
    rules_: Any

    if TYPE_CHECKING:

        @property
        def _evidence(self) -> Evidence | None: ...

        def _coverage(self, state: Any) -> Coverage: ...

    @property
    def risk_(self) -> RiskEstimate:
        """Label-free estimates of the current errors of the predictor in use and of the fixed predictor.

        The intervals are widened and shifted by what the backtest showed and by the drift now. Without a backtest they
        are widened by the drift alone.
        """
        return self._risk(self.state_)

    def _risk(self, state: Any) -> RiskEstimate:
        if "wide_risk" not in state.cache:
            state.cache["wide_risk"] = self._widened(state, self._sampling_risk(state))
        risk: RiskEstimate = state.cache["wide_risk"]
        return risk

    def _widened(self, state: Any, risk: RiskEstimate) -> RiskEstimate:
        evidence = self._evidence or NO_EVIDENCE
        coverage = self._coverage(state)
        drift = {
            "drift": coverage.drift_strength,
            "seen_drift": evidence.drift,
            "disagreement": self._disagreement(state),
        }
        residuals = evidence.fixed if state.fallback.veto.is_held else evidence.adapted
        adapted = widen((risk.adapted, risk.adapted_low, risk.adapted_high), residuals, **drift)
        fixed = widen((risk.fixed, risk.fixed_low, risk.fixed_high), evidence.fixed, **drift)
        return RiskEstimate(
            adapted=adapted[0],
            adapted_low=adapted[1],
            adapted_high=adapted[2],
            fixed=fixed[0],
            fixed_low=fixed[1],
            fixed_high=fixed[2],
        )

    def _disagreement(self, state: Any) -> float:
        """Share of recent rows on which the halves of the reference disagree; NaN if unknown."""
        halves = self.halves_
        if halves is None or state.n_rows == 0:
            return float("nan")
        rows = state.recent.last() if halves.takes_numbers and self.rules_.cover.has_columns else None
        return halves.disagreement_on_reference(state.weights) if rows is None else halves.disagreement(rows)

    def sampling_risk(self) -> RiskEstimate:
        """Return the same estimates with intervals that account for sampling alone.

        These have their coverage where P(y|x) stays and rows are exchangeable in time, as on simulated streams.
        """
        return self._sampling_risk(self.state_)

    def _sampling_risk(self, state: Any) -> RiskEstimate:
        if "risk" not in state.cache:
            with one_blas_thread():
                learners = self._learner_weights(state)
                both = (self._is_wrong(state), self.fixed_.is_wrong())
                unknown = (float("nan"),) * 3
                (adapted, adapted_low, adapted_high), (fixed, fixed_low, fixed_high) = (
                    unknown if is_wrong is None else error_interval(is_wrong, state.weights, *learners)
                    for is_wrong in both
                )
            state.cache["risk"] = RiskEstimate(
                adapted=adapted,
                adapted_low=adapted_low,
                adapted_high=adapted_high,
                fixed=fixed,
                fixed_low=fixed_low,
                fixed_high=fixed_high,
            )
        risk: RiskEstimate = state.cache["risk"]
        return risk

    @property
    def risk_estimate_(self) -> float:
        """Label-free estimate of the current error, computed on the first read in a round."""
        state = self.state_
        with one_blas_thread():
            is_wrong = self._is_wrong(state)
        return float("nan") if is_wrong is None else weighted_error(is_wrong, state.weights)

    def _predictor(self, state: Any) -> Any:
        """The predictor in use: the fixed predictor under a veto."""
        return self.fixed_.estimator if state.fallback.veto.is_held else state.estimator

    def _exponent_in_use(self, state: Any) -> float:
        return float(state.fallback.share) if self.fallback == "auto" else 1.0

    def _held_back(self, state: Any, ratios: FloatArray) -> FloatArray:
        """Return ratios as they are in use: a ratio with a pool of its own is held back already."""
        ratio = state.ratio
        if ratio.is_pooled or not (ratio.keeps_record and self.fallback == "auto"):
            return ratios
        held_back: FloatArray = state.fallback.tempered.ratios(ratios, float(ratio.max_ratio))
        return held_back

    def _is_wrong(self, state: Any) -> NDArray[np.bool_] | None:
        """Which reference rows the predictor in use misclassifies when fitted without them."""
        if state.fallback.veto.is_held:
            return self.fixed_.is_wrong()
        if "is_wrong" not in state.cache:
            predicted = self.erm_.cross_fitted(state.fitted_weights, state.estimator)
            state.cache["is_wrong"] = None if predicted is None else predicted != self.labels_
        is_wrong: NDArray[np.bool_] | None = state.cache["is_wrong"]
        return is_wrong

    def _excess(self, state: Any) -> tuple[float, float]:
        """Current error of the adapted minus the fixed predictor; the veto's own comparison may be a few rounds old."""
        if not state.n_refits:
            return 0.0, 0.0
        with one_blas_thread():
            return compare(self.erm_, self.fixed_, self.labels_, state.weights, (state.estimator, state.fitted_weights))

    def _learner_weights(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Importance weights from each active learner's ratio, and the meta weights of the learners."""
        ratios, learner_weights = state.ratio.learner_ratios()
        if not state.ratio.is_pooled:
            ratios = np.reshape([self._held_back(state, each) for each in ratios], ratios.shape)
        # A ratio of zero everywhere, which some losses allow, carries no information.
        weights = self.base_weight_ * np.maximum(ratios, 1e-12)
        return weights, learner_weights
