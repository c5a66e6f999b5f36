"""The errors and warnings of accous.

::

    AccousError
    ├── ParameterError    (also a ValueError)
    ├── DataError         (also a ValueError)
    ├── MissingExtraError (also an ImportError)
    └── CheckpointError
        └── LockedError

    DataWarning           (a UserWarning)

Catch `AccousError` to catch every error that the package raises on purpose. Code that catches `ValueError`, as
scikit-learn's own tools do, keeps working. What needs a fitted model raises an `AccousError` that is also
scikit-learn's ``NotFittedError`` (`accous.validation`).
"""

__all__ = [
    "AccousError",
    "CheckpointError",
    "DataError",
    "DataWarning",
    "LockedError",
    "MissingExtraError",
    "ParameterError",
]


class AccousError(Exception):
    """Base class of every error that accous raises on purpose."""

    __module__ = "accous"


class ParameterError(AccousError, ValueError):
    """A parameter has a value that is not allowed."""


class DataError(AccousError, ValueError):
    """The rows or columns cannot be used."""


class MissingExtraError(AccousError, ImportError):
    """A library that only some parts of accous need is not installed."""


class CheckpointError(AccousError):
    """A model cannot be saved, or a saved model cannot be loaded."""


class LockedError(CheckpointError):
    """A folder is in use by another process."""


class DataWarning(UserWarning):
    """The reference misleads a model: a column counts its rows or gives the label away, or a class has few rows."""
