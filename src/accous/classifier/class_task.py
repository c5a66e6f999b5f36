"""The task of a classifier: every label is one of a few classes, and a prediction is right or wrong."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.classifier.labels import (
    read_known_labels,
    read_labels,
    read_late_labels,
    read_plain_labels,
    read_predictions,
    require_as_many,
    require_kind_of_classes,
)
from accous.classifier.task import LateTruths
from accous.diagnostics.coverage import FEWEST_ROWS_PER_CLASS, columns_of_label, rare_classes
from accous.diagnostics.labels import Audit, audit_errors
from accous.diagnostics.losses import ERRORS, LossScale
from accous.exceptions import DataError
from accous.text import count

__all__ = ["ClassTask", "read_class_task"]


@dataclass(frozen=True, eq=False)
class ClassTask:
    """The classes of a reference; see `accous.classifier.task.Task`.

    Attributes
    ----------
    classes : array of shape (n_classes,)
    labels : array of shape (n_reference,)
        Class numbers.
    """

    kind: ClassVar[str] = "classifier"

    classes: NDArray[Any]
    labels: IntArray

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def truths(self) -> NDArray[Any]:
        """Class of each reference row."""
        return np.asarray(self.classes[self.labels])

    @property
    def strata(self) -> IntArray:
        """Class number of each reference row."""
        return self.labels

    @property
    def none(self) -> NDArray[Any]:
        """No classes."""
        return self.classes[:0]

    @property
    def n_outputs(self) -> int:
        """One score for two classes, otherwise one for each class."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    @property
    def names(self) -> frozenset[str]:
        """The classes as text."""
        return frozenset(str(each) for each in self.classes.tolist())

    @property
    def loss_name(self) -> str:
        """The loss is the error."""
        return ERRORS.loss

    @property
    def stored(self) -> dict[str, NDArray[Any]]:
        """Classes and class numbers."""
        return {"classes": self.classes, "labels": self.labels}

    @property
    def too_few(self) -> str:
        """What the reference needs more of."""
        return "rows of every class"

    @property
    def is_constant(self) -> bool:
        """Whether there is one class only."""
        return len(self.classes) == 1

    def part(self, rows: IntArray) -> ClassTask:
        """Return the task of some rows, with the classes that they have."""
        numbers, labels = np.unique(self.labels[rows], return_inverse=True)
        return ClassTask(self.classes[numbers], labels)

    def traps(self) -> list[str]:
        """Name classes with too few rows."""
        return [
            f"Class {str(self.classes[number])!r} has only {count(int((self.labels == number).sum()), 'row')}: with "
            f"fewer than {FEWEST_ROWS_PER_CLASS}, its predictions and the estimated error cannot be relied on."
            for number in rare_classes(self.labels).tolist()
        ]

    def columns_of_label(self, rows: FloatArray) -> list[tuple[int, str]]:
        """Return the columns that determine the class of nearly all rows."""
        found = columns_of_label(rows, self.labels)
        return [(column, f"the label of {accuracy:.1%} of the rows") for column, accuracy in found]

    def answers(self, predicted: Any) -> IntArray:
        """Return class numbers."""
        return np.searchsorted(self.classes, predicted)

    def errors(self, answers: NDArray[Any]) -> BoolArray:
        """Which reference rows have another class."""
        return np.asarray(answers != self.labels, dtype=bool)

    def errors_on(self, truths: Any, predicted: Any) -> BoolArray:
        """Which rows have another class than the predicted one."""
        return np.asarray(predicted != truths, dtype=bool)

    def losses(self, errors: NDArray[Any]) -> FloatArray:
        """Return 1 for wrong rows and 0 for others."""
        return errors.astype(np.float64)

    def scale(self, losses: FloatArray | None, weights: FloatArray) -> LossScale:
        """Return the scale of errors, which are between 0 and 1."""
        return ERRORS

    def losses_of_fit(self, erm: Any, weights: FloatArray, fitted: Any) -> FloatArray | None:
        """Return one minus the probability of each row's own class."""
        return self._score(erm.cross_fitted_probabilities(weights, fitted))

    def set_scores(self, erm: Any, weights: FloatArray, fitted: Any, *, is_quick: bool) -> FloatArray | None:
        """Return the same losses, from quick fits if they are slow."""
        quickly = {"is_quick": is_quick} if erm.is_slow_to_cross_fit else {}
        return self._score(erm.cross_fitted_probabilities(weights, fitted, **quickly))

    def _score(self, probabilities: FloatArray | None) -> FloatArray | None:
        return None if probabilities is None else 1.0 - probabilities[np.arange(len(self)), self.labels]

    def audit(
        self,
        labelled: tuple[NDArray[Any], FloatArray],
        reference: tuple[NDArray[Any], FloatArray],
        base_weight: FloatArray,
    ) -> Audit:
        """Compare the shares of wrong rows."""
        return audit_errors(*labelled, *reference, base_weight)

    def read_known(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return labels that are among the classes."""
        return np.asarray(self.classes[read_known_labels(y, n_rows, self.classes)])

    def read_late(self, y: Any, n_rows: int) -> LateTruths:
        """Return labels of any classes."""
        labels, known = read_late_labels(y, n_rows), frozenset(self.classes.tolist())
        require_kind_of_classes(labels, self.classes)
        is_unseen = np.array([label not in known for label in labels], dtype=bool)
        return LateTruths(labels, is_unseen, tuple(str(label) for label in labels if label not in known))

    def late_errors(self, late: LateTruths, predicted: Any, name: str) -> BoolArray:
        """Which rows have another label than the predicted class."""
        found = read_predictions(predicted, len(late.values), name)
        return np.array([one != other for one, other in zip(found, late.values, strict=True)], dtype=bool)

    def joined_by(self, y: Any, n_rows: int, reader: str) -> ClassTask:
        """Return the task with some more labels, which may be new classes of the same type."""
        labels = self._joined_labels(y, n_rows)
        return read_class_task(labels, len(labels), reader=reader)

    def _joined_labels(self, y: Any, n_rows: int) -> NDArray[Any]:
        """Return the labels of the reference and the new ones, of one type."""
        new, old = read_plain_labels(y), self.truths
        require_as_many(new, n_rows)
        is_same_kind = all(each.dtype.kind in "biuf" for each in (old, new)) or old.dtype.kind == new.dtype.kind
        if old.dtype != new.dtype and _is_text(old) and _is_text(new):
            # Text as numpy has it, or as objects: pandas, lists and polars differ.
            new = new.astype(object if old.dtype.kind == "O" else np.str_)
        elif not is_same_kind:
            raise DataError(
                f"y holds values of type {new.dtype}, but the classes are of type {old.dtype}: convert y to that type."
            )
        if old.dtype.kind in "biu" and new.dtype.kind in "biuf" and np.array_equal(new, new.astype(old.dtype)):
            new = new.astype(old.dtype)
        return np.concatenate((old, new))


def read_class_task(y: Any, n_rows: int, *, reader: str) -> ClassTask:
    """Read the labels of a reference; at least two classes."""
    return ClassTask(*read_labels(y, n_rows, reader=reader))


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and all(isinstance(each, str) for each in labels))
