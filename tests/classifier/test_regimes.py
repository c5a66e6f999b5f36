"""Regimes: what the stream settled in is remembered, named, recognised, shown and saved."""

import copy

import numpy as np
import pytest

import accous
from accous import AdaptiveClassifier
from accous.diagnostics.drift import Regime, rounds_in_words
from accous.ratio.one_step import ULSIF

CENTRES = np.array([[0, 0, 0, 0], [1.5, 0, 0, 0], [0, 1.5, 0, 0], [0, 0, -1.5, 0]])
ROUNDS_PER_VISIT = 96


def follow(n_visits: int, **settings) -> AdaptiveClassifier:
    """A model after a stream that goes round four centres; the first is that of the reference."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    model = AdaptiveClassifier(**settings).fit(X, X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.2)
    for number in range(n_visits * ROUNDS_PER_VISIT):
        centre = CENTRES[number // ROUNDS_PER_VISIT % 4]
        model.adapt(0.8 * rng.normal(size=(3, 4)) + centre)
    return model


@pytest.fixture(scope="module")
def model():
    return follow(8)


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
    shifts = [event for event in model.drift_events_ if event.kind == "shift"]
    firsts = {regime.number: regime.visits[0] for regime in model.regimes_}
    seen = [event.seen for event in shifts if event.round > 4 * ROUNDS_PER_VISIT]
    assert set(firsts.values()) == set(seen) - {None}
    assert all(event.seen is None for event in shifts if event.round < 4 * ROUNDS_PER_VISIT)
    first, last = firsts[1]
    event = next(event for event in shifts if event.seen == firsts[1])
    assert event.return_in_words == f"back to what was seen in rounds {first} to {last}"


def test_a_saved_model_remembers_the_same(model, tmp_path):
    accous.save(model, tmp_path / "model")
    assert accous.load(tmp_path / "model").regimes_ == model.regimes_
    assert accous.load(tmp_path / "model").drift_events_ == model.drift_events_


def test_a_stream_that_stands_still_has_no_regimes():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    model = AdaptiveClassifier().fit(X, X[:, 0] + X[:, 1] > 0)
    for _ in range(160):
        model.adapt(rng.normal(size=(3, 3)))
    assert model.regimes_ == ()


@pytest.mark.parametrize("settings", [{"ratio": ULSIF()}, {"fallback": "none"}], ids=["no memory", "no pool"])
def test_models_without_a_memory_have_no_regimes(settings):
    assert follow(1, **settings).regimes_ == ()


def test_an_unfitted_model_says_so():
    with pytest.raises(AttributeError):
        AdaptiveClassifier().regimes_  # noqa: B018


def test_a_regime_in_words():
    regime = Regime(number=2, visits=((17, 64), (129, 1200)), size=0.5, features=("age", "income"), is_current=True)
    assert str(regime) == "Regime 2: rounds 17 to 64 and 129 to 1,200, now in force; differs in age, income."
    many = tuple((16 * k + 1, 16 * k + 16) for k in range(5))
    assert rounds_in_words(many) == "5 visits, the last in rounds 33 to 48, 49 to 64 and 65 to 80"
