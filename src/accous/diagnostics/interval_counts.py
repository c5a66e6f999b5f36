"""How many true numbers lay inside their prediction intervals, by late labels, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from accous.arrays import FloatArray
from accous.diagnostics.shares import wilson_interval

if TYPE_CHECKING:
    from accous.diagnostics.measured import MeasuredError
    from accous.diagnostics.trust import Trust

__all__ = ["ALPHA", "NO_INTERVALS", "IntervalCounts", "doubt_about_intervals", "inside_of"]

ALPHA = 0.1
"""Share of the true numbers that may lie outside the intervals of tables."""

_FEWEST_ROWS = 20
_FADED = 1e-12
# Many labels find the smallest gap, and rows of a stream are less independent than the interval of the share assumes.
_TOLERATED = 0.025
_NOT_COVERED = (
    "The reference does not cover the inputs, so nothing says how many true numbers lie between low and high: do not "
    "rely on them."
)
_NOT_BELIEVED = (
    "The estimated error cannot be believed, and so low and high cannot either: they come from the same reference."
)


@dataclass(frozen=True)
class IntervalCounts:
    """Running counts over labelled rows that had an interval.

    Attributes
    ----------
    n_rows : int
        Such rows, since rows last joined the reference.
    weight, inside, squares : float
        Discounted sums of the rows, of those whose true number lay inside, and of the squared weights.
    """

    n_rows: int = 0
    weight: float = 0.0
    inside: float = 0.0
    squares: float = 0.0

    def after(self, is_inside: FloatArray, powers: FloatArray, shrunk: float) -> IntervalCounts:
        """Return the counts after some more rows.

        Parameters
        ----------
        is_inside : array of shape (n_rows,)
            1 or 0; NaN where there was no interval.
        powers : array of shape (n_rows,)
            Weights of the rows.
        shrunk : float
            What earlier weights are multiplied with.
        """
        is_known = ~np.isnan(is_inside)
        known = powers[is_known]
        return IntervalCounts(
            n_rows=self.n_rows + len(known),
            weight=shrunk * self.weight + float(known.sum()),
            inside=shrunk * self.inside + float((known * is_inside[is_known]).sum()),
            squares=shrunk**2 * self.squares + float((known**2).sum()),
        )

    @property
    def _is_counted(self) -> bool:
        """Whether there are rows enough, and they still weigh something: later rows without intervals fade them out."""
        return self.n_rows >= _FEWEST_ROWS and self.squares > _FADED

    @property
    def share(self) -> float:
        """Share of the recent true numbers that lay inside; NaN with fewer than 20 rows, or long after the last one."""
        return self.inside / self.weight if self._is_counted else float("nan")

    @property
    def are_too_narrow(self) -> bool:
        """Whether clearly fewer true numbers lay inside than promised: by more than 2.5 points, sampling aside."""
        if not self._is_counted:
            return False
        return bool(wilson_interval(self.share, self.weight**2 / self.squares)[1] < 1.0 - ALPHA - _TOLERATED)

    @property
    def sentence(self) -> str:
        """The result in plain words; empty with fewer than 20 rows."""
        if not self._is_counted:
            return ""
        rows = f"Of the true numbers of {self.n_rows:,} labelled rows, {self.share:.0%} lay between low and high"
        advice = ": do not rely on them." if self.are_too_narrow else "."
        return f"{rows} (recent rows count more); {1.0 - ALPHA:.0%} were promised{advice}"


NO_INTERVALS = IntervalCounts()


def inside_of(ends: FloatArray, truths: FloatArray) -> FloatArray:
    """Return where true numbers lie inside intervals, 1 or 0; NaN where there is no interval.

    Examples
    --------
    >>> inside_of(np.array([[0.0, 2.0], [0.0, 2.0], [np.nan, np.nan]]), np.array([1.0, 3.0, 1.0]))
    array([ 1.,  0., nan])
    """
    low, high = ends[:, 0], ends[:, 1]
    return np.where(np.isnan(low) | np.isnan(high), np.nan, (low <= truths) & (truths <= high))


def doubt_about_intervals(measured: MeasuredError | None, trust: Trust) -> str:
    """Say in one sentence how far prediction intervals can be relied on; empty if nothing speaks about them.

    Labels decide. Without them, intervals are doubted where the estimated error is: both come from the reference.

    Parameters
    ----------
    measured : MeasuredError, optional
    trust : Trust
    """
    if measured is not None and measured.intervals.sentence:
        return measured.intervals.sentence
    if trust.inputs.answer == "no":
        return _NOT_COVERED
    return _NOT_BELIEVED if trust.predictions.answer == "no" else ""
