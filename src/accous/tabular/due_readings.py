"""Readings of the risk that a history owes: the round notes that one is due, and somebody reads it later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accous.diagnostics.trust import VERDICTS

__all__ = ["DueReading"]


@dataclass(eq=False)
class DueReading:
    """The risk and the verdict after a round; the same whenever they are read, because the model stays as it was.

    Attributes
    ----------
    round : int
    model
        A copy that stays in this round, with ``risk_`` and ``trust_``.
    note : callable, optional
        Called with the round and the risk when the history takes it.
    """

    round: int
    model: Any
    note: Callable[[int, Any], None] | None = None

    @cached_property
    def risk(self) -> Any:
        """The estimated errors."""
        return self.model.risk_

    @property
    def means(self) -> dict[str, float]:
        """The same, by the names of the history's columns."""
        risk = self.risk
        return {
            "risk": risk.adapted,
            "risk_low": risk.adapted_low,
            "risk_high": risk.adapted_high,
            "risk_fixed": risk.fixed,
            "risk_fixed_low": risk.fixed_low,
            "risk_fixed_high": risk.fixed_high,
        }

    @cached_property
    def verdict(self) -> float:
        """The place of the verdict among all."""
        return float(VERDICTS.index(self.model.trust_.verdict))

    def read(self) -> None:
        """Compute both, which costs as much as several rounds."""
        _ = self.risk, self.verdict
