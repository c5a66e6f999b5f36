"""Compare the error without labels with NannyML's CBPE, on the streams of ``benchmarks.trust_cbpe``.

Both use the fixed model. NannyML gets its cross-fitted probabilities on the reference with the labels, and at every
look those of the latest 100 rows as a chunk. The true error is known in closed form.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.arrays import FloatArray
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from benchmarks.peers.processes import Peer
from benchmarks.peers.tables import Grid
from benchmarks.problems import SHIFTS
from benchmarks.trust_cbpe import CHUNK_ROWS, LOOKS, N_ROUNDS, Cbpe

__all__ = ["measure_risks", "risk_grid"]


def measure_risks(peer: Peer, shift: str, n_references: int) -> dict[str, Any]:
    """Return mean absolute errors and biases in points, and the milliseconds of one estimate."""
    found: list[dict[str, FloatArray]] = []
    version = ""
    for seed in range(n_references):
        looks, question = look_at_stream(shift, seed)
        answer, version = peer.ask({}, **question)
        found.append({**looks, "theirs": answer["errors"], "their_seconds": answer["seconds"]})
        found[-1]["their_seconds_together"] = answer["seconds_together"] / len(LOOKS)
    columns = {name: np.array([one[name] for one in found]) for name in found[0]}
    estimates = {"ours": "fixed", "theirs": "fixed", "transcribed": "fixed", "ours_adapted": "adapted"}
    row: dict[str, Any] = {"shift": shift, "n_references": n_references, "peer": "nannyml", "peer_version": version}
    for name, truth in estimates.items():
        deviations = 100.0 * (columns[name] - columns[f"true_{truth}"])
        row |= {f"{name}_error": float(np.abs(deviations).mean()), f"{name}_bias": float(deviations.mean())}
    names = ("our_seconds", "their_seconds", "their_seconds_together")
    return row | {name.replace("seconds", "milliseconds"): 1e3 * float(columns[name].mean()) for name in names}


def look_at_stream(shift: str, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return our estimates and the truth at every look, and the request for NannyML."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=N_ROUNDS, random_state=seed)
    recent: deque[FloatArray] = deque(maxlen=CHUNK_ROWS)
    looks: list[dict[str, float]] = []
    chunks = []
    with one_blas_thread():
        model: Any = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        cbpe = Cbpe(model)
        fixed = model.fixed_.estimator
        for batch in stream:
            if batch.round in LOOKS:
                rows = np.concatenate(recent)
                chunks.append(fixed.predict_proba(rows)[:, 1])
                looks.append(_look(model, stream, batch.alpha) | {"transcribed": cbpe.estimate(rows)})
            recent.append(batch.X)
            model.adapt(batch.X)
        of_reference = model.erm_.cross_fitted_probabilities(model.base_weight_, fixed)[:, 1]
    question = {"reference_probabilities": of_reference, "reference_labels": model.labels_}
    columns = {name: np.array([look[name] for look in looks]) for name in looks[0]}
    return columns, question | {"chunk_probabilities": np.array(chunks)}


def _look(model: Any, stream: GaussianStream, alpha: float) -> dict[str, float]:
    start = time.process_time()
    risk = model.risk_
    seconds = time.process_time() - start
    return {
        "ours": risk.fixed,
        "ours_adapted": risk.adapted,
        "our_seconds": seconds,
        "true_fixed": stream.risk(model.fixed_.estimator, alpha),
        "true_adapted": stream.risk(model.estimator_, alpha),
    }


def risk_grid(rows: list[dict[str, Any]]) -> Grid:
    """Return errors in points and times in milliseconds, one line per shift."""
    version, n_references = rows[0]["peer_version"], rows[0]["n_references"]
    title = f"Error without labels beside NannyML {version}, {n_references} references a shift"
    headings: tuple[str, ...] = ("shift", "fixed model: accous", "NannyML", "transcription", "bias: accous", "NannyML")
    headings += ("adapted model: accous", "ms: accous", "NannyML, one chunk", "NannyML, six at once")
    lines = [
        [
            "standing still" if row["shift"] == "none" else row["shift"],
            *(f"{row[name]:.1f}" for name in ("ours_error", "theirs_error", "transcribed_error")),
            *(f"{row[name]:+.1f}" for name in ("ours_bias", "theirs_bias")),
            f"{row['ours_adapted_error']:.1f}",
            f"{row['our_milliseconds']:.2f}",
            *(f"{row[name]:.1f}" for name in ("their_milliseconds", "their_milliseconds_together")),
        ]
        for row in rows
    ]
    return Grid(title, headings, lines)
