"""Which predictor ``auto`` takes where the reference is so large that only its latest rows are compared.

``python -m benchmarks.large_choices`` takes the first half of each real stream with classes as reference, if that is
more than five million numbers. It compares linear and boosting on the latest rows of it, as ``accous fit`` does, fits
both on all of it, and counts the errors of both on the second half, without adaptation.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import polars as pl

from accous.ratio.online import NoShift
from accous.table.checks import RowOrder, leave_out_traps
from accous.table.columns import Choices, ColumnEncoder
from accous.table.fit import CANDIDATES, ReferenceTable, Trial, choose, cross_validate, n_rows_to_compare, replay
from accous.threads import one_blas_thread
from benchmarks.estimators import BATCH_SIZE, maker_of
from benchmarks.real_stream_tables import STREAMS, read_stream
from benchmarks.record import write_results

__all__ = ["compare", "main"]


def compare(rows: pl.DataFrame, y: Any) -> dict[str, Any] | None:
    """Return which predictor is taken and the errors of both on the second half; None if all rows are compared."""
    n = len(y) // 2
    choices, _ = leave_out_traps(rows[:n], Choices(), has_order=True)
    encoder = ColumnEncoder.learn(rows[:n], choices)
    X = encoder.encode(rows).X
    n_compared = n_rows_to_compare(n, X.shape[1], len(np.unique(y[:n])))
    if n_compared == n:
        return None
    reference = ReferenceTable(rows[:n], y[:n], encoder, X[:n], [], RowOrder("rows"), choices, [])
    begin = time.process_time()
    linear, boosting = (_trial(name, reference.part(n_compared, seed=0)) for name in CANDIDATES)
    seconds = time.process_time() - begin
    models = {name: maker_of(name)(encoder).set_params(ratio=NoShift()).fit(X[:n], y[:n]) for name in CANDIDATES}
    return {
        "n_reference": n,
        "n_features": X.shape[1],
        "n_compared": n_compared,
        "taken": choose(linear, boosting).name,
        "errors": {name: float((model.predict(X[n:]) != y[n:]).mean()) for name, model in models.items()},
        "cpu_seconds_to_compare": round(seconds, 1),
    }


def _trial(name: str, part: ReferenceTable) -> Trial:
    make_model = maker_of(name)
    losses = cross_validate(part, make_model, seed=0)
    return Trial(name, losses, True, replay(part, make_model, batch_size=BATCH_SIZE, on_progress=lambda _: None))


def main() -> None:
    """Measure and write the record."""
    found = []
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for name, stream in STREAMS.items():
            rows, y = read_stream(name, None, stream.times)
            row = compare(rows, y) if isinstance(rows, pl.DataFrame) else None
            if row is not None:
                found.append({"stream": name, "is_chosen": stream.is_chosen, **row})
                print(found[-1], flush=True)
    write_results("large_choices", found)


if __name__ == "__main__":
    main()
