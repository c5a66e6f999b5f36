"""The job of ``accous labels``: late labels are joined with the predictions and counted, each of them once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.parameters import listed
from accous.tabular.folder import load_table_model, save_table_model
from accous.tabular.formats.sources import STDIN
from accous.tabular.job_record import absolute
from accous.tabular.label_tables import LINE, LabelTable, match_predictions, read_label_table
from accous.tabular.stream_rows import read_stream_rows
from accous.tabular.summary import summarize_labels
from accous.tabular.table_model import TableModel

__all__ = ["MOST_COUNTED", "LabelJob", "LabelRequest", "LabelsCounted"]

MOST_COUNTED = 1 << 20
"""Labels that a model remembers as counted; the oldest are forgotten first."""

# An odd number that spreads rounds over all numbers of 64 bits.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_N_LABEL_BITS, _LABEL_BITS = np.uint64(8), np.uint64(0xFF)


@dataclass(frozen=True, kw_only=True)
class LabelRequest:
    """Late labels and where they belong.

    Attributes
    ----------
    model : Path
        The folder of the table model.
    labels : str
        The file, or ``"-"`` for the standard input.
    key : str, optional
        Column that names a row, in the labels and in the predictions. None: the one
        that the run was given, or ``line``, if the labels have it; otherwise by position.
    label : str, optional
        Column of the labels.
    predictions : str, optional
        None: the output of the last run.
    table_format, encoding, separator : str, optional
        Of the labels, where they cannot be told from the file.
    """

    model: Path
    labels: str
    key: str | None = None
    label: str | None = None
    predictions: str | None = None
    table_format: str | None = None
    encoding: str | None = None
    separator: str | None = None


@dataclass(frozen=True, kw_only=True)
class LabelsCounted:
    """What became of the labels in a file.

    Attributes
    ----------
    n_read : int
        Rows of the file.
    n_counted : int
        Labels that were counted now.
    n_before : int
        Labels that an earlier call has counted.
    n_differing : int
        How many of those have another class now; what was counted stays.
    n_unmatched : int
        Labels without a prediction; ``first_unmatched`` is the place of one.
    n_missing, n_repeated : int
        Rows without a label, and rows that repeat another one.
    joined_by : str
        How labels and predictions were joined, in words.
    has_rows : bool
        Whether the rows were found in the stream, so that P(y | x) can be tested and the fixed model is measured too.
    """

    n_read: int
    n_counted: int
    n_before: int
    n_differing: int
    n_unmatched: int
    first_unmatched: str
    n_missing: int
    n_repeated: int
    joined_by: str
    has_rows: bool


class LabelJob:
    """Counts late labels with a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    request : LabelRequest

    Attributes
    ----------
    table_model : TableModel
    """

    def __init__(self, request: LabelRequest) -> None:
        self._request = request
        self.table_model: TableModel = load_table_model(request.model)
        self._predictions = self._find_predictions()
        job = self.table_model.job
        # The job whose stream the predictions are about; None if they are another run's.
        self._job = job if job is not None and job.spec.output == absolute(self._predictions) else None
        options = {} if self._job is None else self._job.spec.options
        self._usual_key = options.get("key") or None
        if self._job is not None and self._job.n_scored:
            raise DataError(
                f"The run that wrote {self._predictions} has counted the labels of its stream already (accous adapt "
                "--label): they must not count twice."
            )

    def run(self) -> LabelsCounted:
        """Count the labels and save the model."""
        request, table_model = self._request, self.table_model
        table = read_label_table(
            request.labels,
            key=request.key,
            usual_key=self._usual_key,
            label=request.label,
            usual_label=table_model.label,
            table_format=request.table_format,
            encoding=request.encoding,
            separator=request.separator,
        )
        matched = match_predictions(
            table,
            self._predictions,
            can_count=self._job is not None and self._job.n_rejected == 0,
            n_rows=None if self._job is None else self._job.n_rows,
        )
        self._require_matches(table, matched)
        numbers = self._numbers(matched)
        before = table_model.counted_labels
        is_new = ~np.isin(numbers | _LABEL_BITS, before | _LABEL_BITS)
        n_differing = int((~is_new & ~np.isin(numbers, before)).sum())
        new = matched.filter(pl.Series(is_new))
        X = self._rows(new, table.place_column)
        if new.height:
            self._observe(new, X)
            table_model.counted_labels = np.concatenate((before, numbers[is_new]))[-MOST_COUNTED:]
            save_table_model(table_model, request.model, is_last=True)
        unmatched = table.rows.join(matched, on="place", how="anti")["place"]
        return LabelsCounted(
            n_read=table.n_read,
            n_counted=new.height,
            n_before=matched.height - new.height,
            n_differing=n_differing,
            n_unmatched=len(unmatched),
            first_unmatched=unmatched[0] if len(unmatched) else "",
            n_missing=table.n_missing,
            n_repeated=table.n_repeated,
            joined_by=_joined_by(table.place_column, matched),
            has_rows=X is not None,
        )

    def summary(self, counted: LabelsCounted) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        measured = self.table_model.model.measured_
        estimated = None if measured is None or np.isnan(measured.estimated) else measured.estimated
        return {
            "labels": counted.n_read,
            "counted": counted.n_counted,
            "counted_before": counted.n_before,
            "differing": counted.n_differing,
            "unmatched": counted.n_unmatched,
            "without_label": counted.n_missing,
            "repeated": counted.n_repeated,
            "estimated_error": estimated,
            **summarize_labels(self.table_model.model),
        }

    def _find_predictions(self) -> str:
        request, job = self._request, self.table_model.job
        if request.predictions is not None:
            return request.predictions
        if job is None:
            raise DataError(f"{request.model} has predicted nothing yet: run accous adapt first.")
        if job.spec.output == STDIN:
            raise ParameterError("The last run wrote its predictions to stdout: name their file with --predictions.")
        if not Path(job.spec.output).is_file():
            raise DataError(
                f"{job.spec.output}, which the last run has written, is not there: name the file with --predictions."
            )
        return job.spec.output

    def _require_matches(self, table: LabelTable, matched: pl.DataFrame) -> None:
        if not table.rows.height:
            raise DataError(f"{self._request.labels} holds no label.")
        classes = [str(each) for each in self.table_model.model.classes_]
        if not table.rows["label"].cast(pl.String).is_in(classes).any():
            raise DataError(
                f"None of the labels in {self._request.labels} is a class of the reference "
                f"({listed(classes)}): is this the file, and --label its column?"
            )
        if not matched.height:
            how = _joined_by(table.place_column, matched)
            raise DataError(
                f"None of the {table.rows.height:,} labels belongs to a row of {self._predictions}, {how} (the first "
                f"is {table.rows['place'][0]!r}): give another --key or --predictions."
            )

    def _numbers(self, matched: pl.DataFrame) -> NDArray[np.uint64]:
        """Return numbers that rows are remembered by, whatever they were joined by: file, round, place in it and label.

        Rounds go on over all runs of a model, so a run that replaces the file of another has other numbers. The last
        eight bits are the number of the label's class.
        """
        digest = hashlib.blake2b(absolute(self._predictions).encode("utf-8", "surrogateescape"), digest_size=8).digest()
        rounds = matched["round"].fill_null(0).to_numpy().astype(np.uint64)
        places = matched["number"].to_numpy().astype(np.uint64)
        rows = (places + rounds * _SPREAD + np.frombuffer(digest, dtype="<u8").astype(np.uint64)) << _N_LABEL_BITS
        classes = {str(each): number % 255 for number, each in enumerate(self.table_model.model.classes_)}
        labels = matched["label"].replace_strict(classes, default=255, return_dtype=pl.UInt64)
        return rows | labels.to_numpy()

    def _rows(self, new: pl.DataFrame, place_column: str | None) -> NDArray[np.float64] | None:
        if self._job is None or not new.height:
            return None
        return read_stream_rows(self.table_model, self._job, new["place"], place_column=place_column)

    def _observe(self, new: pl.DataFrame, X: NDArray[np.float64] | None) -> None:
        model = self.table_model.model
        by_name = {str(value): value for value in model.classes_.tolist()}
        labels, predicted = (
            np.array([by_name.get(name, name) for name in new[column].to_list()], dtype=object)
            for column in ("label", "prediction")
        )
        model.observe(X, labels, predicted=predicted, estimated=self._estimates(new["round"]))

    def _estimates(self, rounds: pl.Series) -> NDArray[np.float64]:
        """Return the estimated error around the round in which each row was predicted; NaN if it is not known."""
        model = self.table_model.model
        estimates = np.full((len(rounds), 3), np.nan)
        now = model.risk_.adapted, model.risk_.adapted_low, model.risk_.adapted_high
        estimates[rounds.is_not_null().to_numpy()] = self.table_model.history.risk_at(
            rounds.drop_nulls().to_numpy().astype(np.int64),
            changes=[event.round for event in model.drift_events_],
            latest=(model.n_rounds_, now),
        )
        return estimates


def _joined_by(place_column: str | None, matched: pl.DataFrame) -> str:
    if place_column is not None:
        return "joined by line" if place_column == LINE else f"joined by key {place_column}"
    if not matched.height:
        return "joined by position"
    return f"joined by position: rows {matched['number'][0] + 1:,} to {matched['number'][-1] + 1:,}"
