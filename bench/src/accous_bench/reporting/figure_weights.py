"""Figure: how the ensemble spreads its weight over interval lengths, in time and on average."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from accous_bench.reporting.curves import WeightMap
from accous_bench.reporting.figure_style import new_figure, tidy
from accous_bench.reporting.wording import drawn

__all__ = ["draw_weights", "weight_words"]


def draw_weights(weight_map: WeightMap) -> Figure:
    """Draw a heat map of the weights, and the mean weight of each length while it is in use.

    Parameters
    ----------
    weight_map : WeightMap

    Returns
    -------
    Figure
    """
    figure = new_figure(9.0, 3.6)
    heat, bars = figure.subplots(1, 2, width_ratios=[3.2, 1.0], sharey=True)
    lengths, weights = np.array(weight_map.lengths), np.array(weight_map.weights).T
    edges = np.concatenate(([0.0], weight_map.rounds))
    # An interval of length n begins in round n for the first time: before, there is nothing to show.
    is_absent = edges[1:][None, :] < lengths[:, None]
    heights = np.arange(len(lengths) + 1) - 0.5
    picture = heat.pcolormesh(edges, heights, np.ma.masked_where(is_absent, weights), cmap="Blues", vmin=0.0)
    picture.set_rasterized(True)
    heat.set_facecolor("#F4F4F4")
    heat.set_yticks(np.arange(len(lengths)), [f"{length:,}" for length in lengths])
    heat.set(xlabel="round", ylabel="interval length")
    heat.set_title(drawn(f"Weight of {weight_map.contender}'s learners under {weight_map.key.shift}"))
    heat.grid(visible=False)
    figure.colorbar(picture, ax=heat, format=PercentFormatter(1.0, decimals=0), pad=0.01)
    means = np.array(weight_map.mean_weights)
    colors = ["#0072B2" if mean == means.max() else "#9DBFD6" for mean in means]
    bars.barh(np.arange(len(lengths)), means, color=colors)
    bars.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    bars.set_title("mean while in use")
    bars.set_xlabel("weight")
    bars.tick_params(labelleft=False)
    bars.grid(visible=False, axis="y")
    if weight_map.period:
        height = float(np.interp(np.log2(weight_map.period), np.log2(lengths), np.arange(len(lengths))))
        for axes in (heat, bars):
            axes.axhline(height, color="#D55E00", linewidth=1.4, linestyle=(0, (4, 2)))
        place = (1.0, height)
        label = f"M = {weight_map.period:,}"
        bars.annotate(label, place, (-2, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                      ha="right", va="bottom", color="#D55E00")  # fmt: skip
    for axes in (heat, bars):
        tidy(axes)
    return figure


def weight_words(weight_map: WeightMap) -> str:
    """Describe where the weight peaks, compared with the rounds between two switches."""
    peak = weight_map.lengths[int(np.argmax(weight_map.mean_weights))]
    weight = f"{100 * max(weight_map.mean_weights):.0f} %"
    words = f"Intervals of length {peak:,} have the largest mean weight while in use, {weight}"
    if weight_map.period is None:
        return words + "."
    distances = np.abs(np.log2(weight_map.lengths) - np.log2(weight_map.period))
    nearest = weight_map.lengths[int(np.argmin(distances))]
    words += (
        f"; the stream switches every M = {weight_map.period:,} rounds, and the length nearest to that is {nearest:,}"
    )
    steps = round(float(np.log2(peak / nearest)))
    if steps == 0:
        return words + ": the weight peaks where the length matches the period."
    side = "longer" if steps > 0 else "shorter"
    return words + f": the weight peaks at a length that is {2 ** abs(steps)} times {side} than that."
