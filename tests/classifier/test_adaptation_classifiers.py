"""AdaptiveClassifier around any classifier: the weights reach it, and one that takes none is refused."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import ParameterError
from tests.classifiers import (
    PROBE,
    Array,
    Labels,
    LinearTilt,
    customer_encoder,
    customers,
    labelled_rows,
    model_scores,
    played,
    tilt,
)

each_n_classes = pytest.mark.parametrize("n_classes", [2, 4])


@pytest.fixture(autouse=True, scope="module")
def _one_openmp_thread() -> Iterator[None]:
    """Boosting on a few rows is faster alone than with threads that wait for each other."""
    with threadpool_limits(1, user_api="openmp"):
        yield


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


def fit_by_hand(estimator: Any, X: Any, y: Labels, weights: Array) -> Any:
    """Fit a clone with the weights, naming the step they go to; needs metadata routing switched off."""
    estimator, name = clone(estimator), "sample_weight"
    last = estimator
    while hasattr(last, "steps"):
        name = "__".join([*name.split("__")[:-1], last.steps[-1][0], "sample_weight"])
        last = last.steps[-1][1]
    return estimator.fit(X, y, **{name: weights})


@each_routing
@each_foreign
def test_the_weights_reach_the_classifier(estimator: Any, has_routing: bool) -> None:
    X, y = labelled_rows(n_rows=200)
    with sklearn.config_context(enable_metadata_routing=has_routing):
        model = AdaptiveClassifier(estimator, LinearTilt(), refit="always").fit(X, y).adapt(tilt(1.0, 0.6))
        found = model_scores(model, PROBE)
    by_hand = model_scores(fit_by_hand(estimator, X, y, model.reference_weight_), PROBE)
    unweighted = model_scores(fit_by_hand(estimator, X, y, np.ones(len(X))), PROBE)
    np.testing.assert_array_equal(found, by_hand)
    assert np.abs(by_hand - unweighted).max() > 0.01


@each_routing
@each_foreign
def test_base_weights_reach_the_classifier(estimator: Any, has_routing: bool) -> None:
    X, y = labelled_rows(n_rows=200)
    base = np.exp(X[:, 1])
    with sklearn.config_context(enable_metadata_routing=has_routing):
        model = AdaptiveClassifier(estimator).fit(X, y, sample_weight=base)
        found = model_scores(model, PROBE)
    np.testing.assert_array_equal(found, model_scores(fit_by_hand(estimator, X, y, base), PROBE))


@each_foreign
def test_any_classifier_goes_through_rounds(estimator: Any) -> None:
    model = played(8, estimator=estimator, refit=3)
    assert model.n_rounds_ == 8
    assert model.n_refits_ == 2
    assert model.predict(PROBE).shape == (40,)
    assert 0.0 < model.risk_estimate_ < 0.6


@each_foreign
def test_the_classifier_given_is_not_touched(estimator: Any) -> None:
    estimator = clone(estimator)
    before = sorted(vars(estimator))
    model = played(4, estimator=estimator, refit="always")
    assert model.estimator is estimator
    assert model.estimator_ is not estimator
    assert sorted(vars(estimator)) == before


@each_routing
def test_routing_requests_of_the_classifier_given_are_not_touched(has_routing: bool) -> None:
    estimator = LogisticRegression()
    with sklearn.config_context(enable_metadata_routing=has_routing):
        played(2, estimator=estimator, refit="always")
    assert not hasattr(estimator, "_metadata_request")


CUSTOMER_MODELS = {
    "encoder inside": make_pipeline(customer_encoder(), LogisticRegression()),
    "encoder in a nested pipeline": make_pipeline(make_pipeline(customer_encoder(), StandardScaler()), GaussianNB()),
    "encoder of one column": make_pipeline(
        ColumnTransformer([("all", customer_encoder(), ["age", "income", "city"])]),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    ),
}


@pytest.mark.parametrize(
    ("has_routing", "estimator"),
    [
        (False, CUSTOMER_MODELS["encoder inside"]),
        (True, CUSTOMER_MODELS["encoder inside"]),
        *(
            pytest.param(has_routing, model, marks=pytest.mark.slow)
            for has_routing in (False, True)
            for name, model in CUSTOMER_MODELS.items()
            if name != "encoder inside"
        ),
    ],
)
def test_frames_with_categories_and_missing_values_reach_the_classifier(estimator: Any, has_routing: bool) -> None:
    frame, probe = customers(200, seed=0), customers(30, seed=1, has_new_city=True)
    y = np.where(frame["income"] + frame["age"].fillna(40.0) / 40.0 > 2.0, "buys", "leaves")
    with sklearn.config_context(enable_metadata_routing=has_routing):
        ratio = OnlineDensityRatio(customer_encoder())
        model = AdaptiveClassifier(estimator, ratio, refit="always", fallback="none").fit(frame, y)
        for seed in range(20):
            batch = customers(8, seed=seed, has_new_city=True)
            model.adapt(batch.assign(income=3.0 * batch["income"]))
        found = model_scores(model, probe)
    by_hand = model_scores(fit_by_hand(estimator, frame, y, model.reference_weight_), probe)
    unweighted = model_scores(fit_by_hand(estimator, frame, y, np.ones(len(frame))), probe)
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)
    assert np.abs(by_hand - unweighted).max() > 0.01
    assert 0.0 <= model.risk_estimate_ <= 0.5


WITHOUT_WEIGHTS = {
    "neighbours": KNeighborsClassifier(),
    "pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier()),
}


@each_routing
@pytest.mark.parametrize("estimator", WITHOUT_WEIGHTS.values(), ids=WITHOUT_WEIGHTS)
def test_a_classifier_that_takes_no_weights_is_refused_by_name(estimator: Any, has_routing: bool) -> None:
    with (
        sklearn.config_context(enable_metadata_routing=has_routing),
        pytest.raises(ParameterError, match=r"estimator.*sample_weight.*KNeighborsClassifier"),
    ):
        AdaptiveClassifier(estimator).fit(*labelled_rows())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_neural_network_is_weighted_or_refused_as_its_version_has_it() -> None:
    model = AdaptiveClassifier(MLPClassifier(max_iter=3, random_state=0), LinearTilt(), refit="always")
    if not has_fit_parameter(model.estimator, "sample_weight"):
        with pytest.raises(ParameterError, match="MLPClassifier"):
            model.fit(*labelled_rows())
        return
    before = model.fit(*labelled_rows()).predict_proba(PROBE)
    assert np.abs(model.adapt(tilt(1.0, 0.6)).predict_proba(PROBE) - before).max() > 1e-4


@pytest.mark.parametrize("estimator", [LinearRegression(), StandardScaler()], ids=["regressor", "transformer"])
def test_what_is_no_classifier_is_refused(estimator: Any) -> None:
    with pytest.raises(ParameterError, match=r"^estimator must"):
        AdaptiveClassifier(estimator).fit(*labelled_rows())


def test_a_penalty_beside_an_estimator_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"^C .*estimator"):
        AdaptiveClassifier(LogisticRegression(), C=2.0).fit(*labelled_rows())


@pytest.mark.parametrize("C", [0, -1.0, np.nan, np.inf, 1e101, "1", None, True])
def test_a_bad_penalty_is_refused(C: Any) -> None:
    with pytest.raises(ParameterError, match=r"^C must be a finite number above 0 and at most 1e\+100, got"):
        AdaptiveClassifier(C=C).fit(*labelled_rows())


HAS_METHODS = {
    "ours": (None, True, True),
    "tree": (DecisionTreeClassifier(), True, False),
    "support vectors": (SVC(), False, True),
    "pipeline": (make_pipeline(StandardScaler(), SVC()), False, True),
}


@pytest.mark.parametrize(("estimator", "has_proba", "has_decision"), HAS_METHODS.values(), ids=HAS_METHODS)
def test_methods_are_there_where_the_classifier_has_them(estimator: Any, has_proba: bool, has_decision: bool) -> None:
    model = AdaptiveClassifier(estimator)
    for _ in ("unfitted", "fitted"):
        assert hasattr(model, "predict_proba") == has_proba
        assert hasattr(model, "decision_function") == has_decision
        model.fit(*labelled_rows())


@each_n_classes
def test_scores_have_scikit_learns_shapes(n_classes: int) -> None:
    X, y = labelled_rows(n_classes=n_classes)
    model = AdaptiveClassifier().fit(X, y)
    probabilities = model.predict_proba(PROBE)
    assert probabilities.shape == (40, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert model.decision_function(PROBE).shape == ((40,) if n_classes == 2 else (40, n_classes))
    np.testing.assert_array_equal(model.predict(PROBE), model.classes_[probabilities.argmax(axis=1)])
