"""A table model's folder: everything that fit and adapt know, saved in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from accous.arrays import from_plain, to_plain
from accous.checkpoint.folder import load_with, save_with
from accous.diagnostics.drift import SeasonWatch
from accous.exceptions import CheckpointError
from accous.tabular.columns.encoder import ColumnEncoder
from accous.tabular.history import History
from accous.tabular.job_record import Job
from accous.tabular.label_task import REGRESSION
from accous.tabular.log_position import LogPosition
from accous.tabular.named_estimators import LINEAR, is_own_code, make_estimator
from accous.tabular.summary import summarize_table_model
from accous.tabular.table_model import TableModel
from accous.tabular.table_watch import watch_from_plain

__all__ = ["known_estimator", "load_table_model", "restore_table_model", "save_table_model"]

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
            "earlier_runs": to_plain(table_model.earlier_runs),
            "watch": table_model.watch.to_plain(),
            "counted_labels": table_model.counted_labels,
            "joined_rows": table_model.joined_rows,
            "seasons": to_plain(table_model.seasons),
            "log_position": to_plain(table_model.log_position),
        }
        summary = summarize_table_model(table_model.aside()) if is_last else None
        save_with(table_model.model, folder, attached, progress, summary)


def load_table_model(folder: Path, estimator: str | None = None) -> TableModel:
    """Load what `save_table_model` saved.

    Parameters
    ----------
    folder : Path
    estimator : str, optional
        The name that ``accous fit`` was given. It is needed if it is MODULE:NAME: a folder alone never decides which
        code is imported.
    """

    def find_estimator(attached: dict[str, Any] | None) -> Any:
        # Before `load_with` asks for a pipeline, which no command can pass.
        if attached is None:
            raise _saved_from_python(folder)
        return _named_estimator(attached, estimator)

    model, attached, progress = load_with(folder, find_estimator=find_estimator)
    if attached is None or progress is None:
        raise _saved_from_python(folder)
    return restore_table_model(model, attached, progress, folder)


def _saved_from_python(folder: Path) -> CheckpointError:
    return CheckpointError(
        f"{folder} holds a model that was saved from Python, without the preprocessing of tables: the command line "
        "needs one made by accous fit, and this one needs accous.load in Python."
    )


def known_estimator(attached: dict[str, Any]) -> Any:
    """Return the estimator that a folder names, unfitted; None if it is the built-in one or the user's own code."""
    settings = attached["settings"]
    name = settings.get("estimator", LINEAR)  # the first folders have no other
    if is_own_code(name) or name == LINEAR:
        return None
    blocks = ColumnEncoder.from_json(attached["columns"]).blocks
    return make_estimator(name, kind=_kind(settings), seed=settings["seed"], blocks=blocks)


def _named_estimator(attached: dict[str, Any], name: str | None) -> Any:
    """Return the estimator that a folder names, if the user names the same or none is needed."""
    saved = attached["settings"].get("estimator", LINEAR)
    if name is not None and name != saved:
        raise CheckpointError(f"The model was fitted with --estimator {saved}, not {name}: give the same one.")
    if not is_own_code(saved):
        return known_estimator(attached)
    if name is None:
        raise CheckpointError(
            f"The model uses the estimator {saved}, which is code of your own: allow it with --estimator {saved}."
        )
    settings = attached["settings"]
    return make_estimator(saved, kind=_kind(settings), seed=settings["seed"], blocks=())


def _kind(settings: dict[str, Any]) -> str:
    """Return the kind of the model: folders of classifiers do not name their task."""
    return "regressor" if settings.get("task") == REGRESSION else "classifier"


def restore_table_model(model: Any, attached: dict[str, Any], progress: dict[str, Any], folder: Path) -> TableModel:
    """Return the table model whose parts `accous.checkpoint.folder.load_with` has loaded.

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
        # Folders before 0.3 remember the last run only.
        earlier_runs=from_plain(tuple[Job, ...], progress.get("earlier_runs", [])),
        # Folders of the first version have none.
        seasons=from_plain(SeasonWatch | None, progress.get("seasons")),
        # The first folders have counted no labels.
        counted_labels=progress.get("counted_labels", np.empty(0, dtype=np.uint64)),
        joined_rows=progress.get("joined_rows", np.empty(0, dtype=np.uint64)),
        watch=watch_from_plain(progress.get("watch")),
        log_position=from_plain(LogPosition | None, progress.get("log_position")),
    )
