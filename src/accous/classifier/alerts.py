"""`Alerts`: conditions on a model in Python, checked when you ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from accous.diagnostics.alerts import Alert, parse_condition
from accous.logs import LOGGER
from accous.turns import TakesTurns

__all__ = ["READINGS", "Alerts"]


def _last_drift_round(model: Any) -> int | None:
    """Round of the last change of the inputs; 0 before the first, None if the ratio does not show changes."""
    events = model.drift_events_
    if events:
        return int(events[-1].round)
    return None if model.state_.watch.log is None else 0


# The fields of the record of `accous inspect --json` that conditions use, read from a classifier.
READINGS: dict[str, Callable[[Any], Any]] = {
    "estimated_error": lambda model: model.risk_estimate_,
    "estimated_error_low": lambda model: model.risk_.adapted_low,
    "estimated_error_high": lambda model: model.risk_.adapted_high,
    "estimated_error_known": lambda model: model.risk_.is_known,
    "share_outside": lambda model: model.coverage_.share_outside,
    "effective_sample_size": lambda model: model.effective_sample_size_,
    "share_out_of_bound": lambda model: model.state_.watch.share_out_of_bound,
    "last_drift_round": _last_drift_round,
    "measured_error": lambda model: None if model.measured_ is None else model.measured_.error,
    "trust": lambda model: model.trust_.verdict,
    "trust_inputs": lambda model: model.trust_.inputs.answer,
    "trust_adaptation": lambda model: model.trust_.adaptation.answer,
    "trust_predictions": lambda model: model.trust_.predictions.answer,
    "trust_reason": lambda model: model.trust_.reason,
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
            Fitted.

        Returns
        -------
        list of Alert
            One for every condition that holds now, new or not.
        """
        classifier = copy(getattr(model, "model", model))  # one round, even if another thread learns meanwhile
        fields = {field for condition in self.conditions for field in condition.fields if field in READINGS}
        record = {field: READINGS[field](classifier) for field in sorted(fields)}
        record["rounds"] = classifier.n_rounds_
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
