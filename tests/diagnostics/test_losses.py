"""Losses of predicted numbers, effective sample size and distance of weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error

from accous.diagnostics.losses import ABSOLUTE, SQUARED, effective_sample_size, pinball, read_loss, weight_distance
from accous.exceptions import ParameterError

# --- losses of predicted numbers --------------------------------------------------------------------------------

Y, PREDICTED = np.array([1.0, 5.0, -2.0, 0.0]), np.array([2.0, 2.0, -2.0, 4.0])


def test_the_mean_losses_are_those_of_scikit_learn():
    assert SQUARED(Y, PREDICTED).mean() == pytest.approx(mean_squared_error(Y, PREDICTED))
    assert ABSOLUTE(Y, PREDICTED).mean() == pytest.approx(mean_absolute_error(Y, PREDICTED))
    for quantile in (0.1, 0.5, 0.9):
        wanted = mean_pinball_loss(Y, PREDICTED, alpha=quantile)
        assert pinball(quantile)(Y, PREDICTED).mean() == pytest.approx(wanted)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0.01, 0.99))
def test_losses_are_zero_at_the_truth_and_positive_elsewhere(y, predicted, quantile):
    for loss in (SQUARED, ABSOLUTE, pinball(quantile)):
        assert loss(np.array([y]), np.array([y]))[0] == 0.0
        assert loss(np.array([y]), np.array([predicted]))[0] >= 0.0


@pytest.mark.parametrize(("loss", "level"), [(ABSOLUTE, 0.5), (pinball(0.9), 0.9), (pinball(0.2), 0.2)])
def test_the_quantile_has_the_smallest_loss(loss, level):
    y = np.random.default_rng(0).exponential(size=5001)
    best = np.quantile(y, level)
    risks = [loss(y, np.array([best + step])).mean() for step in (-0.1, 0.0, 0.1)]
    assert risks[1] == min(risks)


def test_no_loss_overflows():
    far = np.array([1e200, -1e300])
    for loss in (SQUARED, ABSOLUTE, pinball(0.5)):
        assert np.isfinite(loss(far, np.zeros(2))).all()


@pytest.mark.parametrize("loss", [SQUARED, ABSOLUTE, pinball(0.25), pinball(0.9)], ids=str)
def test_a_loss_reads_what_it_prints(loss):
    assert read_loss(str(loss)) == loss
    assert read_loss(loss) is loss


@pytest.mark.parametrize(
    "text", ["hinge", "pinball", "pinball(1.0)", "pinball(0.0)", "pinball(-0.5)", "Squared", 3, None]
)
def test_other_names_are_refused(text):
    with pytest.raises(ParameterError, match="loss"):
        read_loss(text)


# --- weights: effective sample size and distance ----------------------------------------------------------------

N_ROWS = 7
positive_weights = arrays(np.float64, N_ROWS, elements=st.floats(1e-6, 1e3))
scales = st.floats(1e-3, 1e3)


@pytest.mark.parametrize(
    ("weights", "size"),
    [([1.0, 1.0, 1.0, 1.0], 4.0), ([0.0, 3.0, 0.0], 1.0), ([3.0, 1.0], 1.6), ([2.0, 2.0, 1.0, 1.0], 3.6)],
)
def test_effective_sample_size_by_hand(weights, size):
    assert effective_sample_size(np.array(weights)) == pytest.approx(size, rel=1e-12)


@given(positive_weights, scales)
def test_effective_sample_size_is_between_one_and_all_rows_whatever_the_scale(weights, scale):
    assert 1.0 - 1e-9 <= effective_sample_size(weights) <= N_ROWS + 1e-9
    assert effective_sample_size(weights * scale) == pytest.approx(effective_sample_size(weights), rel=1e-9)


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [([1.0, 1.0], [5.0, 5.0], 0.0), ([1.0, 0.0], [0.0, 1.0], 1.0), ([1.0, 1.0], [3.0, 1.0], 0.25)],
)
def test_distance_by_hand(first, second, distance):
    assert weight_distance(np.array(first), np.array(second)) == pytest.approx(distance, abs=1e-12)


@given(positive_weights, positive_weights, positive_weights, scales)
def test_distance_is_the_largest_change_of_any_set_of_rows_and_a_metric(first, second, third, scale):
    gains = first / first.sum() - second / second.sum()
    distance = weight_distance(first, second)
    assert distance == pytest.approx(gains[gains > 0].sum(), abs=1e-12)
    assert distance == weight_distance(second, first)
    assert distance <= weight_distance(first, third) + weight_distance(third, second) + 1e-12
    assert weight_distance(first * scale, second) == pytest.approx(distance, abs=1e-9)
