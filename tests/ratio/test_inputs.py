"""What users pass: batches of any size, frames, bad and extreme values, wide rows and large references."""

import datetime
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from accous import NoShift, OnlineDensityRatio, SingleLearnerRatio, load, save
from accous.exceptions import DataError, ParameterError
from tests.budgets import rest_slow
from tests.ratio.online_cases import LOSSES, each_loss

NAMES = ["age", "height", "weight"]
MAPS = ["auto", "identity", "standardize", "rbf"]
RNG = np.random.default_rng(0)
REFERENCE = RNG.normal(size=(400, 3))
BATCHES = [RNG.normal(0.7, size=(4, 3)) for _ in range(40)]
WIDE_REFERENCE = RNG.normal(size=(300, 120))
WIDE_BATCHES = [RNG.normal(0.1, size=(4, 120)) for _ in range(40)]

KINDS = {
    "array": lambda X: X,
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
}
each_kind = pytest.mark.parametrize("make_input", KINDS.values(), ids=KINDS)
each_class = pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio, NoShift])
each_linear = pytest.mark.parametrize("make", [OnlineDensityRatio, SingleLearnerRatio])
each_map = pytest.mark.parametrize("feature_map", MAPS)
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def normal_rows(n_rows, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, 3))


def assert_sane(estimator, X):
    """Everything learned is finite, theta lies in its ball, ratios lie in [0, max_ratio]."""
    assert np.all(np.isfinite(estimator.coef_))
    assert np.linalg.norm(estimator.coef_) <= estimator.radius_ * (1.0 + 1e-9)
    for ratio in (estimator.reference_ratio_, estimator.predict_ratio(X)):
        assert np.all(np.isfinite(ratio))
        assert np.all((ratio >= 0.0) & (ratio <= estimator.max_ratio))
    assert np.isfinite(estimator.score_loss(X))


def used(estimator, make_input=np.asarray, n_rounds=9):
    """The estimator after a fit and a few rounds."""
    estimator.fit(make_input(normal_rows(20)))
    for seed in range(n_rounds):
        estimator.partial_fit(make_input(normal_rows(1 + seed % 3, seed=seed) + 0.5))
    return estimator


def assert_refused(estimator, X, message):
    """By every door, and without a change."""
    before = pickle.dumps(estimator)
    for method in (estimator.partial_fit, estimator.predict_ratio, estimator.score_loss):
        with pytest.raises((ValueError, TypeError), match=message):
            method(X)
    assert pickle.dumps(estimator) == before


def column_dict(**changes: Any):
    """Four rows as columns of numbers, some replaced."""
    return dict(zip(NAMES, normal_rows(4).T, strict=True)) | changes


# --- batch sizes ------------------------------------------------------------------------------------------------


@each_class
def test_batches_of_any_size_in_any_order_are_rounds_and_empty_ones_are_none(estimator_class):
    plain, interrupted = (estimator_class().fit(normal_rows(20)) for _ in range(2))
    for t, size in enumerate([1, 1000, 2, 1, 7, 300, 1], start=1):
        for each in (plain, interrupted):
            assert each.partial_fit(normal_rows(size, seed=t)).n_rounds_ == t
        assert plain.predict_ratio(normal_rows(size)).shape == (size,)
        interrupted.partial_fit(np.empty((0, 3)))
    with pytest.raises(ValueError, match="3"):
        plain.partial_fit(np.empty((0, 2)))
    assert plain.reference_ratio_.tobytes() == interrupted.reference_ratio_.tobytes()


@each_kind
@pytest.mark.parametrize(
    "make", [OnlineDensityRatio, SingleLearnerRatio, NoShift, lambda: OnlineDensityRatio(StandardScaler())]
)
def test_an_empty_batch_changes_no_bit_and_has_no_ratios_and_no_loss(make, make_input):
    estimator = used(make(), make_input)
    before, empty = pickle.dumps(estimator), make_input(np.empty((0, 3)))
    assert estimator.partial_fit(empty) is estimator
    ratio = estimator.predict_ratio(empty)
    assert (ratio.shape, ratio.dtype) == ((0,), np.float64)
    with pytest.raises(ValueError, match=r"row|sample"):
        estimator.score_loss(empty)
    assert pickle.dumps(estimator) == before


