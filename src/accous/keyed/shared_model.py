"""What all keys share: the fitted model, its reference, and the rules and loops of a round."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from accous.core.ensemble import NarrowReference
from accous.core.kernels_keys import sample_shares
from accous.core.many_keys import KeyRounds, KeyShape
from accous.exceptions import ParameterError
from accous.model.estimators import AdaptiveClassifier, AdaptiveModel, AdaptiveRegressor
from accous.model.predictors import LinearPredictor
from accous.model.round import RoundRules
from accous.ratio.base.online import OnlineDensityRatio

__all__ = ["SharedModel"]

_N_SAMPLE = 128


class SharedModel:
    """A fitted classifier, as the keys read it.

    Parameters
    ----------
    model : AdaptiveClassifier
        Fitted, with the built-in predictor and an `accous.OnlineDensityRatio` with a pool. Rounds that it has played
        itself do not count: every key starts before its first round.

    Attributes
    ----------
    model : AdaptiveClassifier
    rules : RoundRules
    ratio : OnlineDensityRatio
    reference, gradient_reference : NarrowReference
        All rows, and those that gradients are summed over.
    rounds : KeyRounds
    shape : KeyShape
    sample : array of shape (n_sample,)
        The reference rows whose shares a key keeps.
    fixed : LinearPredictor
        The fixed predictor.
    base_shares : array of shape (1, n_sample)
        Shares of the sampled rows under the base weights.
    """

    def __init__(self, model: Any) -> None:
        _require_supported(model)
        self.model: AdaptiveClassifier = model
        self.rules: RoundRules = model.rules_
        self.ratio: OnlineDensityRatio = model.state_.ratio
        self.fixed: LinearPredictor = self.rules.fixed.estimator
        self.classes = model.classes_
        reference, gradient_reference = self.ratio.whole_reference_, self.ratio.gradient_reference_
        assert isinstance(reference, NarrowReference)
        assert isinstance(gradient_reference, NarrowReference)
        assert self.ratio.pooling_ is not None
        assert self.ratio.pool_ is not None
        self.reference, self.gradient_reference, self.pool = reference, gradient_reference, self.ratio.pooling_
        n_reference, n_coefs = reference.features.shape
        self.sample = _sample_of(n_reference)
        self.shape = KeyShape(
            n_coefs=n_coefs,
            n_features=self.fixed.coef_.shape[1],
            n_scores=len(self.fixed.coef_),
            n_slots=len(self.ratio.pool_.slots.use),
            n_reference=n_reference,
            n_sample=len(self.sample),
        )
        self.max_ratio = float(self.ratio.max_ratio)
        self.base_shares = np.zeros((1, len(self.sample)), dtype=np.uint16)
        sample_shares(0, np.ascontiguousarray(self.rules.base_weight), self.sample, self.base_shares)
        settings = self.ratio.rounds_.settings
        self.rounds = KeyRounds(settings, gradient_reference, reference, self.max_ratio, self.shape)
        self.min_interval = settings.min_interval

    def fingerprint(self, settings: dict[str, Any]) -> bytes:
        """Return 16 bytes that name this model and these settings of the keys."""
        digest = hashlib.blake2b(digest_size=16)
        parameters = self.ratio.get_params() | {"feature_map": str(self.ratio.feature_map)}
        if not isinstance(parameters["random_state"], int):
            # What it chose is in the arrays below; the text of a generator is another one in every process.
            parameters["random_state"] = None
        plain = {
            "ratio": {name: repr(value) for name, value in sorted(parameters.items())},
            "rules": [repr(each) for each in self.rules.chosen] + [self.rules.guard.name],
            "classes": [str(self.classes.dtype), self.classes.tolist()],
            "settings": settings,
        }
        digest.update(json.dumps(plain, sort_keys=True, default=repr).encode())
        arrays = [
            self.reference.features,
            np.asarray(self.rules.task.strata),
            self.rules.base_weight,
            self.fixed.coefs,
        ]
        if self.gradient_reference is not self.reference:
            arrays.append(self.gradient_reference.features)
        for array in arrays:
            digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.digest()


def _sample_of(n_reference: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows whose shares a key keeps: all of a small reference, otherwise the same random ones for ever."""
    if n_reference <= _N_SAMPLE:
        return np.arange(n_reference)
    return np.sort(np.random.default_rng(0).choice(n_reference, _N_SAMPLE, replace=False))


def _not_a_classifier(model: Any) -> str:
    if isinstance(model, AdaptiveRegressor):
        return "Keys predict classes only: a KeyedAdapter takes a fitted AdaptiveClassifier, got an AdaptiveRegressor."
    sentence = f"A KeyedAdapter takes a fitted AdaptiveClassifier, got {type(model).__name__}"
    if isinstance(getattr(model, "model", None), AdaptiveModel):
        return f"{sentence}: pass its attribute `model`, and the rows as its method `prepare` encodes them."
    return f"{sentence}."


def _require_supported(model: Any) -> None:
    if not isinstance(model, AdaptiveClassifier):
        raise ParameterError(_not_a_classifier(model))
    if "state_" not in vars(model):
        raise ParameterError("The model of a KeyedAdapter must be fitted: call fit with a reference first.")
    if model.estimator is not None:
        raise ParameterError(
            f"A KeyedAdapter keeps the coefficients of the built-in predictor, but the model has estimator="
            f"{model.estimator!r}: fit a model with estimator=None, or `accous fit --estimator linear`."
        )
    ratio = model.state_.ratio
    if not isinstance(ratio, OnlineDensityRatio) or not ratio.is_pooled or ratio.candidates:
        raise ParameterError(
            f"A KeyedAdapter needs an OnlineDensityRatio with a pool and without candidates of your own, but the model "
            f"has ratio={ratio!r}: fit a model with ratio=None."
        )
    if not ratio.is_free_of_blas or not isinstance(ratio.whole_reference_, NarrowReference):
        raise ParameterError(
            f"A KeyedAdapter plays compiled rounds, which need the logistic loss, the full metric, one of the feature "
            f"maps 'auto', 'standardize' and 'identity', and fewer than 63 columns, but the model has ratio={ratio!r} "
            f"on {model.n_features_in_} columns."
        )
