"""The job of ``accous predict`` from file to file: predict rows with a saved table model that stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import DataError
from accous.tabular.adapt_request import AdaptRequest
from accous.tabular.chosen_columns import chosen_columns
from accous.tabular.folder import load_table_model
from accous.tabular.formats.chunks import Position
from accous.tabular.formats.sources import STDIN
from accous.tabular.formats.writing import RowsOutput, finish_parquet, partial_path
from accous.tabular.job_record import absolute, require_free
from accous.tabular.predictions import copied_columns, output_columns, output_schema, predictions_frame
from accous.tabular.rejected_rows import rejects_frame
from accous.tabular.row_reader import RowReader, Rows
from accous.tabular.stream_opening import open_stream
from accous.tabular.unknown_counts import UnknownCounts, add_unknown

__all__ = ["PredictJob"]


class PredictJob:
    """Predicts a table; nothing is learned and nothing is written to the folder of the model.

    A file of predictions appears when it is complete: if the job fails or is stopped, there is none.

    Parameters
    ----------
    request : AdaptRequest
        Its options about rounds, labels and resuming are not used.

    Attributes
    ----------
    n_rows, n_rejected, n_missing, n_unknown : int
        Rows that were predicted and set aside, values that are missing, and categories that the reference does not
        have.
    unknown_in : list of pairs
        The columns with such categories, each with their number.
    """

    def __init__(self, request: AdaptRequest) -> None:
        request.require_output_format()
        self._request = request
        self._table_model = load_table_model(request.model, request.estimator)
        request.require_separate_files()
        self._table = open_stream(request, self._table_model)
        kept = chosen_columns("--keep", request.keep, self._table.columns, self._table.name, self._table.widths)
        self._kept = [name for name in kept if name != request.key]
        output_columns(request.key, self._kept, self._table_model.kind)
        passed = [*([] if request.key is None else [request.key]), *self._kept]
        self._reader = RowReader(
            self._table,
            self._table_model.encoder,
            passed,
            skips_bad=request.skips_bad,
            accepts_unknown=request.accepts_unknown,
        )
        self._require_free_files()
        self.n_rows = self.n_rejected = self.n_missing = self.n_unknown = 0
        self.unknown_in: UnknownCounts = []
        self._counts: NDArray[np.int64] = np.zeros(len(self._table_model.kind.names), dtype=np.int64)
        self._sum = 0.0

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Predict all rows; return whether the end was reached.

        Parameters
        ----------
        should_stop : callable
            Called after every piece of the table.
        """
        request = self._request
        output = RowsOutput(self._text_path, request.text_format, 0)
        rejects = None if request.rejects_path is None else RowsOutput(request.rejects_path, "csv", 0)
        try:
            for rows in self._reader.read(Position()):
                if rows is not None:
                    self._write(rows, output, rejects)
                output.flush()
                if should_stop():
                    return False
            output.put_on_disk()
            self._put_in_place()
        finally:
            output.close()
            if rejects is not None:
                rejects.close()
            self._remove_unfinished()
        return True

    def summary(self) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        names = self._table_model.kind.names
        mean = {"mean_prediction": self._sum / self.n_rows if self.n_rows else None}
        return {
            "rows": self.n_rows,
            "output": absolute(self._request.output),
            "rounds_learned": self._table_model.model.n_rounds_,
            **({"predicted": dict(zip(names, self._counts.tolist(), strict=True))} if names else mean),
            "rejected": self.n_rejected,
            "missing_values": self.n_missing,
            "unknown_categories": self.n_unknown,
            "unknown_by_column": dict(self.unknown_in),
        }

    def _write(self, rows: Rows, output: RowsOutput, rejects: RowsOutput | None) -> None:
        if len(rows):
            result = self._table_model.predict_rows(rows.X)
            kind = self._table_model.kind
            rounds = np.full(len(rows), result.number, dtype=np.int64)
            copied = copied_columns(rows.frame, rows.lines, self._request.key, self._kept)
            output.write(predictions_frame(copied, rounds, result.scores, result.ratios, kind))
            answers = kind.answers(result.scores)
            if kind.names:
                self._counts += np.bincount(answers, minlength=len(kind.names))
            else:
                self._sum += float(answers.sum())
        if rows.bad_rows and rejects is not None:
            rejects.write(rejects_frame(rows.bad_rows))
        self.n_rows += len(rows)
        self.n_rejected += len(rows.bad_rows)
        self.n_missing += int(rows.n_missing.sum())
        self.n_unknown += int(rows.n_unknown.sum())
        self.unknown_in = add_unknown(self.unknown_in, rows.marks, self._table_model.encoder)

    @property
    def _is_direct(self) -> bool:
        """Whether rows go to the output at once: to the standard output, or to a device or pipe."""
        output = self._request.output
        return output == STDIN or (Path(output).exists() and not Path(output).is_file())

    @property
    def _unfinished(self) -> str:
        return f"{self._request.output}.predicting"

    @property
    def _text_path(self) -> str:
        if self._is_direct:
            return self._request.output
        return partial_path(self._unfinished) if self._request.output_format == "parquet" else self._unfinished

    def _put_in_place(self) -> None:
        if self._is_direct:
            return
        request = self._request
        if request.output_format == "parquet":
            types = self._table.column_types(self._kept if request.key is None else [request.key, *self._kept])
            finish_parquet(self._unfinished, output_schema(request.key, self._kept, self._table_model.kind, types))
        Path(self._unfinished).replace(request.output)

    def _remove_unfinished(self) -> None:
        if not self._is_direct:
            for path in (self._unfinished, partial_path(self._unfinished)):
                Path(path).unlink(missing_ok=True)

    def _require_free_files(self) -> None:
        if self._request.overwrites:
            return
        output = self._request.output
        if output != STDIN and Path(output).is_file():
            raise DataError(f"{output} already exists: give another name, or use --force to replace it.")
        require_free(self._request.rejects_path or "")
