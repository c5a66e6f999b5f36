"""Predictors by name: a registry for classifiers and regressors, and functions of the user's."""

import numpy as np
import pytest
from sklearn.base import is_classifier, is_regressor

from accous.exceptions import ParameterError
from accous.table.model import NAMES, make_estimator

BLOCKS = (("category", 3), ("number with mark", 2))


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize(("kind", "is_kind"), [("classifier", is_classifier), ("regressor", is_regressor)])
def test_each_name_has_a_predictor_of_each_kind(name, kind, is_kind):
    estimator = make_estimator(name, kind=kind, seed=3, blocks=BLOCKS)
    assert is_kind(estimator)
    random = np.random.default_rng(0)
    X = np.column_stack((np.eye(3)[random.integers(0, 3, 90)], random.normal(size=90), random.random(90) < 0.1))
    y = X[:, 0] + X[:, 3] > 0.4
    assert estimator.fit(X, y).predict(X).shape == (90,)


def test_linear_is_the_built_in_one():
    assert make_estimator("linear", kind="regressor", seed=0, blocks=()) is None


def test_categories_reach_the_trees_as_categories():
    boosting = make_estimator("boosting", kind="classifier", seed=0, blocks=BLOCKS).steps[-1][1]
    assert boosting.categorical_features == [True, False]


def test_what_your_function_leaves_unseeded_gets_the_seed(tmp_path, monkeypatch):
    (tmp_path / "unseeded_models.py").write_text(
        "from sklearn.ensemble import RandomForestClassifier\n"
        "from sklearn.ensemble import VotingClassifier\n\n\n"
        "def make():\n"
        "    parts = [('a', RandomForestClassifier(3)), ('b', RandomForestClassifier(3, random_state=5))]\n"
        "    return VotingClassifier(parts)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = make_estimator("unseeded_models:make", kind="classifier", seed=11, blocks=()).get_params()
    assert (found["a__random_state"], found["b__random_state"]) == (11, 5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "bosting",
            r"must be one of auto, linear, boosting, forest or MODULE:NAME, got 'bosting' \(did you mean",
        ),
        ("no_such_module:make", "'no_such_module' cannot be imported"),
        ("my_models:mak", "my_models has no function 'mak'"),
        ("my_models:fail", r"my_models:fail failed \(ZeroDivisionError"),
        ("my_models:number", "must return a scikit-learn estimator, got int"),
    ],
)
def test_what_cannot_be_made_is_said(name, message, tmp_path, monkeypatch):
    (tmp_path / "my_models.py").write_text("def fail():\n    1 / 0\n\n\ndef number():\n    return 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ParameterError, match=message):
        make_estimator(name, kind="classifier", seed=0, blocks=())
