"""The task of a regressor: every label is a number, and a prediction is off by their difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.classifier.numbers import read_numbers
from accous.classifier.task import LateTruths
from accous.diagnostics.coverage import columns_of_number
from accous.diagnostics.labels import Audit, audit_residuals
from accous.diagnostics.losses import LossScale, NumberLoss, scale_of_numbers
from accous.diagnostics.risk import weighted_loss

__all__ = ["NumberTask"]

_LARGEST_LOSS = 1e150  # its square is a number


@dataclass(frozen=True, eq=False)
class NumberTask:
    """The numbers of a reference; see `accous.classifier.task.Task`.

    Attributes
    ----------
    targets : array of shape (n_reference,)
    loss : NumberLoss
        By which predictions are judged.
    """

    kind: ClassVar[str] = "regressor"

    targets: FloatArray
    loss: NumberLoss

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def truths(self) -> FloatArray:
        """The number of each reference row."""
        return self.targets

    @property
    def strata(self) -> IntArray:
        """One group of all rows."""
        return np.zeros(len(self.targets), dtype=np.int64)

    @property
    def none(self) -> FloatArray:
        """No numbers."""
        return np.empty(0)

    @property
    def n_outputs(self) -> int:
        """One number."""
        return 1

    @property
    def names(self) -> frozenset[str]:
        """No names: every number may be a label."""
        return frozenset()

    @property
    def loss_name(self) -> str:
        """Name of the loss, such as "absolute"."""
        return str(self.loss)

    @property
    def stored(self) -> dict[str, NDArray[Any]]:
        """The numbers."""
        return {"targets": self.targets}

    @property
    def too_few(self) -> str:
        """What the reference needs more of."""
        return "rows"

    @property
    def is_constant(self) -> bool:
        """Never: a regression of equal numbers is a constant."""
        return False

    def part(self, rows: IntArray) -> NumberTask:
        """Return the task of some rows."""
        return NumberTask(self.targets[rows], self.loss)

    def traps(self) -> list[str]:
        """Say if all numbers are equal."""
        is_constant = float(np.ptp(self.targets)) == 0.0
        return [f"All rows have the label {self.targets[0]:g}: there is nothing to learn."] if is_constant else []

    def columns_of_label(self, rows: FloatArray) -> list[tuple[int, str]]:
        """Return the columns that determine the number."""
        found = columns_of_number(rows, self.targets)
        return [(column, f"{share:.1%} of the variance of the label") for column, share in found]

    def answers(self, predicted: Any) -> FloatArray:
        """Return the predictions as they are."""
        return np.asarray(predicted, dtype=np.float64).reshape(-1)

    def errors(self, answers: NDArray[Any]) -> FloatArray:
        """Return the residuals of the reference rows."""
        return np.asarray(self.targets - answers)

    def errors_on(self, truths: Any, predicted: Any) -> FloatArray:
        """Return the residuals of other rows."""
        return np.asarray(np.asarray(truths, dtype=np.float64) - self.answers(predicted))

    def losses(self, errors: NDArray[Any]) -> FloatArray:
        """Return the losses of residuals."""
        return np.minimum(self.loss(errors, np.zeros(1)), _LARGEST_LOSS)

    def scale(self, losses: FloatArray | None, weights: FloatArray) -> LossScale:
        """Return the scale that the losses of the fixed predictor give."""
        spread = weighted_loss(self.losses(self.targets - np.median(self.targets)), weights)
        of_reference = float("nan") if losses is None else weighted_loss(losses, weights)
        return scale_of_numbers(self.loss_name, of_reference, spread)

    def losses_of_fit(self, erm: Any, weights: FloatArray, fitted: Any) -> FloatArray | None:
        """Return the losses of fits without each row."""
        answers = erm.cross_fitted(weights, fitted)
        return None if answers is None else self.losses(self.errors(answers))

    def set_scores(self, erm: Any, weights: FloatArray, fitted: Any, *, is_quick: bool) -> None:
        """Return nothing: intervals are made of residuals."""

    def audit(
        self,
        labelled: tuple[NDArray[Any], FloatArray],
        reference: tuple[NDArray[Any], FloatArray],
        base_weight: FloatArray,
    ) -> Audit:
        """Compare the residuals: their mean and their size."""
        return audit_residuals(*labelled, *reference, base_weight, self.loss)

    def read_known(self, y: Any, n_rows: int) -> FloatArray:
        """Return the numbers of rows that are audited."""
        return read_numbers(y, n_rows)

    def read_late(self, y: Any, n_rows: int) -> LateTruths:
        """Return numbers that arrived late."""
        return LateTruths(read_numbers(y, n_rows), np.zeros(n_rows, dtype=bool))

    def late_errors(self, late: LateTruths, predicted: Any, name: str) -> FloatArray:
        """Return the residuals of such rows."""
        return np.asarray(late.values - read_numbers(predicted, len(late.values), name=name))

    def joined_by(self, y: Any, n_rows: int, reader: str) -> NumberTask:
        """Return the task with some more numbers."""
        return NumberTask(np.concatenate((self.targets, read_numbers(y, n_rows))), self.loss)
