"""Read the manifest and the files of one save, even while another process saves to the folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from accous.checkpoint.files import open_checked
from accous.checkpoint.manifest import MANIFEST_NAME, Manifest, read_manifest
from accous.exceptions import CheckpointError

__all__ = ["read_consistently", "read_summary"]

T = TypeVar("T")


def read_consistently(folder: Path, read: Callable[[Manifest], T]) -> T:
    """Return what ``read`` returns for the manifest and the files that it names.

    Parameters
    ----------
    folder : Path
    read : callable
        Opens the files that the manifest names. If one of them is gone because another process has saved in the
        meantime, ``read`` is called again with the new manifest.

    Raises
    ------
    CheckpointError
        If there is no saved model, or it cannot be read.
    """
    try:
        if not folder.is_dir():
            why = "it is a file" if folder.exists() else "there is no such folder"
            raise CheckpointError(f"{folder} holds no saved model ({why}): give the folder that a model was saved to.")
        if not (folder / MANIFEST_NAME).is_file():
            raise CheckpointError(
                f"{folder} holds no saved model ({MANIFEST_NAME} is missing): give the folder that a model was saved "
                "to."
            )
        manifest = read_manifest(folder)
        while True:
            try:
                return read(manifest)
            except FileNotFoundError as error:
                latest = read_manifest(folder)
                if latest == manifest:
                    raise CheckpointError(f"{error.filename} is missing: restore the folder from a copy.") from error
                manifest = latest
    except OSError as error:
        raise CheckpointError(
            f"Cannot read {folder} ({error}): change its permissions or give another folder."
        ) from error


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Return the summary of the last save, or None if it has none.

    All checksums are checked, so that a damaged model gives the same errors as in `accous.load`. The model itself is
    not loaded.
    """

    def read(manifest: Manifest) -> dict[str, Any] | None:
        if manifest.summary is not None:
            for stored in (manifest.state, manifest.reference):
                with open_checked(folder, stored):
                    pass
        return manifest.summary

    return read_consistently(folder, read)
