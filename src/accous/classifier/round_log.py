"""What the last rounds did, in an immutable structure that costs about two microseconds per round.

A round notes what it has at hand: its rows, the effective rows of the reference, how far the ratio was used, whether it
refitted, found a change, and which model predicts. The estimated error costs as much as several rounds, so it is noted
only for rounds after which it was read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accous.arrays import FloatArray
from accous.core.kernels_rows import effective_rows
from accous.extras import import_extra

__all__ = ["MAX_ROUNDS", "NO_ROUNDS", "RoundLog", "rounds_frame", "rounds_from_plain"]

MAX_ROUNDS = 10_000
_BLOCK_ROUNDS = 32
_MOST_BLOCKS = -(-MAX_ROUNDS // _BLOCK_ROUNDS)
_NOTED = ("rows", "effective_rows", "share", "refit", "drift", "adapted")
_ERRORS = ("estimated_error", "estimated_error_low", "estimated_error_high")
_COLUMNS = (*_NOTED, *_ERRORS)
_KINDS = {"rows": np.int64, "refit": np.bool_, "drift": np.bool_, "adapted": np.bool_}
_UNKNOWN = (float("nan"),) * len(_ERRORS)


class RoundLog(NamedTuple):
    """The last rounds, oldest first; every method returns new objects.

    Attributes
    ----------
    blocks : tuple of arrays of shape (32, 9)
        Closed blocks, as many as are needed for the last 10,000 rounds. Later states share them.
    waiting : tuple of tuples of float
        The rounds since the last block, except for the last round.
    last : tuple of float or None
        The last round, whose error may yet be read.
    is_moved : bool
        Whether the adapted predictor is another one than the fixed predictor.
    """

    blocks: tuple[FloatArray, ...] = ()
    waiting: tuple[tuple[float, ...], ...] = ()
    last: tuple[float, ...] | None = None
    is_moved: bool = False

    def after(
        self,
        cache: dict[str, Any],
        weights: FloatArray,
        n_rows: int,
        *,
        share: float,
        refit: bool,
        drift: bool,
        held: bool,
    ) -> RoundLog:
        """Return the log after one more round.

        Parameters
        ----------
        cache : dict
            What was read after the round before.
        weights : array of shape (n_reference,)
        n_rows : int
        share : float
            How far the ratio counts; 0 while there is nothing to adapt to.
        refit, drift, held : bool
            Whether the round refitted, whether it found a change, and whether the fixed predictor is to predict.
        """
        # Without a ratio, the round has put the fixed predictor in the place of the adapted one.
        is_moved = refit or (self.is_moved and share != 0.0)
        adapted = is_moved and not held
        last = (float(n_rows), effective_rows(weights), share, float(refit), float(drift), float(adapted), *_UNKNOWN)
        if self.last is None:
            return RoundLog(self.blocks, self.waiting, last, is_moved)
        waiting = (*self.waiting, _with_error(self.last, cache) if "wide_risk" in cache else self.last)
        if len(waiting) < _BLOCK_ROUNDS:
            return RoundLog(self.blocks, waiting, last, is_moved)
        return RoundLog((*self.blocks, np.array(waiting))[-_MOST_BLOCKS:], (), last, is_moved)

    def noting(self, n_ago: int, risk: Any) -> RoundLog:
        """Return the log with the error that was estimated after a round, read when others have followed.

        Parameters
        ----------
        n_ago : int
            Rounds since then; 0 is the last one. A round that is no longer kept is left out.
        risk : RiskEstimate
        """
        cache = {"wide_risk": risk}
        if n_ago == 0:
            return self._replace(last=None if self.last is None else _with_error(self.last, cache))
        if n_ago <= len(self.waiting):
            place = len(self.waiting) - n_ago
            row = _with_error(self.waiting[place], cache)
            return self._replace(waiting=(*self.waiting[:place], row, *self.waiting[place + 1 :]))
        place = _BLOCK_ROUNDS * len(self.blocks) - (n_ago - len(self.waiting))
        if place < 0:
            return self
        number, row_number = divmod(place, _BLOCK_ROUNDS)
        block = self.blocks[number].copy()  # earlier states share it
        block[row_number] = _with_error(tuple(block[row_number].tolist()), cache)
        return self._replace(blocks=(*self.blocks[:number], block, *self.blocks[number + 1 :]))

    def rows(self, cache: dict[str, Any]) -> FloatArray:
        """Return all that is kept as one array, with what was read after the last round."""
        last = () if self.last is None else (_with_error(self.last, cache),)
        open_rows = np.array((*self.waiting, *last)).reshape(-1, len(_COLUMNS))
        return np.concatenate((*self.blocks, open_rows))

    def share_adapted(self, n_rounds: int) -> float:
        """Return the share of the last rounds that the adapted predictor has predicted, of those that are kept.

        A round notes which predictor it leaves behind, which is the one that predicts the next round.

        Parameters
        ----------
        n_rounds : int
            At least 1.
        """
        before = self.rows({})[:-1][-n_rounds:, _COLUMNS.index("adapted")]
        # The first round of all was predicted by the fixed predictor.
        return float(before.sum() / max(1, min(n_rounds, len(before) + 1)))

    def to_plain(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Return everything as one array and numbers."""
        return {"rows": self.rows(cache), "n_waiting": len(self.waiting), "is_moved": self.is_moved}


NO_ROUNDS = RoundLog()


def rounds_from_plain(plain: dict[str, Any] | None, n_refits: int = 0) -> RoundLog:
    """Undo ``to_plain``; of states that were saved before rounds were noted, only the number of refits is known."""
    if plain is None:
        return RoundLog(is_moved=n_refits > 0)
    if not len(plain["rows"]):
        return RoundLog(is_moved=plain["is_moved"])
    rows, n_waiting = plain["rows"], plain["n_waiting"]
    end = len(rows) - 1 - n_waiting
    blocks = tuple(rows[start : start + _BLOCK_ROUNDS] for start in range(0, end, _BLOCK_ROUNDS))
    *waiting, last = (tuple(row) for row in rows[end:].tolist())
    return RoundLog(blocks, tuple(waiting), last, plain["is_moved"])


def rounds_frame(log: RoundLog, cache: dict[str, Any], n_rounds: int) -> Any:
    """Return the last 10,000 rounds as a pandas frame.

    Parameters
    ----------
    log : RoundLog
    cache : dict
        What was read after the last round.
    n_rounds : int
        Number of the last round.
    """
    pandas = import_extra("pandas", "history_")
    rows = log.rows(cache)[-MAX_ROUNDS:]
    columns: dict[str, Any] = {
        name: rows[:, number].astype(_KINDS.get(name, np.float64)) for number, name in enumerate(_COLUMNS)
    }
    numbers = pandas.RangeIndex(n_rounds - len(rows) + 1, n_rounds + 1, name="round")
    return pandas.DataFrame(columns, index=numbers)


def _with_error(row: tuple[float, ...], cache: dict[str, Any]) -> tuple[float, ...]:
    risk = cache.get("wide_risk")
    if risk is None:
        return row
    return (*row[: len(_NOTED)], risk.adapted, risk.adapted_low, risk.adapted_high)
