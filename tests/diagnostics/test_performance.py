"""Expected and confirmed values: their distance to the truth, and how often their intervals hold it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, mean_pinball_loss, roc_auc_score

from accous.arrays import from_plain, to_plain
from accous.diagnostics.metrics import ClassRows, decide, one_hot, read_metric
from accous.diagnostics.performance import (
    ClassCalibration,
    Labels,
    NumberCalibration,
    PredictedRows,
    at_fit,
    confirmed,
    estimate,
    estimate_by_segment,
    expected,
    gaps,
    label_weights,
    labels_needed,
    of_constant,
    spread_of,
    windows_of,
)

ERROR, AUC, F1 = (read_metric(name, [0, 1]) for name in ("error", "roc_auc", "f1"))
MAE = read_metric("mean_absolute_error", None)


def draw(rng, n, shift=0.0, confidence=2.0):
    """Return overconfident probabilities, and labels that follow from them at half the slope."""
    x = rng.normal(shift, 1.5, size=n)
    p = 1.0 / (1.0 + np.exp(-confidence * x))
    probabilities = np.column_stack((1.0 - p, p))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-0.5 * confidence * x))).astype(np.int64)
    return PredictedRows(decide(probabilities), probabilities), y


def calibration_of(seed=0, n=1500):
    made, y = draw(np.random.default_rng(seed), n)
    return ClassCalibration.fit(made, y, windows_of(n))


def numbers(rng, n, shift=0.0):
    """Return predictions whose residuals are larger the larger the prediction."""
    predicted = rng.uniform(0.0, 4.0, size=n) + shift
    return PredictedRows(predicted), predicted + rng.normal(size=n) * (0.5 + predicted)


def no_labels(made):
    return Labels(made[:0], np.zeros(0, dtype=np.int64), np.zeros(0))


def true_value(metric, made, y):
    return metric.value(ClassRows(made.predicted, made.probabilities, one_hot(y, 2)))


def test_calibration_undoes_overconfidence():
    calibration = calibration_of()
    assert calibration.slopes[0] == pytest.approx(0.5, abs=0.1)
    made, y = draw(np.random.default_rng(1), 20_000)
    shares = calibration.calibrated(made.probabilities)[:, 1]
    for low in (0.1, 0.4, 0.7):
        near = (shares > low) & (shares < low + 0.2)
        assert y[near].mean() == pytest.approx(shares[near].mean(), abs=0.04)


def test_calibration_of_few_rows_stays_near_what_the_model_says():
    made, _ = draw(np.random.default_rng(0), 5)
    calibration = ClassCalibration.fit(made, np.zeros(5, dtype=np.int64), windows_of(5, 1))
    assert 0.3 < calibration.slopes[0] < 3.0
    assert np.isfinite(calibration.calibrated(np.array([[0.0, 1.0], [1.0, 0.0]]))).all()


def test_weights_calibrate_on_rows_that_count():
    made, y = draw(np.random.default_rng(0), 2000)
    is_flipped = np.arange(2000) < 1000
    plain = ClassCalibration.fit(made, np.where(is_flipped, 1 - y, y), windows_of(2000))
    assert plain.slopes[0] == pytest.approx(0.0, abs=0.1)
    found = plain.reweighted(np.where(is_flipped, 1e-6, 1e6))
    assert found.slopes[0] == pytest.approx(0.5, abs=0.1)
    assert np.ptp(found.slopes - plain.slopes) == pytest.approx(0.0, abs=1e-12)
    assert plain.reweighted(np.ones(2000)).slopes == pytest.approx(plain.slopes, abs=1e-3)


def test_weights_choose_residuals_of_rows_that_count():
    made, y = numbers(np.random.default_rng(0), 2000)
    y = np.where(np.arange(2000) < 1000, made.predicted, y)
    calibration = NumberCalibration.fit(made, y, windows_of(2000))
    ratio = np.where(np.arange(2000) < 1000, 1e-6, 1e6)
    assert expected(MAE, calibration.reweighted(ratio), made).value > 1.8 * expected(MAE, calibration, made).value


def test_calibration_survives_a_file():
    calibration = calibration_of(n=60)
    again = from_plain(ClassCalibration, to_plain(calibration))
    assert np.array_equal(
        again.calibrated(calibration.held_out.probabilities), calibration.calibrated(calibration.held_out.probabilities)
    )


@pytest.mark.parametrize("metric", [ERROR, AUC, F1], ids=lambda each: each.name)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_expected_values_follow_inputs_and_their_intervals_hold_the_truth(metric, shift):
    covered, n_times = 0, 50
    for seed in range(n_times):
        calibration = calibration_of(seed, n=600)
        made, y = draw(np.random.default_rng([seed, 1]), 500, shift)
        now = expected(metric, calibration, made)
        assert now.low <= now.value <= now.high
        assert now.basis == "expected"
        covered += now.low <= true_value(metric, made, y) <= now.high
    assert covered >= 0.85 * n_times


@pytest.mark.parametrize("metric", [ERROR, AUC, F1], ids=lambda each: each.name)
@pytest.mark.parametrize("confidence", [2.0, -1.0])
def test_labels_confirm_whatever_was_expected(metric, confidence):
    """Where labels no longer follow from inputs as they did, the interval holds the truth as often."""
    calibration, covered, n_times = calibration_of(), 0, 60
    for seed in range(n_times):
        rng = np.random.default_rng([seed, 2])
        made, y = draw(rng, 1000)
        if confidence < 0.0:
            y = np.where(rng.random(1000) < 0.3, 1 - y, y)
        rows = rng.choice(1000, 100, replace=False)
        now = confirmed(metric, calibration, made, Labels(made[rows], y[rows], np.ones(100)))
        covered += now.low <= true_value(metric, made, y) <= now.high
    assert covered >= 0.85 * n_times


def test_unequal_probabilities_of_being_chosen_are_undone():
    calibration, found, plain, truth = calibration_of(), [], [], []
    for seed in range(60):
        rng = np.random.default_rng([seed, 3])
        made, y = draw(rng, 1000)
        y = np.where(rng.random(1000) < 0.2, 1 - y, y)
        unsure = 1.0 - np.abs(2.0 * made.probabilities[:, 1] - 1.0)
        chosen = 0.05 + 0.3 * unsure
        rows = np.flatnonzero(rng.random(1000) < chosen)
        weights = label_weights(np.zeros(len(rows)), 1000, chosen[rows])
        found.append(confirmed(ERROR, calibration, made, Labels(made[rows], y[rows], weights)).value)
        plain.append((made.predicted[rows] != y[rows]).mean())
        truth.append(true_value(ERROR, made, y))
    assert np.mean(found) == pytest.approx(np.mean(truth), abs=0.012)
    assert np.mean(plain) > np.mean(truth) + 0.03


@pytest.mark.parametrize("metric", [ERROR, AUC, F1], ids=lambda each: each.name)
def test_labels_of_all_rows_give_the_value_of_scikit_learn(metric):
    rng = np.random.default_rng(5)
    made, y = draw(rng, 400)
    now = confirmed(metric, calibration_of(), made, Labels(made, y, np.ones(400)))
    theirs = {
        "error": (made.predicted != y).mean,
        "roc_auc": lambda: roc_auc_score(y, made.probabilities[:, 1]),
        "f1": lambda: f1_score(y, made.predicted),
    }[metric.name]()
    assert now.value == pytest.approx(theirs, abs=1e-9)
    assert (now.basis, now.n_labels) == ("labels", 400)


@pytest.mark.parametrize("metric", [AUC, F1], ids=lambda each: each.name)
def test_intervals_are_as_wide_as_the_bootstrap_says(metric):
    rng = np.random.default_rng(6)
    made, y = draw(rng, 300)
    now = confirmed(metric, calibration_of(), made, Labels(made, y, np.ones(300)))
    drawn = (rng.integers(300, size=300) for _ in range(400))
    low, high = np.quantile([true_value(metric, made[rows], y[rows]) for rows in drawn], (0.05, 0.95))
    assert now.high - now.low == pytest.approx(high - low, rel=0.2)


def test_what_is_expected_narrows_the_interval():
    calibration, ratios = calibration_of(), []
    for seed in range(30):
        rng = np.random.default_rng([seed, 7])
        made, y = draw(rng, 2000, confidence=6.0)
        rows = rng.choice(2000, 200, replace=False)
        labels = Labels(made[rows], y[rows], np.ones(200))
        with_rest = confirmed(ERROR, calibration, made, labels)
        alone = confirmed(ERROR, calibration, made[rows], labels)
        ratios.append((with_rest.high - with_rest.low) / (alone.high - alone.low))
    assert np.mean(ratios) < 0.99


def test_no_error_in_few_labels_is_no_certainty():
    made, y = draw(np.random.default_rng(0), 200)
    rows = np.flatnonzero(made.predicted == y)[:30]
    now = confirmed(ERROR, calibration_of(), made, Labels(made[rows], y[rows], np.ones(30)))
    assert now.low == 0.0
    assert now.high > 0.05


@pytest.mark.parametrize(
    "name", ["f1", "recall", "precision", "balanced_error", "f1_macro", "roc_auc", "average_precision"]
)
def test_intervals_of_a_rare_class_hold_the_truth(name):
    """Of 100 labels, about ten are of the class and three are predicted so: often none is a hit."""
    rng, metric, n_times = np.random.default_rng(0), read_metric(name, [0, 1]), 120
    calibration, (made, y) = calibration_of(), draw(rng, 500 * n_times, shift=-3.0)
    true, n_held = true_value(metric, made, y), 0
    for start in range(0, len(y), 500):
        chosen = start + rng.permutation(500)[:100]
        labels = Labels(made[chosen], y[chosen], np.ones(100))
        now = confirmed(metric, calibration, made[start : start + 500], labels)
        n_held += now.low <= true <= now.high
    assert n_held >= 0.88 * n_times


@pytest.mark.parametrize("n", [3, 40])
def test_an_interval_of_costs_is_within_them(n):
    costs = np.array([[0.0, 1.0], [5.0, -1.0]])
    made, y = draw(np.random.default_rng(0), 40, shift=-3.0)
    for metric in (read_metric("cost", [0, 1], costs=costs), read_metric("cost", [0, 1], costs=1.0 - np.eye(2))):
        for now in (
            expected(metric, calibration_of(), made[:n]),
            confirmed(metric, calibration_of(), made[:n], Labels(made[:n], y[:n], np.ones(n))),
        ):
            assert metric.costs.min() <= now.low <= now.value < now.high <= metric.costs.max()
    error = confirmed(ERROR, calibration_of(), made, Labels(made, y, np.ones(40)))
    found = confirmed(metric, calibration_of(), made, Labels(made, y, np.ones(40)))
    assert (found.value, found.low, found.high) == pytest.approx((error.value, error.low, error.high))


def test_what_is_expected_of_two_rows_is_known_from_the_reference():
    """It is the residuals of the reference that vary, and of those there are many."""
    reference, values = numbers(np.random.default_rng(0), 2000)
    now = expected(MAE, NumberCalibration.fit(reference, values, windows_of(2000)), reference[:2])
    assert now.high < 4.0 * now.value


def test_labels_decide_from_thirty_on():
    made, y = draw(np.random.default_rng(0), 300)
    labels = Labels(made[:40], y[:40], np.ones(40))
    assert estimate(ERROR, calibration_of(), made, labels).basis == "labels"
    few = estimate(ERROR, calibration_of(), made, labels[:29])
    assert (few.basis, few.n_labels) == ("expected", 29)
    faded = replace(labels, weight=label_weights(np.arange(40) * 250.0, 0))
    assert estimate(ERROR, calibration_of(), made, faded).basis == "expected"
    assert estimate(ERROR, calibration_of(), made, no_labels(made)).basis == "expected"


@pytest.mark.parametrize("metric", [AUC, F1], ids=lambda each: each.name)
def test_labels_with_hardly_a_positive_do_not_decide(metric):
    made, y = draw(np.random.default_rng(0), 300)
    negative, positive = (np.flatnonzero(y == each) for each in (0, 1))
    for n_positive, basis in ((0, "expected"), (4, "expected"), (5, "labels")):
        rows = np.concatenate((negative[:50], positive[:n_positive]))
        labels = Labels(made[rows], y[rows], np.ones(len(rows)))
        assert estimate(metric, calibration_of(), made, labels).basis == basis
        assert estimate(ERROR, calibration_of(), made, labels).basis == "labels"


def test_without_rows_nothing_is_known():
    made, y = draw(np.random.default_rng(0), 50)
    now = estimate(F1, calibration_of(), made[:0], Labels(made, y, np.ones(50)))
    assert (now.basis, now.n_labels, math.isnan(now.value), math.isnan(now.high)) == ("expected", 50, True, True)
    assert math.isnan(at_fit(F1, calibration_of(), slice(0)))
    reference, values = numbers(np.random.default_rng(0), 100)
    calibration = NumberCalibration.fit(reference, values, windows_of(100))
    assert math.isnan(expected(MAE, calibration, reference[:0]).value)


def test_the_best_constant_is_that_of_a_dummy():
    rng = np.random.default_rng(0)
    made, _ = draw(rng, 400)
    y = (rng.random(400) < 0.3).astype(np.int64)
    share, calibration = y.mean(), ClassCalibration.fit(made, y, windows_of(400))
    entropy = -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    wanted = {"error": share, "balanced_error": 0.5, "log_loss": entropy, "brier": share * (1.0 - share)}
    wanted |= {"roc_auc": 0.5, "average_precision": share, "f1": 2.0 * share / (1.0 + share), "precision": share}
    for name, value in wanted.items():
        assert of_constant(read_metric(name, [0, 1]), calibration) == pytest.approx(value), name
    reference, y = numbers(rng, 300)
    calibration = NumberCalibration.fit(reference, y, windows_of(300))
    assert of_constant(MAE, calibration) == pytest.approx(np.abs(y - np.median(y)).mean())
    assert of_constant(read_metric("root_mean_squared_error", None), calibration) == pytest.approx(y.std())
    pinball = read_metric("pinball:0.9", None)
    assert of_constant(pinball, calibration) == pytest.approx(
        mean_pinball_loss(y, np.full(300, np.quantile(y, 0.9)), alpha=0.9)
    )


def test_where_a_constant_can_be_perfect_none_is_compared():
    made, y = draw(np.random.default_rng(0), 200)
    assert math.isnan(of_constant(read_metric("recall", [0, 1]), ClassCalibration.fit(made, y, windows_of(200))))
    reference, y = numbers(np.random.default_rng(0), 200)
    assert math.isnan(of_constant(read_metric("bias", None), NumberCalibration.fit(reference, y, windows_of(200))))


@pytest.mark.parametrize(
    "name", ["mean_absolute_error", "median_absolute_error", "root_mean_squared_error", "bias", "pinball:0.9"]
)
@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_numbers_are_expected_and_confirmed(name, shift):
    metric, n_times, held, confirmed_held = read_metric(name, None), 40, 0, 0
    for seed in range(n_times):
        rng = np.random.default_rng([seed, 8])
        reference, y = numbers(rng, 1500)
        calibration = NumberCalibration.fit(reference, y, windows_of(1500))
        made, y = numbers(rng, 1000, shift)
        true = metric.value(NumberCalibration.fit(made, y, windows_of(1000)).true_rows())
        now = expected(metric, calibration, made)
        held += now.low <= true <= now.high
        rows = rng.choice(1000, 100, replace=False)
        then = confirmed(metric, calibration, made, Labels(made[rows], y[rows], np.ones(100)))
        confirmed_held += then.low <= true <= then.high
    assert confirmed_held >= 0.8 * n_times
    if shift == 0.0:
        assert held >= 0.85 * n_times


def test_expected_error_of_numbers_grows_with_the_predictions():
    rng = np.random.default_rng(0)
    reference, y = numbers(rng, 2000)
    calibration = NumberCalibration.fit(reference, y, windows_of(2000))
    high = expected(MAE, calibration, reference[reference.predicted > 3.0])
    assert high.value > 1.3 * at_fit(MAE, calibration)


def test_gaps_tell_windows_that_were_not_expected():
    made, y = draw(np.random.default_rng(0), 1200)
    window = windows_of(1200)
    y = np.where(window == 4, 1 - y, y)
    found, noise = gaps(ERROR, ClassCalibration.fit(made, y, window))
    assert found.argmax() == 4
    assert found[4] > 0.3
    assert noise == pytest.approx(
        np.mean([np.var(made.predicted[window == each] != y[window == each]) / 200 for each in range(6)])
    )
    assert gaps(AUC, ClassCalibration.fit(made, y, window))[0][4] > 0.3
    reference, values = numbers(np.random.default_rng(0), 1200)
    values = np.where(window == 2, values + 20.0, values)
    found, noise = gaps(MAE, NumberCalibration.fit(reference, values, window))
    assert (found.argmax(), noise) == (2, 0.0)


def test_gaps_of_windows_of_one_class_are_not_known_and_add_no_noise():
    made, y = draw(np.random.default_rng(0), 300)
    window = windows_of(300)
    found, noise = gaps(AUC, ClassCalibration.fit(made, np.where(window == 1, 0, y), window))
    assert np.isnan(found).tolist() == [False, True, False, False, False, False]
    assert 0.0 < noise < 0.02


def test_segments_are_sorted_worst_first():
    rng = np.random.default_rng(0)
    calibration = calibration_of()
    made, y = draw(rng, 900)
    country = np.array(["a", "b", "c"])[np.arange(900) % 3]
    y = np.where((country == "b") & (rng.random(900) < 0.4), 1 - y, y)
    labels = Labels(made[:600], y[:600], np.ones(600))
    columns = {"of_recent": country, "of_labels": country[:600], "of_held_out": np.resize(country, 1500)}
    found = estimate_by_segment(ERROR, calibration, made, labels, **columns)
    assert next(name for name, _ in found) == "b"
    assert sorted(name for name, _ in found) == ["a", "b", "c"]
    assert {one.n_labels for _, one in found} == {200}
    best_auc = estimate_by_segment(AUC, calibration, made, labels, **columns)
    assert [one.value for _, one in best_auc] == sorted(one.value for _, one in best_auc)


def test_segments_of_numbers_are_quarters():
    made, _ = draw(np.random.default_rng(0), 400)
    age = np.append(np.arange(399.0), np.nan)
    found = estimate_by_segment(
        ERROR, calibration_of(n=400), made, no_labels(made), of_recent=age, of_labels=age[:0], of_held_out=age
    )
    assert len(found) == 4
    assert {name.split()[0] for name, _ in found} >= {"below", "from"}
    assert all(one.basis == "expected" and one.at_fit > 0.0 for _, one in found)


def test_labels_needed_are_those_of_the_formula():
    assert labels_needed(0.5 * 0.5, 0.05) == 271
    assert labels_needed(0.1 * 0.9, 0.05) == 98


@pytest.mark.parametrize("metric", [ERROR, AUC, F1, MAE])
def test_as_many_labels_as_are_needed_give_the_half_width(metric):
    rng, calibration = np.random.default_rng(0), calibration_of()
    made, y = draw(rng, 4_000, shift=-1.5)
    if metric is MAE:
        calibration = NumberCalibration.fit(*numbers(rng, 1_500), windows_of(1_500))
        made, y = numbers(rng, 4_000)
    wanted = 0.1 * expected(metric, calibration, made).value if metric is MAE else 0.04
    n = labels_needed(spread_of(metric, calibration, made), wanted)
    found = []
    for seed in range(20):
        chosen = np.random.default_rng(seed).permutation(4_000)[:n]
        # They speak alone: what is expected beside them narrows the interval.
        one = confirmed(metric, calibration, made, Labels(made[chosen], y[chosen], np.ones(n), is_alone=True))
        found.append(0.5 * (one.high - one.low))
    assert np.mean(found) == pytest.approx(wanted, rel=0.15)
