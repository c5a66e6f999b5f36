"""Frames are read by the names of their columns; where scikit-learn's rule about their order is stricter, it holds."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import DataError
from tests.classifiers import (
    PROBE,
    Array,
    customer_encoder,
    customers,
    drifting_batches,
    labelled_rows,
    shown_state,
)

NAMES = ["age", "height", "weight"]
MODELS = {"own": AdaptiveClassifier, "pipeline": lambda: AdaptiveClassifier(make_pipeline(LogisticRegression()))}
each_frame = pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
each_model = pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
MakeFrame = Callable[[dict[str, Any]], Any]


def straight(make_frame: MakeFrame, X: Array) -> Any:
    return make_frame(dict(zip(NAMES, X.T, strict=True)))


def crooked(make_frame: MakeFrame, X: Array) -> Any:
    """The same rows with other columns between them, in another order."""
    columns = dict(zip(NAMES, X.T, strict=True))
    text = ["Ada"] * len(X)
    return make_frame(
        {"name": text, "weight": columns["weight"], "age": columns["age"], "^a.*$": text}
        | {"height": columns["height"]}
    )


def reversed_columns(make_frame: MakeFrame, X: Array) -> Any:
    return make_frame(dict(zip(NAMES[::-1], X.T[::-1], strict=True)))


@each_model
@each_frame
def test_other_columns_and_another_order_change_nothing(make_model: Any, make_frame: MakeFrame) -> None:
    X, y = labelled_rows()
    batches = drifting_batches(12)
    expected = make_model().fit(straight(make_frame, X), y)
    found = make_model().fit(straight(make_frame, X), y)
    for batch in batches:
        expected.adapt(straight(make_frame, batch))
        found.adapt(crooked(make_frame, batch))
    probe, odd = straight(make_frame, PROBE), crooked(make_frame, PROBE)
    assert shown_state(found, odd) == shown_state(expected, probe)
    np.testing.assert_array_equal(found.step(odd), expected.step(probe))
    np.testing.assert_array_equal(found.predict_set(odd), expected.predict_set(probe))
    np.testing.assert_array_equal(found.predict_fixed(odd), expected.predict_fixed(probe))
    labels = np.arange(len(PROBE)) % 2
    assert found.audit(odd, labels) == expected.audit(probe, labels)
    found.observe(odd, labels)
    expected.observe(probe, labels)
    assert found.measured_ == expected.measured_
    found.extend(odd, labels)
    expected.extend(probe, labels)
    assert shown_state(found, odd) == shown_state(expected, probe)


def test_a_transformer_gets_the_columns_of_the_reference() -> None:
    frame = customers(150, 0)
    y = frame["income"].to_numpy() > 1.0
    encoder = customer_encoder()
    model = AdaptiveClassifier(make_pipeline(encoder, LogisticRegression()), OnlineDensityRatio(feature_map=encoder))
    model.fit(frame, y)
    batch = customers(20, 1)
    odd = batch.assign(shoe=42)[["shoe", "city", "income", "age"]]
    np.testing.assert_array_equal(model.predict_proba(odd), model.predict_proba(batch))
    np.testing.assert_array_equal(model.step(odd), model.predict(batch))
    assert model.n_rounds_ == 1


@each_model
@each_frame
def test_only_our_own_methods_put_a_mere_reordering_right(make_model: Any, make_frame: MakeFrame) -> None:
    """scikit-learn's check_dataframe_column_names_consistency asks `predict` and its kin to refuse it."""
    X, y = labelled_rows()
    model, twin = (make_model().fit(straight(make_frame, X), y) for _ in range(2))
    turned, probe = reversed_columns(make_frame, PROBE), straight(make_frame, PROBE)
    for method in ("predict", "predict_proba", "decision_function"):
        with pytest.raises(ValueError, match=r"must be in the same order(.|\n)*X\[list\(model.feature_names_in_\)\]"):
            getattr(model, method)(turned)
    np.testing.assert_array_equal(model.step(turned), twin.step(probe))
    model.adapt(turned).observe(turned, y[: len(PROBE)])
    twin.adapt(probe).observe(probe, y[: len(PROBE)])
    assert shown_state(model, probe) == shown_state(twin, probe)
    assert model.measured_ == twin.measured_


def test_a_name_that_occurs_twice_is_an_error() -> None:
    X, y = labelled_rows()
    model = AdaptiveClassifier().fit(straight(pd.DataFrame, X), y)
    twice = pd.concat([straight(pd.DataFrame, PROBE), pd.Series(1.0, index=range(len(PROBE)), name="age")], axis=1)
    with pytest.raises(DataError, match="several columns called 'age'"):
        model.adapt(twice)
