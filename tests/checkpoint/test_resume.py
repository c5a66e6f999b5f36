"""A model that was saved and loaded goes on with the same bits as one that was not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import accous
from accous import ULSIF, AdaptiveClassifier, LogisticRatio, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import CheckpointError
from tests.budgets import rest_slow
from tests.checkpoint.cases import (
    N_BEFORE,
    N_REFERENCE,
    ONE_OF_EACH_KIND,
    Case,
    assert_same_bits,
    differing,
    history,
    labels_of,
    make_cases,
    numbers,
    numbers_of,
)
from tests.checkpoint.conftest import BATCH, REFERENCE, edit_manifest
from tests.checkpoint.own_ratios import (
    CountingMeanRatio,
    MeanRatio,
    OwnOnline,
    SavedMeanRatio,
    Unstorable,
    WithoutReference,
)

CASES = list(make_cases())
OTHER_CASES = [name for name in CASES if name not in ONE_OF_EACH_KIND]


def run_in_another_process(forks, task, *arguments):
    forks.run("tests.checkpoint.processes", task, *arguments, cwd=Path(__file__).parents[2])


@pytest.mark.parametrize("names", [ONE_OF_EACH_KIND, pytest.param(OTHER_CASES, marks=pytest.mark.slow)], ids=len)
def test_another_process_goes_on_with_the_same_bits(names, tmp_path, forks):
    uninterrupted = {}
    for name in names:
        case = make_cases()[name]
        model = case.run(case.fit(), 1, N_BEFORE)
        accous.save(model, tmp_path / name / "model")
        uninterrupted[name] = history(case, model)
    run_in_another_process(forks, "resume_all", tmp_path)
    different = {}
    for name, expected in uninterrupted.items():
        with np.load(tmp_path / name / "numbers.npz") as found:
            different[name] = differing(dict(found), expected)
    assert {name for name, names in different.items() if names} == set(), different


@pytest.mark.parametrize("name", rest_slow([*ONE_OF_EACH_KIND, *OTHER_CASES], len(ONE_OF_EACH_KIND)))
def test_a_loaded_model_has_the_parameters_and_attributes_of_the_saved_one(name, tmp_path):
    case = make_cases()[name]
    model = case.run(case.fit(), 1, 5)
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path, **case.given)
    assert type(loaded) is type(model)
    assert loaded.__getstate__().keys() == model.__getstate__().keys()
    assert repr(loaded) == repr(model)
    assert_same_parameters(loaded, model, case.given)
    if hasattr(model, "ratio_"):
        assert loaded.ratio_.__getstate__().keys() == model.ratio_.__getstate__().keys()
        assert repr(loaded.ratio_) == repr(model.ratio_)
        assert loaded.task_.truths.dtype == model.task_.truths.dtype
        assert loaded.task_.truths.tolist() == model.task_.truths.tolist()
    assert list(getattr(loaded, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))


def assert_same_parameters(loaded, model, given):
    for name, value in model.get_params(deep=False).items():
        found = loaded.get_params(deep=False)[name]
        if name in given:
            assert found is given[name]
        elif name == "ratio" and value is not None:
            assert_same_parameters(found, value, given)
        else:
            assert type(found) is type(value)
            assert found == value


@pytest.mark.parametrize("name", ["kl rbf", "paper", "single kl", "no shift", "two classes", "texts", "base weights"])
def test_saving_and_loading_in_every_round_changes_nothing(name, tmp_path):
    case = make_cases()[name]
    stays = case.fit()
    travels = stays
    for number in range(1, 20):
        accous.save(travels, tmp_path)
        travels = case.run(accous.load(tmp_path), number, 1)
    assert_same_bits(numbers_of(case, travels), numbers_of(case, case.run(stays, 1, 19)))


@pytest.mark.parametrize(
    "name", rest_slow(["two classes", "named columns", "pandas", "base weights", "seed", "by row", "forest"], n_fast=4)
)
def test_writing_into_what_was_passed_to_fit_changes_nothing(name, tmp_path):
    case, untouched = make_cases()[name], make_cases()[name]
    X = case.rows(0, N_REFERENCE)
    case.rows = lambda round_, n_rows: X if round_ == 0 else untouched.rows(round_, n_rows)
    model = case.fit()
    for passed in [case.labels, case.sample_weight]:
        if passed is not None:
            passed[:] = passed[::-1].copy()
    column = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    getattr(X, "iloc", X)[:, 0] = 2.0 * column
    accous.save(case.run(model, 1, N_BEFORE), tmp_path)
    expected = untouched.run(untouched.fit(), 1, N_BEFORE)
    assert_same_bits(history(untouched, accous.load(tmp_path, **case.given)), history(untouched, expected))


def test_saving_leaves_the_model_alone_and_a_loaded_one_can_be_fitted_anew(tmp_path):
    case = make_cases()["four classes"]
    model = case.run(case.fit(), 1, 5)
    before, state = numbers_of(case, model), model.state_
    accous.save(model, tmp_path)
    assert model.state_ is state
    assert_same_bits(numbers_of(case, model), before)
    fresh = Case(accous.load(tmp_path), case.rows, case.labels)
    assert_same_bits(numbers_of(fresh, fresh.run(fresh.fit(), 1, 5)), before)


def test_rows_that_classifier_and_ratio_share_are_stored_once_and_others_as_read(tmp_path):
    for name, is_shared in (("two classes", True), ("single precision", False)):
        case = make_cases()[name]
        accous.save(case.fit(), tmp_path / name)
        loaded = accous.load(tmp_path / name, **case.given)
        assert (loaded.reference_ is loaded.ratio_.reference_) == is_shared
        assert loaded.reference_.dtype == (np.float64 if is_shared else np.float32)
        assert loaded.ratio_.reference_.dtype == np.float64


# --- with remembered regimes, or while held back ------------------------------------------------------------


N_AFTER = 37  # at least two looks of the pool


def batches(n_rounds, *, is_away=False, seed=1):
    """Two regimes of 40 rounds each, or a stream that leaves the reference after 40 rounds."""
    rng = np.random.default_rng(seed)
    for number in range(n_rounds):
        place = (5.0 if number >= 40 else 0.5) if is_away else (1.5, -1.5)[number // 40 % 2]
        yield rng.normal((place, 0.0, 0.0), size=(3, 3))


def reference():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.8, 1.0, 1.0]
    return X, (X[:, 1] + X[:, 0] * X[:, 2] + rng.normal(size=200) > 0.0).astype(int)


def pool_numbers(ratio):
    """Everything the pool has learned, and what it says."""
    pool = ratio.pool_
    parts = {"hold": pool.hold, "excess": pool.excess, "proportions": pool.proportions, "counts": pool.filters.counts}
    parts |= {"cautious": pool.cautious.posteriors, "look": pool.look.coef, "before": pool.look.before}
    parts |= {name: getattr(pool.slots, name) for name in ("coefs", "factors", "n_merged", "use", "visits")}
    parts |= {"reference": ratio.reference_ratio_, "answers": ratio.predict_ratio(reference()[0][:20] * 1.5)}
    return {name: np.asarray(value) for name, value in parts.items()}


def model_numbers(model):
    check, parts = model.state_.safeguards.check, {}
    if getattr(model.ratio_, "pool_", None) is not None:
        parts |= pool_numbers(model.ratio_)
    parts |= {"weights": model.reference_weight_, "fitted": model.state_.fitted_weights}
    parts |= {"answers": model.predict_proba(reference()[0]), "strength": check.strength}
    parts |= {"veto": (check.veto.n_rounds, check.veto.excess), "guard": model.rules_.guard.name}
    for name in ("status_", "drift_", "regimes_", "backtest_"):
        parts[name] = repr(getattr(model, name))
    return {name: np.asarray(value) for name, value in parts.items()}


def learn(model, batch):
    return (model.adapt if isinstance(model, AdaptiveClassifier) else model.partial_fit)(batch)


def assert_goes_on(model, folder, *, is_away=False, **given):
    """A copy from a file has the same numbers after loading and after later rounds."""
    accous.save(model, folder)
    loaded = accous.load(folder, **given)
    numbers_of = model_numbers if isinstance(model, AdaptiveClassifier) else pool_numbers
    assert_same_bits(numbers_of(loaded), numbers_of(model))
    for number, batch in enumerate(batches(40 + N_AFTER, is_away=is_away, seed=2)):
        if is_away and number < 40:
            continue
        for each in (model, loaded):
            learn(each, batch)
        if number % 16 == 0:
            assert_same_bits(numbers_of(loaded), numbers_of(model))
    assert_same_bits(numbers_of(loaded), numbers_of(model))
    return loaded


def after_rounds(model, n_rounds, *, is_away=False):
    X, y = reference()
    model = model.fit(X, y) if isinstance(model, AdaptiveClassifier) else model.fit(X)
    for batch in batches(n_rounds, is_away=is_away):
        learn(model, batch)
    return model


def tilted(X):
    return np.exp(X[:, 0])


# After 16 n rounds the pool has just looked back at the last 16.
POOLS = {
    **{f"memory, {n} rounds": (OnlineDensityRatio(), n, "some") for n in (95, 96, 97, 103)},
    **{f"held back, {n} rounds": (OnlineDensityRatio(), n, None) for n in (95, 96, 97, 103)},
    **{loss: (OnlineDensityRatio(loss=loss), 100, "some") for loss in ("least_squares", "kl")},
    **{f"memory of {memory}": (OnlineDensityRatio(memory=memory), 100, memory) for memory in (0, 1)},
    "sample of the reference": (OnlineDensityRatio(max_reference=80, random_state=0), 100, "some"),
    "classifier": (AdaptiveClassifier(), 96, "some"),
    "classifier between looks": (AdaptiveClassifier(), 103, "some"),
    "classifier held back": (AdaptiveClassifier(), 100, None),
    "classifier without a pool": (AdaptiveClassifier(ratio=OnlineDensityRatio(pool="none")), 60, "none"),
    "one-step candidates": (OnlineDensityRatio(candidates=[ULSIF(random_state=0), LogisticRatio()]), 50, "any"),
    "online candidates": (
        OnlineDensityRatio(candidates=[SingleLearnerRatio(), OnlineDensityRatio("rbf", random_state=0)]),
        50,
        "any",
    ),
}


@pytest.mark.parametrize(("model", "n_rounds", "n_slots"), POOLS.values(), ids=POOLS)
def test_a_pool_goes_on(model, n_rounds, n_slots, tmp_path):
    is_away = n_slots is None
    model = after_rounds(model, n_rounds, is_away=is_away)
    pool = getattr(model, "ratio_", model).pool_
    if n_slots == "none":
        assert pool is None
        assert model.state_.safeguards.share > 0.0
    elif is_away:
        assert pool.hold > 0.0
    elif n_slots != "any":
        assert pool.slots.is_used.any() if n_slots == "some" else pool.slots.is_used.sum() == n_slots
    assert_goes_on(model, tmp_path, is_away=is_away)


class AlwaysWorse(GaussianNB):
    """Wrong with any weights but equal ones, so that its adaptation is vetoed."""

    def fit(self, X, y, sample_weight=None):
        is_right = sample_weight is None or np.ptp(sample_weight) == 0.0
        return super().fit(X, y if is_right else 1 - y)


TREES = HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=6, min_samples_leaf=8, random_state=0)
CLASSIFIERS = {
    **{each: AdaptiveClassifier(adaptation=each) for each in ("auto", "always", "never")},
    "not standardized": AdaptiveClassifier(standardize=False, refit="always"),
    "boosted trees": AdaptiveClassifier(make_pipeline(StandardScaler(), TREES)),
    "boosted trees, always": AdaptiveClassifier(TREES, refit="always"),
    "vetoed": AdaptiveClassifier(AlwaysWorse(), refit=1),
    "one-step ratio": AdaptiveClassifier(ratio=ULSIF(random_state=0)),
}
CHANGES = {
    "rounds": lambda model: model,
    "late labels": lambda model: model.observe(*reference()).observe(reference()[0][:50], ["new"] * 50),
}


@pytest.mark.every_pair
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("is_turned", [False, True], ids=["same labels", "labels turn round"])
@pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_a_classifier_goes_on_with_everything_it_says(model, is_turned, change, tmp_path):
    X, y = reference()
    model = clone(model).fit(X, np.where(is_turned & (np.arange(200) < 100), 1 - y, y), order=True)
    for batch in batches(44):
        model.adapt(batch)
    change(model)
    given = {} if model.estimator is None else {"estimator": clone(model.estimator)}
    loaded = assert_goes_on(model, tmp_path, **given)
    pd.testing.assert_frame_equal(loaded.history_, model.history_, check_exact=True)
    assert len(list(tmp_path.glob("reference-*.npz"))) == 1


CANDIDATES = {
    "a function": [tilted, ULSIF(random_state=0)],
    "an estimator": [SavedMeanRatio(0.2)],
    "a transformer": [OnlineDensityRatio(StandardScaler())],
}


@pytest.mark.parametrize("candidates", CANDIDATES.values(), ids=CANDIDATES)
def test_candidates_of_the_users_are_given_again(candidates, tmp_path):
    ratio = after_rounds(OnlineDensityRatio(candidates=candidates), 50)
    accous.save(ratio, tmp_path)
    with pytest.raises(CheckpointError, match="candidates="):
        accous.load(tmp_path)
    with pytest.raises(CheckpointError, match="saved with candidates="):
        accous.load(tmp_path, candidates=[LogisticRatio()])
    assert_goes_on(ratio, tmp_path, candidates=candidates)


@pytest.mark.parametrize("n_rounds", rest_slow([96, 50]))
def test_a_classifier_with_candidates(n_rounds, tmp_path):
    candidates = (tilted, ULSIF(random_state=0))
    model = after_rounds(AdaptiveClassifier(ratio=OnlineDensityRatio(candidates=candidates)), n_rounds)
    assert_goes_on(model, tmp_path, candidates=candidates)


def test_candidates_that_cannot_be_saved_and_those_set_after_fit_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="A MeanRatio"):
        accous.save(after_rounds(OnlineDensityRatio(candidates=[MeanRatio()]), 2), tmp_path)
    ratio = after_rounds(OnlineDensityRatio(candidates=[ULSIF()]), 2).set_params(candidates=[ULSIF(), ULSIF()])
    accous.save(ratio, tmp_path)
    with pytest.raises(CheckpointError, match=r"1 candidates .* has 2"):
        accous.load(tmp_path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_ratio_of_many_columns(dtype, tmp_path):
    rng = np.random.default_rng(0)
    towards = np.ones(120) / np.sqrt(120.0)
    ratio = OnlineDensityRatio(dtype=dtype).fit(rng.normal(size=(150, 120)))
    stream = [rng.normal(size=(3, 120)) + (2.5, -2.5)[number // 40 % 2] * towards for number in range(120)]
    for batch in stream[:87]:
        ratio.partial_fit(batch)
    assert ratio.pool_.slots.is_used.any()
    accous.save(ratio, tmp_path)
    loaded = accous.load(tmp_path)
    for batch in stream[87:]:
        for name in ("reference_ratios", "proportions", "excess", "means"):
            np.testing.assert_array_equal(getattr(loaded.pool_, name), getattr(ratio.pool_, name))
        for each in (ratio, loaded):
            each.partial_fit(batch)


@pytest.mark.parametrize("parameters", [{"memory": 0}, {"memory": 9}, {"pool": "none"}], ids=str)
def test_parameters_set_after_fit_change_nothing_that_was_learned(parameters, tmp_path):
    assert_goes_on(after_rounds(OnlineDensityRatio(), 40).set_params(**parameters), tmp_path)


def test_a_stored_pool_of_other_shapes_is_refused():
    X, ratio = reference()[0], after_rounds(OnlineDensityRatio(), 23)
    plain = ratio.state_to_plain()
    plain["pool"]["filters"]["proportions"] = np.ones(3) / 3
    with pytest.raises(CheckpointError, match="its reference"):
        OnlineDensityRatio().fit(X).state_from_plain(plain, X)


# --- a ratio estimator of the user's own is saved by the name of its class, and given again to `load` --------


def fit_ratio(ratio):
    return ratio.fit(REFERENCE).partial_fit(BATCH)


def fit_classifier(ratio):
    return AdaptiveClassifier(ratio=ratio).fit(REFERENCE, labels_of(2)).adapt(BATCH)


@pytest.fixture(params=[fit_ratio, fit_classifier], ids=["ratio", "classifier"])
def saved_own(request, tmp_path):
    """A folder with a saved model that needs a ratio estimator at `load`."""
    accous.save(request.param(SavedMeanRatio(0.2)), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("kind", [SavedMeanRatio, CountingMeanRatio])
@pytest.mark.parametrize("fit", [fit_ratio, fit_classifier])
def test_an_own_ratio_goes_on_with_the_same_bits(fit, kind, tmp_path):
    stays, given = fit(kind(0.2)), kind(0.2)
    accous.save(stays, tmp_path)
    loaded = accous.load(tmp_path, ratio=given)
    assert loaded.__getstate__().keys() == stays.__getstate__().keys()
    assert not hasattr(given, "reference_")
    ratios = [getattr(each, "ratio_", each) for each in (loaded, stays)]
    assert [type(each) for each in ratios] == [kind, kind]
    for number in range(2, 8):
        for each in (loaded, stays):
            learn(each, numbers(number, 3))
        one, two = (getattr(each, "ratio_", each) for each in (loaded, stays))
        assert one.predict_ratio(BATCH).tobytes() == two.predict_ratio(BATCH).tobytes()
        assert one.reference_ratio_.tobytes() == two.reference_ratio_.tobytes()
        if fit is fit_classifier:
            assert loaded.ratio is given
            assert loaded.reference_weight_.tobytes() == stays.reference_weight_.tobytes()
            assert loaded.predict_proba(BATCH).tobytes() == stays.predict_proba(BATCH).tobytes()
    assert np.ptp(one.reference_ratio_) > 0.0


def test_only_class_name_and_parameters_are_in_the_file_and_it_can_be_saved_again(saved_own):
    text = (saved_own / "manifest.json").read_text()
    assert "SavedMeanRatio(rate=0.2)" in text
    assert SavedMeanRatio.__module__.rpartition(".")[2] not in text
    accous.save(accous.load(saved_own, ratio=SavedMeanRatio(0.2)), saved_own)
    accous.load(saved_own, ratio=SavedMeanRatio(0.2))
    assert len(list(saved_own.iterdir())) == 3


class Lookalike:
    def __repr__(self):
        return "SavedMeanRatio(rate=0.2)"


Lookalike.__name__ = "SavedMeanRatio"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"ratio=SavedMeanRatio\("),
        (CountingMeanRatio(0.2), r"not CountingMeanRatio\("),
        (SavedMeanRatio(0.3), r"not SavedMeanRatio\(rate=0.3\)"),
        (Lookalike(), "is not a RatioEstimator"),
        (type("SavedMeanRatio", (MeanRatio,), {})(0.2), "no state_to_plain"),
    ],
    ids=["none", "another class", "other parameters", "another object", "no methods"],
)
def test_another_ratio_is_refused(given, message, saved_own):
    with pytest.raises(CheckpointError, match=message):
        accous.load(saved_own, **{} if given is None else {"ratio": given})


@pytest.mark.parametrize("fit", [fit_ratio, fit_classifier])
@pytest.mark.parametrize(
    ("ratio", "message"),
    [
        (MeanRatio(), "A MeanRatio cannot"),
        (OwnOnline(), "A OwnOnline cannot"),
        (WithoutReference(), r"WithoutReference.state_from_plain .*\(self, plain, X\)"),
        (Unstorable(), "shift is"),
    ],
)
def test_a_ratio_that_cannot_be_stored_is_not_saved(fit, ratio, message, tmp_path):
    with pytest.raises(CheckpointError, match=message):
        accous.save(fit(ratio), tmp_path / "model")
    assert not (tmp_path / "model" / "manifest.json").exists()


def test_a_class_name_alone_makes_nothing(saved_own):
    """A forged manifest cannot name a class to be imported."""

    def forge(content):
        place = content["model"].get("fitted_ratio", content["model"])
        place["class"] = place["$foreign"]["class"] = "Popen"

    edit_manifest(saved_own, forge, forge=True)
    with pytest.raises(CheckpointError, match=r"ratio=Popen\("):
        accous.load(saved_own)
