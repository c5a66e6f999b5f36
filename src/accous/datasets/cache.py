"""The folder in which accous keeps what it can make again: downloads and embeddings."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["user_cache_folder"]


def user_cache_folder() -> Path:
    """Return the folder that ``ACCOUS_CACHE`` names, or else where the system keeps caches of the user's programs."""
    if named := os.environ.get("ACCOUS_CACHE"):
        return Path(named)
    if sys.platform == "win32":  # pragma: no cover
        local = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
        return Path(local) / "accous" / "accous" / "Cache"
    if sys.platform == "darwin":  # pragma: no cover
        return Path.home() / "Library" / "Caches" / "accous"
    # An empty variable counts as none.
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or Path.home() / ".cache") / "accous"
