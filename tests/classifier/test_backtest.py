"""The backtest: what it replays, against a replay by hand, and what a model makes of it."""

import pickle
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor, backtest
from accous.exceptions import DataError, ParameterError, TrapWarning
from accous.model.backtest import CUTS, FEWEST_ROWS
from tests.classifiers import customer_encoder, customers, drifting_batches, labelled_rows, play

N_ROWS = 600


def exchangeable(n_rows: int = N_ROWS, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0.0).astype(int)


def turned_round(n_rows: int = N_ROWS) -> tuple[Any, Any]:
    """P(y|x) turns round in the middle."""
    X, y = exchangeable(n_rows)
    return X, np.where(np.arange(n_rows) < n_rows // 2, y, 1 - y)


@pytest.fixture(scope="module")
def found() -> Any:
    return backtest(AdaptiveClassifier(), *exchangeable())


# --- what is replayed ---------------------------------------------------------------------------------------


def test_the_looks_are_those_of_a_replay_by_hand(found: Any) -> None:
    """Row by row: the first 40, 60 and 80 % as the reference, the others in rounds of ten, a look every 100 rows."""
    X, y = exchangeable()
    looks = list(found.looks)
    for first in (240, 360, 480):
        # `fallback="auto"` without its guard: the parts replay what the model would have learned.
        part = AdaptiveClassifier(caution="low").fit(X[:first], y[:first])
        fixed = LogisticRegression(tol=1e-10).fit((X[:first] - X[:first].mean(0)) / X[:first].std(0), y[:first])
        start = first
        while start < N_ROWS:
            stop = start + 100 if N_ROWS - (start + 100) > 50 else N_ROWS
            n_wrong_fixed = 0
            for row in range(start, stop):
                scaled = (X[row] - X[:first].mean(0)) / X[:first].std(0)
                n_wrong_fixed += fixed.predict(scaled[None])[0] != y[row]
            for begin in range(start, stop, 10):
                part.adapt(X[begin : min(begin + 10, stop)])
            look = looks.pop(0)
            assert (look.n_reference, look.start, look.stop) == (first, start, stop)
            assert look.error_fixed == n_wrong_fixed / (stop - start)
            risk = part.sampling_risk()
            assert look.estimate_fixed == risk.fixed
            assert look.half_width_fixed == max(risk.fixed_high - risk.fixed, risk.fixed - risk.fixed_low)
            assert repr(look.drift) == repr(part.coverage_.drift_strength)
            start = stop
    assert not looks


def test_the_adapted_error_is_that_of_predictions_made_before_each_round() -> None:
    """Without the fallback, the parts are models as users have them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) + np.linspace(-1.0, 1.0, 400)[:, None]
    y = (np.cos(2.0 * X[:, 0]) + rng.normal(size=400) > 0.0).astype(int)
    model = AdaptiveClassifier(fallback="none")
    looks = backtest(model, X, y, cuts=[0.5], batch_size=7).looks
    part = clone(model).fit(X[:200], y[:200])
    errors = []
    for start, stop in ((200, 300), (300, 400)):
        n_wrong = 0
        for begin in range(start, stop, 7):
            rows = range(begin, min(begin + 7, stop))
            n_wrong += sum(part.predict(X[[row]])[0] != y[row] for row in rows)
            part.adapt(X[list(rows)])
        errors.append((n_wrong / 100, part.sampling_risk().adapted))
    assert [(look.error_adapted, look.estimate_adapted) for look in looks] == errors
    assert any(look.error_adapted != look.error_fixed for look in looks)


@pytest.mark.parametrize("caution", ["high", "low"])
def test_caution_changes_what_is_made_of_the_outcome_and_not_the_outcome(found: Any, caution: str) -> None:
    other = backtest(AdaptiveClassifier(caution=caution), *exchangeable())
    assert (other.looks, other.evidence) == (found.looks, found.evidence)


def test_the_sentence_about_adaptation_follows_the_caution() -> None:
    of_caution = {each: backtest(AdaptiveClassifier(caution=each), *turned_round()) for each in ("low", "normal")}
    assert "The fixed model predicts" in of_caution["normal"].sentences[1]
    assert "The adapted model predicts unless" in of_caution["low"].sentences[1]


def test_the_same_seed_gives_the_same_bits(found: Any) -> None:
    assert pickle.dumps(backtest(AdaptiveClassifier(), *exchangeable()).looks) == pickle.dumps(found.looks)


def test_times_in_any_order_give_the_outcome_of_the_sorted_rows(found: Any) -> None:
    X, y = exchangeable()
    shuffled = np.random.default_rng(5).permutation(N_ROWS)
    for times in (
        shuffled,
        shuffled / 7.0,
        np.datetime64("2024-01-01") + shuffled,
        np.datetime_as_string(np.datetime64("2024-01-01") + shuffled),
    ):
        assert backtest(AdaptiveClassifier(), X[shuffled], y[shuffled], order=times).looks == found.looks


def test_the_model_itself_is_not_changed() -> None:
    model = play(AdaptiveClassifier(random_state=0).fit(*labelled_rows()), drifting_batches(5))
    before = pickle.dumps(model)
    backtest(model, *exchangeable())
    assert pickle.dumps(model) == before


def test_progress_rises_to_the_end() -> None:
    shares: list[float] = []
    backtest(AdaptiveClassifier(), *exchangeable(200), on_progress=shares.append)
    assert shares == sorted(shares)
    assert (len(shares) > len(CUTS), shares[-1]) == (True, 1.0)


# --- inputs of every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_give_the_outcome_of_arrays(make: Any, found: Any) -> None:
    X, y = exchangeable()
    frame = make({name: X[:, number] for number, name in enumerate("abc")})
    labels = pd.Series(y) if make is pd.DataFrame else pl.Series(y)
    assert backtest(AdaptiveClassifier(), frame, labels).looks == found.looks
    times = pd.Series(np.arange(N_ROWS)[::-1], index=np.arange(N_ROWS) + 7) if make is pd.DataFrame else None
    if times is not None:
        assert backtest(AdaptiveClassifier(), frame[::-1], labels[::-1], order=times).looks == found.looks


@pytest.mark.slow
def test_an_estimator_of_the_user_is_replayed_on_frames_of_any_kind() -> None:
    X = customers(300, seed=0)
    y = (X["age"].fillna(40.0) > 40.0).to_numpy()
    pipeline = make_pipeline(customer_encoder(), LogisticRegression())
    model = AdaptiveClassifier(pipeline, accous.OnlineDensityRatio(feature_map=customer_encoder()))
    looks = backtest(model, X, y).looks
    fixed = clone(pipeline).fit(X[:120], y[:120])
    assert looks[0].error_fixed == np.mean(fixed.predict(X[120 : looks[0].stop]) != y[120 : looks[0].stop])


class ManyRowsOnly(GaussianNB):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) < 250:
            raise ValueError("too few rows")
        return super().fit(X, y, sample_weight)


def test_an_estimator_that_cannot_be_fitted_on_a_part_is_not_verified() -> None:
    model = AdaptiveClassifier(ManyRowsOnly()).fit(*exchangeable(), order=True)
    assert model.backtest_ is None
    assert model.trust_.predictions.answer == "not known"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_rows": FEWEST_ROWS - 1}, r"at least 100 labelled rows, got 99"),
        ({"n_labels": 300}, r"600 rows but y has 300 labels \(inconsistent.*\): pass one label for each row"),
        ({"order": np.arange(5)}, r"one entry for each of the 600 rows, got shape \(5,\)"),
        ({"order": np.where(np.arange(600) == 7, np.nan, 1.0)}, r"order has no time in row 7"),
        ({"order": np.where(np.arange(600) == 7, np.datetime64("NaT"), np.datetime64("2024-01-01"))}, r"row 7"),
        ({"order": [None if row == 7 else "2024" for row in range(600)]}, r"row 7"),
        ({"order": pd.Series([pd.NA if row == 7 else 2024 for row in range(600)])}, r"cannot be sorted"),
        ({"order": pd.Series([2024 if row == 7 else "2024" for row in range(600)])}, r"cannot be sorted"),
    ],
)
def test_what_cannot_be_replayed_is_an_error_that_says_why(change: dict[str, Any], message: str) -> None:
    X, y = exchangeable(change.get("n_rows", N_ROWS))
    with pytest.raises(DataError, match=message):
        backtest(AdaptiveClassifier(), X, y[: change.get("n_labels")], order=change.get("order"))


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "ten"])
def test_a_batch_has_at_least_one_row(batch_size: Any) -> None:
    with pytest.raises(ParameterError, match="batch_size"):
        backtest(AdaptiveClassifier(), *exchangeable(), batch_size=batch_size)


@pytest.mark.parametrize("cut", [0.0, 1.0, -0.5, 2, float("nan")])
def test_a_cut_leaves_rows_on_both_sides(cut: Any) -> None:
    with pytest.raises(ParameterError, match="cuts must be shares"):
        backtest(AdaptiveClassifier(), *exchangeable(), cuts=[0.5, cut])
    assert backtest(AdaptiveClassifier(), *exchangeable(), cuts=[0.9999]).looks == ()


def test_there_is_at_least_one_cut() -> None:
    with pytest.raises(ParameterError, match="at least one, got \\(\\)"):
        backtest(AdaptiveClassifier(), *exchangeable(), cuts=())


def test_labels_in_one_column_are_replayed_like_labels(found: Any) -> None:
    X, y = exchangeable()
    with pytest.warns(DataConversionWarning):
        assert backtest(AdaptiveClassifier(), X, y[:, None]).looks == found.looks
    with pytest.warns(DataConversionWarning):
        model = AdaptiveClassifier().fit(X, pd.DataFrame({"y": y}), order=True)
    assert model.backtest_ == found


def test_a_part_of_one_class_is_left_out() -> None:
    X, _ = exchangeable()
    y = (np.arange(N_ROWS) % 2) * (np.arange(N_ROWS) >= 300)
    assert {look.n_reference for look in backtest(AdaptiveClassifier(), X, y).looks} == {360, 480}
    nothing = backtest(AdaptiveClassifier(), X, (np.arange(N_ROWS) > 590).astype(int))
    assert (nothing.looks, nothing.evidence, nothing.verdict) == ((), None, "not verified")
    assert "could not estimate" in nothing.sentences[0]
    assert nothing.summary() == {"verdict": "not verified", "looks": 0}


def test_traps_are_for_fit_to_name() -> None:
    X, _ = exchangeable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backtest(AdaptiveClassifier(), X, X[:, 0] > 0.0)
    with pytest.warns(TrapWarning) as caught:
        AdaptiveClassifier().fit(X, X[:, 0] > 0.0, order=True)
    assert len(caught) == 1


# --- verdicts -----------------------------------------------------------------------------------------------


def test_rows_that_can_be_exchanged_are_verified(found: Any) -> None:
    assert found.verdict == "verified"
    assert found.evidence.fixed.shift < 0.02
    first, second = found.sentences
    assert first.endswith(" looks): verified.")
    assert second.startswith("Adaptation would have ")


def test_it_says_on_how_many_rows_its_models_were_fitted(found: Any) -> None:
    assert "on the first 40%, 60% and 80% of the rows, " in found.how
    X, y = exchangeable()
    assert "on the first 50% of the rows, " in backtest(AdaptiveClassifier(), X, y, cuts=(0.5,)).how
    assert replace(found, looks=(), evidence=None).how == ""


def test_it_names_classes_that_came_later(tmp_path: Any) -> None:
    X, y = exchangeable()
    labels = np.where(np.arange(len(y)) < 0.7 * len(y), y, y + 2)
    found = backtest(AdaptiveClassifier(), X, labels)
    assert found.later_classes == ("2", "3")
    assert "Rows of classes that were new to them count as errors ('2', '3')" in found.how
    assert "'4', ...)" in replace(found, later_classes=tuple("01234567")).how
    model = AdaptiveClassifier().fit(X, labels, order=True)
    accous.save(model, tmp_path)
    assert accous.load(tmp_path).backtest_.later_classes == model.backtest_.later_classes == ("2", "3")
    assert backtest(AdaptiveRegressor(), X, y + X[:, 0]).later_classes == ()


def test_labels_that_turn_round_are_seen() -> None:
    found = backtest(AdaptiveClassifier(), *turned_round())
    assert found.verdict == "contradicted"
    assert found.summary()["estimate_too_low_by"] > 0.1


def test_the_table_is_ready_for_a_frame(found: Any) -> None:
    frame = pd.DataFrame(found.table())
    assert len(frame) == len(found.looks)
    assert frame.loc[0, "error_fixed"] == found.looks[0].error_fixed


def test_the_plot_shows_every_look(found: Any) -> None:
    measured = [line for axes in found.plot().axes for line in axes.lines if line.get_marker() == "o"]
    assert sum(len(line.get_xdata()) for line in measured) == len(found.looks)


def test_the_plot_of_numbers_has_their_unit() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    for loss, name in (("absolute", "mean absolute error"), ("squared", "root mean squared error")):
        found = backtest(AdaptiveRegressor(loss=loss), X, 50.0 * X[:, 0] + rng.normal(size=400))
        figure = found.plot()
        assert figure.get_supylabel() == f"{name} of the fixed model"
        measured = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
        drawn = [value for line in measured for value in line.get_ydata()]
        assert drawn == pytest.approx([found.scale.in_unit(look.error_fixed) for look in found.looks])


# --- in a model ---------------------------------------------------------------------------------------------


def test_fit_replays_rows_that_have_an_order(found: Any) -> None:
    X, y = exchangeable()
    shuffled = np.random.default_rng(5).permutation(N_ROWS)
    in_order = AdaptiveClassifier().fit(X, y, order=True)
    by_time = AdaptiveClassifier().fit(X[shuffled], y[shuffled], order=shuffled)
    assert in_order.backtest_ == by_time.backtest_ == found
    assert AdaptiveClassifier().fit(X, y).backtest_ is None
    assert AdaptiveClassifier().fit(X[:99], y[:99], order=True).backtest_ is None
    assert AdaptiveClassifier().fit(X, y, order=False).backtest_ is None


@pytest.mark.parametrize("order", [True, np.arange(99)], ids=["in order", "times"])
def test_an_order_of_too_few_rows_is_said_to_be_too_short(order: Any) -> None:
    X, y = exchangeable()
    few = "The reference has fewer than 100 rows, too few to replay them."
    model = play(AdaptiveClassifier(fallback="none").fit(X[:99], y[:99], order=order), drifting_batches(5))
    assert model.unverified_ == few
    assert model.trust_.predictions.sentence == few
    assert model.trust_.adaptation.sentence.startswith(few)
    assert AdaptiveClassifier().fit(X[:99], y[:99]).unverified_ == ""
    assert AdaptiveClassifier().fit(X[:100], y[:100], order=True).unverified_ == ""
    assert model.fit(X, y, order=True).unverified_ == ""


def test_a_backtest_of_too_few_looks_says_how_many_are_needed(found: Any) -> None:
    few = backtest(AdaptiveClassifier(), *exchangeable(300))
    assert (few.evidence.n_looks, few.verdict) == (4, "not verified")  # type: ignore[union-attr]
    assert few.sentences[0].endswith("(mean of 4 looks): not verified, because at least 5 looks are needed.")
    assert found.evidence.n_looks >= 5
    assert "needed" not in found.sentences[0]
    contradicted = backtest(AdaptiveClassifier(), *turned_round(300), cuts=[0.5])
    assert contradicted.sentences[0].endswith("(mean of 1 look): contradicted.")


def test_a_fit_with_order_learns_the_same_model() -> None:
    X, y = exchangeable()
    with_order, without = AdaptiveClassifier().fit(X, y, order=True), AdaptiveClassifier().fit(X, y)
    assert with_order.predict_proba(X).tobytes() == without.predict_proba(X).tobytes()


def test_a_refit_without_order_forgets_the_backtest() -> None:
    X, y = turned_round()
    model = AdaptiveClassifier().fit(X, y, order=True)
    assert model.backtest_ is not None
    model.fit(X, y)
    assert (model.backtest_, model.rules_.guard.name) == (None, "lenient")


def test_an_order_that_cannot_be_read_leaves_the_model_as_it_was() -> None:
    X, y = exchangeable()
    model = AdaptiveClassifier().fit(X, y, order=True)
    before = pickle.dumps(model)
    with pytest.raises(DataError, match="one entry for each"):
        model.fit(X[:200], y[:200], order=np.arange(3))
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["ours", "foreign"])
def test_the_outcome_is_saved_bit_for_bit(estimator: Any, tmp_path: Any) -> None:
    X, y = turned_round(200)
    shuffled = np.random.default_rng(5).permutation(200)
    model = AdaptiveClassifier(estimator).fit(X[shuffled], y[shuffled], order=shuffled)
    play(model, drifting_batches(30, n_rows=10))
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path, **{} if estimator is None else {"estimator": estimator})
    assert repr(loaded.backtest_) == repr(model.backtest_)
    assert loaded.time_order_.tolist() == model.time_order_.tolist()
    assert repr(loaded.risk_) == repr(model.risk_)
    assert repr(loaded.trust_) == repr(model.trust_)


def test_labels_that_turn_round_turn_the_guard_off_and_widen_the_interval() -> None:
    model = AdaptiveClassifier().fit(*turned_round(), order=True)
    play(model, [exchangeable(20, seed=each)[0] for each in range(20)])
    assert model.rules_.guard.name == "off"
    assert model.trust_.verdict in ("contradicted", "not verified")
    assert model.trust_.predictions.answer == "no"
    assert model.risk_.adapted_high > model.sampling_risk().adapted_high + 0.1


def test_on_rows_that_can_be_exchanged_the_estimate_is_believed() -> None:
    model = AdaptiveClassifier().fit(*exchangeable(2000), order=True)
    play(model, [exchangeable(20, seed=each)[0] for each in range(20)])
    assert model.trust_.inputs.answer == model.trust_.predictions.answer == "yes"
    assert "backtest" in model.trust_.predictions.sentence
    without = AdaptiveClassifier().fit(*exchangeable(2000))
    play(without, [exchangeable(20, seed=each)[0] for each in range(20)])
    assert without.trust_.predictions.answer == "not known"


# --- the halves of the reference ----------------------------------------------------------------------------


def test_the_halves_disagree_as_much_as_fits_on_them() -> None:
    X, y = turned_round()
    model = AdaptiveClassifier(standardize=False).fit(X, y, order=True)
    rows = exchangeable(300, seed=8)[0]
    first, second = (LogisticRegression(tol=1e-10).fit(X[part], y[part]) for part in (slice(0, 300), slice(300, 600)))
    assert model.halves_.disagreement(rows) == pytest.approx(
        np.mean(first.predict(rows) != second.predict(rows)), abs=0.01
    )
    assert model.halves_.disagreement(rows) > 0.8
    assert AdaptiveClassifier().fit(*exchangeable(), order=True).halves_.disagreement(rows) < 0.2


def test_the_units_of_the_columns_do_not_matter_to_the_halves() -> None:
    X, y = exchangeable()
    rows, units = exchangeable(300, seed=8)[0], np.array([1e-4, 1.0, 1e4])
    plain, scaled = (AdaptiveClassifier().fit(X * each, y, order=True).halves_ for each in (1.0, units))
    assert scaled.disagreement(rows * units) == plain.disagreement(rows)


def test_a_class_that_one_half_lacks_is_a_disagreement() -> None:
    X, y = exchangeable()
    halves = AdaptiveClassifier().fit(X, np.where(np.arange(N_ROWS) < N_ROWS // 2, y, 2), order=True).halves_
    assert halves.disagreement(X) == 1.0
