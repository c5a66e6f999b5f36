"""What all streams share: the batch, the checked weights of the second part, and the risk of a mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import ParameterError
from accous.streams.shifts import Shift

__all__ = ["Batch", "check_alphas", "draw_alphas", "mix_risks"]


@dataclass(frozen=True, eq=False, slots=True)
class Batch:
    """The rows that arrive in one round. The labels and alpha are for scoring only.

    Attributes
    ----------
    X : ndarray of shape (batch_size, n_features)
        The rows.
    y : ndarray of shape (batch_size,)
        Their labels.
    alpha : float
        The weight of ``D''`` in this round; NaN if it is unknown.
    round : int
        The round, from 1.
    """

    X: NDArray[Any]
    y: NDArray[Any]
    alpha: float
    round: int


def draw_alphas(shift: Shift, n_rounds: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the weight of ``D''`` in each round, as a read-only array."""
    alphas = np.array(shift.alphas(n_rounds, generator), dtype=np.float64)
    alphas.setflags(write=False)
    return alphas


def check_alphas(alphas: NDArray[np.float64], n_rounds: int) -> None:
    """Raise an error if a shift does not give one alpha in [0, 1] for every round."""
    if alphas.shape != (n_rounds,) or not np.all((alphas >= 0) & (alphas <= 1)):
        raise ParameterError("shift must give one alpha in [0, 1] for each of the n_rounds rounds.")


def mix_risks(risks: tuple[float, float], alpha: float | NDArray[np.float64]) -> Any:
    """Return the risk under ``D_alpha``, given those under ``D'`` and ``D''``: a float, or one entry per alpha."""
    weights = np.asarray(alpha, dtype=np.float64)
    if not np.all((weights >= 0) & (weights <= 1)):
        raise ParameterError(f"alpha must be in [0, 1], got {alpha!r}.")
    risk = (1 - weights) * risks[0] + weights * risks[1]
    return risk if weights.ndim else float(risk)
