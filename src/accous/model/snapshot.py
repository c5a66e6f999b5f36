"""What a model says of itself: one frozen `Snapshot` of rules and state, whose readings are computed on first use."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.diagnostics import status as states
from accous.diagnostics.coverage import MIN_ROWS, Coverage
from accous.diagnostics.drift import DriftEvent, Regime, main_columns, shares
from accous.diagnostics.losses import effective_sample_size
from accous.diagnostics.metrics import Metric, read_metric
from accous.diagnostics.performance import (
    Calibration,
    Estimate,
    Labels,
    PredictedRows,
    at_fit,
    estimate,
    estimate_by_segment,
    moved,
    spread_of,
)
from accous.diagnostics.status import Finding, Reason, Status
from accous.exceptions import DataError, ParameterError
from accous.model.learning import LearningEvent
from accous.model.performance import (
    AlarmWatch,
    Drift,
    MovedColumn,
    begin_alarm,
    drift_to_json,
    estimate_to_json,
    status_to_json,
)
from accous.model.round import AdaptationState, RoundRules
from accous.model.watching import Read, parts_of_coef, rounds_frame
from accous.text import LOGGER, count, did_you_mean, listed
from accous.threads import CALLBACKS_NAME, one_blas_thread

_ABOUT_LABELS = ("recent", "labels", "_label_weights", "_estimates", "status", "alarm")
_ROWS_FOR_FRAMES = 500
_MANY_OUTSIDE, _SHORT_HISTORY, _MOST_MOVED = 0.2, 200, 20


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Everything that a model can say after one round.

    The estimator, the table model, the report, the service and the command line all ask one of these. Reading it
    changes nothing but what it remembers itself, and it stays as it is while rounds go on.

    Attributes
    ----------
    rules : RoundRules
        What ``fit`` set up.
    state : AdaptationState
        The state after the round.
    """

    rules: RoundRules
    state: AdaptationState

    def apart(self) -> Self:
        """Return a copy: what is read from it leaves no trace in the model, such as an error in its history."""
        return copy(self)

    def on(self, state: AdaptationState, *, with_new_labels: bool = False) -> Snapshot:
        """Return the snapshot of another state of the same round, with the readings that are the same."""
        other = Snapshot(self.rules, state)
        forgotten = ("state", *_ABOUT_LABELS) if with_new_labels else ("state",)
        known = vars(self).copy()  # readers in other threads add to it meanwhile
        vars(other).update({name: value for name, value in known.items() if name not in forgotten})
        return other

    # --- the predictor in use, and the weights ---------------------------------------------------------------------

    @property
    def label_free(self) -> Any:
        """The predictor that knows no labels but those of the reference: the fixed predictor under a veto."""
        return self.rules.fixed.estimator if self.state.safeguards.veto.is_held else self.state.estimator

    @property
    def predictor(self) -> Any:
        """The predictor in use: the one that knows no labels, mixed with the one that learned from some."""
        learning = self.state.learning
        if learning is None:
            return self.label_free
        return learning.mixed_with(self.label_free, len(self.rules.names), self.rules.task)

    @property
    def learned(self) -> tuple[LearningEvent, ...]:
        """The last hundred refits on labels."""
        return () if self.state.learning is None else self.state.learning.events

    @cached_property
    def is_fixed(self) -> bool:
        """Whether the predictor in use is the fixed one, or one that was fitted with the same weights."""
        state = self.state
        return state.safeguards.veto.is_held or np.array_equal(state.fitted_weights, self.rules.base_weight)

    @cached_property
    def effective_sample_size(self) -> float:
        """Effective number of reference rows under the current weights."""
        return effective_sample_size(self.state.weights)

    def row_weights(self, X: Any) -> FloatArray:
        """Weights of new rows, on the scale of the reference weights."""
        base, ratio = self.rules.base_weight, self.state.ratio
        of_reference = self._held_back(np.asarray(ratio.reference_ratio_, dtype=np.float64))
        total = float(base @ of_reference)
        ratios = self._held_back(np.asarray(ratio.predict_ratio(X), dtype=np.float64))
        scale = base.mean() * base.sum()
        return ratios * (scale / total) if total > 0.0 else np.zeros_like(ratios)

    def _held_back(self, ratios: FloatArray) -> FloatArray:
        """Return ratios as they are in use: a ratio with a pool of its own is held back already."""
        ratio = self.state.ratio
        if ratio.is_pooled or not self.rules.has_safeguards:
            return ratios
        held_back: FloatArray = self.state.safeguards.tempered.ratios(ratios, float(ratio.max_ratio))
        return held_back

    # --- how good it is now ----------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether neither rows nor labels have come: then there is nothing to judge."""
        return not self.state.n_rows and self.state.labelled is None

    def performance(self, metric: str | None = None, *, by: str | None = None) -> Any:
        """Return how good the model is on recent rows, by the model's own metric or by another.

        Parameters
        ----------
        metric : str, optional
            Its name.
        by : str, optional
            A column: then the result is a list of segments and estimates, worst first.

        Returns
        -------
        Estimate, or list of (str, Estimate)
        """
        chosen = self.rules.measures.read(metric)
        with one_blas_thread():
            if by is not None:
                return self._by_segment(chosen, by)
            if chosen.name not in self._estimates:
                self._estimates[chosen.name] = self._estimate(chosen)
            return self._estimates[chosen.name]

    @cached_property
    def calibration(self) -> Calibration | None:
        """What held-out rows tell of rows that are predicted so, weighted as the inputs are now."""
        held, base = self.rules.held_out, self.rules.base_weight
        # They were predicted by the fixed model: how it fares where inputs are now says nothing of the adapted one.
        if held.calibration is None or held.predictions is None or self.is_empty or not self.is_fixed:
            return held.calibration
        rows = held.predictions.rows
        ratio = np.divide(self.state.weights[rows], base[rows], out=np.ones(len(rows)), where=base[rows] > 0.0)
        return held.calibration.reweighted(ratio) if np.ptp(ratio) > 0.0 else held.calibration

    @cached_property
    def _estimates(self) -> dict[str, Estimate]:
        return {}

    def _estimate(self, metric: Metric) -> Estimate:
        calibration = self.calibration
        if calibration is None:
            unknown = float("nan")
            return Estimate(metric.name, unknown, unknown, unknown, "expected", unknown, len(self.labels))
        return estimate(metric, calibration, self.recent, self.labels)

    def _by_segment(self, metric: Metric, by: str) -> list[tuple[str, Estimate]]:
        calibration = self.calibration
        if calibration is None:
            raise DataError("The reference has too few rows to estimate by segment.")
        if self.is_empty:
            return []
        of_recent, of_labelled, of_held_out = self.segment_values(by)
        return estimate_by_segment(
            metric,
            calibration,
            self.recent,
            self.labels,
            of_recent=of_recent,
            of_labels=of_labelled[self._label_weights > 0.0],
            of_held_out=of_held_out,
        )

    def segment_values(self, by: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return a column's values of recent rows, of all labelled rows that are kept, and of held-out rows."""
        held, numbers = self.rules.held_out.predictions, self.rules.cover.numbers
        if by not in self.rules.names:
            meant = did_you_mean(by, self.rules.names)
            raise ParameterError(f"There are no segments by {by!r}{meant}: use one of {listed(self.rules.names)}.")
        if not self.rules.takes_numbers or numbers is None or held is None:
            raise ParameterError("by needs rows of numbers: pass an array, or use a table model.")
        place, labelled, recent = self.rules.names.index(by), self.state.labelled, self.state.recent.last()
        of_held_out = numbers[held.rows, place]
        of_labelled = np.zeros(0) if labelled is None else labelled.rows[:, place]
        if recent is None:
            return (of_held_out if labelled is None else of_labelled[-len(self.recent) :]), of_labelled, of_held_out
        return recent[:, place], of_labelled, of_held_out

    @cached_property
    def recent(self) -> PredictedRows:
        """What the predictor in use says of recent rows; before the first, of labelled rows if there are some.

        Rows of frames are not kept as the user's estimator reads them: held-out rows of the reference stand for them,
        as often as their weights say.
        """
        rules, state, held = self.rules, self.state, self.rules.held_out
        rows = state.recent.last() if rules.takes_numbers else None
        if rows is not None:
            with one_blas_thread():
                return rules.measures.made_by(self.predictor, rows)
        if not state.n_rows and state.labelled is not None:
            return state.labelled[-_ROWS_FOR_FRAMES:].made
        assert held.calibration is not None
        assert held.predictions is not None
        made = held.calibration.held_out
        if self.is_empty:
            return made[:0]
        shares = np.cumsum(state.weights[held.predictions.rows])
        places = (np.arange(_ROWS_FOR_FRAMES) + 0.5) / _ROWS_FOR_FRAMES
        return made[np.minimum(np.searchsorted(shares / shares[-1], places), len(made) - 1)]

    @cached_property
    def _label_weights(self) -> FloatArray:
        labelled = self.state.labelled
        return np.zeros(0) if labelled is None else labelled.weights(self.state.n_rows, self.n_recent)

    @property
    def n_recent(self) -> int:
        """Rows that count as recent."""
        return min(self.state.n_rows, self.state.recent.max_rows or _ROWS_FOR_FRAMES)

    @cached_property
    def labels(self) -> Labels:
        """Labels that say something of recent rows."""
        labelled = self.state.labelled
        if labelled is None:
            none = PredictedRows(np.zeros(0), None)
            return Labels(none, np.zeros(0), np.zeros(0))
        found = labelled.labels(self._label_weights)
        return found if self.state.learning is None else replace(found, is_alone=True)

    @cached_property
    def alarm(self) -> AlarmWatch | None:
        """The alarm with all rows so far; None if the reference has too few rows."""
        state = self.state
        watch = begin_alarm(self.rules, state.recent) if state.alarm is None else state.alarm
        if watch is None or watch.n_closed == state.recent.n_closed:
            return watch
        return watch.after_blocks(self.rules, self.predictor, state.recent, state.labelled, state.n_rounds)

    @property
    def known_alarm(self) -> AlarmWatch | None:
        """The alarm if it has been read: the next round goes on from there."""
        return vars(self).get("alarm")

    @cached_property
    def status(self) -> Status:
        """The state of the model, with its reasons and one piece of advice."""
        if self.is_empty:
            return states.BEFORE_ROWS
        metric, held, alarm = self.rules.measures.metric, self.rules.held_out, self.alarm
        now, learning = self.performance(), self.state.learning
        found = states.judge(
            metric,
            now,
            self.windows,
            self._drift_now,
            tolerance=self.tolerance,
            moved=0.0 if held.calibration is None else moved(held.calibration.held_out, self.recent),
            alarm=alarm is not None and alarm.process.is_on,
            has_learned=learning is not None and bool(learning.kept.is_learned.all()),
            learned_predicts=learning is not None and learning.weight > 0.0,
            spread=math.nan if self.calibration is None else spread_of(metric, self.calibration, self.recent),
            also=self._further_reasons,
        )
        return replace(found, alarm_since=None if alarm is None else alarm.since)

    @property
    def windows(self) -> states.StateHistory:
        """What windows of the reference showed by the model's own metric."""
        return self.rules.held_out.history(self.rules.measures.metric, self.rules.cover)

    @property
    def tolerance(self) -> float:
        """How much more loss than at fit is still healthy."""
        measures, calibration, scale = self.rules.measures, self.rules.held_out.calibration, float("nan")
        if measures.classes is None and calibration is not None:
            scale = at_fit(read_metric("mean_absolute_error", None), calibration)
        return measures.tolerated(measures.metric, self.performance().at_fit, scale)

    @property
    def _drift_now(self) -> float:
        strength = self.coverage.drift_strength
        if not math.isnan(strength):
            return strength
        # A few rows have not moved anywhere yet; rows that are no numbers may have.
        return 0.0 if self.state.n_rows < MIN_ROWS else 1.0

    @property
    def _further_reasons(self) -> tuple[Reason, ...]:
        rules, state, coverage = self.rules, self.state, self.coverage
        found = []
        n_merely = int(np.isnan(state.labelled.chosen).sum()) if state.labelled is not None else 0
        if n_merely and not len(self.labels):
            found.append(Reason(Finding.LABELS_ARRIVED, n_merely))
        if state.labelled is not None and len(self.labels):
            n_ago = state.n_rows - int(state.labelled.made_at[self._label_weights > 0.0].max())
            found += [Reason(Finding.LABELS_OLD, n_ago)] if n_ago > self.n_recent else []
        if coverage.share_outside >= _MANY_OUTSIDE:
            found.append(Reason(Finding.FEW_INSIDE, coverage.share_outside))
        veto = state.safeguards.veto
        if veto.is_held and veto.excess > 0.0:
            found.append(Reason(Finding.NOT_ADAPTED, veto.excess))
        if len(rules.task) < _SHORT_HISTORY:
            found.append(Reason(Finding.SHORT_HISTORY, len(rules.task)))
        return tuple(found)

    @cached_property
    def drift(self) -> Drift:
        """What has moved in the inputs."""
        return Drift(self.moved_columns(), self.drift_events, self.coverage)

    def moved_columns(self) -> tuple[MovedColumn, ...]:
        """Return the columns that moved, the one that moved most first."""
        parts, numbers, recent = self.state.watch.column_shares, self.rules.cover.numbers, self.state.recent.last()
        means: tuple[Any, Any] = (None, None)
        if self.rules.cover.has_columns and numbers is not None and recent is not None:
            means = numbers.mean(axis=0), recent.mean(axis=0)
        found = []
        for place in np.argsort(-parts, kind="stable")[:_MOST_MOVED].tolist():
            if parts[place] > 0.0:
                then, now = (None if each is None else float(each[place]) for each in means)
                found.append(MovedColumn(self.rules.names[place], float(parts[place]), then, now))
        return tuple(found)

    def to_json(self, metrics: Sequence[str] = (), by: str | None = None) -> dict[str, Any]:
        """Return what the model says of itself, ready for JSON; None where there is no number.

        Parameters
        ----------
        metrics : sequence of str
            Further metrics, by name.
        by : str, optional
            A column to estimate by.
        """
        now, state = self.performance(), self.state
        segments = [] if by is None else self.performance(by=by)
        return (
            status_to_json(self.status)
            | {"metric": now.metric, **estimate_to_json(now), "n_labels": now.n_labels}
            | {"rounds": state.n_rounds, "rows": state.n_rows}
            | {
                "metrics": {name: estimate_to_json(self.performance(name)) for name in metrics},
                "segments": [
                    {"segment": name} | estimate_to_json(one) | {"n_labels": one.n_labels} for name, one in segments
                ],
                "drift": drift_to_json(self.drift),
                "learning": None if state.learning is None else state.learning.to_json(),
            }
        )

    # --- losses of the reference, from fits without the row ---------------------------------------------------------

    @cached_property
    def errors(self) -> NDArray[Any] | None:
        """Error of each reference row by the predictor in use when fitted without it."""
        if self.is_fixed:
            return self.rules.fixed.errors()
        answers = self.rules.erm.cross_fitted(self.state.fitted_weights, self.state.estimator)
        return None if answers is None else self.rules.task.errors(answers)

    def require_errors(self, method: str, *, of_fixed: bool = False) -> NDArray[Any]:
        """Return ``errors``, or raise a DataError if the reference has too few rows for fits without some."""
        errors = self.rules.fixed.errors() if of_fixed else self.errors
        if errors is None:
            too_few = self.rules.task.too_few
            raise DataError(f"{method} needs more {too_few} in the reference, because it fits without some rows.")
        return errors

    @cached_property
    def scores(self) -> FloatArray:
        """One minus the probability of each reference row's own label, from a fit without the row."""
        task, compared = self.rules.task, self.state.safeguards.check.scores
        if self.is_fixed:
            found = self.rules.fixed.scores()
        elif compared is not None:
            found = compared
        else:
            found = task.set_scores(self.rules.erm, self.state.fitted_weights, self.label_free, is_quick=False)
        if found is None:
            raise DataError(
                f"predict_set needs more {task.too_few} in the reference, because it fits without some rows."
            )
        return found

    @property
    def residuals(self) -> NDArray[Any]:
        """Residuals of the reference by fits without the row; where such fits are slow, those of the last comparison.

        Before the first comparison, they are those of the fixed predictor.
        """
        answers = self.state.safeguards.check.answers
        if not self.rules.erm.is_slow_to_cross_fit or self.is_fixed:
            return self.require_errors("predict_interval")
        if answers is not None:
            return self.rules.task.errors(answers)
        return self.require_errors("predict_interval", of_fixed=True)

    # --- whether the reference covers the inputs -------------------------------------------------------------------

    @cached_property
    def coverage(self) -> Coverage:
        """How well the reference covers the recent rows: jointly, and column by column."""
        return self.rules.cover.judge(self.state.recent)

    # --- what moved, and what happened -----------------------------------------------------------------------------

    @cached_property
    def drift_events(self) -> tuple[DriftEvent, ...]:
        """The last hundred changes in the input distribution, and onsets in single columns, in order."""
        state = self.state
        shifts = () if state.watch.log is None else state.watch.log.events
        return tuple(sorted((*shifts, *state.columns.events), key=lambda event: event.round))

    @property
    def last_drift_round(self) -> int | None:
        """Round of the last change of the inputs; 0 before the first, None if the ratio does not show changes."""
        if self.drift_events:
            return int(self.drift_events[-1].round)
        return None if self.state.watch.log is None else 0

    @cached_property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers, in the order in which they were first seen.

        Empty if the inputs have not settled away from the reference, and if the ratio estimator has no memory.
        """
        with one_blas_thread():
            ratio = self.state.ratio
            remembered = ratio.remembered_regimes()
            coefs = np.array([regime.coef for regime in remembered])
            found = []
            for number, regime in enumerate(remembered, start=1):
                others = np.delete(coefs, number - 1, axis=0)
                apart_from = others.mean(axis=0) if len(others) else ratio.neutral_coef_
                parts = parts_of_coef(ratio, regime.coef - apart_from, self.rules.columns)
                features = main_columns(shares(parts), self.rules.names)
                found.append(
                    Regime(
                        number=number,
                        visits=regime.visits,
                        size=regime.size,
                        features=features,
                        is_current=regime.is_current,
                    )
                )
        return tuple(found)

    @property
    def history(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame."""
        return rounds_frame(self.state.rounds, self.read, self.state.n_rounds, self.learned)

    @property
    def read(self) -> Read | None:
        """What has been read of the model's metric and state, as the history notes it; None if nothing has."""
        known = vars(self)
        now, status = known.get("_estimates", {}).get(self.rules.measures.metric.name), known.get("status")
        return None if now is None else Read(now, None if status is None else status.state)


# --- How a fitted model looks in a notebook: its state above scikit-learn's diagram of the parameters


# Up to this size, the state took less than 0.1 s of processor time; a display must not keep you waiting.
_MOST_VALUES = 500_000
_CELL = 'style="text-align: left; vertical-align: top"'
_UNREAD = "takes a moment to compute: model.status_"


def state_html(model: Any) -> str:
    """Return the state of a fitted model; a display never raises an error."""
    if "state_" not in vars(model):
        return ""
    try:
        return _table_html(model.snapshot(), has_own_predictor=model._is_linear)
    except Exception:
        LOGGER.debug("The state of a model could not be shown.", exc_info=True)
        return ""


def _table_html(snapshot: Snapshot, *, has_own_predictor: bool) -> str:
    """Return the state of a fitted model as an HTML table.

    How good it is, is shown if that has been read since the last round, or if reading it takes less than about 0.1 s:
    that of a user's estimator needs several fits.
    """
    state = snapshot.state
    rows = [
        ("Rounds", f"{state.n_rounds:,} ({count(state.n_rows, 'row')}), {count(state.n_refits, 'refit')}"),
        (
            "Effective rows",
            f"{snapshot.effective_sample_size:,.0f} of {len(state.weights):,} reference rows carry the weight",
        ),
        ("Predictions", _predictor_in_words(snapshot.rules, state)),
    ]
    is_quick = has_own_predictor and snapshot.rules.reference.size <= _MOST_VALUES
    is_known = "status" in vars(snapshot) or is_quick
    rows += _answers(snapshot) if is_known else [("State", _UNREAD)]
    lines = "".join(f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(text)}</td></tr>" for name, text in rows)
    return f'<table class="accous-state">{lines}</table>'


def _answers(snapshot: Snapshot) -> list[tuple[str, str]]:
    now, status = snapshot.performance(), snapshot.status
    alarm = f", alarm since round {status.alarm_since:,}" if status.alarm else ""
    value = "not known"
    if not math.isnan(now.value):
        value = f"{now.value:.3g} ({now.low:.3g} to {now.high:.3g}, {now.basis}; at fit {now.at_fit:.3g})"
    return [
        ("State", f"{status.state}{alarm}"),
        (now.metric, value),
        ("Why", " ".join(states.text_of(each) for each in status.reasons)),
        ("Advice", states.text_of(status.advice)),
    ]


def _predictor_in_words(rules: RoundRules, state: AdaptationState) -> str:
    if rules.adaptation == "never":
        return "by the fixed model: adaptation is off"
    if not state.rounds.is_moved:
        return "by the fixed model: nothing to adapt to so far"
    if state.safeguards.veto.is_held:
        return "by the fixed model: the adapted one is held back"
    return "by the adapted model"


# --- The attributes of models that ask their snapshot


class SnapshotReader:
    """What models say of themselves, and whom they tell when their state or alarm changes: all from one snapshot."""

    def current(self) -> Snapshot:
        """Return the snapshot after the last round, in which what has been read stays known."""
        raise NotImplementedError

    def performance(self, metric: str | None = None, *, by: str | None = None) -> Any:
        """Return how good the model is on recent rows: expected from the inputs, or confirmed by labels.

        Parameters
        ----------
        metric : str, optional
            Such as "error", "roc_auc", "f1_macro", "recall:CLASS", "log_loss"; of numbers "mean_absolute_error",
            "bias", "pinball:0.9". None is the model's own.
        by : str, optional
            A column, a number or a category: then the result is a list of (segment, Estimate), worst first.

        Returns
        -------
        Estimate
            ``value``, ``low``, ``high``, ``basis`` ("labels" or "expected"), ``at_fit`` and ``n_labels``. An expected
            value holds if labels still follow from inputs as they did.
        """
        return self.current().performance(metric, by=by)

    @property
    def status_(self) -> Status:
        """Whether the model is healthy, degraded or uncertain, with reasons, advice and the alarm."""
        return self.current().status

    @property
    def drift_(self) -> Drift:
        """What has moved in the inputs: columns, events and coverage.

        If a table has a time column, what the time of the day and the weekend explain is left out, once an hour has
        been seen on two days.
        """
        return self.current().drift

    @property
    def regimes_(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers, in the order in which they were first seen.

        Empty if the inputs have not settled away from the reference, and if the ratio estimator has no memory.
        """
        return self.current().regimes

    @property
    def history_(self) -> Any:
        """What the last 10,000 rounds did, as a pandas frame."""
        return self.current().history

    @property
    def learned_(self) -> tuple[LearningEvent, ...]:
        """The last hundred refits on labels, with the errors before each."""
        return self.current().learned

    def on_status(self, callback: Callable[[Status], object]) -> Self:
        """Call a function with ``status_`` whenever its state or its alarm has changed.

        A fitted model looks after every 64 rows and after labels, in the thread that calls ``adapt`` or ``observe``.
        What the function raises is logged. Copies, pickles and saved models do not have it.

        Parameters
        ----------
        callback : callable
            Takes a `Status`.

        Examples
        --------
        >>> from accous import AdaptiveClassifier
        >>> from accous.streams import GaussianStream, SquareShift
        >>> stream = GaussianStream(SquareShift(period=100), n_rounds=20, batch_size=10, random_state=0)
        >>> model = AdaptiveClassifier().fit(*stream.reference())
        >>> model = model.on_status(lambda status: print(status.state, status.alarm))
        >>> for batch in stream:
        ...     model = model.adapt(batch.X)
        uncertain False
        """
        status = self.status_
        told = vars(self).get(CALLBACKS_NAME, (status.state, status.alarm))
        vars(self)[CALLBACKS_NAME] = (*told, callback)
        return self

    def _tell(self) -> None:
        """Call the functions if there is something new."""
        state, alarm, *callbacks = vars(self)[CALLBACKS_NAME]
        status = self.status_
        if (status.state, status.alarm) == (state, alarm):
            return
        vars(self)[CALLBACKS_NAME] = (status.state, status.alarm, *callbacks)
        for callback in callbacks:
            try:
                callback(status)
            except Exception:
                LOGGER.exception("A function given to on_status failed.")
