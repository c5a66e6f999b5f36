"""The job of ``accous fit`` from a labelled table to a model's folder: read, compare, cross-validate, fit, save."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_regressor

from accous.checkpoint.files import exclusive_lock
from accous.exceptions import CheckpointError, DataError, ParameterError, TrapWarning
from accous.model.backtest import Backtest
from accous.model.estimators import AdaptiveClassifier, AdaptiveRegressor
from accous.model.predictors import last_step, require_sample_weight
from accous.tabular.choosing import (
    AUTO,
    CANDIDATES,
    Choice,
    Trial,
    choose,
    is_worth_comparing,
    n_rows_to_compare,
)
from accous.tabular.chosen_columns import chosen_columns
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.columns.learning import Choices
from accous.tabular.constant_error import error_of_constant
from accous.tabular.fit_request import FitRequest
from accous.tabular.fitting import ReferenceTable, cross_validate, read_reference, replay
from accous.tabular.folder import save_table_model
from accous.tabular.formats.chunks import TableReader, no_such_column
from accous.tabular.formats.labelled import with_labels
from accous.tabular.formats.opening import open_table
from accous.tabular.label_task import LabelTask
from accous.tabular.named_estimators import LINEAR, make_estimator
from accous.tabular.named_ratios import make_ratio
from accous.tabular.reference_file import identify_file
from accous.tabular.rejected_rows import write_rejects
from accous.tabular.table_model import TableModel
from accous.tabular.traps import Remark

__all__ = ["FitJob"]

_BATCH_SIZE = 10


class FitJob:
    """Fits a table model on a labelled table and saves it.

    Parameters
    ----------
    request : FitRequest

    Attributes
    ----------
    request : FitRequest
    reference : ReferenceTable
        The rows to fit on.
    label : str
        The label column.
    unit : str
        What rows are counted in: ``"line"`` or ``"row"``.
    choice : Choice, optional
        The predictor that ``auto`` took, after `choose_estimator`.
    """

    def __init__(self, request: FitRequest) -> None:
        request.require_free_places()
        self.request = request
        self._ratio = make_ratio(
            request.ratio,
            seed=request.seed,
            feature_map=request.feature_map,
            loss=request.loss,
            max_ratio=request.max_ratio,
        )
        self.choice: Choice | None = None
        self._trials: dict[str, Trial] = {}
        if request.estimator != AUTO:
            self._check_estimator()
        table = open_table(
            request.reference, request.table_format, encoding=request.encoding, separator=request.separator
        )
        table, self.label = with_labels(table, request.label)
        choices = Choices(
            tuple(chosen_columns("--drop", request.drop, table.columns, table.name, table.widths)),
            tuple(chosen_columns("--categorical", request.categorical, table.columns, table.name)),
            _time_column(request, table, self.label),
            tuple(chosen_columns("--keep-as-feature", request.keep_as_feature, table.columns, table.name)),
        )
        self.unit, self._name, self._widths = table.unit, table.name, table.widths
        self.reference: ReferenceTable = read_reference(
            table,
            self.label,
            choices,
            skips_bad=request.skips_bad,
            is_ordered=request.is_ordered,
            task=request.task,
        )
        self._check_penalty()
        if self.reference.bad_rows and request.rejects is not None:
            write_rejects(self.reference.bad_rows, request.rejects)

    @property
    def remarks(self) -> list[Remark]:
        """What you should know about the reference: how it is ordered, and which traps it has."""
        sentence, task = self.reference.order.sentence(), self.reference.task
        first = [Remark("task", self.label, task.sentence)] if task.sentence else []
        order = [] if sentence is None else [Remark("order", self.reference.order.column, sentence)]
        return first + order + self.reference.remarks

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of ``reference`` are in order of time."""
        return self.reference.order.is_known

    @property
    def estimator(self) -> str:
        """Name of the predictor to fit."""
        return self.request.estimator if self.choice is None else self.choice.name

    def choose_estimator(self) -> None:
        """Compare predictors on the reference if the request leaves the choice open."""
        if self.request.estimator != AUTO or self.choice is not None:
            return
        reference = self.reference
        given = [name for name, value in (("--C", self.request.C), ("--alpha", self.request.alpha)) if value != 1.0]
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
        part = self.reference.part(n_rows, self.request.seed)
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
            losses = cross_validate(reference, self._maker(name), seed=self.request.seed)
        return Trial(name, losses, self.is_ordered, self._replay(name, reference))

    def fit_and_save(self) -> TableModel:
        """Fit on the whole reference and save the model."""
        self.choose_estimator()
        request, reference, trial = self.request, self.reference, self._try(self.estimator)
        with _without_warnings():
            model = self._maker(self.estimator)(reference.encoder)
            model.fit(reference.X, reference.y, order=trial.backtest)
        table_model = TableModel(
            model=model, encoder=reference.encoder, label=self.label, settings=self._settings(trial)
        )
        folder = request.folder
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
        request = self.request
        kind = "classifier" if request.task is None else LabelTask(request.task).kind
        estimator = make_estimator(request.estimator, kind=kind, seed=request.seed, blocks=())
        if estimator is None:
            return
        if request.task is None and is_regressor(last_step(estimator)):
            kind = "regressor"
        for name, value in (("--C", request.C), ("--alpha", request.alpha)):
            if value != 1.0:
                raise ParameterError(f"{name} is for --estimator {LINEAR}: leave it out with {request.estimator}.")
        require_sample_weight(estimator, kind)
        if kind == "classifier" and not hasattr(estimator, "predict_proba"):
            raise ParameterError(
                f"--estimator {request.estimator} has no predict_proba, which the predictions need: wrap it in "
                "CalibratedClassifierCV, or use another."
            )

    def _check_penalty(self) -> None:
        """Refuse the penalty of the other task."""
        request, kind = self.request, self.reference.task.kind
        if request.C != 1.0 and kind == "regressor":
            raise ParameterError("--C is for classes: the penalty of a regression is --alpha.")
        if request.alpha != 1.0 and kind == "classifier":
            raise ParameterError("--alpha is for numbers to predict: the penalty of a classifier is --C.")

    def _maker(self, name: str) -> Callable[[ColumnEncoder], Any]:
        """Return what makes an unfitted model for the features of an encoder."""
        request, kind = self.request, self.reference.task.kind
        # The encoder has scaled the numbers already; categories keep the scale of 0 and 1.
        shared: dict[str, Any] = {
            "refit_budget": request.refit_budget,
            "standardize": False,
            "caution": request.caution,
            "random_state": request.seed,
        }

        def make_model(encoder: ColumnEncoder) -> Any:
            estimator = make_estimator(name, kind=kind, seed=request.seed, blocks=encoder.blocks)
            if kind == "regressor":
                return AdaptiveRegressor(estimator, self._ratio, alpha=request.alpha, **shared)
            return AdaptiveClassifier(estimator, self._ratio, C=request.C, **shared)

        return make_model

    def _settings(self, trial: Trial) -> dict[str, Any]:
        request, y = self.request, self.reference.y
        settings: dict[str, Any] = {"reference": self._name, "n_reference": len(y), "ratio": request.ratio}
        settings |= {
            "estimator": self.estimator,
            "choice": None if self.choice is None else self.choice.to_json(),
            **({"alpha": request.alpha} if self.reference.task.kind == "regressor" else {"C": request.C}),
            "seed": request.seed,
            "order": self.reference.order.to_json(),
            "reference_file": identify_file(request.reference),
        }
        used = {name.rpartition("_")[0] for name in self.reference.encoder.used_columns}
        if widths := {name: width for name, width in self._widths.items() if name in used}:
            settings["widths"] = widths
        settings |= {"feature_map": request.feature_map, "loss": request.loss, "max_ratio": request.max_ratio}
        settings["error_of_constant"] = error_of_constant(self.reference)
        if self.reference.task.kind == "regressor":
            spread = float(np.abs(y - np.median(y)).mean())
            return settings | {"task": self.reference.task.name, "error": trial.error, "error_of_median": spread}
        return settings | {"accuracy": trial.accuracy, "largest_class": max(Counter(y.tolist()).values()) / len(y)}


def _time_column(request: FitRequest, table: TableReader, label: str) -> str | None:
    if request.time is None:
        return None
    if request.is_ordered is not None:
        option = "--ordered" if request.is_ordered else "--unordered"
        raise ParameterError(f"--time sorts the rows: leave out {option}, or --time.")
    if request.time not in table.columns:
        raise no_such_column(table, request.time, label=label)
    return request.time


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence scikit-learn's warning about many classes, and those of traps: the job has its own remarks on both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrapWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than")
        yield
