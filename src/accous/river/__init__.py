"""Adaptive models with river's interface, one dict at a time (extra ``river``).

The module loads without river. If you use one of its classes without it, the error says what to install.
"""

from typing import TYPE_CHECKING

from accous.extras import import_extra

if TYPE_CHECKING:
    from accous.river.adaptive_model import AdaptiveModel
    from accous.river.adaptive_regression_model import AdaptiveRegressionModel

__all__ = ["AdaptiveModel", "AdaptiveRegressionModel"]

_MODULES = {"AdaptiveModel": "adaptive_model", "AdaptiveRegressionModel": "adaptive_regression_model"}


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the names from the imports above and report any other as missing.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_extra(f"accous.river.{_MODULES[name]}", "accous.river"), name)
        globals()[name] = value
        return value
