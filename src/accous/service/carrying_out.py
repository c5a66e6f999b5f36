"""What a record of the log does to the model; the same on its first day and when the log is played again."""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import Any

import polars as pl

from accous.exceptions import AccousError
from accous.service.answers import Answer, json_answer
from accous.service.batch_log import Record
from accous.service.batches import Batch, BatchReader, key_text
from accous.service.bodies import Label
from accous.service.kept import Kept, KeptAnswer
from accous.service.prediction_answers import plain_predictions, prediction_content, prediction_sets
from accous.service.prediction_ids import MadePrediction, read_id
from accous.service.refusals import Refusal
from accous.table.model import TableModel
from accous.text import LOGGER

__all__ = ["Executor", "Parsed"]

Parsed = Batch | list[Label]
_ID, _KEY = "accous id", "accous key"
_MOST_UNKNOWN = 20


class Executor:
    """Carries out records, in their order.

    Parameters
    ----------
    table_model : TableModel
    reader : BatchReader
    kept : Kept
    """

    def __init__(self, table_model: TableModel, reader: BatchReader, kept: Kept) -> None:
        self._table_model, self._reader, self._kept = table_model, reader, kept

    def parse(self, record: Record) -> Parsed:
        """Return the rows or labels of a record; refuse what cannot be learned from."""
        if record.kind == "labels":
            return self._reader.read_labels(record.body, record.content_type)
        batch = self._reader.read(record.body, record.content_type, record.options)
        if not len(batch.X):
            raise Refusal(422, "no_rows", "There is no row in the request, so there is nothing to learn from.")
        return batch

    def carry_out(self, number: int, record: Record, parsed: Parsed) -> Answer:
        """Learn from a record; return the answer, and keep it if the client may ask again.

        Parameters
        ----------
        number : int
            Of the record in the log.
        record : Record
        parsed : Batch or list of Label
            What `parse` returned for it.
        """
        try:
            answer = self._do(number, record, parsed)
        except Refusal as refusal:
            answer = refusal.answer
        except AccousError as error:
            answer = Refusal(422, "not_learned", f"The batch cannot be learned from: {error}").answer
        except Exception:
            # The model keeps its state. The log is played again with the same result.
            LOGGER.exception("Record %d of the log could not be learned from", number)
            answer = Refusal(500, "not_learned", "The batch could not be learned from; the model is unchanged.").answer
        if record.key is not None:
            self._kept.keep_answer(record.key, KeptAnswer(record.digest, answer.status, answer.body))
        return answer

    def _do(self, number: int, record: Record, parsed: Parsed) -> Answer:
        if not isinstance(parsed, Batch):
            return self._count(parsed)
        table_model = self._table_model
        # Like the predictions, from before the round unless it learns first.
        sets = None if record.learns_first else prediction_sets(copy(table_model.model), parsed)
        played = table_model.play_round(
            parsed.X,
            parsed.marks,
            learns_first=record.learns_first,
            times=parsed.times,
            needs_ratio=record.kind == "step" and "ratio" in parsed.include,
        )
        if parsed.keys is not None:
            self._kept.keep_predictions(parsed.keys, plain_predictions(table_model.kind, played), played.number)
        if record.kind == "adapt":
            return json_answer({"round": played.number, "rows": len(parsed.X)})
        content = prediction_content(table_model, played, parsed, origin=f"s{number}", salt=self._reader.salt)
        sets = prediction_sets(copy(table_model.model), parsed) if record.learns_first else sets
        return json_answer(content if sets is None else content | {"sets": sets})

    # --- late labels ---

    def _count(self, labels: list[Label]) -> Answer:
        before, n_earlier = self._n_labelled(), 0
        all_matched: list[Label] = []
        for column, wanted in ((_ID, True), (_KEY, False)):
            found = [(each, self._find(each)) for each in labels if (each.id is not None) is wanted]
            matched = [(each, made) for each, made in found if made is not None]
            if matched:
                self._observe(column, matched)
            all_matched += [each for each, _ in matched]
            rounds = [made.round for each, made in matched if each.label is not None]
            n_earlier += int(self._table_model.model.is_before_joining(rounds).sum())
        counted, n_matched = self._n_labelled() - before, len(all_matched)
        n_labelled = len([each for each in labels if each.label is not None])
        return json_answer(
            {
                "round": int(self._table_model.model.n_rounds_),
                "labels": len(labels),
                "counted": counted,
                "counted_before": max(0, n_matched - (len(labels) - n_labelled) - counted - n_earlier),
                "before_joining": n_earlier,
                "without_label": len(labels) - n_labelled,
                "unmatched": len(labels) - n_matched,
                "labelled_rows": self._n_labelled(),
                "unknown_labels": self._unknown(all_matched),
            }
        )

    def _unknown(self, labels: list[Label]) -> dict[str, int]:
        """Return the labels that the reference does not have, and how often each is there: a new class, or misspelt.

        A label that matches no prediction is counted nowhere, so it is not asked about.
        """
        texts = pl.Series([_label_text(each.label) for each in labels], dtype=pl.String).drop_nulls()
        counts = Counter(texts.filter(~self._table_model.kind.is_possible(texts)).to_list())
        return dict(counts.most_common(_MOST_UNKNOWN))

    def _find(self, label: Label) -> MadePrediction | None:
        if label.id is not None:
            return read_id(label.id, self._reader.salt)
        return self._kept.prediction(key_text(label.key))

    def _observe(self, column: str, matched: list[tuple[Label, MadePrediction]]) -> None:
        if all(each.label is None for each, _ in matched):
            return
        places = [each.id if each.id is not None else key_text(each.key) for each, _ in matched]
        frame = pl.DataFrame({column: places})
        rows = [each.row for each, _ in matched]
        if all(row is not None for row in rows):
            frame = frame.hstack(self._reader.frame_of([row or {} for row in rows]))
        predictions = pl.DataFrame(
            {
                column: places,
                "prediction": [made.prediction for _, made in matched],
                "round": [made.round for _, made in matched],
            }
        )
        y = pl.Series([_label_text(each.label) for each, _ in matched], dtype=pl.String)
        self._table_model.observe(frame, y, predictions=predictions, key=column)

    def _n_labelled(self) -> int:
        labels = self._table_model.model.state_.late_labels
        return 0 if labels is None else int(labels.n_labelled)


def _label_text(label: Any) -> str | None:
    return None if label is None else key_text(label)
