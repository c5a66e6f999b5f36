"""What people pass by mistake is an AccousError whose message is one line and says what to do."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import accous
from accous import AccousError, AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio
from accous.keyed import KeyedAdapter

ROWS = np.random.default_rng(0).normal(size=(120, 3))
CLASSES = (ROWS[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(ROWS, columns=["a", "b", "c"])
WITH_TEXT = ROWS.astype(object)
WITH_TEXT[4, 1] = "many"


def fitted(X=ROWS):
    return AdaptiveClassifier().fit(X, CLASSES)


def fitted_by_name():
    columns = make_column_transformer((StandardScaler(), ["a", "b", "c"]))
    pipeline = make_pipeline(columns, LogisticRegression())
    return AdaptiveClassifier(pipeline, ratio=OnlineDensityRatio(feature_map=columns)).fit(FRAME, CLASSES)


REFUSALS = {
    "missing column": (
        lambda: fitted(FRAME).step(FRAME[["a", "b"]]),
        "X has no column 'c', which the reference has: add",
    ),
    "misspelt column": (
        lambda: fitted(FRAME).step(FRAME.rename(columns={"c": "C"})),
        "add it, or correct its name. X has 'C', which the reference has not.",
    ),
    "flat list": (lambda: fitted().step([1.0, 2.0, 3.0]), r"got one dimension.*\[row\] of a list"),
    "flat list for a pipeline": (lambda: fitted_by_name().step([1.0, 2.0, 3.0]), "got one dimension"),
    "None": (lambda: fitted().step(None), "got None: pass rows and columns"),
    "number": (lambda: fitted().step(3.0), r"got 3\.0: pass rows and columns"),
    "text": (lambda: fitted().step("a,b,c"), "got 'a,b,c': pass rows and columns"),
    "complex": (lambda: fitted().step(ROWS * 1j), "Complex data not supported: pass the real and the imaginary parts"),
    "sparse": (lambda: fitted().step(sparse.csr_matrix(ROWS)), r"Sparse data .*: pass X\.toarray\(\)"),
    "name twice": (
        lambda: fitted(FRAME.set_axis(["a", "b", "b"], axis=1)),
        "several columns called 'b': rename or drop",
    ),
    "name twice for a pipeline": (
        lambda: fitted_by_name().step(FRAME.set_axis(["a", "b", "b"], axis=1)),
        "X has no column 'c'",
    ),
    "word": (lambda: fitted().step(WITH_TEXT), r"Column 1 cannot be read as numbers in row 4 .*'many'"),
    "word in a list": (lambda: fitted().step(WITH_TEXT.tolist()), r"Column 1 cannot be read as numbers in row 4 "),
    "word in a frame": (
        lambda: fitted(FRAME).step(pd.DataFrame(WITH_TEXT, columns=["a", "b", "c"])),
        r"Column 'b' cannot be read as numbers in row 4 ",
    ),
    "numbers as classes": (lambda: AdaptiveClassifier().fit(ROWS, ROWS[:, 0]), "type: continuous.*AdaptiveRegressor"),
    "two labels": (
        lambda: AdaptiveClassifier().fit(ROWS, ROWS[:, :2] > 0),
        r"y must have .* shape \(120, 2\): pass one",
    ),
    "two numbers": (
        lambda: AdaptiveRegressor().fit(ROWS, ROWS[:, :2]),
        r"y must have .* shape \(120, 2\): pass one col",
    ),
    "lists as labels": (
        lambda: AdaptiveClassifier().fit(ROWS, [[0, 1], [1]] * 60),
        "y must have one value for each row, got rows with several: pass one column",
    ),
    "complex labels": (lambda: AdaptiveClassifier().fit(ROWS, CLASSES * 1j), "y cannot be read: Complex data"),
    "few weights": (
        lambda: AdaptiveClassifier().fit(ROWS, CLASSES, sample_weight=[1.0, 2.0]),
        r"sample_weight must have one number for each of the 120 rows, got the shape \(2,\)",
    ),
    "ragged weights": (
        lambda: AdaptiveClassifier().fit(ROWS, CLASSES, sample_weight=[[1.0, 2.0], [1.0]] * 60),
        "sample_weight must have one number for each of the 120 rows, got the shape of a list of lists",
    ),
    "word after a missing value": (
        lambda: fitted(FRAME).step(pd.DataFrame({"a": [1.0, 2.0], "b": [None, "many"], "c": [1.0, 2.0]})),
        r"Column 'b' cannot be read as numbers in row 1 ",
    ),
    "weights in words": (
        lambda: AdaptiveClassifier().fit(ROWS, CLASSES, sample_weight=["a"] * 120),
        "sample_weight must be finite numbers",
    ),
    "not fitted": (lambda: AdaptiveClassifier().adapt(ROWS), "AdaptiveClassifier is not fitted yet: call fit"),
    "no trust yet": (lambda: AdaptiveClassifier().trust_, "has no trust_ yet: call fit"),
    "saved too early": (lambda: accous.save(OnlineDensityRatio(), "nowhere"), "is not fitted yet: call fit"),
    "array for names": (lambda: fitted_by_name().step(ROWS), "X is an array, but your pipeline finds columns by their"),
    "name as order": (
        lambda: AdaptiveClassifier().fit(ROWS, CLASSES, order="day"),
        r"order is 'day', but it takes the times themselves, as X\['day'\], or True",
    ),
    "class for a model": (
        lambda: accous.backtest(AdaptiveClassifier, ROWS, CLASSES),
        "got the class AdaptiveClassifier: ",
    ),
    "none for a model": (lambda: accous.backtest(None, ROWS, CLASSES), "got a NoneType: pass a model"),
    "no states": (
        lambda: KeyedAdapter(fitted()).step_many(None, [1] * 120, None, ROWS),
        "states must be a dict of key to bytes, got NoneType: begin with {}",
    ),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.parametrize(("call", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_mistake_is_an_error_of_ours_in_one_line(call, message):
    with pytest.raises(AccousError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


def test_an_unfitted_model_raises_the_error_that_scikit_learn_has_for_it():
    with pytest.raises(NotFittedError):
        AdaptiveClassifier().predict(ROWS)
    assert not hasattr(AdaptiveClassifier(), "trust_")


def test_what_scikit_learn_calls_a_wrong_type_is_a_type_error_too():
    with pytest.raises(TypeError, match="Sparse"):
        fitted().step(sparse.csr_matrix(ROWS))
