"""An upper bound on the time spent refitting, as a number of rounds between refits.

The clock is read once, at ``fit``: how many rounds a refit takes is measured there and kept with the model. From then
on rounds are counted, so a run that was interrupted refits in the same rounds as one that was not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

__all__ = ["rounds_between_refits", "seconds_of"]

# A comparison with the fixed predictor comes with every fifth refit and costs two fits on half of the rows.
_COST_OF_CHECKS = 1.2
_MOST_ROUNDS = 1 << 20


def rounds_between_refits(budget: float, refit_seconds: float, round_seconds: float) -> int:
    """Return how many rounds have to lie between two refits, a power of two.

    Powers of two, so that two fits on one machine nearly always give the same number.

    Parameters
    ----------
    budget : float
        Largest share of the time that refits may take, above 0; from 1 on there is no bound.
    refit_seconds, round_seconds : float
        What a refit takes, and a round without one.

    Examples
    --------
    >>> rounds_between_refits(0.2, refit_seconds=0.5, round_seconds=0.002)
    2048
    >>> rounds_between_refits(1.0, refit_seconds=0.5, round_seconds=0.002)
    0
    """
    if budget >= 1.0:
        return 0
    rounds = _COST_OF_CHECKS * refit_seconds / max(round_seconds, 1e-9) * (1.0 - budget) / budget
    if rounds < 1.0:
        return 0
    return int(min(_MOST_ROUNDS, 2 ** math.ceil(math.log2(rounds))))


def seconds_of(action: Callable[[], object], n_times: int = 3) -> float:
    """Return the processor time of an action, the least of a few times."""
    found = []
    for _ in range(n_times):
        start = time.process_time()
        action()
        found.append(time.process_time() - start)
    return min(found)
