"""Who has the lowest error in the 24 cells of the paper's tables: in the paper, and in our runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from accous_bench.problem import DESCRIBED, TUNED
from accous_bench.protocols import PREDICT_FIRST
from accous_bench.reporting.cells import ENSEMBLE, OURS, Cell, Panel
from accous_bench.reporting.document import DASH, Row, Table, Text
from accous_bench.reporting.lowest import lowest
from accous_bench.reporting.pairing import counts_by_risk
from accous_bench.reporting.paper import PAPER_CELLS, PAPER_CONTENDERS, PAPER_RESULTS

__all__ = ["PaperWins", "paper_wins", "wins_table"]

# What the paper describes comes last: a reference of one part and a split for each run (appendix "Experiment Setup",
# Datasets), a backbone trained on the offline data (same place). The published geometry is no variant: it cannot give
# the paper's numbers.
_VARIANTS = ("", DESCRIBED, TUNED)

_LEAST_CONTENDERS = 5  # of the paper's eight: a win over fewer says little


@dataclass(frozen=True)
class PaperWins:
    """Number of the paper's cells in which each contender has the lowest error.

    Attributes
    ----------
    paper : dict of str to int
    ours : dict of str to int or None
        Our runs, in which ``stands_for_accous`` takes the place of Accous; None for a contender that took part in none
        of the cells.
    stands_for_accous : str
    n_cells : int
        Cells that were run.
    """

    paper: dict[str, int]
    ours: dict[str, int | None]
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
            winners = [name for cell in known for name in _lowest(cell, names)]
            ran = {name for name in names if any(cell.is_complete(name) for cell in known)}
            ours = {name: winners.count(name) if name in ran else None for name in names}
            found.append(PaperWins(_published_wins(), ours, version, len(known)))
    return found


def _paper_cells(panels: Iterable[Panel]) -> list[Cell]:
    """Return our cell for each of the paper's, if it was run: of two variants, the one that more contenders ran.

    If as many ran both, what the paper describes counts.
    """
    by_place: dict[tuple[str, str, int], Cell] = {}
    for panel in panels:
        if panel.protocol == PREDICT_FIRST:
            by_place |= {(panel.dataset, shift, panel.batch_size): cell for shift, cell in panel.cells.items()}
    found = []
    for dataset, shift, batch_size in PAPER_CELLS:
        candidates = [by_place.get((dataset + variant, shift, batch_size)) for variant in reversed(_VARIANTS)]
        known = [cell for cell in candidates if cell is not None]
        found += [max(known, key=_n_of_paper)] if known else []  # the first of equals
    return found


def _n_of_paper(cell: Cell) -> int:
    """Number of the paper's contenders that ran; either version of Accous counts as it."""
    others = [name for name in PAPER_CONTENDERS if name != OURS]
    return _n_complete(cell, others) + any(cell.is_complete(version) for version in (ENSEMBLE, OURS))


def _n_complete(cell: Cell, names: list[str]) -> int:
    return sum(cell.is_complete(name) for name in names)


def _lowest(cell: Cell, names: list[str]) -> list[str]:
    """Return the winners by the exact risk, or by the error if some contender has no risk.

    Both have the same mean. The error is counted on drawn rows, and contenders that forget play few rounds: where all
    are within half a point, they would often win by chance.
    """
    ran = [name for name in names if cell.is_complete(name)]
    return lowest(cell, ran, "risk" if counts_by_risk(cell, ran) else "error")


def _published_wins() -> dict[str, int]:
    winners = []
    for cell in PAPER_CELLS:
        means = {name: PAPER_RESULTS[(*cell, name)].mean for name in PAPER_CONTENDERS}
        winners += [name for name, mean in means.items() if mean == min(means.values())]
    return {name: winners.count(name) for name in PAPER_CONTENDERS}


def wins_table(wins: list[PaperWins]) -> Table:
    """Return the table of wins in the paper's cells: the paper's, and ours with each version of Accous."""
    names = [name for name in wins[0].paper if name != OURS]
    rows = [
        Row([Text(name), Text(str(wins[0].paper[name])), *(_wins_text(one, name) for one in wins)]) for name in names
    ]
    ours = [_wins_text(one, one.stands_for_accous) for one in wins]
    rows.append(Row([Text(OURS), Text(str(wins[0].paper[OURS])), *ours]))
    headings = ["contender", "paper", *(f"ours, with {one.stands_for_accous}" for one in wins)]
    n_cells = f"{wins[0].n_cells} of them were run" if wins[0].n_cells < len(PAPER_CELLS) else "all of them were run"
    caption = (
        f"In how many of the paper's {len(PAPER_CELLS)} cells each of its contenders has the lowest error ({n_cells} "
        "here by at least five of them, predict_first, and count by the exact risk where all have one, otherwise by "
        "the error over the rounds that each has played; a shared cell counts for each of its winners; a dash: took "
        "part in none). Tables and images count as the paper describes them (a reference of one part and a split for "
        "each seed, a tuned backbone) where as many contenders ran them so; synthetic data in the reconstructed "
        "geometry."
    )
    return Table(caption, headings, rows)


def _wins_text(wins: PaperWins, name: str) -> Text:
    n_wins = wins.ours.get(name)
    return Text(DASH if n_wins is None else str(n_wins))
