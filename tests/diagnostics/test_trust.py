"""Trust: the verdict and its three answers, every rule at its limit, and nothing claimed that labels do not support."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.diagnostics.coverage import Coverage, Finding
from accous.diagnostics.evidence import LARGEST_UNEXPLAINED, NO_EVIDENCE, Evidence, Residuals
from accous.diagnostics.labels import LatestError, MeasuredError
from accous.diagnostics.messages import ERRORS, LossScale
from accous.diagnostics.trust import (
    ANSWERS,
    CLEAR_GAIN,
    COVERED,
    FEWEST_RECENT_ROWS,
    FEWEST_ROWS,
    FEWEST_TO_COMPARE,
    LARGEST_ERROR,
    LARGEST_OUT_OF_BOUND,
    LARGEST_SHIFT,
    NARROW,
    NO_CHECKS,
    NOT_COVERED,
    RECENT_ROWS,
    SMALLEST_MEAN,
    VERDICTS,
    Answer,
    Checks,
    WeightEvidence,
    answer_adaptation,
    answer_inputs,
    answer_predictions,
    judge,
    worst,
)
from accous.model.safeguards import DOUBTED, NEVER, OFF, STRICT

NAN = float("nan")
WITHIN = Coverage(500, 0.05, 0.3)
HELPED = replace(NO_EVIDENCE, n_looks=12, drift=0.3, gain=-0.02)
NUMBERS = {"n_labelled": 1000, "error": 0.1, "error_low": 0.08, "error_high": 0.12, "error_fixed": 0.1, "age": 0}
COMPARED = {"estimated": 0.11, "excess": -0.01, "gap": 0.0, "gap_standard_error": 0.01, "contradicts": False}
KNOWN = {"is_exact": True, "is_alarmed": False, "unseen_classes": {}, "concept_changed": "no", "sentence": "So it is."}
LABELS = MeasuredError(**NUMBERS, **COMPARED, **KNOWN)
MOVED = Finding("age", "outside", 0.4, 0.01, "40% of the values of 'age' lie outside the reference.")

# --- inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coverage", "no_overlap", "answer"),
    [
        (None, None, "not known"),
        (None, "No overlap.", "no"),
        (replace(WITHIN, n_rows=FEWEST_RECENT_ROWS - 1), None, "not known"),
        (replace(WITHIN, n_rows=FEWEST_RECENT_ROWS - 1), "No overlap.", "no"),
        (replace(WITHIN, n_rows=FEWEST_RECENT_ROWS), None, "yes"),
        (WITHIN, "No overlap.", "no"),
        (replace(WITHIN, columns=(MOVED,)), None, "no"),
        (replace(WITHIN, columns=(replace(MOVED, share=COVERED),)), None, "not known"),
        (replace(WITHIN, columns=(replace(MOVED, share=COVERED), MOVED)), None, "no"),
        (replace(WITHIN, columns=(replace(MOVED, expected=0.3),)), None, "not known"),
        # The reference knows rows in which a value is missing, unless it has hardly any.
        (replace(WITHIN, columns=(replace(MOVED, kind="missing", share=0.67, expected=0.43),)), None, "not known"),
        (replace(WITHIN, columns=(replace(MOVED, kind="missing", share=0.67, expected=0.01),)), None, "no"),
        (replace(WITHIN, share_outside=COVERED), None, "yes"),
        (replace(WITHIN, share_outside=COVERED + 0.001), None, "not known"),
        (replace(WITHIN, share_outside=NOT_COVERED), None, "not known"),
        (replace(WITHIN, share_outside=NOT_COVERED + 0.001), None, "no"),
        (replace(WITHIN, share_outside=NAN), None, "not known"),
    ],
)
def test_inputs(coverage, no_overlap, answer):
    found = answer_inputs(coverage, no_overlap)
    assert found.answer == answer
    assert no_overlap in (None, found.sentence)


def test_rows_that_came_before_others_joined_are_not_called_covered():
    assert answer_inputs(WITHIN, None, 5).answer == "not known"
    assert answer_inputs(WITHIN, None, FEWEST_RECENT_ROWS).answer == "yes"
    assert answer_inputs(WITHIN, None).evidence == {"share_outside": 0.05, "drift_strength": 0.3}


# --- adaptation -------------------------------------------------------------------------------------------------


def adaptation(**changes: Any):
    settings = {"excess": (-0.03, 0.01), "exponent": 1.0, "is_held": False, "guard": "The guard says so."}
    return answer_adaptation(**settings | {"evidence": HELPED, "measured": None} | changes)


def unexplained(by):
    return replace(HELPED, fixed=replace(HELPED.fixed, unexplained=by))


STALE = RECENT_ROWS + 1


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "yes"),
        ({"evidence": None}, "not known"),
        ({"exponent": 0.0}, "not known"),
        ({"is_held": True}, "not known"),
        ({"is_held": True, "excess": (0.021, 0.01)}, "no"),
        ({"is_held": True, "excess": (0.02, 0.01)}, "not known"),
        ({"excess": (-CLEAR_GAIN, 0.0)}, "not known"),
        ({"excess": (-CLEAR_GAIN - 0.001, 0.0)}, "yes"),
        ({"excess": (-0.03, 0.0151)}, "not known"),
        ({"excess": (NAN, NAN)}, "not known"),
        ({"evidence": replace(HELPED, gain=0.0)}, "not known"),
        ({"evidence": replace(HELPED, n_looks=3)}, "not known"),
        ({"evidence": unexplained(LARGEST_UNEXPLAINED)}, "not known"),
        ({"evidence": unexplained(LARGEST_UNEXPLAINED - 0.001)}, "yes"),
        # Labels decide where they show a difference of two standard errors, and only there.
        ({"measured": replace(LABELS, gap=0.05)}, "no"),
        ({"measured": replace(LABELS, gap=-0.05), "evidence": None}, "yes"),
        ({"measured": replace(LABELS, gap=-0.02 - 1e-6), "evidence": None}, "yes"),
        ({"measured": replace(LABELS, gap=-0.02 + 1e-6), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=NAN), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=-0.8, n_labelled=FEWEST_TO_COMPARE - 1), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=-0.8, age=STALE), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=0.05), "exponent": 0.0}, "no"),
        # What did harm is not forgotten because no more labels came.
        ({"measured": replace(LABELS, gap=0.05, age=STALE)}, "no"),
        # What helped may have ended: what is known now answers.
        ({"measured": replace(LABELS, gap=-0.8, age=STALE)}, "yes"),
        ({"measured": replace(LABELS, gap=-0.8, age=STALE), "is_held": True, "excess": (0.08, 0.01)}, "no"),
        *(({"is_held": True, "guard": guard.sentence}, "not known") for guard in (STRICT, OFF, DOUBTED, NEVER)),
    ],
)
def test_adaptation(changes, answer):
    found = adaptation(**changes)
    assert found.answer == answer
    is_fixed = bool(changes.get("is_held")) or changes.get("exponent") == 0.0
    assert found.sentence.count(f"The {'fixed' if is_fixed else 'adapted'} model predicts") == 1
    assert f"The {'adapted' if is_fixed else 'fixed'} model predicts now" not in found.sentence
    assert changes.get("guard", "") in found.sentence


# --- predictions ------------------------------------------------------------------------------------------------


def predictions(interval=(0.1, 0.05, 0.15), **changes: Any):
    settings = {"coverage": WITHIN, "inputs": "yes", "evidence": HELPED, "measured": None}
    return answer_predictions(interval, **settings | changes)


def shifted(by):
    return replace(HELPED, fixed=replace(HELPED.fixed, shift=by))


FAR = replace(LABELS, error=0.111, estimated=0.071, excess=0.04, is_estimate_outside=True)
FEW = replace(LABELS, n_labelled=10, is_exact=False, concept_changed="yes")
MOVING = replace(LABELS, latest=LatestError(200, 0.21, 0.167, 0.261, is_apart=True))
RENTALS = {
    "scale": LossScale("absolute", one=1200.0),
    "measured": replace(LABELS, error=297.0, estimated=324.0, excess=-27.0, scale=LossScale("absolute", one=1200.0)),
}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, "yes"),
        ({"evidence": None}, "not known"),
        ({"evidence": shifted(LARGEST_SHIFT)}, "no"),
        ({"evidence": shifted(LARGEST_SHIFT - 0.001)}, "yes"),
        ({"interval": (NAN, NAN, NAN)}, "not known"),
        ({"interval": (0.1, 0.1 - NARROW + 1e-9, 0.1 + NARROW - 1e-9)}, "yes"),
        ({"interval": (0.1, 0.1, 0.1 + NARROW + 1e-9)}, "not known"),
        ({"interval": (0.3, 0.3 - NARROW - 1e-9, 0.3)}, "not known"),
        ({"coverage": None}, "not known"),
        ({"coverage": replace(WITHIN, n_rows=FEWEST_RECENT_ROWS - 1)}, "not known"),
        ({"coverage": replace(WITHIN, share_outside=COVERED + 0.001)}, "not known"),
        ({"coverage": replace(WITHIN, share_outside=NAN)}, "not known"),
        ({"inputs": "no"}, "not known"),
        ({"inputs": "not known"}, "yes"),
        # Labels come first.
        ({"measured": LABELS, "evidence": None, "inputs": "no"}, "not known"),
        ({"measured": replace(LABELS, excess=0.06)}, "not known"),
        ({"measured": replace(LABELS, contradicts=True)}, "no"),
        ({"measured": LABELS, "evidence": None}, "yes"),
        ({"measured": LABELS, "evidence": shifted(0.2)}, "yes"),
        ({"measured": replace(LABELS, excess=-0.037), "evidence": None}, "yes"),
        ({"measured": replace(LABELS, excess=0.06), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, excess=NAN), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, error=0.16), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, is_exact=False), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, age=STALE), "evidence": None}, "not known"),
        ({"measured": LABELS, "evidence": None, "coverage": replace(WITHIN, share_outside=0.4)}, "not known"),
        ({"measured": LABELS, "evidence": None, "interval": (0.1, 0.0, 0.9)}, "not known"),
        # Labels that are close do not confirm an estimate that is clearly off, nor a changed concept.
        ({"measured": FAR, "interval": (0.08, 0.05, 0.12)}, "not known"),
        ({"measured": replace(FAR, is_estimate_outside=False), "interval": (0.08, 0.05, 0.12)}, "yes"),
        ({"measured": replace(FAR, error=0.25, estimated=0.21), "interval": (0.25, 0.2, 0.3)}, "yes"),
        ({"measured": replace(LABELS, concept_changed="yes")}, "not known"),
        # Labels that doubt do not answer better than the backtest.
        ({"measured": FEW, "evidence": shifted(LARGEST_SHIFT)}, "no"),
        ({"measured": FEW}, "yes"),
        # The latest labels can refute what the backtest supports.
        ({"measured": MOVING}, "not known"),
        ({"measured": MOVING, "interval": (0.2, 0.15, 0.25)}, "yes"),
        ({"measured": replace(MOVING, age=STALE)}, "yes"),
        # An estimate of numbers that is not known is not believable.
        ({**RENTALS, "interval": (278.0, 198.0, 517.0)}, "not known"),
        ({**RENTALS, "interval": (278.0, 198.0, 417.0)}, "yes"),
    ],
)
def test_predictions(changes, answer):
    assert predictions(**changes).answer == answer


def test_the_error_above_the_estimate_is_in_the_unit_of_the_backtest():
    """What counts as 1 is another loss in the fit on all rows."""
    missed, scale = replace(HELPED.fixed, mean=0.65, shift=0.6), LossScale("absolute", one=24.0)
    for one, difference in ((20.0, " 13 "), (HELPED.one, " 15.6 ")):  # saved with the unit and without
        found = predictions(evidence=replace(HELPED, fixed=missed, one=one), scale=scale)
        assert found.answer == "no"
        assert difference in found.sentence


def test_an_interval_is_not_given_where_rows_show_that_it_says_nothing():
    minutes, drifted = LossScale("absolute", one=100.0), replace(WITHIN, drift_strength=HELPED.drift + 0.01)
    outside, still = replace(WITHIN, share_outside=0.5), replace(WITHIN, drift_strength=0.0)
    few = replace(WITHIN, n_rows=FEWEST_RECENT_ROWS - 1, share_outside=1.0)
    for interval, scale, coverage, is_given in (
        ((0.1, 0.05, 0.4), ERRORS, drifted, True),
        ((0.3, 0.1, 0.7), ERRORS, drifted, False),
        ((0.3, 0.1, 0.7), ERRORS, WITHIN, True),
        ((20.0, 10.0, 30.0), minutes, WITHIN, True),
        ((20.0, 10.0, 30.0), minutes, outside, False),
        ((0.1, 0.05, 0.4), ERRORS, outside, True),
        *(((20.0, 10.0, 60.0), minutes, coverage, True) for coverage in (None, few, still)),
    ):
        found = predictions(interval, scale=scale, coverage=coverage)
        assert ("between" in found.sentence) is is_given
        assert found.evidence == dict(zip(("estimate", "low", "high"), interval, strict=True))


def test_a_contradicted_estimate_that_is_not_shown_says_that_it_is_not_known():
    settings = {"scale": LossScale("absolute", one=100.0), "evidence": shifted(LARGEST_SHIFT)}
    narrow, wide = (20.0, 15.0, 25.0), (20.0, 10.0, 60.0)
    for interval, inputs, is_shown in ((narrow, "yes", True), (wide, "yes", False), (narrow, "no", False)):
        found = predictions(interval, inputs=inputs, **settings)
        assert found.answer == "no"
        assert ("not known" in found.sentence) is not is_shown


# --- nothing is claimed without labels of the user --------------------------------------------------------------
shares = st.floats(0.0, 1.0)
maybe_nan = shares | st.just(NAN)
coverages = st.none() | st.builds(Coverage, st.integers(0, 500), maybe_nan, maybe_nan)
residuals = st.builds(Residuals, shift=shares, spread=shares, spread_down=shares, unexplained=shares)
evidences = st.builds(
    Evidence, n_looks=st.integers(1, 20), fixed=residuals, adapted=residuals, drift=shares, gain=st.floats(-1.0, 1.0)
)


@given(
    coverage=coverages,
    interval=st.tuples(maybe_nan, maybe_nan, maybe_nan),
    excess=st.tuples(st.floats(-1.0, 1.0) | st.just(NAN), maybe_nan),
    exponent=st.sampled_from([0.0, 0.5, 1.0]),
    is_held=st.booleans(),
)
def test_without_backtest_and_labels_no_answer_about_adaptation_or_predictions_is_yes(
    coverage, interval, excess, exponent, is_held
):
    assert adaptation(excess=excess, exponent=exponent, is_held=is_held, evidence=None).answer != "yes"
    assert predictions(interval, coverage=coverage, evidence=None).answer == "not known"


@given(evidence=evidences, coverage=coverages, interval=st.tuples(shares, shares, shares))
def test_yes_about_predictions_needs_a_narrow_interval_and_a_backtest_that_held(evidence, coverage, interval):
    estimate, low, high = interval
    if predictions(interval, coverage=coverage, evidence=evidence).answer == "yes":
        assert evidence.fixed.shift < LARGEST_SHIFT
        assert max(high - estimate, estimate - low) <= NARROW
        assert coverage.share_outside <= COVERED


@given(evidence=evidences, gap=st.floats(-0.5, 0.5))
def test_labels_that_contradict_are_never_outvoted(evidence, gap):
    measured = replace(LABELS, contradicts=True, error=0.5, gap=gap)
    assert predictions(evidence=evidence, measured=measured).answer == "no"
    if gap > 0.1:
        assert adaptation(evidence=evidence, measured=measured).answer == "no"


@given(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=5))
def test_the_worst_answer_is_the_first_of_the_worst_kind(words):
    answers = [Answer(word, f"Number {number}.") for number, word in enumerate(words)]
    expected = next(kind for kind in ("no", "not known", "yes") if kind in words)
    assert worst(answers) == answers[words.index(expected)]


# --- the verdict ------------------------------------------------------------------------------------------------
GOOD = WeightEvidence(
    effective_sample_size=500.0, design_effect=2.0, largest_weight=3.0, mean_weight=1.0, share_cut=0.0
)
MISSED = replace(HELPED, fixed=replace(HELPED.fixed, shift=0.09))
ALL_YES = Checks(coverage=WITHIN, evidence=HELPED)


def verdict_of(checks=ALL_YES, **changes: Any):
    weights = WeightEvidence(**vars(GOOD) | {name: changes.pop(name) for name in vars(GOOD).keys() & changes.keys()})
    given = {"share_out_of_bound": 0.01, "exponent": 1.0, "is_vetoed": False, "excess": (-0.03, 0.01)} | changes
    return judge(weights, interval=(0.1, 0.05, 0.15), guard="It says so.", checks=checks, **given)


def test_evidence_by_hand():
    evidence = WeightEvidence.of(np.array([0.5, 1.5]), np.array([1.0, 3.0]), np.ones(2), max_ratio=3.0)
    assert evidence.effective_sample_size == pytest.approx(4.0 / 2.5)
    assert evidence.design_effect == pytest.approx(2.0 / 1.6)
    assert (evidence.largest_weight, evidence.mean_weight, evidence.share_cut) == (1.5, 2.0, 0.5)
    with_base = WeightEvidence.of(np.array([1.0, 3.0]), np.ones(2), np.array([1.0, 3.0]), max_ratio=100.0)
    assert (with_base.design_effect, with_base.mean_weight) == pytest.approx((1.0, 1.0))


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
        ({"checks": replace(ALL_YES, coverage=replace(WITHIN, share_outside=0.2))}, "not verified"),
        ({"checks": replace(ALL_YES, coverage=replace(WITHIN, share_outside=0.4))}, "no overlap"),
        ({"checks": replace(ALL_YES, evidence=replace(HELPED, gain=0.01))}, "not verified"),
        (
            {"checks": replace(ALL_YES, evidence=MISSED)},
            "contradicted",
        ),
    ],
)
def test_rules(changes, verdict):
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


def test_no_overlap_hides_the_word_contradicted_and_not_the_answer():
    checks = Checks(coverage=replace(WITHIN, share_outside=0.4), evidence=MISSED)
    trust = verdict_of(checks=checks)
    assert (trust.verdict, trust.predictions.answer, trust.contradicted_by) == ("no overlap", "no", "the backtest")
    assert trust.sentences["predictions"] == trust.predictions.sentence


@pytest.mark.parametrize(("gap", "n_labelled", "is_told"), [(0.0, 100, True), (0.01, 100, False), (0.0, 99, False)])
def test_labels_of_a_fixed_model_cannot_compare_and_the_answer_says_what_can(gap, n_labelled, is_told):
    measured = replace(LABELS, n_labelled=n_labelled, gap=gap)
    sentence = verdict_of(replace(ALL_YES, measured=measured), is_vetoed=True).adaptation.sentence
    assert ("always adapts" in sentence) is is_told


def test_a_fixed_model_that_is_better_contradicts_nothing():
    trust = verdict_of(is_vetoed=True, excess=(0.03, 0.01))
    assert (trust.adaptation.answer, trust.predictions.answer) == ("no", "yes")
    assert (trust.verdict, trust.reason) == ("not verified", trust.adaptation.sentence)


def test_it_prints_the_verdict_and_the_three_answers():
    trust = verdict_of()
    answers = (trust.inputs, trust.adaptation, trust.predictions)
    lines = str(trust).splitlines()
    assert trust.verdict in lines[0]
    assert all(answer.sentence in line for answer, line in zip(answers, lines[1:], strict=True))
    assert repr(trust).startswith("Trust(verdict=")
