"""What Prometheus reads: the state, the metric by its basis, and nothing that is not known."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("prometheus_client", reason="needs prometheus_client: pip install 'accous[serve]'")

from prometheus_client.parser import text_string_to_metric_families

from accous.service.live import Metrics
from tests.service.servers import STATE


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (one.name, *(one.labels[name] for name in sorted(one.labels, reverse=True))): one.value
        for family in families
        for one in family.samples
    }


def test_state_alarm_and_metric_are_there_by_their_names():
    metrics = Metrics()
    metrics.take_state(STATE)
    found = samples(metrics)
    values = {"value": 0.3, "low": 0.2, "high": 0.4, "at_fit": 0.1}
    assert {name: found[f"accous_metric_{name}", "error", "labels"] for name in values} == values
    states = {state: found["accous_state", state] for state in ("healthy", "degraded", "uncertain")}
    assert states == {"healthy": 0.0, "degraded": 1.0, "uncertain": 0.0}
    numbers = ("accous_alarm", "accous_outside_share")
    assert [found[name,] for name in numbers] == [1.0, 0.25]
    assert not any(name.endswith("_created") for name, *_ in found)


def test_what_is_not_known_is_not_exported_and_a_basis_does_not_outlive_its_reading():
    metrics = Metrics()
    metrics.take_state(STATE)
    metrics.take_state(STATE | {"basis": "expected", "low": None, "high": None, "last_drift_round": None})
    found = samples(metrics)
    of_metric = {name for name in found if name[0].startswith("accous_metric_")}
    assert of_metric == {(f"accous_metric_{name}", "error", "expected") for name in ("value", "at_fit")}
    assert math.isnan(found["accous_last_drift_round",])
    metrics.take_state(STATE | {"state": None})
    assert not any(name[0] == "accous_state" for name in samples(metrics))
