"""Records of finished runs: one line of JSON each, appended as they come; a torn last line is mended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accous.exceptions import DataError

__all__ = ["append_row", "finished_runs", "read_rows", "repair"]


def repair(file: Path) -> int:
    """Cut off what a killed process left of a last line; return the number of bytes cut.

    Parameters
    ----------
    file : Path
        Lines of JSON; need not exist.
    """
    if not file.is_file():
        return 0
    content = file.read_bytes()
    torn = content.rpartition(b"\n")[2]
    if not torn:
        return 0
    if _is_record(torn):  # whole but for the end of its line
        with file.open("ab") as stream:
            stream.write(b"\n")
        return 0
    os.truncate(file, len(content) - len(torn))
    return len(torn)


def append_row(file: Path, row: dict[str, Any]) -> None:
    """Add a record, and return when it is on the disk."""
    line = json.dumps(row, allow_nan=False) + "\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Last record of every run in all ``*.jsonl`` files of a folder, or in one file; a torn last line is left out.

    Raises
    ------
    DataError
        Where any other line is no record, with its place.
    """
    files = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl"))
    return list({row["run"]: row for file in files for row in _rows_of(file)}.values())


def finished_runs(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Identities of the runs that need not be played again; failed ones get another chance."""
    return {row["run"] for row in rows if row["status"] == "done"}


def _rows_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if _is_record(line):
            rows.append(json.loads(line))
        elif line.strip() and number < len(lines):
            raise DataError(f"{file}, line {number}: not a record of a run; mend the line or remove it.")
    return rows


def _is_record(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and {"run", "status"} <= row.keys()
