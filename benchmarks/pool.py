"""What the pool is worth: errors of the paper's ensemble, and of the default that adds parts to it.

``python -m benchmarks.pool`` measures everything; ``--only`` names parts:

- headline: Gaussian streams with 12 columns, 1,000 reference rows and 1 or 5 rows a round; 10,000 rounds
- regimes: three and six regimes, and a weekly cycle

Every case is kept in ``benchmarks/results/pool.json`` as soon as it is finished, in place of an earlier run of the same
case with the same seeds and rounds. A mark of docs/pool.md says which rows a table shows:
``<!-- table pool PART SETTING=VALUE ... -->``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.streams import Batch
from accous.threads import one_blas_thread
from accous_bench.contenders import LIMIT, ORACLE, Contender, fit_on, get_contender, rounds
from accous_bench.problems import Setting, get_problem
from benchmarks.data import MOVING, FloatArray
from benchmarks.pages import fill, keep_part, kept, markdown

Row = dict[str, Any]
Errors = dict[str, float]
FIX = "FIX"
# A number with a factor in common with the period of a shift would only see a part of its wave.
SCORE_EVERY = 7


@dataclass(frozen=True)
class Arm:
    """A variant of `accous.AdaptiveClassifier`."""

    name: str
    pool: str = "auto"
    memory: int = 4
    adaptation: str = "auto"

    def model(self, random_state: Any = 0) -> AdaptiveClassifier:
        """Return the unfitted classifier."""
        ratio = OnlineDensityRatio(pool=self.pool, memory=self.memory, random_state=random_state)
        return AdaptiveClassifier(ratio=ratio, standardize=False, adaptation=self.adaptation, random_state=random_state)


ENSEMBLE = Arm("ensemble (paper)", pool="none", adaptation="always")
DEFAULT = Arm("default")
ARMS = (ENSEMBLE, Arm("ensemble, safety net", pool="none"), Arm("pool without memory", memory=0), DEFAULT)


# --- streams of more than two regimes -----------------------------------------------------------------------------

N_FEATURES, N_REFERENCE, FIRST_SHARE, STAY, DAY = 12, 1000, 0.5, 150, 24
KINDS = {"three": "three regimes", "six": "six regimes", "week": "day, night, weekend"}
N_PARTS = {"three": 3, "six": 6, "week": 3}


@dataclass(frozen=True)
class RegimeStream:
    """A stream of three or six regimes, or with a weekly cycle of day, night and weekend, with exact answers.

    Every part is a pair of Gaussians, one per class, with unit covariance. The centres lie far apart and the class
    directions differ, so that one linear model cannot be right for all parts. Half of the reference belongs to the
    first part, and the rest equally to the others. In "three" and "six" each stretch of 150 rounds is one regime, and
    the next one is drawn at random. In "week" a round is an hour: day and night take twelve rounds each on five days,
    and the weekend takes 48. ``alpha`` of a batch is the number of its part.
    """

    kind: str
    n_rounds: int
    batch_size: int
    random_state: int

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The part of each round."""
        if self.kind == "week":
            hours = np.arange(self.n_rounds)
            of_day = (hours % DAY >= DAY // 2).astype(np.int64)
            return np.where(hours // DAY % 7 >= 5, 2, of_day)
        rng, n_parts = np.random.default_rng([self.random_state, 2]), N_PARTS[self.kind]
        stretches = [int(rng.integers(n_parts))]
        while len(stretches) * STAY < self.n_rounds:
            stretches.append(int((stretches[-1] + rng.integers(1, n_parts)) % n_parts))
        return np.repeat(stretches, STAY)[: self.n_rounds]

    @cached_property
    def shares(self) -> FloatArray:
        """Shares of the parts in the reference."""
        n_others = N_PARTS[self.kind] - 1
        return np.array([FIRST_SHARE, *[(1.0 - FIRST_SHARE) / n_others] * n_others])

    @cached_property
    def means(self) -> FloatArray:
        """Means of the classes, (n_parts, 2, n_features): fixed geometry, the same for all seeds."""
        n_parts, rng = N_PARTS[self.kind], np.random.default_rng(0)
        frame = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]
        centres = np.sqrt(N_FEATURES) * frame[:n_parts]
        angles = np.deg2rad(75.0) * np.arange(n_parts)
        directions = np.cos(angles)[:, None] * frame[-1] + np.sin(angles)[:, None] * frame[-2]
        halves = 0.2 * np.sqrt(N_FEATURES) * directions
        return np.stack((centres - halves, centres + halves), axis=1)

    def reference(self) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return the labelled reference."""
        rng = np.random.default_rng([self.random_state, 0])
        return self._rows(rng, rng.choice(len(self.shares), size=N_REFERENCE, p=self.shares))

    def __len__(self) -> int:
        return self.n_rounds

    def __iter__(self) -> Iterator[Batch]:
        rng = np.random.default_rng([self.random_state, 1])
        for number, part in enumerate(self.parts.tolist(), start=1):
            X, y = self._rows(rng, np.full(self.batch_size, part))
            yield Batch(X, y, float(part), number)

    def risk(self, model: Any, alpha: float) -> float:
        """Return the exact error of a linear model on a part."""
        coef, intercept = np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])
        margins = (self.means[int(alpha)] @ coef + intercept) / np.linalg.norm(coef)
        return float(ndtr(margins * np.array([1.0, -1.0])).mean())

    def reference_ratio(self, alpha: float) -> FloatArray:
        """Return the true ratio of every reference row in a round of a part."""
        logs = self._log_densities
        return np.asarray(np.exp(logs[:, int(alpha)] - logsumexp(logs, b=self.shares, axis=1)))

    @cached_property
    def _log_densities(self) -> FloatArray:
        squares = ((self.reference()[0][:, None, None, :] - self.means) ** 2).sum(axis=-1)
        return np.asarray(logsumexp(-0.5 * squares, axis=-1))

    def _rows(self, rng: np.random.Generator, parts: NDArray[np.int64]) -> tuple[FloatArray, NDArray[np.int64]]:
        y = rng.integers(2, size=len(parts))
        return self.means[parts, y] + rng.normal(size=(len(parts), N_FEATURES)), y


# --- errors of the arms on one stream, in % -----------------------------------------------------------------------


def risks_of(contender: Contender, stream: Any) -> FloatArray:
    """Return the exact risk of the contender's model in every seventh round, on that round's distribution."""
    model = contender(stream.random_state)
    with one_blas_thread():
        fit_on(stream, contender, model)
        return np.array(
            [
                stream.risk(model.estimator_, batch.alpha)
                for batch in rounds(contender, model, stream)
                if batch.round % SCORE_EVERY == 0
            ]
        )


def exact_errors(make: Callable[[int], Any], bounds: Sequence[str], arms: Sequence[Arm], seed: int) -> Errors:
    """Return the mean exact risk of FIX, the bounds and the arms on the stream of a seed."""
    contenders = [get_contender(name) for name in (FIX, *bounds)] + [Contender(arm.name, arm.model) for arm in arms]
    return {each.name: 100.0 * float(risks_of(each, make(seed)).mean()) for each in contenders}


# --- cases --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The line of a table, its settings, and what returns errors for arms and a seed."""

    label: str
    settings: dict[str, Any]
    errors: Callable[[Sequence[Arm], int], Errors]


def headline(options: argparse.Namespace) -> Iterator[Case]:
    """Yield the streams of the headline figures."""
    n_rounds, sizes = options.rounds or 10_000, {"n_features": N_FEATURES, "n_reference": N_REFERENCE}
    for batch_size, shift in product((1, 5), (*MOVING, "none")):
        make = partial(_gaussian_stream, shift, batch_size, n_rounds, sizes)
        label = f"d = 12, N_0 = 1,000, N_t = {batch_size}, {'standing still' if shift == 'none' else shift}"
        settings = {"shift": shift, **sizes, "batch_size": batch_size, "n_rounds": n_rounds}
        yield Case(label, settings, partial(exact_errors, make, (LIMIT, ORACLE)))


def _gaussian_stream(shift: str, batch_size: int, n_rounds: int, sizes: dict[str, Any], seed: int) -> Any:
    return get_problem("gaussian").make(Setting(shift, batch_size, n_rounds, seed, sizes))


def regimes(options: argparse.Namespace) -> Iterator[Case]:
    """Yield streams of more than two regimes."""
    n_rounds = options.rounds or 3_000
    for kind, batch_size in product(KINDS, (1, 5)):
        settings = {"kind": kind, "batch_size": batch_size, "n_rounds": n_rounds}
        make = partial(RegimeStream, kind, n_rounds, batch_size)
        yield Case(f"{KINDS[kind]}, N_t = {batch_size}", settings, partial(exact_errors, make, (ORACLE,)))


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Case]]] = {"headline": headline, "regimes": regimes}
# Seeds of the headline were not used to choose any constant.
SEEDS = {"headline": "40-44", "regimes": "40-42"}


