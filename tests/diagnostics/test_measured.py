"""The running counts over late labels: discounts, intervals, alarm, names of unseen classes, kept rows."""

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from accous.arrays import from_plain, to_plain
from accous.diagnostics.labels import (
    LABEL_HALF_LIFE,
    MOST_AUDITED,
    MOST_AUDITED_BYTES,
    Audit,
    JudgedRows,
    LateLabels,
    _cached_powers,
    alarm_height,
    measure,
)
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import wilson_interval

RNG = np.random.default_rng(0)


def judged(is_wrong, *, estimate=0.2, half_width=0.05, fixed=None, unseen=(), features=None):
    is_wrong = np.asarray(is_wrong, dtype=bool)
    is_unseen = np.zeros(len(is_wrong), dtype=bool)
    is_unseen[: len(unseen)] = True
    return JudgedRows(
        losses=is_wrong.astype(float),
        losses_fixed=None if fixed is None else np.asarray(fixed, dtype=float),
        errors_fixed=fixed,
        is_unseen=is_unseen,
        unseen_names=tuple(unseen),
        estimates=np.tile((estimate, estimate - half_width, estimate + half_width), (len(is_wrong), 1)),
        features=features,
    )


def result(labels, n_stream=10_000):
    return measure(labels, n_stream=n_stream, audit=None)


def test_the_error_is_the_mean_discounted_by_the_half_life():
    is_wrong = RNG.random(2_000) < 0.3
    weights = 0.5 ** (np.arange(1_999, -1, -1) / LABEL_HALF_LIFE)
    found = result(LateLabels().after(judged(is_wrong)))
    assert found.error == pytest.approx(np.average(is_wrong, weights=weights))
    assert found.n_labelled == 2_000
    assert (found.error_plain, found.n_plain) == (pytest.approx(is_wrong.mean()), 2_000)
    assert found.excess == pytest.approx(found.error - 0.2)


def test_the_counts_do_not_depend_on_the_calls_that_bring_the_labels():
    is_wrong = RNG.random(300) < 0.4
    features = RNG.normal(size=(300, 2))
    whole = LateLabels().after(judged(is_wrong, fixed=is_wrong, features=features))
    parts = LateLabels()
    for part in np.split(np.arange(300), [1, 2, 50, 299]):
        parts = parts.after(judged(is_wrong[part], fixed=is_wrong[part], features=features[part]))
    np.testing.assert_allclose(parts.sums, whole.sums)
    assert (parts.n_labelled, parts.cusum) == (whole.n_labelled, pytest.approx(whole.cusum))
    assert np.array_equal(parts.audit_rows.features, whole.audit_rows.features)


def test_wilsons_interval_is_that_of_scipy():
    expected = binomtest(17, 60).proportion_ci(0.9, method="wilson")
    assert wilson_interval(17 / 60, 60) == pytest.approx((expected.low, expected.high))


def test_a_few_wrong_predictions_contradict_nothing_and_many_do():
    few = result(LateLabels().after(judged([True] * 5)))
    assert few.error == 1.0
    assert not few.contradicts
    many = result(LateLabels().after(judged([True, True, False] * 20)))
    assert many.contradicts
    assert "contradict each other" in many.sentence
    agreeing = result(LateLabels().after(judged([True, False, False, False, False] * 20)))
    assert not agreeing.contradicts
    assert "do not contradict" in agreeing.sentence


def test_labels_inside_the_interval_do_not_contradict_by_chance():
    is_wrong = [number % 100 < 29 for number in range(500)]
    found = result(LateLabels().after(judged(is_wrong, estimate=0.345, half_width=0.075)))
    assert found.is_exact
    assert found.is_off
    assert not found.contradicts
    assert "the estimate for these rows is 34.5% (27.0% to 42.0%), without labels; " in found.sentence
    assert "points too high, but its interval holds" in found.sentence
    assert "contradict" not in found.sentence


