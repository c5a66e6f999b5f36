"""Features from a frozen network: turn images, or anything a torch module takes, into bounded rows (extra ``deep``).

`features` holds `BackboneFeatures`, `networks` what embeds, `rows` how images and tensors are read and remembered. The
module loads without PyTorch. If you use `BackboneFeatures` without it, the error says what to install.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accous.deep.features import BackboneFeatures, embeddings_of

__all__ = ["BackboneFeatures", "embeddings_of"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Hidden from type checkers: they know the name from the import above and report any other as missing.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module("accous.deep.features"), name)
        globals()[name] = value
        return value
