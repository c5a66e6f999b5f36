"""Groups outcomes for comparison: an entry per contender, a cell per stream, a panel per table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from accous_bench.problem import STUDIED
from accous_bench.protocols import PROTOCOLS
from accous_bench.reporting.outcomes import CellKey, Outcome

__all__ = [
    "ENSEMBLE",
    "LIMIT",
    "ORACLE",
    "OURS",
    "TOLD",
    "UNWEIGHTED",
    "Cell",
    "Entry",
    "Panel",
    "in_order",
    "make_panels",
    "split_regret",
]

OURS, UNWEIGHTED, LIMIT, ORACLE = "Accous", "FIX", "limit", "oracle"
TOLD = (LIMIT, ORACLE)
"""Bounds rather than contenders: they are told what no method can know."""
ENSEMBLE = "Accous (ensemble only)"
"""The paper's ensemble with our step, radius and scaling; it stands for the paper's method where it took part."""
_FIRST_CONTENDERS = (
    *(UNWEIGHTED, "DANN", "KMM", "KMM (no ridge)", "KMM (unit width)", "KLIEP", "KLIEP (cv)", "KLIEP (unit width)"),
    *("uLSIF", "uLSIF (cv)", "uLSIF (unit width)", "LR", "LR (Newton step)", "LR (weak penalty)", "OLRE"),
)
_LAST_CONTENDERS = ("Accous (literal)", ENSEMBLE, OURS, *TOLD)
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
    def mean(self) -> float | None:
        """Mean error over the seeds."""
        errors = self.values("error")
        return fmean(errors) if errors else None

    @property
    def std(self) -> float | None:
        """Standard deviation of the error over the seeds, with denominator n - 1; None for fewer than two."""
        errors = self.values("error")
        return stdev(errors) if len(errors) > 1 else None

    def seconds_a_round(self, *, of_processor: bool) -> float | None:
        """Return the mean time per round over the seeds: processor time of the whole run, or elapsed time."""
        if of_processor:
            known = [outcome.cpu_seconds for outcome in self.done.values() if outcome.cpu_seconds is not None]
            n_rounds = [outcome.n_predicted or outcome.n_rounds for outcome in self.done.values()]
            return fmean(known) / fmean(n_rounds) if known else None
        passed = self.values("seconds_per_round")
        return fmean(passed) if passed else None

    @property
    def n_played(self) -> set[int]:
        """Number of rounds that the streams had; a table in order of time may have fewer than requested."""
        return {outcome.n_played or outcome.n_rounds for outcome in self.done.values()}

    @property
    def played_all(self) -> bool:
        """Whether the contender played all rounds of its streams, and not a sample of them."""
        return all(outcome.n_predicted == outcome.n_played for outcome in self.done.values())


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
    def has_processor_times(self) -> bool:
        """Whether the processor time of a run of every entry is known: the better measure on a busy machine."""
        entries = [entry for cell in self.cells.values() for entry in cell.entries.values() if entry.done]
        return all(any(run.cpu_seconds is not None for run in entry.done.values()) for entry in entries)

    @property
    def rivals(self) -> list[str]:
        """The contenders that Accous is compared with."""
        return [name for name in self.contenders if name not in (OURS, *TOLD)]


def in_order(contenders: Iterable[str]) -> list[str]:
    """Return contenders in the order of tables: the unweighted one first, Accous and the bounds last."""
    return _ordered(contenders, _FIRST_CONTENDERS, _LAST_CONTENDERS)


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
    """Group the outcomes of tables into panels, known data sets first.

    Parameters
    ----------
    outcomes : iterable of Outcome

    Returns
    -------
    list of Panel
    """
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


def _ordered(names: Iterable[str], first: tuple[str, ...], last: tuple[str, ...] = ()) -> list[str]:
    """Return known names in their order, with other names in between in order of appearance."""
    names = list(names)
    others = [name for name in names if name not in first and name not in last]
    return [name for name in first if name in names] + others + [name for name in last if name in names]
