"""The sweep behind the defaults: ``make sweep`` (about twenty minutes on two idle cores).

Every candidate except one differs from the rule in one point. On Gaussian streams the score is the share of the gap
between FIX (never adapts) and the oracle (true ratio) that weighted logistic regression closes with the candidate's
ratios, in exact risk. On tables, where even the true ratio may not help, the score is points of error against FIX.
"Harm" is points above FIX on streams that do not move.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from rich.progress import track

from accous import OnlineDensityRatio
from accous.model.predictors import LogisticErm
from accous.threads import one_blas_thread
from benchmarks.data import MOVING, SHIFTS, TABLES, FloatArray, two_parts
from benchmarks.pages import fill, markdown

# (features, reference rows, batch rows)
SHAPES = (
    (2, 1000, 5), (3, 300, 1), (5, 1000, 1), (5, 3000, 50), (12, 300, 5), (12, 1000, 1), (12, 1000, 50), (12, 3000, 5),
    (30, 1000, 5), (64, 1000, 5),
)  # fmt: skip
Row = dict[str, Any]
TABLE_SHIFTS = ("Squ", "none")
SCORES_PER_STREAM, N_ROUNDS, N_SEEDS = 60, 1200, 2


@dataclass(frozen=True)
class Candidate:
    """One way to resolve every default. The values of the fields here are those of the rule."""

    step: float = 10.0
    batch_power: float = 0.25
    largest_batch_factor: float = 2.0
    radius: Callable[[int], float] = field(default=lambda d: max(d / 2.0, 10.0))
    bound_quantile: float = 0.99
    start: str = "auto"
    meta_range: str = "running"
    loss: str = "logistic"

    def make(self, X: FloatArray, batch_size: int) -> OnlineDensityRatio:
        """Return the estimator for a reference and a batch size, with each default of the logistic loss as a number."""
        step_size = self.step * min(batch_size**self.batch_power, self.largest_batch_factor)
        if self.loss != "logistic":
            return OnlineDensityRatio(loss=self.loss, step_size=step_size)
        Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
        return OnlineDensityRatio(
            step_size=step_size,
            radius=self.radius(X.shape[1] + 1),
            feature_bound=float(np.quantile(np.sqrt((Z * Z).sum(axis=1) + 1.0), self.bound_quantile)),
            start=self.start,
            meta_range=self.meta_range,
        )


RULE = Candidate()
CANDIDATES = {
    "the rule": RULE,
    "nearer to the paper": Candidate(
        largest_batch_factor=1.0, radius=lambda d: d / 2.0, bound_quantile=1.0, meta_range="paper"
    ),
    "step 5": replace(RULE, step=5.0),
    "step 20": replace(RULE, step=20.0),
    "step without batch size": replace(RULE, largest_batch_factor=1.0),
    "step with sqrt(batch), up to 3": replace(RULE, batch_power=0.5, largest_batch_factor=3.0),
    "radius d/2": replace(RULE, radius=lambda d: d / 2.0),
    "radius max(d/2, 5)": replace(RULE, radius=lambda d: max(d / 2.0, 5.0)),
    "bound at 95 %": replace(RULE, bound_quantile=0.95),
    "bound at 100 %": replace(RULE, bound_quantile=1.0),
    "start always at zero": replace(RULE, start="zero"),
    "start always at the ensemble": replace(RULE, start="ensemble"),
    "meta range of the paper": replace(RULE, meta_range="paper"),
}


OTHER_LOSSES = {
    f"{loss}, step {step:g}": replace(RULE, loss=loss, step=step)
    for loss, step in itertools.product(("least_squares", "kl"), (1.0, 2.0, 5.0, 10.0))
}


@dataclass(frozen=True)
class Case:
    """One stream."""

    data: str
    shift: str
    n_features: int
    n_reference: int
    batch_size: int
    n_rounds: int
    seed: int

    def stream(self) -> Any:
        """Make the stream."""
        return two_parts(**asdict(self))


@dataclass(frozen=True)
class Score:
    """Mean exact risks over the scored rounds of one stream."""

    candidate: str
    fix: float
    oracle: float
    adapted: float


def all_cases(*, has_tables: bool) -> Iterator[Case]:
    """Return every Gaussian shape under every shift, and every available table, long streams first."""
    for seed in range(N_SEEDS):
        for n_features, n_reference, batch_size in sorted(SHAPES, reverse=True):
            for shift in SHIFTS:
                yield Case("gaussian", shift, n_features, n_reference, batch_size, N_ROUNDS, seed)
        for table in TABLES if has_tables else ():
            for shift in TABLE_SHIFTS:
                yield Case(table, shift, 0, 1000, 5, N_ROUNDS // 2, seed)


def score_case(case: Case, candidates: dict[str, Candidate]) -> list[tuple[Case, Score]]:
    """Score every candidate on one stream."""
    stream = case.stream()
    X, y = stream.reference()
    classes, labels = np.unique(y, return_inverse=True)
    erm = LogisticErm(X, labels, classes, 1.0)
    scored_rounds = np.unique(np.linspace(1, len(stream) - 1, SCORES_PER_STREAM).astype(int))
    with one_blas_thread():
        fix, oracle = baseline_risks(stream, erm, scored_rounds)
        results = []
        for name, candidate in candidates.items():
            estimator = candidate.make(X, case.batch_size).fit(X)
            adapted = adapted_risk(stream, erm, estimator, set(scored_rounds.tolist()))
            results.append((case, Score(name, fix, oracle, adapted)))
    return results


def baseline_risks(stream: Any, erm: LogisticErm, scored_rounds: NDArray[np.int64]) -> tuple[float, float]:
    """Return the mean risk of FIX and of the oracle over the scored rounds."""
    fixed = stream.component_risks(erm.fit(np.ones(len(stream.reference()[1])), None))
    oracles: dict[float, tuple[float, float]] = {}
    fix_risks, oracle_risks = [], []
    for alpha in stream.alphas[scored_rounds].tolist():
        nearest = round(alpha, 2)
        if nearest not in oracles:
            oracles[nearest] = stream.component_risks(erm.fit(to_mean_one(stream.reference_ratio(nearest)), None))
        fix_risks.append(np.dot((1.0 - alpha, alpha), fixed))
        oracle_risks.append(np.dot((1.0 - alpha, alpha), oracles[nearest]))
    return float(np.mean(fix_risks)), float(np.mean(oracle_risks))


def adapted_risk(stream: Any, erm: LogisticErm, ratio: OnlineDensityRatio, scored_rounds: set[int]) -> float:
    """Return the mean risk with the estimator's weights, before the scored rounds."""
    risks, predictor = [], None
    for batch in stream:
        if batch.round - 1 in scored_rounds:
            predictor = erm.fit(to_mean_one(ratio.reference_ratio_), predictor)
            risks.append(stream.risk(predictor, batch.alpha))
        ratio.partial_fit(batch.X)
    return float(np.mean(risks))


