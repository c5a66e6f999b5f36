"""The language of conditions: what can be written, what it means, and what is refused."""

import math

import pytest

from accous.diagnostics.alerts import parse_condition
from accous.diagnostics.trust import ANSWERS, VERDICTS
from accous.exceptions import ParameterError

RECORD = {
    "rounds": 812,
    "estimated_error": 0.234,
    "estimated_error_low": 0.2,
    "estimated_error_high": 0.27,
    "measured_error": None,
    "measured_error_plain": 0.12,
    "effective_sample_size": 49.5,
    "share_out_of_bound": 0.5,
    "share_outside": 0.75,
    "estimated_error_known": True,
    "last_drift_round": 752,
    "trust": "no overlap",
    "trust_reason": "Most rows lie outside.",
    "trust_inputs": "no",
    "trust_adaptation": "not known",
    "trust_predictions": "yes",
    "sentences": {"inputs": "Rows are far away.", "adaptation": "Nothing shows it.", "predictions": "Labels agree."},
}
HOLDS = {
    "error > 20%": True,
    "error>0.2": True,
    "  error  >=  23.4 % ": True,
    "error < 23.4%": False,
    "error == .234": True,
    "error_low <= 20%": True,
    "error_high > 0.25": True,
    "error_high > 30%": False,
    "measured_error_plain > 10%": True,
    "measured_error_plain > 12%": False,
    "measured_loss_plain > 0.1": True,
    "effective_rows < 50": True,
    "effective_rows < 49.5": False,
    "overlap < 30%": True,
    "overlap == 25%": True,
    "overlap < 0.25": False,
    "verdict != good": True,
    'verdict == "no overlap"': True,
    "verdict == 'no overlap'": True,
    "verdict == no overlap": True,
    "verdict == thin": False,
    "inputs == no": True,
    "adaptation == no": False,
    "adaptation == not known": True,
    "predictions != yes": False,
    "drift": True,
    "drift within 61": True,
    "drift within 60": False,
}
REFUSED = {
    "": "is not a condition; allowed is a comparison",
    "error": "is not a condition; allowed is a comparison",
    "errors > 20%": "loss_high, measured_loss, measured_loss_plain, overlap, effective_rows with a number",
    "measured_error_plain > 12": "is a share; write a number such as 20% or 0.2. If numbers are predicted",
    "error = 20%": "is not a condition",
    "error => 20%": "is not a condition",
    "error > twenty": "error is compared with a number such as 20% or 0.2, got 'twenty'",
    "error > -1": "compared with a number",
    "error > nan": "compared with a number",
    "error > 1e3": "compared with a number",
    "error > 20": "error is a share; write a number such as 20% or 0.2",
    "overlap < 120%": "overlap is a share",
    "effective_rows < 10%": "a number of rows, not with a percentage",
    "verdict > good": "with one of 'good', 'not verified', 'thin', 'contradicted', 'no overlap'",
    "verdict == god": "verdict is compared by == or != with one of",
    "inputs == maybe": "inputs is compared by == or != with one of 'yes', 'no', 'not known'",
    "drift within 0": "at least one round",
    "drift within": "is not a condition",
    "drift > 3": "is not a condition",
    "error > 20% and drift": "compared with a number",
}


@pytest.mark.parametrize("text", HOLDS)
def test_a_condition_means_what_it_says(text: str) -> None:
    assert parse_condition(text).check(RECORD) is HOLDS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        parse_condition(text)
    assert REFUSED[text] in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["measured_error > 0%", "measured_error <= 100%", "measured_error != 0"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_value_that_is_not_known_satisfies_nothing(text: str, value: float | None) -> None:
    assert parse_condition(text).check(RECORD | {"measured_error": value}) is None
    without = {name: each for name, each in RECORD.items() if name != "measured_error"}
    assert parse_condition(text).check(without) is None


def test_no_drift_so_far_is_known_and_drift_that_cannot_be_seen_is_not() -> None:
    condition = parse_condition("drift within 1000000")
    assert condition.check({"rounds": 5, "last_drift_round": 0}) is False
    assert condition.check({"rounds": 5, "last_drift_round": None}) is None


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("error > 20%", 0.234, "The estimated error is 23.4%."),
        ("measured_error_plain > 10%", 0.12, "The plain mean of the errors on all labels is 12.0%."),
        ("overlap < 30%", 0.25, "The share of recent rows that are like the reference is 25.0%."),
        ("effective_rows < 50", 49.5, "The number of effective reference rows is 50."),
        ("verdict != good", "no overlap", "The verdict is 'no overlap'. Most rows lie outside."),
        ("inputs == no", "no", "The answer about the inputs is 'no'. Rows are far away."),
        ("predictions == yes", "yes", "The answer about the predictions is 'yes'. Labels agree."),
        ("drift", 752, "The inputs changed in round 752, within the last 64 rounds."),
    ],
)
def test_an_alert_says_what_was_found(text: str, value: object, reason: str) -> None:
    found = parse_condition(text).alert(RECORD)
    assert found.to_json() == {"alert": text, "value": value, "round": 812, "reason": reason}


def test_every_verdict_and_every_answer_can_be_asked_for() -> None:
    for word in VERDICTS:
        assert parse_condition(f"verdict == {word}").check({"trust": word}) is True
    for name in ("inputs", "adaptation", "predictions"):
        for word in ANSWERS:
            assert parse_condition(f"{name} == {word}").check({f"trust_{name}": word}) is True
