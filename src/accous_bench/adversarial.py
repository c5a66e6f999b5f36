r"""Trains the network: on the reference alone, and against a domain classifier.

This follows Ganin et al., "Domain-Adversarial Training of Neural Networks" (JMLR 2016), whose network for tabular data
has one hidden layer. With hidden features h, reference rows i with weights w_i of mean 1, and batch rows j, the losses
are

.. math::

    L_y = \text{mean}_i \, w_i \, \text{cross-entropy}(h(x_i) V + c, y_i) + \tfrac{\rho}{2} (|W|^2 + |V|^2), \qquad
    L_d = \tfrac12 \big( \text{mean}_i \, w_i \log(1 + e^{s(x_i)}) + \text{mean}_j \log(1 + e^{-s(x_j)}) \big),

where s(x) = h(x) u + z scores how much a row looks like the batch. V and c descend L_y, u and z descend L_d, and W and
b descend L_y - lambda L_d: the features should classify well and hide which rows come from the batch.

The gradients of so small a network are a dozen lines. An automatic differentiation spent nine tenths of a step on its
own bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from scipy.special import expit

from accous.arrays import FloatArray, IntArray
from accous.exceptions import ParameterError
from accous.threads import one_blas_thread
from accous_bench.network import Network

__all__ = ["Descent", "adapt_network", "fit_network"]

_MOMENTUM = 0.9
_PENALISED = (0, 2)  # W and V, in the order of a network's fields


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
    """Rows of the reference, then of the batch; the weights of each loss sum to 1, or to 0 if the loss is unused.

    ``is_class`` has a 1 at the class of a row, in the columns of the classes.
    """

    X: FloatArray
    is_class: FloatArray
    class_weight: FloatArray
    is_batch: FloatArray
    domain_weight: FloatArray


def fit_network(
    X: FloatArray, labels: IntArray, weights: FloatArray, n_classes: int, n_hidden: int, descent: Descent, seed: int
) -> Network:
    """Train a network on the reference; every step uses L_y on all rows."""
    rows = _stack(X, labels, weights, X[:0], n_classes)
    parameters = _draw_parameters(X.shape[1], n_hidden, n_classes, np.random.default_rng(seed))
    with one_blas_thread():
        return _descend(parameters, repeat(rows), 0.0, descent)


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
    whole = _stack(X, labels, weights, X_batch, len(network.class_intercept))
    rows = _draws(whole, len(X), max_rows, np.random.default_rng(seed))
    arrays = (network.hidden_coef, network.hidden_intercept, network.class_coef, network.class_intercept)
    with one_blas_thread():
        return _descend([array.copy() for array in arrays], rows, strength, descent)


def _descend(parameters: list[FloatArray], rows: Iterator[_Rows], strength: float, descent: Descent) -> Network:
    """Take the steps; the first four parameters become the network, the last two are u and z."""
    n_hidden = len(parameters[1])
    parameters = [*parameters, np.zeros(n_hidden), np.zeros(1)]
    speeds = [np.zeros_like(parameter) for parameter in parameters]
    step_sizes = [descent.learning_rate * descent.hidden_share, *repeat(descent.learning_rate, len(parameters) - 1)]
    with np.errstate(over="ignore", invalid="ignore"):  # a divergence is reported at the end
        for _ in range(descent.n_steps):
            gradients = _gradients(parameters, next(rows), strength)
            for position, (parameter, speed) in enumerate(zip(parameters, speeds, strict=True)):
                speed *= _MOMENTUM
                speed += gradients[position]
                if position in _PENALISED:
                    speed += descent.penalty * parameter
                parameter -= step_sizes[position] * speed
    if not all(np.isfinite(parameter).all() for parameter in parameters):
        raise ParameterError(f"Learning rate {descent.learning_rate:g} is too large: training diverged; lower it.")
    return Network(*parameters[:4])


def _gradients(parameters: list[FloatArray], rows: _Rows, strength: float) -> list[FloatArray]:
    """Return the directions in which each parameter ascends its own loss, without the penalty."""
    hidden_coef, hidden_intercept, class_coef, class_intercept, domain_coef, domain_intercept = parameters
    features = np.tanh(rows.X @ hidden_coef + hidden_intercept)
    scores = features @ class_coef + class_intercept
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    class_errors = (scores / scores.sum(axis=1, keepdims=True) - rows.is_class) * rows.class_weight[:, None]
    chances = expit(features @ domain_coef + domain_intercept)
    domain_errors = (chances - rows.is_batch) * rows.domain_weight
    # The one place where the sign is turned: features descend the class loss and ascend the domain loss.
    feature_errors = class_errors @ class_coef.T - (strength * domain_errors)[:, None] * domain_coef
    feature_errors *= 1.0 - features * features
    return [
        rows.X.T @ feature_errors,
        feature_errors.sum(axis=0),
        features.T @ class_errors,
        class_errors.sum(axis=0),
        features.T @ domain_errors,
        domain_errors.sum(keepdims=True),
    ]


def _stack(X: FloatArray, labels: IntArray, weights: FloatArray, X_batch: FloatArray, n_classes: int) -> _Rows:
    """Combine reference and batch into one set of rows: one pass through the network instead of two."""
    n_reference, n_batch = len(X), len(X_batch)
    share = weights / weights.sum()
    batch_share = np.full(n_batch, 1.0 / max(n_batch, 1))
    is_class = np.zeros((n_reference + n_batch, n_classes))
    is_class[np.arange(n_reference), labels] = 1.0
    return _Rows(
        X=np.concatenate((X, X_batch)),
        is_class=is_class,
        class_weight=np.concatenate((share, np.zeros(n_batch))),
        is_batch=np.repeat([0.0, 1.0], [n_reference, n_batch]),
        domain_weight=0.5 * np.concatenate((share, batch_share)),
    )


def _draws(rows: _Rows, n_reference: int, max_rows: int, generator: np.random.Generator) -> Iterator[_Rows]:
    """Yield the rows of each step."""
    n_batch = len(rows.X) - n_reference
    if max(n_reference, n_batch) <= max_rows:
        yield from repeat(rows)
    # Each drawn row represents as many rows as the total divided by the number drawn.
    counts = np.maximum(1.0, np.array([n_reference, n_batch]) / max_rows)
    stands_for = np.repeat(counts, [n_reference, n_batch])
    rows = replace(rows, class_weight=rows.class_weight * stands_for, domain_weight=rows.domain_weight * stands_for)
    while True:
        parts = (_sample(generator, n_reference, max_rows), n_reference + _sample(generator, n_batch, max_rows))
        drawn_indices = np.concatenate(parts)
        yield _Rows(**{name: column[drawn_indices] for name, column in vars(rows).items()})


def _sample(generator: np.random.Generator, n_rows: int, max_rows: int) -> IntArray:
    return generator.choice(n_rows, min(n_rows, max_rows), replace=False, shuffle=False)


def _draw_parameters(
    n_features: int, n_hidden: int, n_classes: int, generator: np.random.Generator
) -> list[FloatArray]:
    """Draw uniform values up to 1 / sqrt(number of inputs of a unit); class scores start without an intercept."""

    def uniform(shape: tuple[int, ...], n_inputs: int) -> FloatArray:
        bound = n_inputs**-0.5
        return generator.uniform(-bound, bound, shape)

    return [
        uniform((n_features, n_hidden), n_features),
        uniform((n_hidden,), n_features),
        uniform((n_hidden, n_classes), n_hidden),
        np.zeros(n_classes),
    ]
