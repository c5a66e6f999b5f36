"""The three answers: every rule at its limit, and that nothing is claimed which labels do not support."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accous.diagnostics.coverage import Coverage, Finding
from accous.diagnostics.labels import LatestError, MeasuredError
from accous.diagnostics.losses import LossScale
from accous.diagnostics.risk import LARGEST_UNEXPLAINED, NO_EVIDENCE, Evidence, Residuals
from accous.diagnostics.trust import (
    ANSWERS,
    CLEAR_GAIN,
    COVERED,
    FEWEST_RECENT_ROWS,
    FEWEST_TO_COMPARE,
    LARGEST_SHIFT,
    NARROW,
    NOT_COVERED,
    RECENT_ROWS,
    Answer,
    answer_adaptation,
    answer_inputs,
    answer_predictions,
    worst,
)
from accous.model.safeguards import DOUBTED, OFF, STRICT, UNPROVEN, Guard

NAN = float("nan")
WITHIN = Coverage(500, 0.05, 0.3)
HELPED = replace(NO_EVIDENCE, n_looks=12, drift=0.3, gain=-0.02)
LABELS = MeasuredError(
    n_labelled=1000,
    error=0.1,
    error_low=0.08,
    error_high=0.12,
    error_fixed=0.1,
    estimated=0.11,
    excess=-0.01,
    gap=0.0,
    gap_standard_error=0.01,
    age=0,
    contradicts=False,
    is_exact=True,
    is_alarmed=False,
    unseen_classes={},
    concept_changed="no",
    sentence="The labels say so.",
)
MOVED = Finding("age", "outside", 0.4, 0.01, "40% of the values of 'age' lie outside the reference.")


# --- inputs -------------------------------------------------------------------------------------------------


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
def test_inputs(coverage: Coverage | None, no_overlap: str | None, answer: str) -> None:
    assert answer_inputs(coverage, no_overlap).answer == answer


def test_the_answer_about_inputs_names_what_it_rests_on() -> None:
    assert answer_inputs(replace(WITHIN, columns=(MOVED,)), None).sentence == MOVED.sentence
    assert answer_inputs(WITHIN, "No overlap.").sentence == "No overlap."
    assert "have moved" in answer_inputs(WITHIN, None).sentence
    assert "lie where the reference has rows" in answer_inputs(replace(WITHIN, drift_strength=0.05), None).sentence
    assert answer_inputs(WITHIN, None).evidence == {"share_outside": 0.05, "drift_strength": 0.3}


def test_rows_that_came_before_others_joined_are_not_called_covered() -> None:
    found = answer_inputs(WITHIN, None, 5)
    assert found.answer == "not known"
    assert "covers them. But these rows came before the last ones joined the reference" in found.sentence
    assert answer_inputs(WITHIN, None, FEWEST_RECENT_ROWS).answer == "yes"


# --- adaptation ---------------------------------------------------------------------------------------------


def adaptation(**changes: Any) -> Answer:
    given_by_default: dict[str, Any] = {
        "excess": (-0.03, 0.01),
        "exponent": 1.0,
        "is_held": False,
        "guard": "The guard says so.",
        "evidence": HELPED,
        "measured": None,
    }
    return answer_adaptation(**given_by_default | changes)


def unexplained(by: float) -> Evidence:
    return replace(HELPED, fixed=replace(HELPED.fixed, unexplained=by))


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
        ({"evidence": unexplained(LARGEST_UNEXPLAINED)}, "not known"),
        ({"evidence": unexplained(LARGEST_UNEXPLAINED - 0.001)}, "yes"),
        # Labels decide where they show a difference, and only there.
        ({"measured": replace(LABELS, gap=0.05)}, "no"),
        ({"measured": replace(LABELS, gap=-0.05), "evidence": None}, "yes"),
        ({"measured": replace(LABELS, gap=-0.02), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=NAN), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=-0.8, n_labelled=FEWEST_TO_COMPARE - 1), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=-0.8, age=RECENT_ROWS + 1), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, gap=0.05), "exponent": 0.0}, "no"),
        # What did harm is not forgotten because no more labels came.
        ({"measured": replace(LABELS, gap=0.05, age=RECENT_ROWS + 1)}, "no"),
        # What helped may have ended: what is known now answers.
        ({"measured": replace(LABELS, gap=-0.8, age=RECENT_ROWS + 1)}, "yes"),
        ({"measured": replace(LABELS, gap=-0.8, age=RECENT_ROWS + 1), "is_held": True, "excess": (0.08, 0.01)}, "no"),
    ],
)
def test_adaptation(changes: dict[str, Any], answer: str) -> None:
    found = adaptation(**changes)
    assert found.answer == answer
    assert found.sentence.endswith(".")
    is_fixed = bool(changes.get("is_held")) or changes.get("exponent") == 0.0
    assert found.sentence.count(f"The {'fixed' if is_fixed else 'adapted'} model predicts now.") == 1
    assert f"The {'adapted' if is_fixed else 'fixed'} model predicts" not in found.sentence


def test_what_is_missing_to_call_the_adapted_model_better_is_said() -> None:
    no_gain = adaptation(excess=(-0.362, 0.031), evidence=replace(HELPED, gain=0.0)).sentence
    assert no_gain.startswith(
        "The adapted model errs 36.2 points less on the weighted reference, but adaptation gained nothing in the "
        "backtest: only labels can confirm it."
    )
    assert "but such estimates were not close to the truth" in adaptation(evidence=unexplained(0.5)).sentence
    assert "too few looks to confirm that" in adaptation(evidence=replace(HELPED, n_looks=3)).sentence
    assert adaptation(excess=(-0.001, 0.01)).sentence.startswith("The weighted reference does not clearly show that")


def test_the_age_of_what_labels_showed_is_said() -> None:
    sentence = adaptation(measured=replace(LABELS, gap=0.027, gap_standard_error=0.001, age=1_200)).sentence
    assert "errs 2.7 points more than the fixed model. The last label came 1,200 rows ago." in sentence


def test_labels_that_are_close_do_not_confirm_an_estimate_that_is_clearly_off_or_a_changed_concept() -> None:
    far = replace(LABELS, error=0.111, estimated=0.071, excess=0.04, is_estimate_outside=True)
    found = predictions((0.08, 0.05, 0.12), measured=far)
    assert found.answer == "not known"
    assert found.sentence.endswith("say 11.1% where 7.1% was estimated, which is clearly too low.")
    assert predictions((0.08, 0.05, 0.12), measured=replace(far, is_estimate_outside=False)).answer == "yes"
    assert predictions((0.25, 0.2, 0.3), measured=replace(far, error=0.25, estimated=0.21)).answer == "yes"
    changed = predictions(measured=replace(LABELS, concept_changed="yes"))
    assert changed.answer == "not known"
    assert "are close to the estimate, but the latest of them say that P(y | x) has changed" in changed.sentence


def test_labels_that_doubt_do_not_answer_better_than_the_backtest() -> None:
    few = replace(LABELS, n_labelled=10, is_exact=False, concept_changed="yes")
    assert predictions(measured=few, evidence=shifted(LARGEST_SHIFT)).answer == "no"
    assert predictions(measured=few).answer == "yes"


def test_the_latest_labels_can_refute_what_the_backtest_supports() -> None:
    moving = replace(LABELS, latest=LatestError(200, 0.21, 0.167, 0.261, is_apart=True))
    found = predictions(measured=moving)
    assert found.answer == "not known"
    assert found.sentence == (
        "The error moves: the latest 200 labels say 21.0% (16.7% to 26.1%), where 10.0% is estimated."
    )
    assert predictions((0.2, 0.15, 0.25), measured=moving).answer == "yes"
    assert predictions(measured=replace(moving, age=RECENT_ROWS + 1)).answer == "yes"


def test_a_small_gain_of_the_backtest_is_not_called_a_proof() -> None:
    assert adaptation(evidence=replace(HELPED, gain=-0.003)).sentence == (
        "The weighted reference shows that adaptation helps, and the backtest does not speak against it. The adapted "
        "model predicts now."
    )


@pytest.mark.parametrize("guard", [STRICT, OFF, DOUBTED, UNPROVEN])
def test_who_predicts_is_said_once_while_a_guard_holds_the_adapted_model_back(guard: Guard) -> None:
    sentence = adaptation(is_held=True, guard=guard.sentence).sentence
    assert guard.sentence in sentence
    assert sentence.count("The fixed model predicts") == 1


def test_a_difference_on_labelled_rows_needs_two_standard_errors() -> None:
    assert adaptation(measured=replace(LABELS, gap=-0.02 - 1e-6), evidence=None).answer == "yes"
    assert adaptation(measured=replace(LABELS, gap=-0.02 + 1e-6), evidence=None).answer == "not known"


# --- predictions --------------------------------------------------------------------------------------------


def test_the_error_above_the_estimate_is_the_difference_that_the_backtest_names() -> None:
    """In the unit of the backtest: what counts as 1 is another loss in the fit on all rows."""
    missed = replace(HELPED.fixed, mean=0.65, shift=0.6)
    scale = LossScale("absolute", one=24.0)
    found = predictions(evidence=replace(HELPED, fixed=missed, one=20.0), scale=scale)
    assert (found.answer, found.sentence) == (
        "no",
        "In the backtest the mean absolute error was 13 above the estimate.",
    )
    before = predictions(evidence=replace(HELPED, fixed=missed), scale=scale)
    assert "was 15.6 above" in before.sentence  # saved without the unit


def predictions(interval: tuple[float, float, float] = (0.1, 0.05, 0.15), **changes: Any) -> Answer:
    given_by_default: dict[str, Any] = {"coverage": WITHIN, "inputs": "yes", "evidence": HELPED, "measured": None}
    return answer_predictions(interval, **given_by_default | changes)


def shifted(by: float) -> Evidence:
    return replace(HELPED, fixed=replace(HELPED.fixed, shift=by))


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
        ({"measured": replace(LABELS, excess=0.06), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, excess=NAN), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, error=0.16), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, is_exact=False), "evidence": None}, "not known"),
        ({"measured": replace(LABELS, age=RECENT_ROWS + 1), "evidence": None}, "not known"),
        ({"measured": LABELS, "evidence": None, "coverage": replace(WITHIN, share_outside=0.4)}, "not known"),
        ({"measured": LABELS, "evidence": None, "interval": (0.1, 0.0, 0.9)}, "not known"),
    ],
)
def test_predictions(changes: dict[str, Any], answer: str) -> None:
    assert predictions(**changes).answer == answer


def test_an_interval_that_says_nothing_is_not_given_as_one_where_drift_is_the_reason() -> None:
    moved = replace(WITHIN, drift_strength=HELPED.drift + 0.01)
    assert "between 5% and 40%" in predictions((0.1, 0.05, 0.4), coverage=moved).sentence
    assert "further than the backtest can speak for" in predictions((0.3, 0.1, 0.7), coverage=moved).sentence
    assert "between 10% and 70%" in predictions((0.3, 0.1, 0.7)).sentence


def test_labels_that_confirm_an_estimate_say_how_close_they_are() -> None:
    found = predictions(measured=replace(LABELS, excess=-0.037), evidence=None)
    assert found.answer == "yes"
    assert "where 11.0% was estimated: 3.7 points apart, and up to 5.0 points count as close." in found.sentence


def test_an_estimate_of_numbers_that_is_not_known_is_not_believable() -> None:
    rentals = LossScale("absolute", one=1200.0)
    measured = replace(LABELS, error=297.0, estimated=324.0, excess=-27.0, scale=rentals)
    found = predictions((278.0, 198.0, 517.0), scale=rentals, measured=measured)
    assert found.answer == "not known"
    assert predictions((278.0, 198.0, 417.0), scale=rentals, measured=measured).answer == "yes"


def test_losses_of_numbers_have_no_interval_where_the_reference_has_no_rows() -> None:
    outside, minutes = replace(WITHIN, share_outside=0.5), LossScale("absolute", one=100.0)
    wide_enough = (20.0, 10.0, 30.0)
    assert "between 10 and 30" in predictions(wide_enough, scale=minutes).sentence
    assert "further than the backtest" in predictions(wide_enough, scale=minutes, coverage=outside).sentence
    assert "between 5% and 40%" in predictions((0.1, 0.05, 0.4), coverage=outside).sentence


def test_a_contradicted_estimate_that_is_not_shown_says_what_tells_the_error() -> None:
    minutes, shown = LossScale("absolute", one=100.0), "The mean absolute error is not known now: only labels"
    narrow, wide = (20.0, 15.0, 25.0), (20.0, 10.0, 60.0)
    missed = shifted(LARGEST_SHIFT)
    assert shown not in predictions(narrow, scale=minutes, evidence=missed).sentence
    for changes in ({"interval": wide}, {"interval": narrow, "inputs": "no"}):
        found = predictions(**changes, scale=minutes, evidence=missed)
        assert found.answer == "no"
        assert shown in found.sentence


def test_inputs_are_said_to_have_moved_only_if_rows_show_it() -> None:
    minutes, still = LossScale("absolute", one=100.0), replace(WITHIN, drift_strength=0.0)
    for coverage in (None, replace(WITHIN, n_rows=FEWEST_RECENT_ROWS - 1, share_outside=1.0), still):
        found = predictions((20.0, 10.0, 60.0), scale=minutes, coverage=coverage)
        assert found == Answer(
            "not known",
            "The mean absolute error may lie anywhere between 10 and 60.",
            {"estimate": 20.0, "low": 10.0, "high": 60.0},
        )


# --- nothing is claimed without labels of the user ----------------------------------------------------------

shares = st.floats(0.0, 1.0)
maybe_nan = shares | st.just(NAN)
coverages = st.none() | st.builds(Coverage, st.integers(0, 500), maybe_nan, maybe_nan)


@given(
    coverage=coverages,
    interval=st.tuples(maybe_nan, maybe_nan, maybe_nan),
    excess=st.tuples(st.floats(-1.0, 1.0) | st.just(NAN), maybe_nan),
    exponent=st.sampled_from([0.0, 0.5, 1.0]),
    is_held=st.booleans(),
)
def test_without_backtest_and_labels_no_answer_about_adaptation_or_predictions_is_yes(
    coverage: Coverage | None,
    interval: tuple[float, float, float],
    excess: tuple[float, float],
    exponent: float,
    is_held: bool,
) -> None:
    found = adaptation(excess=excess, exponent=exponent, is_held=is_held, evidence=None)
    assert found.answer != "yes"
    assert predictions(interval, coverage=coverage, evidence=None).answer == "not known"


residuals = st.builds(Residuals, shift=shares, spread=shares, spread_down=shares, unexplained=shares)
evidences = st.builds(
    Evidence, n_looks=st.integers(1, 20), fixed=residuals, adapted=residuals, drift=shares, gain=st.floats(-1.0, 1.0)
)


@given(evidence=evidences, coverage=coverages, interval=st.tuples(shares, shares, shares))
def test_yes_about_predictions_needs_a_narrow_interval_and_a_backtest_that_held(
    evidence: Evidence, coverage: Coverage | None, interval: tuple[float, float, float]
) -> None:
    estimate, low, high = interval
    if predictions(interval, coverage=coverage, evidence=evidence).answer == "yes":
        assert evidence.fixed.shift < LARGEST_SHIFT
        assert high - estimate <= NARROW
        assert estimate - low <= NARROW
        assert coverage is not None
        assert coverage.share_outside <= COVERED


@given(evidence=evidences, gap=st.floats(-0.5, 0.5))
def test_labels_that_contradict_are_never_outvoted(evidence: Evidence, gap: float) -> None:
    measured = replace(LABELS, contradicts=True, error=0.5, gap=gap)
    assert predictions(evidence=evidence, measured=measured).answer == "no"
    if gap > 0.1:
        assert adaptation(evidence=evidence, measured=measured).answer == "no"


@given(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=5))
def test_the_worst_answer_is_the_first_of_the_worst_kind(words: list[str]) -> None:
    answers = [Answer(word, f"Number {number}.") for number, word in enumerate(words)]
    expected = next(kind for kind in ("no", "not known", "yes") if kind in words)
    assert worst(answers) == answers[words.index(expected)]
