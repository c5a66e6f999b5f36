"""The closed form of uLSIF and RuLSIF, and its leave-one-out loss against refitting without every row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from accous.core.ratio_problems import fit_least_squares, leave_one_out_losses
from tests.budgets import examples
from tests.builders import Array

each_alpha = pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 0.99])
each_ridge = pytest.mark.parametrize("ridge", [1e-4, 0.1, 10.0])


def kernels(n_rows: int, n_basis: int, seed: int) -> Array:
    """Values of basis functions, between 0 and 1 as those of kernels are."""
    return np.random.default_rng(seed).random((n_rows, n_basis)) ** 2


def leave_one_out_loss(reference: Array, batch: Array, ridge: float, alpha: float) -> float:
    (loss,) = leave_one_out_losses(reference, batch, np.array([ridge]), alpha)
    return float(loss)


def slow_coefs(reference: Array, batch: Array, ridge: float, alpha: float) -> Array:
    """(H + lambda I)^-1 h, row by row; negative coefficients are still there."""
    n_basis = reference.shape[1]
    H, h = np.zeros((n_basis, n_basis)), np.zeros(n_basis)
    for psi in reference:
        H += (1.0 - alpha) * np.outer(psi, psi) / len(reference)
    for psi in batch:
        H += alpha * np.outer(psi, psi) / len(batch)
        h += psi / len(batch)
    return np.asarray(np.linalg.solve(H + ridge * np.eye(n_basis), h))


def slow_leave_one_out(reference: Array, batch: Array, ridge: float, alpha: float) -> float:
    """Refit without each row in turn, and ask what the row itself loses."""
    total = 0.0
    for i, psi in enumerate(reference):
        coefs = np.maximum(slow_coefs(np.delete(reference, i, axis=0), batch, ridge, alpha), 0.0)
        total += 0.5 * (1.0 - alpha) * (psi @ coefs) ** 2 / len(reference)
    for j, psi in enumerate(batch):
        coefs = np.maximum(slow_coefs(reference, np.delete(batch, j, axis=0), ridge, alpha), 0.0)
        total += (0.5 * alpha * (psi @ coefs) ** 2 - psi @ coefs) / len(batch)
    return float(total)


@pytest.mark.every_pair
@each_alpha
@each_ridge
@pytest.mark.parametrize(("n_reference", "n_batch", "n_basis"), [(30, 7, 5), (5, 30, 9), (2, 1, 1), (4, 3, 20)])
def test_coefficients_are_those_of_the_closed_form(
    n_reference: int, n_batch: int, n_basis: int, ridge: float, alpha: float
) -> None:
    reference, batch = kernels(n_reference, n_basis, 0), kernels(n_batch, n_basis, 1)
    expected = slow_coefs(reference, batch, ridge, alpha)
    coefs = fit_least_squares(reference, batch, ridge, alpha)
    np.testing.assert_allclose(coefs, np.maximum(expected, 0.0), rtol=1e-8, atol=1e-10)


def test_negative_coefficients_become_zero_and_the_others_stay() -> None:
    reference, batch = kernels(40, 6, 0), kernels(10, 6, 1)
    expected = slow_coefs(reference, batch, 1e-3, 0.0)
    coefs = fit_least_squares(reference, batch, 1e-3, 0.0)
    assert 0 < np.count_nonzero(expected < 0.0) < 6
    np.testing.assert_array_equal(coefs[expected < 0.0], 0.0)
    np.testing.assert_allclose(coefs[expected > 0.0], expected[expected > 0.0], rtol=1e-9)


@each_alpha
def test_no_other_coefficients_have_a_smaller_objective(alpha: float) -> None:
    reference, batch, ridge = kernels(40, 3, 0), kernels(10, 3, 1), 0.5
    coefs = fit_least_squares(reference, batch, ridge, alpha)
    assert np.all(coefs > 0.0)  # none was cut, so this is the minimum itself

    def objective(a: Array) -> float:
        quadratic = (1.0 - alpha) * np.mean((reference @ a) ** 2) + alpha * np.mean((batch @ a) ** 2)
        return float(0.5 * quadratic - np.mean(batch @ a) + 0.5 * ridge * a @ a)

    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-2, 0.3):
        others = coefs + size * rng.normal(size=(50, 3))
        assert objective(coefs) < min(objective(other) for other in others)


def test_a_constant_basis_gives_the_ratio_one() -> None:
    coefs = fit_least_squares(np.ones((9, 1)), np.ones((4, 1)), 1e-12, 0.3)
    np.testing.assert_allclose(coefs, [1.0], rtol=1e-9)


def test_a_batch_in_the_denominator_bounds_the_ratio() -> None:
    # Two bins; the batch is in the one that the reference hardly knows: its relative ratio tends to 1 / alpha.
    reference = np.array([[1.0, 0.0]] * 999 + [[0.0, 1.0]])
    batch = np.array([[0.0, 1.0]] * 10)
    for alpha, expected in ((0.0, 1000.0), (0.1, 1.0 / (0.1 + 0.9e-3)), (0.5, 1.0 / (0.5 + 0.5e-3))):
        np.testing.assert_allclose(fit_least_squares(reference, batch, 1e-9, alpha), [0.0, expected], rtol=1e-5)


@pytest.mark.every_pair
@each_alpha
@each_ridge
@pytest.mark.parametrize(("n_reference", "n_batch", "n_basis"), [(25, 8, 5), (3, 2, 4), (2, 2, 1), (8, 20, 12)])
def test_leaving_each_row_out_is_refitting_without_it(
    n_reference: int, n_batch: int, n_basis: int, ridge: float, alpha: float
) -> None:
    reference, batch = kernels(n_reference, n_basis, 0), kernels(n_batch, n_basis, 1)
    expected = slow_leave_one_out(reference, batch, ridge, alpha)
    assert leave_one_out_loss(reference, batch, ridge, alpha) == pytest.approx(expected, rel=1e-7)


@each_alpha
def test_ridges_are_tried_together_as_each_alone(alpha: float) -> None:
    reference, batch, ridges = kernels(25, 6, 0), kernels(8, 6, 1), np.array([10.0, 1e-4, 0.1])
    expected = [slow_leave_one_out(reference, batch, ridge, alpha) for ridge in ridges]
    np.testing.assert_allclose(leave_one_out_losses(reference, batch, ridges, alpha), expected, rtol=1e-7)


@examples(40)
@given(data=st.data(), alpha=st.sampled_from([0.0, 0.3, 0.9]), ridge=st.sampled_from([1e-3, 0.1, 1.0]))
def test_leaving_out_rows_that_are_alike_or_zero(data: st.DataObject, alpha: float, ridge: float) -> None:
    n_basis = data.draw(st.integers(1, 4))
    levels = st.sampled_from([0.0, 0.5, 1.0])
    reference, batch = (
        data.draw(hnp.arrays(np.float64, (data.draw(st.integers(2, 6)), n_basis), elements=levels)) for _ in range(2)
    )
    expected = slow_leave_one_out(reference, batch, ridge, alpha)
    assert leave_one_out_loss(reference, batch, ridge, alpha) == pytest.approx(expected, rel=1e-7, abs=1e-10)


def test_the_loss_prefers_a_basis_that_tells_the_two_apart() -> None:
    rng = np.random.default_rng(0)
    x_reference, x_batch = rng.normal(size=200), rng.normal(1.0, size=50)
    told, confused = (
        leave_one_out_loss(make(x_reference), make(x_batch), 0.1, 0.0)
        for make in (
            lambda x: np.column_stack((x < 0.5, x >= 0.5)).astype(np.float64),
            lambda x: np.column_stack((np.abs(x - 0.5) < 0.5, np.abs(x - 0.5) >= 0.5)).astype(np.float64),
        )
    )
    assert told < confused - 0.05


def test_arguments_are_not_written_into() -> None:
    reference, batch = kernels(9, 3, 0), kernels(4, 3, 1)
    reference.flags.writeable = batch.flags.writeable = False
    fit_least_squares(reference, batch, 0.1, 0.5)
    leave_one_out_loss(reference, batch, 0.1, 0.5)
