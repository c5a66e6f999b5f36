"""Label-free risk beside a transcription of CBPE, NannyML's method: a part of ``benchmarks.trust``.

CBPE (confidence-based performance estimation) calibrates the fixed model's probabilities on the reference by isotonic
regression. It then averages the calibrated probability of being wrong over the latest hundred rows. It covers one
model, which does not adapt. This is the method, not the package.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from accous import AdaptiveClassifier
from accous.arrays import FloatArray
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from benchmarks.problems import SHIFTS

__all__ = ["cbpe_row", "measure_cbpe"]

CHUNK_ROWS = 100
N_ROUNDS = 400
LOOKS = (150, 200, 250, 300, 350, 400)


class Cbpe:
    """Expected error of a fixed binary model on a chunk of rows."""

    def __init__(self, model: Any) -> None:
        self._predictor = model.fixed_.estimator
        probabilities = model.erm_.cross_fitted_probabilities(model.base_weight_, self._predictor)[:, 1]
        self._calibration = IsotonicRegression(out_of_bounds="clip").fit(probabilities, model.labels_)

    def estimate(self, X: FloatArray) -> float:
        """Return the mean calibrated probability of the class that is not predicted."""
        raw = self._predictor.predict_proba(X)[:, 1]
        calibrated = self._calibration.predict(raw)
        return float(np.where(raw > 0.5, 1.0 - calibrated, calibrated).mean())


def measure_cbpe(shift: str, seed: int) -> dict[str, float]:
    """Return the errors of both estimates for the fixed model, of ours for the adapted model, and the times."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=N_ROUNDS, random_state=seed)
    recent: deque[FloatArray] = deque(maxlen=CHUNK_ROWS)
    found = []
    with one_blas_thread():
        model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        cbpe = Cbpe(model)
        for batch in stream:
            if batch.round in LOOKS:
                found.append(_compare(model, cbpe, np.concatenate(recent), stream, batch.alpha))
            recent.append(batch.X)
            model.adapt(batch.X)
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


def _compare(model: Any, cbpe: Cbpe, rows: FloatArray, stream: GaussianStream, alpha: float) -> dict[str, float]:
    true_fixed, true_adapted = (stream.risk(one, alpha) for one in (model.fixed_.estimator, model.estimator_))
    start = time.thread_time()
    risk = model.sampling_risk()
    middle = time.thread_time()
    theirs = cbpe.estimate(rows)
    return {
        "ours_fixed": abs(risk.fixed - true_fixed),
        "cbpe_fixed": abs(theirs - true_fixed),
        "ours_adapted": abs(risk.adapted - true_adapted),
        "ours_fixed_bias": risk.fixed - true_fixed,
        "cbpe_fixed_bias": theirs - true_fixed,
        "ours_microseconds": 1e6 * (middle - start),
        "cbpe_microseconds": 1e6 * (time.thread_time() - middle),
    }


def cbpe_row(shift: str, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return means over references, with errors in points."""
    means = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    scaled = {name: value if "microseconds" in name else 100.0 * value for name, value in means.items()}
    return {"shift": shift, "n_references": len(found), **scaled}
