"""`accous.Alerts` calls once for every time a condition becomes true; rounds log what happens under the name accous."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accous import ULSIF, AdaptiveClassifier, Alerts
from accous.diagnostics.alerts import Alert
from accous.exceptions import ParameterError
from accous.model.safeguards import LENIENT, STRICT, Fallback, Veto, next_veto
from accous.model.snapshot import log_events
from accous.table.columns import ColumnEncoder
from accous.table.model import TableModel
from tests.forks import ForkServer

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(300, 3))
Y = (X[:, 0] + RANDOM.normal(size=300) > 0).astype(int)


def fitted(**parameters: Any) -> AdaptiveClassifier:
    return AdaptiveClassifier(**parameters).fit(X, Y)


def with_veto(fallback: Fallback, veto: Veto) -> Fallback:
    return replace(fallback, share=1.0, check=replace(fallback.check, veto=veto))


def stream(shift: float, n_rounds: int = 100) -> list[Any]:
    return list(np.random.default_rng(4).normal(loc=(shift, 0.0, 0.0), size=(n_rounds, 5, 3)))


def test_a_condition_calls_when_it_becomes_true_and_again_only_after_it_was_false() -> None:
    model, calls = fitted(), []
    alerts = Alerts("overlap < 50%", calls.append)
    batches = [batch for shift in (0.0, 8.0, 0.0, 8.0) for batch in stream(shift)]
    held = [bool(alerts.check(model.adapt(batch))) for batch in batches]
    becomes_true = [now and not before for before, now in zip([False, *held], held, strict=False)]
    assert [call.round for call in calls] == [1 + number for number, is_new in enumerate(becomes_true) if is_new]
    assert len(calls) == 2
    assert sum(held) > 50
    assert calls[0].alert == "overlap < 50%"
    assert calls[0].value < 0.5


def test_only_what_the_conditions_need_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AdaptiveClassifier, "risk_", property(lambda _: pytest.fail("not asked for")))
    monkeypatch.setattr(AdaptiveClassifier, "trust_", property(lambda _: pytest.fail("not asked for")))
    assert Alerts(["drift", "overlap < 1%", "effective_rows < 1"]).check(fitted().adapt(X[:5])) == []


def test_every_field_is_read_from_the_model() -> None:
    model = fitted().adapt(X[:120])
    texts = ["error >= 0%", "error_low >= 0%", "error_high >= 0%", "effective_rows > 0", "overlap >= 0%"]
    found = {alert.alert: alert.value for alert in Alerts([*texts, "verdict != good"]).check(model)}
    risk = model.risk_
    values = [model.risk_estimate_, risk.adapted_low, risk.adapted_high, model.effective_sample_size_]
    values.append(1.0 - model.coverage_.share_outside)
    assert found == dict(zip([*texts, "verdict != good"], [*values, "not verified"], strict=True))


def test_the_plain_mean_over_all_labels_is_read_from_the_model() -> None:
    model = fitted().adapt(X[:120])
    assert Alerts("measured_error_plain >= 0%").check(model) == []
    model.observe(X[:40], Y[:40], predicted=np.where(np.arange(40) < 10, 1 - Y[:40], Y[:40]))
    (alert,) = Alerts("measured_error_plain >= 0%").check(model)
    assert alert.value == 0.25


def test_a_value_that_is_not_known_calls_nobody_and_forgets_nothing() -> None:
    calls: list[Alert] = []
    alerts = Alerts(["drift", "overlap >= 0%", "measured_error >= 0%"], calls.append)
    one_step = fitted(ratio=ULSIF(random_state=0))
    assert alerts.check(one_step.adapt(X[:20])) == []
    online = fitted().adapt(X[:120])
    for model in (online, one_step, online):
        alerts.check(model)
    assert [call.alert for call in calls] == ["overlap >= 0%"]


def test_an_error_in_the_callback_reaches_the_caller_once() -> None:
    def fail(alert: Alert) -> None:
        raise RuntimeError(alert.alert)

    alerts, model = Alerts("effective_rows > 1", fail), fitted()
    with pytest.raises(RuntimeError, match="effective_rows > 1"):
        alerts.check(model)
    assert len(alerts.check(model)) == 1


def test_table_models_are_checked_too() -> None:
    model = fitted()
    table_model = TableModel(model=model, encoder=ColumnEncoder([]), label="y", settings={})
    assert Alerts("effective_rows > 1").check(table_model) == Alerts("effective_rows > 1").check(model) != []


def test_a_wrong_condition_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="allowed is a comparison"):
        Alerts(["drift", "error is large"])


# --- logging --------------------------------------------------------------------------------------------------


def test_drift_and_alerts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="accous")
    model, alerts = fitted(), Alerts("drift")
    for batch in stream(2.0, 200):
        alerts.check(model.adapt(batch))
    shifts = [event for event in model.drift_events_ if event.kind == "shift"]
    first = shifts[0]
    messages = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "accous"]
    begins = [text for level, text in messages if level == "INFO" and "the inputs changed" in text]
    assert begins[0].startswith(f"Round {first.round}: the inputs changed (size ")
    assert begins[0].endswith(", mainly x0.")
    over = [text for level, text in messages if level == "INFO" and "is over" in text]
    assert len(over) == sum(event.rounds_to_adapt is not None for event in shifts) > 0
    warnings = [text for level, text in messages if level == "WARNING"]
    expected = f"Round {first.round}: drift: The inputs changed in round {first.round}, within the last 64 rounds."
    assert warnings[0] == expected


def test_a_veto_is_logged_when_it_is_taken_and_when_it_is_released(caplog: pytest.LogCaptureFixture) -> None:
    model = fitted().adapt(X[:5])
    before = model.state_
    veto = next_veto(LENIENT, 0.05, 0.01, 32, 3)
    held = replace(before, n_rounds=32, fallback=with_veto(before.fallback, veto))
    caplog.set_level(logging.INFO, logger="accous")
    log_events(before, held, model.fixed_)
    log_events(held, held, model.fixed_)
    unknown = next_veto(LENIENT, float("nan"), float("nan"), 64, 3)
    log_events(held, replace(before, n_rounds=64, fallback=with_veto(before.fallback, unknown)), model.fixed_)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    taken, released = (record.getMessage() for record in caplog.records)
    assert taken.startswith("Round 32: the fixed model makes the predictions from now on. ")
    assert taken.endswith("adapted minus fixed: +5.0 points (standard error 1.0).")
    assert released.startswith("Round 64: the adapted model makes the predictions from now on. ")
    assert released.endswith("could not be compared on the reference.")


def test_the_first_release_under_a_strict_guard_states_the_gain(caplog: pytest.LogCaptureFixture) -> None:
    model = fitted()
    before = model.state_
    held, free = (
        replace(before, n_rounds=32, fallback=with_veto(before.fallback, next_veto(STRICT, excess, 0.01, 32, 3)))
        for excess in (-0.005, -0.049)
    )
    log_events(held, free, model.fixed_)
    (message,) = (record.getMessage() for record in caplog.records)
    assert message.startswith("Round 32: the adapted model makes the predictions from now on. ")
    assert message.endswith("adapted minus fixed: -4.9 points (standard error 1.0).")


def test_onsets_in_single_columns_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="accous")
    model = AdaptiveClassifier().fit(np.column_stack((X, np.ones(300))), Y)
    for batch in np.random.default_rng(5).normal(size=(96, 5, 3)):
        model.adapt(np.column_stack((batch, np.full(5, 2.0))))
    onset = next(event for event in model.drift_events_ if event.kind == "new values")
    messages = [record.getMessage() for record in caplog.records if "column x3" in record.getMessage()]
    expected = (
        f"Round {onset.round}: column x3 has values that the reference does not have in 100.0 % of the recent rows."
    )
    assert messages == [expected]


def test_the_replays_of_a_backtest_leave_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="accous")
    drifting = X + np.linspace(0.0, 6.0, 300)[:, None]
    model = AdaptiveClassifier().fit(drifting, Y, order=True)
    assert model.backtest_ is not None
    assert caplog.records == []
    for batch in stream(12.0):
        model.adapt(batch)
    assert caplog.records != []


def test_nothing_is_printed_unless_logging_is_configured(library_forks: ForkServer) -> None:
    code = """
import numpy as np, accous
X = np.random.default_rng(0).normal(size=(50, 2))
model = accous.AdaptiveClassifier().fit(X, X[:, 0] > 0)
print(len(accous.Alerts("effective_rows > 1").check(model)))
"""
    run = library_forks.run(code, kind="code")
    assert (run.stdout, run.stderr) == ("1\n", "")
