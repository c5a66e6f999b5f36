"""Replays honour base weights: in the fits of their references, and in the errors that they measure."""

import numpy as np
import pytest

from accous import AdaptiveClassifier, backtest
from accous.exceptions import DataError

N_ROWS = 500


def two_kinds(seed=0):
    """Rows of two kinds with opposite relations to the label, and weights that leave one kind only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 2))
    is_first = np.arange(N_ROWS) % 2 == 0
    y = np.where(is_first, X[:, 0] > 0.0, X[:, 0] < 0.0).astype(int)
    return X, y, is_first


def test_rows_without_weight_count_for_nothing():
    X, y, is_first = two_kinds()
    weighted = backtest(AdaptiveClassifier(caution="low"), X, y, sample_weight=is_first.astype(float))
    plain = backtest(AdaptiveClassifier(caution="low"), X, y)
    for look in weighted.looks:
        assert look.error_fixed < 0.1
        assert look.estimate_fixed < 0.1
        assert look.n_effective == (look.stop - look.start) / 2
    assert all(look.error_fixed > 0.3 for look in plain.looks)
    assert all(look.n_effective == look.stop - look.start for look in plain.looks)


def test_equal_weights_change_nothing():
    X, y, _ = two_kinds()
    plain, ones = (backtest(AdaptiveClassifier(), X, y, sample_weight=each) for each in (None, np.ones(N_ROWS)))
    assert ones.looks == plain.looks


def test_errors_are_weighted_means_over_the_block():
    X, y, _ = two_kinds()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=N_ROWS)
    look = backtest(AdaptiveClassifier(), X, y, sample_weight=weights, cuts=(0.4,)).looks[0]
    part = AdaptiveClassifier().fit(X[:200], y[:200], sample_weight=weights[:200])
    is_wrong = part.predict_fixed(X[look.start : look.stop]) != y[look.start : look.stop]
    assert look.error_fixed == pytest.approx(np.average(is_wrong, weights=weights[look.start : look.stop]))


def test_weights_follow_the_order_of_their_rows():
    X, y, is_first = two_kinds()
    shuffled = np.random.default_rng(2).permutation(N_ROWS)
    weights = is_first.astype(float)
    found = backtest(AdaptiveClassifier(), X[shuffled], y[shuffled], order=shuffled, sample_weight=weights[shuffled])
    assert found.looks == backtest(AdaptiveClassifier(), X, y, sample_weight=weights).looks


def test_fit_replays_with_its_base_weights():
    X, y, is_first = two_kinds()
    weights = is_first.astype(float)
    model = AdaptiveClassifier().fit(X, y, sample_weight=weights, order=True)
    assert model.backtest_ == backtest(AdaptiveClassifier(), X, y, sample_weight=weights)


def test_a_block_without_weight_is_no_evidence():
    X, y, _ = two_kinds()
    weights = np.ones(N_ROWS)
    weights[300:400] = 0.0
    found = backtest(AdaptiveClassifier(), X, y, sample_weight=weights, cuts=(0.4,))
    assert [look.stop for look in found.looks if np.isnan(look.error_fixed)] == [400]
    assert found.evidence.n_looks == len(found.looks) - 1
    assert np.isfinite(found.evidence.gain)


def test_wrong_weights_are_refused():
    X, y, _ = two_kinds()
    with pytest.raises(DataError, match="sample_weight"):
        backtest(AdaptiveClassifier(), X, y, sample_weight=-np.ones(N_ROWS))
