"""What a model says where there is little to say: the wrong method, no batch yet, a constant target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from accous import AdaptiveClassifier, AdaptiveRegressor
from accous.diagnostics.losses import scale_of_numbers
from accous.diagnostics.risk import NO_EVIDENCE, widen
from accous.exceptions import TrapWarning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))


@pytest.mark.parametrize(
    ("model", "wrong", "right"),
    [
        (AdaptiveClassifier(), "predict_interval", "predict_set"),
        (AdaptiveRegressor(), "predict_set", "predict_interval"),
    ],
)
@pytest.mark.parametrize("is_fitted", [False, True], ids=["new", "fitted"])
def test_the_method_of_the_other_class_names_that_of_this_one(
    model: Any, wrong: str, right: str, is_fitted: bool
) -> None:
    model = model.fit(X, X[:, 0] + RNG.normal(size=300) > 0.0) if is_fitted else model
    with pytest.raises(AttributeError, match=rf"has no attribute '{wrong}': use {right}, because"):
        getattr(model, wrong)
    assert not hasattr(model, wrong)
    assert hasattr(model, right)
    with pytest.raises(AttributeError, match=r"has no attribute 'predicted'$"):
        _ = model.predicted


def test_the_error_of_a_tiny_reference_is_not_known_before_a_batch_because_none_has_come() -> None:
    model = AdaptiveClassifier().fit(X[:6], [0, 1, 0, 1, 0, 1])
    assert not model.risk_.is_known
    assert str(model.risk_).startswith(
        "The error of the predictor in use is not known: no batch has come yet, and the ref"
    )
    assert "no batch has come yet" in model._repr_html_()
    model.adapt(X[:10])
    assert str(model.risk_).endswith("is not known: the reference does not cover the inputs.")


@pytest.mark.parametrize("order", [None, True], ids=["no order", "order"])
def test_the_estimated_error_of_a_constant_target_is_zero(order: Any) -> None:
    with pytest.warns(TrapWarning, match="there is nothing to learn"):
        model = AdaptiveRegressor().fit(X, np.full(300, 3.0), order=order)
    for _ in range(2):
        risk = model.risk_
        assert (risk.adapted, risk.adapted_low, risk.adapted_high, risk.is_known) == (0.0, 0.0, 0.0, True)
        assert "predictor in use is 0 (between 0 and 0)" in str(risk)
        assert "e-30" not in f"{risk} {model.trust_}"
        model.adapt(X[:60] + 0.5)


def test_only_a_constant_target_leaves_an_interval_as_it_is() -> None:
    drift = {"drift": 0.5, "seen_drift": 0.0, "disagreement": 0.0}
    constant = scale_of_numbers("absolute", 0.0, 0.0)
    assert widen((0.0, 0.0, 0.0), NO_EVIDENCE.fixed, **drift, scale=constant) == (0.0, 0.0, 0.0)
    perfect = scale_of_numbers("absolute", 0.0, 1e-12)
    assert widen((0.0, 0.0, 0.0), NO_EVIDENCE.fixed, **drift, scale=perfect)[2] > 0.0
