"""Commands as a user starts them, in a fresh interpreter, and what they leave in a folder."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accous.table.store import STORE_NAME, Store
from tests.forks import SOURCES

ENVIRONMENT = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "PYTHONPATH": SOURCES}


def run_accous(*arguments: Any, check: int | None = 0, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `check` is the exit code expected."""
    command = [sys.executable, "-m", "accous", *map(str, arguments)]
    options = {"capture_output": True, "text": True, "env": ENVIRONMENT, **options}
    run = subprocess.run(command, check=False, **options)
    assert check is None or run.returncode == check, f"{command}\n{run.stdout}\n{run.stderr}"
    return run


@contextmanager
def restored(folder: Path, saved: str) -> Iterator[None]:
    """Make ``model`` a copy of a saved model in a folder; afterwards the folder's files are what they were."""
    shutil.copytree(folder / saved, folder / "model")
    kept = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    yield
    shutil.rmtree(folder / "model")
    for path in folder.iterdir():
        if path.is_file() and path.name not in kept:
            path.unlink()
    for name, content in kept.items():
        (folder / name).write_bytes(content)


def files_of(folder: Path) -> dict[str, bytes]:
    """Content of a folder's files, the lock left out."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".accous.lock"}


def put_files(folder: Path, files: dict[str, bytes]) -> None:
    """Write what `files_of` returned into a folder, which may be there already."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def rows_of_store(folder: Path) -> list[tuple[Any, ...]]:
    """What a model's folder remembers of its predictions, but for the day."""
    with TemporaryDirectory() as copy:
        shutil.copy(folder / STORE_NAME, copy)
        with Store.open(Path(copy), None) as store:
            store._unpack()
            columns = [name for _, name, *_ in store._rows("PRAGMA table_info(predictions)") if name != "day"]
            return store._rows(f"SELECT {', '.join(columns)} FROM predictions ORDER BY id")
