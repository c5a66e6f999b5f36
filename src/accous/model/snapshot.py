"""What a model says of itself: risk, trust, drift, regimes, audits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics.coverage import ColumnWatch, Coverage
from accous.diagnostics.drift import DriftEvent, Regime, main_columns, shares
from accous.diagnostics.labels import Audit, LabelledRounds, MeasuredError
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import NO_EVIDENCE, Evidence, RiskEstimate, loss_interval, weighted_loss, widen
from accous.diagnostics.trust import Checks, Trust, WeightEvidence, is_outside, judge, no_overlap
from accous.exceptions import DataError
from accous.model.backtest import TimeHalves
from accous.model.input_errors import naming_values
from accous.model.predictors import WeightedErm
from accous.model.round import AdaptationState
from accous.model.safeguards import FixedModel, Veto, compare
from accous.model.tasks import Task
from accous.model.watching import parts_of_coef
from accous.text import LOGGER
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import count_rows, select_columns

# --- The error of an adaptive model without labels: estimates from the weighted reference, and their intervals


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


# --- Monitoring of an adaptive model: whether to trust it, and what moved


_FEW_OUT = 0.05


class Monitoring:
    """Attributes that monitor an adaptive model; none of them learns anything."""

    state_: Any
    base_weight_: FloatArray
    rules_: Any
    unverified_: str

    if TYPE_CHECKING:

        @property
        def _evidence(self) -> Evidence | None: ...

        def _coverage(self, state: Any) -> Coverage: ...

        def _measured(
            self, state: Any, coverage: Coverage, rounds: LabelledRounds | None = None
        ) -> MeasuredError | None: ...

        def _risk(self, state: Any) -> RiskEstimate: ...

        def _excess(self, state: Any) -> tuple[float, float]: ...

        def _exponent_in_use(self, state: Any) -> float: ...

        @property
        def _scale(self) -> LossScale: ...

    @property
    def trust_(self) -> Trust:
        """Three answers and a verdict, with their evidence."""
        state = self.state_
        if "trust" not in state.cache:
            state.cache["trust"] = self._trust(state, self._coverage(state))
        trust: Trust = state.cache["trust"]
        return trust

    def trust_given(self, coverage: Coverage, rounds: LabelledRounds | None = None) -> Trust:
        """Return ``trust_`` with other findings about the recent rows, such as those about the columns of a table.

        Parameters
        ----------
        coverage : Coverage
        rounds : LabelledRounds, optional
            What labels measured round by round, if that is known.
        """
        return self._trust(self.state_, coverage, rounds)

    def _trust(self, state: Any, coverage: Coverage, rounds: LabelledRounds | None = None) -> Trust:
        risk = self._risk(state)
        return judge(
            self._weight_evidence(state),
            share_out_of_bound=self._share_out_of_bound(state),
            exponent=self._exponent_in_use(state),
            is_vetoed=state.fallback.veto.is_held,
            excess=self._excess(state),
            scale=self._scale,
            guard=self.rules_.guard.sentence,
            interval=(risk.adapted, risk.adapted_low, risk.adapted_high),
            checks=Checks(
                coverage=coverage,
                evidence=self._evidence,
                measured=self._measured(state, coverage, rounds),
                unverified=self.unverified_,
                since_joining=_since_joining(state),
            ),
        )

    def _weight_evidence(self, state: Any) -> WeightEvidence:
        ratios = np.asarray(state.ratio.estimated_ratios(), dtype=np.float64)
        return WeightEvidence.of(state.weights, ratios, self.base_weight_, float(state.ratio.max_ratio))

    def _is_covered(self, state: Any, coverage: Coverage) -> bool:
        """Whether the answer about the inputs is not "no"; it takes less time than the answers."""
        if is_outside(coverage):
            return False
        n_rounds, _ = _since_joining(state) or (None, None)
        return no_overlap(self._weight_evidence(state), self._share_out_of_bound(state), n_rounds) is None

    def _share_out_of_bound(self, state: Any) -> float:
        """Share of recent rows out of bound; 0 once rows that joined the reference lie there too.

        The bound is that of the first reference: beyond it, the present one may have rows enough.
        """
        share: float = state.watch.share_out_of_bound
        if not share or not state.ratio.has_scores:
            return share
        of_reference: float = state.ratio.share_of_reference_out
        if of_reference < _FEW_OUT:  # one row in a hundred, by the choice of the bound
            return share
        # Without rows that joined, the user has chosen a narrow bound.
        return 0.0 if state.joined is not None else max(0.0, share - of_reference)

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
        state = self.state_
        shifts = () if state.watch.log is None else state.watch.log.events
        return tuple(sorted((*shifts, *state.columns.events), key=lambda event: event.round))


def _since_joining(state: Any) -> tuple[int, int] | None:
    """Rounds and rows of the stream since rows joined the reference; None if none did, or before the first round."""
    joined = state.joined
    if joined is None or not joined.n_rounds:
        return None
    return state.n_rounds - joined.n_rounds, state.n_rows - joined.n_rows


# --- The regimes that an adaptive model remembers


class Remembering:
    """The part of an adaptive model that tells which regimes the inputs have been in."""

    state_: Any
    rules_: Any

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

    @property
    def regimes_(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers, in the order in which they were first seen.

        Empty if the inputs have not settled away from the reference, and if the ratio estimator has no memory.
        """
        self._require_fitted("state_")
        state = self.state_
        if "regimes" not in state.cache:
            with one_blas_thread():
                state.cache["regimes"] = self._regimes(state)
        regimes: tuple[Regime, ...] = state.cache["regimes"]
        return regimes

    def _regimes(self, state: Any) -> tuple[Regime, ...]:
        remembered = state.ratio.remembered_regimes()
        coefs = np.array([regime.coef for regime in remembered])
        found = []
        for number, regime in enumerate(remembered, start=1):
            others = np.delete(coefs, number - 1, axis=0)
            apart_from = others.mean(axis=0) if len(others) else state.ratio.neutral_coef_
            found.append(
                Regime(
                    number=number,
                    visits=regime.visits,
                    size=regime.size,
                    features=self._columns_apart(state.ratio, regime.coef - apart_from),
                    is_current=regime.is_current,
                )
            )
        return tuple(found)

    def _columns_apart(self, ratio: Any, change: FloatArray) -> tuple[str, ...]:
        """Return the main columns of a difference between two thetas."""
        return main_columns(shares(parts_of_coef(ratio, change, self.rules_.columns)), self.rules_.names)


