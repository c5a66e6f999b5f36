"""Speed and accuracy of the ratio estimators: ``make bench``.

Speed is rounds per second of ``partial_fit`` beside the slow transcription of the paper that the tests use; the two
are timed in turns in one process, so their quotient holds on a busy machine. Accuracy is the mean |r_hat - r*| over
the reference on the reconstructed Gaussian streams, where the true ratio r* is known.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import accous
from accous import NoShift, OnlineDensityRatio, SingleLearnerRatio
from benchmarks.problems import GaussianProblem
from tests.oracles import Learner, PaperAccous

RESULTS = Path(__file__).parent / "results" / "ratio.json"
SHAPES = ((1000, 12, 1), (1000, 12, 5), (5000, 64, 5))
MOVING_SHIFTS = ("Lin", "Squ", "Sin", "Ber")
ESTIMATORS: dict[str, Callable[[], Any]] = {
    "accous": OnlineDensityRatio,
    "single learner": SingleLearnerRatio,
    "ratio 1": NoShift,
}
WARM_UP_ROUNDS = 1100
TIMED_ROUNDS = 64
TIMED_TURNS = 5
ROUNDS_BETWEEN_SCORES = 10

FloatArray = NDArray[np.float64]


def main() -> None:
    """Run both measurements, print them and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each stream (default 10000)")
    parser.add_argument("--seeds", type=int, default=5, help="streams per shift (default 5)")
    parser.add_argument("--jobs", type=int, default=2, help="processes for the accuracy part (default 2)")
    arguments = parser.parse_args()
    console = Console()
    speed = [measure_speed(*shape) for shape in track(SHAPES, "speed", console=console)]
    console.print(speed_table(speed))
    accuracy = measure_accuracy(arguments.rounds, arguments.seeds, arguments.jobs, console)
    console.print(accuracy_table(accuracy, arguments.rounds, arguments.seeds))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(provenance() | {"speed": speed, "accuracy": accuracy}, indent=1) + "\n")
    console.print(f"Written to {RESULTS.relative_to(Path.cwd())}")


def measure_speed(n_reference: int, n_features: int, batch_size: int) -> dict[str, float]:
    """Rounds per second of the fast and of the slow version, both from the same state around round 1100."""
    rng = np.random.default_rng(0)
    fast = OnlineDensityRatio(step_size=10.0, meta_range="paper").fit(rng.normal(size=(n_reference, n_features)))
    batches = rng.normal(loc=0.5, size=(WARM_UP_ROUNDS + TIMED_TURNS * TIMED_ROUNDS, batch_size, n_features))
    for batch in batches[:WARM_UP_ROUNDS]:
        fast.partial_fit(batch)
    slow = slow_twin(fast)
    best_fast, best_slow = np.inf, np.inf
    for turn in range(TIMED_TURNS):
        first = WARM_UP_ROUNDS + turn * TIMED_ROUNDS
        start = time.perf_counter()
        for batch in batches[first : first + TIMED_ROUNDS]:
            fast.partial_fit(batch)
        best_fast = min(best_fast, (time.perf_counter() - start) / TIMED_ROUNDS)
        features, _ = fast.features_.transform(batches[first])
        start = time.perf_counter()
        slow.play(features)
        best_slow = min(best_slow, time.perf_counter() - start)
    return {
        "n_reference": n_reference,
        "n_features": n_features,
        "batch_size": batch_size,
        "rounds_per_second": 1.0 / best_fast,
        "slow_rounds_per_second": 1.0 / best_slow,
        "speed_up": best_slow / best_fast,
    }


