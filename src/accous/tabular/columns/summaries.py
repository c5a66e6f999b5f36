"""The encoding of the columns as readable lines; similar columns, such as those of an embedding, share one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from accous.tabular.columns.plans import LeftOutColumn, NumberColumn

__all__ = ["ColumnLine", "shown_lines", "summarize"]

_LONGEST_RUN = 12
_MOST_LINES = 60
_NUMBERED = re.compile(r"(.*?)(\d+)")


@dataclass(frozen=True)
class ColumnLine:
    """One line about one column, or about several consecutive ones.

    Attributes
    ----------
    columns, kind : str
    n_features : int
    what : str
        What is done.
    """

    columns: str
    kind: str
    n_features: int
    what: str


def summarize(plans: Sequence[Any]) -> list[ColumnLine]:
    """Return one line per column; more than twelve consecutive numbered columns share one.

    Examples
    --------
    >>> plans = [NumberColumn(f"embedding_{number}", 0.0, 0.0, 1.0, False) for number in range(512)]
    >>> summarize(plans)[0].columns
    'embedding_0 to embedding_511'
    """
    lines = []
    for run in _runs(plans):
        if len(run) > _LONGEST_RUN:
            lines.append(_line_of_many(run))
        else:
            lines += [ColumnLine(plan.name, plan.kind, _n_features(plan), plan.summary()) for plan in run]
    return lines


def shown_lines(plans: Sequence[Any]) -> list[list[str]]:
    """Return column, kind, number of features and encoding as text; the last of many lines stands for the rest."""
    lines = summarize(plans)
    shown = [[line.columns, line.kind, str(line.n_features or "-"), line.what] for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        n_features = sum(line.n_features for line in lines[_MOST_LINES:])
        more = f"{len(lines) - _MOST_LINES:,} more"
        what = "accous fit --json and manifest.json list all"
        shown.append([more, "", str(n_features or "-"), what])
    return shown


def _runs(plans: Sequence[Any]) -> Iterator[list[Any]]:
    """Divide the plans into runs of columns whose names differ only by a counting number."""
    run: list[Any] = []
    for plan in plans:
        if run and not (_can_share(run[-1]) and _can_share(plan) and _follows(plan.name, run[-1].name)):
            yield run
            run = []
        run.append(plan)
    if run:
        yield run


def _can_share(plan: Any) -> bool:
    return isinstance(plan, (NumberColumn, LeftOutColumn))


def _follows(name: str, before: str) -> bool:
    now, then = _NUMBERED.fullmatch(name), _NUMBERED.fullmatch(before)
    return bool(now and then and now[1] == then[1] and int(now[2]) == int(then[2]) + 1)


def _line_of_many(run: list[Any]) -> ColumnLine:
    numbers = [plan for plan in run if isinstance(plan, NumberColumn)]
    reasons = Counter(plan.reason for plan in run if isinstance(plan, LeftOutColumn))
    what = []
    if numbers:
        means, deviations = [plan.mean for plan in numbers], [plan.deviation for plan in numbers]
        what.append(
            f"each (x - mean) / deviation: means {min(means):.4g} to {max(means):.4g}, "
            f"deviations {min(deviations):.4g} to {max(deviations):.4g}"
        )
    what += [f"{count} left out: {reason}" for reason, count in reasons.most_common(3)]
    kind = f"{len(numbers)} numbers" if numbers else LeftOutColumn.kind
    return ColumnLine(f"{run[0].name} to {run[-1].name}", kind, sum(map(_n_features, run)), "; ".join(what))


def _n_features(plan: Any) -> int:
    return len(getattr(plan, "feature_names", ()))
