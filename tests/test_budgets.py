"""What `make test` leaves to `make test-slow` is more of the same: every two values still meet."""

from itertools import combinations, product
from types import SimpleNamespace
from typing import Any

import pytest

from tests.budgets import cells_with_every_pair, leave_rest_of_pairs_to_slow

Cell = tuple[int, ...]


def pairs_of(cells: set[Cell]) -> set[Any]:
    return {pair for cell in cells for pair in combinations(enumerate(cell), 2)}


@pytest.mark.parametrize("sizes", [(3, 3, 3), (6, 3, 4), (2, 4, 4, 2), (4, 3, 3), (5, 1, 3)], ids=str)
def test_every_pair_meets_in_few_cells(sizes: Cell) -> None:
    grid = set(product(*map(range, sizes)))
    chosen = cells_with_every_pair(grid)
    assert chosen <= grid
    assert pairs_of(chosen) == pairs_of(grid)
    second, most = sorted(sizes)[-2:]
    assert len(chosen) <= 1.5 * most * second


def test_every_value_of_a_single_parameter_is_chosen() -> None:
    assert cells_with_every_pair([(0,), (1,), (2,)]) == {(0,), (1,), (2,)}


def test_of_a_part_of_a_grid_only_what_is_there_is_chosen() -> None:
    cells = {(0, 0, 1), (1, 1, 0), (0, 1, 1)}
    assert cells_with_every_pair(cells) <= cells
    assert pairs_of(cells_with_every_pair(cells)) == pairs_of(cells)


class Item(SimpleNamespace):
    """What the choice looks at in a collected test."""

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def test_the_other_combinations_are_slow_and_other_tests_are_left_alone() -> None:
    def grid(name: str, *marks: str) -> list[Item]:
        values = product([print, len, "x"], [1, 2, 3], [None, 0.5, 1e9])
        cases = [SimpleNamespace(params=dict(zip("abc", each, strict=True))) for each in values]
        return [Item(parent="a file", originalname=name, callspec=case, marks=set(marks)) for case in cases]

    marked, others = grid("test_marked", "every_pair"), grid("test_other")
    slow = grid("test_marked", "every_pair", "slow")
    leave_rest_of_pairs_to_slow([*marked, *others, *slow])
    assert sum("slow" not in item.marks for item in marked) == 9
    assert not any(item.marks for item in others)
