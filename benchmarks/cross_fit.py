"""What cross-fitting does for a backbone that is trained on the reference, on real images.

For every data set and seed, a small convolutional network is trained on 2,000 labelled images in three ways: on all of
them, which are then also the reference (none); on half of them, with the other half as reference (hold_out); and on
five folds. Nine tenths of the labelled images are from the second pool. Three questions are asked of each:

- apparent shift: how well does a cross-validated regression tell reference rows from fresh rows of the same mixture?
  (the area under the curve; 0.5 is right, because there is no shift)
- optimism: how far is the cross-validated error on the reference below the error on fresh rows of the same mixture?
- risks of FIX, Accous and the oracle on streams of five images a round, without a shift and under two
  of the paper's shifts, over 200 rounds.

Finished seeds are kept, so that a run that was stopped goes on: ``python -m benchmarks.cross_fit [number of seeds]``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from torch import nn

from accous.streams import MixtureStream
from accous.threads import one_blas_thread
from accous_bench.contenders import get_contender
from accous_bench.grid import Measures, Run, play
from accous_bench.images import load_cifar_cinic, load_mnist_svhn
from accous_bench.problems import ALPHA_0, SHIFTS, PartOfReference, Problem, Setting
from accous_bench.tuning import TunedFeatures, tuned_features
from benchmarks.record import FOLDER, write_results

WAYS: tuple[Any, ...] = ("none", "hold_out", 5)
CONTENDERS = ("FIX", "Accous", "oracle")
STREAMS = ("none", "Lin", "Squ")
N_POOL, N_LABELLED, N_COMPONENTS, N_ROUNDS, BATCH_SIZE, SCORE_EVERY = 3000, 2000, 32, 200, 5, 10
RAW = FOLDER / "raw" / "cross_fit"
LOADERS: dict[str, Any] = {
    "mnist_svhn": load_mnist_svhn,
    "cifar_cinic": lambda: load_cifar_cinic("stand-in"),
}


def main() -> None:
    """Measure the seeds that are missing, then print and save the means of all."""
    console = Console()
    n_seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    RAW.mkdir(parents=True, exist_ok=True)
    for seed in range(n_seeds):
        for name in LOADERS:
            path = RAW / f"{name}_{seed}.json"
            if not path.exists():
                path.write_text(json.dumps(measure(name, seed)))
                console.print(f"{name}, seed {seed}: done")
    rows = means()
    for row in rows:
        console.print(row)
    console.print(f"Written to {write_results('cross_fit', rows)}")


def means() -> list[dict[str, Any]]:
    """Return, for every data set and way, the mean and the standard error over the seeds that were measured."""
    rows = []
    for name in LOADERS:
        found = [json.loads(path.read_text()) for path in sorted(RAW.glob(f"{name}_*.json"))]
        for way in map(str, WAYS if found else ()):
            scores = [by_way[way] for by_way in found]
            rows.append({"dataset": name, "cross_fit": way, "n_seeds": len(found), **_summary(scores)})
    return rows


def _summary(scores: list[dict[str, float]]) -> dict[str, list[float | None]]:
    summary: dict[str, list[float | None]] = {}
    for key in scores[0]:
        values = np.array([score[key] for score in scores])
        error = round(float(values.std(ddof=1) / np.sqrt(len(values))), 4) if len(values) > 1 else None
        summary[key] = [round(float(values.mean()), 4), error]
    return summary


def measure(name: str, seed: int) -> dict[str, dict[str, float]]:
    """Return the scores of every way for one seed."""
    images, labels = some_images(name)
    torch.set_num_threads(1)
    with one_blas_thread():
        return {str(way): scores_of(way, images, labels, seed) for way in WAYS}


def some_images(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return 3,000 images of each pool, the same in every call."""
    generator = np.random.default_rng(0)
    pair = LOADERS[name]()
    pools = [(pool, generator.permutation(len(pool.labels))[:N_POOL]) for pool in (pair.first, pair.second)]
    parts = [(pool.images[chosen], pool.labels[chosen]) for pool, chosen in pools]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def scores_of(way: Any, images: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, float]:
    """Train one way and return its scores."""
    places = np.arange(len(images))[:, None]
    rows, y = mixture(places, labels, Setting("Lin", 1, 1, seed)).reference()
    backbone = TunedFeatures(
        small_network(seed), image_size=32, n_components=N_COMPONENTS, cross_fit=way, n_jobs=1,
        random_state=seed,
    )  # fmt: skip
    features, indices = tuned_features(backbone, images, rows[:, 0], y)

    def make(setting: Setting) -> PartOfReference:
        return PartOfReference(mixture(features, labels, setting), indices)

    X, y = make(Setting("Lin", 1, 1, seed)).reference()
    is_fresh = np.ones(len(images), dtype=bool)
    is_fresh[rows[:, 0]] = False
    found = {"n_reference": len(y), **apparent(X, y, features, labels, is_fresh, seed)}
    problem = Problem("images", "images", STREAMS, make)
    for shift in STREAMS:
        for contender in CONTENDERS:
            setting = Setting(shift, BATCH_SIZE, N_ROUNDS, seed)
            record = play(Run("cross_fit", problem, get_contender(contender), setting, Measures(SCORE_EVERY)))
            if record["status"] != "done":
                raise RuntimeError(record["reason"])
            found[f"{contender} {shift}"] = 100.0 * record["risk"]
            if contender == "Accous":
                found[f"ratio error {shift}"] = record["ratio_error"]
    return found


