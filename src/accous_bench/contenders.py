"""The contenders by name: the paper's eight, variants of them, two bounds, and those that users register.

A factory makes a contender. It learns from ``fit(X, y)`` and ``adapt(X_batch)``, and predicts with ``predict(X)``.

Examples
--------
>>> from accous import AdaptiveClassifier, RULSIF
>>> from accous_bench.contenders import Contender, contender_names, make_contender, register, unregister
>>> make_contender("uLSIF", random_state=0)
AdaptiveClassifier(fallback='none', random_state=0, ratio=ULSIF(random_state=0),
                   standardize=False)
>>> def comparable(seed):  # the settings of the built-in contenders, but for the ratio
...     ratio = RULSIF(random_state=seed)
...     return AdaptiveClassifier(ratio=ratio, standardize=False, fallback="none", random_state=seed)
>>> register(Contender("RuLSIF", comparable))
>>> contender_names()[-1]
'RuLSIF'
>>> unregister("RuLSIF")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accous.exceptions import ParameterError
from accous.model.estimators import AdaptiveClassifier
from accous.parameters import did_you_mean
from accous.ratio.base import RatioEstimator
from accous.ratio.features import LARGEST_NORM
from accous.ratio.one_step import KLIEP, KMM, ULSIF, LogisticRatio
from accous.ratio.online import NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous_bench.dann import DANN
from accous_bench.limit import Limit
from accous_bench.newton_steps import NewtonStepRatio
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
    is_told_ratio : bool, default=False
        Whether ``adapt_to`` passes it the true ratio of the reference rows instead of the batch. Such an entry is a
        bound, not a real contender.
    knows_parts : bool, default=False
        Whether ``know_parts`` passes it the stream before ``fit``, for the densities of the two parts. This is a bound
        too.
    forgets : bool, default=False
        Whether it keeps nothing from one round to the next. Such a contender may play a part of the rounds only.
    every : int, default=1
        Of the part of the rounds that contenders which forget play, it plays one round of so many, because it is slow.
    needs_module : str or None, default=None
        A module of the extra ``deep`` that it needs to run.
    """

    name: str
    make: Callable[[Any], Any]
    is_told_ratio: bool = False
    knows_parts: bool = False
    forgets: bool = False
    every: int = 1
    needs_module: str | None = None

    def __call__(self, random_state: Any = 0) -> Any:
        """Return a new classifier."""
        return self.make(random_state)


def _weighted_by(
    ratio: Callable[..., RatioEstimator], fallback: str = "none", **parameters: Any
) -> Callable[[Any], AdaptiveClassifier]:
    """Return a factory for importance-weighted ERM with a ratio of this class; what is not given has its default.

    The methods from the literature run as published, without the fallback of accous.
    """

    def make(random_state: Any) -> AdaptiveClassifier:
        takes_seed = "random_state" in ratio().get_params()
        fresh = ratio(random_state=random_state, **parameters) if takes_seed else ratio(**parameters)
        return AdaptiveClassifier(ratio=fresh, standardize=False, fallback=fallback, random_state=random_state)

    return make


_CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender("FIX", _weighted_by(NoShift)),
        Contender("DANN", lambda seed: DANN(random_state=seed), forgets=True),
        Contender("KMM", _weighted_by(KMM), forgets=True),
        Contender("KLIEP", _weighted_by(KLIEP), forgets=True),
        Contender("uLSIF", _weighted_by(ULSIF), forgets=True),
        Contender("LR", _weighted_by(LogisticRatio), forgets=True),
        Contender("OLRE", _weighted_by(SingleLearnerRatio)),
        Contender("Accous", _weighted_by(OnlineDensityRatio, "auto")),
    )
}
PAPER_CONTENDERS = tuple(_CONTENDERS)
LIMIT, ORACLE = "limit", "oracle"
# A round without a ridge or with cross-validation takes 2 to 6 ms, several times as long as the others.
_SLOW = 5
# The paper's Algorithms 1 and 2 with its own step, radius and bound, without intercept and scaling.
_LITERAL: dict[str, Any] = {
    "feature_map": "identity",
    "fit_intercept": False,
    "scale_features": False,
    "feature_bound": LARGEST_NORM,
    "step_size": "theory",
    "start": "zero",
    "meta_range": "paper",
}
_CONTENDERS |= {
    contender.name: contender
    for contender in (
        Contender(
            "KMM (no ridge)",
            _weighted_by(KMM, ridge=0, mass_tolerance="literature", max_ratio=1000.0),
            forgets=True,
            every=_SLOW,
        ),
        Contender("KLIEP (cv)", _weighted_by(KLIEP, width="cv"), forgets=True, every=_SLOW),
        Contender("uLSIF (cv)", _weighted_by(ULSIF, width="cv", ridge="cv"), forgets=True, every=_SLOW),
        Contender("LR (Newton step)", _weighted_by(NewtonStepRatio), forgets=True),
        # A guess at settings that the paper does not give: a width of 1 whatever the data, no ridge, a weak penalty.
        Contender(
            "KMM (unit width)",
            _weighted_by(KMM, width=1.0, ridge=0, max_ratio=1000.0),
            forgets=True,
            every=_SLOW,
        ),
        Contender("KLIEP (unit width)", _weighted_by(KLIEP, width=1.0), forgets=True),
        Contender("uLSIF (unit width)", _weighted_by(ULSIF, width=1.0), forgets=True),
        Contender("LR (weak penalty)", _weighted_by(LogisticRatio, ridge=0.01), forgets=True),
        Contender("Accous (literal)", _weighted_by(OnlineDensityRatio, **_LITERAL)),
        # The paper's ensemble with our step, radius and scaling, without what accous adds: pool, shrinkage and veto.
        Contender("Accous (ensemble only)", _weighted_by(OnlineDensityRatio, pool="none")),
        Contender(LIMIT, lambda _: Limit(), knows_parts=True),
        Contender(ORACLE, lambda _: Oracle(), is_told_ratio=True),
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
        raise ParameterError(f"register takes a Contender(name, make), got {contender!r}.")
    if contender.name in _CONTENDERS:
        raise ParameterError(f"A contender {contender.name!r} already exists: choose another name.")
    _CONTENDERS[contender.name] = contender


def unregister(name: str) -> None:
    """Remove a registered contender; built-in ones cannot be removed."""
    if name in _BUILT_IN:
        raise ParameterError(f"{name!r} is built in and cannot be removed.")
    get_contender(name)
    del _CONTENDERS[name]
