"""One run: a contender on a stream, scored and returned as one record that fits into a line of JSON."""

from __future__ import annotations

import hashlib
import json
import re
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accous.exceptions import AccousError, DataError, ParameterError
from accous.threads import one_blas_thread
from accous_bench.contenders import Contender
from accous_bench.problem import Problem, Setting, Stream
from accous_bench.protocols import PREDICT_FIRST, fit_on, rounds
from accous_bench.provenance import commit, machine, versions
from accous_bench.scores import RoundScores, expected_excess_loss, observed_loss, scored_rounds

__all__ = ["Measures", "Run", "play"]

FORMAT = 2
N_FRESH_ROWS = 2000


@dataclass(frozen=True)
class Measures:
    """What to measure.

    Attributes
    ----------
    score_every : int
        Risk, ratio and effective sample size are scored in one round of every so many, drawn at random; errors are
        counted in all rounds.
    n_points : int
        Maximum number of points of a curve.
    has_learner_weights : bool
        Whether to record the weights of the ensemble's learners.
    has_regret : bool
        Whether to record the excess of the expected loss, on new rows from the reference's distribution.
    one_step_every : int
        Contenders that keep nothing from one round to the next play one round of every so many, drawn at random, and
        slow ones fewer still (`Run.plays_one_of`); as many of these are scored as ``score_every`` asks for, or all.
    """

    score_every: int
    n_points: int = 200
    has_learner_weights: bool = False
    has_regret: bool = False
    one_step_every: int = 1


