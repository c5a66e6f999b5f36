"""`accous fit`: from a labelled table to a model; which predictor it takes and what it remarks on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import is_regressor

from accous.arrays import FloatArray
from accous.checkpoint.files import exclusive_lock
from accous.diagnostics.risk import Look, measure_evidence
from accous.exceptions import CheckpointError, DataError, ParameterError, TrapWarning
from accous.model.backtest import CUTS, Backtest, backtest
from accous.model.estimators import AdaptiveClassifier, AdaptiveRegressor
from accous.model.order import Order, OrderKind, look_for_order
from accous.model.predictors import last_step, require_sample_weight
from accous.model.safeguards import FREE, LENIENT, choose_guard
from accous.parameters import require_choice
from accous.ratio.base import RatioEstimator
from accous.ratio.one_step import KLIEP, KMM, ULSIF, LogisticRatio
from accous.ratio.online import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.table.checks import (
    Remark,
    find_order,
    leave_out_traps,
    not_in_order,
    put_in_order,
    remarks_on_labels,
    remarks_on_one_day,
    remarks_on_repeats,
    remarks_on_span,
    remarks_on_texts,
    remarks_on_used,
    unsorted_dates,
)
from accous.table.columns import Choices, ColumnEncoder
from accous.table.kinds import CLASSES, REGRESSION, LabelTask, find_task
from accous.table.model import BOOSTING, LINEAR, TableModel, make_estimator, save_table_model
from accous.table.options import FitOptions
from accous.table.readers import (
    BadRow,
    Chunk,
    Position,
    TableReader,
    exactly,
    no_such_column,
    open_table,
    require_usable,
    to_texts,
    with_labels,
)
from accous.table.rows import write_rejects
from accous.table.runs import chosen_columns, identify_file, require_free, require_separate_files

# --- The offline stage on a table: read the reference, learn how to encode its columns, and cross-validate


_N_FOLDS = 5


@dataclass(frozen=True)
class ReferenceTable:
    """A labelled table, ready for fitting.

    Attributes
    ----------
    frame : polars.DataFrame
        All columns except the label.
    y : array of shape (n_rows,)
        Numbers to predict; of classes, integers if all labels are integers, otherwise strings.
    encoder : ColumnEncoder
    X : array of shape (n_rows, n_features)
    bad_rows : list of BadRow
        The rows set aside.
    order : Order
        What orders the rows of ``frame``, ``X`` and ``y``: if it is known, they are in order of time.
    choices : Choices
        About the columns: the user's, and the traps that are left out.
    remarks : list of Remark
        The traps.
    task : LabelTask
        Whether the label is a class or a number.
    """

    frame: pl.DataFrame
    y: NDArray[Any]
    encoder: ColumnEncoder
    X: NDArray[np.float64]
    bad_rows: list[BadRow]
    order: Order
    choices: Choices
    remarks: list[Remark]
    task: LabelTask = CLASSES

    def part(self, n_rows: int, seed: int) -> ReferenceTable:
        """Return its latest rows, or rows drawn at random if it has no order in time.

        Parameters
        ----------
        n_rows : int
        seed : int
            For the draw.
        """
        n_all = len(self.y)
        if n_rows == n_all:
            return self
        rows = np.arange(n_all - n_rows, n_all)
        if not self.order.is_in_time:
            rows = np.sort(np.random.default_rng(seed).permutation(n_all)[:n_rows])
        return replace(self, frame=self.frame[rows], y=self.y[rows], X=self.X[rows])


def read_reference(
    table: TableReader,
    label: str,
    choices: Choices,
    *,
    skips_bad: bool,
    is_ordered: bool | None = None,
    task: str | None = None,
) -> ReferenceTable:
    """Read a labelled table, put its rows in order of time if there is one, and learn how to encode its columns.

    Parameters
    ----------
    table : TableReader
    label : str
        Its label column.
    choices : Choices
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    is_ordered : bool, optional
        Whether the rows are in order of time already; None looks for a date column that gives the order.
    task : {"classification", "regression"}, optional
        What the label is; None decides by its values.
    """
    frame, pieces = _read_frame(table, label, choices)
    labels, frame = to_texts(frame[label]), frame.drop(exactly([label]))
    found_task = find_task(labels, label, task)
    is_no_number = found_task.is_bad(labels)
    bad_rows = [bad for chunk in pieces for bad in chunk.bad_rows] + _bad_labels(pieces, label, labels, is_no_number)
    is_good = labels.is_not_null().to_numpy() & ~is_no_number
    if not is_good.any():
        raise DataError(f"{table.name} has no row with a label.")
    order = find_order(frame.filter(is_good), choices, is_ordered=is_ordered)
    ordered = put_in_order(frame, order)
    good = frame[ordered.rows[is_good[ordered.rows]]]
    has_order = None if order is None else order.is_in_time
    choices, remarks = leave_out_traps(good, choices, has_order=has_order)
    encoder = ColumnEncoder.learn(good, choices).with_records(good)
    features = encoder.encode(frame)
    bad_values = [(bad.row, bad.column, bad.reason) for bad in features.bad_values]
    column = "" if order is None else str(order.column)
    bad_values += [(int(row), column, "the time cannot be read") for row in np.flatnonzero(ordered.is_bad)]
    for row, column, reason in bad_values:
        if is_good[row]:
            is_good[row] = False
            bad_rows.append(_bad_row(pieces, row, column, reason))
    bad_rows.sort(key=lambda bad: bad.end)
    if bad_rows and not skips_bad:
        raise bad_rows[0].error(table.name, table.unit)
    rows = ordered.rows[is_good[ordered.rows]]
    y = found_task.read(labels[rows], label, table.name)
    frame, X = frame[rows], np.ascontiguousarray(features.X[rows])
    order = order or look_for_order(X, y, has_classes=found_task.name != REGRESSION)
    found = ReferenceTable(frame, y, encoder, X, bad_rows, order, choices, remarks, found_task)
    return replace(found, remarks=remarks_on_repeats(frame, y, is_whole=not choices.drop) + remarks + _remarks(found))


def _remarks(table: ReferenceTable) -> list[Remark]:
    """Return what you should know about the order, about columns that are used, and about texts that are not."""
    frame, plans, choices = table.frame, table.encoder.plans, table.choices
    dates = unsorted_dates(frame, choices) if table.order.kind is OrderKind.GIVEN else []
    found = [Remark("order", name, not_in_order(name)) for name in dates]
    found += remarks_on_one_day(frame, choices, table.order) + remarks_on_span(frame, table.order)
    found += remarks_on_texts(frame, plans) + remarks_on_labels(frame, plans, table.y, table.task.kind)
    told = [str(remark.column) for remark in table.remarks]
    return found + remarks_on_used(frame, plans, {*choices.keep, *told})


MakeModel = Callable[[ColumnEncoder], Any]
"""Makes an unfitted model for features that an encoder makes."""


def cross_validate(reference: ReferenceTable, make_model: MakeModel, *, seed: int) -> FloatArray | None:
    """Return the losses of held-out rows of the reference, preprocessing included: errors, or how far numbers are off.

    If the rows are in order of time, they are divided into five blocks, and each block is predicted by a fit on all
    blocks before it. Otherwise there are five random folds.

    It is None if there are too few rows: a fold is empty, or the others have a single class or no usable column.

    Parameters
    ----------
    reference : ReferenceTable
    make_model : callable
    seed : int
        For the random folds.
    """
    if reference.order.is_in_time:
        return _chain_forward(reference, make_model)
    fold_of_row = _folds(reference.y, seed)
    losses = np.zeros(len(reference.y))
    for fold in range(_N_FOLDS):
        is_held = fold_of_row == fold
        if not is_held.any() or len(np.unique(reference.y[~is_held])) < 2:
            return None
        predicted = _predict_rest(reference, np.flatnonzero(~is_held), np.flatnonzero(is_held), make_model)
        if predicted is None:
            return None
        losses[is_held] = _losses(reference, predicted, reference.y[is_held])
    return losses


def _losses(reference: ReferenceTable, predicted: Any, y: NDArray[Any]) -> FloatArray:
    """Return 1 for classes that are wrong and 0 for others, or how far numbers are off."""
    return np.asarray(np.abs(y - predicted) if reference.task.name == REGRESSION else predicted != y, dtype=np.float64)


def time_blocks(n_rows: int) -> list[tuple[int, int]]:
    """Return the second to fifth block of rows in order of time, as first row and end; none if there are too few."""
    cuts = np.linspace(0, n_rows, _N_FOLDS + 1).astype(int).tolist()
    return [] if n_rows < 2 * _N_FOLDS else list(pairwise(cuts[1:]))


def _chain_forward(reference: ReferenceTable, make_model: MakeModel) -> FloatArray | None:
    """Return the losses in the second to fifth block of rows, each predicted from all rows before it."""
    losses: list[FloatArray] = []
    for start, end in time_blocks(len(reference.y)):
        predicted: Any = reference.y[0]  # while there is a single class, it is all that a model can predict
        if len(np.unique(reference.y[:start])) > 1:
            predicted = _predict_rest(reference, np.arange(start), np.arange(start, end), make_model)
        if predicted is not None:
            losses.append(_losses(reference, predicted, reference.y[start:end]))
    return np.concatenate(losses) if losses else None


def _predict_rest(
    reference: ReferenceTable, rows: NDArray[np.intp], rest: NDArray[np.intp], make_model: MakeModel
) -> NDArray[Any] | None:
    """Predict the rest by a fit on these rows; None if they have no usable column."""
    try:
        encoder = ColumnEncoder.learn(reference.frame[rows], reference.choices)
    except DataError:
        return None
    model = make_model(encoder).set_params(ratio=NoShift())
    model.fit(encoder.encode(reference.frame[rows]).X, reference.y[rows], order=False)
    return model.predict(encoder.encode(reference.frame[rest]).X)


def _read_frame(table: TableReader, label: str, choices: Choices) -> tuple[pl.DataFrame, list[Chunk]]:
    """Return the whole table, with empty columns in place of those that are dropped, and its chunks."""
    wanted = _columns_to_read(table, label, choices)
    pieces = [chunk for chunk in table.chunks(wanted, Position()) if chunk is not None]
    frame = pl.concat([chunk.frame for chunk in pieces]) if pieces else pl.DataFrame(schema=wanted)
    frame = frame.with_columns(pl.lit(None).alias(name) for name in table.columns if name not in wanted)
    return frame.select(exactly(table.columns)), pieces


def replay(
    reference: ReferenceTable, make_model: MakeModel, *, batch_size: int, on_progress: Callable[[float], None]
) -> Backtest:
    """Replay the reference in its order, preprocessing included.

    Parameters
    ----------
    reference : ReferenceTable
        Its rows are in order of time.
    make_model : callable
        Each replay has an encoder of its own, so each has a model of its own.
    batch_size : int
        Rows in a round.
    on_progress : callable
        Called with the share of the work that is done.
    """
    looks: list[Look] = []
    later: set[str] = set()
    for number, cut in enumerate(CUTS):
        encoder = ColumnEncoder.learn(reference.frame[: round(cut * len(reference.y))], reference.choices)
        model = make_model(encoder)
        found = backtest(
            model,
            encoder.encode(reference.frame).X,
            reference.y,
            batch_size=batch_size,
            cuts=(cut,),
            on_progress=lambda share, done=number: on_progress((done + share) / len(CUTS)),  # type: ignore[misc]
        )
        looks += found.looks
        later.update(found.later_classes)
    evidence = measure_evidence(looks, len(reference.y), found.scale)
    return replace(found, looks=tuple(looks), evidence=evidence, later_classes=tuple(sorted(later)))


def _columns_to_read(table: TableReader, label: str, choices: Choices) -> list[str]:
    """Return the label and all columns that are not dropped."""
    if label not in table.columns:
        raise no_such_column(table, label)
    require_usable(table, [label])
    if label in choices.drop:
        raise ParameterError(f"The label {label!r} cannot be dropped.")
    if label == choices.time:
        raise ParameterError(f"--time {label} is the label: name another column.")
    # A column of the file that is dropped is not even read: nothing in it can make a row a bad one. An embedding of
    # which single numbers are dropped is read and checked as a whole.
    wanted = [name for name in table.columns if name not in choices.drop or name == choices.time]
    if wanted == [label]:
        raise DataError(f"{table.name} has no column other than the label {label!r}: drop fewer columns, or add some.")
    return wanted


def _folds(y: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Distribute the rows of each class over the folds, in random order."""
    folds = np.empty(len(y), dtype=np.int64)
    random = np.random.default_rng(seed)
    n_dealt = 0
    for label in np.unique(y):
        rows = random.permutation(np.flatnonzero(y == label))
        folds[rows] = (n_dealt + np.arange(len(rows))) % _N_FOLDS
        n_dealt += len(rows)
    return folds


