"""The subject of a report: a model and its history, read once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.diagnostics.coverage import Coverage
from accous.diagnostics.drift import DriftEvent, Regime
from accous.diagnostics.labels import MeasuredError
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import RiskEstimate
from accous.diagnostics.trust import Trust
from accous.table.columns import MISSING, summarize
from accous.table.history import History
from accous.table.model import TableModel
from accous.table.summary import TOO_FEW_ROWS, held_out_in_words, reference_error, scale_of

__all__ = ["Subject", "subject_of_pipeline"]


@dataclass(frozen=True)
class Subject:
    """A model, its history and the names of its columns.

    Attributes
    ----------
    name : str
        Name of the model.
    model : AdaptiveClassifier
    history : History
    columns : list of str
        The column that each feature was made from; a column may appear several times.
    settings : dict of str to str
        Rows of the settings table.
    preparation : list of (column, kind, what is done)
        Rows of the table of columns.
    table : TableModel, optional
        The table model that the classifier belongs to.
    """

    name: str
    model: Any
    history: History
    columns: list[str]
    settings: dict[str, str] = field(default_factory=dict)
    preparation: list[tuple[str, str, str]] = field(default_factory=list)
    table: TableModel | None = None

    @property
    def scale(self) -> LossScale:
        """How errors are written."""
        scale: LossScale = self.model.fixed_.scale
        return scale

    def in_unit(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return mean losses as they are shown: those of squares as their roots."""
        return np.sqrt(losses) if self.scale.loss == "squared" else losses

    @property
    def trust(self) -> Trust:
        """The three answers and the verdict."""
        trust: Trust = self.model.trust_ if self.table is None else self.table.trust_
        return trust

    @property
    def coverage(self) -> Coverage:
        """What recent rows show that the reference does not."""
        coverage: Coverage = self.model.coverage_ if self.table is None else self.table.coverage_
        return coverage

    @property
    def risk(self) -> RiskEstimate:
        """The estimated errors."""
        risk: RiskEstimate = self.model.risk_ if self.table is None else self.table.risk_
        return risk

    @property
    def measured(self) -> MeasuredError | None:
        """What late labels have measured."""
        measured: MeasuredError | None = self.model.measured_ if self.table is None else self.table.measured_
        return measured

    @property
    def moved_rows(self) -> int | None:
        """Over how many of the last rows the inputs have moved by more than chance; 0 if not, None if not known."""
        coverage = self.coverage
        if coverage.has_moved is None:
            return None
        latest = coverage if coverage.has_moved else self.model.latest_coverage_
        return int(latest.n_rows) if latest.has_moved else 0

    @property
    def events(self) -> list[DriftEvent]:
        """The changes of the inputs, without seasonal ones, with the columns that carry them."""
        if self.table is not None:
            return list(self.table.drift_events_)
        return [replace(event, features=self._columns_of(event.features)) for event in self.model.drift_events_]

    @property
    def regimes(self) -> tuple[Regime, ...]:
        """The regimes that the model remembers, with the columns that tell them apart."""
        if self.table is not None:
            return self.table.regimes_
        return tuple(replace(each, features=self._columns_of(each.features)) for each in self.model.regimes_)

    @property
    def n_seasonal(self) -> int:
        """How many changes were seasonal."""
        return 0 if self.table is None else len(self.table.seasonal_events_)

    @property
    def knows_seasons(self) -> bool:
        """Whether a part of what moved is explained by the time of the day."""
        seasons = None if self.table is None else self.table.seasons
        return seasons is not None and seasons.explained is not None and bool(seasons.explained.any())

    @property
    def has_hours(self) -> bool:
        """Whether the rows have a time of the day, and not a date alone."""
        seasons = None if self.table is None else self.table.seasons
        return seasons is not None and seasons.slots.has_hours

    @property
    def moved_share(self) -> float:
        """How far the inputs have moved: total variation between the current weights and equal weights, in [0, 1]."""
        weights = self.model.reference_weight_ / self.model.reference_weight_.mean()
        return float(0.5 * np.abs(weights - 1.0).mean())

    def share_missing_before(self, column: str) -> float | None:
        """Share of the reference in which a column is missing; None if the table does not say."""
        marks = [] if self.table is None else self.table.encoder.marks
        found = (mark for mark in marks if (mark.kind, mark.column) == (MISSING, column))
        return next((mark.n_hits / mark.n_reference for mark in found), None)

    def column_shares(self) -> list[tuple[str, float]]:
        """Share of the drift that each column carries, largest first; without what the time of the day explains."""
        shares: dict[str, float] = {}
        if self.table is not None:
            shares = self.table.drift_attribution_
            return sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        for column, share in zip(self.columns, self.model.drift_attribution_.tolist(), strict=True):
            shares[column] = shares.get(column, 0.0) + share
        return sorted(shares.items(), key=lambda item: (-item[1], item[0]))

    def _columns_of(self, features: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of features; a model fitted on arrays calls its features x0, x1 and so on."""
        if hasattr(self.model, "feature_names_in_"):
            return features
        return tuple(dict.fromkeys(self.columns[int(feature[1:])] for feature in features))


def _scores(settings: dict[str, Any]) -> dict[str, str]:
    """Return how well the reference was predicted, in words."""
    error, scale = reference_error(settings), scale_of(settings)
    how = held_out_in_words(is_ordered=bool(settings.get("order", {"by": None})["by"]))
    scores = {f"{scale.name} on the reference": TOO_FEW_ROWS if error is None else f"{scale.shown(error)}, {how}"}
    if "error_of_constant" in settings:  # models of earlier versions have none
        always = f"always the {'most frequent class' if scale.is_of_classes else 'median'}"
        scores["error of a constant there"] = f"{scale.shown(settings['error_of_constant'])}, {always}"
    if scale.is_of_classes:
        scores["largest class"] = f"{settings['largest_class']:.1%} of the reference"
    return scores


def subject_of_pipeline(pipeline: TableModel, name: str) -> Subject:
    """Return the subject of a report on a model's folder."""
    settings = {key: str(value) for key, value in pipeline.settings.items() if value is not None}
    settings.pop("reference_file", None)  # says nothing to a reader
    order = pipeline.settings.get("order", {"by": None})  # models of earlier versions have none
    settings["order"] = {None: "not known", "rows": "as in the file", "time": f"by {order.get('column')}"}[order["by"]]
    for name_of_score in ("accuracy", "largest_class", "error", "error_of_median", "error_of_constant"):
        settings.pop(name_of_score, None)
    settings |= _scores(pipeline.settings)
    if "widths" in settings:
        settings["widths"] = ", ".join(f"{name} {width}" for name, width in pipeline.settings["widths"].items())
    if "choice" in settings:
        settings["choice"] = pipeline.settings["choice"]["reason"]
    settings["label"] = pipeline.label
    if pipeline.kind.names:
        settings["classes"] = ", ".join(pipeline.kind.names[:20])
    settings["rounds"] = f"{pipeline.model.n_rounds_:,}"
    settings["adaptation"] = pipeline.model.rules_.guard.sentence
    if pipeline.job is not None:
        settings |= {"stream": pipeline.job.spec.stream, "predictions": pipeline.job.spec.output}
        settings |= {name: str(value) for name, value in pipeline.job.spec.options.items() if value}
        settings["bad rows set aside"] = f"{pipeline.job.n_rejected:,}"
    preparation = [(line.columns, line.kind, line.what) for line in summarize(pipeline.encoder.plans)]
    columns = pipeline.encoder.column_of_feature
    return Subject(name, pipeline.model, pipeline.history, columns, settings, preparation, pipeline)
