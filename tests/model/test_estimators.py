"""AdaptiveClassifier keeps scikit-learn's promises, and takes frames, lists and labels of every kind."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio, SingleLearnerRatio
from accous.streams import GaussianStream, SquareShift
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    customer_encoder,
    customers,
    drifting_batches,
    labelled_rows,
    run_rounds,
    shown_state,
)

NAMES = ["age", "height", "weight"]


EVERY_KIND = [
    AdaptiveClassifier(),
    AdaptiveClassifier(refit="always", C=0.5),
    AdaptiveClassifier(LogisticRegression()),
    AdaptiveClassifier(DecisionTreeClassifier(random_state=0)),
    # Not a scaler: a weight of two is not a row given twice where a step before the last does not see the weights.
    AdaptiveClassifier(make_pipeline(PolynomialFeatures(), LogisticRegression(max_iter=1000))),
    AdaptiveClassifier(ratio=OnlineDensityRatio("rbf", loss="kl", random_state=0)),
    AdaptiveClassifier(ratio=OnlineDensityRatio(MinMaxScaler())),
    AdaptiveClassifier(ratio=SingleLearnerRatio()),
    AdaptiveClassifier(ratio=NoShift()),
]


# Our own regression and any other classifier; the checks of the other settings are slow tests.
ONE_OF_EACH = [AdaptiveClassifier(), AdaptiveClassifier(LogisticRegression())]
OTHER_SETTINGS = [model for model in EVERY_KIND if repr(model) not in set(map(repr, ONE_OF_EACH))]


FAR_FROM_DEFAULTS = AdaptiveClassifier(
    None,
    SingleLearnerRatio(),
    refit=3,
    refit_budget=0.5,
    C=0.2,
    class_weight="balanced",
    standardize=False,
    adaptation="always",
    metric="cost",
    cost=[[0.0, 1.0], [2.0, 0.0]],
    threshold=0.4,
    tolerance=0.1,
    random_state=5,
)


def one_line(model):
    return " ".join(repr(model).split())


each_model = pytest.mark.parametrize(
    "model",
    [
        *(pytest.param(model, id=one_line(model)) for model in ONE_OF_EACH),
        pytest.param(FAR_FROM_DEFAULTS, id="far from defaults"),
        *(pytest.param(model, id=one_line(model), marks=pytest.mark.slow) for model in OTHER_SETTINGS),
    ],
)


# Our own regression reads rows, any other classifier gets what the user gave.
each_reader = pytest.mark.parametrize(
    "model", [AdaptiveClassifier(), AdaptiveClassifier(LogisticRegression())], ids=["ours", "foreign"]
)


each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def run_some(model, n_rounds, seed=1, to_input=np.asarray):
    return run_rounds(model, map(to_input, drifting_batches(n_rounds, seed=seed)))


def framed(make_frame, names=NAMES):
    """Turns rows into frames with columns of these names; those that the rows do not have hold text."""

    def to_frame(X):
        columns = dict(zip(NAMES, X.T, strict=True))
        return make_frame({name: columns.get(name, ["Ada"] * len(X)) for name in names})

    return to_frame


# --- scikit-learn's own checks ------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(ONE_OF_EACH)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("estimator", OTHER_SETTINGS, ids=one_line)
def test_scikit_learn_checks_of_other_settings(estimator):
    check_estimator(estimator)


# --- cloning, parameters, pickling --------------------------------------------------------------------------


@each_model
def test_fits_clones_pickles_and_parameters(model):
    model = clone(model)
    before = model.get_params(deep=False)
    assert AdaptiveClassifier().set_params(**before).get_params(deep=False) == before
    assert model.fit(*labelled_rows()) is model
    assert model.adapt(PROBE[:1]) is model
    run_some(model.fit(*labelled_rows()), 6)
    after = model.get_params(deep=False)
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    copy, travels = clone(model), pickle.loads(pickle.dumps(model))
    assert one_line(copy) == one_line(model)
    assert not hasattr(copy, "n_features_in_")
    assert not hasattr(copy, "n_rounds_")
    expected = shown_state(model, PROBE)
    assert shown_state(run_some(copy.fit(*labelled_rows()), 6), PROBE) == expected
    assert shown_state(travels, PROBE) == expected
    assert shown_state(run_some(travels, 9, seed=2), PROBE) == shown_state(run_some(model, 9, seed=2), PROBE)


def test_every_parameter_of_the_far_model_differs_from_its_default():
    defaults, parameters = (model.get_params(deep=False) for model in (AdaptiveClassifier(), FAR_FROM_DEFAULTS))
    # A penalty beside an estimator is refused.
    assert {name for name in defaults if parameters[name] != defaults[name]} == set(defaults) - {"estimator"}


def test_parameters_of_the_parts_can_be_set_from_outside():
    model = AdaptiveClassifier(LogisticRegression(), OnlineDensityRatio())
    model.set_params(estimator__C=1e-6, ratio__max_ratio=2.0).fit(*labelled_rows())
    assert np.abs(model.estimator_.coef_).max() < 1e-3
    assert run_some(model, 10).ratio_.reference_ratio_.max() <= 2.0


RANDOM_PARTS = AdaptiveClassifier(
    RandomForestClassifier(5, random_state=1), OnlineDensityRatio("rbf", random_state=2), refit="always"
)


@pytest.mark.parametrize("model", [AdaptiveClassifier(), RANDOM_PARTS], ids=["defaults", "random parts"])
def test_the_same_seeds_give_the_same_bits(model):
    first, second = (run_some(clone(model).fit(*labelled_rows()), 12) for _ in range(2))
    assert shown_state(first, PROBE) == shown_state(second, PROBE)


def test_asking_changes_nothing():
    model = run_some(AdaptiveClassifier(refit="always").fit(*labelled_rows()), 6)
    assert model.performance().value > 0.0
    before = pickle.dumps(model)
    shown_state(model, 1e6 * PROBE)
    assert pickle.dumps(model) == before


def test_scikit_learns_tools_take_it():
    X, y = labelled_rows()
    assert cross_val_score(AdaptiveClassifier(), X, y).mean() > 0.6
    search = GridSearchCV(AdaptiveClassifier(), {"C": [1e-6, 1.0]}).fit(X, y)
    assert search.best_params_ == {"C": 1.0}
    assert search.best_estimator_.score(X, y) > 0.6


def test_writing_into_what_is_shown_changes_nothing():
    stream = GaussianStream(SquareShift(period=5), n_rounds=8, n_reference=60, n_features=3)
    model = AdaptiveClassifier().fit(*stream.reference())
    untouched = AdaptiveClassifier().fit(*stream.reference())
    for batch in stream:
        weights, theta = model.reference_weight_, model.ratio_.coef_
        weights /= 1000.0
        theta += 7.0
        model.adapt(batch.X)
        untouched.adapt(batch.X)
    assert model.predict_proba(batch.X).tobytes() == untouched.predict_proba(batch.X).tobytes()


READINGS = ("status_", "drift_", "n_rounds_", "ratio_", "reference_weight_", "effective_sample_size_", "regimes_")


def test_an_unfitted_model_says_so():
    for method in ("predict", "predict_proba", "decision_function", "adapt", "step", "predict_set"):
        with pytest.raises(NotFittedError, match="AdaptiveClassifier"):
            getattr(AdaptiveClassifier(), method)(PROBE)
    for name in READINGS:
        with pytest.raises(NotFittedError, match=name):
            getattr(AdaptiveClassifier(), name)
        assert not hasattr(AdaptiveClassifier(), name)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("estimator", [None, LogisticRegression(), DecisionTreeClassifier()], ids=str)
def test_answers_have_scikit_learns_shapes_also_for_no_rows(estimator, n_classes):
    model = AdaptiveClassifier(estimator).fit(*labelled_rows(n_classes=n_classes))
    probabilities = model.predict_proba(PROBE)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(PROBE), model.classes_[probabilities.argmax(axis=1)])
    for rows in (PROBE, PROBE[:0]):
        assert model.predict(rows).shape == (len(rows),)
        assert model.predict(rows).dtype == model.classes_.dtype
        assert model.predict_proba(rows).shape == (len(rows), n_classes)
        if hasattr(model, "decision_function"):
            shape = (len(rows),) if n_classes == 2 else (len(rows), n_classes)
            assert model.decision_function(rows).shape == shape
    if estimator is None:
        assert np.all(np.isfinite(model.predict_proba(np.array([[1e308, -1e308, 1e308]]))))


def test_a_copy_is_its_own_and_a_model_is_freed_when_nobody_holds_it():
    original = run_some(AdaptiveClassifier().fit(*labelled_rows()), 5)
    other, (X, y) = copy.copy(original), labelled_rows()
    original.fit(X[:, :2], y)
    run_rounds(other, drifting_batches(40, n_rows=8))
    assert other.n_rounds_ == 45
    watched = weakref.ref(other)
    gc.disable()
    try:
        del other
        assert watched() is None
    finally:
        gc.enable()


# --- labels and references of every kind --------------------------------------------------------------------


each_kind = pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])


LABEL_KINDS = {
    "text": lambda y: np.array(["no", "yes"])[y],
    "text objects": lambda y: np.array(["no", "yes"], dtype=object)[y],
    "bool": lambda y: y.astype(bool),
    "float": lambda y: y.astype(float),
    "negative": lambda y: 2 * y - 1,
    "far apart": lambda y: 1000 * y,
    "list": lambda y: y.tolist(),
    "series": lambda y: pd.Series(np.array(["no", "yes"])[y], index=np.arange(len(y))[::-1]),
    "categories": lambda y: pd.Series(np.array(["no", "yes"])[y], dtype="category"),
}


@each_kind
@pytest.mark.parametrize("convert", LABEL_KINDS.values(), ids=LABEL_KINDS)
def test_labels_of_any_kind_come_back_as_they_were(convert, estimator):
    X, y = labelled_rows()
    numbers, model = (
        run_rounds(AdaptiveClassifier(estimator).fit(X, labels), drifting_batches(8)) for labels in (y, convert(y))
    )
    kinds = np.unique(np.asarray(convert(y)))
    assert model.classes_.tolist() == kinds.tolist()
    assert model.classes_.dtype == kinds.dtype
    assert model.predict(PROBE).tolist() == kinds[numbers.predict(PROBE)].tolist()
    assert model.performance().value == numbers.performance().value


@each_kind
def test_classes_seen_once_are_learned(estimator):
    X, y = labelled_rows(n_rows=60)
    y[:3] = [7, 8, 9]
    model = run_rounds(AdaptiveClassifier(estimator, refit="always").fit(X, y), drifting_batches(12))
    assert model.classes_.tolist() == [0, 1, 7, 8, 9]
    assert np.all(np.isfinite(model.predict_proba(PROBE)))
    assert 0.0 < model.performance().value < 1.0


@pytest.mark.parametrize("X", [[[0.0, 1.0], [1.0, 0.0]], np.zeros((2, 2))], ids=["two rows", "the same row twice"])
@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["ours", "foreign"])
def test_a_reference_of_two_rows_is_enough(X, estimator):
    model = AdaptiveClassifier(estimator, refit="always").fit(X, ["a", "b"])
    run_rounds(model, drifting_batches(12, n_features=2))
    assert model.n_rounds_ == 12
    assert np.all(np.isfinite(model.predict_proba(PROBE[:, :2])))
    assert np.isnan(model.performance().value)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_columns_in_any_unit_are_fitted(n_classes, unit):
    X, y = labelled_rows(n_classes=n_classes)
    model = AdaptiveClassifier(refit="always").fit(X * unit, y)
    run_rounds(model, [batch * unit for batch in drifting_batches(10)])
    assert np.all(np.isfinite(model.predict_proba(PROBE * unit)))
    assert 0.0 < model.performance().value < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_large_reference_is_fitted_and_adapted(n_classes):
    X, y = labelled_rows(n_rows=200_000, n_features=20, n_classes=n_classes)
    model = AdaptiveClassifier(refit="always").fit(X, y)
    run_rounds(model, drifting_batches(3, n_features=20))
    assert model.n_refits_ == 3
    assert model.performance().value == pytest.approx(np.mean(model.predict(X) != y), abs=0.01)


# --- frames, lists, other number types ----------------------------------------------------------------------


@each_frame
@pytest.mark.parametrize("model", rest_slow([*ONE_OF_EACH, *OTHER_SETTINGS, FAR_FROM_DEFAULTS], len(ONE_OF_EACH)))
def test_a_frame_gives_what_its_array_gives(model, make_frame):
    (X, y), to_frame = labelled_rows(), framed(make_frame)
    of_frame = run_some(clone(model).fit(to_frame(X), y), 8, to_input=to_frame)
    of_array = run_some(clone(model).fit(X, y), 8)
    np.testing.assert_allclose(of_frame.reference_weight_, of_array.reference_weight_, rtol=1e-8)
    np.testing.assert_allclose(of_frame.predict_proba(to_frame(PROBE)), of_array.predict_proba(PROBE), rtol=1e-4)
    assert list(of_frame.feature_names_in_) == NAMES


WRONG_COLUMNS = {
    "missing": (["age", "height"], "weight"),
    "missing beside an extra one": (["age", "height", "shoe"], "weight"),
    "renamed": (["age", "height", "mass"], "mass"),
}


@each_frame
@each_reader
def test_wrong_columns_are_named_and_change_nothing(model, make_frame):
    (X, y), to_frame = labelled_rows(), framed(make_frame)
    model = run_some(clone(model).fit(to_frame(X), y), 6, to_input=to_frame)
    before = shown_state(model, to_frame(PROBE))
    for names, named in WRONG_COLUMNS.values():
        batch = make_frame({name: np.ones(4) for name in names})
        for method in ("adapt", "step", "predict", "predict_proba", "decision_function"):
            with pytest.raises(ValueError, match=rf"\b{named}\b"):
                getattr(model, method)(batch)
    assert shown_state(model, to_frame(PROBE)) == before


@each_reader
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_number_types_are_read_as_double(model, dtype):
    X, y = labelled_rows()
    X, batch, probe = (np.abs(3.0 * rows).astype(dtype) for rows in (X, *drifting_batches(1), PROBE))
    narrow = clone(model).fit(X, y)
    double = clone(model).fit(X.astype(np.float64), y)
    for _ in range(8):
        narrow.adapt(batch)
        double.adapt(batch.astype(np.float64))
    np.testing.assert_allclose(narrow.predict_proba(probe), double.predict_proba(probe.astype(np.float64)), atol=1e-3)


@each_reader
def test_lists_are_read_as_arrays(model):
    X, y = labelled_rows()
    of_list = run_some(clone(model).fit(X.tolist(), y.tolist()), 6, to_input=np.ndarray.tolist)
    of_array = run_some(clone(model).fit(X, y), 6)
    assert shown_state(of_list, PROBE) == shown_state(of_array, PROBE)


@each_reader
@pytest.mark.parametrize("changed", ["X", "y", "sample_weight", "batch"])
def test_input_is_not_kept_by_reference(model, changed):
    """Callers reuse their buffers; what was learned, and what later rounds learn, must not change with them."""
    X, y = labelled_rows()
    given = {"X": X.copy(), "y": y.copy(), "sample_weight": np.linspace(0.5, 1.5, len(X))}
    batch = drifting_batches(1)[0]
    models = [clone(model).set_params(refit="always").fit(**given).adapt(batch) for _ in range(2)]
    expected = shown_state(run_some(models[0], 9), PROBE)
    (given | {"batch": batch})[changed][::2] = 1
    assert shown_state(run_some(models[1], 9), PROBE) == expected


@each_reader
@each_frame
def test_other_columns_and_another_order_change_nothing(model, make_frame):
    X, y = labelled_rows()
    straight, crooked = framed(make_frame), framed(make_frame, ["name", "weight", "age", "^a.*$", "height"])
    expected, found = (clone(model).fit(straight(X), y) for _ in range(2))
    for batch in drifting_batches(12):
        expected.adapt(straight(batch))
        found.adapt(crooked(batch))
    probe, odd, labels = straight(PROBE), crooked(PROBE), np.arange(len(PROBE)) % 2
    assert shown_state(found, odd) == shown_state(expected, probe)
    for method in ("step", "predict_set", "predict_fixed"):
        np.testing.assert_array_equal(getattr(found, method)(odd), getattr(expected, method)(probe))
    assert shown_state(found.observe(odd, labels), odd) == shown_state(expected.observe(probe, labels), probe)
    assert found.performance() == expected.performance()


@each_reader
@each_frame
def test_only_our_own_methods_put_a_mere_reordering_right(model, make_frame):
    """scikit-learn's check_dataframe_column_names_consistency asks `predict` and its kin to refuse it."""
    X, y = labelled_rows()
    straight = framed(make_frame)
    model, twin = (clone(model).fit(straight(X), y) for _ in range(2))
    turned, probe = framed(make_frame, NAMES[::-1])(PROBE), straight(PROBE)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match="same order"):
            getattr(model, method)(turned)
    np.testing.assert_array_equal(model.step(turned), twin.step(probe))
    model.adapt(turned).observe(turned, y[: len(PROBE)])
    twin.adapt(probe).observe(probe, y[: len(PROBE)])
    assert shown_state(model, probe) == shown_state(twin, probe)
    assert model.performance() == twin.performance()


def test_a_transformer_gets_the_columns_of_the_reference():
    frame = customers(150, 0)
    y = frame["income"].to_numpy() > 1.0
    encoder = customer_encoder()
    model = AdaptiveClassifier(make_pipeline(encoder, LogisticRegression()), OnlineDensityRatio(feature_map=encoder))
    model.fit(frame, y)
    batch = customers(20, 1)
    odd = batch.assign(shoe=42)[["shoe", "city", "income", "age"]]
    np.testing.assert_array_equal(model.predict_proba(odd), model.predict_proba(batch))
    np.testing.assert_array_equal(model.step(odd), model.predict(batch))
    assert model.n_rounds_ == 1
