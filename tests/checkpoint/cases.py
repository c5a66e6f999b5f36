"""Models of every kind with the rows they see, and every number that resuming must not change."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from accous import (
    KLIEP,
    KMM,
    RULSIF,
    ULSIF,
    AdaptiveClassifier,
    AdaptiveRegressor,
    LogisticRatio,
    NoShift,
    OnlineDensityRatio,
    SingleLearnerRatio,
)

N_REFERENCE = 60
N_BEFORE = 11
N_AFTER = 7
NAMES = ["age", "height", "weight"]
LOSSES = ["logistic", "least_squares", "kl"]


@dataclass
class Case:
    """A model, the rows it sees by round (the reference is round 0), and its labels."""

    model: Any
    rows: Any
    labels: Any = None
    sample_weight: Any = None

    @cached_property
    def given(self):
        """What `load` needs besides: the user's own objects, made afresh."""
        ratio = getattr(self.model, "ratio", None) or self.model
        parts = {
            "estimator": getattr(self.model, "estimator", None),
            "feature_map": getattr(ratio, "feature_map", None),
        }
        return {name: clone(part) for name, part in parts.items() if hasattr(part, "get_params")}

    def fit(self):
        """The fitted model."""
        X = self.rows(0, N_REFERENCE)
        if self.labels is None:
            return self.model.fit(X)
        return self.model.fit(X, self.labels, sample_weight=self.sample_weight)

    def run(self, model, first_round, n_rounds):
        """Give the model the batches of some rounds."""
        learn = model.partial_fit if self.labels is None else model.adapt
        for number in range(first_round, first_round + n_rounds):
            learn(self.rows(number, 1 + number % 4))
        return model


# --- rows -----------------------------------------------------------------------------------------------------


def numbers(round_, n_rows):
    """Three columns of numbers that drift."""
    return np.random.default_rng(round_).normal(0.1 * round_, size=(n_rows, 3))


def wide(round_, n_rows):
    """More columns than Newton's method takes for three classes."""
    return np.random.default_rng(round_).normal(0.05 * round_, size=(n_rows, 340))


def named(round_, n_rows):
    return pd.DataFrame(numbers(round_, n_rows), columns=NAMES)


def named_by_row(round_, n_rows):
    """A frame that lies in memory row by row, as none made from columns does."""
    return pd.DataFrame(numbers(round_, n_rows), columns=NAMES, copy=False)


def in_fortran_order(round_, n_rows):
    return np.asfortranarray(numbers(round_, n_rows))


def mixed_columns(round_, n_rows):
    """Numbers, texts and categories, the reference with missing values among them."""
    rng = np.random.default_rng(round_)
    size = rng.normal(0.2 * round_, size=n_rows)
    colour = rng.choice(["red", "green", "blue"], size=n_rows).astype(object)
    if round_ == 0:
        size[3], colour[5] = np.nan, None
    return {
        "size": size,
        "colour": colour,
        "shape": rng.choice(["disc", "ring"], size=n_rows),
        "count": rng.poisson(3, n_rows),
    }


def mixed_pandas(round_, n_rows):
    frame = pd.DataFrame(mixed_columns(round_, n_rows), index=np.arange(n_rows)[::-1])
    frame["shape"] = pd.Categorical(frame["shape"], categories=["ring", "disc"])
    return frame


def mixed_polars(round_, n_rows):
    columns = {name: list(values) for name, values in mixed_columns(round_, n_rows).items()}
    return pl.DataFrame(columns).with_columns(pl.col("shape").cast(pl.Categorical), pl.col("size").fill_nan(None))


def objects(round_, n_rows):
    columns = mixed_columns(round_, n_rows)
    return np.array([columns["colour"], columns["shape"].tolist()], dtype=object).T


# --- what users pass ------------------------------------------------------------------------------------------


def encoder():
    """A map of the mixed columns to numbers."""
    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["colour", "shape"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["size", "count"]),
    )


def labels_of(n_classes, kinds=None):
    """Labels that depend on the first column, of every class more than five."""
    ranks = np.argsort(np.argsort(numbers(0, N_REFERENCE)[:, 0] + numbers(99, N_REFERENCE)[:, 0]))
    labels = ranks * n_classes // N_REFERENCE
    return labels if kinds is None else np.asarray(kinds)[labels]


def forest():
    return RandomForestClassifier(4, max_depth=3, random_state=0)


