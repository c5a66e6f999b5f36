"""The looks of a backtest as a table for people: its headings, its rows, and what the drift means."""

from __future__ import annotations

import math

from accous.diagnostics.evidence import Look
from accous.diagnostics.loss_scale import ERRORS, LossScale

__all__ = ["DRIFT_NOTE", "HEADINGS", "look_cells"]

HEADINGS = ("rows", "reference rows", "measured (fixed)", "estimated", "measured (adapted)", "drift")
DRIFT_NOTE = (
    "Drift: 0 means that recent rows look like the reference, 1 that a classifier tells them apart without error."
)


def look_cells(look: Look, scale: LossScale = ERRORS) -> tuple[str, ...]:
    """Return one row of the table; rows are counted from 1, and both ends of a range belong to it.

    Parameters
    ----------
    look : Look
    scale : LossScale
        Of the errors.
    """
    errors = (look.error_fixed, look.estimate_fixed, look.error_adapted)
    return (
        f"{look.start + 1:,} to {look.stop:,}",
        f"{look.n_reference:,}",
        *("unknown" if math.isnan(error) else scale.shown(error) for error in errors),
        "unknown" if math.isnan(look.drift) else f"{look.drift:.2f}",
    )
