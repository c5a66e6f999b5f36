"""Drift of the inputs: detection, strength, columns, regimes and seasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.core.regression import make_problem, solve
from accous.diagnostics.losses import weight_distance

# --- A log of changes: when the ratio moved, how far, in which columns, and how long the change took


ROUNDS_BETWEEN_LOOKS = 16
MAX_EVENTS = 100
_SMOOTHING = 0.5
SMALLEST_CHANGE = 0.2
"""Share of the weight that has to move before a change is noticed."""
# A change is over when its size has varied by at most _RESTING_RANGE over _RESTING_LOOKS looks.
_RESTING_LOOKS = 4
_RESTING_RANGE = 0.1
MOST_LOOKS = 32
_LOOKS_TO_RECALL = 3
_NEARLY_ALL = 0.9


@dataclass(frozen=True)
class DriftEvent:
    """One change of the input distribution, or the onset of something new in one column.

    Attributes
    ----------
    round : int
        Round in which the change was detected.
    size : float
        Total variation between the reference's weights before and after the change, in [0, 1]. For other kinds than
        ``"shift"``: the share of the recent rows when it was detected.
    features : tuple of str
        The columns that carry half of the change, largest first, at most five.
    rounds_to_adapt : int or None
        Rounds from detection until the weights had covered nine tenths of the change; None while they still move, and
        for other kinds than ``"shift"``.
    kind : {"shift", "outside", "new values", "missing", "categories"}
        ``"shift"`` is a change of the weights. The others name one column: values outside the reference's range, new
        values in a column that was constant there, another share of missing values, new categories.
    seen : tuple of int or None
        First and last round of the last time in which the inputs were as they are after the change; None if they have
        not been seen before.
    """

    round: int
    size: float
    features: tuple[str, ...]
    rounds_to_adapt: int | None
    kind: str = "shift"
    seen: tuple[int, int] | None = None

    @property
    def return_in_words(self) -> str:
        """Say which earlier rounds the inputs have come back to; empty if they have not been seen before."""
        return "" if self.seen is None else f"back to what was seen in rounds {self.seen[0]:,} to {self.seen[1]:,}"


@dataclass(frozen=True, slots=True)
class DriftLog:
    """The changes so far, and the state needed to detect the next one.

    Attributes
    ----------
    coef : array of shape (d,)
        Smoothed theta, scaled by the share of the ratio that is in use.
    settled_coef : array of shape (d,)
        The value of ``coef`` when the last change ended.
    events : tuple of DriftEvent
        The last ``MAX_EVENTS`` events; the latest may still be in progress.
    sizes : tuple of float
        Distances from ``settled_coef``, one for each look at the change in progress.
    settled_weights : array of shape (n_reference,) or None
        The reference's weights at ``settled_coef`` if they have been computed; a cache, not part of the state.
    """

    coef: FloatArray
    settled_coef: FloatArray
    events: tuple[DriftEvent, ...]
    sizes: tuple[float, ...] = ()
    settled_weights: FloatArray | None = field(default=None, compare=False, repr=False)

    @property
    def is_moving(self) -> bool:
        """Whether the last change is still in progress."""
        return bool(self.events) and self.events[-1].rounds_to_adapt is None

    def look(
        self,
        this_round: int,
        coef: FloatArray,
        weigh: Callable[[FloatArray], FloatArray],
        name: Callable[[FloatArray], tuple[str, ...]],
        recall: Callable[[int], tuple[int, int] | None] = lambda _: None,
    ) -> DriftLog:
        """Return the log after a look at the theta of a round.

        Parameters
        ----------
        this_round : int
        coef : array of shape (d,)
            Theta, scaled by the share of the ratio that is in use.
        weigh : callable
            Returns the reference's weights for a theta.
        name : callable
            Returns the main columns of a difference between two thetas.
        recall : callable
            Returns the rounds before a given one in which the inputs were as they are now, if they were.
        """
        smoothed = self.coef + _SMOOTHING * (coef - self.coef)
        if (smoothed == self.settled_coef).all():
            return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, self.settled_weights)
        weights = weigh(smoothed)
        settled = weigh(self.settled_coef) if self.settled_weights is None else self.settled_weights
        size = weight_distance(weights, settled)
        change = smoothed - self.settled_coef
        if not self.is_moving:
            if size <= SMALLEST_CHANGE:
                return DriftLog(smoothed, self.settled_coef, self.events, self.sizes, settled)
            event = DriftEvent(this_round, size, name(change), None, seen=recall(this_round))
            return DriftLog(smoothed, self.settled_coef, (*self.events, event)[-MAX_EVENTS:], (size,), settled)
        sizes, now = (*self.sizes, size), self.events[-1]
        if len(sizes) <= _LOOKS_TO_RECALL:
            # The pool may recognise a regime after the change was noticed, or find that it is another one.
            now = replace(now, seen=recall(now.round))
        recent = sizes[-_RESTING_LOOKS:]
        is_resting = len(sizes) > _RESTING_LOOKS and max(recent) - min(recent) <= _RESTING_RANGE
        if not is_resting and len(sizes) < MOST_LOOKS:
            return DriftLog(smoothed, self.settled_coef, (*self.events[:-1], now), sizes, settled)
        n_looks = next(number for number, one in enumerate(sizes) if one >= _NEARLY_ALL * size)
        event = replace(now, size=size, features=name(change), rounds_to_adapt=n_looks * ROUNDS_BETWEEN_LOOKS)
        return DriftLog(smoothed, smoothed, (*self.events[:-1], event), (), weights)


def start_log(neutral: FloatArray) -> DriftLog:
    """Return an empty log that starts at the theta whose ratio is 1."""
    return DriftLog(neutral, neutral, ())


def main_columns(column_shares: FloatArray, names: list[str]) -> tuple[str, ...]:
    """Return the names of the columns that together carry half of the change, largest first, at most five.

    Examples
    --------
    >>> import numpy as np
    >>> from accous.diagnostics.drift import main_columns
    >>> main_columns(np.array([0.1, 0.6, 0.3]), ["age", "income", "city"])
    ('income',)
    """
    order = np.argsort(-column_shares, kind="stable")[:5]
    n_main = 1 + int(np.searchsorted(np.cumsum(column_shares[order]), 0.5))
    return tuple(names[column] for column in order[:n_main].tolist() if column_shares[column] > 0.0)


# --- A score for rows outside the joint distribution of the reference: the distance to its nearest rows


_MAX_NEIGHBOURS_REFERENCE = 2000
_NEIGHBOUR = 5
_USUAL_SHARE = 0.95
_FARTHEST_NEIGHBOUR = 1e6  # in deviations of the reference: far away, and its square is a number
_ROUNDING = 1e-9
_ROWS_AT_A_TIME = 64


class ReferenceNeighbours:
    """Decides whether rows lie outside the reference.

    Parameters
    ----------
    reference : array of shape (n_reference, n_columns)
        At most 2,000 of the rows are used.
    """

    def __init__(self, reference: FloatArray) -> None:
        rng = np.random.default_rng(0)
        order = rng.permutation(len(reference))[:_MAX_NEIGHBOURS_REFERENCE]
        self._constant = reference[0]
        self._is_constant = (reference == reference[0]).all(axis=0)
        self._mean, self._scale = reference.mean(axis=0), distance_scales(reference)
        rows = self._prepare(reference[order])
        n_searched = (len(rows) + 1) // 2
        self._searched = rows[:n_searched]
        self._doubled, self._squared_norms = (
            2.0 * self._searched.T,
            np.einsum("nd,nd->n", self._searched, self._searched),
        )
        held_out = rows[n_searched:]
        usual = self._squared_distances(held_out if len(held_out) else self._searched)
        self._limit = float(np.quantile(usual, _USUAL_SHARE))

    def is_outside(self, rows: FloatArray) -> BoolArray:
        """Which rows are farther away than 95 % of the reference, or change a column that is constant there."""
        is_far = np.empty(len(rows), dtype=np.bool_)
        with np.errstate(over="ignore"):
            for part, squared, rounding in self._distances(self._prepare(rows)):
                # That a neighbour is beyond the limit shows in how many are: to count takes half as long as to sort.
                n_beyond = np.add.reduce(squared > np.maximum(self._limit, rounding)[:, None], axis=1, dtype=np.int16)
                is_far[part] = n_beyond > len(self._searched) - 1 - self._neighbour
        moves = (rows[:, self._is_constant] != self._constant[self._is_constant]).any(axis=1)
        return np.asarray(is_far | moves)

    def _prepare(self, rows: FloatArray) -> FloatArray:
        return standardized(
            rows[:, ~self._is_constant], self._mean[~self._is_constant], self._scale[~self._is_constant]
        )

    @property
    def _neighbour(self) -> int:
        """Which neighbour decides, counted from 0."""
        return min(_NEIGHBOUR, len(self._searched)) - 1

    def _squared_distances(self, rows: FloatArray) -> FloatArray:
        """Squared distance of each row to its fifth neighbour; what rounding leaves of a distance of zero is zero."""
        found = np.empty(len(rows))
        for part, squared, rounding in self._distances(rows):
            squared.partition(self._neighbour, axis=1)
            nearest = squared[:, self._neighbour]
            found[part] = np.where(nearest > rounding, nearest, 0.0)
        return found

    def _distances(self, rows: FloatArray) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Yield a few rows at a time, their squared distances, and what rounding may leave of a distance of zero.

        A matrix of all distances would not fit into the processor's cache.
        """
        norms = np.einsum("nd,nd->n", rows, rows)
        for start in range(0, len(rows), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            squared = norms[part, None] + self._squared_norms
            squared -= rows[part] @ self._doubled
            yield part, squared, _ROUNDING * (1.0 + norms[part])


def distance_scales(reference: FloatArray) -> FloatArray:
    """Return the deviation of each column; for a column of two values their difference, for a constant one 0.

    A mark such as ``colour = red`` has a tiny deviation if it is rare. Divided by it, one such mark would outweigh all
    other columns.
    """
    low, high = reference.min(axis=0), reference.max(axis=0)
    is_mark = ((reference == low) | (reference == high)).all(axis=0)
    return np.where(is_mark, high - low, reference.std(axis=0))


def standardized(rows: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Centre and scale columns; values beyond a million deviations are cut."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.clip((rows - mean) / np.where(scale > 0.0, scale, 1.0), -_FARTHEST_NEIGHBOUR, _FARTHEST_NEIGHBOUR)


# --- How strong the drift is: how well a regression tells recent rows from the reference


_MAX_REFERENCE = 1000
_C = 0.1
_MAX_COLUMNS = 64
_LARGEST = 10.0


class ComparedReference:
    r"""Tells how strongly rows have drifted from a reference.

    It is :math:`\max(0, 2\,\mathrm{AUC} - 1)` of a logistic regression, on rows that it was not fitted to: half of the
    rows, drawn with a fixed seed, fit the regression for the other half, and the other way round.

    Parameters
    ----------
    reference : array of shape (n_reference, n_columns)
        At most 1,000 of the rows are used.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> reference = rng.normal(size=(1000, 3))
    >>> compared = ComparedReference(reference)
    >>> compared.drift_to(rng.normal(size=(500, 3))) < 0.1 < compared.drift_to(reference[:500] + 1.0)
    True
    """

    def __init__(self, reference: FloatArray) -> None:
        order = np.random.default_rng(0).permutation(len(reference))
        self._n_reference, self._chosen = len(reference), reference[order[:_MAX_REFERENCE]]
        self._mean, self._scale = self._chosen.mean(axis=0), distance_scales(self._chosen)

    def drift_to(self, recent: FloatArray) -> float:
        """Return the strength of the drift to these rows."""
        chosen, scale = self._chosen, self._scale
        rows = np.concatenate((chosen, recent))
        labels = np.repeat(np.array([0, 1], dtype=np.int64), (len(chosen), len(recent)))
        if not (scale > 0.0).all():
            # A column that is constant in the reference is measured by how it moves now.
            scale = np.where(scale > 0.0, scale, np.abs(rows - chosen[0]).max(axis=0))
        X = np.clip(standardized(rows, self._mean, scale), -_LARGEST, _LARGEST)
        if X.shape[1] > _MAX_COLUMNS:
            X = _main_axes(X)
        fold = _fold(self._n_reference, len(labels))
        areas = [_held_out_area(X, labels, fold == number) for number in (0, 1)]
        return max(0.0, 2.0 * float(np.mean(areas)) - 1.0)


@lru_cache(maxsize=4)
def _fold(n_reference: int, n_rows: int) -> IntArray:
    """Return in which half each row is."""
    rng = np.random.default_rng(0)
    rng.permutation(n_reference)  # the draw that chose the reference's rows comes first
    return rng.permutation(n_rows) % 2


def _main_axes(X: FloatArray) -> FloatArray:
    """Return the rows in the axes along which they vary most."""
    centred = X - X.mean(axis=0)
    if len(X) < X.shape[1]:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        axes = vectors[:, -_MAX_COLUMNS:] * np.sqrt(np.maximum(values[-_MAX_COLUMNS:], 0.0))
    else:
        axes = centred @ np.linalg.eigh(centred.T @ centred)[1][:, -_MAX_COLUMNS:]
    return np.ascontiguousarray(axes)


def _held_out_area(X: FloatArray, labels: IntArray, is_held: np.ndarray) -> float:
    fitted, held = labels[~is_held], labels[is_held]
    counts = np.bincount(fitted, minlength=2)
    if not counts.all() or not np.bincount(held, minlength=2).all():
        return 0.5
    weights = (len(fitted) / (2.0 * counts))[fitted]
    coefs = solve(make_problem(np.ascontiguousarray(X[~is_held]), fitted, 2, _C), weights)[0]
    return _area(X[is_held] @ coefs[:-1], held)


def _area(scores: FloatArray, labels: IntArray) -> float:
    """Area under the ROC curve; ties count half."""
    is_recent = labels == 1
    others, recent = np.sort(scores[~is_recent]), np.sort(scores[is_recent])  # both: so it is quicker
    n_below = np.searchsorted(others, recent, "left").sum() + np.searchsorted(others, recent, "right").sum()
    return float(0.5 * n_below / (len(recent) * len(others)))


# --- Attributes the log ratio to the input columns


def linear_parts(coef: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the contribution of each feature to the variance of the score, given its covariance with the score.

    Negative contributions count as zero.
    """
    return np.maximum(coef * covariances, 0.0)


def shares(parts: FloatArray) -> FloatArray:
    """Divide the parts by their sum; return zeros if the sum is zero."""
    total = parts.sum()
    return parts / total if total > 0.0 else np.zeros_like(parts)


class ReferenceColumns:
    """The columns of a reference, as numbers or as categories; read on first use."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference
        self._columns: list[FloatArray | IntArray] | None = None

    def parts(self, log_ratio: FloatArray) -> FloatArray:
        """Return the variance of the log ratio that each column explains on its own."""
        if self._columns is None:
            self._columns = [_as_numbers_or_codes(column) for column in _columns_of(self._reference)]
        deviations = log_ratio - log_ratio.mean()
        return np.array([_explained(column, deviations) for column in self._columns])


def _columns_of(reference: Any) -> list[NDArray[Any]]:
    if hasattr(reference, "columns"):
        return [np.asarray(reference[name]) for name in reference.columns]
    return list(np.asarray(reference).reshape(len(reference), -1).T)


def _as_numbers_or_codes(column: NDArray[Any]) -> FloatArray | IntArray:
    """Return numbers centred and scaled, with the mean for missing values; return anything else as codes."""
    if column.dtype.kind in "mM":
        column = column.astype(np.int64)
    if column.dtype.kind not in "biuf":
        return np.unique(np.array([str(value) for value in column]), return_inverse=True)[1].astype(np.int64)
    numbers = column.astype(np.float64)
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    if np.isnan(numbers).all():
        return np.zeros(len(numbers))
    largest = np.nanmax(np.abs(numbers))
    numbers = numbers / largest if largest > 0.0 else numbers
    numbers = np.nan_to_num(numbers - np.nanmean(numbers))
    scale = numbers.std()
    return numbers / scale if scale > 0.0 else numbers


def _explained(column: FloatArray | IntArray, deviations: FloatArray) -> float:
    if column.dtype.kind == "f":
        return float((column @ deviations) / len(deviations)) ** 2
    counts = np.maximum(np.bincount(column), 1)
    means = np.bincount(column, weights=deviations) / counts
    return float(counts @ means**2) / len(deviations)


# --- Regimes: states of the inputs that a stream settles in, leaves and comes back to


_MOST_IN_WORDS = 3


@dataclass(frozen=True, kw_only=True)
class Regime:
    """One remembered regime.

    Attributes
    ----------
    number : int
        In the order in which the regimes were first seen, from 1.
    visits : tuple of (int, int)
        First and last round of each time in which it was in force, the latest last.
    size : float
        How far it is from the reference: total variation between the weights of the rows, in [0, 1].
    features : tuple of str
        The columns that tell it apart from the other regimes, or from the reference if it is the only one; largest
        first, at most five.
    is_current : bool
        Whether it is in force now.
    """

    number: int
    visits: tuple[tuple[int, int], ...]
    size: float
    features: tuple[str, ...]
    is_current: bool

    def __str__(self) -> str:
        """Return the regime in a sentence."""
        now = ", now in force" if self.is_current else ""
        columns = f"; differs in {', '.join(self.features)}" if self.features else ""
        return f"Regime {self.number}: {rounds_in_words(self.visits)}{now}{columns}."


def rounds_in_words(visits: tuple[tuple[int, int], ...]) -> str:
    """Return the rounds of some visits in words; of many visits, the last three.

    Examples
    --------
    >>> from accous.diagnostics.drift import rounds_in_words
    >>> rounds_in_words(((1, 64), (129, 192)))
    'rounds 1 to 64 and 129 to 192'
    """
    last = [f"{first:,} to {end:,}" for first, end in visits[-_MOST_IN_WORDS:]]
    several = last[0] if len(last) == 1 else f"{', '.join(last[:-1])} and {last[-1]}"
    n_more = len(visits) - len(last)
    return f"rounds {several}" if not n_more else f"{len(visits)} visits, the last in rounds {several}"


# --- Seasons: what each hour of the week did before, and which changes that explains


N_SLOTS = 7 * 24 + 2 * 24
_FIRST_COARSE = 7 * 24
_DAY, _HOUR = 86_400.0, 3_600.0
_FEWEST_DAYS = 2
_MOST_DAYS = 7  # a slot's mean follows slow changes: a day counts at least a seventh
_ROUND_DECAY = 0.5 ** (1.0 / 8.0)
_LEAST_KNOWN = 0.9
_LARGEST_LEFT = 0.5
_LARGEST_DEVIATION, _SMALLEST_DEVIATION = 3.0, 0.2
_SMALLEST_DISTANCE = 1e-9


def slots_of(times: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the hour of the week and the day of each time, in seconds since 1970; -1 where the time is not known.

    Examples
    --------
    >>> import numpy as np
    >>> slots_of(np.array([0.0, 3_600.0 * 50, np.nan]))  # Thursday at 0, Saturday at 2
    (array([ 72, 122,  -1]), array([ 0,  2, -1]))
    """
    is_known = np.isfinite(times)
    seconds = np.where(is_known, times, 0.0)
    days = np.floor(seconds / _DAY).astype(np.int64)
    hours = np.floor((seconds - days * _DAY) / _HOUR).astype(np.int64)
    weekdays = (days + 3) % 7  # from Monday on; 1970 began on a Thursday
    return np.where(is_known, hours + 24 * weekdays, -1), np.where(is_known, days, -1)


def _from_fine_to_coarse(slot: int) -> tuple[int, int, int]:
    """Return the hour of the week, the same hour of that kind of day, and the same hour of the other kind."""
    weekday, hour = divmod(slot, 24)
    is_weekend = weekday >= 5
    return slot, _FIRST_COARSE + 24 * is_weekend + hour, _FIRST_COARSE + 24 * (not is_weekend) + hour


@dataclass(frozen=True, slots=True)
class SeasonMeans:
    """Means of the features in each slot over past days.

    Attributes
    ----------
    means : array of shape (N_SLOTS, n_features)
        Over complete days.
    n_days : array of shape (N_SLOTS,)
        Days in each mean.
    variances : array of shape (n_features,)
        How far a slot's mean of a day is from that of the days before, squared; a mean over all slots.
    n_compared : int
        Days of slots in ``variances``.
    day : array of shape (N_SLOTS,)
        The latest day of each slot or of a finer or coarser one, which is not in ``means`` yet; -1 if there was none.
    sums : array of shape (N_SLOTS, n_features)
        Sums over that day.
    counts : array of shape (N_SLOTS,)
        Rows of that day.
    """

    means: FloatArray
    n_days: IntArray
    variances: FloatArray
    n_compared: int
    day: IntArray
    sums: FloatArray
    counts: IntArray

    def after(
        self, X: FloatArray, slots: IntArray, days: IntArray, ends: Sequence[int]
    ) -> tuple[SeasonMeans, FloatArray, IntArray]:
        """Return the means after rounds; of each, what the slots led to expect of its rows in sum, and of how many."""
        copied = {each.name: getattr(self, each.name).copy() for each in fields(self) if each.name != "n_compared"}
        parts, n_compared = replace(self, **copied), self.n_compared
        expected, n_known = np.zeros((len(ends), X.shape[1])), np.zeros(len(ends), dtype=np.int64)
        # Rows of one round, slot and day together, in the order in which they come.
        is_first = np.zeros(len(X), dtype=bool)
        is_first[[0, *ends[:-1]]] = True
        is_first[1:] |= (slots[1:] != slots[:-1]) | (days[1:] != days[:-1])
        starts = np.flatnonzero(is_first)
        of_groups = zip(
            starts.tolist(),
            [*starts[1:].tolist(), len(X)],
            np.searchsorted(ends, starts, side="right").tolist(),
            slots[starts].tolist(),
            days[starts].tolist(),
            strict=True,
        )
        for start, stop, number, slot, day in of_groups:
            if slot < 0:
                continue
            fine_to_coarse = _from_fine_to_coarse(slot)
            for each in fine_to_coarse:
                if day != parts.day[each]:
                    n_compared = parts._close_day(each, day, n_compared)
            total = X[start:stop].sum(axis=0)
            for each in fine_to_coarse[:2]:
                parts.sums[each] += total
                parts.counts[each] += stop - start
            known = next((each for each in fine_to_coarse if parts.n_days[each] >= _FEWEST_DAYS), None)
            if known is not None:
                expected[number] += (stop - start) * parts.means[known]
                n_known[number] += stop - start
        return replace(parts, n_compared=n_compared), expected, n_known

    @property
    def has_hours(self) -> bool:
        """Whether rows of more than one hour of the day were seen; rows of a date alone have one."""
        return bool((self.day.reshape(-1, 24) >= 0).any(axis=0).sum() > 1)

    def average_day(self) -> FloatArray | None:
        """Return the mean over the hours that were seen on two days, working days and weekends as in a week."""
        kinds = [(_FIRST_COARSE, 5.0), (_FIRST_COARSE + 24, 2.0)]
        known = [
            (self.means[first : first + 24][is_known].mean(axis=0), weight)
            for first, weight in kinds
            if (is_known := self.n_days[first : first + 24] >= _FEWEST_DAYS).any()
        ]
        if not known:
            return None
        means, weights = zip(*known, strict=True)
        return np.asarray(np.average(means, axis=0, weights=weights), dtype=np.float64)

    def _close_day(self, slot: int, next_day: int, n_compared: int) -> int:
        """Take the latest day of a slot into its mean; the arrays are this object's own. Return the days compared."""
        n_rows = self.counts.item(slot)
        if n_rows:
            mean = self.means[slot]
            difference = self.sums[slot] / n_rows - mean
            if self.n_days[slot]:
                n_compared = min(n_compared + 1, N_SLOTS * _MOST_DAYS)
                self.variances[:] += (difference**2 - self.variances) / n_compared
            self.n_days[slot] = min(self.n_days.item(slot) + 1, _MOST_DAYS)
            mean += difference / self.n_days[slot]
        self.day[slot], self.counts[slot], self.sums[slot] = next_day, 0, 0.0
        return n_compared


@dataclass(frozen=True, slots=True)
class SeasonWatch:
    """What recent rounds were and what their slots led to expect, and which changes were seasonal.

    Attributes
    ----------
    slots : SeasonMeans
    recent, expected : array of shape (n_features,)
        Means over recent rounds: of the rows, and of what their slots did before.
    known : float
        Share of recent rows whose hour has been seen on two days.
    settled, settled_expected : array of shape (n_features,)
        The same at the end of the last change.
    settled_known : float
    event_round : int
        Round of the latest change that was judged; 0 if none.
    is_open : bool
        Whether that change is still in progress.
    seasonal : tuple of int
        Rounds of the changes that are seasonal.
    explained : array of shape (n_features,), optional
        How much of what each column contributes to the log ratio the slots explain, summed over looks and discounted;
        None before the first look.
    """

    slots: SeasonMeans
    recent: FloatArray
    expected: FloatArray
    known: float
    settled: FloatArray
    settled_expected: FloatArray
    settled_known: float
    event_round: int = 0
    is_open: bool = False
    seasonal: tuple[int, ...] = ()
    explained: FloatArray | None = None

    def after(self, X: FloatArray, times: FloatArray, ends: Sequence[int] | None = None) -> SeasonWatch:
        """Return the watch after rounds.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        times : array of shape (n_rows,)
            Seconds since 1970; NaN where that is not known.
        ends : sequence of int, optional
            Where the rows of each round end; None is one round.
        """
        ends = (len(X),) if ends is None else ends
        slots, sums, counts = self.slots.after(X, *slots_of(times), ends)
        recent, expected, known, gain = self.recent, self.expected, self.known, 1.0 - _ROUND_DECAY
        for start, end, total, n_known in zip([0, *ends[:-1]], ends, sums, counts.tolist(), strict=True):
            mean = X[start:end].mean(axis=0)
            # Rows of unknown slots are left to be explained by nothing: the share says how many they are.
            wanted = total / n_known if n_known else mean
            recent = recent + gain * (mean - recent)
            expected = expected + gain * (wanted - expected)
            known = known + gain * (n_known / (end - start) - known)
        return replace(self, slots=slots, recent=recent, expected=expected, known=known)

    def judge(self, event_round: int, *, is_over: bool) -> SeasonWatch:
        """Return the watch after a look at the latest change: at its detection, and when it is over.

        Parameters
        ----------
        event_round : int
            Round in which the change was detected.
        is_over : bool
        """
        is_new = event_round != self.event_round
        if not is_new and not (self.is_open and is_over):
            return self
        seasonal = self.seasonal
        if is_new and self.is_explained:
            seasonal = (*seasonal, event_round)[-MAX_EVENTS:]
        elif not is_new and not self.is_explained:
            seasonal = tuple(each for each in seasonal if each != event_round)
        watch = replace(self, event_round=event_round, is_open=not is_over, seasonal=seasonal)
        if not is_over:
            return watch
        return replace(watch, settled=self.recent, settled_expected=self.expected, settled_known=self.known)

    def explain(self, parts: FloatArray, reference_means: FloatArray, *, decay: float) -> SeasonWatch:
        """Return the watch after a look at the columns that moved.

        Parameters
        ----------
        parts : array of shape (n_features,)
            What each column contributes to the log ratio in this look.
        reference_means : array of shape (n_features,)
        decay : float
            How much earlier looks count.
        """
        earlier = np.zeros_like(parts) if self.explained is None else decay * self.explained
        return replace(self, explained=earlier + parts * self.share_explained(reference_means))

    def share_explained(self, reference_means: FloatArray) -> FloatArray:
        r"""Return how much of each column's distance from the reference is due to the time of the day or the week.

        With d the distance of recent means from the reference, and s by how much the slots of the recent rows usually
        differ from an average day, the share is :math:`1 - \min(1, (d - s)^2 / d^2)`. A column that has moved for good
        has moved on an average day too, so nothing of that is explained. The share is 0 while the slots are not known.
        """
        average = self.slots.average_day()
        if self.known < _LEAST_KNOWN or average is None:
            return np.zeros_like(reference_means)
        distance = self.recent - reference_means
        left = distance - (self.expected - average)
        is_away = np.abs(distance) > _SMALLEST_DISTANCE
        return 1.0 - np.minimum(1.0, np.where(is_away, left / np.where(is_away, distance, 1.0), 1.0) ** 2)

    @property
    def is_explained(self) -> bool:
        """Whether the change since the last one ended is what the slots led to expect.

        They have to be known, to explain three quarters of the squared change of the means, and to leave no column
        more than three usual deviations from one day to the next.
        """
        if min(self.known, self.settled_known) < _LEAST_KNOWN or not self.slots.n_compared:
            return False
        change = self.recent - self.settled
        left = change - (self.expected - self.settled_expected)
        if np.linalg.norm(left) > _LARGEST_LEFT * np.linalg.norm(change):
            return False
        # Features are scaled to the reference; some, as the time itself, hardly differ from one day to the next.
        usual = np.maximum(np.sqrt(2.0 * self.slots.variances), _SMALLEST_DEVIATION)
        return bool((np.abs(left) <= _LARGEST_DEVIATION * usual).all())


def start_seasons(n_features: int) -> SeasonWatch:
    """Return a watch that has seen nothing yet."""
    slots = SeasonMeans(
        np.zeros((N_SLOTS, n_features)),
        np.zeros(N_SLOTS, dtype=np.int64),
        np.zeros(n_features),
        0,
        np.full(N_SLOTS, -1, dtype=np.int64),
        np.zeros((N_SLOTS, n_features)),
        np.zeros(N_SLOTS, dtype=np.int64),
    )
    nothing = np.zeros(n_features)
    return SeasonWatch(slots, nothing, nothing, 0.0, nothing, nothing, 0.0)
