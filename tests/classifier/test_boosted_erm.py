"""Boosted trees keep their splits, and their leaves follow the weights."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import accous
from accous import AdaptiveClassifier
from accous.model.predictors import RevaluedTrees, can_be_revalued

N_ROWS = 240
SMALL = {"max_iter": 12, "max_leaf_nodes": 6, "min_samples_leaf": 8, "random_state": 0}


def make_rows(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    X = random.normal(size=(N_ROWS, 4))
    X[::9, 2] = np.nan
    X[:, 3] = random.integers(0, 5, N_ROWS)
    target = X[:, 0] * X[:, 1] + (X[:, 3] == 2) + 0.5 * random.normal(size=N_ROWS)
    y = {"two classes": target > 0, "three classes": np.digitize(target, [-0.4, 0.6]), "numbers": target}[kind]
    return X, y.astype(float if kind == "numbers" else int), random.exponential(size=N_ROWS) + 0.1


def fit_trees(kind: str, **options):
    X, y, weights = make_rows(kind)
    cls = HistGradientBoostingRegressor if kind == "numbers" else HistGradientBoostingClassifier
    fitted = cls(**SMALL, categorical_features=[3], **options)
    return fitted.fit(X, y, sample_weight=weights), X, y, weights


def leaf_by_walking(tree, row) -> int:
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


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
def test_with_the_weights_of_the_fit_the_values_are_those_of_scikit_learn(kind):
    fitted, X, y, weights = fit_trees(kind, l2_regularization=1.5)
    again = RevaluedTrees(fitted, X, y).revalued(weights)
    for step, new_step in zip(fitted._predictors, again._predictors, strict=True):
        for tree, new in zip(step, new_step, strict=True):
            is_leaf = tree.nodes["is_leaf"].astype(bool)
            np.testing.assert_allclose(new.nodes["value"][is_leaf], tree.nodes["value"][is_leaf], atol=1e-5)
    np.testing.assert_allclose(again._raw_predict(X), fitted._raw_predict(X), atol=1e-4)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
@pytest.mark.parametrize("fraction", [0.25, None])
def test_rows_that_early_stopping_held_back_count_for_no_leaf(kind, fraction):
    fitted, X, y, weights = fit_trees(kind, early_stopping=True, validation_fraction=fraction)
    assert fitted.do_early_stopping_
    again = RevaluedTrees(fitted, X, y).revalued(weights)
    np.testing.assert_allclose(again._raw_predict(X), fitted._raw_predict(X), atol=1e-4)


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers"])
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


@pytest.mark.parametrize(
    ("estimator", "is_possible"),
    [
        (HistGradientBoostingClassifier(), True),
        (HistGradientBoostingRegressor(), True),
        (HistGradientBoostingRegressor(loss="absolute_error"), False),
        (HistGradientBoostingClassifier(class_weight="balanced"), False),
        (HistGradientBoostingClassifier(monotonic_cst=[1]), False),
        (HistGradientBoostingClassifier(max_leaf_nodes=None), False),
        (StandardScaler(), False),
    ],
)
def test_only_trees_whose_values_have_this_form_are_given_new_ones(estimator, is_possible):
    assert can_be_revalued(estimator) is is_possible


def play(model: AdaptiveClassifier, n_rounds: int, first: int = 0) -> AdaptiveClassifier:
    for number in range(first, first + n_rounds):
        model.adapt(np.random.default_rng(100 + number).normal(1.2, 0.6, size=(20, 4)))
    return model


def make_model(**options) -> AdaptiveClassifier:
    X, y, _ = make_rows("two classes")
    X = np.nan_to_num(X)
    trees = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(**SMALL))
    return AdaptiveClassifier(trees, caution="low", **options).fit(X, y)


def splits(estimator) -> list[list[float]]:
    return [step[0].nodes["num_threshold"].tolist() for step in estimator.steps[-1][1]._predictors]


def test_a_round_keeps_the_splits_and_moves_the_leaves():
    model = play(make_model(), 25)
    adapted, fixed = model.state_.estimator, model.fixed_.estimator
    assert model.n_refits_ > 0
    assert splits(adapted) == splits(fixed)
    probe = np.random.default_rng(0).normal(size=(30, 4))
    assert np.abs(adapted.predict_proba(probe) - fixed.predict_proba(probe)).max() > 0.01
    assert 0.0 < model.risk_.adapted < 1.0
    assert model.predict_set(probe).shape == (30, 2)


def test_a_rule_of_your_own_fits_the_trees_anew():
    model = play(make_model(refit=5), 25)
    assert model.n_refits_ == 5
    assert splits(model.state_.estimator) != splits(model.fixed_.estimator)


@pytest.mark.parametrize("refit", ["auto", "always"])
def test_saved_and_loaded_it_goes_on_with_the_same_bits(tmp_path, refit):
    model = play(make_model(), 20)
    model.set_params(refit=refit)
    accous.save(model, tmp_path / "model")
    trees = make_pipeline(StandardScaler(), HistGradientBoostingClassifier(**SMALL))
    resumed = play(accous.load(tmp_path / "model", estimator=trees), 10, first=20)
    play(model, 10, first=20)
    probe = np.random.default_rng(0).normal(1.0, size=(30, 4))
    np.testing.assert_array_equal(resumed.predict_proba(probe), model.predict_proba(probe))
    np.testing.assert_array_equal(
        resumed.state_.estimator.predict_proba(probe), model.state_.estimator.predict_proba(probe)
    )
    assert resumed.risk_ == model.risk_
