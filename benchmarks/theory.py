"""The theory, measured: propositions, theorems and lemmas of the paper.

``python -m benchmarks.theory`` takes about a minute of one core, writes ``benchmarks/results/theory.json`` and draws
the figures of docs/results.md. Proposition 1 and Theorem 2 are read from the
kept results of the specs ``table3`` and ``regret``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from accous import OnlineDensityRatio
from accous.arrays import FloatArray
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from accous_bench.aggregates import read_aggregates
from accous_bench.contenders import ENSEMBLE, ORACLE, PREDICT_FIRST, fit_on, get_contender, rounds
from accous_bench.figures import drawing, new_figure, tidy
from accous_bench.grid import expected_excess_loss, scored_rounds
from accous_bench.problems import SHIFTS
from accous_bench.streams import MovingGaussianStream
from benchmarks.pages import IMAGES, RESULTS, describe, keep_part, kept

LENGTHS, SEEDS = (500, 1000, 2000, 4000, 8000), range(5)
N_FRESH_ROWS = 2000
_COLORS = ("#0072B2", "#D55E00")


def theorem_regrets(lengths: Sequence[int], seeds: Sequence[int]) -> dict[str, list[list[float]]]:
    """Return the dynamic regret with gamma = 3 (1 + exp(S R)), lambda = 1 and S R = 1, by path, length and seed.

    Two features and a short path, so that the true theta has norm 0.9 at most after scaling and lies in the ball.
    """
    return _by_length_and_seed(_theorem_regret, ("fixed path", "growing path"), lengths, seeds)


def _by_length_and_seed(
    measure: Callable[[Any, int, int], float], shifts: Sequence[str], lengths: Sequence[int], seeds: Sequence[int]
) -> dict[str, list[list[float]]]:
    return {name: [[measure(SHIFTS[name], length, seed) for seed in seeds] for length in lengths] for name in shifts}


def _theorem_regret(shift: Any, n_rounds: int, seed: int) -> float:
    stream, ratio = _realizable(shift, n_rounds, seed, "theory")
    rows, is_scored = stream.fresh_reference_rows(N_FRESH_ROWS), scored_rounds(n_rounds, 4, seed)
    excess = []
    for batch in stream:
        if is_scored[batch.round - 1]:
            excess.append(expected_excess_loss(ratio.predict_ratio(rows), stream.true_ratio(rows, batch.alpha)))
        ratio.partial_fit(batch.X)
    return float(np.mean(excess) * n_rounds)


def _realizable(
    shift: Any, n_rounds: int, seed: int, step_size: str
) -> tuple[MovingGaussianStream, OnlineDensityRatio]:
    """Return a stream whose true ratios the model contains, and the paper's ensemble with S R = 1."""
    stream = MovingGaussianStream(
        shift, distance=0.25, n_features=2, n_reference=2000, n_rounds=n_rounds, random_state=seed
    )
    ratio = OnlineDensityRatio(
        radius=1.0, step_size=step_size, start="zero", meta_range="paper", horizon=n_rounds, ridge=1.0
    )
    return stream, ratio.fit(stream.reference()[0])


def excess_risks(lengths: Sequence[int], seeds: Sequence[int]) -> dict[str, list[list[float]]]:
    """Return the mean exact risk above that of the oracle, by shift, length and seed (Theorem 4's left side)."""
    return _by_length_and_seed(_excess_risk, ("Lin", "Squ"), lengths, seeds)


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


# --- Proposition 1 and Theorem 2, from what runs record ---


class Points(NamedTuple):
    """What a bound is made of and what it bounds, a point for each contender, stream and seed."""

    bounds: FloatArray
    measured: FloatArray

    @property
    def share_within(self) -> float:
        """Share of the points that lie within the bound."""
        return float(np.mean(self.measured <= self.bounds))


