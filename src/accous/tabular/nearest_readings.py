"""The reading that is closest to a round, on the same side of every change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest_readings"]


def nearest_readings(
    rounds: NDArray[np.int64],
    read_at: NDArray[np.int64],
    readings: NDArray[np.float64],
    changes: Sequence[int] = (),
    *,
    farthest: int,
) -> NDArray[np.float64]:
    """Return the closest reading to each of some rounds; of two that are equally close, the earlier one.

    Parameters
    ----------
    rounds : array of shape (n_rounds,)
    read_at : array of shape (n_readings,)
        Rounds of the readings, in order.
    readings : array of shape (n_readings, n_values)
    changes : sequence of int
        Rounds from which on the inputs were different, in order.
    farthest : int
        Rounds beyond which a reading does not count.

    Returns
    -------
    array of shape (n_rounds, n_values)
        NaN where no reading counts.

    Examples
    --------
    >>> import numpy as np
    >>> read_at, readings = np.array([10, 90]), np.array([[0.1], [0.4]])
    >>> nearest_readings(np.array([9, 60, 70, 200]), read_at, readings, [65], farthest=64)[:, 0].tolist()
    [0.1, 0.1, 0.4, nan]
    """
    found = np.full((len(rounds), readings.shape[1]), np.nan)
    distances = np.full(len(rounds), farthest + 1)
    after = np.searchsorted(read_at, rounds, side="right")
    for places in (after - 1, after):
        rows = np.flatnonzero((places >= 0) & (places < len(read_at)))
        near = read_at[places[rows]]
        distance = np.abs(near - rounds[rows])
        is_same_side = _side(changes, near) == _side(changes, rounds[rows])
        is_closer = is_same_side & (distance < distances[rows])
        rows = rows[is_closer]
        distances[rows] = distance[is_closer]
        found[rows] = readings[places[rows]]
    return found


def _side(changes: Sequence[int], rounds: NDArray[np.int64]) -> NDArray[np.intp]:
    return np.searchsorted(np.asarray(changes, dtype=np.int64), rounds, side="right")
