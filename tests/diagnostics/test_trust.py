"""The verdict: its evidence by hand, and each rule at its limit."""

import numpy as np
import pytest

from accous.diagnostics.trust import (
    FEWEST_ROWS,
    LARGEST_ERROR,
    LARGEST_OUT_OF_BOUND,
    SMALLEST_MEAN,
    Trust,
    WeightEvidence,
    judge,
)

GOOD = WeightEvidence(
    effective_sample_size=500.0, design_effect=2.0, largest_weight=3.0, mean_weight=1.0, share_cut=0.0
)


def verdict_of(**changes: float) -> Trust:
    evidence = {name: changes.pop(name) for name in vars(GOOD).keys() & changes.keys()}
    given = {"share_out_of_bound": 0.01, "exponent": 1.0, "is_vetoed": False, "standard_error": 0.01} | changes
    error = given.pop("standard_error")
    return judge(WeightEvidence(**vars(GOOD) | evidence), excess=(-0.02, error), **given)


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
        ({"standard_error": LARGEST_ERROR}, "good"),
        ({"standard_error": LARGEST_ERROR + 0.001}, "thin"),
        ({"standard_error": float("nan")}, "good"),
        ({"standard_error": LARGEST_ERROR + 0.001, "mean_weight": 0.1}, "no overlap"),
    ],
)
def test_rules(changes: dict[str, float], verdict: str) -> None:
    trust = verdict_of(**changes)
    assert trust.verdict == verdict
    assert trust.reason.endswith(".")


def test_the_reason_says_that_nothing_moved_and_that_there_is_a_veto() -> None:
    assert "No shift" in verdict_of(exponent=0.0).reason
    assert "so the fixed model makes the predictions" in verdict_of(is_vetoed=True).reason
    assert "effective rows" in verdict_of().reason
