"""ADAPT's estimators; runs in ADAPT's environment."""

from __future__ import annotations

from math import sqrt

import numpy as np
from adapt.instance_based import KLIEP, KMM, RULSIF, ULSIF

from benchmarks.peers.serving import Array, Contender, Settings, serve, with_gamma

CLASSES = {"ulsif": ULSIF, "rulsif": RULSIF, "kliep": KLIEP, "kmm": KMM}
NAMES = {"ridge": "lambdas", "alpha": "alpha", "max_ratio": "B", "mass_tolerance": "eps"}


class Adapt(Contender):
    """One class of ``adapt.instance_based``."""

    def __init__(self, method: str, settings: Settings) -> None:
        self.method, self.settings = method, settings
        self.model = CLASSES[method](verbose=0, **with_gamma(settings, NAMES))

    def estimate(self, reference: Array, batch: Array) -> Array:
        self.shape = reference.shape
        weights: Array = self.model.fit_weights(reference, batch)
        return weights

    def used(self) -> Settings:
        n_reference, n_features = self.shape
        used = {"width": sqrt(n_features / 2.0)}  # scikit-learn's gamma = 1 / d, if no gamma is given
        if self.method in ("ulsif", "rulsif"):
            used["ridge"] = 1.0
        if self.method == "rulsif":
            used["alpha"] = 0.1
        if self.method == "kmm":
            used["max_ratio"] = 1000.0
            used["mass_tolerance"] = (sqrt(n_reference) - 1.0) / sqrt(n_reference)
        return used | self.settings

    def expansion(self) -> tuple[Array, Array] | None:
        if self.method == "kmm":
            return None
        coefs = self.model.alphas_ if self.method == "kliep" else self.model.thetas_
        return self.model.centers_, np.ravel(coefs)


if __name__ == "__main__":
    serve("adapt", Adapt)
