"""What all keys share: the model as arrays, predictions and events of keys."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accous.arrays import FloatArray, IntArray
from accous.core.ensemble import NarrowReference
from accous.core.kernels_keys import score_rows_of_keys
from accous.core.many_keys import MOST_VISITS, KeyRounds, KeyShape
from accous.diagnostics.drift import MOST_LOOKS, ROUNDS_BETWEEN_LOOKS
from accous.exceptions import DataError, ParameterError
from accous.model.estimators import AdaptiveClassifier, AdaptiveEstimator, AdaptiveRegressor
from accous.model.learning import as_wide
from accous.model.predictors import LinearPredictor, LogisticErm
from accous.model.round import SMALLEST_SHIFT, RoundRules
from accous.model.watching import ROUND_DECAY
from accous.ratio.online import OnlineDensityRatio
from accous.text import count

# --- What all keys share: the fitted model, its reference, and the rules and loops of a round


class SharedModel:
    """A fitted classifier, as the keys read it.

    Parameters
    ----------
    model : AdaptiveClassifier
        Fitted, with the built-in predictor and an `accous.OnlineDensityRatio` with a pool. Rounds that it has run
        itself do not count: every key starts before its first round.

    Attributes
    ----------
    model : AdaptiveClassifier
    rules : RoundRules
    erm : LogisticErm
        How to fit.
    ratio : OnlineDensityRatio
    reference, gradient_reference : NarrowReference
        All rows, and those that gradients are summed over.
    rounds : KeyRounds
    shape : KeyShape
    fixed : LinearPredictor
        The fixed predictor.
    learned : LinearPredictor or None
        The one that the model has learned from labels; ``first_odds`` are those of its weight for a key without labels.
    classes, label_classes : arrays
        Of the reference, and of the predictor that learned too.
    """

    def __init__(self, model: Any) -> None:
        _require_supported(model)
        self.model: AdaptiveClassifier = model
        self.rules: RoundRules = model.rules_
        self.ratio: OnlineDensityRatio = model.state_.ratio
        self.fixed: LinearPredictor = self.rules.fixed.estimator
        self.classes = model.task_.classes
        self.learned: LinearPredictor | None = None
        self.first_odds, self.label_classes = 1.0, self.classes
        learning = model.state_.learning
        if learning is not None and learning.fitted is not None:
            self.learned, self._width = learning.fitted.predictor, learning.width
            self.first_odds = learning.weight / (1.0 - learning.weight)
            self.label_classes = learning.fitted.predictor.classes_
            self._places = np.searchsorted(self.label_classes, self.classes)
        assert isinstance(self.rules.erm, LogisticErm)
        self.erm = self.rules.erm
        reference, gradient_reference = self.ratio.whole_reference_, self.ratio.gradient_reference_
        assert isinstance(reference, NarrowReference)
        assert isinstance(gradient_reference, NarrowReference)
        assert self.ratio.pooling_ is not None
        assert self.ratio.pool_ is not None
        self.reference, self.gradient_reference = reference, gradient_reference
        n_reference, n_coefs = reference.features.shape
        self.shape = KeyShape(
            n_coefs=n_coefs,
            n_features=self.fixed.coef_.shape[1],
            n_scores=len(self.fixed.coef_),
            n_slots=len(self.ratio.pool_.slots.use),
            n_reference=n_reference,
            most_changes=MOST_LOOKS,
        )
        self.max_ratio = float(self.ratio.max_ratio)
        settings = self.ratio.rounds_.settings
        self.rounds = KeyRounds(
            settings,
            gradient_reference,
            reference,
            self.rules.base_weight,
            self.max_ratio,
            self.shape,
            rules_of_keys(self.rules),
            (ROUNDS_BETWEEN_LOOKS, ROUND_DECAY),
        )
        self.min_interval = settings.min_interval

    def predictor(self, coefs: FloatArray) -> LinearPredictor:
        """Return the predictor of a key."""
        return LinearPredictor(coefs.copy(), self.classes, bounds=self.fixed.bounds)

    def of_learned(self, X: FloatArray) -> FloatArray:
        """Return the probabilities of the predictor that learned from labels."""
        assert self.learned is not None
        rows = X if self._width is None else as_wide(X, self._width)
        return score(np.zeros(len(X), dtype=np.int64), rows, self.learned.coefs[None], self.learned)[1]

    def mixed(self, own: FloatArray, learned: FloatArray, weight: FloatArray) -> FloatArray:
        """Return the probabilities of both, given the weight of the learned one for each row."""
        found = weight[:, None] * learned
        found[:, self._places] += (1.0 - weight)[:, None] * own
        return found

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
        arrays = [self.reference.features, np.asarray(self.rules.task.strata), self.rules.base_weight, self.fixed.coefs]
        if self.gradient_reference is not self.reference:
            arrays.append(self.gradient_reference.features)
        for array in arrays:
            digest.update(str(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return digest.digest()


def rules_of_keys(rules: RoundRules) -> tuple[float, ...]:
    """Return the rules as `accous.core.kernels_keys.settle_keys` takes them."""
    of_guard = rules.has_safeguards, rules.guard.name == "off", rules.is_held_at_rest
    of_fits = rules.refits_every, rules.rounds_between_refits, rules.erm.refit_distance
    of_checks = rules.erm.rounds_between_checks, rules.erm.refits_between_checks
    return tuple(map(float, (SMALLEST_SHIFT, *of_guard, *of_fits, *of_checks)))


def score(owners: IntArray, X: FloatArray, coefs: FloatArray, like: LinearPredictor) -> tuple[FloatArray, FloatArray]:
    """Return scores and probabilities by the coefficients of each row's owner, with the bits of the row alone."""
    scores, found = np.empty((len(X), coefs.shape[1])), np.empty((len(X), len(like.classes_)))
    score_rows_of_keys(owners, X if like.bounds is None else like.bounds.clipped(X), coefs, scores, found)
    return scores, found


