"""The theory, measured: figures and one sentence of verdict each, from ``benchmarks/results/theory.json``."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from accous.arrays import FloatArray
from accous_bench.reporting.cells import ENSEMBLE
from accous_bench.reporting.document import Block, Heading, Paragraph, Picture
from accous_bench.reporting.figure_style import Drawing, drawing, line_style, new_figure, tidy
from accous_bench.reporting.regret import exponent_with_logs, fitted_exponent, theory_exponent

__all__ = ["theory_blocks", "theory_words", "verdict"]

_COLORS = ("#0072B2", "#D55E00")
_LARGEST_MISFIT = 0.25  # processor times of a busy machine scatter
N_REFERENCE = 2000  # of the streams in benchmarks.theory


def theory_blocks(file: Path) -> tuple[list[Block], dict[str, Drawing]]:
    """Return the section and its drawings; nothing if the file does not exist."""
    if not file.is_file():
        return [], {}
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    draws: dict[str, Callable[[dict[str, Any]], Figure]] = {
        "theory-regret": _draw_regret,
        "theory-excess-risk": _draw_excess,
        "theory-cost": _draw_cost,
    }
    drawings = {name: drawing(partial(draw, rows), name) for name, draw in draws.items()}
    opening = (
        f"From python -m benchmarks.theory, {len(rows['seeds'])} seeds. The regret with the default parameters is in "
        "the section above."
    )
    blocks: list[Block] = [Heading("The theory, measured", 2), Paragraph(opening)]
    blocks += [Picture(name, words) for name, words in theory_words(rows).items()]
    return blocks, drawings


def theory_words(rows: dict[str, Any]) -> dict[str, str]:
    """Return what is said of each drawing."""
    return {
        "theory-regret": _regret_words(rows),
        "theory-excess-risk": _excess_words(rows),
        "theory-cost": _cost_words(rows),
    }


def _by_length(rows: dict[str, Any], values: list[list[float]]) -> dict[int, dict[int, float]]:
    return {
        length: dict(zip(rows["seeds"], of_seeds, strict=True))
        for length, of_seeds in zip(rows["lengths"], values, strict=True)
    }


def _growth(rows: dict[str, Any], values: list[list[float]]) -> tuple[float, float]:
    """Return the exponent of the growth with T and its standard error."""
    exponent, error, _ = fitted_exponent(_by_length(rows, values))
    return exponent or 0.0, error or 0.0


def verdict(exponent: float, error: float, bound: float) -> str:
    """Say whether a measured exponent is within a bound, as far as two standard errors can tell.

    Examples
    --------
    >>> verdict(0.5, 0.01, 0.6), verdict(0.7, 0.01, 0.6), verdict(0.61, 0.01, 0.6)
    ('within', 'above', 'not distinguishable from')
    """
    if abs(exponent - bound) <= 2.0 * error:
        return "not distinguishable from"
    return "within" if exponent < bound else "above"


def _means(values: list[list[float]]) -> FloatArray:
    return np.array(values).mean(axis=1)


def _draw_regret(rows: dict[str, Any]) -> Figure:
    figure = new_figure(8.6, 3.6)
    lengths = np.array(rows["lengths"], dtype=float)
    for axes, (path, values) in zip(figure.subplots(1, 2), rows["theorem_regret"].items(), strict=True):
        means, p = _means(values), theory_exponent(path) or 0.0
        axes.plot(lengths, means, "o-", color=_COLORS[0], label="measured, S R = 1")
        for power, dashes in ((0, (0, (1, 1))), (2, (0, (4, 3)))):
            bound = lengths**p * np.log(lengths) ** power
            label = f"$T^{{{round(3 * p)}/3}}$" + (r"$\log^2 T$" if power else "") + " (through the first point)"
            axes.plot(lengths, bound * means[0] / bound[0], color="black", linestyle=dashes, linewidth=1.2, label=label)
        _logarithmic(axes, rows["lengths"], path)
    figure.axes[0].set_ylabel("cumulative dynamic regret")
    return figure


def _regret_words(rows: dict[str, Any]) -> str:
    parts = []
    worst = max(float(_means(values)[-1]) / rows["lengths"][-1] for values in rows["theorem_regret"].values())
    for path, values in rows["theorem_regret"].items():
        exponent, error = _growth(rows, values)
        plain, with_logs = theory_exponent(path) or 0.0, exponent_with_logs(path, rows["lengths"])
        parts.append(
            f"{path}: it grows like T^{exponent:.2f} ± {error:.2f}, {verdict(exponent, error, with_logs)} the bound "
            f"(T^{plain:.2f}, or T^{with_logs:.2f} over these lengths with two logarithms)"
        )
    return (
        "Dynamic regret with the theorem's parameters, gamma = 3 (1 + exp(S R)) and lambda = 1, on a stream where "
        f"S R = 1 contains the true theta. {'; '.join(parts)}. The bound also has the term T / N_0, linear in T, with "
        f"an unknown factor; here the regret is {1e3 * worst:.1f} thousandths a round at most, "
        f"{worst * N_REFERENCE:.0f} / N_0."
    )


def _draw_excess(rows: dict[str, Any]) -> Figure:
    figure = new_figure(5.2, 3.4)
    axes = figure.subplots()
    for color, (shift, values) in zip(_COLORS, rows["excess_risk"].items(), strict=True):
        axes.plot(rows["lengths"], 100.0 * _means(values), "o-", color=color, label=f"{ENSEMBLE}, {shift}")
    _logarithmic(axes, rows["lengths"], "")
    axes.set_ylabel("mean risk above the oracle's, points")
    return figure


def _excess_words(rows: dict[str, Any]) -> str:
    first, last = rows["lengths"][0], rows["lengths"][-1]
    parts = []
    for shift, values in rows["excess_risk"].items():
        means = 100.0 * _means(values)
        slope, error = _growth(rows, values)
        power, bound = {"Lin": (-1 / 3, "T^(-1/3)"), "Squ": (-1 / 6, "T^(-1/6)")}[shift]
        parts.append(
            f"{shift}: from {means[0]:.2f} to {means[-1]:.2f} points, like T^{slope:.2f} ± {error:.2f}, "
            f"{verdict(slope, error, power)} the bound ({bound})"
        )
    words = "; ".join(parts).replace("-", "\N{MINUS SIGN}")
    return (
        f"Mean excess risk over the oracle against the number of rounds, T = {first:,} to {last:,} (Theorem 4's left "
        f"side; its bound adds a term N_0^(\N{MINUS SIGN}1/2) that does not fall with T). {words}."
    )


def _draw_cost(rows: dict[str, Any]) -> Figure:
    figure = new_figure(5.2, 3.4)
    axes = figure.subplots()
    cost = rows["cost"]
    axes.plot(cost["n_learners"], cost["milliseconds"], "o", color=line_style(ENSEMBLE)["color"])
    for x, y, t in zip(cost["n_learners"], cost["milliseconds"], cost["round"], strict=True):
        axes.annotate(f"t = {t:,}", (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=7)
    axes.set(xlabel="learners, floor(log2 t) - 1", ylabel="ms of processor time a round", ylim=(0.0, None))
    tidy(axes)
    return figure


def _cost_words(rows: dict[str, Any]) -> str:
    cost = rows["cost"]
    slope, start = np.polyfit(cost["n_learners"], cost["milliseconds"], 1)
    line = start + slope * np.array(cost["n_learners"])
    misfit = float(np.max(np.abs(np.array(cost["milliseconds"]) - line) / line))
    claim = (
        "so a round costs O(log t), as claimed" if misfit <= _LARGEST_MISFIT else "which is no line: O(log t) is open"
    )
    return (
        f"Cost of a round against the number of learners, which is log2 of the round: {1e3 * start:.0f} microseconds "
        f"and {1e3 * slope:.1f} more for each learner, with points up to {100 * misfit:.0f} % off this line, {claim}."
    )


def _logarithmic(axes: Any, lengths: list[int], title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="rounds T", title=title)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    tidy(axes)
