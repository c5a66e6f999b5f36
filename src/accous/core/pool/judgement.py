"""Rows as the candidates of a pool see them, and what a batch says about the candidates."""

from __future__ import annotations

from typing import NamedTuple

from accous.arrays import FloatArray
from accous.core.pool.filters import Filters

__all__ = ["Judgement", "SeenRows"]


class SeenRows(NamedTuple):
    """Rows as the candidates of one round see them, which is all that their pooled ratio depends on.

    Attributes
    ----------
    ratios : array of shape (n_rows,)
        At the theta of that round.
    slot_ratios : array of shape (n_slots, n_rows)
        At the theta of each slot.
    given : array of shape (n_given, n_rows)
    means : array of shape (n_shapes,)
        Means of the shapes over the reference.
    factors : array of shape (n_slots, n_shapes)
    proportions : array of shape (n_candidates,)
    """

    ratios: FloatArray
    slot_ratios: FloatArray
    given: FloatArray
    means: FloatArray
    factors: FloatArray
    proportions: FloatArray


class Judgement(NamedTuple):
    """What a batch says about the candidates, before the estimator learns from it."""

    filters: Filters
    cautious: Filters
    log_likelihood: float
    seen: SeenRows
