"""Stacks of learners with many features: the same steps as the slow version's, and the switch between the kinds."""

import numpy as np
import pytest

from accous.arrays import from_plain
from accous.core.ensemble import WIDE_FROM, AnyStack, CompiledStack, start_learners
from accous.core.learners import WideStack
from tests import oracles
from tests.core.paper.test_newton import unit_rows


@pytest.mark.every_pair
@pytest.mark.parametrize("d", [1, 3, 20])
@pytest.mark.parametrize("ridge", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("radius", [0.3, 100.0])
def test_stack_equals_the_slow_step_learner_by_learner(d: int, ridge: float, radius: float) -> None:
    rng = np.random.default_rng(d)
    step_size, n_learners = 1.5, 3
    start = 0.2 * unit_rows(rng, 1, d)[0]
    stack = WideStack.start(n_learners, start, ridge)
    slow = [(start, ridge * np.eye(d)) for _ in range(n_learners)]
    n_on_surface = 0
    for _ in range(60):
        gradients = rng.normal(loc=0.3, size=(n_learners, d)) * 10.0 ** rng.uniform(-2.0, 0.5, size=(n_learners, 1))
        stack = stack.step(gradients, step_size, radius)
        slow = [oracles.newton_step(*slow[i], gradients[i], step_size, radius) for i in range(n_learners)]
        np.testing.assert_allclose(stack.coefs, [theta for theta, _ in slow], rtol=1e-9, atol=1e-10)
        n_on_surface += int(np.sum(np.linalg.norm(stack.coefs, axis=1) > radius * (1.0 - 1e-9)))
    for metric, (_, A) in zip(stack.metrics, slow, strict=True):
        np.testing.assert_allclose(metric.dense(), A, rtol=1e-11, atol=1e-11)
    assert (n_on_surface > 10) == (radius == 0.3)


@pytest.mark.parametrize("radius", [0.5, 1e30])
def test_step_does_not_write_into_its_arguments(radius: float) -> None:
    rng = np.random.default_rng(4)
    stack = WideStack.start(3, np.zeros(40), 1.0).step(rng.normal(size=(3, 40)), 1.0, radius)
    gradients = rng.normal(size=(3, 40))
    coefs, dense = stack.coefs.copy(), [metric.dense() for metric in stack.metrics]
    stack.coefs.flags.writeable = gradients.flags.writeable = False
    stack.step(gradients, 1.0, radius)
    np.testing.assert_array_equal(stack.coefs, coefs)
    for metric, before in zip(stack.metrics, dense, strict=True):
        np.testing.assert_array_equal(metric.dense(), before)


def test_since_and_after_replace_the_youngest_learners() -> None:
    old = WideStack.start(3, np.zeros(2), 1.0).step(np.arange(6.0).reshape(3, 2), 1.0, 1e30)
    joined = old.since(1).after(WideStack.start(2, np.ones(2), 4.0))
    assert len(joined) == 4
    np.testing.assert_array_equal(joined.coefs, [[1.0, 1.0], [1.0, 1.0], *old.coefs[1:]])
    assert joined.metrics[2:] == old.metrics[1:]
    np.testing.assert_array_equal(joined.metrics[0].dense(), 4.0 * np.eye(2))


@pytest.mark.parametrize(("d", "kind"), [(WIDE_FROM - 1, CompiledStack), (WIDE_FROM, WideStack)])
def test_the_number_of_features_decides(d: int, kind: type) -> None:
    stack = start_learners(2, np.zeros(d), 1.0).step(np.ones((2, d)), 1.0, 10.0)
    assert type(stack) is kind


def test_both_kinds_come_back_from_plain_form() -> None:
    narrow, wide = start_learners(2, np.zeros(3), 1.0), start_learners(2, np.zeros(WIDE_FROM), 2.0)
    assert isinstance(narrow, CompiledStack)
    assert isinstance(wide, WideStack)
    parts = {"coefs": narrow.coefs, "matrices": narrow.matrices, "inverse_roots": narrow.inverse_roots}
    assert isinstance(from_plain(AnyStack, parts), CompiledStack)
    metrics = [
        {"ridge": metric.ridge, "root": metric.root, "pending": metric.pending, "factor": metric.factor}
        for metric in wide.metrics
    ]
    found = from_plain(AnyStack, {"coefs": wide.coefs, "metrics": metrics})
    assert isinstance(found, WideStack)
    assert found.metrics == wide.metrics
