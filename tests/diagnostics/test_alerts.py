"""The language of conditions: what can be written, what it means, and what is refused."""

import math
import re

import pytest

from accous.diagnostics.alerts import parse_condition
from accous.diagnostics.trust import ANSWERS, VERDICTS
from accous.exceptions import ParameterError

ESTIMATED = {"estimated_error": 0.234, "estimated_error_low": 0.2, "estimated_error_high": 0.27}
MEASURED = {"measured_error": None, "measured_error_plain": 0.12, "estimated_error_known": True}
COVERED = {"effective_sample_size": 49.5, "share_out_of_bound": 0.5, "share_outside": 0.75, "last_drift_round": 752}
TRUST = {"trust": "no overlap", "trust_inputs": "no", "trust_adaptation": "not known", "trust_predictions": "yes"}
SENTENCES = {"inputs": "Rows are far away.", "adaptation": "Nothing shows it.", "predictions": "Labels agree."}
RECORD = ESTIMATED | MEASURED | COVERED | TRUST | {"rounds": 812, "sentences": SENTENCES}
RECORD["trust_reason"] = "Most rows lie outside."
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
REFUSED = [
    *("", "error", "errors > 20%", "error = 20%", "error => 20%", "error > twenty", "error > -1", "error > nan"),
    *("error > 1e3", "error > 20", "measured_error_plain > 12", "overlap < 120%", "effective_rows < 10%"),
    *("verdict > good", "verdict == god", "inputs == maybe", "drift within 0", "drift within", "drift > 3"),
    "error > 20% and drift",
]


@pytest.mark.parametrize("text", HOLDS)
def test_a_condition_means_what_it_says(text):
    assert parse_condition(text).check(RECORD) is HOLDS[text]


@pytest.mark.parametrize("text", REFUSED)
def test_anything_else_is_refused_and_named(text):
    with pytest.raises(ParameterError, match=re.escape(repr(text))):
        parse_condition(text)


@pytest.mark.parametrize("text", ["measured_error > 0%", "measured_error <= 100%", "measured_error != 0"])
@pytest.mark.parametrize("value", [None, math.nan])
def test_a_value_that_is_not_known_satisfies_nothing(text, value):
    assert parse_condition(text).check(RECORD | {"measured_error": value}) is None
    without = {name: each for name, each in RECORD.items() if name != "measured_error"}
    assert parse_condition(text).check(without) is None


def test_no_drift_so_far_is_known_and_drift_that_cannot_be_seen_is_not():
    condition = parse_condition("drift within 1000000")
    assert condition.check({"rounds": 5, "last_drift_round": 0}) is False
    assert condition.check({"rounds": 5, "last_drift_round": None}) is None


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("error > 20%", 0.234, "23.4%"),
        ("measured_error_plain > 10%", 0.12, "12.0%"),
        ("overlap < 30%", 0.25, "25.0%"),
        ("effective_rows < 50", 49.5, "50"),
        ("verdict != good", "no overlap", "Most rows lie outside."),
        ("inputs == no", "no", "Rows are far away."),
        ("predictions == yes", "yes", "Labels agree."),
        ("drift", 752, "752"),
    ],
)
def test_an_alert_says_what_was_found(text, value, found):
    alert = parse_condition(text).alert(RECORD).to_json()
    assert found in alert.pop("reason")
    assert alert == {"alert": text, "value": value, "round": 812}


def test_every_verdict_and_every_answer_can_be_asked_for():
    for word in VERDICTS:
        assert parse_condition(f"verdict == {word}").check({"trust": word}) is True
    for name in ("inputs", "adaptation", "predictions"):
        for word in ANSWERS:
            assert parse_condition(f"{name} == {word}").check({f"trust_{name}": word}) is True
