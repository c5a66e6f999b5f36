"""DANN learns, hides the batch, starts every round from the offline network, and repeats itself bit for bit."""

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from accous.streams import GaussianStream, SquareShift
from accous_bench.dann import DANN
from tests.classifiers import PROBE, drifting_batches, labelled_rows

Array = NDArray[np.float64]


def quick(**parameters: Any) -> DANN:
    return DANN(**{"n_hidden": 8, "n_fit_steps": 30} | parameters)


def bits(model: DANN) -> bytes:
    return model.predict_proba(PROBE).tobytes()


def error(model: DANN, X: Array, y: NDArray[np.int64]) -> float:
    return float(np.mean(model.predict(X) != y))


def nuisance_rows(n_rows: int, shift: float, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Two columns tell the class; the second is off by `shift`, a gauge that has moved."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n_rows)
    sign = 2.0 * y - 1.0
    X = rng.normal(size=(n_rows, 4))
    X[:, 0] += sign
    X[:, 1] += 0.8 * sign + shift
    return X, y


# --- learning -----------------------------------------------------------------------------------------------


def test_it_learns_and_stays_far_better_than_chance_on_a_drifting_stream() -> None:
    stream = GaussianStream(SquareShift(period=5), n_rounds=20, batch_size=5, n_reference=500)
    fresh = list(GaussianStream(SquareShift(period=5), n_rounds=20, batch_size=50, random_state=1))
    model = DANN().fit(*stream.reference())
    assert np.mean([error(model, rows.X, rows.y) for rows in fresh]) < 0.33
    errors = [error(model.adapt(batch.X), rows.X, rows.y) for batch, rows in zip(stream, fresh, strict=True)]
    assert np.mean(errors) < 0.36
    assert model.n_rounds_ == 20


def test_more_than_two_classes_and_their_names() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 3.0], [3.0, -2.0], [-3.0, -2.0]])
    numbers = rng.integers(3, size=300)
    X = centres[numbers] + rng.normal(size=(300, 2))
    model = DANN().fit(X, np.array(["low", "high", "mid"])[numbers]).adapt(X[:5])
    assert model.classes_.tolist() == ["high", "low", "mid"]
    assert np.mean(model.predict(X) == np.array(["low", "high", "mid"])[numbers]) > 0.9
    probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X))


def test_columns_of_any_scale_are_standardised_on_the_reference() -> None:
    X, y = labelled_rows()
    scale, offset = np.array([1e6, 1e-6, 3.0]), np.array([5e6, 0.0, -7.0])
    plain, scaled = quick().fit(X, y).adapt(PROBE), quick().fit(X * scale + offset, y).adapt(PROBE * scale + offset)
    np.testing.assert_allclose(scaled.predict_proba(PROBE * scale + offset), plain.predict_proba(PROBE), rtol=1e-6)


def test_a_weighted_row_counts_like_repeated_rows_in_every_round() -> None:
    X, y = labelled_rows()
    counts = np.arange(len(X)) % 4
    weighted = quick(max_rows_per_step=1000).fit(X, y, sample_weight=10.0 * counts).adapt(PROBE)
    repeated = quick(max_rows_per_step=1000).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).adapt(PROBE)
    np.testing.assert_allclose(weighted.predict_proba(PROBE), repeated.predict_proba(PROBE), rtol=1e-9)
    assert np.abs(weighted.predict_proba(PROBE) - quick().fit(X, y).adapt(PROBE).predict_proba(PROBE)).max() > 0.01


# --- hiding the batch ---------------------------------------------------------------------------------------


def adapted_to_moved_gauge(adversarial_weight: float) -> DANN:
    model = DANN(adversarial_weight=adversarial_weight).fit(*nuisance_rows(500, 0.0, seed=0))
    return model.adapt(nuisance_rows(200, 3.0, seed=1)[0])


@pytest.fixture(scope="module")
def with_and_without() -> tuple[DANN, DANN]:
    return adapted_to_moved_gauge(1.0), adapted_to_moved_gauge(0.0)


def features_of_both_domains(model: DANN) -> tuple[Array, Array]:
    X, _ = nuisance_rows(1000, 0.0, seed=2)
    X_moved, _ = nuisance_rows(1000, 3.0, seed=3)
    reference, batch = (model.network_.features(model.standardize_.transform(rows)) for rows in (X, X_moved))
    return reference, batch


def test_reversal_brings_the_features_of_batch_and_reference_together(with_and_without: tuple[DANN, DANN]) -> None:
    def distance(model: DANN) -> float:
        reference, batch = features_of_both_domains(model)
        return float(np.linalg.norm(reference.mean(axis=0) - batch.mean(axis=0)) / reference.std())

    reversing, plain = map(distance, with_and_without)
    assert reversing < 0.9 * plain


def test_reversal_makes_the_domains_harder_to_tell_apart(with_and_without: tuple[DANN, DANN]) -> None:
    """For a classifier fitted afterwards, which the features have not played against."""

    def domain_loss(model: DANN) -> float:
        features, is_batch = np.concatenate(features_of_both_domains(model)), np.repeat([0, 1], 1000)
        return float(log_loss(is_batch, LogisticRegression().fit(features, is_batch).predict_proba(features)))

    reversing, plain = map(domain_loss, with_and_without)
    assert reversing > 1.1 * plain


