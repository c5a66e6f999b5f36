"""Compare ours with a peer on the same data: the speed of one update, and who solves the problem better.

Our solutions and the peers' are evaluated by the same plain code. Smaller objectives are always better. Kernels are
k(x, c) = exp(-||x - c||^2 / (2 width^2)); the centres of a ratio sum_l coef_l k(x, c_l) are the batch rows.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from accous import KLIEP, KMM, RULSIF, ULSIF, __version__
from accous.streams import ConstantShift, GaussianStream
from benchmarks.peers.processes import Answer, Peer, Problem
from benchmarks.peers.serving import Array, Contender, Settings, estimate_all

CLASSES: dict[str, Any] = {"ulsif": ULSIF, "rulsif": RULSIF, "kliep": KLIEP, "kmm": KMM}
TOLERANCE = 1e-6  # relative for objectives, absolute for constraints
NO_CUT = 1e12
Row = dict[str, Any]


def gaussian_problem(n_batches: int, **sizes: Any) -> Problem:
    """A Gaussian stream whose batches mix the two parts evenly, while the reference has nine tenths of one."""
    stream = GaussianStream(ConstantShift(0.5), n_rounds=n_batches, **sizes)
    rows, _ = stream.reference()
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    # Standardised here, so that ours (with feature_map="identity") and the peers get the same numbers.
    return Problem((rows - center) / scale, np.array([(batch.X - center) / scale for batch in stream]))


# --- our side -----------------------------------------------------------------------------------------------------


class Ours(Contender):
    """One of our estimators, already fitted on the reference; only its ``partial_fit`` is timed."""

    def __init__(self, method: str, settings: Settings, reference: Array) -> None:
        self.method, self.settings, keywords = method, settings, {}
        if settings:  # the peer's, without what only ours has: the cut of ratios and KMM's ridge
            keywords = ({"ridge": 0.0} if method == "kmm" else {"max_ratio": NO_CUT}) | settings
        self.model = CLASSES[method](feature_map="identity", random_state=0, **keywords).fit(reference)

    def estimate(self, reference: Array, batch: Array) -> Array:
        weights: Array = self.model.partial_fit(batch).reference_ratio_
        return weights

    def used(self) -> Settings:
        return {"width": float(self.model.width_)} | self.settings

    def expansion(self) -> tuple[Array, Array] | None:
        return None if self.method == "kmm" else (self.model.centers_, self.model.coef_)


def estimate_ours(method: str, problem: Problem, settings: list[Settings], at_least_seconds: float = 0.0) -> Answer:
    """Return our answer; ``settings`` has one entry per batch, and an empty one means our defaults."""
    keys = [json.dumps(chosen) for chosen in settings]
    fitted = {key: Ours(method, json.loads(key), problem.reference) for key in dict.fromkeys(keys)}
    found = estimate_all([fitted[key] for key in keys], problem.reference, problem.batches, at_least_seconds)
    return Answer(found["times"], found["weights"], found["coefs"], json.loads(found["used"]), __version__)


def seconds_to_fit(method: str, reference: Array, turns: int) -> float:
    """Return the best time of ``fit`` on the reference, which the peers' times include."""
    best = np.inf
    for _ in range(turns):
        start = time.perf_counter()
        CLASSES[method](feature_map="identity", random_state=0).fit(reference)
        best = min(best, time.perf_counter() - start)
    return float(best)


# --- what the methods minimise, and how far a solution violates the constraints -----------------------------------


def gaussian_kernel(rows: Array, centers: Array, width: float) -> Array:
    """Return the matrix of k(x_i, c_l), computed column by column."""
    columns = [np.exp(-0.5 * np.sum((rows - center) ** 2, axis=1) / width**2) for center in centers]
    return np.stack(columns, axis=1)


def least_squares_objective(
    reference: Array, batch: Array, coefs: Array, *, width: float, ridge: float, alpha: float = 0.0
) -> float:
    """(1 - alpha)/2 mean_ref r^2 + alpha/2 mean_batch r^2 - mean_batch r + ridge/2 |coefs|^2; alpha = 0 is uLSIF."""
    r_reference, r_batch = (gaussian_kernel(rows, batch, width) @ coefs for rows in (reference, batch))
    squares = (1.0 - alpha) * np.mean(r_reference**2) + alpha * np.mean(r_batch**2)
    return float(0.5 * squares - np.mean(r_batch) + 0.5 * ridge * np.sum(coefs**2))


def kliep_objective(r_reference: Array, r_batch: Array) -> float:
    """-mean_batch log r, with r divided by its mean over the reference, as the constraint mean_ref r = 1 requires."""
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(r_batch / np.mean(r_reference))))


def kliep_violation(r_reference: Array, r_batch: Array) -> float:
    """Return how far mean_ref r is from 1, or how far r is below 0."""
    lowest = min(r_reference.min(), r_batch.min())
    return float(max(0.0, -lowest, abs(np.mean(r_reference) - 1.0)))


def kmm_objective(reference: Array, batch: Array, weights: Array, *, width: float) -> float:
    """1/2 w'K w - kappa'w with kappa_i = n_reference / n_batch sum_j k(x_i, x_j), divided by n_reference^2."""
    kernel = gaussian_kernel(reference, reference, width)
    kappa = len(reference) * gaussian_kernel(reference, batch, width).mean(axis=1)
    return float((0.5 * weights @ kernel @ weights - kappa @ weights) / len(reference) ** 2)


