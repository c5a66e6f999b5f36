"""What a benchmark knows about a data set: which shifts its streams can have, and how to make a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from accous.streams import Batch, BernoulliShift, ConstantShift, LinearShift, Shift, SineShift, SquareShift

__all__ = ["ALPHA_0", "DESCRIBED", "MIXED", "NATURAL", "SHIFTS", "STUDIED", "TUNED", "Problem", "Setting", "Stream"]

ALPHA_0 = 0.9
NATURAL = "natural"
DESCRIBED = "_described"  # ends the names of tables whose reference is one part (paper, "Experiment Setup", Datasets)
TUNED = "_tuned"  # ends the names of images whose backbone was trained on the reference
_MIXING: dict[str, Shift] = {
    "Lin": LinearShift(),
    "Squ": SquareShift(),
    "Sin": SineShift(),
    "Ber": BernoulliShift(),
    "none": ConstantShift(ALPHA_0),
}
_PERIODS = (16, 32, 64, 128, 256)
STUDIED = {f"Squ{period}": SquareShift(period=period) for period in _PERIODS}
"""Square shifts whose period is the length of an interval of the cover, to study the weights of the learners."""
MIXED = tuple(_MIXING)
"""Shifts of every stream that mixes two parts."""
SHIFTS = _MIXING | STUDIED | {"fixed path": LinearShift(), "growing path": SquareShift()}
"""All shifts by name."""


class Stream(Protocol):
    """What a run needs: a labelled reference and batches, and ``reference_ratio`` and ``risk`` if they are known."""

    def reference(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the labelled reference."""

    def __iter__(self) -> Iterator[Batch]: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Setting:
    """The settings that a stream is made from."""

    shift: str
    batch_size: int
    n_rounds: int
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """A data set, with the streams that can be made from it.

    Attributes
    ----------
    name, title : str
    shifts : tuple of str
        Names of the shifts that its streams can have.
    make : callable
        Takes a `Setting` and returns a `Stream`.
    options : tuple of str
        Further options that a spec may set.
    prepare : callable
        Called once before any run; fetches the data, or raises an error that says why it cannot.
    patience : str
        Message to print before ``prepare`` if it may take minutes.
    """

    name: str
    title: str
    shifts: tuple[str, ...]
    make: Callable[[Setting], Any]
    options: tuple[str, ...] = ()
    prepare: Callable[[], object] = lambda: None
    patience: str = ""
