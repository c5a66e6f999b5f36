"""Records of finished runs: one line of JSON per run, appended on completion; an incomplete last line is removed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from accous.exceptions import DataError

__all__ = ["append_row", "finished_runs", "read_rows", "repair"]


def repair(file: Path) -> int:
    """Remove an incomplete last line that a killed process left; return the number of bytes removed.

    Parameters
    ----------
    file : Path
        File with lines of JSON; it need not exist.
    """
    if not file.is_file():
        return 0
    content = file.read_bytes()
    torn = content.rpartition(b"\n")[2]
    if not torn:
        return 0
    if _is_record(torn):  # complete except for the line break
        with file.open("ab") as stream:
            stream.write(b"\n")
        return 0
    os.truncate(file, len(content) - len(torn))
    return len(torn)


def append_row(file: Path, row: dict[str, Any]) -> None:
    """Append a record, and return once it is on disk."""
    line = json.dumps(row, allow_nan=False) + "\n"
    with file.open("a", encoding="utf-8") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the last record of every run in a file or a folder's ``*.jsonl`` files; skip an incomplete last line.

    Raises
    ------
    DataError
        If any other line is not a record; the message names the line.
    """
    files = [folder] if folder.is_file() else sorted(folder.glob("*.jsonl"))
    return list({row["run"]: row for file in files for row in _rows_of(file)}.values())


def finished_runs(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Return the identities of finished runs; failed runs are not included, so they are tried again."""
    return {row["run"] for row in rows if row["status"] == "done"}


def _rows_of(file: Path) -> list[dict[str, Any]]:
    lines = file.read_bytes().split(b"\n")
    rows = []
    for number, line in enumerate(lines, start=1):
        if _is_record(line):
            rows.append(json.loads(line))
        elif line.strip() and number < len(lines):
            raise DataError(f"{file}, line {number}: not a record of a run; fix the line or remove it.")
    return rows


def _is_record(line: bytes) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return isinstance(row, dict) and {"run", "status"} <= row.keys()
