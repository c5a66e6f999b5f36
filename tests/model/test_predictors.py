"""Weighted fits on the reference: our own regression, any classifier, boosted trees whose leaves follow the weights."""

from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.core.regression import MAX_HESSIAN_COEFS
from accous.exceptions import ParameterError
from accous.model.predictors import (
    ForeignErm,
    LinearPredictor,
    LogisticErm,
    RevaluedTrees,
    _thin_values,
    can_be_revalued,
    deviations_of_columns,
)
from accous.model.tasks import ClassTask
from accous.streams import GaussianStream, SquareShift
from accous.threads import one_blas_thread
from tests.budgets import rest_slow
from tests.classifiers import (
    PROBE,
    LinearTilt,
    after_rounds,
    customer_encoder,
    customers,
    labelled_rows,
    model_scores,
    tilt,
)

NAMES = np.array(["ash", "birch", "cedar"])
each_n_classes = pytest.mark.parametrize("n_classes", [2, 3])


@pytest.fixture(autouse=True, scope="module")
def _one_openmp_thread():
    """Boosting on a few rows is faster alone than with threads that wait for each other."""
    with threadpool_limits(1, user_api="openmp"):
        yield


def weights_of(X):
    return np.exp(X[:, 0])


def own_erm(X, labels, C=1.0):
    return LogisticErm(X, labels, NAMES[: labels.max() + 1], C)


def foreign_erm(estimator, X, labels):
    classes = NAMES[: labels.max() + 1]
    return ForeignErm(estimator, X, ClassTask(classes, labels))


# --- our own regression -------------------------------------------------------------------------------------


@each_n_classes
def test_the_fit_before_is_only_where_to_start(n_classes):
    X, labels = labelled_rows(n_classes=n_classes)
    erm = own_erm(X, labels)
    warm = erm.fit(weights_of(X), erm.fit(np.ones(len(X)), None))
    np.testing.assert_allclose(warm.coef_, erm.fit(weights_of(X), None).coef_, rtol=1e-7)


def test_large_and_zero_scores():
    steep = LinearPredictor(np.array([[1e6, 0.0]]), np.array(["a", "b"]))
    assert steep.predict_proba(np.array([[-1.0], [1.0]])).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert steep.predict(np.array([[0.0]])).tolist() == ["a"]  # as in scikit-learn


@each_n_classes
def test_cross_fitted_classes_are_nearly_those_of_fits_without_the_row(n_classes):
    X, labels = labelled_rows(n_rows=60, n_features=15, n_classes=n_classes)
    erm, weights = own_erm(X, labels), weights_of(X)
    fitted = erm.fit(weights, None)
    exact = np.empty_like(labels)
    for i in range(len(X)):
        without = weights.copy()
        without[i] = 0.0
        name = erm.fit(without, fitted).predict(X[i : i + 1])[0]
        exact[i] = np.searchsorted(NAMES, name)
    found = erm.cross_fitted(weights, fitted)
    assert found is not None
    assert np.sum(found != exact) <= 1
    assert np.sum(exact != np.searchsorted(NAMES, fitted.predict(X))) >= 5  # leaving out does change something


@pytest.mark.parametrize(
    ("make", "n_rows", "is_known"),
    [(own_erm, 1, False), (own_erm, 2, True), *((partial(foreign_erm, GaussianNB()), n, n == 5) for n in (1, 4, 5))],
)
def test_rows_of_a_class_that_a_cross_fit_needs(make, n_rows, is_known):
    X, _ = labelled_rows(n_rows=40)
    erm = make(X, (np.arange(40) < n_rows).astype(np.int64))
    found = erm.cross_fitted(np.ones(40), erm.fit(np.ones(40), None))
    assert (found is not None) == is_known


def random_rows_of_three_classes():
    """Too many coefficients for a Hessian, and nothing to learn."""
    n = MAX_HESSIAN_COEFS // 3 + 10
    return np.random.default_rng(0).normal(size=(n, n)), np.arange(n) % 3


