"""What a model hands to the performance engine: labelled rows, and the alarm that watches the stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray, to_plain
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.drift import DriftEvent
from accous.diagnostics.losses import FEWEST_LATE
from accous.diagnostics.metrics import one_hot
from accous.diagnostics.performance import Labels, PredictedRows, label_weights
from accous.diagnostics.status import Alarm, Status, limit_of, losses_of, start_alarm, text_of
from accous.exceptions import DataError
from accous.model.tasks import ClassTask, Task, read_numbers, read_predictions
from accous.model.watching import MAX_BYTES, RecentRows
from accous.threads import one_blas_thread

if TYPE_CHECKING:
    from accous.model.heldout import Measures
    from accous.model.round import RoundRules

# --- Rows whose labels are known


_MOST_LABELLED, _FEWEST_LABELLED = 4_000, 500
_SMALLEST_WEIGHT = 0.01
_NEARLY_ALL = 0.9
UNSEEN = -1


@dataclass(frozen=True)
class LabelledRows:
    """The newest rows whose labels came, in the order in which they came.

    Attributes
    ----------
    y : array of shape (n,)
        Numbers of classes, -1 for a class that the reference does not have; or numbers.
    predicted : array of shape (n,)
        What was predicted then, in the same numbers.
    probabilities : array of shape (n, n_classes)
        With what probabilities; of shape (n, 0) where numbers are predicted.
    chosen : array of shape (n,)
        Probability with which each row was chosen to be labelled; NaN if its label merely arrived.
    made_at, came : array of shape (n,)
        Rows of the stream when the row was predicted, and when its label came.
    rows : array of shape (n, n_columns)
        The rows as numbers, NaN where they are not known; without columns if rows are not numbers.
    """

    y: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: FloatArray
    chosen: FloatArray
    made_at: IntArray
    came: IntArray
    rows: FloatArray

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Any) -> LabelledRows:
        return LabelledRows(*(getattr(self, each.name)[rows] for each in fields(self)))

    def after(self, new: LabelledRows) -> LabelledRows:
        """Return these rows and those whose labels came now."""
        both = [np.concatenate((getattr(self, each.name), getattr(new, each.name))) for each in fields(self)]
        return LabelledRows(*both)

    def newest(self) -> LabelledRows:
        """Return as many as are kept: the rows that were predicted last, whenever their labels came."""
        # Wide rows take space: fewer of them are kept.
        most = MAX_BYTES // max(1, 8 * self.rows.shape[1])
        most = min(_MOST_LABELLED, max(_FEWEST_LABELLED, most))
        if len(self) <= most or (self.made_at[1:] >= self.made_at[:-1]).all():
            # Nearly always parts of these arrays, not copies.
            return LabelledRows(*(np.ascontiguousarray(getattr(self, each.name)[-most:]) for each in fields(self)))
        return self[np.sort(np.argsort(self.made_at, kind="stable")[-most:])]

    @property
    def made(self) -> PredictedRows:
        """What was predicted of them."""
        return PredictedRows(self.predicted, self.probabilities if self.probabilities.shape[1] else None)

    @property
    def arrived(self) -> IntArray:
        """How new each label is, in rows of the stream.

        Of labels that came together, the newest row is as new as their coming, and the others are as much older as
        they were predicted before it: labels of long ago tell little of now.
        """
        _, groups = np.unique(self.came, return_inverse=True)
        newest = np.zeros(len(self), dtype=np.int64)
        np.maximum.at(newest, groups, self.made_at)
        return np.maximum(0, self.came - newest[groups] + self.made_at)

    def weights(self, n_rows: int, n_recent: int) -> FloatArray:
        """Return how much each label counts after so many rows; 0 for what says nothing of recent ones."""
        fading = label_weights((n_rows - self.arrived).astype(np.float64), n_recent)
        return np.where(fading > _SMALLEST_WEIGHT, fading * self.weights_of_all(n_rows, n_recent), 0.0)

    def weights_of_all(self, n_rows: int, n_recent: int) -> FloatArray:
        """Return how much each label counts, however old.

        Labels of known probability count. Those that merely arrived may be of a certain kind of rows: they count if
        they are all labels of the recent rows, or nearly, beside some that were asked for.
        """
        merely, is_recent = np.isnan(self.chosen), n_rows - self.arrived <= n_recent
        n_asked = min((is_recent & ~merely).sum(), n_recent // 2)
        # Labels may come before or after the round that learns from their rows.
        are_all = (is_recent & merely).sum() >= _NEARLY_ALL * (n_recent - n_asked)
        chosen = np.where(merely | (are_all & is_recent), 1.0, self.chosen)
        return np.where(are_all | ~merely, 1.0 / chosen, 0.0)

    def labels(self, weights: FloatArray) -> Labels:
        """Return those with a weight; where classes were predicted that nothing is expected of, they speak alone."""
        some = self[weights > 0.0]
        is_alone = some.made.probabilities is not None and bool((some.predicted == UNSEEN).any())
        return Labels(some.made, some.y, weights[weights > 0.0], is_alone)


def late_scores(labelled: LabelledRows | None, *, has_classes: bool) -> tuple[FloatArray, IntArray, IntArray] | None:
    """Return how far labels were from what was predicted, when that was, and when they came; None if too few did.

    Labels that merely arrived may be of a certain kind of rows: they count if hardly any was asked for.
    """
    if labelled is None or len(labelled) < FEWEST_LATE:
        return None
    is_asked = ~np.isnan(labelled.chosen)
    some = labelled[is_asked] if is_asked.sum() >= FEWEST_LATE else labelled
    if not has_classes:
        return np.abs(some.y - some.predicted), some.made_at, some.came
    if not some.probabilities.shape[1]:
        return None
    shares = some.probabilities[np.arange(len(some)), np.maximum(some.y, 0)]
    return np.where(some.y < 0, 1.0, 1.0 - shares), some.made_at, some.came


def read_labelled(
    rules: RoundRules,
    predictor: Any,
    rows: Any,
    late: NDArray[Any],
    *,
    predicted: Any,
    probability: Any,
    made_at: IntArray,
    came: IntArray,
) -> LabelledRows:
    """Return labels that came with what is predicted of their rows.

    Parameters
    ----------
    rules : RoundRules
    predictor : object
        The one in use: it says what was not kept from then.
    rows : array or frame, optional
        As the predictor reads them; None if there are predictions only.
    late : array of shape (n,)
        The labels.
    predicted : array of shape (n,) or (n, n_classes), optional
        What was predicted then, or with what probabilities of the predictor's classes, or of the reference's.
    probability : float or array of shape (n,), optional
        With which the rows were chosen to be labelled; None says that the labels merely arrived.
    made_at, came : array of shape (n,)
        Rows of the stream when the rows were predicted, and when their labels came.
    """
    task, measures, n = rules.task, rules.measures, len(late)
    has_shares = task.has_classes and np.ndim(predicted) == 2
    made = None if rows is None or has_shares else measures.made_by(predictor, rows)
    if task.has_classes:
        then, known = predicted, getattr(predictor, "classes_", task.classes)
        if has_shares:
            then, made = _by_shares(task, measures, np.asarray(predicted, dtype=np.float64), known, n)
        elif predicted is None and rows is not None and len(known) > len(task.classes):
            then = predictor.predict(rows)
        found = None if then is None else read_predictions(then, n, "predicted")
        y, made = _class_numbers(task, late.tolist(), found, made)
    else:
        y = np.asarray(late, dtype=np.float64)
        if predicted is not None:
            made = PredictedRows(read_numbers(predicted, n, name="predicted"))
    assert made is not None
    width = rules.cover.numbers.shape[1] if rules.takes_numbers and rules.cover.numbers is not None else 0
    kept = np.full((n, width), np.nan)
    if rows is not None and width:
        kept[:] = rows[:, :width]  # a predictor that learned from labels may read more columns
    return LabelledRows(
        y,
        np.asarray(made.predicted),
        np.zeros((n, 0)) if made.probabilities is None else made.probabilities,
        read_probability(probability, n),
        made_at,
        came,
        kept,
    )


def _by_shares(
    task: ClassTask, measures: Measures, shares: FloatArray, known: NDArray[Any], n: int
) -> tuple[NDArray[Any] | None, PredictedRows]:
    """Return the most probable classes if some are new, and predictions among the classes of the reference."""
    classes = task.classes if shares.shape[1] == len(task.classes) else known
    if shares.shape != (n, len(classes)) or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise DataError(f"predicted must be classes, or probabilities of shape ({n}, {len(known)}).")
    made = measures.made(shares[:, np.isin(classes, task.classes)])
    return (None if classes is task.classes else classes[shares.argmax(axis=1)]), made


def _class_numbers(
    task: ClassTask, labels: Any, predicted: list[Any] | None, made: PredictedRows | None
) -> tuple[NDArray[Any], PredictedRows]:
    """Return numbers of true and predicted classes, where those that the reference does not have share one number."""
    numbers = {each: number for number, each in enumerate(task.classes.tolist())}
    y = np.array([numbers.get(each, UNSEEN) for each in labels], dtype=np.int64)
    if predicted is None:
        assert made is not None
        return y, made
    then = np.array([numbers.get(each, UNSEEN) for each in predicted], dtype=np.int64)
    is_right = np.array([one == other for one, other in zip(predicted, labels, strict=True)], dtype=bool)
    # One new class in place of another is an error: any class of the reference stands for it.
    then = np.where((then == UNSEEN) & (y == UNSEEN) & ~is_right, 0, then)
    shares = one_hot(then, len(numbers) + 1)[:, :-1] if made is None else made.probabilities
    return y, PredictedRows(then, shares)


def read_probability(probability: Any, n: int) -> FloatArray:
    """Return with which probability each row was chosen; NaN where its label merely arrived."""
    if probability is None:
        return np.full(n, np.nan)
    found = np.asarray(probability, dtype=np.float64)
    if found.shape not in ((), (n,)):
        raise DataError(f"probability must be one number, or one for each of the {n} rows, got shape {found.shape}.")
    if not ((found > 0.0) & (found <= 1.0) | np.isnan(found)).all():
        raise DataError("probability must be above 0 and at most 1, or NaN where the label merely arrived.")
    return np.array(np.broadcast_to(found, (n,)))


def labelled_from_plain(plain: dict[str, Any] | None, task: Task) -> LabelledRows | None:
    """Return labelled rows from a file, and refuse what was not written by ``to_plain``."""
    if plain is None:
        return None
    found = LabelledRows(**plain)
    n_classes = len(task.classes) if task.has_classes else 0
    kind = "i" if n_classes else "f"
    flat = (found.y, found.predicted, found.chosen, found.made_at, found.came)
    is_sound = (
        all(each.shape == (len(found.y),) for each in flat)
        and found.probabilities.shape == (len(found), n_classes)
        and found.rows.ndim == 2
        and len(found.rows) == len(found)
        and "".join(each.dtype.kind for each in flat) == f"{kind}{kind}fii"
        and found.probabilities.dtype.kind == found.rows.dtype.kind == "f"
    )
    if not is_sound or not _has_sound_values(found, n_classes):
        raise ValueError("labelled rows are not as they were written")
    return found


def _has_sound_values(found: LabelledRows, n_classes: int) -> bool:
    chosen, shares = found.chosen[~np.isnan(found.chosen)], found.probabilities
    is_sound = ((chosen > 0.0) & (chosen <= 1.0)).all() and ((found.made_at >= 0) & (found.came >= found.made_at)).all()
    if not n_classes:
        return bool(is_sound and np.isfinite(found.y).all() and np.isfinite(found.predicted).all())
    inside = (
        (found.y >= UNSEEN) & (found.y < n_classes) & (found.predicted >= UNSEEN) & (found.predicted < n_classes)
    ).all()
    return bool(is_sound and inside and ((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all())


# --- The alarm


@dataclass(frozen=True)
class AlarmWatch:
    """The betting process of a model, and how far it has come.

    Attributes
    ----------
    process : Alarm
    n_closed : int
        Blocks of recent rows until now.
    since : int or None
        Round of the stream in which the alarm went off.
    """

    process: Alarm
    n_closed: int
    since: int | None = None

    def bet(self, losses: FloatArray, this_round: int, weight: FloatArray | None = None) -> AlarmWatch:
        """Return the watch after the losses of some rows."""
        process = self.process.watch(losses, weight)
        return replace(self, process=process, since=this_round if process.is_on and self.since is None else self.since)

    def after_blocks(
        self, rules: RoundRules, predictor: Any, recent: RecentRows, labelled: LabelledRows | None, this_round: int
    ) -> AlarmWatch:
        """Return the watch after the blocks of recent rows that were closed since.

        Where labels came meanwhile, they speak for the rows, and nothing is bet on what was expected of them.
        """
        watch, calibration = self, rules.held_out.calibration
        new = range(max(self.n_closed, recent.n_closed - len(recent.blocks)), recent.n_closed)
        if calibration is not None and rules.takes_numbers and not self.process.is_on:
            blocks = [
                recent.blocks[number - recent.n_closed]
                for number in new
                if not _has_labels(labelled, number, recent.block_rows)
            ]
            if blocks:
                with one_blas_thread():
                    made = rules.measures.made_by(predictor, np.concatenate(blocks))
                    losses = losses_of(rules.measures.metric, calibration, made)
                for each in np.split(losses, np.cumsum([len(block) for block in blocks])[:-1]):
                    watch = watch.bet(each, this_round)
        return replace(watch, n_closed=recent.n_closed)

    def after_labels(self, rules: RoundRules, labels: Labels, this_round: int) -> AlarmWatch:
        """Return the watch after labels, whose weights are those of one moment."""
        calibration = rules.held_out.calibration
        if calibration is None or not len(labels):
            return self
        losses = losses_of(rules.measures.metric, calibration, labels.made, labels.y)
        return self.bet(losses, this_round, labels.weight / labels.weight.max())


def _has_labels(labelled: LabelledRows | None, number: int, block_rows: int) -> bool:
    if labelled is None:
        return False
    return bool(((labelled.arrived > number * block_rows) & (labelled.arrived <= (number + 1) * block_rows)).any())


def begin_alarm(rules: RoundRules, recent: RecentRows) -> AlarmWatch | None:
    """Return the watch before the first bet, which is on the blocks of recent rows that are still kept."""
    calibration = rules.held_out.calibration
    if calibration is None:
        return None
    limit = limit_of(rules.measures.metric, calibration)
    return AlarmWatch(start_alarm(limit), recent.n_closed - len(recent.blocks))


def alarm_from_plain(plain: dict[str, Any] | None) -> AlarmWatch | None:
    """Return the watch from a file, and refuse what was not written by ``to_plain``."""
    if plain is None:
        return None
    process = Alarm(**(plain["process"] | {"stakes": tuple(plain["process"]["stakes"])}))
    numbers = (process.limit, process.alpha, *process.stakes)
    is_sound = (
        all(isinstance(each, float) and math.isfinite(each) and each >= 0.0 for each in numbers)
        and 0.0 < process.limit < 1.0
        and 0.0 < process.alpha < 1.0
        and len(process.stakes) == len(start_alarm(0.5).stakes)
        and (process.since is None) == (plain["since"] is None)
        and all(isinstance(each, int) and each >= 0 for each in (process.rounds, plain["n_closed"]))
    )
    if not is_sound:
        raise ValueError("the alarm is not as it was written")
    return AlarmWatch(process, plain["n_closed"], plain["since"])


# --- What moved


@dataclass(frozen=True)
class MovedColumn:
    """A column that has moved.

    Attributes
    ----------
    name : str
    share : float
        Its share in the shift.
    then, now : float or str or None
        Its mean in the reference and in recent rows, or how often its most frequent category was there.
    """

    name: str
    share: float
    then: float | str | None
    now: float | str | None


@dataclass(frozen=True)
class Drift:
    """What has moved in the inputs.

    Attributes
    ----------
    columns : tuple of MovedColumn
        The one that moved most first; empty while there is no shift.
    events : tuple of DriftEvent
        The last hundred changes.
    coverage : Coverage
        How well the reference covers recent rows.
    """

    columns: tuple[MovedColumn, ...]
    events: tuple[DriftEvent, ...]
    coverage: Coverage


def number_or_none(value: float) -> float | None:
    """Return the number, or None for JSON where there is none."""
    return None if math.isnan(value) else float(value)


def estimate_to_json(one: Any) -> dict[str, Any]:
    """Return value, interval, basis and value at fit."""
    numbers = {name: number_or_none(getattr(one, name)) for name in ("value", "low", "high")}
    return numbers | {"basis": one.basis, "at_fit": number_or_none(one.at_fit)}


def status_to_json(status: Status) -> dict[str, Any]:
    """Return state, alarm, reasons and advice."""
    reasons = [
        {"code": str(each.code), "number": number_or_none(each.number), "column": each.column, "text": text_of(each)}
        for each in status.reasons
    ]
    advice = {"code": str(status.advice.code), "n": status.advice.n, "command": status.advice.command() or None}
    return {
        "state": status.state,
        "alarm": status.alarm,
        "alarm_since": status.alarm_since,
        "reasons": reasons,
        "advice": advice | {"text": text_of(status.advice)},
    }


def drift_to_json(drift: Drift) -> dict[str, Any]:
    """Return columns, events and the share of rows outside."""
    return {
        "columns": [to_plain(each) for each in drift.columns],
        "events": [to_plain(each) for each in drift.events],
        "outside": number_or_none(drift.coverage.share_outside),
    }
