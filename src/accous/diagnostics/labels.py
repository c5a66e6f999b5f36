"""What labels that come late show: the measured error, audits, and whether they contradict the estimate."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray
from accous.core.regression import leave_one_out_predictions, make_problem, make_ridge_problem, solve, solve_ridge
from accous.diagnostics.losses import LEVEL, SQUARED, NumberLoss
from accous.diagnostics.messages import CLOSE, CONCEPT_CHANGED, ERRORS, LABEL_HALF_LIFE, LossScale, sentence_of
from accous.diagnostics.risk import is_telling, wilson_interval
from accous.diagnostics.trust import Comparison, Matched, compare_means, match_reference
from accous.text import count

if TYPE_CHECKING:
    from accous.diagnostics.trust import Trust


# --- Whether late labels agree with the estimated error stretch by stretch, and not only on average


_SHORTEST_STRETCH = 200
_FEWEST = 3
_LARGEST_SHARE = 0.25
_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class LabelledRounds:
    """What labels measured in rounds, or in groups of neighbouring rounds, in order of time.

    Attributes
    ----------
    n_rows : array of shape (n_rounds,)
        Labelled rows.
    losses : array of shape (n_rounds,)
        Sums of their losses.
    estimates : array of shape (n_rounds, 3)
        The error that was estimated there and the ends of its interval; NaN where it is not known.
    """

    n_rows: FloatArray
    losses: FloatArray
    estimates: FloatArray


@dataclass(frozen=True)
class Stretches:
    """How many stretches of labelled rounds there are, and in how many of them labels and estimate are apart.

    Attributes
    ----------
    n_stretches, n_apart : int
    shortest : int
        Labelled rows that each of them has at least.
    """

    n_stretches: int = 0
    n_apart: int = 0
    shortest: int = _SHORTEST_STRETCH

    @property
    def share(self) -> float:
        """The share of stretches in which labels and estimate are apart."""
        return self.n_apart / self.n_stretches if self.n_stretches else 0.0

    @property
    def disagree(self) -> bool:
        """Whether that is the case in more than a quarter of them."""
        return self.share > _LARGEST_SHARE


NO_STRETCHES = Stretches()


def compare_stretches(rounds: LabelledRounds, scale: LossScale, *, variance: float, close: float) -> Stretches:
    """Return the stretches in which labels and estimate are apart most often, of those of all lengths.

    They are apart in a stretch if the mean loss of its labels lies outside the mean interval of the estimate, or
    further than ``close`` from a mean estimate that is shown, by more than two standard errors of that mean.

    Parameters
    ----------
    rounds : LabelledRounds
    scale : LossScale
    variance : float
        Of the loss of one row, where numbers are predicted.
    close : float
        What still counts as close to an estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.messages import ERRORS
    >>> rounds = LabelledRounds(
    ...     np.full(4, 500.0), np.array([50.0, 50.0, 50.0, 250.0]), np.tile((0.2, 0.17, 0.23), (4, 1))
    ... )
    >>> found = compare_stretches(rounds, ERRORS, variance=0.0, close=0.05)
    >>> found.n_apart, found.n_stretches, found.disagree
    (4, 4, True)
    """
    is_known = (rounds.n_rows > 0) & ~np.isnan(rounds.estimates).any(axis=1)
    n_rows = rounds.n_rows[is_known]
    values = np.column_stack((n_rows, rounds.losses[is_known], n_rows[:, None] * rounds.estimates[is_known]))
    found, shortest = NO_STRETCHES, _SHORTEST_STRETCH
    while len(sums := _divide(values, shortest)) >= _FEWEST:
        is_apart = _are_apart(sums, scale, variance, close)
        one = Stretches(len(sums), int(is_apart.sum()), shortest)
        found = one if not found.n_stretches or one.share > found.share else found
        shortest *= 2
    return found


def _divide(values: FloatArray, shortest: int) -> FloatArray:
    """Return the sums over stretches of at least so many labelled rows; the rest belongs to the last one."""
    ends, n_rows = [], 0.0
    for place, more in enumerate(values[:, 0].tolist(), start=1):
        n_rows += more
        if n_rows >= shortest:
            ends.append(place)
            n_rows = 0.0
    if not ends:
        return values[:0]
    sums: FloatArray = np.add.reduceat(values, [0, *ends[:-1]], axis=0)
    return sums


def _are_apart(sums: FloatArray, scale: LossScale, variance: float, close: float) -> BoolArray:
    n_rows, losses = sums[:, 0], sums[:, 1]
    means, (estimates, lows, highs) = losses / n_rows, sums[:, 2:].T / n_rows
    variances = np.full(len(sums), variance)
    if scale.is_of_classes:
        # One more error and one more right answer: no errors at all do not show that there are none.
        shares = (losses + 1.0) / (n_rows + 2.0)
        variances = shares * (1.0 - shares)
    slack = _STANDARD_ERRORS * np.sqrt(variances / n_rows)
    is_outside = np.maximum(means - highs, lows - means) > slack
    # An estimate whose interval is too wide is not shown, so nothing can be far from it.
    is_shown = [is_telling(*each, scale.loss) for each in zip(estimates, lows, highs, strict=True)]
    is_apart: BoolArray = is_outside | (np.abs(means - estimates) - close > slack) & is_shown
    return is_apart


# --- What late labels measured block by block, in the order in which they were given


_SHORTEST_BLOCK = 50
_MOST_BLOCKS = 64
_N_SUMS = 5


@dataclass(frozen=True, kw_only=True)
class LabelBlocks:
    """Sums over blocks of labelled rows whose error was estimated; more rows make a new object.

    Attributes
    ----------
    sums : array of shape (n_blocks, 5)
        Rows, losses, estimated errors and the ends of their intervals.
    n_rows : int
        Rows of a block; the last one may have fewer.
    """

    sums: FloatArray = field(default_factory=lambda: np.zeros((0, _N_SUMS)))
    n_rows: int = _SHORTEST_BLOCK

    def after(self, losses: FloatArray, estimates: FloatArray) -> LabelBlocks:
        """Return the blocks after some more rows; those without an estimate are left out.

        Parameters
        ----------
        losses : array of shape (n_rows,)
        estimates : array of shape (n_rows, 3)

        Examples
        --------
        >>> import numpy as np
        >>> blocks = NO_BLOCKS.after(np.ones(120), np.full((120, 3), 0.5))
        >>> blocks.sums[:, :3].tolist()
        [[50.0, 50.0, 25.0], [50.0, 50.0, 25.0], [20.0, 20.0, 10.0]]
        """
        is_known = ~np.isnan(estimates).any(axis=1)
        n_new = int(is_known.sum())
        if not n_new:
            return self
        rows = np.column_stack((np.ones(n_new), losses[is_known], estimates[is_known]))
        n_open = int(self.sums[-1, 0]) % self.n_rows if len(self.sums) else 0
        starts = np.arange(0, n_open + n_new, self.n_rows) - n_open
        added = np.add.reduceat(rows, np.maximum(starts, 0), axis=0)
        complete = self.sums
        if n_open:
            complete, added[0] = self.sums[:-1], self.sums[-1] + added[0]
        return _shorten(np.concatenate((complete, added)), self.n_rows)

    def as_rounds(self) -> LabelledRounds:
        """Return what the labels measured in each block."""
        n_rows = self.sums[:, 0]
        return LabelledRounds(n_rows, self.sums[:, 1], self.sums[:, 2:] / n_rows[:, None])


NO_BLOCKS = LabelBlocks()


def _shorten(sums: FloatArray, n_rows: int) -> LabelBlocks:
    while len(sums) > _MOST_BLOCKS:
        sums = np.add.reduceat(sums, np.arange(0, len(sums), 2), axis=0)
        n_rows *= 2
    return LabelBlocks(sums=sums, n_rows=n_rows)


# --- The error on the latest labels alone, which tells whether the measured error still holds


_N_LATEST = 200
_FEWEST_LABELS = 2 * _N_LATEST  # of fewer, the latest are the larger part

_ROUNDING = 1e-6
_Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)


@dataclass(frozen=True)
class LatestError:
    """The mean loss of the latest labels.

    Attributes
    ----------
    n_rows : int
        How many labels these are; 0 if there are too few to tell them from the others.
    error, error_low, error_high : float
        Their mean and its 90 % interval, as if the rows were independent.
    is_apart : bool
        Whether the mean is more than two standard errors away from the measured error.
    """

    n_rows: int = 0
    error: float = math.nan
    error_low: float = math.nan
    error_high: float = math.nan
    is_apart: bool = False


UNKNOWN = LatestError()


def keep_latest(losses: FloatArray, new: FloatArray) -> FloatArray:
    """Return the last 200 losses."""
    # A copy: a view would keep all the losses in memory.
    return np.concatenate((losses, new[-_N_LATEST:]))[-_N_LATEST:].copy()


def measure_latest(losses: FloatArray, n_labelled: int, error: float, scale: LossScale) -> LatestError:
    """Compare the latest losses with the measured error.

    Parameters
    ----------
    losses : array of shape (n_rows,)
        As `keep_latest` returns them.
    n_labelled : int
        Labels in the measured error.
    error : float
        The measured error.
    scale : LossScale

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.messages import ERRORS
    >>> found = measure_latest(np.repeat([0.0, 1.0], [160, 40]), 870, 0.301, ERRORS)
    >>> found.n_rows, found.error, found.is_apart
    (200, 0.2, True)
    """
    if n_labelled < _FEWEST_LABELS or len(losses) < _N_LATEST:
        return UNKNOWN
    n_rows, mean = len(losses), float(losses.mean())
    if scale.is_of_classes:
        # One more error and one more right answer: no errors at all do not show that there are none.
        share = (float(losses.sum()) + 1.0) / (n_rows + 2.0)
        standard_error = math.sqrt(share * (1.0 - share) / n_rows)
        low, high = (float(end) for end in wilson_interval(mean, n_rows))
    else:
        # Of losses that are all the same, rounding would count as a difference.
        standard_error = max(float(losses.std()), _ROUNDING * scale.one) / math.sqrt(n_rows)
        low, high = max(0.0, mean - _Z * standard_error), mean + _Z * standard_error
    return LatestError(n_rows, mean, low, high, abs(mean - error) > _STANDARD_ERRORS * standard_error)


# --- Labelled rows: how the predictors did on them, and what is kept of them for the test of P(y | x)


@dataclass(frozen=True, kw_only=True)
class JudgedRows:
    """Labelled rows and how the predictors did on them.

    Attributes
    ----------
    losses : array of shape (n_rows,)
        Of the predictor in use: 1 where it predicted the wrong class, or the loss of a predicted number.
    losses_fixed : array of shape (n_rows,), optional
        Of the fixed predictor; None if its predictions are not known.
    errors_fixed : array of shape (n_rows,), optional
        The errors that the losses of the fixed predictor come from: whether a class is wrong, or y minus a number.
    is_unseen : array of shape (n_rows,)
        Where the label is a class that the reference does not have; both predictors are wrong there.
    unseen_names : tuple of str
        The label of each of those rows.
    estimates : array of shape (n_rows, 3)
        Estimated error of the predictor in use, and its interval; NaN where it is not known.
    features : array of shape (n_rows, d), optional
        Features to audit the rows in; None if the rows themselves are not known.
    one : float
        The loss that counts as 1.
    is_inside : array of shape (n_rows,), optional
        Where a true number lay inside its prediction interval, 1 or 0; NaN where there was none.
    """

    losses: FloatArray
    losses_fixed: FloatArray | None
    errors_fixed: NDArray[Any] | None
    is_unseen: BoolArray
    unseen_names: tuple[str, ...]
    estimates: FloatArray
    features: FloatArray | None = None
    one: float = 1.0
    is_inside: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.losses)

    def part(self, is_in: BoolArray) -> JudgedRows:
        """Return some of the rows."""
        arrays = ("losses", "losses_fixed", "errors_fixed", "is_unseen", "estimates", "features", "is_inside")
        parts = {name: values[is_in] for name in arrays if (values := getattr(self, name)) is not None}
        named = zip(self.unseen_names, is_in[self.is_unseen].tolist(), strict=True)
        return replace(self, unseen_names=tuple(name for name, stays in named if stays), **parts)


@dataclass(frozen=True, kw_only=True)
class AuditRows:
    """Labelled rows that are kept for the test of P(y | x): their features, and the errors of the fixed predictor."""

    features: FloatArray
    errors_fixed: NDArray[Any]
    is_unseen: BoolArray

    def __len__(self) -> int:
        return len(self.features)

    def last(self, n_rows: int) -> AuditRows:
        """Return the last rows of these."""
        first = max(0, len(self) - n_rows)
        return AuditRows(
            features=self.features[first:], errors_fixed=self.errors_fixed[first:], is_unseen=self.is_unseen[first:]
        )


# --- How many true numbers lay inside their prediction intervals, by late labels, and what follows from it


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


# --- Running counts over labels that arrive late


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
    for name, n_rows in Counter(names).items():
        place = name if name in total or len(total) < _MOST_NAMES else _OTHER_NAMES
        total[place] = total.get(place, 0) + n_rows
    return tuple(total.items())


# --- Tests with late labels whether P(y | x) has changed, which unlabelled rows cannot show


SIGNIFICANCE = 0.01
_ERROR_C = 0.1


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Observed error of the predictor on labelled rows, and the error to expect from the reference.

    Attributes
    ----------
    n_rows : int
        Number of labelled rows.
    observed : float
        Share of the rows that the current predictor gets wrong; for predicted numbers the mean loss.
    estimate : float
        Expected share, or mean loss, if P(y | x) is still that of the reference.
    estimate_low, estimate_high : float
        Interval that holds 90 % of the observed ones in that case.
    p_value : float
        p-value of the two-sided test of that hypothesis.
    concept_changed : bool
        Whether the p-value is below 0.01.
    text : str
        The result as one sentence.
    """

    n_rows: int
    observed: float
    estimate: float
    estimate_low: float
    estimate_high: float
    p_value: float
    concept_changed: bool
    text: str


