"""The training does what the formulas say: gradients by hand and by automatic differentiation, draws."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from accous.exceptions import ParameterError
from accous_bench import adversarial
from accous_bench.adversarial import Descent, adapt_network, fit_network
from accous_bench.network import Network

Array = NDArray[np.float64]

N_CLASSES = 3


@dataclass(frozen=True)
class Problem:
    """A weighted reference and a batch that lies elsewhere."""

    X: Array
    labels: NDArray[np.int64]
    weights: Array
    X_batch: Array


def make_problem(n_reference: int = 40, n_batch: int = 7, n_features: int = 4, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_reference, n_features))
    labels = rng.integers(N_CLASSES, size=n_reference)
    return Problem(X, labels, rng.gamma(2.0, size=n_reference), rng.normal(1.0, size=(n_batch, n_features)))


def make_network(n_features: int = 4, n_hidden: int = 5, seed: int = 1) -> Network:
    rng = np.random.default_rng(seed)
    shapes = ((n_features, n_hidden), (n_hidden,), (n_hidden, N_CLASSES), (N_CLASSES,))
    return Network(*(0.7 * rng.normal(size=shape) for shape in shapes))


def arrays_of(network: Network) -> list[Array]:
    return list(vars(network).values())


def adapted(problem: Problem, network: Network, descent: Descent, *, strength: float = 1.0, max_rows: int = 1000):
    rows = (problem.X, problem.labels, problem.weights, problem.X_batch)
    return adapt_network(network, *rows, strength=strength, max_rows=max_rows, descent=descent, seed=0)


# --- by hand ------------------------------------------------------------------------------------------------


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
        share = self.problem.weights / self.problem.weights.sum()
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


def test_fitting_follows_the_formulas() -> None:
    problem, descent = make_problem(n_batch=0), Descent(50, 0.2, 0.03)

    def fitted(n_steps: int) -> Network:
        rows = (problem.X, problem.labels, problem.weights)
        return fit_network(*rows, N_CLASSES, n_hidden=5, descent=Descent(n_steps, 0.2, 0.03), seed=4)

    expected = ByHand(fitted(0), problem, 0.0, descent).run()
    for found, wanted in zip(arrays_of(fitted(50)), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


# --- draws --------------------------------------------------------------------------------------------------


def test_steps_that_may_use_all_rows_do() -> None:
    problem, network, descent = make_problem(), make_network(), Descent(5, 0.1, 0.0)
    exact, one_less = (arrays_of(adapted(problem, network, descent, max_rows=n))[0] for n in (40, 39))
    np.testing.assert_array_equal(exact, arrays_of(adapted(problem, network, descent, max_rows=10**6))[0])
    assert np.abs(exact - one_less).max() > 1e-6


@pytest.mark.parametrize(("n_reference", "n_batch"), [(40, 7), (7, 40), (40, 50), (40, 1)])
def test_drawn_rows_are_distinct_and_stand_for_all(n_reference: int, n_batch: int) -> None:
    max_rows = 10
    problem = make_problem(n_reference, n_batch)
    whole = adversarial._stack(problem.X, problem.labels, problem.weights, problem.X_batch, N_CLASSES)
    draws = adversarial._draws(whole, n_reference, max_rows, np.random.default_rng(0))
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


# --- no global state ----------------------------------------------------------------------------------------


def test_a_learning_rate_that_is_too_large_is_named() -> None:
    with pytest.raises(ParameterError, match=r"Learning rate 1e\+200 is too large"):
        adapted(make_problem(), make_network(), Descent(9, 1e200, 0.01))


def test_the_gradients_are_those_of_automatic_differentiation() -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")
    problem, network, strength = make_problem(), make_network(), 0.7
    rows = adversarial._stack(problem.X, problem.labels, problem.weights, problem.X_batch, N_CLASSES)
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
    for found, wanted in zip(adversarial._gradients(start, rows, strength), expected, strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-10, atol=1e-14)


def test_the_network_given_is_not_written_into() -> None:
    network = make_network()
    before = [array.tobytes() for array in arrays_of(network)]
    adapted(make_problem(), network, Descent(3, 0.1, 0.0))
    assert [array.tobytes() for array in arrays_of(network)] == before
