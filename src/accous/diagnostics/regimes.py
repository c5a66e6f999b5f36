"""Regimes: states of the inputs that a stream settles in, leaves and comes back to."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Regime", "rounds_in_words"]

_MOST_IN_WORDS = 3


@dataclass(frozen=True, kw_only=True)
class Regime:
    """One remembered regime.

    Attributes
    ----------
    number : int
        In the order in which the regimes were first seen, from 1.
    visits : tuple of (int, int)
        First and last round of each time in which it was in force, the latest last.
    size : float
        How far it is from the reference: total variation between the weights of the rows, in [0, 1].
    features : tuple of str
        The columns that tell it apart from the other regimes, or from the reference if it is the only one; largest
        first, at most five.
    is_current : bool
        Whether it is in force now.
    """

    number: int
    visits: tuple[tuple[int, int], ...]
    size: float
    features: tuple[str, ...]
    is_current: bool

    def __str__(self) -> str:
        """Return the regime in a sentence."""
        now = ", now in force" if self.is_current else ""
        columns = f"; differs in {', '.join(self.features)}" if self.features else ""
        return f"Regime {self.number}: {rounds_in_words(self.visits)}{now}{columns}."


def rounds_in_words(visits: tuple[tuple[int, int], ...]) -> str:
    """Return the rounds of some visits in words; of many visits, the last three.

    Examples
    --------
    >>> from accous.diagnostics.regimes import rounds_in_words
    >>> rounds_in_words(((1, 64), (129, 192)))
    'rounds 1 to 64 and 129 to 192'
    """
    last = [f"{first:,} to {end:,}" for first, end in visits[-_MOST_IN_WORDS:]]
    several = last[0] if len(last) == 1 else f"{', '.join(last[:-1])} and {last[-1]}"
    n_more = len(visits) - len(last)
    return f"rounds {several}" if not n_more else f"{len(visits)} visits, the last in rounds {several}"
