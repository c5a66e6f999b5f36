"""What the fallback saves and what it costs: error of the adapted minus that of the fixed model, over many splits.

Errors are exact and taken in every fifth round: in closed form on Gaussians, on all rows of both pools on tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from accous import AdaptiveClassifier
from accous.threads import one_blas_thread
from benchmarks.problems import GaussianProblem, Problem, TableProblem

__all__ = ["HarmCase", "harm_row", "measure_excess"]

ROUNDS_BETWEEN_SCORES = 5
FALLBACKS = ("none", "auto")


@dataclass(frozen=True)
class HarmCase:
    """A kind of stream; ``data`` is "gauss" or the name of a table."""

    data: str
    shift: str
    n_reference: int
    batch_size: int
    n_rounds: int

    def problem(self, seed: int) -> Problem:
        """Return the stream of one split."""
        sizes = {"n_reference": self.n_reference, "batch_size": self.batch_size, "n_rounds": self.n_rounds}
        if self.data == "gauss":
            return GaussianProblem(self.shift, n_features=12, seed=seed, **sizes)
        return TableProblem(self.data, self.shift, seed=seed, **sizes)


def measure_excess(case: HarmCase, seed: int) -> dict[str, float]:
    """Return the mean error above that of the fixed model, in points, without and with the fallback."""
    problem = case.problem(seed)
    models = {
        name: AdaptiveClassifier(standardize=False, fallback=name).fit(problem.X, problem.y) for name in FALLBACKS
    }
    of_fixed = problem.component_risks(models["none"].estimator_)
    excess: dict[str, list[float]] = {name: [] for name in FALLBACKS}
    with one_blas_thread():
        for number, (batch, alpha) in enumerate(zip(problem.batches(), problem.alphas, strict=True), start=1):
            for name, model in models.items():
                if number % ROUNDS_BETWEEN_SCORES == 0:
                    of_model = problem.component_risks(model.estimator_)
                    excess[name].append(_mixed(of_model, alpha) - _mixed(of_fixed, alpha))
                model.adapt(batch)
    return {name: 100.0 * float(np.mean(values)) for name, values in excess.items()}


def harm_row(case: HarmCase, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return means, standard errors and the 90 % quantile over splits."""
    row: dict[str, Any] = dict(vars(case)) | {"n_splits": len(found)}
    for name in FALLBACKS:
        values = np.array([one[name] for one in found])
        row[name] = float(values.mean())
        row[f"{name}_standard_error"] = float(values.std(ddof=1) / np.sqrt(len(values)))
        row[f"{name}_quantile_90"] = float(np.quantile(values, 0.9))
    gain = -row["none"]
    row["share_of_gain_lost"] = (row["auto"] - row["none"]) / gain if gain > 0.5 else None
    return row


def _mixed(risks: tuple[float, float], alpha: float) -> float:
    return (1.0 - alpha) * risks[0] + alpha * risks[1]
