"""Keep a deployed model alive while its inputs drift: know how good it is, which rows to label, and let it recover.

Online density-ratio estimation for continuous covariate shift, after Zhang, Zhang, Zhao and Sugiyama,
"Adapting to Continuous Covariate Shift via Online Density Ratio Estimation" (NeurIPS 2023).
The public names are loaded on first use, so ``import accous`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accous import datasets, deep, keyed, river, streams
    from accous.exceptions import AccousError
    from accous.model.backtest import backtest
    from accous.model.estimators import AdaptiveClassifier, AdaptiveRegressor
    from accous.model_folders import load, save
    from accous.ratio.one_step import KLIEP, KMM, RULSIF, ULSIF, LogisticRatio
    from accous.ratio.online import NoShift, OnlineDensityRatio, SingleLearnerRatio

    __version__: str

__all__ = [
    "KLIEP",
    "KMM",
    "RULSIF",
    "ULSIF",
    "AccousError",
    "AdaptiveClassifier",
    "AdaptiveRegressor",
    "LogisticRatio",
    "NoShift",
    "OnlineDensityRatio",
    "SingleLearnerRatio",
    "__version__",
    "backtest",
    "datasets",
    "deep",
    "keyed",
    "load",
    "river",
    "save",
    "streams",
]

_NAMES_IN = {
    "accous.exceptions": ("AccousError",),
    "accous.model.backtest": ("backtest",),
    "accous.model.estimators": ("AdaptiveClassifier", "AdaptiveRegressor"),
    "accous.model_folders": ("load", "save"),
    "accous.ratio.one_step": ("KLIEP", "KMM", "RULSIF", "ULSIF", "LogisticRatio"),
    "accous.ratio.online": ("NoShift", "OnlineDensityRatio", "SingleLearnerRatio"),
}
_HOME_OF_NAME = {name: module for module, names in _NAMES_IN.items() for name in names}
_SUBMODULES = {"datasets", "deep", "keyed", "river", "streams"}


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the names from the imports above and report any other name as missing.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name in _HOME_OF_NAME:
            value = getattr(import_module(_HOME_OF_NAME[name]), name)
        elif name in _SUBMODULES:
            value = import_module(f"{__name__}.{name}")
        elif name == "__version__":
            value = import_module("importlib.metadata").version(__name__)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value