_MOST_REGIMES = 255 // MOST_VISITS  # a state counts visits in a byte


def _not_a_classifier(model: Any) -> str:
    if isinstance(model, AdaptiveRegressor):
        return "Keys predict classes only: a KeyedAdapter takes a fitted AdaptiveClassifier, got an AdaptiveRegressor."
    sentence = f"A KeyedAdapter takes a fitted AdaptiveClassifier, got {type(model).__name__}"
    if isinstance(getattr(model, "model", None), AdaptiveEstimator):
        return f"{sentence}: pass its attribute `model`, and the rows as its method `prepare` encodes them."
    return f"{sentence}."


def _require_supported(model: Any) -> None:
    if not isinstance(model, AdaptiveClassifier):
        raise ParameterError(_not_a_classifier(model))
    if "state_" not in vars(model):
        raise ParameterError("The model of a KeyedAdapter must be fitted: call fit with a reference first.")
    if model.estimator is not None and not isinstance(model.rules_.erm, LogisticErm):
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
    if ratio.memory > _MOST_REGIMES:
        raise ParameterError(
            f"A KeyedAdapter keeps at most {_MOST_REGIMES} regimes of a key, but the model has memory={ratio.memory}: "
            "fit a model whose ratio has a smaller memory."
        )
    if not ratio.is_free_of_blas or not isinstance(ratio.whole_reference_, NarrowReference):
        raise ParameterError(
            f"A KeyedAdapter runs compiled rounds, which need the logistic loss, the full metric, one of the feature "
            f"maps 'auto', 'standardize' and 'identity', and fewer than 63 columns, but the model has ratio={ratio!r} "
            f"on {model.n_features_in_} columns."
        )


# --- What a step returns besides the state: predictions of rows, and events


