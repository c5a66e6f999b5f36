"""How well errors under a reading fit the paper's numbers: the distance, and the order of the contenders."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from accous_bench.reporting.cells import ENSEMBLE
from accous_bench.reporting.paper import paper_result

__all__ = ["ESTIMATORS", "Fit", "PaperCell", "fit_to_paper", "mean_fit"]

PaperCell = tuple[str, str, int]
"""Data set, shift and batch size."""

_OURS = {"FIX": "FIX", "KMM": "KMM", "KLIEP": "KLIEP", "uLSIF": "uLSIF", "LR": "LR", "OLRE": "OLRE", "Accous": ENSEMBLE}
_PLAIN = _OURS | {"KMM": "KMM (no ridge)", "LR": "LR (Newton step)"}
_UNIT = _OURS | {name: f"{name} (unit width)" for name in ("KMM", "KLIEP", "uLSIF")} | {"LR": "LR (weak penalty)"}
ESTIMATORS = {
    "regularised": _OURS,
    "plain one-step": _PLAIN,
    "literal": _PLAIN | {"Accous": "Accous (literal)"},
    "unit width": _UNIT,
}
"""Which of our contenders stands for one of the paper's. DANN is too expensive for a search."""


class Fit(NamedTuple):
    """Mean distance to the paper's numbers, in points, and rank correlation with its order of the contenders."""

    distance: float
    order: float


def fit_to_paper(errors: Mapping[str, float], cell: PaperCell) -> Fit:
    """Compare the errors of a cell, in % and by the paper's names of the contenders, with the paper's."""
    published = {name: paper_result(*cell, name) for name in errors}
    pairs = [(errors[name], one.mean) for name, one in published.items() if one is not None]
    ours, theirs = np.array(pairs).T
    # KLIEP and uLSIF coincide for batches of one row up to rounding; such a tie must not be broken by its last digits.
    return Fit(float(np.abs(ours - theirs).mean()), float(spearmanr(np.round(ours, 3), theirs).statistic))


def mean_fit(fits: Mapping[PaperCell, Fit], *, dataset: str | None = None, batch_size: int | None = None) -> Fit:
    """Return the mean over the cells of a data set, of a batch size, or over all."""
    chosen = [fit for cell, fit in fits.items() if dataset in (None, cell[0]) and batch_size in (None, cell[2])]
    return Fit(fmean(fit.distance for fit in chosen), fmean(fit.order for fit in chosen))
