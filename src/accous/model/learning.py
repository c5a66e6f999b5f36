"""Learning from labels: the rows that are kept, a predictor refitted on them, and its mixture with the label-free one.

Two experts predict together. One knows no labels: the predictor that rounds adapt, or the fixed one. The other is the
same recipe, refitted on the reference and the labels, where the past fades. A label is a held-out row of both until it
is learned from, and by such rows the experts are weighed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if

from accous.arrays import BoolArray, FloatArray, IntArray
from accous.model.heldout import FEWEST_ROWS_OF_TREES, SHARES, Combination, losses_of_truths
from accous.model.tasks import Task
from accous.text import LOGGER, require_integer, require_share
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from accous.validation import append_rows, count_rows, naming_values, own_copy

# --- Labelled rows that are kept, and how much each of them counts


MOST_LABELS = 5_000
"""Labelled rows that are kept: those of the latest rows of the stream, which are the ones with the largest weights."""

FEWEST_NEW, _SHARE_OF_NEW, _MOST_NEW = 25, 0.1, 100
# In rows of the stream: after so many, the reference and a label count half. The reference never counts less than the
# smallest weight; a new label counts as two of its rows did at first.
_HALF_OF_REFERENCE, _SMALLEST_OF_REFERENCE = 2_000.0, 0.1
_HALF_OF_LABEL, _LARGEST_OF_LABEL = 8_000.0, 2.0


@dataclass(frozen=True, eq=False)
class KeptLabels:
    """Labelled rows in the order of the stream, and what was predicted for them before they were learned from.

    Attributes
    ----------
    rows : array or frame
        As the predictor reads them.
    truths : array of shape (n_rows,)
        Their classes or numbers.
    position : array of shape (n_rows,)
        Rows of the stream until the row.
    ids : array of shape (n_rows,)
        By which a label is found again, to be corrected or taken back.
    answers : array of shape (n_rows, 4)
        What four predictors said when the label came: the one that knows no labels, the one that learned from those
        before, and its linear and its boosted part. Of classes, the probability of the true one; NaN where there was
        no such predictor.
    errors : array of shape (n_rows, 2)
        How wrong the predictor that knows no labels and the one in use were: 0 or 1, or the distance of numbers.
    is_learned : array of shape (n_rows,)
        Whether the last refit had the row.
    is_asked : array of shape (n_rows,)
        Whether the label was asked for. Others may be of a certain kind of rows.
    """

    rows: Any
    truths: NDArray[Any]
    position: IntArray
    ids: IntArray
    answers: FloatArray
    errors: FloatArray
    is_learned: BoolArray
    is_asked: BoolArray

    def __len__(self) -> int:
        return len(self.truths)

    @property
    def judges(self) -> BoolArray:
        """Which labels judge the expert that learned: those before it did, and if enough were asked for, only these."""
        is_known = ~np.isnan(self.answers[:, 1])
        is_asked = is_known & self.is_asked
        return is_asked if is_asked.sum() >= FEWEST_NEW else is_known

    def part(self, chosen: IntArray) -> KeptLabels:
        """Return some of the rows."""
        others = {each.name: getattr(self, each.name)[chosen] for each in fields(self) if each.name != "rows"}
        return KeptLabels(rows=own_copy(_safe_indexing(self.rows, chosen), None), **others)

    def joined_by(self, more: KeptLabels) -> KeptLabels:
        """Return both, in the order of the stream."""
        others = {
            each.name: np.concatenate((getattr(self, each.name), getattr(more, each.name)))
            for each in fields(self)
            if each.name != "rows"
        }
        both = KeptLabels(rows=append_rows(self.rows, more.rows), **others)
        order = np.argsort(both.position, kind="stable")
        return both if (np.diff(order) == 1).all() else both.part(order)


def fading_weights(position: IntArray) -> tuple[float, FloatArray]:
    """Return the weight of a reference row and those of labels.

    Time is counted in rows of the stream, and now is the newest row that has a label: labels that come late are as
    good news as they would have been at once.

    Examples
    --------
    >>> fading_weights(np.array([0, 8_000]))
    (0.1, array([1., 2.]))
    >>> fading_weights(np.array([2_000]))
    (0.5, array([2.]))
    """
    now = int(position.max(initial=0))
    of_reference = max(_SMALLEST_OF_REFERENCE, 0.5 ** (now / _HALF_OF_REFERENCE))
    return of_reference, _LARGEST_OF_LABEL * np.power(0.5, (now - position) / _HALF_OF_LABEL)


# --- Both experts together


@dataclass(frozen=True, eq=False)
class MixtureOfRegressors:
    """The predictor that knows no labels and the one that learned from them, weighted.

    Attributes
    ----------
    fixed, learned : predictor
    weight : float
        Of the one that learned.
    width : int, optional
        Columns that it reads. The other one reads the first of them; where a row has fewer, the rest is 0. None: both
        read the rows as they are.
    n_columns : int
        Columns that the one without labels reads, if there is a width.
    """

    fixed: Any
    learned: Any
    weight: float
    width: int | None
    n_columns: int

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the number of each row."""
        fixed, learned = (
            np.asarray(each.predict(rows), dtype=np.float64)
            for each, rows in zip((self.fixed, self.learned), self._rows(X), strict=True)
        )
        return np.asarray((1.0 - self.weight) * fixed + self.weight * learned)

    def _rows(self, X: Any) -> tuple[Any, Any]:
        if self.width is None:
            return X, X
        return X[:, : self.n_columns], as_wide(X, self.width)


