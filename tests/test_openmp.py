"""Fits and predictions of the user's estimator on few rows use one OpenMP thread, whoever asks for them."""

import numpy as np
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from threadpoolctl import threadpool_limits

from accous import AdaptiveClassifier

SEEN: list[int] = []


class Watching(DecisionTreeClassifier):
    """Notes how many threads scikit-learn would use for it."""

    def fit(self, X, y, sample_weight=None):
        note_threads()
        return super().fit(X, y, sample_weight=sample_weight)

    def predict(self, X, check_input=True):
        note_threads()
        return super().predict(X, check_input)

    def predict_proba(self, X, check_input=True):
        note_threads()
        return super().predict_proba(X, check_input)


def note_threads() -> None:
    # Of the library that scikit-learn uses: another test may have loaded one more, with PyTorch.
    SEEN.append(_openmp_effective_n_threads())


def test_no_reading_uses_more_than_one_thread():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 2))
    y = (X[:, 0] + 0.5 * random.normal(size=300) > 0.0).astype(int)
    with threadpool_limits(2, user_api="openmp"):
        before = _openmp_effective_n_threads()  # two, unless there is only one core
        model = AdaptiveClassifier(Watching(max_depth=2, random_state=0), refit_budget=0.5).fit(X, y, order=True)
        model.step(X[:20])
        assert 0.0 <= model.performance().value <= 1.0
        assert model.status_.reasons
        model.predict_set(X[:5])
        model.observe(X[:20], y[:20])
        note_threads()
    assert set(SEEN[:-1]) == {1}
    assert SEEN[-1] == before