# --- Audits of an adaptive model: whether P(y | x) has changed, from rows whose labels arrived late


class Auditing:
    """The part of an adaptive model that audits labelled rows; it learns nothing from them."""

    state_: Any
    task_: Task
    base_weight_: FloatArray
    reference_: Any

    if TYPE_CHECKING:

        def _require_fitted(self, attribute: str) -> None: ...

        def _read(self, X: Any, *, reset: bool, min_rows: int = 1) -> Any: ...

        def _predictor(self, state: Any) -> Any: ...

        def _errors(self, state: Any) -> NDArray[Any] | None: ...

    def audit(self, X: Any, y: Any) -> Audit:
        """Compare the error on labelled rows with the error to expect from the reference.

        The rows may come from any round: they are compared with the reference weighted to match them. The model does
        not learn from them.

        Parameters
        ----------
        X : array or frame of shape (n_rows, n_features)
            At least one row.
        y : array of shape (n_rows,)
            Their labels; those of a classifier are among ``classes_``.
        """
        self._require_fitted("state_")
        X = select_columns(self, X)
        rows = self._read(X, reset=False, min_rows=0)
        if count_rows(rows) == 0:
            raise DataError("audit needs at least one labelled row, got none.")
        truths = self.task_.read_known(y, count_rows(rows))
        state = self.state_
        with one_blas_thread():
            reference_errors = self._errors(state)
            if reference_errors is None:
                raise DataError(
                    f"audit needs more {self.task_.too_few} in the reference, because it fits without some rows."
                )
            with naming_values(rows, self.reference_), one_openmp_thread_if_few(count_rows(rows)):
                predicted = np.asarray(self._predictor(state).predict(rows))
            errors = self.task_.errors_on(truths, predicted)
            of_rows, of_reference = self._audit_features(state, rows, X)
            return self.task_.audit((errors, of_rows), (reference_errors, of_reference), self.base_weight_)

    def _audit_features(self, state: Any, rows: Any, X: Any) -> tuple[FloatArray, FloatArray]:
        """Features in which the densities and errors of audited and reference rows are compared."""
        features: tuple[FloatArray, FloatArray] | None = state.ratio.comparison_features(X)
        if features is not None:
            return features
        if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
            return rows, np.asarray(self.reference_)
        return np.zeros((count_rows(rows), 1)), np.zeros((len(self.task_), 1))


