"""The error of an adaptive model without labels: estimates from the weighted reference, and their intervals.

Everything here is computed from one state of the model when you read it. Nothing here changes the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import FixedModel, compare
from accous.classifier.task import Task
from accous.classifier.time_halves import TimeHalves
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import NO_EVIDENCE, Evidence, RiskEstimate, loss_interval, weighted_loss, widen
from accous.threads import one_blas_thread

__all__ = ["Estimating"]


class Estimating:
    """The part of an adaptive model that estimates its own error without labels."""

    state_: Any
    erm_: WeightedErm
    fixed_: FixedModel
    task_: Task
    base_weight_: FloatArray
    fallback: str
    halves_: TimeHalves | None
    rules_: Any

    if TYPE_CHECKING:

        @property
        def _evidence(self) -> Evidence | None: ...

        def _coverage(self, state: Any) -> Coverage: ...

        def _is_covered(self, state: Any, coverage: Coverage) -> bool: ...

    @property
    def risk_(self) -> RiskEstimate:
        """Label-free estimates of the current errors of the predictor in use and of the fixed predictor.

        The intervals are widened and shifted by what the backtest showed and by the drift now. Without a backtest they
        are widened by the drift alone.
        """
        return self._risk(self.state_)

    def risk_given(self, coverage: Coverage) -> RiskEstimate:
        """Return ``risk_`` with other findings about the recent rows, such as those about the columns of a table.

        Parameters
        ----------
        coverage : Coverage
        """
        state = self.state_
        return replace(self._risk(state), is_covered=self._is_covered(state, coverage))

    def _risk(self, state: Any) -> RiskEstimate:
        if "wide_risk" not in state.cache:
            state.cache["wide_risk"] = self._widened(state, self._sampling_risk(state))
        risk: RiskEstimate = state.cache["wide_risk"]
        return risk

    def _widened(self, state: Any, risk: RiskEstimate) -> RiskEstimate:
        evidence = self._evidence or NO_EVIDENCE
        coverage = self._coverage(state)
        drift: dict[str, Any] = {
            "drift": coverage.drift_strength,
            "seen_drift": evidence.drift,
            "disagreement": self._disagreement(state),
            "scale": self._scale,
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
            loss=risk.loss,
            age=risk.age,
            is_covered=self._is_covered(state, coverage),
            has_rows=state.n_rounds > 0,
        )

    @property
    def _scale(self) -> LossScale:
        """The scale of the losses."""
        return self.fixed_.scale

    def _disagreement(self, state: Any) -> float:
        """How far the halves of the reference disagree on recent rows; NaN if unknown."""
        halves = self.halves_
        if halves is None or state.n_rows == 0:
            return float("nan")
        rows = state.recent.last() if halves.takes_numbers and self.rules_.cover.has_columns else None
        losses = halves.disagreement_on_reference(state.weights) if rows is None else halves.disagreement(rows)
        return losses / self._scale.one

    def sampling_risk(self) -> RiskEstimate:
        """Return the same estimates with intervals that account for sampling alone.

        They are too narrow, even where P(y | x) stays and rows are exchangeable in time: on simulated streams they hold
        the true error in 69 to 90 % of the cases, where 90 % is intended (docs/trust.md).
        """
        return self._sampling_risk(self.state_)

    def _sampling_risk(self, state: Any) -> RiskEstimate:
        if "risk" not in state.cache:
            with one_blas_thread():
                learners = self._learner_weights(state)
                (adapted, adapted_low, adapted_high), (fixed, fixed_low, fixed_high) = (
                    self._interval(losses, state.weights, learners)
                    for losses in (self._losses(state), self._losses_of_fixed())
                )
            state.cache["risk"] = RiskEstimate(
                adapted=adapted,
                adapted_low=adapted_low,
                adapted_high=adapted_high,
                fixed=fixed,
                fixed_low=fixed_low,
                fixed_high=fixed_high,
                loss=self._scale.loss,
                age=self._age(state),
            )
        risk: RiskEstimate = state.cache["risk"]
        return risk

    def _interval(
        self, losses: FloatArray | None, weights: FloatArray, learners: tuple[FloatArray, FloatArray]
    ) -> tuple[float, float, float]:
        if losses is None:
            return (float("nan"),) * 3
        estimate, low, high = loss_interval(losses, weights, *learners, self.erm_.n_coefs)
        return estimate, low, min(self._scale.largest, high)

    @property
    def risk_estimate_(self) -> float:
        """Label-free estimate of the current error, computed on the first read in a round."""
        state = self.state_
        with one_blas_thread():
            losses = self._losses(state)
        return float("nan") if losses is None else weighted_loss(losses, state.weights)

    def losses_on(self, y: NDArray[Any], predicted: NDArray[Any]) -> FloatArray:
        """Return the losses of predictions.

        Parameters
        ----------
        y : array of shape (n_rows,)
            The labels.
        predicted : array of shape (n_rows,)
        """
        return self.task_.losses(self.task_.errors_on(y, predicted))

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

    def _is_fixed(self, state: Any) -> bool:
        """Whether the predictor in use is the fixed one, or one that was fitted with the same weights."""
        return state.fallback.veto.is_held or np.array_equal(state.fitted_weights, self.base_weight_)

    def _losses(self, state: Any) -> FloatArray | None:
        """Loss of each reference row by the predictor in use when fitted without it.

        Where such fits are slow, the losses are those of the fixed predictor plus the difference between the two at
        the last comparison, which is made with fewer folds.
        """
        answers = state.fallback.check.answers
        if self._is_fixed(state) or answers is None:
            errors = self._errors(state)
            return None if errors is None else self.task_.losses(errors)
        fixed, quick = self._losses_of_fixed(), self._losses_of_fixed(is_quick=True)
        if fixed is None or quick is None:
            return None
        return fixed + self.task_.losses(self.task_.errors(answers)) - quick

    def _losses_of_fixed(self, *, is_quick: bool = False) -> FloatArray | None:
        errors = self.fixed_.errors(is_quick=is_quick)
        return None if errors is None else self.task_.losses(errors)

    def _age(self, state: Any) -> int:
        """Rounds since the fits that the estimate rests on, if the predictor has changed since."""
        check = state.fallback.check
        if self._is_fixed(state) or check.answers is None or state.n_refits == check.veto.n_refits:
            return 0
        return int(state.n_rounds - check.veto.n_rounds)

    def _errors(self, state: Any) -> NDArray[Any] | None:
        """Error of each reference row by the predictor in use when fitted without it."""
        if self._is_fixed(state):
            return self.fixed_.errors()
        if "errors" not in state.cache:
            answers = self.erm_.cross_fitted(state.fitted_weights, state.estimator)
            state.cache["errors"] = None if answers is None else self.task_.errors(answers)
        errors: NDArray[Any] | None = state.cache["errors"]
        return errors

    def _excess(self, state: Any) -> tuple[float, float]:
        """Current error of the adapted minus the fixed predictor; the veto's own comparison may be a few rounds old."""
        if np.array_equal(state.fitted_weights, self.base_weight_):
            return 0.0, 0.0
        with one_blas_thread():
            answers = state.fallback.check.answers
            if answers is None:
                answers = self.erm_.cross_fitted(state.fitted_weights, state.estimator, is_quick=True)
            return compare(self.fixed_, self.task_, state.weights, answers)

    def _learner_weights(self, state: Any) -> tuple[FloatArray, FloatArray]:
        """Importance weights from each active learner's ratio, and the meta weights of the learners."""
        ratios, learner_weights = state.ratio.learner_ratios()
        if not state.ratio.is_pooled:
            ratios = np.reshape([self._held_back(state, each) for each in ratios], ratios.shape)
        # A ratio of zero everywhere, which some losses allow, carries no information.
        weights = self.base_weight_ * np.maximum(ratios, 1e-12)
        return weights, learner_weights

    def _row_weights(self, state: Any, X: Any) -> FloatArray:
        """Weights of new rows, on the scale of the reference weights."""
        of_reference = self._held_back(state, np.asarray(state.ratio.reference_ratio_, dtype=np.float64))
        total = float(self.base_weight_ @ of_reference)
        ratios = self._held_back(state, np.asarray(state.ratio.predict_ratio(X), dtype=np.float64))
        scale = self.base_weight_.mean() * self.base_weight_.sum()
        return ratios * (scale / total) if total > 0.0 else np.zeros_like(ratios)
