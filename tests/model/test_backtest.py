"""The backtest: what it replays, against a replay by hand, in which order, and what a model makes of it."""

import datetime
import pickle
import sys
import warnings
from functools import partial

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
from accous.diagnostics.evidence import plot_backtest
from accous.exceptions import DataError, DataWarning, MissingExtraError, ParameterError
from accous.model.backtest import CUTS, FEWEST_ROWS
from accous.model.order import read_order
from tests.classifiers import customer_encoder, customers, drifting_batches, labelled_rows, run_rounds

N_ROWS = 600


def exchangeable(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0.0).astype(int)


def turned_round(n_rows=N_ROWS):
    """P(y|x) turns round in the middle."""
    X, y = exchangeable(n_rows)
    return X, np.where(np.arange(n_rows) < n_rows // 2, y, 1 - y)


@pytest.fixture(scope="module")
def found():
    return backtest(AdaptiveClassifier(), *exchangeable())


# --- what is replayed ---------------------------------------------------------------------------------------


def test_the_looks_are_those_of_a_replay_by_hand(found):
    X, y = exchangeable()
    looks = list(found.looks)
    for first in (240, 360, 480):
        # `adaptation="auto"` without its guard: the parts replay what the model would have learned.
        part = AdaptiveClassifier().fit(X[:first], y[:first])
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
            assert repr(look.drift) == repr(part.drift_.coverage.drift_strength)
            start = stop
    assert not looks


def test_the_adapted_error_is_that_of_predictions_made_before_each_round():
    """Without the safeguards, the parts are models as users have them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) + np.linspace(-1.0, 1.0, 400)[:, None]
    y = (np.cos(2.0 * X[:, 0]) + rng.normal(size=400) > 0.0).astype(int)
    model = AdaptiveClassifier(adaptation="always")
    looks = backtest(model, X, y, cuts=[0.5], batch_size=7).looks
    part = clone(model).fit(X[:200], y[:200])
    errors = []
    for start, stop in ((200, 300), (300, 400)):
        n_wrong = 0
        for begin in range(start, stop, 7):
            rows = range(begin, min(begin + 7, stop))
            n_wrong += sum(part.predict(X[[row]])[0] != y[row] for row in rows)
            part.adapt(X[list(rows)])
        errors.append(n_wrong / 100)
    assert [look.error_adapted for look in looks] == errors
    assert any(look.error_adapted != look.error_fixed for look in looks)


def test_the_same_seed_gives_the_same_bits_and_the_model_is_not_changed(found):
    model = run_rounds(AdaptiveClassifier(random_state=0).fit(*labelled_rows()), drifting_batches(5))
    before = pickle.dumps(model)
    assert pickle.dumps(backtest(model, *exchangeable()).looks) == pickle.dumps(found.looks)
    assert pickle.dumps(model) == before


def test_progress_rises_to_the_end():
    shares = []
    backtest(AdaptiveClassifier(), *exchangeable(200), on_progress=shares.append)
    assert shares == sorted(shares)
    assert (len(shares) > len(CUTS), shares[-1]) == (True, 1.0)


# --- inputs of every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd, pl], ids=["pandas", "polars"])
def test_frames_and_labels_in_one_column_give_the_outcome_of_arrays(make, found):
    X, y = exchangeable()
    frame, labels = make.DataFrame({name: X[:, number] for number, name in enumerate("abc")}), make.Series(y)
    assert backtest(AdaptiveClassifier(), frame, labels).looks == found.looks
    if make is pd:
        times = pd.Series(np.arange(N_ROWS)[::-1], index=np.arange(N_ROWS) + 7)
        assert backtest(AdaptiveClassifier(), frame[::-1], labels[::-1], order=times).looks == found.looks
        with pytest.warns(DataConversionWarning):
            assert backtest(AdaptiveClassifier(), X, y[:, None]).looks == found.looks
        with pytest.warns(DataConversionWarning):
            assert AdaptiveClassifier().fit(X, pd.DataFrame({"y": y}), order=True).backtest_ == found


@pytest.mark.slow
def test_an_estimator_of_the_user_is_replayed_on_frames_of_any_kind():
    X = customers(300, seed=0)
    y = (X["age"].fillna(40.0) > 40.0).to_numpy()
    pipeline = make_pipeline(customer_encoder(), LogisticRegression())
    model = AdaptiveClassifier(pipeline, accous.OnlineDensityRatio(feature_map=customer_encoder()))
    looks = backtest(model, X, y).looks
    fixed = clone(pipeline).fit(X[:120], y[:120])
    assert looks[0].error_fixed == np.mean(fixed.predict(X[120 : looks[0].stop]) != y[120 : looks[0].stop])


class ManyRowsOnly(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        if len(X) < 250:
            raise ValueError("too few rows")
        return super().fit(X, y, sample_weight)


def test_an_estimator_that_cannot_be_fitted_on_a_part_is_not_verified():
    assert AdaptiveClassifier(ManyRowsOnly()).fit(*exchangeable(), order=True).backtest_ is None


MISSING = np.arange(N_ROWS) == 7
REFUSED = {
    "few rows": ({"n_rows": FEWEST_ROWS - 1}, "100 labelled rows, got 99"),
    "few labels": ({"n_labels": 300}, "600 rows but y has 300 labels"),
    "few times": ({"order": np.arange(5)}, r"600 rows, got shape \(5,\)"),
    "NaN": ({"order": np.where(MISSING, np.nan, 1.0)}, "row 7"),
    "NaT": ({"order": np.where(MISSING, np.datetime64("NaT"), np.datetime64("2024-01-01"))}, "row 7"),
    "None": ({"order": [None if row == 7 else "2024" for row in range(600)]}, "row 7"),
    "NA": ({"order": pd.Series([pd.NA if row == 7 else 2024 for row in range(600)])}, "cannot be sorted"),
    "types mixed": ({"order": pd.Series([2024 if row == 7 else "2024" for row in range(600)])}, "cannot be sorted"),
    "weights": ({"sample_weight": -np.ones(N_ROWS)}, "sample_weight"),
    **{f"batch size {size}": ({"batch_size": size}, "batch_size") for size in (0, -1, 2.5, "ten")},
    **{f"cut {cut}": ({"cuts": [0.5, cut]}, "cuts must be") for cut in (0.0, 1.0, -0.5, 2, float("nan"))},
    "no cut": ({"cuts": ()}, "at least one"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_replayed_is_an_error_that_says_why(change, message):
    options = dict(change)
    X, y = exchangeable(options.pop("n_rows", N_ROWS))
    with pytest.raises((DataError, ParameterError), match=message):
        backtest(AdaptiveClassifier(), X, y[: options.pop("n_labels", None)], **options)


def test_parts_of_one_class_and_cuts_without_rows_are_left_out():
    X, y = exchangeable()
    labels = (np.arange(N_ROWS) % 2) * (np.arange(N_ROWS) >= 300)
    assert {look.n_reference for look in backtest(AdaptiveClassifier(), X, labels).looks} == {360, 480}
    nothing = backtest(AdaptiveClassifier(), X, (np.arange(N_ROWS) > 590).astype(int))
    assert (nothing.looks, nothing.evidence, nothing.verdict) == ((), None, "adapt with care")
    assert nothing.summary() == {"verdict": "adapt with care", "looks": 0}
    assert nothing.how == ""
    assert backtest(AdaptiveClassifier(), X, y, cuts=[0.9999]).looks == ()


def test_traps_are_for_fit_to_name():
    X, _ = exchangeable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        backtest(AdaptiveClassifier(), X, X[:, 0] > 0.0)
    with pytest.warns(DataWarning) as caught:
        AdaptiveClassifier().fit(X, X[:, 0] > 0.0, order=True)
    assert len(caught) == 1


# --- base weights -------------------------------------------------------------------------------------------


def two_kinds(seed=0):
    """Rows of two kinds with opposite relations to the label, and weights that leave one kind only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 2))
    is_first = np.arange(500) % 2 == 0
    y = np.where(is_first, X[:, 0] > 0.0, X[:, 0] < 0.0).astype(int)
    return X, y, is_first


