"""Whether the reference covers the recent rows of an adaptive model; computed when you read it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from accous.arrays import BoolArray, FloatArray
from accous.classifier.recent_rows import RecentRows
from accous.diagnostics.coverage import MIN_ROWS, ColumnRanges, ColumnWatch, Coverage
from accous.diagnostics.drift import ComparedReference, ReferenceNeighbours
from accous.ratio.base.base import RatioEstimator
from accous.threads import one_blas_thread

__all__ = ["Covering", "ReferenceCover", "watch_columns"]

_LATEST_ROWS = 64


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
        self._judged: dict[int, tuple[FloatArray, BoolArray]] = {}

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
            return Coverage(len(rows), share, self.compared.drift_to(rows), findings, self.compared.n_compared)

    def judge_latest(self, recent: RecentRows) -> Coverage:
        """Compare the latest of the recent rows with the reference."""
        rows = recent.last()
        if rows is None or self.numbers is None or len(rows) < MIN_ROWS:
            return Coverage(0, float("nan"), float("nan"))
        latest = rows[-_LATEST_ROWS:]
        with one_blas_thread():
            share = float(np.mean(self.neighbours.is_outside(latest)))
            return Coverage(len(latest), share, self.compared.drift_to(latest), (), self.compared.n_compared)

    def _is_outside(self, recent: RecentRows) -> BoolArray:
        """Which of the recent rows are outside the reference; what was found for a closed block is kept while it is."""
        blocks = recent.blocks
        known = {id(block): self._judged.get(id(block)) or self._judge_block(block) for block in blocks}
        self._judged = known
        parts = [known[id(block)][1] for block in blocks]
        if recent.waiting:
            parts.append(self.neighbours.is_outside(np.concatenate(recent.waiting)))
        return np.concatenate(parts)[-recent.max_rows :]

    def _judge_block(self, block: FloatArray) -> tuple[FloatArray, BoolArray]:
        # With the block itself, so that no other one can get its id.
        return block, self.neighbours.is_outside(block)


class Covering:
    """The attribute of an adaptive model that says whether the reference covers the recent rows."""

    state_: Any
    rules_: Any

    @property
    def coverage_(self) -> Coverage:
        """How well the reference covers the recent rows: jointly, and column by column."""
        return self._coverage(self.state_)

    @property
    def latest_coverage_(self) -> Coverage:
        """How the reference lies beside the last 64 rows alone, which the weights follow; nothing about columns."""
        cache = self.state_.cache
        if "latest_coverage" not in cache:
            cache["latest_coverage"] = self.rules_.cover.judge_latest(self.state_.recent)
        coverage: Coverage = cache["latest_coverage"]
        return coverage

    def _coverage(self, state: Any) -> Coverage:
        if "coverage" not in state.cache:
            state.cache["coverage"] = self.rules_.cover.judge(state.recent)
        coverage: Coverage = state.cache["coverage"]
        return coverage


def watch_columns(watch: ColumnWatch, cover: ReferenceCover, this_round: int, recent: RecentRows) -> ColumnWatch:
    """Return the watch after a look at the closed blocks of recent rows, if there are new ones."""
    ranges = cover.ranges
    if ranges is None or recent.n_closed == watch.n_closed:
        return watch
    rows = np.concatenate(recent.blocks)
    return watch.look(this_round, recent.n_closed, ranges.rare(ranges.count(rows), len(rows)))
