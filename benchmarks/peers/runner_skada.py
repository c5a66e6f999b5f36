"""skada's estimators; runs in skada's environment."""

from __future__ import annotations

from math import sqrt

import numpy as np
from skada import KLIEPReweightAdapter, KMMReweightAdapter

from benchmarks.peers.serving import Array, Contender, Settings, serve, with_gamma

NAMES = {"max_ratio": "B", "mass_tolerance": "eps"}
DEFAULT_GAMMA_OF_KLIEP = 1.0  # the default of KLIEPReweight; the adapter inside it has none


class Skada(Contender):
    """One adapter of skada."""

    def __init__(self, method: str, settings: Settings) -> None:
        keywords = with_gamma(settings, NAMES)
        self.method, self.settings = method, settings
        if method == "kmm":
            self.adapter = KMMReweightAdapter(**keywords)
        else:
            gamma = keywords.get("gamma", DEFAULT_GAMMA_OF_KLIEP)
            self.adapter = KLIEPReweightAdapter(gamma=gamma, random_state=0)

    def estimate(self, reference: Array, batch: Array) -> Array:
        rows = np.concatenate([reference, batch])
        domains = np.concatenate([np.ones(len(reference)), -np.ones(len(batch))])
        self.shape = reference.shape
        self.adapter.fit(rows, sample_domain=domains)
        weights: Array = self.adapter.compute_weights(rows, sample_domain=domains)[: len(reference)]
        return weights

    def used(self) -> Settings:
        n_reference, n_features = self.shape
        if self.method == "kliep":
            return {"width": sqrt(0.5 / self.adapter.best_gamma_)}
        used = {
            "width": sqrt(n_features / 2.0),  # scikit-learn's gamma = 1 / d, if no gamma is given
            "max_ratio": 1000.0,
            "mass_tolerance": (sqrt(n_reference) - 1.0) / sqrt(n_reference),
        }
        return used | self.settings

    def expansion(self) -> tuple[Array, Array] | None:
        if self.method == "kmm":
            return None
        return self.adapter.centers_, self.adapter.alpha_


if __name__ == "__main__":
    serve("skada", Skada)
