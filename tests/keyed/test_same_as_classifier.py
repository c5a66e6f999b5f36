"""A key is a stream of its own: it does what `AdaptiveClassifier` does with the same rounds."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.core import many_keys as rounds
from accous.keyed import KeyedAdapter
from tests.keyed.conftest import drifting, labelled


def follow(parameters: dict, n_classes: int = 2, n_rounds: int = 150, size: int = 8, shift: float = 1.2):
    """Play the same rounds with both; return the state, the model, and both probabilities of all rows."""
    reference = labelled(300, 0, n_classes)
    model, adapter = (AdaptiveClassifier(**parameters).fit(*reference) for _ in range(2))
    adapter = KeyedAdapter(adapter, round_size=size)
    state, events, theirs, ours = None, [], [], []
    for batch in drifting(n_rounds * size, 1, shift).reshape(n_rounds, size, -1):
        theirs.append(model.predict_proba(batch))
        state, predictions, found = adapter.step(state, batch)
        ours.append(predictions.probabilities)
        events += found
        model.adapt(batch)
    return adapter, state, model, np.concatenate(theirs), np.concatenate(ours), events


def theta(adapter: KeyedAdapter, state: bytes) -> np.ndarray:
    return adapter.runner.read([None], [state])[0].coef[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_single_precision_hardly_matters_if_every_round_refits(n_classes):
    parameters = {"refit": "always", "ratio": OnlineDensityRatio(memory=0)}
    adapter, state, model, theirs, ours, events = follow(parameters, n_classes, n_rounds=100)
    assert np.abs(theta(adapter, state) - model.ratio_.coef_).max() < 1e-5
    assert np.abs(ours - theirs).max() < 1e-4
    shifts = [(event.round, event.columns) for event in events if event.kind == "shift"]
    assert shifts == [(event.round, event.features) for event in model.drift_events_ if event.kind == "shift"]
    assert shifts
    assert shifts[0][1][0] == "x1"


def test_what_a_key_does_not_keep_hardly_changes_its_predictions():
    """The refit rule looks at a sample of the reference, and looks of the pool at mean thetas."""
    _, _, _, theirs, ours, _ = follow({})
    assert np.mean((ours[:, 1] > 0.5) == (theirs[:, 1] > 0.5)) > 0.97
    assert np.abs(ours - theirs).mean() < 0.02


@pytest.mark.parametrize(
    "ratio",
    [
        {"radius": 0.5},
        {"ridge": 1e-6, "radius": 0.5},
        {"min_interval": 1},
        {"start": "ensemble"},
        {"start": "zero", "memory": 0},
        {"max_reference": 100, "random_state": 0},
        {"feature_map": "identity"},
    ],
    ids=str,
)
def test_other_settings_of_the_ratio(ratio, monkeypatch):
    # A look of the classifier's pool ends early when the ratio moves; that of a key takes 16 rounds (docs/keyed.md).
    monkeypatch.setattr("accous.core.pool.LEAST_ROWS", 10**9)
    parameters = {"ratio": OnlineDensityRatio(**ratio), "refit": "always"}
    adapter, state, model, theirs, ours, _ = follow(parameters, n_rounds=40)
    # Tiny ridges make the first steps depend on the last digits of A.
    tolerance = 0.02 if "ridge" in ratio else 1e-5
    assert np.abs(theta(adapter, state) - model.ratio_.coef_).max() < tolerance
    assert np.abs(ours - theirs).max() < 10 * tolerance


def test_a_point_that_the_kernel_cannot_project_is_projected_all_the_same(adapter):
    stack, _ = adapter.runner.read([None], [None], 100)
    shared = adapter.shared
    stack.n_learners[0] = 1
    stack.coefs[0, 0] = 100.0
    rows, columns = np.tril_indices(shared.shape.n_coefs)
    stack.triangles[0, 0] = np.where(rows == columns, 10.0 ** np.minimum(2 * rows, 30), 0.0)
    shared.rounds._project(stack, 0)
    radius = shared.ratio.radius_
    assert np.linalg.norm(stack.coefs[0, 0]) == pytest.approx(radius, rel=1e-5)


def test_without_safeguards_and_with_a_refit_every_few_rounds():
    parameters = {"fallback": "none", "refit": 3, "ratio": OnlineDensityRatio(memory=0)}
    _, _, model, theirs, ours, _ = follow(parameters, n_rounds=60)
    assert np.abs(ours - theirs).max() < 1e-4
    assert model.n_rounds_ == 60


def test_one_call_of_the_kernel_plays_a_round_of_many_keys(adapter, monkeypatch):
    played = []
    kernel = rounds.play_learners_of_keys

    def counting(active, *arguments):
        played.append(len(active))
        kernel(active, *arguments)

    monkeypatch.setattr(rounds, "play_learners_of_keys", counting)
    keys = np.repeat(np.arange(128), 10)
    adapter.step_many({}, keys, None, drifting(len(keys), 2))
    assert played == [64, 64, 64, 64]


@pytest.mark.parametrize("make_frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_the_columns_of_a_frame_are_found_by_name(make_frame):
    names = ["a", "b", "c", "d"]
    X, y = labelled(300, 0)
    adapter = KeyedAdapter(AdaptiveClassifier().fit(make_frame(dict(zip(names, X.T, strict=True))), y), round_size=5)
    columns = dict(zip(names, drifting(40, 0).T, strict=True))
    straight = make_frame(columns)
    for order in (["d", "b", "a", "c"], ["d", "other", "b", "a", "c"]):
        crooked = make_frame({name: columns.get(name, columns["a"]) for name in order})
        assert adapter.step(None, crooked)[0] == adapter.step(None, straight)[0]
        keys = ["k", "l"] * 20
        assert adapter.step_many({}, keys, None, crooked)[0] == adapter.step_many({}, keys, None, straight)[0]