def to_mean_one(ratio: FloatArray) -> FloatArray:
    """Return weights of mean 1, or ones for a ratio that is zero everywhere."""
    return ratio / ratio.mean() if ratio.any() else np.ones_like(ratio)


def main_table(rows: list[Row], names: Iterable[str]) -> str:
    """One line per candidate."""
    tables = [table for table in TABLES if any(row["data"] == table for row in rows)]
    lines = []
    for name in names:
        mine = [row for row in rows if row["candidate"] == name]
        gaussian = [row for row in mine if row["data"] == "gaussian"]
        shares = [share_closed([row for row in gaussian if row["shift"] == shift]) for shift in MOVING]
        cells = [f"{share:.0f}" for share in shares]
        cells += [f"{np.mean(shares):.1f}", f"{points_above_fix(gaussian, 'none'):+.2f}"]
        for table in tables:
            there = [row for row in mine if row["data"] == table]
            cells.append(f"{points_above_fix(there, 'Squ'):+.2f} / {points_above_fix(there, 'none'):+.2f}")
        lines.append([name, *cells])
    headings = ("", *MOVING, "mean", "harm", *(f"{table} Squ / harm" for table in tables))
    return markdown(headings, lines, n_left=len(headings))


def features_table(rows: list[Row], names: Iterable[str]) -> str:
    """Return the share of the gap closed by number of features, over all moving shifts."""
    moving = [row for row in rows if row["data"] == "gaussian" and row["shift"] != "none"]
    widths = sorted({row["n_features"] for row in moving})
    lines = []
    for name in names:
        mine = [row for row in moving if row["candidate"] == name]
        shares = [share_closed([row for row in mine if row["n_features"] == width]) for width in widths]
        lines.append([name, *(f"{share:.0f}" for share in shares)])
    return markdown(("features", *map(str, widths)), lines, n_left=len(widths) + 1)


def share_closed(rows: list[Row]) -> float:
    """Return the percentage of the summed FIX-to-oracle gap that is closed. Single gaps may be near zero."""
    gap = math.fsum(row["fix"] - row["oracle"] for row in rows)
    return 100.0 * math.fsum(row["fix"] - row["adapted"] for row in rows) / gap


def points_above_fix(rows: list[Row], shift: str) -> float:
    """Return the mean difference from FIX in percentage points."""
    return 100.0 * float(np.mean([row["adapted"] - row["fix"] for row in rows if row["shift"] == shift]))


def main() -> None:
    """Run the sweep, print its table, and write the rows and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--losses", action="store_true", help="sweep the step of the other two losses instead")
    options = parser.parse_args()
    name, candidates = ("losses", OTHER_LOSSES) if options.losses else ("defaults", CANDIDATES)
    cases = list(all_cases(has_tables="ACCOUS_DATA" in os.environ and not options.losses))
    jobs = Parallel(n_jobs=2, return_as="generator_unordered")(delayed(score_case)(case, candidates) for case in cases)
    rows = [asdict(case) | asdict(score) for found in track(jobs, "streams", total=len(cases)) for case, score in found]
    tables = main_table(rows, candidates) + "\n" + features_table(rows, candidates)
    print(tables)
    fill("defaults.md", {f"sweep {name}": tables})


if __name__ == "__main__":
    main()