def test_rows_without_weight_count_for_nothing():
    X, y, is_first = two_kinds()
    weighted = backtest(AdaptiveClassifier(), X, y, sample_weight=is_first.astype(float))
    plain = backtest(AdaptiveClassifier(), X, y)
    for look in weighted.looks:
        assert look.error_fixed < 0.1
    assert all(look.error_fixed > 0.3 for look in plain.looks)


def test_errors_are_weighted_means_over_the_block():
    X, y, _ = two_kinds()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=500)
    look = backtest(AdaptiveClassifier(), X, y, sample_weight=weights, cuts=(0.4,)).looks[0]
    part = AdaptiveClassifier().fit(X[:200], y[:200], sample_weight=weights[:200])
    is_wrong = part.predict_fixed(X[look.start : look.stop]) != y[look.start : look.stop]
    assert look.error_fixed == pytest.approx(np.average(is_wrong, weights=weights[look.start : look.stop]))


def test_weights_follow_their_rows_fit_replays_with_them_and_equal_ones_change_nothing():
    X, y, is_first = two_kinds()
    shuffled, weights = np.random.default_rng(2).permutation(500), is_first.astype(float)
    expected = backtest(AdaptiveClassifier(), X, y, sample_weight=weights)
    found = backtest(AdaptiveClassifier(), X[shuffled], y[shuffled], order=shuffled, sample_weight=weights[shuffled])
    assert found.looks == expected.looks
    assert AdaptiveClassifier().fit(X, y, sample_weight=weights, order=True).backtest_ == expected
    plain, ones = (backtest(AdaptiveClassifier(), X, y, sample_weight=each) for each in (None, np.ones(500)))
    assert ones.looks == plain.looks


