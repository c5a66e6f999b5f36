"""Fixed, adapted and estimated errors on real streams in order of time, and how far the claims about them are true.

``python -m benchmarks.real_streams`` replays the streams of ``ACCOUS_DATA`` as classes, with references of
300, 1,000 and 4,000 rows from the start and batches of 10; ``--numbers`` replays the four whose label is a number, with
references of 1,000 and 4,000 rows. It looks every 500 rows and compares what the model says with the labels of 500 rows
either side. Constants were chosen on the streams marked "chosen", and none on the numbers. Every run is kept in a file,
and a second call goes on from there.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing import Pool
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from accous import AdaptiveClassifier, AdaptiveRegressor, backtest
from accous.threads import one_blas_thread
from benchmarks.data import NUMBER_STREAMS, STREAMS, prepare, read_stream
from benchmarks.pages import RESULTS, keep

RUNS = RESULTS / "raw" / "real_streams"
MOST_ROWS = 12_000
ROWS_BETWEEN_LOOKS = 500
ALPHA = 0.1
Look = dict[str, Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One stream, one size of the reference and one size of the batches."""

    stream: str
    n_reference: int
    batch_size: int = 10
    has_numbers: bool = False
    is_ordered: bool = True

    def model(self) -> Any:
        """Return the unfitted model."""
        kind = AdaptiveRegressor if self.has_numbers else AdaptiveClassifier
        return kind(standardize=False)


# --- play -------------------------------------------------------------------------------------------------------


def play(run: Run, most_rows: int = MOST_ROWS) -> Row | None:
    """Play a stream; None if it is too short or starts with one class."""
    rows, y = read_stream(run.stream, most_rows, as_numbers=run.has_numbers)
    n = run.n_reference
    if len(y) < n + 2 * ROWS_BETWEEN_LOOKS or len(np.unique(y[:n])) < 2:
        return None
    inside: list[Any] = []
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        model, X = run.model(), prepare(rows[:n])(rows)
        model.fit(X[:n], y[:n], order=backtest(model, rows[:n], y[:n], prepare=prepare) if run.is_ordered else False)

        def before(batch: slice) -> None:
            if run.has_numbers:
                low, high = model.predict_interval(X[batch], ALPHA).T
                inside.append((low <= y[batch]) & (y[batch] <= high))

        predicted, looks = follow(model, X, n, run.batch_size, look_at, before)
        boosting = HistGradientBoostingRegressor if run.has_numbers else HistGradientBoostingClassifier
        predicted["boosted"] = boosting(random_state=0).fit(X[:n], y[:n]).predict(X)
    losses = {name: np.abs(y - each) if run.has_numbers else each != y for name, each in predicted.items()}
    for look in looks:
        around = slice(max(n, look["row"] - ROWS_BETWEEN_LOOKS), look["row"] + ROWS_BETWEEN_LOOKS)
        look |= {name: float(each[around].mean()) for name, each in losses.items()}
    return {
        **asdict(run),
        "guard": model.rules_.guard.name,
        "backtest": None if model.backtest_ is None else model.backtest_.summary(),
        "close": 0.2 * model.fixed_.scale.one / 4.0 if run.has_numbers else 0.05,  # a fifth of the loss, or 5 points
        "errors": {name: float(each[n:].mean()) for name, each in losses.items()},
        "intervals_cover": float(np.concatenate(inside).mean()) if inside else None,
        "looks": looks,
    }


def follow(
    model: Any,
    X: Any,
    n_reference: int,
    batch_size: int,
    look: Callable[[Any], Look],
    before: Callable[[slice], None] = lambda _: None,
) -> tuple[dict[str, Any], list[Look]]:
    """Predict each batch, then learn from it; return what three models predict, and a look every 500 rows."""
    fixed = model.predict_fixed(X)
    predicted = {"fixed": fixed, "used": fixed.copy(), "adapted": fixed.copy()}
    looks, next_look = [], n_reference + ROWS_BETWEEN_LOOKS
    for start in range(n_reference, len(X), batch_size):
        batch = slice(start, min(start + batch_size, len(X)))
        before(batch)
        predicted["used"][batch] = model.predict(X[batch])
        predicted["adapted"][batch] = model.state_.estimator.predict(X[batch])
        model.adapt(X[batch])
        if batch.stop >= next_look:
            looks.append({"row": batch.stop} | look(model))
            next_look += ROWS_BETWEEN_LOOKS
    return predicted, looks


def look_at(model: Any) -> Look:
    """Return what the model says about itself without labels."""
    risk, trust, sampling = model.risk_, model.trust_, model.sampling_risk()
    return {
        "estimate": risk.adapted,
        "low": risk.adapted_low,
        "high": risk.adapted_high,
        "sampling_low": sampling.adapted_low,
        "sampling_high": sampling.adapted_high,
        "inputs": trust.inputs.answer,
        "adaptation": trust.adaptation.answer,
        "predictions": trust.predictions.answer,
        "verdict": trust.verdict,
    }


# --- print ------------------------------------------------------------------------------------------------------


def print_scores(results: list[Row]) -> None:
    """Print a line per run, and means over streams that constants were chosen on, over the others, and over all."""
    for result in sorted(results, key=lambda result: (result["n_reference"], result["batch_size"], result["stream"])):
        print(_line(result))
    for is_chosen in (True, False):
        part = [result for result in results if STREAMS[result["stream"]].is_chosen == is_chosen]
        for n_reference in sorted({result["n_reference"] for result in part}):
            of_size = [result for result in part if result["n_reference"] == n_reference]
            print(summary(f"{'chosen' if is_chosen else 'checked'}, {n_reference:,} rows", of_size))
    print(summary("all", results))


