"""Slow, obvious versions of the cheaper metrics: a diagonal, and frequent directions with a dense matrix."""

from typing import Any

import numpy as np

from tests import oracles
from tests.oracles import Array

__all__ = ["PlainSketch", "diagonal_step", "sketched_step_of_rank"]


class PlainSketch:
    """Frequent directions with full singular value decompositions; half of each delta goes to the ridge."""

    def __init__(self, ridge: float, d: int, rank: int) -> None:
        self.rank, self.d, self.ridge, self.rows = rank, d, ridge, np.empty((0, d))

    @property
    def dense(self) -> Array:
        """A."""
        A = self.ridge * np.eye(self.d)
        for row in self.rows:
            A = A + np.outer(row, row)
        return A

    def plus(self, gradient: Array) -> Array:
        """Take a gradient in, and return the Newton direction."""
        if len(self.rows) == 2 * self.rank:
            self._shrink()
        self.rows = np.vstack((self.rows, gradient))
        return np.asarray(np.linalg.solve(self.dense, gradient))

    def _shrink(self) -> None:
        _, values, directions = np.linalg.svd(self.rows)
        squares = np.zeros(2 * self.rank)
        squares[: len(values)] = values**2
        delta = squares[self.rank]
        self.rows = np.zeros((self.rank, self.d))
        for i in range(min(self.rank, self.d)):
            self.rows[i] = np.sqrt(max(squares[i] - delta, 0.0)) * directions[i]
        self.ridge += delta / 2.0


def diagonal_step(theta: Array, A: Array, g: Array, step_size: float, radius: float) -> tuple[Array, Array]:
    """``oracles.newton_step`` with the squares of g on the diagonal of A only, one coordinate at a time."""
    A = A.copy()
    nu = theta.copy()
    for j in range(len(g)):
        A[j, j] += g[j] ** 2
        nu[j] -= step_size * g[j] / A[j, j]
    return oracles.project(nu, A, radius)[0], A


def sketched_step_of_rank(rank: int) -> Any:
    """``oracles.newton_step`` with a sketch for A; a learner's first A is a matrix, lambda I."""

    def step(theta: Array, A: Any, g: Array, step_size: float, radius: float) -> tuple[Array, PlainSketch]:
        sketch = A if isinstance(A, PlainSketch) else PlainSketch(A[0, 0], len(g), rank)
        nu = theta - step_size * sketch.plus(g)
        return oracles.project(nu, sketch.dense, radius)[0], sketch

    return step
