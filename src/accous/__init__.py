"""Keep a deployed classifier accurate while its inputs drift and no labels arrive.

Online density-ratio estimation for continuous covariate shift, after Zhang, Zhang, Zhao and Sugiyama,
"Adapting to Continuous Covariate Shift via Online Density Ratio Estimation" (NeurIPS 2023).
The public names are loaded on first use, so that ``import accous`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accous import streams
    from accous.adaptation import AdaptiveClassifier
    from accous.checkpoint import load, save
    from accous.exceptions import AccousError
    from accous.ratio.no_shift import NoShift
    from accous.ratio.online import OnlineDensityRatio
    from accous.ratio.single import SingleLearnerRatio

    __version__: str

__all__ = [
    "AccousError",
    "AdaptiveClassifier",
    "NoShift",
    "OnlineDensityRatio",
    "SingleLearnerRatio",
    "__version__",
    "load",
    "save",
    "streams",
]

_HOME_OF_NAME = {
    "AccousError": "accous.exceptions",
    "AdaptiveClassifier": "accous.adaptation",
    "NoShift": "accous.ratio.no_shift",
    "OnlineDensityRatio": "accous.ratio.online",
    "SingleLearnerRatio": "accous.ratio.single",
    "load": "accous.checkpoint",
    "save": "accous.checkpoint",
}
_SUBMODULES = {"streams"}


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the names from the imports above and report any other as missing.
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
