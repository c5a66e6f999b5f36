"""Readings of the risk that a history owes: the round notes that one is due, and somebody reads it later."""

from __future__ import annotations

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
    """

    round: int
    model: Any

    @cached_property
    def means(self) -> dict[str, float]:
        """The estimated errors, by the names of the history's columns."""
        risk = self.model.risk_
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
        _ = self.means, self.verdict
