"""Decides which code handles a given number of columns; no other module makes this decision."""

from __future__ import annotations

__all__ = ["MAX_NARROW_COLUMNS", "MAX_NEWTON_COEFS", "WIDE_FROM", "is_narrow", "is_wide"]

MAX_NARROW_COLUMNS = 95
"""Largest number of columns for which a round runs in compiled loops.

Microseconds of a round of the ratio with 1,000 reference rows, compiled / dense / wide (best of 300, one core):
160 / 426 / 426 with 32 features, 305 / 515 / 486 with 64, 440 / 665 / 593 with 95; with 10,000 rows and 95 features
2863 / 4275 / 3392. The dense code is what losses other than the logistic one use here. A compiled refit takes 45 where
numpy takes 700 with 13 columns, 1025 where it takes 4830 with 96.
"""

WIDE_FROM = 96
"""Features from which on learners keep roots and gradients (``core/wide/newton.py``) instead of dense matrices.

With 512 features, dense matrices cost ten times as much.
"""

MAX_NEWTON_COEFS = 100
"""Largest number of coefficients for which every round refits the regression to the optimum by Newton's method.

With more, it descends (``core/solvers/descent.py``), which is many times faster and stops near the optimum.
"""


def is_narrow(n_columns: int) -> bool:
    """Whether the compiled loops are faster than matrix products."""
    return n_columns <= MAX_NARROW_COLUMNS


def is_wide(n_columns: int) -> bool:
    """Whether matrices with this many rows and columns are too large for a round."""
    return n_columns >= WIDE_FROM