def audit_errors(
    is_wrong: NDArray[np.bool_],
    features: FloatArray,
    is_reference_wrong: NDArray[np.bool_],
    reference_features: FloatArray,
    base_weights: FloatArray,
) -> Audit:
    """Compare the errors on audited rows with those on the reference.

    Parameters
    ----------
    is_wrong : array of shape (n_rows,)
    features : array of shape (n_rows, d)
        Features that the ratio and the regression are fitted on; no constant column is needed.
    is_reference_wrong : array of shape (n_reference,)
        Errors of predictions by models that were fitted without the row.
    reference_features : array of shape (n_reference, d)
    base_weights : array of shape (n_reference,)
    """
    matched = match_reference(reference_features, features, base_weights)
    expected_reference, expected = _expected_errors(matched.reference, is_reference_wrong, base_weights, matched.rows)
    found = compare_means(
        is_wrong.astype(np.float64),
        expected,
        is_reference_wrong.astype(np.float64),
        expected_reference,
        matched.shares,
        smallest_variance=float(np.mean(expected * (1.0 - expected))),
    )
    return _report(len(is_wrong), found._replace(estimate=min(1.0, max(0.0, found.estimate))))


def conclude(p_value: float) -> str:
    """Return the end of an audit's sentence."""
    if p_value < SIGNIFICANCE:
        return "P(y | x) seems to have changed: label a new reference and fit again."
    return "there is no evidence that P(y | x) differs from the reference."


