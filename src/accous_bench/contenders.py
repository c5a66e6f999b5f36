"""The contenders by name: the paper's eight, two variants of Accous, two bounds, and those that users register.

A factory makes a contender. It learns from ``fit(X, y)`` and ``adapt(X_batch)``, and predicts with ``predict(X)``.

Examples
--------
>>> from accous import AdaptiveClassifier, RULSIF
>>> from accous_bench.contenders import Contender, contender_names, make_contender, register, unregister
>>> make_contender("uLSIF", random_state=0)
AdaptiveClassifier(fallback='none', random_state=0, ratio=ULSIF(random_state=0),
                   standardize=False)
>>> register(Contender("RuLSIF", lambda seed: AdaptiveClassifier(ratio=RULSIF(random_state=seed)), learns_first=True))
>>> contender_names()[-1]
'RuLSIF'
>>> unregister("RuLSIF")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from accous_bench.limit import Limit
from accous_bench.oracle import Oracle

__all__ = [
    "LIMIT",
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
    """A factory, with what a benchmark needs to know about it.

    Attributes
    ----------
    name : str
    make : callable
        Takes a seed and returns a new classifier with ``fit``, ``adapt`` and ``predict``.
    learns_first : bool, default=False
        Whether it learns from a batch before it predicts the batch. Methods that use a single batch need this; the
        theory of the online methods assumes the opposite order.
    is_told_ratio : bool, default=False
        Whether ``adapt_to`` passes it the true ratio of the reference rows instead of the batch. Such an entry is a
        bound, not a real contender.
    knows_parts : bool, default=False
        Whether ``know_parts`` passes it the stream before ``fit``, for the densities of the two parts. This is a bound
        too.
    needs_module : str or None, default=None
        A module of the extra ``deep`` that it needs to run.
    """

    name: str
    make: Callable[[Any], Any]
    learns_first: bool = False
    is_told_ratio: bool = False
    knows_parts: bool = False
    needs_module: str | None = None

    def __call__(self, random_state: Any = 0) -> Any:
        """Return a new classifier."""
        return self.make(random_state)


def _weighted_by(ratio: Callable[..., RatioEstimator], fallback: str = "none") -> Callable[[Any], AdaptiveClassifier]:
    """Return a factory for importance-weighted ERM with a ratio of this class in its default configuration.

    The methods from the literature run as published, without the fallback of accous.
    """

    def make(random_state: Any) -> AdaptiveClassifier:
        takes_seed = "random_state" in ratio().get_params()
        fresh = ratio(random_state=random_state) if takes_seed else ratio()
        return AdaptiveClassifier(ratio=fresh, standardize=False, fallback=fallback, random_state=random_state)

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
LIMIT, ORACLE = "limit", "oracle"
_CONTENDERS |= {
    contender.name: contender
    for contender in (
        # The ensemble without the pool and the fallback; and with both, but learning from the batch first.
        Contender("Accous (paper)", _weighted_by(partial(OnlineDensityRatio, pool="none")), learns_first=False),
        Contender("Accous (batch first)", _weighted_by(OnlineDensityRatio, "auto"), learns_first=True),
        Contender(LIMIT, lambda _: Limit(), learns_first=False, knows_parts=True),
        Contender(ORACLE, lambda _: Oracle(), learns_first=True, is_told_ratio=True),
    )
}
_BUILT_IN = tuple(_CONTENDERS)


def contender_names() -> tuple[str, ...]:
    """Return all names: first the paper's in its order, then variants and the two bounds, then registered ones."""
    return tuple(_CONTENDERS)


def get_contender(name: str) -> Contender:
    """Return the contender with this name."""
    if name not in _CONTENDERS:
        meant = did_you_mean(name, _CONTENDERS)
        raise ParameterError(
            f"There is no contender {name!r}{meant}: name one of {', '.join(_CONTENDERS)}, or register it."
        )
    return _CONTENDERS[name]


def make_contender(name: str, random_state: Any = 0) -> Any:
    """Return a new classifier of the contender with this name."""
    return get_contender(name)(random_state)


def register(contender: Contender) -> None:
    """Add your own contender; raise a ParameterError if the name is taken."""
    if not isinstance(contender, Contender):
        raise ParameterError(f"register takes a Contender(name, make, learns_first), got {contender!r}.")
    if contender.name in _CONTENDERS:
        raise ParameterError(f"A contender {contender.name!r} already exists: choose another name.")
    _CONTENDERS[contender.name] = contender


def unregister(name: str) -> None:
    """Remove a registered contender; built-in ones cannot be removed."""
    if name in _BUILT_IN:
        raise ParameterError(f"{name!r} is built in and cannot be removed.")
    get_contender(name)
    del _CONTENDERS[name]
