"""Weighted fits on the reference: our own regression, foreign classifiers, and predictions of rows not seen."""

from typing import Any, ClassVar, Self

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from accous.arrays import FloatArray, IntArray
from accous.core.regression import MAX_HESSIAN_COEFS
from accous.exceptions import ParameterError
from accous.model.predictors import ForeignErm, LinearPredictor, LogisticErm, require_sample_weight
from accous.model.tasks import ClassTask
from accous.threads import one_blas_thread
from tests.classifiers import customer_encoder, customers, labelled_rows

NAMES = np.array(["ash", "birch", "cedar"])

each_n_classes = pytest.mark.parametrize("n_classes", [2, 3])


def weights_of(X: FloatArray) -> FloatArray:
    return np.exp(X[:, 0])


def own_erm(X: FloatArray, labels: IntArray, C: float = 1.0) -> LogisticErm:
    return LogisticErm(X, labels, NAMES[: labels.max() + 1], C)


def foreign_erm(estimator: Any, X: Any, labels: IntArray) -> ForeignErm:
    classes = NAMES[: labels.max() + 1]
    return ForeignErm(estimator, X, ClassTask(classes, labels))


# --- our own regression -------------------------------------------------------------------------------------


@each_n_classes
def test_the_predictor_answers_like_scikit_learns(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes=n_classes)
    ours = own_erm(X, labels).fit(weights_of(X), None)
    theirs = LogisticRegression(tol=1e-10, max_iter=1000).fit(X, NAMES[labels], sample_weight=weights_of(X))
    probe, _ = labelled_rows(seed=1)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(probe), theirs.predict_proba(probe), atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(probe), theirs.decision_function(probe), atol=1e-4)
    assert ours.predict(probe).tolist() == theirs.predict(probe).tolist()


@each_n_classes
def test_the_penalty_is_that_of_the_C_given(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes=n_classes)
    norms = [np.linalg.norm(own_erm(X, labels, C).fit(weights_of(X), None).coef_) for C in (0.01, 1.0, 100.0)]
    assert norms[0] < 0.7 * norms[1] < norms[2]


@each_n_classes
def test_the_predictor_before_is_only_where_to_start(n_classes: int) -> None:
    X, labels = labelled_rows(n_classes=n_classes)
    erm = own_erm(X, labels)
    cold = erm.fit(weights_of(X), None)
    warm = erm.fit(weights_of(X), erm.fit(np.ones(len(X)), None))
    np.testing.assert_allclose(warm.coef_, cold.coef_, rtol=1e-7)


def test_very_large_scores_give_probabilities_without_overflow() -> None:
    predictor = LinearPredictor(np.array([[1e6]]), np.array([0.0]), np.array([0, 1]))
    assert predictor.predict_proba(np.array([[-1.0], [1.0]])).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_a_score_of_zero_is_the_first_class_as_in_scikit_learn() -> None:
    predictor = LinearPredictor(np.array([[1.0]]), np.array([0.0]), np.array(["a", "b"]))
    assert predictor.predict(np.array([[0.0]])).tolist() == ["a"]


@each_n_classes
def test_cross_fitted_classes_are_nearly_those_of_fits_without_the_row(n_classes: int) -> None:
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


@pytest.mark.parametrize(("n_rows", "is_known"), [(1, False), (2, True)])
def test_no_cross_fit_of_our_own_where_a_class_has_one_row(n_rows: int, is_known: bool) -> None:
    X, labels = labelled_rows(n_rows=20)
    labels[:] = 0
    labels[:n_rows] = 1
    erm = own_erm(X, labels)
    found = erm.cross_fitted(np.ones(20), erm.fit(np.ones(20), None))
    assert (found is not None) == is_known


def random_rows_of_three_classes() -> tuple[FloatArray, IntArray]:
    """Too many coefficients for a Hessian, and nothing to learn."""
    n = MAX_HESSIAN_COEFS // 3 + 10
    return np.random.default_rng(0).normal(size=(n, n)), np.arange(n) % 3


