"""Which reading of what the paper leaves open fits its numbers best?

``python -m benchmarks.readings`` plays cheap contenders on short streams under many readings of the synthetic data:
the angle between the class directions, scaled inputs, the penalty of the predictor, the protocol. For each reading it
compares the errors with those of the paper's table (eight cells, six contenders) by the mean distance and by the
mean rank correlation over the cells. It writes ``benchmarks/results/readings.json``.

The streams have 1,000 rounds instead of 10,000, with switches as often as in 10,000 (every 100 rounds). Under
``predict_first``, errors are exact risks, so that short streams suffice. The paper's Accous is represented by
"Accous (ensemble only)", its LR by "LR (Newton step)". KMM and DANN are too expensive here.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import spearmanr
from sklearn.preprocessing import StandardScaler

from accous.blas import one_blas_thread
from accous.streams import BernoulliShift, GaussianStream, LinearShift, SineShift, SquareShift
from accous_bench.contenders import get_contender
from accous_bench.protocols import BATCH_FIRST, PREDICT_FIRST, fit_on, rounds
from accous_bench.reporting.cells import ENSEMBLE
from accous_bench.reporting.paper import paper_result
from accous_bench.scores import scored_rounds
from benchmarks.record import write_results

__all__ = ["READINGS", "Reading", "distance_and_order", "errors_of"]

SHIFTS = {
    "Lin": LinearShift(),
    "Squ": SquareShift(period=100),
    "Sin": SineShift(period=100),
    "Ber": BernoulliShift(flip=0.01),
}
CONTENDERS = ("FIX", "KLIEP", "uLSIF", "LR (Newton step)", "OLRE", ENSEMBLE)


@dataclass(frozen=True)
class Reading:
    """One way to read what the paper leaves open.

    Attributes
    ----------
    angle : float or None
        Degrees between the class directions; None is the published geometry.
    protocol : str
    C : float
        Inverse strength of the predictor's penalty.
    is_scaled : bool
        Whether all inputs are standardised by the reference first.
    """

    angle: float | None = 75.0
    protocol: str = PREDICT_FIRST
    C: float = 1.0
    is_scaled: bool = False

    def stream(self, shift: str, batch_size: int, n_rounds: int, seed: int) -> GaussianStream:
        """Return the stream of a cell."""
        geometry: dict[str, Any] = {"geometry": "published"} if self.angle is None else {"angle": self.angle}
        return GaussianStream(SHIFTS[shift], n_rounds=n_rounds, batch_size=batch_size, random_state=seed, **geometry)


# The reading of the results page first; then one thing changed at a time, from the reading before there were protocols.
READINGS = (
    Reading(),
    Reading(protocol=BATCH_FIRST),
    *(Reading(angle=angle) for angle in (None, 45.0, 60.0, 90.0, 120.0)),
    Reading(C=0.01),
    Reading(C=100.0),
    Reading(is_scaled=True),
)


class _Scaled:
    """A stream whose inputs are standardised by its reference."""

    def __init__(self, stream: GaussianStream) -> None:
        self._stream, self._scaler = stream, StandardScaler().fit(stream.reference()[0])

    def __len__(self) -> int:
        return len(self._stream)

    def reference(self) -> Any:
        X, y = self._stream.reference()
        return self._scaler.transform(X), y

    def __iter__(self) -> Any:
        for batch in self._stream:
            yield replace(batch, X=self._scaler.transform(batch.X))


def errors_of(reading: Reading, contender: str, shift: str, batch_size: int, n_rounds: int, seed: int) -> float:
    """Return the error of a contender in a cell, in %: all rows, or those of the rounds that it plays."""
    whole = reading.stream(shift, batch_size, n_rounds, seed)
    stream: Any = _Scaled(whole) if reading.is_scaled else whole
    chosen = get_contender(contender)
    model = chosen(seed).set_params(C=reading.C)
    fit_on(stream, chosen, model)
    is_played = scored_rounds(n_rounds, 4, seed)
    wrong = []
    for batch in rounds(chosen, model, stream, reading.protocol, is_played if chosen.forgets else None):
        if not is_played[batch.round - 1]:
            continue
        if reading.protocol == PREDICT_FIRST and not reading.is_scaled:
            wrong.append(whole.risk(model.estimator_, batch.alpha))
        else:
            wrong.append(float(np.mean(model.predict(batch.X) != batch.y)))
    return 100.0 * fmean(wrong)


def distance_and_order(errors: dict[tuple[str, str, int], float]) -> tuple[float, float]:
    """Return the mean distance to the paper's numbers, in points, and the mean rank correlation over the cells."""
    distances, orders = [], []
    for shift, batch_size in product(SHIFTS, (1, 5)):
        ours = [errors[name, shift, batch_size] for name in CONTENDERS]
        published = [paper_result("gaussian", shift, batch_size, name) for name in CONTENDERS]
        theirs = [one.mean for one in published if one is not None]
        distances += [abs(mine - paper) for mine, paper in zip(ours, theirs, strict=True)]
        orders.append(float(spearmanr(np.round(ours, 3), theirs).statistic))
    return fmean(distances), fmean(orders)


def main() -> None:
    """Measure all readings and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000, help="rounds of each stream (default 1000)")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds (default 2)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    given = parser.parse_args()
    rows = []
    with one_blas_thread():
        for reading in READINGS:
            cases = list(product(CONTENDERS, SHIFTS, (1, 5)))
            jobs = Parallel(n_jobs=given.jobs, backend="multiprocessing", batch_size=1)(
                delayed(errors_of)(reading, *case, given.rounds, seed) for case in cases for seed in range(given.seeds)
            )
            by_case = np.reshape(jobs, (-1, given.seeds)).mean(axis=1).tolist()
            errors = dict(zip(cases, by_case, strict=True))
            distance, order = distance_and_order(errors)
            cells = {f"{name}, {shift}, N_t = {size}": round(value, 2) for (name, shift, size), value in errors.items()}
            rows.append({**vars(reading), "distance": round(distance, 3), "order": round(order, 3), "errors": cells})
            print(reading, f"distance {distance:.2f}, order {order:.2f}", flush=True)
            write_results("readings", {"n_rounds": given.rounds, "n_seeds": given.seeds, "readings": rows})


if __name__ == "__main__":
    main()
