"""The regimes that an adaptive model remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accous.arrays import FloatArray
from accous.classifier.drift_watch import parts_of_coef
from accous.diagnostics.drift import Regime, main_columns, shares
from accous.threads import one_blas_thread

__all__ = ["Remembering"]


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