# --- values that are not finite ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-?inf")])
@each_kind
@each_linear
def test_a_value_that_is_not_finite_is_located(make, make_input, value, word):
    X = normal_rows(5)
    X[3, 1] = value
    place = "'height'" if hasattr(make_input(X), "columns") else "1"
    message = rf"Column {place} holds {word}.* row 3"
    assert_refused(used(make(), make_input), make_input(X), message)
    with pytest.raises(DataError, match=message):
        make().fit(make_input(X))


@pytest.mark.parametrize(
    "values", [pd.array([1, 2, None, 4], dtype="Int64"), pd.array([1, 2, pd.NA, 4], dtype="Int64"), [1.0, 2.0, None, 4]]
)
def test_missing_objects_are_located(values):
    estimator = used(OnlineDensityRatio(), KINDS["pandas"])
    assert_refused(estimator, pd.DataFrame(column_dict(height=values)), "'height' holds NaN in row 2")
    with pytest.raises(DataError, match="'height' holds NaN in row 2"):
        OnlineDensityRatio().fit(pl.DataFrame(column_dict(height=[1.0, 2.0, None, 3.0])))
    assert_refused(
        used(OnlineDensityRatio()), np.array([[1.0, None, 2.0]], dtype=object), "Column 1 holds NaN in row 0"
    )


@pytest.mark.parametrize("n_rows", [4, 4000])
def test_finite_values_whose_sum_overflows_are_no_error(n_rows):
    estimator = used(OnlineDensityRatio())
    estimator.partial_fit(np.full((n_rows, 3), 1.7e308)).partial_fit([[1.7e308, -1.7e308, 1.7e308]])
    assert_sane(estimator, np.full((4, 3), -1.7e308))


# --- what is not rows of numbers --------------------------------------------------------------------------------

NOT_ROWS = {
    "too wide": (np.ones((2, 4)), "4 features.* 3 features"),
    "too narrow": (np.ones((2, 2)), "2 features.* 3 features"),
    "1-D": (np.ones(3), "one dimension"),
    "3-D": (np.ones((2, 3, 1)), "dim 3"),
    "scalar": (1.0, "2D array"),
    "None": (None, "2D array"),
    "empty list": ([], "2D array"),
    "ragged list": ([[1.0, 2.0, 3.0], [1.0]], r"inhomogeneous|ragged"),
    "sparse": (sparse.csr_matrix(np.ones((2, 3))), "[Ss]parse"),
    "complex": (np.ones((2, 3)) * 1j, "Complex"),
    "strings": (np.array([["1.0", "x", "2.0"]]), "Column 1"),
    "objects": (np.array([[1.0, 2.0, object()]], dtype=object), "Column 2"),
    "list with a string": ([[1.0, 2.0, 3.0], [1.0, "x", 3.0]], "'x'"),
    "dates": (np.array([["2024-01-01"] * 3], dtype="datetime64[D]"), "Column 0"),
    "durations": (np.ones((2, 3), dtype="timedelta64[s]"), "Column 0"),
}


@pytest.mark.parametrize(("X", "message"), NOT_ROWS.values(), ids=NOT_ROWS)
@each_linear
def test_a_batch_that_is_not_rows_of_numbers_is_refused(make, X, message):
    assert_refused(used(make()), X, message)


@pytest.mark.parametrize(
    "value", ["a", datetime.datetime(2024, 1, 1), datetime.date(2024, 1, 1), datetime.timedelta(days=1)], ids=repr
)
@each_frame
def test_a_column_that_is_not_numbers_is_named(make_frame, value):
    estimator = used(OnlineDensityRatio(), lambda X: make_frame(dict(zip(NAMES, X.T, strict=True))))
    frame = make_frame(column_dict(height=[value] * 4))
    assert_refused(estimator, frame, "Column 'height'")
    with pytest.raises((ValueError, TypeError), match="Column 'height'"):
        OnlineDensityRatio().fit(frame)


@each_frame
def test_columns_of_booleans_and_integers_are_numbers_and_an_index_is_nothing(make_frame):
    frame = make_frame(column_dict(height=[True, False, True, True], weight=[1, 2, 3, 4]))
    estimator = OnlineDensityRatio().fit(frame)
    for _ in range(5):
        estimator.partial_fit(frame.set_index("age", drop=False) if make_frame is pd.DataFrame else frame)
    assert_sane(estimator, frame)


