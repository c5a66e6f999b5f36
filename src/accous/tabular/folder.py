"""The model's folder: everything that fit and adapt know, saved in one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accous.arrays import from_plain, to_plain
from accous.checkpoint.saving import load_with, save_with
from accous.classifier.adaptation import AdaptiveClassifier
from accous.exceptions import CheckpointError
from accous.tabular.columns.preparation import Preparation
from accous.tabular.history import History
from accous.tabular.job import Job
from accous.tabular.summary import summarize_pipeline

__all__ = ["Pipeline", "load_pipeline", "save_pipeline"]

_FORMAT = 1


@dataclass
class Pipeline:
    """A classifier with what leads to it and what became of it.

    Attributes
    ----------
    model : AdaptiveClassifier
    preparation : Preparation
    label : str
        The reference's column of labels.
    settings : dict
        What ``fit`` was asked for and found, as JSON has it.
    history : History
    job : Job, optional
        The last run over a stream.
    """

    model: AdaptiveClassifier
    preparation: Preparation
    label: str
    settings: dict[str, Any]
    history: History = field(default_factory=History)
    job: Job | None = None


def save_pipeline(pipeline: Pipeline, folder: Path, *, is_last: bool = False) -> None:
    """Save to a folder; a crash at any moment leaves all of the save before it.

    Parameters
    ----------
    pipeline : Pipeline
    folder : Path
    is_last : bool, default=False
        Whether nothing is to follow for now. Only then is the model summarized too, which costs as much as several
        rounds.
    """
    attached = {
        "format": _FORMAT,
        "label": pipeline.label,
        "settings": pipeline.settings,
        "columns": pipeline.preparation.to_json(),
    }
    progress = {
        "history": pipeline.history.to_plain(),
        "job": to_plain(pipeline.job),
    }
    save_with(pipeline.model, folder, attached, progress, summarize_pipeline(pipeline) if is_last else None)


def load_pipeline(folder: Path) -> Pipeline:
    """Load what `save_pipeline` saved."""
    model, attached, progress = load_with(folder)
    if attached is None or progress is None:
        raise CheckpointError(
            f"{folder} holds a model without preprocessing, saved from Python: the command line needs one made by "
            "accous fit."
        )
    if attached["format"] > _FORMAT:
        raise CheckpointError(f"{folder} was written by a newer accous: upgrade accous.")
    return Pipeline(
        model,
        Preparation.from_json(attached["columns"]),
        attached["label"],
        attached["settings"],
        History.from_plain(progress["history"]),
        from_plain(Job | None, progress["job"]),
    )