def test_many_labels_far_from_the_estimate_contradict_it_in_words_that_are_true():
    is_wrong = [number % 4 == 0 for number in range(2_000)]
    found = result(LateLabels().after(judged(is_wrong, estimate=0.157, half_width=0.15)))
    assert found.contradicts
    assert found.is_inside
    assert "9.2 points too low, but its interval holds: rely on the measured error." in found.sentence
    assert "contradict each other" not in found.sentence


@pytest.mark.parametrize(("half_width", "is_within"), [(0.1, True), (0.08, False)])
def test_an_interval_holds_only_if_the_measured_error_lies_inside(half_width, is_within):
    is_wrong = np.arange(2_000) * 37 % 100 < 18
    found = result(LateLabels().after(judged(is_wrong, estimate=0.27, half_width=half_width)))
    assert (found.is_within, found.is_inside) == (is_within, True)
    assert ("but its interval holds: rely" in found.sentence) == is_within
    outside = "and the measured error lies outside of its interval, though the two intervals overlap: rely"
    assert (outside in found.sentence) != is_within


def test_labels_just_outside_of_an_interval_that_is_too_wide_are_said_to_lie_there():
    is_wrong = np.arange(2_000) * 37 % 100 < 18
    found = result(LateLabels().after(judged(is_wrong, estimate=0.49, half_width=0.3)))
    assert found.is_inside
    assert "and lie just outside of the interval, which is too wide to show an estimate: rely" in found.sentence


def test_an_estimate_that_is_not_known_is_not_said_to_be_too_low():
    is_wrong = [number % 4 == 0 for number in range(2_000)]
    found = result(LateLabels().after(judged(is_wrong, estimate=0.1, half_width=0.26)))
    assert found.contradicts
    assert (
        "the estimate for these rows is not known (-16.0% to 36.0%), without labels; labels contradict the 10.0% that "
        "the reference makes likely (14.9 points above it), though not the interval, which is too wide to show an "
        "estimate: rely on the measured error."
    ) in found.sentence


def test_labels_outside_a_wide_interval_contradict_the_interval_and_not_a_number():
    found = result(LateLabels().after(judged([True] * 200, estimate=0.3, half_width=0.3)))
    assert found.contradicts
    assert not found.is_inside
    assert not found.is_estimate_known
    assert "contradict each other" not in found.sentence
    assert (
        "labels contradict even the interval of the estimate, wide as it is: rely on the measured error."
        in found.sentence
    )


def test_an_alarm_beside_an_estimate_that_is_not_known_says_what_the_predictions_were_worse_than():
    found = result(LateLabels().after(judged([True] * 40, estimate=0.3, half_width=0.75)))
    assert found.is_alarmed
    assert found.is_inside
    assert "the labels given last were far worse than the 30.0% that the reference makes likely" in found.sentence


def audit_of(observed, high, *, p_value=0.001, n_rows=100):
    return Audit(
        n_rows=n_rows,
        observed=observed,
        estimate=high - 0.05,
        estimate_low=high - 0.1,
        estimate_high=high,
        p_value=p_value,
        concept_changed=p_value < 0.01,
        text="",
    )


@pytest.mark.parametrize(
    ("audit", "is_covered", "answer"),
    [
        (audit_of(0.4, 0.3), True, "yes"),
        (audit_of(0.4, 0.3), False, "not known"),
        (audit_of(0.2, 0.3), True, "not known"),
        (audit_of(0.4, 0.3, p_value=0.2), True, "no"),
        (audit_of(0.4, 0.3, n_rows=10), True, "not known"),
        (None, True, "not known"),
    ],
)
def test_a_changed_concept_needs_inputs_that_are_covered_and_errors_that_have_grown(audit, is_covered, answer):
    labels = LateLabels().after(judged([True, False, False, False] * 30))
    found = measure(labels, n_stream=1_000, audit=audit, is_covered=is_covered)
    assert found.concept_changed == answer
    assert ("P(y | x) seems to have changed" in found.sentence) == (answer == "yes")