def test_with_many_coefficients_the_cross_fit_does_not_see_the_row_and_needs_five_of_every_class():
    """Nothing can be learned about the labels of random rows."""
    X, labels = random_rows_of_three_classes()
    ones = np.ones(len(X))
    with one_blas_thread():
        erm = own_erm(X, labels)
        fitted = erm.fit(ones, None)
        found = erm.cross_fitted(ones, fitted)
        for n_rows in (4, 5):
            rare = own_erm(X, np.where(np.arange(len(X)) < n_rows, 2, labels % 2))
            assert (rare.cross_fitted(ones, rare.fit(ones, None)) is not None) == (n_rows == 5)
    assert np.mean(fitted.predict(X) != NAMES[labels]) == 0.0
    assert 0.5 < np.mean(found != labels) < 0.85


def test_rows_much_wider_than_long_are_left_out_one_by_one():
    """In the axes that the rows span there are few coefficients, however many columns there are."""
    X, labels = np.random.default_rng(0).normal(size=(30, 2 * MAX_HESSIAN_COEFS)), (np.arange(30) < 4).astype(np.int64)
    with one_blas_thread():
        erm = own_erm(X, labels)
        assert erm.cross_fitted(np.ones(30), erm.fit(np.ones(30), None)) is not None


# --- ``standardize``: the optimum of scikit-learn's scaled pipeline -----------------------------------------


# Columns by the compiled Newton steps, by plain ones, and by descent in principal axes.
each_shape = pytest.mark.parametrize(("n_features", "n_classes"), [(5, 2), (5, 4), (40, 3), (300, 2)])


def raw_rows(n_features=5, n_classes=2, n_rows=300):
    """Columns in very different units, far from zero, one of them constant."""
    random = np.random.default_rng(n_features + n_classes)
    Z = random.normal(size=(n_rows, n_features))
    scores = Z @ random.normal(size=(n_features, n_classes)) + 2.0 * random.gumbel(size=(n_rows, n_classes))
    X = Z * 10.0 ** random.uniform(-3, 3, n_features) + random.normal(size=n_features)
    X[:, 1] = 7.0
    return X, scores.argmax(axis=1)


def scaled_pipeline(X, y, weights=None, *, base=None, C=1.0):
    pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=C, tol=1e-10, max_iter=100_000))
    named = {"standardscaler__sample_weight": base, "logisticregression__sample_weight": weights}
    # On some processors the weighted variance of a constant column rounds to less than 0 in scikit-learn.
    with np.errstate(invalid="ignore"):
        return pipeline.fit(X, y, **named)


@each_shape
@pytest.mark.parametrize("has_base", [False, True])
def test_a_fit_is_that_of_the_scaled_pipeline(n_features, n_classes, has_base):
    X, y = raw_rows(n_features, n_classes)
    base = np.linspace(0.1, 1.9, len(X)) if has_base else None
    ours = AdaptiveClassifier(C=0.3).fit(X, y, sample_weight=base)
    theirs = scaled_pipeline(X, y, base, base=base, C=0.3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    scaler, regression = theirs
    np.testing.assert_allclose(ours.estimator_.coef_ * scaler.scale_, regression.coef_, atol=1e-6)
    if n_classes == 2:
        scores = X @ ours.estimator_.coef_[0] + ours.estimator_.intercept_[0]
        np.testing.assert_allclose(ours.decision_function(X), scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_standardized_predictor_of_a_round_is_the_weighted_optimum(n_classes):
    X, y = raw_rows(5, n_classes)
    model = AdaptiveClassifier(refit="always", adaptation="always").fit(X, y)
    for start in range(0, 200, 10):
        model.adapt(X[start : start + 10] + 0.5 * X.std(axis=0))
    theirs = scaled_pipeline(X, y, model.reference_weight_)
    plain = scaled_pipeline(X, y)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    assert np.abs(plain.predict_proba(X) - theirs.predict_proba(X)).max() > 1e-2


@each_shape
def test_units_do_not_matter(n_features, n_classes):
    X, y = raw_rows(n_features, n_classes)
    units = 2.0 ** np.random.default_rng(0).integers(-20, 20, n_features)
    one, other = AdaptiveClassifier().fit(X, y), AdaptiveClassifier().fit(X * units, y)
    for start in range(0, 100, 10):
        one.adapt(X[start : start + 10])
        other.adapt(X[start : start + 10] * units)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X * units), atol=1e-6)
    assert one.performance().value == pytest.approx(other.performance().value, abs=1e-3)


