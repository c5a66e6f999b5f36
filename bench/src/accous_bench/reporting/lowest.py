"""Who has the lowest error or exact risk in a cell, and the sentence on it."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from accous_bench.reporting.cells import Cell, Panel
from accous_bench.reporting.pairing import counts_by_risk, who_counts
from accous_bench.reporting.wording import by_shifts

__all__ = ["best_contenders", "lowest", "lowest_words"]

_BY_RISK = "Lowest exact risk"
_BY_ERROR = "Lowest error"
_BY_ERROR_OF_SOME = "Lowest error of those that played all rounds (the exact risk is not known for all)"
_LOWER = "Lower, but over a sample of the rounds"


def best_contenders(cell: Cell) -> list[str]:
    """Return the contenders with the lowest error; ties to two decimals of a per cent all count.

    The limit and the oracle do not count, and neither do contenders that did not run on all of the cell's streams or
    played a sample of their rounds. Means are over these streams.
    """
    return lowest(cell, [name for name in who_counts(cell) if cell.entries[name].played_all], "error")


def lowest(cell: Cell, contenders: Iterable[str], measure: str) -> list[str]:
    """Return who of these has the lowest mean over the seeds of the cell; those that lack one of them do not count."""
    known = {name: mean for name in contenders if (mean := _mean(cell, name, measure)) is not None}
    return [name for name, mean in known.items() if mean == min(known.values())]


def _mean(cell: Cell, name: str, measure: str) -> float | None:
    """Return the mean in % to the two decimals that are printed."""
    values = cell.entries[name].values(measure, cell.seeds)
    return round(100.0 * fmean(values), 2) if values and len(values) == len(cell.seeds) else None


def lowest_words(panel: Panel) -> str:
    """Name the lowest under each shift, and the measure.

    It is the exact risk where all contenders have one. Elsewhere it is the error of those that played all rounds, and
    the others are named if theirs is lower.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for shift, cell in panel.cells.items():
        for measure, names in _standings(cell):
            for name in names:
                found.setdefault(measure, {}).setdefault(name, []).append(shift)
    order = [measure for measure in (_BY_RISK, _BY_ERROR, _BY_ERROR_OF_SOME, _LOWER) if measure in found]
    return " ".join(f"{measure}: {by_shifts(found[measure], len(panel.cells))}." for measure in order)


def _standings(cell: Cell) -> Iterable[tuple[str, list[str]]]:
    names = who_counts(cell)
    if counts_by_risk(cell, names):
        yield _BY_RISK, lowest(cell, names, "risk")
        return
    winners, sampled = best_contenders(cell), [name for name in names if not cell.entries[name].played_all]
    if winners:
        yield (_BY_ERROR_OF_SOME if sampled else _BY_ERROR), winners
        best = _mean(cell, winners[0], "error") or 0.0
        means = {name: _mean(cell, name, "error") for name in sampled}
        yield _LOWER, [name for name, mean in means.items() if mean is not None and mean < best]
