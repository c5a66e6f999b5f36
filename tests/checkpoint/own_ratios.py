"""Ratio estimators as users write them, with and without what `save` and `load` need."""

import numpy as np

from accous import OnlineDensityRatio
from accous.ratio.base import RatioEstimator


class MeanRatio(RatioEstimator):
    """Follows the mean of the batches, with some memory."""

    max_ratio = 100.0

    def __init__(self, rate=0.1):
        self.rate = rate

    def _start(self, X):
        self.shift_ = np.zeros(X.shape[1])

    def _run_round(self, X):
        self.shift_ = (1.0 - self.rate) * self.shift_ + self.rate * X.mean(axis=0)

    def _ratio(self, X):
        return np.exp(np.clip(X @ self.shift_, -4.0, 4.0))

    @property
    def reference_ratio_(self):
        return self._ratio(self.reference_)


class SavedMeanRatio(MeanRatio):
    """The same, with what `save` and `load` need."""

    def state_to_plain(self):
        return {"shift": self.shift_}

    def state_from_plain(self, plain, X):
        self.shift_ = plain["shift"]


class CountingMeanRatio(SavedMeanRatio):
    """Counts its rounds besides; what is inherited from a class of the user's will do."""

    def _start(self, X):
        super()._start(X)
        self.n_rounds_ = 0

    def _run_round(self, X):
        super()._run_round(X)
        self.n_rounds_ += 1

    def state_to_plain(self):
        return {**super().state_to_plain(), "n_rounds": self.n_rounds_}

    def state_from_plain(self, plain, X):
        super().state_from_plain(plain, X)
        self.n_rounds_ = plain["n_rounds"]


class Unstorable(SavedMeanRatio):
    """Its state cannot be written to a file."""

    def state_to_plain(self):
        return {"shift": object()}


class OwnOnline(OnlineDensityRatio):
    """Inherits methods that know nothing about what a subclass adds."""


class WithoutReference(SavedMeanRatio):
    """Its method takes other arguments."""

    def state_from_plain(self, plain):
        self.shift_ = plain["shift"]
