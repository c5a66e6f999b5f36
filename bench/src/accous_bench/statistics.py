"""Who is compared with whom, and what the differences are worth: cells, paired tests, wins, the growth of regret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from scipy import stats

from accous_bench.aggregates import CellKey, Outcome
from accous_bench.contenders import (
    BATCH_FIRST,
    ENSEMBLE,
    ORACLE,
    OURS,
    PAPER_CONTENDERS,
    PREDICT_FIRST,
    PROTOCOLS,
    TOLD,
    UNWEIGHTED,
    in_order,
)
from accous_bench.paper import PAPER_CELLS, PAPER_RESULTS
from accous_bench.problems import DESCRIBED, STUDIED, TUNED

__all__ = [
    "LEVEL", "AgainstOurs", "Cell", "Entry", "Gap", "Pairing", "Panel", "PaperWins", "RegretSeries", "against_ours",
    "best_contenders", "counts_by_risk", "fair_pairing", "fitted_exponent", "gap_closed", "have_same_rounds", "holm",
    "lowest", "make_panels", "paired_p", "paper_cells", "paper_wins", "regret_series", "split_regret",
    "theory_exponent", "who_counts",
]  # fmt: skip

_SHIFTS = ("Lin", "Squ", "Sin", "Ber", "none")
_DATASETS = ("gaussian", "gaussian_published", "diabetes", "diabetes_described", "breast", "breast_described")


@dataclass(frozen=True)
class Entry:
    """One contender in one cell.

    Attributes
    ----------
    contender : str
    n_rounds : int
        Length of the streams it ran on; 0 if no run finished.
    done : dict of int to Outcome
        Finished runs by seed, ascending.
    failed : list of Outcome
        Failed runs of seeds without a finished run.
    """

    contender: str
    n_rounds: int
    done: dict[int, Outcome]
    failed: list[Outcome]

    def values(self, measure: str, seeds: Iterable[int] | None = None) -> list[float]:
        """Return a measure by seed, without seeds for which it is unknown."""
        chosen = self.done.values() if seeds is None else [self.done[seed] for seed in seeds]
        values = [getattr(outcome, measure) for outcome in chosen]
        return [value for value in values if value is not None]

    @property
    def seconds_a_round(self) -> float | None:
        """Mean processor time per round over the seeds, of the whole run."""
        known = self.values("cpu_seconds")
        return fmean(known) / fmean(one.n_predicted or one.n_rounds for one in self.done.values()) if known else None

    @property
    def n_run(self) -> set[int]:
        """Number of rounds that the streams had; a table in order of time may have fewer than requested."""
        return {outcome.n_run or outcome.n_rounds for outcome in self.done.values()}

    @property
    def ran_all(self) -> bool:
        """Whether the contender ran all rounds of its streams, and not a sample of them."""
        return all(outcome.n_predicted == outcome.n_run for outcome in self.done.values())


@dataclass(frozen=True)
class Cell:
    """All contenders on the same streams.

    Attributes
    ----------
    key : CellKey
    n_rounds : int
        Length of the streams that most contenders ran on.
    seeds : list of int
        Seeds that at least half of the contenders have: while a benchmark runs, the first contenders are a seed ahead.
    entries : dict of str to Entry
    """

    key: CellKey
    n_rounds: int
    seeds: list[int]
    entries: dict[str, Entry]

    def is_complete(self, contender: str) -> bool:
        """Whether a contender ran on all of the streams, so that its mean can be compared with the others."""
        entry = self.entries.get(contender)
        return entry is not None and entry.n_rounds == self.n_rounds and set(entry.done) >= set(self.seeds)

    def common_seeds(self, *contenders: str, measure: str = "error") -> list[int]:
        """Return the seeds for which all of these ran to the same length and the measure is known."""
        entries = [self.entries.get(name) for name in contenders]
        known = [entry for entry in entries if entry is not None]
        if len(known) < len(entries) or len({entry.n_rounds for entry in known}) > 1:
            return []
        shared = set.intersection(*(set(entry.done) for entry in known))
        return [
            seed for seed in sorted(shared) if all(getattr(entry.done[seed], measure) is not None for entry in known)
        ]


@dataclass(frozen=True)
class Panel:
    """The content of one table: a data set at one batch size under one protocol, under its shifts."""

    dataset: str
    n_reference: int
    batch_size: int
    protocol: str
    cells: dict[str, Cell]

    @property
    def contenders(self) -> list[str]:
        """All contenders that take part under any shift, in the order of the table."""
        return in_order(dict.fromkeys(name for cell in self.cells.values() for name in cell.entries))

    @property
    def rivals(self) -> list[str]:
        """The contenders that Accous is compared with."""
        return [name for name in self.contenders if name not in (OURS, *TOLD)]


def split_regret(outcomes: Iterable[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Separate the runs that measure a regret over streams of several lengths from those for tables of errors.

    Runs that study the weights of the learners are in neither.
    """
    outcomes = [outcome for outcome in outcomes if outcome.key.shift not in STUDIED]
    lengths: dict[str, set[int]] = {}
    for outcome in outcomes:
        if outcome.ratio_regret is not None:
            lengths.setdefault(outcome.key.dataset, set()).add(outcome.n_rounds)
    for_regret = {dataset for dataset, known in lengths.items() if len(known) > 1}
    return (
        [outcome for outcome in outcomes if outcome.key.dataset not in for_regret],
        [outcome for outcome in outcomes if outcome.key.dataset in for_regret],
    )


