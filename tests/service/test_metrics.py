"""What Prometheus reads: no estimate is shown where the reference does not cover the inputs."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="needs prometheus_client: pip install 'accous[serve]'")

from accous.service.live import Metrics

_STATE: dict[str, Any] = {
    "rounds": 3,
    "effective_sample_size": 10.0,
    "labels_outdated": None,
    "trust": "good",
    "last_drift_round": 0,
    **{f"trust_{name}": "yes" for name in ("inputs", "adaptation", "predictions")},
    "estimated_error": 0.07,
    "estimated_error_low": 0.0,
    "estimated_error_high": 0.38,
}


@pytest.mark.parametrize(
    ("is_covered", "expected"),
    [(True, [0.07, 0.0, 0.38]), (False, [math.nan, math.nan, math.nan])],
)
def test_an_estimate_of_inputs_that_are_not_covered_is_nan(is_covered: bool, expected: list[float]) -> None:
    metrics = Metrics()
    metrics.take_state(_STATE | {"estimated_error_covered": is_covered}, n_rows=15)
    text = metrics.exposition().decode()
    found = dict(re.findall(r'^accous_estimated_error\{bound="(\w+)"\} (\S+)$', text, flags=re.MULTILINE))
    assert [float(found[name]) for name in ("value", "low", "high")] == pytest.approx(expected, nan_ok=True)
