"""Keep a deployed model alive while its inputs drift: know how good it is, which rows to label, and let it recover.

Online density-ratio estimation for continuous covariate shift, after Zhang, Zhang, Zhao and Sugiyama,
"Adapting to Continuous Covariate Shift via Online Density Ratio Estimation" (NeurIPS 2023).
The public names are loaded on first use, so ``import accous`` is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

# The public names, and the modules that they are loaded from on first use.
_NAMES_IN = {
    "accous.exceptions": ("AccousError",),
    "accous.model.backtest": ("backtest",),
    "accous.model.estimators": ("AdaptiveClassifier", "AdaptiveRegressor"),
    "accous.model_folders": ("load", "save"),
    "accous.ratio.one_step": ("KLIEP", "KMM", "RULSIF", "ULSIF", "LogisticRatio"),
    "accous.ratio.online": ("NoShift", "OnlineDensityRatio", "SingleLearnerRatio"),
}
_SUBMODULES = ("datasets", "deep", "keyed", "river", "streams")
_HOME_OF_NAME = {name: module for module, names in _NAMES_IN.items() for name in names}
__all__ = [*_HOME_OF_NAME, *_SUBMODULES, "__version__"]  # noqa: PLE0604

# What type checkers see of them: they read no dictionary.
if TYPE_CHECKING:
    from accous import datasets as datasets
    from accous import deep as deep
    from accous import keyed as keyed
    from accous import river as river
    from accous import streams as streams
    from accous.exceptions import AccousError as AccousError
    from accous.model.backtest import backtest as backtest
    from accous.model.estimators import AdaptiveClassifier as AdaptiveClassifier
    from accous.model.estimators import AdaptiveRegressor as AdaptiveRegressor
    from accous.model_folders import load as load
    from accous.model_folders import save as save
    from accous.ratio.one_step import KLIEP as KLIEP
    from accous.ratio.one_step import KMM as KMM
    from accous.ratio.one_step import RULSIF as RULSIF
    from accous.ratio.one_step import ULSIF as ULSIF
    from accous.ratio.one_step import LogisticRatio as LogisticRatio
    from accous.ratio.online import NoShift as NoShift
    from accous.ratio.online import OnlineDensityRatio as OnlineDensityRatio
    from accous.ratio.online import SingleLearnerRatio as SingleLearnerRatio

    __version__: str


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