def make_panels(outcomes: Iterable[Outcome]) -> list[Panel]:
    """Group the outcomes of tables into panels, known data sets first."""
    by_key: dict[CellKey, list[Outcome]] = {}
    for outcome in outcomes:
        by_key.setdefault(outcome.key, []).append(outcome)
    cells = [_make_cell(key, group) for key, group in by_key.items()]
    datasets = _ordered(dict.fromkeys(cell.key.dataset for cell in cells), _DATASETS)
    protocols = _ordered(dict.fromkeys(cell.key.protocol for cell in cells), PROTOCOLS)
    places = sorted(
        {_place(cell.key) for cell in cells},
        key=lambda place: (datasets.index(place[0]), place[1], protocols.index(place[3]), place[2]),
    )
    return [_make_panel(place, [cell for cell in cells if _place(cell.key) == place]) for place in places]


def _place(key: CellKey) -> tuple[str, int, int, str]:
    return key.dataset, key.n_reference, key.batch_size, key.protocol


def _make_panel(place: tuple[str, int, int, str], cells: list[Cell]) -> Panel:
    by_shift = {cell.key.shift: cell for cell in cells}
    return Panel(*place, {shift: by_shift[shift] for shift in _ordered(by_shift, _SHIFTS)})


def _make_cell(key: CellKey, outcomes: list[Outcome]) -> Cell:
    by_contender: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_contender.setdefault(outcome.contender, []).append(outcome)
    n_rounds = _usual_length(outcomes)
    entries = {name: _make_entry(name, by_contender[name], n_rounds) for name in in_order(by_contender)}
    return Cell(
        key, n_rounds, _usual_seeds([entry for entry in entries.values() if entry.n_rounds == n_rounds]), entries
    )


def _usual_length(outcomes: list[Outcome]) -> int:
    """Return the stream length that most contenders ran on; in a tie, the longer one."""
    contenders: dict[int, set[str]] = {}
    for outcome in outcomes:
        if outcome.is_done:
            contenders.setdefault(outcome.n_rounds, set()).add(outcome.contender)
    return max(contenders, key=lambda length: (len(contenders[length]), length), default=0)


def _usual_seeds(entries: list[Entry]) -> list[int]:
    counts = Counter(seed for entry in entries for seed in entry.done)
    n_finished = sum(bool(entry.done) for entry in entries)
    return sorted(seed for seed, n_entries in counts.items() if 2 * n_entries >= n_finished)


def _make_entry(contender: str, outcomes: list[Outcome], usual_length: int) -> Entry:
    done = [outcome for outcome in outcomes if outcome.is_done]
    lengths = {outcome.n_rounds for outcome in done}
    length = usual_length if usual_length in lengths else max(lengths, default=0)
    chosen = {outcome.seed: outcome for outcome in done if outcome.n_rounds == length}
    failed = {outcome.seed: outcome for outcome in outcomes if not outcome.is_done and outcome.seed not in chosen}
    return Entry(contender, length, dict(sorted(chosen.items())), [failed[seed] for seed in sorted(failed)])