def _bad_labels(pieces: list[Chunk], label: str, labels: pl.Series, is_no_number: NDArray[np.bool_]) -> list[BadRow]:
    """Return the rows whose label is missing or cannot be used."""
    reasons = ((labels.is_null().to_numpy(), "the label is missing"), (is_no_number, "the label is not a number"))
    return [_bad_row(pieces, int(row), label, reason) for is_bad, reason in reasons for row in np.flatnonzero(is_bad)]


def _bad_row(pieces: list[Chunk], row: int, column: str, reason: str) -> BadRow:
    for chunk in pieces:
        if row < len(chunk.ends):
            text = chunk.row_bytes(row).decode("utf-8", "replace").rstrip("\r")
            return BadRow(int(chunk.ends[row]), int(chunk.lines[row]), column, reason, text)
        row -= len(chunk.ends)
    raise IndexError(row)


# --- Which predictor --estimator auto takes: linear or boosting, by what the labelled reference shows


AUTO = "auto"
CANDIDATES = (LINEAR, BOOSTING)
FEWEST_ROWS = 500
_N_BLOCKS = 4
_CLEAR_LEAD = 1.5  # standard errors
# Rows times features times classes: with more, fitting both a dozen times takes too long, and a part has to do.
MOST_NUMBERS, ENOUGH_NUMBERS = 5_000_000, 1_000_000


