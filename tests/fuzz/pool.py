"""Plays cases in several processes; a process that crashes takes its cases with it, and no others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice

from tests.fuzz.cases import Outcome, play_case

__all__ = ["play_cases"]

_CASES_AT_ONCE = 20


def _play(seed: int, numbers: range) -> list[Outcome]:
    return [play_case(seed, number)[0] for number in numbers]


def _parts(numbers: range) -> Iterator[range]:
    return (numbers[first : first + _CASES_AT_ONCE] for first in range(0, len(numbers), _CASES_AT_ONCE))


def play_cases(seed: int, numbers: range, n_jobs: int) -> Iterator[list[Outcome]]:
    """Play cases by their numbers, and yield what became of them, some at a time."""
    if n_jobs == 1:
        yield from (_play(seed, part) for part in _parts(numbers))
        return
    parts = _parts(numbers)
    while part := next(parts, None):
        yield from _outcomes_of_pool(seed, chain([part], parts), n_jobs)


def _outcomes_of_pool(seed: int, parts: Iterator[range], n_jobs: int) -> Iterator[list[Outcome]]:
    """Play parts until there are no more, or a process crashes; then all that was being played has failed."""
    with ProcessPoolExecutor(n_jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_play, seed, part): part for part in islice(parts, 2 * n_jobs)}
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            try:
                yield from [each.result() for each in finished]
            except BrokenProcessPool:
                yield [_crash(part) for part in running.values()]
                return
            for each in finished:
                del running[each]
            running |= {pool.submit(_play, seed, part): part for part in islice(parts, len(finished))}


def _crash(part: range) -> Outcome:
    problem = f"a process crashed while the cases {part.start} to {part.stop - 1} were played, or others beside them"
    return Outcome(part.start, "crash", "", [], [], [problem])