def test_an_estimator_ignores_it():
    X, y = raw_rows()
    answers = [
        AdaptiveClassifier(LogisticRegression(solver="newton-cholesky"), standardize=standardize).fit(X, y).predict(X)
        for standardize in (True, False)
    ]
    assert np.array_equal(*answers)


def test_the_scales_are_those_of_the_standard_scaler():
    random = np.random.default_rng(0)
    X = random.normal(size=(50, 6)) * [1e-8, 1.0, 1e8, 0.0, 1e-14, 1e-3] + [0.0, 5.0, 0.0, 3.3, 1e5, 1e6]
    for weights in (np.ones(50), np.arange(50.0)):
        scales = deviations_of_columns(X, weights)
        np.testing.assert_allclose(scales, StandardScaler().fit(X, sample_weight=weights).scale_, rtol=1e-7)
        assert scales[3] == 1.0


def test_extreme_columns_have_finite_answers():
    X, y = raw_rows()
    X = X * [1e-300, 1.0, 1e-160, 1e90, 1.0]
    model = AdaptiveClassifier().fit(X, y)
    assert np.isfinite(model.adapt(X[:20]).predict_proba(X)).all()


# --- foreign classifiers ------------------------------------------------------------------------------------


class Recorder(GaussianNB):
    """Naive Bayes that notes what every fit and prediction was given."""

    fits: ClassVar[list[tuple[Any, Any, Any]]] = []
    predictions: ClassVar[list[Any]] = []

    def fit(self, X, y, sample_weight=None):
        self.fits.append((X, y, sample_weight))
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        self.predictions.append(X)
        return super().predict(X)


@pytest.fixture
def recorder():
    Recorder.fits.clear()
    Recorder.predictions.clear()
    return Recorder()


def test_a_fit_gets_rows_labels_and_weights_and_is_of_a_fresh_clone(recorder):
    X, labels = labelled_rows(n_classes=3)
    erm = foreign_erm(recorder, X, labels)
    first = erm.fit(weights_of(X), None)
    (fit,) = Recorder.fits
    np.testing.assert_array_equal(fit[0], X)
    assert fit[1].tolist() == NAMES[labels].tolist()
    np.testing.assert_array_equal(fit[2], weights_of(X))
    before = first.theta_.tobytes()
    second = erm.fit(np.ones(len(X)), first)
    assert first.theta_.tobytes() == before != second.theta_.tobytes()
    assert not hasattr(recorder, "theta_")


def test_folds_cover_every_row_once_with_its_label_and_weight_and_never_show_it_to_its_own_fit(recorder):
    X, labels = labelled_rows(n_classes=3)
    foreign_erm(recorder, X, labels).cross_fitted(weights_of(X), None)
    assert len(Recorder.fits) == len(Recorder.predictions) == 5
    label_of_row = dict(zip(map(tuple, X), NAMES[labels], strict=True))
    for (rows, y, weights), rest in zip(Recorder.fits, Recorder.predictions, strict=True):
        assert {*map(tuple, rows)}.isdisjoint(map(tuple, rest))
        assert len(rows) + len(rest) == len(X)
        np.testing.assert_array_equal(weights, weights_of(rows))
        assert y.tolist() == [label_of_row[tuple(row)] for row in rows]
    assert sorted(map(tuple, np.concatenate(Recorder.predictions))) == sorted(map(tuple, X))


def test_every_fold_has_every_class(recorder):
    X, labels = labelled_rows(n_rows=60)
    labels[:] = 0
    labels[:5] = 1
    foreign_erm(recorder, X, labels).cross_fitted(np.ones(60), None)
    assert [np.sum(y == NAMES[1]) for _, y, _ in Recorder.fits] == [4] * 5


def test_a_tree_that_knows_the_reference_by_heart_is_found_out():
    X, _ = labelled_rows(n_rows=200)
    labels = np.random.default_rng(5).integers(2, size=200)
    erm = foreign_erm(DecisionTreeClassifier(random_state=0), X, labels)
    by_heart = erm.fit(np.ones(200), None)
    assert np.mean(by_heart.predict(X) != NAMES[labels]) == 0.0
    assert 0.35 < np.mean(erm.cross_fitted(np.ones(200), by_heart) != labels) < 0.65


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist], ids=["array", "lists"])
def test_cross_fitted_classes_are_numbers(convert):
    X, labels = labelled_rows(n_classes=3)
    erm = foreign_erm(LogisticRegression(), convert(X), labels)
    found = erm.cross_fitted(np.ones(len(X)), None)
    assert found is not None
    assert found.dtype == labels.dtype
    assert np.mean(found == labels) > 0.5


