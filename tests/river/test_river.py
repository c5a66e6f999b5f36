"""The models in river's loops: river's own checks, and what each kind of row does."""

import copy
import pickle
from collections import Counter

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.exceptions import DataError, ParameterError
from accous.streams import GaussianRegressionStream, GaussianStream, SquareShift
from tests.needs import RIVER

river = pytest.importorskip("river", reason=RIVER)

from river import checks, compose, evaluate, metrics, preprocessing  # noqa: E402

from accous.river import AdaptiveModel, AdaptiveRegressionModel  # noqa: E402

NAMES = ["a", "b", "c"]


CHECKED = {
    "default": AdaptiveModel(n_reference=50),
    "pipeline": AdaptiveModel(AdaptiveClassifier(GaussianNB()), n_reference=40),
    "numbers": AdaptiveRegressionModel(n_reference=50),
}


def named_checks():
    """Each check of river's, with the model it is for; river numbers checks of one name by their data.

    `make test` runs each check once, and one check of a second model. Checks with other data are slow.
    """
    found = []
    for name, model in CHECKED.items():
        counts = Counter()
        for check in checks.yield_checks(model):
            kind = check.__name__
            counts[kind] += 1
            is_repeated = name == "pipeline" and kind != "check_learn_one"
            is_slow = counts[kind] > 1 or is_repeated or (name != "default" and kind == "check_bounded_memory_growth")
            marks = [pytest.mark.slow] if is_slow else []
            found.append(pytest.param(model, check, id=f"{name}-{kind}-{counts[kind]}", marks=marks))
    return found


def rows(n_rows=200, seed=0):
    stream = GaussianStream(SquareShift(period=40), n_features=3, n_rounds=n_rows, random_state=seed)
    labels = {False: "no", True: "yes"}
    return [(dict(zip(NAMES, batch.X[0].tolist(), strict=True)), labels[bool(batch.y[0] > 0)]) for batch in stream]


def as_array(part):
    return np.array([list(x.values()) for x, _ in part])


def labels_of(part):
    return np.array([y for _, y in part])


def learned(n_reference=40, n_rows=40, model=None, **options):
    """A model of our own with a reference."""
    model = AdaptiveModel(model, n_reference=n_reference, **options)
    for x, y in rows(n_rows):
        model.learn_one(x, y)
    return model


@pytest.mark.filterwarnings("ignore::accous.exceptions.DataWarning")
@pytest.mark.parametrize(("model", "check"), named_checks())
def test_rivers_own_checks(model, check):
    check(copy.deepcopy(model))


def test_labelled_rows_make_the_reference_and_later_ones_are_predicted_adapted_to_and_counted():
    data = rows()
    model = AdaptiveModel(n_reference=80)
    expected = AdaptiveClassifier().fit(as_array(data[:80]), labels_of(data[:80]))
    for number, (x, y) in enumerate(data):
        found = model.predict_one(x)
        if number >= 80:
            row = as_array([(x, y)])
            assert found == expected.predict(row)[0]
            shares = model.predict_proba_one(x)
            assert [shares[label] for label in ("no", "yes")] == expected.predict_proba(row)[0].tolist()
            expected.observe(row, labels_of([(x, y)]), predicted=expected.step(row))
        assert model.learn_one(x, y) is None
    assert model.fitted.n_rounds_ == 120
    assert model.fitted.reference_weight_.tobytes() == expected.reference_weight_.tobytes()
    found = model.fitted.performance()
    assert (found.n_labels, found.basis) == (120, "labels")
    assert found == expected.performance()


def test_rows_without_a_label_are_learned_from_once_there_is_a_reference():
    data, model = rows(), AdaptiveModel(n_reference=80)
    for x, _ in data[:5]:
        model.learn_one(x)
    assert model.fitted is None
    assert model.predict_one(data[0][0]) is None
    assert model.predict_proba_one(data[0][0]) == {}
    model = learned(80, 80)
    for x, _ in data[80:]:
        model.learn_one(x)
    assert (model.fitted.n_rounds_, model.fitted.performance().n_labels) == (120, 0)
    for x, y in data[80:110]:
        model.observe_one(x, y)
    assert (model.fitted.n_rounds_, len(model.fitted.state_.labelled)) == (120, 30)
    assert model.fitted.performance().basis == "expected", "labels of a quarter of the rows, and nobody knows which"


def test_the_first_labels_are_predicted_by_their_shares():
    model = AdaptiveModel(n_reference=10)
    for label in ("x", "x", "y"):
        model.learn_one({"a": 1.0}, label)
    assert model.predict_proba_one({"a": 3.0}) == {"x": 2 / 3, "y": 1 / 3}
    assert model.predict_one({"a": 3.0}) == "x"


def test_one_class_alone_is_no_reference_and_takes_no_more_memory():
    model = AdaptiveModel(n_reference=20)
    for number in range(100):
        model.learn_one({"a": float(number)}, "no")
    assert model.fitted is None
    assert len(model._rows) == len(model._labels) == 19
    model.learn_one({"a": 1.0}, "yes")
    assert model.fitted.reference_.tolist() == [[float(number)] for number in (*range(81, 100), 1)]
    assert model._rows == []


