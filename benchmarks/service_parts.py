"""Where the processor time of a prediction and of a round goes, in one process without HTTP and disk.

    python -m benchmarks.service_parts

Each part is run in turns with the others, and the median of the turns is printed: of one row with 12 columns, for a
model with 1,000 reference rows that has played some thousand rounds, as ``python -m benchmarks.service`` measures it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from copy import copy
from itertools import cycle
from pathlib import Path

import numpy as np

from accous.service.bodies import Batch, prediction_content
from accous.service.http import Limits, json_answer
from accous.service.learner import OwnedModel, open_owned
from accous.service.log import Record
from benchmarks.service_servers import JSON, bodies, fitted

_TURNS, _CALLS, _WARM_UP = 15, 128, 4_096


class Parts:
    """The parts of a round, each of which can be run again and again.

    Parameters
    ----------
    owned : OwnedModel
    contents : list of bytes
        Bodies of requests.
    """

    def __init__(self, owned: OwnedModel, contents: list[bytes]) -> None:
        self._owned, self._model = owned, owned.table_model
        self._records = cycle([Record("step", JSON, body) for body in contents])
        self._n_rounds = 0
        self._batch = self._read()
        read = [owned.reader.read(body, JSON, {}).X for body in contents]
        self._rows, self._rows_of_ratio = cycle(read), cycle(read)
        self._adapting, self._ratio = copy(self._model.model), copy(self._model.model.ratio_)

    def named(self) -> dict[str, Callable[[], object]]:
        """Return all parts by name."""
        return {
            "a prediction: read the row": self._read,
            "a prediction: compute it": self._predict,
            "a prediction: write the answer": self._answer,
            "a round, all of it but estimates of the risk": self.play,
            "a round: learn (`adapt`)": lambda: self._adapting.adapt(next(self._rows)),
            "a round: of that, the ratio": lambda: self._ratio.partial_fit(next(self._rows_of_ratio)),
        }

    def play(self) -> None:
        """Play a round as the learner does."""
        record, executor = next(self._records), self._owned.executor
        self._n_rounds += 1
        executor.carry_out(self._n_rounds, record, executor.parse(record))

    def settle(self) -> None:
        """Estimate the risk of the rounds that have left that for later."""
        self._model.history.column("risk")

    def _read(self) -> Batch:
        return self._owned.reader.read(next(self._records).body, JSON, {})

    def _predict(self) -> object:
        return self._model.predict_rows(self._batch.X, needs_ratio=False)

    def _answer(self) -> object:
        played = self._played = getattr(self, "_played", None) or self._model.predict_rows(self._batch.X)
        salt = self._owned.reader.salt
        return json_answer(prediction_content(self._model, played, self._batch, origin="s1", salt=salt))


def measure(parts: Parts) -> dict[str, float]:
    """Return the median processor time of each part, in microseconds."""
    times: dict[str, list[float]] = {}
    for _ in range(_WARM_UP):
        for name, run in parts.named().items():
            if name.startswith("a round"):
                run()
    parts.settle()
    for _ in range(_TURNS):
        for name, run in parts.named().items():
            times.setdefault(name, []).append(_time(run, _CALLS))
        times.setdefault("a round: estimates of the risk, read on a timer", []).append(_time(parts.settle, 1) / _CALLS)
    return {name: 1e6 * float(np.median(each)) for name, each in times.items()}


def _time(run: Callable[[], object], n_calls: int) -> float:
    began = time.process_time()
    for _ in range(n_calls):
        run()
    return (time.process_time() - began) / n_calls


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as place:
        model, rows = fitted(Path(place))
        shutil.copytree(model, Path(place) / "served")
        owned = open_owned(Path(place) / "served", Limits())
        found = measure(Parts(owned, bodies(rows, 1, JSON, len(rows))))
        owned.log.close()
    print(f"load of the machine: {os.getloadavg()[0]:.1f}\n\n| part | processor time, us |\n|---|---|")
    for name, microseconds in found.items():
        print(f"| {name} | {microseconds:.0f} |")


if __name__ == "__main__":
    main()
