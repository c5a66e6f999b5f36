"""Every reading of a model comes from one complete round, even if another thread adapts while it is computed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accous import AdaptiveClassifier

READINGS = (
    "trust_",
    "risk_",
    "risk_estimate_",
    "measured_",
    "coverage_",
    "drift_events_",
    "drift_attribution_",
    "history_in_use_",
)


class Overtaken(AdaptiveClassifier):
    """Another thread finishes its rounds right after every read of the state."""

    @property
    def state_(self) -> Any:
        attributes = vars(self)
        if "state_" not in attributes:
            raise AttributeError("state_")
        state = attributes["state_"]
        attributes["state_"] = attributes.get("next_state", state)
        return state

    @state_.setter
    def state_(self, state: Any) -> None:
        vars(self)["state_"] = state


@pytest.fixture(scope="module")
def two_rounds() -> tuple[AdaptiveClassifier, Any, Any]:
    """A model and two of its states, far apart in what they show."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=400) > 0).astype(int)
    model = Overtaken().fit(X, y, order=True)
    states = []
    for shift in (0.2, 1.5):
        for _ in range(64):
            batch = rng.normal(shift, size=(5, 3))
            model.adapt(batch)
        model.observe(batch, rng.integers(0, 2, size=5))
        states.append(model.state_)
    return model, *states


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_does_not_mix_two_rounds(two_rounds, name):
    model, before, after = two_rounds
    found = []
    for next_state in (before, after):
        vars(model).update(state_=replace(before, cache={}), next_state=replace(next_state, cache={}))
        reading = getattr(model, name)
        found.append(repr(reading() if callable(reading) else reading))
    vars(model).update(state_=replace(after, cache={}), next_state=replace(after, cache={}))
    assert found[0] == found[1]
    assert repr(getattr(model, name)) != found[0], "the two rounds are to differ"


def test_late_labels_are_compared_with_the_estimate_of_one_round(two_rounds):
    model, before, after = two_rounds
    without_labels = replace(before, cache={}, late_labels=None)
    for next_state in (without_labels, replace(after, cache={}, late_labels=None)):
        vars(model).update(state_=without_labels, next_state=next_state)
        model.observe(np.zeros((1, 3)), [0])
        vars(model).pop("next_state")
        assert model.measured_.estimated == pytest.approx(_estimate(model, without_labels))


def _estimate(model: AdaptiveClassifier, state: Any) -> float:
    vars(model).update(state_=replace(state, cache={}))
    return float(model.risk_.adapted)