def apparent(
    X: np.ndarray, y: np.ndarray, features: np.ndarray, labels: np.ndarray, is_fresh: np.ndarray, seed: int
) -> dict[str, float]:
    """Return the apparent shift and the optimism, against fresh rows of the reference's mixture."""
    generator = np.random.default_rng([seed, 9])
    first, second = np.flatnonzero(is_fresh[:N_POOL]), N_POOL + np.flatnonzero(is_fresh[N_POOL:])
    n_first = round(len(second) * (1.0 - ALPHA_0) / ALPHA_0)
    fresh = np.concatenate((generator.choice(first, n_first, replace=False), second))
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    regression = LogisticRegression(max_iter=1000)
    Z, is_later = np.concatenate((X, features[fresh])), np.repeat([0, 1], [len(X), len(fresh)])
    scores = cross_val_predict(regression, Z, is_later, cv=folds, method="decision_function")
    seen_error = np.mean(cross_val_predict(regression, X, y, cv=folds) != y)
    fresh_error = np.mean(regression.fit(X, y).predict(features[fresh]) != labels[fresh])
    return {
        "apparent shift": float(roc_auc_score(is_later, scores)),
        "error on the reference": 100.0 * float(seen_error),
        "error on fresh rows": 100.0 * float(fresh_error),
    }


def mixture(rows: np.ndarray, labels: np.ndarray, setting: Setting) -> MixtureStream:
    """Mix both pools; which rows are labelled depends only on the seed."""
    return MixtureStream(
        (rows[:N_POOL], labels[:N_POOL]), (rows[N_POOL:], labels[N_POOL:]), SHIFTS[setting.shift],
        n_rounds=setting.n_rounds, batch_size=setting.batch_size, n_reference=N_LABELLED, alpha_0=ALPHA_0,
        random_state=setting.seed,
    )  # fmt: skip


def small_network(seed: int) -> nn.Module:
    """Return three convolutions and a layer of 64 features, with random weights."""
    torch.manual_seed(seed)
    widths, strides = (3, 16, 32, 64), (2, 2, 1)
    layers: list[nn.Module] = [nn.BatchNorm2d(3)]
    for n_in, n_out, stride in zip(widths[:-1], widths[1:], strides, strict=True):
        layers += [nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(64 * 4, 64), nn.ReLU())


if __name__ == "__main__":
    main()
