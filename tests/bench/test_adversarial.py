"""The training does what the formulas say: gradients by hand, reversal, draws, threads, no global state."""

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, softmax

from accous.exceptions import ParameterError
from accous_bench.network import Network

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'accous[deep]'")

from accous_bench import adversarial  # noqa: E402
from accous_bench.adversarial import Descent, ReverseGradient, adapt_network, fit_network  # noqa: E402

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


# --- reversal -----------------------------------------------------------------------------------------------


def test_reversal_passes_forward_what_it_gets_and_turns_the_gradient_round() -> None:
    features = torch.linspace(-1.0, 1.0, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    passed = ReverseGradient.apply(features, 2.5)
    assert torch.equal(passed, features)
    torch.sum(passed**3).backward()
    torch.testing.assert_close(features.grad, -2.5 * 3.0 * features.detach() ** 2)


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
    whole = adversarial._stack(problem.X, problem.labels, problem.weights, problem.X_batch)
    draws = adversarial._draws(whole, n_reference, max_rows, torch.Generator().manual_seed(0))
    drawn = [next(draws) for _ in range(400)]
    for rows in drawn[:20]:
        assert len(torch.unique(rows.X, dim=0)) == len(rows.X)
        assert int(rows.is_batch.sum()) == min(n_batch, max_rows)
        assert len(rows.X) == min(n_batch, max_rows) + min(n_reference, max_rows)
    for name in ("class_weight", "domain_weight"):
        for side in (0.0, 1.0):
            mean = np.mean([float(getattr(rows, name)[rows.is_batch == side].sum()) for rows in drawn])
            total = float(getattr(whole, name)[whole.is_batch == side].sum())
            assert mean == pytest.approx(total, rel=0.03)


# --- threads and global state -------------------------------------------------------------------------------


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_bits_do_not_depend_on_the_number_of_threads(two_threads: None) -> None:
    problem, network = make_problem(6000, 300, n_features=64), make_network(64, 32)
    on_two = adapted(problem, network, Descent(3, 0.1, 0.01), max_rows=10**6)
    torch.set_num_threads(1)
    on_one = adapted(problem, network, Descent(3, 0.1, 0.01), max_rows=10**6)
    assert [a.tobytes() for a in arrays_of(on_two)] == [a.tobytes() for a in arrays_of(on_one)]


def test_the_number_of_threads_stays_even_where_training_fails(two_threads: None) -> None:
    adapted(make_problem(), make_network(), Descent(3, 0.1, 0.01))
    assert torch.get_num_threads() == 2
    with pytest.raises(ParameterError, match=r"Learning rate 1e\+200 is too large"):
        adapted(make_problem(), make_network(), Descent(9, 1e200, 0.01))
    assert torch.get_num_threads() == 2


def test_threads_that_train_at_once_do_not_keep_each_others_limit(two_threads: None) -> None:
    numbers = []

    def train() -> None:
        adapted(make_problem(), make_network(), Descent(1, 0.1, 0.01))
        numbers.append(torch.get_num_threads())

    second, later = threading.Thread(target=train), threading.Thread(target=train)
    with adversarial._one_torch_thread():
        second.start()
        second.join(timeout=0.2)  # time enough to take this thread's limit for its own, were it let in
    second.join()
    later.start()
    later.join()
    assert [*numbers, torch.get_num_threads()] == [2, 2, 2]


def test_torchs_global_generator_is_left_alone_and_has_no_say() -> None:
    def run(seed: int) -> list[bytes]:
        torch.manual_seed(seed)
        state = torch.get_rng_state()
        problem = make_problem()
        fitted = fit_network(problem.X, problem.labels, problem.weights, N_CLASSES, 5, Descent(3, 0.1, 0.0), seed=0)
        result = adapted(problem, fitted, Descent(3, 0.1, 0.0), max_rows=5)
        assert torch.equal(torch.get_rng_state(), state)
        return [array.tobytes() for array in arrays_of(result)]

    with torch.random.fork_rng():
        assert run(1) == run(2)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_training_works_where_the_caller_has_switched_gradients_off(mode) -> None:
    problem, network, descent = make_problem(), make_network(), Descent(3, 0.1, 0.0)
    expected = adapted(problem, network, descent)
    with mode():
        found = adapted(problem, network, descent)
        assert not torch.is_grad_enabled()
    assert [a.tobytes() for a in arrays_of(found)] == [a.tobytes() for a in arrays_of(expected)]


def test_the_network_given_is_not_written_into() -> None:
    network = make_network()
    before = [array.tobytes() for array in arrays_of(network)]
    adapted(make_problem(), network, Descent(3, 0.1, 0.0))
    assert [array.tobytes() for array in arrays_of(network)] == before
