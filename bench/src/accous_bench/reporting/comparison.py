"""Compares contenders: how much of the gap to the oracle is closed, and which differences are significant."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple, TypeVar

from accous_bench.reporting.cells import ORACLE, OURS, UNWEIGHTED, Cell, Panel
from accous_bench.reporting.pairing import Pairing, fair_pairing, have_same_rounds
from accous_bench.reporting.significance import PairedTest, holm, paired_test

__all__ = ["LEVEL", "TIE", "AgainstOurs", "Gap", "Tally", "against_ours", "gap_closed", "tally"]

LEVEL = 0.05
TIE = 0.003
_SMALLEST_GAP = 0.001
_Place = TypeVar("_Place", bound=Hashable)


class Gap(NamedTuple):
    """How much better the oracle is than the unweighted classifier, and what share of this a contender gains.

    Attributes
    ----------
    measure : str
        ``"risk"`` if it is known exactly, otherwise ``"error"``.
    mean : float
        Mean of the contender.
    width : float
    share : float or None
        None if the gap is too small for a meaningful share.
    seeds : tuple of int
        The seeds behind it.
    """

    measure: str
    mean: float
    width: float
    share: float | None
    seeds: tuple[int, ...] = ()


def gap_closed(cell: Cell, contender: str, bound: str = ORACLE, *, all_seeds: bool = False) -> Gap | None:
    """Return the share of the gap between the unweighted classifier and a bound that a contender closes.

    ``(risk of FIX - risk of the contender) / (risk of FIX - risk of the bound)``, from means over the seeds of the cell
    that all three have, or with ``all_seeds`` over all seeds that they have; the bound is the oracle or the limit. If
    the risk is unknown, the error is used instead. A gap below 0.1 point has no share.

    Returns
    -------
    Gap or None
        None if one of the three is missing.
    """
    for measure in ("risk", "error"):
        names = (contender, UNWEIGHTED, bound)
        shared = cell.common_seeds(*names, measure=measure)
        # All contenders of a table over the same seeds, even if some have more.
        seeds = shared if all_seeds else [seed for seed in shared if seed in cell.seeds] or shared
        if seeds:
            ours, worst, best = (fmean(cell.entries[name].values(measure, seeds)) for name in names)
            width = worst - best
            return Gap(measure, ours, width, (worst - ours) / width if width >= _SMALLEST_GAP else None, tuple(seeds))
    return None


@dataclass(frozen=True)
class AgainstOurs:
    """One contender against Accous in one cell: the test, and its p-value adjusted for all tests of the table.

    Attributes
    ----------
    test : PairedTest
    adjusted_p : float or None
    measure : str
        ``"risk"`` if both have one, otherwise ``"error"``.
    is_paired : bool
        False for errors over different rounds, which are not tested.
    """

    test: PairedTest
    adjusted_p: float | None
    measure: str = "error"
    is_paired: bool = True

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at the 5 % level after the correction."""
        return self.adjusted_p is not None and self.adjusted_p < LEVEL


def against_ours(panel: Panel) -> dict[tuple[str, str], AgainstOurs]:
    """Test every rival against Accous under every shift, with Holm's correction over the panel.

    The differences are those of the exact risk if both have one, otherwise of the error, which is only tested if both
    played the same rounds.

    Returns
    -------
    dict
        By contender and shift, without contenders that share no stream with Accous.
    """
    found = {
        (name, shift): against
        for name in panel.rivals
        for shift, cell in panel.cells.items()
        if (against := _against(cell, name)) is not None
    }
    adjusted = _adjusted({place: against.test for place, against in found.items()})
    return {place: replace(against, adjusted_p=adjusted.get(place)) for place, against in found.items()}


def _against(cell: Cell, contender: str) -> AgainstOurs | None:
    """Return a difference without its adjusted p-value; None without a stream that both have."""
    fair = fair_pairing(cell, contender, OURS)
    pairing = fair or Pairing("error", cell.common_seeds(contender, OURS))
    test = _test(cell, contender, pairing)
    if test is None:
        return None
    return AgainstOurs(test if fair else _untested(test), None, pairing.measure, is_paired=fair is not None)


