"""What a round is compared with: the bare arithmetic in numpy, and the plain loop of slow, obvious code.

``python -m benchmarks.yardsticks`` prints the quotients for narrow features around round 8192. All contenders take
turns in one process and the best turn of each counts, so that the quotients also hold on a busy machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import ADAPT_ML_PROD, MetaState, active_lengths
from accous.core.learners import NewtonStack
from accous.streams import GaussianStream, SquareShift
from tests.oracles import Learner, PaperAccous

__all__ = ["BareArithmetic", "PlainLoop", "at_round", "best_times", "slow_twin"]

AROUND_ROUND = 8192
TURNS, ROUNDS_PER_TURN = 60, 32


class BareArithmetic:
    """The arithmetic of one round and nothing else, in numpy, on the shapes and numbers of a fitted model.

    It computes scores of the reference for all learners and the ensemble, exp and reciprocal, gradients, reference
    ratios, and one weighted Newton step for two classes or one weighted softmax gradient for more. It leaves out
    reading the input, Newton steps of the learners, projections, meta weights and bookkeeping.

    Parameters
    ----------
    model : AdaptiveClassifier
        With ``OnlineDensityRatio`` as ratio and our own regression, after some rounds.
    """

    def __init__(self, model: AdaptiveClassifier) -> None:
        ratio = model.ratio_
        self._features: FloatArray = ratio.reference_features_
        self._points = np.concatenate((ratio.learner_coefs_, ratio.coef_[None]))
        self._design = np.column_stack((model.reference_, np.ones(len(model.reference_))))
        self._coefs = np.column_stack((model.estimator_.coef_, model.estimator_.intercept_))
        self._weights: FloatArray = model.reference_weight_
        self._labels: IntArray = model.labels_
        self._targets: FloatArray = np.eye(len(model.classes_))[model.labels_]

    def run(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute gradients, ratios and the refit's step."""
        gradients = (1.0 / (1.0 + np.exp(self._points @ self._features.T))) @ self._features
        ratios = np.exp(-(self._features @ self._points[-1]))
        step = self._newton_step() if len(self._coefs) == 1 else self._softmax_gradient()
        return gradients, ratios, step

    def _newton_step(self) -> FloatArray:
        design, coef, weights = self._design, self._coefs[0], self._weights
        probabilities = 1.0 / (1.0 + np.exp(-(design @ coef)))
        gradient = (weights * (probabilities - self._labels)) @ design + coef
        curvatures = weights * probabilities * (1.0 - probabilities)
        gram = (design * curvatures[:, None]).T @ design
        gram.flat[:: len(coef) + 1] += 1.0
        return np.asarray(coef - np.linalg.solve(gram, gradient))

    def _softmax_gradient(self) -> FloatArray:
        scores = self._design @ self._coefs.T
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        residuals = powers / powers.sum(axis=1, keepdims=True) - self._targets
        return np.asarray((self._weights[:, None] * residuals).T @ self._design + self._coefs)


class PlainLoop:
    """The slow transcription of the paper that the tests use, and a fit of scikit-learn's regression in every round.

    Parameters
    ----------
    model : AdaptiveClassifier
        As for ``BareArithmetic``; the loop continues from its state.
    """

    def __init__(self, model: AdaptiveClassifier) -> None:
        self._slow = slow_twin(model.ratio_)
        self._features = model.ratio_.features_
        self._max_ratio = float(model.ratio_.max_ratio)
        self._X, self._y = model.reference_, model.labels_

    def adapt(self, batch: FloatArray) -> LogisticRegression:
        """Play one round, from the batch to the new predictor."""
        self._slow.play(self._features.transform(batch)[0])
        ratios = np.array(
            [min(np.exp(-float(phi @ self._slow.theta)), self._max_ratio) for phi in self._slow.reference]
        )
        return LogisticRegression().fit(self._X, self._y, sample_weight=ratios / ratios.mean())


