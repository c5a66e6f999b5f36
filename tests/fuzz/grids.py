"""Small tables that work, as header and rows of texts: what the mutations start from."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["EMBEDDING_WIDTH", "LABEL", "Grid", "make_grid", "make_vectors"]

LABEL = "y"
EMBEDDING_WIDTH = 3
_HEADER = ["age", "income", "plan", "day", LABEL]


@dataclass
class Grid:
    """A table of texts; rows may have more or fewer fields than the header once they are mutated."""

    header: list[str]
    rows: list[list[str]]

    def copy(self) -> Grid:
        return Grid(list(self.header), [list(row) for row in self.rows])

    def column(self, number: int) -> list[str]:
        """The values of a column; empty where a row is too short."""
        return [row[number] if number < len(row) else "" for row in self.rows]


def make_grid(random: Random, n_rows: int, *, n_classes: int | None = 2) -> Grid:
    """Rows with a number, a number that is missing now and then, a category, a date and a label.

    The label is a class, or a number where ``n_classes`` is None.
    """
    rows = []
    for number in range(n_rows):
        age, income = random.gauss(40.0, 10.0), random.gauss(1000.0, 200.0)
        score = age + income / 50.0 + random.gauss(0.0, 5.0)
        missing = random.random() < 0.1
        day = f"2024-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}"
        fields = [
            f"{age:.2f}",
            "" if missing else f"{income:.1f}",
            random.choice("abc"),
            day,
            _label(number, score, n_classes),
        ]
        rows.append(fields)
    return Grid(list(_HEADER), rows)


def _label(number: int, score: float, n_classes: int | None) -> str:
    if n_classes is None:
        return f"{score:.2f}"
    # The first rows have every class, so that a base table always has all of them.
    place = number if number < n_classes else min(n_classes - 1, max(0, int((score - 35.0) / (50.0 / n_classes))))
    return f"class {place}"


def make_vectors(random: Random, n_rows: int, *, has_classes: bool = True) -> tuple[list[list[float]], list[float]]:
    """Embeddings and their labels: classes 0 and 1, or numbers."""
    classes = [number % 2 for number in range(n_rows)]
    rows = [[random.gauss(label, 1.0) for _ in range(EMBEDDING_WIDTH)] for label in classes]
    return rows, list(classes) if has_classes else [round(sum(row) + random.gauss(0.0, 0.5), 3) for row in rows]
