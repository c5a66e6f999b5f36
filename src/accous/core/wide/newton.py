r"""Online Newton Steps (Algorithm 1) for a stack of learners with many features.

In ``core/paper/newton.py`` every learner has a dense matrix and a dense inverse root. Here each learner keeps its
matrix as a :class:`~accous.core.wide.metric.Metric`, so a round writes little, and Lanczos' method does the projection.
The alternative, a :class:`~accous.core.wide.sketch.Sketch`, has a bounded number of rows and its own projection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accous.arrays import FloatArray
from accous.core.wide.lanczos import project_by_lanczos
from accous.core.wide.metric import Metric, start_metric
from accous.core.wide.sketch import Sketch, start_sketch

__all__ = ["WideStack"]


@dataclass(frozen=True, slots=True)
class WideStack:
    """The state of the learners; each step replaces it and never modifies it.

    Attributes
    ----------
    coefs : array of shape (n_learners, d)
        theta.
    metrics : tuple of n_learners Metric or Sketch
        A.
    """

    coefs: FloatArray
    metrics: tuple[Metric | Sketch, ...]

    def __len__(self) -> int:
        """Return the number of learners."""
        return len(self.metrics)

    @classmethod
    def start(cls, n_learners: int, coef: FloatArray, ridge: float) -> WideStack:
        """Return ``n_learners`` new learners at theta = ``coef`` with A = ``ridge`` I."""
        return cls(np.tile(coef, (n_learners, 1)), (start_metric(ridge, len(coef)),) * n_learners)

    @classmethod
    def start_sketched(cls, n_learners: int, coef: FloatArray, ridge: float, rank: int) -> WideStack:
        """Return the same learners with matrices that are the ridge plus a low-rank part."""
        return cls(np.tile(coef, (n_learners, 1)), (start_sketch(ridge, len(coef), rank),) * n_learners)

    def since(self, first: int) -> WideStack:
        """Return the learners from position ``first`` on."""
        return WideStack(self.coefs[first:], self.metrics[first:])

    def after(self, younger: WideStack) -> WideStack:
        """Return a stack of ``younger`` followed by these learners."""
        return WideStack(np.concatenate((younger.coefs, self.coefs)), (*younger.metrics, *self.metrics))

    def step(self, gradients: FloatArray, step_size: float, radius: float) -> WideStack:
        """Make one Newton step for every learner; the arguments are those of ``NewtonStack.step``."""
        coefs, metrics = np.empty_like(self.coefs), []
        for i, (coef, metric, gradient) in enumerate(zip(self.coefs, self.metrics, gradients, strict=True)):
            after, direction = metric.plus(gradient)
            coefs[i] = _project(coef - step_size * direction, after, radius)
            metrics.append(after)
        return WideStack(coefs, tuple(metrics))


def _project(point: FloatArray, metric: Metric | Sketch, radius: float) -> FloatArray:
    return metric.project(point, radius) if isinstance(metric, Sketch) else project_by_lanczos(point, metric, radius)
