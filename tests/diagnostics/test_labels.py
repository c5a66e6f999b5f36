"""Late labels: running counts, audits, blocks and stretches, the latest labels, and intervals that are counted."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import accous
from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.arrays import from_plain, to_plain
from accous.diagnostics.coverage import Coverage
from accous.diagnostics.evidence import NO_EVIDENCE
from accous.diagnostics.labels import (
    LABEL_HALF_LIFE,
    MOST_AUDITED,
    MOST_AUDITED_BYTES,
    NO_BLOCKS,
    NO_INTERVALS,
    NO_STRETCHES,
    UNKNOWN,
    Audit,
    JudgedRows,
    LabelBlocks,
    LabelledRounds,
    LateLabels,
    _cached_powers,
    alarm_height,
    audit_errors,
    audit_residuals,
    compare_stretches,
    doubt_about_intervals,
    keep_latest,
    measure,
    measure_latest,
)
from accous.diagnostics.losses import ABSOLUTE, SQUARED
from accous.diagnostics.messages import ERRORS, LossScale
from accous.diagnostics.risk import wilson_interval
from accous.diagnostics.trust import Answer, answer_predictions
from accous.exceptions import DataError, ParameterError
from accous.threads import one_blas_thread

RNG = np.random.default_rng(0)
ESTIMATE = (0.25, 0.19, 0.32)


def judged(losses, estimate=0.2, half_width=0.05, *, low=None, high=None, fixed=None, unseen=(), features=None):
    """Rows whose losses are known, with the estimate of their time."""
    losses = np.asarray(losses, dtype=float)
    low, high = (estimate - half_width, estimate + half_width) if low is None else (low, high)
    return JudgedRows(
        losses=losses,
        losses_fixed=None if fixed is None else np.asarray(fixed, dtype=float),
        errors_fixed=fixed,
        is_unseen=np.arange(len(losses)) < len(unseen),
        unseen_names=tuple(unseen),
        estimates=np.tile((estimate, low, high), (len(losses), 1)),
        features=features,
    )


def result(labels, n_stream=10_000, **changes):
    return measure(labels, n_stream=n_stream, **{"audit": None} | changes)


def found_by(losses, *estimate, **changes):
    return result(LateLabels().after(judged(losses, *estimate, **changes)))


def wrong(share, n_rows):
    return (np.arange(n_rows) % 20 < 20 * share).astype(float)


# --- running counts ---------------------------------------------------------------------------------------------


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


EVERY_FOURTH, EVERY_FIFTH = np.arange(2_000) % 4 == 0, np.arange(1_000) % 5 == 0
OF_18 = np.arange(2_000) * 37 % 100 < 18


@pytest.mark.parametrize(
    ("losses", "estimate", "contradicts", "others"),
    [
        ([True] * 5, (0.2, 0.05), False, {"error": 1.0}),
        ([True, True, False] * 20, (0.2, 0.05), True, {}),
        ([True, False, False, False, False] * 20, (0.2, 0.05), False, {}),
        ([False] * 200, (0.5, 0.05), True, {}),
        # Inside the interval they do not contradict by chance, but many of them do, far from the estimate.
        (np.arange(500) % 100 < 29, (0.345, 0.075), False, {"is_exact": True, "is_off": True}),
        (EVERY_FOURTH, (0.157, 0.15), True, {"is_inside": True}),
        # An interval holds only if the measured error lies inside.
        (OF_18, (0.27, 0.1), True, {"is_within": True, "is_inside": True}),
        (OF_18, (0.27, 0.08), True, {"is_within": False, "is_inside": True}),
        (OF_18, (0.49, 0.3), True, {"is_within": False, "is_inside": True, "is_estimate_known": False}),
        (EVERY_FOURTH, (0.1, 0.26), True, {"is_estimate_known": False}),
        ([True] * 200, (0.3, 0.3), True, {"is_inside": False, "is_estimate_known": False}),
        ([True] * 40, (0.3, 0.75), True, {"is_alarmed": True, "is_inside": True}),
        ([False] * 40 + [True] * 20, (0.2, 0.2), True, {"is_alarmed": True, "is_inside": True}),
        ([True] * 100, (math.nan, 0.0), False, {}),
    ],
)
def test_when_labels_contradict_an_estimate(losses, estimate, contradicts, others):
    found = found_by(losses, *estimate)
    assert {name: getattr(found, name) for name in ("contradicts", *others)} == {"contradicts": contradicts, **others}
    assert str(found) == found.sentence != ""


@pytest.mark.parametrize(
    ("observed", "p_value", "n_rows", "is_covered", "answer"),
    [
        (0.4, 0.001, 100, True, "yes"),
        (0.4, 0.001, 100, False, "not known"),
        (0.2, 0.001, 100, True, "not known"),
        (0.4, 0.2, 100, True, "no"),
        (0.4, 0.001, 10, True, "not known"),
        (None, 1.0, 0, True, "not known"),
    ],
)
def test_a_changed_concept_needs_inputs_that_are_covered_and_errors_that_have_grown(
    observed, p_value, n_rows, is_covered, answer
):
    estimate = {"estimate": 0.25, "estimate_low": 0.2, "estimate_high": 0.3}
    changed = {"p_value": p_value, "concept_changed": p_value < 0.01}
    audit = None if observed is None else Audit(n_rows=n_rows, observed=observed, text="", **estimate, **changed)
    labels = LateLabels().after(judged([True, False, False, False] * 30))
    assert result(labels, audit=audit, is_covered=is_covered).concept_changed == answer


def test_losses_of_numbers_have_no_estimate_where_the_reference_has_no_rows():
    labels = LateLabels().after(judged([True] * 200, 0.1))
    one, other = (result(labels, scale=LossScale("absolute"), is_covered=is_covered) for is_covered in (True, False))
    assert (one.contradicts, other.contradicts) == (True, False)
    assert math.isnan(other.estimated)


def test_the_alarm_comes_early_after_a_jump_and_goes_when_the_errors_do():
    quiet = LateLabels().after(judged(np.arange(1_000) % 5 == 0))
    assert not result(quiet).is_alarmed
    jumped = quiet.after(judged([True] * 19))
    assert result(jumped).is_alarmed
    assert result(jumped).contradicts
    assert not result(jumped.after(judged([False] * 40))).is_alarmed


@pytest.mark.parametrize(("share", "height"), [(0.0, 8.0), (0.01, 8.0), (0.05, 10.0), (1.0, 10.0)])
def test_the_height_of_the_alarm_follows_the_share_of_labelled_rows(share, height):
    assert alarm_height(share) == pytest.approx(height)
    assert 8.0 < alarm_height(0.02) < 10.0


def test_unseen_classes_are_counted_by_a_hundred_names_and_mean_a_changed_concept():
    fixed, features = np.zeros(40, bool), np.zeros((40, 1))
    found = found_by([True] * 3 + [False] * 37, unseen=("b", "c", "b"), fixed=fixed, features=features)
    assert found.unseen_classes == {"b": 2, "c": 1}
    assert found.concept_changed == "yes"
    many = found_by([True] * 150, unseen=tuple(map(str, range(150)))).unseen_classes
    assert (len(many), many["(other)"], sum(many.values())) == (101, 50, 150)


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


# --- the latest labels ------------------------------------------------------------------------------------------


def labelled(losses, estimate=ESTIMATE, n_at_once=37):
    """Count labels in pieces."""
    labels = LateLabels()
    for start in range(0, len(losses), n_at_once):
        middle, low, high = estimate
        labels = labels.after(judged(losses[start : start + n_at_once], middle, low=low, high=high))
    return labels


def measured(losses, **changes):
    return result(replace(labelled(losses, **changes), last_row=len(losses)), n_stream=len(losses))


@pytest.mark.parametrize("n_at_once", [1, 37, 1_000])
def test_the_latest_200_losses_are_kept_in_order(n_at_once):
    losses = np.random.default_rng(0).random(700)
    np.testing.assert_array_equal(labelled(losses, n_at_once=n_at_once).latest, losses[-200:])
    np.testing.assert_array_equal(keep_latest(np.zeros(0), losses[:5]), losses[:5])


@pytest.mark.parametrize(
    ("shares", "estimate", "others"),
    [
        ([(0.7, 700), (0.1, 200)], ESTIMATE, {"is_apart": True, "error_now": 0.1}),
        ([(0.4, 900)], ESTIMATE, {"is_apart": False, "contradicts": True}),
        ([(0.25, 800), (0.15, 200)], ESTIMATE, {"is_apart": True, "contradicts": False}),
        ([(0.0, 600), (0.5, 200)], (math.nan,) * 3, {"is_apart": True, "error_now": 0.5}),
        ([(0.1, 800), (0.35, 200)], (0.3, 0.25, 0.4), {"is_apart": True, "contradicts": True, "error_now": 0.35}),
    ],
)
def test_an_error_that_moves_is_told_by_the_latest_labels(shares, estimate, others):
    found = measured(np.concatenate([wrong(*each) for each in shares]), estimate=estimate)
    assert found.latest.is_apart is others["is_apart"]
    assert found.error_now == (found.latest.error if found.latest.is_apart else found.error)
    assert found.error_now == pytest.approx(others.get("error_now", found.error_now))
    assert found.contradicts is others.get("contradicts", found.contradicts)
    assert found.contradicts or not found.stretches.disagree


@pytest.mark.parametrize("n_rows", [0, 199, 399])
def test_few_labels_are_not_divided(n_rows):
    assert measure_latest(wrong(0.5, min(200, n_rows)), n_rows, 0.1, ERRORS) is UNKNOWN


def test_labels_confirm_an_estimate_only_if_the_latest_do():
    coverage = Coverage(500, 0.05, 0.3)
    steady = measured(wrong(0.25, 900))
    # Its mean is as close to the estimate, but the latest labels are far below.
    moving = measured(np.concatenate((wrong(0.3, 900), wrong(0.1, 200))))
    assert abs(moving.error - 0.25) < 0.05
    assert moving.latest.is_apart
    answers = [
        answer_predictions((0.25, 0.2, 0.3), coverage=coverage, inputs="yes", evidence=None, measured=found).answer
        for found in (steady, moving)
    ]
    assert answers == ["yes", "not known"]


def test_chance_alone_is_rarely_taken_for_a_move():
    rng = np.random.default_rng(1)
    n_apart = 0
    for _ in range(300):
        losses = (rng.random(1_200) < 0.2).astype(float)
        n_apart += measured(losses, n_at_once=1_200).latest.is_apart
    assert n_apart <= 20


def test_losses_of_numbers_are_compared_by_their_spread_and_equal_ones_do_not_move():
    losses, scale = np.random.default_rng(2).exponential(3.0, 200), LossScale("absolute", one=10.0)
    for above, is_apart in ((0.1, False), (1.0, True)):
        assert measure_latest(losses, 900, float(losses.mean()) + above, scale).is_apart is is_apart
    assert not measure_latest(np.full(200, 0.3), 600, 0.1 + 0.2, LossScale("absolute", one=1.0)).is_apart


@pytest.mark.parametrize(("share", "is_outside"), [(0.25, False), (0.3, True), (0.2, True)])
def test_an_estimate_outside_of_the_interval_of_the_mean_is_noticed(share, is_outside):
    assert measured(wrong(share, 1_500)).is_estimate_outside is is_outside


# --- stretch by stretch: errors either way cancel in one mean ---------------------------------------------------


def rounds_of(shares, n_rows=500, estimate=ESTIMATE):
    n_rows = np.full(len(shares), float(n_rows))
    return LabelledRounds(n_rows, n_rows * np.asarray(shares), np.tile(estimate, (len(shares), 1)))


def compare(rounds, **changes):
    return compare_stretches(rounds, **{"scale": ERRORS, "variance": 0.0, "close": 0.05} | changes)


def slowly(shares, n_rows):
    """Count stretches of one length that are apart, one by one."""
    stretches, waiting = [], []
    for share in shares:
        waiting += [share] * n_rows
        if len(waiting) >= 200:
            stretches.append(waiting)
            waiting = []
    n_apart = 0
    for each in stretches:
        mean, smooth = sum(each) / len(each), (sum(each) + 1) / (len(each) + 2)
        slack = 2.0 * (smooth * (1.0 - smooth) / len(each)) ** 0.5
        n_apart += mean < 0.19 - slack or mean > 0.32 + slack or abs(mean - 0.25) > 0.05 + slack
    return n_apart, len(stretches)


# There are fewer than three stretches of 400 rows.
@pytest.mark.parametrize(("n_rounds", "n_rows"), [(5, 250), (15, 70), (10, 110)])
@pytest.mark.parametrize("seed", range(5))
def test_stretches_have_at_least_200_rows_and_are_compared_one_by_one(n_rounds, n_rows, seed):
    shares = np.random.default_rng(seed).choice([0.02, 0.25, 0.6], size=n_rounds)
    found = compare(rounds_of(shares, n_rows))
    assert (found.n_apart, found.n_stretches) == slowly(shares, n_rows)
    assert found.n_stretches == 5


def test_the_rest_belongs_to_the_last_stretch():
    rounds = rounds_of([0.25, 0.25, 0.25, 1.0], n_rows=250)
    rounds.n_rows[-1], rounds.losses[-1] = 150, 150
    found = compare(rounds)
    assert (found.n_apart, found.n_stretches) == (1, 3)


@pytest.mark.parametrize(("n_rounds", "n_rows"), [(2, 5_000), (5, 100), (0, 500)])
def test_fewer_than_three_stretches_say_nothing(n_rounds, n_rows):
    assert compare(rounds_of([0.9] * n_rounds, n_rows)) == NO_STRETCHES
    assert not NO_STRETCHES.disagree


def test_rounds_without_labels_or_without_an_estimate_are_left_out():
    rounds = rounds_of([0.25, 0.9, 0.25, 0.25, 0.9])
    rounds.estimates[1] = np.nan
    rounds.n_rows[4] = rounds.losses[4] = 0.0
    found = compare(rounds)
    assert (found.n_apart, found.n_stretches) == (0, 3)


def test_more_than_a_quarter_of_the_stretches_has_to_be_apart():
    assert not compare(rounds_of([0.05, 0.25, 0.25, 0.25])).disagree
    assert compare(rounds_of([0.05, 0.25, 0.25])).disagree


@pytest.mark.parametrize("evidence", [None, NO_EVIDENCE])
@pytest.mark.parametrize(
    ("rounds", "answer"),
    [(None, "yes"), (rounds_of([0.25] * 4), "yes"), (rounds_of([0.12, 0.13, 0.25, 0.5]), "not known")],
)
def test_labels_that_agree_on_average_have_to_agree_in_each_stretch(rounds, answer, evidence):
    is_wrong = np.random.default_rng(1).permutation(np.arange(2_000) < 500)
    labels = labelled(is_wrong, n_at_once=2_000)
    found = result(labels, n_stream=0, rounds=rounds)
    settings = {"coverage": Coverage(500, 0.05, 0.3), "inputs": "yes", "evidence": evidence, "measured": found}
    assert answer_predictions(ESTIMATE, **settings).answer == answer
    assert not found.contradicts


# --- blocks, in the order in which labels come ------------------------------------------------------------------


def blocks_slowly(losses, estimates):
    """Sum block by block; too many blocks are summed again in blocks of twice the length."""
    rows = [(1.0, loss, *each) for loss, each in zip(losses, estimates, strict=True) if not np.isnan(each).any()]
    size = 50
    while len(rows) > 64 * size:
        size *= 2
    return size, [np.sum(rows[start : start + size], axis=0) for start in range(0, len(rows), size)]


@given(st.lists(st.sampled_from([1, 7, 49, 50, 51, 333, 2_000]), max_size=12), st.integers(0, 9))
def test_pieces_give_the_blocks_of_the_slow_version(pieces, seed):
    rng = np.random.default_rng(seed)
    n_rows = sum(pieces)
    losses, estimates = rng.integers(0, 2, n_rows).astype(float), rng.integers(0, 9, (n_rows, 3)) / 8
    estimates[rng.random(n_rows) < 0.1] = np.nan
    found = NO_BLOCKS
    for end, n_new in zip(np.cumsum(pieces), pieces, strict=True):
        found = found.after(losses[end - n_new : end], estimates[end - n_new : end])
    size, expected = blocks_slowly(losses, estimates)
    assert found.n_rows == size
    np.testing.assert_array_equal(found.sums, np.reshape(expected, (-1, 5)))


def test_blocks_are_saved_and_those_of_before_are_empty():
    blocks = NO_BLOCKS.after(np.ones(120), np.full((120, 3), 0.5))
    np.testing.assert_array_equal(from_plain(LabelBlocks, to_plain(blocks)).sums, blocks.sums)
    assert len(NO_BLOCKS.as_rounds().n_rows) == 0


@pytest.mark.parametrize(
    ("shares", "disagree"), [([0.25, 0.05, 0.05, 0.5, 0.45, 0.1], True), ([0.25, 0.2, 0.3, 0.25, 0.2], False)]
)
def test_a_model_without_a_table_compares_stretch_by_stretch(shares, disagree):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    model = AdaptiveClassifier(random_state=0).fit(rows, (rows[:, 0] + rng.normal(size=400) > 0).astype(int))
    for number, share in enumerate(shares):
        assert number > 1 or model.measured_ is None or model.measured_.stretches == NO_STRETCHES
        model.observe(None, np.zeros(400, int), wrong(share, 400).astype(int), estimated=np.tile(ESTIMATE, (400, 1)))
    assert model.measured_.stretches.n_stretches
    assert model.measured_.stretches.disagree is disagree


# --- audits: level and power where everything is known ----------------------------------------------------------


def audit_classes(seed, *, rate=0.15, n_rows=150):
    """Errors that are more frequent to the right, on rows that lie there."""
    rng = np.random.default_rng(seed)
    X, late = rng.normal(size=(800, 2)), rng.normal((1.0, 0.0), size=(n_rows, 2))
    errors, late_errors = (
        rng.random(len(x)) < np.clip(of + 0.1 * x[:, 0], 0.01, 0.99) for x, of in ((X, 0.15), (late, rate))
    )
    return audit_errors(late_errors, late, errors, X, np.ones(800))


def residuals(rng, x, bias=0.0, scale=1.0):
    """Residuals of a model that is wrong in its slope and noisier to the right."""
    return bias + 0.3 * x[:, 0] + scale * np.exp(0.2 * x[:, 0]) * rng.normal(size=len(x))


def audit_numbers(seed, *, bias=0.0, scale=1.0, n_rows=150, loss=SQUARED):
    rng = np.random.default_rng(seed)
    X, late = rng.normal(size=(800, 2)), rng.normal((1.0, 0.0), size=(n_rows, 2))
    with one_blas_thread():
        return audit_residuals(residuals(rng, late, bias, scale), late, residuals(rng, X), X, np.ones(800), loss)


@pytest.mark.parametrize(
    ("audit", "n_rows"),
    [
        (audit_classes, 150),
        (audit_numbers, 10),
        *(pytest.param(audit_numbers, n, marks=pytest.mark.slow) for n in (1, 150)),
    ],
)
def test_false_alarms_are_as_rare_as_they_should_be_under_a_shift(audit, n_rows):
    p_values = np.array([audit(seed, n_rows=n_rows).p_value for seed in range(300)])
    assert np.mean(p_values < 0.05) < 0.09
    assert np.mean(p_values < 0.01) < 0.03
    assert 0.3 < np.mean(p_values < 0.5) < 0.65


@pytest.mark.parametrize(
    ("audit", "change"),
    [
        (audit_classes, {"rate": 0.4}),
        *((audit_numbers, change) for change in ({"bias": 0.6}, {"bias": -0.6}, {"scale": 1.6}, {"scale": 0.5})),
    ],
)
def test_a_change_of_the_labels_is_found(audit, change):
    assert np.mean([audit(seed, **change).concept_changed for seed in range(40)]) > 0.85


@pytest.mark.parametrize(("audit", "expected"), [(audit_classes, 0.25), (audit_numbers, 0.18 + np.exp(0.48))])
def test_the_estimate_follows_the_rows_and_the_interval_holds_the_observed(audit, expected):
    """Of numbers, at a mean of 1 the bias is 0.3 x and the variance exp(0.4 x): 0.09 (1 + 1) + exp(0.48)."""
    found = [audit(seed) for seed in range(100)]
    assert np.mean([one.estimate for one in found]) == pytest.approx(expected, abs=0.08 * expected)
    assert np.mean([one.estimate_low <= one.observed <= one.estimate_high for one in found]) > 0.82


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_one_row_and_a_reference_without_errors_or_without_successes_decide_nothing(share):
    rng = np.random.default_rng(0)
    X, is_wrong = rng.normal(size=(500, 2)), np.full(500, bool(share))
    found = audit_errors(is_wrong[:20], X[:20], is_wrong, X, np.ones(500))
    assert found.estimate == pytest.approx(share, abs=1e-12)
    assert not found.concept_changed
    one = audit_errors(is_wrong[:1], X[:1], rng.random(500) < 0.15 + 0.1 * X[:, 0], X, np.ones(500))
    assert (one.concept_changed, one.n_rows) == (False, 1)


def test_the_loss_changes_the_report_and_not_the_test():
    squared, absolute = audit_numbers(3), audit_numbers(3, loss=ABSOLUTE)
    assert squared.p_value == absolute.p_value
    assert squared.observed != absolute.observed


def test_the_unit_of_the_target_does_not_matter():
    rng = np.random.default_rng(0)
    X, late = rng.normal(size=(300, 2)), rng.normal(size=(40, 2))
    r, r_late = residuals(rng, X), residuals(rng, late)
    p_values = [audit_residuals(unit * r_late, late, unit * r, X, np.ones(300)).p_value for unit in (1.0, 1e-6, 1e6)]
    assert p_values == pytest.approx([p_values[0]] * 3, rel=1e-6)


@pytest.mark.parametrize(("residual", "changed"), [(0.0, False), (1.0, True)])
def test_a_model_that_was_perfect(residual, changed):
    X = np.random.default_rng(0).normal(size=(50, 2))
    found = audit_residuals(np.full(5, residual), X[:5], np.zeros(50), X, np.ones(50))
    assert found.concept_changed is changed
    assert found.estimate == 0.0


def test_many_features_do_not_raise_false_alarms():
    """The regression on the reference has nearly as many columns as rows; fits without the row keep it honest."""
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, late = rng.normal(size=(150, 100)), rng.normal(size=(60, 100))
        alarms += audit_residuals(rng.normal(size=60), late, rng.normal(size=150), X, np.ones(150)).p_value < 0.05
    assert alarms <= 6


# --- prediction intervals, counted by late labels ---------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    return AdaptiveRegressor().fit(X, X[:, 0] + 0.3 * rng.normal(size=300)).adapt(X[:100])


@pytest.fixture
def model(fitted, tmp_path):
    accous.save(fitted, tmp_path / "model")
    return accous.load(tmp_path / "model")


def observe(model, n_rows, *, offset):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n_rows, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=n_rows) + offset
    return model.observe(X, y, intervals=model.predict_interval(X, alpha=0.1))


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_the_share_is_that_of_the_labelled_rows_is_saved_and_starts_again_with_more_reference(model, offset, tmp_path):
    found = observe(model, 200, offset=offset).measured_.intervals
    assert found.n_rows == 200
    assert (0.8 < found.share < 0.97) == (offset == 0.0)
    assert found.are_too_narrow is (offset > 0.0)
    accous.save(model, tmp_path / "again")
    assert accous.load(tmp_path / "again").measured_.intervals == found
    X = np.random.default_rng(2).normal(size=(50, 2))
    assert model.extend(X, X[:, 0] + 1.0).measured_.intervals == NO_INTERVALS


@pytest.mark.parametrize(("share", "is_too_few"), [(0.88, False), (0.84, True)])
def test_many_labels_do_not_make_a_small_gap_a_large_one(share, is_too_few):
    """With 3,000 labels the interval of 88 % ends below the 90 % that were promised; nobody is misled by that."""
    powers = 0.5 ** (np.arange(3_000)[::-1] / 500)
    found = NO_INTERVALS.after((np.arange(3_000) % 25 < 25 * share).astype(float), powers, 1.0)
    assert found.share == pytest.approx(share, abs=0.005)
    assert wilson_interval(found.share, found.weight**2 / found.squares)[1] < 0.9
    assert found.are_too_narrow is is_too_few


def test_few_rows_rows_without_an_interval_and_rows_of_long_ago_say_nothing(model):
    assert observe(model, 19, offset=9.0).measured_.intervals.sentence == ""
    model.observe(np.zeros((5, 2)), np.zeros(5), intervals=np.full((5, 2), np.nan))
    assert model.measured_.intervals.n_rows == 19
    faded = NO_INTERVALS.after(np.zeros(30), np.ones(30), 1.0).after(np.full(2, np.nan), np.ones(2), 1e-300)
    assert (faded.sentence, faded.are_too_narrow) == ("", False)
    assert math.isnan(faded.share)
    assert math.isnan(NO_INTERVALS.share)


def test_without_labels_intervals_are_doubted_where_the_estimate_is(model):
    trust, doubts = model.trust_, set()
    for inputs, predictions in (("yes", "not known"), ("no", "not known"), ("yes", "no")):
        answers = {"inputs": Answer(inputs, ""), "predictions": Answer(predictions, "")}
        doubt = doubt_about_intervals(None, replace(trust, **answers))
        assert (doubt == "") == ("no" not in (inputs, predictions))
        doubts.add(doubt)
    assert len(doubts) == 3
    observe(model, 200, offset=0.0)
    bad = replace(trust, inputs=Answer("no", ""))
    assert doubt_about_intervals(model.measured_, bad) == model.measured_.intervals.sentence


def test_intervals_of_another_shape_and_of_classes_are_refused(model):
    with pytest.raises(DataError, match="shape"):
        model.observe(np.zeros((5, 2)), np.zeros(5), intervals=np.zeros(5))
    classes = AdaptiveClassifier().fit(np.arange(20.0)[:, None], np.arange(20) % 2)
    with pytest.raises(ParameterError, match=r"intervals|sets"):
        classes.observe(np.zeros((1, 1)), [0], intervals=np.zeros((1, 2)))


def test_long_stretches_show_what_short_ones_are_too_inexact_for():
    shares = [0.17] * 12 + [0.33] * 4
    short = compare(rounds_of(shares[:4], 200))
    assert (short.n_apart, short.n_stretches) == (0, 4)
    found = compare(rounds_of(shares, 200))
    assert (found.n_apart, found.n_stretches, found.shortest) == (3, 4, 800)


def test_an_estimate_too_wide_to_be_shown_is_compared_by_its_interval_only():
    assert not compare(rounds_of([0.1, 0.1, 0.5, 0.5], estimate=(0.3, 0.0, 0.9))).disagree
    assert compare(rounds_of([0.95] * 4, estimate=(0.3, 0.0, 0.9))).disagree


def test_losses_of_numbers_spread_as_they_are_said_to():
    rounds, scale = rounds_of([40.0] * 4, estimate=(20.0, 15.0, 25.0)), LossScale("absolute", one=80.0)
    assert compare(rounds, scale=scale, variance=400.0, close=4.0).n_apart == 4
    assert compare(rounds, scale=scale, variance=400_000.0, close=4.0).n_apart == 0
