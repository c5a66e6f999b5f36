"""NannyML's CBPE and DLE; runs in NannyML's environment."""

from __future__ import annotations

import os
from typing import Any

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"

import numpy as np
import pandas as pd
from nannyml import CBPE, DLE

from benchmarks.peers.serving import Array, serve_answers


def answer(request: dict[str, Any]) -> dict[str, Array]:
    """Return what is estimated of every window."""
    with np.load(request["data"]) as data:
        return estimate_windows(dict(data), request["window"])


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


if __name__ == "__main__":
    serve_answers("nannyml", answer)
