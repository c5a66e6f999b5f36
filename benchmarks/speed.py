"""Speed of whole rounds: the table, the picture and the quotients of ``docs/performance.md``.

It compares ``AdaptiveClassifier.adapt`` with a refit in every round to the arithmetic that no version can do without.
Both take turns in one process, on one core, and the best turn of each counts, so that the quotients also hold on a busy
machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.progress import track
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier
from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import ADAPT_ML_PROD, MAX_NEWTON_COEFS, MetaState, active_lengths, is_narrow
from benchmarks.pages import IMAGES, describe, fill, keep, markdown

AROUND_ROUND = 8192
WARM_UP_ROUNDS, WIDE_WARM_UP_ROUNDS = 64, 300
SECONDS_PER_CONTENDER = 1.5
Row = dict[str, Any]
Contenders = dict[str, Callable[[int], object]]

# Reference rows, features, batch rows and classes.
Shape = tuple[int, int, int, int]
SIZES = ("n_reference", "n_features", "batch_size", "n_classes")
SHAPES: tuple[Shape, ...] = (
    (300, 5, 1, 2), (1000, 12, 1, 2), (1000, 12, 5, 2), (1000, 12, 100, 2), (1000, 12, 1, 10), (10_000, 12, 5, 2),
    (100_000, 12, 5, 2), (100_000, 12, 5, 10), (1000, 5, 1, 2), (1000, 64, 5, 2), (10_000, 64, 5, 10),
    (1000, 300, 5, 2), (1000, 300, 5, 10), (5000, 512, 5, 2), (5000, 512, 5, 10), (1000, 5000, 5, 2),
    (1000, 5000, 5, 10),
)  # fmt: skip

# Reference rows, features, batch rows, rounds, and when to refit.
MEANS = ((1000, 12, 1, 2000, "auto"), (1000, 12, 1, 2000, "always"), (5000, 64, 5, 600, "auto"))


# --- what a round is compared with --------------------------------------------------------------------------------


class BareArithmetic:
    """The arithmetic of one round and nothing else, in numpy, on the shapes and numbers of a fitted model.

    It computes scores of the reference for all learners and the ensemble, exp and reciprocal, gradients, reference
    ratios, and one step of the refit: a weighted Newton step for two classes, a weighted gradient for more or where the
    refit descends. It leaves out reading the input, Newton steps of the learners, projections, meta weights and
    bookkeeping.
    """

    def __init__(self, model: AdaptiveClassifier) -> None:
        ratio = model.ratio_
        self._features: FloatArray = ratio.reference_features_
        self._points = np.concatenate((ratio.learner_coefs_, ratio.coef_[None]))
        self._design = np.column_stack((model.reference_, np.ones(len(model.reference_))))
        self._coefs = np.column_stack((model.estimator_.coef_, model.estimator_.intercept_))
        self._weights: FloatArray = model.reference_weight_
        self._labels: IntArray = model.labels_
        self._targets: FloatArray = np.eye(len(model.classes_))[model.labels_]

    def run(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute gradients, ratios and the refit's step."""
        gradients = (1.0 / (1.0 + np.exp(self._points @ self._features.T))) @ self._features
        ratios = np.exp(-(self._features @ self._points[-1]))
        step = self._newton_step() if len(self._coefs) == 1 else self._softmax_gradient()
        return gradients, ratios, step

    def _newton_step(self) -> FloatArray:
        design, coef, weights = self._design, self._coefs[0], self._weights
        probabilities = 1.0 / (1.0 + np.exp(-(design @ coef)))
        gradient = (weights * (probabilities - self._labels)) @ design + coef
        if len(coef) > MAX_NEWTON_COEFS:
            return np.asarray(gradient)
        curvatures = weights * probabilities * (1.0 - probabilities)
        gram = (design * curvatures[:, None]).T @ design
        gram.flat[:: len(coef) + 1] += 1.0
        return np.asarray(coef - np.linalg.solve(gram, gradient))

    def _softmax_gradient(self) -> FloatArray:
        scores = self._design @ self._coefs.T
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        residuals = powers / powers.sum(axis=1, keepdims=True) - self._targets
        return np.asarray((self._weights[:, None] * residuals).T @ self._design + self._coefs)


# --- measure ------------------------------------------------------------------------------------------------------


