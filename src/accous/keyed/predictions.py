"""What a step returns besides the state: predictions of rows, and events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray

__all__ = ["KeyEvent", "Predictions"]


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows; as an array it is their classes.

    In the order of the rows of the call, except with ``lateness`` or a policy that drops rows: then rows come when
    they are ripe, those of earlier calls first.

    Attributes
    ----------
    keys : array of shape (n_rows,)
    numbers : array of shape (n_rows,)
        What the caller calls each row; -1 if the caller gave no numbers.
    times : array of shape (n_rows,)
    rounds : array of shape (n_rows,)
        The round that each row belongs to, from 1 on; 0 for a row that was only predicted.
    classes : array of shape (n_rows,)
    probabilities : array of shape (n_rows, n_classes)
    positions : array of shape (n_rows,)
        Place of the row in the call; -1 for rows of earlier calls.
    """

    keys: NDArray[Any]
    numbers: IntArray
    times: FloatArray
    rounds: IntArray
    classes: NDArray[Any]
    probabilities: FloatArray
    positions: IntArray

    def __len__(self) -> int:
        return len(self.classes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the classes."""
        return np.array(self.classes, dtype=dtype) if copy else np.asarray(self.classes, dtype=dtype)


class KeyEvent(NamedTuple):
    """Something that a round of a key found.

    Attributes
    ----------
    key : object
    round : int
    time : float
        The newest time of the rows learned from; NaN without times.
    kind : {"shift", "settled", "held", "released"}
        The inputs changed; a change is over; the fixed model predicts from now on; the adapted one does.
    size : float
        Of a change: total variation of the reference's weights. Of a veto: error of the adapted minus that of the fixed
        model on the weighted reference.
    columns : tuple of str
        The columns that carry half of the change, largest first.
    rounds_to_adapt : int
        Of a change that is over, else -1.
    """

    key: Any
    round: int
    time: float
    kind: str
    size: float
    columns: tuple[str, ...]
    rounds_to_adapt: int
