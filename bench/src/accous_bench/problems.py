"""The streams of a benchmark by data set name: simulated, mixed from real rows, or in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from accous import datasets
from accous.exceptions import ParameterError
from accous.parameters import did_you_mean
from accous.streams import (
    GaussianStream,
    MixtureStream,
    MovingGaussianStream,
    OrderedStream,
    SineShift,
    SquareShift,
)
from accous_bench.image_problems import IMAGE_PROBLEMS
from accous_bench.problem import ALPHA_0, DESCRIBED, MIXED, NATURAL, SHIFTS, STUDIED, Problem, Setting, Stream

__all__ = ["NATURAL", "SHIFTS", "Problem", "Setting", "Stream", "get_problem", "problem_names", "register_problem"]

SPLITS = ("fixed", "seed")
"""How a table is split in two: the same way in all runs, or anew for each seed."""


def _gaussian(geometry: str) -> Callable[[Setting], GaussianStream]:
    def make(setting: Setting) -> GaussianStream:
        options = dict(setting.options)
        shift = SHIFTS[setting.shift]
        period = options.pop("period", None)
        if period is not None and isinstance(shift, SquareShift | SineShift):
            shift = replace(shift, period=period)
        return GaussianStream(
            shift,
            geometry=geometry,
            n_rounds=setting.n_rounds,
            batch_size=setting.batch_size,
            alpha_0=ALPHA_0,
            random_state=setting.seed,
            **options,
        )

    return make


def _moving(setting: Setting) -> MovingGaussianStream:
    return MovingGaussianStream(
        SHIFTS[setting.shift],
        n_rounds=setting.n_rounds,
        batch_size=setting.batch_size,
        random_state=setting.seed,
        **setting.options,
    )


def _is_day(hours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduce 24 hours to two classes of twelve hours each: two loads cannot distinguish 24 classes."""
    return ((hours >= 7) & (hours < 19)).astype(np.int64)


@cache
def _halves(name: str, split_seed: int) -> tuple[tuple[NDArray[Any], NDArray[Any]], ...]:
    """Split a table into two parts such that a classifier trained on one generalises poorly to the other."""
    table = datasets.load(name)
    is_second = datasets.split_in_two(table.X, table.y, random_state=split_seed)
    return (table.X[~is_second], table.y[~is_second]), (table.X[is_second], table.y[is_second])


def _halved(name: str, title: str, suffix: str = "", **defaults: Any) -> Problem:
    """Mix the two halves of a table: one split for all seeds, or with ``split = "seed"`` one for each seed."""

    def make(setting: Setting) -> MixtureStream:
        options = {"alpha_0": ALPHA_0, "split": "fixed", **defaults, **setting.options}
        split = options.pop("split")
        if split not in SPLITS:
            raise ParameterError(f"split must be one of {', '.join(SPLITS)}, got {split!r}.")
        keywords = {
            "n_rounds": setting.n_rounds,
            "batch_size": setting.batch_size,
            "random_state": setting.seed,
            **options,
        }
        first, second = _halves(name, setting.seed if split == "seed" else 0)
        # Scale the columns with statistics of the reference only, as in a real deployment.
        scaler = StandardScaler().fit(MixtureStream(first, second, SHIFTS[setting.shift], **keywords).reference()[0])
        pools = [(scaler.transform(X), y) for X, y in (first, second)]
        return MixtureStream(pools[0], pools[1], SHIFTS[setting.shift], **keywords)

    return Problem(name + suffix, title, MIXED, make, ("n_reference", "alpha_0", "split"), lambda: _halves(name, 0))


def _described(name: str, title: str, n_reference: int) -> Problem:
    """Mix the two halves as the paper describes it: the reference is of one part, and every run has its own split.

    Half of the part goes to the stream, so that no row is in both; parts differ in size, the reference does not.
    """
    return _halved(name, f"{title} (as described)", DESCRIBED, n_reference=n_reference, alpha_0=1.0, split="seed")


def _ordered(
    name: str,
    title: str,
    *,
    share: float,
    group: str | None = None,
    label: Callable[[NDArray[np.int64]], NDArray[Any]] = lambda y: y,
) -> Problem:
    """Take a random share of a table's rows in their order; each seed takes different rows."""

    def make(setting: Setting) -> OrderedStream:
        table = datasets.load(name)
        options = {"share": share, "n_reference": 1000, **setting.options}
        generator = np.random.default_rng([setting.seed, 4])
        order = generator.permutation(len(table.y))
        if group is not None:  # rows are in order of their group, and shuffled within a group
            order = order[np.argsort(table.columns[group][order], kind="stable")]
        else:
            order = np.sort(order)
        kept = order[generator.random(len(order)) < options["share"]]
        n_first = int(options["n_reference"])
        kept = kept[: n_first + setting.n_rounds * setting.batch_size]
        scaler = StandardScaler().fit(table.X[kept[:n_first]])
        X = scaler.transform(table.X[kept])
        return OrderedStream(X, label(table.y[kept]), n_reference=n_first, batch_size=setting.batch_size)

    return Problem(name, title, (NATURAL,), make, ("share", "n_reference"), lambda: datasets.load(name))


_PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem(
            "gaussian", "Gaussians (reconstructed)", (*MIXED, *STUDIED), _gaussian("reconstructed"),
            ("angle", "n_features", "n_reference", "period"),
        ),
        Problem(
            "gaussian_published", "Gaussians (as published)", MIXED, _gaussian("published"),
            ("n_features", "n_reference", "period"),
        ),
        Problem(
            "moving_gaussian", "One moving Gaussian", ("fixed path", "growing path"), _moving,
            ("distance", "n_features", "n_reference"),
        ),
        _halved("diabetes", "Diabetes"),
        _described("diabetes", "Diabetes", 192),
        _halved("breast", "Breast"),
        _described("breast", "Breast", 140),
        _halved("breast_cancer", "Breast (diagnostic)"),
        _ordered("gas_sensor", "Gas sensors", share=0.9, group="batch"),
        _ordered("acs_employment", "Employment", share=0.1, group="year"),
        _ordered("powersupply", "Power supply", share=0.9, label=_is_day),
        *IMAGE_PROBLEMS,
    )
}  # fmt: skip


def problem_names() -> tuple[str, ...]:
    """Return all names, in order of registration."""
    return tuple(_PROBLEMS)


def get_problem(name: str) -> Problem:
    """Return the problem with this name."""
    if name not in _PROBLEMS:
        meant = did_you_mean(name, _PROBLEMS)
        raise ParameterError(
            f"There is no data set {name!r}{meant}: name one of {', '.join(_PROBLEMS)}, or register it."
        )
    return _PROBLEMS[name]


def register_problem(problem: Problem) -> None:
    """Add your own data set; it replaces one with the same name."""
    if not isinstance(problem, Problem):
        raise ParameterError(f"register_problem takes a Problem(name, title, shifts, make), got {problem!r}.")
    _PROBLEMS[problem.name] = problem