def make_ratio_cases():
    cases = {
        f"{loss} {map_}": Case(OnlineDensityRatio(map_, loss=loss), numbers)
        for loss in LOSSES
        for map_ in ["identity", "standardize", "rbf"]
    }
    cases |= {f"single {loss}": Case(SingleLearnerRatio(loss=loss), numbers) for loss in LOSSES}
    paper = {"scale_features": False, "fit_intercept": False, "start": "zero", "meta_range": "paper", "step_size": 2.0}
    return cases | {
        "paper": Case(OnlineDensityRatio("identity", horizon=14, radius=3.0, feature_bound=2.0, **paper), numbers),
        "theory": Case(OnlineDensityRatio(step_size="theory", radius=2.0, start="ensemble", min_interval=1), numbers),
        "numpy parameters": Case(
            OnlineDensityRatio(radius=np.float32(7.1), horizon=np.int16(9), scale_features=np.bool_(True)), numbers
        ),
        "fortran order": Case(OnlineDensityRatio(), in_fortran_order),
        "named columns": Case(OnlineDensityRatio(), named),
        "foreign map": Case(OnlineDensityRatio(MinMaxScaler()), numbers),
        "foreign map by row": Case(OnlineDensityRatio(StandardScaler()), named_by_row),
        "foreign map pandas": Case(OnlineDensityRatio(encoder()), mixed_pandas),
        "wide ratio, long rows": Case(OnlineDensityRatio("standardize"), wide),
        "wide ratio": Case(OnlineDensityRatio(radius=0.2, min_interval=1), wide),
        "wide roots": Case(OnlineDensityRatio(ridge=1e-9), wide),
        "diagonal": Case(OnlineDensityRatio(metric="diagonal", radius=0.5), numbers),
        "wide diagonal": Case(OnlineDensityRatio(metric="diagonal", loss="kl"), wide),
        "low rank": Case(OnlineDensityRatio(metric="low_rank", metric_rank=1, radius=0.5), numbers),
        "wide low rank": Case(OnlineDensityRatio(metric="low_rank", metric_rank=2, ridge=1e-3), wide),
        "single low rank": Case(SingleLearnerRatio(metric="low_rank", metric_rank=np.int64(3)), wide),
        "single wide": Case(SingleLearnerRatio(loss="least_squares"), wide),
        "single rbf": Case(SingleLearnerRatio("rbf"), numbers),
        "single polars": Case(SingleLearnerRatio(encoder()), mixed_polars),
        "kliep": Case(KLIEP(), numbers),
        "kliep few centres": Case(KLIEP(max_centers=2, width="cv"), named),
        "kmm": Case(KMM(), numbers),
        "kmm sparse": Case(KMM("identity", ridge=0.01, mass_tolerance=0.5, max_ratio=1000.0), named),
        "kmm cv": Case(KMM(width="cv", ridge=3.0), numbers),
        "logistic ratio": Case(LogisticRatio(), numbers),
        "rulsif rbf": Case(RULSIF("rbf", alpha=0.3), numbers),
        "ulsif": Case(ULSIF(), numbers),
        "ulsif cv": Case(ULSIF(encoder(), width="cv", ridge="cv"), mixed_pandas),
        "no shift": Case(NoShift(), numbers),
        "no shift mixed": Case(NoShift(), mixed_pandas),
    }


def make_own_classifier_cases():
    two = labels_of(2)
    return {
        "two classes": Case(AdaptiveClassifier(), numbers, two),
        "four classes": Case(AdaptiveClassifier(refit="always", C=0.3), numbers, labels_of(4)),
        "wide": Case(AdaptiveClassifier(ratio=NoShift(), refit=6), wide, labels_of(3)),
        "wide always": Case(AdaptiveClassifier(refit="always"), wide, labels_of(3)),
        "wide two classes": Case(AdaptiveClassifier(refit="always"), wide, labels_of(2)),
        "texts": Case(AdaptiveClassifier(refit=3), numbers, labels_of(3, ["ape", "bee", "cat"])),
        "objects": Case(AdaptiveClassifier(), named, labels_of(2, np.array(["no", "yes"], dtype=object))),
        "bools": Case(AdaptiveClassifier(refit=5), numbers, two.astype(bool)),
        "floats": Case(AdaptiveClassifier(ratio=SingleLearnerRatio(loss="kl")), numbers, labels_of(2, [-1.0, 1.0])),
        "base weights": Case(AdaptiveClassifier(), in_fortran_order, two, 0.5 + np.arange(N_REFERENCE) % 3),
        "rbf": Case(AdaptiveClassifier(ratio=OnlineDensityRatio("rbf", loss="least_squares")), numbers, two),
        "seed": Case(AdaptiveClassifier(random_state=3), named_by_row, two),
        "map": Case(AdaptiveClassifier(ratio=OnlineDensityRatio(MinMaxScaler())), numbers, two),
    }


def make_foreign_classifier_cases():
    two = labels_of(2)
    pipeline = make_pipeline(encoder(), LogisticRegression())
    both = AdaptiveClassifier(pipeline, OnlineDensityRatio(encoder()), refit=4)
    texts = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
    words = labels_of(2, ["no", "yes"])
    return {
        "forest": Case(AdaptiveClassifier(forest()), numbers, two),
        "forest refit 4": Case(AdaptiveClassifier(forest(), refit=4), named, labels_of(3, ["a", "b", "c"])),
        "by row": Case(AdaptiveClassifier(LogisticRegression(), refit="always"), named_by_row, labels_of(3)),
        "single precision": Case(
            AdaptiveClassifier(LogisticRegression()), lambda *size: numbers(*size).astype(np.float32), two
        ),
        "pandas": Case(both, mixed_pandas, words),
        "polars": Case(AdaptiveClassifier(pipeline, SingleLearnerRatio(encoder()), refit="always"), mixed_polars, two),
        "object rows": Case(
            AdaptiveClassifier(texts, OnlineDensityRatio(OneHotEncoder(handle_unknown="ignore"))), objects, two
        ),
    }


