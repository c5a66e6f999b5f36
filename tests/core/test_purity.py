"""The core writes into nothing it was given: every array that goes into a round or a refit is read-only here."""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accous.core.compiled import Workspaces
from accous.core.ensemble import DIAGONAL, FULL, LOW_RANK, PaperRounds, choose_rounds, prepare_reference, start_learners
from accous.core.losses import Logistic
from accous.core.regression import FULL as TO_THE_END
from accous.core.regression import (
    ONE_ROUND,
    Point,
    descend_from,
    leave_one_out_scores,
    make_problem,
    solve,
    solve_compiled,
)
from accous.core.ridge import leave_one_out_predictions, make_ridge_problem, solve_ridge
from tests.builders import LOSSES, Setup, feature_rows

WIDTHS = {"compiled": 4, "compiled step": 70, "wide": 110}


def lock(thing, seen=None):
    """Make every array within ``thing`` read-only; returns how many there are."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, Workspaces):
        return 0  # each call writes into the workspaces that it takes
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        thing.flags.writeable = False
        return 1 + lock(thing.base, seen)
    if isinstance(thing, dict):
        return sum(lock(each, seen) for each in thing.values())
    if isinstance(thing, list | tuple):
        return sum(lock(each, seen) for each in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        return sum(lock(getattr(thing, field.name), seen) for field in fields(thing)) + lock(vars_of(thing), seen)
    return lock(vars_of(thing), seen) if type(thing).__module__.startswith("accous.") else 0


def vars_of(thing):
    return getattr(thing, "__dict__", {})


def run_locked(rounds, d, batch_sizes, seed):
    """Run rounds; whatever a round is given is read-only, and what it was given before is as it was."""
    rng = np.random.default_rng(seed)
    lock(rounds)
    lock(rounds.settings)
    state = rounds.start()
    for n_rows in batch_sizes:
        batch = feature_rows(rng, n_rows, d, shift=1.0)
        assert lock((state, batch)) > 3
        state = rounds.run(state, batch, 2.0)
        lock(state)
        rounds.reference_ratios(state, 100.0)
    assert state.n_rounds == len(batch_sizes)


@settings(deadline=None, max_examples=8)
@pytest.mark.parametrize("d", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("loss", LOSSES)
@given(
    batch_sizes=st.lists(st.sampled_from([1, 3, 40]), min_size=1, max_size=20),
    start=st.sampled_from(["zero", "ensemble", "handover"]),
    meta_range=st.sampled_from(["paper", "running"]),
    min_interval=st.sampled_from([1, 2, 4]),
    radius=st.sampled_from([0.5, 20.0]),
    seed=st.integers(0, 9),
)
def test_rounds_write_into_nothing_they_are_given(d, loss, batch_sizes, start, meta_range, min_interval, radius, seed):
    setup = Setup(loss=loss, start=start, meta_range=meta_range, min_interval=min_interval, radius=radius)
    reference = prepare_reference(feature_rows(np.random.default_rng(seed), 60, d), LOSSES[loss])
    run_locked(choose_rounds(setup.settings(d), reference), d, batch_sizes, seed)


@pytest.mark.parametrize("d", WIDTHS.values(), ids=WIDTHS)
def test_plain_rounds_write_into_nothing_they_are_given(d):
    reference = prepare_reference(feature_rows(np.random.default_rng(0), 60, d), Logistic())
    rounds = PaperRounds(Setup().settings(d), reference, lambda n, coef: start_learners(n, coef, 1.0))
    run_locked(rounds, d, [2] * 20, 0)


@pytest.mark.parametrize("metric", [FULL, DIAGONAL, LOW_RANK])
@pytest.mark.parametrize("radius", [0.5, 1e3])
@pytest.mark.parametrize("d", WIDTHS.values(), ids=WIDTHS)
def test_steps_of_learners_write_into_nothing_they_are_given(d, metric, radius):
    rng = np.random.default_rng(0)
    coef = rng.normal(size=d) / d
    lock(coef)
    stack = start_learners(3, coef, 0.5, metric, rank=4)
    for _ in range(30):  # more than a sketch of rank 4 or a root's pending rows hold
        gradients = rng.normal(size=(3, d))
        lock((stack, gradients))
        stack = stack.step(gradients, 1.0, radius)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_columns", [3, 40, 130])
def test_refits_write_into_nothing_they_are_given(n_columns, n_classes):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(150, n_columns)), np.arange(150) % n_classes
    lock((X, labels))
    problem = make_problem(X, labels, n_classes, 1.0)
    start = None
    point = Point(np.zeros((problem.n_scores, problem.design.shape[1])), np.zeros((problem.n_scores, 150)))
    for _ in range(3):
        weights = rng.exponential(size=150)
        assert lock((problem, weights, start, point)) > 3
        coefs = solve_compiled(problem, weights, start)
        start = solve(problem, weights, start) if coefs is None else coefs
        lock(start)
        if problem.axes is not None:
            point = descend_from(problem, weights, point, TO_THE_END)
            lock(point)
            point = descend_from(problem, weights, point, ONE_ROUND)
        if problem.has_small_hessian:
            leave_one_out_scores(problem, weights, start)


@pytest.mark.parametrize("n_columns", [3, 40, 130, 200])
def test_ridge_refits_write_into_nothing_they_are_given(n_columns):
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(150, n_columns)), rng.normal(size=150), rng.exponential(size=150)
    lock((X, y, weights))
    problem = make_ridge_problem(X, y, 1.0)
    assert lock(problem) >= 3
    start = None
    for _ in range(2):
        start = solve_ridge(problem, weights, start)
        lock(start)
        leave_one_out_predictions(problem, weights)
    # The path for columns that are dependent.
    solve_ridge(make_ridge_problem(np.repeat(X[:, :1], 2, axis=1), y, 1e-20), weights)