@dataclass(frozen=True)
class Trial:
    """What a predictor did on the reference.

    Attributes
    ----------
    name : str
    losses : array of float, optional
        Of rows that it was not fitted on, the same rows for all: 1 where a class is wrong, or how far a number is off.
        None if there are too few.
    is_ordered : bool
        Whether these rows are in order of time.
    backtest : Backtest, optional
        Its replay; None without an order in time.
    """

    name: str
    losses: FloatArray | None
    is_ordered: bool
    backtest: Backtest | None

    @property
    def accuracy(self) -> float | None:
        """The cross-validated accuracy of classes."""
        return None if self.losses is None else float((1.0 - self.losses).mean())

    @property
    def error(self) -> float | None:
        """The cross-validated error, or mean absolute error."""
        return None if self.losses is None else float(self.losses.mean())

    @property
    def gain(self) -> float | None:
        """Error with adaptation minus error without, in the replays; None if nothing was replayed."""
        evidence = None if self.backtest is None else self.backtest.evidence
        return None if self.backtest is None or evidence is None else evidence.gain * self.backtest.scale.one

    @property
    def errors(self) -> tuple[float | None, float | None]:
        """Errors without and with adaptation."""
        if self.error is None:
            return None, None
        return self.error, None if self.gain is None else max(0.0, self.error + self.gain)

    @property
    def errors_of_blocks(self) -> list[float]:
        """Errors in blocks of time, less what adaptation saves if it is free to act.

        A strict guard lets little of the gain of a replay through, and none that can be counted on.
        """
        assert self.losses is not None
        saved = 0.0 if self.is_held_back else min(0.0, self.gain or 0.0)
        return [float(block.mean()) + saved for block in np.array_split(self.losses, _N_BLOCKS)]

    @property
    def is_held_back(self) -> bool:
        """Whether the replay asks for a guard that lets little of the gain of adaptation through."""
        evidence = None if self.backtest is None else self.backtest.evidence
        return self.backtest is not None and choose_guard(evidence, self.backtest.adaptation) not in (FREE, LENIENT)


