"""A table model's folder: everything that fit and adapt know, saved in one step."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accous.arrays import from_plain, to_plain
from accous.checkpoint.saving import load_with, save_with
from accous.diagnostics.seasons import SeasonWatch
from accous.exceptions import CheckpointError
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.history import History
from accous.tabular.job_record import Job
from accous.tabular.summary import summarize_table_model
from accous.tabular.table_model import TableModel
from accous.tabular.table_watch import watch_from_plain

__all__ = ["load_table_model", "restore_table_model", "save_table_model"]

_FORMAT = 2  # 1: nothing is remembered about the columns of the reference


def save_table_model(table_model: TableModel, folder: Path, *, is_last: bool = False) -> None:
    """Save to a folder; a crash at any moment leaves the previous save whole.

    Parameters
    ----------
    table_model : TableModel
    folder : Path
    is_last : bool, default=False
        Whether this is the last save for now. Only then is the summary for ``accous inspect`` computed too, which
        costs as much as several rounds.
    """
    with table_model.turn():
        # `extend` changes the settings and the columns too.
        attached = {
            "format": _FORMAT,
            "label": table_model.label,
            "settings": table_model.settings,
            "columns": table_model.encoder.to_json(),
        }
        progress = {
            "history": table_model.history.to_plain(),
            "job": to_plain(table_model.job),
            "watch": table_model.watch.to_plain(),
            "counted_labels": table_model.counted_labels,
            "joined_rows": table_model.joined_rows,
            "seasons": to_plain(table_model.seasons),
        }
        summary = summarize_table_model(_aside(table_model)) if is_last else None
        save_with(table_model.model, folder, attached, progress, summary)


def _aside(table_model: TableModel) -> TableModel:
    """Return a model to read from: what is read leaves no trace in the one that is saved, such as in its history."""
    model = copy(table_model.model)
    model.state_ = replace(model.state_, cache=dict(model.state_.cache))
    return replace(table_model, model=model)


def load_table_model(folder: Path) -> TableModel:
    """Load what `save_table_model` saved."""
    model, attached, progress = load_with(folder)
    if attached is None or progress is None:
        raise CheckpointError(
            f"{folder} holds a model without preprocessing, saved from Python: the command line needs one made by "
            "accous fit."
        )
    return restore_table_model(model, attached, progress, folder)


def restore_table_model(model: Any, attached: dict[str, Any], progress: dict[str, Any], folder: Path) -> TableModel:
    """Return the table model whose parts `accous.checkpoint.saving.load_with` has loaded.

    Parameters
    ----------
    model : AdaptiveClassifier
    attached, progress : dict
    folder : Path
        For messages.
    """
    if attached["format"] > _FORMAT:
        raise CheckpointError(f"{folder} was written by a newer accous: upgrade accous.")
    return TableModel(
        model=model,
        encoder=ColumnEncoder.from_json(attached["columns"]),
        label=attached["label"],
        settings=attached["settings"],
        history=History.from_plain(progress["history"]),
        job=from_plain(Job | None, progress["job"]),
        # Folders of the first version have none.
        seasons=from_plain(SeasonWatch | None, progress.get("seasons")),
        # The first folders have counted no labels.
        counted_labels=progress.get("counted_labels", np.empty(0, dtype=np.uint64)),
        joined_rows=progress.get("joined_rows", np.empty(0, dtype=np.uint64)),
        watch=watch_from_plain(progress.get("watch")),
    )
