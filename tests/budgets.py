"""What `make test` runs of a test, and what it leaves to `make test-slow`: examples of properties, and settings."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
from hypothesis import settings


def examples(percent: int) -> settings:
    """Decorate a property test whose examples are costly, or cheap: so many percent of the profile's number.

    An explicit number would be the same in `make test`, which must be quick, and in `make test-slow`, which searches.
    """
    return settings(max_examples=max(8, percent * settings.default.max_examples // 100))


def rest_slow(values: Iterable[Any], n_fast: int = 1) -> list[Any]:
    """Give these to `pytest.mark.parametrize`: the first ones run always, the others in `make test-slow` only.

    For settings that go through the same code: one of them shows what the name of the test says.
    """
    chosen = list(values)
    return [*chosen[:n_fast], *(pytest.param(value, marks=pytest.mark.slow) for value in chosen[n_fast:])]


def leave_rest_of_pairs_to_slow(items: Iterable[Any]) -> None:
    """Of tests marked `every_pair`, run combinations in which every two values meet; the others are marked `slow`.

    For a grid of several parameters: what goes wrong, goes wrong for one value or for two that meet.
    """
    grids: dict[tuple[Any, str], list[Any]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("every_pair") and not item.get_closest_marker("slow"):
            grids[item.parent, item.originalname].append(item)
    for grid in grids.values():
        shown = [[repr(value) for value in item.callspec.params.values()] for item in grid]
        numbers = [
            {text: number for number, text in enumerate(dict.fromkeys(texts))} for texts in zip(*shown, strict=True)
        ]
        cells = [tuple(of[text] for of, text in zip(numbers, texts, strict=True)) for texts in shown]
        chosen = cells_with_every_pair(cells)
        for item, cell in zip(grid, cells, strict=True):
            if cell not in chosen:
                item.add_marker("slow")


def cells_with_every_pair(cells: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Choose cells of a grid so that any two values of different parameters that meet in it meet in one of these."""
    cells = sorted(cells)
    chosen: set[tuple[int, ...]] = set()
    seen: set[Any] = set()
    n_values = 1 + max(max(cell) for cell in cells)
    # Along diagonals first: each value of a parameter then meets another one of the others.
    for cell in sorted(cells, key=lambda cell: sum(cell) % n_values):
        values = list(enumerate(cell))
        meetings = {*values, *combinations(values, 2)}
        if not meetings <= seen:
            chosen.add(cell)
            seen |= meetings
    return chosen