# --- measure ------------------------------------------------------------------------------------------------------


def measure(case: Case, arms: Sequence[Arm], seeds: Sequence[int], n_jobs: int = 1) -> Row:
    """Return means over seeds, and the standard error of each arm's difference from FIX."""
    found = Parallel(n_jobs=n_jobs)(delayed(case.errors)(arms, seed) for seed in seeds)
    row: Row = {"case": case.label, **case.settings, "seeds": list(seeds), "errors": {}, "standard_errors": {}}
    for name in found[0]:
        differences = np.array([one[name] - one[FIX] for one in found])
        row["errors"][name] = float(np.mean([one[name] for one in found]))
        if len(found) > 1:
            row["standard_errors"][name] = float(differences.std(ddof=1) / np.sqrt(len(found)))
    return row


def keep_row(part: str, row: Row) -> None:
    """Add a row, in place of an earlier run with the same settings."""
    before = kept("pool", {}).get(part, [])
    keep_part("pool", part, [*(one for one in before if _run_of(one) != _run_of(row)), row])


def _run_of(row: Row) -> Row:
    return {name: value for name, value in row.items() if not isinstance(value, dict) and name != "commit"}


# --- write --------------------------------------------------------------------------------------------------------


def table_of(name: str) -> str | None:
    """Return the table of a mark such as ``pool regimes n_rounds=1500 seeds=80``."""
    where, part, *settings = name.split()
    if where != "pool":
        return None
    wanted = dict(each.split("=", maxsplit=1) for each in settings)
    rows = [row for row in kept("pool")[part] if all(_has(row, *setting) for setting in wanted.items())]
    cases = [row["case"] for row in rows]
    if not rows or len(set(cases)) < len(cases):
        raise ValueError(f"{name} must select one run of each case, got {cases}.")
    return error_table(rows)