def test_classes_that_come_late_and_features_in_any_order():
    model, x = learned(), rows(60)[50][0]
    turned = {"new": 7.0, "c": x["c"], "b": x["b"], "a": x["a"]}
    assert model.predict_proba_one(turned) == model.predict_proba_one(x)
    assert model.predict_proba_one({"a": x["a"]}) == model.predict_proba_one(x | {"b": 0.0, "c": 0.0})
    model.learn_one(rows(60)[41][0], "maybe")
    shares = model.predict_proba_one(x)
    assert (shares["maybe"], sum(shares.values())) == (0.0, pytest.approx(1.0))
    assert model.fitted.state_.labelled.y.tolist() == [-1]


@pytest.mark.parametrize(
    ("value", "advice"), [("red", "OneHotEncoder"), (None, "StatImputer"), (float("nan"), "StatImputer")]
)
@pytest.mark.parametrize("has_reference", [False, True])
def test_a_feature_that_is_no_number_is_named(value, advice, has_reference):
    model = AdaptiveModel(n_reference=4)
    for number in range(4 * has_reference):
        model.learn_one({"a": float(number), "colour": 1.0}, number % 2)
    with pytest.raises(DataError, match=f"Feature 'colour' is .*{advice}"):
        model.learn_one({"a": 1.0, "colour": value}, 1)


def test_it_works_in_a_pipeline_and_in_progressive_validation():
    data = [(x | {"colour": "red" if x["a"] > 0 else "blue"}, x["a"] + x["b"] > 1.0) for x, _ in rows(300)]
    numbers = compose.Select("a", "b", "c") | preprocessing.StandardScaler()
    model = (numbers + (compose.Select("colour") | preprocessing.OneHotEncoder())) | AdaptiveModel(n_reference=100)
    metric = evaluate.progressive_val_score(data, model, metrics.Accuracy())
    most_frequent = max(Counter(y for _, y in data).values()) / len(data)
    assert metric.get() > most_frequent + 0.1
    fitted = model["AdaptiveModel"].fitted
    assert fitted.n_rounds_ == 200
    assert fitted.n_features_in_ == 5


def test_parameters_are_passed_on_and_kept_apart():
    given, x = AdaptiveClassifier(C=0.5), rows(1)[0][0]
    model = learned(120, 130, given, ordered=True)
    assert model.fitted.C == 0.5
    assert model.fitted.backtest_ is not None
    assert not hasattr(given, "classes_")
    assert model.clone().fitted is None
    assert pickle.loads(pickle.dumps(model)).predict_one(x) == model.predict_one(x)
    model = learned(40, 45, AdaptiveClassifier(LinearSVC()))
    assert model.predict_one(x) in ("no", "yes")
    with pytest.raises(NotImplementedError):
        model.predict_proba_one(x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda size=size: AdaptiveModel(n_reference=size), "n_reference") for size in (1, 2.5, "many")),
        (lambda: AdaptiveModel(AdaptiveRegressor()), "AdaptiveRegressionModel for numbers"),
        (lambda: AdaptiveRegressionModel(AdaptiveClassifier()), "AdaptiveModel is"),
    ],
)
def test_a_wrong_size_and_a_model_of_the_other_kind_are_refused(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def numbers(n_rows):
    stream = GaussianRegressionStream(SquareShift(period=40), n_features=3, n_rounds=n_rows, random_state=0)
    return [(dict(zip(NAMES, batch.X[0].tolist(), strict=True)), float(batch.y[0])) for batch in stream]


def test_numbers_are_predicted_by_their_mean_and_then_by_the_regressor():
    data = numbers(120)
    model = AdaptiveRegressionModel(n_reference=80)
    assert model.predict_one(data[0][0]) == 0.0
    expected = AdaptiveRegressor().fit(as_array(data[:80]), labels_of(data[:80]))
    for number, (x, y) in enumerate(data):
        if number == 2:
            assert model.predict_one(x) == pytest.approx((data[0][1] + data[1][1]) / 2)
        if number >= 80:
            assert model.predict_one(x) == expected.predict(as_array([(x, y)]))[0]
            row = as_array([(x, y)])
            expected.observe(row, labels_of([(x, y)]), predicted=expected.step(row))
        model.learn_one(x, y)
    assert model.fitted.n_rounds_ == model.fitted.performance().n_labels == 40


def test_equal_numbers_are_no_reference():
    model = AdaptiveRegressionModel(n_reference=5)
    for number in range(9):
        model.learn_one({"a": float(number)}, 1.0)
    assert model.fitted is None
    model.learn_one({"a": 1.0}, 2.0)
    assert model.fitted is not None


CODE = """
import sys
class NoRiver:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "river":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, NoRiver)
import accous
from accous.exceptions import MissingExtraError
try:
    accous.river
except MissingExtraError as error:
    print(error)
"""


def test_without_river_the_error_says_what_to_install(library_forks):
    run = library_forks.run(CODE, kind="code")
    assert "pip install 'accous[river]'" in run.stdout
