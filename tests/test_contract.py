"""The estimators keep scikit-learn's promises: its own checks, cloning, parameters, pickling, frames as input."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from accous import KLIEP, KMM, RULSIF, ULSIF, LogisticRatio, NoShift, OnlineDensityRatio, SingleLearnerRatio
from tests.budgets import rest_slow

Array = NDArray[np.float64]

LOSSES = ["logistic", "least_squares", "kl"]
NAMES = ["age", "height", "weight"]
EVERY_KIND = [
    *(OnlineDensityRatio(map_, loss=loss) for loss in LOSSES for map_ in ["identity", "standardize"]),
    *(OnlineDensityRatio("rbf", loss=loss, random_state=0) for loss in LOSSES),
    *(OnlineDensityRatio(MinMaxScaler(), loss=loss) for loss in LOSSES),
    SingleLearnerRatio(),
    SingleLearnerRatio(MinMaxScaler(), loss="kl"),
    NoShift(),
    KLIEP(),
    KLIEP("identity", width="cv"),
    KMM(),
    KMM("rbf", ridge=2.0, mass_tolerance=0.2, random_state=0),
    LogisticRatio(),
    LogisticRatio(MinMaxScaler(), ridge=0.3),
    RULSIF(),
    ULSIF(),
    ULSIF(MinMaxScaler(), width="cv", ridge="cv"),
]
# `make test` runs the checks once per class and far from its defaults, `make test-slow` for every other setting.
RATIOS = (KLIEP, KMM, LogisticRatio, NoShift, OnlineDensityRatio, RULSIF, SingleLearnerRatio, ULSIF)
ONE_OF_EACH = [ratio() for ratio in RATIOS]
OTHER_SETTINGS = [estimator for estimator in EVERY_KIND if repr(estimator) not in set(map(repr, ONE_OF_EACH))]
# Away from every default, so that a parameter that is dropped on the way shows.
FAR = {"loss": "kl", "radius": 7.0, "feature_bound": 2.0, "scale_features": False, "step_size": 3.0, "ridge": 0.5}
FAR |= {"min_interval": 2, "horizon": 50, "start": "ensemble", "meta_range": "paper", "max_ratio": 20.0, "memory": 2}
FAR |= {"pool": "none", "candidates": [], "max_reference": 25, "dtype": "float32", "metric": "low_rank"}
FAR_FROM_DEFAULTS = OnlineDensityRatio("rbf", **FAR, metric_rank=5, random_state=3)

each_estimator = pytest.mark.parametrize(
    "estimator",
    [
        *(pytest.param(estimator, id=repr(estimator)) for estimator in ONE_OF_EACH),
        pytest.param(FAR_FROM_DEFAULTS, id="far from defaults"),
        *(pytest.param(estimator, id=repr(estimator), marks=pytest.mark.slow) for estimator in OTHER_SETTINGS),
    ],
)
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def rows(n_rows, seed, loc=0.0):
    return np.random.default_rng(seed).normal(loc, size=(n_rows, 3))


def columns(X):
    return dict(zip(NAMES, X.T, strict=True))


def run_rounds(estimator, n_rounds, first_seed=100):
    for seed in range(first_seed, first_seed + n_rounds):
        estimator.partial_fit(rows(3, seed, loc=0.5))
    return estimator


def assert_same_bits(first, second):
    """Both have the same attributes, and those that can be read as arrays have the same bytes."""
    assert first.n_rounds_ == second.n_rounds_
    assert first.reference_ratio_.tobytes() == second.reference_ratio_.tobytes()
    for name in ["coef_", "learner_lengths_", "learner_weights_", "learner_coefs_"]:
        assert hasattr(first, name) == hasattr(second, name)
        if hasattr(first, name):
            assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name


# --- scikit-learn's own checks ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ONE_OF_EACH)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", OTHER_SETTINGS, ids=repr)
def test_scikit_learn_checks_of_other_settings(estimator):
    check_estimator(estimator)


# --- cloning, parameters, pickling --------------------------------------------------------------------------


@each_estimator
def test_clone_has_the_parameters_and_nothing_learned(estimator):
    fitted = run_rounds(clone(estimator).fit(rows(20, 0)), 5)
    copy = clone(fitted)
    assert repr(copy) == repr(estimator)
    assert not hasattr(copy, "n_features_in_")
    assert_same_bits(run_rounds(copy.fit(rows(20, 0)), 5), fitted)


def test_every_parameter_of_the_far_estimator_differs_from_its_default():
    defaults = OnlineDensityRatio().get_params()
    differing = {name for name, value in FAR_FROM_DEFAULTS.get_params().items() if value != defaults[name]}
    # Without an intercept the loss "kl" does not exist.
    assert differing == set(defaults) - {"fit_intercept"}


@each_estimator
def test_fitting_leaves_the_parameters_alone_and_set_params_takes_them(estimator):
    estimator = clone(estimator)
    before = estimator.get_params(deep=False)
    assert type(estimator)().set_params(**before).get_params(deep=False) == before
    assert estimator.fit(rows(20, 0)) is estimator
    assert estimator.partial_fit(rows(1, 1)) is estimator
    after = estimator.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


@each_estimator
def test_a_pickled_estimator_goes_on_with_the_same_bits(estimator):
    stays = run_rounds(clone(estimator).fit(rows(20, 0)), 9)
    travels = pickle.loads(pickle.dumps(stays))
    assert_same_bits(travels, stays)
    assert_same_bits(run_rounds(travels, 9, first_seed=200), run_rounds(stays, 9, first_seed=200))
    probe = rows(10, 1)
    assert travels.predict_ratio(probe).tobytes() == stays.predict_ratio(probe).tobytes()
    assert travels.score_loss(probe) == stays.score_loss(probe)


@each_estimator
def test_partial_fit_of_an_unfitted_estimator_is_fit_and_labels_are_ignored(estimator):
    y = np.arange(20)
    with_labels = clone(estimator).partial_fit(rows(20, 0), y).partial_fit(rows(20, 1), y)
    assert_same_bits(with_labels, clone(estimator).fit(rows(20, 0)).partial_fit(rows(20, 1)))


# --- frames, lists, other number types ----------------------------------------------------------------------


@each_frame
@each_estimator
def test_a_frame_gives_what_its_array_gives(estimator, make_frame):
    of_frame = clone(estimator).fit(make_frame(columns(rows(20, 0))))
    of_array = clone(estimator).fit(rows(20, 0))
    assert list(of_frame.feature_names_in_) == NAMES
    assert not hasattr(of_array, "feature_names_in_")
    for seed in range(6):
        of_frame.partial_fit(make_frame(columns(rows(2, seed))))
        of_array.partial_fit(rows(2, seed))
    # Not the same bits: a frame stores columns, and sums along another axis round differently.
    np.testing.assert_allclose(of_frame.reference_ratio_, of_array.reference_ratio_, rtol=1e-9)
    probe = rows(10, 1)
    in_frame = make_frame(columns(probe))
    np.testing.assert_allclose(of_frame.predict_ratio(in_frame), of_array.predict_ratio(probe), rtol=1e-9)
    assert of_frame.score_loss(in_frame) == pytest.approx(of_array.score_loss(probe), rel=1e-9)


WRONG_COLUMNS = {
    "missing": (["age", "height"], "weight"),
    "renamed": (["age", "height", "mass"], "mass"),
    "swapped": (["height", "age", "weight"], "height"),
}


@each_frame
@pytest.mark.parametrize("method", ["partial_fit", "predict_ratio"])
@pytest.mark.parametrize(("names", "named"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS)
@pytest.mark.parametrize("estimator", [OnlineDensityRatio(), OnlineDensityRatio(MinMaxScaler()), NoShift()], ids=repr)
def test_wrong_columns_are_named(estimator, names, named, method, make_frame):
    estimator = run_on_frames(clone(estimator), make_frame)
    before = pickle.dumps(estimator)
    batch = make_frame({name: np.ones(4) for name in names})
    with pytest.raises(ValueError, match=rf"\b{named}\b"):
        getattr(estimator, method)(batch)
    assert pickle.dumps(estimator) == before


@each_frame
@pytest.mark.parametrize("estimator", [OnlineDensityRatio(), OnlineDensityRatio(MinMaxScaler()), NoShift()], ids=repr)
def test_columns_that_the_reference_does_not_have_are_left_out(estimator, make_frame):
    plain, other = (run_on_frames(clone(estimator), make_frame) for _ in range(2))
    batch = columns(rows(4, 9))
    odd = {"shoe": ["large"] * 4} | dict(reversed(batch.items()))
    assert plain.predict_ratio(make_frame(batch)).tolist() == other.predict_ratio(make_frame(odd)).tolist()
    plain.partial_fit(make_frame(batch))
    other.partial_fit(make_frame(odd))
    assert plain.reference_ratio_.tolist() == other.reference_ratio_.tolist()


def run_on_frames(estimator, make_frame):
    estimator.fit(make_frame(columns(rows(20, 0))))
    for seed in range(6):
        estimator.partial_fit(make_frame(columns(rows(2, seed))))
    return estimator


@each_estimator
@pytest.mark.parametrize("dtype", rest_slow([np.float32, np.int64, bool, np.int8, np.uint8]))
def test_other_number_types_are_read_as_double(estimator, dtype):
    reference, batch = (np.abs(rows(20, seed) * 3).astype(dtype) for seed in range(2))
    narrow = clone(estimator).fit(reference)
    double = clone(estimator).fit(reference.astype(np.float64))
    # One-step estimators forget the batch before; the ensemble needs the first rounds to have a learner at all.
    for _ in range(6 if hasattr(estimator, "step_size") else 1):
        narrow.partial_fit(batch)
        double.partial_fit(batch.astype(np.float64))
    np.testing.assert_allclose(narrow.reference_ratio_, double.reference_ratio_, rtol=1e-5)
    assert narrow.reference_ratio_.dtype == np.float64
    assert narrow.predict_ratio(batch).dtype == np.float64


@each_estimator
def test_lists_are_read_as_arrays(estimator):
    of_list = clone(estimator).fit(rows(20, 0).tolist()).partial_fit(rows(4, 1).tolist())
    of_array = clone(estimator).fit(rows(20, 0)).partial_fit(rows(4, 1))
    assert_same_bits(of_list, of_array)
    probe = rows(5, 2)
    assert of_list.predict_ratio(probe.tolist()).tobytes() == of_array.predict_ratio(probe).tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_layout_and_read_only_input_do_not_matter(order):
    X, batch = np.array(rows(20, 0), order=order), np.array(rows(4, 1), order=order)
    X.flags.writeable = batch.flags.writeable = False
    laid_out = OnlineDensityRatio().fit(X)
    plain = OnlineDensityRatio().fit(rows(20, 0))
    for _ in range(6):
        laid_out.partial_fit(batch)
        plain.partial_fit(rows(4, 1))
    np.testing.assert_allclose(laid_out.coef_, plain.coef_, rtol=1e-12)


@each_estimator
def test_input_is_not_kept_by_reference(estimator):
    """Callers reuse their buffers; what was learned must not change with them."""
    X, batch = rows(20, 0), rows(4, 1)
    estimator = clone(estimator).fit(X)
    for _ in range(6):
        estimator.partial_fit(batch)
    before = pickle.dumps(estimator)
    X[:] = 99.0
    batch[:] = 99.0
    assert pickle.dumps(estimator) == before