def test_predict_ratio_row_by_row_equals_all_at_once():
    estimator = used(OnlineDensityRatio())
    X = np.vstack([normal_rows(20), np.full((1, 3), 1e300)])
    row_by_row = [estimator.predict_ratio(row[None])[0] for row in X]
    np.testing.assert_allclose(row_by_row, estimator.predict_ratio(X), rtol=1e-12)


# --- extreme references -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature_map", [*MAPS, StandardScaler()], ids=str)
@pytest.mark.parametrize(("shape", "message"), [((0, 3), "2"), ((1, 3), "2"), ((5, 0), "0 feature")])
def test_a_reference_of_less_than_two_rows_or_no_columns_is_refused(shape, message, feature_map):
    with pytest.raises(ValueError, match=message):
        OnlineDensityRatio(feature_map).fit(np.zeros(shape))


STRANGE_REFERENCES = {
    "two rows": normal_rows(2),
    "twice the same row": np.tile(normal_rows(1), (2, 1)),
    "all the same row": np.tile(normal_rows(1), (30, 1)),
    "many duplicates": np.tile(normal_rows(3), (20, 1)),
    "all zero": np.zeros((10, 3)),
    "a constant column": normal_rows(20) * [1.0, 1.0, 0.0] + 7.0,
    "equal columns": np.tile(normal_rows(20)[:, :1], (1, 3)),
    "tiny": normal_rows(20) * 1e-300,
    "subnormal": np.full((10, 3), 5e-324),
    "small": normal_rows(20) * 1e-160,
    "large": normal_rows(20) * 1e100,
    "mixed scales": normal_rows(20) * [1e-200, 1.0, 1e140],
    "a far outlier": np.vstack([normal_rows(20), [[1e140, 0.0, 0.0]]]),
}


@pytest.mark.parametrize("reference", STRANGE_REFERENCES.values(), ids=STRANGE_REFERENCES)
@each_map
@pytest.mark.parametrize("loss", rest_slow(LOSSES))
def test_a_strange_reference_works(loss, feature_map, reference):
    estimator = OnlineDensityRatio(feature_map, loss=loss, random_state=0).fit(reference)
    assert estimator.reference_ratio_.tolist() == [1.0] * len(reference)
    for seed in range(8):
        estimator.partial_fit(reference[:1])
        estimator.partial_fit(normal_rows(3, seed=seed))
    assert_sane(estimator, np.vstack([reference, normal_rows(3)]))


@pytest.mark.parametrize("scale", [1e8, 1e20])
@each_linear
@each_loss
def test_unscaled_features_of_very_different_size_stay_in_the_ball(loss, make, scale):
    reference = normal_rows(30) * [1.0, 1.0, scale]
    estimator = make("identity", loss=loss, scale_features=False).fit(reference)
    for seed in range(20):
        estimator.partial_fit(reference[seed : seed + 2])
        assert_sane(estimator, reference)


def test_a_column_constant_in_the_reference_may_vary_later():
    reference = normal_rows(50) * [1.0, 1.0, 0.0] + [0.0, 0.0, 7.0]
    estimator = OnlineDensityRatio().fit(reference)
    for seed in range(20):
        batch = normal_rows(4, seed=seed)
        batch[:, 2] = 7.0 if seed < 10 else 7.0 + 100.0 * batch[:, 2]
        estimator.partial_fit(batch)
        assert_sane(estimator, batch)
    assert estimator.n_out_of_bound_ > 0


@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308])
@each_kind
@each_map
def test_a_reference_value_too_large_to_compute_with_is_named(feature_map, make_input, value):
    X = normal_rows(10)
    X[7, 1] = value
    place = "'height'" if hasattr(make_input(X), "columns") else "1"
    with pytest.raises(DataError, match=rf"Column {place}.*too large"):
        OnlineDensityRatio(feature_map).fit(make_input(X))


FAR_ROWS = [
    np.full((2, 3), 1e300),
    np.full((1, 3), -1.7e308),
    np.array([[1e300, 0.0, -1e300]]),
    np.array([[1e16, 1.0, -1.0], [0.0, 0.0, 0.0]]),
    np.full((3, 3), 1e-300),
    np.full((1, 3), 5e-324),
]