def _has(row: Row, name: str, value: str) -> bool:
    return bool(row["seeds"] == seed_numbers(value)) if name == "seeds" else str(row.get(name)) in value.split(",")


def error_table(rows: Sequence[Row]) -> str:
    """Return errors in %, and the share of FIX to limit, or else to oracle, that each arm closes."""
    bound = next((name for name in (LIMIT, ORACLE) if all(name in row["errors"] for row in rows)), None)
    largest = max((row["errors"] for row in rows), key=len)
    names = [FIX, *([bound] if bound else []), *(name for name in largest if name not in (FIX, LIMIT, ORACLE))]
    lines = [(row["case"], *(_cell(row["errors"], name, bound) for name in names)) for row in rows]
    return markdown(("", *names), lines)


def _cell(errors: Errors, name: str, bound: str | None) -> str:
    if name not in errors:
        return ""
    gap = errors[FIX] - errors[bound] if bound else 0.0
    share = "" if name in (FIX, bound) or gap < 0.05 else f" ({100.0 * (errors[FIX] - errors[name]) / gap:.0f})"
    return f"{errors[name]:.2f}{share}"


# --- main ---------------------------------------------------------------------------------------------------------


def seed_numbers(text: str) -> list[int]:
    """Read seeds such as ``0-4`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def main() -> None:
    """Measure, keep, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS), help="parts (default: all)")
    parser.add_argument("--seeds", help="first and last seed, such as 40-44 (default: by part)")
    parser.add_argument("--rounds", type=int, help="rounds of each stream (default: by part)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    options = parser.parse_args()
    for part in options.only:
        rows: list[Row] = []
        for case in PARTS[part](options):
            rows.append(measure(case, ARMS, seed_numbers(options.seeds or SEEDS[part]), options.jobs))
            keep_row(part, rows[-1])
        print(f"\n{part}\n\n{error_table(rows)}")
    fill("pool.md", table_of)


if __name__ == "__main__":
    main()
