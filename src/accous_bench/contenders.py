"""The contenders by name: the paper's eight, two variants of ours, the oracle, and those a user adds.

A contender is made by a factory, learns from ``fit(X, y)`` and ``adapt(X_batch)``, and answers ``predict(X)``.

Examples
--------
>>> from accous import AdaptiveClassifier, RULSIF
>>> from accous_bench.contenders import Contender, contender_names, make_contender, register, unregister
>>> make_contender("uLSIF", random_state=0)
AdaptiveClassifier(fallback='none', random_state=0, ratio=ULSIF(random_state=0))
>>> register(Contender("RuLSIF", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed)), learns_first=True))
>>> contender_names()[-1]
'RuLSIF'
>>> unregister("RuLSIF")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accous.classifier.adaptation import AdaptiveClassifier
from accous.exceptions import ParameterError
from accous.parameters import did_you_mean
from accous.ratio.base import RatioEstimator
from accous.ratio.kliep import KLIEP
from accous.ratio.kmm import KMM
from accous.ratio.logistic import LogisticRatio
from accous.ratio.no_shift import NoShift
from accous.ratio.online import OnlineDensityRatio
from accous.ratio.single import SingleLearnerRatio
from accous.ratio.ulsif import ULSIF
from accous_bench.oracle import Oracle

__all__ = [
    "ORACLE",
    "PAPER_CONTENDERS",
    "Contender",
    "contender_names",
    "get_contender",
    "make_contender",
    "register",
    "unregister",
]


@dataclass(frozen=True)
class Contender:
    """A factory with what a benchmark must know of it.

    Attributes
    ----------
    name : str
    make : callable
        Takes a seed and gives a fresh classifier with ``fit``, ``adapt`` and ``predict``.
    learns_first : bool, default=False
        Whether a round's batch is learned from before it is predicted, as methods that know one batch only need; the
        theory of the online ones has it the other way round.
    is_told_ratio : bool, default=False
        Whether it is told the true ratio of the reference's rows, by ``adapt_to``, in place of the batch: a bound, not
        a contender.
    needs_module : str or None, default=None
        A module of the extra ``deep`` without which it cannot be run.
    """

    name: str
    make: Callable[[Any], Any]
    learns_first: bool = False
    is_told_ratio: bool = False
    needs_module: str | None = None

    def __call__(self, random_state: Any = 0) -> Any:
        """Return a fresh classifier."""
        return self.make(random_state)


def _weighted_by(ratio: Callable[..., RatioEstimator], fallback: str = "none") -> Callable[[Any], AdaptiveClassifier]:
    """Importance-weighted ERM with a ratio of this class in its default configuration.

    The methods of the literature run as published, without our fallback.
    """

    def make(random_state: Any) -> AdaptiveClassifier:
        takes_seed = "random_state" in ratio().get_params()
        fresh = ratio(random_state=random_state) if takes_seed else ratio()
        return AdaptiveClassifier(ratio=fresh, fallback=fallback, random_state=random_state)

    return make


def _make_dann(random_state: Any) -> Any:
    from accous_bench.dann import DANN

    return DANN(random_state=random_state)


_CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("FIX", _weighted_by(NoShift), learns_first=False),
        Contender("DANN", _make_dann, learns_first=True, needs_module="torch"),
        Contender("KMM", _weighted_by(KMM), learns_first=True),
        Contender("KLIEP", _weighted_by(KLIEP), learns_first=True),
        Contender("uLSIF", _weighted_by(ULSIF), learns_first=True),
        Contender("LR", _weighted_by(LogisticRatio), learns_first=True),
        Contender("OLRE", _weighted_by(SingleLearnerRatio), learns_first=False),
        Contender("Accous", _weighted_by(OnlineDensityRatio, "auto"), learns_first=False),
    )
}
PAPER_CONTENDERS = tuple(_CONTENDERS)
ORACLE = "oracle"
_CONTENDERS |= {
    contender.name: contender
    for contender in (
        # The method as published, without our fallback; and with it, but seeing the batch first like the one-step ones.
        Contender("Accous (paper)", _weighted_by(OnlineDensityRatio), learns_first=False),
        Contender("Accous (batch first)", _weighted_by(OnlineDensityRatio, "auto"), learns_first=True),
        Contender(ORACLE, lambda _: Oracle(), learns_first=True, is_told_ratio=True),
    )
}
_BUILT_IN = tuple(_CONTENDERS)


def contender_names() -> tuple[str, ...]:
    """All names: the paper's first and in its order, then variants and the oracle, then those registered."""
    return tuple(_CONTENDERS)


def get_contender(name: str) -> Contender:
    """Return the contender of that name."""
    if name not in _CONTENDERS:
        meant = did_you_mean(name, _CONTENDERS)
        raise ParameterError(
            f"There is no contender {name!r}{meant}: name one of {', '.join(_CONTENDERS)}, or register it."
        )
    return _CONTENDERS[name]


def make_contender(name: str, random_state: Any = 0) -> Any:
    """Return a fresh classifier of that name."""
    return get_contender(name)(random_state)


def register(contender: Contender) -> None:
    """Add a contender of your own; a name that is taken is refused."""
    if not isinstance(contender, Contender):
        raise ParameterError(f"register takes a Contender(name, make, learns_first), got {contender!r}.")
    if contender.name in _CONTENDERS:
        raise ParameterError(f"There is a contender {contender.name!r} already: choose another name.")
    _CONTENDERS[contender.name] = contender


def unregister(name: str) -> None:
    """Take a contender that was registered away again; the paper's stay."""
    if name in _BUILT_IN:
        raise ParameterError(f"{name!r} is built in, and stays.")
    get_contender(name)
    del _CONTENDERS[name]
