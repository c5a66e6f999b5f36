"""OnlineDensityRatio: what is learned and shown."""

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from accous import OnlineDensityRatio
from tests.ratio.online_cases import (
    ORACLE_LOSSES,
    drifting_batches,
    each_loss,
    features_by_hand,
    normal_rows,
    shown_state,
)


@each_loss
def test_after_fit_everything_is_neutral(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss).fit(normal_rows(20))
    neutral = np.zeros(4)
    neutral[-1] = 0.0 if loss == "logistic" else 1.0
    assert estimator.coef_.tolist() == neutral.tolist()
    assert estimator.learner_lengths_.shape == (0,)
    assert estimator.learner_weights_.shape == (0,)
    assert estimator.learner_coefs_.shape == (0, 4)
    assert estimator.n_rounds_ == 0
    assert estimator.n_out_of_bound_ == 0
    assert estimator.n_features_in_ == 3
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    assert estimator.predict_ratio(normal_rows(7, seed=5) * 10).tolist() == [1.0] * 7


@each_loss
def test_after_rounds_every_attribute_has_its_shape_and_range(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss).fit(normal_rows(20))
    for t, batch in enumerate(drifting_batches([1, 4], n_rounds=40), start=1):
        estimator.partial_fit(batch)
        lengths = [2**k for k in range(2, 10) if 2**k <= t + 1]
        assert estimator.n_rounds_ == t
        assert estimator.learner_lengths_.tolist() == lengths
        assert estimator.learner_weights_.shape == (len(lengths),)
        assert estimator.learner_coefs_.shape == (len(lengths), 4)
        assert np.all(estimator.learner_weights_ > 0)
        assert not lengths or estimator.learner_weights_.sum() == pytest.approx(1.0, rel=1e-12)
        norms = np.linalg.norm(estimator.learner_coefs_, axis=1)
        assert np.all(norms <= estimator.radius_ * (1 + 1e-9))
        assert estimator.reference_ratio_.shape == (20,)
    np.testing.assert_allclose(
        estimator.coef_, estimator.learner_weights_ @ estimator.learner_coefs_, rtol=1e-12, atol=1e-15
    )


@each_loss
def test_the_ratio_is_1_and_no_learner_there_before_the_shortest_interval(loss: str) -> None:
    estimator = OnlineDensityRatio(loss=loss, min_interval=4).fit(normal_rows(20))
    batches = drifting_batches([3], n_rounds=4)
    for _ in range(2):
        estimator.partial_fit(next(batches))
        assert estimator.learner_lengths_.size == 0
        assert estimator.reference_ratio_.tolist() == [1.0] * 20
    estimator.partial_fit(next(batches))  # round 4 comes next: its learner is there and has learned nothing
    assert estimator.learner_lengths_.tolist() == [4]
    assert estimator.learner_weights_.tolist() == [1.0]
    assert estimator.reference_ratio_.tolist() == [1.0] * 20
    estimator.partial_fit(next(batches))
    assert np.all(estimator.reference_ratio_ != 1.0)


@each_loss
def test_refit_forgets_everything(loss: str) -> None:
    used = OnlineDensityRatio(loss=loss).fit(normal_rows(30, n_features=2, seed=9) * 5)
    for batch in drifting_batches([4], n_rounds=20, n_features=2):
        used.partial_fit(batch * 50)
    assert used.n_out_of_bound_ > 0
    fresh = OnlineDensityRatio(loss=loss)
    for estimator in (used, fresh):
        estimator.fit(normal_rows(15))
    assert shown_state(used) == shown_state(fresh)
    for batch in drifting_batches([3], n_rounds=20):
        used.partial_fit(batch)
        fresh.partial_fit(batch)
    assert shown_state(used) == shown_state(fresh)


BAD_FITS = {
    "parameter": ({"ridge": -1.0}, normal_rows(5)),
    "late parameter": ({"loss": "kl", "radius": 0.5}, normal_rows(5)),
    "missing value": ({}, np.array([[1.0, np.nan], [0.0, 1.0]])),
    "too large value": ({}, np.array([[1.0, 1e300], [0.0, 1.0]])),
    "one row": ({}, normal_rows(1)),
    "strings": ({}, np.array([["a", "b"], ["c", "d"]])),
}


