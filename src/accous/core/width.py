"""Where wide begins: from here on no d x d matrix is made in a round, and none for the refit."""

from __future__ import annotations

__all__ = ["MAX_NEWTON_COEFS", "WIDE_FROM"]

WIDE_FROM = 96
"""Features from which on learners keep roots and gradients (``wide_newton.py``) instead of dense matrices.

About where the two cost the same; with 512 features the dense ones cost ten times as much.
"""

MAX_NEWTON_COEFS = 100
"""Coefficients of the regression up to which it is refitted by Newton's method, to the end in every round.

With more, it descends (``descent.py``), which is many times faster and stops near the optimum.
"""