@pytest.mark.every_pair
@pytest.mark.parametrize("scale_features", rest_slow([False, True]))
@pytest.mark.parametrize("estimator_class", [OnlineDensityRatio, SingleLearnerRatio])
@each_map
@each_loss
def test_rows_far_outside_never_raise_nor_blow_up(loss, feature_map, estimator_class, scale_features):
    estimator = estimator_class(feature_map, loss=loss, scale_features=scale_features, random_state=0)
    estimator.fit(normal_rows(20))
    for seed in range(4):
        for far in FAR_ROWS:
            estimator.partial_fit(far)
            assert_sane(estimator, far)
            estimator.partial_fit(normal_rows(2, seed=seed))
            assert_sane(estimator, normal_rows(5, seed=seed))


@pytest.mark.parametrize("feature_map", ["identity", "standardize", StandardScaler()], ids=str)
def test_huge_batch_rows_are_counted(feature_map):
    estimator = OnlineDensityRatio(feature_map).fit(normal_rows(20))
    estimator.partial_fit(np.full((2, 3), 1e300)).partial_fit(normal_rows(3) * 1e-3)
    assert (estimator.n_out_of_bound_, estimator.n_rounds_) == (2, 2)


@each_loss
def test_a_poisoned_round_is_forgotten(loss):
    """One absurd batch among ordinary ones shifts the estimate for a while, not permanently."""
    plain, poisoned = (
        OnlineDensityRatio(loss=loss, step_size=1.0, start="zero").fit(normal_rows(100)) for _ in range(2)
    )
    for t in range(1, 129):
        batch = normal_rows(10, seed=t) + 0.5
        plain.partial_fit(batch)
        poisoned.partial_fit(np.full((10, 3), 1e300) if t == 20 else batch)
    # Every learner restarts from nothing at round 128.
    np.testing.assert_allclose(poisoned.estimated_ratios(), plain.estimated_ratios(), atol=1e-9)
    # The filters of the pool forget with a half-life.
    in_use, expected = poisoned.reference_ratio_, plain.reference_ratio_
    assert 0.5 * np.abs(in_use - expected).mean() < 0.05


# --- rows of many columns are shortened, so that the intercept of the ratio keeps its weight --------------------


def wide_rows(n_rows, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, width)) * rng.uniform(0.1, 10.0, width) + rng.normal(size=width)


@each_linear
@pytest.mark.parametrize(
    ("width", "parameters"),
    [(256, {}), (300, {"fit_intercept": False}), (300, {"scale_features": False}), (300, {"feature_bound": 20.0})],
    ids=str,
)
def test_up_to_256_columns_without_an_intercept_or_where_units_matter_rows_are_not_shortened(make, width, parameters):
    auto, named = (make(each, **parameters).fit(wide_rows(60, width)) for each in ("auto", "standardize"))
    assert auto.reference_features_.tobytes() == named.reference_features_.tobytes()


@each_linear
@pytest.mark.parametrize("width", [257, 300])
def test_beyond_them_rows_are_as_long_as_those_of_twelve_columns(make, width):
    X = wide_rows(60, width)
    rows = (X - X.mean(axis=0)) / X.std(axis=0) / np.sqrt(width / 12)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(12.0)
    rows = np.column_stack((rows, np.ones(60)))
    lengths = np.linalg.norm(rows, axis=1)
    bound = np.quantile(lengths, 0.99)
    expected = rows / np.maximum(lengths, bound)[:, None]
    model = make().fit(X)
    assert model.feature_bound_ == pytest.approx(bound)
    np.testing.assert_allclose(model.reference_features_, expected, rtol=1e-10, atol=1e-12)


@each_linear
def test_a_small_part_that_stays_away_loses_its_ratio_and_the_rest_keeps_its_own(make):
    """A tenth of the reference lies elsewhere; in the stream it is gone: its ratio is 0, that of the others 10/9."""
    rng = np.random.default_rng(0)
    is_small = np.arange(600) % 10 == 0
    towards = np.ones(300) / np.sqrt(300)
    X = rng.normal(size=(600, 300)) + 30.0 * np.outer(is_small, towards)
    batches = rng.normal(size=(60, 5, 300))
    errors = {}
    for feature_map in ("auto", "standardize"):
        ratio = make(feature_map).fit(X)
        for batch in batches:
            ratio.partial_fit(batch)
        # The estimate itself: the pool, which chooses its shape, closes most of the difference.
        ratios = ratio.estimated_ratios() if make is OnlineDensityRatio else ratio.reference_ratio_
        errors[feature_map] = np.abs(ratios - np.where(is_small, 0.0, 10 / 9)).mean()
    assert errors["auto"] < 0.9 * errors["standardize"], errors