def slow_twin(fast: OnlineDensityRatio) -> PaperAccous:
    """Put the slow transcription into the state of the fast one, so that both have the same learners to move."""
    slow = PaperAccous(
        fast.reference_features_,
        radius=fast.radius_,
        feature_bound=fast.features_.norm_bound,
        step_size=fast.step_size_,
        horizon=None,
    )
    state = fast.state_
    slow.round = state.n_rounds
    for i, length in enumerate(state.lengths.tolist()):
        start = (state.n_rounds + 1) // length * length
        slow.learners[(start, start + length - 1)] = Learner(
            state.learners.coefs[i].copy(),
            state.learners.matrices[i].copy(),
            float(np.exp(state.meta.log_potentials[i])),
            float(state.meta.rates[i]),
            float(state.meta.squares[i]),
        )
    slow._describe()
    return slow


def measure_accuracy(n_rounds: int, n_seeds: int, n_jobs: int, console: Console) -> list[dict[str, Any]]:
    """Mean |r_hat - r*| of every estimator on every stream."""
    cases = [
        (name, shift, batch_size, seed)
        for batch_size in (1, 5)
        for shift in MOVING_SHIFTS
        for seed in range(n_seeds)
        for name in ESTIMATORS
    ]
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(delayed(ratio_error)(*case, n_rounds) for case in cases)
    errors = list(track(jobs, "accuracy", total=len(cases), console=console))
    rows = []
    for batch_size in (1, 5):
        for shift in MOVING_SHIFTS:
            for name in ESTIMATORS:
                values = [
                    error for case, error in zip(cases, errors, strict=True) if case[:3] == (name, shift, batch_size)
                ]
                rows.append(
                    {
                        "estimator": name,
                        "shift": shift,
                        "batch_size": batch_size,
                        "mean": float(np.mean(values)),
                        "standard_error": float(np.std(values, ddof=1) / np.sqrt(len(values))) if n_seeds > 1 else 0.0,
                    }
                )
    return rows


def ratio_error(name: str, shift: str, batch_size: int, seed: int, n_rounds: int) -> float:
    """Mean |r_hat - r*| over the reference and over every tenth round, predicted before the round is seen."""
    problem = GaussianProblem(
        shift, n_features=12, n_reference=1000, batch_size=batch_size, n_rounds=n_rounds, seed=seed
    )
    ratio = ESTIMATORS[name]().fit(problem.X)
    errors = []
    for n_played, (alpha, batch) in enumerate(zip(problem.alphas, problem.batches(), strict=True)):
        if n_played % ROUNDS_BETWEEN_SCORES == 0:
            errors.append(np.abs(ratio.reference_ratio_ - problem.true_ratio(float(alpha))).mean())
        ratio.partial_fit(batch)
    return float(np.mean(errors))


def speed_table(rows: list[dict[str, float]]) -> Table:
    """Speed as a table for people."""
    table = Table(title="Rounds per second of partial_fit, around round 1100")
    for heading in ("reference rows", "features", "batch rows", "accous", "slow transcription", "times faster"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            f"{row['n_reference']:.0f}",
            f"{row['n_features']:.0f}",
            f"{row['batch_size']:.0f}",
            f"{row['rounds_per_second']:.0f}",
            f"{row['slow_rounds_per_second']:.2f}",
            f"{row['speed_up']:.0f}",
        )
    return table


def accuracy_table(rows: list[dict[str, Any]], n_rounds: int, n_seeds: int) -> Table:
    """Accuracy as a table for people."""
    table = Table(title=f"Mean |r_hat - r*| over the reference, {n_rounds} rounds, {n_seeds} seeds (± standard error)")
    table.add_column("batch rows", justify="right")
    table.add_column("estimator")
    for shift in MOVING_SHIFTS:
        table.add_column(shift, justify="right")
    for batch_size in (1, 5):
        for name in ESTIMATORS:
            chosen = [row for row in rows if row["estimator"] == name and row["batch_size"] == batch_size]
            cells = [f"{row['mean']:.3f} ± {row['standard_error']:.3f}" for row in chosen]
            table.add_row(str(batch_size), name, *cells)
    return table


def provenance() -> dict[str, str]:
    """What the numbers were measured with."""
    return {
        "accous": accous.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "machine": platform.machine(),
    }


if __name__ == "__main__":
    main()
