"""The job of ``accous fit`` from a labelled table to a model's folder: read, cross-validate, fit, save."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accous.checkpoint.locks import exclusive_lock
from accous.classifier.adaptation import AdaptiveClassifier
from accous.classifier.backtest import Backtest
from accous.exceptions import CheckpointError, DataError, ParameterError, TrapWarning
from accous.tabular.chosen_columns import chosen_columns
from accous.tabular.columns.learning import Choices
from accous.tabular.fitting import ReferenceTable, cross_validate, read_reference, replay
from accous.tabular.folder import save_table_model
from accous.tabular.formats.chunks import TableReader, no_such_column
from accous.tabular.formats.labelled import with_labels
from accous.tabular.formats.opening import open_table
from accous.tabular.job_record import require_free
from accous.tabular.named_ratios import make_ratio
from accous.tabular.rejected_rows import write_rejects
from accous.tabular.table_model import TableModel
from accous.tabular.traps import Remark

__all__ = ["FitJob", "FitRequest"]

_BATCH_SIZE = 10


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """A reference to fit on and how to fit.

    Attributes
    ----------
    reference : str
        A file, or ``"-"`` for standard input.
    label : str
        Its label column, or the file of its labels.
    folder : Path, optional
        Where to save the model; None if it is only replayed.
    drop, categorical : list of str
        Columns to leave out, and columns to read as categories.
    time : str, optional
        The column that gives the rows their order in time.
    is_ordered : bool, optional
        Whether the rows already are in order of time; None looks for a date column that gives the order.
    keep_as_feature : list of str
        Columns to use even if they look like ids, counters or times.
    ratio : str
        Name of the ratio estimator.
    feature_map, loss, max_ratio : optional
        Parameters of the ratio estimator; None leaves its default.
    C : float
        Inverse regularization strength of the classifier.
    caution : {"high", "normal", "low"}
        How much evidence the adaptation needs.
    seed : int
    table_format, encoding, separator : str, optional
        Of the reference, if they cannot be inferred from the file.
    skips_bad : bool
        Whether bad rows are set aside, or are an error.
    rejects : str, optional
        File for the rows set aside.
    overwrites : bool
        Whether existing files and models may be replaced.
    """

    reference: str
    label: str
    folder: Path | None = None
    drop: list[str] = field(default_factory=list)
    categorical: list[str] = field(default_factory=list)
    time: str | None = None
    is_ordered: bool | None = None
    keep_as_feature: list[str] = field(default_factory=list)
    ratio: str = "accous"
    feature_map: str | None = None
    loss: str | None = None
    max_ratio: float | None = None
    C: float = 1.0
    caution: str = "normal"
    seed: int = 0
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None
    skips_bad: bool = False
    rejects: str | None = None
    overwrites: bool = False

    def require_free_places(self) -> None:
        """Raise an error where a file or a model would be replaced without permission."""
        if self.overwrites:
            return
        if self.rejects is not None:
            require_free(self.rejects)
        if self.folder is not None and (self.folder / "manifest.json").exists():
            raise CheckpointError(
                f"{self.folder} already holds a model: give another folder, or use --force to replace the model and "
                "all it has learned"
            )


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
        table = open_table(
            request.reference, request.table_format, encoding=request.encoding, separator=request.separator
        )
        table, self.label = with_labels(table, request.label)
        choices = Choices(
            tuple(chosen_columns("--drop", request.drop, table.columns, table.name, table.widths)),
            tuple(chosen_columns("--categorical", request.categorical, table.columns, table.name)),
            _time_column(request, table),
            tuple(chosen_columns("--keep-as-feature", request.keep_as_feature, table.columns, table.name)),
        )
        self.unit, self._name, self._widths = table.unit, table.name, table.widths
        self.reference: ReferenceTable = read_reference(
            table, self.label, choices, skips_bad=request.skips_bad, is_ordered=request.is_ordered
        )
        if self.reference.bad_rows and request.rejects is not None:
            write_rejects(self.reference.bad_rows, request.rejects)

    @property
    def remarks(self) -> list[Remark]:
        """What you should know about the reference: how it is ordered, and which traps it has."""
        sentence = self.reference.order.sentence()
        order = [] if sentence is None else [Remark("order", self.reference.order.column, sentence)]
        return order + self.reference.remarks

    @property
    def is_ordered(self) -> bool:
        """Whether the rows of ``reference`` are in order of time."""
        return self.reference.order.is_known

    def cross_validate(self) -> float | None:
        """Return the cross-validated accuracy, in order of time if there is one; None where there are too few rows."""
        with _without_warnings():
            return cross_validate(self.reference, C=self.request.C, seed=self.request.seed)

    def fit_and_save(self, accuracy: float | None) -> TableModel:
        """Fit on the whole reference and save the model.

        Parameters
        ----------
        accuracy : float, optional
            The cross-validated one, to be saved with the model.
        """
        request, reference = self.request, self.reference
        with _without_warnings():
            model = self._make_model().fit(reference.X, reference.y, order=self._replay())
        table_model = TableModel(
            model=model, encoder=reference.encoder, label=self.label, settings=self._settings(accuracy)
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
        """Replay the reference in its order in time.

        Parameters
        ----------
        batch_size : int
            Rows in a round.
        on_progress : callable
            Called with the share of the work that is done.
        """
        if not self.is_ordered:
            raise ParameterError(
                f"{self._name} has no order in time: name a column of times with --time, or say --ordered if its rows "
                "are in order already."
            )
        with _without_warnings():
            return replay(self.reference, self._make_model(), batch_size=batch_size, on_progress=on_progress)

    def _replay(self) -> Backtest | None:
        """Replay the reference if it has an order and enough rows."""
        if not self.is_ordered:
            return None
        try:
            return self.backtest(_BATCH_SIZE, lambda _: None)
        except DataError:
            # Too few rows, or a part without a usable column: nothing is verified then.
            return None

    def _make_model(self) -> AdaptiveClassifier:
        request = self.request
        # The encoder has scaled the numbers already; categories keep the scale of 0 and 1.
        return AdaptiveClassifier(
            ratio=self._ratio, C=request.C, standardize=False, caution=request.caution, random_state=request.seed
        )

    def _settings(self, accuracy: float | None) -> dict[str, Any]:
        request, y = self.request, self.reference.y
        settings: dict[str, Any] = {"reference": self._name, "n_reference": len(y), "ratio": request.ratio}
        settings |= {"C": request.C, "seed": request.seed, "order": self.reference.order.to_json()}
        used = {name.rpartition("_")[0] for name in self.reference.encoder.used_columns}
        if widths := {name: width for name, width in self._widths.items() if name in used}:
            settings["widths"] = widths
        settings |= {"feature_map": request.feature_map, "loss": request.loss, "max_ratio": request.max_ratio}
        return settings | {"accuracy": accuracy, "largest_class": max(Counter(y.tolist()).values()) / len(y)}


def _time_column(request: FitRequest, table: TableReader) -> str | None:
    if request.time is None:
        return None
    if request.is_ordered is not None:
        option = "--ordered" if request.is_ordered else "--unordered"
        raise ParameterError(f"--time sorts the rows: leave out {option}, or --time.")
    if request.time not in table.columns:
        raise no_such_column(table, request.time)
    return request.time


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence scikit-learn's warning about many classes, and those of traps: the job has its own remarks on both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrapWarning)
        warnings.filterwarnings("ignore", message="The number of unique classes is greater than")
        yield
