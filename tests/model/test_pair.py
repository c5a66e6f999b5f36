"""The predictor "auto": two predictors by held-out rows, clipped numbers, missing values, class weights, files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import ttest_1samp
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_limits

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor, OnlineDensityRatio, backtest
from accous.diagnostics.losses import read_loss
from accous.exceptions import DataError, ParameterError
from accous.model.heldout import Combination, combine, split_rows, tempered
from accous.model.pair import make_trees
from accous.model.predictors import EstimatorRecipe, sharing_fits
from accous.model.safeguards import EVEN
from accous.model.tasks import ClassTask, NumberTask
from accous.validation import Bounds

N = 600
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(N, 4))
LABELS = np.where(ROWS[:, 0] * ROWS[:, 1] + 0.7 * ROWS[:, 2] + 0.3 * RNG.normal(size=N) > 0.0, "yes", "no")
NUMBERS = ROWS[:, 0] * ROWS[:, 1] + 2.0 * ROWS[:, 2] + 0.3 * RNG.normal(size=N)
BOTH = [(AdaptiveClassifier, LABELS), (AdaptiveRegressor, NUMBERS)]
LATER = np.random.default_rng(1).normal(size=(80, 4)) + 0.5
HOLES = np.where(np.random.default_rng(2).random(ROWS.shape) < 0.05, np.nan, ROWS)


@pytest.fixture(autouse=True, scope="module")
def _one_openmp_thread():
    with threadpool_limits(1, user_api="openmp"):
        yield


def clipped(reference: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The slow version: column by column."""
    columns = []
    for of_reference, column in zip(reference.T, rows.T, strict=True):
        known = of_reference[~np.isnan(of_reference)]
        column = np.where(np.isnan(column), np.median(known), column)
        is_flag = len(np.unique(known)) <= 2
        columns.append(np.clip(column, *np.quantile(known, (0.0, 1.0) if is_flag else (0.001, 0.999))))
    return np.column_stack(columns)


# --- bounds -----------------------------------------------------------------------------------------------------


def test_bounds_are_quantiles_of_the_reference_or_its_two_values():
    flags = (np.arange(N) < 1).astype(float)
    reference = np.column_stack((HOLES, flags))
    rows = np.column_stack((50.0 * LATER, np.full(len(LATER), 7.0)))
    rows[3, 0] = np.nan
    bounds = Bounds.of(reference)
    assert np.allclose(bounds.clipped(rows), clipped(reference, rows))
    assert (bounds.clipped(rows)[:, -1] == 1.0).all()
    assert (bounds.clipped(-rows)[:, -1] == 0.0).all()
    assert bounds.without_ends.clipped(rows)[0, 0] == rows[0, 0]
    nothing_known = Bounds.of(np.full((3, 1), np.nan))
    assert nothing_known.clipped(np.array([[np.nan], [5.0]])).tolist() == [[0.0], [5.0]]


@pytest.mark.parametrize("name", ["auto", "linear"])
def test_a_row_far_out_is_predicted_as_one_at_the_bound_and_still_counts_as_outside(name):
    model = AdaptiveClassifier(name).fit_with(ROWS, LABELS, combination=Combination(0.0))
    far = LATER.copy()
    far[:, 3] = 1e6
    at_bound = far.copy()
    at_bound[:, 3] = np.quantile(ROWS[:, 3], 0.999)
    assert np.array_equal(model.predict_proba(far), model.predict_proba(at_bound))
    assert np.array_equal(model.ratio_.predict_ratio(far), model.ratio_.predict_ratio(at_bound))
    twin = AdaptiveClassifier(name).fit_with(ROWS, LABELS, combination=Combination(0.0))
    for start in range(0, 80, 10):
        model.adapt(far[start : start + 10])
        twin.adapt(at_bound[start : start + 10])
    assert np.array_equal(model.reference_weight_, twin.reference_weight_)
    assert model.drift_.coverage.share_outside == 1.0 > twin.drift_.coverage.share_outside
    given = AdaptiveClassifier(name, OnlineDensityRatio()).fit_with(ROWS, LABELS, combination=Combination(0.0))
    assert given.ratio_.read(far)[0, 3] == 1e6 > model.ratio_.read(far)[0, 3] == at_bound[0, 3]
    for kind, y in ((AdaptiveClassifier, LABELS), (AdaptiveRegressor, NUMBERS)):
        of_numbers = kind(name).fit_with(ROWS, y, combination=Combination(0.0))
        assert np.array_equal(of_numbers.predict(far), of_numbers.predict(at_bound))
    own = AdaptiveClassifier().fit(ROWS, LABELS)
    assert own.predict_proba(far)[0, 0] != own.predict_proba(at_bound)[0, 0]


