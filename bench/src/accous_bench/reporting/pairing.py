"""By which measure contenders can be compared: the exact risk, or the error if they played the same rounds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from accous_bench.protocols import BATCH_FIRST
from accous_bench.reporting.cells import TOLD, Cell
from accous_bench.reporting.outcomes import MIXED_PROTOCOL

__all__ = ["Pairing", "counts_by_risk", "fair_pairing", "have_same_rounds", "who_counts"]


class Pairing(NamedTuple):
    """The measure that is fair to all of several contenders, and the seeds for which they have it."""

    measure: str
    seeds: list[int]


def fair_pairing(cell: Cell, *contenders: str) -> Pairing | None:
    """Return how to compare contenders: by the exact risk if all have one, or by the error on the same rounds.

    The error is counted on drawn rows. A contender that played a sample of the rounds has other rows than one that
    played all, and their errors may differ by chance alone.

    Returns
    -------
    Pairing or None
        None if one of them is missing, or has no risk and played other rounds.
    """
    if _risk_is_of_the_protocol(cell):
        seeds = cell.common_seeds(*contenders, measure="risk")
        if seeds:
            return Pairing("risk", seeds)
    seeds = cell.common_seeds(*contenders)
    return Pairing("error", seeds) if seeds and have_same_rounds(cell, contenders, seeds) else None


def have_same_rounds(cell: Cell, contenders: Iterable[str], seeds: Iterable[int]) -> bool:
    """Whether contenders played the same rounds: a seed draws the same sample for all that play as many rounds."""
    entries = [cell.entries[name] for name in contenders]
    return all(len({entry.done[seed].n_predicted for entry in entries}) == 1 for seed in seeds)


def who_counts(cell: Cell) -> list[str]:
    """Return the contenders that ran on all streams of the cell, without the bounds."""
    return [name for name in cell.entries if name not in TOLD and cell.is_complete(name)]


def counts_by_risk(cell: Cell, contenders: Iterable[str]) -> bool:
    """Whether all of these have an exact risk for all seeds of the cell, so that it decides who is lowest."""
    known = [len(cell.entries[name].values("risk", cell.seeds)) == len(cell.seeds) for name in contenders]
    return _risk_is_of_the_protocol(cell) and bool(known) and all(known)


def _risk_is_of_the_protocol(cell: Cell) -> bool:
    """Whether the risk has the mean of the error: not if a contender is asked about rows that it has learned from."""
    return cell.key.protocol not in (BATCH_FIRST, MIXED_PROTOCOL)