def test_a_block_without_weight_is_no_evidence():
    X, y, _ = two_kinds()
    weights = np.ones(500)
    weights[300:400] = 0.0
    found = backtest(AdaptiveClassifier(), X, y, sample_weight=weights, cuts=(0.4,))
    assert [look.stop for look in found.looks if np.isnan(look.error_fixed)] == [400]
    assert found.evidence.n_looks == len(found.looks) - 1
    assert np.isfinite(found.evidence.gain)


# --- the order in time: text that does not sort as its times do is refused ----------------------------------


SHUFFLED = np.random.default_rng(0).permutation(40)
DAYS = pd.date_range("2023-11-28 10:00", periods=40, freq="37D")[SHUFFLED]


ISO = [
    "%Y-%m",
    "%Y-%m-%d",
    "%Y-%m-%d %H",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M:%S",
    "%Y-%m-%dT%H:%M:%S.%f",
    "%Y-%m-%d %H:%MZ",
]


OTHER = ["%m/%d/%Y", "%d.%m.%Y", "%Y-%d-%m", "%d-%m-%Y", "%Y/%m/%d", "%B %d, %Y", "%H:%M %Y-%m-%d"]


KINDS = {
    "list": list,
    "array": np.array,
    "objects": lambda texts: np.array(texts, dtype=object),
    "bytes": lambda texts: np.array([text.encode() for text in texts]),
    "Series": pd.Series,
    "string": lambda texts: pd.Series(texts, dtype="string"),
    "category": lambda texts: pd.Series(texts, dtype="category"),
    "polars": pl.Series,
    "polars Categorical": lambda texts: pl.Series(texts, dtype=pl.Categorical),
}


each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def texts_of(form):
    return DAYS.strftime(form).tolist()


def test_rows_of_the_same_time_keep_their_order():
    assert read_order([2, 1, 2, 1, 1], 5).tolist() == [1, 3, 4, 0, 2]


