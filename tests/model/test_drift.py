"""What of the stream is kept and noticed: recent rows, coverage, changes, regimes, the history of rounds."""

import copy

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import accous
from accous import AdaptiveClassifier, NoShift, OnlineDensityRatio
from accous.diagnostics.drift import ReferenceNeighbours
from accous.model.watching import BLOCK_ROWS, MAX_BYTES, MAX_ROWS, NO_ROWS, recent_from_plain
from accous.ratio.one_step import ULSIF
from tests.classifiers import run_rounds

# --- the last rows: the right ones, whatever the batches, and never changed afterwards ----------------------


def counted(start, n_rows, n_columns=2):
    return np.arange(start, start + n_rows, dtype=np.float64)[:, None] * np.ones(n_columns)


@given(st.lists(st.integers(1, 1300), min_size=1, max_size=30))
@example([1] * 700)
def test_the_last_rows_are_kept_whatever_the_batches(sizes):
    recent, n_rows = NO_ROWS, 0
    for size in sizes:
        recent = recent.add(counted(n_rows, size))
        n_rows += size
        expected = np.arange(max(0, n_rows - MAX_ROWS), n_rows)
        np.testing.assert_array_equal(recent.last()[:, 0], expected)
        assert recent.n_closed == n_rows // BLOCK_ROWS
        assert sum(map(len, recent.blocks)) <= MAX_ROWS + BLOCK_ROWS


def test_an_older_state_and_the_callers_array_are_not_connected():
    batch = counted(0, 40)
    first = NO_ROWS.add(batch)
    second = first.add(batch)
    batch[:] = -1.0
    np.testing.assert_array_equal(first.last()[:, 0], np.arange(40))
    np.testing.assert_array_equal(second.last()[:, 0], [*range(40), *range(40)])


@pytest.mark.parametrize("n_columns", [1_000, 5_000, 1_000_000])
def test_wide_rows_take_bounded_memory(n_columns):
    recent = NO_ROWS
    for number in range(4):
        recent = recent.add(counted(number, 3, n_columns))
    assert recent.max_rows == max(1, min(MAX_ROWS, MAX_BYTES // (8 * n_columns)))
    n_bytes = sum(part.nbytes for part in (*recent.blocks, *recent.pending))
    assert n_bytes <= 1.2 * MAX_BYTES + 8 * n_columns


@pytest.mark.parametrize("n_before", [0, 1, 63, 64, 499, 700])
def test_a_saved_structure_goes_on_with_the_same_blocks(n_before):
    recent = NO_ROWS.add(counted(0, n_before)) if n_before else NO_ROWS
    restored = recent_from_plain(recent.to_plain())
    for number in range(3):
        recent, restored = (each.add(counted(n_before + 50 * number, 50)) for each in (recent, restored))
        assert recent.n_closed == restored.n_closed
        assert [block.tobytes() for block in recent.blocks] == [block.tobytes() for block in restored.blocks]
        assert recent.last().tobytes() == restored.last().tobytes()


def test_a_model_keeps_constant_columns_and_saves_its_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.normal(size=(100, 2)), np.ones(100)))
    model = AdaptiveClassifier().fit(X, X[:, 0] > 0)
    assert model.state_.recent.last() is None
    batches = [np.column_stack((rng.normal(size=(7, 2)), np.full(7, 2.0))) for _ in range(90)]
    for batch in batches:
        model.adapt(batch)
    np.testing.assert_array_equal(model.state_.recent.last(), np.concatenate(batches)[-MAX_ROWS:])
    accous.save(model, tmp_path / "model")
    loaded = accous.load(tmp_path / "model")
    assert loaded.state_.recent.last().tobytes() == model.state_.recent.last().tobytes()


