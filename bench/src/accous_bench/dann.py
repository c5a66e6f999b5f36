r"""DANN: a network whose features are trained in every round to look the same in the reference and in the batch.

This follows Ganin et al., "Domain-Adversarial Training of Neural Networks" (JMLR 2016), whose network for tabular data
has one hidden layer. With hidden features h, reference rows i and batch rows j, the losses are

.. math::

    L_y = \text{mean}_i \, \text{cross-entropy}(h(x_i) V + c, y_i) + \tfrac{\rho}{2} (|W|^2 + |V|^2), \qquad
    L_d = \tfrac12 \big( \text{mean}_i \log(1 + e^{s(x_i)}) + \text{mean}_j \log(1 + e^{-s(x_j)}) \big),

where s(x) = h(x) u + z scores how much a row looks like the batch. V and c descend L_y, u and z descend L_d, and W and
b descend L_y - lambda L_d: the features should classify well and hide which rows come from the batch.

The gradients of so small a network are a dozen lines. An automatic differentiation spent nine tenths of a step on its
own bookkeeping.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state

from accous.arrays import FloatArray, IntArray
from accous.exceptions import ParameterError
from accous.threads import one_blas_thread

__all__ = ["DANN", "Descent", "Network", "adapt_network", "fit_network"]


@dataclass(frozen=True)
class Network:
    """A network with one hidden layer and a softmax: ``h(x) = tanh(x W + b)``, ``P(y | x) = softmax(h(x) V + c)``.

    Attributes
    ----------
    hidden_coef : array of shape (n_features, n_hidden)
        W.
    hidden_intercept : array of shape (n_hidden,)
        b.
    class_coef : array of shape (n_hidden, n_classes)
        V.
    class_intercept : array of shape (n_classes,)
        c.
    """

    hidden_coef: FloatArray
    hidden_intercept: FloatArray
    class_coef: FloatArray
    class_intercept: FloatArray

    def features(self, X: FloatArray) -> FloatArray:
        """Hidden features h of each row."""
        return np.tanh(X @ self.hidden_coef + self.hidden_intercept)

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Class probabilities of each row."""
        return np.asarray(softmax(self.features(X) @ self.class_coef + self.class_intercept, axis=1))


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


def fit_network(X: FloatArray, labels: IntArray, n_classes: int, n_hidden: int, descent: Descent, seed: int) -> Network:
    """Train a network on the reference; every step uses L_y on all rows."""
    rows = _stack(X, labels, X[:0], n_classes)
    parameters = _draw_parameters(X.shape[1], n_hidden, n_classes, np.random.default_rng(seed))
    with one_blas_thread():
        return _descend(parameters, repeat(rows), 0.0, descent)


def adapt_network(
    network: Network,
    X: FloatArray,
    labels: IntArray,
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
    whole = _stack(X, labels, X_batch, len(network.class_intercept))
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


def _stack(X: FloatArray, labels: IntArray, X_batch: FloatArray, n_classes: int) -> _Rows:
    """Combine reference and batch into one set of rows: one pass through the network instead of two."""
    n_reference, n_batch = len(X), len(X_batch)
    share = np.full(n_reference, 1.0 / n_reference)
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


_USUAL_COLUMNS = 12  # as in the paper's synthetic data, on which the step sizes were chosen


@dataclass(eq=False, repr=False, kw_only=True)
class DANN(ClassifierMixin, BaseEstimator):
    r"""Domain-adversarial neural network of Ganin et al. (JMLR 2016), trained separately on every batch.

    The network has one hidden layer, ``h(x) = tanh(x W + b)``, below a softmax. ``fit`` trains the offline network on
    the reference. ``adapt`` starts from the offline network and continues training on the reference and the batch: W
    and b descend the class loss and, by a reversed gradient, ascend the loss of a linear classifier that distinguishes
    batch from reference by h. A round does not use earlier rounds.

    The settings are meant to stay the same for all data. All training uses gradient steps with momentum 0.9, in double
    precision and on one thread: the same seed gives the same bits.

    Parameters
    ----------
    n_hidden : int, default=32
        Number of hidden units.
    n_fit_steps : int, default=300
        Number of steps of ``fit``, each on the whole reference.
    n_adapt_steps : int, default=20
        Number of adversarial steps of each ``adapt``.
    learning_rate : float, default=0.1
        Step size of ``fit``.
    adapt_learning_rate : float, default=0.03
        Step size of ``adapt``. Classifier and features work against each other. With larger steps, or many more of
        them, they oscillate instead of converging. A step of W moves the hidden units of a row in proportion to the
        row's squared length, which is d for d standardised columns. With more than 12 columns, the steps of W are
        therefore divided by d / 12.
    adversarial_weight : float, default=1.0
        lambda in [0, 100], the factor for the reversed gradient; 0 ignores the batch.
    penalty : float, default=0.01
        In [0, 100]; half of it times the squared length of both layers' coefficients is added to the class loss.
    max_rows_per_step : int, default=128
        Maximum number of rows of the reference, and of the batch, in a step of ``adapt``. If there are more, each step
        draws a new sample, as in the experiments of Ganin et al.
    random_state : int, RandomState or None, default=0
        Seed of the first coefficients and of the samples, which are the same in every round.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    network_, offline_network_ : Network
        The network in use, and the one that ``fit`` trained.
    reference_ : array of shape (n_reference, n_features)
        The reference, standardised.
    """

    n_hidden: int = 32
    n_fit_steps: int = 300
    n_adapt_steps: int = 20
    learning_rate: float = 0.1
    adapt_learning_rate: float = 0.03
    adversarial_weight: float = 1.0
    penalty: float = 0.01
    max_rows_per_step: int = 128
    random_state: Any = 0

    def fit(self, X: FloatArray, y: NDArray[Any]) -> Self:
        """Train the offline network on a labelled reference and forget all earlier rounds."""
        self.classes_, self.labels_ = np.unique(y, return_inverse=True)
        self.scaler_ = StandardScaler().fit(X)
        self.reference_ = self.scaler_.transform(X)
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.network_ = self.offline_network_ = fit_network(
            self.reference_,
            self.labels_,
            n_classes=len(self.classes_),
            n_hidden=self.n_hidden,
            descent=Descent(self.n_fit_steps, self.learning_rate, self.penalty),
            seed=self.seed_,
        )
        return self

    def adapt(self, X_batch: FloatArray) -> Self:
        """Run one round: from the offline network on, learn to classify and to hide which rows are the batch's."""
        hidden_share = min(1.0, _USUAL_COLUMNS / X_batch.shape[1])
        self.network_ = adapt_network(
            self.offline_network_,
            self.reference_,
            self.labels_,
            self.scaler_.transform(X_batch),
            strength=self.adversarial_weight,
            max_rows=self.max_rows_per_step,
            descent=Descent(self.n_adapt_steps, self.adapt_learning_rate, self.penalty, hidden_share),
            seed=self.seed_,
        )
        return self

    def predict(self, X: FloatArray) -> NDArray[Any]:
        """Predict the most probable class of each row."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Predict the class probabilities of each row."""
        return self.network_.predict_proba(self.scaler_.transform(X))