def _ordered(names: Iterable[str], first: tuple[str, ...]) -> list[str]:
    """Return known names in their order, then the others in order of appearance."""
    return sorted(names, key=lambda name: first.index(name) if name in first else len(first))


# --- by which measure contenders can be compared ---


class Pairing(NamedTuple):
    """The measure that is fair to all of several contenders, and the seeds for which they have it."""

    measure: str
    seeds: list[int]


def fair_pairing(cell: Cell, *contenders: str) -> Pairing | None:
    """Return how to compare contenders: by the exact risk if all have one, or by the error on the same rounds.

    The error is counted on drawn rows. A contender that ran a sample of the rounds has other rows than one that
    ran all, and their errors may differ by chance alone.

    Returns
    -------
    Pairing or None
        None if one of them is missing, or has no risk and ran other rounds.
    """
    if _risk_is_of_the_protocol(cell):
        seeds = cell.common_seeds(*contenders, measure="risk")
        if seeds:
            return Pairing("risk", seeds)
    seeds = cell.common_seeds(*contenders)
    return Pairing("error", seeds) if seeds and have_same_rounds(cell, contenders, seeds) else None


def have_same_rounds(cell: Cell, contenders: Iterable[str], seeds: Iterable[int]) -> bool:
    """Whether contenders ran the same rounds: a seed draws the same sample for all that run as many rounds."""
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
    return cell.key.protocol != BATCH_FIRST


# --- paired tests over seeds, each contender against Accous ---

LEVEL = 0.05
_LEAST_PAIRS = 3
_SMALLEST_GAP = 0.001