def _report(n_rows: int, found: Comparison) -> Audit:
    p_value = found.p_value
    low, high = max(0.0, found.estimate - found.half_width), min(1.0, found.estimate + found.half_width)
    text = (
        f"The error on {count(n_rows, 'labelled row')} is {found.observed:.1%}; the expected error is "
        f"{found.estimate:.1%} ({low:.1%} to {high:.1%}, p = {p_value:.2g}); {conclude(p_value)}"
    )
    return Audit(
        n_rows=n_rows,
        observed=found.observed,
        estimate=found.estimate,
        estimate_low=low,
        estimate_high=high,
        p_value=p_value,
        concept_changed=p_value < SIGNIFICANCE,
        text=text,
    )


def _expected_errors(
    reference: FloatArray, is_wrong: NDArray[np.bool_], weights: FloatArray, rows: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Probability of an error for reference and audited rows, by a logistic regression fitted on the reference."""
    # The smallest probability of an error that this many rows can support.
    floor = 0.5 / len(reference)
    if is_wrong.all() or not is_wrong.any():
        share = min(1.0 - floor, max(floor, float(is_wrong.mean())))
        return np.full(len(reference), share), np.full(len(rows), share)
    problem = make_problem(reference, is_wrong.astype(np.int64), 2, _ERROR_C)
    coefs = solve(problem, weights * (len(weights) / weights.sum()))[0]
    of_both = (np.clip(part @ coefs[:-1] + coefs[-1], -30.0, 30.0) for part in (reference, rows))
    of_reference, of_rows = (1.0 / (1.0 + np.exp(-scores)) for scores in of_both)
    return np.clip(of_reference, floor, 1.0 - floor), np.clip(of_rows, floor, 1.0 - floor)


# --- The error measured by labels that arrive late, and whether it contradicts the error estimated without
#     labels


FEWEST_TO_CONTRADICT = 20
"""Labelled rows below which measured and estimated error are not said to contradict each other."""
EXACT_LABELS, EXACT_WIDTH = 100, 0.1

# Heights of the alarm where 1 % and where 5 % of the stream's rows are labelled.
_LOW_SHARE, _HIGH_SHARE, _LOW_HEIGHT, _HIGH_HEIGHT = 0.01, 0.05, 8.0, 10.0


@dataclass(frozen=True, kw_only=True)
class MeasuredError:
    """The error that late labels have measured, beside the error that was estimated without labels.

    Attributes
    ----------
    n_labelled : int
        Labelled rows so far.
    error, error_low, error_high : float
        Measured error of the predictor in use with a 90 % interval; a label counts half after 500 others. From 400
        labels on, the interval is wide enough for the latest 200 alone. Where numbers are predicted, it is the mean
        loss.
    error_plain : float
        The plain mean over all labels since rows last joined the reference (``n_plain`` rows), in which an old label
        counts as much as a new one; NaN if there are none, or if an earlier version counted some of them.
    n_plain : int
    error_fixed : float
        As ``error``, for the fixed predictor; NaN if its predictions are not known.
    estimated, estimated_low, estimated_high : float
        Label-free estimates for these rows and the ends of their intervals, averaged with the same weights; NaN if
        there are none, or if numbers are predicted and the reference does not cover the inputs.
    excess : float
        Measured minus estimated error, of the rows that have an estimate.
    gap, gap_standard_error : float
        Error of the predictor in use minus that of the fixed one on the same rows, and its standard error; NaN if the
        predictions of the fixed one are not known.
    age : int
        Rows of the stream since the last label.
    contradicts : bool
        Whether labels contradict the estimate: the intervals of the two means do not overlap, or the CUSUM alarm is
        on, or labels are exact and their whole interval is more than 5 points away from the estimate, though perhaps
        inside its interval.
    is_outdated : bool
        Whether rows have joined the reference and fewer than 20 labels came since: the errors are those of the
        predictors before.
    is_exact : bool
        Whether there are at least 100 labels and the interval of their mean is at most 10 points wide. See
        `accous.diagnostics.losses` for points of numbers.
    is_inside : bool
        Whether the interval of the estimate and that of the mean over the labels overlap.
    is_estimate_outside : bool
        Whether the estimate itself lies outside of the interval of the mean over the labels.
    is_covered : bool
        Whether the reference covers the inputs now. Where it does not, nobody can tell whether P(y | x) has changed.
    is_alarmed : bool
        Whether the CUSUM alarm is on: recent predictions were wrong far more often than estimated.
    unseen_classes : dict of str to int
        Labelled rows of each class that the reference does not have.
    concept_changed : {"yes", "no", "not known"}
        Whether P(y | x) has changed: by a class that the reference does not have among the last 500 labelled rows, or
        by the test of ``audit`` on them, if the errors have grown. "not known" with fewer than 20 rows, where the
        reference does not cover the inputs, and where the test finds a change that does no harm.
    intervals : IntervalCounts
        How many true numbers lay inside their prediction intervals, if they were given with the labels.
    latest : LatestError
        The error on the latest 200 labels, and whether it is apart from the measured one, which then lags behind.
    stretches : Stretches
        In how many stretches of the labelled rounds labels and estimate are apart.
    sentence : str
        The result in plain words.
    scale : LossScale
        What the losses are compared with.
    """

    n_labelled: int
    error: float
    error_low: float
    error_high: float
    error_plain: float = math.nan
    n_plain: int = 0
    error_fixed: float
    estimated: float
    estimated_low: float = math.nan
    estimated_high: float = math.nan
    excess: float
    gap: float
    gap_standard_error: float
    age: int
    contradicts: bool
    is_outdated: bool = False
    is_exact: bool
    is_inside: bool = True
    is_estimate_outside: bool = False
    is_covered: bool = True
    is_alarmed: bool
    unseen_classes: dict[str, int]
    concept_changed: str
    sentence: str
    intervals: IntervalCounts = NO_INTERVALS
    stretches: Stretches = NO_STRETCHES
    latest: LatestError = UNKNOWN
    scale: LossScale = field(default=ERRORS, repr=False)

    @property
    def contradicts_now(self) -> bool:
        """Whether labels contradict the estimate of the present predictors."""
        return self.contradicts and not self.is_outdated

    @property
    def is_off(self) -> bool:
        """Whether the measured error is more than 5 points away from the estimate."""
        return abs(self.excess) > CLOSE * self.scale.one

    @property
    def is_within(self) -> bool:
        """Whether the measured error itself lies inside the interval of the estimate."""
        return self.estimated_low <= self.error <= self.estimated_high

    @property
    def error_now(self) -> float:
        """The error on the latest labels where it is apart from the measured one; otherwise the measured one."""
        return self.latest.error if self.latest.is_apart else self.error

    @property
    def is_few(self) -> bool:
        """Whether there are too few labels to compare them with the estimate."""
        return self.n_labelled < FEWEST_TO_CONTRADICT and not self.contradicts

    @property
    def is_estimate_known(self) -> bool:
        """Whether the estimate says something: the reference covers the inputs, and the interval is not too wide."""
        return self.is_covered and is_telling(self.estimated, self.estimated_low, self.estimated_high, self.scale.loss)

    @property
    def concept_sentence(self) -> str:
        """Say that P(y | x) has changed; empty if nothing says so."""
        return CONCEPT_CHANGED if self.concept_changed == "yes" else ""

    def __str__(self) -> str:
        """Return the result in plain words."""
        return self.sentence


def measure(
    labels: LateLabels,
    *,
    n_stream: int,
    audit: Audit | None,
    scale: LossScale = ERRORS,
    is_covered: bool = True,
    rounds: LabelledRounds | None = None,
) -> MeasuredError:
    """Return what the labels show.

    Parameters
    ----------
    labels : LateLabels
        With at least one labelled row.
    n_stream : int
        Rows of the stream so far, with or without labels.
    audit : Audit, optional
        Of the kept rows; None if it cannot be computed.
    scale : LossScale
    is_covered : bool
        Whether the reference covers the inputs.
    rounds : LabelledRounds, optional
        What the labels measured round by round. None takes blocks of labels in the order in which they were given.
    """
    sums = labels.sums
    error = float(sums[Sum.LOSS] / sums[Sum.WEIGHT])
    low, high = _interval(labels, error, scale)
    latest = measure_latest(labels.latest, labels.n_plain, error, scale)
    estimated, estimated_low, estimated_high, excess = _estimated(labels, scale, is_covered=is_covered)
    is_alarmed = labels.cusum >= alarm_height(labels.n_labelled / max(1, n_stream, labels.n_labelled))
    is_apart = labels.n_labelled >= FEWEST_TO_CONTRADICT and (low > estimated_high or high < estimated_low)
    is_exact = labels.n_labelled >= EXACT_LABELS and high - low <= EXACT_WIDTH * scale.one
    # With enough labels an estimate is contradicted also inside an interval that is too wide to say anything. How far
    # the labels themselves may be off counts first: else chance alone would contradict.
    is_far = is_exact and max(low - error + excess, error - high - excess) > CLOSE * scale.one
    rows = labels.audit_rows
    has_unseen = rows is not None and bool(rows.is_unseen.any())
    measured = MeasuredError(
        n_labelled=labels.n_labelled,
        error=error,
        # Where the error moves, its mean says little about now: the interval holds what the latest labels say, too.
        error_low=min(low, latest.error_low) if latest.n_rows else low,
        error_high=max(high, latest.error_high) if latest.n_rows else high,
        error_plain=labels.plain_loss / labels.n_plain if labels.n_plain else math.nan,
        n_plain=labels.n_plain,
        error_fixed=_mean(sums[Sum.LOSS_FIXED], sums[Sum.WEIGHT_FIXED]),
        estimated=estimated,
        estimated_low=estimated_low,
        estimated_high=estimated_high,
        excess=excess,
        gap=_mean(sums[Sum.LOSS_COMPARED] - sums[Sum.LOSS_FIXED], sums[Sum.WEIGHT_FIXED]),
        gap_standard_error=_gap_standard_error(labels, scale),
        age=max(0, n_stream - labels.last_row),
        contradicts=not math.isnan(estimated) and (is_apart or is_alarmed or is_far),
        is_outdated=labels.n_before is not None and labels.n_labelled - labels.n_before < FEWEST_TO_CONTRADICT,
        is_exact=is_exact,
        is_inside=not is_apart,
        is_estimate_outside=not math.isnan(excess) and not low <= error - excess <= high,
        is_covered=is_covered,
        is_alarmed=is_alarmed,
        unseen_classes=dict(labels.n_unseen),
        concept_changed=_concept_changed(has_unseen=has_unseen, audit=audit, is_covered=is_covered),
        sentence="",
        intervals=labels.intervals,
        latest=latest,
        stretches=_stretches(labels, error, labels.blocks.as_rounds() if rounds is None else rounds, scale),
        scale=scale,
    )
    return replace(measured, sentence=sentence_of(measured))


def _estimated(labels: LateLabels, scale: LossScale, *, is_covered: bool) -> tuple[float, float, float, float]:
    """Return the estimate, the ends of its interval, and measured minus estimated error of the rows that have one."""
    sums = labels.sums
    # Losses of numbers have no upper limit, so there is no estimate where the reference has no rows.
    if not (is_covered or scale.is_of_classes):
        return (math.nan,) * 4
    totals = (
        *sums[[Sum.ESTIMATED, Sum.ESTIMATED_LOW, Sum.ESTIMATED_HIGH]],
        sums[Sum.LOSS_ESTIMATED] - sums[Sum.ESTIMATED],
    )
    estimated, low, high, excess = (_mean(each, sums[Sum.WEIGHT_ESTIMATED]) for each in totals)
    return estimated, low, high, excess


def _interval(labels: LateLabels, error: float, scale: LossScale) -> tuple[float, float]:
    """Return the ends of the interval of the measured error."""
    weight = float(labels.sums[Sum.WEIGHT])
    n_rows = weight**2 / labels.squares
    if scale.is_of_classes:
        low, high = wilson_interval(error, n_rows)
        return float(low), float(high)
    # Of few rows, the spread may still be hidden: it is assumed to be as large as the mean where there is only one.
    variance = scale.variance(error, labels.squared_losses / weight) + error**2 / n_rows
    half_width = _Z * math.sqrt(variance / n_rows)
    return max(0.0, error - half_width), error + half_width


def _stretches(labels: LateLabels, error: float, rounds: LabelledRounds, scale: LossScale) -> Stretches:
    """Compare labels and estimate in stretches; the losses of numbers are taken to spread as those of all labels."""
    variance = scale.variance(error, labels.squared_losses / float(labels.sums[Sum.WEIGHT]))
    return compare_stretches(rounds, scale, variance=variance, close=CLOSE * scale.one)


def alarm_height(share: float) -> float:
    """Return h of the CUSUM alarm: 8 if 1 % of the rows are labelled or fewer, 10 from 5 % on.

    Examples
    --------
    >>> alarm_height(0.001), alarm_height(0.5)
    (8.0, 10.0)
    """
    place = math.log(max(share, _LOW_SHARE) / _LOW_SHARE) / math.log(_HIGH_SHARE / _LOW_SHARE)
    return _LOW_HEIGHT + (_HIGH_HEIGHT - _LOW_HEIGHT) * min(1.0, place)


def _mean(total: float, weight: float) -> float:
    return float(total / weight) if weight else float("nan")


def _gap_standard_error(labels: LateLabels, scale: LossScale) -> float:
    """Return the standard error of the mean difference of losses on the rows that both were compared on."""
    weight = float(labels.sums[Sum.WEIGHT_FIXED])
    if not weight:
        return float("nan")
    n_rows = weight**2 / labels.squares_fixed
    gap = float(labels.sums[Sum.LOSS_COMPARED] - labels.sums[Sum.LOSS_FIXED]) / weight
    # Where the predictors agree on all rows, one more row could be the first on which they do not.
    smallest = 1.0 / n_rows if scale.is_of_classes else 0.0
    variance = max(float(labels.sums[Sum.SQUARED_DIFFERENCE]) / weight - gap**2, smallest)
    return math.sqrt(variance / n_rows)


def _concept_changed(*, has_unseen: bool, audit: Audit | None, is_covered: bool) -> str:
    if has_unseen:
        return "yes"
    # Of inputs that the reference does not have, it says nothing about P(y | x): errors there may be those of a model
    # that has never seen such rows.
    if audit is None or audit.n_rows < FEWEST_TO_CONTRADICT or not is_covered:
        return "not known"
    if not audit.concept_changed:
        return "no"
    return "yes" if audit.observed > audit.estimate_high else "not known"


# --- Tests with late labels whether P(y | x) has changed, for predicted numbers


_RIDGE = 1.0
_NEARLY_NORMAL = 2.0 / 3.0
# Where all rows of the reference are predicted perfectly, a residual is still not more exact than numbers are.
_SMALLEST_SHARE = 1e-12


def audit_residuals(
    residuals: FloatArray,
    features: FloatArray,
    reference_residuals: FloatArray,
    reference_features: FloatArray,
    base_weights: FloatArray,
    loss: NumberLoss = SQUARED,
) -> Audit:
    """Compare the residuals on audited rows with those on the reference.

    Parameters
    ----------
    residuals : array of shape (n_rows,)
        y minus prediction of the audited rows; at least one.
    features : array of shape (n_rows, d)
        Features that the ratio and the regression are fitted on; no constant column is needed.
    reference_residuals : array of shape (n_reference,)
        Residuals of predictions by models that were fitted without the row.
    reference_features : array of shape (n_reference, d)
    base_weights : array of shape (n_reference,)
    loss : NumberLoss
        In which the observed and the expected size of the errors are reported. The tests do not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.labels import audit_residuals
    >>> rng = np.random.default_rng(0)
    >>> X, X_late = rng.normal(size=(500, 2)), rng.normal(size=(100, 2))
    >>> r, r_late = rng.normal(size=500), rng.normal(size=100)
    >>> audit_residuals(r_late, X_late, r, X, np.ones(500)).concept_changed
    False
    >>> audit_residuals(r_late + 1.0, X_late, r, X, np.ones(500)).concept_changed
    True
    """
    matched = match_reference(reference_features, features, base_weights)

    def compare(values: FloatArray, reference_values: FloatArray) -> Comparison:
        return _compare(matched, base_weights, values, reference_values)

    bias = compare(residuals, reference_residuals)
    size = compare(np.abs(residuals) ** _NEARLY_NORMAL, np.abs(reference_residuals) ** _NEARLY_NORMAL)
    zero = np.zeros(1)
    losses = compare(loss(residuals, zero), loss(reference_residuals, zero))
    p_value = min(1.0, 2.0 * min(bias.p_value, size.p_value))
    return _report_residuals(len(residuals), losses, bias, p_value, loss)


def _compare(
    matched: Matched, base_weights: FloatArray, values: FloatArray, reference_values: FloatArray
) -> Comparison:
    """Compare one value, with a ridge regression of it on the reference; of each row there, by a fit without it."""
    problem = make_ridge_problem(matched.reference, reference_values, _RIDGE)
    weights = base_weights * (len(base_weights) / base_weights.sum())
    expected_reference = leave_one_out_predictions(problem, weights)
    coefs = solve_ridge(problem, weights)
    expected = matched.rows @ coefs[:-1] + coefs[-1]
    spread = float(matched.shares @ (reference_values - expected_reference) ** 2)
    largest = float(np.abs(reference_values).max(initial=0.0))
    return compare_means(
        values,
        expected,
        reference_values,
        expected_reference,
        matched.shares,
        smallest_variance=max(spread, (_SMALLEST_SHARE * largest) ** 2),
    )


def _report_residuals(n_rows: int, losses: Comparison, bias: Comparison, p_value: float, loss: NumberLoss) -> Audit:
    estimate = max(0.0, losses.estimate)
    low, high = max(0.0, estimate - losses.half_width), estimate + losses.half_width
    text = (
        f"The {loss} loss on {count(n_rows, 'labelled row')} is {losses.observed:.3g}; the expected loss is "
        f"{estimate:.3g} ({low:.3g} to {high:.3g}); the mean residual is {bias.observed:+.3g} where "
        f"{bias.estimate:+.3g} is expected (p = {p_value:.2g}); {conclude(p_value)}"
    )
    return Audit(
        n_rows=n_rows,
        observed=losses.observed,
        estimate=estimate,
        estimate_low=low,
        estimate_high=high,
        p_value=p_value,
        concept_changed=p_value < SIGNIFICANCE,
        text=text,
    )
