"""The pictures of docs/pool.md: ``python -m benchmarks.pool_pictures`` draws them from simulated streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from accous import OnlineDensityRatio
from accous.arrays import FloatArray
from accous.core.pool import N_SHAPES
from accous.diagnostics.losses import effective_sample_size
from accous.streams import GaussianStream, SquareShift
from accous_bench.figures import drawing, line_style, new_figure, tidy
from benchmarks.pool_regimes import RegimeStream

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BEFORE, AFTER = "ensemble alone", "pool"
STYLES = {BEFORE: line_style("OLRE") | {"linestyle": "-", "linewidth": 1.0}, AFTER: line_style("Accous")}
TRUTH = line_style("oracle")
SHADES = ("#DDDDDD", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00")
N_ROUNDS, PERIOD = 1200, 200


def main() -> None:
    """Draw all pictures."""
    stream = GaussianStream(SquareShift(period=PERIOD), n_rounds=N_ROUNDS, random_state=7)
    sizes, ratios = follow(stream)
    for name, values in sizes.items():
        print(f"{name}: {count_spikes(values)} spikes of the effective sample size")
    save(lambda: draw_effective_rows(stream, sizes), "pool-effective-rows")
    save(lambda: draw_ratios(stream, ratios), "pool-ratios")
    save(lambda: draw_proportions(RegimeStream("three", N_ROUNDS, 1, 4)), "pool-proportions")


def follow(stream: GaussianStream) -> tuple[dict[str, list[float]], dict[str, FloatArray]]:
    """Return effective sample sizes after every round, and the ratios of the reference at the end of a stretch."""
    X, _ = stream.reference()
    models = {BEFORE: OnlineDensityRatio(pool="none").fit(X), AFTER: OnlineDensityRatio().fit(X)}
    sizes: dict[str, list[float]] = {name: [] for name in models}
    ratios: dict[str, FloatArray] = {}
    is_rare = stream.alphas < stream.alpha_0 - 0.5
    last = int(np.flatnonzero(is_rare)[-1])
    for number, batch in enumerate(stream):
        for name, model in models.items():
            model.partial_fit(batch.X)
            sizes[name].append(effective_sample_size(model.reference_ratio_))
            if number == last:
                ratios[name] = model.reference_ratio_.copy()
    return sizes, ratios


def count_spikes(sizes: list[float]) -> int:
    """Count the rounds with half as many effective rows again as before, more than ten rounds after a switch."""
    since_switch = np.arange(len(sizes)) % PERIOD
    is_spike = np.array(sizes[1:]) > 1.5 * np.array(sizes[:-1])
    return int((is_spike & (since_switch[1:] > 10)).sum())


def draw_effective_rows(stream: GaussianStream, sizes: dict[str, list[float]]) -> Any:
    """Draw the effective sample size of the reference over rounds, with the true one."""
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    rounds = np.arange(1, len(stream) + 1)
    true = {alpha: effective_sample_size(stream.reference_ratio(alpha)) for alpha in np.unique(stream.alphas).tolist()}
    for name, values in sizes.items():
        axes.plot(rounds, values, label=name, **STYLES[name])
    axes.plot(rounds, [true[alpha] for alpha in stream.alphas.tolist()], label="true ratio", **TRUTH)
    axes.set_yscale("log")
    axes.set_xlabel("round (one row each)")
    axes.set_ylabel("effective reference rows")
    axes.set_title("Effective sample size, before and after")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
    tidy(axes)
    return figure


def draw_ratios(stream: GaussianStream, ratios: dict[str, FloatArray]) -> Any:
    """Draw the estimated ratios of the reference rows over how surely they belong to the rare part."""
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    alpha = float(stream.alphas[np.flatnonzero(stream.alphas < stream.alpha_0 - 0.5)[-1]])
    X, _ = stream.reference()
    along, truth = X.mean(axis=1), stream.reference_ratio(alpha)
    order = np.argsort(along)
    for name, values in ratios.items():
        axes.plot(along, values, ".", color=STYLES[name]["color"], markersize=3.0, label=name)
    axes.plot(along[order], truth[order], label="true ratio", **TRUTH)
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(0.0, 200.0)
    axes.set_xlabel("mean of the row's columns: the rare part of the reference is on the left")
    axes.set_ylabel("ratio")
    axes.set_title("The ratio of a mixture saturates, a log-linear one does not")
    axes.legend(loc="upper right")
    tidy(axes)
    return figure


def draw_proportions(stream: RegimeStream) -> Any:
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
    rounds = np.arange(1, len(shares) + 1)
    names = ("ratio 1", "shapes of the estimate", *(f"remembered regime {slot}" for slot in range(1, 5)))
    stacked = np.transpose(shares)
    is_shown = stacked.max(axis=1) > 0.0
    axes.stackplot(
        rounds,
        stacked[is_shown],
        labels=[name for name, shown in zip(names, is_shown, strict=True) if shown],
        colors=[shade for shade, shown in zip(SHADES, is_shown, strict=True) if shown],
    )
    _mark_regimes(axes, stream)
    axes.set_xlim(1, len(shares))
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel("round (one row each); above: the true regime")
    axes.set_ylabel("proportion")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
    tidy(axes)
    return figure


def _mark_regimes(axes: Axes, stream: RegimeStream) -> None:
    starts = np.flatnonzero(np.diff(stream.parts, prepend=-1)).tolist()
    for start, stop in zip(starts, [*starts[1:], len(stream.parts)], strict=True):
        axes.axvline(start, color="black", linewidth=0.8)
        axes.text((start + stop) / 2.0, 1.02, "ABC"[stream.parts[start]], ha="center", fontweight="bold")


def save(draw: Any, name: str) -> None:
    """Write a picture to the documentation."""
    (IMAGES / f"{name}.png").write_bytes(drawing(draw, name).png)


if __name__ == "__main__":
    main()
