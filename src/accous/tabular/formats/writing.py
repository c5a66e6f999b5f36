"""Output files that can be truncated to a saved position, which is part of what a run saves."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

import polars as pl

from accous.exceptions import DataError
from accous.tabular.formats.sources import STDIN

__all__ = ["RowsOutput", "finish_parquet", "partial_path"]


class RowsOutput:
    """A text file with one row per line, written from a position on.

    Parameters
    ----------
    path : str
        A file, or ``"-"`` for the standard output, which cannot be cut back.
    text_format : {"csv", "tsv", "jsonl"}
    n_bytes : int
        How much of the file to keep; 0 starts it anew.
    """

    def __init__(self, path: str, text_format: str, n_bytes: int) -> None:
        self.name = "standard output" if path == STDIN else path
        self._format = text_format
        self.n_bytes = n_bytes
        self._file, self._is_file = (sys.stdout.buffer, False) if path == STDIN else self._open(Path(path), n_bytes)

    def write(self, frame: pl.DataFrame) -> None:
        """Append rows; a CSV file gets its header with the first ones."""
        content = io.BytesIO()
        if self._format == "jsonl":
            frame.write_ndjson(content)
        else:
            separator = "\t" if self._format == "tsv" else ","
            frame.write_csv(content, include_header=self.n_bytes == 0, separator=separator)
        self._append(content.getvalue())

    def flush(self) -> None:
        """Flush the buffers."""
        try:
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._cannot_write(error) from None

    def put_on_disk(self) -> int:
        """Sync to disk, so that a crash loses nothing; return the number of bytes written."""
        self.flush()
        if self._is_file:
            try:
                os.fsync(self._file.fileno())
            except OSError as error:
                raise self._cannot_write(error) from None
        return self.n_bytes

    def close(self) -> None:
        """Close the file; rows that were not synced to disk may be lost."""
        if self.name != "standard output":
            with suppress(OSError):
                self._file.close()

    def _append(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._cannot_write(error) from None
        self.n_bytes += len(content)

    def _open(self, path: Path, n_bytes: int) -> tuple[BinaryIO, bool]:
        try:
            if path.exists() and not S_ISREG(path.stat().st_mode):
                return path.open("wb"), False
            size = path.stat().st_size if path.exists() else 0
            if size < n_bytes:
                raise DataError(
                    f"{path} has {size} bytes, but {n_bytes} were written: restore it, or start a new run with --new."
                )
            file: Any = path.open("r+b" if path.exists() else "xb")
            file.truncate(n_bytes)
            file.seek(n_bytes)
        except OSError as error:
            raise self._cannot_write(error) from None
        return file, True

    def _cannot_write(self, error: OSError) -> DataError:
        return DataError(
            f"{self.name} cannot be written to ({error.strerror or error}); the last save is intact: free space or "
            "change permissions, then run the same command again."
        )


def partial_path(path: str) -> str:
    """Where the rows of a Parquet file are collected until it can be written."""
    return f"{path}.partial"


def finish_parquet(path: str, schema: dict[str, Any]) -> None:
    """Turn the rows collected for a Parquet file into that file, atomically.

    Parameters
    ----------
    path : str
        The Parquet file.
    schema : dict of str to polars type
        Of the rows, in their order.
    """
    unfinished = Path(f"{path}.unfinished")
    try:
        # In row groups of fixed size: the same rows give the same bytes.
        rows = pl.scan_csv(partial_path(path), schema=schema, raise_if_empty=False)
        rows.sink_parquet(unfinished, row_group_size=1 << 17, maintain_order=True)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        unfinished.unlink(missing_ok=True)
        raise DataError(f"{path} cannot be written ({error}); run the same command again to finish it.") from None