def ratio_errors_and_risks() -> Points:
    """Return 2 mean |r - r*| and the risk above the oracle's (Proposition 1), on the streams of ``table3``."""
    outcomes = [one for one in read_aggregates(RESULTS / "table3.json").outcomes if one.key.protocol == PREDICT_FIRST]
    oracle = {(one.key, one.seed): one.risk for one in outcomes if one.contender == ORACLE}
    known = [one for one in outcomes if one.ratio_error is not None and one.risk is not None]
    excess = [float(one.risk or 0.0) - float(oracle[one.key, one.seed] or 0.0) for one in known]
    return Points(np.array([2.0 * float(one.ratio_error or 0.0) for one in known]), np.array(excess))


def regrets_and_ratio_errors(largest_ratio: float = 100.0) -> Points:
    """Return sqrt(4 regret / (mu T)) and mean |r - r*| (Theorem 2), on the moving Gaussian of ``regret``.

    The logistic divergence has the second derivative 1 / (2 r (r + 1)), so mu is that at the largest ratio.
    """
    known = [one for one in read_aggregates(RESULTS / "regret.json").outcomes if one.ratio_regret and one.ratio_error]
    mu = 1.0 / (2.0 * largest_ratio * (largest_ratio + 1.0))
    bounds = [(4.0 * float(one.ratio_regret or 0.0) / (mu * one.n_rounds)) ** 0.5 for one in known]
    return Points(np.array(bounds), np.array([float(one.ratio_error or 0.0) for one in known]))


# --- the lemmas on base and meta learners, interval by interval ---


def interval_regrets(n_rounds: int, seeds: Sequence[int]) -> dict[str, list[list[float]]]:
    """Return length, base regret, meta regret and path length of every interval, by path, with gamma = 6 (1 + beta).

    The base regret is the learner's expected loss above that of the true ratio, the meta regret the ensemble's above
    the learner's, each summed over the interval.
    """
    paths = ("fixed path", "growing path")
    return {path: [row for seed in seeds for row in _interval_regrets(SHIFTS[path], n_rounds, seed)] for path in paths}


