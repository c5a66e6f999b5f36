"""Does adaptation harm? Errors of the default model minus those of the same model that never adapts.

``python -m benchmarks.harm`` plays the real streams of ``ACCOUS_DATA``, references of 1,000, 2,500 and 4,000 rows from
the start, batches of 10: once as the rows come (``order="auto"``), once with the word that they are in order of time.
`arabic_digits` has no order; half of its reference rows are female speakers, then blocks of 750 rows of women and men
follow in turn. Points above the fixed model, the guard, and what was found about the order.
"""

from __future__ import annotations

import argparse
import warnings
from multiprocessing import Pool
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.threads import one_blas_thread
from benchmarks.data import BLOCKS, MOST_ROWS, STREAMS, prepare, read_blocks, read_stream
from benchmarks.pages import keep

BATCH_SIZE = 10
Row = dict[str, Any]


def play(stream: str, n_reference: int, most_rows: int = MOST_ROWS, *, is_told: bool) -> Row | None:
    """Play a stream; None if it is too short or starts with one class."""
    rows, y = read_blocks(n_reference) if stream == BLOCKS else read_stream(stream, most_rows)
    n = n_reference
    if len(y) < n + 1_000 or len(np.unique(y[:n])) < 2:
        return None
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        X = prepare(rows[:n])(rows)
        model = AdaptiveClassifier().fit(X[:n], y[:n], order=True if is_told else "auto")
        predicted = {each: model.predict_fixed(X) for each in ("fixed", "used", "adapted")}
        for start in range(n, len(X), BATCH_SIZE):
            batch = slice(start, start + BATCH_SIZE)
            predicted["adapted"][batch] = model.state_.estimator.predict(X[batch])
            predicted["used"][batch] = model.step(X[batch])
    errors = {name: 100.0 * float(np.mean(each[n:] != y[n:])) for name, each in predicted.items()}
    return {
        "stream": stream,
        "n_reference": n,
        "order": str(model.order_.kind),
        "p_value": model.order_.p_value,
        "guard": model.rules_.guard.name,
        "fixed": errors["fixed"],
        "harm": errors["used"] - errors["fixed"],
        "harm_of_always": errors["adapted"] - errors["fixed"],
    }


def _play(case: tuple[str, int, bool]) -> Row | None:
    return play(case[0], case[1], is_told=case[2])


def main() -> None:
    """Play all, print a line a run and the worst, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=[*STREAMS, BLOCKS])
    parser.add_argument("--references", nargs="*", type=int, default=[1_000, 2_500, 4_000])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = [(name, n, told) for n in options.references for name in options.streams for told in (False, True)]
    found = []
    with Pool(options.jobs) as pool:
        for row in filter(None, pool.imap(_play, cases)):
            found.append(row)
            print(
                f"{row['stream']:22} {row['n_reference']:5} {row['order']:10} {row['guard']:8} "
                f"fixed {row['fixed']:5.2f} harm {row['harm']:+.2f} (always adapted {row['harm_of_always']:+.2f})",
                flush=True,
            )
    harm = np.array([row["harm"] for row in found])
    print(f"{len(harm)} runs: mean {harm.mean():+.3f}, worst {harm.max():+.2f}, best {harm.min():+.2f}")
    if options.streams == [*STREAMS, BLOCKS]:
        keep("harm", found)


if __name__ == "__main__":
    main()
