"""Objects of the user's: what a saved model records about them, and the check that `load` is given the same again.

A file never decides which code is imported: only the class name and the parameters of such an object are saved, as
text to compare with.
"""

from __future__ import annotations

import hashlib
import re
from inspect import signature
from typing import Any

from sklearn import config_context

from accous.exceptions import CheckpointError
from accous.ratio.base.base import RatioEstimator

__all__ = ["describe_foreign", "name_of", "require_foreign", "require_state_methods"]

# What accous calls each method with, to compare with what it takes.
_STATE_METHODS: dict[str, tuple[str, ...]] = {"state_to_plain": (), "state_from_plain": ("plain", "X")}


def describe_foreign(value: Any) -> dict[str, str]:
    """Return class and parameters as scikit-learn prints them, and a checksum of all parameters.

    scikit-learn shortens what it prints, so a long pipeline with another parameter may look the same.
    """
    description = {"class": name_of(value), "repr": _text(value)}
    if hasattr(value, "get_params"):
        parameters = sorted((name, _text(part)) for name, part in value.get_params(deep=True).items())
        description["parameters"] = hashlib.sha256(repr(parameters).encode()).hexdigest()
    return description


def _text(value: Any) -> str:
    """Return the value as scikit-learn prints it, without addresses in memory."""
    with config_context(print_changed_only=True):
        return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(value).split()))


def require_state_methods(ratio: RatioEstimator) -> None:
    """Check that a ratio estimator of the user's has methods of its own to save and load what it learned.

    Methods inherited from a class of accous do not count: they know nothing about what a subclass adds. A method that
    takes other arguments than accous passes is found here, so that it fails when the model is saved, not when it is
    loaded.
    """
    for method, arguments in _STATE_METHODS.items():
        home: str = getattr(type(ratio), method).__module__
        if home.partition(".")[0] == "accous":
            raise CheckpointError(
                f"A {name_of(ratio)} cannot be saved or loaded: it has no {method} of its own. Define "
                f"{' and '.join(_STATE_METHODS)} in {name_of(ratio)}."
            )
        try:
            signature(getattr(ratio, method)).bind(*arguments)
        except TypeError as error:
            raise CheckpointError(
                f"{name_of(ratio)}.{method} does not take what accous passes ({error}): define it as "
                f"{method}({', '.join(('self', *arguments))})."
            ) from error


def require_foreign(wanted: dict[str, dict[str, str]], given: dict[str, Any]) -> None:
    """Check that exactly the objects that were not saved are given again.

    Parameters
    ----------
    wanted : dict
        What ``describe_foreign`` returned when the model was saved, by the names that `load` has for the objects.
    given : dict
        The objects, or None, by the same names.
    """
    missing = [name for name, value in given.items() if name in wanted and value is None]
    if missing:
        call = ", ".join(
            f"{name}={'[...]' if name == 'candidates' else wanted[name]['class'] + '(...)'}" for name in missing
        )
        raise CheckpointError(
            f"The model uses objects of your own that are not saved ({' and '.join(missing)}): pass them again, "
            f"load(path, {call})."
        )
    for name, value in given.items():
        if name not in wanted and value is not None:
            raise CheckpointError(f"The model was saved without {name} of your own: leave {name} out of load.")
        value = list(value) if isinstance(value, tuple) else value
        if name in wanted and not _is_same(describe_foreign(value), wanted[name]):
            raise CheckpointError(
                f"The model was saved with {name}={wanted[name]['repr']}, not {describe_foreign(value)['repr']}: pass "
                "one with the same class and parameters."
            )
        if name in wanted and name == "ratio":
            if not isinstance(value, RatioEstimator):
                raise CheckpointError(f"ratio is a {name_of(value)}, which is no RatioEstimator: pass one.")
            require_state_methods(value)


def _is_same(given: dict[str, str], wanted: dict[str, str]) -> bool:
    """Whether two descriptions agree in what both have; the first folders have no checksum."""
    return all(given[name] == wanted[name] for name in given.keys() & wanted.keys())


def name_of(value: Any) -> str:
    """Return the name of the value's class."""
    return type(value).__name__