def test_folds_of_a_frame_stay_frames():
    frame = customers(100, seed=0)
    labels = (frame["income"] > 1.0).to_numpy().astype(np.int64)
    erm = foreign_erm(make_pipeline(customer_encoder(), LogisticRegression()), frame, labels)
    found = erm.cross_fitted(np.ones(100), None)
    assert found is not None
    assert np.mean(found != labels) < 0.3


FOREIGN = {
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": RandomForestClassifier(n_estimators=10, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=3),
    "support vectors": SVC(),
    "naive Bayes": GaussianNB(),
    "logistic": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "nested pipeline": make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), LogisticRegression())),
}


each_foreign = pytest.mark.parametrize("estimator", FOREIGN.values(), ids=FOREIGN)
each_routing = pytest.mark.parametrize("has_routing", [False, True], ids=["no routing", "routing"])


def fit_by_hand(estimator, X, y, weights):
    """Fit a clone with the weights, naming the step they go to; needs metadata routing switched off."""
    estimator, name = clone(estimator), "sample_weight"
    last = estimator
    while hasattr(last, "steps"):
        name = "__".join([*name.split("__")[:-1], last.steps[-1][0], "sample_weight"])
        last = last.steps[-1][1]
    return estimator.fit(X, y, **{name: weights})


@each_routing
@each_foreign
def test_base_weights_and_importance_weights_reach_the_classifier(estimator, has_routing):
    X, y = labelled_rows(n_rows=200)
    base = np.exp(X[:, 1])
    with sklearn.config_context(enable_metadata_routing=has_routing):
        of_base = model_scores(AdaptiveClassifier(estimator).fit(X, y, sample_weight=base), PROBE)
        model = AdaptiveClassifier(estimator, LinearTilt(), refit="always").fit(X, y).adapt(tilt(1.0, 0.6))
        found = model_scores(model, PROBE)
    np.testing.assert_array_equal(of_base, model_scores(fit_by_hand(estimator, X, y, base), PROBE))
    by_hand = model_scores(fit_by_hand(estimator, X, y, model.reference_weight_), PROBE)
    unweighted = model_scores(fit_by_hand(estimator, X, y, np.ones(len(X))), PROBE)
    np.testing.assert_array_equal(found, by_hand)
    assert np.abs(by_hand - unweighted).max() > 0.01
    assert not hasattr(estimator, "_metadata_request")


@each_foreign
def test_any_classifier_goes_through_rounds_and_the_one_given_is_not_touched(estimator):
    estimator = clone(estimator)
    before = sorted(vars(estimator))
    model = after_rounds(8, estimator=estimator, refit=3)
    assert (model.n_rounds_, model.n_refits_) == (8, 2)
    assert model.predict(PROBE).shape == (40,)
    assert 0.0 < model.performance().value < 0.6
    assert model.estimator is estimator
    assert model.estimator_ is not estimator
    assert sorted(vars(estimator)) == before


CUSTOMER_MODELS = [
    make_pipeline(customer_encoder(), LogisticRegression()),
    make_pipeline(make_pipeline(customer_encoder(), StandardScaler()), GaussianNB()),
    make_pipeline(
        ColumnTransformer([("all", customer_encoder(), ["age", "income", "city"])]),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    ),
]


