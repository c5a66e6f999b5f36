"""densratio's estimators; runs in densratio's environment."""

from __future__ import annotations

from densratio import densratio

from benchmarks.peers.serving import Array, Contender, Settings, serve

METHODS = {"ulsif": "uLSIF", "rulsif": "RuLSIF", "kliep": "KLIEP"}
NAMES = {"width": "sigma", "ridge": "lambda_", "alpha": "alpha"}


class Densratio(Contender):
    """One method of ``densratio.densratio``."""

    def __init__(self, method: str, settings: Settings) -> None:
        self.keywords = {NAMES[name]: value for name, value in settings.items()}
        self.method = method

    def estimate(self, reference: Array, batch: Array) -> Array:
        self.result = densratio(batch, reference, method=METHODS[self.method], verbose=False, **self.keywords)
        weights: Array = self.result.compute_density_ratio(reference)
        return weights

    def used(self) -> Settings:
        used = {"width": float(self.result.kernel_info.sigma)}
        if self.method in ("ulsif", "rulsif"):
            used["ridge"] = float(self.result.lambda_)
        if self.method == "rulsif":
            used["alpha"] = float(self.result.alpha)
        return used

    def expansion(self) -> tuple[Array, Array]:
        return self.result.kernel_info.centers, self.result.theta


if __name__ == "__main__":
    serve("densratio", Densratio)
