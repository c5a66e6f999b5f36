"""The pictures of the documentation: ``python -m benchmarks.figures`` draws those of kept results and short streams.

It prints the command of each, also of those that need more: an idle machine, the runs of the paper's grids, or a
network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style as looks
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier, LogisticRatio, NoShift, OnlineDensityRatio
from accous.cli import demo
from accous.core.ensemble import active_lengths, count_starting
from accous.core.pool import N_SHAPES
from accous.diagnostics.losses import effective_sample_size
from accous.streams import GaussianStream, SquareShift
from accous_bench.figures import new_figure, tidy
from benchmarks import gallery
from benchmarks.data import FloatArray
from benchmarks.pages import IMAGES, Palette, describe, save_pair, save_png
from benchmarks.pool import RegimeStream

# --- the demo ---------------------------------------------------------------------------------------------------


def draw_demo() -> None:
    """Run the demo once, with its own settings, and draw it twice."""
    with tempfile.TemporaryDirectory() as folder:
        recovery = demo.run_demo(Path(folder))
    for name, look in (("demo", "default"), ("demo-dark", "dark_background")):
        with looks.context([look, {"savefig.transparent": True}]):
            (IMAGES / f"{name}.png").write_bytes(demo.draw(recovery, "png"))


# --- the method ---------------------------------------------------------------------------------------------------

METHOD_ROUNDS, METHOD_SEEDS = 200, range(100, 108)
CENTRES = np.array([[-1.6, 0.0], [1.6, 0.0]])


def draw_method() -> None:
    """Draw the pictures of docs/explanation/method.md."""
    save_pair(draw_weights, "method-weights")
    save_pair(draw_ratio, "method-ratio")
    save_pair(draw_cover, "method-cover")
    followed = [follow_jumps(seed) for seed in METHOD_SEEDS]
    save_pair(lambda palette: draw_jumps(followed, palette), "method-jumps")


def _two_groups(rng: np.random.Generator, n_rows: int, share_right: float) -> tuple[FloatArray, Any]:
    """Return rows of two groups; in each another line separates the classes."""
    is_right = rng.uniform(size=n_rows) < share_right
    X = CENTRES[is_right.astype(int)] + 0.75 * rng.normal(size=(n_rows, 2))
    slope = np.where(is_right, -0.9, 0.9)
    y = X[:, 1] > slope * (X[:, 0] - CENTRES[is_right.astype(int), 0])
    return X, y != (rng.uniform(size=n_rows) < 0.05)


def draw_weights(palette: Palette) -> Figure:
    """Draw the reference with equal weights, and with weights for a batch, and both lines."""
    rng = np.random.default_rng(4)
    X, y = _two_groups(rng, 300, 0.2)
    batch, _ = _two_groups(rng, 60, 0.95)
    ratio = OnlineDensityRatio(feature_map="rbf", random_state=0, pool="none").fit(X)
    for rows in np.array_split(_two_groups(rng, 400, 0.95)[0], 40):
        ratio.partial_fit(rows)
    weights = ratio.reference_ratio_ / ratio.reference_ratio_.mean()
    figure = new_figure(8.0, 3.4)
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    shown = (
        ("fixed: every row counts equally", np.ones(300), palette.fixed),
        ("adapted: every row counts as its ratio", weights, palette.used),
    )
    for each, (title, sizes, line) in zip(axes, shown, strict=True):
        fitted = LogisticRegression().fit(X, y, sample_weight=sizes)
        each.scatter(*batch.T, marker="+", color=palette.ink, s=22, linewidth=0.9, label="batch, no labels")
        for is_class, colour, marker in ((y, palette.first, "o"), (~y, palette.second, "s")):
            each.scatter(*X[is_class].T, s=14 * sizes[is_class], color=colour, marker=marker, alpha=0.7, linewidth=0)
        (first, second), intercept, x = fitted.coef_[0], fitted.intercept_[0], np.array([-4.0, 4.0])
        each.plot(x, -(intercept + first * x) / second, color=line, linewidth=2.6)
        each.set(title=title, xlim=(-4, 4), ylim=(-2.6, 2.6), xlabel="first column")
        tidy(each)
    axes[0].set_ylabel("second column")
    return figure


def draw_ratio(palette: Palette) -> Figure:
    """Draw two densities and their ratio."""
    x = np.linspace(-4.0, 5.0, 400)
    normal = [np.exp(-((x - centre) ** 2) / 2) / np.sqrt(2 * np.pi) for centre in (0.0, 1.5)]
    reference, batch = normal[0], 0.3 * normal[0] + 0.7 * normal[1]
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    left.plot(x, reference, color=palette.fixed, linestyle=(0, (4, 2)), label="reference: rows with labels")
    left.plot(x, batch, color=palette.used, linewidth=2.0, label="batch: rows of now")
    left.set(title="two densities", ylim=(0, 0.62))
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
    style: Any = {"height": 0.55, "color": palette.used, "alpha": 0.55, "edgecolor": palette.ink, "linewidth": 0.6}
    for this_round in range(4, 65):
        for length in active_lengths(this_round, 4)[: count_starting(this_round, 4)]:
            axes.barh(np.log2(length), min(length, 65 - this_round), left=this_round, **style)
    axes.set_yticks([2, 3, 4, 5, 6], ["4", "8", "16", "32", "64"])
    axes.set(xlabel="round", ylabel="rounds that\na learner spans", xlim=(1, 65))
    axes.set_title("a few learners at any time: each forgets everything before its bar")
    tidy(axes)
    return figure


def follow_jumps(seed: int) -> dict[str, list[float]]:
    """Return the exact errors of three models on a stream that jumps, round by round."""
    stream = GaussianStream(SquareShift(period=100), n_rounds=METHOD_ROUNDS, batch_size=5, random_state=seed)
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
        axes.plot(np.arange(1, METHOD_ROUNDS + 1), mean, label=name, **style)
    axes.set(xlabel="round of 5 rows", ylabel="error, %", title="a stream that jumps back and forth")
    axes.legend(ncols=3, loc="lower left", bbox_to_anchor=(0.0, -0.42))
    tidy(axes)
    return figure


# --- the pool -----------------------------------------------------------------------------------------------------

POOL_ROUNDS, POOL_PERIOD = 1200, 200
TRUTH: Any = {"color": "black", "linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 7, "label": "true ratio"}
ESTIMATES: dict[str, dict[str, Any]] = {
    "ensemble alone": {"color": "#E69F00", "linewidth": 1.0, "linestyle": "-", "zorder": 6},
    "pool": {"color": "#0072B2", "linewidth": 2.4, "zorder": 5},
}
SHADES = ("#DDDDDD", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00")


def draw_pool() -> None:
    """Draw the pictures of docs/pool.md."""
    stream = GaussianStream(SquareShift(period=POOL_PERIOD), n_rounds=POOL_ROUNDS, random_state=7)
    sizes, ratios = follow_ratios(stream)
    save_png(lambda: draw_effective_rows(stream, sizes), "pool-effective-rows")
    save_png(lambda: draw_ratios(stream, ratios), "pool-ratios")
    save_png(lambda: draw_proportions(RegimeStream("three", POOL_ROUNDS, 1, 4)), "pool-proportions")


def _last_rare_round(stream: GaussianStream) -> int:
    return int(np.flatnonzero(stream.alphas < stream.alpha_0 - 0.5)[-1])


def follow_ratios(stream: GaussianStream) -> tuple[dict[str, list[float]], dict[str, FloatArray]]:
    """Return effective sample sizes after every round, and the ratios of the reference before the last switch."""
    X, _ = stream.reference()
    models = dict(zip(ESTIMATES, (OnlineDensityRatio(pool="none").fit(X), OnlineDensityRatio().fit(X)), strict=True))
    sizes: dict[str, list[float]] = {name: [] for name in models}
    ratios: dict[str, FloatArray] = {}
    for number, batch in enumerate(stream):
        for name, model in models.items():
            model.partial_fit(batch.X)
            sizes[name].append(effective_sample_size(model.reference_ratio_))
            if number == _last_rare_round(stream):
                ratios[name] = model.reference_ratio_.copy()
    return sizes, ratios


def draw_effective_rows(stream: GaussianStream, sizes: dict[str, list[float]]) -> Figure:
    """Draw the effective sample size of the reference over rounds, with the true one."""
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    rounds = np.arange(1, len(stream) + 1)
    true = {alpha: effective_sample_size(stream.reference_ratio(alpha)) for alpha in np.unique(stream.alphas).tolist()}
    for name, values in sizes.items():
        axes.plot(rounds, values, label=name, **ESTIMATES[name])
    axes.plot(rounds, [true[alpha] for alpha in stream.alphas.tolist()], **TRUTH)
    axes.set(yscale="log", xlabel="round (one row each)", ylabel="effective reference rows")
    axes.set_title("Effective sample size, before and after")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
    tidy(axes)
    return figure


def draw_ratios(stream: GaussianStream, ratios: dict[str, FloatArray]) -> Figure:
    """Draw the estimated ratios of the reference rows over how surely they belong to the rare part."""
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    along = stream.reference()[0].mean(axis=1)
    truth = stream.reference_ratio(float(stream.alphas[_last_rare_round(stream)]))
    order = np.argsort(along)
    for name, values in ratios.items():
        axes.plot(along, values, ".", color=ESTIMATES[name]["color"], markersize=3.0, label=name)
    axes.plot(along[order], truth[order], **TRUTH)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set(xlabel="mean of the row's columns: the rare part of the reference is on the left", ylabel="ratio")
    axes.set(ylim=(0.0, 200.0), title="The ratio of a mixture saturates, a log-linear one does not")
    axes.legend(loc="upper right")
    tidy(axes)
    return figure


def draw_proportions(stream: RegimeStream) -> Figure:
    """Draw the proportions of the candidates over a stream with three regimes."""
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    ratio = OnlineDensityRatio().fit(stream.reference()[0])
    shares = []
    for batch in stream:
        pool = ratio.partial_fit(batch.X).pool_
        assert pool is not None
        of_shapes = pool.proportions[1:N_SHAPES].sum()
        shares.append([pool.proportions[0], of_shapes, *pool.proportions[N_SHAPES:]])
    names = ("ratio 1", "shapes of the estimate", *(f"remembered regime {slot}" for slot in range(1, 5)))
    curves = zip(np.transpose(shares), names, SHADES, strict=True)
    curves_shown, names, shades = zip(*(each for each in curves if each[0].max() > 0.0), strict=True)
    axes.stackplot(np.arange(1, len(shares) + 1), curves_shown, labels=names, colors=shades)
    _mark_regimes(axes, stream)
    axes.set(xlim=(1, len(shares)), ylim=(0.0, 1.0), xlabel="round (one row each); above: the true regime")
    axes.set_ylabel("proportion")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    tidy(axes)
    return figure


def _mark_regimes(axes: Axes, stream: RegimeStream) -> None:
    starts = np.flatnonzero(np.diff(stream.parts, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(stream.parts)], strict=True):
        axes.axvline(start, color="black", linewidth=0.8)
        axes.text((start + stop) / 2.0, 1.02, "ABC"[stream.parts[start]], ha="center", fontweight="bold")


# --- main ---------------------------------------------------------------------------------------------------------

# Pictures by their names in docs/images: what draws them here, or the command that needs more than a minute.
FIGURES: dict[str, Callable[[], None] | str] = {
    "demo*.png": draw_demo,
    "gallery-*.svg": gallery.draw,
    "method-*.svg": draw_method,
    "pool-*.png": draw_pool,
    "results-theory-*.png": "python -m benchmarks.theory",
    "results-[!t]*.png": "python -m accous_bench.tables docs benchmarks/results",
    "speed.png": "python -m benchmarks.speed",
    "support_inbox.png": "python examples/support_inbox.py --picture docs/images/support_inbox.png",
    "drifting_camera.png": "python examples/drifting_camera.py --picture docs/images/drifting_camera.png",
}


def main() -> None:
    """Draw the pictures."""
    describe(__doc__)
    for names, draw in FIGURES.items():
        print(f"{names:22} {draw if isinstance(draw, str) else 'python -m benchmarks.figures'}", flush=True)
        if callable(draw):
            draw()


if __name__ == "__main__":
    main()
