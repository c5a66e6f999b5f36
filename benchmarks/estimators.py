"""Errors of linear and boosted predictors on real streams, fixed and adapted, and of the one that ``auto`` takes.

``python -m benchmarks.estimators`` replays the streams of `benchmarks.real_stream_tables` in order of time, with
references of 1,000 and 4,000 rows from the start and batches of 10: what ``accous fit --ordered --estimator linear``
and ``boosting`` do with the file, each with its backtest. All rows are played and columns of times stay, which accous
reads as hours and weekdays; ``--rows 12000`` thins the streams and leaves these out, as `benchmarks.real_streams` does,
and writes no summary. ``auto`` is the choice that ``accous fit`` makes from those backtests. Its rule was chosen on the
streams marked "chosen"; the others were only used to check it. ``--fixed`` leaves adaptation out, which takes a tenth
of the time. Every run is kept in a file, and a second call goes on from there. The summary has all runs in the folder,
those without adaptation where there is no other, and says of each what it has.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from accous import AdaptiveClassifier
from accous.diagnostics.risk import Look, measure_evidence
from accous.model.backtest import Backtest
from accous.ratio.online import NoShift
from accous.table.checks import RowOrder, leave_out_traps
from accous.table.columns import Choices, ColumnEncoder
from accous.table.fit import ReferenceTable, Trial, choose, cross_validate, replay
from accous.table.model import BOOSTING, LINEAR, make_estimator
from accous.threads import one_blas_thread, one_openmp_thread_if_few
from benchmarks.real_stream_tables import STREAMS, read_stream
from benchmarks.record import origin

__all__ = ["main", "maker_of", "play"]

NAMES = (LINEAR, BOOSTING)
BATCH_SIZE = 10


def play(
    stream: str, n_reference: int, name: str, most_rows: int | None = None, *, adapts: bool = True
) -> dict[str, Any] | None:
    """Play a stream with one predictor; None if it is too short or starts with one class."""
    rows, y = read_stream(stream, most_rows, STREAMS[stream].times if most_rows is None else ())
    n = n_reference
    if len(y) < n + 1_000 or len(np.unique(y[:n])) < 2:
        return None
    frame = pl.DataFrame(rows, schema=[f"x{k}" for k in range(rows.shape[1])]) if isinstance(rows, np.ndarray) else rows
    begin = time.process_time()
    with warnings.catch_warnings(), one_blas_thread(), one_openmp_thread_if_few(n):
        warnings.simplefilter("ignore")
        choices, _ = leave_out_traps(frame[:n], Choices(), has_order=True)
        encoder = ColumnEncoder.learn(frame[:n], choices)
        X = encoder.encode(frame).X
        reference = ReferenceTable(frame[:n], y[:n], encoder, X[:n], [], RowOrder("rows"), choices, [])
        losses = cross_validate(reference, maker_of(name), seed=0)
        found = None
        if adapts:
            found = replay(reference, maker_of(name), batch_size=BATCH_SIZE, on_progress=lambda _: None)
        model = maker_of(name)(encoder)
        model = model.fit(X[:n], y[:n], order=found) if adapts else model.set_params(ratio=NoShift()).fit(X[:n], y[:n])
        seconds_to_fit = time.process_time() - begin
        fixed = model.predict_fixed(X[n:])
        used = fixed.copy()
        # Where the backtest forbids adaptation, the fixed predictor makes all predictions.
        for start in range(n, len(y), BATCH_SIZE) if adapts and model.rules_.guard.name != "off" else ():
            batch = slice(start, min(start + BATCH_SIZE, len(y)))
            state = model.state_
            if state.rounds.is_moved and not state.fallback.veto.is_held:
                used[batch.start - n : batch.stop - n] = state.estimator.predict(X[batch])
            model.adapt(X[batch])
    errors = {"fixed": fixed, "adapted": used} if adapts else {"fixed": fixed}
    return {
        "stream": stream,
        "n_reference": n,
        "n_rows": len(y),
        "estimator": name,
        "errors": {key: float((values != y[n:]).mean()) for key, values in errors.items()},
        "guard": model.rules_.guard.name,
        "refits": model.n_refits_,
        "losses": [] if losses is None else losses.astype(int).tolist(),
        "looks": [] if found is None else [asdict(look) for look in found.looks],
        "seconds_to_fit": seconds_to_fit,
        "seconds": time.process_time() - begin,
    }


def maker_of(name: str) -> Callable[[ColumnEncoder], AdaptiveClassifier]:
    """Return what makes the model that ``accous fit --estimator`` makes."""

    def make_model(encoder: ColumnEncoder) -> AdaptiveClassifier:
        estimator = make_estimator(name, kind="classifier", seed=0, blocks=encoder.blocks)
        return AdaptiveClassifier(estimator, standardize=False, random_state=0)

    return make_model


def _path(folder: Path, stream: str, n_reference: int, name: str, most_rows: int | None, *, adapts: bool) -> Path:
    thinned = "" if most_rows is None else f"-of-{most_rows}"
    return folder / f"{stream}-{n_reference}-{name}{thinned}{'' if adapts else '-fixed'}.json"


def _play_and_keep(job: tuple[str, int, str, int | None, bool, Path]) -> str:
    stream, n_reference, name, most_rows, adapts, folder = job
    path = _path(folder, stream, n_reference, name, most_rows, adapts=adapts)
    if not path.exists():
        path.write_text(json.dumps(play(stream, n_reference, name, most_rows, adapts=adapts)))
    return path.name


def main() -> None:
    """Play what is not there yet, and print the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/raw/estimators"))
    parser.add_argument("--summary", type=Path, default=Path("benchmarks/results/estimators.json"))
    parser.add_argument("--streams", nargs="*", default=list(STREAMS))
    parser.add_argument("--references", nargs="*", type=int, default=[1_000, 4_000])
    parser.add_argument("--fixed", action="store_true", help="Leave adaptation out.")
    parser.add_argument("--rows", type=int, help="Thin longer streams to so many rows.")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        (stream, n_reference, name, options.rows, not options.fixed, options.folder)
        for n_reference in options.references
        for stream in options.streams
        for name in NAMES
    ]
    with Pool(options.jobs) as pool:
        for number, name in enumerate(pool.imap_unordered(_play_and_keep, jobs), 1):
            print(f"\r{number} of {len(jobs)}: {name:60}", end="", flush=True)
    print()
    cells = [(stream, n) for n in (1_000, 4_000) for stream in STREAMS]
    rows = [row for cell in cells if (row := _row(options.folder, *cell, options.rows)) is not None]
    _print(rows)
    if options.rows is None:
        options.summary.write_text(json.dumps({"measured_with": origin(), "rows": rows}, indent=1) + "\n")


