"""DANN follows the formulas, learns, and hides the batch."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from accous.exceptions import ParameterError
from accous.streams import GaussianStream, SquareShift
from accous_bench import dann
from accous_bench.dann import DANN, Descent, Network, adapt_network
from tests.classifiers import PROBE, Array, drifting_batches, labelled_rows


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


def test_it_learns_and_stays_far_better_than_chance_on_a_drifting_stream() -> None:
    stream = GaussianStream(SquareShift(period=5), n_rounds=20, batch_size=5, n_reference=500)
    fresh = list(GaussianStream(SquareShift(period=5), n_rounds=20, batch_size=50, random_state=1))
    model = DANN().fit(*stream.reference())
    assert np.mean([error(model, rows.X, rows.y) for rows in fresh]) < 0.33
    errors = [error(model.adapt(batch.X), rows.X, rows.y) for batch, rows in zip(stream, fresh, strict=True)]
    assert np.mean(errors) < 0.36


def adapted_to_moved_gauge(adversarial_weight: float) -> DANN:
    model = DANN(adversarial_weight=adversarial_weight).fit(*nuisance_rows(500, 0.0, seed=0))
    return model.adapt(nuisance_rows(200, 3.0, seed=1)[0])


@pytest.fixture(scope="module")
def with_and_without() -> tuple[DANN, DANN]:
    return adapted_to_moved_gauge(1.0), adapted_to_moved_gauge(0.0)


def features_of_both_domains(model: DANN) -> tuple[Array, Array]:
    X, _ = nuisance_rows(1000, 0.0, seed=2)
    X_moved, _ = nuisance_rows(1000, 3.0, seed=3)
    reference, batch = (model.network_.features(model.scaler_.transform(rows)) for rows in (X, X_moved))
    return reference, batch


def test_reversal_brings_the_features_of_batch_and_reference_together(with_and_without: tuple[DANN, DANN]) -> None:
    def distance(model: DANN) -> float:
        reference, batch = features_of_both_domains(model)
        return float(np.linalg.norm(reference.mean(axis=0) - batch.mean(axis=0)) / reference.std())

    reversing, plain = map(distance, with_and_without)
    assert reversing < 0.9 * plain


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
    first, second = (model.adapt(batch).predict_proba(PROBE) for batch in (PROBE, 5.0 + PROBE[:3]))
    # Not bit for bit: the rows go through the network together with the batch, and products of other shapes round so.
    np.testing.assert_allclose(first, second, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("max_rows_per_step", [1000, 20])
def test_a_round_starts_from_the_offline_network(max_rows_per_step: int) -> None:
    model = quick(max_rows_per_step=max_rows_per_step).fit(*labelled_rows())
    offline, first, second = bits(model), PROBE[:5] + 2.0, PROBE[5:30]
    after_both = bits(model.adapt(first).adapt(second))
    only_second = bits(quick(max_rows_per_step=max_rows_per_step).fit(*labelled_rows()).adapt(second))
    assert after_both == only_second
    assert len({offline, after_both, bits(model.adapt(first))}) == 3


@pytest.mark.parametrize("max_rows_per_step", [1000, 20])
def test_the_same_seed_gives_the_same_bits(max_rows_per_step: int) -> None:
    def run(seed: int) -> list[bytes]:
        model = quick(random_state=seed, max_rows_per_step=max_rows_per_step).fit(*labelled_rows())
        return [bits(model), *(bits(model.adapt(batch)) for batch in drifting_batches(3))]

    assert run(0) == run(0)
    assert not set(run(0)) & set(run(1))


def test_training_that_diverges_leaves_the_network_as_it_was() -> None:
    model = quick().fit(*labelled_rows()).adapt(PROBE)
    before = bits(model)
    with pytest.raises(ParameterError, match="too large"):
        model.set_params(adapt_learning_rate=1e200).adapt(PROBE)
    assert bits(model) == before


N_CLASSES = 3


@dataclass(frozen=True)
class Problem:
    """A reference and a batch that lies elsewhere."""

    X: Array
    labels: NDArray[np.int64]
    X_batch: Array


def make_problem(n_reference: int = 40, n_batch: int = 7, n_features: int = 4, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_reference, n_features))
    labels = rng.integers(N_CLASSES, size=n_reference)
    return Problem(X, labels, rng.normal(1.0, size=(n_batch, n_features)))


def make_network(n_features: int = 4, n_hidden: int = 5, seed: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    shapes = ((n_features, n_hidden), (n_hidden,), (n_hidden, N_CLASSES), (N_CLASSES,))
    return Network(*(0.7 * rng.normal(size=shape) for shape in shapes))


def arrays_of(network: Network) -> list[Array]:
    return list(vars(network).values())


def adapted(problem: Problem, network: Network, descent: Descent, *, strength: float = 1.0, max_rows: int = 1000):
    rows = (problem.X, problem.labels, problem.X_batch)
    return adapt_network(network, *rows, strength=strength, max_rows=max_rows, descent=descent, seed=0)


@dataclass
class ByHand:
    """Ganin et al.'s Algorithm 1, all rows in every step, every derivative written out."""

    network: Network
    problem: Problem
    strength: float
    descent: Descent
    parameters: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        n_hidden = len(self.network.hidden_intercept)
        self.parameters = [*arrays_of(self.network), np.zeros(n_hidden), np.zeros(())]

    def gradients(self) -> list[Array]:
        W, b, V, c, u, z = self.parameters
        X, X_batch = self.problem.X, self.problem.X_batch
        share = np.full(len(X), 1.0 / len(X))
        h, h_batch = np.tanh(X @ W + b), np.tanh(X_batch @ W + b)

        class_error = share[:, None] * (softmax(h @ V + c, axis=1) - np.eye(N_CLASSES)[self.problem.labels])
        domain_error = 0.5 * share * expit(h @ u + z)
        domain_error_batch = -0.5 * np.ones(len(X_batch)) / max(1, len(X_batch)) * expit(-(h_batch @ u + z))

        # The one place where the sign is turned: features descend the class loss and ascend the domain loss.
        error_h = class_error @ V.T - self.strength * np.outer(domain_error, u)
        error_h_batch = -self.strength * np.outer(domain_error_batch, u)
        error_a, error_a_batch = error_h * (1.0 - h**2), error_h_batch * (1.0 - h_batch**2)
        return [
            X.T @ error_a + X_batch.T @ error_a_batch + self.descent.penalty * W,
            error_a.sum(axis=0) + error_a_batch.sum(axis=0),
            h.T @ class_error + self.descent.penalty * V,
            class_error.sum(axis=0),
            h.T @ domain_error + h_batch.T @ domain_error_batch,
            domain_error.sum() + domain_error_batch.sum(),
        ]

    def run(self) -> list[Array]:
        speeds = [np.zeros_like(parameter) for parameter in self.parameters]
        for _ in range(self.descent.n_steps):
            speeds = [0.9 * speed + gradient for speed, gradient in zip(speeds, self.gradients(), strict=True)]
            steps = [self.descent.learning_rate * speed for speed in speeds]
            steps[0] *= self.descent.hidden_share
            self.parameters = [p - step for p, step in zip(self.parameters, steps, strict=True)]
        return self.parameters[:4]


