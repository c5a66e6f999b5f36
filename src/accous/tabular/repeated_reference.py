"""Rows that a reference holds twice: held-out rows are then rows that a model was fitted on."""

from __future__ import annotations

from typing import Any

import polars as pl
from numpy.typing import NDArray

from accous.tabular.formats.values import is_usable
from accous.tabular.traps import Remark

__all__ = ["remarks_on_repeats"]

_FEWEST_ROWS = 30
_LARGEST_SHARE = 0.1
_MOSTLY = 0.5


def remarks_on_repeats(frame: pl.DataFrame, y: NDArray[Any], *, is_whole: bool) -> list[Remark]:
    """Return a remark if more than a tenth of the rows repeat an earlier one.

    Parameters
    ----------
    frame : polars.DataFrame
        The reference without its label.
    y : array of shape (n_rows,)
        The labels.
    is_whole : bool
        Whether it has all columns of the file. If not, rows may differ in the others: then more than half of the
        different rows must occur equally often, as they do in a file that was joined with itself. Of rows that are
        alike by chance, at most a third do.
    """
    compared = [name for name in frame.columns if is_usable(frame.schema[name])]
    if frame.height < _FEWEST_ROWS or not compared:
        return []
    rows = pl.DataFrame({"row": frame.select(pl.col(compared)).hash_rows(), "label": pl.Series(y.tolist())})
    n_times = rows.group_by("row", "label").len()["len"]
    n_repeated = frame.height - len(n_times)
    if n_repeated <= _LARGEST_SHARE * frame.height:
        return []
    is_known = is_whole and len(compared) == frame.width
    if not is_known and not _occur_equally_often(n_times):
        return []
    where = "in all columns" if is_known else "in all columns that are read"
    text = (
        f"{n_repeated:,} of the {frame.height:,} rows repeat an earlier row {where}: cross-validation and backtest "
        "test on rows that the model was fitted on, and their errors may be too small. Remove the copies, unless they "
        "are different events."
    )
    return [Remark("repeated", None, text)]


def _occur_equally_often(n_times: pl.Series) -> bool:
    often = n_times.filter(n_times > 1).value_counts()["count"].max()
    return len(n_times) >= _FEWEST_ROWS // 2 and isinstance(often, int) and often > _MOSTLY * len(n_times)
