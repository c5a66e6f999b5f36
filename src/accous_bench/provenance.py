"""What a measurement was made with: versions, commit, kind of machine."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["commit", "machine", "versions"]

_PACKAGES = ("accous", "numpy", "scipy", "scikit-learn", "numba", "torch")


@cache
def versions() -> dict[str, str]:
    """Version of Python and of the packages that the numbers depend on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """Short name of the commit that the package's files are of, with ``+`` if they differ from it; None elsewhere."""
    folder = Path(__file__).resolve().parent
    try:
        name = _ask_git(folder, "rev-parse", "--short=12", "HEAD")
        return name + ("+" if _ask_git(folder, "status", "--porcelain", "--", str(folder.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> str:
    """Kind of processor and number of cores."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _ask_git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return answer.stdout.strip()
