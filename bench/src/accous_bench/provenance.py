"""The origin of a measurement: versions, commit, kind of machine."""

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
    """Return the versions of Python and of the installed packages that the numbers depend on."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def commit() -> str | None:
    """Return the short commit hash of the package's files, with ``+`` if they were changed; None outside a checkout."""
    folder = Path(__file__).resolve().parent
    try:
        name = _ask_git(folder, "rev-parse", "--short=12", "HEAD")
        return name + ("+" if _ask_git(folder, "status", "--porcelain", "--", str(folder.parent)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def machine() -> str:
    """Return the kind of processor and the number of cores."""
    return f"{platform.machine()}, {os.cpu_count()} cores"


def _ask_git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return answer.stdout.strip()
