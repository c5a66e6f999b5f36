"""Compare the error without labels with NannyML's CBPE, on Gaussian streams whose true error is known.

Both use the fixed model. NannyML gets its cross-fitted probabilities on the reference with the labels, and at every
look those of the latest 100 rows as a chunk.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from benchmarks.data import SHIFTS, FloatArray
from benchmarks.peers.processes import Peer

CHUNK_ROWS = 100
LOOKS = (150, 200, 250, 300, 350, 400)


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
    row: dict[str, Any] = {"shift": shift, "n_references": n_references, "peer": "nannyml", "peer_version": version}
    for name, truth in {"ours": "fixed", "theirs": "fixed", "ours_adapted": "adapted"}.items():
        deviations = 100.0 * (columns[name] - columns[f"true_{truth}"])
        row |= {f"{name}_error": float(np.abs(deviations).mean()), f"{name}_bias": float(deviations.mean())}
    names = ("our_seconds", "their_seconds", "their_seconds_together")
    return row | {name.replace("seconds", "milliseconds"): 1e3 * float(columns[name].mean()) for name in names}


def look_at_stream(shift: str, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return our estimates and the truth at every look, and the request for NannyML."""
    stream = GaussianStream(SHIFTS[shift], n_rounds=max(LOOKS), random_state=seed)
    recent: deque[FloatArray] = deque(maxlen=CHUNK_ROWS)
    looks, chunks = [], []
    with one_blas_thread():
        model: Any = AdaptiveClassifier(standardize=False).fit(*stream.reference())
        fixed = model.fixed_.estimator
        for batch in stream:
            if batch.round in LOOKS:
                chunks.append(fixed.predict_proba(np.concatenate(recent))[:, 1])
                start = time.process_time()
                risk = model.risk_
                seconds = time.process_time() - start
                true = [stream.risk(each, batch.alpha) for each in (fixed, model.estimator_)]
                looks.append((risk.fixed, risk.adapted, seconds, *true))
            recent.append(batch.X)
            model.adapt(batch.X)
        of_reference = model.erm_.cross_fitted_probabilities(model.base_weight_, fixed)[:, 1]
    question = {"reference_probabilities": of_reference, "reference_labels": model.labels_}
    names = ("ours", "ours_adapted", "our_seconds", "true_fixed", "true_adapted")
    columns = dict(zip(names, np.array(looks).T, strict=True))
    return columns, question | {"chunk_probabilities": np.array(chunks)}
