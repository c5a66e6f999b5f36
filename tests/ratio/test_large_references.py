"""Large references: a stated sample for the gradients, and single precision for wide features."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import ParameterError

RNG = np.random.default_rng(0)
REFERENCE = RNG.normal(size=(400, 3))
BATCHES = [RNG.normal(0.7, size=(4, 3)) for _ in range(40)]
WIDE_REFERENCE = RNG.normal(size=(300, 120))
WIDE_BATCHES = [RNG.normal(0.1, size=(4, 120)) for _ in range(40)]

each_class = pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])


def played(ratio: Any, reference: np.ndarray = REFERENCE, batches: list[np.ndarray] = BATCHES) -> Any:
    ratio.fit(reference)
    for batch in batches:
        ratio.partial_fit(batch)
    return ratio


@each_class
def test_the_default_uses_every_row(make: Any) -> None:
    assert played(make()).n_gradient_rows_ == 400


@each_class
@pytest.mark.parametrize("cap", [400, 401, 10**9])
def test_a_cap_that_does_not_bind_changes_no_bit(make: Any, cap: int) -> None:
    capped = played(make(max_reference=cap))
    assert capped.n_gradient_rows_ == 400
    assert capped.reference_ratio_.tobytes() == played(make()).reference_ratio_.tobytes()


@each_class
def test_gradients_are_those_of_the_sample_alone(make: Any) -> None:
    settings = {"feature_map": "identity", "feature_bound": 3.0, "random_state": 1}
    capped = played(make(max_reference=50, **settings))
    assert capped.n_gradient_rows_ == 50
    alone = played(make(**settings), REFERENCE[capped.gradient_indices_])
    np.testing.assert_allclose(capped.coef_, alone.coef_, rtol=1e-12, atol=1e-14)


@each_class
def test_ratios_are_given_for_all_rows(make: Any) -> None:
    capped = played(make(max_reference=50, random_state=0))
    assert capped.reference_ratio_.shape == (400,)
    np.testing.assert_allclose(capped.reference_ratio_, capped.predict_ratio(REFERENCE), rtol=1e-12)


def test_the_sample_is_seeded_and_uniform() -> None:
    first, same, other = (
        OnlineDensityRatio(max_reference=100, random_state=seed).fit(REFERENCE).gradient_indices_ for seed in (3, 3, 4)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)
    assert len(set(first)) == 100
    counts = np.zeros(400)
    for seed in range(200):
        counts[OnlineDensityRatio(max_reference=100, random_state=seed).fit(REFERENCE).gradient_indices_] += 1
    # Each row is drawn 50 times on average, with a standard deviation of 6.1.
    assert counts.min() > 20
    assert counts.max() < 80


def test_the_estimate_is_near_that_of_all_rows() -> None:
    whole, capped = played(OnlineDensityRatio()), played(OnlineDensityRatio(max_reference=200, random_state=0))
    assert np.corrcoef(np.log(whole.reference_ratio_), np.log(capped.reference_ratio_))[0, 1] > 0.95
    assert not np.array_equal(whole.reference_ratio_, capped.reference_ratio_)


@pytest.mark.parametrize("seed", [None, 5])
def test_a_capped_model_is_resumed_bit_for_bit(seed: int | None, tmp_path: Path) -> None:
    ratio = OnlineDensityRatio(max_reference=60, random_state=seed)
    model = AdaptiveClassifier(ratio=ratio).fit(REFERENCE, REFERENCE[:, 0] + REFERENCE[:, 1] > 0)
    for batch in BATCHES[:20]:
        model.adapt(batch)
    accous.save(model, tmp_path / "model")
    resumed = accous.load(tmp_path / "model")
    for batch in BATCHES[20:]:
        model.adapt(batch)
        resumed.adapt(batch)
    assert resumed.reference_weight_.tobytes() == model.reference_weight_.tobytes()
    assert resumed.ratio_.n_gradient_rows_ == 60


@pytest.mark.parametrize("value", [0, 1, -5, 2.5, "all", True])
def test_bad_caps_are_named(value: Any) -> None:
    with pytest.raises(ParameterError, match="max_reference must be an integer of at least 2 or None"):
        OnlineDensityRatio(max_reference=value).fit(REFERENCE)


# --- single precision -------------------------------------------------------------------------------------------


@each_class
@pytest.mark.parametrize(("loss", "tolerance"), [("logistic", 1e-4), ("kl", 1e-3), ("least_squares", 0.05)])
def test_single_precision_is_near_double_on_wide_features(make: Any, loss: str, tolerance: float) -> None:
    double, single = (
        played(make(loss=loss, dtype=dtype), WIDE_REFERENCE, WIDE_BATCHES) for dtype in ("float64", "float32")
    )
    assert single.whole_reference_.features.dtype == np.float32
    assert single.reference_ratio_.dtype == np.float64
    assert single.coef_.tobytes() != double.coef_.tobytes()
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=0, atol=tolerance * np.abs(double.coef_).max())
    np.testing.assert_allclose(single.reference_ratio_, double.reference_ratio_, rtol=tolerance, atol=tolerance)


def test_single_precision_leaves_narrow_features_alone() -> None:
    double, single = played(OnlineDensityRatio()), played(OnlineDensityRatio(dtype="float32"))
    assert single.reference_ratio_.tobytes() == double.reference_ratio_.tobytes()


def test_single_precision_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    ratio = played(OnlineDensityRatio(dtype="float32"), WIDE_REFERENCE, WIDE_BATCHES[:20])
    accous.save(ratio, tmp_path / "ratio")
    resumed = accous.load(tmp_path / "ratio")
    for batch in WIDE_BATCHES[20:]:
        ratio.partial_fit(batch)
        resumed.partial_fit(batch)
    assert resumed.reference_ratio_.tobytes() == ratio.reference_ratio_.tobytes()


@pytest.mark.parametrize("value", ["float16", np.float32, None])
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match="dtype must be one of 'float64', 'float32'"):
        OnlineDensityRatio(dtype=value).fit(REFERENCE)
