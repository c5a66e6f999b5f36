"""``fit`` warns of what misleads a model, and of nothing else."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from accous import AdaptiveClassifier
from accous.exceptions import TrapWarning
from accous.model.tasks import ClassTask, warn_of_traps

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 3))
y = (X[:, 0] + RANDOM.normal(size=400) > 0).astype(int)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_column_that_gives_the_label_away(estimator):
    leaky = np.column_stack((X, y + 0.1 * RANDOM.random(400)))
    with pytest.warns(TrapWarning, match="Column 'x3' alone predicts the label of 100.0% of the rows") as caught:
        model = AdaptiveClassifier(estimator).fit(leaky, y)
    assert caught[0].filename == __file__
    assert model.n_features_in_ == 4


def test_a_class_with_few_rows():
    with pytest.warns(TrapWarning, match="Class '2' has only 5 rows"):
        AdaptiveClassifier().fit(X, np.where(np.arange(400) < 5, 2, y))


def test_a_counter_only_if_the_rows_are_in_order():
    counted = np.column_stack((X, np.arange(400.0)))
    with pytest.warns(TrapWarning, match="Column 'step' counts the rows"):
        warn_of_traps(counted, ClassTask(np.array([0, 1]), y), lambda: ["a", "b", "c", "step"], is_ordered=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AdaptiveClassifier().fit(counted, y)


def test_a_warning_made_an_error_leaves_the_model_as_it_was():
    model = AdaptiveClassifier().fit(X, y)
    before = model.reference_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TrapWarning):
            model.fit(np.column_stack((X, y)), y)
    assert model.reference_ is before


def test_nothing_is_said_about_ordinary_or_few_rows():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AdaptiveClassifier().fit(X, y)
        AdaptiveClassifier().fit(X[:150, :1], (X[:150, 0] > 0).astype(int))