def test_losses_of_numbers_have_no_estimate_where_the_reference_has_no_rows():
    labels = LateLabels().after(judged([True] * 200, estimate=0.1))
    one, other = (
        measure(labels, n_stream=1_000, audit=None, scale=LossScale("absolute"), is_covered=is_covered)
        for is_covered in (True, False)
    )
    assert one.contradicts
    assert not other.contradicts
    assert math.isnan(other.estimated)
    assert "the reference does not cover the inputs, so there is no estimate" in other.sentence


def test_it_prints_its_sentence():
    found = result(LateLabels().after(judged([True] * 30 + [False] * 70)))
    assert str(found) == found.sentence
    assert str(found).startswith("By 100 labels (those given last count most), the error is ")


def test_an_error_far_below_the_estimate_contradicts_it_too():
    assert result(LateLabels().after(judged([False] * 200, estimate=0.5))).contradicts


def test_the_alarm_comes_early_after_a_jump_and_goes_when_the_errors_do():
    quiet = LateLabels().after(judged(np.arange(1_000) % 5 == 0))
    assert not result(quiet).is_alarmed
    jumped = quiet.after(judged([True] * 19))
    assert result(jumped).is_alarmed
    assert result(jumped).contradicts
    assert not result(jumped.after(judged([False] * 40))).is_alarmed


def test_an_alarm_inside_the_interval_says_what_it_is_about():
    found = result(LateLabels().after(judged([False] * 40 + [True] * 20, estimate=0.2, half_width=0.2)))
    assert found.is_alarmed
    assert found.contradicts
    assert found.is_inside
    assert "with the labels given last were far worse than estimated: rely on the measured error." in found.sentence


@pytest.mark.parametrize(("share", "height"), [(0.0, 8.0), (0.01, 8.0), (0.05, 10.0), (1.0, 10.0)])
def test_the_height_of_the_alarm_follows_the_share_of_labelled_rows(share, height):
    assert alarm_height(share) == pytest.approx(height)
    assert 8.0 < alarm_height(0.02) < 10.0


def test_unseen_classes_are_counted_by_name_and_mean_a_changed_concept():
    rows = judged(
        [True] * 3 + [False] * 37, unseen=("b", "c", "b"), fixed=np.zeros(40, bool), features=np.zeros((40, 1))
    )
    found = result(LateLabels().after(rows))
    assert found.unseen_classes == {"b": 2, "c": 1}
    assert found.concept_changed == "yes"
    assert "'b' (2), 'c' (1)" in found.sentence


def test_at_most_a_hundred_names_are_kept():
    names = tuple(map(str, range(150)))
    found = result(LateLabels().after(judged([True] * 150, unseen=names)))
    assert len(found.unseen_classes) == 101
    assert found.unseen_classes["(other)"] == 50
    assert sum(found.unseen_classes.values()) == 150


def test_without_an_estimate_nothing_is_contradicted():
    found = result(LateLabels().after(judged([True] * 100, estimate=float("nan"))))
    assert math.isnan(found.estimated)
    assert not found.contradicts
    assert "no estimate" in found.sentence


def test_rows_of_unknown_features_count_but_are_not_kept():
    labels = LateLabels().after(judged([True, False]))
    assert labels.audit_rows is None
    assert math.isnan(result(labels).error_fixed)
    assert result(labels).concept_changed == "not known"


def test_the_last_rows_are_kept_whatever_pieces_they_came_in():
    labels = LateLabels()
    for number in range(200):
        features = np.full((7, 1), float(number))
        labels = labels.after(judged([False] * 7, fixed=np.zeros(7, bool), features=features))
    assert sum(map(len, labels.kept)) < MOST_AUDITED + 7
    kept = labels.audit_rows.features[:, 0]
    assert len(kept) == MOST_AUDITED
    assert np.array_equal(kept, np.repeat(np.arange(200.0), 7)[-MOST_AUDITED:])


