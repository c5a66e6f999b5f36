"""The owner of a model's folder: what it holds when a service starts, after the log has been played again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accous.checkpoint.files import sync_folder
from accous.exceptions import CheckpointError
from accous.service.batch_log import BatchLog, Opened, open_log
from accous.service.batches import BatchReader
from accous.service.carrying_out import Executor
from accous.service.kept import Kept, load_kept
from accous.service.limits import NO_LIMITS, Limits
from accous.service.refusals import Refusal
from accous.table.model import TableModel, load_table_model, save_table_model
from accous.table.runs import LogPosition
from accous.text import LOGGER

__all__ = ["OwnedModel", "open_owned"]

FOLDER, LOG, KEPT = "service", "batches.log", "kept.bin"


@dataclass(frozen=True)
class OwnedModel:
    """A model that is up to date.

    Attributes
    ----------
    table_model : TableModel
    reader : BatchReader
    log : BatchLog
    kept : Kept
    executor : Executor
    kept_path : Path
    n_replayed : int
        Records that were learned from again, because the model had not been saved with them.
    n_cut : int
        Bytes of an incomplete last group of the log, which were cut off.
    """

    table_model: TableModel
    reader: BatchReader
    log: BatchLog
    kept: Kept
    executor: Executor
    kept_path: Path
    n_replayed: int
    n_cut: int


def open_owned(folder: Path, limits: Limits, estimator: str | None = None) -> OwnedModel:
    """Load a model and play the log again; the caller holds the folder's lock.

    Parameters
    ----------
    folder : Path
        Made by ``accous fit``.
    limits : Limits
    estimator : str, optional
        The name of the model's estimator, needed if it is code of the user's.
    """
    table_model = load_table_model(folder, estimator)
    # No request waits for the risk: the timer reads what the rounds have left to read.
    table_model.history.reads_later = True
    place = folder / FOLDER
    if not place.is_dir():
        place.mkdir()
        sync_folder(folder)
    opened = _open_log(table_model, place / LOG)
    if table_model.log_position is None:
        # From now on the model knows its log: that of another model in this folder is never taken for it.
        table_model.log_position = LogPosition(opened.log.name, opened.log.n_records)
        save_table_model(table_model, folder)
    kept = load_kept(place / KEPT, opened.log.name)
    reader = BatchReader(table_model, limits)
    executor = Executor(table_model, reader, kept)
    # What was accepted once counts, also if the limits are lower now.
    again = Executor(table_model, BatchReader(table_model, NO_LIMITS), kept)
    n_replayed = _replay(table_model, opened, again, place / LOG)
    return OwnedModel(table_model, reader, opened.log, kept, executor, place / KEPT, n_replayed, opened.n_cut)


def _open_log(table_model: TableModel, path: Path) -> Opened:
    if not path.is_file():
        position = table_model.log_position
        if position is None:
            return Opened(BatchLog.create(path), [], 0)
        # The model was copied without its log, or the log was lost: what the model contains is all there is.
        return Opened(BatchLog.create(path, position.log, position.n_records), [], 0)
    opened = open_log(path)
    if opened.n_cut:
        LOGGER.warning(
            "%s: cut off %d bytes of a last group that was not complete, and kept them in %s",
            path, opened.n_cut, opened.cut,
        )  # fmt: skip
    position = table_model.log_position
    if position is not None and position.log == opened.log.name and opened.log.n_records >= position.n_records:
        return opened
    if position is None and opened.log.n_records == 0:
        return opened
    opened.log.close()
    if position is not None and position.log == opened.log.name:
        # An older copy of the log, all of which the model contains.
        return Opened(BatchLog.create(path, position.log, position.n_records), [], opened.n_cut)
    aside = path.with_name(f"{path.name}.{opened.log.name[:8]}")
    path.rename(aside)
    LOGGER.warning("%s belongs to another model that was in this folder: it is now %s", path, aside)
    return Opened(BatchLog.create(path), [], opened.n_cut)


def _replay(table_model: TableModel, opened: Opened, executor: Executor, path: Path) -> int:
    position, n_replayed = table_model.log_position, 0
    n_contained = 0 if position is None else position.n_records
    if opened.records and opened.records[0][0] > n_contained + 1:
        raise CheckpointError(
            f"{path} begins with record {opened.records[0][0]:,}, but the model contains {n_contained:,}: restore the "
            "folder from a copy."
        )
    for number, record in opened.records:
        if number <= n_contained:
            continue
        try:
            parsed = executor.parse(record)
        except Refusal as refusal:
            raise CheckpointError(
                f"Record {number:,} of {path} cannot be read by this version of accous ({refusal.message}): start the "
                "version that wrote it once more."
            ) from None
        executor.carry_out(number, record, parsed)
        n_replayed += 1
    return n_replayed
