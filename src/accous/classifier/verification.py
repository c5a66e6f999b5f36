"""What labelled history says about a model: the backtest of its reference, repeated when rows join it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accous.arrays import FloatArray, IntArray, from_plain, to_plain
from accous.classifier.backtest import CUTS, FEWEST_ROWS, QUICK_CUTS, Backtest, backtest
from accous.classifier.erm import ErmRecipe
from accous.classifier.task import Task
from accous.classifier.time_halves import ReferenceParts, TimeHalves
from accous.classifier.time_order import read_order
from accous.diagnostics.risk import Evidence
from accous.exceptions import DataError

__all__ = ["Verification"]

_NO_ORDER = "Rows without an order in time have joined the reference, so nothing has checked the estimates since."
_TOO_FEW_ROWS = f"The reference has fewer than {FEWEST_ROWS} rows, too few to replay them."
_NO_REPLAY = "The reference could not be replayed: a part of it alone could not be fitted."


class Verification:
    """The part of an adaptive model that replays its reference."""

    backtest_: Backtest | None
    unverified_: str
    time_order_: IntArray | None
    halves_: TimeHalves | None
    reference_: Any
    task_: Task
    estimator: Any
    base_weight_: FloatArray

    if TYPE_CHECKING:

        def _recipe(self) -> ErmRecipe: ...

    @property
    def _evidence(self) -> Evidence | None:
        return None if self.backtest_ is None else self.backtest_.evidence

    def _verify(self, X: Any, y: Any, order: Any) -> None:
        """Replay the reference if it has an order in time."""
        self.backtest_ = self.time_order_ = None
        self.unverified_ = ""
        n_rows = len(self.task_)
        if order is None or (isinstance(order, (bool, np.bool_)) and not order):
            self._split_in_halves()
            return
        if isinstance(order, Backtest) and order.n_reference != n_rows:
            raise DataError(f"The backtest replayed {order.n_reference} rows, but the reference has {n_rows}.")
        has_times = not isinstance(order, (bool, np.bool_, Backtest))
        self.time_order_ = read_order(order, n_rows) if has_times else np.arange(n_rows)
        self._split_in_halves()
        if isinstance(order, Backtest):
            self.backtest_ = order
        elif n_rows < FEWEST_ROWS:
            self.unverified_ = _TOO_FEW_ROWS
        else:
            self._replay(X, y, self.time_order_)

    def _verify_again(self) -> None:
        """Replay a reference that other rows have joined, quickly; what its earlier rows showed is evidence no more."""
        had_order, self.backtest_ = self.backtest_ is not None or self.unverified_ != "", None
        if self.time_order_ is None:
            self.unverified_ = _NO_ORDER if had_order else ""
        elif len(self.task_) < FEWEST_ROWS:
            self.unverified_ = _TOO_FEW_ROWS
        else:
            self.unverified_ = ""
            self._replay(self.reference_, self.task_.truths, self.time_order_, cuts=QUICK_CUTS)

    def _replay(self, X: Any, y: Any, order: IntArray, *, cuts: tuple[float, ...] = CUTS) -> None:
        try:
            self.backtest_ = backtest(self, X, y, order=order.argsort(), sample_weight=self.base_weight_, cuts=cuts)
        except ValueError:
            # No fit on some part of the reference alone, perhaps by the user's estimator: nothing is verified.
            self.backtest_, self.unverified_ = None, _NO_REPLAY

    def _split_in_halves(self) -> None:
        if self.time_order_ is None:
            self.halves_ = None
            return
        parts = ReferenceParts(
            self.reference_, self.task_, self.base_weight_, self._recipe(), has_numbers=self.estimator is None
        )
        self.halves_ = TimeHalves(parts, self.time_order_)

    def _extend_order(self, n_rows: int, kept: IntArray, order_of_new: Any) -> None:
        """Take up rows that joined the reference, as the latest, and forget those that left."""
        if self.time_order_ is None:
            return
        if isinstance(order_of_new, (bool, np.bool_)) and not order_of_new:
            self.time_order_ = None
            return
        n_before = len(self.time_order_)
        n_new = n_rows - n_before
        is_given = isinstance(order_of_new, (bool, np.bool_))
        new = np.arange(n_new) if is_given else read_order(order_of_new, n_new)
        order = np.concatenate((self.time_order_, n_before + new))
        places = np.full(n_rows, -1)
        places[kept] = np.arange(len(kept))
        self.time_order_ = places[order][places[order] >= 0]

    def verification_to_plain(self) -> dict[str, Any]:
        """Return the order in time and the backtest, for files."""
        return {"order": self.time_order_, "backtest": to_plain(self.backtest_), "unverified": self.unverified_}

    def verification_from_plain(self, plain: dict[str, Any] | None) -> None:
        """Undo ``verification_to_plain``; models saved by earlier versions have none."""
        plain = plain or {"order": None, "backtest": None}
        self.time_order_ = plain["order"]
        self.backtest_ = from_plain(Backtest | None, plain["backtest"])
        self.unverified_ = plain.get("unverified", "")
        self._split_in_halves()