@pytest.mark.parametrize("n_rows", [150, 1])
def test_of_wide_rows_fewer_are_kept_and_no_more_memory_is_held(n_rows):
    labels, n_columns = LateLabels(), 20_000
    for number in range(450 // n_rows):
        features = np.full((n_rows, n_columns), float(number))
        labels = labels.after(
            judged(np.zeros(n_rows, dtype=bool), fixed=np.zeros(n_rows, dtype=bool), features=features)
        )
    held = [each.features if each.features.base is None else each.features.base for each in labels.kept]
    assert sum(each.nbytes for each in held) <= 2 * MOST_AUDITED_BYTES
    assert labels.audit_rows.features.shape == (25, n_columns)
    assert len(labels.audit_rows.errors_fixed) == len(labels.audit_rows.is_unseen) == 25
    assert labels.audit_rows.features[-1, 0] == float(number)


def test_the_weights_of_many_rows_are_not_kept_in_memory():
    labels = LateLabels()
    n_cached = _cached_powers.cache_info().currsize
    for n_rows in (50_001, 50_002):
        labels = labels.after(judged(np.zeros(n_rows, dtype=bool)))
    assert _cached_powers.cache_info().currsize == n_cached
    assert labels.sums[0] == pytest.approx(1.0 / (1.0 - 0.5 ** (1.0 / LABEL_HALF_LIFE)))


def test_counts_are_stored_and_go_on_with_the_same_bits():
    first = judged(
        RNG.random(700) < 0.3, fixed=RNG.random(700) < 0.5, features=RNG.normal(size=(700, 2)), unseen=("z",)
    )
    labels = LateLabels().after(first)
    loaded = from_plain(LateLabels, to_plain(labels.packed()))
    more = judged([True, False], fixed=np.zeros(2, bool), features=np.ones((2, 2)))
    one, other = labels.after(more), loaded.after(more)
    assert np.array_equal(one.sums, other.sums)
    assert (one.squares, one.cusum, one.n_unseen) == (other.squares, other.cusum, other.n_unseen)
    assert one.plain_loss == other.plain_loss
    assert np.array_equal(one.audit_rows.features, other.audit_rows.features)
    assert result(one) == result(other)


def test_after_a_refit_earlier_labels_count_little():
    labels = LateLabels().after(judged([True] * 2_000, unseen=("a", "b"))).after_refit(frozenset({"a"}))
    assert labels.cusum == 0.0
    assert labels.n_unseen == (("b", 1),)
    found = result(labels.after(judged([False] * 100)))
    assert found.error < 0.4
    assert found.n_labelled == 2_100
    # The plain mean is about the present predictors alone.
    assert (found.error_plain, found.n_plain) == (0.0, 100)
    assert math.isnan(result(labels).error_plain)


@pytest.mark.parametrize(("n_rows", "share"), [(200, 0.2), (1_000, 0.05), (10_000, 0.2)])
def test_two_models_of_the_same_error_are_seldom_told_apart(n_rows, share):
    n_told = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        is_different = random.random(n_rows) < share
        is_wrong = np.where(is_different, random.random(n_rows) < 0.5, random.random(n_rows) < 0.2)
        found = result(LateLabels().after(judged(is_wrong, fixed=np.where(is_different, ~is_wrong, is_wrong))))
        n_told += abs(found.gap) > 2.0 * found.gap_standard_error
    assert n_told <= 9


def test_the_gap_is_over_the_rows_that_both_models_predicted():
    labels = LateLabels().after(judged([True] * 50)).after(judged([True] * 5 + [False] * 45, fixed=np.zeros(50, bool)))
    found = result(labels)
    weights = 0.5 ** (np.arange(49, -1, -1) / LABEL_HALF_LIFE)
    assert found.gap == pytest.approx(np.average([True] * 5 + [False] * 45, weights=weights))
    assert found.error > 0.5


def test_labels_of_earlier_predictors_are_not_exact_any_more():
    is_wrong = [number % 4 == 0 for number in range(4_000)]
    labels = LateLabels().after(judged(is_wrong))
    before, after = (result(each) for each in (labels, labels.after_refit(frozenset())))
    assert before.is_exact
    assert not after.is_exact
    assert after.error == pytest.approx(before.error)
    low, high = wilson_interval(after.error, 50.0)
    assert (after.error_low, after.error_high) == pytest.approx((low, high))
    few = LateLabels().after(judged(is_wrong[:30]))
    assert result(few.after_refit(frozenset())).error_low == result(few).error_low
