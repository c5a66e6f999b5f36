"""A budget for refits: measured once, then counted in rounds."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

import accous
from accous import AdaptiveClassifier
from accous.exceptions import ParameterError
from accous.model.round import rounds_between_refits, seconds_of


@pytest.mark.parametrize("budget", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("ratio", [3.0, 40.0, 700.0])
def test_so_many_rounds_keep_the_budget(budget, ratio):
    rounds = rounds_between_refits(budget, refit_seconds=ratio, round_seconds=1.0)
    assert ratio / (ratio + rounds) <= budget
    # And no more than twice as many as needed, but for the comparisons.
    assert ratio / (ratio + rounds / 2 / 1.2) >= budget * 0.99


def test_no_budget_and_quick_refits_have_no_limit():
    assert rounds_between_refits(1.0, 5.0, 1.0) == 0
    assert rounds_between_refits(0.5, 0.1, 1.0) == 0
    assert seconds_of(lambda: None) >= 0.0


def make_model(estimator=None, **options) -> AdaptiveClassifier:
    random = np.random.default_rng(1)
    X = random.normal(size=(300, 3))
    y = np.where(X[:, 1] < 0.3, X[:, 0], X[:, 2]) + 0.3 * random.normal(size=300) > 0
    estimator = estimator or DecisionTreeClassifier(max_depth=1, random_state=0)
    return AdaptiveClassifier(estimator, caution="low", **options).fit(X, y)


def refit_rounds(model: AdaptiveClassifier, stop: int) -> list[int]:
    found = []
    for number in range(model.n_rounds_, stop):
        before = model.n_refits_
        model.adapt(np.random.default_rng(number).normal([0.0, 0.04 * number, 0.0], 1.0, size=(10, 3)))
        found += [number + 1] if model.n_refits_ > before else []
    return found


def test_refits_keep_their_distance_and_a_loaded_model_keeps_it_too(tmp_path):
    free = refit_rounds(make_model(), 60)
    model = make_model(refit_budget=0.2)
    # What the clock says depends on the machine; what follows from it does not.
    model.rounds_between_refits_ = 8
    model.rules_ = model._make_rules(model.state_.ratio)
    rare = refit_rounds(model, 30)
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=DecisionTreeClassifier(max_depth=1, random_state=0))
    assert loaded.rounds_between_refits_ == 8
    late = refit_rounds(model, 60)
    assert refit_rounds(loaded, 60) == late
    assert np.diff([*rare, *late]).min() >= 8 > np.diff(free).min()


def test_trees_whose_refits_are_quick_need_no_clock():
    trees = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4, random_state=0)
    assert make_model(trees, refit_budget=0.01).rounds_between_refits_ == 0
    assert make_model(refit_budget=0.01).rounds_between_refits_ > 0


@pytest.mark.parametrize("budget", [0.0, -1.0, 2.0, "much"])
def test_a_budget_is_a_share(budget):
    with pytest.raises(ParameterError, match="refit_budget"):
        make_model(refit_budget=budget)
