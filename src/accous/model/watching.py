"""What a model remembers of its rounds: recent rows, changes of the inputs, coverage, the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray
from accous.diagnostics.coverage import MIN_ROWS, ColumnRanges, ColumnWatch, Coverage
from accous.diagnostics.drift import (
    ROUNDS_BETWEEN_LOOKS,
    ComparedReference,
    DriftLog,
    ReferenceColumns,
    ReferenceNeighbours,
    linear_parts,
    main_columns,
    shares,
    start_log,
)
from accous.diagnostics.performance import Estimate
from accous.diagnostics.status import DEGRADED, HEALTHY, UNCERTAIN
from accous.ratio.base import RatioEstimator
from accous.text import import_extra
from accous.threads import one_blas_thread

if TYPE_CHECKING:
    from accous.model.learning import LearningEvent

# --- The last rows of the stream, in an immutable structure that costs about a microsecond per round


MAX_ROWS = 500
BLOCK_ROWS = 64
MAX_BYTES = 4_000_000


class RecentRows(NamedTuple):
    """The last rows of the stream; every method returns new objects.

    Attributes
    ----------
    max_rows : int
        How many rows ``last`` returns at most; 0 before the first row, whose width decides.
    block_rows : int
        Number of rows in a closed block.
    blocks : tuple of arrays of shape (block_rows, n_columns)
        Closed blocks, oldest first: as many as are needed for ``max_rows``.
    pending : tuple of arrays
        The rows since the last block, as they came.
    n_pending : int
        Number of those rows, less than ``block_rows``.
    n_closed : int
        Number of blocks closed so far, those that were dropped included.

    Examples
    --------
    >>> import numpy as np
    >>> recent = NO_ROWS
    >>> for number in range(600):
    ...     recent = recent.add(np.full((1, 2), float(number)))
    >>> recent.last()[[0, -1], 0]
    array([100., 599.])
    """

    max_rows: int = 0
    block_rows: int = 0
    blocks: tuple[NDArray[Any], ...] = ()
    pending: tuple[NDArray[Any], ...] = ()
    n_pending: int = 0
    n_closed: int = 0

    def add(self, rows: NDArray[Any]) -> RecentRows:
        """Return the structure after some more rows, which are copied."""
        n_pending = self.n_pending + len(rows)
        if n_pending < self.block_rows:
            # The rows may be the user's own array, which the user may overwrite.
            pending = (*self.pending, rows.copy())
            return RecentRows(self.max_rows, self.block_rows, self.blocks, pending, n_pending, self.n_closed)
        return self._close(rows, n_pending) if self.max_rows else _empty_for(rows).add(rows)

    def _close(self, rows: NDArray[Any], n_pending: int) -> RecentRows:
        size = self.block_rows
        n_new, n_left = divmod(n_pending, size)
        n_kept = -(-self.max_rows // size)
        # Of a large batch, the first rows would be dropped again: they are not copied.
        n_skipped = max(0, n_new - n_kept) * size
        if n_skipped > self.n_pending:
            together = np.array(rows[n_skipped - self.n_pending :])
        else:
            together = np.concatenate((*self.pending, rows))[n_skipped:]
        end = len(together) - n_left
        new = tuple(together[start : start + size] for start in range(0, end, size))
        blocks = (*self.blocks, *new)[-n_kept:]
        pending = (together[end:].copy(),) if n_left else ()
        return RecentRows(self.max_rows, size, blocks, pending, n_left, self.n_closed + n_new)

    def last(self) -> NDArray[Any] | None:
        """Return the last ``max_rows`` rows, oldest first; None if there is none yet."""
        parts = (*self.blocks, *self.pending)
        return np.concatenate(parts)[-self.max_rows :] if parts else None

    def cleared(self, columns: list[int]) -> RecentRows:
        """Return the same rows with zeros in some columns."""

        def clear(rows: NDArray[Any]) -> NDArray[Any]:
            cleared = rows.copy()
            cleared[:, columns] = 0
            return cleared

        return self._replace(blocks=tuple(map(clear, self.blocks)), pending=tuple(map(clear, self.pending)))

    def to_plain(self) -> dict[str, Any]:
        """Return everything as one array and numbers."""
        parts = (*self.blocks, *self.pending)
        return {
            "max_rows": self.max_rows,
            "block_rows": self.block_rows,
            "n_waiting": self.n_pending,
            "n_closed": self.n_closed,
            "rows": np.concatenate(parts) if parts else None,
        }


NO_ROWS = RecentRows()


def recent_from_plain(plain: dict[str, Any]) -> RecentRows:
    """Undo ``to_plain``."""
    if plain["rows"] is None:
        return NO_ROWS
    rows, n_pending, size = plain["rows"], plain["n_waiting"], plain["block_rows"]
    end = len(rows) - n_pending
    blocks = tuple(rows[start : start + size] for start in range(0, end, size))
    return RecentRows(plain["max_rows"], size, blocks, (rows[end:],) if n_pending else (), n_pending, plain["n_closed"])


def _empty_for(rows: NDArray[Any]) -> RecentRows:
    """Return the structure before the first row; of wide rows it keeps fewer, at most about ``MAX_BYTES``."""
    max_rows = max(1, min(MAX_ROWS, MAX_BYTES // max(1, rows.itemsize * rows.shape[1])))
    return RecentRows(max_rows, min(BLOCK_ROWS, max_rows))


# --- What the last rounds did, in an immutable structure that costs about two microseconds per round


MAX_ROUNDS = 10_000
_BLOCK_ROUNDS = 32
_MOST_BLOCKS = -(-MAX_ROUNDS // _BLOCK_ROUNDS)
_NOTED = ("rows", "effective_rows", "share", "refit", "drift", "adapted")
_READ = ("value", "low", "high", "basis", "state")
_COLUMNS = (*_NOTED, *_READ)
_CODES = {"basis": ("expected", "labels"), "state": (HEALTHY, DEGRADED, UNCERTAIN)}
_KINDS = {"rows": np.int64, "refit": np.bool_, "drift": np.bool_, "adapted": np.bool_}
_UNKNOWN = (float("nan"),) * len(_READ)


class Read(NamedTuple):
    """What was read of a model after a round, for its history.

    Attributes
    ----------
    now : Estimate
        The model's own metric.
    state : str, optional
    """

    now: Estimate
    state: str | None = None

    def on(self, row: tuple[float, ...]) -> tuple[float, ...]:
        """Return the numbers of a round with what was read."""
        now, state = self.now, float("nan") if self.state is None else float(_CODES["state"].index(self.state))
        return (*row[: len(_NOTED)], now.value, now.low, now.high, float(_CODES["basis"].index(now.basis)), state)


class RoundLog(NamedTuple):
    """The last rounds, oldest first; every method returns new objects.

    Attributes
    ----------
    blocks : tuple of arrays of shape (32, 11)
        Closed blocks, as many as are needed for the last 10,000 rounds. Later states share them.
    pending : tuple of tuples of float
        The rounds since the last block, except for the last round.
    last : tuple of float or None
        The last round, of which something may yet be read.
    is_moved : bool
        Whether the adapted predictor is another one than the fixed predictor.
    """

    blocks: tuple[FloatArray, ...] = ()
    pending: tuple[tuple[float, ...], ...] = ()
    last: tuple[float, ...] | None = None
    is_moved: bool = False

    def after(
        self, read: Read | None, n_effective: float, n_rows: int, *, share: float, refit: bool, drift: bool, held: bool
    ) -> RoundLog:
        """Return the log after one more round.

        Parameters
        ----------
        read : Read or None
            What was read after the round before.
        n_effective : float
            Effective rows of the reference.
        n_rows : int
        share : float
            How far the ratio counts; 0 while there is nothing to adapt to.
        refit, drift, held : bool
            Whether the round refitted, whether it found a change, and whether the fixed predictor is to predict.
        """
        # Without a ratio, the round has put the fixed predictor in the place of the adapted one.
        is_moved = refit or (self.is_moved and share != 0.0)
        adapted = is_moved and not held
        last = (float(n_rows), n_effective, share, float(refit), float(drift), float(adapted), *_UNKNOWN)
        if self.last is None:
            return RoundLog(self.blocks, self.pending, last, is_moved)
        pending = (*self.pending, self.last if read is None else read.on(self.last))
        if len(pending) < _BLOCK_ROUNDS:
            return RoundLog(self.blocks, pending, last, is_moved)
        return RoundLog((*self.blocks, np.array(pending))[-_MOST_BLOCKS:], (), last, is_moved)

    def noting(self, n_ago: int, read: Read) -> RoundLog:
        """Return the log with what was read of a round when others have followed.

        Parameters
        ----------
        n_ago : int
            Rounds since then; 0 is the last one. A round that is no longer kept is left out.
        read : Read
        """
        if n_ago == 0:
            return self._replace(last=None if self.last is None else read.on(self.last))
        if n_ago <= len(self.pending):
            place = len(self.pending) - n_ago
            row = read.on(self.pending[place])
            return self._replace(pending=(*self.pending[:place], row, *self.pending[place + 1 :]))
        place = _BLOCK_ROUNDS * len(self.blocks) - (n_ago - len(self.pending))
        if place < 0:
            return self
        number, row_number = divmod(place, _BLOCK_ROUNDS)
        block = self.blocks[number].copy()  # earlier states share it
        block[row_number] = read.on(tuple(block[row_number].tolist()))
        return self._replace(blocks=(*self.blocks[:number], block, *self.blocks[number + 1 :]))

    def rows(self, read: Read | None = None) -> FloatArray:
        """Return all that is kept as one array, with what was read after the last round."""
        last = () if self.last is None else (self.last if read is None else read.on(self.last),)
        open_rows = np.array((*self.pending, *last)).reshape(-1, len(_COLUMNS))
        return np.concatenate((*self.blocks, open_rows))

    def to_plain(self, read: Read | None) -> dict[str, Any]:
        """Return everything as one array and numbers."""
        return {"rows": self.rows(read), "n_waiting": len(self.pending), "is_moved": self.is_moved}


NO_ROUNDS = RoundLog()


def rounds_from_plain(plain: dict[str, Any]) -> RoundLog:
    """Undo ``to_plain``."""
    if not len(plain["rows"]):
        return RoundLog(is_moved=plain["is_moved"])
    rows, n_pending = plain["rows"], plain["n_waiting"]
    end = len(rows) - 1 - n_pending
    blocks = tuple(rows[start : start + _BLOCK_ROUNDS] for start in range(0, end, _BLOCK_ROUNDS))
    *pending, last = (tuple(row) for row in rows[end:].tolist())
    return RoundLog(blocks, tuple(pending), last, plain["is_moved"])


def rounds_frame(log: RoundLog, read: Read | None, n_rounds: int, learned: Sequence[LearningEvent]) -> Any:
    """Return the last 10,000 rounds as a pandas frame.

    Parameters
    ----------
    log : RoundLog
    read : Read or None
        What was read after the last round.
    n_rounds : int
        Number of the last round.
    learned : sequence of LearningEvent
        Refits on labels.
    """
    pandas = import_extra("pandas", "history_")
    rows = log.rows(read)[-MAX_ROUNDS:]
    columns: dict[str, Any] = {
        name: rows[:, number].astype(_KINDS.get(name, np.float64)) for number, name in enumerate(_COLUMNS)
    }
    for name, codes in _CODES.items():
        columns[name] = [None if np.isnan(each) else codes[int(each)] for each in columns[name]]
    first = n_rounds - len(rows) + 1
    numbers = pandas.RangeIndex(first, n_rounds + 1, name="round")
    columns |= {"learned": np.zeros(len(rows), dtype=np.int64), "learned_weight": np.zeros(len(rows))}
    for event in learned:
        columns["learned_weight"][max(0, event.round - first) :] = event.weight
        if event.round >= first:
            columns["learned"][event.round - first] += event.n_new
    return pandas.DataFrame(columns, index=numbers)


# --- What each round shows about the inputs: rows out of bound, columns that moved, a log of changes


HALF_LIFE = 64
ROUND_DECAY = 0.5 ** (1.0 / HALF_LIFE)
# Reached by a log ratio with a standard deviation of 1/7 in one look, or a smaller one in several looks.
_SMALLEST_VARIANCE = 0.02
LOOK_DECAY = 0.5 ** (ROUNDS_BETWEEN_LOOKS / HALF_LIFE)


@dataclass(frozen=True, slots=True)
class Watch:
    """What was observed so far.

    Attributes
    ----------
    n_recent : float
        Number of rounds, discounted with a half-life of 64.
    n_recent_out : float
        Sum over the rounds of the share of rows out of bound, with the same discount.
    column_parts : array of shape (n_features,)
        Contribution of each column to the variance of the log ratio, summed over looks and discounted.
    log : DriftLog or None
        None if the ratio has no theta.
    """

    n_recent: float
    n_recent_out: float
    column_parts: FloatArray
    log: DriftLog | None

    @property
    def column_shares(self) -> FloatArray:
        """Share of each column; zeros if the log ratio of recent rounds hardly varied."""
        return shares_of_parts(self.column_parts)

    def found_change(self, before: Watch) -> bool:
        """Whether a change of the inputs was detected since an earlier watch."""
        if self.log is None or before.log is None:
            return False
        new, old = self.log.events, before.log.events
        return bool(new) and (not old or new[-1].round != old[-1].round)


def shares_of_parts(parts: FloatArray) -> FloatArray:
    """Return the share of each column; zeros if the parts are too small to speak of a shift."""
    return np.zeros_like(parts) if parts.sum() < _SMALLEST_VARIANCE else shares(parts)


def start_watch(ratio: Any, n_features: int) -> Watch:
    """Return a watch that has observed nothing yet."""
    return Watch(0.0, 0.0, np.zeros(n_features), start_log(ratio.coef_) if ratio.has_scores else None)


def watch_round(
    watch: Watch,
    *,
    this_round: int,
    before: Any,
    after: Any,
    n_rows: int,
    exponent: float,
    columns: ReferenceColumns,
    names: list[str],
) -> Watch:
    """Return the watch after a round, given the ratio before and after it; columns are examined every 16 rounds."""
    n_recent_out = watch.n_recent_out
    if watch.log is not None:
        n_recent_out = ROUND_DECAY * n_recent_out + (after.n_out_of_bound_ - before.n_out_of_bound_) / n_rows
    watch = Watch(ROUND_DECAY * watch.n_recent + 1.0, n_recent_out, watch.column_parts, watch.log)
    if this_round % ROUNDS_BETWEEN_LOOKS:
        return watch
    with nullcontext() if after.is_free_of_blas else one_blas_thread():
        if watch.log is None:
            return _look_at_ratios(watch, after, exponent, columns)
        return _look_at_scores(watch, this_round, after, exponent, columns, names)


def _look_at_scores(
    watch: Watch, this_round: int, ratio: Any, exponent: float, columns: ReferenceColumns, names: list[str]
) -> Watch:
    """Examine a ratio that is a function of scores: its theta shows what moved, and by how much."""
    assert watch.log is not None
    parts = LOOK_DECAY * watch.column_parts
    change = exponent * (ratio.coef_ - ratio.neutral_coef_)
    if exponent:
        parts += parts_of_coef(ratio, change, columns)
    log = watch.log.look(
        this_round,
        ratio.neutral_coef_ + change,
        weigh=ratio.ratios_at,
        name=lambda change: main_columns(shares(parts_of_coef(ratio, change, columns)), names),
        recall=ratio.earlier_visit,
    )
    return Watch(watch.n_recent, watch.n_recent_out, parts, log)


def _look_at_ratios(watch: Watch, ratio: Any, exponent: float, columns: ReferenceColumns) -> Watch:
    """Examine any other ratio: which columns correlate with its values on the reference."""
    parts = LOOK_DECAY * watch.column_parts
    if exponent:
        log_ratios = np.log(np.maximum(np.asarray(ratio.reference_ratio_, dtype=np.float64), 0.01))
        parts += exponent**2 * columns.parts(log_ratios)
    return replace(watch, column_parts=parts)


def parts_of_coef(ratio: Any, coef: FloatArray, columns: ReferenceColumns) -> FloatArray:
    """Return the contribution of each column to the variance of the score at a theta, or at a difference of two."""
    if ratio.features_.keeps_columns:
        # Each feature is a column; the intercept comes last.
        return linear_parts(coef, ratio.score_covariances(coef))[: ratio.features_.n_columns]
    return columns.parts(np.asarray(ratio.reference_features_ @ coef, dtype=np.float64))


# --- Whether the reference covers the recent rows of an adaptive model; computed when you read it


class ReferenceCover:
    """What is computed once from the reference, on first use, to compare recent rows with it.

    Parameters
    ----------
    reference : array or frame
        As the predictor reads it.
    ratio : RatioEstimator
    has_numbers : bool
        Whether the predictor reads the rows as numbers; otherwise the ratio's numbers are used.
    names : list of str
        Names of the input columns.
    """

    def __init__(self, reference: Any, ratio: RatioEstimator, names: list[str], *, has_numbers: bool) -> None:
        self._reference, self._ratio, self._names = reference, ratio, names
        self._has_numbers = has_numbers
        # Mapped rows have no columns that the user knows.
        self.has_columns = has_numbers or ratio.reads_numbers
        self._judged: list[tuple[FloatArray, BoolArray]] = []

    @cached_property
    def numbers(self) -> FloatArray | None:
        """The reference as numbers, in the same form as the recent rows."""
        return self._reference if self._has_numbers else self._ratio.as_numbers(self._ratio.reference_)

    @cached_property
    def neighbours(self) -> ReferenceNeighbours:
        """The index for rows outside the joint distribution."""
        assert self.numbers is not None
        return ReferenceNeighbours(self.numbers)

    @cached_property
    def compared(self) -> ComparedReference:
        """What the strength of the drift needs."""
        assert self.numbers is not None
        return ComparedReference(self.numbers)

    @cached_property
    def ranges(self) -> ColumnRanges | None:
        """The range of each column; None if the recent rows are not columns that the user knows."""
        if not self.has_columns or self.numbers is None:
            return None
        return ColumnRanges.of(self.numbers, self._names)

    def judge(self, recent: RecentRows) -> Coverage:
        """Compare recent rows with the reference."""
        rows = recent.last()
        if rows is None or self.numbers is None:
            return Coverage(0, float("nan"), float("nan"))
        findings = () if self.ranges is None else self.ranges.findings(rows)
        if len(rows) < MIN_ROWS:
            return Coverage(len(rows), float("nan"), float("nan"), findings)
        with one_blas_thread():
            share = float(np.mean(self._is_outside(recent)))
            return Coverage(len(rows), share, self.compared.drift_to(rows), findings)

    def _is_outside(self, recent: RecentRows) -> BoolArray:
        """Which of the recent rows are outside the reference; what was found for a closed block is kept while it is."""
        # By ids of now: after a pickle a block has another one. Threads replace the list, which holds blocks as well so
        # that no other block can get the id of one.
        known = {id(block): (block, found) for block, found in self._judged}
        new = [block for block in recent.blocks if id(block) not in known]
        parts = (*new, *recent.pending)
        found = self.neighbours.is_outside(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.bool_)
        *of_new, of_pending = np.split(found, np.cumsum([len(block) for block in new], dtype=np.int64))
        known |= {id(block): (block, each) for block, each in zip(new, of_new, strict=True)}
        self._judged = judged = [known[id(block)] for block in recent.blocks]
        return np.concatenate((*(each for _, each in judged), of_pending))[-recent.max_rows :]


def watch_columns(watch: ColumnWatch, cover: ReferenceCover, this_round: int, recent: RecentRows) -> ColumnWatch:
    """Return the watch after a look at the closed blocks of recent rows, if there are new ones."""
    ranges = cover.ranges
    if ranges is None or recent.n_closed == watch.n_closed:
        return watch
    rows = np.concatenate(recent.blocks)
    return watch.look(this_round, recent.n_closed, ranges.rare(ranges.count(rows), len(rows)))