@pytest.mark.parametrize(("kind", "y"), BOTH)
def test_linear_is_the_regression_on_clipped_rows_and_runs_on_from_a_file(tmp_path, kind, y):
    model, by_hand = kind("linear").fit(HOLES, y), kind().fit(clipped(HOLES, HOLES), y)
    later = np.where(LATER > 1.5, np.nan, 3.0 * LATER)
    assert np.array_equal(model.predict(later), by_hand.predict(clipped(HOLES, later)))
    accous.save(model, tmp_path / "model")
    again = accous.load(tmp_path / "model")
    for start in range(0, 80, 10):
        assert np.array_equal(model.step(later[start : start + 10]), again.step(later[start : start + 10]))
    assert model.n_refits_ > 0
    assert np.array_equal(model.estimator_.coef_, again.estimator_.coef_)


# --- held-out rows and what follows from them -------------------------------------------------------------------


def test_in_order_of_time_later_blocks_are_predicted_from_earlier_rows_and_otherwise_there_are_folds():
    order = np.random.default_rng(0).permutation(100)
    blocks = split_rows(np.arange(100) % 2, order)
    assert [(len(rows), len(rest)) for rows, rest in blocks] == [(40, 20), (60, 20), (80, 20)]
    assert all(np.array_equal(np.concatenate(each), order[: sum(map(len, each))]) for each in blocks)
    strata = np.repeat([0, 1], [90, 10])
    folds = split_rows(strata, None)
    assert sorted(np.concatenate([rest for _, rest in folds]).tolist()) == list(range(100))
    assert [strata[rest].sum() for _, rest in folds] == [2] * 5
    assert all(not set(rows.tolist()) & set(rest.tolist()) for rows, rest in folds)
    assert split_rows(np.zeros(1, dtype=int), None) == []


