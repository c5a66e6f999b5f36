"""Compare ours with a peer on the same data: the speed of one update, and who solves the problem better."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.peers.objectives import (
    Array,
    gaussian_kernel,
    kliep_objective,
    kliep_violation,
    kmm_objective,
    kmm_violation,
    least_squares_objective,
)
from benchmarks.peers.ours import estimate_ours, seconds_to_fit
from benchmarks.peers.problems import Problem
from benchmarks.peers.processes import Answer, Peer, Settings

TOLERANCE = 1e-6  # relative for objectives, absolute for constraints


@dataclass(frozen=True, slots=True)
class Contest:
    """A method, a peer, and how many times faster ours should be."""

    method: str
    peer: str
    aim: float | None = None
    settings: Settings = field(default_factory=dict)  # for the peer; empty means its defaults

    @property
    def title(self) -> str:
        """The name of the peer's settings in the table."""
        return "given" if self.settings else "default"


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


@dataclass(frozen=True, slots=True)
class Solution:
    """The quality of an answer for each batch."""

    objective: Array
    violation: Array


def run_contest(contest: Contest, peer: Peer, problem: Problem, turns: int, seconds_a_turn: float) -> dict[str, Any]:
    """Alternate ours with default settings, ours with the peer's settings, and the peer."""
    n_batches = len(problem.batches)
    answers = {"default": [], "same": [], "peer": []}  # type: dict[str, list[Answer]]
    theirs = peer.estimate(contest.method, problem, contest.settings)  # also warms up the peer
    for _ in range(turns):
        answers["default"].append(estimate_ours(contest.method, problem, [{}] * n_batches, seconds_a_turn))
        answers["same"].append(estimate_ours(contest.method, problem, theirs.used, seconds_a_turn))
        answers["peer"].append(peer.estimate(contest.method, problem, contest.settings, seconds_a_turn))
    (peer_wall, peer_work), (wall, work), (same_wall, same_work) = (
        best_times(answers[who]) for who in ("peer", "default", "same")
    )
    row = {
        "method": contest.method,
        "peer": contest.peer,
        "peer_version": theirs.version,
        "peer_settings": contest.title,
        "peer_seconds": peer_wall,
        "our_seconds": wall,
        "our_seconds_same_settings": same_wall,
        "our_seconds_of_fit": seconds_to_fit(contest.method, problem.reference, turns),
        "times_faster": peer_wall / wall,
        "times_faster_same_settings": peer_wall / same_wall,
        "times_less_work": peer_work / work,
        "times_less_work_same_settings": peer_work / same_work,
    }
    row |= compare(contest.method, problem, answers["same"][0], theirs)
    return row | {"aim": contest.aim, "verdict": verdict(contest.aim, row)}


def best_times(answers: list[Answer]) -> tuple[float, float]:
    """Return wall and CPU seconds: the best turn of every batch, averaged over batches."""
    wall, work = np.min([answer.times for answer in answers], axis=0).mean(axis=0)
    return float(wall), float(work)


def compare(method: str, problem: Problem, ours: Answer, theirs: Answer) -> dict[str, float]:
    """Compare weights, objectives and constraints of two answers to the same problems with the same settings."""
    our_solution, their_solution = (judge(method, problem, answer, theirs.used) for answer in (ours, theirs))
    scale = np.abs(theirs.weights).max(axis=1, keepdims=True)
    excess = (our_solution.objective - their_solution.objective) / np.abs(their_solution.objective)
    return {
        "largest_weight_difference": float(np.max(np.abs(ours.weights - theirs.weights) / scale)),
        "our_objective": float(our_solution.objective.mean()),
        "peer_objective": float(their_solution.objective.mean()),
        "worst_relative_excess": float(excess.max()),
        "our_violation": float(our_solution.violation.max()),
        "peer_violation": float(their_solution.violation.max()),
    }


def judge(method: str, problem: Problem, answer: Answer, settings: list[Settings]) -> Solution:
    """Return the objective and the violated constraints of an answer, for the problem that the settings pose."""
    judged = [
        judge_batch(method, problem.reference, batch, weights, coefs, chosen)
        for batch, weights, coefs, chosen in zip(problem.batches, answer.weights, answer.coefs, settings, strict=True)
    ]
    objectives, violations = zip(*judged, strict=True)
    return Solution(np.array(objectives), np.array(violations))


def judge_batch(
    method: str, reference: Array, batch: Array, weights: Array, coefs: Array, settings: Settings
) -> tuple[float, float]:
    """Return objective and violation for one batch."""
    if method == "kmm":
        bounds = {name: settings[name] for name in ("max_ratio", "mass_tolerance")}
        return kmm_objective(reference, batch, weights, width=settings["width"]), kmm_violation(weights, **bounds)
    if method == "kliep":
        r_batch = gaussian_kernel(batch, batch, settings["width"]) @ coefs
        return kliep_objective(weights, r_batch), kliep_violation(weights, r_batch)
    return least_squares_objective(reference, batch, coefs, **settings), 0.0


def verdict(aim: float | None, row: dict[str, Any]) -> str:
    """Return pass or miss: fast by both clocks, also with the peer's settings, and its problem solved as well."""
    if aim is None:
        return ""
    is_fast = min(row[name] for name in row if name.startswith("times_")) >= aim
    is_as_good = row["worst_relative_excess"] <= TOLERANCE and row["our_violation"] <= TOLERANCE
    return "pass" if is_fast and is_as_good else "miss"
