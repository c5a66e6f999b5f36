"""The data for our estimators and the peers'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accous.streams import ConstantShift, GaussianStream

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Problem:
    """A reference with columns of mean 0 and deviation 1, and batches on the same scale."""

    reference: Array  # of shape (n_reference, n_features)
    batches: Array  # of shape (n_batches, batch_size, n_features)


def gaussian_problem(n_reference: int, n_features: int, batch_size: int, n_batches: int) -> Problem:
    """A Gaussian stream whose batches mix the two parts evenly, while the reference has nine tenths of one."""
    stream = GaussianStream(
        ConstantShift(0.5),
        n_features=n_features,
        n_reference=n_reference,
        n_rounds=n_batches,
        batch_size=batch_size,
    )
    rows, _ = stream.reference()
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    # Standardised here, so that ours (with feature_map="identity") and the peers get the same numbers.
    return Problem((rows - center) / scale, np.array([(batch.X - center) / scale for batch in stream]))