@dataclass(frozen=True)
class Choice:
    """The predictor that was taken, and why.

    Attributes
    ----------
    name : str
    reason : str
        In one sentence.
    trials : tuple of Trial
        What was compared; empty if nothing was.
    """

    name: str
    reason: str
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the choice, ready for JSON."""
        compared = {trial.name: {"error": trial.error, "adapted_minus_fixed": trial.gain} for trial in self.trials}
        return {"reason": self.reason, "compared": compared}


def n_rows_to_compare(n_rows: int, n_features: int, n_classes: int) -> int:
    """Return on how many rows of a reference predictors are compared: on all, or on some thousands of a large one."""
    n_numbers = n_features * n_classes
    if n_rows * n_numbers <= MOST_NUMBERS:
        return n_rows
    return min(n_rows, max(FEWEST_ROWS, ENOUGH_NUMBERS // n_numbers))


def is_worth_comparing(n_rows: int, n_features: int, n_classes: int) -> str:
    """Return why a reference is too small or too wide to compare predictors on it; empty if it is not."""
    if n_rows < FEWEST_ROWS:
        return f"The reference has fewer than {FEWEST_ROWS} rows, too few to compare predictors."
    if FEWEST_ROWS * n_features * n_classes > MOST_NUMBERS:
        return "The reference has too many features and classes to compare predictors in reasonable time."
    return ""


def choose(linear: Trial, boosting: Trial) -> Choice:
    """Choose by what the trials showed."""
    trials = (linear, boosting)
    if linear.losses is None or boosting.losses is None:
        return Choice(LINEAR, "The reference has too few rows to compare predictors.", trials)
    if linear.is_ordered:
        name, reason = _choose_in_time(linear, boosting)
        return Choice(name, reason + _said_of_gains(trials, name), trials)
    gains = linear.losses - boosting.losses
    is_clear = gains.mean() > gains.std() / np.sqrt(len(gains))
    reason = "It is better by more than a standard error." if is_clear else "Boosting is not clearly better."
    return Choice(BOOSTING if is_clear else LINEAR, reason, trials)


def _choose_in_time(linear: Trial, boosting: Trial) -> tuple[str, str]:
    """Return the predictor to take for later rows, and why."""
    errors = np.array([linear.errors_of_blocks, boosting.errors_of_blocks])
    leads = errors[1] - errors[0]
    lead, noise = leads.mean(), leads.std(ddof=1) / np.sqrt(len(leads))
    if abs(lead) <= 1e-9 * errors.mean():
        return BOOSTING, "Neither is ahead on the reference, and boosting is the safer choice then."
    if lead < 0.0:
        return BOOSTING, "It is ahead on the reference."
    if lead > _CLEAR_LEAD * noise:
        return LINEAR, f"It is ahead, and by more than {_CLEAR_LEAD} standard errors between blocks of the reference."
    return BOOSTING, (
        f"Linear is ahead, but not by more than {_CLEAR_LEAD} standard errors between blocks of the reference: "
        "boosting is the safer choice then."
    )


def _said_of_gains(trials: tuple[Trial, ...], taken: str) -> str:
    """Say why a predictor was not taken although its error with adaptation is the smallest that is shown."""
    shown = {trial.name: min(error for error in trial.errors if error is not None) for trial in trials}
    smallest = min(shown, key=lambda name: (shown[name], name != taken))
    first = next(trial for trial in trials if trial.name == smallest)
    if smallest == taken or not first.is_held_back or (first.gain or 0.0) >= 0.0:
        return ""
    return f" What adaptation gained with {smallest} does not count: the guard would hold most of it back."


# --- The ratio estimators by the names they have on the command line


_RATIOS: dict[str, type[RatioEstimator]] = {
    "accous": OnlineDensityRatio,
    "ulsif": ULSIF,
    "kliep": KLIEP,
    "kmm": KMM,
    "lr": LogisticRatio,
    "olre": SingleLearnerRatio,
    "none": NoShift,
}


def make_ratio(name: str, *, seed: int, **options: Any) -> RatioEstimator:
    """Make a ratio estimator; options that are None keep their defaults, and the estimator must know the others.

    Examples
    --------
    >>> make_ratio("accous", seed=0, loss=None, max_ratio=50.0)
    OnlineDensityRatio(max_ratio=50.0, random_state=0)
    """
    require_choice("--ratio", name, tuple(_RATIOS))
    cls = _RATIOS[name]
    known = cls().get_params()
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            raise ParameterError(f"--{option.replace('_', '-')} cannot be combined with --ratio {name}: leave one out.")
    if "random_state" in known:
        given["random_state"] = seed
    return cls(**given)


# --- The error of a constant on the rows of the reference that are held out, which a predictor has to beat


def error_of_constant(reference: ReferenceTable) -> float:
    """Return the error of always predicting one class or number, on the rows that are held out.

    It is the most frequent class, or the median, of the rows before each block, as a predictor knows no others. Without
    an order, and with too few rows for blocks, it is that of all rows.
    """
    y, is_number = reference.y, reference.task.kind == "regressor"
    blocks = time_blocks(len(y)) if reference.order.is_in_time else []
    losses = []
    for start, end in blocks or [(0, len(y))]:
        known = y[:start] if blocks else y
        constant = np.median(known) if is_number else Counter(known.tolist()).most_common(1)[0][0]
        losses.append(np.abs(y[start:end] - constant) if is_number else y[start:end] != constant)
    return float(np.concatenate(losses).mean())


# --- The job of accous fit from a labelled table to a model's folder: read, compare, cross-validate, fit, save


_BATCH_SIZE = 10
_TOLD = (OrderKind.GIVEN, OrderKind.TIMES, OrderKind.UNORDERED)
_OTHERWISE = {
    OrderKind.COLUMN: "Otherwise: --time COL or --no-ordered.",
    OrderKind.FOUND: "Otherwise: --no-ordered.",
    OrderKind.NOT_FOUND: "Otherwise: --ordered or --time COL.",
    OrderKind.SORTED_BY_LABEL: "Otherwise: --ordered or --time COL.",
    OrderKind.FEW_ROWS: "If they are: --ordered or --time COL.",
}


def order_in_words(order: Order) -> str:
    """Say what is known about the order of the rows, and how to say otherwise."""
    return f"{order.sentence} {_OTHERWISE.get(order.kind, '')}".strip()


class FitJob:
    """Fits a table model on a labelled table and saves it.

    Parameters
    ----------
    options : FitOptions

    Attributes
    ----------
    options : FitOptions
    reference : ReferenceTable
        The rows to fit on.
    label : str
        The label column.
    unit : str
        What rows are counted in: ``"line"`` or ``"row"``.
    choice : Choice, optional
        The predictor that ``auto`` took, after `choose_estimator`.
    """

    def __init__(self, options: FitOptions) -> None:
        _require_free_places(options)
        self.options = options
        self._ratio = make_ratio(
            options.ratio,
            seed=options.seed,
            feature_map=options.feature_map,
            loss=options.loss,
            max_ratio=options.max_ratio,
        )
        self.choice: Choice | None = None
        self._trials: dict[str, Trial] = {}
        if options.estimator != AUTO:
            self._check_estimator()
        table = open_table(options.reference, options.format, encoding=options.encoding, separator=options.separator)
        table, self.label = with_labels(table, options.label)
        choices = Choices(
            tuple(chosen_columns("--drop", options.drop, table.columns, table.name, table.widths)),
            tuple(chosen_columns("--categorical", options.categorical, table.columns, table.name)),
            _time_column(options, table, self.label),
            tuple(chosen_columns("--keep-as-feature", options.keep_as_feature, table.columns, table.name)),
        )
        self.unit, self._name, self._widths = table.unit, table.name, table.widths
        self.reference: ReferenceTable = read_reference(
            table,
            self.label,
            choices,
            skips_bad=options.on_bad_row == "skip",
            is_ordered=options.ordered,
            task=options.task,
        )
        self._check_penalty()
        if self.reference.bad_rows and options.rejects is not None:
            write_rejects(self.reference.bad_rows, options.rejects)

    @property
    def remarks(self) -> list[Remark]:
        """What you should know about the reference: how it is ordered, and which traps it has."""
        order_found, task = self.reference.order, self.reference.task
        first = [Remark("task", self.label, task.sentence)] if task.sentence else []
        order = [] if order_found.kind in _TOLD else [Remark("order", order_found.column, order_in_words(order_found))]
        return first + order + self.reference.remarks

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of ``reference`` are in order of time."""
        return self.reference.order.is_in_time

    @property
    def estimator(self) -> str:
        """Name of the predictor to fit."""
        return self.options.estimator if self.choice is None else self.choice.name

    def choose_estimator(self) -> None:
        """Compare predictors on the reference if the options leave the choice open."""
        if self.options.estimator != AUTO or self.choice is not None:
            return
        reference = self.reference
        given = [name for name, value in (("--C", self.options.C), ("--alpha", self.options.alpha)) if value != 1.0]
        reason = f"{given[0]} is given, which is for this predictor." if given else ""
        n_classes = 1 if reference.task.kind == "regressor" else len(np.unique(reference.y))
        shape = (*reference.X.shape, n_classes)
        reason = reason or is_worth_comparing(*shape)
        self.choice = Choice(LINEAR, reason) if reason else self._compare(n_rows_to_compare(*shape))

    def _compare(self, n_rows: int) -> Choice:
        """Choose by trials on so many rows."""
        n_all = len(self.reference.y)
        if n_rows == n_all:
            linear, boosting = map(self._try, CANDIDATES)
            return choose(linear, boosting)
        part = self.reference.part(n_rows, self.options.seed)
        linear, boosting = (self._trial(name, part) for name in CANDIDATES)
        which = "the latest" if self.is_ordered else "a sample of"
        where = f" The two were compared on {which} {n_rows:,} of {n_all:,} rows, because all would take too long."
        found = choose(linear, boosting)
        return replace(found, reason=found.reason + where)

    def _try(self, name: str) -> Trial:
        """Cross-validate a predictor and replay the reference with it, once."""
        if name not in self._trials:
            self._trials[name] = self._trial(name, self.reference)
        return self._trials[name]

    def _trial(self, name: str, reference: ReferenceTable) -> Trial:
        with _without_warnings():
            losses = cross_validate(reference, self._maker(name), seed=self.options.seed)
        return Trial(name, losses, self.is_ordered, self._replay(name, reference))

    def fit_and_save(self) -> TableModel:
        """Fit on the whole reference and save the model."""
        self.choose_estimator()
        options, reference, trial = self.options, self.reference, self._try(self.estimator)
        with _without_warnings():
            model = self._maker(self.estimator)(reference.encoder)
            model.fit(reference.X, reference.y, order=trial.backtest or (False if self.is_ordered else reference.order))
        table_model = TableModel(
            model=model, encoder=reference.encoder, label=self.label, settings=self._settings(trial)
        )
        folder = options.output
        assert folder is not None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(folder, "accous fit"):
                save_table_model(table_model, folder, is_last=True)
        except OSError as error:
            raise CheckpointError(
                f"Cannot write to {folder} ({error.strerror or error}): give another folder"
            ) from None
        return table_model

    def backtest(self, batch_size: int, on_progress: Callable[[float], None]) -> Backtest:
        """Replay the reference in its order in time, with the predictor that `fit_and_save` would take.

        Parameters
        ----------
        batch_size : int
            Rows in a round.
        on_progress : callable
            Called with the share of the work that is done.
        """
        self.require_order()
        self.choose_estimator()
        tried = self._trials.get(self.estimator)
        if tried is not None and tried.backtest is not None and batch_size == _BATCH_SIZE:
            return tried.backtest  # from the comparison of predictors
        with _without_warnings():
            return replay(self.reference, self._maker(self.estimator), batch_size=batch_size, on_progress=on_progress)

    def require_order(self) -> None:
        """Raise a ParameterError if the rows have no order in time."""
        if not self.is_ordered:
            raise ParameterError(
                f"{self._name} has no order in time: name a column of times with --time, or say --ordered if its rows "
                "are in order already."
            )

    def _replay(self, name: str, reference: ReferenceTable) -> Backtest | None:
        """Replay rows of the reference if they have an order and are enough."""
        if not self.is_ordered:
            return None
        try:
            with _without_warnings():
                return replay(reference, self._maker(name), batch_size=_BATCH_SIZE, on_progress=lambda _: None)
        except DataError:
            # Too few rows, or a part without a usable column: nothing is verified then.
            return None

    def _check_estimator(self) -> None:
        """Refuse a predictor that cannot be used, before a long table is read."""
        options = self.options
        kind = "classifier" if options.task is None else LabelTask(options.task).kind
        estimator = make_estimator(options.estimator, kind=kind, seed=options.seed, blocks=())
        if estimator is None:
            return
        if options.task is None and is_regressor(last_step(estimator)):
            kind = "regressor"
        for name, value in (("--C", options.C), ("--alpha", options.alpha)):
            if value != 1.0:
                raise ParameterError(f"{name} is for --estimator {LINEAR}: leave it out with {options.estimator}.")
        require_sample_weight(estimator, kind)
        if kind == "classifier" and not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                f"--estimator {options.estimator} has no predict_proba, which the predictions need: wrap it in "
                "CalibratedClassifierCV, or use another."
            )

    def _check_penalty(self) -> None:
        """Refuse the penalty of the other task."""
        options, kind = self.options, self.reference.task.kind
        if options.C != 1.0 and kind == "regressor":
            raise ParameterError("--C is for classes: the penalty of a regression is --alpha.")
        if options.alpha != 1.0 and kind == "classifier":
            raise ParameterError("--alpha is for numbers to predict: the penalty of a classifier is --C.")

    def _maker(self, name: str) -> Callable[[ColumnEncoder], Any]:
        """Return what makes an unfitted model for the features of an encoder."""
        options, kind = self.options, self.reference.task.kind
        # The encoder has scaled the numbers already; categories keep the scale of 0 and 1.
        shared: dict[str, Any] = {
            "refit_budget": options.refit_budget,
            "standardize": False,
            "adaptation": options.adaptation,
            "random_state": options.seed,
        }

        def make_model(encoder: ColumnEncoder) -> Any:
            estimator = make_estimator(name, kind=kind, seed=options.seed, blocks=encoder.blocks)
            if kind == "regressor":
                return AdaptiveRegressor(estimator, self._ratio, alpha=options.alpha, **shared)
            return AdaptiveClassifier(estimator, self._ratio, C=options.C, **shared)

        return make_model

    def _settings(self, trial: Trial) -> dict[str, Any]:
        options, y = self.options, self.reference.y
        settings: dict[str, Any] = {"reference": self._name, "n_reference": len(y), "ratio": options.ratio}
        settings |= {
            "estimator": self.estimator,
            "choice": None if self.choice is None else self.choice.to_json(),
            **({"alpha": options.alpha} if self.reference.task.kind == "regressor" else {"C": options.C}),
            "seed": options.seed,
            "order": self.reference.order.to_json(),
            "reference_file": identify_file(options.reference),
        }
        used = {name.rpartition("_")[0] for name in self.reference.encoder.used_columns}
        if widths := {name: width for name, width in self._widths.items() if name in used}:
            settings["widths"] = widths
        settings |= {"feature_map": options.feature_map, "loss": options.loss, "max_ratio": options.max_ratio}
        settings["error_of_constant"] = error_of_constant(self.reference)
        if self.reference.task.kind == "regressor":
            spread = float(np.abs(y - np.median(y)).mean())
            return settings | {"task": self.reference.task.name, "error": trial.error, "error_of_median": spread}
        return settings | {"accuracy": trial.accuracy, "largest_class": max(Counter(y.tolist()).values()) / len(y)}


def _require_free_places(options: FitOptions) -> None:
    """Raise an error where a file or a model would be replaced without permission."""
    inputs, outputs = {"REFERENCE": options.reference}, {"--rejects": options.rejects}
    require_separate_files(inputs, outputs, options.output, options.label)
    if options.force:
        return
    require_free(options.rejects)
    if options.output is not None and (options.output / "manifest.json").exists():
        raise CheckpointError(
            f"{options.output} already holds a model: give another folder, or use --force to replace the model and "
            "all it has learned"
        )


def _time_column(options: FitOptions, table: TableReader, label: str) -> str | None:
    if options.time is None:
        return None
    if options.ordered is not None:
        option = "--ordered" if options.ordered else "--no-ordered"
        raise ParameterError(f"--time sorts the rows: leave out {option}, or --time.")
    if options.time not in table.columns:
        raise no_such_column(table, options.time, label=label)
    return options.time


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence scikit-learn's warning about many classes, and those of traps: the job has its own remarks on both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrapWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than")
        yield