@each_kind
@pytest.mark.parametrize("form", ISO)
def test_iso_text_sorts_as_its_times_do(form, kind):
    texts = texts_of(form)
    times = pd.to_datetime(texts, format=form)
    assert read_order(kind(texts), 40).tolist() == np.argsort(times, kind="stable").tolist()


@each_kind
@pytest.mark.parametrize("form", OTHER)
def test_other_dates_as_text_are_refused_in_a_line(form, kind):
    texts = texts_of(form)
    with pytest.raises(DataError) as refused:
        read_order(kind(texts), 40)
    message = str(refused.value)
    assert "pandas.to_datetime(" in message
    # A day of the month up to 12 could be a month in some of these forms, so a later row may be the first that cannot.
    assert any(repr(text) in message for text in texts)
    assert "\n" not in message
    assert read_order(pd.to_datetime(texts, format=form), 40).tolist() == np.argsort(DAYS.normalize()).tolist()


@pytest.mark.parametrize(
    "texts", [["0", "1", "10"], ["1e3", "2", "1"], ["-1.5", "2", "0"], ["20240102", "20240101", "20231231"]]
)
def test_numbers_as_text_are_refused_with_the_first_of_them(texts):
    with pytest.raises(DataError, match=rf"'{texts[0]}' in row 0, .*to_numeric"):
        read_order(texts, 3)
    assert (
        read_order(pd.to_numeric(pd.Series(texts)), 3).tolist() == np.argsort([float(each) for each in texts]).tolist()
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-05-31", "2024-05-30 17:00"],
        ["2024-05-31 17:00", "2024-05-31T16:00"],
        ["2024-05-31T17:00+01:00", "2024-05-31T16:30-02:00"],
        ["2024-05-31T17:00Z", "2024-05-31T16:30"],
        ["2024-05-31", "2024-06"],
    ],
)
def test_iso_text_of_two_forms_is_refused_with_both(texts):
    with pytest.raises(DataError) as refused:
        read_order(texts, 2)
    assert all(repr(text) in str(refused.value) for text in texts)
    assert "ISO8601" in str(refused.value)


def test_fractions_of_seconds_may_be_left_out_where_they_are_zero():
    for zone in ("", "Z", "+02:00"):
        texts = [f"2024-05-31T17:00:00{part}{zone}" for part in (".5", "", ".25", ".55")]
        assert read_order(texts, 4).tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize(
    "times",
    [
        np.array(list(DAYS), dtype=object),
        np.array([day.to_pydatetime() for day in DAYS], dtype=object),
        [day.date() for day in DAYS],
        DAYS.tz_localize("Europe/Berlin"),
        pd.Series(DAYS.to_period("D")),
        pl.Series(DAYS.to_list()),
        [datetime.timedelta(days=int(each)) for each in SHUFFLED],
    ],
    ids=["Timestamp", "datetime", "date", "zone", "Period", "polars", "timedelta"],
)
def test_objects_that_are_times_are_sorted_as_before(times):
    assert read_order(times, 40).tolist() == np.argsort(SHUFFLED).tolist()


def test_fit_and_backtest_take_times_in_any_order_and_refuse_others(found):
    X, y = exchangeable()
    shuffled = np.random.default_rng(5).permutation(N_ROWS)
    days = np.datetime64("2024-01-01") + shuffled
    for times in (shuffled, shuffled / 7.0, days, np.datetime_as_string(days)):
        assert backtest(AdaptiveClassifier(), X[shuffled], y[shuffled], order=times).looks == found.looks
    model = AdaptiveClassifier().fit(X, y, order=True)
    by_time = AdaptiveClassifier().fit(X[shuffled], y[shuffled], order=shuffled)
    assert model.backtest_ == by_time.backtest_ == found
    texts = pd.to_datetime(np.sort(days)).strftime("%m/%d/%Y")
    for call in (AdaptiveClassifier().fit, partial(backtest, AdaptiveClassifier())):
        with pytest.raises(DataError, match="'01/01/2024' in row 0"):
            call(X, y, order=texts)