def _has_shares(mixture: Any) -> bool:
    return hasattr(mixture.fixed, "predict_proba")


@dataclass(frozen=True, eq=False)
class MixtureOfClassifiers(MixtureOfRegressors):
    """Both experts for classes; those that only labels have are classes too.

    Without probabilities nothing can be mixed: then the expert with the larger weight predicts, or the one that
    learned if it has more classes.
    """

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes of the expert that learned: it has seen the reference too."""
        return np.asarray(self.learned.classes_)

    @property
    def _only(self) -> Any:
        """The expert that predicts alone, if there are no probabilities, and which rows it reads."""
        if _has_shares(self):
            return None
        is_learned = self.weight >= 0.5 or len(self.fixed.classes_) < len(self.classes_)
        return (self.learned, 1) if is_learned else (self.fixed, 0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        if self._only is not None:
            only, place = self._only
            return np.asarray(only.predict(self._rows(X)[place]))
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    @available_if(_has_shares)
    def predict_proba(self, X: Any) -> FloatArray:
        """Return the class probabilities of each row."""
        of_fixed, of_learned = self._rows(X)
        found = self.weight * np.asarray(self.learned.predict_proba(of_learned), dtype=np.float64)
        places = np.searchsorted(self.classes_, self.fixed.classes_)
        found[:, places] += (1.0 - self.weight) * np.asarray(self.fixed.predict_proba(of_fixed), dtype=np.float64)
        return np.asarray(found)

    def decision_function(self, X: Any) -> FloatArray:
        """Return log odds of two classes, or the logarithm of each probability."""
        if self._only is not None:
            only, place = self._only
            return np.asarray(only.decision_function(self._rows(X)[place]))
        logs = np.log(np.maximum(self.predict_proba(X), 1e-300))
        return np.asarray(logs[:, 1] - logs[:, 0] if logs.shape[1] == 2 else logs)


def as_wide(rows: FloatArray, width: int) -> FloatArray:
    """Return rows with so many columns; those that they do not have are 0."""
    n_more = width - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, n_more))) if n_more > 0 else rows[:, :width]


# --- What was learned so far


_RATE, _KEPT_OF_LOSSES, _ROWS_OF_PACE, _SMALLEST_SHARE = 0.1, 0.7, 1_000.0, 0.001
_SMALLEST_PROBABILITY = 0.02  # a sure miss counts as four nats
_MOST_EVENTS, _LARGEST_LEAD = 100, 0.25 + 1e-9


@dataclass(frozen=True)
class LearningEvent:
    """One refit on labels.

    Attributes
    ----------
    round, row : int
        Rounds and rows of the stream until then.
    n_labels, n_new : int
        Labels that were learned from, and how many of them for the first time.
    error_fixed, error : float
        Mean error on the new ones before they were learned from, on those asked for if there are some: of the predictor
        that knows no labels, and of the one that was in use. The next event's says what this refit gained.
    weight : float
        Of the expert that learned, from now on.
    share : float or None
        Of the boosted trees in it; None if it is another predictor.
    """

    round: int
    row: int
    n_labels: int
    n_new: int
    error_fixed: float
    error: float
    weight: float
    share: float | None


class Fitted:
    """A predictor that is fitted when it is first used, as after a load."""

    def __init__(self, fit: Callable[[], Any]) -> None:
        self._fit: Callable[[], Any] | None = fit
        self._predictor: Any = None

    @property
    def predictor(self) -> Any:
        """The fitted predictor."""
        fit = self._fit
        if fit is not None:
            self._predictor = fit()
            self._fit = None
        return self._predictor

    def __reduce__(self) -> Any:
        """Pickle the fitted predictor."""
        return _already_fitted, (self.predictor,)


def _already_fitted(predictor: Any) -> Fitted:
    return Fitted(lambda: predictor)


@dataclass(frozen=True, eq=False)
class Learning:
    """What a model has learned from labels.

    Attributes
    ----------
    kept : KeptLabels
    n_seen : int
        Labels that ever came.
    weight : float
        Of the expert that learned; 0 before the first refit.
    share : float or None
        Of the boosted trees in it, for ``"auto"``.
    width : int, optional
        Columns of the kept rows, if they have more than the reference.
    events : tuple of LearningEvent
        The last hundred refits.
    fitted : Fitted, optional
        The expert that learned.
    """

    kept: KeptLabels
    n_seen: int = 0
    weight: float = 0.0
    share: float | None = None
    width: int | None = None
    events: tuple[LearningEvent, ...] = ()
    fitted: Fitted | None = field(default=None, compare=False)

    def mixed_with(self, fixed: Any, n_columns: int, task: Task) -> Any:
        """Return both experts together, given the one that knows no labels."""
        if self.fitted is None:
            return fixed
        make = MixtureOfClassifiers if task.has_classes else MixtureOfRegressors
        return make(fixed, self.fitted.predictor, self.weight, self.width, n_columns)

    def with_event(self, event: LearningEvent) -> Learning:
        """Return this with one more refit."""
        return replace(self, events=(*self.events, event)[-_MOST_EVENTS:])

    def to_json(self) -> dict[str, Any]:
        """Return who predicts and what was learned, ready for JSON; None where there is no number.

        Each refit has the error of the model in use on labels that it had not learned from: those that this refit
        learned first, and those that came after it.
        """
        later = [*(event.error for event in self.events[1:]), mean_errors(self.kept)[1]]
        events = [asdict(event) | {"error_after": after} for event, after in zip(self.events, later, strict=False)]
        n_learned = int(self.kept.is_learned.sum())
        return {
            "labels": n_learned,
            "waiting": len(self.kept) - n_learned,
            "experts": {"without labels": 1.0 - self.weight, "learned from labels": self.weight},
            "events": [
                {name: None if value != value else value for name, value in event.items()}  # noqa: PLR0124 (NaN)
                for event in events
            ],
        }

    @property
    def is_due(self) -> bool:
        """Whether enough labels came since the last refit: a tenth of those before, at least 25, at most 100."""
        n_learned = int(self.kept.is_learned.sum())
        return len(self.kept) - n_learned >= min(_MOST_NEW, max(FEWEST_NEW, _SHARE_OF_NEW * n_learned))

    def after(self, new: KeptLabels, spread: float | None) -> Learning:
        """Return this after labels came, with the experts weighed again."""
        kept = self.kept.joined_by(new)
        return replace(self, kept=kept, n_seen=self.n_seen + len(new)).weighed(spread)

    def without(self, ids: IntArray, spread: float | None) -> Learning | None:
        """Return this without some labels, the rest of which is to be learned again; None if that is too little.

        If a predictor has learned from some of these labels, the others are judged anew.
        """
        is_gone = np.isin(self.kept.ids, ids)
        kept = self.kept.part(np.flatnonzero(~is_gone))
        if len(kept) < FEWEST_NEW:
            return None
        if self.kept.is_learned[is_gone].any():
            kept = replace(kept, answers=np.where(np.arange(4) > 0, np.nan, kept.answers))
        events = tuple(event for event in self.events if event.n_labels <= len(kept))
        n_seen = self.n_seen - int(is_gone.sum())
        return replace(self, kept=kept, n_seen=n_seen, events=events).weighed(spread)

    def losses(self, spread: float | None) -> FloatArray:
        """Return what mixtures of both experts, by `SHARES`, lose on each label that judges them."""
        judges = self.kept.judges
        fixed, learned = self.kept.answers[judges, :2].T[:, :, None]
        mixed = (1.0 - SHARES) * fixed + SHARES * learned
        return log_losses(mixed) if spread is None else np.abs(mixed - self.kept.truths[judges, None]) / spread

    def weighed(self, spread: float | None) -> Learning:
        """Return this with the experts weighed by labels that neither had learned from.

        The weight is the mean of 21 mixtures, each of which counts as the exponential of minus what it has lost, where
        labels of a thousand rows before count 0.7: by Bayes' rule for classes, and a tenth of the distances of numbers.
        Counted so, it loses on classes at most log(21) = 3 nats more than the best of the mixtures, each expert alone
        among them.

        Parameters
        ----------
        spread : float, optional
            Of the numbers to predict, by which distances are divided; None for classes.
        """
        if self.fitted is None:
            return self
        position = self.kept.position[self.kept.judges]
        counts = faded_since(position.max(initial=0) - position)
        # Not by BLAS, whose bits may depend on the number of threads.
        lost = (1.0 if spread is None else _RATE) * (counts[:, None] * self.losses(spread)).sum(axis=0)
        weight = float(np.average(SHARES, weights=np.exp(lost.min() - lost)))
        return replace(self, weight=min(max(weight, _SMALLEST_SHARE), 1.0 - _SMALLEST_SHARE))


def log_losses(answers: FloatArray) -> FloatArray:
    """Return the losses of probabilities of the truth, at most four nats."""
    return np.asarray(-np.log(np.maximum(answers, _SMALLEST_PROBABILITY)))


def faded_since(n_rows: NDArray[Any]) -> FloatArray:
    """Return what is left of the weight of losses after so many rows."""
    return np.power(_KEPT_OF_LOSSES, n_rows / _ROWS_OF_PACE)


def weight_of_odds(first: float, gain: NDArray[Any]) -> FloatArray:
    """Return the weight of the expert that learned, by its odds at first and by how much less it has lost since."""
    odds = first * np.exp(np.clip(_RATE * gain, -50.0, 50.0))
    return np.clip(odds / (1.0 + odds), _SMALLEST_SHARE, 1.0 - _SMALLEST_SHARE)


def start_learning(rows: Any, task: Task) -> Learning:
    """Return what is known before the first label; ``rows`` are any, for their kind."""
    none = np.zeros(0, dtype=np.int64)
    empty = own_copy(_safe_indexing(rows, none), None)
    answers, errors, no = np.empty((0, 4)), np.empty((0, 2)), np.zeros(0, dtype=bool)
    return Learning(KeptLabels(empty, task.truths[:0], none, none, answers, errors, no, no))


def judge_labels(
    rows: Any,
    truths: NDArray[Any],
    fixed: Any,
    mixed: Any,
    *,
    position: IntArray,
    ids: IntArray,
    is_asked: BoolArray,
    task: Task,
) -> KeptLabels:
    """Return labels with what both experts predict for their rows now.

    Parameters
    ----------
    rows : array or frame
    truths : array of shape (n_rows,)
    fixed, mixed : predictor
        The one that knows no labels and the one in use, which are the same before the first refit.
    position, ids, is_asked : array of shape (n_rows,)
    task : Task
        Of the reference.
    """
    answers = np.full((len(truths), 4), np.nan)
    narrow, wide = (rows, rows) if mixed is fixed else mixed._rows(rows)
    answers[:, 0] = _answers(fixed, narrow, truths, task)
    if mixed is not fixed:
        answers[:, 1:] = answers_of_learned(mixed.learned, wide, truths, task)
    errors = np.stack([_errors(each, of, truths, task) for each, of in ((fixed, narrow), (mixed, rows))], axis=1)
    return KeptLabels(rows, truths, position, ids, answers, errors, np.zeros(len(truths), dtype=bool), is_asked)


def answers_of_learned(learned: Any, rows: Any, truths: NDArray[Any], task: Task) -> FloatArray:
    """Return what an expert that learned from labels says, and its linear and its boosted part; NaN without parts."""
    answers = np.full((len(truths), 3), np.nan)
    answers[:, 0] = _answers(learned, rows, truths, task)
    linear, trees = getattr(learned, "linear", None), getattr(learned, "trees", None)
    if linear is not None and trees is not None:
        answers[:, 1] = _answers(linear, rows, truths, task)
        answers[:, 2] = _answers(trees, rows, truths, task)
    return answers


def _answers(predictor: Any, rows: Any, truths: NDArray[Any], task: Task) -> FloatArray:
    """Return the predicted numbers, or the probability of each true class."""
    if not task.has_classes:
        return np.asarray(predictor.predict(rows), dtype=np.float64)
    if not hasattr(predictor, "predict_proba"):
        return np.asarray(np.asarray(predictor.predict(rows)) == truths, dtype=np.float64)
    classes = np.asarray(predictor.classes_)
    places = np.minimum(np.searchsorted(classes, truths), len(classes) - 1)
    shares = np.asarray(predictor.predict_proba(rows), dtype=np.float64)[np.arange(len(truths)), places]
    return np.where(classes[places] == truths, shares, 0.0)


def _errors(predictor: Any, rows: Any, truths: NDArray[Any], task: Task) -> FloatArray:
    return np.abs(task.errors_on(truths, np.asarray(predictor.predict(rows)))).astype(np.float64)


def mean_errors(kept: KeptLabels) -> tuple[float, float]:
    """Return the mean errors on labels that were not learned from yet, of the fixed predictor and the one in use.

    Those that were asked for speak alone, if there are some.
    """
    if kept.is_learned.all():
        return float("nan"), float("nan")
    is_asked = kept.is_asked & ~kept.is_learned
    fixed, in_use = kept.errors[is_asked if is_asked.any() else ~kept.is_learned].mean(axis=0).tolist()
    return fixed, in_use


def latest(learning: Learning) -> Learning:
    """Return this with as many of the latest rows as are kept."""
    n_kept = len(learning.kept)
    if n_kept <= MOST_LABELS:
        return learning
    return replace(learning, kept=learning.kept.part(np.arange(n_kept - MOST_LABELS, n_kept)))


def choose_share(combination: Combination, kept: KeptLabels, task: Task) -> float:
    """Return the weight of boosted trees by held-out rows of the reference and by labels, which were held out too.

    Of classes, either part keeps a quarter: where inputs move, the one that was better before may be sure and wrong.
    """
    of_reference, of_labels = fading_weights(kept.position)
    total = of_reference * np.asarray(combination.losses) if combination.losses else np.zeros(len(SHARES))
    is_known = kept.judges & ~np.isnan(kept.answers[:, 2])
    linear, trees = kept.answers[is_known, 2], kept.answers[is_known, 3]
    truths = None if task.has_classes else kept.truths[is_known]
    losses = [losses_of_truths((1.0 - share) * linear + share * trees, truths) for share in SHARES]
    total = total + np.stack(losses) @ of_labels[is_known]
    if not total.any():
        return 0.5
    is_possible = np.abs(SHARES - 0.5) <= (_LARGEST_LEAD if task.has_classes else 0.5)
    return float(SHARES[int(np.where(is_possible, total, np.inf).argmin())])


def weights_to_fit(kept: KeptLabels, base: FloatArray, task: Task) -> FloatArray:
    """Return the weights of the reference and of labels together, with the mean of the base weights.

    A label has the base weight that rows of its class have in the reference on average.
    """
    of_reference, of_labels = fading_weights(kept.position)
    mean = float(base.mean())
    own = np.full(len(kept), mean)
    for group in np.unique(task.strata):
        is_of_group = task.strata == group
        own[kept.truths == task.truths[is_of_group][0] if task.has_classes else slice(None)] = float(
            base[is_of_group].mean()
        )
    weights = np.concatenate((of_reference * base, of_labels * own))
    return weights * (mean / weights.mean())


# --- Which rows to label


_MIX = tuple(np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def draw_rows(n_rows: int, n_wanted: int, seed: int, first_row: int) -> IntArray:
    """Return so many rows at random, each with the same probability, in their order."""
    random = np.random.default_rng((seed, first_row, n_rows))
    return np.sort(random.choice(n_rows, min(n_wanted, n_rows), replace=False)).astype(np.int64)


def is_drawn(row_numbers: IntArray, share: float, seed: int) -> BoolArray:
    """Return which rows of a stream are drawn, by their numbers alone: each with the same probability.

    Examples
    --------
    >>> rows = np.arange(100_000)
    >>> bool(abs(is_drawn(rows, 0.05, 0).mean() - 0.05) < 0.002)
    True
    >>> bool((is_drawn(rows, 0.05, 0)[500:] == is_drawn(rows[500:], 0.05, 0)).all())
    True
    """
    with np.errstate(over="ignore"):
        mixed = row_numbers.astype(np.uint64) * _MIX[0] + np.uint64(seed % (1 << 63)) * _MIX[1] + _MIX[0]
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX[1]
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX[2]
        mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share)


def choose_rows(n_rows: int, n: float, seed: int, first_row: int) -> tuple[IntArray, FloatArray]:
    """Return which rows to label, and with which probability each was chosen; ``n`` is a number, or a share below 1."""
    if isinstance(n, Integral) and not isinstance(n, bool):
        require_integer("n", n, at_least=1)
        chosen = draw_rows(n_rows, int(n), seed, first_row)
        return chosen, np.full(len(chosen), len(chosen) / max(1, n_rows))
    require_share("n", n)
    chosen = np.flatnonzero(is_drawn(first_row + np.arange(n_rows, dtype=np.int64), float(n), seed))
    return chosen, np.full(len(chosen), float(n))


def spread_of(task: Task) -> float | None:
    """Return the mean distance of numbers from their median, 1 if that is 0; None for classes."""
    if task.has_classes:
        return None
    return float(np.abs(task.truths - np.median(task.truths)).mean()) or 1.0


# --- What a model does with labels: keeps them, learns from them, forgets them


def learn_from(model: Any, rows: Any, late: NDArray[Any], *, rows_since: int, is_asked: BoolArray) -> None:
    """Keep labelled rows of now, and learn from them if there are enough; labels of another type cannot be classes.

    The lock is held.
    """
    usable = np.flatnonzero(model.task_.can_be_classes(late))
    if not len(usable):
        return
    y = late[usable].tolist()
    rows, n_rows, learning = taken(rows, usable), len(usable), model.state_.learning
    n_seen = 0 if learning is None else learning.n_seen
    # Without rounds, the labels are all that is known of the stream.
    now = max(model.state_.n_rows - rows_since, n_seen + n_rows)
    truths = model.task_.joined_by(y, n_rows, type(model).__name__).truths[len(model.task_) :]
    position, ids = np.full(n_rows, now, dtype=np.int64), n_seen + np.arange(n_rows, dtype=np.int64)
    keep_labels(model, rows, truths, position=position, ids=ids, is_asked=is_asked[usable])
    if model.state_.learning.is_due:
        learn_from_kept(model)


def keep_labels(
    model: Any, rows: Any, truths: NDArray[Any], *, position: IntArray, ids: IntArray, is_asked: BoolArray
) -> None:
    """Keep labelled rows, with what is predicted for them before they are learned from.

    Parameters
    ----------
    rows : array or frame of shape (n_rows, n_features)
        As the predictor reads them.
    truths : array of shape (n_rows,)
        Their labels, of the type of the reference's.
    position : array of shape (n_rows,)
        Rows of the stream until each of them.
    ids : array of shape (n_rows,)
        By which they are found again.
    is_asked : array of shape (n_rows,)
        Whether they were asked for.
    """
    current = model.current()
    fixed, mixed = current.label_free, current.predictor
    learning = model.state_.learning or start_learning(rows, model.task_)
    with one_blas_thread(), naming_values(rows, model.reference_), one_openmp_thread_if_few(count_rows(rows)):
        new = judge_labels(
            rows,
            truths,
            fixed,
            mixed,
            position=position,
            ids=ids,
            is_asked=is_asked,
            task=model.task_,
        )
    model.replace_learning(learning.after(new, spread_of(model.task_)))


def learn_from_kept(model: Any, *, rows: Any = None) -> None:
    """Refit the predictor on the reference and all kept labels.

    Parameters
    ----------
    rows : array of shape (n_labels, n_columns), optional
        The kept rows with other columns: those of the reference, and some that it has not.
    """
    learning = model.state_.learning
    if rows is not None:
        width = None if rows.shape[1] == model.n_features_in_ else rows.shape[1]
        learning = replace(learning, kept=replace(learning.kept, rows=rows), width=width)
    learning = latest(learning)
    kept, errors, share = learning.kept, mean_errors(learning.kept), None
    n_new = int(len(kept) - kept.is_learned.sum())
    has_trees = model._pair is not None and len(model.task_) + len(kept) >= FEWEST_ROWS_OF_TREES
    if model._pair is not None:
        share = model.combination_.share if has_trees else 0.0
    if np.isnan(kept.answers[:, 1]).all():
        kept = _half_judged(model, replace(learning, share=share))
    if has_trees:
        share = choose_share(model.combination_, kept, model.task_)
    kept = replace(kept, is_learned=np.ones(len(kept), dtype=bool))
    learning = replace(learning, kept=kept, share=share)
    fitted = Fitted(lambda: model.fit_learned(learning))
    _ = fitted.predictor  # now, so that whoever predicts does not wait
    learned = replace(learning, fitted=fitted).weighed(spread_of(model.task_))
    if n_new:
        row = int(kept.position.max())
        event = LearningEvent(model.n_rounds_, row, len(kept), n_new, *errors, learned.weight, share)
        learned = learned.with_event(event)
        LOGGER.info(
            "Round %d: learned from %d labels, %d of them new; their mean error was %.4g, without labels %.4g; "
            "%.0f%% of each prediction comes from what was learned.",
            *(event.round, event.n_labels, event.n_new, event.error, event.error_fixed, 100.0 * event.weight),
        )
    model.replace_learning(learned)


def _half_judged(model: Any, learning: Learning) -> KeptLabels:
    """Return the kept labels, every second of them judged by an expert that learned from the others.

    So it is known how far to believe an expert that no later label has judged yet.
    """
    kept, answers, is_learned = learning.kept, learning.kept.answers.copy(), np.arange(len(learning.kept)) % 2 == 0
    expert = model.fit_learned(replace(learning, kept=replace(kept, is_learned=is_learned)))
    rest = np.flatnonzero(~is_learned)
    with one_blas_thread(), naming_values(kept.rows, model.reference_):
        answers[rest, 1:] = answers_of_learned(expert, taken(kept.rows, rest), kept.truths[rest], model.task_)
    return replace(kept, answers=answers)


def forget_labels_of(model: Any, ids: IntArray) -> bool:
    """Forget some of the kept labels; return whether the others have to be learned again.

    If too few are left to learn from, all are forgotten, and have to be given again.
    """
    learning = model.state_.learning
    if learning is None or not np.isin(learning.kept.ids, ids).any():
        return False
    learning = learning.without(ids, spread_of(model.task_))
    model.replace_learning(learning)
    return learning is not None and learning.fitted is not None


def restore_learning(model: Any, learning: Learning | None) -> None:
    """Take up what was learned from labels before; the predictor is fitted when it is first used."""
    if learning is not None and learning.weight > 0.0:
        learning = replace(learning, fitted=Fitted(partial(model.fit_learned, learning)))
    model.replace_learning(learning)


def taken(rows: Any, indices: IntArray) -> Any:
    """Return some rows of an array or frame, in memory of their own."""
    return own_copy(_safe_indexing(rows, indices), None)
