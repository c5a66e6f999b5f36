"""What the ablations are measured on: each case returns the mean error of every arm on one stream, in %.

Streams are scored in every seventh round: a number with a factor in common with the period of a shift would only see a
part of its wave.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from accous import backtest
from accous.streams import GaussianStream, MixtureStream, SquareShift
from accous.threads import one_blas_thread
from accous_bench.contenders import LIMIT, ORACLE
from accous_bench.problems import Setting, get_problem
from benchmarks.limit import FIX, play
from benchmarks.pool_arms import Arm
from benchmarks.pool_regimes import RegimeStream
from benchmarks.problems import TableProblem
from benchmarks.real_stream_tables import prepare, read_stream

__all__ = ["Case", "GaussianCase", "ImageCase", "RegimeCase", "StreamCase", "TableCase"]

SCORE_EVERY = 7


@dataclass(frozen=True)
class Case:
    """A kind of stream."""

    @property
    def label(self) -> str:
        """The line of the table."""
        raise NotImplementedError

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return the mean error by name: FIX, the bounds that are known, and the arms."""
        raise NotImplementedError


def played(stream: Any, arms: Sequence[Arm], bounds: Sequence[str]) -> dict[str, float]:
    """Return the mean exact risk of FIX, the bounds and the arms on a stream, in %."""
    found = {name: play(name, stream, SCORE_EVERY) for name in (FIX, *bounds)}
    for arm in arms:
        with arm.switched():
            found[arm.name] = play(arm.contender(), stream, SCORE_EVERY)
    return {name: 100.0 * float(risks.mean()) for name, risks in found.items()}


@dataclass(frozen=True)
class GaussianCase(Case):
    """The reconstructed Gaussian stream of the benchmark."""

    shift: str
    n_features: int
    n_reference: int
    batch_size: int
    n_rounds: int

    @property
    def label(self) -> str:
        """The line of the table."""
        sizes = f"d = {self.n_features}, N_0 = {self.n_reference:,}, N_t = {self.batch_size}"
        return f"{sizes}, {'standing still' if self.shift == 'none' else self.shift}"

    def stream(self, seed: int) -> GaussianStream:
        """Return the stream of a seed."""
        options = {"n_features": self.n_features, "n_reference": self.n_reference}
        stream: GaussianStream = get_problem("gaussian").make(
            Setting(self.shift, self.batch_size, self.n_rounds, seed, options)
        )
        return stream

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return exact risks."""
        return played(self.stream(seed), arms, (LIMIT, ORACLE))


@dataclass(frozen=True)
class RegimeCase(Case):
    """More than two regimes."""

    kind: str
    batch_size: int
    n_rounds: int

    @property
    def label(self) -> str:
        """The line of the table."""
        name = {"three": "three regimes", "six": "six regimes", "week": "day, night, weekend"}[self.kind]
        return f"{name}, N_t = {self.batch_size}"

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return exact risks."""
        return played(RegimeStream(self.kind, self.n_rounds, self.batch_size, seed), arms, (ORACLE,))


@dataclass(frozen=True)
class TableCase(Case):
    """A table in two parts, whose mixture moves; a seed is a split."""

    table: str
    shift: str
    n_rounds: int

    @property
    def label(self) -> str:
        """The line of the table."""
        return f"{self.table}, {'standing still' if self.shift == 'none' else self.shift}"

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return errors on all rows of both parts, weighted by the round's mixture."""
        problem = TableProblem(
            self.table, self.shift, n_reference=1000, batch_size=1, n_rounds=self.n_rounds, seed=seed
        )
        risks: dict[str, list[float]] = {FIX: []}
        for arm in arms:
            risks[arm.name] = []
            with arm.switched(), one_blas_thread():
                model = arm.model(seed).fit(problem.X, problem.y)
                fixed = problem.component_risks(model.estimator_)
                for number, (batch, alpha) in enumerate(zip(problem.batches(), problem.alphas, strict=True), start=1):
                    if number % SCORE_EVERY == 0:
                        risks[arm.name].append(_mixed(problem.component_risks(model.estimator_), alpha))
                    model.adapt(batch)
        risks[FIX] = [_mixed(fixed, alpha) for alpha in problem.alphas[SCORE_EVERY - 1 :: SCORE_EVERY]]
        return {name: 100.0 * float(np.mean(values)) for name, values in risks.items()}


@dataclass(frozen=True)
class StreamCase(Case):
    """A real stream in order of time: predict each batch of ten, then learn from it. It has no seeds."""

    stream: str
    is_ordered: bool
    n_reference: int = 1000
    batch_size: int = 10
    most_rows: int = 12_000

    @property
    def label(self) -> str:
        """The line of the table."""
        return f"{self.stream}{', order known' if self.is_ordered else ''}"

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return the share of wrong predictions."""
        rows, y = read_stream(self.stream, self.most_rows)
        n = self.n_reference
        X = prepare(rows[:n])(rows)
        found = {}
        for arm in arms:
            with arm.switched(), one_blas_thread(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = arm.model(seed)
                order = backtest(model, rows[:n], y[:n], prepare=prepare) if self.is_ordered else None
                model.fit(X[:n], y[:n], order=order)
                is_wrong = []
                for start in range(n, len(y), self.batch_size):
                    batch = slice(start, start + self.batch_size)
                    is_wrong.append(model.predict(X[batch]) != y[batch])
                    model.adapt(X[batch])
                found[FIX] = 100.0 * float(np.mean(model.predict_fixed(X[n:]) != y[n:]))
                found[arm.name] = 100.0 * float(np.mean(np.concatenate(is_wrong)))
        return found


@dataclass(frozen=True)
class ImageCase(Case):
    """Digits as features of a frozen network: MNIST and SVHN take turns."""

    n_rounds: int
    n_reference: int = 1000
    batch_size: int = 5

    @property
    def label(self) -> str:
        """The line of the table."""
        return f"MNIST and SVHN, 1,280 features, N_t = {self.batch_size}"

    def errors(self, arms: Sequence[Arm], seed: int) -> dict[str, float]:
        """Return errors on all rows of both pools, weighted by the round's mixture."""
        first, second = _embedded_pools()
        stream = MixtureStream(
            first,
            second,
            SquareShift(period=100),
            n_rounds=self.n_rounds,
            batch_size=self.batch_size,
            n_reference=self.n_reference,
            alpha_0=0.9,
            random_state=seed,
        )
        return played(stream, arms, (ORACLE,))


@cache
def _embedded_pools() -> list[Any]:
    from benchmarks.wide_metrics import embedded_pools

    return embedded_pools()


def _mixed(risks: tuple[float, float], alpha: float) -> float:
    return (1.0 - alpha) * risks[0] + alpha * risks[1]