# --- large references: a sample for the gradients, and single precision for wide features -----------------------


def after_rounds(ratio, reference=REFERENCE, batches=BATCHES):
    ratio.fit(reference)
    for batch in batches:
        ratio.partial_fit(batch)
    return ratio


@each_linear
def test_a_cap_that_does_not_bind_changes_no_bit(make):
    whole = after_rounds(make())
    for capped in (after_rounds(make(max_reference=cap)) for cap in (400, 401, 10**9)):
        assert capped.n_gradient_rows_ == whole.n_gradient_rows_ == 400
        assert capped.reference_ratio_.tobytes() == whole.reference_ratio_.tobytes()


@each_linear
def test_gradients_are_those_of_the_sample_alone_and_ratios_are_given_for_all_rows(make):
    settings = {"feature_map": "identity", "feature_bound": 3.0, "random_state": 1}
    capped = after_rounds(make(max_reference=50, **settings))
    assert capped.n_gradient_rows_ == 50
    alone = after_rounds(make(**settings), REFERENCE[capped.gradient_indices_])
    np.testing.assert_allclose(capped.coef_, alone.coef_, rtol=1e-12, atol=1e-14)
    assert capped.reference_ratio_.shape == (400,)
    np.testing.assert_allclose(capped.reference_ratio_, capped.predict_ratio(REFERENCE), rtol=1e-12)


def test_the_sample_is_seeded_and_uniform():
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


def test_the_estimate_is_near_that_of_all_rows():
    whole, capped = (
        after_rounds(OnlineDensityRatio()),
        after_rounds(OnlineDensityRatio(max_reference=200, random_state=0)),
    )
    assert np.corrcoef(np.log(whole.reference_ratio_), np.log(capped.reference_ratio_))[0, 1] > 0.95
    assert not np.array_equal(whole.reference_ratio_, capped.reference_ratio_)


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("max_reference", value) for value in (0, 1, -5, 2.5, "all", True))]
    + [("dtype", value) for value in ("float16", np.float32, None)],
)
def test_bad_caps_and_types_are_named(name, value):
    with pytest.raises(ParameterError, match=name):
        OnlineDensityRatio(**{name: value}).fit(REFERENCE)


@pytest.mark.parametrize("settings", [{}, {"max_reference": 60}, {"max_reference": 60, "random_state": 5}], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("width", [120, 260])
def test_wide_capped_and_single_precision_ratios_are_resumed_bit_for_bit(settings, dtype, width, tmp_path):
    batches = [wide_rows(4, width, seed) for seed in range(1, 31)]
    ratio = after_rounds(OnlineDensityRatio(dtype=dtype, **settings), wide_rows(100, width), batches[:15])
    save(ratio, tmp_path / "ratio")
    resumed = load(tmp_path / "ratio")
    for batch in batches[15:]:
        ratio.partial_fit(batch)
        resumed.partial_fit(batch)
    assert resumed.reference_ratio_.tobytes() == ratio.reference_ratio_.tobytes()
    assert resumed.n_gradient_rows_ == settings.get("max_reference", 100)


@each_linear
@pytest.mark.parametrize(("loss", "tolerance"), [("logistic", 1e-4), ("kl", 1e-3), ("least_squares", 0.05)])
def test_single_precision_is_near_double_on_wide_features(make, loss, tolerance):
    double, single = (
        after_rounds(make(loss=loss, dtype=dtype), WIDE_REFERENCE, WIDE_BATCHES) for dtype in ("float64", "float32")
    )
    assert single.whole_reference_.features.dtype == np.float32
    assert single.reference_ratio_.dtype == np.float64
    assert single.coef_.tobytes() != double.coef_.tobytes()
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=0, atol=tolerance * np.abs(double.coef_).max())
    np.testing.assert_allclose(single.reference_ratio_, double.reference_ratio_, rtol=tolerance, atol=tolerance)


def test_single_precision_leaves_narrow_features_alone():
    double, single = after_rounds(OnlineDensityRatio()), after_rounds(OnlineDensityRatio(dtype="float32"))
    assert single.reference_ratio_.tobytes() == double.reference_ratio_.tobytes()
