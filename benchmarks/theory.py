"""The theory, measured: regret with the theorem's parameters, excess risk against T, cost of learners against log t.

``python -m benchmarks.theory`` takes about ten minutes of one core, writes ``benchmarks/results/theory.json`` and draws
the figures of docs/results.md. The regret with the default parameters is the spec ``regret``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from matplotlib.figure import Figure

from accous import OnlineDensityRatio
from accous.arrays import FloatArray
from accous.streams import ConstantShift, GaussianStream, MovingGaussianStream
from accous.threads import one_blas_thread
from accous_bench.contenders import fit_on, get_contender, rounds
from accous_bench.figures import drawing, line_style, new_figure, tidy
from accous_bench.grid import expected_excess_loss, scored_rounds
from accous_bench.problems import SHIFTS
from accous_bench.statistics import ENSEMBLE, ORACLE, theory_exponent
from benchmarks.pages import keep

__all__ = ["draw", "excess_risks", "learner_costs", "theorem_regrets"]

LENGTHS = (500, 1000, 2000, 4000, 8000)
N_FRESH_ROWS = 2000
IMAGES = Path(__file__).parent.parent / "docs" / "images"
_COLORS = ("#0072B2", "#D55E00")


def theorem_regrets(lengths: Sequence[int], seeds: Sequence[int], n_jobs: int = 1) -> dict[str, list[list[float]]]:
    """Return the dynamic regret with gamma = 3 (1 + exp(S R)), lambda = 1 and S R = 1, by path, length and seed.

    Two features and a short path, so that the true theta has norm 0.9 at most after scaling and lies in the ball.
    """
    return _by_length_and_seed(_theorem_regret, ("fixed path", "growing path"), lengths, seeds, n_jobs)


def _by_length_and_seed(
    measure: Callable[[Any, int, int], float],
    shifts: Sequence[str],
    lengths: Sequence[int],
    seeds: Sequence[int],
    n_jobs: int,
) -> dict[str, list[list[float]]]:
    cases = list(product(shifts, lengths, seeds))
    jobs = Parallel(n_jobs=n_jobs, backend="multiprocessing", batch_size=1)(
        delayed(measure)(SHIFTS[name], n_rounds, seed) for name, n_rounds, seed in cases
    )
    found = dict(zip(cases, jobs, strict=True))
    return {name: [[found[name, length, seed] for seed in seeds] for length in lengths] for name in shifts}


def _theorem_regret(shift: Any, n_rounds: int, seed: int) -> float:
    stream = MovingGaussianStream(
        shift, distance=0.25, n_features=2, n_reference=2000, n_rounds=n_rounds, random_state=seed
    )
    ratio = OnlineDensityRatio(
        radius=1.0, step_size="theory", start="zero", meta_range="paper", horizon=n_rounds, ridge=1.0
    ).fit(stream.reference()[0])
    rows, is_scored = stream.fresh_reference_rows(N_FRESH_ROWS), scored_rounds(n_rounds, 4, seed)
    excess = []
    for batch in stream:
        if is_scored[batch.round - 1]:
            excess.append(expected_excess_loss(ratio.predict_ratio(rows), stream.true_ratio(rows, batch.alpha)))
        ratio.partial_fit(batch.X)
    return float(np.mean(excess) * n_rounds)


def excess_risks(lengths: Sequence[int], seeds: Sequence[int], n_jobs: int = 1) -> dict[str, list[list[float]]]:
    """Return the mean exact risk above that of the oracle, by shift, length and seed (Theorem 4's left side)."""
    return _by_length_and_seed(_excess_risk, ("Lin", "Squ"), lengths, seeds, n_jobs)


def _excess_risk(shift: Any, n_rounds: int, seed: int) -> float:
    risks = {}
    for name in (ENSEMBLE, ORACLE):
        stream = GaussianStream(shift, n_rounds=n_rounds, random_state=seed)
        contender, is_scored = get_contender(name), scored_rounds(n_rounds, 5, seed)
        model = contender(seed)
        fit_on(stream, contender, model)
        risks[name] = np.mean(
            [
                stream.risk(model.estimator_, batch.alpha)
                for batch in rounds(contender, model, stream)
                if is_scored[batch.round - 1]
            ]
        )
    return float(risks[ENSEMBLE] - risks[ORACLE])


def learner_costs(n_rounds: int) -> dict[str, list[float]]:
    """Return the number of learners and the median processor time of a round, in ms, around t = 16, 32, 64, ..."""
    stream = GaussianStream(ConstantShift(0.5), n_rounds=n_rounds, batch_size=1, random_state=0)
    ratio = OnlineDensityRatio(pool="none").fit(stream.reference()[0])
    milliseconds, n_learners = np.empty(n_rounds), np.empty(n_rounds)
    for batch in stream:
        started = time.process_time_ns()
        ratio.partial_fit(batch.X)
        milliseconds[batch.round - 1] = (time.process_time_ns() - started) / 1e6
        n_learners[batch.round - 1] = len(ratio.learner_lengths_)
    # The second half of [2^k, 2^(k+1)): all learners of the stretch are there.
    stretches = [slice(3 * 2**k // 2, 2 ** (k + 1) - 2) for k in range(4, int(np.log2(n_rounds)))]
    return {
        "round": [stretch.stop + 2 for stretch in stretches],
        "n_learners": [float(np.median(n_learners[stretch])) for stretch in stretches],
        "milliseconds": [float(np.median(milliseconds[stretch])) for stretch in stretches],
    }


def draw(rows: dict[str, Any]) -> dict[str, bytes]:
    """Return the figures of measurements as PNG files by name."""
    draws = {"theory-regret": _draw_regret, "theory-excess-risk": _draw_excess, "theory-cost": _draw_cost}
    return {name: drawing(partial(draw, rows), name).png for name, draw in draws.items()}


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


def _draw_excess(rows: dict[str, Any]) -> Figure:
    figure = new_figure(5.2, 3.4)
    axes = figure.subplots()
    for color, (shift, values) in zip(_COLORS, rows["excess_risk"].items(), strict=True):
        axes.plot(rows["lengths"], 100.0 * _means(values), "o-", color=color, label=f"{ENSEMBLE}, {shift}")
    _logarithmic(axes, rows["lengths"], "")
    axes.set_ylabel("mean risk above the oracle's, points")
    return figure


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


def _logarithmic(axes: Any, lengths: list[int], title: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="rounds T", title=title)
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    tidy(axes)


def main() -> None:
    """Measure everything, write the record and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds (default 5)")
    parser.add_argument("--rounds", type=int, nargs="+", default=LENGTHS, help="lengths of the streams")
    parser.add_argument("--long", type=int, default=16_384, help="rounds of the stream that is timed (default 16384)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    given = parser.parse_args()
    seeds, lengths = list(range(given.seeds)), list(given.rounds)
    with one_blas_thread():
        rows = {
            "lengths": lengths,
            "seeds": seeds,
            "cost": learner_costs(given.long),
            "excess_risk": excess_risks(lengths, seeds, given.jobs),
            "theorem_regret": theorem_regrets(lengths, seeds, given.jobs),
        }
    keep("theory", rows)
    for name, content in draw(rows).items():
        (IMAGES / f"results-{name}.png").write_bytes(content)


if __name__ == "__main__":
    main()
