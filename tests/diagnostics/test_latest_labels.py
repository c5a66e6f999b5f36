"""Where the error moves, the latest labels say so, and the words say to rely on them."""

from dataclasses import replace

import numpy as np
import pytest

from accous.diagnostics.coverage import Coverage
from accous.diagnostics.labels import UNKNOWN, JudgedRows, LateLabels, keep_latest, measure, measure_latest
from accous.diagnostics.losses import ERRORS, LossScale
from accous.diagnostics.trust import answer_predictions


def labelled(losses, estimate=(0.25, 0.19, 0.32), n_at_once=37):
    """Count labels in pieces."""
    labels, losses = LateLabels(), np.asarray(losses, dtype=float)
    for start in range(0, len(losses), n_at_once):
        part = losses[start : start + n_at_once]
        is_none = np.zeros(len(part), dtype=bool)
        rows = JudgedRows(
            losses=part,
            losses_fixed=None,
            errors_fixed=None,
            is_unseen=is_none,
            unseen_names=(),
            estimates=np.tile(estimate, (len(part), 1)),
        )
        labels = labels.after(rows)
    return labels


def wrong(share, n_rows):
    return (np.arange(n_rows) % 20 < 20 * share).astype(float)


def measured(losses, **changes):
    labels = replace(labelled(losses, **changes), last_row=len(losses))
    return measure(labels, n_stream=len(losses), audit=None)


@pytest.mark.parametrize("n_at_once", [1, 37, 1_000])
def test_the_latest_200_losses_are_kept_in_order(n_at_once):
    losses = np.random.default_rng(0).random(700)
    np.testing.assert_array_equal(labelled(losses, n_at_once=n_at_once).latest, losses[-200:])
    np.testing.assert_array_equal(keep_latest(np.zeros(0), losses[:5]), losses[:5])


def test_an_error_that_has_fallen_is_told_by_the_latest_labels():
    found = measured(np.concatenate((wrong(0.7, 700), wrong(0.1, 200))))
    assert found.latest.is_apart
    assert found.latest.error == found.error_now == pytest.approx(0.1)
    assert "rely on the latest 200 labels, which say 10.0% (7.0% to 14.0%), because the error moves." in found.sentence
    assert "rely on the measured error" not in found.sentence


def test_an_error_that_stays_is_the_measured_one():
    found = measured(wrong(0.4, 900))
    assert not found.latest.is_apart
    assert found.error_now == found.error
    assert found.sentence.endswith("they contradict each other: rely on the measured error.")


def test_an_average_that_agrees_is_no_agreement_of_now():
    found = measured(np.concatenate((wrong(0.25, 800), wrong(0.15, 200))))
    assert not found.stretches.disagree
    assert "on average they do not contradict each other, but the error moves: the latest 200" in found.sentence


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


def test_losses_of_numbers_are_compared_by_their_spread():
    rng = np.random.default_rng(2)
    losses = rng.exponential(3.0, 200)
    scale = LossScale("absolute", one=10.0)
    assert not measure_latest(losses, 900, float(losses.mean()) + 0.1, scale).is_apart
    assert measure_latest(losses, 900, float(losses.mean()) + 1.0, scale).is_apart


@pytest.mark.parametrize(("share", "is_outside"), [(0.25, False), (0.3, True), (0.2, True)])
def test_an_estimate_outside_of_the_interval_of_the_mean_is_noticed(share, is_outside):
    assert measured(wrong(share, 1_500)).is_estimate_outside is is_outside


def test_an_error_that_moves_is_told_without_an_estimate_too():
    losses = np.concatenate((wrong(0.0, 600), wrong(0.5, 200)))
    found = measured(losses, estimate=(np.nan,) * 3)
    assert "to compare it with; the error moves: the latest 200 labels say 50.0% (" in found.sentence


def test_the_mean_contradicts_where_the_latest_labels_do_not():
    found = measured(np.concatenate((wrong(0.1, 800), wrong(0.35, 200))), estimate=(0.3, 0.25, 0.4))
    assert found.contradicts
    assert "on average they contradict each other: rely on the latest 200 labels, which say 35.0%" in found.sentence


def test_equal_losses_do_not_move():
    assert not measure_latest(np.full(200, 0.3), 600, 0.1 + 0.2, LossScale("absolute", one=1.0)).is_apart
