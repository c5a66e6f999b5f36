"""Narrow or wide: the one place that says for how many columns the compiled loops are used.

Microseconds on one core with AVX2, compiled / numpy, for 1000 reference rows and 12 learners:

======= ============ ============= ====================== ===============
columns gradients    Newton steps  all learners projected refit
======= ============ ============= ====================== ===============
13      45 / 85      16 / 38       31 / 336               45 / 700
32      95 / 120     28 / 71       94 / 875               145 / 1060
64      168 / 170    92 / 234      460 / 3590             378 / 3140
96      282 / 288    220 / 540     1680 / 12000           1025 / 4830
128     456 / 498    430 / 1200    3800 / 15000           1271 / 5450
======= ============ ============= ====================== ===============

For 5000 rows the gradients are even at about 96 columns. Beyond 128 products of matrices take over; nothing else asks
for the width.
"""

from __future__ import annotations

__all__ = ["MAX_NARROW_COLUMNS", "is_narrow"]

MAX_NARROW_COLUMNS = 128


def is_narrow(n_columns: int) -> bool:
    """Whether the compiled loops are faster than products of matrices."""
    return n_columns <= MAX_NARROW_COLUMNS
