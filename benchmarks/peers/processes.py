"""The peers' processes: one runner each, kept running so that it can take turns with ours."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from benchmarks.pages import ROOT
from benchmarks.peers.serving import Array, Settings

ENVIRONMENTS = ROOT / "benchmarks" / ".peers"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class PeerError(Exception):
    """The peer raised an error, whose message this is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A reference with columns of mean 0 and deviation 1, and batches on the same scale."""

    reference: Array  # of shape (n_reference, n_features)
    batches: Array  # of shape (n_batches, batch_size, n_features)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of an estimator for each batch of a problem."""

    times: Array  # of shape (n_batches, 2): wall and CPU seconds, each the best of its repetitions
    weights: Array  # of shape (n_batches, n_reference)
    coefs: Array  # of shape (n_batches, batch_size), by batch row; NaN if the method has none
    used: list[Settings]  # by batch: the settings given, and those the peer chose
    version: str


class Peer:
    """One runner in its own environment; a context manager."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Self:
        python = ENVIRONMENTS / self.name / "bin" / "python"
        if not python.exists():
            raise SystemExit(f"There is no environment for {self.name}: run `make bench-peers` to build it.")
        self._folder = tempfile.TemporaryDirectory()
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONPATH": ""}
        self._process = subprocess.Popen(
            [python, "-m", f"benchmarks.peers.runner_{self.name}"],
            cwd=ROOT,
            env=os.environ | ONE_THREAD | quiet,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.communicate()
        self._folder.cleanup()

    def estimate(
        self, method: str, problem: Problem, settings: Settings | None = None, at_least_seconds: float = 0.0
    ) -> Answer:
        """Return the peer's weights for every batch, with its own defaults where ``settings`` has no entry."""
        request = {"method": method, "settings": settings or {}, "at_least_seconds": at_least_seconds}
        arrays, version = self.ask(request, reference=problem.reference, batches=problem.batches)
        return Answer(arrays["times"], arrays["weights"], arrays["coefs"], json.loads(str(arrays["used"])), version)

    def ask(self, request: dict[str, Any], **arrays: Any) -> tuple[dict[str, NDArray[Any]], str]:
        """Send arrays to the peer; return the arrays that it answers, and its version."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        data, answer = (str(Path(self._folder.name) / name) for name in ("data.npz", "answer.npz"))
        np.savez(data, **arrays)
        print(json.dumps(request | {"data": data, "answer": answer}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"The runner of {self.name} stopped: start it by hand to see why.")
        reply = json.loads(line)
        if "error" in reply:
            raise PeerError(reply["error"])
        with np.load(answer) as answered:
            return dict(answered), reply["version"]
