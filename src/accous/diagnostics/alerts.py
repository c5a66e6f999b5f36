"""Conditions on what a model says, and callbacks when one of them holds."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accous.exceptions import ParameterError
from accous.text import LOGGER, count
from accous.threads import Lockable

# --- Conditions that raise an alert: a small language, read and checked here; plain values in, plain values out


DRIFT_ROUNDS = 64
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_ANSWERS = ("yes", "no", "not known")


@dataclass(frozen=True)
class _Quantity:
    """A number that can be compared: its field in the record of a model, and how it is called in a reason."""

    field: str
    title: str
    is_share: bool = True
    is_complement: bool = False
    style: str = ",.0f"


@dataclass(frozen=True)
class _Word:
    """A word that can be compared: its field in the record of a model, and the words that it can be."""

    field: str
    title: str
    choices: tuple[str, ...]


_QUANTITIES = {
    "error": _Quantity("estimated_error", "estimated error"),
    "error_low": _Quantity("estimated_error_low", "lower end of the estimated error"),
    "error_high": _Quantity("estimated_error_high", "upper end of the estimated error"),
    "measured_error": _Quantity("measured_error", "measured error"),
    "measured_error_plain": _Quantity("measured_error_plain", "plain mean of the errors on all labels"),
    "loss": _Quantity("estimated_error", "estimated mean loss", is_share=False, style=".4g"),
    "loss_low": _Quantity("estimated_error_low", "lower end of the estimated mean loss", is_share=False, style=".4g"),
    "loss_high": _Quantity("estimated_error_high", "upper end of the estimated mean loss", is_share=False, style=".4g"),
    "measured_loss": _Quantity("measured_error", "measured mean loss", is_share=False, style=".4g"),
    "measured_loss_plain": _Quantity(
        "measured_error_plain", "plain mean of the losses on all labels", is_share=False, style=".4g"
    ),
    "overlap": _Quantity("share_outside", "share of recent rows that are like the reference", is_complement=True),
    "effective_rows": _Quantity("effective_sample_size", "number of effective reference rows", is_share=False),
}
_WORDS = {
    "verdict": _Word("trust", "verdict", ("good", "not verified", "thin", "contradicted", "no overlap")),
    "inputs": _Word("trust_inputs", "answer about the inputs", _ANSWERS),
    "adaptation": _Word("trust_adaptation", "answer about the adaptation", _ANSWERS),
    "predictions": _Word("trust_predictions", "answer about the predictions", _ANSWERS),
}
ALLOWED = (
    f"a comparison (< <= > >= == !=) of {', '.join(_QUANTITIES)} with a number such as 20% or 0.2, "
    f"a comparison (== !=) of {', '.join(_WORDS)} with a word, or drift, or drift within 200"
)
_DRIFT = re.compile(r"drift(?:\s+within\s+(\d{1,9}))?")
_COMPARISON = re.compile(r"([a-z_]+)\s*(<=|>=|==|!=|<|>)\s*(.+)", re.DOTALL)
_NUMBER = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})\s*(%?)")


@dataclass(frozen=True)
class Alert:
    """A condition that holds.

    Attributes
    ----------
    alert : str
        The condition, as you wrote it.
    value : float, int or str
        What the model has; for drift, the round in which the last change was detected.
    round : int
        Number of rounds so far.
    reason : str
        One plain sentence.
    """

    alert: str
    value: float | int | str
    round: int
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return the attributes, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Condition:
    """A condition on the record of a model, as ``accous inspect --json`` prints it.

    Attributes
    ----------
    text : str
        The condition, as it was written.
    name : str
    comparison : str
        ``"within"`` for drift.
    limit : float or str
        What is compared with; for drift, a number of rounds.
    """

    text: str
    name: str
    comparison: str
    limit: float | str

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the record that the condition reads, besides ``rounds``."""
        if self.name == "drift":
            return ("last_drift_round",)
        if self.name == "verdict":
            return ("trust", "trust_reason")
        if self.name in ("error", "loss"):
            return ("estimated_error", "estimated_error_known")
        if self.name in ("measured_error", "measured_loss"):
            return ("measured_error", "labels_outdated")
        if self.name in _WORDS:
            return (_WORDS[self.name].field, "sentences")
        return (_QUANTITIES[self.name].field,)

    def read(self, record: Mapping[str, Any]) -> float | int | str | None:
        """Return the value to compare; None if it is not known."""
        if self.name in ("error", "loss") and record.get("estimated_error_known") is False:
            return None
        if self.fields[0] == "measured_error" and record.get("labels_outdated"):
            return None  # it is about the model before rows joined the reference
        value: float | int | str | None = record.get(self.fields[0])
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        if self.name in _QUANTITIES and _QUANTITIES[self.name].is_complement:
            return 1.0 - float(value)
        return value

    def check(self, record: Mapping[str, Any]) -> bool | None:
        """Return whether the condition holds; None if its value is not known."""
        value = self.read(record)
        if value is None:
            return None
        if self.name == "drift":
            return bool(value) and int(record["rounds"]) - int(value) < int(self.limit)
        return _COMPARISONS[self.comparison](value, self.limit)

    def alert(self, record: Mapping[str, Any]) -> Alert:
        """Return the alert for a record for which the condition holds."""
        value = self.read(record)
        assert value is not None
        return Alert(self.text, value, int(record["rounds"]), self._reason(value, record))

    def _reason(self, value: float | int | str, record: Mapping[str, Any]) -> str:
        if self.name == "drift":
            return f"The inputs changed in round {value}, within the last {count(int(self.limit), 'round')}."
        if self.name in _WORDS:
            why = record.get("trust_reason") if self.name == "verdict" else record.get("sentences", {}).get(self.name)
            return f"The {_WORDS[self.name].title} is {value!r}." + (f" {why}" if why else "")
        quantity = _QUANTITIES[self.name]
        shown = f"{value:.1%}" if quantity.is_share else f"{value:{quantity.style}}"
        return f"The {quantity.title} is {shown}."