def slow_twin(fast: OnlineDensityRatio) -> PaperAccous:
    """Put the slow transcription into the state of the fast one, so that both have the same learners."""
    settings, state = fast.rounds_.settings, fast.state_
    slow = PaperAccous(
        fast.reference_features_,
        radius=fast.radius_,
        feature_bound=fast.features_.norm_bound,
        step_size=fast.step_size_,
        ridge=settings.ridge,
        horizon=settings.horizon,
        min_interval=settings.min_interval,
        start=settings.start,
        meta_range="running" if settings.has_running_range else "paper",
    )
    slow.round, slow.largest_gap = state.n_rounds, state.largest_margin
    assert isinstance(state.learners, NewtonStack)
    assert isinstance(state.meta, MetaState)
    for i, length in enumerate(state.lengths.tolist()):
        start = (state.n_rounds + 1) // length * length
        slow.learners[(start, start + length - 1)] = Learner(
            state.learners.coefs[i].copy(),
            state.learners.matrices[i].copy(),
            float(np.exp(state.meta.log_potentials[i])),
            float(state.meta.rates[i]),
            float(state.meta.squares[i]),
        )
    slow._describe()
    return slow


def at_round(model: AdaptiveClassifier, n_rounds: int) -> AdaptiveClassifier:
    """Copy a model into a later round, with copies of its learners, as many as are active then."""
    state = model.ratio_.state_
    lengths = active_lengths(n_rounds + 1, model.ratio_.rounds_.settings.min_interval)
    rows = np.arange(len(lengths)) % len(state.lengths)
    learners = type(state.learners)(*(part[rows] for part in state.learners.arrays))
    meta = MetaState(*(part[rows] for part in state.meta.arrays))
    weights = ADAPT_ML_PROD.weights(meta)
    coef = weights @ learners.coefs
    ratio, later = copy(model.ratio_), copy(model)
    ratio.state_ = replace(
        state, n_rounds=n_rounds, lengths=lengths, learners=learners, meta=meta, weights=weights, coef=coef
    )
    later.state_ = replace(model.state_, n_rounds=n_rounds, ratio=ratio, cache={})
    return later


def best_times(contenders: dict[str, Callable[[int], object]], turns: int, repeats: dict[str, int]) -> dict[str, float]:
    """Return the best seconds per call of each contender; in a turn, each is called its number of repeats.

    A contender gets the number of the call.
    """
    best = dict.fromkeys(contenders, np.inf)
    for turn in range(turns):
        for name, contender in contenders.items():
            calls = range(turn * repeats[name], (turn + 1) * repeats[name])
            start = time.perf_counter()
            for call in calls:
                contender(call)
            best[name] = min(best[name], (time.perf_counter() - start) / repeats[name])
    return best


def main() -> None:
    """Measure around round 8192 and print."""
    n_rounds = AROUND_ROUND + TURNS * ROUNDS_PER_TURN
    stream = GaussianStream(SquareShift(period=500), n_rounds=n_rounds, batch_size=1)
    X, y = stream.reference()
    batches = [batch.X for batch in stream]
    model = AdaptiveClassifier(standardize=False, refit="always", fallback="none").fit(X, y)
    for batch in batches[:AROUND_ROUND]:
        model.adapt(batch)
    coming = batches[AROUND_ROUND:]
    bare, loop = BareArithmetic(model), PlainLoop(model)
    sooner, later = at_round(model, 10_000), at_round(model, 1_000_000)
    scikit_learn = LogisticRegression().fit(X, y)
    contenders: dict[str, Callable[[int], object]] = {
        "adapt": lambda call: model.adapt(coming[call]),
        "bare arithmetic": lambda _: bare.run(),
        "plain loop": lambda call: loop.adapt(coming[call]),
        "adapt at 10,000": lambda call: sooner.adapt(coming[call]),
        "adapt at 1,000,000": lambda call: later.adapt(coming[call]),
        "predict a row": lambda call: model.predict(coming[call]),
        "scikit-learn's predict": lambda call: scikit_learn.predict(coming[call]),
    }
    repeats = dict.fromkeys(contenders, ROUNDS_PER_TURN) | {"plain loop": 1}
    with threadpool_limits(1):
        times = best_times(contenders, TURNS, repeats)
    Console().print(_table(times))


def _table(times: dict[str, float]) -> Table:
    table = Table(title="1000 reference rows, 12 features, batches of one row, around round 8192, one core")
    for heading in ("what", "microseconds", "compared with", "quotient"):
        table.add_column(heading, justify="left" if heading in ("what", "compared with") else "right")
    comparisons = {
        "adapt": "bare arithmetic",
        "plain loop": "adapt",
        "adapt at 1,000,000": "adapt at 10,000",
        "predict a row": "scikit-learn's predict",
    }
    for name, seconds in times.items():
        other = comparisons.get(name, "")
        quotient = f"{seconds / times[other]:.2f}" if other else ""
        table.add_row(name, f"{1e6 * seconds:.1f}", other, quotient)
    return table


if __name__ == "__main__":
    main()