def test_a_transformer_gives_the_numbers_of_a_frame():
    rng = np.random.default_rng(0)

    def frame(n_rows):
        return pd.DataFrame({"size": rng.normal(size=n_rows), "colour": rng.choice(["red", "blue"], n_rows)})

    encode = make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["size"]))
    reference, batch = frame(60), frame(5)
    pipeline = make_pipeline(encode, LogisticRegression())
    model = AdaptiveClassifier(pipeline, OnlineDensityRatio(encode)).fit(reference, np.arange(60) % 2)
    model.adapt(batch)
    np.testing.assert_allclose(model.state_.recent.last(), model.ratio_.features_.row_map.transform(batch))
    blind = AdaptiveClassifier(pipeline, NoShift()).fit(reference, np.arange(60) % 2).adapt(batch)
    assert blind.state_.recent.last() is None


# --- coverage -----------------------------------------------------------------------------------------------


def frame(seed, n_rows, constant=1.0):
    values = np.random.default_rng(seed).normal(size=(n_rows, 2))
    return pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "c": constant})


def with_constant(model):
    reference = frame(0, 500)
    return model.fit(reference, reference["a"] + np.random.default_rng(1).normal(size=500) > 0)


@pytest.mark.parametrize(
    "model",
    [
        AdaptiveClassifier(),
        AdaptiveClassifier(ratio=NoShift()),
        AdaptiveClassifier(LogisticRegression()),
        AdaptiveClassifier(ratio=OnlineDensityRatio(StandardScaler())),
    ],
    ids=str,
)
def test_a_constant_that_moves_is_seen_by_every_kind_of_classifier(model):
    run_rounds(with_constant(model), (frame(number, 5, constant=2.0) for number in range(1, 121)))
    assert [(found.column, found.share) for found in model.drift_.coverage.columns] == [("c", 1.0)]
    assert model.drift_.coverage.share_outside == 1.0
    assert model.drift_.coverage.drift_strength > 0.99
    onsets = [event for event in model.drift_.events if event.kind == "new values"]
    assert [(event.round, event.features) for event in onsets] == [(32, ("c",))]


def test_what_is_kept_of_earlier_rows_does_not_show():
    """In every round, the share is that of all recent frame, searched for at once."""
    model = with_constant(AdaptiveClassifier())
    neighbours = ReferenceNeighbours(np.asarray(frame(0, 500)))
    for number in range(1, 60):
        model.adapt(frame(number, 17) * (1.0 + number % 3))
        recent = model.state_.recent.last()
        if len(recent) >= 100:
            assert model.drift_.coverage.share_outside == neighbours.is_outside(recent).mean()
    assert len(model.state_.recent.blocks) == 8


def test_a_quiet_stream_shows_nothing():
    model = with_constant(AdaptiveClassifier())
    assert model.drift_.coverage.n_rows == 0
    assert np.isnan(model.drift_.coverage.share_outside)
    model.adapt(frame(1, 49))
    assert np.isnan(model.drift_.coverage.drift_strength)
    for number in range(2, 30):
        model.adapt(frame(number, 50))
    assert model.drift_.coverage.n_rows == 500
    assert model.drift_.coverage.share_outside < 0.15
    assert model.drift_.coverage.drift_strength < 0.15
    assert model.drift_.coverage.columns == ()
    assert [event for event in model.drift_.events if event.kind != "shift"] == []


def test_mapped_rows_have_a_share_outside_and_no_columns():
    encode = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["c"]), (StandardScaler(), ["a", "b"]))
    model = with_constant(AdaptiveClassifier(make_pipeline(encode, LogisticRegression()), OnlineDensityRatio(encode)))
    for number in range(1, 31):
        model.adapt(frame(number, 5).assign(a=9.0))
    assert model.drift_.coverage.share_outside == 1.0
    assert model.drift_.coverage.columns == ()


def test_a_loaded_model_goes_on_with_the_same_findings(tmp_path):
    model = with_constant(AdaptiveClassifier())
    for number in range(1, 25):
        model.adapt(frame(number, 7, constant=1.0 + (number > 15)))
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    for number in range(25, 60):
        assert loaded.drift_.coverage == model.drift_.coverage
        assert loaded.drift_.events == model.drift_.events
        for each in (model, loaded):
            each.adapt(frame(number, 7, constant=2.0))
    assert any(event.kind == "new values" for event in model.drift_.events)


# --- regimes ------------------------------------------------------------------------------------------------