def _row(folder: Path, stream: str, n_reference: int, most_rows: int | None) -> dict[str, Any] | None:
    """Return the errors of one stream, and what ``auto`` makes of the trials; with adaptation if that was played."""
    for adapts in (True, False):
        paths = [_path(folder, stream, n_reference, name, most_rows, adapts=adapts) for name in NAMES]
        if all(path.exists() for path in paths):
            break
    else:
        return None
    linear, boosting = (json.loads(path.read_text()) for path in paths)
    if linear is None:
        return None
    choice = choose(*(_trial(cell) for cell in (linear, boosting)))
    errors = {
        f"{cell['estimator']} {key}": error for cell in (linear, boosting) for key, error in cell["errors"].items()
    }
    auto = errors[f"{choice.name} {'adapted' if adapts else 'fixed'}"]
    fixed = min(errors["linear fixed"], errors["boosting fixed"])
    return {
        "stream": stream,
        "is_chosen": STREAMS[stream].is_chosen,
        "n_reference": n_reference,
        "n_rows": linear["n_rows"],
        "is_adapted": adapts,
        **errors,
        "auto": auto,
        "chosen": choice.name,
        "above_best": auto - min(errors.values()),
        "above_best_fixed": auto - fixed,
    }


def _trial(cell: dict[str, Any]) -> Trial:
    looks = [Look(**look) for look in cell["looks"]]
    n_rows = cell["n_reference"]
    found = None
    if looks:
        found = Backtest(n_reference=n_rows, looks=tuple(looks), evidence=measure_evidence(looks, n_rows))
    return Trial(cell["estimator"], np.array(cell["losses"], dtype=np.float64), True, found)


def _print(rows: list[dict[str, Any]]) -> None:
    names = [f"{name} {key}" for name in NAMES for key in ("fixed", "adapted")] + ["auto"]
    print("| reference | stream | " + " | ".join(names) + " | takes | above the best | above the best fixed |")
    print("|---|---|" + "---|" * (len(names) + 3))
    for row in rows:
        errors = " | ".join(f"{100.0 * row[name]:.1f}" if name in row else "" for name in names)
        gaps = " | ".join(f"{100.0 * row[name]:+.1f}" for name in ("above_best", "above_best_fixed"))
        stream = row["stream"] + (" (chosen)" if row["is_chosen"] else "")
        print(f"| {row['n_reference']} | {stream} | {errors} | {row['chosen']} | {gaps} |")
    for is_chosen, name in ((True, "chosen"), (False, "checked")):
        of_kind = [row for row in rows if row["is_chosen"] is is_chosen]
        above = np.array([(row["above_best"], row["above_best_fixed"]) for row in of_kind]).reshape(-1, 2)
        n_above, n_above_fixed = (above > (0.005, 0.003)).sum(axis=0)
        print(
            f"{name}: {len(of_kind)} runs, {n_above} more than 0.5 points above the best of the four, {n_above_fixed} "
            f"more than 0.3 above the best that never adapts."
        )


if __name__ == "__main__":
    main()