def parse_condition(text: str) -> Condition:
    """Read a condition.

    Parameters
    ----------
    text : str

    Raises
    ------
    ParameterError
        If it is not a condition; the message says what is allowed.

    Examples
    --------
    >>> parse_condition("error > 20%").check({"rounds": 812, "estimated_error": 0.234})
    True
    >>> parse_condition("drift within 200").check({"rounds": 812, "last_drift_round": 400})
    False
    """
    stripped = text.strip()
    if drift := _DRIFT.fullmatch(stripped):
        n_rounds = DRIFT_ROUNDS if drift[1] is None else int(drift[1])
        if n_rounds < 1:
            raise ParameterError(f"{text!r}: drift within must be followed by at least one round.")
        return Condition(text, "drift", "within", n_rounds)
    parts = _COMPARISON.fullmatch(stripped)
    if parts is None or not (parts[1] in _QUANTITIES or parts[1] in _WORDS):
        raise ParameterError(f"{text!r} is not a condition; allowed is {ALLOWED}.")
    name, comparison, limit = parts.groups()
    if name in _WORDS:
        return Condition(text, name, comparison, _word(text, name, comparison, limit))
    return Condition(text, name, comparison, _number(text, name, limit))


def _word(text: str, name: str, comparison: str, limit: str) -> str:
    choices = _WORDS[name].choices
    is_quoted = len(limit) > 1 and limit[0] == limit[-1] and limit[0] in "\"'"
    word = limit[1:-1] if is_quoted else limit
    if comparison not in ("==", "!=") or word not in choices:
        raise ParameterError(f"{text!r}: {name} is compared by == or != with one of {', '.join(map(repr, choices))}.")
    return word


def _number(text: str, name: str, limit: str) -> float:
    number = _NUMBER.fullmatch(limit)
    if number is None:
        raise ParameterError(f"{text!r}: {name} is compared with a number such as 20% or 0.2, got {limit!r}.")
    value, is_percent = float(number[1]), bool(number[2])
    if not _QUANTITIES[name].is_share:
        if is_percent:
            of_rows = " of rows" if name == "effective_rows" else ""
            raise ParameterError(f"{text!r}: {name} is compared with a number{of_rows}, not with a percentage.")
        return value
    value = value / 100.0 if is_percent else value
    if value > 1.0:
        hint = f" If numbers are predicted, compare {name.replace('error', 'loss')}." if "error" in name else ""
        raise ParameterError(f"{text!r}: {name} is a share; write a number such as 20% or 0.2.{hint}")
    return value


# --- Alerts: conditions on a model in Python, checked when you ask


# The fields of the record of `accous inspect --json` that conditions use.
READINGS: dict[str, Callable[[Any], Any]] = {
    "estimated_error": lambda snapshot: snapshot.risk_estimate,
    "estimated_error_low": lambda snapshot: snapshot.risk.adapted_low,
    "estimated_error_high": lambda snapshot: snapshot.risk.adapted_high,
    "estimated_error_known": lambda snapshot: snapshot.risk.is_known,
    "share_outside": lambda snapshot: snapshot.coverage.share_outside,
    "effective_sample_size": lambda snapshot: snapshot.effective_sample_size,
    "share_out_of_bound": lambda snapshot: snapshot.state.watch.share_out_of_bound,
    "last_drift_round": lambda snapshot: snapshot.last_drift_round,
    "measured_error": lambda snapshot: getattr(snapshot.measured, "error", None),
    "measured_error_plain": lambda snapshot: getattr(snapshot.measured, "error_plain", None),
    "labels_outdated": lambda snapshot: getattr(snapshot.measured, "is_outdated", None),
    "trust": lambda snapshot: snapshot.trust.verdict,
    "trust_inputs": lambda snapshot: snapshot.trust.inputs.answer,
    "trust_adaptation": lambda snapshot: snapshot.trust.adaptation.answer,
    "trust_predictions": lambda snapshot: snapshot.trust.predictions.answer,
    "trust_reason": lambda snapshot: snapshot.trust.reason,
    "sentences": lambda snapshot: snapshot.trust.sentences,
}


class Alerts(Lockable):
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

    __module__ = "accous"

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
        snapshot = model.current()
        fields = {field for condition in self.conditions for field in condition.fields if field in READINGS}
        record = {field: READINGS[field](snapshot) for field in sorted(fields)}
        record["rounds"] = snapshot.state.n_rounds
        alerts = []
        with self.lock():
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
