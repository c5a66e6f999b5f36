"""Audits of predicted numbers: level and power of the test where everything is known, and its edges."""

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.diagnostics.labels import Audit, audit_residuals
from accous.diagnostics.losses import ABSOLUTE, SQUARED, NumberLoss
from accous.threads import one_blas_thread
from tests.budgets import rest_slow


def residuals(rng: np.random.Generator, x: FloatArray, bias: float = 0.0, scale: float = 1.0) -> FloatArray:
    """Residuals of a model that is wrong in its slope and noisier to the right."""
    return bias + 0.3 * x[:, 0] + scale * np.exp(0.2 * x[:, 0]) * rng.normal(size=len(x))


def audit(
    seed: int,
    *,
    shift: float = 1.0,
    bias: float = 0.0,
    scale: float = 1.0,
    n_rows: int = 150,
    loss: NumberLoss = SQUARED,
) -> Audit:
    rng = np.random.default_rng(seed)
    X, late = rng.normal(size=(800, 2)), rng.normal((shift, 0.0), size=(n_rows, 2))
    with one_blas_thread():
        return audit_residuals(residuals(rng, late, bias, scale), late, residuals(rng, X), X, np.ones(800), loss)


@pytest.mark.parametrize("n_rows", rest_slow([10, 1, 150]))
def test_false_alarms_are_as_rare_as_they_should_be_under_a_shift(n_rows: int) -> None:
    p_values = np.array([audit(seed, n_rows=n_rows).p_value for seed in range(300)])
    assert np.mean(p_values < 0.05) < 0.09
    assert np.mean(p_values < 0.01) < 0.03
    assert 0.3 < np.mean(p_values < 0.5) < 0.65


@pytest.mark.parametrize("change", [{"bias": 0.6}, {"bias": -0.6}, {"scale": 1.6}, {"scale": 0.5}], ids=str)
def test_a_change_of_the_targets_is_found(change: dict[str, float]) -> None:
    assert np.mean([audit(seed, **change).concept_changed for seed in range(40)]) > 0.85


def test_the_estimate_follows_the_rows_and_the_interval_holds_the_observed() -> None:
    """At a mean of 1 the bias is 0.3 x and the variance exp(0.4 x): 0.09 (1 + 1) + exp(0.48)."""
    found = [audit(seed) for seed in range(100)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(0.18 + np.exp(0.48), abs=0.08)
    assert np.mean([one.estimate_low <= one.observed <= one.estimate_high for one in found]) > 0.82


def test_the_loss_changes_the_report_and_not_the_test() -> None:
    squared, absolute = audit(3), audit(3, loss=ABSOLUTE)
    assert squared.p_value == absolute.p_value
    assert squared.observed != absolute.observed
    assert "The absolute loss on 150 labelled rows" in absolute.text


def test_the_text_says_it() -> None:
    changed = audit(0, bias=2.0)
    assert changed.concept_changed
    assert "seems to have changed" in changed.text
    assert f"{changed.observed:.3g}" in changed.text
    assert "the mean residual is +2." in changed.text
    assert "there is no evidence" in audit(1).text


def test_the_unit_of_the_target_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    X, late = rng.normal(size=(300, 2)), rng.normal(size=(40, 2))
    r, r_late = residuals(rng, X), residuals(rng, late)
    p_values = [audit_residuals(unit * r_late, late, unit * r, X, np.ones(300)).p_value for unit in (1.0, 1e-6, 1e6)]
    assert p_values == pytest.approx([p_values[0]] * 3, rel=1e-6)


@pytest.mark.parametrize(("residual", "changed"), [(0.0, False), (1.0, True)])
def test_a_model_that_was_perfect(residual: float, changed: bool) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    found = audit_residuals(np.full(5, residual), X[:5], np.zeros(50), X, np.ones(50))
    assert found.concept_changed is changed
    assert found.estimate == 0.0


def test_many_features_do_not_raise_false_alarms() -> None:
    """The regression on the reference has nearly as many columns as rows; fits without the row keep it honest."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, late = rng.normal(size=(150, 100)), rng.normal(size=(60, 100))
        alarms += audit_residuals(rng.normal(size=60), late, rng.normal(size=150), X, np.ones(150)).p_value < 0.05
    assert alarms <= 6
