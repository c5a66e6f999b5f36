"""A small classification network as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from accous.arrays import FloatArray

__all__ = ["Network"]


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
