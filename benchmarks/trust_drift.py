"""Drift events beside two other detectors: false alarms on streams that stand still, and delays after jumps.

ADWIN is river's, one per column with its default delta split among them. It is left out if river is not installed. The
MMD test is the usual one with a Gaussian kernel of median width and permutations: the last 64 rows against 256 rows of
the reference, every 32 rounds. Like ours, both see only the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous import AdaptiveClassifier
from accous.streams import GaussianStream, Shift
from accous.threads import one_blas_thread

__all__ = ["CASES", "DETECTORS", "Jump", "drift_row", "measure_alarms"]

FloatArray = NDArray[np.float64]

JUMP_ROUND = 300
N_ROUNDS = 900
MMD_ROWS, MMD_REFERENCE, MMD_EVERY, MMD_PERMUTATIONS, MMD_LEVEL = 64, 256, 32, 200, 0.01


@dataclass(frozen=True)
class Jump(Shift):
    """Alpha jumps once."""

    before: float = 0.9
    after: float = 0.1
    at: int = JUMP_ROUND

    def _alphas(self, rounds: NDArray[np.int64], generator: np.random.Generator) -> FloatArray:
        return np.where(rounds <= self.at, self.before, self.after)


CASES = {
    "no jump": Jump(0.9, 0.9),
    "0.9 to 0.1": Jump(0.9, 0.1),
    "0.9 to 0.5": Jump(0.9, 0.5),
    "0.9 to 0.7": Jump(0.9, 0.7),
}


def drift_row(detector: str, case: str, batch_size: int, n_references: int) -> dict[str, Any]:
    """Return false alarms per 1,000 rounds, the share of jumps found, and the delays."""
    jump = CASES[case]
    has_jump = jump.before != jump.after
    found = [measure_alarms(detector, case, batch_size, seed) for seed in range(n_references)]
    n_quiet = JUMP_ROUND if has_jump else N_ROUNDS
    n_false = sum(sum(alarm <= n_quiet for alarm in alarms) for alarms in found)
    firsts = [next((alarm - JUMP_ROUND for alarm in alarms if alarm > JUMP_ROUND), None) for alarms in found]
    delays = [delay for delay in firsts if delay is not None] if has_jump else []
    afterwards = [sum(alarm > JUMP_ROUND for alarm in alarms) for alarms in found] if has_jump else []
    return {
        "detector": detector,
        "case": case,
        "batch_size": batch_size,
        "n_references": n_references,
        "false_alarms_per_1000": 1000.0 * n_false / (n_quiet * n_references),
        "streams_with_false_alarms": float(np.mean([any(a <= n_quiet for a in alarms) for alarms in found])),
        "found": len(delays) / n_references if has_jump else None,
        "median_delay": float(np.median(delays)) if delays else None,
        "delay_90": float(np.quantile(delays, 0.9)) if delays else None,
        "alarms_after_jump": float(np.mean(afterwards)) if afterwards else None,
    }


def measure_alarms(detector: str, case: str, batch_size: int, seed: int) -> list[int]:
    """Return the rounds in which a detector raised an alarm."""
    stream = GaussianStream(CASES[case], n_rounds=N_ROUNDS, batch_size=batch_size, random_state=seed)
    with one_blas_thread():
        return DETECTORS[detector](stream)


def accous_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which the distribution shifted."""
    model = AdaptiveClassifier(standardize=False).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    return [event.round for event in model.drift_events_ if event.kind == "shift"]


def adwin_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which river's ADWIN found a change in any column; all columns then restart."""
    from river import drift

    adwin: Any = drift.ADWIN  # river has no types

    def fresh() -> list[Any]:
        return [adwin(delta=0.002 / stream.n_features) for _ in range(stream.n_features)]

    detectors, alarms = fresh(), []
    for x in stream.reference()[0]:
        _feed(detectors, x)
    for batch in stream:
        if sum(_feed(detectors, x) for x in batch.X):
            alarms.append(batch.round)
            detectors = fresh()
    return alarms


def _feed(detectors: list[Any], x: FloatArray) -> bool:
    for detector, value in zip(detectors, x.tolist(), strict=True):
        detector.update(value)
    return any(detector.drift_detected for detector in detectors)


def mmd_alarms(stream: GaussianStream) -> list[int]:
    """Return the rounds in which the MMD test rejects, only the first of each run of rejections."""
    rng = np.random.default_rng(0)
    reference = stream.reference()[0][:MMD_REFERENCE]
    recent: list[FloatArray] = []
    alarms, was_rejected = [], False
    for batch in stream:
        recent = [*recent, *batch.X][-MMD_ROWS:]
        if batch.round % MMD_EVERY or len(recent) < MMD_ROWS:
            continue
        is_rejected = _mmd_p_value(reference, np.array(recent), rng) <= MMD_LEVEL
        if is_rejected and not was_rejected:
            alarms.append(batch.round)
        was_rejected = is_rejected
    return alarms


def _mmd_p_value(reference: FloatArray, rows: FloatArray, rng: np.random.Generator) -> float:
    joint = np.concatenate((reference, rows))
    squares = ((joint[:, None, :] - joint[None, :, :]) ** 2).sum(axis=2)
    kernel = np.exp(-squares / np.median(squares[squares > 0.0]))
    np.fill_diagonal(kernel, 0.0)
    labels = np.zeros(len(joint), dtype=bool)
    labels[len(reference) :] = True
    observed = _mmd(kernel, labels)
    n_above = sum(_mmd(kernel, rng.permutation(labels)) >= observed for _ in range(MMD_PERMUTATIONS))
    return (1 + n_above) / (1 + MMD_PERMUTATIONS)


def _mmd(kernel: FloatArray, labels: NDArray[np.bool_]) -> float:
    n, m = int(np.count_nonzero(~labels)), int(np.count_nonzero(labels))
    signs = np.where(labels, 1.0 / m, -1.0 / n)
    # The diagonal is zero; the two unbiased means differ from these only by constant factors.
    within = kernel @ signs
    return float(signs @ within)


DETECTORS: dict[str, Callable[[GaussianStream], list[int]]] = {"accous": accous_alarms, "MMD test": mmd_alarms}
if find_spec("river") is not None:
    DETECTORS["ADWIN (river)"] = adwin_alarms
