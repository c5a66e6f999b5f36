"""``save`` and ``load``: a folder with the reference, written only once, the state of the last save, and a manifest."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accous.checkpoint.data import read_data, write_data
from accous.checkpoint.files import StoredFile, is_data_file, is_temporary_file, remove_files, sync_folder
from accous.checkpoint.foreign import require_foreign
from accous.checkpoint.locks import LOCK_NAME
from accous.checkpoint.manifest import MANIFEST_NAME, Manifest, has_attached, is_manifest_of_ours, write_manifest
from accous.checkpoint.models import (
    describe,
    fixed_parts,
    fixed_to_plain,
    foreign_objects,
    require_fitted,
    restore,
    state_to_plain,
)
from accous.checkpoint.reading import read_consistently
from accous.exceptions import CheckpointError

__all__ = ["load", "load_with", "save", "save_with"]


@dataclass(frozen=True)
class _Written:
    """The file that a model's reference was last written to or read from, and what the reference was then."""

    parts: tuple[weakref.ref[Any], ...]
    file: StoredFile

    def is_of(self, parts: tuple[Any, ...]) -> bool:
        return len(parts) == len(self.parts) and all(old() is new for old, new in zip(self.parts, parts, strict=True))


# A reference is large and changes only with ``fit`` and ``extend``, so it is written and hashed only once.
_written: weakref.WeakKeyDictionary[Any, _Written] = weakref.WeakKeyDictionary()


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted model to a folder; see `accous.save`."""
    save_with(model, path, None, None)


def save_with(
    model: Any,
    path: str | os.PathLike[str],
    attached: dict[str, Any] | None,
    progress: dict[str, Any] | None,
    summary: dict[str, Any] | None = None,
) -> None:
    """Save a model and other data in one step; after a crash, the last complete save is still there.

    Parameters
    ----------
    model : as in `save`
    path : str or path
    attached : dict, optional
        What stays the same, in JSON types; it can be read in the manifest.
    progress : dict, optional
        What changes with the rounds: nested dicts of arrays, numbers and strings.
    summary : dict, optional
        What `accous.checkpoint.reading.read_summary` returns, in JSON types; computed from all the rest.
    """
    description = describe(model)
    require_fitted(model)
    folder = Path(path)
    try:
        _prepare(folder, is_attached=attached is not None)
        with model.turn():
            # Together with the state: `extend` changes both.
            reference = _write_reference(model, folder)
            plain = state_to_plain(model)
            # A ratio estimator of the user's need not count its rounds.
            n_rounds = int(getattr(model, "n_rounds_", 0))
        if progress is not None:
            plain["progress"] = progress
        state = write_data(folder, f"state-{n_rounds}", plain)
        write_manifest(folder, Manifest(description, reference, state, attached, summary))
        current = {reference.name, state.name}
        remove_files(folder, lambda name: is_data_file(name) and name not in current)
    except OSError as error:
        raise CheckpointError(
            f"Cannot write to {folder} ({error}): free some space, change the permissions or give another folder."
        ) from error


def load(path: str | os.PathLike[str], **foreign: Any) -> Any:
    """Load a model that `save` wrote; see `accous.load`."""
    return load_with(path, **foreign)[0]


def load_with(
    path: str | os.PathLike[str],
    *,
    estimator: Any = None,
    feature_map: Any = None,
    ratio: Any = None,
    candidates: Any = None,
    find_estimator: Callable[[dict[str, Any] | None], Any] = lambda _: None,
) -> tuple[Any, dict[str, Any] | None, dict[str, Any] | None]:
    """Load what `save_with` saved: the model, the attached data and the progress.

    Parameters
    ----------
    path, estimator, feature_map, ratio, candidates : as in `load`
    find_estimator : callable, optional
        Takes the attached data, or None if there is none, and returns the estimator, if that is not given.
    """
    folder = Path(path)

    def read(manifest: Manifest) -> tuple[Manifest, dict[str, Any], dict[str, Any]]:
        state = read_data(folder, manifest.state)
        return manifest, read_data(folder, manifest.reference), state

    manifest, fixed, state = read_consistently(folder, read)
    try:
        if estimator is None:
            estimator = find_estimator(manifest.attached)
        foreign = {"estimator": estimator, "feature_map": feature_map, "ratio": ratio, "candidates": candidates}
        require_foreign(foreign_objects(manifest.model), foreign)
    except (AttributeError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder} does not hold what accous writes ({type(error).__name__}: {error}): restore it from a copy."
        ) from error
    model = restore(manifest.model, foreign, fixed, state)
    _remember(model, manifest.reference)
    return model, manifest.attached, state.get("progress")


def _prepare(folder: Path, *, is_attached: bool) -> None:
    """Create the folder if it is missing, check that it holds nothing else, remove what a crash left behind."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file: give a folder.")
    if not folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)
    manifest = folder / MANIFEST_NAME
    if manifest.exists():
        is_ours = is_manifest_of_ours(manifest)
    else:
        # Only files of accous: the first save was interrupted.
        is_ours = all(_is_name_of_ours(file.name) for file in folder.iterdir())
    if not is_ours:
        raise CheckpointError(
            f"{folder} holds something that accous did not save: give a new or empty folder, or remove what is there."
        )
    if not is_attached and manifest.exists() and has_attached(manifest):
        raise CheckpointError(
            f"{folder} holds a table model that accous fit made, and its columns and history would be lost: give "
            "another folder, or save the table model that accous.load returns."
        )
    remove_files(folder, is_temporary_file)


def _is_name_of_ours(name: str) -> bool:
    return is_data_file(name) or is_temporary_file(name) or name == LOCK_NAME


def _write_reference(model: Any, folder: Path) -> StoredFile:
    """Write what ``fit`` fixes, unless the folder already has it."""
    written = _written.get(model)
    if written is not None and written.is_of(fixed_parts(model)) and written.file.is_in(folder):
        return written.file
    file = write_data(folder, "reference", fixed_to_plain(model))
    _remember(model, file)
    return file


def _remember(model: Any, file: StoredFile) -> None:
    _written[model] = _Written(tuple(map(weakref.ref, fixed_parts(model))), file)
