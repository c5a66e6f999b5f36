"""Batches and tables that are hard for the methods: are the weights finite, and how many rows do they leave?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import AccousError
from benchmarks.peers.ours import estimate_ours
from benchmarks.peers.problems import Problem, gaussian_problem
from benchmarks.peers.processes import Peer, PeerError

METHODS = {
    "adapt": ("ulsif", "rulsif", "kliep", "kmm"),
    "densratio": ("ulsif", "rulsif", "kliep"),
    "skada": ("kliep", "kmm"),
}
CASES = {
    "one row": {"n_reference": 1000, "n_features": 12, "batch_size": 1},
    "500 features": {"n_reference": 1000, "n_features": 500, "batch_size": 5},
    "1001 reference rows": {"n_reference": 1001, "n_features": 12, "batch_size": 5},
}
N_BATCHES = 3

Array = NDArray[np.float64]


def measure_edges(peers: dict[str, Peer]) -> Iterator[dict[str, Any]]:
    """Return the results of every method of every package, with default settings, in every case."""
    for case, shape in CASES.items():
        problem = gaussian_problem(**shape, n_batches=N_BATCHES)
        for method in METHODS["adapt"]:
            yield {"case": case, "method": method, "who": "accous"} | summarise(ask_us(method, problem))
            for name, peer in peers.items():
                if method in METHODS[name]:
                    yield {"case": case, "method": method, "who": name} | summarise(ask_peer(peer, method, problem))


def ask_us(method: str, problem: Problem) -> list[Array | str]:
    """Return our weights for every batch, or the error."""
    answers: list[Array | str] = []
    for batch in problem.batches:
        try:
            answers.append(estimate_ours(method, Problem(problem.reference, batch[None]), [{}]).weights[0])
        except AccousError as error:
            answers.append(f"{type(error).__name__}: {error}")
    return answers


def ask_peer(peer: Peer, method: str, problem: Problem) -> list[Array | str]:
    """Return a peer's weights for every batch, or its error."""
    answers: list[Array | str] = []
    for batch in problem.batches:
        try:
            answers.append(peer.estimate(method, Problem(problem.reference, batch[None])).weights[0])
        except PeerError as error:
            answers.append(str(error))
    return answers


def summarise(answers: list[Array | str]) -> dict[str, Any]:
    """Count weights that are not finite, and return the ranges of effective sample size, mean and exact zeros."""
    weights = [answer for answer in answers if not isinstance(answer, str)]
    finite = [answer for answer in weights if np.isfinite(answer).all()]
    return {
        "n_batches": len(answers),
        "n_not_finite": len(weights) - len(finite),
        "errors": [answer for answer in answers if isinstance(answer, str)],
        "effective_sample_size": extremes([effective_sample_size(answer) for answer in finite]),
        "mean": extremes([float(np.mean(answer)) for answer in finite]),
        "n_zero": extremes([float(np.sum(answer == 0.0)) for answer in finite]),
    }


def effective_sample_size(weights: Array) -> float:
    """Return Kish's number of equally weighted rows; 0 if all weights are 0."""
    squares = float(np.sum(weights**2))
    return float(np.sum(weights) ** 2 / squares) if squares > 0.0 else 0.0


def extremes(values: list[float]) -> list[float] | None:
    """Return the smallest and the largest, if there are any."""
    return [min(values), max(values)] if values else None
