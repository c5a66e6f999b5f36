"""A fuzzer of the command line: mutated tables and labels and damaged models, of classes and of numbers.

Cases run fit, adapt, predict, labels, backtest, report and status.

``python -m tests.fuzz --cases 100000 --seed 0 --jobs 2`` runs cases 0 to 99,999; ``--case K`` runs one of them again
and shows its commands.

It is a plain generator with a seed rather than Hypothesis or Atheris. A case is a little story (write files, run a
command, repair them, run it again) whose steps cost tens of milliseconds: Hypothesis would spend most of its time on
shrinking stories, where the number of a case is enough to see what happened, and Atheris looks for new branches in
Python code by bytes alone, whereas most faults here come from tables that are nearly right, read by compiled
libraries that it does not see. Commands run in this process, because starting Python takes longer than most of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from pathlib import Path

# One thread a process: the tables are small, and the processes many.
for _name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from tests.fuzz.cases import Outcome, run_case, run_part  # noqa: E402

_CASES_AT_ONCE = 20


def run_cases(seed: int, numbers: range, n_jobs: int) -> Iterator[list[Outcome]]:
    """Run cases by their numbers, and yield what became of them, some at a time."""
    parts = (numbers[first : first + _CASES_AT_ONCE] for first in range(0, len(numbers), _CASES_AT_ONCE))
    while part := next(parts, None):
        yield from _outcomes_of_pool(seed, chain([part], parts), n_jobs)


def _outcomes_of_pool(seed: int, parts: Iterator[range], n_jobs: int) -> Iterator[list[Outcome]]:
    """Run parts until there are no more, or a process crashes; then all that was being run has failed."""
    with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run_part, seed, part): part for part in islice(parts, 2 * n_jobs)}
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                yield from [each.result() for each in finished]
            except BrokenProcessPool:
                yield [_crash(part) for part in running.values()]
                return
            for each in finished:
                del running[each]
            running |= {pool.submit(run_part, seed, part): part for part in islice(parts, len(finished))}


def _crash(part: range) -> Outcome:
    problem = f"a process crashed while the cases {part.start} to {part.stop - 1} were run, or others beside them"
    return Outcome(part.start, "crash", "", [], [], [problem])


def _run_many(seed: int, numbers: range, n_jobs: int) -> int:
    """Run cases, and sum up; Ctrl-C sums up those run so far."""
    cases, commands, failed = Counter[str](), Counter[str](), list[int]()
    code, start = 0, time.monotonic()
    try:
        for outcome in chain.from_iterable(run_cases(seed, numbers, n_jobs)):
            cases[f"{outcome.plot:22} {outcome.table_format}"] += 1
            commands.update(outcome.commands)
            if outcome.problems:
                failed.append(outcome.number)
                print(f"\n{outcome.plot}, {outcome.table_format}; {', '.join(outcome.done)}")
                print(*(f"  {problem.strip()[-1500:]}" for problem in outcome.problems), sep="\n")
                print(f"  again: python -m tests.fuzz --seed {seed} --case {outcome.number}", flush=True)
            rate = cases.total() / (time.monotonic() - start)
            line = f"{cases.total():,} of {len(numbers):,} cases, {len(failed)} failed, {rate:.1f} a second"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        code = 130
    print(f"\n{cases.total():,} cases of seed {seed}, from {numbers.start} on: {len(failed)} failed.")
    for counts in (commands, cases):
        print(*(f"  {name:32} {count:7,}" for name, count in sorted(counts.items())), sep="\n")
    return code or int(bool(failed))


def _run_one(seed: int, number: int, folder: Path) -> int:
    outcome, runs = run_case(seed, number, kept=folder)
    print(f"{outcome.plot}, {outcome.table_format}; {', '.join(outcome.done)}; in {folder}")
    for run in runs:
        print(f"$ accous {shlex.join(run.arguments)}\n{run.out}{run.err}(exit code {run.exit_code})")
    for problem in outcome.problems:
        print(f"PROBLEM: {problem}")
    return 1 if outcome.problems else 0


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--case", type=int, help="run this one alone, and show what it does")
    parser.add_argument("--folder", type=Path, default=Path("fuzz-case"), help="where --case leaves its files")
    asked = parser.parse_args()
    if asked.case is not None:
        return _run_one(asked.seed, asked.case, asked.folder)
    return _run_many(asked.seed, range(asked.first, asked.first + asked.cases), asked.jobs)


if __name__ == "__main__":
    sys.exit(_main())
