r"""Running counts over labels that arrive late.

Every labelled row counts with a weight that halves every 500 labelled rows, so that the sums are about now. A CUSUM of
losses over the estimated one p grows soon after a jump:

.. math:: S_n = \max(0, S_{n-1} + e_n - p_n - 0.25), \qquad e_n = 1 \text{ where the predicted class was wrong.}

Losses of numbers are divided by the loss that counts as 1 (`accous.diagnostics.loss_scale`), and a single row counts as
1 at most, so that no outlier raises the alarm alone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.interval_counts import NO_INTERVALS, IntervalCounts
from accous.diagnostics.judged_rows import AuditRows, JudgedRows
from accous.diagnostics.label_blocks import NO_BLOCKS, LabelBlocks
from accous.diagnostics.latest_labels import keep_latest
from accous.diagnostics.measured_words import LABEL_HALF_LIFE

__all__ = ["LABEL_HALF_LIFE", "MOST_AUDITED", "MOST_AUDITED_BYTES", "LateLabels", "Sum"]

MOST_AUDITED = 500
"""Labelled rows that are kept for the test of P(y | x); fewer if they are wide."""

MOST_AUDITED_BYTES = 4_000_000
"""About the most memory that the features of those rows take."""

_DECAY = 0.5 ** (1.0 / LABEL_HALF_LIFE)
_ALLOWANCE = 0.25
# The CUSUM stops growing at twice the highest alarm, so that it comes down soon after the errors do.
_LARGEST_CUSUM = 20.0
_MOST_NAMES = 100
_OTHER_NAMES = "(other)"
_LONGEST_CACHED = 1_000
# What an earlier predictor's labels still count for, in rows.
_ROWS_AFTER_REFIT = 50.0


class Sum(IntEnum):
    """The places of the discounted sums."""

    WEIGHT = 0
    LOSS = 1
    WEIGHT_FIXED = 2
    LOSS_FIXED = 3
    WEIGHT_ESTIMATED = 4
    ESTIMATED = 5
    ESTIMATED_LOW = 6
    ESTIMATED_HIGH = 7
    LOSS_COMPARED = 8
    SQUARED_DIFFERENCE = 9
    LOSS_ESTIMATED = 10


@dataclass(frozen=True, kw_only=True)
class LateLabels:
    """Running counts over all labels that arrived late; new labels make a new object.

    Attributes
    ----------
    n_labelled : int
        Labelled rows so far.
    n_unseen : tuple of (str, int)
        Rows of each class that the reference does not have.
    sums : array of shape (11,)
        Discounted sums, at the places that `Sum` names.
    squares, squares_fixed : float
        Sum of the squared weights, of all rows and of those on which both predictors are compared.
    last_row : int
        Rows of the stream when the last label arrived.
    cusum : float
    squared_losses : float
        Discounted sum of the squared losses of the predictor in use.
    plain_loss : float
        Sum of the losses of the predictor in use since rows last joined the reference, each row counting alike; NaN if
        labels were counted before this sum was kept.
    n_before : int, optional
        Labelled rows when rows last joined the reference; None if none did.
    intervals : IntervalCounts
        How many true numbers lay inside their prediction intervals.
    blocks : LabelBlocks
        What labels measured block by block since rows last joined the reference.
    latest : array of shape (n_latest,)
        The last 200 losses since then.
    kept : tuple of AuditRows
        The last rows whose features are known, in the pieces they came in; at least the last 500, or as many as take
        4 MB.
    """

    n_labelled: int = 0
    n_unseen: tuple[tuple[str, int], ...] = ()
    sums: FloatArray = field(default_factory=lambda: np.zeros(len(Sum)))
    squares: float = 0.0
    squares_fixed: float = 0.0
    last_row: int = 0
    cusum: float = 0.0
    squared_losses: float = 0.0
    plain_loss: float = 0.0
    n_before: int | None = None
    intervals: IntervalCounts = NO_INTERVALS
    blocks: LabelBlocks = NO_BLOCKS
    latest: FloatArray = field(default_factory=lambda: np.zeros(0))
    kept: tuple[AuditRows, ...] = ()

    def after(self, rows: JudgedRows) -> LateLabels:
        """Return the counts after some more labelled rows, in the order in which they count."""
        if not len(rows):
            return self
        powers = _powers(len(rows))
        shrunk = _DECAY ** len(rows)
        return LateLabels(
            n_labelled=self.n_labelled + len(rows),
            n_unseen=_add_names(self.n_unseen, rows.unseen_names) if rows.unseen_names else self.n_unseen,
            # Not a product of matrices, whose bits could depend on the number of threads.
            sums=shrunk * self.sums + (powers[:, None] * _summands(rows)).sum(axis=0),
            squares=shrunk**2 * self.squares + float((powers**2).sum()),
            squares_fixed=shrunk**2 * self.squares_fixed
            + (0.0 if rows.losses_fixed is None else float((powers**2).sum())),
            last_row=self.last_row,
            cusum=_add_to_cusum(self.cusum, rows),
            squared_losses=shrunk * self.squared_losses + float((powers * rows.losses**2).sum()),
            plain_loss=self.plain_loss + float(rows.losses.sum()),
            n_before=self.n_before,
            intervals=self.intervals
            if rows.is_inside is None
            else self.intervals.after(rows.is_inside, powers, shrunk),
            blocks=self.blocks.after(rows.losses, rows.estimates),
            latest=keep_latest(self.latest, rows.losses),
            kept=self._keep(rows),
        )

    def after_refit(self, classes: frozenset[str]) -> LateLabels:
        """Return what stays when both predictors were fitted on another reference.

        Earlier labels count as 50 rows at most, beside later ones and in the widths of intervals. The kept rows are
        forgotten, and the CUSUM starts again.

        Parameters
        ----------
        classes : frozenset of str
            Names of the classes that the new reference has.
        """
        share = min(1.0, _ROWS_AFTER_REFIT / self.sums[Sum.WEIGHT]) if self.sums[Sum.WEIGHT] else 1.0
        sums = share * self.sums

        def squares_of(squares: float, weight: float) -> float:
            """Return the sum of squares that leaves 50 effective rows at most."""
            return float(max(share**2 * squares, weight**2 / _ROWS_AFTER_REFIT))

        still_unseen = tuple((name, count) for name, count in self.n_unseen if name not in classes)
        return replace(
            self,
            n_unseen=still_unseen,
            sums=sums,
            squares=squares_of(self.squares, sums[Sum.WEIGHT]),
            squares_fixed=squares_of(self.squares_fixed, sums[Sum.WEIGHT_FIXED]),
            cusum=0.0,
            squared_losses=share * self.squared_losses,
            plain_loss=0.0,
            n_before=self.n_labelled,
            intervals=NO_INTERVALS,
            blocks=NO_BLOCKS,
            latest=np.zeros(0),
            kept=(),
        )

    @property
    def n_plain(self) -> int:
        """Labelled rows since rows last joined the reference."""
        return self.n_labelled - (self.n_before or 0)

    @property
    def audit_rows(self) -> AuditRows | None:
        """The last 500 rows whose features are known, fewer if they are wide; None if there are none."""
        if not self.kept:
            return None
        limit = _most_audited(self.kept[-1].features)
        return AuditRows(
            features=np.concatenate([each.features for each in self.kept]),
            errors_fixed=np.concatenate([each.errors_fixed for each in self.kept]),
            is_unseen=np.concatenate([each.is_unseen for each in self.kept]),
        ).last(limit)

    def packed(self) -> LateLabels:
        """Return the same counts with the kept rows in one piece, as they are saved."""
        rows = self.audit_rows
        return self if rows is None else replace(self, kept=(rows,))

    def _keep(self, rows: JudgedRows) -> tuple[AuditRows, ...]:
        if rows.features is None or rows.errors_fixed is None:
            return self.kept
        limit = _most_audited(rows.features)
        # A copy: a view would keep all the rows in memory.
        features = rows.features[-limit:].copy() if len(rows) > limit else rows.features
        new = AuditRows(features=features, errors_fixed=rows.errors_fixed[-limit:], is_unseen=rows.is_unseen[-limit:])
        pieces = [*self.kept, new]
        n_rows = sum(map(len, pieces))
        n_dropped = 0
        while n_rows - len(pieces[n_dropped]) >= limit:
            n_rows -= len(pieces[n_dropped])
            n_dropped += 1
        return tuple(pieces[n_dropped:])


def _most_audited(features: FloatArray) -> int:
    """Rows to keep of that width, at least one."""
    return max(1, min(MOST_AUDITED, MOST_AUDITED_BYTES // max(1, features.itemsize * features.shape[1])))


def _powers(n_rows: int) -> FloatArray:
    """Weights of the rows, oldest first; those of a few rows are computed once."""
    return _cached_powers(n_rows) if n_rows <= _LONGEST_CACHED else _compute_powers(n_rows)


def _compute_powers(n_rows: int) -> FloatArray:
    powers = _DECAY ** np.arange(n_rows - 1, -1, -1, dtype=np.float64)
    powers.setflags(write=False)
    return powers


_cached_powers = lru_cache(maxsize=64)(_compute_powers)


def _summands(rows: JudgedRows) -> FloatArray:
    """What each row adds to the discounted sums."""
    summands = np.zeros((len(rows), len(Sum)))
    summands[:, Sum.WEIGHT] = 1.0
    summands[:, Sum.LOSS] = rows.losses
    if rows.losses_fixed is not None:
        summands[:, Sum.WEIGHT_FIXED] = 1.0
        summands[:, Sum.LOSS_FIXED] = rows.losses_fixed
        summands[:, Sum.LOSS_COMPARED] = rows.losses
        summands[:, Sum.SQUARED_DIFFERENCE] = (rows.losses - rows.losses_fixed) ** 2
    is_estimated = ~np.isnan(rows.estimates[:, 0])
    summands[:, Sum.WEIGHT_ESTIMATED] = is_estimated
    summands[:, Sum.ESTIMATED : Sum.ESTIMATED_HIGH + 1] = np.where(is_estimated[:, None], rows.estimates, 0.0)
    summands[:, Sum.LOSS_ESTIMATED] = np.where(is_estimated, rows.losses, 0.0)
    return summands


def _add_to_cusum(cusum: float, rows: JudgedRows) -> float:
    losses, expected = np.minimum(rows.losses / rows.one, 1.0), rows.estimates[:, 0] / rows.one
    for step in (losses - expected - _ALLOWANCE).tolist():
        if not math.isnan(step):
            cusum = min(_LARGEST_CUSUM, max(0.0, cusum + step))
    return cusum


def _add_names(counts: tuple[tuple[str, int], ...], names: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Add the names of classes; beyond a hundred names, the rest are counted together."""
    total = dict(counts)
    for name, count in Counter(names).items():
        place = name if name in total or len(total) < _MOST_NAMES else _OTHER_NAMES
        total[place] = total.get(place, 0) + count
    return tuple(total.items())
