"""Audits: level and power of the test where everything is known, and its edges."""

import numpy as np
import pytest

from accous.arrays import FloatArray
from accous.diagnostics.labels import Audit, audit_errors


def errors(rng: np.random.Generator, x: FloatArray, rate: float = 0.15) -> FloatArray:
    """Errors that are more frequent to the right."""
    return rng.random(len(x)) < np.clip(rate + 0.1 * x[:, 0], 0.01, 0.99)


def audit(seed: int, *, shift: float = 1.0, rate: float = 0.15, n_rows: int = 150) -> Audit:
    rng = np.random.default_rng(seed)
    X, late = rng.normal(size=(800, 2)), rng.normal((shift, 0.0), size=(n_rows, 2))
    return audit_errors(errors(rng, late, rate), late, errors(rng, X), X, np.ones(800))


def test_false_alarms_are_as_rare_as_they_should_be_under_a_shift() -> None:
    p_values = np.array([audit(seed).p_value for seed in range(300)])
    assert np.mean(p_values < 0.05) < 0.09
    assert np.mean(p_values < 0.01) < 0.03
    assert 0.35 < np.mean(p_values < 0.5) < 0.65


def test_a_change_of_the_labels_is_found() -> None:
    assert np.mean([audit(seed, rate=0.4).concept_changed for seed in range(50)]) > 0.9


def test_the_estimate_follows_the_rows_and_the_interval_holds_the_observed() -> None:
    found = [audit(seed) for seed in range(100)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(0.25, abs=0.02)
    assert np.mean([one.estimate_low <= one.observed <= one.estimate_high for one in found]) > 0.82


def test_the_text_says_it() -> None:
    changed = audit(0, rate=0.6)
    assert changed.concept_changed
    assert "seems to have changed" in changed.text
    assert f"{changed.observed:.1%}" in changed.text
    assert "there is no evidence" in audit(1).text


@pytest.mark.parametrize("is_wrong", [True, False])
def test_one_row_decides_nothing(is_wrong: bool) -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2))
    found = audit_errors(np.array([is_wrong]), X[:1], errors(rng, X), X, np.ones(500))
    assert not found.concept_changed
    assert found.n_rows == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_reference_without_errors_or_without_successes(share: float) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    is_wrong = np.full(50, bool(share))
    found = audit_errors(is_wrong[:20], X[:20], is_wrong, X, np.ones(50))
    assert found.estimate == pytest.approx(share, abs=1e-12)
    assert not found.concept_changed