@dataclass(frozen=True)
class Run:
    """A cell of the grid, for one contender and one seed.

    ``parameters`` are set on the contender's model with scikit-learn's ``set_params``; ``protocol`` is one of
    `accous_bench.protocols.PROTOCOLS`.
    """

    spec: str
    problem: Problem
    contender: Contender
    setting: Setting
    measures: Measures
    parameters: Mapping[str, Any] = field(default_factory=dict)
    protocol: str = PREDICT_FIRST
    _names: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        setting = self.setting
        names = {
            "dataset": self.problem.name,
            "shift": setting.shift,
            "batch_size": setting.batch_size,
            "contender": self.contender.name,
            "seed": setting.seed,
            "n_rounds": setting.n_rounds,
            "protocol": self.protocol,
        }
        object.__setattr__(self, "_names", names)

    @property
    def names(self) -> dict[str, Any]:
        """The fields that identify the run."""
        return dict(self._names)

    def model(self) -> Any:
        """Return a new classifier with the run's seed and parameters."""
        model = self.contender(self.setting.seed)
        return model.set_params(**self.parameters) if self.parameters else model

    @property
    def plays_one_of(self) -> int:
        """Of how many rounds one is played: 1 unless the contender forgets and the spec leaves rounds out."""
        every = self.measures.one_step_every if self.contender.forgets else 1
        return every * self.contender.every if every > 1 else 1

    def settings(self) -> dict[str, Any]:
        """Return everything, apart from the code, that the numbers depend on."""
        measures = asdict(self.measures)
        if self.contender.forgets:
            measures["one_step_every"] = self.plays_one_of
        else:
            del measures["one_step_every"]
        return {"contender": _parameters(self.model()), "options": dict(self.setting.options), **measures}

    def identity(self) -> str:
        """Return sixteen hexadecimal digits that change with any name or setting.

        Only parameters of a contender that differ from their default count. Finished runs therefore stay finished when
        a new parameter is added. They also stay finished when a default changes: delete the affected rows by hand.
        """
        settings = {**self.settings(), "contender": _text(self.model())}
        text = json.dumps([FORMAT, self._names, settings], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def play(run: Run) -> dict[str, Any]:
    """Run the contender on the stream and return the record; a failure is recorded, not raised."""
    started, started_on_cpu = time.perf_counter(), time.process_time()
    try:
        with one_blas_thread():
            stream = run.problem.make(run.setting)
            # The first run of a seed makes what its streams share; this does not count as time of the contender.
            started, started_on_cpu = time.perf_counter(), time.process_time()
            outcome = _outcome(run, stream)
    except Exception as error:
        reason = str(error) if isinstance(error, AccousError) else f"{type(error).__name__}: {error} ({_place(error)})"
        outcome = {"status": "failed", "reason": reason, "error": None}
    return {
        "format": FORMAT,
        "run": run.identity(),
        "spec": run.spec,
        **run.names,
        **outcome,
        "seconds": round(time.perf_counter() - started, 3),
        "cpu_seconds": round(time.process_time() - started_on_cpu, 3),
        "settings": {**run.settings(), **outcome.get("settings", {})},
        "versions": versions(),
        "commit": commit(),
        "machine": machine(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _place(error: Exception) -> str:
    """Return the file and line where the error was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}, line {frame.lineno}"


def _outcome(run: Run, stream: Stream) -> dict[str, Any]:
    X, y = stream.reference()
    model = run.model()
    scores = RoundScores(len(stream), run.measures.n_points)
    scorer = _Scorer(stream, run.measures)
    is_played, is_scored = _chosen_rounds(run, len(stream))
    fit_on(stream, run.contender, model)
    started = time.perf_counter()
    for batch in rounds(run.contender, model, stream, run.protocol, is_played):
        scores.add_errors(batch.round, np.asarray(model.predict(batch.X)) != batch.y)
        if is_scored[batch.round - 1]:
            scorer.score(model, batch, scores)
    return {
        "status": "done",
        "reason": None,
        "error": scores.error,
        **{name: scores.mean(name) for name in ("risk", "estimator_loss", "ratio_error", "effective_sample_size")},
        "ratio_regret": scores.total("excess_loss"),
        "n_rows": scores.n_rows,
        "n_reference": len(y),
        "n_features": int(X.shape[1]),
        "n_played": len(stream),
        "n_predicted": int(is_played.sum()),
        "seconds_per_round": (time.perf_counter() - started) / int(is_played.sum()),
        "curve": scores.curve(),
        "learner_weights": scores.learner_weights(),
        "settings": {"stream": repr(stream)},
    }


def _chosen_rounds(run: Run, n_rounds: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rounds are played, and which of them are scored."""
    measures, seed = run.measures, run.setting.seed
    is_played = np.ones(n_rounds, dtype=bool)
    if run.plays_one_of > 1:
        is_played = scored_rounds(n_rounds, run.plays_one_of, seed)
    # One that plays few rounds is scored in no more of them than the others: a score may cost more than a round.
    every = max(1, measures.score_every // run.plays_one_of)
    is_scored = np.zeros(n_rounds, dtype=bool)
    is_scored[is_played] = scored_rounds(int(is_played.sum()), every, seed)
    return is_played, is_scored


class _Scorer:
    """Scores a model in a round with every measure that the stream and the model allow."""

    def __init__(self, stream: Any, measures: Measures) -> None:
        self._stream = stream
        self._measures = measures
        self._knows_ratio = hasattr(stream, "reference_ratio")
        self._fresh_rows = stream.fresh_reference_rows(N_FRESH_ROWS) if measures.has_regret else None
        self._risk: Callable[[Any, float], float] | None = getattr(stream, "risk", None)

    def score(self, model: Any, batch: Any, scores: RoundScores) -> None:
        scores.add(
            batch.round,
            risk=self._score_risk(model, batch.alpha),
            effective_sample_size=getattr(model, "effective_sample_size_", None),
        )
        ratio = getattr(model, "ratio_", None)
        if ratio is None:
            return
        scores.add(batch.round, estimator_loss=_loss(ratio, batch.X))
        if self._knows_ratio:
            error = np.abs(ratio.reference_ratio_ - self._stream.reference_ratio(batch.alpha)).mean()
            scores.add(batch.round, ratio_error=float(error))
        if self._fresh_rows is not None:
            truth = self._stream.true_ratio(self._fresh_rows, batch.alpha)
            scores.add(batch.round, excess_loss=expected_excess_loss(ratio.predict_ratio(self._fresh_rows), truth))
        if self._measures.has_learner_weights and len(getattr(ratio, "learner_weights_", ())):
            scores.add_learner_weights(batch.round, ratio.learner_lengths_, ratio.learner_weights_)

    def _score_risk(self, model: Any, alpha: float) -> float | None:
        if self._risk is None:
            return None
        try:
            return self._risk(getattr(model, "estimator_", model), alpha)
        except DataError:  # the closed form is for linear models
            self._risk = None
            return None


def _loss(ratio: Any, X: Any) -> float | None:
    """Return the observed loss of the ratio in use; `score_loss` of a ratio with a pool is that of its theta alone."""
    if getattr(ratio, "is_pooled", False):
        return observed_loss(ratio.reference_ratio_, ratio.predict_ratio(X), float(ratio.max_ratio))
    try:
        return float(ratio.score_loss(X))
    except ParameterError:  # KMM without a ridge has weights for the reference rows only
        return None


def _parameters(model: Any) -> dict[str, str]:
    """Return every parameter of a model as text, including nested ones."""
    if not hasattr(model, "get_params"):
        return {"": _text(model)}
    return {"": type(model).__name__, **{name: _text(value) for name, value in sorted(model.get_params().items())}}


def _text(value: Any) -> str:
    """Return the value as text, without the memory address that some objects show."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
