"""The arms of the ablations: from the paper's ensemble to the default, one part more at a time.

Public parameters switch the pool, its memory and the fallback. Shrinkage and the support guard have no parameter, so
`Arm.switched` replaces the constants that decide about them while a model is fitted and follows a stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous_bench.contenders import Contender

__all__ = ["ARMS", "DEFAULT", "ENSEMBLE", "FALLBACK", "Arm", "constants"]

# A strength of 0 leaves the weights as they are; excesses as large as these do not occur.
NO_SHRINKAGE = {
    "accous.model.safeguards.STRENGTHS": (0.0,),
    "accous.model.safeguards.FIRST_STRENGTH": 0.0,
}
NO_GUARD = {"accous.core.pool._NO_HOLD": 1e9, "accous.core.pool._FULL_HOLD": 2e9}


@dataclass(frozen=True)
class Arm:
    """A variant of `accous.AdaptiveClassifier`.

    Attributes
    ----------
    name : str
    pool : {"none", "auto"}
    memory : int
    fallback : {"none", "auto"}
    has_shrinkage : bool
        Whether weights are shrunk before the predictor is fitted.
    has_guard : bool
        Whether the pool is held back where the reference does not support its ratio.
    """

    name: str
    pool: str = "auto"
    memory: int = 4
    fallback: str = "auto"
    has_shrinkage: bool = True
    has_guard: bool = True

    def model(self, random_state: Any = 0) -> AdaptiveClassifier:
        """Return a classifier with the parameters of this arm; use it inside ``switched``."""
        ratio = OnlineDensityRatio(pool=self.pool, memory=self.memory, random_state=random_state)
        return AdaptiveClassifier(ratio=ratio, standardize=False, fallback=self.fallback, random_state=random_state)

    def contender(self) -> Contender:
        """Return the arm as a contender, for `benchmarks.limit.play`."""
        return Contender(self.name, self.model)

    @contextmanager
    def switched(self) -> Iterator[None]:
        """Switch off what the arm does not have and no parameter switches off, in this process."""
        replaced = ({} if self.has_shrinkage else NO_SHRINKAGE) | ({} if self.has_guard else NO_GUARD)
        with constants(replaced):
            yield


@contextmanager
def constants(values: dict[str, Any]) -> Iterator[None]:
    """Replace constants of modules by their full names, and put them back at the end."""
    places = [(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in values]
    before = [getattr(module, name) for module, name in places]
    try:
        for (module, name), value in zip(places, values.values(), strict=True):
            setattr(module, name, value)
        yield
    finally:
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)


ENSEMBLE = Arm("ensemble (paper)", pool="none", fallback="none")
FALLBACK = Arm("ensemble, fallback", pool="none", has_shrinkage=False)
DEFAULT = Arm("+ support guard (default)")
ARMS = (
    ENSEMBLE,
    FALLBACK,
    Arm("+ shapes", memory=0, has_shrinkage=False, has_guard=False),
    Arm("+ memory", has_shrinkage=False, has_guard=False),
    Arm("+ shrinkage", has_guard=False),
    DEFAULT,
)
