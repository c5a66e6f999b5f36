"""`accous ask` and `accous labels`: which rows to label, and labels joined with predictions, measured and learned."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from accous.exceptions import DataError, ParameterError
from accous.model.learning import MOST_LABELS, draw_rows, is_drawn
from accous.model.watching import MAX_ROWS
from accous.table.kinds import ID, LINE, LabelTable, key_texts, read_label_table, require_no_feature
from accous.table.model import TableModel, load_table_model, open_store, save_table_model
from accous.table.options import AskOptions, LabelsOptions
from accous.table.readers import STDIN, Position, TableReader, open_as_asked, predicting_path
from accous.table.rows import NamedRows, PendingRows, RowReader
from accous.table.runs import require_separate_files
from accous.table.store import ID_STEP, STORE_NAME, Joined, Store, first_id, identify_source, ids_from, looks_like_id
from accous.text import count

# --- accous labels: late labels joined with the predictions that the folder remembers


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
        Labels that were known already.
    n_corrected : int
        Labels that took the place of another one.
    n_unmatched : int
        Labels whose row is not remembered; ``first_unmatched`` is the place of one.
    n_missing, n_repeated : int
        Rows without a label, and rows that repeat another one.
    n_unnamed : int
        Rows that have a label, but nothing in the column that names the row, ``place_column``.
    joined_by : str
        How labels and predictions were joined, in words.
    unseen : dict of str to int
        How many of the new labels are of each class that the reference does not have.
    """

    n_read: int
    n_counted: int
    n_before: int
    n_corrected: int
    n_unmatched: int
    first_unmatched: str
    n_missing: int
    n_repeated: int
    n_unnamed: int
    place_column: str
    joined_by: str
    unseen: dict[str, int]


