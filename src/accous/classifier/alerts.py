"""`Alerts`: conditions on a model in Python, checked when you ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from typing import Any

from accous.diagnostics.alerts import Alert, parse_condition
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.measured import MeasuredError
from accous.diagnostics.regimes import Regime
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import Trust
from accous.text import LOGGER
from accous.threads import TakesTurns

__all__ = ["READINGS", "Alerts", "Subject"]


class Subject:
    """What conditions are checked on: one round of a model, each finding computed at most once.

    A model of a table has findings about its own columns, and knows which changes are seasonal. They count instead of
    those of the classifier inside it.

    Parameters
    ----------
    model : AdaptiveClassifier or TableModel
    """

    def __init__(self, model: Any) -> None:
        # Copies stay in one round, even if another thread learns meanwhile.
        has_table = hasattr(model, "model")
        self._model = model.at_one_round() if has_table else copy(model)
        self.classifier = self._model.model if has_table else self._model

    @cached_property
    def trust(self) -> Trust:
        """The three answers and the verdict."""
        trust: Trust = self._model.trust_
        return trust

    @cached_property
    def coverage(self) -> Coverage:
        """How well the reference covers the recent rows."""
        coverage: Coverage = self._model.coverage_
        return coverage

    @cached_property
    def risk(self) -> RiskEstimate:
        """The estimated errors."""
        risk: RiskEstimate = self._model.risk_
        return risk

    @cached_property
    def measured(self) -> MeasuredError | None:
        """What late labels have measured."""
        measured: MeasuredError | None = self._model.measured_
        return measured

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes that the ratio remembers."""
        regimes: tuple[Regime, ...] = self._model.regimes_
        return regimes

    @property
    def last_drift_round(self) -> int | None:
        """Round of the last change of the inputs; 0 before the first, None if the ratio does not show changes."""
        events = self._model.drift_events_
        if events:
            return int(events[-1].round)
        return None if self.classifier.state_.watch.log is None else 0


# The fields of the record of `accous inspect --json` that conditions use.
READINGS: dict[str, Callable[[Subject], Any]] = {
    "estimated_error": lambda subject: subject.classifier.risk_estimate_,
    "estimated_error_low": lambda subject: subject.risk.adapted_low,
    "estimated_error_high": lambda subject: subject.risk.adapted_high,
    "estimated_error_known": lambda subject: subject.risk.is_known,
    "share_outside": lambda subject: subject.coverage.share_outside,
    "effective_sample_size": lambda subject: subject.classifier.effective_sample_size_,
    "share_out_of_bound": lambda subject: subject.classifier.state_.watch.share_out_of_bound,
    "last_drift_round": lambda subject: subject.last_drift_round,
    "measured_error": lambda subject: getattr(subject.measured, "error", None),
    "measured_error_plain": lambda subject: getattr(subject.measured, "error_plain", None),
    "labels_outdated": lambda subject: getattr(subject.measured, "is_outdated", None),
    "trust": lambda subject: subject.trust.verdict,
    "trust_inputs": lambda subject: subject.trust.inputs.answer,
    "trust_adaptation": lambda subject: subject.trust.adaptation.answer,
    "trust_predictions": lambda subject: subject.trust.predictions.answer,
    "trust_reason": lambda subject: subject.trust.reason,
    "sentences": lambda subject: subject.trust.sentences,
}


class Alerts(TakesTurns):
    """Calls you when a condition on a model becomes true.

    The conditions are those of ``accous inspect --fail-if``. Nothing is computed until you call `check`, and then only
    what the conditions need. Every alert is also logged as a WARNING under the name ``accous``.

    Parameters
    ----------
    conditions : str or iterable of str
        Such as ``"error > 20%"``, ``"overlap < 30%"``, ``"verdict != good"``, ``"drift within 200"``; see docs/cli.md.
    callback : callable, optional
        Called with an `Alert` (``alert``, ``value``, ``round``, ``reason``) when a condition becomes true, and again
        only after it has been false. A value that is not known changes nothing.

    Raises
    ------
    ParameterError
        If a condition cannot be read; the message says what is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier, Alerts
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> model = AdaptiveClassifier().fit(X, X[:, 0] + X[:, 1] > 0)
    >>> alerts = Alerts(["drift", "effective_rows < 5"], lambda alert: print(alert.alert))
    >>> for batch in rng.normal(loc=1.0, size=(60, 5, 3)):
    ...     now = alerts.check(model.adapt(batch))
    drift
    """

    def __init__(self, conditions: str | Iterable[str], callback: Callable[[Alert], object] | None = None) -> None:
        texts = [conditions] if isinstance(conditions, str) else list(conditions)
        self.conditions = [parse_condition(text) for text in texts]
        self._callback = callback
        self._holds = [False] * len(self.conditions)

    def check(self, model: Any) -> list[Alert]:
        """Check the conditions now.

        Parameters
        ----------
        model : AdaptiveClassifier or TableModel
            Fitted. A model of a table is checked with the findings about its own columns.

        Returns
        -------
        list of Alert
            One for every condition that holds now, new or not.
        """
        subject = Subject(model)
        fields = {field for condition in self.conditions for field in condition.fields if field in READINGS}
        record = {field: READINGS[field](subject) for field in sorted(fields)}
        record["rounds"] = subject.classifier.n_rounds_
        alerts = []
        with self.turn():
            for number, condition in enumerate(self.conditions):
                holds = condition.check(record)
                if holds:
                    alerts.append(condition.alert(record))
                    if not self._holds[number]:
                        self._holds[number] = True
                        self._raise(alerts[-1])
                elif holds is False:
                    self._holds[number] = False
        return alerts

    def _raise(self, alert: Alert) -> None:
        LOGGER.warning("Round %d: %s: %s", alert.round, alert.alert, alert.reason)
        if self._callback is not None:
            self._callback(alert)