@each_routing
@pytest.mark.parametrize("estimator", rest_slow(CUSTOMER_MODELS), ids=["encoder", "nested", "of one column"])
def test_frames_with_categories_and_missing_values_reach_the_classifier(estimator, has_routing):
    frame, probe = customers(200, seed=0), customers(30, seed=1, has_new_city=True)
    y = np.where(frame["income"] + frame["age"].fillna(40.0) / 40.0 > 2.0, "buys", "leaves")
    with sklearn.config_context(enable_metadata_routing=has_routing):
        ratio = OnlineDensityRatio(customer_encoder())
        model = AdaptiveClassifier(estimator, ratio, refit="always", adaptation="always").fit(frame, y)
        for seed in range(48):
            batch = customers(8, seed=seed, has_new_city=True)
            model.adapt(batch.assign(income=3.0 * batch["income"]))
        found = model_scores(model, probe)
    by_hand = model_scores(fit_by_hand(estimator, frame, y, model.reference_weight_), probe)
    unweighted = model_scores(fit_by_hand(estimator, frame, y, np.ones(len(frame))), probe)
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)
    assert np.abs(by_hand - unweighted).max() > 0.01
    assert 0.0 <= model.performance().value <= 0.5
    assert model.state_.watch.column_shares.argmax() == 1
    assert model.predict_set(probe).shape == (30, 2)
    assert {name for event in model.drift_.events for name in event.features} <= {"age", "income", "city"}


def short_stream():
    return GaussianStream(SquareShift(period=5), n_rounds=8, n_reference=60, n_features=3)


@pytest.mark.parametrize("adaptation", rest_slow(["auto", "always"]))
def test_estimators_that_pass_weights_on_are_taken(adaptation):
    stream = GaussianStream(SquareShift(period=5), n_rounds=8, batch_size=20, n_reference=60, n_features=3)
    X, y = stream.reference()
    voting = VotingClassifier([("tree", DecisionTreeClassifier(max_depth=2)), ("line", LogisticRegression())])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    for estimator in (voting, search):
        model = AdaptiveClassifier(estimator, refit="always", adaptation=adaptation).fit(X, y)
        for batch in stream:
            model.adapt(batch.X)
        weights = model.state_.fitted_weights
        assert np.ptp(weights) > 0.5
        assert adaptation == "auto" or np.array_equal(weights, model.reference_weight_)
        by_hand = clone(estimator).fit(X, y, sample_weight=weights)
        np.testing.assert_array_equal(model.state_.estimator.predict(X), by_hand.predict(X))
        assert model.state_.safeguards.veto.is_held or model.estimator_ is model.state_.estimator


def test_an_estimator_that_writes_into_its_input_does_no_harm():
    stream = short_stream()
    X, y = stream.reference()
    answers = []
    for is_copying in (True, False):
        scaling = StandardScaler(copy=is_copying)
        ratio = OnlineDensityRatio(feature_map=StandardScaler(copy=is_copying))
        model = AdaptiveClassifier(make_pipeline(scaling, LogisticRegression()), ratio, refit="always").fit(X, y)
        for batch in stream:
            model.adapt(batch.X.copy())
        answers.append((model.predict_proba(X.copy()).tobytes(), model.ratio_.coef_.tobytes()))
        np.testing.assert_array_equal(model.reference_, X)
    assert answers[0] == answers[1]


def test_weighted_trees_get_bins_of_the_same_weight_and_columns_without_numbers_in_pipelines_too():
    rng = np.random.default_rng(0)
    X, weights = np.column_stack((rng.normal(size=(3000, 2)), rng.integers(9, size=3000))), rng.uniform(0.1, 2.0, 3000)
    X[rng.random(3000) < 0.2, 1] = np.nan
    thin = X.copy()
    _thin_values(thin, weights, 255)
    assert [len(np.unique(column[~np.isnan(column)])) for column in thin.T] == [255, 255, 9]
    assert (np.diff(thin[X[:, 0].argsort(), 0]) >= 0.0).all()
    assert np.bincount(np.unique(thin[:, 0], return_inverse=True)[1], weights).max() < 2.0 * weights.sum() / 255
    X[3:, 1] = np.nan  # too few numbers for a leaf
    labels = (X[:, 0] > 0.0).astype(int)
    trees = foreign_erm(make_pipeline(MinMaxScaler(), HistGradientBoostingClassifier()), X, labels)
    assert np.mean(trees.fit(weights, None).predict(X) != NAMES[labels]) < 0.01


# --- which classifiers take weights -------------------------------------------------------------------------


