"""NannyML's CBPE and DLE; runs in NannyML's environment."""

from __future__ import annotations

import os
import time
from typing import Any

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import numpy as np
import pandas as pd
from nannyml import CBPE, DLE
from numpy.typing import NDArray

from benchmarks.peers.serving import Array, serve_answers


def answer(request: dict[str, Any]) -> dict[str, Array]:
    """Return the estimated error of every chunk, and the CPU seconds for each alone and for all together."""
    if "window" in request:
        with np.load(request["data"]) as data:
            return estimate_windows(dict(data), request["window"])
    with np.load(request["data"]) as data:
        reference = frame(data["reference_probabilities"], labels=data["reference_labels"])
        chunks = [frame(probabilities) for probabilities in data["chunk_probabilities"]]
    estimator = CBPE(
        problem_type="classification_binary",
        y_pred_proba="probability",
        y_pred="predicted",
        y_true="label",
        metrics=["accuracy"],
        chunk_size=len(chunks[0]),
    )
    estimator.fit(reference)
    errors, seconds = zip(*(estimate(estimator, chunk) for chunk in chunks), strict=True)
    _, seconds_together = estimate(estimator, pd.concat(chunks, ignore_index=True))
    return {
        "errors": np.concatenate(errors),
        "seconds": np.array(seconds),
        "seconds_together": np.array(seconds_together),
    }


def estimate(estimator: CBPE, rows: pd.DataFrame) -> tuple[Array, float]:
    """Return the error of each chunk of the rows, and the CPU seconds."""
    start = time.process_time()
    result = estimator.estimate(rows)
    seconds = time.process_time() - start
    accuracies = result.filter(period="analysis").to_df()["accuracy", "value"]
    return 1.0 - accuracies.to_numpy(dtype=np.float64), seconds


def estimate_windows(data: dict[str, Any], window: int) -> dict[str, Array]:
    """Return error, AUC and F1 of each window of classes, or the mean absolute error of numbers."""
    if "features" in data:
        names = [f"x{number}" for number in range(data["features"].shape[1])]
        tables = [
            pd.DataFrame(data[f"{part}features"], columns=names).assign(predicted=data[f"{part}predicted"])
            for part in ("reference_", "")
        ]
        estimator = DLE(
            feature_column_names=names, y_pred="predicted", y_true="label", metrics=["mae"], chunk_size=window
        )
        estimator.fit(tables[0].assign(label=data["reference_labels"]))
        found = estimator.estimate(tables[1]).filter(period="analysis").to_df()
        return {"mean_absolute_error": found["mae", "value"].to_numpy(dtype=np.float64)}
    n_classes = data["probabilities"].shape[1]
    columns = {number: f"p{number}" for number in range(n_classes)}
    kind = "binary" if n_classes == 2 else "multiclass"
    tables = [
        pd.DataFrame(data[f"{part}probabilities"], columns=list(columns.values())).assign(
            predicted=data[f"{part}probabilities"].argmax(axis=1)
        )
        for part in ("reference_", "")
    ]
    estimator = CBPE(
        problem_type=f"classification_{kind}",
        y_pred_proba="p1" if n_classes == 2 else columns,
        y_pred="predicted",
        y_true="label",
        metrics=["accuracy", "roc_auc", "f1"],
        chunk_size=window,
    )
    estimator.fit(tables[0].assign(label=data["reference_labels"]))
    found = estimator.estimate(tables[1]).filter(period="analysis").to_df()
    values = {name: found[name, "value"].to_numpy(dtype=np.float64) for name in ("accuracy", "roc_auc", "f1")}
    return {"error": 1.0 - values["accuracy"], "roc_auc": values["roc_auc"], "f1": values["f1"]}


def frame(probabilities: Array, labels: NDArray[np.int64] | None = None) -> pd.DataFrame:
    """Return rows in the form that NannyML needs."""
    columns: dict[str, Any] = {"probability": probabilities, "predicted": (probabilities > 0.5).astype(np.int64)}
    return pd.DataFrame(columns if labels is None else columns | {"label": labels})


if __name__ == "__main__":
    serve_answers("nannyml", answer)