# --- verdicts -----------------------------------------------------------------------------------------------


def test_a_table_has_every_look(found):
    assert (found.verdict, found.evidence.n_looks >= 5) == ("adapt with care", True)
    frame = pd.DataFrame(found.table())
    assert len(frame) == len(found.looks)
    assert frame.loc[0, "error_fixed"] == found.looks[0].error_fixed


def test_it_names_classes_that_came_later(tmp_path):
    X, y = exchangeable()
    labels = np.where(np.arange(len(y)) < 0.7 * len(y), y, y + 2)
    assert backtest(AdaptiveClassifier(), X, labels).later_classes == ("2", "3")
    model = AdaptiveClassifier().fit(X, labels, order=True)
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    assert loaded.backtest_ == model.backtest_
    assert loaded.backtest_.later_classes == ("2", "3")
    assert backtest(AdaptiveRegressor(), X, y + X[:, 0]).later_classes == ()


def drawn(figure):
    lines = [line for axes in figure.axes for line in axes.lines if line.get_marker() == "o"]
    return [value for line in lines for value in line.get_ydata()]


def test_the_plot_shows_every_look_and_numbers_in_their_unit(found):
    assert len(drawn(found.plot())) == len(found.looks)
    X, noise = exchangeable(400)[0], np.random.default_rng(1).normal(size=400)
    for loss in ("absolute", "squared"):
        found = backtest(AdaptiveRegressor(loss=loss), X, 50.0 * X[:, 0] + noise)
        assert drawn(found.plot()) == pytest.approx([found.scale.in_unit(look.error_fixed) for look in found.looks])


def test_a_plot_needs_looks_and_matplotlib(found, monkeypatch):
    with pytest.raises(DataError, match="no looks"):
        plot_backtest([])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"accous\[plot\]"):
        found.plot()


# --- in a model ---------------------------------------------------------------------------------------------


def test_fit_replays_rows_that_have_an_order_and_learns_the_same_model():
    X, y = exchangeable()
    ordered, without = AdaptiveClassifier().fit(X, y, order=True), AdaptiveClassifier().fit(X, y)
    assert ordered.predict_proba(X).tobytes() == without.predict_proba(X).tobytes()
    assert without.backtest_ is None
    assert AdaptiveClassifier().fit(X, y, order=False).backtest_ is None
    before = pickle.dumps(ordered)
    with pytest.raises(DataError, match="one entry"):
        ordered.fit(X[:200], y[:200], order=np.arange(3))
    assert pickle.dumps(ordered) == before
    ordered.fit(X, y)
    assert (ordered.backtest_, ordered.rules_.guard.name) == (None, "lenient")


@pytest.mark.parametrize("order", [True, np.arange(99)], ids=["in order", "times"])
def test_an_order_of_too_few_rows_is_said_to_be_too_short(order):
    X, y = exchangeable()
    model = run_rounds(AdaptiveClassifier(adaptation="always").fit(X[:99], y[:99], order=order), drifting_batches(5))
    assert model.backtest_ is None
    assert AdaptiveClassifier().fit(X[:100], y[:100], order=True).backtest_ is not None


@pytest.mark.parametrize(
    ("rows", "order", "state", "guard"),
    [
        (turned_round, True, "healthy", "strict"),  # no worse than at fit, where it errs on more than half
        (partial(exchangeable, 2000), True, "healthy", "lenient"),
        (partial(exchangeable, 2000), False, "uncertain", "lenient"),
    ],
    ids=["labels turn round", "exchangeable", "no order"],
)
def test_what_the_model_makes_of_it(rows, order, state, guard):
    model = AdaptiveClassifier().fit(*rows(), order=order)
    run_rounds(model, [exchangeable(20, seed=each)[0] for each in range(20)])
    assert model.rules_.guard.name == guard
    assert model.status_.state == state
