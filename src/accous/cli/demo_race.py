"""The race of ``accous demo``: five classifiers follow one simulated stream and are scored exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray
from accous.model.estimators import AdaptiveClassifier
from accous.ratio.one_step import LogisticRatio
from accous.ratio.online import NoShift, SingleLearnerRatio
from accous.streams import (
    Batch,
    BernoulliShift,
    GaussianStream,
    LinearShift,
    Shift,
    SineShift,
    SquareShift,
)
from accous.table.history import History
from accous_bench.oracle import Oracle

__all__ = ["ACCOUS", "FIXED", "ONE_STEP", "ORACLE", "SINGLE", "Race", "make_stream", "run_race"]

FIXED, SINGLE, ACCOUS, ORACLE = "fixed model", "single learner", "accous", "oracle"
ONE_STEP = "one batch at a time"  # by logistic regression, the best of the one-step estimators on these streams

_STRETCHES = 20  # enough for a learner that forgets nothing to fall behind, few enough to see each one
_SMALLEST_GAP = 0.001  # in error; below, shares of it say nothing
_CLEAR_DIFFERENCE = 0.001
_LATE_ROWS = 50  # labels that the model gets at a time


@dataclass(frozen=True)
class Race:
    """The exact error of every contender in every round, before it learned from that round.

    Attributes
    ----------
    stream : GaussianStream
    errors : dict of str to array of shape (n_rounds,)
        In the order of the table.
    model : AdaptiveClassifier, optional
        Accous after the last round.
    history : History, optional
        Its rounds, for the report.
    """

    stream: GaussianStream
    errors: dict[str, FloatArray]
    model: AdaptiveClassifier | None = None
    history: History | None = None

    @cached_property
    def is_rare(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Rounds in which most rows come from the population that is rare in the reference."""
        return self.stream.alphas < 0.5

    def mean_error(self, name: str) -> float:
        """Mean error over all rounds."""
        return float(self.errors[name].mean())

    def rare_error(self, name: str) -> float | None:
        """Mean error over the rounds of the rare population; None where there is no such round."""
        return float(self.errors[name][self.is_rare].mean()) if self.is_rare.any() else None

    def gap_closed(self, name: str) -> float | None:
        """Share of the way from the fixed model to the oracle; None where the two are as good as equal."""
        gap = self.mean_error(FIXED) - self.mean_error(ORACLE)
        return (self.mean_error(FIXED) - self.mean_error(name)) / gap if gap > _SMALLEST_GAP else None

    def headline(self) -> str:
        """What was seen, in a line."""
        fixed, ours = self.rare_error(FIXED), self.rare_error(ACCOUS)
        if fixed is None or ours is None:
            fixed, ours = self.mean_error(FIXED), self.mean_error(ACCOUS)
            return f"Without drift, the fixed model errs on {fixed:.0%} of the rows, accous on {ours:.0%}"
        return f"When the inputs drift, the fixed model errs on {fixed:.0%} of the rows, accous on {ours:.0%}"

    def finding(self) -> str:
        """What was seen, in plain words."""
        share, fixed, ours = self.gap_closed(ACCOUS), self.mean_error(FIXED), self.mean_error(ACCOUS)
        if share is None:
            return "The fixed model is as good as the oracle on this stream: there is nothing to gain by adapting."
        if fixed - ours < _CLEAR_DIFFERENCE:
            return f"Adapting did not help on this stream: accous errs on {ours:.1%}, the fixed model on {fixed:.1%}."
        overall = f"Over all rounds accous closed {share:.0%} of the gap to the oracle, without a label."
        return f"{self.headline()}. {overall} {self._compare_with_single()}"

    def _compare_with_single(self) -> str:
        lead = self.mean_error(SINGLE) - self.mean_error(ACCOUS)
        if abs(lead) < _CLEAR_DIFFERENCE:
            return "One learner over the whole history does as well on this stream."
        verdict = "more" if lead > 0 else "fewer"
        return f"One learner over the whole history makes {100 * abs(lead):.1f} points {verdict} errors."


def make_stream(shift: str, *, n_rounds: int, batch_size: int, seed: int) -> GaussianStream:
    """Make a stream that drifts back and forth about ten times, whatever the number of rounds."""
    shifts: dict[str, Shift] = {
        "lin": LinearShift(),
        "squ": SquareShift(period=max(1, n_rounds // _STRETCHES)),
        "sin": SineShift(period=max(2, 2 * n_rounds // _STRETCHES)),
        "ber": BernoulliShift(flip=min(1.0, _STRETCHES / n_rounds)),
    }
    return GaussianStream(shifts[shift], n_rounds=n_rounds, batch_size=batch_size, random_state=seed)


def run_race(stream: GaussianStream, track: Callable[[Iterable[Batch]], Iterable[Batch]] = iter) -> Race:
    """Run the contenders on the stream.

    Parameters
    ----------
    stream : GaussianStream
    track : callable, optional
        Gives the batches it is given; a place for a progress bar.
    """
    X_reference, y_reference = stream.reference()
    models = {
        FIXED: AdaptiveClassifier(ratio=NoShift(), standardize=False),
        ONE_STEP: AdaptiveClassifier(ratio=LogisticRatio(random_state=0), standardize=False),
        SINGLE: AdaptiveClassifier(ratio=SingleLearnerRatio(), standardize=False),
        ACCOUS: AdaptiveClassifier(standardize=False),
    }
    for model in models.values():
        model.fit(X_reference, y_reference)
    oracle, history = Oracle().fit(X_reference, y_reference), History()
    errors = {name: np.empty(len(stream)) for name in (*models, ORACLE)}
    late = _LateLabels(models[ACCOUS])
    for batch in track(stream):
        predicted = {name: models[name].predict(batch.X) for name in (FIXED, ACCOUS)}
        is_wrong = [predicted[name] != batch.y for name in (FIXED, ACCOUS)]
        for name, model in models.items():
            if name == ONE_STEP:  # knows nothing but the batch at hand, so it has to learn from it first
                model.adapt(batch.X)
            errors[name][batch.round - 1] = stream.risk(model.estimator_, batch.alpha)
            if name != ONE_STEP:
                model.adapt(batch.X)
        oracle.adapt_to(stream.reference_ratio(batch.alpha))
        errors[ORACLE][batch.round - 1] = stream.risk(oracle.estimator_, batch.alpha)
        late.add(batch, predicted[ACCOUS], predicted[FIXED])
        history.add(models[ACCOUS], len(batch.X), len(batch.X), *(int(wrong.sum()) for wrong in is_wrong))
    late.pass_on()
    return Race(stream, errors, models[ACCOUS], history)


class _LateLabels:
    """Passes the labels of the stream to the model in blocks, after it has predicted: it measures with them."""

    def __init__(self, model: AdaptiveClassifier) -> None:
        self._model = model
        self._waiting: list[tuple[NDArray[Any], ...]] = []

    def add(self, batch: Batch, predicted: NDArray[Any], predicted_fixed: NDArray[Any]) -> None:
        """Keep the labels of a batch, with what was predicted for its rows."""
        self._waiting.append((batch.X, batch.y, predicted, predicted_fixed))
        if sum(len(rows) for rows, *_ in self._waiting) >= _LATE_ROWS:
            self.pass_on()

    def pass_on(self) -> None:
        """Pass what waits to the model."""
        if self._waiting:
            self._model.observe(*map(np.concatenate, zip(*self._waiting, strict=True)))
            self._waiting = []
