"""The ratio estimators by the names they have on the command line."""

from __future__ import annotations

from typing import Any

from accous.exceptions import ParameterError
from accous.parameters import require_choice
from accous.ratio.base.base import RatioEstimator
from accous.ratio.base.one_step import KLIEP, KMM, ULSIF, LogisticRatio
from accous.ratio.base.online import NoShift, OnlineDensityRatio, SingleLearnerRatio

__all__ = ["make_ratio"]

_RATIOS: dict[str, type[RatioEstimator]] = {
    "accous": OnlineDensityRatio,
    "ulsif": ULSIF,
    "kliep": KLIEP,
    "kmm": KMM,
    "lr": LogisticRatio,
    "olre": SingleLearnerRatio,
    "none": NoShift,
}


def make_ratio(name: str, *, seed: int, **options: Any) -> RatioEstimator:
    """Make a ratio estimator; options that are None keep their defaults, and the estimator must know the others.

    Examples
    --------
    >>> make_ratio("accous", seed=0, loss=None, max_ratio=50.0)
    OnlineDensityRatio(max_ratio=50.0, random_state=0)
    """
    require_choice("--ratio", name, tuple(_RATIOS))
    cls = _RATIOS[name]
    known = cls().get_params()
    given = {option: value for option, value in options.items() if value is not None}
    for option in given:
        if option not in known:
            raise ParameterError(f"--{option.replace('_', '-')} cannot be combined with --ratio {name}: leave one out.")
    if "random_state" in known:
        given["random_state"] = seed
    return cls(**given)