@dataclass(frozen=True)
class Predictions:
    """Predictions of rows; as an array it is their classes.

    In the order of the rows of the call, except with ``lateness`` or a policy that drops rows: then rows come when
    they are ripe, those of earlier calls first.

    Attributes
    ----------
    keys : array of shape (n_rows,)
    numbers : array of shape (n_rows,)
        What the caller calls each row; -1 if the caller gave no numbers.
    times : array of shape (n_rows,)
    rounds : array of shape (n_rows,)
        The round that each row belongs to, from 1 on; 0 for a row that was only predicted.
    classes : array of shape (n_rows,)
    probabilities : array of shape (n_rows, n_classes)
    positions : array of shape (n_rows,)
        Place of the row in the call; -1 for rows of earlier calls.
    """

    keys: NDArray[Any]
    numbers: IntArray
    times: FloatArray
    rounds: IntArray
    classes: NDArray[Any]
    probabilities: FloatArray
    positions: IntArray

    def __len__(self) -> int:
        return len(self.classes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the classes."""
        return np.array(self.classes, dtype=dtype) if copy else np.asarray(self.classes, dtype=dtype)


class KeyEvent(NamedTuple):
    """Something that a round of a key found.

    Attributes
    ----------
    key : object
    round : int
    time : float
        The newest time of the rows learned from; NaN without times.
    kind : {"shift", "settled", "held", "released"}
        The inputs changed; a change is over; the fixed model predicts from now on; the adapted one does.
    size : float
        Of a change: total variation of the reference's weights. Of a veto: error of the adapted minus that of the fixed
        model on the weighted reference.
    columns : tuple of str
        The columns that carry half of the change, largest first.
    rounds_to_adapt : int
        Of a change that is over, else -1.
    """

    key: Any
    round: int
    time: float
    kind: str
    size: float
    columns: tuple[str, ...]
    rounds_to_adapt: int


# --- Reads what comes with the rows: keys, times and numbers


LATEST_TIME = 1e100  # a state refuses later ones


def read_keys(keys: Any, n_rows: int, known: list[Any]) -> tuple[list[Any], IntArray]:
    """Return the different keys, ``known`` ones first, and for each row the place of its key among them."""
    listed = keys.tolist() if hasattr(keys, "tolist") else list(keys)
    require_length("keys", len(listed), n_rows)
    try:
        names = dict.fromkeys([*known, *listed])
    except TypeError as error:
        raise DataError(f"A key is of a type that cannot name a state ({error}): use numbers or texts.") from error
    places = dict(zip(names, range(len(names)), strict=True))
    codes = list(map(places.__getitem__, listed))
    for key, place in places.items():
        if _is_null(key):
            raise DataError(
                f"keys holds {key} in row {codes.index(place)}: give every row a key, or leave rows without one out."
            )
    return list(places), np.array(codes, dtype=np.int64)


def read_times(times: Any, n_rows: int) -> FloatArray:
    """Return times as numbers: those of datetimes are seconds since 1970."""
    array = np.asarray(times)
    if array.dtype.kind == "O":
        array = np.asarray(array.tolist())
        if array.dtype.kind == "O":
            array = np.array(times, dtype="datetime64[us]")
    require_length("times", len(array), n_rows)
    if array.dtype.kind == "M":
        numbers = array.astype("datetime64[us]").astype(np.int64) / 1e6
        numbers[np.isnat(array)] = np.nan
    elif array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
    else:
        raise DataError(f"times holds values of type {array.dtype}: use numbers or datetimes.")
    is_bad = ~(np.abs(numbers) <= LATEST_TIME)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise DataError(f"times holds {array[row]} in row {row}: give every row a time, or leave such rows out.")
    return numbers


def read_numbers(numbers: Any, n_rows: int) -> IntArray:
    """Return what the caller calls the rows."""
    array = np.asarray(numbers)
    require_length("numbers", len(array), n_rows)
    if array.dtype.kind not in "iu":
        raise DataError(f"numbers must be integers, got {array.dtype}.")
    return array.astype(np.int64)


def _is_null(key: Any) -> bool:
    # pandas has missing values of its own, which raise an error in a condition.
    return key is None or type(key).__name__ in ("NAType", "NaTType") or bool(key != key)  # noqa: PLR0124


def require_length(name: str, found: int, n_rows: int) -> None:
    """Raise a DataError if there is not one value per row."""
    if found != n_rows:
        raise DataError(f"X has {count(n_rows, 'row')} but {name} has {count(found, 'value')}: pass one per row.")
