"""What is predicted: classes or numbers. The code that adapts a predictor asks the task and knows neither.

A task holds the labels of the reference and answers what depends on their kind: the errors and losses of predictions,
how labels are read, and how labelled rows are audited. There are two: `accous.classifier.class_task` and
`accous.classifier.number_task`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.diagnostics.labels import Audit
from accous.diagnostics.losses import LossScale

__all__ = ["LateTruths", "Task"]


@dataclass(frozen=True)
class LateTruths:
    """Labels that arrived late.

    Attributes
    ----------
    values : list or array
        One label for each row.
    is_unseen : array of shape (n_rows,)
        Where the label is a class that the reference does not have.
    unseen_names : tuple of str
        The label of each of those rows.
    """

    values: Any
    is_unseen: BoolArray
    unseen_names: tuple[str, ...] = ()


class Task(Protocol):
    """The labels of a reference, and what follows from their kind.

    The error of a class is whether it is wrong, that of a number is y minus the prediction. Losses follow from errors.

    Attributes
    ----------
    kind : {"classifier", "regressor"}
        The kind of estimator that learns such labels.
    """

    kind: ClassVar[str]

    @property
    def truths(self) -> NDArray[Any]:
        """Label of each reference row, as estimators take it."""

    @property
    def strata(self) -> IntArray:
        """Group of each reference row: every fold holds all groups, and a few rows of each never leave."""

    @property
    def none(self) -> NDArray[Any]:
        """The predictions for no rows."""

    @property
    def n_outputs(self) -> int:
        """How many numbers a linear predictor computes for a row."""

    @property
    def names(self) -> frozenset[str]:
        """Names of all labels that are known; empty if every number may be one."""

    @property
    def loss_name(self) -> str:
        """Name of the loss: "error" for classes."""

    @property
    def stored(self) -> dict[str, NDArray[Any]]:
        """What files keep of the task."""

    @property
    def too_few(self) -> str:
        """What the reference needs more of where no rows can be left out of a fit."""

    def __len__(self) -> int: ...

    def part(self, rows: IntArray) -> Task:
        """Return the task of some reference rows."""

    @property
    def is_constant(self) -> bool:
        """Whether there is nothing to learn, because all rows have the same class."""

    def traps(self) -> list[str]:
        """What is wrong with the labels themselves, in sentences."""

    def columns_of_label(self, rows: FloatArray) -> list[tuple[int, str]]:
        """Return the columns that give the label away, and what each of them predicts."""

    def answers(self, predicted: Any) -> NDArray[Any]:
        """Return an estimator's predictions in the form in which cross-fitted ones are kept."""

    def errors(self, answers: NDArray[Any]) -> NDArray[Any]:
        """Return the error of each reference row, given the answers of fits without it."""

    def errors_on(self, truths: Any, predicted: Any) -> NDArray[Any]:
        """Return the errors of predictions for other rows."""

    def losses(self, errors: NDArray[Any]) -> FloatArray:
        """Return the loss of each row."""

    def scale(self, losses: FloatArray | None, weights: FloatArray) -> LossScale:
        """Return the scale of the losses, given those of the fixed predictor on the reference, if they are known."""

    def losses_of_fit(self, erm: Any, weights: FloatArray, fitted: Any) -> FloatArray | None:
        """Return the losses of fits without each row that tell two fits apart best; None if no row can be left out."""

    def set_scores(self, erm: Any, weights: FloatArray, fitted: Any, *, is_quick: bool) -> FloatArray | None:
        """Return the scores by which sets of classes are predicted; None if there are none, as for numbers."""

    def audit(
        self,
        labelled: tuple[NDArray[Any], FloatArray],
        reference: tuple[NDArray[Any], FloatArray],
        base_weight: FloatArray,
    ) -> Audit:
        """Compare labelled rows with the reference: errors and features of both."""

    def read_known(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Read labels of rows that are audited; a class that the reference does not have is an error."""

    def read_late(self, y: Any, n_rows: int) -> LateTruths:
        """Read labels that arrived late."""

    def late_errors(self, late: LateTruths, predicted: Any, name: str) -> NDArray[Any]:
        """Return the errors of predictions for such rows; ``name`` is the argument's, for an error message."""

    def joined_by(self, y: Any, n_rows: int, reader: str) -> Task:
        """Return the task of the reference and some more labelled rows; errors about y name the ``reader``."""
