"""Runs users' files that register contenders or data sets."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

__all__ = ["load_plugin"]

_loaded: dict[tuple[Path, str], ModuleType] = {}


def load_plugin(path: Path) -> None:
    """Run a file once per process.

    The module is not added to ``sys.modules``, so its definitions are sent to other processes by value, and these
    processes do not need the file.
    """
    text = path.read_text(encoding="utf-8")
    if (path, text) not in _loaded:
        module = ModuleType(f"accous_plugin_{path.stem}")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)  # the user's own code, run at the user's request
        _loaded[path, text] = module
