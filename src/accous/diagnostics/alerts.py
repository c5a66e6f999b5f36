"""Conditions that raise an alert: a small language, read and checked here; plain values in, plain values out.

A condition compares a number (``error > 20%``), compares a word (``verdict != good``), or asks for recent drift
(``drift``, ``drift within 200``). This module imports no numerical library.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from accous.exceptions import ParameterError
from accous.text import count

__all__ = ["ALLOWED", "DRIFT_ROUNDS", "Alert", "Condition", "parse_condition"]

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