def measure_round(shape: Shape) -> Row:
    """Return the seconds of a round and of its bare arithmetic."""
    model, batches = prepare(shape)
    bare = BareArithmetic(model)
    contenders: Contenders = {
        "adapt": lambda call: model.adapt(batches[call % len(batches)]),
        "bare": lambda _: bare.run(),
    }
    times = time_in_turns(contenders)
    return dict(zip(SIZES, shape, strict=True)) | {f"{name}_seconds": seconds for name, seconds in times.items()}


def measure_age(n_rounds: int) -> Row:
    """Return the seconds of a round late in a stream, where only the number of learners grows, as log t."""
    model, batches = prepare((1000, 12, 1, 2))
    model = at_round(model, n_rounds)
    times = time_in_turns({"adapt": lambda call: model.adapt(batches[call % len(batches)])})
    return {"round": n_rounds, "adapt_seconds": times["adapt"], "n_learners": len(model.ratio_.learner_lengths_)}


def measure_mean(n_reference: int, n_features: int, batch_size: int, n_rounds: int, refit: str) -> Row:
    """Return the mean seconds of a round over a stream that jumps every 200 rounds, all safeguards included."""
    rng = np.random.default_rng(0)
    y, centres = rng.integers(0, 2, n_reference), rng.normal(size=(2, n_features)) / np.sqrt(n_features)
    X = centres[y] + rng.normal(size=(n_reference, n_features))
    means = rng.normal(scale=0.5, size=(-(-n_rounds // 200), n_features)).repeat(200, axis=0)
    batches = [mean + rng.normal(size=(batch_size, n_features)) for mean in means[:n_rounds]]
    model = AdaptiveClassifier(refit=refit).fit(X, y)
    for batch in batches[:100]:
        model.adapt(batch)
    seconds = {"adapt": 0.0, "bare": 0.0}
    for first in range(100, n_rounds, 20):
        some = batches[first : first + 20]
        start = time.process_time()
        for batch in some:
            model.adapt(batch)
        seconds["adapt"] += (time.process_time() - start) / (n_rounds - 100)
        bare = BareArithmetic(model)  # with as many learners as these rounds have
        middle = time.process_time()
        for _ in some:
            bare.run()
        seconds["bare"] += (time.process_time() - middle) / (n_rounds - 100)
    sizes = {"n_reference": n_reference, "n_features": n_features, "batch_size": batch_size, "refit": refit}
    return sizes | {f"{name}_seconds": each for name, each in seconds.items()}


def prepare(shape: Shape) -> tuple[AdaptiveClassifier, list[FloatArray]]:
    """Return a model after some rounds (around round 8192 if it is narrow), and batches for it."""
    n_reference, n_features, batch_size, n_classes = shape
    rng, narrow = np.random.default_rng(0), is_narrow(n_features + 1)
    y = rng.integers(0, n_classes, n_reference)
    centres = rng.normal(size=(n_classes, n_features)) / np.sqrt(n_features)  # the classes overlap
    X = centres[y] + rng.normal(size=(n_reference, n_features))
    mean = rng.normal(scale=0.3, size=n_features)
    n_rounds = WARM_UP_ROUNDS if narrow else WIDE_WARM_UP_ROUNDS
    batches = [mean + rng.normal(size=(batch_size, n_features)) for _ in range(n_rounds)]
    model = AdaptiveClassifier(standardize=False, refit=10**9, adaptation="always").fit(X, y)
    for batch in batches:
        model.adapt(batch)
    model.set_params(refit="always")
    model.adapt(batches[0])
    return (at_round(model, AROUND_ROUND) if narrow else model), batches


def at_round(model: AdaptiveClassifier, n_rounds: int) -> AdaptiveClassifier:
    """Copy a model into a later round, with copies of its learners, as many as are active then."""
    state = model.ratio_.state_
    lengths = active_lengths(n_rounds + 1, model.ratio_.rounds_.settings.min_interval)
    rows = np.arange(len(lengths)) % len(state.lengths)
    learners = type(state.learners)(*(part[rows] for part in state.learners.arrays))
    meta = MetaState(*(part[rows] for part in state.meta.arrays))
    weights = ADAPT_ML_PROD.weights(meta)
    coef = weights @ learners.coefs
    ratio, later = copy(model.ratio_), copy(model)
    ratio.state_ = replace(
        state, n_rounds=n_rounds, lengths=lengths, learners=learners, meta=meta, weights=weights, coef=coef
    )
    later.state_ = replace(model.state_, n_rounds=n_rounds, ratio=ratio)
    return later


def time_in_turns(contenders: Contenders) -> dict[str, float]:
    """Return the best seconds per call of each; quick ones are called more often per turn."""
    once = best_times(contenders, 2, dict.fromkeys(contenders, 1))
    repeats = {name: max(1, min(32, int(0.005 / seconds))) for name, seconds in once.items()}
    a_turn = sum(repeats[name] * seconds for name, seconds in once.items())
    n_turns = int(np.clip(SECONDS_PER_CONTENDER * len(contenders) / a_turn, 3, 60))
    return best_times(contenders, n_turns, repeats)


def best_times(contenders: Contenders, turns: int, repeats: dict[str, int]) -> dict[str, float]:
    """Return the best seconds per call; in a turn, each is called its number of repeats, with the call's number."""
    best = dict.fromkeys(contenders, np.inf)
    for turn in range(turns):
        for name, contender in contenders.items():
            calls = range(turn * repeats[name], (turn + 1) * repeats[name])
            start = time.perf_counter()
            for call in calls:
                contender(call)
            best[name] = min(best[name], (time.perf_counter() - start) / repeats[name])
    return best


# --- print and draw -----------------------------------------------------------------------------------------------


def speed_table(rows: list[Row], ages: list[Row]) -> str:
    """Return one table of all rounds and one of the rounds late in a stream."""
    headings = ("reference", "features", "batch", "classes", "rounds/s", "ms", "times bare arithmetic")
    lines = []
    for row in rows:
        seconds = row["adapt_seconds"]
        times = (f"{1 / seconds:,.0f}", f"{1e3 * seconds:.3g}", f"{seconds / row['bare_seconds']:.2f}")
        lines.append((*(f"{row[name]:,}" for name in SIZES), *times))
    base = next(age["adapt_seconds"] for age in ages if age["round"] == 10_000)
    of_ages = [
        (f"{age['round']:,}", age["n_learners"], f"{1e6 * seconds:.0f}", f"{seconds / base:.2f}")
        for age in ages
        for seconds in [age["adapt_seconds"]]
    ]
    of_age = ("round t", "learners", "microseconds", "times that of round 10,000")
    return markdown(headings, lines, n_left=7) + "\n" + markdown(of_age, of_ages, n_left=4)


def draw(rows: list[Row], ages: list[Row]) -> None:
    """Draw the time of a round against the reference's size, the number of features and the age of the stream."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    _draw_curves(axes[0], [row for row in rows if row["n_features"] == 12], "n_reference")
    _draw_curves(axes[1], [row for row in rows if row["n_reference"] == 1000], "n_features")
    axes[2].plot([age["round"] for age in ages], [1e3 * age["adapt_seconds"] for age in ages], "o-", label="adapt")
    axes[2].set(xscale="log", ylim=(0, 1.3e3 * max(age["adapt_seconds"] for age in ages)))
    axes[0].set(xlabel="reference rows (12 features)", ylabel="milliseconds a round")
    axes[1].set(xlabel="features (1,000 rows)")
    axes[2].set(xlabel="round t (1,000 rows, 12 features)")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(IMAGES / "speed.png", dpi=150)


def _draw_curves(axis: Any, rows: list[Row], size: str) -> None:
    """Draw one point per size, for two classes and the smallest batch that all sizes have."""
    two_classes = [row for row in rows if row["n_classes"] == 2]
    chosen = {row[size]: row for row in sorted(two_classes, key=lambda row: -row["batch_size"])}
    for name, label, style in (("adapt", "adapt", "o-"), ("bare", "bare arithmetic", "s--")):
        axis.plot(
            sorted(chosen), [1e3 * chosen[number][f"{name}_seconds"] for number in sorted(chosen)], style, label=label
        )
    axis.set(xscale="log", yscale="log")


def main() -> None:
    """Measure, print, keep, write and draw."""
    describe(__doc__)
    with threadpool_limits(1):
        means = [measure_mean(*case) for case in track(MEANS, "means")]  # in a process without other models
        rows = [measure_round(shape) for shape in track(SHAPES, "rounds")]
        ages = [measure_age(n_rounds) for n_rounds in track((100, 10_000, 1_000_000), "ages")]
    table = speed_table(rows, ages)
    print(table)
    for mean in means:
        sizes = ", ".join(f"{name} {value}" for name, value in mean.items() if not name.endswith("seconds"))
        print(f"mean over rounds with jumps ({sizes}): {mean['adapt_seconds'] / mean['bare_seconds']:.2f} of bare")
    keep("speed", {"rounds": rows, "ages": ages, "means": means})
    fill("performance.md", {"speed": table})
    draw(rows, ages)


if __name__ == "__main__":
    main()