class LabelJob:
    """Counts late labels with a saved table model; the caller holds the folder's lock.

    Parameters
    ----------
    options : LabelsOptions
    table_model : TableModel, optional
        The model, if it is loaded already.

    Attributes
    ----------
    table_model : TableModel
    """

    def __init__(self, options: LabelsOptions, table_model: TableModel | None = None) -> None:
        self._options = options
        self.table_model: TableModel = (
            load_table_model(options.model, options.estimator) if table_model is None else table_model
        )

    def open_store(self) -> Store:
        """Open what the folder remembers; raise a DataError if that is nothing yet."""
        if not (self._options.model / STORE_NAME).exists():
            raise DataError(f"{self._options.model} has predicted nothing yet: run accous adapt first.")
        return open_store(self.table_model, self._options.model)

    def run(self) -> LabelsCounted:
        """Count the labels and save the model."""
        model = self.table_model
        with self.open_store() as store:
            table, joined = self.match(store)
            new, corrected = joined.new, joined.corrected
            unseen = self._unseen(new["given"])  # before they are learned
            if new.height or corrected.height:
                with store.changing():  # a label that cannot be used changes nothing
                    store.set_labels(joined)
                    self._count(store, new, corrected)
                # The store is ahead of the model until it is saved: whoever opens it before takes this batch back.
                model.stored = store.position
                save_table_model(model, self._options.model)
        return LabelsCounted(
            n_read=table.n_read,
            n_counted=new.height,
            n_before=joined.n_before,
            n_corrected=corrected.height,
            n_unmatched=len(joined.unknown),
            first_unmatched=joined.unknown[0] if len(joined.unknown) else "",
            n_missing=table.n_missing,
            n_repeated=table.n_repeated,
            n_unnamed=table.n_unnamed,
            place_column=table.place_column or LINE,
            joined_by=self.joined_in_words(table),
            unseen=unseen,
        )

    def _count(self, store: Store, new: pl.DataFrame, corrected: pl.DataFrame) -> None:
        """Measure with labels that the store has just got, then learn from them."""
        model = self.table_model
        model.remember_before(store.position.n_batches)
        if corrected.height:
            model.recount_labels(store)
        else:
            model.count_labels(new, store.position.last_id)
        if self._options.measure_only:
            only_measure(model, store)
        learn_from_store(model, store)

    def _unseen(self, labels: pl.Series) -> dict[str, int]:
        names = self.table_model.form.names
        return dict(Counter(each for each in labels.to_list() if each not in names)) if names else {}

    def undo(self) -> int:
        """Take the last labels back and save the model; return how many there were."""
        with self.open_store() as store, store.changing():
            n_labels = store.undo_last()
            if not n_labels:
                raise DataError(f"{self._options.model} has no labels that could be taken back.")
            self._save_recounted(store)
        return n_labels

    def forget(self, keys: list[str]) -> int:
        """Delete what is remembered of rows, and measure as if their labels had not come; return how many rows."""
        with self.open_store() as store, store.changing():
            n_rows = store.forget(keys)
            if n_rows:
                self.table_model.before_labels = None
                self._save_recounted(store)
        return n_rows

    def _save_recounted(self, store: Store) -> None:
        # The model is saved before the store changes: if that does not happen, the next one to open it does it again.
        self.table_model.recount_labels(store)
        learn_from_store(self.table_model, store)
        self.table_model.stored = store.position
        save_table_model(self.table_model, self._options.model)

    def match(self, store: Store) -> tuple[LabelTable, Joined]:
        """Read the labels; return them, and the predictions that they belong to.

        Raises
        ------
        DataError
            If no label is a class of the reference, or none belongs to a prediction.
        """
        options = self._options
        assert options.labels is not None
        with closing(open_as_asked(options.labels, options)) as reader:
            by, column, source = self._places(reader, store)
            table = read_label_table(
                reader, by=by, place_column=column, label=options.label, usual_label=self.table_model.label
            )
        table = replace(table, rows=table.rows.with_columns(label=self.table_model.form.texts(table.rows["label"])))
        label = table.label_column
        require_no_feature(label, options.label or label, self.table_model.encoder.used_columns)
        self._require_labels(table)
        joined = store.join(table.rows, by=by, source=source)
        if not joined.rows.height:
            raise DataError(
                f"Nothing in {options.labels} ({count(table.rows.height, 'label')}) belongs to a prediction that "
                f"{options.model} remembers, {self.joined_in_words(table)} (the first is {table.rows['place'][0]!r}): "
                "is this the --key that accous adapt used?"
            )
        return table, joined

    def _places(self, reader: TableReader, store: Store) -> tuple[str, str | None, int | None]:
        """Return what names the rows (key, id or line), its column, and the file whose lines are meant."""
        options, usual = self._options, usual_key(self.table_model)
        if options.key is not None:
            if options.key != usual and usual in reader.columns:
                raise ParameterError(
                    f"The rows are named by the column {usual!r}, which {reader.name} has: --key {usual}."
                )
            return "key", options.key, None
        if options.id is not None:
            return "id", options.id, None
        if usual in reader.columns:
            return "key", usual, None
        if ID in reader.columns and _holds_ids(reader):
            return "id", ID, None
        if LINE in reader.columns:
            return "line", LINE, None
        known = store.sources()
        source = identify_source(options.labels or "", known)
        if source in known:
            return "line", None, source
        named = "" if usual is None else f" {usual!r}, which is the key of the run,"
        raise DataError(
            f"Nothing in {reader.name} says which rows its labels belong to: it has no column{named or ' of a key,'} "
            f"{ID!r} or {LINE!r} of the predictions, and is not the file that was predicted. Name a key with --key COL."
        )

    def joined_in_words(self, table: LabelTable) -> str:
        """Say how labels and predictions were joined; it names the column of the labels if it has another name."""
        text = f"joined by key {table.place_column}" if table.by == "key" else f"joined by {table.by}"
        if table.label_column != self.table_model.label:
            text += f" (labels in column {table.label_column!r})"
        return text

    def summary(self, counted: LabelsCounted | None = None) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        found = self.table_model.snapshot().to_json()
        if counted is None:
            return found
        return {
            "labels": counted.n_read,
            "counted": counted.n_counted,
            "counted_before": counted.n_before,
            "corrected": counted.n_corrected,
            "unmatched": counted.n_unmatched,
            "without_label": counted.n_missing,
            "without_key": counted.n_unnamed,
            "repeated": counted.n_repeated,
            "unseen_classes": counted.unseen,
            **found,
        }

    def _require_labels(self, table: LabelTable) -> None:
        name = self._options.labels
        if not table.rows.height:
            where = f" in a row that has its {table.place_column}" if table.n_unnamed else ""
            raise DataError(f"{name} holds no label{where}.")
        stranger = self.table_model.form.stranger(table.rows["label"].cast(pl.String))
        if stranger is not None:
            raise DataError(
                f"None of the labels in {name} {stranger}; the first is {table.rows['label'][0]!r}: is "
                "this the right file, and --label the right column?"
            )


