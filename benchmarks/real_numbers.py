"""The adaptive regressor on real streams in order of time, beside regressors that never adapt, and how far it is right.

``python -m benchmarks.real_numbers`` replays the streams of ``ACCOUS_DATA/streams`` whose label is a number, with
references of 1,000 and 4,000 rows from the start and batches of 10. It looks every 500 rows and compares what the model
says with the labels of 500 rows either side. No constant was chosen on these numbers.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from accous import AdaptiveRegressor, backtest
from accous.threads import one_blas_thread
from benchmarks.real_stream_tables import number_streams, prepare, read_number_stream
from benchmarks.record import write_results

__all__ = ["main", "play"]

ROWS_BETWEEN_LOOKS = 500
ALPHA = 0.1
_CLOSE = 0.2  # a fifth of the loss on the reference: what 5 points are


def play(stream: str, n_reference: int, most_rows: int = 12_000, batch_size: int = 10) -> dict[str, Any]:
    """Play a stream: predict each batch, then learn from it."""
    rows, y = read_number_stream(stream, most_rows)
    n = n_reference
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        model = AdaptiveRegressor(standardize=False)
        X = prepare(rows[:n])(rows)
        model.fit(X[:n], y[:n], order=backtest(model, rows[:n], y[:n], prepare=prepare))
        boosting = HistGradientBoostingRegressor(random_state=0).fit(X[:n], y[:n])
        predicted = {
            "fixed": model.predict_fixed(X),
            "ridge": Ridge().fit(X[:n], y[:n]).predict(X),
            "boosting": boosting.predict(X),
            "used": np.zeros(len(y)),
            "adapted": np.zeros(len(y)),
        }
        inside, looks, next_look = np.zeros(len(y), bool), [], n + ROWS_BETWEEN_LOOKS
        for start in range(n, len(y), batch_size):
            batch = slice(start, min(start + batch_size, len(y)))
            low, high = model.predict_interval(X[batch], ALPHA).T
            inside[batch] = (low <= y[batch]) & (y[batch] <= high)
            predicted["used"][batch] = model.predict(X[batch])
            predicted["adapted"][batch] = model.state_.estimator.predict(X[batch])
            model.adapt(X[batch])
            if batch.stop >= next_look:
                looks.append(_look(model, batch.stop))
                next_look += ROWS_BETWEEN_LOOKS
    losses = {name: np.abs(y - values) for name, values in predicted.items()}
    for look in looks:
        around = slice(max(n, look["row"] - ROWS_BETWEEN_LOOKS), look["row"] + ROWS_BETWEEN_LOOKS)
        look |= {name: float(each[around].mean()) for name, each in losses.items()}
    found = None if model.backtest_ is None else model.backtest_.summary()
    return {
        "stream": stream,
        "n_reference": n,
        "guard": model.rules_.guard.name,
        "backtest": found,
        "loss_of_reference": model.fixed_.scale.one / 4.0,
        "mean_absolute_error": {name: float(each[n:].mean()) for name, each in losses.items()},
        "rmse": {name: float(np.sqrt(np.mean(each[n:] ** 2))) for name, each in losses.items()},
        "intervals_cover": float(inside[n:].mean()),
        "looks": looks,
    }


def _look(model: AdaptiveRegressor, row: int) -> dict[str, Any]:
    risk, trust = model.risk_, model.trust_
    return {
        "row": row,
        "estimate": risk.adapted,
        "low": risk.adapted_low,
        "high": risk.adapted_high,
        "is_known": bool(risk.is_known),
        "inputs": trust.inputs.answer,
        "adaptation": trust.adaptation.answer,
        "predictions": trust.predictions.answer,
        "verdict": trust.verdict,
    }


def _line(result: dict[str, Any]) -> str:
    looks, unit = result["looks"], result["loss_of_reference"]
    covered = np.mean([look["low"] <= look["used"] <= look["high"] for look in looks])
    yes = [look for look in looks if look["predictions"] == "yes"]
    close = [abs(look["used"] - look["estimate"]) <= _CLOSE * unit for look in yes]
    errors = "  ".join(f"{name} {value:.4g}" for name, value in result["mean_absolute_error"].items())
    return (
        f"{result['stream']:18} {result['n_reference']:5} {result['guard']:8} {errors}  estimate "
        f"{np.mean([look['estimate'] for look in looks]):.4g}, its interval covers {covered:.0%}; prediction intervals "
        f"cover {result['intervals_cover']:.1%}; predictions yes in {len(yes)} of {len(looks)} looks"
        + (f", right in {np.mean(close):.0%}" if yes else "")
    )


def main() -> None:
    """Play all streams, print a line for each and write ``benchmarks/results/real_numbers.json``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", nargs="*", default=number_streams())
    parser.add_argument("--references", nargs="*", type=int, default=[1_000, 4_000])
    options = parser.parse_args()
    results = []
    for n_reference in options.references:
        for stream in options.streams:
            results.append(play(stream, n_reference))
            print(_line(results[-1]), flush=True)
    print(write_results("real_numbers", results))


if __name__ == "__main__":
    main()
