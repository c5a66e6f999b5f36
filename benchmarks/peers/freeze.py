"""Store the peers' answers to small problems with the tests, so that the tests need no peer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.problems import gaussian_problem
from benchmarks.peers.processes import ROOT, Answer, Peer, Settings

FROZEN = ROOT / "tests" / "peers" / "answers.npz"
SHAPE = {"n_reference": 120, "n_features": 3, "batch_size": 8, "n_batches": 3}

LEAST_SQUARES = {"width": 1.5, "ridge": 0.1}
LOOSE = {"width": 1.5, "max_ratio": 1000.0, "mass_tolerance": 0.9}
TIGHT = {"width": 1.5, "max_ratio": 4.0, "mass_tolerance": 0.05}  # both bounds are reached
QUESTIONS: dict[str, tuple[str, Settings, tuple[str, ...]]] = {
    "ulsif": ("ulsif", LEAST_SQUARES, ("adapt", "densratio")),
    "rulsif": ("rulsif", LEAST_SQUARES | {"alpha": 0.1}, ("adapt", "densratio")),
    "kliep": ("kliep", {"width": 1.5}, ("adapt", "densratio", "skada")),
    "kmm": ("kmm", LOOSE, ("adapt", "skada")),
    "kmm_tight": ("kmm", TIGHT, ("adapt", "skada")),
}


def freeze(peers: dict[str, Peer]) -> Path:
    """Ask every peer every question and store the answers."""
    problem = gaussian_problem(**SHAPE)
    arrays: dict[str, Any] = {"reference": problem.reference, "batches": problem.batches}
    versions = {}
    for question, (method, settings, names) in QUESTIONS.items():
        for name in names:
            answer: Answer = peers[name].estimate(method, problem, settings)
            arrays[f"{question}/{name}/weights"] = answer.weights
            arrays[f"{question}/{name}/coefs"] = answer.coefs
            versions[name] = answer.version
    settings_of = {question: settings for question, (_, settings, _) in QUESTIONS.items()}
    FROZEN.parent.mkdir(exist_ok=True)
    np.savez_compressed(FROZEN, settings=json.dumps(settings_of), versions=json.dumps(versions), **arrays)
    return FROZEN.relative_to(ROOT)
