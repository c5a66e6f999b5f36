"""The picture of ``accous demo``: error over time, with the drift behind it."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator, PercentFormatter

from accous.arrays import FloatArray, IntArray
from accous.cli.demo_race import ACCOUS, FIXED, ORACLE, SINGLE, Race

__all__ = ["DARK", "LIGHT", "Look", "draw_race", "rolling_mean"]

_SMOOTHED_ROUNDS = 20
_ROUNDS_AFTER_JUMP = 30
# The thin lines lie on the thick ones.
_STYLES: dict[str, dict[str, Any]] = {
    FIXED: {"linewidth": 2.4},
    SINGLE: {"linewidth": 1.3, "zorder": 4},
    ACCOUS: {"linewidth": 3.2, "zorder": 3},
    ORACLE: {"linewidth": 1.2, "linestyle": (0, (4, 3)), "zorder": 5},
}


@dataclass(frozen=True)
class Look:
    """Colours of the picture: Okabe and Ito's, told apart with any kind of colour vision, lighter on a dark ground."""

    fixed: str
    single: str
    accous: str
    ink: str
    ground: str
    shade: str

    def styles(self) -> dict[str, dict[str, Any]]:
        """Return how each contender is drawn."""
        colours = {FIXED: self.fixed, SINGLE: self.single, ACCOUS: self.accous, ORACLE: self.ink}
        return {name: style | {"color": colours[name]} for name, style in _STYLES.items()}

    def settings(self) -> dict[str, Any]:
        """Return matplotlib's settings for text, axes and ground."""
        inks = ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color")
        return dict.fromkeys(inks, self.ink) | dict.fromkeys(("axes.facecolor", "figure.facecolor"), self.ground)


LIGHT = Look("#D55E00", "#56B4E9", "#0072B2", "black", "white", "#EBE6D8")
DARK = Look("#F08C4A", "#B8E0FA", "#3FA7E8", "#E6EDF3", "#14181E", "#2E3440")


def draw_race(race: Race, image_format: str, look: Look = LIGHT) -> bytes:
    """Draw the errors over time and, where the stream jumps, the rounds after a jump.

    Parameters
    ----------
    race : Race
    image_format : str
        ``"png"``, ``"svg"`` or ``"pdf"``.
    look : Look, optional
        Its colours.

    Returns
    -------
    bytes
        The file's content.
    """
    with mpl.rc_context(look.settings()):
        return _draw(race, image_format, look)


def _draw(race: Race, image_format: str, look: Look) -> bytes:
    figure = Figure(figsize=(11, 5), layout="constrained", dpi=150)
    jumps = _jump_indices(race)
    ratios = [3.2, 1.0] if len(jumps) else [1.0]
    panels = np.ravel(figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios))
    _draw_all_rounds(panels[0], race, look)
    if len(jumps):
        _draw_after_jumps(panels[1], race, jumps, look)
    _set_limits(panels[0], race)
    figure.suptitle(race.headline(), x=0.01, ha="left", fontsize=15, fontweight="bold")
    handles, labels = panels[0].get_legend_handles_labels()
    title = "mean error over all rounds"
    figure.legend(handles, labels, title=title, loc="outside lower center", ncols=4, frameon=False, fontsize=11)
    content = BytesIO()
    figure.savefig(content, format=image_format)
    return content.getvalue()


def rolling_mean(values: FloatArray, n_last: int) -> FloatArray:
    """Mean of the last values up to each one; of fewer at the beginning."""
    sums = np.cumsum(np.concatenate(([0.0], values)))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - n_last)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts))


def _draw_all_rounds(axes: Axes, race: Race, look: Look) -> None:
    n_rounds = len(race.stream)
    _shade(axes, 1.0 - race.stream.alphas, 1, look)
    styles = look.styles()
    for name, errors in _drawn(race).items():
        rounds, style = np.arange(1, n_rounds + 1), styles[name]
        label = f"{name} {race.mean_error(name):.1%}"
        if name in (SINGLE, ACCOUS):  # the errors of the others move with the stream alone: nothing to smooth
            axes.plot(rounds, errors, color=style["color"], linewidth=0.8, alpha=0.35)
            errors = rolling_mean(errors, _SMOOTHED_ROUNDS)
        axes.plot(rounds, errors, label=label, **style)
    rare_share, n_rows = 1.0 - race.stream.alpha_0, race.stream.batch_size
    title = f"Shaded: rows of a kind that makes up only {rare_share:.0%} of the labelled reference"
    axes.set_title(title, loc="left", fontsize=11)
    rows = "one unlabelled row" if n_rows == 1 else f"{n_rows} unlabelled rows"
    axes.set_xlabel(f"round, of {rows} (faint: each round; bold: mean of {_SMOOTHED_ROUNDS})")
    axes.set_ylabel("share of rows classified wrongly")
    axes.yaxis.set_major_locator(MultipleLocator(0.05))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.spines[["top", "right"]].set_visible(False)


def _draw_after_jumps(axes: Axes, race: Race, jumps: IntArray, look: Look) -> None:
    """Draw the mean over all jumps, round by round: here smoothing would hide how soon the errors fall."""
    offsets = np.arange(_ROUNDS_AFTER_JUMP)
    _shade(axes, np.ones(len(offsets)), 0, look)
    styles = look.styles()
    for name, errors in _drawn(race).items():
        axes.plot(offsets, errors[jumps[:, None] + offsets].mean(axis=0), **styles[name])
    axes.set_title("Right after a jump", loc="left", fontsize=11)
    axes.set_xlabel(f"rounds since (mean of {len(jumps)} jumps)" if len(jumps) > 1 else "rounds since")
    axes.spines[["top", "right"]].set_visible(False)


def _drawn(race: Race) -> dict[str, FloatArray]:
    """Errors of the contenders that are drawn: a line that jumps with every batch would hide the others."""
    return {name: errors for name, errors in race.errors.items() if name in _STYLES}


def _jump_indices(race: Race) -> IntArray:
    """Rounds, counted from 0, that begin a long enough stretch of nothing but the rare population."""
    alphas = race.stream.alphas
    starts = np.flatnonzero((alphas[1:] == 0.0) & (alphas[:-1] == 1.0)) + 1
    is_long = [not alphas[start : start + _ROUNDS_AFTER_JUMP].any() for start in starts]
    is_inside = starts + _ROUNDS_AFTER_JUMP <= len(alphas)
    return np.asarray(starts[np.array(is_long, dtype=bool) & is_inside])


def _shade(axes: Axes, rare_shares: FloatArray, first: int, look: Look) -> None:
    """Shade each round by the share of the rare population in it."""
    edges = (first - 0.5, first + len(rare_shares) - 0.5)
    axes.imshow(
        rare_shares[None, :],
        extent=(*edges, 0.0, 1.0),
        transform=axes.get_xaxis_transform(),
        aspect="auto",
        interpolation="nearest",
        cmap=LinearSegmentedColormap.from_list("shade", [look.ground, look.shade]),
        vmin=0.0,
        vmax=1.0,
    )
    axes.set_xlim(*edges)


def _set_limits(axes: Axes, race: Race) -> None:
    """Show the range of the errors: the image behind them would ask for 0 to 1."""
    everything = np.concatenate(list(_drawn(race).values()))
    margin = 0.08 * (everything.max() - everything.min()) + 0.005
    axes.set_ylim(everything.min() - margin, everything.max() + margin)