def only_measure(model: TableModel, store: Store) -> None:
    """Note that nothing is learned from the last batch of labels, now or later."""
    only = [*model.settings.get("measured_only", []), store.position.n_batches]
    model.settings = model.settings | {"measured_only": only}


def learn_from_store(model: TableModel, store: Store) -> None:
    """Learn from all labels that came, as if there had been no others.

    After the last file was taken back, that is what had been learned before it.
    """
    start, n_batches = first_id(model.settings, model.label), store.position.n_batches
    only = [batch for batch in model.settings.get("measured_only", []) if batch <= n_batches]
    if only != model.settings.get("measured_only", []):
        model.settings = model.settings | {"measured_only": only}
    if model.take_back(n_batches + 1):
        return
    # Labels that came with their rows are batch 0: they are for measuring.
    rows = store.labelled().filter((pl.col("label_batch") > 0) & ~pl.col("label_batch").is_in(only))
    rows = rows.drop_nulls("features").sort("id").tail(MOST_LABELS)
    model.learn_all(rows, start=start, step=ID_STEP)


def usual_key(model: TableModel) -> str | None:
    """Return the column that names the rows of the model's run; None if it has none."""
    return None if model.job is None else model.job.spec.options.get("key") or None


def _holds_ids(reader: TableReader) -> bool:
    """Whether a column called id holds ids of predictions, and not somebody's own."""
    for chunk in reader.chunks([ID], Position()):
        if chunk is not None and chunk.frame.height:
            numbers = key_texts(chunk.frame[ID]).cast(pl.Int64, strict=False).drop_nulls()
            return len(numbers) > 0 and looks_like_id(int(numbers[0]))
    return False


# --- accous ask: which rows to label


_PLACE = "\0place"  # no column of a table has this name


@dataclass(frozen=True)
class RowsAsked:
    """What was asked.

    Attributes
    ----------
    n_rows : int
        Rows of the stream.
    n_free : int
        Those that could be chosen: neither asked about nor labelled before, and the newest where a number was wanted.
    n_asked : int
        Those that were chosen now.
    n_predicted : int
        Rows that were not predicted before, and are now.
    """

    n_rows: int
    n_free: int
    n_asked: int
    n_predicted: int