def test_it_helps_where_a_gauge_has_moved(with_and_without: tuple[DANN, DANN]) -> None:
    rows = nuisance_rows(4000, 3.0, seed=4)
    reversing, plain = (error(model, *rows) for model in with_and_without)
    assert reversing < plain - 0.02


def wide_rows(n_rows: int, n_columns: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Four classes in many columns, as embeddings have them."""
    centres = 2.4 / np.sqrt(n_columns) * np.random.default_rng(0).normal(size=(4, n_columns))
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n_rows)
    return centres[y] + rng.normal(size=(n_rows, n_columns)), y


@pytest.mark.parametrize("n_columns", [128, pytest.param(400, marks=pytest.mark.slow)])
def test_a_small_batch_of_wide_rows_is_not_thrown_across_the_classes(n_columns: int) -> None:
    model = DANN().fit(*wide_rows(800, n_columns, seed=1))
    X, y = wide_rows(200, n_columns, seed=2)
    offline = error(model, X, y)
    batches = [slice(start, start + 5) for start in range(0, 200, 5)]
    errors = [error(model.adapt(X[batch]), X[batch], y[batch]) for batch in batches]
    assert 0.05 < offline < 0.4
    assert np.mean(errors) < offline + 0.1


def test_without_weight_the_batch_has_no_say() -> None:
    model = quick(adversarial_weight=0.0).fit(*labelled_rows())
    assert bits(model.adapt(PROBE)) == bits(model.adapt(5.0 + PROBE[:3]))


# --- rounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_rows_per_step", [1000, 20])
def test_a_round_starts_from_the_offline_network(max_rows_per_step: int) -> None:
    model = quick(max_rows_per_step=max_rows_per_step).fit(*labelled_rows())
    offline, first, second = bits(model), PROBE[:5] + 2.0, PROBE[5:30]
    after_both = bits(model.adapt(first).adapt(second))
    only_second = bits(quick(max_rows_per_step=max_rows_per_step).fit(*labelled_rows()).adapt(second))
    assert after_both == only_second
    assert len({offline, after_both, bits(model.adapt(first))}) == 3
    assert model.n_rounds_ == 3


def test_fit_forgets_all_rounds() -> None:
    model = quick().fit(*labelled_rows())
    offline = bits(model)
    assert model.adapt(PROBE).n_rounds_ == 1
    assert bits(model) != offline
    assert model.fit(*labelled_rows()).n_rounds_ == 0
    assert bits(model) == offline


def test_one_row_is_a_batch() -> None:
    model = quick().fit(*labelled_rows())
    offline = bits(model)
    for n_rounds, row in enumerate(PROBE[:5], start=1):
        assert model.adapt(row[None]).n_rounds_ == n_rounds
        assert bits(model) != offline
        assert np.isfinite(model.predict_proba(PROBE)).all()


def test_no_row_is_no_round() -> None:
    model = quick().fit(*labelled_rows())
    offline = bits(model)
    assert model.adapt(PROBE[:0]).n_rounds_ == 0
    assert bits(model) == offline
    assert model.predict(PROBE[:0]).tolist() == []
    assert model.predict_proba(PROBE[:0]).shape == (0, 2)


@pytest.mark.parametrize("far", [1e3, 1e12, 1e300])
def test_far_out_rows_do_no_lasting_harm(far: float) -> None:
    model = quick().fit(*labelled_rows())
    expected = bits(quick().fit(*labelled_rows()).adapt(PROBE))
    probabilities = model.adapt(far * PROBE[:3]).predict_proba(np.concatenate((PROBE, far * PROBE)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert bits(model.adapt(PROBE)) == expected


# --- repeatability ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_rows_per_step", [1000, 20])
def test_the_same_seed_gives_the_same_bits(max_rows_per_step: int) -> None:
    def run(seed: int) -> list[bytes]:
        model = quick(random_state=seed, max_rows_per_step=max_rows_per_step).fit(*labelled_rows())
        return [bits(model), *(bits(model.adapt(batch)) for batch in drifting_batches(3))]

    assert run(0) == run(0)
    assert not set(run(0)) & set(run(1))


def test_a_random_state_is_drawn_from_in_fit_only() -> None:
    X, y = labelled_rows()
    model = quick(random_state=np.random.RandomState(3)).fit(X, y)
    assert bits(model) == bits(quick(random_state=np.random.RandomState(3)).fit(X, y))
    first = bits(model.adapt(PROBE))
    assert bits(model.adapt(PROBE)) == first
    assert bits(model.fit(X, y).adapt(PROBE)) != first


def test_rounds_in_several_threads_give_the_bits_of_one() -> None:
    batches = drifting_batches(6)
    expected = [bits(quick().fit(*labelled_rows()).adapt(batch)) for batch in batches]
    found: dict[int, bytes] = {}

    def run(number: int) -> None:
        found[number] = bits(quick().fit(*labelled_rows()).adapt(batches[number]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(len(batches))] == expected
