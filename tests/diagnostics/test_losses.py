"""Losses of predicted numbers: by hand, what minimises them, and their names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, mean_squared_error

from accous.diagnostics.losses import ABSOLUTE, SQUARED, NumberLoss, pinball, read_loss
from accous.exceptions import ParameterError

Y, PREDICTED = np.array([1.0, 5.0, -2.0, 0.0]), np.array([2.0, 2.0, -2.0, 4.0])


def test_the_mean_losses_are_those_of_scikit_learn() -> None:
    assert SQUARED(Y, PREDICTED).mean() == pytest.approx(mean_squared_error(Y, PREDICTED))
    assert ABSOLUTE(Y, PREDICTED).mean() == pytest.approx(mean_absolute_error(Y, PREDICTED))
    for quantile in (0.1, 0.5, 0.9):
        wanted = mean_pinball_loss(Y, PREDICTED, alpha=quantile)
        assert pinball(quantile)(Y, PREDICTED).mean() == pytest.approx(wanted)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0.01, 0.99))
def test_losses_are_zero_at_the_truth_and_positive_elsewhere(y: float, predicted: float, quantile: float) -> None:
    for loss in (SQUARED, ABSOLUTE, pinball(quantile)):
        assert loss(np.array([y]), np.array([y]))[0] == 0.0
        assert loss(np.array([y]), np.array([predicted]))[0] >= 0.0


@pytest.mark.parametrize(("loss", "level"), [(ABSOLUTE, 0.5), (pinball(0.9), 0.9), (pinball(0.2), 0.2)])
def test_the_quantile_has_the_smallest_loss(loss: NumberLoss, level: float) -> None:
    y = np.random.default_rng(0).exponential(size=5001)
    best = np.quantile(y, level)
    risks = [loss(y, np.array([best + step])).mean() for step in (-0.1, 0.0, 0.1)]
    assert risks[1] == min(risks)


def test_no_loss_overflows() -> None:
    far = np.array([1e200, -1e300])
    for loss in (SQUARED, ABSOLUTE, pinball(0.5)):
        assert np.isfinite(loss(far, np.zeros(2))).all()


@pytest.mark.parametrize("loss", [SQUARED, ABSOLUTE, pinball(0.25), pinball(0.9)], ids=str)
def test_a_loss_reads_what_it_prints(loss: NumberLoss) -> None:
    assert read_loss(str(loss)) == loss
    assert read_loss(loss) is loss


@pytest.mark.parametrize(
    "text", ["hinge", "pinball", "pinball(1.0)", "pinball(0.0)", "pinball(-0.5)", "Squared", 3, None]
)
def test_other_names_are_refused(text) -> None:
    with pytest.raises(ParameterError, match="loss"):
        read_loss(text)