# --- What a round leaves in the log: changes of the inputs, and which model makes the predictions from now on


_SHOWN = {
    "outside": "values outside the range of the reference",
    "new values": "values that the reference does not have",
    "missing": "missing values",
    "categories": "categories that the reference does not have",
}


def log_events(before: AdaptationState, after: AdaptationState, fixed: FixedModel) -> None:
    """Log what is new after a round: changes of the inputs as INFO, vetoes as WARNING.

    Parameters
    ----------
    before, after : AdaptationState
        The states around the round.
    fixed : FixedModel
    """
    # With nothing to adapt to, the fixed model predicts anyway, and no comparison was made.
    if after.fallback.veto.is_held != before.fallback.veto.is_held and after.fallback.share > 0.0:
        _log_veto(after, fixed)
    log, old = after.watch.log, before.watch.log
    if log is not None and old is not None and log.events is not old.events:
        _log_change(after)
    if after.columns is not before.columns:
        log_onsets(after.columns, after.n_rounds)


def log_onsets(columns: ColumnWatch, this_round: int) -> None:
    """Log as INFO which columns show something new since this round."""
    for event in columns.events:
        if event.round == this_round:
            LOGGER.info(
                "Round %d: column %s has %s in %.1f %% of the recent rows.",
                this_round,
                ", ".join(event.features),
                _SHOWN[event.kind],
                100.0 * event.size,
            )


def _log_veto(state: AdaptationState, fixed: FixedModel) -> None:
    veto = state.fallback.veto
    name = "fixed" if veto.is_held else "adapted"
    LOGGER.warning(
        "Round %d: the %s model makes the predictions from now on. %s", state.n_rounds, name, _comparison(veto, fixed)
    )


def _comparison(veto: Veto, fixed: FixedModel) -> str:
    if math.isnan(veto.excess):
        return "The adapted and the fixed model could not be compared on the reference."
    scale, sign = fixed.scale, "-" if veto.excess < 0.0 else "+"
    return (
        f"{scale.name.capitalize()} on the weighted reference, adapted minus fixed: "
        f"{sign}{scale.difference(abs(veto.excess))} "
        f"(standard error {scale.difference(veto.standard_error).removesuffix(' points')})."
    )


def _log_change(state: AdaptationState) -> None:
    assert state.watch.log is not None
    event = state.watch.log.events[-1]
    columns = ", ".join(event.features) or "no single column"
    if event.rounds_to_adapt is None:
        returned = f" They are {event.return_in_words}." if event.seen else ""
        LOGGER.info(
            "Round %d: the inputs changed (size %.2f), mainly %s.%s", event.round, event.size, columns, returned
        )
    else:
        LOGGER.info(
            "Round %d: the change of round %d is over (size %.2f, mainly %s); the weights followed within %d rounds.",
            state.n_rounds,
            event.round,
            event.size,
            columns,
            event.rounds_to_adapt,
        )
