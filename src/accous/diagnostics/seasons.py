"""Seasons: what each hour of the week did before, and which changes that explains.

A slot is an hour of one day of the week, or an hour of all working days or of all weekends. Each slot keeps the mean of
its rows over past days. A row is compared with the finest of its slots that has been seen on two days. A change of the
inputs is seasonal if the slots that it leads from and to differed in the same way on the days before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from accous.arrays import FloatArray, IntArray
from accous.diagnostics.drift import MAX_EVENTS

__all__ = ["N_SLOTS", "SeasonMeans", "SeasonWatch", "slots_of", "start_seasons"]

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

    def after(self, X: FloatArray, slots: IntArray, days: IntArray) -> tuple[SeasonMeans, FloatArray, int]:
        """Return the means after rows, what the slots led to expect of the rows in sum, and how many rows it is for."""
        parts = replace(self, day=self.day.copy(), sums=self.sums.copy(), counts=self.counts.copy())
        expected, n_known = np.zeros(X.shape[1]), 0
        # Rows of one slot and day together, in the order in which they come.
        starts = [0, *(np.flatnonzero((slots[1:] != slots[:-1]) | (days[1:] != days[:-1])) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], len(X)], strict=True):
            slot = int(slots[start])
            if slot < 0:
                continue
            fine_to_coarse = _from_fine_to_coarse(slot)
            for each in fine_to_coarse:
                if days[start] != parts.day[each]:
                    parts = parts._with_day_closed(each, int(days[start]))
            total = X[start:stop].sum(axis=0)
            for each in fine_to_coarse[:2]:
                parts.sums[each] += total
                parts.counts[each] += stop - start
            known = next((each for each in fine_to_coarse if parts.n_days[each] >= _FEWEST_DAYS), None)
            if known is not None:
                expected += (stop - start) * parts.means[known]
                n_known += stop - start
        return parts, expected, n_known

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

    def _with_day_closed(self, slot: int, next_day: int) -> SeasonMeans:
        """Take the latest day of a slot into its mean; ``day``, ``sums`` and ``counts`` are this object's own."""
        parts = self._with_mean_of_day(slot) if self.counts[slot] else self
        parts.day[slot], parts.counts[slot], parts.sums[slot] = next_day, 0, 0.0
        return parts

    def _with_mean_of_day(self, slot: int) -> SeasonMeans:
        means, n_days = self.means.copy(), self.n_days.copy()
        variances, n_compared = self.variances, self.n_compared
        difference = self.sums[slot] / self.counts[slot] - means[slot]
        if n_days[slot]:
            n_compared = min(n_compared + 1, N_SLOTS * _MOST_DAYS)
            variances = variances + (difference**2 - variances) / n_compared
        n_days[slot] = min(n_days[slot] + 1, _MOST_DAYS)
        means[slot] += difference / n_days[slot]
        return replace(self, means=means, n_days=n_days, variances=variances, n_compared=n_compared)


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

    def after(self, X: FloatArray, times: FloatArray) -> SeasonWatch:
        """Return the watch after the rows of a round.

        Parameters
        ----------
        X : array of shape (n_rows, n_features)
        times : array of shape (n_rows,)
            Seconds since 1970; NaN where that is not known.
        """
        slots, expected, n_known = self.slots.after(X, *slots_of(times))
        share = n_known / len(X)
        keep = _ROUND_DECAY
        mean = X.mean(axis=0)
        # Rows of unknown slots are left to be explained by nothing: the share says how many they are.
        expected = expected / n_known if n_known else mean
        return replace(
            self,
            slots=slots,
            recent=self.recent + (1.0 - keep) * (mean - self.recent),
            expected=self.expected + (1.0 - keep) * (expected - self.expected),
            known=self.known + (1.0 - keep) * (share - self.known),
        )

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