NEIGHBOURS = KNeighborsClassifier()
REFUSED = {
    "neighbours": (NEIGHBOURS, "sample_weight.*KNeighborsClassifier"),
    "pipeline": (make_pipeline(StandardScaler(), NEIGHBOURS), "sample_weight.*KNeighborsClassifier"),
    "nested pipeline": (make_pipeline(make_pipeline(StandardScaler(), NEIGHBOURS)), "KNeighborsClassifier"),
    "passed on": (VotingClassifier([("near", NEIGHBOURS), ("line", LogisticRegression())]), "VotingClassifier"),
    "text": ("logistic", "estimator must"),
    "number": (3, "estimator must"),
    "no last step": (make_pipeline(StandardScaler(), "passthrough"), "estimator must"),
    "regressor": (LinearRegression(), "estimator must"),
    "transformer": (StandardScaler(), "estimator must"),
}


@each_routing
@pytest.mark.parametrize(("estimator", "message"), REFUSED.values(), ids=REFUSED)
def test_what_takes_no_weights_or_is_no_classifier_is_refused_by_name(estimator, message, has_routing):
    with sklearn.config_context(enable_metadata_routing=has_routing), pytest.raises(ParameterError, match=message):
        AdaptiveClassifier(estimator).fit(*labelled_rows())


HAS_METHODS = {
    "ours": (None, True, True),
    "tree": (DecisionTreeClassifier(), True, False),
    "support vectors": (SVC(), False, True),
    "pipeline": (make_pipeline(StandardScaler(), SVC()), False, True),
}


@pytest.mark.parametrize(("estimator", "has_proba", "has_decision"), HAS_METHODS.values(), ids=HAS_METHODS)
def test_methods_are_there_where_the_classifier_has_them(estimator, has_proba, has_decision):
    model = AdaptiveClassifier(estimator)
    for _ in ("unfitted", "fitted"):
        assert hasattr(model, "predict_proba") == has_proba
        assert hasattr(model, "decision_function") == has_decision
        model.fit(*labelled_rows())


# --- boosted trees keep their splits, and their leaves follow the weights ------------------------------------


N_ROWS = 240
SMALL = {"max_iter": 12, "max_leaf_nodes": 6, "min_samples_leaf": 8, "random_state": 0}


def make_rows(kind):
    random = np.random.default_rng(5)
    X = random.normal(size=(N_ROWS, 4))
    X[::9, 2] = np.nan
    X[:, 3] = random.integers(0, 5, N_ROWS)
    target = X[:, 0] * X[:, 1] + (X[:, 3] == 2) + 0.5 * random.normal(size=N_ROWS)
    y = {"two classes": target > 0, "three classes": np.digitize(target, [-0.4, 0.6]), "numbers": target}[kind]
    return X, y.astype(float if kind == "numbers" else int), random.exponential(size=N_ROWS) + 0.1


def fit_trees(kind, **options):
    X, y, weights = make_rows(kind)
    cls = HistGradientBoostingRegressor if kind == "numbers" else HistGradientBoostingClassifier
    fitted = cls(**SMALL, categorical_features=[3], **options)
    return fitted.fit(X, y, sample_weight=weights), X, y, weights


