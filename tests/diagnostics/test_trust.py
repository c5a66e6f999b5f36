"""The verdict: its evidence by hand, each rule at its limit, and which of the three answers decides."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accous.diagnostics.coverage import Coverage
from accous.diagnostics.labels import JudgedRows, LateLabels, measure
from accous.diagnostics.risk import NO_EVIDENCE
from accous.diagnostics.trust import (
    FEWEST_ROWS,
    LARGEST_ERROR,
    LARGEST_OUT_OF_BOUND,
    NO_CHECKS,
    SMALLEST_MEAN,
    VERDICTS,
    Checks,
    Trust,
    WeightEvidence,
    judge,
)

GOOD = WeightEvidence(
    effective_sample_size=500.0, design_effect=2.0, largest_weight=3.0, mean_weight=1.0, share_cut=0.0
)


# A backtest in which adaptation helped and estimates met the truth, and recent rows that the reference covers.
COVERED = Coverage(500, 0.05, 0.3)
HELPED = replace(NO_EVIDENCE, n_looks=12, drift=0.3, gain=-0.02)
MISSED = replace(HELPED, fixed=replace(HELPED.fixed, shift=0.09))
ALL_YES = Checks(coverage=COVERED, evidence=HELPED)


def verdict_of(checks: Checks = ALL_YES, **changes: Any) -> Trust:
    evidence = {name: changes.pop(name) for name in vars(GOOD).keys() & changes.keys()}
    given = {"share_out_of_bound": 0.01, "exponent": 1.0, "is_vetoed": False, "excess": (-0.03, 0.01)} | changes
    interval = (0.1, 0.05, 0.15)
    return judge(
        WeightEvidence(**vars(GOOD) | evidence), interval=interval, guard="It says so.", checks=checks, **given
    )


def test_evidence_by_hand() -> None:
    evidence = WeightEvidence.of(np.array([0.5, 1.5]), np.array([1.0, 3.0]), np.ones(2), max_ratio=3.0)
    assert evidence.effective_sample_size == pytest.approx(4.0 / 2.5)
    assert evidence.design_effect == pytest.approx(2.0 / 1.6)
    assert (evidence.largest_weight, evidence.mean_weight, evidence.share_cut) == (1.5, 2.0, 0.5)


def test_base_weights_count() -> None:
    evidence = WeightEvidence.of(np.array([1.0, 3.0]), np.ones(2), np.array([1.0, 3.0]), max_ratio=100.0)
    assert evidence.design_effect == pytest.approx(1.0)
    assert evidence.mean_weight == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "good"),
        ({"share_out_of_bound": LARGEST_OUT_OF_BOUND}, "good"),
        ({"share_out_of_bound": LARGEST_OUT_OF_BOUND + 0.01}, "no overlap"),
        ({"share_out_of_bound": float("nan")}, "good"),
        ({"mean_weight": SMALLEST_MEAN}, "good"),
        ({"mean_weight": SMALLEST_MEAN - 0.01}, "no overlap"),
        ({"effective_sample_size": FEWEST_ROWS - 1.0}, "no overlap"),
        ({"excess": (-0.2, LARGEST_ERROR)}, "good"),
        ({"excess": (-0.2, LARGEST_ERROR + 0.001)}, "thin"),
        ({"excess": (-0.2, LARGEST_ERROR + 0.001), "mean_weight": 0.1}, "no overlap"),
        ({"excess": (float("nan"), float("nan"))}, "not verified"),
        ({"excess": (-0.005, 0.001)}, "not verified"),
        ({"is_vetoed": True}, "not verified"),
        ({"is_vetoed": True, "excess": (0.03, 0.01)}, "not verified"),
        ({"exponent": 0.0}, "not verified"),
        ({"checks": NO_CHECKS}, "not verified"),
        ({"checks": NO_CHECKS, "excess": (-0.2, LARGEST_ERROR + 0.001)}, "thin"),
        ({"checks": replace(ALL_YES, coverage=replace(COVERED, share_outside=0.2))}, "not verified"),
        ({"checks": replace(ALL_YES, coverage=replace(COVERED, share_outside=0.4))}, "no overlap"),
        ({"checks": replace(ALL_YES, evidence=replace(HELPED, gain=0.01))}, "not verified"),
        (
            {"checks": replace(ALL_YES, evidence=MISSED)},
            "contradicted",
        ),
    ],
)
def test_rules(changes: dict[str, Any], verdict: str) -> None:
    trust = verdict_of(**changes)
    assert trust.verdict == verdict
    assert verdict in VERDICTS
    assert trust.reason.endswith(".")
    answers = [trust.inputs, trust.predictions, trust.adaptation]
    assert (verdict == "good") <= all(each.answer == "yes" for each in answers)
    if verdict == "not verified":
        assert trust.reason == next(each.sentence for each in answers if each.answer != "yes")
    assert (verdict == "contradicted") <= (trust.reason == trust.predictions.sentence)
    assert (trust.contradicted_by == "the backtest") == (trust.predictions.answer == "no")


def test_no_overlap_hides_the_word_contradicted_and_not_the_answer() -> None:
    checks = Checks(coverage=replace(COVERED, share_outside=0.4), evidence=MISSED)
    trust = verdict_of(checks=checks)
    assert (trust.verdict, trust.predictions.answer, trust.contradicted_by) == ("no overlap", "no", "the backtest")
    assert trust.sentences["predictions"] == trust.predictions.sentence


@pytest.mark.parametrize(("gap", "n_labelled", "is_told"), [(0.0, 100, True), (0.01, 100, False), (0.0, 99, False)])
def test_labels_of_a_fixed_model_cannot_compare_and_the_answer_says_what_can(gap, n_labelled, is_told) -> None:
    compared = {"gap": gap, "gap_standard_error": 0.01}
    labels = LateLabels().after(
        JudgedRows(
            losses=np.zeros(n_labelled),
            losses_fixed=None,
            errors_fixed=None,
            is_unseen=np.zeros(n_labelled, dtype=bool),
            unseen_names=(),
            estimates=np.full((n_labelled, 3), 0.02),
        )
    )
    measured = replace(measure(labels, n_stream=n_labelled, audit=None), **compared)
    sentence = verdict_of(replace(ALL_YES, measured=measured), is_vetoed=True).adaptation.sentence
    assert ('let a second model with low caution (caution="low", accous fit --caution low)' in sentence) == is_told


def test_a_fixed_model_that_is_better_contradicts_nothing() -> None:
    trust = verdict_of(is_vetoed=True, excess=(0.03, 0.01))
    assert (trust.adaptation.answer, trust.predictions.answer) == ("no", "yes")
    assert (trust.verdict, trust.reason) == ("not verified", trust.adaptation.sentence)


def test_the_answer_about_adaptation_says_that_nothing_moved_and_that_there_is_a_veto() -> None:
    assert "nearly equal" in verdict_of(exponent=0.0).adaptation.sentence
    assert verdict_of(is_vetoed=True).adaptation.sentence == "It says so. The fixed model predicts now."
    worse = verdict_of(is_vetoed=True, excess=(0.03, 0.01)).adaptation
    assert "The fixed model predicts now." in worse.sentence
    assert "effective rows" in verdict_of(excess=(-0.2, 0.07)).reason


def test_it_prints_the_verdict_and_the_three_answers() -> None:
    trust = verdict_of()
    lines = str(trust).splitlines()
    assert lines[0] == f"Verdict: {trust.verdict}."
    assert lines[1:] == [
        f"Inputs covered? Yes. {trust.inputs.sentence}",
        f"Adaptation better? Yes. {trust.adaptation.sentence}",
        f"Estimate believable? Yes. {trust.predictions.sentence}",
    ]
    assert repr(trust).startswith("Trust(verdict=")