def kmm_violation(weights: Array, *, max_ratio: float, mass_tolerance: float) -> float:
    """Return the largest excess over 0 <= w <= max_ratio and |mean w - 1| <= mass_tolerance."""
    excess = abs(np.mean(weights) - 1.0) - mass_tolerance
    return float(max(0.0, -weights.min(), weights.max() - max_ratio, excess))


def judge(method: str, problem: Problem, answer: Answer, settings: list[Settings]) -> tuple[Array, Array]:
    """Return objectives and violated constraints of an answer by batch, for the problems that the settings pose."""
    judged, reference = [], problem.reference
    for batch, weights, coefs, chosen in zip(problem.batches, answer.weights, answer.coefs, settings, strict=True):
        if method == "kmm":
            bounds = {name: chosen[name] for name in ("max_ratio", "mass_tolerance")}
            objective = kmm_objective(reference, batch, weights, width=chosen["width"])
            judged.append((objective, kmm_violation(weights, **bounds)))
        elif method == "kliep":
            r_batch = gaussian_kernel(batch, batch, chosen["width"]) @ coefs
            judged.append((kliep_objective(weights, r_batch), kliep_violation(weights, r_batch)))
        else:
            judged.append((least_squares_objective(reference, batch, coefs, **chosen), 0.0))
    objectives, violations = np.array(judged).T
    return objectives, violations


def compare(method: str, problem: Problem, ours: Answer, theirs: Answer) -> dict[str, float]:
    """Compare weights, objectives and constraints of two answers to the same problems with the same settings."""
    our_objective, our_violation = judge(method, problem, ours, theirs.used)
    objective, violation = judge(method, problem, theirs, theirs.used)
    scale = np.abs(theirs.weights).max(axis=1, keepdims=True)
    return {
        "largest_weight_difference": float(np.max(np.abs(ours.weights - theirs.weights) / scale)),
        "our_objective": float(our_objective.mean()),
        "peer_objective": float(objective.mean()),
        "worst_relative_excess": float(np.max((our_objective - objective) / np.abs(objective))),
        "our_violation": float(our_violation.max()),
        "peer_violation": float(violation.max()),
    }


# --- contests -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contest:
    """A method, a peer, and how many times faster ours should be."""

    method: str
    peer: str
    aim: float | None = None
    settings: Settings = field(default_factory=dict)  # for the peer; empty means its defaults


GIVEN = {"width": sqrt(6.0), "ridge": 0.1}  # gamma = 1/12, which is 1/d here; densratio then does not search
CONTESTS = (
    Contest("ulsif", "adapt", aim=50.0),
    Contest("ulsif", "densratio", aim=50.0),
    Contest("ulsif", "densratio", settings=GIVEN),
    Contest("rulsif", "adapt"),
    Contest("rulsif", "densratio"),
    Contest("rulsif", "densratio", settings=GIVEN | {"alpha": 0.1}),
    Contest("kliep", "adapt", aim=50.0),
    Contest("kliep", "densratio"),
    Contest("kliep", "densratio", settings={"width": sqrt(6.0)}),
    Contest("kliep", "skada"),
    Contest("kmm", "adapt", aim=400.0),
    Contest("kmm", "skada", aim=50.0),
)


def run_contest(contest: Contest, peer: Peer, problem: Problem, turns: int, seconds_a_turn: float) -> Row:
    """Alternate ours with default settings, ours with the peer's settings, and the peer."""
    method, settings = contest.method, contest.settings
    theirs = peer.estimate(method, problem, settings)  # also warms up the peer
    defaults: list[Settings] = [{}] * len(problem.batches)
    answers = [
        (
            peer.estimate(method, problem, settings, seconds_a_turn),
            estimate_ours(method, problem, defaults, seconds_a_turn),
            estimate_ours(method, problem, theirs.used, seconds_a_turn),
        )
        for _ in range(turns)
    ]
    # Wall and CPU seconds: the best turn of every batch, averaged over batches.
    times = [np.min([answer.times for answer in of_one], axis=0).mean(axis=0) for of_one in zip(*answers, strict=True)]
    (wall, work), (our_wall, our_work), (same_wall, same_work) = np.array(times).tolist()
    row = {
        "method": method,
        "peer": contest.peer,
        "peer_version": theirs.version,
        "peer_settings": "given" if settings else "default",
        "peer_seconds": wall,
        "our_seconds": our_wall,
        "our_seconds_same_settings": same_wall,
        "our_seconds_of_fit": seconds_to_fit(method, problem.reference, turns),
        "times_faster": wall / our_wall,
        "times_faster_same_settings": wall / same_wall,
        "times_less_work": work / our_work,
        "times_less_work_same_settings": work / same_work,
        **compare(method, problem, answers[0][2], theirs),
    }
    return row | {"aim": contest.aim, "verdict": verdict(contest.aim, row)}


def verdict(aim: float | None, row: Row) -> str:
    """Return pass or miss: fast by both clocks, also with the peer's settings, and its problem solved as well."""
    if aim is None:
        return ""
    is_fast = min(row[name] for name in row if name.startswith("times_")) >= aim
    is_as_good = row["worst_relative_excess"] <= TOLERANCE and row["our_violation"] <= TOLERANCE
    return "pass" if is_fast and is_as_good else "miss"
