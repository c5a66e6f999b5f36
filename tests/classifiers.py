"""Test objects for the classifier: labelled rows, a ratio with given values, a classifier that fails on request."""

from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from accous import AdaptiveClassifier, NoShift

Array = NDArray[np.float64]
Labels = NDArray[Any]


class LinearTilt(NoShift):
    """The ratio max(0, a + b x_0), where the first row of a batch begins with a and b."""

    tilt_: tuple[float, float]

    @property
    def reference_ratio_(self):
        return self._ratio(self.reference_)

    def _start(self, X):
        super()._start(X)
        self.tilt_ = (1.0, 0.0)

    def _run_round(self, X):
        super()._run_round(X)
        self.tilt_ = (float(X[0, 0]), float(X[0, 1]))

    def _ratio(self, X):
        constant, slope = self.tilt_
        return np.maximum(0.0, constant + slope * X[:, 0])


def tilt(constant, slope, n_features=3):
    """A batch that sets the ratio of `LinearTilt`."""
    return np.array([[constant, slope, *np.zeros(n_features - 2)]])


class FailingClassifier(GaussianNB):
    """Naive Bayes that raises in the fits whose number, counted over all instances, is listed."""

    failing_fits: ClassVar[dict[int, type[BaseException]]] = {}
    n_fits: ClassVar[int] = 0

    def __init__(self):
        super().__init__()

    @classmethod
    def fail_at(cls, *numbers, error=RuntimeError):
        """Count from zero again, and fail in these fits."""
        cls.n_fits, cls.failing_fits = 0, dict.fromkeys(numbers, error)

    def fit(self, X, y, sample_weight=None):
        FailingClassifier.n_fits += 1
        if self.n_fits in self.failing_fits:
            raise self.failing_fits[self.n_fits]("told to fail")
        return super().fit(X, y, sample_weight)


def labelled_rows(n_rows=120, n_features=3, n_classes=2, seed=0):
    """Rows of overlapping classes whose border is curved: weights matter to a linear model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    scores = X @ rng.normal(size=(n_features, n_classes)) + 1.5 * np.cos(2.0 * X[:, :1] + np.arange(n_classes))
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def drifting_batches(n_rounds, n_features=3, n_rows=4, seed=1):
    """Batches whose first column wanders."""
    rng = np.random.default_rng(seed)
    columns = np.arange(n_features)
    return [rng.normal(1.5 * np.sin(t / 4.0) * (columns == 0), size=(n_rows, n_features)) for t in range(n_rounds)]


def customers(n_rows, seed, *, has_new_city=False):
    """A frame of numbers, categories and missing values in both."""
    rng = np.random.default_rng(seed)
    cities = np.array(["Oslo", "Lima", None, "Rome" if has_new_city else "Oslo"], dtype=object)
    age = rng.normal(40.0, 12.0, size=n_rows)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n_rows) < 0.1, np.nan, age),
            "income": rng.lognormal(size=n_rows),
            "city": cities[rng.integers(len(cities), size=n_rows)],
        }
    )


def customer_encoder():
    """Turns customers into numbers; a city never seen before becomes zeros."""
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    cities = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return ColumnTransformer([("numbers", numbers, ["age", "income"]), ("cities", cities, ["city"])])


def model_scores(model, X):
    """Probabilities, or the decision function of a classifier that has none."""
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X))


def shown_state(model, probe):
    """Everything a user can see of an adaptive classifier, bit for bit."""
    return {
        "n_rounds_": (model.n_rounds_, model.ratio_.n_rounds_),
        "n_refits_": model.n_refits_,
        "reference_weight_": model.reference_weight_.tobytes(),
        "reference_ratio_": model.ratio_.reference_ratio_.tobytes(),
        "ratio coef_": getattr(model.ratio_, "coef_", np.empty(0)).tobytes(),
        "scores": model_scores(model, probe).tobytes(),
        "predict": model.predict(probe).tolist(),
        "effective_sample_size_": model.effective_sample_size_,
        "classes_": model.classes_.tolist(),
    }


def run_rounds(model, batches):
    """Adapt to the batches, one after the other."""
    for batch in batches:
        model.adapt(batch)
    return model


def after_rounds(n_rounds=10, **parameters):
    """A model of the plain method, unless told otherwise, after a fit and a few rounds."""
    return run_rounds(
        AdaptiveClassifier(**{"adaptation": "always"} | parameters).fit(*labelled_rows()), drifting_batches(n_rounds)
    )


PROBE, _ = labelled_rows(n_rows=40, seed=9)
