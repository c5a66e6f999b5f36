r"""Trains the network with PyTorch: on the reference alone, and against a domain classifier.

This follows Ganin et al., "Domain-Adversarial Training of Neural Networks" (JMLR 2016), whose network for tabular data
has one hidden layer. With hidden features h, reference rows i with weights w_i of mean 1, and batch rows j, the losses
are

.. math::

    L_y = \text{mean}_i \, w_i \, \text{cross-entropy}(h(x_i) V + c, y_i) + \tfrac{\rho}{2} (|W|^2 + |V|^2), \qquad
    L_d = \tfrac12 \big( \text{mean}_i \, w_i \log(1 + e^{s(x_i)}) + \text{mean}_j \log(1 + e^{-s(x_j)}) \big),

where s(x) = h(x) u + z scores how much a row looks like the batch. V and c descend L_y, u and z descend L_d, and W and
b descend L_y - lambda L_d: the features should classify well and hide which rows come from the batch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from accous.arrays import FloatArray, IntArray
from accous.exceptions import ParameterError
from accous_bench.network import Network

__all__ = ["Descent", "ReverseGradient", "adapt_network", "fit_network"]

_MOMENTUM = 0.9
_PENALISED = (0, 2)  # W and V, in the order of a network's fields
_one_at_a_time = threading.Lock()


class ReverseGradient(torch.autograd.Function):
    """The identity in the forward pass; multiplies the gradient by ``-strength`` in the backward pass."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, strength: float) -> Tensor:
        """Return the features unchanged."""
        ctx.strength = strength
        return features.view_as(features)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Reverse the gradient."""
        return -ctx.strength * gradient, None


@dataclass(frozen=True)
class Descent:
    """Settings of the descent: gradient steps with momentum 0.9, starting at rest.

    Attributes
    ----------
    n_steps : int
    learning_rate : float
    penalty : float
        rho, the penalty on the coefficients of both layers.
    hidden_share : float
        Factor for the steps of W.
    """

    n_steps: int
    learning_rate: float
    penalty: float
    hidden_share: float = 1.0


@dataclass(frozen=True)
class _Rows:
    """Rows of the reference, then of the batch; the weights of each loss sum to 1, or to 0 if the loss is unused."""

    X: Tensor
    labels: Tensor
    class_weight: Tensor
    is_batch: Tensor
    domain_weight: Tensor


def fit_network(
    X: FloatArray, labels: IntArray, weights: FloatArray, n_classes: int, n_hidden: int, descent: Descent, seed: int
) -> Network:
    """Train a network on the reference; every step uses L_y on all rows."""
    with _one_torch_thread():
        rows = _stack(X, labels, weights, X[:0])
        parameters = _draw_parameters(X.shape[1], n_hidden, n_classes, torch.Generator().manual_seed(seed))
        _descend(parameters, lambda: _class_loss(parameters, _features(parameters, rows), rows), descent)
        return _to_network(parameters)


def adapt_network(
    network: Network,
    X: FloatArray,
    labels: IntArray,
    weights: FloatArray,
    X_batch: FloatArray,
    strength: float,
    max_rows: int,
    descent: Descent,
    seed: int,
) -> Network:
    """Continue training a network, against a domain classifier that starts at zero (u = 0, z = 0).

    Every step uses all rows of the reference and of the batch. If one of them has more than ``max_rows`` rows, every
    step draws a new sample of that many.
    """
    with _one_torch_thread():
        next_rows = _draws(_stack(X, labels, weights, X_batch), len(X), max_rows, torch.Generator().manual_seed(seed))
        parameters = _from_network(network)
        domain_parameters = [torch.zeros(shape, dtype=torch.float64) for shape in ((len(parameters[1]), 1), (1,))]

        def loss() -> Tensor:
            rows = next(next_rows)
            features = _features(parameters, rows)
            domain_loss = _domain_loss(domain_parameters, ReverseGradient.apply(features, strength), rows)
            return _class_loss(parameters, features, rows) + domain_loss

        _descend([*parameters, *domain_parameters], loss, descent)
        return _to_network(parameters)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Compute on one thread, so that bits do not depend on the number of cores, and restore torch's setting after.

    torch has one global number of threads. Only one caller at a time may change it, or callers would restore each
    other's limit.
    """
    with _one_at_a_time:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            torch.set_num_threads(before)


