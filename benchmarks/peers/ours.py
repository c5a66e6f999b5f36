"""Our side: answers to the same questions as the peers' runners."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from accous import KLIEP, KMM, RULSIF, ULSIF, __version__
from benchmarks.peers.problems import Problem
from benchmarks.peers.processes import Answer
from benchmarks.peers.serving import Array, Contender, Settings, estimate_all

CLASSES: dict[str, Any] = {"ulsif": ULSIF, "rulsif": RULSIF, "kliep": KLIEP, "kmm": KMM}
NO_CUT = 1e12


class Ours(Contender):
    """One of our estimators, already fitted on the reference; only its ``partial_fit`` is timed."""

    def __init__(self, method: str, settings: Settings, reference: Array) -> None:
        self.method, self.settings = method, settings
        self.model = CLASSES[method](feature_map="identity", random_state=0, **self._keywords()).fit(reference)

    def _keywords(self) -> Settings:
        """Return our defaults, or the peer's settings without what only ours has: the cut of ratios and KMM's ridge."""
        if not self.settings:
            return {}
        return {"ridge": 0.0} | self.settings if self.method == "kmm" else {"max_ratio": NO_CUT} | self.settings

    def estimate(self, reference: Array, batch: Array) -> Array:
        weights: Array = self.model.partial_fit(batch).reference_ratio_
        return weights

    def used(self) -> Settings:
        return {"width": float(self.model.width_)} | self.settings

    def expansion(self) -> tuple[Array, Array] | None:
        if self.method == "kmm":
            return None
        return self.model.centers_, self.model.coef_


def estimate_ours(method: str, problem: Problem, settings: list[Settings], at_least_seconds: float = 0.0) -> Answer:
    """Return our answer; ``settings`` has one entry per batch, and an empty one means our defaults."""
    fitted: dict[str, Ours] = {}
    for chosen in settings:
        key = json.dumps(chosen)
        fitted[key] = fitted.get(key) or Ours(method, chosen, problem.reference)
    contenders = [fitted[json.dumps(chosen)] for chosen in settings]
    answer = estimate_all(contenders, problem.reference, problem.batches, at_least_seconds)
    return Answer(answer["times"], answer["weights"], answer["coefs"], json.loads(answer["used"]), __version__)


def seconds_to_fit(method: str, reference: Array, turns: int) -> float:
    """Return the best time of ``fit`` on the reference, which the peers' times include."""
    best = np.inf
    for _ in range(turns):
        start = time.perf_counter()
        CLASSES[method](feature_map="identity", random_state=0).fit(reference)
        best = min(best, time.perf_counter() - start)
    return float(best)