def test_with_many_coefficients_the_cross_fit_does_not_see_the_row() -> None:
    """Nothing can be learned about the labels of random rows."""
    X, labels = random_rows_of_three_classes()
    with one_blas_thread():
        erm = own_erm(X, labels)
        fitted = erm.fit(np.ones(len(X)), None)
        found = erm.cross_fitted(np.ones(len(X)), fitted)
    assert np.mean(fitted.predict(X) != NAMES[labels]) == 0.0
    assert 0.5 < np.mean(found != labels) < 0.85


@pytest.mark.parametrize(("n_rows", "is_known"), [(4, False), (5, True)])
def test_with_many_coefficients_folds_need_five_rows_of_every_class(n_rows: int, is_known: bool) -> None:
    X, labels = random_rows_of_three_classes()
    labels = np.where(np.arange(len(X)) < n_rows, 2, labels % 2)
    with one_blas_thread():
        erm = own_erm(X, labels)
        found = erm.cross_fitted(np.ones(len(X)), erm.fit(np.ones(len(X)), None))
    assert (found is not None) == is_known


def test_rows_much_wider_than_long_are_left_out_one_by_one() -> None:
    """In the axes that the rows span there are few coefficients, however many columns there are."""
    X, labels = np.random.default_rng(0).normal(size=(30, 2 * MAX_HESSIAN_COEFS)), (np.arange(30) < 4).astype(np.int64)
    with one_blas_thread():
        erm = own_erm(X, labels)
        assert erm.cross_fitted(np.ones(30), erm.fit(np.ones(30), None)) is not None


# --- foreign classifiers ------------------------------------------------------------------------------------


