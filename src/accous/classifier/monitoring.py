"""Monitoring of an adaptive classifier: estimates that need no labels, and an audit for labels that arrive late.

Everything here is computed from the current state when you read it. Nothing here changes the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.blas import one_blas_thread
from accous.classifier.erm import WeightedErm
from accous.classifier.fallback import FixedModel, compare
from accous.classifier.labels import read_known_labels
from accous.classifier.verification import TimeHalves
from accous.diagnostics.audits import Audit, audit_errors
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.evidence import NO_EVIDENCE, Evidence, widen
from accous.diagnostics.measured import MeasuredError
from accous.diagnostics.risk import RiskEstimate, error_interval, weighted_error
from accous.diagnostics.sets import conformal_sets
from accous.diagnostics.trust import Checks, Trust, WeightEvidence, judge
from accous.diagnostics.weights import temper
from accous.exceptions import DataError, ParameterError
from accous.named_columns import select_columns
from accous.parameters import require_number_in
from accous.validation import count_rows

__all__ = ["Monitoring"]


class Monitoring:
    """Attributes and methods that monitor an `accous.AdaptiveClassifier`; none of them learns anything."""

    state_: Any
    erm_: WeightedErm
    fixed_: FixedModel
    classes_: NDArray[Any]
    labels_: IntArray
    base_weight_: FloatArray
    reference_: Any
    fallback: str
    rules_: Any
    halves_: TimeHalves | None

    if TYPE_CHECKING:

        @property
        def coverage_(self) -> Coverage:  # noqa: D102
            ...

        @property
        def measured_(self) -> MeasuredError | None:  # noqa: D102
            ...

        @property
        def _evidence(self) -> Evidence | None: ...

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

    @property
    def trust_(self) -> Trust:
        """Three answers and a verdict, with their evidence."""
        state = self.state_
        if "trust" not in state.cache:
            state.cache["trust"] = self.trust_given(self.coverage_)
        trust: Trust = state.cache["trust"]
        return trust

    def trust_given(self, coverage: Coverage) -> Trust:
        """Return ``trust_`` with other findings about the recent rows, such as those about the columns of a table.

        Parameters
        ----------
        coverage : Coverage
        """
        state, risk = self.state_, self.risk_
        ratios = np.asarray(state.ratio.reference_ratio_, dtype=np.float64)
        return judge(
            WeightEvidence.of(state.weights, ratios, self.base_weight_, float(state.ratio.max_ratio)),
            share_out_of_bound=state.watch.share_out_of_bound,
            exponent=self._exponent_in_use(state),
            is_vetoed=state.fallback.veto.is_held,
            excess=self._excess(state),
            guard=self.rules_.guard.sentence,
            interval=(risk.adapted, risk.adapted_low, risk.adapted_high),
            checks=Checks(coverage=coverage, evidence=self._evidence, measured=self.measured_),
        )

    @property
    def risk_(self) -> RiskEstimate:
        """Label-free estimates of the current errors of the predictor in use and of the fixed predictor.

        The intervals are widened and shifted by what the backtest showed and by the drift now. Without a backtest they
        are widened by the drift alone.
        """
        state = self.state_
        if "wide_risk" not in state.cache:
            state.cache["wide_risk"] = self._widened(state, self.sampling_risk())
        risk: RiskEstimate = state.cache["wide_risk"]
        return risk

    def _widened(self, state: Any, risk: RiskEstimate) -> RiskEstimate:
        evidence = self._evidence or NO_EVIDENCE
        coverage = self.coverage_
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
        rows = None if self.halves_ is None else state.recent.last()
        if rows is None or self.halves_ is None:
            return float("nan")
        return self.halves_.disagreement(rows)

    def sampling_risk(self) -> RiskEstimate:
        """Return the same estimates with intervals that account for sampling alone.

        These have their coverage where P(y|x) stays and rows are exchangeable in time, as on simulated streams.
        """
        state = self.state_
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

    @property
    def drift_attribution_(self) -> FloatArray:
        """Share of each input column in the log ratio of recent rounds; zeros while there is no shift."""
        parts: FloatArray = self.state_.watch.column_shares
        return parts

    @property
    def history_in_use_(self) -> float:
        """Mean interval length of the learners in use, weighted by their meta weights, in rounds."""
        state = self.state_
        history: float = state.ratio.history_in_use(state.n_rounds)
        return history

    @property
    def drift_events_(self) -> tuple[DriftEvent, ...]:
        """The last hundred changes in the input distribution, and onsets in single columns, in order."""
        log = self.state_.watch.log
        shifts = () if log is None else log.events
        return tuple(sorted((*shifts, *self.state_.columns.events), key=lambda event: event.round))

    def predict_set(self, X: Any, alpha: float = 0.1) -> NDArray[np.bool_]:
        """Predict a set of classes for each row that contains the true class with probability 1 - alpha.

        The sets are conformal sets, weighted by the current ratios. They use leave-one-out scores of the reference, or
        cross-fitted scores if you passed an ``estimator``, which must have ``predict_proba``.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
        alpha : float, default=0.1
            Share of rows whose true class may be missing from the set, above 0 and below 1.

        Returns
        -------
        array of bool of shape (n_rows, n_classes)
            Columns are in the order of ``classes_``.
        """
        self._require_fitted("state_")
        require_number_in("alpha", alpha, 0.0, 1.0)
        if alpha in (0.0, 1.0):
            raise ParameterError(f"alpha must be above 0 and below 1, got {alpha!r}.")
        state = self.state_
        predictor = self._predictor(state)
        if not hasattr(predictor, "predict_proba"):
            raise ParameterError("predict_set needs an estimator with predict_proba.")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            return np.empty((0, len(self.classes_)), dtype=bool)
        with one_blas_thread():
            scores = self._reference_scores(state)
            row_scores = 1.0 - np.asarray(predictor.predict_proba(rows), dtype=np.float64)
            return conformal_sets(scores, state.weights, row_scores, self._row_weights(state, X), float(alpha))

    def audit(self, X: Any, y: Any) -> Audit:
        """Compare the error on labelled rows with the error to expect from the reference.

        The rows may come from any round: they are compared with the reference weighted to match them. The model does
        not learn from them.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            At least one row.
        y : array of shape (n_rows,)
            Labels among ``classes_``.
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            raise DataError("audit needs at least one labelled row, got none.")
        labels = read_known_labels(y, count_rows(rows), self.classes_)
        state = self.state_
        with one_blas_thread():
            is_reference_wrong = self._is_wrong(state)
            if is_reference_wrong is None:
                raise DataError(
                    "audit needs more rows of every class in the reference, because it fits without some rows."
                )
            is_wrong = np.asarray(self._predictor(state).predict(rows)) != self.classes_[labels]
            of_rows, of_reference = self._audit_features(state, rows, X)
            return audit_errors(is_wrong, of_rows, is_reference_wrong, of_reference, self.base_weight_)

    # --- how these are computed -----------------------------------------------------------------------------------

    def _predictor(self, state: Any) -> Any:
        """The predictor in use: the fixed predictor under a veto."""
        return self.fixed_.estimator if state.fallback.veto.is_held else state.estimator

    def _exponent_in_use(self, state: Any) -> float:
        return float(state.fallback.tempering.exponent) if self.fallback == "auto" else 1.0

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
        tempered = [temper(each, self._exponent_in_use(state)) for each in ratios]
        # A ratio of zero everywhere, which some losses allow, carries no information.
        weights = self.base_weight_ * np.maximum(np.reshape(tempered, ratios.shape), 1e-12)
        return weights, learner_weights

    def _reference_scores(self, state: Any) -> FloatArray:
        """One minus the probability of each reference row's own label, from a fit without the row."""
        is_fixed = state.fallback.veto.is_held
        weights = self.base_weight_ if is_fixed else state.fitted_weights
        if "scores" not in state.cache:
            probabilities = self.erm_.cross_fitted_probabilities(weights, self._predictor(state))
            if probabilities is None:
                raise DataError(
                    "predict_set needs more rows of every class in the reference, because it fits without some rows."
                )
            state.cache["scores"] = 1.0 - probabilities[np.arange(len(self.labels_)), self.labels_]
        scores: FloatArray = state.cache["scores"]
        return scores

    def _row_weights(self, state: Any, X: Any) -> FloatArray:
        """Weights of new rows, on the scale of the reference weights."""
        exponent = self._exponent_in_use(state)
        of_reference = temper(np.asarray(state.ratio.reference_ratio_, dtype=np.float64), exponent)
        total = float(self.base_weight_ @ of_reference)
        ratios = temper(np.asarray(state.ratio.predict_ratio(X), dtype=np.float64), exponent)
        scale = self.base_weight_.mean() * self.base_weight_.sum()
        return ratios * (scale / total) if total > 0.0 else np.zeros_like(ratios)

    def _audit_features(self, state: Any, rows: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        """Features in which the densities and errors of audited and reference rows are compared."""
        features: tuple[FloatArray, FloatArray] | None = state.ratio.comparison_features(X)
        if features is not None:
            return features
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            return rows, np.asarray(self.reference_)
        return np.zeros((count_rows(rows), 1)), np.zeros((len(self.labels_), 1))
