"""The paper's "LR": Online Newton Steps on a single batch, without any history."""

from __future__ import annotations

from copy import copy
from typing import Any

from accous.arrays import FloatArray
from accous.parameters import require_integer
from accous.ratio.base import RatioEstimator
from accous.ratio.online import SingleLearnerRatio

__all__ = ["NewtonStepRatio"]


class NewtonStepRatio(RatioEstimator):
    r"""Online Newton Steps from :math:`\theta = 0` on one batch: a base learner that forgets after every round.

    The paper's ablation "LR" estimates the ratio of a round "by an ONS with a logistic regression model" and does not
    give the number of steps. Here a batch is played ``n_steps`` times by a new learner of
    `accous.SingleLearnerRatio` in its default configuration, one step unless you say otherwise.
    `accous.LogisticRatio` goes to the optimum of the same loss with a penalty instead.

    Parameters
    ----------
    n_steps : int, default=1
    max_ratio : float, default=100.0
        Larger ratios are clipped to this value.

    Examples
    --------
    >>> import numpy as np
    >>> from accous_bench.newton_steps import NewtonStepRatio
    >>> rng = np.random.default_rng(0)
    >>> ratio = NewtonStepRatio().fit(rng.normal(size=(500, 1)))
    >>> first = ratio.partial_fit([[1.0]]).reference_ratio_
    >>> again = ratio.partial_fit([[-1.0]]).partial_fit([[1.0]]).reference_ratio_
    >>> bool((first == again).all())
    True
    """

    start_: SingleLearnerRatio
    learner_: SingleLearnerRatio
    n_rounds_: int

    def __init__(self, n_steps: int = 1, *, max_ratio: float = 100.0) -> None:
        self.n_steps = n_steps
        self.max_ratio = max_ratio

    @property
    def reference_ratio_(self) -> FloatArray:
        """Ratio of every reference row under the last batch; ones before the first."""
        return self.learner_.reference_ratio_

    def _start(self, X: Any) -> None:
        require_integer("n_steps", self.n_steps, at_least=1)
        self.start_ = SingleLearnerRatio(max_ratio=self.max_ratio).fit(X)
        self.learner_, self.n_rounds_ = self.start_, 0

    def _play(self, X: Any) -> None:
        learner = copy(self.start_)  # learners replace what they know, so the one at the start stays as it is
        for _ in range(int(self.n_steps)):
            learner.partial_fit(X)
        self.learner_, self.n_rounds_ = learner, self.n_rounds_ + 1

    def _ratio(self, X: Any) -> FloatArray:
        return self.learner_.predict_ratio(X)
