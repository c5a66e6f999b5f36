"""Who has the lowest error in the 24 cells of the paper's tables: in the paper, and in our runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.cells import ENSEMBLE, OURS, Cell, Panel
from accous_bench.reporting.paper import PAPER_CELLS, PAPER_CONTENDERS, PAPER_RESULTS

__all__ = ["PaperWins", "paper_wins"]

_VARIANTS = ("", "_tuned")  # images count with the backbone that was trained on the reference, where it was run

_LEAST_CONTENDERS = 5  # of the paper's eight: a win over fewer says little


@dataclass(frozen=True)
class PaperWins:
    """Number of the paper's cells in which each contender has the lowest error.

    Attributes
    ----------
    paper : dict of str to int
    ours : dict of str to int
        Our runs, in which ``stands_for_accous`` takes the place of Accous.
    stands_for_accous : str
    n_cells : int
        Cells that were run.
    """

    paper: dict[str, int]
    ours: dict[str, int]
    stands_for_accous: str
    n_cells: int


def paper_wins(panels: Iterable[Panel]) -> list[PaperWins]:
    """Count the wins of the paper's contenders under ``predict_first``, once for each version of Accous that took part.

    A cell that is shared counts for each of its winners. Cells with fewer than five of the contenders do not count.
    """
    cells = _paper_cells(panels)
    found = []
    for version in (ENSEMBLE, OURS):
        names = [version if name == OURS else name for name in PAPER_CONTENDERS]
        known = [cell for cell in cells if cell.is_complete(version) and _n_complete(cell, names) >= _LEAST_CONTENDERS]
        if known:
            ours = [name for cell in known for name in _lowest(cell, names)]
            found.append(PaperWins(_published_wins(), _counts(ours, names), version, len(known)))
    return found


def _paper_cells(panels: Iterable[Panel]) -> list[Cell]:
    """Return our cell for each of the paper's, if it was run."""
    by_place: dict[tuple[str, str, int], Cell] = {}
    for panel in panels:
        if panel.protocol == PREDICT_FIRST:
            by_place |= {(panel.dataset, shift, panel.batch_size): cell for shift, cell in panel.cells.items()}
    found = []
    for dataset, shift, batch_size in PAPER_CELLS:
        candidates = [by_place.get((dataset + variant, shift, batch_size)) for variant in _VARIANTS]
        found += [cell for cell in candidates if cell is not None][-1:]
    return found


def _n_complete(cell: Cell, names: list[str]) -> int:
    return sum(cell.is_complete(name) for name in names)


def _lowest(cell: Cell, names: list[str]) -> list[str]:
    means = {
        name: round(100.0 * fmean(errors), 2)
        for name in names
        if cell.is_complete(name) and (errors := cell.entries[name].values("error", cell.seeds))
    }
    return [name for name, mean in means.items() if mean == min(means.values())]


def _published_wins() -> dict[str, int]:
    winners = []
    for cell in PAPER_CELLS:
        means = {name: PAPER_RESULTS[(*cell, name)].mean for name in PAPER_CONTENDERS}
        winners += [name for name, mean in means.items() if mean == min(means.values())]
    return _counts(winners, list(PAPER_CONTENDERS))


def _counts(winners: list[str], names: list[str]) -> dict[str, int]:
    return {name: winners.count(name) for name in names}
