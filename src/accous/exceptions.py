"""The errors raised by accous.

::

    AccousError
    ├── ParameterError    (also a ValueError)
    ├── DataError         (also a ValueError)
    ├── MissingExtraError (also an ImportError)
    └── CheckpointError
        └── LockedError

Catch `AccousError` to catch everything the package raises on purpose; code that catches `ValueError`, as
scikit-learn's own tools do, keeps working.
"""

__all__ = ["AccousError", "CheckpointError", "DataError", "LockedError", "MissingExtraError", "ParameterError"]


class AccousError(Exception):
    """Base class of every error that accous raises on purpose."""


class ParameterError(AccousError, ValueError):
    """A constructor parameter is out of its domain."""


class DataError(AccousError, ValueError):
    """The rows or columns given cannot be used."""


class MissingExtraError(AccousError, ImportError):
    """A library that only some parts of accous need is not installed."""


class CheckpointError(AccousError):
    """A model cannot be saved, or what was saved cannot be loaded."""


class LockedError(CheckpointError):
    """A folder is in use by another process."""
