"""DANN: a network whose features are trained in every round to look the same in the reference and in the batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from accous.arrays import FloatArray
from accous.model.tasks import read_base_weights, read_labels
from accous.parameters import require_integer, require_number, require_number_in
from accous.ratio.base import unchanged_on_failure
from accous.ratio.features import Standardize
from accous.validation import LearnedAttributes, read_rows
from accous_bench.adversarial import Descent, adapt_network, fit_network
from accous_bench.network import Network

__all__ = ["DANN"]

_USUAL_COLUMNS = 12  # as in the paper's synthetic data, on which the step sizes were chosen


@dataclass(frozen=True)
class DannState:
    """The state after a round. Each round replaces it as a whole, so every reader sees one consistent model."""

    n_rounds: int
    network: Network


class DANN(LearnedAttributes, ClassifierMixin, BaseEstimator):
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
    n_rounds_ : int
        Number of rounds so far.
    network_, offline_network_ : Network
        The network in use, and the one that ``fit`` trained.
    reference_ : array of shape (n_reference, n_features)
        The reference, standardised.
    n_features_in_, feature_names_in_
        Width and column names of the reference.
    """

    state_: DannState

    def __init__(
        self,
        *,
        n_hidden: int = 32,
        n_fit_steps: int = 300,
        n_adapt_steps: int = 20,
        learning_rate: float = 0.1,
        adapt_learning_rate: float = 0.03,
        adversarial_weight: float = 1.0,
        penalty: float = 0.01,
        max_rows_per_step: int = 128,
        random_state: Any = 0,
    ) -> None:
        self.n_hidden = n_hidden
        self.n_fit_steps = n_fit_steps
        self.n_adapt_steps = n_adapt_steps
        self.learning_rate = learning_rate
        self.adapt_learning_rate = adapt_learning_rate
        self.adversarial_weight = adversarial_weight
        self.penalty = penalty
        self.max_rows_per_step = max_rows_per_step
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train the offline network on a labelled reference and forget all earlier rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Weights of the rows, in ``fit`` and in every ``adapt``.
        """
        self._check_parameters()
        with unchanged_on_failure(self):
            rows = read_rows(self, X, reset=True, min_rows=2)
            self.classes_, self.labels_ = read_labels(y, len(rows), reader=type(self).__name__)
            self.base_weight_ = read_base_weights(sample_weight, len(rows))
            scaler = StandardScaler().fit(rows, sample_weight=self.base_weight_)
            self.standardize_ = Standardize(scaler.mean_, scaler.scale_)
            self.reference_ = self.standardize_.transform(rows)
            self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.offline_network_: Network = fit_network(
                *self._labelled_rows(),
                n_classes=len(self.classes_),
                n_hidden=self.n_hidden,
                descent=Descent(self.n_fit_steps, self.learning_rate, self.penalty),
                seed=self.seed_,
            )
            self.state_ = DannState(0, self.offline_network_)
        return self

    def adapt(self, X_batch: Any) -> Self:
        """Run one round: starting from the offline network, learn to classify and to hide which rows are the batch's.

        An empty batch changes nothing and does not count as a round. If anything fails, the model keeps its state from
        before the call.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
        """
        check_is_fitted(self)
        rows = read_rows(self, X_batch, reset=False, min_rows=0)
        if len(rows) == 0:
            return self
        network = adapt_network(
            self.offline_network_,
            *self._labelled_rows(),
            self.standardize_.transform(rows),
            strength=self.adversarial_weight,
            max_rows=self.max_rows_per_step,
            descent=Descent(
                self.n_adapt_steps,
                self.adapt_learning_rate,
                self.penalty,
                hidden_share=min(1.0, _USUAL_COLUMNS / rows.shape[1]),
            ),
            seed=self.seed_,
        )
        self.state_ = DannState(self.state_.n_rounds + 1, network)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict the most probable class of each row; an empty input gives an empty output."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Predict the class probabilities of each row."""
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False, min_rows=0)
        return self.state_.network.predict_proba(self.standardize_.transform(rows))

    @property
    def n_rounds_(self) -> int:
        """Number of rounds so far."""
        return self.state_.n_rounds

    @property
    def network_(self) -> Network:
        """The current network."""
        return self.state_.network

    def _labelled_rows(self) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
        return self.reference_, self.labels_, self.base_weight_

    def _check_parameters(self) -> None:
        for name in ("n_hidden", "n_fit_steps", "n_adapt_steps", "max_rows_per_step"):
            require_integer(name, getattr(self, name), at_least=1)
        for name in ("learning_rate", "adapt_learning_rate"):
            require_number(name, getattr(self, name))
        for name in ("adversarial_weight", "penalty"):
            require_number_in(name, getattr(self, name), 0, 100)
