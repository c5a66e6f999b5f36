"""All keys at a glance: what is known of each, worst first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from accous.diagnostics.trust import VERDICTS
from accous.keyed.adapter import KeyedAdapter
from accous.keyed.readings import KeyReading

__all__ = ["fleet"]


def fleet(states: Mapping[Any, bytes], adapter: KeyedAdapter) -> list[KeyReading]:
    """Return what is known of each key, worst first; ``pandas.DataFrame(fleet(...))`` is a table with a row per key.

    Keys are in the order of their verdicts; then come those whose inputs move at the moment, then the largest drift.

    Parameters
    ----------
    states : mapping of key to bytes
    adapter : KeyedAdapter
        With the model that the states belong to.

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.keyed import KeyedAdapter, fleet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> adapter = KeyedAdapter(AdaptiveClassifier().fit(X, X.sum(axis=1) + rng.normal(size=300) > 0))
    >>> keys = np.repeat(["still", "moving"], 400)
    >>> X_new = rng.normal(size=(800, 2)) + 1.5 * (keys == "moving")[:, None]
    >>> states, _, _ = adapter.step_many({}, keys, None, X_new)
    >>> [(reading.key, reading.drift > 0.2, reading.changes) for reading in fleet(states, adapter)]
    [('moving', True, 1), ('still', False, 0)]
    """
    return sorted(adapter.readings(states), key=_badness, reverse=True)


def _badness(reading: KeyReading) -> tuple[int, bool, float]:
    drift = 0.0 if math.isnan(reading.drift) else reading.drift
    return VERDICTS.index(reading.verdict), reading.is_moving, drift