@pytest.mark.parametrize("n_steps", [1, 2, 30])
@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("n_batch", [1, 7])
@pytest.mark.parametrize("hidden_share", [1.0, 0.1])
def test_adapting_follows_the_formulas(hidden_share: float, n_batch: int, strength: float, n_steps: int) -> None:
    problem, network = make_problem(n_batch=n_batch), make_network()
    descent = Descent(n_steps, 0.2, 0.03, hidden_share)
    expected = ByHand(network, problem, strength, descent).run()
    for found, wanted in zip(arrays_of(adapted(problem, network, descent, strength=strength)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("n_reference", "n_batch"), [(40, 7), (7, 40), (40, 50), (40, 1)])
def test_drawn_rows_are_distinct_and_stand_for_all(n_reference: int, n_batch: int) -> None:
    max_rows = 10
    problem = make_problem(n_reference, n_batch)
    whole = dann._stack(problem.X, problem.labels, problem.X_batch, N_CLASSES)
    draws = dann._draws(whole, n_reference, max_rows, np.random.default_rng(0))
    drawn = [next(draws) for _ in range(400)]
    for rows in drawn[:20]:
        assert len(np.unique(rows.X, axis=0)) == len(rows.X)
        assert int(rows.is_batch.sum()) == min(n_batch, max_rows)
        assert len(rows.X) == min(n_batch, max_rows) + min(n_reference, max_rows)
    for name in ("class_weight", "domain_weight"):
        for side in (0.0, 1.0):
            mean = np.mean([float(getattr(rows, name)[rows.is_batch == side].sum()) for rows in drawn])
            total = float(getattr(whole, name)[whole.is_batch == side].sum())
            assert mean == pytest.approx(total, rel=0.03)


def test_the_gradients_are_those_of_automatic_differentiation() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    problem, network, strength = make_problem(), make_network(), 0.7
    rows = dann._stack(problem.X, problem.labels, problem.X_batch, N_CLASSES)
    rng = np.random.default_rng(3)
    start = [*arrays_of(network), rng.normal(size=5), rng.normal(size=1)]
    W, b, V, c, u, z = parameters = [torch.tensor(array, requires_grad=True) for array in start]
    columns = {name: torch.tensor(column) for name, column in vars(rows).items()}
    h = torch.tanh(columns["X"] @ W + b)
    class_loss = -(torch.log_softmax(h @ V + c, dim=1) * columns["is_class"]).sum(dim=1) @ columns["class_weight"]
    signs = 1.0 - 2.0 * columns["is_batch"]
    domain_loss = torch.nn.functional.softplus(signs * (h @ u + z)) @ columns["domain_weight"]
    of_class = torch.autograd.grad(class_loss, parameters[:4], retain_graph=True)
    of_domain = torch.autograd.grad(domain_loss, [W, b, u, z])
    expected = [
        of_class[0] - strength * of_domain[0],
        of_class[1] - strength * of_domain[1],
        *of_class[2:],
        *of_domain[2:],
    ]
    for found, wanted in zip(dann._gradients(start, rows, strength), expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-10, atol=1e-14)
