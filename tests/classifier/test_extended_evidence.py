"""After `extend`, the backtest of the old reference is evidence no more: it is repeated, or dropped with a reason."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB

import accous
from accous import AdaptiveClassifier, backtest
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.trust import Checks, WeightEvidence, judge
from accous.exceptions import DataError

N_ROWS = 600


def rows(n_rows, *, seed=0, is_turned=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=n_rows) > 0.0).astype(int)
    return X, 1 - y if is_turned else y


def make_model(n_rows=N_ROWS, *, order=True):
    model = AdaptiveClassifier().fit(*rows(n_rows), order=order)
    for batch in np.split(rows(200, seed=1)[0], 40):
        model.adapt(batch)
    return model


def answers(model):
    trust = model.trust_
    return trust.adaptation.answer, trust.predictions.answer, trust.predictions.sentence


def test_the_replay_is_repeated_on_the_extended_reference():
    model = make_model()
    before, (X, y) = model.backtest_, rows(400, seed=2)
    model.extend(X, y)
    assert model.backtest_ != before
    together = np.concatenate((rows(N_ROWS)[0], X)), np.concatenate((rows(N_ROWS)[1], y))
    assert model.backtest_ == backtest(AdaptiveClassifier(), *together, cuts=(0.5,))
    assert len(model.backtest_.looks) == 5
    assert model.backtest_.verdict == "verified"


def test_rows_that_turn_the_labels_round_end_a_good_verdict():
    model = make_model()
    assert (model.backtest_.verdict, model.rules_.guard.name) == ("verified", "strict")
    model.extend(*rows(400, seed=2, is_turned=True))
    assert (model.backtest_.verdict, model.rules_.guard.name) == ("contradicted", "off")
    assert answers(model)[1] == "no"


def test_rows_without_an_order_drop_the_evidence_and_the_answers_say_why(tmp_path):
    model = make_model()
    assert model.trust_.predictions.answer == "yes"
    model.extend(*rows(100, seed=2), order=False)
    assert model.backtest_ is None
    assert model.halves_ is None
    assert answers(model)[:2] == ("not known", "not known")
    assert "without an order in time have joined" in answers(model)[2]
    accous.save(model, tmp_path / "model")
    assert answers(accous.load(tmp_path / "model")) == answers(model)
    model.extend(*rows(100, seed=3))
    assert "without an order in time have joined" in answers(model)[2]
    model.fit(*rows(N_ROWS))
    assert "have joined" not in model.adapt(np.zeros((1, 3))).trust_.predictions.sentence


def test_a_reference_that_never_had_an_order_has_none_afterwards():
    model = make_model(order=None)
    model.extend(*rows(100, seed=2))
    assert model.backtest_ is None
    assert "have joined" not in answers(model)[2]


def test_times_give_the_new_rows_their_order():
    X, y = rows(300, seed=2)
    shuffled = np.random.default_rng(3).permutation(300)
    in_order, by_time = make_model(), make_model()
    in_order.extend(X, y)
    by_time.extend(X[shuffled], y[shuffled], order=shuffled)
    assert by_time.backtest_ == in_order.backtest_
    before = dict(vars(by_time))
    with pytest.raises(DataError, match="order"):
        by_time.extend(X[:3], y[:3], order=np.arange(2))
    assert vars(by_time) == before


def test_a_short_reference_is_replayed_once_it_has_grown():
    model = make_model(90)
    assert model.backtest_ is None
    model.extend(*rows(80, seed=2))
    assert model.backtest_.n_reference == 170


def test_a_reference_that_has_shrunk_below_a_replay_says_so():
    model = make_model()
    model.extend(*rows(20, seed=2), max_reference=80)
    assert model.backtest_ is None
    assert "fewer than 100 rows" in answers(model)[2]


def test_an_estimator_that_cannot_be_fitted_on_a_part_says_so():
    first_half = rows(N_ROWS)[0][: (N_ROWS + 50) // 2]

    class NotTheFirstHalf(GaussianNB):
        def fit(self, X, y, sample_weight=None):
            if np.array_equal(X, first_half):
                raise ValueError("not these rows")
            return super().fit(X, y, sample_weight)

    model = AdaptiveClassifier(NotTheFirstHalf()).fit(*rows(N_ROWS), order=True)
    model.extend(*rows(50, seed=2))
    assert model.backtest_ is None
    assert "could not be replayed" in model.trust_.predictions.sentence


def test_base_weights_are_part_of_the_new_replay():
    X, y = rows(400, seed=2)
    is_turned = np.arange(400) % 2 == 0
    y = np.where(is_turned, 1 - y, y)
    weights = np.where(is_turned, 1e-9, 1.0)
    assert make_model().extend(X, y).backtest_.verdict == "contradicted"
    assert make_model().extend(X, y, sample_weight=weights).backtest_.verdict == "verified"


def test_saved_after_extend_the_rounds_go_on_bit_for_bit(tmp_path):
    model = make_model()
    model.extend(*rows(200, seed=2))
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    for batch in np.split(rows(200, seed=4)[0] - 0.5, 40):
        assert np.array_equal(model.adapt(batch).reference_weight_, loaded.adapt(batch).reference_weight_)
    assert repr(loaded.trust_) == repr(model.trust_)


def moved(n_rows, *, seed):
    X, y = rows(n_rows, seed=seed)
    return X + 4.0, y


def make_moved_model():
    """A model whose inputs have left the reference, and whose labels contradict the estimate."""
    model = AdaptiveClassifier().fit(*rows(N_ROWS))
    X, y = moved(300, seed=1)
    for batch in np.split(X, 30):
        model.adapt(batch)
    model.observe(X, y, predicted=1 - y, estimated=np.tile((0.1, 0.05, 0.15), (300, 1)))
    return model, X, y


def test_the_answers_are_about_the_reference_that_rows_have_joined(tmp_path):
    model, X, y = make_moved_model()
    assert (model.trust_.inputs.answer, model.trust_.predictions.answer) == ("no", "no")
    model.extend(X, y)
    inputs, predictions = model.trust_.inputs, model.trust_.predictions
    assert inputs.answer == "not known"
    assert inputs.sentence.endswith("adapt to new rows (accous adapt) to see whether it covers those.")
    assert (predictions.answer, model.measured_.is_outdated) == ("not known", True)
    assert "before rows joined the reference" in predictions.sentence
    assert "from before the last rows joined" in model.measured_.sentence
    accous.save(model, tmp_path / "model")
    assert repr(accous.load(tmp_path / "model").trust_) == repr(model.trust_)


def test_a_ratio_to_the_reference_before_is_no_sign_of_missing_overlap():
    def verdict(since_joining):
        weights = WeightEvidence(300.0, 1.0, 2.0, mean_weight=0.2, share_cut=0.0)
        coverage = Coverage(500, 0.05, 0.2)
        return judge(
            weights,
            share_out_of_bound=0.0,
            exponent=1.0,
            is_vetoed=False,
            excess=(-0.03, 0.01),
            interval=(0.1, 0.08, 0.12),
            checks=Checks(coverage=coverage, since_joining=since_joining),
        ).inputs

    assert verdict(None).answer == verdict((16, 160)).answer == "no"
    assert verdict((15, 150)).answer == "yes"
    assert verdict((0, 0)).answer == "not known"  # no row has come since
    assert "joined" in verdict((0, 0)).sentence


def test_new_rows_and_new_labels_speak_for_themselves_again():
    model, X, y = make_moved_model()
    model.extend(X, y)
    X_new, y_new = moved(160, seed=2)
    for batch in np.split(X_new, 16):
        assert model.trust_.inputs.answer != "no"
        model.adapt(batch)
    assert "joined" not in model.trust_.inputs.sentence
    model.observe(X_new[:20], y_new[:20], predicted=1 - y_new[:20], estimated=np.tile((0.1, 0.05, 0.15), (20, 1)))
    assert not model.measured_.is_outdated
    assert model.trust_.predictions.answer == "no"
