"""The search over what the paper leaves open, as tables, from ``benchmarks/results/readings.json``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accous.text import count
from accous_bench.protocols import BATCH_FIRST, PREDICT_FIRST
from accous_bench.reporting.document import Block, Heading, Paragraph, Row, Table, Text
from accous_bench.reporting.wording import dataset_title
from benchmarks.reading_fit import ESTIMATORS, Fit, PaperCell, fit_to_paper, mean_fit

__all__ = ["Reading", "readings_blocks", "readings_of"]

_REGULARISED = "regularised"
_N_BEST = 5
_USUAL = {
    "protocol": PREDICT_FIRST,
    "C": 1.0,
    "angle": 75.0,
    "lin_falls": False,
    "split": "fixed",
    "alpha_0": 0.9,
    "estimators": _REGULARISED,
}
"""What the tables of the results page use; the predictor's inputs are scaled on the tables and not elsewhere."""


@dataclass(frozen=True)
class Reading:
    """One way to read everything that is open, and how well it fits the paper cell by cell."""

    choices: Mapping[str, Any]
    fits: Mapping[PaperCell, Fit]

    @property
    def fit(self) -> Fit:
        """The mean over all cells."""
        return mean_fit(self.fits)

    @property
    def changed(self) -> list[str]:
        """The choices that are not the usual ones."""
        usual = _USUAL | {"is_scaled": "split" in self.choices}
        return [name for name, value in self.choices.items() if value != usual[name]]

    @property
    def words(self) -> str:
        """The choices in words: what differs from the results page."""
        return ", ".join(_WORDS[name](self.choices[name]) for name in self.changed) or "as on this page"


_WORDS: dict[str, Callable[[Any], str]] = {
    "angle": lambda angle: "published geometry" if angle is None else f"angle {angle:.0f}\N{DEGREE SIGN}",
    "lin_falls": lambda _: "Lin falls",
    "split": lambda _: "a split for each seed",
    "alpha_0": lambda _: "reference of one part",
    "protocol": lambda protocol: protocol.replace("_", " "),
    "C": lambda C: f"C = {C:g}",
    "is_scaled": lambda is_scaled: "scaled inputs" if is_scaled else "raw inputs",
    "estimators": lambda estimators: f"{estimators} estimators",
}


def readings_of(rows: Iterable[Mapping[str, Any]]) -> list[Reading]:
    """Return every reading that the rows of a family allow: each row with each choice of estimators that it has."""
    found = []
    for row in rows:
        choices = {name: row[name] for name in (*_WORDS,) if name in row}
        cells = [_cell(words) for words in row["cells"]]
        for estimators, names in ESTIMATORS.items():
            if set(names.values()) <= set(row["errors"]):
                fits = {
                    cell: fit_to_paper({paper: row["errors"][ours][place] for paper, ours in names.items()}, cell)
                    for place, cell in enumerate(cells)
                }
                found.append(Reading(choices | {"estimators": estimators}, fits))
    return found


def _cell(words: str) -> PaperCell:
    dataset, shift, batch_size = words.split(", ")
    return dataset, shift, int(batch_size)


def readings_blocks(file: Path) -> list[Block]:
    """Return the section; nothing if the file does not exist."""
    if not file.is_file():
        return []
    record = json.loads(file.read_text(encoding="utf-8"))["rows"]
    blocks: list[Block] = [Heading("Which reading fits the paper's numbers?", 2), Paragraph(_method(record))]
    for family, title in (("synthetic", "the synthetic data"), ("tables", "the tables")):
        readings = readings_of(record[family])
        if readings:
            seeds = sorted({row["n_seeds"] for row in record[family]})
            n_seeds = count(seeds[0], "seed") if len(seeds) == 1 else f"{seeds[0]} or {count(seeds[-1], 'seed')}"
            blocks += [Paragraph(_finding(readings, title, n_seeds)), _table(readings, title)]
    return blocks


def _method(record: Mapping[str, Any]) -> str:
    return (
        "What the paper leaves open, in all combinations (python -m benchmarks.readings): the geometry or the split, "
        "the protocol, the penalty and scaling of the predictor, one-step estimators with kernels of width 1 and a "
        "weak penalty, and on two geometries estimators without regularisation. Streams have "
        f"{record['n_rounds']:,} rounds, one of every {record['score_every']} is scored, "
        "fewer of KMM. Seven of the paper's contenders take part, all but DANN; Accous is the ensemble alone. Risks "
        "are exact. Under batch first, where the drawn rows count, errors are compared with FIX on the same rows, "
        "and on synthetic data without drawing labels. The distance is the mean over contenders and cells, in points; "
        "the order is the rank correlation of the contenders with the paper's, averaged over the cells."
    )


def _finding(readings: Sequence[Reading], title: str, n_seeds: str) -> str:
    usual = _only(readings, [])
    learning_first = (one for one in readings if one.changed == ["protocol"] and one.choices["protocol"] == BATCH_FIRST)
    before = next(learning_first, None)
    closest, likest = min(readings, key=lambda one: one.fit.distance), max(readings, key=lambda one: one.fit.order)
    words = f"On {title} ({count(len(readings), 'reading')}, {n_seeds}), "
    if before is not None and usual is not None:
        words += f"learning first gives {_fit_words(before)}; predicting first, as on this page, {_fit_words(usual)}. "
    words += f'The best order has the reading "{likest.words}": {_fit_words(likest)}. '
    return words + f'The smallest distance has "{closest.words}": {_fit_words(closest)}.'


def _only(readings: Sequence[Reading], changed: list[str]) -> Reading | None:
    return next((one for one in readings if one.changed == changed), None)


def _parts(reading: Reading) -> list[tuple[str, Fit]]:
    """Return the fit by batch size on synthetic data, by data set on tables."""
    places = list(dict.fromkeys((cell[0], cell[2]) for cell in reading.fits))
    by_size = len({dataset for dataset, _ in places}) == 1
    return [
        (
            f"N_t = {size}" if by_size else dataset_title(dataset),
            mean_fit(reading.fits, dataset=dataset, batch_size=size),
        )
        for dataset, size in places
    ]


def _fit_words(reading: Reading) -> str:
    orders = ", ".join(f"{_number(fit.order)} ({title})" for title, fit in _parts(reading))
    return f"a rank correlation of {orders} and a distance of {reading.fit.distance:.1f} points"


def _table(readings: Sequence[Reading], title: str) -> Table:
    """Return the usual reading, those that change one thing, and the best of all by each measure."""
    one_change = [one for one in readings if len(one.changed) <= 1]
    likest = sorted(readings, key=lambda one: -one.fit.order)[:_N_BEST]
    closest = sorted(readings, key=lambda one: one.fit.distance)[:_N_BEST]
    chosen = {one.words: one for one in (*one_change, *likest, *closest)}.values()
    rows = [
        Row(
            [
                Text(one.words),
                *(Text(words) for _, fit in _parts(one) for words in (f"{fit.distance:.2f}", _number(fit.order))),
            ]
        )
        for one in sorted(chosen, key=lambda one: -one.fit.order)
    ]
    parts = [part for part, _ in _parts(readings[0])]
    caption = (
        f"Readings of {title}: those that change one thing, and the {_N_BEST} best of all {len(readings)} by order and "
        "by distance; the best order first."
    )
    headings = ["what differs from this page", *(word for _ in parts for word in ("distance, points", "order"))]
    return Table(caption, headings, rows, [("", 1), *((part, 2) for part in parts)])


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")