def paired_p(others: Sequence[float], ours: Sequence[float]) -> float | None:
    """Return the two-sided p-value of the hypothesis that paired errors have the same mean.

    The statistic is ``t = mean(d) / (std(d) / sqrt(n))``, where d are the differences of the pairs, against Student's
    distribution with n - 1 degrees of freedom. Two pairs are not enough for a test. Neither are differences that are
    all equal, which is likely with few rows; if they are all zero, p = 1.
    """
    differences = np.asarray(others, dtype=float) - np.asarray(ours, dtype=float)
    n = len(differences)
    if n < _LEAST_PAIRS:
        return None
    mean, std = float(differences.mean()), float(differences.std(ddof=1))
    # Relative to the differences: errors that differ by the same amount leave only rounding errors.
    if std <= 1e-12 * max(1.0, abs(mean)):
        return 1.0 if abs(mean) <= 1e-12 else None
    return float(2.0 * stats.t.sf(abs(mean) / (std / np.sqrt(n)), n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number, by Holm's step-down procedure.

    With the m values in ascending order, ``p~_(j) = max_{i <= j} min(1, (m - i + 1) p_(i))``. If adjusted values below
    5 % count as significant, the probability of any false claim in the family is at most 5 %.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    scaled = np.minimum(1.0, p[order] * (len(p) - np.arange(len(p))))
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(scaled)
    return [float(value) for value in adjusted]


class AgainstOurs(NamedTuple):
    """One contender against Accous in one cell.

    Attributes
    ----------
    difference : float
        Its mean minus that of Accous: positive if it errs more.
    p : float or None
        Of the paired test, adjusted for all tests of the table; None if it cannot be tested.
    measure : str
        ``"risk"`` if both have one, otherwise ``"error"``.
    is_paired : bool
        False for errors over different rounds, which are not tested.
    """

    difference: float
    p: float | None
    measure: str
    is_paired: bool

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at the 5 % level after the correction."""
        return self.p is not None and self.p < LEVEL


def against_ours(panel: Panel) -> dict[tuple[str, str], AgainstOurs]:
    """Test every rival against Accous under every shift, with Holm's correction over the panel.

    The differences are those of the exact risk if both have one, otherwise of the error, which is only tested if both
    ran the same rounds.

    The differences are by contender and shift, without contenders that share no stream with Accous.
    """
    found = {
        (name, shift): against
        for name in panel.rivals
        for shift, cell in panel.cells.items()
        if (against := _against(cell, name)) is not None
    }
    p_values = {place: against.p for place, against in found.items() if against.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return {place: against._replace(p=adjusted.get(place)) for place, against in found.items()}


def _against(cell: Cell, contender: str) -> AgainstOurs | None:
    """Return a difference with its own p-value; None without a stream that both have."""
    fair = fair_pairing(cell, contender, OURS)
    pairing = fair or Pairing("error", cell.common_seeds(contender, OURS))
    if not pairing.seeds:
        return None
    others, ours = (cell.entries[name].values(*pairing) for name in (contender, OURS))
    p = paired_p(others, ours) if fair else None
    return AgainstOurs(fmean(others) - fmean(ours), p, pairing.measure, is_paired=fair is not None)


class Gap(NamedTuple):
    """How much better a bound is than the unweighted classifier, and what share of this a contender gains.

    Attributes
    ----------
    measure : str
        ``"risk"`` if it is known exactly, otherwise ``"error"``.
    mean : float
        Mean of the contender.
    width : float
    share : float or None
        None if the gap is below 0.1 point, too small for a meaningful share.
    """

    measure: str
    mean: float
    width: float
    share: float | None


def gap_closed(cell: Cell, contender: str, bound: str = ORACLE) -> Gap | None:
    """Return the share of the gap between the unweighted classifier and a bound that a contender closes.

    ``(risk of FIX - risk of the contender) / (risk of FIX - risk of the bound)``, from means over the seeds of the cell
    that all three have; the bound is the oracle or the limit. If the risk is unknown, the error is used instead. None
    if one of the three is missing.
    """
    for measure in ("risk", "error"):
        names = (contender, UNWEIGHTED, bound)
        shared = cell.common_seeds(*names, measure=measure)
        # All contenders of a table over the same seeds, even if some have more.
        seeds = [seed for seed in shared if seed in cell.seeds] or shared
        if seeds:
            ours, worst, best = (fmean(cell.entries[name].values(measure, seeds)) for name in names)
            width = worst - best
            return Gap(measure, ours, width, (worst - ours) / width if width >= _SMALLEST_GAP else None)
    return None


# --- who is lowest ---


def best_contenders(cell: Cell) -> list[str]:
    """Return the contenders with the lowest error; ties to two decimals of a per cent all count.

    The limit and the oracle do not count, and neither do contenders that did not run on all of the cell's streams or
    ran a sample of their rounds. Means are over these streams.
    """
    return lowest(cell, [name for name in who_counts(cell) if cell.entries[name].ran_all], "error")


def lowest(cell: Cell, contenders: Iterable[str], measure: str) -> list[str]:
    """Return who of these has the lowest mean over the seeds of the cell; those that lack one of them do not count."""
    known = {name: mean for name in contenders if (mean := _mean(cell, name, measure)) is not None}
    return [name for name, mean in known.items() if mean == min(known.values())]


def _mean(cell: Cell, name: str, measure: str) -> float | None:
    """Return the mean in % to the two decimals that are printed."""
    values = cell.entries[name].values(measure, cell.seeds)
    return round(100.0 * fmean(values), 2) if values and len(values) == len(cell.seeds) else None


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
    cells = [cell for *_, cell in paper_cells(panels)]
    found = []
    for version in (ENSEMBLE, OURS):
        names = [version if name == ENSEMBLE else name for name in PAPER_CONTENDERS]
        known = [cell for cell in cells if cell.is_complete(version) and _n_complete(cell, names) >= _LEAST_CONTENDERS]
        if known:
            winners = [name for cell in known for name in _lowest(cell, names)]
            ran = {name for name in names if any(cell.is_complete(name) for cell in known)}
            ours = {name: winners.count(name) if name in ran else None for name in names}
            found.append(PaperWins(_published_wins(), ours, version, len(known)))
    return found


def paper_cells(panels: Iterable[Panel]) -> list[tuple[str, str, int, Cell]]:
    """Return the paper's data set, shift and batch size with our cell for it, if it was run.

    Of two variants it is the one that more contenders ran. If as many ran both, what the paper describes counts.
    """
    by_place: dict[tuple[str, str, int], Cell] = {}
    for panel in panels:
        if panel.protocol == PREDICT_FIRST:
            by_place |= {(panel.dataset, shift, panel.batch_size): cell for shift, cell in panel.cells.items()}
    found = []
    for dataset, shift, batch_size in PAPER_CELLS:
        candidates = [by_place.get((dataset + variant, shift, batch_size)) for variant in reversed(_VARIANTS)]
        known = [cell for cell in candidates if cell is not None]
        if known:  # the first of equals
            found.append((dataset, shift, batch_size, max(known, key=_n_of_paper)))
    return found


def _n_of_paper(cell: Cell) -> int:
    """Number of the paper's contenders that ran; either version of Accous counts as it."""
    others = [name for name in PAPER_CONTENDERS if name != ENSEMBLE]
    return _n_complete(cell, others) + any(cell.is_complete(version) for version in (ENSEMBLE, OURS))


def _n_complete(cell: Cell, names: list[str]) -> int:
    return sum(cell.is_complete(name) for name in names)


def _lowest(cell: Cell, names: list[str]) -> list[str]:
    """Return the winners by the exact risk, or by the error if some contender has no risk.

    Both have the same mean. The error is counted on drawn rows, and contenders that forget run few rounds: where all
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


# --- growth of the regret ---


@dataclass(frozen=True)
class RegretSeries:
    """Cumulative dynamic regret of one contender for streams of several lengths.

    Attributes
    ----------
    key : CellKey
    contender : str
    regrets : dict of int to (dict of int to float)
        By the number of rounds, then by seed.
    exponent, standard_error : float or None
        Of the fit T^exponent, over the seeds; None if fewer than three have two positive regrets.
    """

    key: CellKey
    contender: str
    regrets: dict[int, dict[int, float]]
    exponent: float | None
    standard_error: float | None

    @property
    def lengths(self) -> list[int]:
        """Numbers of rounds, ascending."""
        return sorted(self.regrets)

    @property
    def means(self) -> list[float]:
        """Mean regret over the seeds, for each length."""
        return [fmean(self.regrets[length].values()) for length in self.lengths]

    @property
    def stds(self) -> list[float | None]:
        """Standard deviation over the seeds, for each length."""
        groups = [list(self.regrets[length].values()) for length in self.lengths]
        return [stdev(group) if len(group) > 1 else None for group in groups]


def theory_exponent(shift: str) -> float | None:
    """Return the exponent of T in T^(1/3) V_T^(2/3): 1/3 for a fixed V_T, 2/3 if V_T grows like sqrt(T)."""
    return {"fixed path": 1 / 3, "growing path": 2 / 3}.get(shift)


def regret_series(outcomes: Iterable[Outcome]) -> list[RegretSeries]:
    """Collect the regrets by cell and contender, and fit their growth."""
    found: dict[tuple[CellKey, str], dict[int, dict[int, float]]] = {}
    for outcome in outcomes:
        if outcome.is_done and outcome.ratio_regret is not None:
            lengths = found.setdefault((outcome.key, outcome.contender), {})
            lengths.setdefault(outcome.n_rounds, {})[outcome.seed] = outcome.ratio_regret
    return [
        RegretSeries(key, contender, regrets, *fitted_exponent(regrets)) for (key, contender), regrets in found.items()
    ]


def fitted_exponent(regrets: dict[int, dict[int, float]]) -> tuple[float | None, float | None]:
    """Fit ``log regret = a + p log T`` by least squares for each seed; return the mean p and its standard error.

    Regrets are by the number of rounds, then by seed. Those of one seed may share random numbers, so the standard
    error comes from the spread of the slopes, of which there must be three.
    """
    by_seed: dict[int, list[tuple[float, float]]] = {}
    for length, values in regrets.items():
        for seed, regret in values.items():
            if regret > 0.0:
                by_seed.setdefault(seed, []).append((np.log(length), np.log(regret)))
    lines = [np.transpose(points) for points in by_seed.values() if len(points) > 1]
    slopes = [float(np.polyfit(x, y, 1)[0]) for x, y in lines]
    return (fmean(slopes), stdev(slopes) / len(slopes) ** 0.5) if len(slopes) >= 3 else (None, None)
