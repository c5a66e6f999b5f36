"""Whether the measured error is about now: late labels of real streams in order of time.

``python -m benchmarks.measured_error`` fits boosted trees on the first 1,000 rows of each real stream with classes and
gives the labels of all later rows, or of every fourth, as late labels. From 400 labels on, it compares the measured
error with the error on the last 500 rows of the stream after every 100 labels. No constant was chosen on these numbers.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from accous.arrays import FloatArray
from accous.diagnostics.labels import JudgedRows, LateLabels, Sum, measure
from accous.diagnostics.messages import CLOSE
from accous.diagnostics.risk import wilson_interval
from benchmarks.real_stream_tables import STREAMS, prepare, read_stream
from benchmarks.record import write_results

N_REFERENCE, MOST_ROWS = 1_000, 8_000
FEWEST_LABELS, BETWEEN_LOOKS, RECENT_ROWS = 400, 100, 500


@dataclass
class Counted:
    """Looks at one stream.

    Attributes
    ----------
    stream : str
    every : int
        One row of so many has a label.
    n_looks : int
    n_held : int
        Looks whose interval held the error of the last 500 rows.
    n_held_by_mean : int
        Looks in which the interval of the mean alone did.
    n_off : int
        Looks in which the measured error was more than 5 points away from it.
    n_off_told : int
        Those of them in which the words said that the error moves.
    n_told : int
        Looks in which they said so.
    """

    stream: str
    every: int
    n_looks: int = 0
    n_held: int = 0
    n_held_by_mean: int = 0
    n_off: int = 0
    n_off_told: int = 0
    n_told: int = 0


def errors_of(stream: str) -> FloatArray:
    """Return where boosted trees that are fitted once err after the reference."""
    rows, y = read_stream(stream, MOST_ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = prepare(rows[:N_REFERENCE])(rows)
        model = HistGradientBoostingClassifier(random_state=0).fit(X[:N_REFERENCE], y[:N_REFERENCE])
        is_wrong: FloatArray = (model.predict(X[N_REFERENCE:]) != y[N_REFERENCE:]).astype(np.float64)
    return is_wrong


def look(stream: str, errors: FloatArray, every: int) -> Counted:
    """Give the labels in pieces and look at the measured error after each."""
    counted = Counted(stream, every)
    for found, n_effective, last_row in _measured(errors, every):
        truth = errors[max(0, last_row - RECENT_ROWS) : last_row].mean()
        is_off, is_told = abs(found.error - truth) > CLOSE, "the error moves" in found.sentence
        counted.n_looks += 1
        counted.n_held += bool(found.error_low <= truth <= found.error_high)
        low, high = wilson_interval(found.error, n_effective)
        counted.n_held_by_mean += bool(low <= truth <= high)
        counted.n_off += bool(is_off)
        counted.n_off_told += bool(is_off and is_told)
        counted.n_told += bool(is_told)
    return counted


def _measured(errors: FloatArray, every: int) -> Iterator[tuple[Any, float, int]]:
    """Return what was measured, the effective number of labels in it and the last row of the stream."""
    places, labels = np.arange(0, len(errors), every), LateLabels()
    for end in range(BETWEEN_LOOKS, len(places) + 1, BETWEEN_LOOKS):
        losses = errors[places[end - BETWEEN_LOOKS : end]]
        labels = labels.after(
            JudgedRows(
                losses=losses,
                losses_fixed=None,
                errors_fixed=None,
                is_unseen=np.zeros(len(losses), dtype=bool),
                unseen_names=(),
                estimates=np.full((len(losses), 3), np.nan),
            )
        )
        if end >= FEWEST_LABELS:
            last_row = int(places[end - 1]) + 1
            n_effective = float(labels.sums[Sum.WEIGHT]) ** 2 / labels.squares
            yield measure(labels, n_stream=last_row, audit=None), n_effective, last_row


def main() -> None:
    """Look at all streams, print a line for each and write ``benchmarks/results/measured_error.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    rows = []
    for stream in parser.parse_args().streams:
        errors = errors_of(stream)
        for every in (1, 4):
            rows.append(look(stream, errors, every))
            print(rows[-1], flush=True)
    for every in (1, 4):
        of_all = [row for row in rows if row.every == every]
        names = ("n_looks", "n_held", "n_held_by_mean", "n_off", "n_off_told", "n_told")
        print(f"every {every}:", {name: sum(getattr(row, name) for row in of_all) for name in names})
    print(write_results("measured_error", [asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