CENTRES = np.array([[0, 0, 0, 0], [1.5, 0, 0, 0], [0, 1.5, 0, 0], [0, 0, -1.5, 0]])
ROUNDS_PER_VISIT = 96


def follow(n_visits, **settings):
    """A model after a stream that goes round four centres; the first is that of the reference."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    model = AdaptiveClassifier(**settings).fit(X, X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.2)
    for number in range(n_visits * ROUNDS_PER_VISIT):
        centre = CENTRES[number // ROUNDS_PER_VISIT % 4]
        model.adapt(0.8 * rng.normal(size=(3, 4)) + centre)
    return model


def test_each_regime_is_found_once_with_the_column_that_tells_it_apart(model):
    assert [regime.features[0] for regime in model.regimes_] == ["x0", "x1", "x2"]
    assert [regime.number for regime in model.regimes_] == [1, 2, 3]
    assert all(0.3 < regime.size < 0.9 for regime in model.regimes_)


def test_visits_are_the_rounds_in_which_a_regime_was_there(model):
    for regime, first_stretch in zip(model.regimes_, (1, 2, 3), strict=True):
        assert len(regime.visits) == 2
        for (first, last), stretch in zip(regime.visits, (first_stretch, first_stretch + 4), strict=True):
            start, end = stretch * ROUNDS_PER_VISIT, (stretch + 1) * ROUNDS_PER_VISIT
            assert start < first <= start + 48
            assert end - 16 <= last <= end + 16
    assert [regime.is_current for regime in model.regimes_] == [False, False, True]


def test_a_regime_is_in_force_only_while_the_ratio_is_its_own():
    model, rng = follow(2), np.random.default_rng(3)
    for _ in range(5):
        model.adapt(0.8 * rng.normal(size=(3, 4)) + CENTRES[1])
    assert [regime.is_current for regime in model.regimes_] == [True]
    assert model.regimes_[0].visits[-1][1] == model.n_rounds_  # also between two looks
    n_current = 0
    for _ in range(16):
        model.adapt(0.8 * rng.normal(size=(3, 4)) + CENTRES[2])
        n_current += any(regime.is_current for regime in model.regimes_)
    assert n_current <= 4  # the rounds that it takes to notice; a look takes 16


def test_a_regime_that_is_back_is_in_force_since_it_came_back(model):
    twin, rng = copy.deepcopy(model), np.random.default_rng(4)
    for _ in range(40):
        twin.adapt(0.8 * rng.normal(size=(3, 4)))
    while not twin.regimes_[0].is_current:
        twin.adapt(0.8 * rng.normal(size=(3, 4)) + CENTRES[1])
    first, last = twin.regimes_[0].visits[-1]
    assert 8 * ROUNDS_PER_VISIT + 16 < first <= last <= twin.n_rounds_


def test_events_name_the_rounds_that_the_inputs_came_back_to(model):
    shifts = [event for event in model.drift_.events if event.kind == "shift"]
    firsts = {regime.number: regime.visits[0] for regime in model.regimes_}
    seen = [event.seen for event in shifts if event.round > 4 * ROUNDS_PER_VISIT]
    assert set(firsts.values()) == set(seen) - {None}
    assert all(event.seen is None for event in shifts if event.round < 4 * ROUNDS_PER_VISIT)
    first, last = firsts[1]
    event = next(event for event in shifts if event.seen == firsts[1])
    assert event.return_in_words.endswith(f"{first} to {last}")


@pytest.fixture(scope="module")
def model():
    return follow(8)


@pytest.mark.parametrize("settings", [{"ratio": ULSIF()}, {"adaptation": "always"}], ids=["no memory", "no pool"])
def test_models_without_a_memory_and_streams_that_stand_still_have_no_regimes(settings):
    assert follow(1, **settings).regimes_ == ()
    X = np.random.default_rng(1).normal(size=(400, 3))
    still = AdaptiveClassifier().fit(X, X[:, 0] + X[:, 1] > 0)
    assert run_rounds(still, np.random.default_rng(2).normal(size=(160, 3, 3))).regimes_ == ()