def leaf_by_walking(tree, row):
    """The leaf of one row, node by node."""
    node = 0
    while not tree.nodes[node]["is_leaf"]:
        split = tree.nodes[node]
        value = row[int(split["feature_idx"])]
        if np.isnan(value):
            is_left = bool(split["missing_go_to_left"])
        elif split["is_categorical"]:
            bits = tree.raw_left_cat_bitsets[split["bitset_idx"]]
            is_left = bool((int(bits[int(value) // 32]) >> (int(value) % 32)) & 1)
        else:
            is_left = value <= split["num_threshold"]
        node = int(split["left"] if is_left else split["right"])
    return node


each_kind = pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])


@each_kind
@pytest.mark.parametrize(
    "options",
    [{"l2_regularization": 1.5}, *({"early_stopping": True, "validation_fraction": share} for share in (0.25, None))],
    ids=["penalty", "rows held back", "early stopping"],
)
def test_with_the_weights_of_the_fit_the_values_are_those_of_scikit_learn(kind, options):
    fitted, X, y, weights = fit_trees(kind, **options)
    assert fitted.do_early_stopping_ == ("early_stopping" in options)
    again = RevaluedTrees(fitted, X, y).revalued(weights)
    if "early_stopping" not in options:
        for step, new_step in zip(fitted._predictors, again._predictors, strict=True):
            for tree, new in zip(step, new_step, strict=True):
                is_leaf = tree.nodes["is_leaf"].astype(bool)
                np.testing.assert_allclose(new.nodes["value"][is_leaf], tree.nodes["value"][is_leaf], atol=1e-5)
    np.testing.assert_allclose(again._raw_predict(X), fitted._raw_predict(X), atol=1e-4)


@each_kind
def test_with_other_weights_the_values_are_newton_steps_in_the_same_leaves(kind):
    fitted, X, y, weights = fit_trees(kind, l2_regularization=1.5)
    other = np.roll(weights, 31)
    trees = RevaluedTrees(fitted, X, y)
    start, found = trees.values(other)
    n_scores = found.shape[1]
    one_hot = (y[:, None] == np.arange(3)) if n_scores == 3 else y[:, None]
    scores = np.tile(start, (N_ROWS, 1))
    rows = fitted._preprocess_X(X, reset=False)  # categories come first there
    for number, step in enumerate(fitted._predictors):
        if kind == "numbers":
            slopes, curves = scores - one_hot, np.ones_like(scores)
        else:
            odds = np.exp(scores)
            shares = odds / (1 + odds) if n_scores == 1 else odds / odds.sum(axis=1, keepdims=True)
            slopes, curves = shares - one_hot, shares * (1 - shares)
        for k, tree in enumerate(step):
            leaves = np.array([leaf_by_walking(tree, row) for row in rows])
            for leaf in np.unique(leaves):
                inside = leaves == leaf
                value = -0.1 * other[inside] @ slopes[inside, k] / (other[inside] @ curves[inside, k] + 1.5)
                assert found[number, k, leaf] == pytest.approx(value, rel=1e-9, abs=1e-12)
                scores[inside, k] += value
    np.testing.assert_allclose(trees.scores((start, found), trees.leaves_of(X)), scores, rtol=1e-9, atol=1e-12)


def test_only_trees_whose_values_have_this_form_are_given_new_ones():
    cls, regressor = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    assert all(map(can_be_revalued, (cls(), regressor())))
    others = cls(class_weight="balanced"), cls(monotonic_cst=[1]), cls(max_leaf_nodes=None), StandardScaler()
    assert not any(map(can_be_revalued, (regressor(loss="absolute_error"), *others)))


def adapt_trees(model, n_rounds, first=0):
    for number in range(first, first + n_rounds):
        model.adapt(np.random.default_rng(100 + number).normal(1.2, 0.6, size=(20, 4)))
    return model


def boosted(**options):
    X, y, _ = make_rows("two classes")
    trees = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(**SMALL))
    return AdaptiveClassifier(trees, **options).fit(np.nan_to_num(X), y)


def splits(estimator):
    return [step[0].nodes["num_threshold"].tolist() for step in estimator.steps[-1][1]._predictors]


def test_a_round_keeps_the_splits_and_moves_the_leaves():
    model = adapt_trees(boosted(), 25)
    adapted, fixed = model.state_.estimator, model.fixed_.estimator
    assert model.n_refits_ > 0
    assert splits(adapted) == splits(fixed)
    probe = np.random.default_rng(0).normal(size=(30, 4))
    assert np.abs(adapted.predict_proba(probe) - fixed.predict_proba(probe)).max() > 0.01
    assert 0.0 < model.performance().value < 1.0
    assert model.predict_set(probe).shape == (30, 2)


def test_a_rule_set_between_rounds_counts_as_after_saving(tmp_path):
    model, probe = adapt_trees(boosted(), 20).set_params(refit="always"), np.random.default_rng(0).normal(size=(30, 4))
    accous.save(model, tmp_path)
    resumed = accous.load(tmp_path, estimator=clone(model.estimator))
    for each in (model, resumed):
        adapt_trees(each, 10, first=20)
    assert splits(model.state_.estimator) != splits(model.fixed_.estimator)
    np.testing.assert_array_equal(resumed.predict_proba(probe), model.predict_proba(probe))


def test_a_row_is_predicted_alike_however_many_there_are():
    X = np.random.default_rng(0).normal(size=(600, 17))
    proba = AdaptiveClassifier().fit(X, X[:, 0] + X[:, 1] > 0.0).predict_proba
    assert np.concatenate([proba(X[i : i + 3]) for i in range(0, 600, 3)]).tobytes() == proba(X).tobytes()