class AskJob:
    """Chooses rows of a stream at random, and writes them with an empty label column.

    What was asked about is noted in the folder's store with the probability of each row, so that no row is asked about
    twice. Rows that were not predicted yet are predicted first; nothing is learned from them.

    Parameters
    ----------
    options : AskOptions

    Attributes
    ----------
    table_model : TableModel
    """

    def __init__(self, options: AskOptions) -> None:
        self._options = options
        if options.stream == STDIN:
            raise DataError("Rows to label are read twice: give a file, not standard input.")
        require_separate_files({"STREAM": options.stream}, {"--output": options.output}, options.model, None)
        if not options.force and Path(options.output).is_file():
            raise DataError(f"{options.output} already exists: give another name, or use --force to replace it.")
        self.table_model: TableModel = load_table_model(options.model, options.estimator)
        usual = usual_key(self.table_model)
        if options.key is not None and usual not in (None, options.key):
            raise ParameterError(f"The rows of {options.model} are named by the column {usual!r}: --key {usual}.")
        self._seed = int(self.table_model.settings["seed"])

    def run(self) -> RowsAsked:
        """Choose the rows and write them."""
        options = self._options
        with open_store(self.table_model, options.model, only_adds=True) as store, store.changing():
            source = identify_source(options.stream, store.sources())
            settled = store.settled("key" if options.key else "line", source)
            rows, n_predicted = self._find(store, source)
            free = self._eligible(rows.filter(~pl.col("place").is_in(settled)))
            n_asked = self._n_written(rows)
            if not n_asked:
                chosen, probability = self._choose(free, store)
                store.mark_asked(chosen["id"].to_list(), [probability] * chosen.height)
                self._write(chosen)
        self._unfinished.replace(options.output)
        return RowsAsked(rows.height, free.height + n_asked, n_asked or chosen.height, n_predicted)

    @property
    def _unfinished(self) -> Path:
        """Where the rows are written until the store has noted them."""
        return Path(predicting_path(self._options.output))

    def _n_written(self, rows: pl.DataFrame) -> int:
        """Return how many rows a command wrote that was killed after they were noted; 0 if there was none such."""
        if not self._unfinished.is_file():
            return 0
        try:
            names = pl.read_csv(self._unfinished, columns=[self._options.key or LINE], infer_schema=False).to_series()
        except pl.exceptions.PolarsError:  # it was killed while it wrote
            return 0
        noted = rows.filter(pl.col("asked").is_not_null() & pl.col("label").is_null())["place"]
        return len(names) if names.is_in(noted.to_list()).all() else 0

    def _find(self, store: Store, source: int | None) -> tuple[pl.DataFrame, int]:
        """Return the predictions of all rows of the stream, made now where there were none, and how many those are."""
        options, model = self._options, self.table_model
        found, n_new = [], 0
        passed = [options.key] if options.key else []
        with closing(self._open()) as table:
            reader = RowReader(table, model.encoder, passed, skips_bad=True, accepts_unknown=True)
            for rows in reader.read(Position()):
                if rows is None or not len(rows):
                    continue
                place = "key" if options.key else "line"
                names = key_texts(rows.frame[options.key] if options.key else pl.Series(rows.lines))
                places = pl.DataFrame({"place": names, "label": ""}).unique("place", maintain_order=True)
                known = store.join(places, by=place, source=source).rows["place"]
                is_new = ~names.is_in(known.to_list()).to_numpy()
                n_new += int(is_new.sum())
                if is_new.any():
                    self._predict(rows, np.flatnonzero(is_new), store, source)
                found.append(store.join(places, by=place, source=source).rows)
        if not found:
            raise DataError(f"{options.stream} has no rows.")
        return pl.concat(found).unique("id", keep="first", maintain_order=True).sort("id"), n_new

    def _predict(self, rows: PendingRows, new: NDArray[np.intp], store: Store, source: int | None) -> None:
        """Predict some of the rows and store them; no state counts them."""
        model = self.table_model
        result = model.predict_rows(rows.X, needs_ratio=False)
        ids = ids_from(store.next_id(in_state=False), len(rows))
        named = NamedRows(rows, 0, len(rows), ids, self._options.key, [])
        assert source is not None
        stored = named.to_store(source, result.rounds, result.scores, model.form, model.encoder)
        store.add_predictions(stored[new], learned=False)

    def _eligible(self, free: pl.DataFrame) -> pl.DataFrame:
        """Return the rows that may be asked about: of a number the newest, because older ones tell little of now."""
        return free if self._options.n is None else free.tail(max(MAX_ROWS, 2 * self._options.n))

    def _choose(self, free: pl.DataFrame, store: Store) -> tuple[pl.DataFrame, float]:
        """Return rows to ask about, and the probability that each of them had."""
        if not free.height:
            raise DataError(f"No rows are left in {self._options.stream}: all are labelled or were asked about.")
        if self._options.labels_per is not None:
            n_rows, n_labels = self._options.labels_per
            share = n_labels / n_rows
            return free.filter(pl.Series(is_drawn(free["line"].to_numpy(), share, self._seed))), share
        assert self._options.n is not None
        chosen = draw_rows(free.height, self._options.n, self._seed, free.height)
        return free[chosen], len(chosen) / max(1, free.height)

    def _write(self, chosen: pl.DataFrame) -> None:
        """Write the rows as they are in the stream, with the line or the key, and an empty column for the label."""
        options, label, wanted = self._options, self.table_model.label, chosen["place"].to_list()
        pieces = []
        with closing(self._open()) as table:
            columns = [name for name in table.columns if name != label]
            for chunk in table.chunks(columns, Position()):
                if chunk is not None:
                    lines = pl.Series(LINE, chunk.lines)
                    frame = chunk.frame if options.key else chunk.frame.select(lines, *columns)
                    # By the key, not by the line of the prediction, which may be one of another file.
                    place = key_texts(chunk.frame[options.key] if options.key else lines).alias(_PLACE)
                    pieces.append(frame.with_columns(place).filter(place.is_in(wanted)))
        found = pl.concat(pieces).unique(_PLACE, keep="first", maintain_order=True)
        if options.with_predictions:
            predicted = chosen.select(pl.col("place").alias(_PLACE), pl.col("predicted").alias("prediction"))
            found = found.join(predicted, on=_PLACE, how="left", maintain_order="left")
        found.drop(_PLACE).with_columns(pl.lit(None, pl.String).alias(label)).write_csv(self._unfinished)

    def _open(self) -> TableReader:
        widths = self.table_model.settings.get("widths", {})
        return open_as_asked(self._options.stream, self._options, widths=widths)
