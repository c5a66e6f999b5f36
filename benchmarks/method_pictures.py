"""The pictures of docs/explanation/method.md: ``python -m benchmarks.method_pictures`` draws simulated rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio
from accous.arrays import FloatArray
from accous.core.ensemble import active_lengths, count_starting
from accous.streams import GaussianStream, SquareShift
from accous_bench.figures import new_figure, tidy
from benchmarks.site_style import Palette, save_pair

N_ROUNDS, PERIOD, BATCH_SIZE, SEEDS = 200, 100, 5, range(100, 108)
CENTRES = np.array([[-1.6, 0.0], [1.6, 0.0]])


def main() -> None:
    """Draw all pictures."""
    save_pair(draw_weights, "method-weights")
    save_pair(draw_ratio, "method-ratio")
    save_pair(draw_cover, "method-cover")
    followed = [follow(seed) for seed in SEEDS]
    save_pair(lambda palette: draw_jumps(followed, palette), "method-jumps")


def draw_rows(rng: np.random.Generator, n_rows: int, share_right: float) -> tuple[FloatArray, Any]:
    """Draw rows of two groups; in each another line separates the classes."""
    is_right = rng.uniform(size=n_rows) < share_right
    X = CENTRES[is_right.astype(int)] + 0.75 * rng.normal(size=(n_rows, 2))
    slope = np.where(is_right, -0.9, 0.9)
    y = X[:, 1] > slope * (X[:, 0] - CENTRES[is_right.astype(int), 0])
    return X, y != (rng.uniform(size=n_rows) < 0.05)


def draw_weights(palette: Palette) -> Figure:
    """Draw the reference with equal weights, and with weights for a batch, and both lines."""
    rng = np.random.default_rng(4)
    X, y = draw_rows(rng, 300, 0.2)
    batch, _ = draw_rows(rng, 60, 0.95)
    ratio = OnlineDensityRatio(feature_map="rbf", random_state=0, pool="none").fit(X)
    for rows in np.array_split(draw_rows(rng, 400, 0.95)[0], 40):
        ratio.partial_fit(rows)
    weights = ratio.reference_ratio_ / ratio.reference_ratio_.mean()
    figure = new_figure(8.0, 3.4)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for each, sizes, title in zip(axes, (np.ones(300), weights), ("fixed", "adapted"), strict=True):
        fitted = LogisticRegression().fit(X, y, sample_weight=sizes)
        each.scatter(*batch.T, marker="+", color=palette.ink, s=22, linewidth=0.9, label="batch, no labels")
        for is_class, colour, marker in ((y, palette.first, "o"), (~y, palette.second, "s")):
            each.scatter(*X[is_class].T, s=14 * sizes[is_class], color=colour, marker=marker, alpha=0.7, linewidth=0)
        _draw_line(each, fitted, palette.fixed if title == "fixed" else palette.used)
        each.set_title(f"{title}: every row counts {'equally' if title == 'fixed' else 'as its ratio'}")
        each.set(xlim=(-4, 4), ylim=(-2.6, 2.6), xlabel="first column")
        tidy(each)
    axes[0].set_ylabel("second column")
    return figure


def _draw_line(axes: Axes, fitted: LogisticRegression, colour: str) -> None:
    (first, second), intercept = fitted.coef_[0], fitted.intercept_[0]
    x = np.array([-4.0, 4.0])
    axes.plot(x, -(intercept + first * x) / second, color=colour, linewidth=2.6)


def draw_ratio(palette: Palette) -> Figure:
    """Draw two densities and their ratio."""
    x = np.linspace(-4.0, 5.0, 400)
    normal = [np.exp(-((x - centre) ** 2) / 2) / np.sqrt(2 * np.pi) for centre in (0.0, 1.5)]
    reference, batch = normal[0], 0.3 * normal[0] + 0.7 * normal[1]
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    left.plot(x, reference, color=palette.fixed, linestyle=(0, (4, 2)), label="reference: rows with labels")
    left.plot(x, batch, color=palette.used, linewidth=2.0, label="batch: rows of now")
    left.set_title("two densities")
    left.set_ylim(0, 0.62)
    left.legend(fontsize=8, loc="upper left")
    right.plot(x, batch / reference, color=palette.ink, linewidth=2.0)
    right.axhline(1.0, color=palette.grid, linewidth=1.2)
    right.set(ylim=(0, 8), title="their ratio: the weight of a labelled row")
    for axes in (left, right):
        axes.set_xlabel("a column")
        tidy(axes)
    return figure


def draw_cover(palette: Palette) -> Figure:
    """Draw the intervals of the learners that start and end over the first 64 rounds."""
    figure = new_figure(8.0, 2.6)
    axes = figure.subplots()
    for this_round in range(4, 65):
        for length in active_lengths(this_round, 4)[: count_starting(this_round, 4)]:
            axes.barh(
                np.log2(length),
                min(length, 65 - this_round),
                left=this_round,
                height=0.55,
                color=palette.used,
                alpha=0.55,
                edgecolor=palette.ink,
                linewidth=0.6,
            )
    axes.set_yticks([2, 3, 4, 5, 6], ["4", "8", "16", "32", "64"])
    axes.set(xlabel="round", ylabel="rounds that\na learner spans", xlim=(1, 65))
    axes.set_title("a few learners at any time: each forgets everything before its bar")
    tidy(axes)
    return figure


def follow(seed: int) -> dict[str, list[float]]:
    """Return the exact errors of three models on a stream that jumps, round by round."""
    stream = GaussianStream(SquareShift(period=PERIOD), n_rounds=N_ROUNDS, batch_size=BATCH_SIZE, random_state=seed)
    models = {
        "fixed": AdaptiveClassifier(ratio=NoShift()),
        "one batch at a time": AdaptiveClassifier(ratio=LogisticRatio(random_state=0)),
        "accous": AdaptiveClassifier(),
    }
    for model in models.values():
        model.fit(*stream.reference())
    errors: dict[str, list[float]] = {name: [] for name in models}
    for batch in stream:
        for name, model in models.items():
            errors[name].append(stream.risk(model, alpha=batch.alpha))
            model.adapt(batch.X)
    return errors


def draw_jumps(followed: list[dict[str, list[float]]], palette: Palette) -> Figure:
    """Draw the mean error over the streams."""
    styles: dict[str, dict[str, Any]] = {
        "fixed": {"color": palette.fixed, "linestyle": (0, (4, 2))},
        "one batch at a time": {"color": palette.boosted, "linewidth": 1.0},
        "accous": {"color": palette.used, "linewidth": 2.4},
    }
    figure = new_figure(8.0, 3.2)
    axes = figure.subplots()
    for name, style in styles.items():
        mean = 100 * np.mean([errors[name] for errors in followed], axis=0)
        axes.plot(np.arange(1, N_ROUNDS + 1), mean, label=name, **style)
    axes.set(xlabel=f"round of {BATCH_SIZE} rows", ylabel="error, %")
    axes.set_title("a stream that jumps back and forth")
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0.0, -0.42))
    tidy(axes)
    return figure


if __name__ == "__main__":
    main()
