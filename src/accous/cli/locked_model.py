"""The model's folder while a command changes it: one command at a time, and plain words for what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accous.exceptions import CheckpointError

__all__ = ["locked_model"]


@contextmanager
def locked_model(folder: Path, command: str) -> Iterator[None]:
    """Hold the lock of a model's folder.

    Parameters
    ----------
    folder : Path
    command : str
        Who holds it, for the message that another command gives.
    """
    from accous.checkpoint.locks import exclusive_lock

    try:
        with exclusive_lock(folder, command):
            yield
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is not a folder: make a model with accous fit first") from None
    except PermissionError as error:
        raise CheckpointError(f"Cannot write to {folder} ({error.strerror}): change its permissions") from None
