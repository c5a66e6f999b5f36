"""`extend`: labelled rows join the reference, old ones leave, and what the rounds have learned goes on."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import accous
from accous import ULSIF, AdaptiveClassifier, OnlineDensityRatio, SingleLearnerRatio
from accous.exceptions import DataError, ParameterError
from accous.model.labels import rows_to_keep
from accous.streams import GaussianStream, SquareShift


def make_stream(n_rounds=60, batch_size=10, n_reference=300):
    stream = GaussianStream(SquareShift(period=20), n_rounds=n_rounds, batch_size=batch_size, n_reference=n_reference)
    return stream.reference(), list(stream)


def make_model(n_rounds=60, **parameters):
    (X, y), batches = make_stream(n_rounds)
    model = AdaptiveClassifier(**parameters).fit(X, y)
    for batch in batches:
        model.adapt(batch.X)
    return model, np.concatenate([batch.X for batch in batches]), np.concatenate([batch.y for batch in batches])


def test_the_model_recovers_from_a_flipped_concept_and_adapting_alone_does_not():
    (X, y), batches = make_stream(n_rounds=200)
    extended, adapted = (AdaptiveClassifier().fit(X, y) for _ in range(2))
    errors = []
    for number, batch in enumerate(batches):
        labels = batch.y if number < 50 else 1 - batch.y
        errors.append([np.mean(each.predict(batch.X) != labels) for each in (extended, adapted)])
        for each in (extended, adapted):
            each.adapt(batch.X)
        if number % 5 == 4:
            late = batches[number - 4 : number + 1]
            y_late = np.concatenate([each.y for each in late])
            X_late = np.concatenate([each.X for each in late])
            extended.extend(X_late, y_late if number < 50 else 1 - y_late, max_reference=300)
    before, after = np.mean(errors[:50], axis=0), np.mean(errors[150:], axis=0)
    assert before[0] < before[1] + 0.05
    assert after[1] > 0.6
    assert after[0] < 0.4


def test_the_rounds_go_on_with_the_same_theta_learners_and_scaling():
    model, X, y = make_model()
    ratio = model.ratio_
    model.extend(X[:100], y[:100])
    assert model.n_rounds_ == 60
    assert np.array_equal(model.ratio_.coef_, ratio.coef_)
    assert np.array_equal(model.ratio_.learner_coefs_, ratio.learner_coefs_)
    assert model.ratio_.feature_bound_ == ratio.feature_bound_
    assert np.array_equal(model.ratio_.ratios_at(ratio.coef_)[:300], ratio.ratios_at(ratio.coef_))
    assert np.array_equal(model.ratio_.pool_.proportions, ratio.pool_.proportions)
    assert len(model.reference_weight_) == len(model.labels_) == len(model.reference_) == 400
    np.testing.assert_array_equal(model.reference_[300:], X[:100])
    assert model.adapt(X[:10]).n_rounds_ == 61


def test_the_old_model_is_not_written_into():
    model, X, y = make_model(20)
    before, reference = model.state_, model.reference_
    model.extend(X[:50], y[:50])
    assert len(before.weights) == len(reference) == 300
    assert len(before.ratio.reference_ratio_) == 300


def test_the_fixed_predictor_is_the_fit_on_the_new_reference_without_weights():
    model, X, y = make_model(standardize=False)
    reference, labels = np.asarray(model.reference_), model.labels_
    model.extend(X[:100], y[:100])
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(
        np.concatenate((reference, X[:100])), np.concatenate((labels, y[:100]))
    )
    np.testing.assert_allclose(model.fixed_.estimator.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


def test_the_adapted_predictor_is_the_weighted_fit_on_the_new_reference():
    model, X, y = make_model(fallback="none", standardize=False)
    model.extend(X[:100], y[:100])
    expected = LogisticRegression(tol=1e-10, max_iter=10_000).fit(
        model.reference_, model.classes_[model.labels_], sample_weight=model.reference_weight_
    )
    np.testing.assert_allclose(model.estimator_.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


def test_the_oldest_rows_leave_above_twice_the_fitted_size():
    model, X, y = make_model()
    model.extend(X[:400], y[:400])
    assert len(model.reference_) == 600
    np.testing.assert_array_equal(model.reference_[-400:], X[:400])
    model.extend(X[400:], y[400:])
    assert len(model.reference_) == 600
    np.testing.assert_array_equal(model.reference_[-200:], X[400:])


def test_rows_of_least_weight_leave_if_you_say_so():
    model, X, y = make_model(fallback="none")
    weights = model.reference_weight_
    gone = model.reference_[weights.argmin()]
    model.extend(X[:10], y[:10], max_reference=200, drop="least weight")
    assert len(model.reference_) == 200
    assert not (model.reference_ == gone).all(axis=1).any()


def test_some_rows_of_each_class_always_stay():
    labels = np.array([0] * 20 + [1] * 100)
    kept = rows_to_keep(labels, np.arange(120.0), 30)
    assert len(kept) == 30
    assert (np.bincount(labels[kept]) == [5, 25]).all()
    assert (labels[kept] == 0).nonzero()[0].tolist() == [0, 1, 2, 3, 4]
    assert kept[:5].tolist() == [15, 16, 17, 18, 19]


@pytest.mark.parametrize("ratio", [None, SingleLearnerRatio(), OnlineDensityRatio("rbf", random_state=0), ULSIF()])
def test_saved_after_extend_it_goes_on_bit_for_bit(ratio, tmp_path):
    model, X, y = make_model(30, ratio=ratio)
    accous.save(model, tmp_path / "model")
    model.extend(X[:100], y[:100], max_reference=350).adapt(X[:10])
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    for start in range(100, 250, 10):
        model.adapt(X[start : start + 10])
        loaded.adapt(X[start : start + 10])
    for each in (model, loaded):
        each.extend(X[:5], y[:5])
    assert np.array_equal(model.reference_weight_, loaded.reference_weight_)
    assert np.array_equal(model.decision_function(X), loaded.decision_function(X))
    assert model.risk_ == loaded.risk_
    assert len(list((tmp_path / "model").glob("reference-*.npz"))) == 1


def test_a_new_class_joins(tmp_path):
    model, X, _ = make_model()
    new = np.random.default_rng(0).normal(size=(60, X.shape[1]))
    new[:, 0] += 8.0
    assert model.observe(new, np.full(60, 2)).measured_.unseen_classes == {"2": 60}
    model.extend(new, np.full(60, 2))
    assert model.classes_.tolist() == [0, 1, 2]
    assert (model.predict(new) == 2).mean() > 0.9
    assert model.predict_proba(X).shape == (600, 3)
    assert model.measured_.unseen_classes == {}
    model.adapt(X[:10])
    accous.save(model, tmp_path / "model")
    assert np.array_equal(accous.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_what_was_measured_before_counts_little_and_goes_on():
    model, X, y = make_model()
    model.observe(X, 1 - y)
    assert model.measured_.contradicts
    model.extend(X[:300], 1 - y[:300], max_reference=300)
    model.observe(X[300:], 1 - y[300:])
    assert model.measured_.n_labelled == 900
    assert model.measured_.error < 0.45
    assert model.measured_.concept_changed == "no"


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_and_an_estimator_of_the_users(library, tmp_path):
    (X, y), batches = make_stream(20)
    names = [f"c{number}" for number in range(X.shape[1])]

    def frame(rows):
        columns = {name: rows[:, number] for number, name in enumerate(names)}
        return library.DataFrame(columns)

    model = AdaptiveClassifier(LogisticRegression()).fit(frame(X), np.where(y, "yes", "no"))
    for batch in batches:
        model.adapt(frame(batch.X))
    late = batches[-1]
    model.extend(frame(late.X), np.where(late.y, "yes", "perhaps"))
    assert len(model.reference_) == 310
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model", estimator=LogisticRegression())
    assert np.array_equal(loaded.predict_proba(frame(late.X)), model.predict_proba(frame(late.X)))


def test_base_weights_of_new_rows_are_their_own_or_the_mean():
    (X, y), _ = make_stream(1)
    model = AdaptiveClassifier().fit(X, y, sample_weight=np.linspace(1.0, 3.0, 300))
    assert model.extend(X[:2], y[:2]).base_weight_[-2:].tolist() == pytest.approx([2.0, 2.0])
    assert model.extend(X[:2], y[:2], sample_weight=[0.0, 5.0]).base_weight_[-2:].tolist() == [0.0, 5.0]


def test_no_rows_change_nothing():
    model, X, y = make_model(5)
    state = model.state_
    assert model.extend(X[:0], y[:0]).state_ is state


@pytest.mark.parametrize(
    ("y", "options", "error", "message"),
    [
        ([0], {}, DataError, "3 rows but y has 1 label "),
        (["a", "b", "c"], {}, DataError, "convert y"),
        ([0, 1, 0], {"drop": "youngest"}, ParameterError, "drop"),
        ([0, 1, 0], {"max_reference": 0}, ParameterError, "max_reference"),
        ([0, 1, 0], {"sample_weight": [-1.0, 1.0, 1.0]}, DataError, "sample_weight"),
        ([0.5, 1.0, 0.0], {}, ValueError, "Unknown label type"),
    ],
)
def test_wrong_input_is_refused_and_changes_nothing(y, options, error, message):
    model, X, _ = make_model(5)
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        model.extend(X[:3], np.array(y), **options)
    assert vars(model) == before


def test_a_transformer_of_the_users_is_refused():
    model, X, y = make_model(5, ratio=OnlineDensityRatio(StandardScaler()))
    with pytest.raises(
        ParameterError, match=r"transformer.* fit a new model on the old rows and the new ones together"
    ):
        model.extend(X[:5], y[:5])
    assert len(model.reference_) == 300


def test_columns_that_are_transformed_before_they_reach_the_model_can_join():
    (X, y), batches = make_stream(5)
    scaler = StandardScaler().fit(X)
    model = AdaptiveClassifier().fit(scaler.transform(X), y)
    model.extend(scaler.transform(batches[0].X), batches[0].y)
    assert len(model.reference_) == 310


@pytest.mark.parametrize("of_fit", [list, np.array, lambda names: np.array(names, dtype=object)])
@pytest.mark.parametrize(
    "of_extend", [list, np.array, lambda names: pd.Series(names, dtype=object), pl.Series, pd.Series]
)
def test_text_labels_join_whatever_holds_them(of_fit, of_extend):
    (X, y), _ = make_stream()
    names = np.where(y == 1, "yes", "no").tolist()
    model = AdaptiveClassifier().fit(X, of_fit(names))
    kind = model.classes_.dtype.kind
    model.extend(X[:20], of_extend([*names[:19], "perhaps"]))
    assert model.classes_.dtype.kind == kind
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.classes_[model.labels_].tolist() == [*names, *names[:19], "perhaps"]


def test_text_does_not_join_numbers_among_objects():
    (X, y), _ = make_stream()
    model = AdaptiveClassifier().fit(X, np.where(y == 1, "yes", "no"))
    with pytest.raises(DataError, match="y mixes types"):
        model.extend(X[:2], np.array(["yes", 1], dtype=object))
