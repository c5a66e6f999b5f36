"""How near the errors of a panel are to the paper's, and whether the contenders rank in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from scipy import stats

from accous.text import count
from accous_bench.reporting.cells import ENSEMBLE, OURS, Cell, Panel
from accous_bench.reporting.paper import PAPER_CONTENDERS, is_papers_length, paper_result

__all__ = ["likeness_words"]

_LEAST_RANKED = 4
UNIT_WIDTH = {
    "KMM": "KMM (unit width)",
    "KLIEP": "KLIEP (unit width)",
    "uLSIF": "uLSIF (unit width)",
    "LR": "LR (weak penalty)",
}


@dataclass(frozen=True)
class _Likeness:
    distances: list[float] = field(default_factory=list)
    correlations: list[float] = field(default_factory=list)

    @property
    def correlation(self) -> str:
        return f"{fmean(self.correlations):.2f}".replace("-", "\N{MINUS SIGN}")


def likeness_words(panel: Panel) -> str:
    """Describe the mean distance to the paper's numbers and the rank correlation with its order.

    If one-step contenders also ran with kernels of unit width, a second sentence is about these.
    """
    usual = _likeness(panel, {})
    if not usual.distances:
        return ""
    distance = f"{fmean(usual.distances):.1f} points"
    words = f"The mean distance to the paper's {count(len(usual.distances), 'number')} is {distance}"
    if usual.correlations:
        words += f"; the contenders' order has a rank correlation of {usual.correlation} with the paper's"
    return f"{words}.{_words_on_unit_width(panel)}"


def _words_on_unit_width(panel: Panel) -> str:
    """Say how much nearer kernels of unit width are, of the one-step contenders and of the order of all but DANN."""
    if not all(cell.is_complete(name) for _, cell in _comparable(panel) for name in UNIT_WIDTH.values()):
        return ""
    others = [name for name in PAPER_CONTENDERS if name != "DANN"]
    (far, near), (before, after) = (
        [_likeness(panel, stand_ins, names) for stand_ins in ({}, UNIT_WIDTH)] for names in ([*UNIT_WIDTH], others)
    )
    if not far.distances:
        return ""
    words = (
        f" With kernels of unit width and a weak penalty, {', '.join(UNIT_WIDTH)} are {fmean(near.distances):.1f} "
        f"points from the paper's numbers instead of {fmean(far.distances):.1f}"
    )
    if before.correlations and after.correlations:
        words += f", and the rank correlation without DANN is {after.correlation} instead of {before.correlation}"
    return words + "."


def _comparable(panel: Panel) -> Iterator[tuple[str, Cell]]:
    return ((shift, cell) for shift, cell in panel.cells.items() if is_papers_length(cell.n_rounds))


def _likeness(panel: Panel, stand_ins: Mapping[str, str], names: Sequence[str] = PAPER_CONTENDERS) -> _Likeness:
    found = _Likeness()
    for shift, cell in _comparable(panel):
        # The method as published represents the paper's method, if it took part.
        ours = {OURS: ENSEMBLE} if cell.is_complete(ENSEMBLE) else {}
        pairs = []
        for paper_name in names:
            name = {**ours, **stand_ins}.get(paper_name, paper_name)
            entry = cell.entries.get(name)
            published = paper_result(panel.dataset, shift, panel.batch_size, paper_name)
            if published and entry is not None and entry.mean is not None and cell.is_complete(name):
                pairs.append((100.0 * entry.mean, published.mean))
        found.distances.extend(abs(ours_mean - paper) for ours_mean, paper in pairs)
        if len(pairs) >= _LEAST_RANKED and np.ptp(np.array(pairs), axis=0).all():
            found.correlations.append(float(stats.spearmanr(*zip(*pairs, strict=True)).statistic))
    return found
