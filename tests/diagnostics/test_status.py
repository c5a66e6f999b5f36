"""The rule of three states, its reasons and its advice; every code has a short text."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from accous.diagnostics.metrics import read_metric
from accous.diagnostics.performance import Estimate
from accous.diagnostics.status import (
    TEXTS,
    Action,
    Advice,
    Finding,
    Reason,
    StateHistory,
    advise,
    judge,
    text_of,
    tolerance_of,
)

ERROR, AUC = (read_metric(name, [0, 1]) for name in ("error", "roc_auc"))
MAE, BIAS = (read_metric(name, None) for name in ("mean_absolute_error", "bias"))
QUIET = StateHistory(True, np.array([0.01, -0.01, 0.0, 0.01, 0.0, -0.01]), 0.2)


def state(metric, value, low, high, basis, *, fit, history=QUIET, drift=0.1, n_labels=100, **also):
    now = Estimate(metric.name, value, low, high, basis, fit, n_labels if basis == "labels" else 0)
    return judge(metric, now, history, drift, tolerance=tolerance_of(metric, fit, **also))


@pytest.mark.parametrize(
    ("value", "low", "high", "wanted", "code", "action"),
    [
        (0.11, 0.07, 0.16, "healthy", Finding.LABELS_WITHIN, Action.NOTHING),
        (0.02, 0.00, 0.05, "healthy", Finding.LABELS_WITHIN, Action.NOTHING),
        (0.14, 0.05, 0.27, "uncertain", Finding.LABELS_UNDECIDED, Action.LABEL),
        (0.17, 0.13, 0.22, "uncertain", Finding.LABELS_UNDECIDED, Action.LABEL),
        (0.18, 0.14, 0.22, "degraded", Finding.LABELS_BEYOND, Action.LEARN),
        (0.22, 0.17, 0.28, "degraded", Finding.LABELS_BEYOND, Action.LEARN),
    ],
)
def test_labels_decide_alone(value, low, high, wanted, code, action):
    for history, drift in ((QUIET, 0.0), (StateHistory(False, np.zeros(0), 0.0), 1.0)):
        found = state(ERROR, value, low, high, "labels", fit=0.1, history=history, drift=drift)
        assert (found.state, found.reasons[0].code, found.advice.code) == (wanted, code, action)
        mirrored = state(AUC, 1 - value, 1 - high, 1 - low, "labels", fit=0.9, history=history, drift=drift)
        assert mirrored.state == wanted


@pytest.mark.parametrize(
    ("history", "drift", "wanted", "code"),
    [
        (QUIET, 0.1, "healthy", Finding.INPUTS_AS_BEFORE),
        (QUIET, 0.5, "uncertain", Finding.INPUTS_MOVED),
        (StateHistory(True, QUIET.gaps, 0.4), 0.5, "healthy", Finding.INPUTS_AS_BEFORE),
        (StateHistory(True, QUIET.gaps, 0.4), 0.7, "uncertain", Finding.INPUTS_MOVED),
        (StateHistory(False, QUIET.gaps, 0.2), 0.1, "uncertain", Finding.NO_BACKTEST),
        (StateHistory(True, QUIET.gaps[:2], 0.2), 0.1, "uncertain", Finding.NO_BACKTEST),
        (StateHistory(True, QUIET.gaps + 0.2, 0.2), 0.1, "uncertain", Finding.BACKTEST_SCATTERED),
        (StateHistory(True, QUIET.gaps * 10.0, 0.2), 0.1, "uncertain", Finding.BACKTEST_SCATTERED),
        (
            StateHistory(True, np.array([0.045, 0.0, 0.0, 0.0, 0.0, 0.0]), 0.2),
            0.1,
            "uncertain",
            Finding.BACKTEST_SCATTERED,
        ),
        (StateHistory(True, QUIET.gaps * 10.0, 0.2, noise=0.01), 0.1, "healthy", Finding.INPUTS_AS_BEFORE),
        (StateHistory(True, QUIET.gaps - 0.2, 0.2), 0.1, "healthy", Finding.INPUTS_AS_BEFORE),
    ],
)
def test_without_labels_healthy_needs_a_history_that_held(history, drift, wanted, code):
    found = state(ERROR, 0.11, 0.08, 0.14, "expected", fit=0.1, history=history, drift=drift)
    assert (found.state, found.reasons[0].code) == (wanted, code)
    assert found.advice.code == Action.LABEL
    mirrored = state(AUC, 0.89, 0.86, 0.92, "expected", fit=0.9, history=history, drift=drift)
    assert mirrored.reasons == found.reasons


@pytest.mark.parametrize("n_labels", [0, 20])
def test_labels_are_called_too_few_only_if_there_are_some(n_labels):
    for value, history in ((0.11, QUIET), (0.3, QUIET), (0.11, StateHistory(False, QUIET.gaps, 0.2))):
        now = Estimate("error", value, value - 0.02, value + 0.02, "expected", 0.1, n_labels)
        codes = [each.code for each in judge(ERROR, now, history, 0.1, tolerance=0.05).reasons]
        assert (Finding.LABELS_TOO_FEW in codes) == (n_labels > 0)


@pytest.mark.parametrize("value", [0.05, 0.4])
def test_nothing_is_expected_of_what_labels_taught(value):
    now = Estimate("error", value, value - 0.02, value + 0.02, "expected", 0.1, 20)
    found = judge(ERROR, now, QUIET, 0.1, tolerance=0.05, learned_predicts=True)
    assert (found.state, found.reasons) == ("uncertain", (Reason(Finding.LABELS_TOO_FEW, 20),))


def test_an_expected_value_beyond_the_tolerance_is_not_healthy():
    found = state(ERROR, 0.16, 0.10, 0.22, "expected", fit=0.1)
    assert (found.state, found.reasons[0]) == ("uncertain", Reason(Finding.EXPECTED_BEYOND, 0.16))


def test_predictions_that_moved_are_not_healthy_without_labels():
    now = Estimate("error", 0.05, 0.04, 0.06, "expected", 0.1, 0)
    found = judge(ERROR, now, QUIET, 0.1, tolerance=0.05, moved=0.5)
    assert (found.state, found.reasons[0]) == ("uncertain", Reason(Finding.PREDICTIONS_MOVED, 0.5))
    assert judge(ERROR, now, QUIET, 0.1, tolerance=0.05, moved=0.2).state == "healthy"


def test_inputs_where_the_model_is_bad_degrade_it_unless_they_are_unlike_the_reference():
    found = state(ERROR, 0.3, 0.2, 0.4, "expected", fit=0.1)
    assert (found.state, found.reasons[0].code) == ("degraded", Finding.EXPECTED_BEYOND)
    assert state(ERROR, 0.3, 0.2, 0.4, "expected", fit=0.1, drift=0.95).state == "uncertain"


def test_what_is_not_defined_is_uncertain():
    assert state(AUC, math.nan, math.nan, math.nan, "expected", fit=0.9).state == "uncertain"


def test_tolerances():
    assert tolerance_of(ERROR, 0.1) == 0.05
    assert tolerance_of(ERROR, 0.5) == pytest.approx(0.1)
    assert tolerance_of(AUC, 0.5) == pytest.approx(0.1)
    assert tolerance_of(MAE, 30.0) == pytest.approx(6.0)
    assert tolerance_of(BIAS, 0.0, scale=30.0) == pytest.approx(6.0)
    assert state(BIAS, -0.5, -1.0, 0.1, "labels", fit=0.2, scale=5.0).state == "healthy"
    assert state(BIAS, -9.0, -10.0, -8.0, "labels", fit=0.2, scale=5.0).state == "degraded"


def test_advice_has_a_number():
    few = state(ERROR, 0.1, 0.05, 0.15, "expected", fit=0.1)
    assert few.advice == Advice(Action.LABEL, 100)
    assert few.advice.command() == "accous ask MODEL STREAM -n 100 -o to_label.csv"
    assert few.advice.command("my model", "s.csv") == "accous ask 'my model' s.csv -n 100 -o to_label.csv"
    assert state(ERROR, 0.14, 0.06, 0.26, "labels", fit=0.1, n_labels=30).advice.n == 90
    uncertain = Estimate("f1", 0.3, 0.2, 0.4, "expected", 0.4, 0)
    assert advise("uncertain", uncertain, 0.1, spread=1.5) == Advice(Action.LABEL, 410)
    # Numbers that are predicted without an error are tolerated none.
    perfect = Estimate("mean_absolute_error", 0.0, 0.0, 0.1, "labels", 0.0, 100)
    assert advise("uncertain", perfect, 0.0) == Advice(Action.LABEL, 1000)


def test_further_reasons_decide_nothing():
    now = Estimate("error", 0.11, 0.07, 0.16, "labels", 0.1, 100)
    also = (Reason(Finding.NEW_CATEGORIES, 0.3),)
    found = judge(ERROR, now, QUIET, 0.1, tolerance=0.05, alarm=True, also=also)
    assert (found.state, found.alarm, found.reasons[-1]) == ("healthy", True, also[0])


@pytest.mark.parametrize(("metric", "fit", "constant"), [(ERROR, 0.1, 0.1), (AUC, 0.45, 0.5), (MAE, 3.0, 2.9)])
@pytest.mark.parametrize("basis", ["labels", "expected"])
def test_a_model_no_better_than_a_constant_at_fit_is_told_so_whatever_its_state(metric, fit, constant, basis):
    history = replace(QUIET, constant=constant)
    told = state(metric, fit, fit, fit, basis, fit=fit, history=history)
    assert told.state == "healthy"
    assert Reason(Finding.NO_BETTER, constant) in told.reasons
    assert told.reasons[0].code != Finding.NO_BETTER
    better = constant + 0.01 if metric.higher_is_better else constant - 0.01
    for fine in (
        state(metric, better, better, better, basis, fit=better, history=history),
        state(metric, fit, fit, fit, basis, fit=fit),
    ):
        assert Finding.NO_BETTER not in [each.code for each in fine.reasons]


def test_every_code_has_a_text_of_at_most_25_words_and_one_number():
    assert set(TEXTS) == set(Finding) | set(Action)
    for text in TEXTS.values():
        assert len(text.split()) <= 25
        assert len(re.findall(r"\{[nx]:", text)) <= 1
    assert text_of(Reason(Finding.LABELS_WITHIN, 1200)).startswith("1,200 ")
    assert " 140 " in text_of(Advice(Action.LABEL, 140))


def test_while_the_alarm_is_on_there_is_something_to_do():
    now = Estimate("error", 0.1, 0.08, 0.12, "labels", 0.1, 200)
    assert advise("healthy", now, 0.05).code == Action.NOTHING
    assert advise("healthy", now, 0.05, alarm=True).code == Action.LABEL
    assert advise("degraded", now, 0.05).code == Action.LEARN
    asked = advise("degraded", now, 0.05, has_learned=True)
    assert asked.code == Action.LABEL
    assert str(asked) == text_of(asked)
