"""All keys at a glance: what is said of each, and the page about all."""

import json
import re

import numpy as np
import pytest

from accous.keyed import arrow as fleet
from accous.report.page import render_fleet
from tests.keyed.conftest import drifting

SHIFT = np.array([0.0, 2.0, 0.0, 0.0])


@pytest.fixture(scope="module")
def readings(adapter):
    """Two keys that stand still, one that has moved for long, and one that came back."""
    rows = {
        "still": drifting(200, 0, 0.0),
        "moved": drifting(200, 1, 0.0) + SHIFT,
        "back <b>": np.concatenate((drifting(200, 2, 0.0) + SHIFT, drifting(600, 3, 0.0))),
        "young": drifting(3, 4),
    }
    states = {name: adapter.step(None, X, np.arange(len(X)) * 60.0)[0] for name, X in rows.items()}
    return fleet(states, adapter)


def test_worst_first_with_columns_and_times(readings):
    found = {reading.key: reading for reading in readings}
    assert readings[0].key == "moved"
    moved = found["moved"]
    assert moved.columns[0] == "x1"
    assert moved.drift > 0.3
    assert 0 < moved.since_round <= 40
    assert moved.since_time == (5 * moved.since_round - 1) * 60.0
    assert moved.effective_rows < 200
    assert found["still"].drift < 0.2
    assert found["still"].changes == 0
    assert found["still"].estimated_error == pytest.approx(found["still"].fixed_error)
    assert found["back <b>"].changes >= 1
    assert found["back <b>"].drift < 0.3
    assert (found["young"].rounds, found["young"].rows) == (0, 0)


def test_the_reason_is_that_a_key_keeps_no_rows_and_not_that_it_had_few(adapter):
    state, _, _ = adapter.step(None, drifting(750, 5, 0.0))
    (reading,) = fleet({"k": state}, adapter)
    assert (reading.rows, reading.verdict) == (750, "not verified")
    assert reading.reason == "A key keeps no recent rows, so it is not known whether the reference covers them."


def test_a_key_is_judged_as_the_classifier_would_be(adapter, model, readings):
    """The estimate is that of `AdaptiveClassifier`, from the same weights."""
    from accous import AdaptiveClassifier
    from tests.keyed.conftest import labelled

    single = AdaptiveClassifier().fit(*labelled(300, 0))
    for batch in (drifting(200, 1, 0.0) + SHIFT).reshape(40, 5, 4):
        single.adapt(batch)
    moved = next(reading for reading in readings if reading.key == "moved")
    assert moved.estimated_error == pytest.approx(single.risk_.adapted, abs=0.02)
    assert moved.fixed_error == pytest.approx(single.risk_.fixed, abs=0.01)
    assert moved.effective_rows == pytest.approx(single.effective_sample_size_, rel=0.05)


def test_readings_change_no_state(adapter):
    state, _, _ = adapter.step(None, drifting(333, 5))
    before = bytes(state)
    adapter.readings({"k": state})
    assert state == before
    assert adapter.step(state, drifting(20, 6))[0] == adapter.step(before, drifting(20, 6))[0]


def test_the_page_holds_ten_thousand_keys_and_escapes_names(readings):
    many = [readings[number % 4]._replace(key=f"key {number} </script>")._asdict() for number in range(10_000)]
    page = render_fleet(many, "10,000 <keys>")
    assert "10,000 &lt;keys&gt;" in page
    assert page.count("</script>") == 2
    rows = json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])
    assert len(rows) == 10_000
    assert rows[7][0] == "key 7 </script>"
    assert len(page) < 3_000_000
    assert "x1" in page


def test_the_page_does_not_deny_a_drift_whose_columns_are_not_known_yet(readings):
    moved, still = ({**reading._asdict(), "columns": ()} for reading in readings if reading.key in ("moved", "still"))
    assert "No key has drifted" in render_fleet([still], "keys")
    page = render_fleet([moved, still], "keys")
    assert "No key has drifted" not in page
    assert "Not known yet: a key names its columns at the next look" in page


def test_the_page_says_since_when(readings):
    def shown(readings):
        page = render_fleet([reading._asdict() for reading in readings], "keys")
        return {row[0]: row[-1] for row in json.loads(re.search(r'id="figures">(.*?)</script>', page, re.DOTALL)[1])}

    moved = readings[0]
    assert shown(readings)["moved"] == f"{moved.since_time:.10g}", "numbers that are no dates stay numbers"
    assert shown(readings)["still"] == ""
    begin = 1_767_225_600.0  # 2026-01-01
    dated = [each._replace(time=each.time + begin, since_time=each.since_time + begin) for each in readings]
    minute = int(moved.since_time // 60)
    assert shown(dated)["moved"] == f"2026-01-01 {minute // 60:02d}:{minute % 60:02d}"
