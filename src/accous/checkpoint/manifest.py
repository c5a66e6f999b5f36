"""The manifest: which files make up the saved model, and what kind of model it is. Replacing it commits a save."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from accous.checkpoint.files import StoredFile, is_data_file, write_atomically
from accous.exceptions import CheckpointError

__all__ = ["MANIFEST_NAME", "Manifest", "has_attached", "is_manifest_of_ours", "read_manifest", "write_manifest"]

MANIFEST_NAME = "manifest.json"
_FORMAT = "accous"
_VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What a folder holds.

    Attributes
    ----------
    model : dict
        Class and parameters, as ``models.describe`` gives them.
    reference, state : StoredFile
    attached : dict, optional
        Data that a caller of ``save_with`` keeps with the model, in JSON types.
    summary : dict, optional
        A summary of this save, in JSON types, that can be shown without loading the model.
    """

    model: dict[str, Any]
    reference: StoredFile
    state: StoredFile
    attached: dict[str, Any] | None = None
    summary: dict[str, Any] | None = None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest in one step."""
    content = {"format": _FORMAT, "version": _VERSION, "accous": _own_version(), **vars(manifest)}
    # Not `asdict` of all: it would copy the description of every column.
    content |= {"reference": asdict(manifest.reference), "state": asdict(manifest.state)}
    text = json.dumps({**content, "checksum": _checksum(content)}, indent=2, allow_nan=False) + "\n"
    write_atomically(folder, lambda stream: stream.write(text.encode()), name=MANIFEST_NAME)


def read_manifest(folder: Path) -> Manifest:
    """Read and check the folder's manifest."""
    path = folder / MANIFEST_NAME
    content = _read_content(path)
    if content is None or content.get("format") != _FORMAT:
        raise CheckpointError(f"{path} was not written by accous: give the folder that a model was saved to.")
    format_version = content.get("version")
    if isinstance(format_version, int) and format_version > _VERSION:
        raise CheckpointError(
            f"{folder} was written by a newer accous (format {format_version}); this one reads up to {_VERSION}: "
            "upgrade accous."
        )
    if content.pop("checksum", None) != _checksum(content):
        raise CheckpointError(
            f"{path} was changed since it was saved (its checksum does not match): restore the folder from a copy."
        )
    try:
        files = {name: StoredFile(**content[name]) for name in ("reference", "state")}
        if not all(is_data_file(stored.name) for stored in files.values()):
            raise ValueError("a file name that accous does not use")
        # The first folders of this format have no summary.
        summary = content.get("summary")
        return Manifest(content["model"], files["reference"], files["state"], content["attached"], summary)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is incomplete ({error}): restore the folder from a copy.") from error


def is_manifest_of_ours(path: Path) -> bool:
    """Whether accous wrote this manifest, in any version of the format; its checksum is not checked."""
    try:
        content = _read_content(path)
    except CheckpointError:
        return False
    return content is not None and content.get("format") == _FORMAT


def has_attached(path: Path) -> bool:
    """Whether a manifest of accous keeps other data with its model."""
    return (_read_content(path) or {}).get("attached") is not None


def _read_content(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON ({error}): restore the folder from a copy.") from error
    return content if isinstance(content, dict) else None


def _checksum(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("accous")
    except PackageNotFoundError:
        return "unknown"