@pytest.mark.parametrize(("changes", "X"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_first_fit_leaves_the_estimator_unfitted(changes: dict[str, Any], X: Any) -> None:
    estimator = OnlineDensityRatio(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    with pytest.raises(NotFittedError):
        estimator.predict_ratio(normal_rows(5))
    estimator.set_params(ridge=1.0, radius=2.0)
    assert estimator.partial_fit(normal_rows(5)).n_rounds_ == 0  # the first call is fit


@pytest.mark.parametrize(("changes", "X"), BAD_FITS.values(), ids=BAD_FITS)
def test_a_failed_refit_leaves_the_estimator_as_it_was(changes: dict[str, Any], X: Any) -> None:
    estimator = OnlineDensityRatio().fit(normal_rows(20, n_features=4))
    for batch in drifting_batches([3], n_rounds=8, n_features=4):
        estimator.partial_fit(batch)
    before = shown_state(estimator)
    estimator.set_params(**changes)
    with pytest.raises(ValueError, match=r"\w"):
        estimator.fit(X)
    assert shown_state(estimator) == before
    estimator.set_params(**OnlineDensityRatio().get_params())
    assert estimator.partial_fit(normal_rows(3, n_features=4)).n_rounds_ == 9


@pytest.mark.parametrize("method", ["predict_ratio", "score_loss"])
def test_an_unfitted_estimator_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match="OnlineDensityRatio"):
        getattr(OnlineDensityRatio(), method)(normal_rows(5))


@each_loss
def test_predict_ratio_of_the_reference_is_the_reference_ratio(loss: str) -> None:
    reference = normal_rows(50)
    estimator = OnlineDensityRatio(loss=loss).fit(reference)
    for batch in drifting_batches([5], n_rounds=20):
        estimator.partial_fit(batch)
        np.testing.assert_allclose(
            estimator.predict_ratio(reference), estimator.reference_ratio_, rtol=1e-12, atol=1e-12
        )


@each_loss
def test_score_loss_is_the_observed_loss_of_the_current_theta(loss: str) -> None:
    to_features = features_by_hand(loss, bound=2.0)
    reference, batch = normal_rows(20), normal_rows(9, seed=3)
    estimator = OnlineDensityRatio("identity", loss=loss, feature_bound=2.0).fit(reference)
    for other in drifting_batches([5], n_rounds=12):
        expected = ORACLE_LOSSES[loss](estimator.coef_, to_features(reference), to_features(batch))
        assert estimator.score_loss(batch) == pytest.approx(expected, rel=1e-12)
        estimator.partial_fit(other)


@each_loss
@pytest.mark.parametrize("pool", ["auto", "none"])
def test_the_ratio_is_cut_at_max_ratio(pool: str, loss: str) -> None:
    reference = normal_rows(50)
    uncut, cut = (
        OnlineDensityRatio(loss=loss, max_ratio=limit, step_size=3.0, radius=20.0, pool=pool) for limit in (1e6, 1.5)
    )
    for estimator in (uncut, cut):
        estimator.fit(reference)
        for _ in range(25):
            estimator.partial_fit(normal_rows(20, seed=4, loc=1.0))
    if loss != "kl":  # its floor is 1 / max_ratio, so there the limit takes part in learning
        assert cut.coef_.tobytes() == uncut.coef_.tobytes()
        np.testing.assert_array_equal(cut.estimated_ratios(), np.minimum(uncut.estimated_ratios(), 1.5))
    assert cut.reference_ratio_.max() == 1.5
    assert cut.predict_ratio(normal_rows(50, loc=3.0)).max() == 1.5
    assert uncut.reference_ratio_.max() > 1.5


def test_the_kl_ratio_is_floored_at_one_over_max_ratio() -> None:
    estimator = OnlineDensityRatio(loss="kl", max_ratio=4.0, step_size=1.0, pool="none").fit(normal_rows(50))
    for _ in range(10):
        estimator.partial_fit(normal_rows(20, seed=4, loc=1.0))
    assert estimator.predict_ratio(normal_rows(50, loc=-3.0)).min() == 0.25