def _test(cell: Cell, contender: str, pairing: Pairing) -> PairedTest | None:
    if not pairing.seeds:
        return None
    others, ours = (cell.entries[name].values(*pairing) for name in (contender, OURS))
    return paired_test(others, ours)


def _untested(test: PairedTest) -> PairedTest:
    return test._replace(std=None, p=None)


def _adjusted(tests: Mapping[_Place, PairedTest]) -> dict[_Place, float]:
    """Return Holm's p-values of those that have one."""
    p_values = {place: test.p for place, test in tests.items() if test.p is not None}
    return dict(zip(p_values, holm(list(p_values.values())), strict=True))


@dataclass(frozen=True)
class Tally:
    """One contender against Accous over all cells.

    Attributes
    ----------
    contender : str
    wins, ties, losses : int
        Counts from the point of view of Accous; a tie is a difference of at most 0.3 points.
    pooled : AgainstOurs or None
        Test of the differences, averaged over the cells for each seed, over the seeds that all these cells have.
        Errors over different rounds are not tested.
    """

    contender: str
    wins: int
    ties: int
    losses: int
    pooled: AgainstOurs | None


def tally(panels: Iterable[Panel], measure: str = "error") -> list[Tally]:
    """Count wins, ties and losses of Accous, and test all cells at once, with Holm's correction over the contenders.

    Parameters
    ----------
    panels : iterable of Panel
    measure : str, default="error"
        Or ``"risk"``: cells in which it is not known for both contenders are left out.

    Returns
    -------
    list of Tally
        One per contender, without contenders that share no cell with Accous.
    """
    panels = list(panels)
    cells = [cell for panel in panels for cell in panel.cells.values()]
    names = list(dict.fromkeys(name for panel in panels for name in panel.rivals))
    tests = {name: list(_tests(cells, name, measure)) for name in names}
    names = [name for name in names if tests[name]]
    pooled = {name: _pooled_test([cell for cell, _ in tests[name]], name, measure) for name in names}
    adjusted = _adjusted({name: against.test for name, against in pooled.items() if against is not None})
    tallies = []
    for name in names:
        # Rounded, so that 0.3 points to the last digit printed are a tie.
        differences = [round(test.difference, 6) for _, test in tests[name]]
        against = pooled[name]
        tallies.append(
            Tally(
                contender=name,
                wins=sum(difference > TIE for difference in differences),
                ties=sum(abs(difference) <= TIE for difference in differences),
                losses=sum(difference < -TIE for difference in differences),
                pooled=None if against is None else replace(against, adjusted_p=adjusted.get(name)),
            )
        )
    return tallies


def _tests(cells: list[Cell], contender: str, measure: str) -> Iterable[tuple[Cell, PairedTest]]:
    for cell in cells:
        test = _test(cell, contender, Pairing(measure, cell.common_seeds(contender, OURS, measure=measure)))
        if test is not None:
            yield cell, test


def _pooled_test(cells: list[Cell], contender: str, measure: str) -> AgainstOurs | None:
    """Average each seed over the cells, then test, because the streams of one seed may share their reference."""
    shared = [set(cell.common_seeds(contender, OURS, measure=measure)) for cell in cells]
    seeds = sorted(set.intersection(*shared))
    by_cell = {name: [cell.entries[name].values(measure, seeds) for cell in cells] for name in (contender, OURS)}
    others, ours = ([fmean(column) for column in zip(*by_cell[name], strict=True)] for name in (contender, OURS))
    test = paired_test(others, ours)
    if test is None:
        return None
    is_paired = measure == "risk" or all(have_same_rounds(cell, (contender, OURS), seeds) for cell in cells)
    return AgainstOurs(test if is_paired else _untested(test), None, measure, is_paired)