def by_hand(task, split, linear, trees):
    """The slow version of the rule: the best share, if blocks agree who is ahead."""
    rows = np.concatenate([rest for _, rest in split])
    block = np.concatenate([[number] * len(rest) for number, (_, rest) in enumerate(split)])

    def losses(share):
        both = (1.0 - share) * linear + share * trees
        if task.kind == "regressor":
            return np.abs(both - task.truths[rows])
        return np.array([-np.log(max(1e-6, each[label])) for each, label in zip(both, task.labels[rows], strict=True)])

    leads = [np.mean((losses(0.0) - losses(1.0))[block == each]) for each in set(block)]
    if ttest_1samp(leads, 0.0).pvalue >= 0.1:
        return 0.5
    return min(np.linspace(0, 1, 21), key=lambda share: losses(share).sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_weights_are_those_of_least_loss_where_blocks_agree_and_equal_otherwise(kind, seed):
    random = np.random.default_rng(seed)
    split = split_rows(np.zeros(200, dtype=int), np.arange(200))
    rows = np.concatenate([rest for _, rest in split])
    if kind == "classes":
        labels = random.integers(0, 3, 200)
        task = ClassTask(np.array(["a", "b", "c"]), labels)
        noise = random.dirichlet(np.ones(3), size=(2, len(rows)))
        linear, trees = (0.5 * np.eye(3)[labels[rows]] * (seed % 3 > 0) + each for each in noise)
        linear, trees = (each / each.sum(axis=1, keepdims=True) for each in (linear, trees ** (1 + seed % 2)))
    else:
        task = NumberTask(random.normal(size=200), read_loss("absolute"))
        linear, trees = task.targets[rows] + random.normal(size=(2, len(rows))) * [[1.0], [1.0 + 0.2 * seed]]
    found = combine(task, split, linear, trees, np.ones(200))
    assert found.share == pytest.approx(by_hand(task, split, linear, trees))
    answers = (linear, trees, (1 - found.share) * linear + found.share * trees)
    truths = task.strata[rows] if kind == "classes" else task.targets[rows]
    errors = [
        np.mean(each.argmax(axis=1) != truths) if kind == "classes" else np.abs(each - truths).mean()
        for each in answers
    ]
    assert found.errors == pytest.approx(errors)


def test_temperatures_make_sure_probabilities_less_sure_and_keep_their_order():
    random = np.random.default_rng(0)
    truth = random.dirichlet(np.ones(3), size=3_000)
    labels = np.array([random.choice(3, p=each) for each in truth])
    split = [(np.arange(1), np.arange(3_000))]
    task = ClassTask(np.arange(3), labels)
    sure = tempered(truth, 0.5)
    found = combine(task, split, sure, sure, np.ones(3_000))
    assert found.temperature == pytest.approx(2.0, rel=0.1)
    assert np.array_equal(found.mixed(sure, sure).argmax(axis=1), truth.argmax(axis=1))
    assert np.allclose(found.mixed(sure, sure).sum(axis=1), 1.0)
    assert combine(task, split, truth, truth, np.ones(3_000)).temperature == pytest.approx(1.0, rel=0.1)
    few = [(np.arange(1), np.arange(12))]
    assert combine(task, few, sure[:12], sure[:12], np.ones(3_000)).temperature < 1.5


# --- the model --------------------------------------------------------------------------------------------------


def test_both_predict_as_scikit_learns_own_on_clipped_rows_do():
    model = AdaptiveClassifier("auto", random_state=0).fit(HOLES, LABELS, order=True)
    rows = 3.0 * LATER
    rows[::7, 1] = np.nan
    linear = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
    linear.fit(clipped(HOLES, HOLES), LABELS)
    trees = HistGradientBoostingClassifier(random_state=0).fit(HOLES, LABELS)
    share, heat = model.combination_.share, model.combination_.temperature
    both = (1.0 - share) * linear.predict_proba(clipped(HOLES, rows)) + share * trees.predict_proba(rows)
    both = both ** (1.0 / heat)
    assert np.allclose(model.predict_proba(rows), both / both.sum(axis=1, keepdims=True), atol=1e-5)
    assert np.array_equal(model.predict(rows), model.classes_[both.argmax(axis=1)])
    assert share > 0.5, "no line has this rule"


def test_numbers_too_and_held_out_predictions_are_those_of_earlier_rows():
    model = AdaptiveRegressor("auto", random_state=0).fit(ROWS, NUMBERS, order=True)
    share, held = model.combination_.share, model.held_out_
    assert held.is_in_time
    assert held.n_before == (240, 360, 480)
    assert held.probabilities is None
    first, rest = ROWS[:240], ROWS[240:360]
    scale = clipped(ROWS, ROWS).std(axis=0)
    linear = Ridge(alpha=1.0).fit(clipped(first, first) / scale, NUMBERS[:240])
    trees = HistGradientBoostingRegressor(random_state=0).fit(first, NUMBERS[:240])
    both = (1.0 - share) * linear.predict(clipped(first, rest) / scale) + share * trees.predict(rest)
    assert np.allclose(held.predicted[:120], both, atol=1e-6)
    assert held.rows[:120].tolist() == list(range(240, 360))
    low, high = model.predict_interval(LATER).T
    assert ((low < model.predict(LATER)) & (model.predict(LATER) < high)).all()


def test_without_an_order_every_row_is_held_out_once_and_few_rows_have_the_linear_predictor_alone():
    assert AdaptiveClassifier("auto").fit(ROWS[:499], LABELS[:499]).combination_ == Combination(0.0)
    model = AdaptiveClassifier("auto").fit(ROWS, LABELS)
    held = model.held_out_
    assert sorted(held.rows.tolist()) == list(range(N))
    assert not held.is_in_time
    error = np.mean(held.predicted != model.labels_[held.rows])
    assert model.combination_.errors[2] == pytest.approx(error)
    assert error < 0.25


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_both_adapt_by_weights(share):
    model = AdaptiveClassifier("auto", adaptation="always").fit_with(ROWS, LABELS, combination=Combination(share))
    before = model.predict_proba(LATER)
    for start in range(0, 80, 10):
        model.adapt(LATER[start : start + 10])
    assert model.n_refits_ > 0
    assert not np.array_equal(model.predict_proba(LATER), before)
    weights = model.state_.fitted_weights
    linear = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
    linear.fit(clipped(ROWS, ROWS), LABELS, logisticregression__sample_weight=weights)
    if share == 0.0:
        assert np.allclose(model.predict_proba(LATER), linear.predict_proba(clipped(ROWS, LATER)), atol=1e-4)
    assert (model.estimator_.trees is None) == (share == 0.0)
    assert (model.estimator_.linear is None) == (share == 1.0)


@pytest.mark.parametrize("refit", ["auto", 3])
@pytest.mark.parametrize(("kind", "y"), BOTH)
def test_saved_loaded_and_run_on_every_bit_is_the_same(tmp_path, kind, y, refit):
    model = kind("auto", refit=refit, random_state=0).fit(HOLES, y, order=refit == "auto")
    for start in range(0, 40, 5):
        model.adapt(LATER[start : start + 5])
    accous.save(model, tmp_path)
    other = accous.load(tmp_path)
    assert other.combination_ == model.combination_
    assert np.array_equal(other.held_out_.predicted, model.held_out_.predicted)
    for start in range(40, 80, 5):
        assert np.array_equal(model.predict(LATER), other.predict(LATER))
        model.adapt(LATER[start : start + 5])
        other.adapt(LATER[start : start + 5])
    assert np.array_equal(model.reference_weight_, other.reference_weight_)
    assert np.array_equal(model.predict(LATER), other.predict(LATER))
    assert model.performance() == other.performance()


@pytest.mark.parametrize("refit", ["auto", 20, "always"])
@pytest.mark.parametrize("estimator", ["auto", make_pipeline(StandardScaler(), HistGradientBoostingClassifier())])
def test_without_a_known_order_trees_may_never_be_worse(estimator, refit):
    assert AdaptiveClassifier(estimator, refit=refit).fit(ROWS, LABELS, order=False).rules_.guard is EVEN


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("fewest_rows", [500, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [AdaptiveClassifier, AdaptiveRegressor])
def test_scikit_learn_accepts_it(kind, fewest_rows, monkeypatch):
    monkeypatch.setattr("accous.model.estimators.FEWEST_ROWS_OF_TREES", fewest_rows)
    # Trees bin their columns without weights, and folds are of rows: scikit-learn's own trees fail this too.
    excused = {"check_sample_weight_equivalence_on_dense_data": "rows are binned and held out without their weights"}
    assert len(check_estimator(kind("auto"), expected_failed_checks=excused)) > 40


def test_a_backtest_takes_it_and_other_names_are_refused():
    assert len(backtest(AdaptiveClassifier("auto"), ROWS[:300], LABELS[:300]).looks) > 0
    with pytest.raises(ParameterError, match="'auto'"):
        AdaptiveClassifier("boosting").fit(ROWS, LABELS)
    assert AdaptiveClassifier("auto", C=0.1).fit(ROWS, LABELS).predict(LATER).shape == (80,)


# --- missing values and class weights ---------------------------------------------------------------------------


def test_missing_values_reach_estimators_that_take_them_and_infinity_none():
    trees = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    model = AdaptiveClassifier(trees).fit(HOLES, LABELS)
    assert np.array_equal(model.predict(HOLES), trees.fit(HOLES, LABELS).predict(HOLES))
    model.adapt(HOLES[:20])
    assert np.isfinite(model.reference_weight_).all()
    filled = np.where(np.isnan(HOLES), np.nanmedian(HOLES, axis=0), HOLES)
    assert np.array_equal(model.ratio_.predict_ratio(HOLES), model.ratio_.predict_ratio(filled))
    for estimator, advice in ((None, 'pass estimator="auto" or "linear"'), (LogisticRegression(), "feature_map=")):
        with pytest.raises(DataError, match=f"NaN.*{advice}"):
            AdaptiveClassifier(estimator).fit(HOLES, LABELS)
    assert AdaptiveClassifier("linear").fit(HOLES, LABELS).predict(HOLES).shape == LABELS.shape
    endless = HOLES.copy()
    endless[5, 2] = np.inf
    for estimator in ("auto", trees):
        with pytest.raises(DataError, match="infinity"):
            AdaptiveClassifier(estimator).fit(endless, LABELS)


@pytest.mark.parametrize(("kind", "y"), BOTH)
def test_columns_may_be_empty_where_trees_are_fitted(kind, y):
    row = np.arange(N)[:, None]
    early, alone = (np.where((np.arange(4) == 3) & (row < n_empty), np.nan, ROWS) for n_empty in (400, N - 1))
    for weights, order in ((None, True), (1.0 * (row[:, 0] < 400), False)):
        assert kind("auto").fit(early, y, weights, order=order).combination_.share > 0.0
    fill = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    for rows in (pd.DataFrame(early[:400]), pl.DataFrame(early[:400])):
        rows.columns = list("abcd")
        own = make_trees("classifier" if y is LABELS else "regressor", 0).set_params(categorical_features=None)
        assert len(kind(own, OnlineDensityRatio(fill)).fit(rows, y[:400]).predict(rows)) == 400
    for seed in range(4):  # each holds back other rows to decide when to stop
        trees = make_trees("classifier" if y is LABELS else "regressor", seed)
        trees.set_params(early_stopping=True, validation_fraction=0.5)
        found = kind(trees).fit(alone, y).predict(LATER)
        assert np.array_equal(found, trees.fit(ROWS[:, :3], y).predict(LATER[:, :3]))


def test_missing_values_in_a_frame_of_the_stream_too():
    frame = pd.DataFrame(HOLES, columns=list("abcd"))
    model = AdaptiveClassifier("auto").fit(frame, LABELS)
    later = pd.DataFrame(LATER, columns=list("abcd"))
    later.loc[::3, "b"] = None
    for start in range(0, 80, 20):
        assert len(model.step(later.iloc[start : start + 20])) == 20
    assert model.drift_.coverage.n_rows == 80
    assert np.isfinite(model.drift_.coverage.share_outside)


@pytest.mark.parametrize("estimator", [None, "auto", LogisticRegression()])
def test_class_weights_multiply_base_weights(estimator, tmp_path):
    rare = np.where(np.arange(N) % 10 == 0, 1, 0)
    weights = np.where(rare == 1, 0.5 * N / 60, 0.5 * N / 540)
    given = np.random.default_rng(0).random(N)
    balanced = AdaptiveClassifier(estimator, class_weight="balanced").fit(ROWS, rare, given)
    assert np.allclose(balanced.base_weight_, given * weights)
    costs = AdaptiveClassifier(estimator, class_weight={0: 1.0, 1: 4.0}).fit(ROWS, rare)
    assert costs.base_weight_[:2].tolist() == [4.0, 1.0]
    accous.save(costs, tmp_path)
    loaded = accous.load(tmp_path, **({} if estimator in (None, "auto") else {"estimator": estimator}))
    assert loaded.class_weight == {0: 1.0, 1: 4.0}
    plain = AdaptiveClassifier(estimator).fit(ROWS, rare)
    assert balanced.predict_proba(ROWS)[:, 1].mean() > 2.0 * plain.predict_proba(ROWS)[:, 1].mean()


@pytest.mark.parametrize(
    ("estimator", "class_weight", "culprit"),
    [("auto", "even", "'even'"), (None, "even", "'even'"), (None, {"no": 2.0, "gone": 2.0}, "yes")],
)
def test_class_weights_that_cannot_be_used_are_refused(estimator, class_weight, culprit):
    with pytest.raises(ParameterError, match=culprit):
        AdaptiveClassifier(estimator, class_weight=class_weight).fit(ROWS, LABELS)


def test_class_weights_count_once_in_replays():
    rare = np.where(np.arange(N) % 10 == 0, 1, 0)
    model = AdaptiveClassifier(class_weight={0: 1.0, 1: 4.0}).fit(ROWS, rare, order=True)
    weights = np.where(rare == 1, 4.0, 1.0)
    assert AdaptiveClassifier().fit(ROWS, rare, weights, order=True).backtest_.looks == model.backtest_.looks


# --- fits that are shared ---------------------------------------------------------------------------------------


def test_the_same_trees_on_the_same_rows_are_searched_once_while_fits_are_shared():
    task = ClassTask(*np.unique(LABELS, return_inverse=True))
    rows, other = np.ones(N), np.where(np.arange(N) < 9, 2.0, 1.0)

    def fit(weights, X=ROWS, seed=0):
        trees = HistGradientBoostingClassifier(max_iter=3, random_state=seed)
        return EstimatorRecipe(trees, keeps_splits=True).on(X, task).fit(weights, None)

    assert fit(rows) is not fit(rows)
    with sharing_fits():
        first = fit(rows)
        assert fit(rows) is first
        assert fit(rows.copy(), ROWS.copy()) is first
        assert all(each is not first for each in (fit(other), fit(rows, ROWS + 1.0), fit(rows, seed=1)))
        assert np.array_equal(fit(other).predict_proba(LATER), fit(other).predict_proba(LATER))
    assert fit(rows) is not first
    assert np.array_equal(fit(rows).predict_proba(LATER), first.predict_proba(LATER))


# --- what a long fit says ---------------------------------------------------------------------------------------


def test_a_long_fit_logs_its_steps_and_a_short_one_nothing(caplog, monkeypatch):
    caplog.set_level("INFO", "accous")
    AdaptiveClassifier().fit(ROWS[:50], LABELS[:50])
    assert not caplog.records
    monkeypatch.setattr("accous.model.predictors._SECONDS_BETWEEN_LOGS", 0.0)
    AdaptiveClassifier("auto").fit(ROWS, LABELS, order=True)
    said = [record.getMessage() for record in caplog.records]
    assert said[0].endswith("are predicted.")
    assert said[-1].endswith("done.")
    assert sum("replays" in each for each in said) >= 3
    assert sum("whole reference" in each for each in said) == 1, "not of the fits inside"