class Recorder(GaussianNB):
    """Naive Bayes that notes what every fit and prediction was given."""

    fits: ClassVar[list[tuple[Any, Any, Any]]] = []
    predictions: ClassVar[list[Any]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.fits.append((X, y, sample_weight))
        return super().fit(X, y, sample_weight)

    def predict(self, X: Any) -> Any:
        self.predictions.append(X)
        return super().predict(X)


@pytest.fixture
def recorder() -> Recorder:
    Recorder.fits.clear()
    Recorder.predictions.clear()
    return Recorder()


def test_a_fit_gets_rows_labels_and_weights(recorder: Recorder) -> None:
    X, labels = labelled_rows(n_classes=3)
    foreign_erm(recorder, X, labels).fit(weights_of(X), None)
    (fit,) = Recorder.fits
    np.testing.assert_array_equal(fit[0], X)
    assert fit[1].tolist() == NAMES[labels].tolist()
    np.testing.assert_array_equal(fit[2], weights_of(X))


def test_every_fit_is_of_a_fresh_clone(recorder: Recorder) -> None:
    X, labels = labelled_rows()
    erm = foreign_erm(recorder, X, labels)
    first = erm.fit(np.ones(len(X)), None)
    before = first.theta_.tobytes()
    second = erm.fit(weights_of(X), first)
    assert first is not second
    assert first.theta_.tobytes() == before != second.theta_.tobytes()
    assert not hasattr(recorder, "theta_")


def test_folds_cover_every_row_once_and_never_show_it_to_its_own_fit(recorder: Recorder) -> None:
    X, labels = labelled_rows()
    foreign_erm(recorder, X, labels).cross_fitted(weights_of(X), None)
    assert len(Recorder.fits) == len(Recorder.predictions) == 5
    for (rows, *_), rest in zip(Recorder.fits, Recorder.predictions, strict=True):
        assert {*map(tuple, rows)}.isdisjoint(map(tuple, rest))
        assert len(rows) + len(rest) == len(X)
    assert sorted(map(tuple, np.concatenate(Recorder.predictions))) == sorted(map(tuple, X))


def test_folds_get_the_labels_and_weights_of_their_rows(recorder: Recorder) -> None:
    X, labels = labelled_rows(n_classes=3)
    foreign_erm(recorder, X, labels).cross_fitted(weights_of(X), None)
    label_of_row = dict(zip(map(tuple, X), NAMES[labels], strict=True))
    for rows, y, weights in Recorder.fits:
        np.testing.assert_array_equal(weights, weights_of(rows))
        assert y.tolist() == [label_of_row[tuple(row)] for row in rows]


def test_every_fold_has_every_class(recorder: Recorder) -> None:
    X, labels = labelled_rows(n_rows=60)
    labels[:] = 0
    labels[:5] = 1
    foreign_erm(recorder, X, labels).cross_fitted(np.ones(60), None)
    assert [np.sum(y == NAMES[1]) for _, y, _ in Recorder.fits] == [4] * 5


@pytest.mark.parametrize(("n_rows", "is_known"), [(1, False), (4, False), (5, True)])
def test_no_foreign_cross_fit_where_a_class_has_fewer_than_five_rows(n_rows: int, is_known: bool) -> None:
    X, labels = labelled_rows(n_rows=40)
    labels[:] = 0
    labels[:n_rows] = 1
    found = foreign_erm(GaussianNB(), X, labels).cross_fitted(np.ones(40), None)
    assert (found is not None) == is_known


def test_a_tree_that_knows_the_reference_by_heart_is_found_out() -> None:
    X, _ = labelled_rows(n_rows=200)
    labels = np.random.default_rng(5).integers(2, size=200)
    erm = foreign_erm(DecisionTreeClassifier(random_state=0), X, labels)
    by_heart = erm.fit(np.ones(200), None)
    assert np.mean(by_heart.predict(X) != NAMES[labels]) == 0.0
    assert 0.35 < np.mean(erm.cross_fitted(np.ones(200), by_heart) != labels) < 0.65


@pytest.mark.parametrize("convert", [np.asarray, np.ndarray.tolist], ids=["array", "lists"])
def test_cross_fitted_classes_are_numbers(convert: Any) -> None:
    X, labels = labelled_rows(n_classes=3)
    erm = foreign_erm(LogisticRegression(), convert(X), labels)
    found = erm.cross_fitted(np.ones(len(X)), None)
    assert found is not None
    assert found.dtype == labels.dtype
    assert np.mean(found == labels) > 0.5


def test_folds_of_a_frame_stay_frames() -> None:
    frame = customers(100, seed=0)
    labels = (frame["income"] > 1.0).to_numpy().astype(np.int64)
    erm = foreign_erm(make_pipeline(customer_encoder(), LogisticRegression()), frame, labels)
    found = erm.cross_fitted(np.ones(100), None)
    assert found is not None
    assert np.mean(found != labels) < 0.3


# --- which classifiers take weights -------------------------------------------------------------------------


TAKES_WEIGHTS = {
    "logistic": LogisticRegression(),
    "tree": DecisionTreeClassifier(),
    "calibrated": CalibratedClassifierCV(LogisticRegression()),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "nested pipeline": make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())),
}
TAKES_NONE = {
    "neighbours": KNeighborsClassifier(),
    "pipeline": make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "nested pipeline": make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), KNeighborsClassifier())),
}
NO_ESTIMATORS = {"text": "logistic", "number": 3, "no last step": make_pipeline(StandardScaler(), "passthrough")}


@pytest.mark.parametrize("estimator", TAKES_WEIGHTS.values(), ids=TAKES_WEIGHTS)
def test_a_classifier_that_takes_weights_is_let_pass(estimator: Any) -> None:
    require_sample_weight(estimator)


@pytest.mark.parametrize("estimator", TAKES_NONE.values(), ids=TAKES_NONE)
def test_a_classifier_without_weights_is_refused_by_name(estimator: Any) -> None:
    with pytest.raises(ParameterError, match=r"^estimator must take sample_weight.*KNeighborsClassifier"):
        require_sample_weight(estimator)


@pytest.mark.parametrize("estimator", NO_ESTIMATORS.values(), ids=NO_ESTIMATORS)
def test_what_is_no_estimator_is_refused(estimator: Any) -> None:
    with pytest.raises(ParameterError, match=r"^estimator must"):
        require_sample_weight(estimator)
