"""What an estimator has only after ``fit``, and the error of who reads it before."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.exceptions import NotFittedError as ScikitLearnNotFittedError

from accous.exceptions import AccousError

__all__ = ["LearnedAttributes", "NotFittedError", "require_learned"]


class NotFittedError(AccousError, ScikitLearnNotFittedError):
    """The model has not been fitted: scikit-learn's error of this name, which is also a ValueError."""


def require_learned(estimator: Any, attribute: str) -> None:
    """Raise a NotFittedError if ``fit`` has not set the attribute."""
    if attribute not in vars(estimator):
        name = type(estimator).__name__
        raise NotFittedError(f"This {name} is not fitted yet: call fit first.")


class LearnedAttributes:
    """Raises an error that asks for ``fit`` if a learned attribute is read too early."""

    # What to use in place of methods that only other classes have, by their names.
    _instead: ClassVar[dict[str, str]] = {}

    def __getattr__(self, name: str) -> Any:
        """Handle a missing attribute; NotFittedError is an AttributeError, so ``hasattr`` returns False."""
        is_learned = name.endswith("_") and not name.endswith("__")
        if is_learned and "reference_" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} has no {name} yet: call fit with a reference first.")
        advice = f": use {self._instead[name]}" if name in self._instead else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def _require_fitted(self, attribute: str) -> None:
        require_learned(self, attribute)
