"""With remembered regimes, or while held back, a model that was saved goes on with the same bits."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import accous
from accous import AdaptiveClassifier, OnlineDensityRatio
from accous.exceptions import CheckpointError
from tests.checkpoint.cases import assert_same_bits

N_AFTER = 37  # at least two looks of the pool
# After 16 n rounds the pool has just looked back at the last 16.
each_n_rounds = pytest.mark.parametrize("n_rounds", [95, 96, 97, 103], ids=lambda n: f"{n} rounds")

each_loss = pytest.mark.parametrize("loss", ["logistic", "least_squares", "kl"])


def batches(n_rounds: int, *, is_away: bool = False, seed: int = 1) -> Any:
    """Two regimes of 40 rounds each, or a stream that leaves the reference after 40 rounds."""
    rng = np.random.default_rng(seed)
    for number in range(n_rounds):
        place = (5.0 if number >= 40 else 0.5) if is_away else (1.5, -1.5)[number // 40 % 2]
        yield rng.normal((place, 0.0, 0.0), size=(3, 3))


def reference() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)) * [1.8, 1.0, 1.0]
    return X, (X[:, 1] + X[:, 0] * X[:, 2] + rng.normal(size=200) > 0.0).astype(int)


def pool_numbers(ratio: OnlineDensityRatio) -> dict[str, Any]:
    """Everything the pool has learned, and what it says."""
    pool = ratio.pool_
    numbers = {
        "proportions": pool.proportions,
        "counts": pool.filters.counts,
        "cautious": pool.cautious.posteriors,
        "hold": pool.hold,
        "excess": pool.excess,
        "coefs": pool.slots.coefs,
        "factors": pool.slots.factors,
        "n_merged": pool.slots.n_merged,
        "use": pool.slots.use,
        "visits": pool.slots.visits,
        "look": pool.look.ratios,
        "before": pool.look.before,
        "reference": ratio.reference_ratio_,
        "answers": ratio.predict_ratio(reference()[0][:20] * 1.5),
    }
    return {name: np.asarray(value) for name, value in numbers.items()}


def model_numbers(model: AdaptiveClassifier) -> dict[str, Any]:
    check = model.state_.fallback.check
    numbers = {
        "weights": model.reference_weight_,
        "fitted": model.state_.fitted_weights,
        "coef": model.estimator_.coef_,
        "share": model.trust_.exponent,
        "strength": check.strength,
        "checked": check.veto.n_rounds,
        "excess error": check.veto.excess,
        "risk": model.risk_estimate_,
    }
    return pool_numbers(model.ratio_) | {name: np.asarray(value) for name, value in numbers.items()}


def assert_goes_on(model: Any, folder: Path, *, is_away: bool = False) -> None:
    """A copy from a file has the same numbers after loading and after every later round."""
    accous.save(model, folder)
    loaded = accous.load(folder)
    numbers_of = model_numbers if isinstance(model, AdaptiveClassifier) else pool_numbers
    assert_same_bits(numbers_of(loaded), numbers_of(model))
    for number, batch in enumerate(batches(40 + N_AFTER, is_away=is_away, seed=2)):
        if is_away and number < 40:
            continue
        for each in (model, loaded):
            (each.adapt if isinstance(each, AdaptiveClassifier) else each.partial_fit)(batch)
        if number % 16 == 0:
            assert_same_bits(numbers_of(loaded), numbers_of(model))
    assert_same_bits(numbers_of(loaded), numbers_of(model))


def played_ratio(n_rounds: int, *, is_away: bool = False, **parameters: Any) -> OnlineDensityRatio:
    ratio = OnlineDensityRatio(**parameters).fit(reference()[0])
    for batch in batches(n_rounds, is_away=is_away):
        ratio.partial_fit(batch)
    return ratio


def played_model(n_rounds: int, *, is_away: bool = False, **parameters: Any) -> AdaptiveClassifier:
    model = AdaptiveClassifier(**parameters).fit(*reference())
    for batch in batches(n_rounds, is_away=is_away):
        model.adapt(batch)
    return model


@each_n_rounds
def test_a_ratio_with_memory(n_rounds: int, tmp_path: Path) -> None:
    ratio = played_ratio(n_rounds)
    assert ratio.pool_.slots.is_used.sum() == 2
    assert_goes_on(ratio, tmp_path)


@each_loss
def test_a_ratio_of_any_loss(loss: str, tmp_path: Path) -> None:
    ratio = played_ratio(100, loss=loss)
    assert ratio.pool_.slots.is_used.any()
    assert_goes_on(ratio, tmp_path)


@pytest.mark.parametrize("memory", [0, 1])
def test_a_ratio_with_little_memory(memory: int, tmp_path: Path) -> None:
    ratio = played_ratio(100, memory=memory)
    assert ratio.pool_.slots.is_used.sum() == memory
    assert_goes_on(ratio, tmp_path)


def test_a_ratio_whose_gradients_use_a_sample_of_the_reference(tmp_path: Path) -> None:
    assert_goes_on(played_ratio(100, max_reference=80, random_state=0), tmp_path)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_ratio_of_many_columns(dtype: str, tmp_path: Path) -> None:
    """More than 95 columns: products over the reference by BLAS."""
    rng = np.random.default_rng(0)
    towards = np.ones(120) / np.sqrt(120.0)
    ratio = OnlineDensityRatio(dtype=dtype).fit(rng.normal(size=(150, 120)))
    stream = [rng.normal(size=(3, 120)) + (2.5, -2.5)[number // 40 % 2] * towards for number in range(120)]
    for batch in stream[:87]:
        ratio.partial_fit(batch)
    assert ratio.pool_.slots.is_used.any()
    accous.save(ratio, tmp_path)
    loaded = accous.load(tmp_path)
    for batch in stream[87:]:
        for name in ("reference_ratios", "proportions", "excess", "means"):
            np.testing.assert_array_equal(getattr(loaded.pool_, name), getattr(ratio.pool_, name))
        for each in (ratio, loaded):
            each.partial_fit(batch)


@each_n_rounds
def test_a_ratio_that_is_held_back(n_rounds: int, tmp_path: Path) -> None:
    ratio = played_ratio(n_rounds, is_away=True)
    assert ratio.pool_.hold > 0.0
    assert_goes_on(ratio, tmp_path, is_away=True)


@pytest.mark.parametrize("n_rounds", [pytest.param(95, marks=pytest.mark.slow), 96, 103])
def test_a_classifier_with_memory(n_rounds: int, tmp_path: Path) -> None:
    model = played_model(n_rounds)
    assert model.ratio_.pool_.slots.is_used.sum() == 2
    assert model.n_refits_ > 5
    assert_goes_on(model, tmp_path)


def test_a_classifier_that_is_held_back(tmp_path: Path) -> None:
    model = played_model(100, is_away=True)
    assert model.ratio_.pool_.hold > 0.0
    assert_goes_on(model, tmp_path, is_away=True)


def test_a_classifier_whose_ratio_has_no_pool(tmp_path: Path) -> None:
    model = played_model(60, ratio=OnlineDensityRatio(pool="none"))
    assert model.ratio_.pool_ is None
    assert model.trust_.exponent > 0.0
    accous.save(model, tmp_path)
    loaded = accous.load(tmp_path)
    for batch in batches(N_AFTER, seed=2):
        for each in (model, loaded):
            each.adapt(batch)
        assert loaded.reference_weight_.tobytes() == model.reference_weight_.tobytes()
        assert loaded.trust_.exponent == model.trust_.exponent
        assert loaded.estimator_.coef_.tobytes() == model.estimator_.coef_.tobytes()


@pytest.mark.parametrize("n_rounds", [pytest.param(96, marks=pytest.mark.slow), 103])
@pytest.mark.parametrize("max_reference", [None, 200], ids=["longer", "same length"])
@pytest.mark.parametrize("is_away", [False, True], ids=["memory", "held back"])
def test_a_classifier_with_an_extended_reference(
    n_rounds: int, max_reference: int | None, is_away: bool, tmp_path: Path
) -> None:
    model = played_model(n_rounds, is_away=is_away)
    proportions, visits = model.ratio_.pool_.proportions, model.ratio_.pool_.slots.visits
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 3))
    model.extend(X, (X[:, 1] + X[:, 0] * X[:, 2] > 0.0).astype(int), max_reference=max_reference)
    pool = model.ratio_.pool_
    assert len(model.reference_weight_) == (250 if max_reference is None else 200)
    np.testing.assert_array_equal(pool.proportions, proportions)
    np.testing.assert_array_equal(pool.slots.visits, visits)
    assert pool.reference_ratios.mean() == pytest.approx(1.0, abs=1e-9)
    for slot in np.flatnonzero(pool.slots.is_used):
        assert pool.slot_ratios[slot].mean() == pytest.approx(1.0, abs=1e-9)
    assert_goes_on(model, tmp_path, is_away=is_away)


@pytest.mark.parametrize("parameters", [{"memory": 0}, {"memory": 9}, {"pool": "none"}], ids=str)
def test_parameters_set_after_fit_change_nothing_that_was_learned(parameters, tmp_path):
    rng = np.random.default_rng(0)
    ratio = OnlineDensityRatio().fit(rng.normal(size=(80, 3)))
    for _ in range(40):
        ratio.partial_fit(rng.normal([1.5, 0.0, 0.0], size=(2, 3)))
    ratio.set_params(**parameters)
    accous.save(ratio, tmp_path / "ratio")
    loaded = accous.load(tmp_path / "ratio")
    for batch in rng.normal(size=(20, 2, 3)):
        ratio.partial_fit(batch)
        loaded.partial_fit(batch)
    assert loaded.reference_ratio_.tobytes() == ratio.reference_ratio_.tobytes()


def test_a_stored_pool_of_other_shapes_is_refused():
    X = np.random.default_rng(0).normal(size=(40, 3))
    ratio = OnlineDensityRatio().fit(X).partial_fit(X[:2])
    plain = ratio.state_to_plain()
    plain["pool"]["filters"]["proportions"] = np.ones(3) / 3
    with pytest.raises(CheckpointError, match="does not fit its reference"):
        OnlineDensityRatio().fit(X).state_from_plain(plain, X)


def test_a_pool_that_was_saved_without_the_length_of_its_look_goes_on() -> None:
    ratio = OnlineDensityRatio().fit(reference()[0])
    for batch in batches(23):
        ratio.partial_fit(batch)
    plain = ratio.state_to_plain()
    for name in ("n_rounds", "n_rows"):
        del plain["pool"]["look"][name]
    other = clone(ratio).fit(reference()[0])
    other.state_from_plain(plain, other.reference_)
    # Looks took 16 rounds then.
    assert (other.pool_.look.n_rounds, other.pool_.look.n_rows) == (7, 7)
    assert other.partial_fit(np.zeros((2, 3))).n_rounds_ == 24
