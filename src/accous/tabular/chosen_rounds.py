"""Which rounds to read: one of every so many, at an irregular place that depends on the round's number alone."""

from __future__ import annotations

from functools import lru_cache

__all__ = ["is_chosen"]

_64_BITS = (1 << 64) - 1


def is_chosen(number: int, every: int) -> bool:
    """Whether a round is the chosen one of its block of ``every`` rounds.

    Rounds at equal distances beat against a stream with a period, and show slow waves that the stream does not have.
    A place in each block that looks random turns such waves into a little noise, which means over several readings
    remove.

    Parameters
    ----------
    number : int
        Number of the round, from 1 on.
    every : int
        Rounds in a block.

    Examples
    --------
    >>> [number for number in range(1, 33) if is_chosen(number, 8)]
    [8, 13, 24, 29]
    """
    if every == 1:
        return True
    block, place = divmod(number - 1, every)
    return place == _scrambled(block) % every


@lru_cache(maxsize=64)  # every round of a block asks for the same number
def _scrambled(number: int) -> int:
    """Mix the bits of a number (the finalizer of the generator SplitMix64)."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & _64_BITS
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _64_BITS
    return mixed ^ (mixed >> 31)