def make_regressor_cases():
    y = numbers(0, N_REFERENCE)[:, 0] + numbers(99, N_REFERENCE)[:, 0]
    trees = RandomForestRegressor(4, max_depth=3, random_state=0)
    return {
        "ridge": Case(AdaptiveRegressor(refit="always", loss="squared"), numbers, y),
        "ridge, weights": Case(AdaptiveRegressor(alpha=0.3), named, y.tolist(), 0.5 + np.arange(N_REFERENCE) % 3),
        "wide ridge": Case(AdaptiveRegressor(refit="always"), wide, y),
        "regression trees": Case(AdaptiveRegressor(trees, loss="pinball(0.8)"), numbers, y),
    }


def make_cases():
    """Every case, made afresh: fitting changes the model in it."""
    classifiers = make_own_classifier_cases() | make_foreign_classifier_cases()
    return make_ratio_cases() | classifiers | make_regressor_cases()


# Every loss, map, metric, width, one-step estimator, kind of rows, labels and classifier at least once.
ONE_OF_EACH_KIND = [
    *("logistic standardize", "least_squares identity", "kl rbf", "single kl", "paper", "theory", "fortran order"),
    *("foreign map pandas", "wide ratio", "diagonal", "wide low rank", "single polars", "kliep", "kmm"),
    *(
        "logistic ratio",
        "rulsif rbf",
        "ulsif cv",
        "no shift",
        "two classes",
        "four classes",
        "wide",
        "texts",
        "base weights",
    ),
    *("forest", "by row", "single precision", "pandas", "object rows", "ridge", "wide ridge"),
]

# --- what must stay the same ----------------------------------------------------------------------------------

RATIO_NUMBERS = [
    *("coef_", "learner_lengths_", "learner_weights_", "learner_coefs_", "reference_ratio_", "n_rounds_"),
    *("n_out_of_bound_", "step_size_", "radius_", "feature_bound_", "n_features_in_"),
]
CLASSIFIER_NUMBERS = [
    *("reference_weight_", "n_rounds_", "n_refits_", "effective_sample_size_", "base_weight_", "labels_", "targets_"),
    "n_features_in_",
]


def numbers_of(case, model):
    """Every number that a model shows."""
    probe = case.rows(1000, 20)
    ratio = getattr(model, "ratio_", model)
    found = {name: getattr(ratio, name) for name in RATIO_NUMBERS if hasattr(ratio, name)}
    found |= {"predict_ratio": ratio.predict_ratio(probe), "score_loss": ratio.score_loss(probe)}
    if ratio is not model:
        found = {f"ratio {name}": value for name, value in found.items()}
        found |= {name: getattr(model, name) for name in CLASSIFIER_NUMBERS if hasattr(model, name)}
        estimator = model.estimator_.steps[-1][1] if hasattr(model.estimator_, "steps") else model.estimator_
        found |= {name: getattr(estimator, name) for name in ["coef_", "intercept_"] if hasattr(estimator, name)}
        predicted = model.predict(probe)
        found["predict"] = predicted if hasattr(model, "targets_") else predicted.astype(str)
        if hasattr(model, "predict_proba"):
            found["predict_proba"] = model.predict_proba(probe)
    return {name: np.asarray(value) for name, value in found.items()}


def history(case, model):
    """Every number of the model now and after each of the rounds to come; the error estimate at both ends."""
    found = {f"{name} now": value for name, value in numbers_of(case, model).items()}
    if case.labels is not None:
        found |= {f"{name} now": value for name, value in insights_of(case, model).items()}
    for number in range(N_BEFORE, N_BEFORE + N_AFTER):
        case.run(model, number + 1, 1)
        found |= {f"{name} after {number + 1}": value for name, value in numbers_of(case, model).items()}
    if case.labels is not None:
        found |= {f"{name} at last": value for name, value in insights_of(case, model).items()}
    return found


def insights_of(case, model):
    """What the model tells of itself, digit for digit."""
    names = ("status_", "drift_", "regimes_")
    told = {name: repr(getattr(model, name)) for name in names}
    told["recent rows"] = repr(model.state_.recent.to_plain())
    predict = model.predict_set if hasattr(model, "predict_set") else model.predict_interval
    sets = predict(case.rows(1000, 20), alpha=0.2)
    return {name: np.asarray(text) for name, text in told.items()} | {"sets": sets}


def differing(found, expected):
    """Names of the numbers that are missing or differ in type, shape or any bit."""
    return [
        name
        for name in found.keys() | expected.keys()
        if name not in found or name not in expected or _bits(found[name]) != _bits(expected[name])
    ]


def assert_same_bits(found, expected):
    """Both hold the same numbers, with the same types, shapes and bytes."""
    assert differing(found, expected) == []


def _bits(value):
    return value.dtype, value.shape, value.tobytes()
