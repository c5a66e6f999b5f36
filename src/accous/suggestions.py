"""What somebody may have meant who misspelt a name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "listed"]

_MOST_NAMES = 12
# Comparing takes time for every name: among thousands of columns the first ones must do.
_MOST_COMPARED = 4096


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a remark with the known name that is nearest, to stand behind the wrong one; empty where none is near.

    Examples
    --------
    >>> did_you_mean("ulsfi", ["FIX", "uLSIF", "KMM"])
    " (did you mean 'uLSIF'?)"
    >>> did_you_mean("fix", ["FIX", "uLSIF", "KMM"])
    " (did you mean 'FIX'?)"
    >>> did_you_mean("something", ["FIX", "uLSIF", "KMM"])
    ''
    """
    by_lower_case = {each.lower(): each for each in list(known)[:_MOST_COMPARED]}
    near = get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.7)
    return f" (did you mean {by_lower_case[near[0]]!r}?)" if near else ""


def listed(names: list[str]) -> str:
    """Name the first of many.

    Examples
    --------
    >>> listed(["age", "income"])
    "'age', 'income'"
    """
    shown = ", ".join(map(repr, names[:_MOST_NAMES]))
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
