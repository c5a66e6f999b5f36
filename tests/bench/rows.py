"""Rows as `accous bench run` writes them, with made-up numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np

CONTENDERS = ("FIX", "DANN", "KMM", "KLIEP", "uLSIF", "LR", "OLRE", "accous", "oracle")
SHIFTS = ("Lin", "Squ", "Sin", "Ber")
LEVELS = {"FIX": 0.33, "DANN": 0.41, "KMM": 0.36, "KLIEP": 0.35, "uLSIF": 0.36, "LR": 0.35, "OLRE": 0.30}
LEVELS |= {"accous": 0.28, "oracle": 0.265}


def make_row(contender: str, seed: int, **changes: Any) -> dict[str, Any]:
    """One finished run; `changes` replace or add fields."""
    row: dict[str, Any] = {
        "format": 1,
        "status": "done",
        "reason": None,
        "spec": "table3",
        "dataset": "gaussian",
        "shift": "Squ",
        "batch_size": 1,
        "contender": contender,
        "seed": seed,
        "n_rounds": 10_000,
        "protocol": "predict_first",
        "n_reference": 1000,
        "n_features": 12,
        "error": LEVELS.get(contender, 0.3),
        "risk": None,
        "estimator_loss": None,
        "ratio_error": None,
        "effective_sample_size": 400.0,
        "ratio_regret": None,
        "cpu_seconds": 12.0,
        "curve": {"round": [5000, 10_000], "error": [0.3, 0.2]},
        "learner_weights": None,
        "settings": {"contender": {"": "Model", "C": "1.0", "random_state": str(seed)}, "stream": "Stream()"},
        "versions": {"accous": "0.1.0", "numpy": "2.0"},
        "commit": "abc1234",
        "machine": "x86_64, 2 cores",
        "finished": "2026-01-02T03:04:05+00:00",
    }
    row |= changes
    row.setdefault("n_rows", row["n_rounds"] * row["batch_size"])
    names = ("dataset", "shift", "batch_size", "contender", "seed", "n_rounds", "n_reference", "protocol")
    row.setdefault("run", "/".join(str(row[name]) for name in names))
    return row


def make_failure(contender: str, seed: int, reason: str = "it broke", **changes: Any) -> dict[str, Any]:
    """One failed run, with the fields that the runner still writes."""
    row = make_row(contender, seed, status="failed", reason=reason, error=None, **changes)
    for name in ("n_reference", "n_features", "n_rows", "curve", "learner_weights"):
        row.pop(name)
    return row


def table_rows(
    *,
    n_seeds: int = 5,
    shifts: tuple[str, ...] = SHIFTS,
    batch_sizes: tuple[int, ...] = (1, 5),
    contenders: tuple[str, ...] = CONTENDERS,
    **changes: Any,
) -> list[dict[str, Any]]:
    """A whole table, with noise that the contenders of a seed share in part, and risks a little below the errors."""
    generator = np.random.default_rng(0)
    rows = []
    for batch_size in batch_sizes:
        for shift in shifts:
            shared = generator.normal(0.0, 0.006, n_seeds)
            for contender in contenders:
                errors = LEVELS.get(contender, 0.3) + shared + generator.normal(0.0, 0.003, n_seeds)
                for seed, error in enumerate(errors.tolist()):
                    scores = {"error": round(error, 4), "risk": round(error - 0.002, 5)}
                    row = {"shift": shift, "batch_size": batch_size} | scores | changes
                    rows.append(make_row(contender, seed, **row))
    return rows


def switch_rows(n_seeds: int = 2, n_rounds: int = 400, period: int = 50) -> list[dict[str, Any]]:
    """Square shifts measured in every round, with the weights of the learners."""
    rounds = np.arange(1, n_rounds + 1)
    since = (rounds - 1) % period
    lengths = [4, 8, 16, 32, 64, 128]
    weights = np.array([[0.0 if length > t else 1.0 + (length == 64) for length in lengths] for t in rounds])
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
    rows = []
    for seed in range(n_seeds):
        for contender, pace in (("FIX", 1e9), ("OLRE", 20.0), ("accous", 5.0), ("oracle", 0.01)):
            risk = 0.25 + 0.15 * np.exp(-since / pace) + 0.001 * seed
            has_ratio = contender in ("OLRE", "accous")
            loss = (0.5 + 0.3 * np.exp(-since / pace)).tolist() if has_ratio else None
            curve = {
                "round": rounds.tolist(),
                "error": risk.round(4).tolist(),
                "risk": risk.round(4).tolist(),
                "estimator_loss": loss,
            }
            noted = {"round": rounds.tolist(), "length": lengths, "weight": weights.tolist()}
            rows.append(
                make_row(
                    contender,
                    seed,
                    spec="figures",
                    n_rounds=n_rounds,
                    error=float(risk.mean()),
                    risk=float(risk.mean()),
                    curve=curve,
                    learner_weights=noted if contender == "accous" else None,
                    settings={"stream": f"GaussianStream(shift=SquareShift(period={period}))"},
                )
            )
    return rows


def natural_rows(n_seeds: int = 2) -> list[dict[str, Any]]:
    """Tables in order of time, of slightly different lengths, without risk and oracle."""
    rows = []
    for dataset, level in (("gas_sensor", 0.3), ("powersupply", 0.5)):
        for contender in ("FIX", "LR", "OLRE", "accous"):
            for seed in range(n_seeds):
                n_run = 500 + 3 * seed
                ends = np.round(np.arange(1, 101) * n_run / 100).astype(int)
                errors = level + 0.1 * np.sin(ends / 60.0) + 0.02 * (contender == "FIX")
                rows.append(
                    make_row(
                        contender,
                        seed,
                        spec="natural",
                        dataset=dataset,
                        shift="natural",
                        batch_size=10,
                        n_rounds=3000,
                        n_rows=10 * n_run,
                        error=float(errors.mean()),
                        curve={"round": ends.tolist(), "error": errors.round(4).tolist(), "risk": None},
                    )
                )
    return rows


def regret_rows(n_seeds: int = 4) -> list[dict[str, Any]]:
    """Regrets that grow with a known exponent, but for a factor that differs between seeds."""
    rows = []
    for shift, exponent in (("fixed path", 0.4), ("growing path", 0.7)):
        for contender, extra in (("OLRE", 0.1), ("accous", 0.0)):
            for n_rounds in (500, 1000, 2000, 4000):
                for seed in range(n_seeds):
                    regret = (1.0 + 0.1 * seed) * n_rounds ** (exponent + extra)
                    rows.append(
                        make_row(
                            contender,
                            seed,
                            spec="regret",
                            dataset="moving_gaussian",
                            shift=shift,
                            n_rounds=n_rounds,
                            n_reference=10_000,
                            ratio_regret=regret,
                        )
                    )
    return rows


def write_rows(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
