"""Files of a user's that register contenders or data sets."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

__all__ = ["load_plugin"]

_loaded: dict[tuple[Path, str], ModuleType] = {}


def load_plugin(path: Path) -> None:
    """Run a file, once in a process.

    Its module is in no list of modules: what it defines travels to other processes by value, and those need not have
    the file.
    """
    text = path.read_text(encoding="utf-8")
    if (path, text) not in _loaded:
        module = ModuleType(f"accous_plugin_{path.stem}")
        module.__file__ = str(path)
        exec(compile(text, str(path), "exec"), module.__dict__)  # the user's own code, at his request
        _loaded[path, text] = module
