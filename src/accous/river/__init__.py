"""An adaptive classifier with river's interface, one dict at a time (extra ``river``).

The module loads without river. If you use `AdaptiveModel` without it, the error says what to install.
"""

from typing import TYPE_CHECKING

from accous.extras import import_extra

if TYPE_CHECKING:
    from accous.river.adaptive_model import AdaptiveModel

__all__ = ["AdaptiveModel"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the name from the import above and report any other as missing.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = import_extra("accous.river.adaptive_model", "accous.river").AdaptiveModel
        globals()[name] = value
        return value
