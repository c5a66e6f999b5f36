"""`accous fit`: from a labelled table to a model; which predictor it takes and what it remarks on."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier

from accous.arrays import FloatArray, IntArray
from accous.checkpoint.files import exclusive_lock, remove_files
from accous.diagnostics.coverage import FEWEST_ROWS_PER_CLASS
from accous.diagnostics.evidence import Look, measure_evidence
from accous.diagnostics.metrics import read_metric
from accous.exceptions import CheckpointError, DataError, ParameterError
from accous.model.backtest import CUTS, Backtest, backtest
from accous.model.estimators import AdaptiveClassifier, AdaptiveRegressor
from accous.model.heldout import (
    FEWEST_ROWS_OF_TREES,
    N_FOLDS,
    Combination,
    HeldOut,
    Split,
    answers_of,
    combine,
    held_out_of,
    hold_out,
    split_rows,
)
from accous.model.order import Order, OrderKind, look_for_order
from accous.model.pair import AUTO, LINEAR
from accous.model.predictors import last_step, require_sample_weight, sharing_fits
from accous.model.tasks import LARGEST_TARGET, NumberTask, Task
from accous.ratio.base import RatioEstimator
from accous.ratio.one_step import KLIEP, KMM, ULSIF, LogisticRatio
from accous.ratio.online import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.table.checks import (
    Remark,
    find_order,
    leave_out_columns,
    put_in_order,
    remarks_on_labels,
    remarks_on_one_day,
    remarks_on_repeats,
    remarks_on_span,
    remarks_on_texts,
    remarks_on_unsorted,
    remarks_on_used,
)
from accous.table.columns import Choices, ColumnEncoder
from accous.table.kinds import CLASSIFICATION, REGRESSION, TASKS, find_task, is_no_number, key_texts, read_task
from accous.table.model import BOOSTING, TableModel, make_estimator, save_table_model
from accous.table.options import FitOptions
from accous.table.readers import (
    BadRow,
    Chunk,
    Position,
    TableReader,
    exactly,
    no_such_column,
    open_as_asked,
    open_table,
    require_usable,
    to_texts,
    with_labels,
)
from accous.table.rows import write_rejects
from accous.table.runs import chosen_columns, identify_file, require_free, require_separate_files
from accous.table.store import STORE_FILES
from accous.text import listed, require_choice

# --- The offline stage on a table: read the reference, learn how to encode its columns, and hold rows out


@dataclass(frozen=True)
class ReferenceTable:
    """A labelled table, ready for fitting.

    Attributes
    ----------
    frame : polars.DataFrame
        All columns except the label.
    task : Task
        The labels: numbers to predict, or classes, which are integers if all labels are integers, otherwise strings.
    encoder : ColumnEncoder
    X : array of shape (n_rows, n_features)
    bad_rows : list of BadRow
        The rows set aside.
    order : Order
        What orders the rows of ``frame``, ``task`` and ``X``: if it is known, they are in order of time.
    choices : Choices
        About the columns: the user's, and the misleading ones that are left out.
    remarks : list of Remark
        What misleads.
    why_task : str
        How it was decided whether the label is a class or a number, if it could be either; otherwise empty.
    """

    frame: pl.DataFrame
    task: Task
    encoder: ColumnEncoder
    X: NDArray[np.float64]
    bad_rows: list[BadRow]
    order: Order
    choices: Choices
    remarks: list[Remark]
    why_task: str = ""

    @property
    def y(self) -> NDArray[Any]:
        """The label of each row."""
        return self.task.truths

    @property
    def time_order(self) -> IntArray | None:
        """The rows in order of time, which they are in; None if they have none."""
        return np.arange(len(self.task)) if self.order.is_in_time else None

    def split(self, seed: int = 0) -> Split:
        """Return which rows are held out of which fits."""
        return split_rows(self.task.strata, self.time_order, seed)


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
    label_task, why_task = find_task(labels, label, task)
    is_bad_label = is_no_number(labels) if label_task is NumberTask else np.zeros(len(labels), dtype=bool)
    bad_rows = [bad for chunk in pieces for bad in chunk.bad_rows] + _bad_labels(pieces, label, labels, is_bad_label)
    is_good = labels.is_not_null().to_numpy() & ~is_bad_label
    if not is_good.any():
        raise DataError(f"{table.name} has no row with a label.")
    order = find_order(frame.filter(is_good), choices, is_ordered=is_ordered)
    in_order, is_bad_time = put_in_order(frame, order)
    good = frame[in_order[is_good[in_order]]]
    has_order = None if order is None else order.is_in_time
    choices, remarks = leave_out_columns(good, choices, has_order=has_order)
    encoder = ColumnEncoder.learn(good, choices).with_records(good)
    features = encoder.encode(frame)
    bad_values = [(bad.row, bad.column, bad.reason) for bad in features.bad_values]
    column = "" if order is None else str(order.column)
    bad_values += [(int(row), column, "the time cannot be read") for row in np.flatnonzero(is_bad_time)]
    for row, column, reason in bad_values:
        if is_good[row]:
            is_good[row] = False
            bad_rows.append(_bad_row(pieces, row, column, reason))
    bad_rows.sort(key=lambda bad: bad.end)
    if bad_rows and not skips_bad:
        raise bad_rows[0].error(table.name, table.unit)
    rows = in_order[is_good[in_order]]
    known = read_task(label_task, labels[rows], label, table.name)
    frame, X = frame[rows], np.ascontiguousarray(features.X[rows])
    order = order or look_for_order(X, known.truths, has_classes=known.has_classes)
    found = ReferenceTable(frame, known, encoder, X, bad_rows, order, choices, remarks, why_task)
    return replace(
        found, remarks=remarks_on_repeats(frame, known.truths, is_whole=not choices.drop) + remarks + _remarks(found)
    )


def _remarks(table: ReferenceTable) -> list[Remark]:
    """Return what you should know about the order, about columns that are used, and about texts that are not."""
    frame, plans, choices = table.frame, table.encoder.plans, table.choices
    found = remarks_on_unsorted(frame, choices) if table.order.kind is OrderKind.GIVEN else []
    found += remarks_on_one_day(frame, choices, table.order) + remarks_on_span(frame, table.order)
    found += remarks_on_texts(frame, plans) + remarks_on_labels(frame, plans, table.task)
    told = [str(remark.column) for remark in table.remarks]
    return found + remarks_on_used(frame, plans, {*choices.keep, *told})


MakeModel = Callable[[ColumnEncoder], Any]
"""Makes an unfitted model for features that an encoder makes."""


def hold_out_rows(
    reference: ReferenceTable, fits_on: Callable[[ColumnEncoder], list[Callable[[Any, Any], Any]]], split: Split
) -> tuple[FloatArray, ...] | None:
    """Return what each of a few models answers for held-out rows of the reference, preprocessing included.

    It is None if nothing can be held out, or the rows to fit on have no usable column.

    Parameters
    ----------
    reference : ReferenceTable
    fits_on : callable
        Returns functions that fit a model each, for features that an encoder makes.
    split : list
        Which rows to fit on, and which to predict.
    """
    classes = reference.task.classes if reference.task.has_classes else None

    def answer(rows: IntArray, rest: IntArray) -> tuple[FloatArray, ...]:
        encoder = ColumnEncoder.learn(reference.frame[rows], reference.choices)
        X, later = (encoder.encode(reference.frame[each]).X for each in (rows, rest))
        part = reference.task.part(rows)
        if part.is_constant:
            # While there is a single class, it is all that a model can predict.
            constant = DummyClassifier().fit(X, part.truths)
            return tuple(answers_of(constant, later, classes) for _ in fits_on(encoder))
        return tuple(answers_of(fit(X, part.truths), later, classes) for fit in fits_on(encoder))

    try:
        return hold_out(split, answer) if split else None
    except DataError:
        return None


def _read_frame(table: TableReader, label: str, choices: Choices) -> tuple[pl.DataFrame, list[Chunk]]:
    """Return the whole table, with empty columns in place of those that are dropped, and its chunks."""
    wanted = _columns_to_read(table, label, choices)
    pieces = [chunk for chunk in table.chunks(wanted, Position()) if chunk is not None]
    frame = pl.concat([chunk.frame for chunk in pieces]) if pieces else pl.DataFrame(schema=wanted)
    frame = frame.with_columns(pl.lit(None).alias(name) for name in table.columns if name not in wanted)
    return frame.select(exactly(table.columns)), pieces


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


def _bad_labels(pieces: list[Chunk], label: str, labels: pl.Series, is_no_number: NDArray[np.bool_]) -> list[BadRow]:
    """Return the rows whose label is missing or cannot be used."""
    reasons = (
        (labels.is_null().to_numpy(), "the label is missing"),
        (is_no_number, f"the label is not a number of at most {LARGEST_TARGET:g}"),
    )
    return [_bad_row(pieces, int(row), label, reason) for is_bad, reason in reasons for row in np.flatnonzero(is_bad)]


def _bad_row(pieces: list[Chunk], row: int, column: str, reason: str) -> BadRow:
    for chunk in pieces:
        if row < len(chunk.ends):
            return chunk.bad_row(row, column, reason)
        row -= len(chunk.ends)
    raise IndexError(row)


# --- The ratio estimators by the names they have on the command line


OWN_RATIO = "accous"
_RATIOS: dict[str, type[RatioEstimator]] = {
    OWN_RATIO: OnlineDensityRatio,
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


_SURE = 1.645  # standard errors: chance leads by more once in twenty


def losses_of_constant(reference: ReferenceTable) -> FloatArray:
    """Return the loss of always predicting one class or number, on each row that is held out; NaN on the others.

    It is the most frequent class, or the median, of the rows before each block, as a predictor knows no others. Without
    an order, and with too few rows for blocks, it is that of all rows.
    """
    y, has_classes = reference.y, reference.task.has_classes
    split = reference.split() if reference.order.is_in_time else []
    everything, losses = np.arange(len(y)), np.full(len(y), np.nan)
    for rows, rest in split or [(everything, everything)]:
        constant = Counter(y[rows].tolist()).most_common(1)[0][0] if has_classes else np.median(y[rows])
        losses[rest] = np.abs(reference.task.errors_on(y[rest], constant))
    return losses


# --- The job of accous fit from a labelled table to a model's folder: read, hold rows out, replay, fit, save


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


# Features times classes: with more, boosted trees take too long.
_MOST_FEATURES_OF_CLASSES = 10_000
_RARE_CLASS = 0.2  # of two; of more classes, each is rarer
# What share of the work is done after the steps of a fit with an order.
_OF_HOLDING_OUT, _OF_REPLAYS = 0.1, 0.8
_OF_TREES = 0.7  # of a replay: boosted trees are searched at its start


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
    combination : Combination, optional
        How linear and boosting predict together with ``auto``, after `hold_out`.
    held_out : HeldOut, optional
        Predictions for held-out rows, after `hold_out`; None if there are too few rows.
    """

    def __init__(self, options: FitOptions) -> None:
        _require_free_places(options)
        self.options = options
        given = {"feature_map": options.feature_map, "loss": options.loss, "max_ratio": options.max_ratio}
        ratio = make_ratio(options.ratio, seed=options.seed, **given)
        # The model's own ratio, which "auto" clips, if nothing else is asked for.
        is_own = options.ratio == OWN_RATIO and all(value is None for value in given.values())
        self._ratio = None if is_own else ratio
        self.combination: Combination | None = None
        self.held_out: HeldOut | None = None
        self._has_tried = False
        if options.estimator != AUTO:
            self._check_estimator()
        table = open_as_asked(options.reference, options)
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
        """What you should know about the reference: how it is ordered, and what in it misleads."""
        order_found, why_task = self.reference.order, self.reference.why_task
        first = [Remark("task", self.label, why_task)] if why_task else []
        order = [] if order_found.kind in _TOLD else [Remark("order", order_found.column, order_in_words(order_found))]
        return first + order + self.reference.remarks + self._remark_on_metric()

    def _remark_on_metric(self) -> list[Remark]:
        """Suggest another metric where a class is so rare that the error says little of it."""
        if self.options.metric is not None or not self.reference.task.has_classes:
            return []
        counts = {each: n for each, n in Counter(self.reference.y.tolist()).items() if n >= FEWEST_ROWS_PER_CLASS}
        rarest = min(counts, key=lambda each: (counts[each], str(each)), default=None)
        if rarest is None:
            return []
        share = counts[rarest] / len(self.reference.y)
        if share >= _RARE_CLASS / max(1.0, 0.5 * len(counts)):
            return []
        better = f"--metric roc_auc or recall:{rarest} tells more than the error"
        return [Remark("metric", self.label, f"Only {share:.1%} of the rows are {rarest!r}: {better}.")]

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of ``reference`` are in order of time."""
        return self.reference.order.is_in_time

    @property
    def estimator(self) -> str:
        """Name of the predictor to fit."""
        return LINEAR if self.options.estimator == AUTO and self.why_linear else self.options.estimator

    @cached_property
    def why_linear(self) -> str:
        """Why ``auto`` is linear alone, in a sentence; empty if it is not."""
        if len(self.reference.y) < FEWEST_ROWS_OF_TREES:
            return f"The reference has fewer than {FEWEST_ROWS_OF_TREES} rows, too few for boosted trees beside it."
        n_classes = len(self.reference.task.classes) if self.reference.task.has_classes else 1
        if self.reference.X.shape[1] * n_classes > _MOST_FEATURES_OF_CLASSES:
            return "The reference has too many features and classes for boosted trees in reasonable time."
        return ""

    def hold_out(self, on_progress: Callable[[float], None] = lambda _: None) -> None:
        """Predict held-out rows of the reference, once, and decide by them how predictors are combined.

        Parameters
        ----------
        on_progress : callable
            Called with the share of the work that is done.
        """
        if self._has_tried:
            return
        self._has_tried, reference = True, self.reference
        make_model, is_pair = self._maker(), self.estimator == AUTO
        split, n_done = reference.split(self.options.seed), iter(range(1, 1 + N_FOLDS))
        self.combination = Combination() if is_pair else None

        def fits_on(encoder: ColumnEncoder) -> list[Callable[[Any, Any], Any]]:
            model = make_model(encoder).set_params(ratio=NoShift())
            parts = (Combination(0.0), Combination(1.0)) if is_pair else (None,)
            on_progress(next(n_done) / len(split))
            return [partial(clone(model).fit_with, order=False, combination=part) for part in parts]

        with _without_warnings():
            found = hold_out_rows(reference, fits_on, split)
        if found is None:
            return
        answers = found[0]
        if is_pair:
            weights = make_model(reference.encoder).class_weights(reference.task)
            self.combination = combine(reference.task, split, found[0], found[1], weights)
            answers = self.combination.mixed(*found)
        self.held_out = held_out_of(split, answers, is_in_time=reference.order.is_in_time)

    @property
    def error(self) -> float | None:
        """The share of wrong classes among the held-out rows, or how far numbers are off on average."""
        return None if self.held_out is None else float(self._losses(self.held_out).mean())

    @property
    def beats_constant(self) -> bool | None:
        """Whether held-out rows are predicted better than by a constant, and by more than chance explains."""
        held = self.held_out
        if held is None:
            return None
        lead = losses_of_constant(self.reference)[held.rows] - self._losses(held)
        return bool(lead.mean() > _SURE * lead.std() / np.sqrt(len(lead)))

    def _losses(self, held: HeldOut) -> FloatArray:
        task = self.reference.task
        predicted = task.classes[held.predicted] if task.has_classes else held.predicted
        return np.abs(task.errors_on(task.truths[held.rows], predicted))

    def fit_and_save(self, on_progress: Callable[[float], None] = lambda _: None) -> TableModel:
        """Fit on the whole reference and save the model.

        Parameters
        ----------
        on_progress : callable
            Called with the share of the work that is done.
        """
        options, reference = self.options, self.reference
        with sharing_fits():
            self.hold_out(lambda share: on_progress(_OF_HOLDING_OUT * share))
            found = self._replayed(lambda share: on_progress(_OF_HOLDING_OUT + (_OF_REPLAYS - _OF_HOLDING_OUT) * share))
            on_progress(_OF_REPLAYS)
            with _without_warnings():
                model = self._maker()(reference.encoder)
                order = found or (False if self.is_ordered else reference.order)
                known = {"combination": self.combination, "held_out": self.held_out}
                model.fit_with(reference.X, reference.y, order=order, **known)
        table_model = TableModel(model=model, encoder=reference.encoder, label=self.label, settings=self._settings())
        folder = options.output
        assert folder is not None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(folder, "accous fit"):
                save_table_model(table_model, folder)
                if options.force:
                    remove_files(folder, STORE_FILES.__contains__)
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
        with sharing_fits(), _without_warnings():
            self.hold_out(lambda share: on_progress(_OF_HOLDING_OUT * share))
            return self._replay(
                batch_size, lambda share: on_progress(_OF_HOLDING_OUT + (1.0 - _OF_HOLDING_OUT) * share)
            )

    def _replay(self, batch_size: int, on_progress: Callable[[float], None]) -> Backtest:
        """Replay the reference in its order, preprocessing included: each replay has an encoder of its own."""
        reference, make_model = self.reference, self._maker()
        of_start = _OF_TREES if self.estimator in (AUTO, BOOSTING) else 0.0
        looks: list[Look] = []
        later: set[str] = set()

        def on_share(share: float, n_done: int) -> None:
            on_progress((n_done + of_start + (1.0 - of_start) * share) / len(CUTS))

        for number, cut in enumerate(CUTS):
            encoder = ColumnEncoder.learn(reference.frame[: round(cut * len(reference.y))], reference.choices)
            X, on_cut = encoder.encode(reference.frame).X, partial(on_share, n_done=number)
            how: dict[str, Any] = {"batch_size": batch_size, "cuts": (cut,), "on_progress": on_cut}
            found = backtest(make_model(encoder), X, reference.y, **how)
            looks += found.looks
            later.update(found.later_classes)
        evidence = measure_evidence(looks, found.scale)
        return replace(found, looks=tuple(looks), evidence=evidence, later_classes=tuple(sorted(later)))

    def require_order(self) -> None:
        """Raise a ParameterError if the rows have no order in time."""
        if not self.is_ordered:
            raise ParameterError(
                f"{self._name} has no order in time: name a column of times with --time, or say --ordered if its rows "
                "are in order already."
            )

    def _replayed(self, on_progress: Callable[[float], None]) -> Backtest | None:
        """Replay the reference if its rows have an order and are enough."""
        if not self.is_ordered:
            return None
        try:
            with _without_warnings():
                return self._replay(_BATCH_SIZE, on_progress)
        except DataError:
            # Too few rows, or a part without a usable column: nothing is verified then.
            return None

    def _check_estimator(self) -> None:
        """Refuse a predictor that cannot be used, before a long table is read."""
        options = self.options
        kind = TASKS[options.task or CLASSIFICATION].kind
        estimator = make_estimator(options.estimator, kind=kind, seed=options.seed, blocks=())
        if estimator == LINEAR:
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
        options, task = self.options, self.reference.task
        if options.C != 1.0 and not task.has_classes:
            raise ParameterError("--C is for classes: the penalty of a regression is --alpha.")
        if options.alpha != 1.0 and task.has_classes:
            raise ParameterError("--alpha is for numbers to predict: the penalty of a classifier is --C.")
        if options.class_weight is not None and not task.has_classes:
            raise ParameterError("--class-weight is for classes: numbers to predict have none.")
        if not task.has_classes and (options.cost is not None or options.threshold is not None):
            raise ParameterError("--cost and --threshold are for classes: numbers to predict have none.")
        # A wrong name is refused before anything is fitted.
        classes = task.classes.tolist() if task.has_classes else None
        if options.metric is not None:
            read_metric(options.metric, classes, costs=None if self._costs is None else np.array(self._costs))

    @cached_property
    def _costs(self) -> list[list[float]] | None:
        """The costs in order of the classes, or None."""
        if self.options.cost is None:
            return None
        return read_costs(self.options.cost, [str(each) for each in np.unique(self.reference.y).tolist()])

    def _maker(self) -> MakeModel:
        """Return what makes an unfitted model for the features of an encoder."""
        options, task, name = self.options, self.reference.task, self.estimator
        # The encoder has scaled the numbers already; categories keep the scale of 0 and 1.
        shared: dict[str, Any] = {
            "refit_budget": options.refit_budget,
            "standardize": False,
            "adaptation": options.adaptation,
            "random_state": options.seed,
            "metric": options.metric,
        }
        judged: dict[str, Any] = {"cost": self._costs, "threshold": options.threshold}

        def make_model(encoder: ColumnEncoder) -> Any:
            estimator = make_estimator(name, kind=task.kind, seed=options.seed, blocks=encoder.blocks)
            if not task.has_classes:
                model: Any = AdaptiveRegressor(estimator, self._ratio, alpha=options.alpha, **shared)
            else:
                model = AdaptiveClassifier(
                    estimator, self._ratio, C=options.C, class_weight=options.class_weight, **shared, **judged
                )
            if self.combination is not None:
                model.combination_ = self.combination  # for replays
            return model

        return make_model

    def _settings(self) -> dict[str, Any]:
        options, y = self.options, self.reference.y
        settings: dict[str, Any] = {"reference": self._name, "n_reference": len(y), "ratio": options.ratio}
        settings |= {
            "estimator": self.estimator,
            "predictors": None if self.combination is None else self.combination.to_json(),
            **({"C": options.C} if self.reference.task.has_classes else {"alpha": options.alpha}),
            "seed": options.seed,
            "order": self.reference.order.to_json(),
            "reference_file": identify_file(options.reference),
            "metric": options.metric,
        }
        used = {name.rpartition("_")[0] for name in self.reference.encoder.used_columns}
        if widths := {name: width for name, width in self._widths.items() if name in used}:
            settings["widths"] = widths
        settings |= {"feature_map": options.feature_map, "loss": options.loss, "max_ratio": options.max_ratio}
        settings["error_of_constant"] = float(np.nanmean(losses_of_constant(self.reference)))
        settings["beats_constant"] = self.beats_constant
        if not self.reference.task.has_classes:
            return settings | {"task": REGRESSION, "error": self.error}
        accuracy = None if self.error is None else 1.0 - self.error
        return settings | {"accuracy": accuracy, "largest_class": max(Counter(y.tolist()).values()) / len(y)}


def read_costs(path: str, classes: list[str]) -> list[list[float]]:
    """Read what it costs to predict the class of a column where that of the row is true, in order of the classes."""
    with closing(open_table(path, "csv")) as reader:
        frame = pl.concat([chunk.frame for chunk in reader.chunks(reader.columns, Position()) if chunk is not None])
    rows = key_texts(frame.to_series(0)).to_list()
    if sorted(rows) != sorted(classes) or sorted(frame.columns[1:]) != sorted(classes):
        raise DataError(f"{path} must name the classes {listed(classes)} in its first column and in its header.")
    found = frame.select(pl.col(classes).cast(pl.Float64, strict=False)).with_columns(pl.Series("true", rows))
    numbers = found.sort(pl.col("true").replace_strict(classes, list(range(len(classes))))).drop("true").to_numpy()
    if not np.isfinite(numbers).all():
        raise DataError(f"{path} must have a number in every place.")
    costs: list[list[float]] = numbers.tolist()
    return costs


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
    """Silence scikit-learn's warning about many classes: the job has a remark of its own."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than")
        yield
