"""DANN: a network whose features are trained, round by round, to look the same in the reference and in the batch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from accous.arrays import FloatArray
from accous.classifier.labels import read_base_weights, read_labels
from accous.exceptions import MissingExtraError
from accous.parameters import require_integer, require_number, require_number_in
from accous.ratio.base import LearnedAttributes, unchanged_on_failure
from accous.ratio.maps import Standardize
from accous.validation import read_rows
from accous_bench.network import Network

__all__ = ["DANN"]

_USUAL_COLUMNS = 12  # of the paper's synthetic data, on which the steps were found


@dataclass(frozen=True)
class DannState:
    """What a round leaves behind; replaced as a whole, so that every reader sees one consistent model."""

    n_rounds: int
    network: Network


class DANN(LearnedAttributes, ClassifierMixin, BaseEstimator):
    r"""Domain-adversarial neural network of Ganin et al. (JMLR 2016), run anew on every batch.

    The network has one hidden layer, ``h(x) = tanh(x W + b)``, below a softmax. ``fit`` trains it on the reference:
    the offline network. ``adapt`` takes the offline network and trains it further on the reference and the batch: W and
    b descend the class loss and ascend, by a reversed gradient, the loss of a linear classifier that tells batch from
    reference by h. A round knows nothing of the rounds before it.

    The settings are meant to stay the same for all data. All training is by gradient steps with momentum 0.9, in double
    precision and on one thread: the same seed gives the same bits. Needs PyTorch: ``pip install 'accous[deep]'``.

    Parameters
    ----------
    n_hidden : int, default=32
        Hidden units.
    n_fit_steps : int, default=300
        Steps of ``fit``, each on the whole reference.
    n_adapt_steps : int, default=20
        Adversarial steps of each ``adapt``.
    learning_rate : float, default=0.1
        Step size of ``fit``.
    adapt_learning_rate : float, default=0.03
        Step size of ``adapt``. Classifier and features play against each other, and with larger steps, or many more,
        they go round in circles instead of meeting. A step of W moves the hidden units of a row in proportion to the
        row's squared length, which is d for d standardised columns: beyond 12 columns the steps of W are divided by
        d / 12.
    adversarial_weight : float, default=1.0
        lambda in [0, 100], by which the reversed gradient is multiplied; 0 leaves the batch out.
    penalty : float, default=0.01
        Squared length of both layers' coefficients times half of this, in [0, 100], is added to the class loss.
    max_rows_per_step : int, default=1000
        A step of ``adapt`` uses no more rows than this of the reference and of the batch, drawn anew in each step where
        there are more.
    random_state : int, RandomState or None, default=0
        Seed of the first coefficients and of the draws, which are the same in every round.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    n_rounds_ : int
        Rounds played.
    network_, offline_network_ : Network
        The network that predicts now, and that of ``fit``.
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
        max_rows_per_step: int = 1000,
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
        """Train the offline network on a labelled reference and forget all rounds.

        Parameters
        ----------
        X : array or frame of shape (n_reference, n_features)
        y : array of shape (n_reference,)
        sample_weight : array of shape (n_reference,), optional
            Weights of the rows, in ``fit`` and in every ``adapt``.
        """
        self._check_parameters()
        training = _load_training()
        with unchanged_on_failure(self):
            rows = read_rows(self, X, reset=True, min_rows=2)
            self.classes_, self.labels_ = read_labels(y, len(rows), reader=type(self).__name__)
            self.base_weight_ = read_base_weights(sample_weight, len(rows))
            scaler = StandardScaler().fit(rows, sample_weight=self.base_weight_)
            self.standardize_ = Standardize(scaler.mean_, scaler.scale_)
            self.reference_ = self.standardize_.transform(rows)
            self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
            self.offline_network_: Network = training.fit_network(
                *self._labelled_rows(),
                n_classes=len(self.classes_),
                n_hidden=self.n_hidden,
                descent=training.Descent(self.n_fit_steps, self.learning_rate, self.penalty),
                seed=self.seed_,
            )
            self.state_ = DannState(0, self.offline_network_)
        return self

    def adapt(self, X_batch: Any) -> Self:
        """Play one round: from the offline network, learn to classify while hiding which rows are the batch's.

        An empty batch changes nothing and is not counted. If anything fails, the model stays that of the round
        before.

        Parameters
        ----------
        X_batch : array or frame of shape (n_batch, n_features)
        """
        check_is_fitted(self)
        rows = read_rows(self, X_batch, reset=False, min_rows=0)
        if len(rows) == 0:
            return self
        training = _load_training()
        network = training.adapt_network(
            self.offline_network_,
            *self._labelled_rows(),
            self.standardize_.transform(rows),
            strength=self.adversarial_weight,
            max_rows=self.max_rows_per_step,
            descent=training.Descent(
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
        """Most probable class of each row, by the current network; no rows in, no classes out."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> FloatArray:
        """Class probabilities of each row, by the current network."""
        check_is_fitted(self)
        rows = read_rows(self, X, reset=False, min_rows=0)
        return self.state_.network.predict_proba(self.standardize_.transform(rows))

    @property
    def n_rounds_(self) -> int:
        """Rounds played."""
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


def _load_training() -> Any:
    """The module that needs PyTorch, so that this one does not."""
    try:
        return import_module("accous_bench.adversarial")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = "DANN needs PyTorch, which is not installed: pip install 'accous[deep]' adds it."
        raise MissingExtraError(message, name="torch") from error
