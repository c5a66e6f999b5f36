"""What a runner does in its peer's environment: answer requests for weights, one line of JSON each.

It needs numpy and the peer, but not accous. A request names a file with a reference and batches, the method, the
settings (a missing one means the peer's default) and where to write the answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Settings = dict[str, float]

CLOCKS = (time.perf_counter, time.process_time)


class Contender(ABC):
    """One estimator of a peer with its settings, used for one batch after another."""

    @abstractmethod
    def estimate(self, reference: Array, batch: Array) -> Array:
        """Return the weights of the reference rows. Only this is timed."""

    @abstractmethod
    def used(self) -> Settings:
        """Return the settings of the last estimate under our names, including those that the peer chose itself."""

    def expansion(self) -> tuple[Array, Array] | None:
        """Return centres and coefficients of the last estimate, if the ratio is a sum of kernels."""
        return None


def with_gamma(settings: Settings, names: dict[str, str]) -> Settings:
    """Return settings under a peer's names, with the width as scikit-learn's gamma."""
    gamma = {"gamma": 0.5 / settings["width"] ** 2} if "width" in settings else {}
    return {names[name]: value for name, value in settings.items() if name in names} | gamma


MakeContender = Callable[[str, Settings], Contender]


def serve(peer: str, make: MakeContender) -> None:
    """Answer requests for weights by contenders."""
    serve_answers(peer, lambda request: answer_request(request, make))


def serve_answers(peer: str, answer_one: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Answer the requests on standard input, with arrays in a file, until the input ends."""
    # Everything the peer prints goes to standard error, because standard output is for the replies.
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        request = json.loads(line)
        np.random.seed(0)  # noqa: NPY002  (the peers draw their centres from numpy's global generator)
        try:
            answer = answer_one(request)
        except Exception as error:  # a peer's failure is a result, too
            reply = {"error": f"{type(error).__name__}: {error}"}
        else:
            np.savez(request["answer"], **answer)
            reply = {"version": version(peer)}
        print(json.dumps(reply), file=replies, flush=True)


def answer_request(request: dict[str, Any], make: MakeContender) -> dict[str, Any]:
    """Return the answer of a fresh contender to every batch of the request's file."""
    with np.load(request["data"]) as data:
        reference, batches = data["reference"], data["batches"]
    contender = make(request["method"], request["settings"])
    return estimate_all([contender] * len(batches), reference, batches, request["at_least_seconds"])


def estimate_all(
    contenders: Sequence[Contender], reference: Array, batches: Array, at_least_seconds: float
) -> dict[str, Any]:
    """Return weights and best times for every batch, going through all batches again while there is time.

    A pass goes through all batches instead of repeating one, because an estimator that starts from its last solution
    would start a repetition at the answer.
    """
    times = np.full((len(batches), len(CLOCKS)), np.inf)
    weights, coefs, used = [], [], []
    end = time.perf_counter() + at_least_seconds
    is_first_pass = True
    while is_first_pass or time.perf_counter() < end:
        for index, (contender, batch) in enumerate(zip(contenders, batches, strict=True)):
            start = read_clocks()
            estimated = contender.estimate(reference, batch)
            times[index] = np.minimum(times[index], read_clocks() - start)
            if is_first_pass:
                weights.append(estimated)
                coefs.append(coefs_of_rows(contender, batch))
                used.append(contender.used())
        is_first_pass = False
    return {"times": times, "weights": np.array(weights), "coefs": np.array(coefs), "used": json.dumps(used)}


def read_clocks() -> Array:
    """Return wall seconds, and CPU seconds of this process, which do not depend on other processes."""
    return np.array([clock() for clock in CLOCKS])


def coefs_of_rows(contender: Contender, batch: Array) -> Array:
    """Return the coefficient of the kernel at each batch row: zero without a kernel, a sum with several."""
    coefs = np.zeros(len(batch))
    expansion = contender.expansion()
    if expansion is None:
        return np.full(len(batch), np.nan)
    for center, coef in zip(*expansion, strict=True):
        # The nearest row, not an equal one, because a centre may have been transformed and transformed back.
        coefs[np.argmin(np.sum((batch - center) ** 2, axis=1))] += coef
    return coefs
