"""Labels and estimate are compared stretch by stretch: errors either way cancel in one mean."""

import numpy as np
import pytest

from accous.diagnostics.coverage import Coverage
from accous.diagnostics.labels import NO_STRETCHES, JudgedRows, LabelledRounds, LateLabels, compare_stretches, measure
from accous.diagnostics.losses import ERRORS, LossScale
from accous.diagnostics.risk import NO_EVIDENCE
from accous.diagnostics.trust import answer_predictions

ESTIMATE = (0.25, 0.19, 0.32)


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


def answer_for(rounds, evidence=None):
    """Ask whether an estimate can be believed that is right on average."""
    is_wrong = np.random.default_rng(1).permutation(np.arange(2_000) < 500)
    estimates = np.tile(ESTIMATE, (2_000, 1))
    judged = JudgedRows(
        losses=is_wrong.astype(float),
        losses_fixed=None,
        errors_fixed=None,
        is_unseen=np.zeros(2_000, dtype=bool),
        unseen_names=(),
        estimates=estimates,
    )
    measured = measure(LateLabels().after(judged), n_stream=0, audit=None, rounds=rounds)
    found = answer_predictions(
        ESTIMATE, coverage=Coverage(500, 0.05, 0.3), inputs="yes", evidence=evidence, measured=measured
    )
    return measured, found


@pytest.mark.parametrize("rounds", [None, rounds_of([0.25] * 4)])
def test_labels_that_agree_in_each_stretch_say_yes(rounds):
    measured, found = answer_for(rounds)
    assert found.answer == "yes"
    assert "; they do not contradict each other." in measured.sentence


@pytest.mark.parametrize("evidence", [None, NO_EVIDENCE])
def test_labels_that_agree_on_average_only_do_not_say_yes(evidence):
    measured, found = answer_for(rounds_of([0.12, 0.13, 0.25, 0.5]), evidence)
    assert found.answer == "not known"
    assert found.sentence.startswith("On average the labels agree with the estimate (2")
    apart = (
        "in 3 of 4 stretches of at least 200 labels they are apart: the labels lie outside of the estimate's interval"
    )
    assert f"against 25.0%), but {apart}, or more than 5 points from it." in found.sentence
    assert f"; on average they do not contradict each other, but {apart}" in measured.sentence
    assert not measured.contradicts
