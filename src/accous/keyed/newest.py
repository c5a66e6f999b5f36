"""Of several states of a key, the newest: results of streams hold one per micro-batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from accous.keyed.state_format import StateFormat

__all__ = ["newest_states"]


def newest_states(pairs: Iterable[tuple[Any, bytes]]) -> dict[Any, bytes]:
    """Return the newest state of each key: the one that has seen most rows, and has played most rounds with them.

    Parameters
    ----------
    pairs : iterable of (key, bytes)
        In any order; a key may come several times. Pairs without a state are left out.

    Returns
    -------
    dict of key to bytes

    Examples
    --------
    >>> import numpy as np
    >>> from accous import AdaptiveClassifier
    >>> from accous.keyed import KeyedAdapter, newest_states
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> adapter = KeyedAdapter(AdaptiveClassifier().fit(X, X[:, 0] > 0))
    >>> first, _, _ = adapter.step(None, X[:7])
    >>> second, _, _ = adapter.step(first, X[7:9])
    >>> newest_states([("shop", second), ("shop", first)]) == {"shop": second}
    True
    """
    newest: dict[Any, tuple[tuple[int, int], bytes]] = {}
    for key, state in pairs:
        if state is not None:
            age = StateFormat.age(state, key)
            if key not in newest or age > newest[key][0]:
                newest[key] = age, bytes(state)
    return {key: state for key, (_, state) in newest.items()}
