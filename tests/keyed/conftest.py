"""A fitted model that all tests of keys share, and a stream that drifts."""

import numpy as np
import pytest

from accous import AdaptiveClassifier
from accous.keyed import KeyedAdapter

N_FEATURES = 4


def labelled(n_rows: int, seed: int, n_classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    scores = X[:, 0] + 0.5 * X[:, 1] * X[:, 1] + 0.5 * rng.normal(size=n_rows)
    return X, np.digitize(scores, np.linspace(0.0, 1.5, n_classes - 1) if n_classes > 2 else [0.3])


def drifting(n_rows: int, seed: int, size: float = 1.2) -> np.ndarray:
    """Rows that move away from the reference and come back, twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, 1] += size * np.sin(np.linspace(0.0, 4.0 * np.pi, n_rows))
    return X


@pytest.fixture(scope="session")
def model() -> AdaptiveClassifier:
    return AdaptiveClassifier().fit(*labelled(300, 0))


@pytest.fixture(scope="session")
def adapter(model: AdaptiveClassifier) -> KeyedAdapter:
    return KeyedAdapter(model, round_size=5)
