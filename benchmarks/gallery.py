"""The cases of the gallery: ``python -m benchmarks.gallery`` plays real streams in order of time.

Each stream of ``ACCOUS_DATA`` is thinned to 12,000 rows. The first 1,000 are the reference, known to be in order of
time; the others come in batches of 10, each predicted before it is learned from. Four models predict them: the fixed
regression, the one that accous uses, the one that always adapts, and a boosted model fitted once. Every 500 rows it
notes what accous says without labels; the labels say later what was true. Only these aggregates are kept, in
``benchmarks/results/gallery``.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from accous import AdaptiveClassifier, backtest
from accous.threads import one_blas_thread
from benchmarks.real_stream_tables import prepare, read_stream, read_times
from benchmarks.record import origin

__all__ = ["CASES", "FOLDER", "main", "play"]

CASES = ("acs_employment", "weather_aus", "birdstrikes", "occupancy", "bank_marketing", "nsl_kdd")
FOLDER = Path(__file__).parent / "results" / "gallery"
N_REFERENCE, BATCH_SIZE, BLOCK, MOST_ROWS = 1_000, 10, 500, 12_000
N_LATE = 1_000


def play(name: str) -> dict[str, Any]:
    """Play a stream and return what the models did and what accous said about it."""
    rows, y = read_stream(name, MOST_ROWS)
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        encode = prepare(rows[:N_REFERENCE])
        X = encode(rows)
        model = AdaptiveClassifier(standardize=False)  # the columns are encoded already
        replay = backtest(model, rows[:N_REFERENCE], y[:N_REFERENCE], prepare=prepare)
        model.fit(X[:N_REFERENCE], y[:N_REFERENCE], order=replay)
        boosted = HistGradientBoostingClassifier(random_state=0).fit(X[:N_REFERENCE], y[:N_REFERENCE])
        predicted, looks = _follow(model, X)
        predicted |= {"fixed": model.predict_fixed(X), "boosted": boosted.predict(X)}
        said = _said(model)
        late = slice(max(N_REFERENCE, len(y) - N_LATE), len(y))
        model.observe(X[late], y[late], predicted=predicted["used"][late])
        assert model.measured_ is not None
        found = {"without_labels": said, "with_late_labels": {**_said(model), "measured": model.measured_.sentence}}
    is_wrong = {model_name: labels != y for model_name, labels in predicted.items()}
    return {
        "stream": name,
        "rows": len(y) - N_REFERENCE,
        "columns": X.shape[1],
        "guard": model.rules_.guard.name,
        "backtest": list(replay.sentences),
        "errors": {each: float(wrong[N_REFERENCE:].mean()) for each, wrong in is_wrong.items()},
        "said": found,
        "events": [event.round for event in model.drift_events_],
        "looks": [look | _truth(look["row"], is_wrong) for look in looks],
        "times": read_times(name, MOST_ROWS, [look["row"] for look in looks]),
    }


def _follow(model: AdaptiveClassifier, X: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Predict and learn batch by batch; return the predictions and the looks."""
    used, adapted = model.predict_fixed(X), model.predict_fixed(X)
    looks = []
    for start in range(N_REFERENCE, len(X), BATCH_SIZE):
        batch = slice(start, start + BATCH_SIZE)
        used[batch] = model.predict(X[batch])
        adapted[batch] = model.state_.estimator.predict(X[batch])
        model.adapt(X[batch])
        seen = min(start + BATCH_SIZE, len(X)) - N_REFERENCE
        if seen % BLOCK == 0:
            looks.append(_look(model, N_REFERENCE + seen))
    return {"used": used, "always adapted": adapted}, looks


def _look(model: AdaptiveClassifier, row: int) -> dict[str, Any]:
    risk, coverage = model.risk_, model.coverage_
    trust = model.trust_
    return {
        "row": row,
        "estimate": risk.adapted,
        "low": risk.adapted_low,
        "high": risk.adapted_high,
        "effective_rows": float(model.effective_sample_size_),
        "outside": float(coverage.share_outside),
        "drift": float(coverage.drift_strength),
        "inputs": trust.inputs.answer,
        "adaptation": trust.adaptation.answer,
        "predictions": trust.predictions.answer,
    }


def _said(model: AdaptiveClassifier) -> dict[str, Any]:
    trust = model.trust_
    answers = {name: getattr(trust, name) for name in ("inputs", "adaptation", "predictions")}
    return {"verdict": trust.verdict, **{name: [each.answer, each.sentence] for name, each in answers.items()}}


def _truth(row: int, is_wrong: dict[str, Any]) -> dict[str, Any]:
    """Return the errors on the block of rows that ends at a look."""
    block = slice(row - BLOCK, row)
    return {"errors": {name: float(wrong[block].mean()) for name, wrong in is_wrong.items()}}


def main() -> None:
    """Play the cases and keep what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.cases:
        found = {"measured_with": origin(), **_rounded(play(name))}
        (options.folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        errors = "  ".join(f"{each} {100 * error:.1f}" for each, error in found["errors"].items())
        print(f"{name:22} {errors}  guard {found['guard']}", flush=True)


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _rounded(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_rounded(value) for value in found]
    if isinstance(found, float):
        return None if np.isnan(found) else round(found, 5)
    return found


if __name__ == "__main__":
    main()
