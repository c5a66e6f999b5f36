"""What goes wrong with a table before it is written: its header, its rows, its fields."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.grids import LABEL, Grid
from tests.fuzz.odd_values import ODD_LABELS, ODD_NAMES, ODD_VALUES

__all__ = ["MUTATIONS", "mutate_grid"]

_LONG_FIELD = 140_000  # longer than the longest field that Python's csv module takes


def mutate_grid(grid: Grid, random: Random, n_mutations: int) -> list[str]:
    """Apply mutations in place; return their names."""
    chosen = [random.choice(MUTATIONS) for _ in range(n_mutations)]
    for mutation in chosen:
        mutation(grid, random)
    return [mutation.__name__ for mutation in chosen]


def _row(grid: Grid, random: Random) -> list[str]:
    return random.choice(grid.rows) if grid.rows else []


def _place(items: list[str], random: Random) -> int:
    return random.randrange(len(items)) if items else 0


def set_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    row[_place(row, random) : _place(row, random) + 1] = [random.choice(ODD_VALUES)]


def set_one_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row[_place(row, random)] = random.choice(ODD_VALUES)


def set_column(grid: Grid, random: Random) -> None:
    """Fill a column with one odd value, or with many."""
    place, value, is_one = _place(grid.header, random), random.choice(ODD_VALUES), random.random() < 0.5
    for row in grid.rows:
        if place < len(row):
            row[place] = value if is_one else random.choice(ODD_VALUES)


def set_part_of_column(grid: Grid, random: Random) -> None:
    place, value, share = _place(grid.header, random), random.choice(ODD_VALUES), random.random()
    for row in grid.rows:
        if place < len(row) and random.random() < share:
            row[place] = value


def set_label(grid: Grid, random: Random) -> None:
    """Give some rows odd labels, or all rows the same one."""
    place = grid.header.index(LABEL) if LABEL in grid.header else 0
    value, share = random.choice(ODD_LABELS), random.choice([0.1, 0.5, 0.95, 1.0])
    for row in grid.rows:
        if place < len(row) and random.random() < share:
            row[place] = value


def delete_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        del row[_place(row, random)]


def repeat_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row.insert(_place(row, random), row[_place(row, random)])


def swap_fields(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        first, second = _place(row, random), _place(row, random)
        row[first], row[second] = row[second], row[first]


def lengthen_field(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    if row:
        row[_place(row, random)] = random.choice(["x", "9", "é"]) * random.choice([300, 5000, _LONG_FIELD])


def delete_rows(grid: Grid, random: Random) -> None:
    """Leave none, one, a few or most of the rows."""
    kept = random.choice([0, 1, 2, 3, 5, 9, max(0, len(grid.rows) - 1)])
    grid.rows[:] = random.sample(grid.rows, min(kept, len(grid.rows)))


def repeat_rows(grid: Grid, random: Random) -> None:
    if grid.rows:
        grid.rows += [list(_row(grid, random)) for _ in range(random.randint(1, 20))]


def repeat_one_row_only(grid: Grid, random: Random) -> None:
    row = _row(grid, random)
    grid.rows[:] = [list(row) for _ in grid.rows]


def repeat_header_as_row(grid: Grid, random: Random) -> None:
    grid.rows.insert(random.randint(0, len(grid.rows)), list(grid.header))


def blank_row(grid: Grid, random: Random) -> None:
    fields = random.choice([[], [""], [" "], [""] * len(grid.header)])
    grid.rows.insert(random.randint(0, len(grid.rows)), fields)


def rename_column(grid: Grid, random: Random) -> None:
    if grid.header:
        grid.header[_place(grid.header, random)] = random.choice(ODD_NAMES)


def repeat_name(grid: Grid, random: Random) -> None:
    if grid.header:
        grid.header[_place(grid.header, random)] = random.choice(grid.header)


def swap_names(grid: Grid, random: Random) -> None:
    random.shuffle(grid.header)


def delete_name(grid: Grid, random: Random) -> None:
    if grid.header:
        del grid.header[_place(grid.header, random)]


def delete_column(grid: Grid, random: Random) -> None:
    place = _place(grid.header, random)
    for row in [grid.header, *grid.rows]:
        del row[place : place + 1]


def add_column(grid: Grid, random: Random) -> None:
    """Put a column of odd values at the end, under an odd name."""
    grid.header.append(random.choice(ODD_NAMES))
    values = random.sample(ODD_VALUES, random.choice([1, 2, 5]))
    for row in grid.rows:
        row.append(random.choice(values))


def many_columns(grid: Grid, random: Random) -> None:
    for number in range(random.choice([15, 60])):
        grid.header.append(f"x{number}")
        for row in grid.rows:
            row.append(f"{random.gauss(0.0, 1.0):.3f}")


MUTATIONS: list[Callable[[Grid, Random], None]] = [
    *(set_field, set_one_field, set_column, set_part_of_column, set_label, set_label, delete_field, repeat_field),
    *(swap_fields, lengthen_field, delete_rows, repeat_rows, repeat_one_row_only, repeat_header_as_row, blank_row),
    *(rename_column, repeat_name, swap_names, delete_name, delete_column, add_column, many_columns),
]
