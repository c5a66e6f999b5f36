"""``coverage_`` of a model: what it needs, when it is computed, and that it survives a save."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.diagnostics.drift import ReferenceNeighbours

SAVED = Path(__file__).parent.parent / "checkpoint" / "saved_by_0_1"


def rows(seed: int, n_rows: int, constant: float = 1.0) -> pd.DataFrame:
    values = np.random.default_rng(seed).normal(size=(n_rows, 2))
    return pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "c": constant})


def fitted(model: AdaptiveClassifier) -> AdaptiveClassifier:
    reference = rows(0, 500)
    noise = np.random.default_rng(1).normal(size=500)
    return model.fit(reference, reference["a"] + noise > 0)


def test_a_constant_that_moves_is_seen_by_every_kind_of_classifier() -> None:
    for model in (
        AdaptiveClassifier(),
        AdaptiveClassifier(ratio=NoShift()),
        AdaptiveClassifier(LogisticRegression()),
        AdaptiveClassifier(ratio=OnlineDensityRatio(StandardScaler())),
    ):
        fitted(model)
        for number in range(1, 121):
            model.adapt(rows(number, 5, constant=2.0))
        assert model.coverage_.sentences == ["Column 'c' was always 1 in the reference and is 2 in all recent rows."]
        assert model.coverage_.share_outside == 1.0
        assert model.coverage_.drift_strength > 0.99
        onsets = [event for event in model.drift_events_ if event.kind == "new values"]
        assert [(event.round, event.features) for event in onsets] == [(32, ("c",))]


def test_what_is_kept_of_earlier_rows_does_not_show() -> None:
    """In every round, the share is that of all recent rows, searched for at once."""
    model = fitted(AdaptiveClassifier())
    neighbours = ReferenceNeighbours(np.asarray(rows(0, 500)))
    for number in range(1, 60):
        model.adapt(rows(number, 17) * (1.0 + number % 3))
        recent = model.state_.recent.last()
        if len(recent) >= 100:
            assert model.coverage_.share_outside == neighbours.is_outside(recent).mean()
    assert len(model.state_.recent.blocks) == 8


def test_a_quiet_stream_shows_nothing() -> None:
    model = fitted(AdaptiveClassifier())
    assert model.coverage_.n_rows == 0
    assert np.isnan(model.coverage_.share_outside)
    model.adapt(rows(1, 49))
    assert np.isnan(model.coverage_.drift_strength)
    for number in range(2, 30):
        model.adapt(rows(number, 50))
    assert model.coverage_.n_rows == 500
    assert model.coverage_.share_outside < 0.15
    assert model.coverage_.drift_strength < 0.15
    assert model.coverage_.columns == ()
    assert [event for event in model.drift_events_ if event.kind != "shift"] == []


def test_mapped_rows_have_a_share_outside_and_no_columns() -> None:
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["c"]), (StandardScaler(), ["a", "b"]))
    model = fitted(AdaptiveClassifier(make_pipeline(encode, LogisticRegression()), OnlineDensityRatio(encode)))
    for number in range(1, 31):
        model.adapt(rows(number, 5).assign(a=9.0))
    assert model.coverage_.share_outside == 1.0
    assert model.coverage_.columns == ()


def test_a_loaded_model_goes_on_with_the_same_findings(tmp_path: Path) -> None:
    model = fitted(AdaptiveClassifier())
    for number in range(1, 25):
        model.adapt(rows(number, 7, constant=1.0 + (number > 15)))
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    for number in range(25, 60):
        assert loaded.coverage_ == model.coverage_
        assert loaded.drift_events_ == model.drift_events_
        for each in (model, loaded):
            each.adapt(rows(number, 7, constant=2.0))
    assert any(event.kind == "new values" for event in model.drift_events_)


def test_a_folder_saved_before_has_no_coverage_yet() -> None:
    model = accous.load(SAVED / "classifier")
    assert model.coverage_.n_rows == 0
    for batch in np.load(SAVED / "expected.npz")["batches"]:
        model.adapt(batch)
    assert model.coverage_.n_rows > 0