def _descend(parameters: list[Tensor], loss: Callable[[], Tensor], descent: Descent) -> None:
    """Update the parameters in place; torch.optim would do the same, but takes seconds to import on first use."""
    for parameter in parameters:
        parameter.requires_grad_()
    speeds = [torch.zeros_like(parameter) for parameter in parameters]
    step_sizes = [descent.learning_rate * descent.hidden_share, *repeat(descent.learning_rate, len(parameters) - 1)]
    for _ in range(descent.n_steps):
        gradients = torch.autograd.grad(loss(), parameters)
        with torch.no_grad():
            for position, parameter in enumerate(parameters):
                speed = speeds[position].mul_(_MOMENTUM).add_(gradients[position])
                if position in _PENALISED:
                    speed.add_(parameter, alpha=descent.penalty)
                parameter.sub_(speed, alpha=step_sizes[position])
    if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
        raise ParameterError(f"Learning rate {descent.learning_rate:g} is too large: training diverged; lower it.")


def _features(parameters: list[Tensor], rows: _Rows) -> Tensor:
    return torch.tanh(torch.addmm(parameters[1], rows.X, parameters[0]))


def _class_loss(parameters: list[Tensor], features: Tensor, rows: _Rows) -> Tensor:
    """L_y without its penalty."""
    _, _, class_coef, class_intercept = parameters
    losses = cross_entropy(torch.addmm(class_intercept, features, class_coef), rows.labels, reduction="none")
    return losses @ rows.class_weight


def _domain_loss(domain_parameters: list[Tensor], features: Tensor, rows: _Rows) -> Tensor:
    coef, intercept = domain_parameters
    scores = torch.addmm(intercept, features, coef)[:, 0]
    return binary_cross_entropy_with_logits(scores, rows.is_batch, rows.domain_weight, reduction="sum")


def _stack(X: FloatArray, labels: IntArray, weights: FloatArray, X_batch: FloatArray) -> _Rows:
    """Combine reference and batch into one set of rows: one pass through the network instead of two."""
    n_reference, n_batch = len(X), len(X_batch)
    share = weights / weights.sum()
    batch_share = np.full(n_batch, 1.0 / max(n_batch, 1))
    return _Rows(
        X=torch.from_numpy(np.concatenate((X, X_batch))),
        labels=torch.from_numpy(np.concatenate((labels, np.zeros(n_batch, dtype=np.int64)))),
        class_weight=torch.from_numpy(np.concatenate((share, np.zeros(n_batch)))),
        is_batch=torch.from_numpy(np.repeat([0.0, 1.0], [n_reference, n_batch])),
        domain_weight=torch.from_numpy(0.5 * np.concatenate((share, batch_share))),
    )


def _draws(rows: _Rows, n_reference: int, max_rows: int, generator: torch.Generator) -> Iterator[_Rows]:
    """Yield the rows of each step."""
    n_batch = len(rows.X) - n_reference
    if max(n_reference, n_batch) <= max_rows:
        yield from repeat(rows)
    # Each drawn row represents as many rows as the total divided by the number drawn.
    counts = np.maximum(1.0, np.array([n_reference, n_batch]) / max_rows)
    stands_for = torch.from_numpy(np.repeat(counts, [n_reference, n_batch]))
    rows = replace(rows, class_weight=rows.class_weight * stands_for, domain_weight=rows.domain_weight * stands_for)
    while True:
        reference_indices = torch.randperm(n_reference, generator=generator)[:max_rows]
        batch_indices = n_reference + torch.randperm(n_batch, generator=generator)[:max_rows]
        drawn_indices = torch.cat((reference_indices, batch_indices))
        yield _Rows(**{name: column[drawn_indices] for name, column in vars(rows).items()})


def _draw_parameters(n_features: int, n_hidden: int, n_classes: int, generator: torch.Generator) -> list[Tensor]:
    """Draw uniform values up to 1 / sqrt(number of inputs of a unit); class scores start without an intercept."""

    def uniform(shape: tuple[int, ...], n_inputs: int) -> Tensor:
        return (2.0 * torch.rand(shape, dtype=torch.float64, generator=generator) - 1.0) / n_inputs**0.5

    return [
        uniform((n_features, n_hidden), n_features),
        uniform((n_hidden,), n_features),
        uniform((n_hidden, n_classes), n_hidden),
        torch.zeros(n_classes, dtype=torch.float64),
    ]


def _from_network(network: Network) -> list[Tensor]:
    arrays = (network.hidden_coef, network.hidden_intercept, network.class_coef, network.class_intercept)
    return [torch.from_numpy(array.copy()) for array in arrays]


def _to_network(parameters: list[Tensor]) -> Network:
    return Network(*(parameter.detach().numpy() for parameter in parameters))