def _line(result: Row) -> str:
    unit = 1.0 if result["has_numbers"] else 100.0
    covered, width = coverage(result["looks"], "low", "high")
    alone, _ = coverage(result["looks"], "sampling_low", "sampling_high")
    errors = " ".join(f"{name} {unit * error:.4g}" for name, error in result["errors"].items())
    inside = (
        "" if result["intervals_cover"] is None else f", prediction intervals cover {result['intervals_cover']:.1%}"
    )
    return (
        f"{result['stream']:22} {result['n_reference']:5} {result['batch_size']:3} {result['guard']:8} {errors} "
        f"estimate {unit * np.mean([look['estimate'] for look in result['looks']]):.4g} "
        f"covered {covered:4.0%} (sampling alone {alone:4.0%}) half-width {unit * width:.4g}{inside}"
    )


def coverage(looks: list[Look], low: str, high: str) -> tuple[float, float]:
    """Return how often an interval holds the error of the model in use, and its mean half-width."""
    values = np.array([(look[low], look["used"], look[high]) for look in looks])
    is_covered = (values[:, 0] - 1e-9 <= values[:, 1]) & (values[:, 1] <= values[:, 2] + 1e-9)
    return float(is_covered.mean()), float((values[:, 2] - values[:, 0]).mean() / 2.0)


def summary(name: str, results: list[Row]) -> str:
    """Return how often intervals cover, how often answers are right, and what adaptation changes."""
    looks = [look | {"close": result["close"]} for result in results for look in result["looks"]]
    found, alone = (
        np.array([coverage(result["looks"], f"{kind}low", f"{kind}high") for result in results])
        for kind in ("", "sampling_")
    )
    parts = [
        f"intervals cover {found[:, 0].mean():.1%} (sampling alone {alone[:, 0].mean():.1%})",
        f"at least 80 % in {np.mean(found[:, 0] >= 0.8):.0%} of runs",
    ]
    if not results[0]["has_numbers"]:
        shown = [look for look in looks if look["high"] - look["low"] <= 0.5]
        of_shown = coverage(shown, "low", "high") if shown else (float("nan"),) * 2
        parts += [
            f"half-width {100 * found[:, 1].mean():.1f}, median {100 * np.median(found[:, 1]):.1f}",
            f"shown, at most 25 points either side: {len(shown) / len(looks):.0%} of looks, cover {of_shown[0]:.1%}",
            f"half-width of those {100 * of_shown[1]:.1f}",
        ]
    parts += [f"{question} {answer}: {_said(looks, question, answer)}" for question, answer in IS_RIGHT]
    for used in ("used", "adapted"):
        errors = np.array([(result["errors"][used], result["errors"]["fixed"]) for result in results])
        above = 100.0 * (errors[:, 0] - errors[:, 1]) / (errors[:, 1] if results[0]["has_numbers"] else 1.0)
        parts.append(f"{used} minus fixed: mean {above.mean():+.3f}, worst {above.max():+.2f}, best {above.min():+.2f}")
    return "\n  ".join([f"{name}: {len(results)} runs, {len(looks)} looks", *parts])


def _is_close(look: Look) -> bool:
    return bool(abs(look["used"] - look["estimate"]) <= look["close"])


# An answer is right if the estimate is close, or is not, or if the adapted model is better than the fixed one, or not.
IS_RIGHT: dict[tuple[str, str], Callable[[Look], bool]] = {
    ("predictions", "yes"): _is_close,
    ("predictions", "no"): lambda look: not _is_close(look),
    ("adaptation", "yes"): lambda look: look["adapted"] <= look["fixed"],
    ("adaptation", "no"): lambda look: look["adapted"] >= look["fixed"],
    ("inputs", "yes"): _is_close,
    ("inputs", "no"): lambda look: not _is_close(look),
}


def _said(looks: list[Look], question: str, answer: str) -> str:
    said = [look for look in looks if look[question] == answer]
    right = f"right in {np.mean([IS_RIGHT[question, answer](look) for look in said]):.0%}" if said else "never"
    return f"{len(said) / len(looks):.0%} of looks, {right}"


# --- main -------------------------------------------------------------------------------------------------------


def _play_and_keep(run: Run) -> Row | None:
    path = RUNS / ("-".join(str(value) for value in asdict(run).values()) + ".json")
    if not path.exists():
        path.write_text(json.dumps(play(run)))
    found: Row | None = json.loads(path.read_text())
    return found


def main() -> None:
    """Play what is not there yet, and print the scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", action="store_true", help="streams of numbers instead of classes")
    parser.add_argument("--streams", nargs="*")
    parser.add_argument("--references", nargs="*", type=int)
    parser.add_argument("--batches", nargs="*", type=int, default=[10])
    parser.add_argument("--unordered", action="store_true", help="do not say that the reference is in order of time")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    RUNS.mkdir(parents=True, exist_ok=True)
    runs = [
        Run(stream, n, batch_size, options.numbers, not options.unordered)
        for batch_size in options.batches
        for n in options.references or ([1_000, 4_000] if options.numbers else [300, 1_000, 4_000])
        for stream in options.streams or (NUMBER_STREAMS if options.numbers else STREAMS)
    ]
    with Pool(options.jobs) as pool:
        results = [result for result in pool.imap(_play_and_keep, runs) if result is not None]
    print_scores(results)
    if options.numbers and not options.streams:
        keep("real_numbers", results)


if __name__ == "__main__":
    main()
