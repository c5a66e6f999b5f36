"""The error of a constant on the rows of the reference that are held out, which a predictor has to beat."""

from __future__ import annotations

from collections import Counter

import numpy as np

from accous.tabular.fitting import ReferenceTable, time_blocks

__all__ = ["error_of_constant"]


def error_of_constant(reference: ReferenceTable) -> float:
    """Return the error of always predicting one class or number, on the rows that are held out.

    It is the most frequent class, or the median, of the rows before each block, as a predictor knows no others. Without
    an order, and with too few rows for blocks, it is that of all rows.
    """
    y, is_number = reference.y, reference.task.kind == "regressor"
    blocks = time_blocks(len(y)) if reference.order.is_known else []
    losses = []
    for start, end in blocks or [(0, len(y))]:
        known = y[:start] if blocks else y
        constant = np.median(known) if is_number else Counter(known.tolist()).most_common(1)[0][0]
        losses.append(np.abs(y[start:end] - constant) if is_number else y[start:end] != constant)
    return float(np.concatenate(losses).mean())
