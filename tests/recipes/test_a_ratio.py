"""Recipe: a ratio is a subclass of `RatioEstimator` with `_start`, `_run_round`, `_ratio` and `reference_ratio_`.

With ``keeps_record = True`` the classifier holds it back by its record, vetoes it by the labels, and judges it.
"""

from typing import ClassVar

import numpy as np
import pytest

from accous import KMM, AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.exceptions import ParameterError
from accous.model.safeguards import VETO_STANDARD_ERRORS
from accous.ratio.base import RatioEstimator
from accous.streams import ConstantShift, GaussianStream


class MeanRatio(RatioEstimator):
    """Tilts the reference towards a running mean of the batches."""

    keeps_record: ClassVar[bool] = True

    def __init__(self, sign=1.0, max_ratio=100.0):
        self.sign = sign
        self.max_ratio = max_ratio

    def _start(self, X):
        self.mean_, self.shift_ = X.mean(axis=0), np.zeros(X.shape[1])

    def _run_round(self, X):
        self.shift_ = 0.9 * self.shift_ + 0.1 * (X - self.mean_).mean(axis=0)

    def _ratio(self, X):
        scores = self.sign * (X - self.mean_) @ self.shift_
        return np.minimum(np.exp(np.clip(scores, -4.0, 4.0)), self.max_ratio)

    @property
    def reference_ratio_(self):
        return self._ratio(self.reference_)


def follow(alpha, **options):
    stream = GaussianStream(ConstantShift(alpha), n_rounds=120, batch_size=5, n_reference=400)
    model = AdaptiveClassifier(**options).fit(*stream.reference())
    for batch in stream:
        model.adapt(batch.X)
    return model, stream


def test_it_adapts_and_is_judged():
    model, stream = follow(0.0, ratio=MeanRatio())
    fixed = AdaptiveClassifier().fit(*stream.reference())
    assert model.n_refits_ > 0
    assert model.ratio_.keeps_record
    assert model.state_.safeguards.share > 0.5
    assert model.state_.safeguards.share == model.state_.safeguards.tempered.share
    assert stream.risk(model, alpha=0.0) < stream.risk(fixed, alpha=0.0)
    assert model.drift_.columns[0].share > 0.1
    assert sum(each.share for each in model.drift_.columns) == pytest.approx(1.0)


def test_its_record_holds_it_back_where_it_is_wrong():
    """The mass of a ratio that points the wrong way goes to ratio 1, and the fixed model answers."""
    model, stream = follow(0.0, ratio=MeanRatio(sign=-1.0))
    assert model.state_.safeguards.tempered.share < 0.1
    assert model.state_.safeguards.share == 0.0
    np.testing.assert_allclose(model.reference_weight_, 1.0, atol=0.1)
    np.testing.assert_array_equal(model.state_.fitted_weights, 1.0)
    assert model.estimator_ is model.fixed_.estimator
    unbridled, _ = follow(0.0, ratio=MeanRatio(sign=-1.0), adaptation="always")
    assert stream.risk(model, alpha=0.0) < stream.risk(unbridled, alpha=0.0)


class ForgetfulRatio(MeanRatio):
    keeps_record: ClassVar[bool] = False


def test_only_a_ratio_with_a_record_is_compared_with_the_fixed_model():
    veto = follow(0.0, ratio=MeanRatio())[0].state_.safeguards.veto
    assert veto.n_rounds > 0
    assert veto.standard_error > 0.0
    assert veto.is_held == (veto.excess > VETO_STANDARD_ERRORS * veto.standard_error)
    assert follow(0.0, ratio=ForgetfulRatio())[0].state_.safeguards.veto.n_rounds == 0


class GivenRatio(RatioEstimator):
    """Returns what it was given, for the reference and for batches."""

    keeps_record: ClassVar[bool] = True

    def __init__(self, of_reference=None, of_batch=None):
        self.of_reference = of_reference
        self.of_batch = of_batch

    def _start(self, X):
        pass

    def _run_round(self, X):
        pass

    def _ratio(self, X):
        return np.ones(len(X)) if self.of_batch is None else np.array(self.of_batch)

    @property
    def reference_ratio_(self):
        return np.ones(len(self.reference_)) if self.of_reference is None else np.array(self.of_reference)


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"of_reference": [1.0, np.nan, 1.0, -1.0]}, "row 1 of the reference"),
        ({"of_reference": [1.0, 1.0, 1.0, -1.0]}, "row 3 of the reference"),
        ({"of_reference": [1.0, np.inf, 1.0, 1.0]}, "row 1 of the reference"),
        ({"of_reference": [1.0, 1.0, 1.0]}, "4 rows"),
        ({"of_reference": 1.0}, "4 rows"),
        ({"of_reference": ["a", "b", "c", "d"]}, "the reference"),
        ({"of_batch": [1.0, np.nan]}, "row 1 of the batch"),
        ({"of_batch": [1.0, 2.0, 3.0]}, "2 rows"),
    ],
)
def test_its_ratios_are_checked_in_each_round(options, place):
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = AdaptiveClassifier(ratio=GivenRatio(**options)).fit(X, [0, 0, 1, 1])
    with pytest.raises(ParameterError, match=place):
        model.adapt(X[:2])
    assert model.n_rounds_ == 0


def test_only_the_ratios_of_classes_outside_the_package_are_checked():
    assert GivenRatio.is_foreign
    assert not any(each.is_foreign for each in (OnlineDensityRatio, KMM, NoShift))
