"""The model's folder while a command changes it: one command at a time, and plain words for what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accous.exceptions import CheckpointError

__all__ = ["locked_model", "require_folder"]


@contextmanager
def locked_model(folder: Path, command: str) -> Iterator[None]:
    """Hold the lock of a model's folder.

    Parameters
    ----------
    folder : Path
    command : str
        Who holds it, for the message that another command gives.
    """
    from accous.checkpoint.files import exclusive_lock

    require_folder(folder)
    try:
        with exclusive_lock(folder, command):
            yield
    except PermissionError as error:
        raise CheckpointError(f"Cannot write to {folder} ({error.strerror}): change its permissions") from None


def require_folder(model: Path) -> None:
    """Raise a CheckpointError if there is no such folder, or if it is a file, as when arguments are swapped."""
    if not model.is_dir():
        raise CheckpointError(f"{model} is not a folder: make a model with accous fit first")