def _interval_regrets(shift: Any, n_rounds: int, seed: int) -> list[list[float]]:
    stream, ratio = _realizable(shift, n_rounds, seed, "lemma")
    rows = stream.fresh_reference_rows(N_FRESH_ROWS // 4)
    features = ratio.features_.transform(rows)[0]
    found, sums, last = [], dict[int, FloatArray](), None
    for batch in stream:
        truth = stream.true_ratio(rows, batch.alpha)
        # phi . theta = -log r*: the features span the rows and the intercept, so least squares finds theta.
        best = np.linalg.lstsq(features, -np.log(truth), rcond=None)[0]
        moved, last = 0.0 if last is None else float(np.linalg.norm(best - last)), best
        ours = expected_excess_loss(np.exp(-features @ ratio.coef_), truth)
        for length, coef in zip(ratio.learner_lengths_.tolist(), ratio.learner_coefs_, strict=True):
            base = expected_excess_loss(np.exp(-features @ coef), truth)
            is_new = batch.round % length == 0
            step = np.array([base, ours - base, 0.0 if is_new else moved])
            sums[length] = step if is_new else sums[length] + step
            if (batch.round + 1) % length == 0:
                found.append([length, *(float(f"{value:.5g}") for value in sums[length])])
        ratio.partial_fit(batch.X)
    return found


def base_bound(length: FloatArray, path: FloatArray, d: int = 3, n_reference: int = 2000) -> FloatArray:
    """Return the lemma's bound on a base learner's regret with its constants, for S R = 1 and delta = 5 %."""
    beta, delta = 1.0 + np.e, 0.05
    log = np.log((2.0 * length + 1.0) / delta**2)
    static = 12.0 * d * beta * np.log1p(length) + 1.0 / (3.0 * beta) + (48.0 * beta + 6.0 / beta) * log / 2.0
    static += (4.0 + 1.0 / beta) * np.sqrt(log)
    return static + 16.0 * length * np.log((d + 1) * length / delta) / n_reference + length * path**2 / 4.0


def meta_bound(n_rounds: int) -> float:
    """Return the lemma's bound on the regret of the meta-learner with its constants, for S R = 1 and delta = 5 %."""
    beta, delta, n_intervals = 1.0 + np.e, 0.05, sum(n_rounds // 2**k for k in range(2, int(np.log2(n_rounds)) + 1))
    cost = 3.0 * np.log(n_intervals) + np.log(1.0 + n_intervals / (2.0 * np.e) * (1.0 + np.log(n_rounds + 1.0)))
    log = np.log((2.0 * n_rounds + 1.0) / delta**2)
    bound = 16.0 * beta * cost**2 / np.log(n_intervals) + 1.0 / (6.0 * beta) + 2.0 * cost
    return float(bound + (24.0 * beta + 11.0 / beta) * log / 2.0 + (4.0 + 1.0 / (2.0 * beta)) * np.sqrt(log))


def draw(rows: dict[str, Any]) -> dict[str, bytes]:
    """Return the figures of measurements as PNG files by name."""
    draws = {
        "theory-proposition": lambda _: _draw_points(
            ratio_errors_and_risks(), "2 mean |r - r*|", "risk above the oracle's", 100.0
        ),
        "theory-conversion": lambda _: _draw_points(
            regrets_and_ratio_errors(), r"$\sqrt{4\,regret\,/\,(\mu T)}$", "mean |r - r*|", 1.0
        ),
        "theory-lemmas": _draw_lemmas,
    }
    return {name: drawing(partial(draw, rows), name)[1] for name, draw in draws.items()}


def _draw_points(points: Points, bound: str, measured: str, factor: float) -> Figure:
    """Draw what is bounded against the bound, and the line on which they are equal."""
    figure = new_figure(5.2, 3.4)
    axes = figure.subplots()
    axes.plot(points.bounds, factor * points.measured, ".", color=_COLORS[0], label="one run")
    ends = np.array([points.bounds.min(), points.bounds.max()])
    axes.plot(ends, factor * ends, color="black", linestyle=(0, (4, 3)), linewidth=1.2, label="the bound")
    axes.set(xscale="log", xlabel=bound, ylabel=measured + (", points" if factor == 100.0 else ""))
    axes.set_yscale("symlog" if factor == 100.0 else "log")
    axes.set_ylim(-3.0 if factor == 100.0 else None)
    axes.legend(fontsize=8)
    tidy(axes)
    return figure


def _draw_lemmas(rows: dict[str, Any]) -> Figure:
    figure = new_figure(8.6, 3.6)
    base, meta = figure.subplots(1, 2)
    for color, (path, found) in zip(_COLORS, rows["intervals"].items(), strict=True):
        lengths, regrets, excess, moved = np.array(found).T
        for axes, values in ((base, regrets), (meta, excess)):
            axes.plot(lengths, values, ".", color=color, markersize=3, label=path)
        order = np.argsort(lengths)
        base.plot(lengths[order], base_bound(lengths, moved)[order], color=color, linestyle=(0, (4, 3)), linewidth=1.0)
    meta.axhline(meta_bound(2 * int(lengths.max()) - 1), color="black", linestyle=(0, (4, 3)), linewidth=1.0)
    for axes, title, low in ((base, "a learner above the true ratio", 0), (meta, "the ensemble above a learner", -10)):
        axes.set(xscale="log", xlabel="interval length", title=title, ylim=(low, None))
        axes.set_yscale("symlog", linthresh=0.01)
        axes.legend(fontsize=8)
        tidy(axes)
    base.set_ylabel("regret over an interval (dashed: the bound)")
    return figure


def main() -> None:
    """Measure everything, write the record and draw it."""
    describe(__doc__)
    with one_blas_thread():
        keep_part("theory", "excess_risk", excess_risks(LENGTHS, SEEDS))
        keep_part("theory", "theorem_regret", theorem_regrets(LENGTHS, SEEDS))
        keep_part("theory", "intervals", interval_regrets(2047, SEEDS))
    for name, content in draw(kept("theory")).items():
        (IMAGES / f"results-{name}.png").write_bytes(content)
    for points in (ratio_errors_and_risks(), regrets_and_ratio_errors()):
        print(f"{len(points.bounds)} runs, {100 * points.share_within:.1f} % within the bound")


if __name__ == "__main__":
    main()
