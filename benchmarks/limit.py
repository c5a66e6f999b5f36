"""How much of the distance from FIX to the oracle, and to the limit, a method closes on the Gaussian streams.

``python -m benchmarks.limit --seeds 0-4 --rounds 10000 --batch-size 1`` prints the mean exact risk of each method under
each shift, with both shares. The oracle knows alpha of every round; the limit knows the densities of both parts and
infers alpha from past rows (`accous_bench.contenders`).

Every seventh round is scored. Squ and Sin repeat after a multiple of the square root of the number of rounds: choose a
number with no factor in common with it, so that the scored rounds are spread over the whole wave.

The risks of each shift are written to ``benchmarks/results/limit.json``, in place of an earlier run with the same
seeds, rounds and rows a round.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from accous.arrays import FloatArray
from accous.streams import GaussianStream
from accous.threads import one_blas_thread
from accous_bench.contenders import LIMIT, ORACLE, Contender, fit_on, get_contender, rounds
from accous_bench.problems import Setting, get_problem
from benchmarks.pages import RESULTS, keep_part, kept

__all__ = ["FIX", "MOVING", "Shares", "main", "measure", "play", "seed_numbers", "share_table", "shares", "streams"]

FIX, ACCOUS = "FIX", "accous"
METHODS = (FIX, ACCOUS, LIMIT, ORACLE)
MOVING = ("Lin", "Squ", "Sin", "Ber")


class Shares(NamedTuple):
    """The mean exact risk of a method, and the shares that it closes of the distances from FIX."""

    risk: float
    of_oracle: float
    of_limit: float


def streams(shift: str, seeds: Sequence[int], n_rounds: int, batch_size: int) -> Iterator[GaussianStream]:
    """Yield the benchmark's stream ``gaussian`` for each seed."""
    for seed in seeds:
        yield get_problem("gaussian").make(Setting(shift, batch_size, n_rounds, seed))


def play(method: str | Contender, stream: Any, score_every: int = 1) -> FloatArray:
    """Return the exact risk of the method's model in every ``score_every``-th round, on that round's distribution."""
    contender = get_contender(method) if isinstance(method, str) else method
    model = contender(stream.random_state)
    with one_blas_thread():
        fit_on(stream, contender, model)
        risks = [
            stream.risk(model.estimator_, batch.alpha)
            for batch in rounds(contender, model, stream)
            if batch.round % score_every == 0
        ]
    return np.array(risks)


def shares(risks: Mapping[str, float]) -> dict[str, Shares]:
    """Return the shares of each method from mean risks by name, among them those of FIX, the limit and the oracle."""
    fixed = risks[FIX]
    to_oracle, to_limit = fixed - risks[ORACLE], fixed - risks[LIMIT]
    return {name: Shares(risk, (fixed - risk) / to_oracle, (fixed - risk) / to_limit) for name, risk in risks.items()}


def measure(
    methods: Sequence[str | Contender],
    shifts: Sequence[str],
    seeds: Sequence[int],
    *,
    n_rounds: int,
    batch_size: int,
    score_every: int = 1,
    n_jobs: int = 2,
) -> dict[str, dict[str, float]]:
    """Return mean exact risks by shift and method, over all scored rounds of all seeds."""
    cases = [
        (shift, method, stream)
        for shift in shifts
        for stream, method in product(streams(shift, seeds, n_rounds, batch_size), methods)
    ]
    jobs = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(play)(method, stream, score_every) for _, method, stream in cases
    )
    risks: dict[str, dict[str, list[float]]] = {}
    for (shift, method, _), found in zip(cases, track(jobs, "streams", total=len(cases)), strict=True):
        name = method if isinstance(method, str) else method.name
        risks.setdefault(shift, {}).setdefault(name, []).append(float(found.mean()))
    return {shift: {name: float(np.mean(means)) for name, means in by_name.items()} for shift, by_name in risks.items()}


def share_table(risks: Mapping[str, Mapping[str, float]], title: str) -> Table:
    """One line per method; a cell has the risk and the shares of FIX to oracle and of FIX to limit, in %."""
    table = Table(title=title, caption="exact risk, % (share of FIX to oracle closed, share of FIX to limit closed, %)")
    table.add_column("method")
    for shift in risks:
        table.add_column(shift, justify="right")
    by_shift = {shift: shares(means) for shift, means in risks.items()}
    for name in next(iter(by_shift.values())):
        found = [by_shift[shift][name] for shift in risks]
        table.add_row(
            name, *(f"{100 * each.risk:.2f} ({100 * each.of_oracle:.0f}, {100 * each.of_limit:.0f})" for each in found)
        )
    return table


def seed_numbers(text: str) -> list[int]:
    """Read seeds such as ``0-4`` or ``3``."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def keep_row(name: str, part: str, row: dict[str, Any]) -> None:
    """Add a row to a part of the kept results, in place of an earlier run with the same settings and contenders."""

    def run_of(one: dict[str, Any]) -> dict[str, Any]:
        return {name: sorted(value) if isinstance(value, dict) else value for name, value in one.items()}

    rows = kept(name).get(part, []) if (RESULTS / f"{name}.json").exists() else []
    keep_part(name, part, [*(one for one in rows if run_of(one) != run_of(row)), row])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=seed_numbers, default="0-4", help="first and last seed (default 0-4)")
    parser.add_argument("--rounds", type=int, default=10_000, help="rounds of each stream (default 10000)")
    parser.add_argument("--batch-size", type=int, default=1, help="rows in each batch (default 1)")
    parser.add_argument("--shifts", nargs="*", choices=MOVING, default=MOVING, help="shifts (default: all)")
    parser.add_argument("--score-every", type=int, default=7, help="rounds between two scorings (default 7)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    given = parser.parse_args()
    settings = {"seeds": given.seeds, "n_rounds": given.rounds, "batch_size": given.batch_size}
    risks: dict[str, dict[str, float]] = {}
    for shift in given.shifts:
        risks |= measure(
            METHODS,
            [shift],
            given.seeds,
            n_rounds=given.rounds,
            batch_size=given.batch_size,
            score_every=given.score_every,
            n_jobs=given.jobs,
        )
        keep_row("limit", shift, settings | {"score_every": given.score_every, "risks": risks[shift]})
    title = f"{given.rounds} rounds, N_t = {given.batch_size}, {len(given.seeds)} seeds"
    Console().print(share_table(risks, title))


if __name__ == "__main__":
    main()
